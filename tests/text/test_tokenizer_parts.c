/* tests/text/test_tokenizer_parts.c -- text/tokenizer/parts.h: tokenizers from the lists of a GGUF
 * file, small handwritten ones, and real ones rebuilt from their parts and compared with the
 * originals. */
#include "text/tokenizer/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/unpacked.h"
#include "weft/memory.h"

#define S(text)                                                                                    \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }
#define COUNT(list) (sizeof(list) / sizeof *(list))

static weft_tokenizer *make(const text_parts *parts)
{
    weft_tokenizer *t = NULL;
    CHECK_OK(weft__tokenizer_from_parts(parts, &t));
    return t;
}

/* Ids as text, "3 4 5". */
static void check_ids(const weft_tokenizer *t, const char *text, unsigned flags, const char *ids)
{
    int32_t *got = NULL;
    size_t count = 0, used = 0;
    char list[256] = "";
    if (!t || !CHECK_OK(weft_tokenizer_encode(t, text, strlen(text), flags, &got, &count)))
        return;
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? " " : "", got[i]);
    CHECK_STR(list, ids);
    char *back = NULL;
    if (CHECK_OK(weft_tokenizer_decode(t, got, count, WEFT_TOKENIZER_SKIP_SPECIAL, &back, NULL)) &&
        !strpbrk(text, "<z"))
        CHECK_STR(back, text);
    weft_free(back);
    weft_free(got);
}

/* ---- scores --------------------------------------------------------------------------------- */

#define MARK "\xE2\x96\x81"

static const text_string scored_tokens[] = {
    S("<unk>"), S("<s>"), S("</s>"),   S("<0xC3>"), S("<0xA9>"), S(MARK), S("a"),
    S("b"),     S("ab"),  S(MARK "a"), S("bab"),    S("<u>"),    S("ba"), S("xy"),
};
static const float scores[] = {0, 0, 0, 0, 0, -9, -8, -7, -1, -2, -3, 0, -1, -4};
static const int32_t scored_types[] = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1, 4, 1, 1};

static const text_parts scored = {
    .name = "m.gguf",
    .model = "llama",
    .tokens = scored_tokens,
    .token_count = COUNT(scored_tokens),
    .scores = scores,
    .types = scored_types,
    .bos = 1,
    .eos = 2,
    .unknown = 0,
    .pad = -1,
};

/* The merge with the highest score comes first; of equal ones, the leftmost. */
static void scores_decide(void)
{
    text_parts parts = scored;
    weft_tokenizer *t = make(&parts);
    check_ids(t, "ab", 0, "5 8");    /* "ab" is before the mark and "a" */
    check_ids(t, "aba", 0, "5 8 6"); /* "ab" and "ba" are equal: the left one */
    check_ids(t, "b", WEFT_TOKENIZER_ADD_SPECIAL, "1 5 7");
    check_ids(t, "a a", 0, "9 9");
    check_ids(t, "\xC3\xA9", 0, "5 3 4"); /* bytes */
    check_ids(t, "z", WEFT_TOKENIZER_ADD_SPECIAL, "1 5 0");
    check_ids(t, "xy", 0, "5 13"); /* though neither x nor y is a token */
    check_ids(t, "ab<u>ab</s>", 0, "5 8 11 5 8 2");
    check_ids(t, "", 0, "");
    CHECK_EQ_INT(weft_tokenizer_bos(t), 1);
    CHECK_EQ_INT(weft_tokenizer_eos(t), 2);
    CHECK_EQ_INT(weft_tokenizer_pad(t), -1);
    CHECK(weft_tokenizer_is_special(t, 2) && !weft_tokenizer_is_special(t, 11));
    weft_tokenizer_free(t);
    parts.add_bos = TEXT_NO;
    parts.add_eos = TEXT_YES;
    parts.add_space_prefix = TEXT_NO;
    t = make(&parts);
    check_ids(t, "ab ab", WEFT_TOKENIZER_ADD_SPECIAL, "8 5 8 2");
    weft_tokenizer_free(t);
}

/* ---- merges --------------------------------------------------------------------------------- */

static const text_string merge_tokens[] = {
    S("a"),
    S("b"),
    S("\xC4\xA0"),
    S("ab"),
    S("\xC4\xA0"
      "a"),
    S("1"),
    S("2"),
    S("<e>"),
    S("12"),
};
static const int32_t merge_types[] = {1, 1, 1, 1, 1, 1, 1, 3, 1};
static const text_string merges[] = {S("\xC4\xA0 a"), S("a b"), S("1 2"), S("b nowhere")};

