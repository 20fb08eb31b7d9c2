/* tests/text/test_tokenizer_json.c -- text/tokenizer/to_json.c: the tokenizer.json of each kind of
 * GGUF tokenizer, by the rules of the tokenizers library, and encoding with it. */
#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "tests/check.h"
#include "tests/support/tokenizer_json.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/to_json.h"
#include "weft/io.h"
#include "weft/memory.h"

#define S(text)                                                                                    \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
#define COUNT(list) (sizeof(list) / sizeof *(list))
#define MARK "\xE2\x96\x81"

/* ---- the checker ---------------------------------------------------------------------------- */

#define FILE_OF(vocab, rest) "{\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "}" rest
#define AB "\"a\":0,\"b\":1,\"ab\":2"
#define ADDED(id, text) ",\"added_tokens\":[{\"id\":" #id ",\"content\":\"" text "\"}]}"

static const struct {
    const char *json, *fault; /* NULL: none */
} files[] = {
    {FILE_OF(AB, "}") ADDED(3, "<x>"), NULL},
    {FILE_OF(AB, "}") ADDED(1, "b"), NULL},
    {FILE_OF(AB, "}") ADDED(4, "<x>"), "'<x>' gets id 3, stored is 4"},
    {FILE_OF("\"a\":1,\"b\":2", "}") ADDED(0, "<x>"), "expected 0 to 1"},
    {FILE_OF(AB, "}") ADDED(2, "b"), "'b' gets id 1, stored is 2"},
    {FILE_OF(AB ",\"a\":3", "}") "}", "expected 0 to 2"},
    {FILE_OF(AB, ",\"merges\":[\"a b\"]}") "}", NULL},
    {FILE_OF(AB, ",\"merges\":[[\"b\",\"a\"]]}") "}", "'b' and 'a': not in model.vocab"},
    {FILE_OF(AB, ",\"unk_token\":\"<u>\"}") ADDED(3, "<u>"), "unk_token '<u>'"},
    {FILE_OF(AB, "}") ",\"post_processor\":{\"special_tokens\":{\"b\":{\"id\":\"b\",\"ids\":[2],"
                      "\"tokens\":[\"b\"]}}}}",
     "token 'b' has not id 2"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0],[\"b\",-1]]}" ADDED(2, "<x>"), NULL},
};

static void the_checker_finds_faults(void)
{
    const char *path = check_temporary("file.json");
    for (size_t i = 0; i < COUNT(files); i++) {
        CHECK_OK(weft_file_write(path, files[i].json, strlen(files[i].json)));
        const char *fault = tokenizer_json_fault(path, NULL);
        if (files[i].fault == NULL)
            CHECK_STR(fault, NULL);
        else
            CHECK_CONTAINS(fault ? fault : "", files[i].fault);
    }
}

/* ---- tokenizers ----------------------------------------------------------------------------- */

static const text_string bytes_tokens[] = {
    S("<e>"),    S("<|im_start|>"),   S("a"),   S("b"),  S("\xC4\xA0"), S("ab"), S("<tool>"),
    S("[PAD7]"), S("<\xEF\xBD\x9C>"), S("aba"), S("un"), S("[PAD11]"),  S("")};
static const int32_t bytes_types[] = {3, 3, 1, 1, 1, 1, 4, 5, 3, 4, 5, 5, 1};
static const text_string bytes_merges[] = {S("a b"), S("ab a"), S("b gone")};

static const text_string mark_tokens[] = {
    S("<unk>"), S("<s>"), S("</s>"),    S("<0xC3>"),  S("<0xA9>"), S(MARK),      S("a"),
    S("b"),     S("ab"),  S(MARK MARK), S("[PAD10]"), S("<u>"),    S("<extra>"), S("xy"),
};
static const float mark_scores[] = {0, 0, 0, 0, 0, -9, -8, -7, -1, -2, 0, 0, 0, -3};
static const int32_t mark_types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 4, 5, 4, 3, 1};
static const text_string mark_merges[] = {S("a b"), S(MARK " " MARK)};

#define NAMES .name = "m.gguf", .bos = 1, .eos = 2, .unknown = 0, .pad = -1
#define BYTES(name_of_pre)                                                                         \
    {                                                                                              \
        NAMES, .model = "gpt2", .pre = name_of_pre, .tokens = bytes_tokens,                        \
               .token_count = COUNT(bytes_tokens), .types = bytes_types, .merges = bytes_merges,   \
               .merge_count = COUNT(bytes_merges)                                                  \
    }

