/* tests/text/test_tokenizer_files.c -- malformed and unsupported tokenizer.json files: each is an
 * error whose message names the location. */
#include "weft/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/memory.h"

#define MODEL(rest) "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2}," rest "}"
#define WHOLE MODEL("\"merges\":[\"a b\"]}")
#define UNIGRAM(vocab) "{\"model\":{\"type\":\"Unigram\",\"vocab\":" vocab "}}"
#define CHARSMAP(text)                                                                             \
    WITH("\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":" text "}")
#define WITH(field) MODEL("\"merges\":[\"a b\"]}," field)
#define ADDED(fields) WITH("\"added_tokens\":[{" fields "}]")

static const struct {
    const char *json;
    weft_status status;
    const char *message;
} bad[] = {
    {"", WEFT_INVALID, "t.json: column 1"},
    {"{", WEFT_INVALID, "ends before the value does"},
    {"{\"model\":\n{\"type\":\"BPE\",,}}", WEFT_INVALID, "t.json: line 2, column 15"},
    {"[]", WEFT_INVALID, "t.json: expected object, got array"},
    {"null", WEFT_INVALID, "t.json: expected object, got null"},
    {"{}", WEFT_INVALID, "t.json: model: is missing"},
    {"{\"model\":3}", WEFT_INVALID, "t.json: model: expected object, got integer"},
    {"{\"model\":{}}", WEFT_INVALID, "model.vocab: is missing"},
    {"{\"model\":{\"type\":\"WordNet\",\"vocab\":{}}}", WEFT_UNSUPPORTED,
     "t.json: model: model type \"WordNet\""},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", WEFT_INVALID,
     "model.vocab: expected object, got array"},
    {"{\"model\":{\"type\":\"WordPiece\"}}", WEFT_INVALID, "model.vocab: is missing"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":[]}}", WEFT_INVALID,
     "model.vocab: expected object, got array"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}", WEFT_INVALID,
     "model: unk_token: is missing"},
    {"{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"vocab\":{\"a\":0}}}", WEFT_INVALID,
     "unk_token \"?\" is not in the vocabulary"},
    {"{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"a\",\"vocab\":{\"a\":0},"
     "\"max_input_chars_per_word\":\"x\"}}",
     WEFT_INVALID, "max_input_chars_per_word: expected integer, got string"},
    {UNIGRAM("{\"a\":0}"), WEFT_INVALID, "model.vocab: expected array, got object"},
    {UNIGRAM("[\"a\"]"), WEFT_INVALID, "model.vocab[0]: expected [\"token\", score], got"},
    {UNIGRAM("[[\"a\",-1],[\"b\"]]"), WEFT_INVALID, "model.vocab[1]: expected"},
    {UNIGRAM("[[\"a\",\"b\"]]"), WEFT_INVALID, "model.vocab[0]: expected"},
    {UNIGRAM("[[1,1]]"), WEFT_INVALID, "model.vocab[0]: expected"},
    {UNIGRAM("[[\"a\",-1,2]]"), WEFT_INVALID, "model.vocab[0]: expected"},
    {UNIGRAM("[[\"a\",1e400]]"), WEFT_INVALID, "model.vocab[0]: expected"},
    {UNIGRAM("[[\"a\",nan]]"), WEFT_INVALID, "t.json: column"},
    {UNIGRAM("[[\"a\",0x1]]"), WEFT_INVALID, "t.json: column"},
    {UNIGRAM("[[\"a\",-1]],\"unk_id\":1"), WEFT_INVALID,
     "model.unk_id: id 1 is outside the vocabulary of 1"},
    {UNIGRAM("[[\"a\",-1]],\"unk_id\":-1"), WEFT_INVALID, "model.unk_id: id -1"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1]]},\"pre_tokenizer\":{\"type\":"
     "\"ByteLevel\"}}",
     WEFT_UNSUPPORTED, "model: a model of this type behind ByteLevel"},
    {"{\"model\":{\"vocab\":3}}", WEFT_INVALID, "model.vocab: expected object, got integer"},
    {"{\"model\":{\"vocab\":{\"a\":\"0\"}}}", WEFT_INVALID,
     "model.vocab[\"a\"]: expected integer, got string"},
    {"{\"model\":{\"vocab\":{\"a\":-1}}}", WEFT_INVALID, "model.vocab[\"a\"]: id -1 is not within"},
    {"{\"model\":{\"vocab\":{\"a\":4000000000}}}", WEFT_INVALID, "4000000000 is not within"},
    {"{\"model\":{\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]}}", WEFT_INVALID,
     "model.vocab[\"b\"]: id 1 is already that of \"a\""},
    {MODEL("\"x\":0}"), WEFT_INVALID, "model.merges: is missing"},
    {MODEL("\"merges\":{}}"), WEFT_INVALID, "model.merges: expected array, got object"},
    {MODEL("\"merges\":[\"a b\",\"ab\"]}"), WEFT_INVALID, "model.merges[1]: expected \"a b\""},
    {MODEL("\"merges\":[\"a b c\"]}"), WEFT_INVALID, "model.merges[0]: expected"},
    {MODEL("\"merges\":[[\"a\"]]}"), WEFT_INVALID, "model.merges[0]: expected"},
    {MODEL("\"merges\":[[\"a\",1]]}"), WEFT_INVALID, "model.merges[0]: expected"},
    {MODEL("\"merges\":[\"a c\"]}"), WEFT_INVALID,
     "model.merges[0]: \"c\" is not in the vocabulary"},
    {MODEL("\"merges\":[\"b a\"]}"), WEFT_INVALID,
     "model.merges[0]: \"ba\" is not in the vocabulary"},
    {MODEL("\"merges\":[],\"unk_token\":\"?\"}"), WEFT_INVALID, "unk_token \"?\""},
    {MODEL("\"merges\":[],\"dropout\":0.5}"), WEFT_UNSUPPORTED, "dropout"},
    {MODEL("\"merges\":[],\"ignore_merges\":1}"), WEFT_INVALID,
     "model.ignore_merges: expected boolean, got integer"},
    {ADDED("\"id\":3"), WEFT_INVALID, "added_tokens[0].content: is missing"},
    {ADDED("\"content\":\"x\""), WEFT_INVALID, "added_tokens[0].id: is missing"},
    {ADDED("\"content\":\"x\",\"id\":1"), WEFT_INVALID,
     "added_tokens[0]: id 1 is already that of \"b\""},
    {ADDED("\"content\":\"a\",\"id\":1"), WEFT_INVALID,
     "added_tokens[0]: \"a\" has id 1 here and 0 before"},
    {ADDED("\"content\":\"x\",\"id\":3,\"lstrip\":\"no\""), WEFT_INVALID,
     "added_tokens[0].lstrip: expected boolean, got string"},
    {WITH("\"normalizer\":{\"type\":\"ByteLevel\"}"), WEFT_UNSUPPORTED,
     "t.json: normalizer: normalizer type \"ByteLevel\" is unsupported"},
    {WITH("\"normalizer\":{\"type\":\"BertNormalizer\",\"strip_accents\":1}"), WEFT_INVALID,
     "normalizer.strip_accents: expected boolean, got integer"},
    {WITH("\"normalizer\":{\"type\":\"Precompiled\"}"), WEFT_INVALID,
     "normalizer.precompiled_charsmap: is missing"},
    {CHARSMAP("3"), WEFT_INVALID, "precompiled_charsmap: expected string, got integer"},
    {CHARSMAP("\"AAA\""), WEFT_INVALID, "precompiled_charsmap: expected base64"},
    {CHARSMAP("\"AA=A\""), WEFT_INVALID, "precompiled_charsmap: expected base64"},
    {CHARSMAP("\"====\""), WEFT_INVALID, "precompiled_charsmap: expected base64"},
    {CHARSMAP("\"\""), WEFT_INVALID, "a trie of 0 bytes in 0 bytes"},
    {CHARSMAP("\"BAAAAA==\""), WEFT_INVALID, "a trie of 4 bytes in 4 bytes"},
    {CHARSMAP("\"AwAAAAAAAAA=\""), WEFT_INVALID, "a trie of 3 bytes in 8 bytes"},
    {CHARSMAP("\"BAAAAAAAAAD/\""), WEFT_INVALID, "the replacements are not UTF-8 at byte 0"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{}]}"),
     WEFT_INVALID, "normalizer.normalizers[1].type: is missing"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}"),
     WEFT_UNSUPPORTED, "normalizer.pattern.Regex: pattern not understood"},
    {WITH("\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"), WEFT_UNSUPPORTED,
     "pre_tokenizer: pre-tokenizer type \"UnicodeScripts\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Halved\"}"), WEFT_UNSUPPORTED,
     "behavior \"Halved\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{},\"behavior\":\"Isolated\"}"),
     WEFT_INVALID, "pre_tokenizer.pattern.Regex: is missing"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
          "\"behavior\":\"Halved\"}"),
     WEFT_UNSUPPORTED, "behavior \"Halved\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[^b]]\"},"
          "\"behavior\":\"Isolated\"}"),
     WEFT_UNSUPPORTED, "a character class within another"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a-z&&[b]]\"},"
          "\"behavior\":\"Isolated\"}"),
     WEFT_UNSUPPORTED, "the intersection of character classes"},
    {WITH("\"post_processor\":{\"type\":\"PairProcessing\"}"), WEFT_UNSUPPORTED,
     "post_processor: post-processor type \"PairProcessing\""},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0]}"), WEFT_INVALID,
     "post_processor.sep: is missing"},
    {WITH("\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",3]}"),
     WEFT_INVALID, "post_processor.sep[1]: id 3 is outside the vocabulary of 3"},
    {WITH("\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\"],\"sep\":[]}"),
     WEFT_INVALID, "post_processor.cls"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[]}"), WEFT_UNSUPPORTED,
     "the text once in the template, got 0 times"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
          "{\"id\":\"s\"}}],\"special_tokens\":{\"s\":{\"ids\":[9]}}}"),
     WEFT_INVALID, "special_tokens.s.ids[0]: id 9 is outside the vocabulary of 3"},
    {WITH("\"decoder\":"), WEFT_INVALID, ""},
    {WITH("\"decoder\":,\"x\":1"), WEFT_INVALID, ""},
    {WITH("\"decoder\":{\"type\":\"CTC\"}"), WEFT_UNSUPPORTED, "decoder: decoder type \"CTC\""},
    {WITH("\"decoder\":{\"type\":\"WordPiece\",\"cleanup\":3}"), WEFT_INVALID,
     "decoder.cleanup: expected boolean, got integer"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
          "{\"type\":\"ByteFallback\"}]}"),
     WEFT_UNSUPPORTED, "\"ByteFallback\" behind \"Fuse\""},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
          "{\"type\":\"Strip\",\"content\":\" \",\"stop\":0}]}"),
     WEFT_INVALID, "decoder.decoders[1].start: is missing"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
          "{\"type\":\"Strip\",\"content\":\" \",\"start\":1}]}"),
     WEFT_INVALID, "decoder.decoders[1].stop: is missing"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},"
          "{\"type\":\"Strip\",\"start\":1,\"stop\":0}]}"),
     WEFT_INVALID, "decoder.decoders[1].content: is missing"},
};