static void merges_of_bytes(void)
{
    text_parts parts = {.name = "m.gguf",
                        .model = "gpt2",
                        .pre = "qwen2",
                        .tokens = merge_tokens,
                        .token_count = COUNT(merge_tokens),
                        .types = merge_types,
                        .merges = merges,
                        .merge_count = COUNT(merges),
                        .bos = 7,
                        .eos = -1,
                        .unknown = -1,
                        .pad = -1};
    weft_tokenizer *t = make(&parts);
    check_ids(t, "ab ab", 0, "3 4 1");
    check_ids(t, "12", WEFT_TOKENIZER_ADD_SPECIAL, "5 6"); /* each digit is a word */
    check_ids(t, "a<e>b", 0, "0 7 1");
    weft_tokenizer_free(t);
    parts.pre = "llama-bpe"; /* three digits are a word; a word that is a token is that; bos */
    t = make(&parts);
    check_ids(t, "12", WEFT_TOKENIZER_ADD_SPECIAL, "7 8");
    weft_tokenizer_free(t);
    parts.add_bos = TEXT_NO;
    parts.pre = NULL;
    t = make(&parts);
    check_ids(t, "12", WEFT_TOKENIZER_ADD_SPECIAL, "8");
    weft_tokenizer_free(t);
    parts.unknown = 0; /* not in the model: bytes without a token are dropped */
    t = make(&parts);
    int32_t *ids = NULL;
    size_t count = 0;
    CHECK_OK(weft_tokenizer_encode(t, "a\x13z", 3, 0, &ids, &count));
    CHECK(count == 1 && ids[0] == 0);
    weft_free(ids);
    weft_tokenizer_free(t);
}

static void every_name_of_a_cut_is_understood(void)
{
    static const char *const names[] = {
        "default", "gpt-2",  "starcoder", "smollm",  "falcon",           "llama-bpe",
        "llama3",  "dbrx",   "glm4",      "qwen2",   "stablelm2",        "qwen35",
        "tekken",  "gpt-4o", "llama4",    "pixtral", "deepseek-r1-qwen",
    };
    text_parts parts = {.name = "m.gguf",
                        .model = "gpt2",
                        .tokens = merge_tokens,
                        .token_count = COUNT(merge_tokens),
                        .merges = merges,
                        .merge_count = COUNT(merges),
                        .bos = -1,
                        .eos = -1,
                        .unknown = -1,
                        .pad = -1};
    for (size_t i = 0; i < COUNT(names); i++) {
        parts.pre = names[i];
        weft_tokenizer *t = make(&parts);
        check_ids(t, "ab ab", 0, "3 4 1");
        weft_tokenizer_free(t);
    }
}

/* ---- inconsistent parts --------------------------------------------------------------------- */

static void refuse(const text_parts *parts, weft_status status, const char *message)
{
    weft_tokenizer *t = NULL;
    if (CHECK_STATUS(weft__tokenizer_from_parts(parts, &t), status))
        CHECK_CONTAINS(weft_error_message(), message);
    CHECK(t == NULL);
    weft_tokenizer_free(t);
}

static void parts_that_do_not_fit_are_named(void)
{
    static const text_string bad_token[] = {S("a"), S("\xFF")}, bad_merge[] = {S("ab")};
    static const float bad_score[] = {0, NAN};
    text_parts p = scored;
    p.model = "rwkv";
    refuse(&p, WEFT_UNSUPPORTED, "m.gguf: tokenizer.ggml.model: \"rwkv\" is unsupported");
    p = scored;
    p.scores = NULL;
    refuse(&p, WEFT_INVALID, "m.gguf: tokenizer.ggml.scores: is missing");
    p = scored;
    p.eos = 14;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.eos_token_id: expected an id below 14, got 14");
    p = scored;
    p.token_count = 0;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.tokens: expected 1 to");
    p = scored;
    p.model = "gpt2";
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.merges: is missing");
    p.merges = merges;
    p.merge_count = COUNT(merges);
    p.pre = "no-such";
    refuse(&p, WEFT_UNSUPPORTED, "m.gguf: tokenizer.ggml.pre: \"no-such\" is unsupported");
    p.pre = NULL;
    p.merges = bad_merge;
    p.merge_count = 1;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.merges[0]: expected \"a b\", got \"ab\"");
    p = scored;
    p.tokens = bad_token;
    p.token_count = 2;
    p.eos = p.pad;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.tokens[1]: invalid UTF-8");
    p = scored;
    p.token_count = 2;
    p.eos = -1;
    p.scores = bad_score;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.scores[1]: expected a number");
    p = scored;
    p.model = "bert";
    p.cls = p.sep = p.unknown = -1;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.unknown_token_id: is missing");
    p.unknown = 0;
    p.sep = 14;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.seperator_token_id: expected an id below 14, got 14");
    p.model = "t5";
    p.sep = -1;
    p.charsmap = (const unsigned char *)"\x08\0\0\0abc";
    p.charsmap_size = 7;
    refuse(&p, WEFT_INVALID, "precompiled_charsmap");
    p.scores = NULL;
    refuse(&p, WEFT_INVALID, "tokenizer.ggml.scores: is missing, the model is \"t5\"");
}