static const text_parts sources[] = {
    BYTES("default"),
    BYTES("qwen2"),
    BYTES("llama-bpe"), /* ignore_merges */
    BYTES("tekken"),
    {NAMES, .model = "gpt2", .tokens = bytes_tokens, .token_count = 7, .merges = bytes_merges,
     .merge_count = 1}, /* without types */
    {NAMES, .model = "llama", .tokens = mark_tokens, .token_count = COUNT(mark_tokens),
     .types = mark_types, .scores = mark_scores},
    {NAMES, .model = "llama", .tokens = mark_tokens, .token_count = COUNT(mark_tokens),
     .types = mark_types, .scores = mark_scores, .add_space_prefix = TEXT_NO, .add_eos = TEXT_YES},
    {NAMES, .model = "gemma4", .tokens = mark_tokens, .token_count = COUNT(mark_tokens),
     .types = mark_types, .merges = mark_merges, .merge_count = COUNT(mark_merges)},
};

static const char *const texts[] = {"",
                                    "ab",
                                    "aba b<|im_start|>ab<e>",
                                    "<tool>a\x13"
                                    "b",
                                    "<\xEF\xBD\x9C>aba",
                                    "<s>ab  b</s><u>",
                                    "q",
                                    "a\xC3\xA9z",
                                    "<extra>q\x01x",
                                    "un[PAD7]"};

static void same_ids(const weft_tokenizer *a, const weft_tokenizer *b, const char *text)
{
    int32_t *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    CHECK_OK(weft_tokenizer_encode(a, text, strlen(text), WEFT_TOKENIZER_ADD_SPECIAL, &x, &n));
    CHECK_OK(weft_tokenizer_encode(b, text, strlen(text), WEFT_TOKENIZER_ADD_SPECIAL, &y, &m));
    if (n != m || (n > 0 && memcmp(x, y, n * sizeof *x) != 0))
        CHECK_FAIL("ids differ: '%s'", text);
    weft_free(x);
    weft_free(y);
}

static void files_agree_with_their_source(void)
{
    const char *folder = check_temporary("made");
    char path[600];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    CHECK_OK(weft_folder_make(folder));
    for (size_t i = 0; i < COUNT(sources); i++) {
        weft_tokenizer *t = NULL, *again = NULL;
        weft__text json = {0};
        if (CHECK_OK(weft__tokenizer_from_parts(&sources[i], &t)) &&
            CHECK_OK(weft__tokenizer_to_json(t, sources[i].pre, &json)) &&
            CHECK_OK(weft_file_write(path, json.at, json.n)) && check_tokenizer_json(folder, t) &&
            CHECK_OK(weft_tokenizer_load(folder, &again))) {
            for (size_t k = 0; k < COUNT(texts); k++)
                same_ids(t, again, texts[k]);
        }
        weft_free(json.at);
        weft_tokenizer_free(t);
        weft_tokenizer_free(again);
    }
}

static const text_string twice[] = {S("a"), S("b"), S("ab"), S("a")};
static const text_string named[] = {S("[PAD2]"), S("a"), S("")};

/* Two ids with one text, and kinds whose tokenizer.json Weft does not write. */
static void tokenizers_that_cannot_be_written_are_refused(void)
{
    text_parts parts = sources[0];
    weft_tokenizer *t = NULL;
    weft__text json = {0};
    parts.types = NULL;
    parts.tokens = twice;
    parts.token_count = COUNT(twice);
    if (CHECK_OK(weft__tokenizer_from_parts(&parts, &t)))
        CHECK_STATUS(weft__tokenizer_to_json(t, NULL, &json), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "tokens 0 and 3 are both 'a'");
    weft_tokenizer_free(t);
    parts.tokens = named;
    parts.token_count = COUNT(named);
    if (CHECK_OK(weft__tokenizer_from_parts(&parts, &t)))
        CHECK_STATUS(weft__tokenizer_to_json(t, NULL, &json), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "tokens 2 and 0 are both '[PAD2]'");
    weft_tokenizer_free(t);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_tokenizer_load(
            check_fixture(i ? "tokenizer_bert-cased.gguf" : "tokenizer_xlm-roberta.gguf"), &t));
        CHECK_STATUS(weft__tokenizer_to_json(t, NULL, &json), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "only BPE can");
        weft_tokenizer_free(t);
    }
    weft_free(json.at);
}

CHECK_MAIN("tokenizer_json", CHECK_CASE(the_checker_finds_faults),
           CHECK_CASE(files_agree_with_their_source),
           CHECK_CASE(tokenizers_that_cannot_be_written_are_refused))