static void errors_name_the_field(void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_tokenizer *t = (weft_tokenizer *)&t;
        if (!CHECK_STATUS(
                weft_tokenizer_parse(bad[i].json, strlen(bad[i].json), NULL, 0, "t.json", &t),
                bad[i].status))
            weft_tokenizer_free(t);
        else
            CHECK(t == NULL);
        CHECK_CONTAINS(weft_error_message(), bad[i].message);
    }
}

/* A tokenizer of one token whose normalizer has rules in a trie of 128 units: "a" (unit 0x61) has a
 * value 1 unit on (0x61 ^ 1 = 0x60): the start of its replacement, which is so many b. */
static weft_tokenizer *with_rule(uint32_t value, size_t replacement)
{
    enum { UNITS = 128, TRIE = 4 * UNITS };
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t size = (4 + TRIE + replacement + 1 + 2) / 3 * 3;
    unsigned char *bytes = calloc(size, 1);
    char *json = malloc(2 * size + 400), *out = json;
    weft_tokenizer *t = NULL;
    if (!CHECK(bytes && json))
        return NULL;
    bytes[0] = TRIE % 256;
    bytes[1] = TRIE / 256;
    bytes[4 + 4 * 0x61] = 0x61;
    bytes[4 + 4 * 0x61 + 1] = 0x01 | 1 << 2;
    for (int i = 0; i < 4; i++)
        bytes[4 + 4 * 0x60 + i] = (unsigned char)((value | 1u << 31) >> 8 * i);
    memset(bytes + 4 + TRIE, 'b', replacement);
    out += sprintf(out, "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1],[\"b\",-1]]},"
                        "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
    for (size_t i = 0; i < size; i += 3) {
        const unsigned bits = (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | bytes[i + 2];
        for (int k = 18; k >= 0; k -= 6)
            *out++ = digits[bits >> k & 63];
    }
    strcpy(out, "\"}}");
    CHECK_OK(weft_tokenizer_parse(json, strlen(json), NULL, 0, "t.json", &t));
    free(bytes);
    free(json);
    return t;
}

/* Texts that a tokenizer cannot encode, and rules with values outside of the replacements. */
static void text_that_cannot_be_encoded_is_reported(void)
{
    static const char unigram[] = UNIGRAM("[[\"a\",-1]]");
    static const struct {
        uint32_t value;
        size_t replacement, n; /* bytes; tokens of "aa" */
    } rules[] = {{0, 3, 6}, {1, 3, 4}, {3, 3, 0}, {7, 3, 2}, {INT32_MAX, 3, 2}};
    weft_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    if (CHECK_OK(weft_tokenizer_parse(unigram, strlen(unigram), NULL, 0, "t.json", &t))) {
        CHECK_STATUS(weft_tokenizer_encode(t, "aba", 3, 0, &ids, &n), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "\"b\" has no token");
        CHECK_OK(weft_tokenizer_encode(t, "aa", 2, 0, &ids, &n));
        CHECK_EQ_INT(n, 2);
        weft_free(ids);
    }
    weft_tokenizer_free(t);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        t = with_rule(rules[i].value, rules[i].replacement);
        if (t && CHECK_OK(weft_tokenizer_encode(t, "aa", 2, 0, &ids, &n))) {
            CHECK_EQ_INT(n, rules[i].n);
            weft_free(ids);
        }
        weft_tokenizer_free(t);
    }
    /* Rules that multiply are bounded, as other normalizers are. */
    enum { LONG = 4000 };
    static char text[LONG];
    memset(text, 'a', sizeof text);
    t = with_rule(0, 100000);
    if (t) {
        CHECK_STATUS(weft_tokenizer_encode(t, text, LONG, 0, &ids, &n), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "its normalizers make more than");
    }
    weft_tokenizer_free(t);
}

static void complete_files_are_loaded(void)
{
    weft_tokenizer *t = NULL;
    CHECK_OK(weft_tokenizer_parse(WHOLE, strlen(WHOLE), NULL, 0, "t.json", &t));
    weft_tokenizer_free(t);
}

/* Every proper prefix of a valid file is refused. */
static void files_that_are_truncated_anywhere(void)
{
    const size_t length = strlen(WHOLE);
    for (size_t i = 0; i < length; i++) {
        char *start = malloc(i + 1); /* of its exact size, for the sanitizers */
        weft_tokenizer *t = NULL;
        if (!start)
            return;
        memcpy(start, WHOLE, i);
        if (!CHECK_STATUS(weft_tokenizer_parse(start, i, NULL, 0, "t.json", &t), WEFT_INVALID))
            weft_tokenizer_free(t);
        free(start);
    }
}

static void missing_files_are_reported(void)
{
    weft_tokenizer *t = NULL;
    CHECK_STATUS(weft_tokenizer_load(check_temporary("none"), &t), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "none: open: No such file");
    CHECK_STATUS(weft_tokenizer_load(check_source("docs"), &t), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "docs/tokenizer.json: open:");
    CHECK(t == NULL);
}

static void the_config_names_special_tokens(void)
{
    static const struct {
        const char *config;
        weft_status status;
        int bos, eos;
    } cases[] = {
        {"{\"bos_token\":\"a\",\"eos_token\":{\"content\":\"ab\"}}", WEFT_OK, 0, 2},
        {"{\"bos_token\":null,\"eos_token\":\"no\",\"n\":1000000000000000019884624838656}", WEFT_OK,
         -1, -1},
        {"{\"bos_token\":3}", WEFT_INVALID, 0, 0},
        {"{\"eos_token\":{}}", WEFT_INVALID, 0, 0},
        {"[]", WEFT_INVALID, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_tokenizer *t = NULL;
        CHECK_STATUS(weft_tokenizer_parse(WHOLE, strlen(WHOLE), cases[i].config,
                                          strlen(cases[i].config), "t.json", &t),
                     cases[i].status);
        if (!t)
            continue;
        CHECK_EQ_INT(weft_tokenizer_bos(t), cases[i].bos);
        CHECK_EQ_INT(weft_tokenizer_eos(t), cases[i].eos);
        CHECK_EQ_INT(weft_tokenizer_pad(t), -1);
        weft_tokenizer_free(t);
    }
}

/* Combining marks newer than the Unicode tables of tokenizers are unchanged, and the text on both
 * sides of one is composed. */
static void newer_combining_marks_are_kept(void)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xC3\xA9\":0,\"\xE1\xAB\x80\":1,\"e\":2,"
        "\"\xCC\x81\":3,\"x\":4},\"merges\":[]},\"normalizer\":{\"type\":\"NFC\"}}";
    static const struct {
        const char *text;
        int n, ids[5];
    } cases[] = {
        {"e\xCC\x81\xE1\xAB\x80", 2, {0, 1}},
        {"\xE1\xAB\x80"
         "e\xCC\x81",
         2,
         {1, 0}},
        {"xe\xCC\x81\xE1\xAB\x80xe\xCC\x81", 5, {4, 0, 1, 4, 0}},
        {"e\xE1\xAB\x80\xCC\x81", 3, {2, 1, 3}},
    };
    weft_tokenizer *t = NULL;
    if (!CHECK_OK(weft_tokenizer_parse(json, strlen(json), NULL, 0, "t.json", &t)))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t *ids = NULL;
        size_t n = 0;
        CHECK_OK(weft_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), 0, &ids, &n));
        if (CHECK_EQ_INT(n, cases[i].n))
            for (size_t k = 0; k < n; k++)
                CHECK_EQ_INT(ids[k], cases[i].ids[k]);
        weft_free(ids);
    }
    weft_tokenizer_free(t);
}