static void every_allocation_fails_once(void)
{
    text_parts all[3] = {scored, scored, scored};
    all[1].model = "bert";
    all[1].unknown = 0;
    all[2].model = "t5";
    all[2].remove_spaces = TEXT_YES;
    for (int k = 0; k < 3; k++) {
        weft_tokenizer *t = NULL;
        weft_memory_fail_at(0);
        CHECK_OK(weft__tokenizer_from_parts(&all[k], &t));
        weft_tokenizer_free(t);
        const uint64_t count = weft_memory_fail_at(0);
        for (uint64_t i = 1; i <= count; i++) {
            weft_memory_fail_at(i);
            const weft_status status = weft__tokenizer_from_parts(&all[k], &t);
            weft_memory_fail_at(0);
            /* The regex engine of "t5" works without machine code. */
            if (k == 2 && status == WEFT_OK)
                weft_tokenizer_free(t);
            else
                CHECK(status == WEFT_MEMORY && t == NULL);
        }
    }
}

/* ---- real vocabularies ---------------------------------------------------------------------- */

typedef struct taken {
    text_parts parts;
    text_string *tokens, *merges;
    int32_t *types;
    float *scores;
    weft__json_doc doc;
} taken;

static text_string string_of(json_object *value)
{
    return (text_string){json_object_get_string(value), (size_t)json_object_get_string_len(value)};
}

static void take_merges(taken *out, json_object *list)
{
    const size_t count = json_object_array_length(list);
    out->merges = calloc(count + 1, sizeof *out->merges);
    for (size_t i = 0; out->merges && i < count; i++) {
        json_object *item = json_object_array_get_idx(list, i);
        if (json_object_is_type(item, json_type_array)) {
            json_object *pair = json_object_new_string("");
            char text[1024];
            const int n = snprintf(text, sizeof text, "%s %s",
                                   json_object_get_string(json_object_array_get_idx(item, 0)),
                                   json_object_get_string(json_object_array_get_idx(item, 1)));
            json_object_set_string_len(pair, text, n);
            json_object_array_put_idx(list, i, pair);
            item = pair;
        }
        out->merges[i] = string_of(item);
    }
    out->parts.merges = out->merges;
    out->parts.merge_count = count;
}

/* What a converter would write to a GGUF file from a tokenizer.json. Scores count down. */
static bool take_apart(const char *path, const weft_tokenizer *t, taken *out)
{
    if (!CHECK_OK(weft__json_read(path, &out->doc)))
        return false;
    json_object *model = json_object_object_get(out->doc.root, "model");
    const size_t count = (size_t)weft_tokenizer_vocab_size(t);
    out->tokens = calloc(count, sizeof *out->tokens);
    out->types = calloc(count, sizeof *out->types);
    out->scores = calloc(count, sizeof *out->scores);
    if (!out->tokens || !out->types || !out->scores)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *text = weft_tokenizer_id_to_token(t, (int32_t)i);
        out->tokens[i] = (text_string){text ? text : "", text ? strlen(text) : 0};
        out->types[i] = text ? TEXT_NORMAL : TEXT_UNUSED;
        out->scores[i] = -(float)i;
        if (text && strlen(text) == 6 && memcmp(text, "<0x", 3) == 0)
            out->types[i] = TEXT_BYTE;
    }
    json_object *added = json_object_object_get(out->doc.root, "added_tokens");
    for (size_t i = 0; i < json_object_array_length(added); i++) {
        const int id =
            json_object_get_int(json_object_object_get(json_object_array_get_idx(added, i), "id"));
        out->types[id] = weft_tokenizer_is_special(t, id) ? TEXT_CONTROL : TEXT_USER_DEFINED;
    }
    out->parts = (text_parts){.name = path,
                              .tokens = out->tokens,
                              .token_count = count,
                              .scores = out->scores,
                              .types = out->types,
                              .bos = weft_tokenizer_bos(t),
                              .eos = weft_tokenizer_eos(t),
                              .unknown = weft_tokenizer_token_to_id(t, "<unk>"),
                              .pad = weft_tokenizer_pad(t)};
    take_merges(out, json_object_object_get(model, "merges"));
    return true;
}

static void put_back(taken *parts)
{
    free(parts->tokens);
    free(parts->types);
    free(parts->scores);
    free(parts->merges);
    weft__json_free(&parts->doc);
}

static void compare_ids(const weft_tokenizer *a, const weft_tokenizer *b, json_object *text,
                        unsigned flags, const char *what)
{
    const text_string s = string_of(text);
    int32_t *x = NULL, *y = NULL;
    size_t n = 0, m = 0;
    CHECK_OK(weft_tokenizer_encode(a, s.text, s.length, flags, &x, &n));
    CHECK_OK(weft_tokenizer_encode(b, s.text, s.length, flags, &y, &m));
    if (n != m || memcmp(x, y, n * sizeof *x) != 0)
        CHECK_FAIL("%s: %s", what, json_object_to_json_string(text));
    weft_free(x);
    weft_free(y);
}

static void compare_all(const weft_tokenizer *loaded, text_parts *parts, const char *model,
                        const char *pre, const weft__json_doc *cases)
{
    parts->model = model;
    parts->pre = pre;
    parts->add_space_prefix = strcmp(model, "llama") == 0 ? TEXT_NO : TEXT_DEFAULT;
    weft_tokenizer *made = make(parts);
    for (size_t i = 0; made && i < json_object_array_length(cases->root); i++) {
        json_object *text =
            json_object_object_get(json_object_array_get_idx(cases->root, i), "text");
        compare_ids(loaded, made, text, 0, model);
        compare_ids(loaded, made, text, WEFT_TOKENIZER_ADD_SPECIAL, model);
    }
    weft_tokenizer_free(made);
}

static void compare_real(const char *name, const char *model, const char *pre, bool also_by_scores)
{
    char path[128], file[1100];
    snprintf(path, sizeof path, "fixtures/tokenizers/%s.json", name);
    const char *fixture = check_shared(path), *folder = fixture ? unpacked_tokenizer(name) : NULL;
    if (!folder) {
        check_skip("../shared has no tokenizer %s", name);
        return;
    }
    snprintf(file, sizeof file, "%s/tokenizer.json", folder);
    weft_tokenizer *loaded = NULL;
    weft__json_doc cases = {0};
    taken apart = {0};
    if (CHECK_OK(weft_tokenizer_load(file, &loaded)) && take_apart(file, loaded, &apart) &&
        CHECK_OK(weft__json_read(fixture, &cases))) {
        compare_all(loaded, &apart.parts, model, pre, &cases);
        if (also_by_scores)
            compare_all(loaded, &apart.parts, "llama", NULL, &cases);
    }
    weft__json_free(&cases);
    put_back(&apart);
    weft_tokenizer_free(loaded);
}

/* Parts that are written from a tokenizer make the same one again: WordPiece, and Unigram with
 * compiled rules of normalization. */
static void pieces_come_back(void)
{
    static const char *const names[] = {"tokenizer_bert-cased.gguf", "tokenizer_bert-uncased.gguf",
                                        "tokenizer_xlm-roberta.gguf"};
    static const char *const texts[] = {"A king.",
                                        "",
                                        "two  spaces and \u00c9clair, Z\u00fcrich",
                                        "\ufb01ne \u2460 \uff21 \u00bd",
                                        "\u5317\u4eac ##s [X] don't 12345",
                                        "[MASK] <mask> </s>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weft_tokenizer *read = NULL, *again = NULL;
        text_parts_made made = {0};
        if (CHECK_OK(weft_tokenizer_load(check_fixture(names[i]), &read)) &&
            CHECK_OK(weft__tokenizer_to_parts(read, (int32_t)weft_tokenizer_vocab_size(read) + 2,
                                              &made)) &&
            CHECK_OK(weft__tokenizer_from_parts(&made.parts, &again))) {
            for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
                json_object *text = json_object_new_string(texts[k]);
                compare_ids(read, again, text, 0, names[i]);
                compare_ids(read, again, text, WEFT_TOKENIZER_ADD_SPECIAL, names[i]);
                json_object_put(text);
            }
            CHECK_STR(made.parts.model, i < 2 ? "bert" : "t5");
            CHECK((made.parts.charsmap_size > 0) == (i == 2));
        }
        weft__parts_release(&made);
        weft_tokenizer_free(again);
        weft_tokenizer_free(read);
    }
}

static void qwen2_5(void)
{
    compare_real("qwen2_5", "gpt2", "qwen2", false);
}

static void llama3_2(void)
{
    compare_real("llama3_2", "gpt2", "llama-bpe", false);
}

static void gemma2(void)
{
    compare_real("gemma2", "gemma4", NULL, true);
}

CHECK_MAIN("tokenizer_parts", CHECK_CASE(scores_decide), CHECK_CASE(merges_of_bytes),
           CHECK_CASE(every_name_of_a_cut_is_understood),
           CHECK_CASE(parts_that_do_not_fit_are_named), CHECK_CASE(every_allocation_fails_once),
           CHECK_CASE(pieces_come_back), CHECK_CASE(qwen2_5), CHECK_CASE(llama3_2),
           CHECK_CASE(gemma2))