#define RICH                                                                                       \
    MODEL("\"merges\":[[\"a\",\"b\"]],\"byte_fallback\":true},"                                    \
          "\"added_tokens\":[{\"id\":3,\"content\":\"<s>\",\"normalized\":true},"                  \
          "{\"id\":4,\"content\":\"<e>\",\"special\":true}],"                                      \
          "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"             \
          "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},"             \
          "\"pre_tokenizer\":{\"type\":\"Metaspace\"},"                                            \
          "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"     \
          "{\"id\":\"s\"}},{\"Sequence\":{}}],\"special_tokens\":{\"s\":{\"ids\":[3]}}},"          \
          "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","                \
          "\"pattern\":{\"String\":\"_\"},\"content\":\" \"},{\"type\":\"Fuse\"}]}")

#define SCORED                                                                                     \
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],"                         \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},"                   \
    "{\"type\":\"StripAccents\"},{\"type\":\"Lowercase\"},{\"type\":\"Precompiled\","              \
    "\"precompiled_charsmap\":\"BAAAAAAAAABhAA==\"}]},"                                            \
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"},"  \
    "{\"type\":\"Metaspace\"}]},\"decoder\":{\"type\":\"Metaspace\"},"                             \
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"<s>\",1],\"sep\":[\"a\",2]},"   \
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,\"vocab\":"               \
    "[[\"<unk>\",0],[\"<s>\",0],[\"a\",-1.5],[\"ab\",-2e0]]}}"
#define PIECES                                                                                     \
    "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],"                         \
    "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"                    \
    "\"BertPreTokenizer\"},"                                                                       \
    "\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\","  \
    "\"vocab\":{\"?\":0,\"<s>\":1,\"a\":2,\"##b\":3}}}"

/* Loads, encodes and decodes; the first failure's status. */
static weft_status use(const char *json)
{
    static const char config[] = "{\"bos_token\":\"<s>\"}", input[] = "ab e\xCC\x81 <s>ab<e>";
    weft_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t count = 0;
    char *text = NULL;
    weft_status status =
        weft_tokenizer_parse(json, strlen(json), config, strlen(config), "t.json", &t);
    if (!status)
        status = weft_tokenizer_encode(t, input, strlen(input), 1, &ids, &count);
    if (!status)
        status = weft_tokenizer_decode(t, ids, count, 0, &text, NULL);
    weft_free(text);
    weft_free(ids);
    weft_tokenizer_free(t);
    return status;
}

/* 16 steps that each make eight characters of one would need more memory than there is. */
static void normalizers_that_multiply_are_bounded(void)
{
    static const char *const patterns[] = {"{\"String\":\"a\"}", "{\"Regex\":\"[a]\"}"};
    for (size_t k = 0; k < 2; k++) {
        char json[4000];
        weft_tokenizer *t = NULL;
        int32_t *ids = NULL;
        size_t count = 0;
        int n = snprintf(json, sizeof json, "%s",
                         MODEL("\"merges\":[]},\"normalizer\":{\"type\":\"Sequence\","
                               "\"normalizers\":["));
        n -= 1; /* the brace that MODEL closes with */
        for (int i = 0; i < 16; i++)
            n += snprintf(json + n, sizeof json - (size_t)n,
                          "%s{\"type\":\"Replace\",\"pattern\":%s,\"content\":\"aaaaaaaa\"}",
                          i > 0 ? "," : "", patterns[k]);
        snprintf(json + n, sizeof json - (size_t)n, "]}}");
        if (!CHECK_OK(weft_tokenizer_parse(json, strlen(json), NULL, 0, "t.json", &t)))
            return;
        CHECK_STATUS(weft_tokenizer_encode(t, "aaaa", 4, 0, &ids, &count), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(),
                       "its normalizers make more than 1048832 bytes of a text");
        weft_free(ids);
        weft_tokenizer_free(t);
    }
}

static void every_allocation_fails_once(void)
{
    static const char *const files[] = {RICH, SCORED, PIECES};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        if (!CHECK_OK(use(files[f])))
            return;
        weft_memory_fail_at(0);
        CHECK_OK(use(files[f]));
        const uint64_t count = weft_memory_fail_at(0);
        CHECK(count > 20);
        for (uint64_t i = 1; i <= count; i++) {
            weft_memory_fail_at(i);
            const weft_status status = use(files[f]);
            weft_memory_fail_at(0);
            /* Without memory that is only for speed (the compiled pattern), loading succeeds. */
            CHECK(status == WEFT_OK || status == WEFT_MEMORY);
        }
    }
}

CHECK_MAIN("tokenizer_files", CHECK_CASE(errors_name_the_field),
           CHECK_CASE(text_that_cannot_be_encoded_is_reported),
           CHECK_CASE(complete_files_are_loaded), CHECK_CASE(files_that_are_truncated_anywhere),
           CHECK_CASE(missing_files_are_reported), CHECK_CASE(the_config_names_special_tokens),
           CHECK_CASE(normalizers_that_multiply_are_bounded),
           CHECK_CASE(newer_combining_marks_are_kept), CHECK_CASE(every_allocation_fails_once))
