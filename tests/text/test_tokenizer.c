/* tests/text/test_tokenizer.c -- weft/tokenizer.h against the ids of the tokenizers library for the
 * same texts (tests/golden/tokenizer_*.py), and with real tokenizers if ../shared exists. */
#include "weft/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/io/json.h"
#include "core/io/utf8.h"
#include "tests/check.h"
#include "tests/support/unpacked.h"
#include "weft/memory.h"

/* ---- comparing ------------------------------------------------------------------------------ */

/* Reports the position of a difference; CUnit only reports that there is one. */
static bool same(bool held, const char *where, const char *what, const char *text)
{
    if (!held)
        CHECK_FAIL("%s: %s of %s", where, what, text);
    return held;
}

static json_object *field(json_object *object, const char *key)
{
    json_object *value = json_object_object_get(object, key);
    if (!value)
        CHECK_FAIL("the golden file lacks %s", key);
    return value;
}

static void check_ids(const weft_tokenizer *t, json_object *text, unsigned flags, json_object *ids,
                      const char *where)
{
    int32_t *got = NULL;
    size_t count = 0;
    if (!CHECK_OK(weft_tokenizer_encode(t, json_object_get_string(text),
                                        (size_t)json_object_get_string_len(text), flags, &got,
                                        &count)))
        return;
    bool equal = count == json_object_array_length(ids);
    for (size_t i = 0; i < count && equal; i++)
        equal = got[i] == json_object_get_int(json_object_array_get_idx(ids, i));
    same(equal, where, flags ? "ids with special" : "ids", json_object_to_json_string(text));
    weft_free(got);
}

/* Reads a list of ids, and another list behind it unless that is NULL. */
static int32_t *read_ids(json_object *list, json_object *more, size_t *count)
{
    const size_t first = json_object_array_length(list);
    *count = first + (more ? json_object_array_length(more) : 0);
    int32_t *ids = calloc(*count + 1, sizeof *ids);
    for (size_t i = 0; ids && i < *count; i++)
        ids[i] = json_object_get_int(i < first ? json_object_array_get_idx(list, i)
                                               : json_object_array_get_idx(more, i - first));
    return ids;
}

/* The stream gives the same text, and never half a character. */
static void check_stream(const weft_tokenizer *t, const int32_t *ids, size_t count, unsigned flags,
                         const char *expected, size_t length, const char *where)
{
    weft_detokenizer *stream = NULL;
    if (!CHECK_OK(weft_detokenizer_new(t, flags, &stream)))
        return;
    size_t done = 0;
    bool equal = true;
    for (size_t i = 0; i <= count && equal; i++) {
        const char *text = NULL;
        size_t size = 0;
        equal = (i < count ? weft_detokenizer_push(stream, ids[i], &text, &size)
                           : weft_detokenizer_finish(stream, &text, &size)) == WEFT_OK;
        equal = equal && strlen(text) <= size && weft__utf8_valid(text, size) == size &&
                size <= length - done && memcmp(expected + done, text, size) == 0;
        done += size;
    }
    same(equal && done == length, where, "stream", expected);
    weft_detokenizer_free(stream);
}

static void check_text(const weft_tokenizer *t, const int32_t *ids, size_t count, unsigned flags,
                       json_object *expected, const char *where)
{
    char *text = NULL;
    size_t length = 0;
    if (!CHECK_OK(weft_tokenizer_decode(t, ids, count, flags, &text, &length)))
        return;
    const bool equal = length == (size_t)json_object_get_string_len(expected) &&
                       memcmp(text, json_object_get_string(expected), length) == 0;
    same(equal, where, "text", json_object_to_json_string(expected));
    check_stream(t, ids, count, flags, text, length, where);
    weft_free(text);
}

static weft_tokenizer *load(const char *path)
{
    weft_tokenizer *t = NULL;
    CHECK_OK(weft_tokenizer_load(path, &t));
    return t;
}

/* ---- golden files --------------------------------------------------------------------------- */

static void random_texts_with_the_storyteller(void)
{
    weft__json_doc doc = {0};
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    if (!t || !CHECK_OK(weft__json_read(check_fixture("tokenizer_texts.json"), &doc)))
        return;
    const size_t cases = json_object_array_length(doc.root);
    CHECK_EQ_INT(cases, 500);
    for (size_t i = 0; i < cases; i++) {
        json_object *one = json_object_array_get_idx(doc.root, i);
        check_ids(t, field(one, "text"), 0, field(one, "ids"), "storyteller");
        size_t count = 0;
        int32_t *ids = read_ids(field(one, "ids"), field(one, "noise"), &count);
        check_text(t, ids, count, 0, field(one, "decoded"), "storyteller");
        check_text(t, ids, count, WEFT_TOKENIZER_SKIP_SPECIAL, field(one, "skipped"),
                   "storyteller");
        free(ids);
    }
    weft__json_free(&doc);
    weft_tokenizer_free(t);
}

static void check_cases(const weft_tokenizer *t, json_object *cases, bool decode, const char *name)
{
    for (size_t k = 0; k < json_object_array_length(cases); k++) {
        json_object *c = json_object_array_get_idx(cases, k);
        check_ids(t, field(c, "text"), 0, field(c, "ids"), name);
        check_ids(t, field(c, "text"), WEFT_TOKENIZER_ADD_SPECIAL, field(c, "ids_special"), name);
        size_t count = 0;
        int32_t *ids = read_ids(field(c, "ids_special"), NULL, &count);
        if (decode) {
            check_text(t, ids, count, 0, field(c, "decoded"), name);
            check_text(t, ids, count, WEFT_TOKENIZER_SKIP_SPECIAL, field(c, "skipped"), name);
        }
        free(ids);
    }
}

/* A file of tokenizers, with texts and their ids. */
static void check_variants(const char *fixture, size_t least)
{
    weft__json_doc doc = {0};
    if (!CHECK_OK(weft__json_read(check_fixture(fixture), &doc)))
        return;
    const size_t variants = json_object_array_length(doc.root);
    CHECK(variants >= least);
    for (size_t i = 0; i < variants; i++) {
        json_object *one = json_object_array_get_idx(doc.root, i);
        const char *name = json_object_get_string(field(one, "name"));
        const char *json = json_object_to_json_string(field(one, "tokenizer"));
        weft_tokenizer *t = NULL;
        if (!CHECK_OK(weft_tokenizer_parse(json, strlen(json), NULL, 0, name, &t)))
            continue;
        check_cases(t, field(one, "cases"), true, name);
        weft_tokenizer_free(t);
    }
    weft__json_free(&doc);
}

static void every_part_that_a_file_can_ask_for(void)
{
    check_variants("tokenizer_small.json", 41);
}

static void unigram_and_word_piece_models(void)
{
    check_variants("tokenizer_models.json", 11);
}

/* Metaspace's "first" behind normalizers that remove what a text begins with, too. */
static void words_and_marks_in_front(void)
{
    check_variants("tokenizer_words.json", 17);
}

/* Tokenizers of tokenizer_models.json in the metadata of GGUF files, which do not say whether
 * decoded punctuation loses its spaces. */
static void unigram_and_word_piece_in_gguf(void)
{
    static const char *const names[] = {"xlm-roberta", "bert uncased", "bert cased"};
    weft__json_doc doc = {0};
    int found = 0;
    if (!CHECK_OK(weft__json_read(check_fixture("tokenizer_models.json"), &doc)))
        return;
    for (size_t i = 0; i < json_object_array_length(doc.root); i++) {
        json_object *one = json_object_array_get_idx(doc.root, i);
        const char *name = json_object_get_string(field(one, "name"));
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            char path[64];
            if (strcmp(name, names[k]) != 0)
                continue;
            snprintf(path, sizeof path, "tokenizer_%s.gguf", name);
            for (char *c = path; *c != '\0'; c++)
                *c = *c == ' ' ? '-' : *c;
            weft_tokenizer *t = load(check_fixture(path));
            found += t != NULL;
            if (t)
                check_cases(t, field(one, "cases"), strcmp(name, "bert cased") != 0, name);
            weft_tokenizer_free(t);
        }
    }
    CHECK_EQ_INT(found, 3);
    weft__json_free(&doc);
}

/* Compares a tokenizer of ../shared with ../shared/fixtures/tokenizers. */
static void compare_real(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "fixtures/tokenizers/%s.json", name);
    const char *fixture = check_shared(path), *folder = fixture ? unpacked_tokenizer(name) : NULL;
    if (!folder) {
        check_skip("../shared has no tokenizer %s", name);
        return;
    }
    weft_tokenizer *t = load(folder);
    weft__json_doc doc = {0};
    if (!t || !CHECK_OK(weft__json_read(fixture, &doc)))
        return;
    for (size_t i = 0; i < json_object_array_length(doc.root); i++) {
        json_object *c = json_object_array_get_idx(doc.root, i);
        check_ids(t, field(c, "text"), 0, field(c, "ids"), name);
        check_ids(t, field(c, "text"), WEFT_TOKENIZER_ADD_SPECIAL, field(c, "ids_special"), name);
        size_t count = 0;
        int32_t *ids = read_ids(field(c, "ids"), NULL, &count);
        check_text(t, ids, count, 0, field(c, "decoded"), name);
        free(ids);
    }
    weft__json_free(&doc);
    weft_tokenizer_free(t);
}

static void qwen2_5(void)
{
    compare_real("qwen2_5");
}

static void qwen3(void)
{
    compare_real("qwen3");
}

static void llama3_2(void)
{
    compare_real("llama3_2");
}

static void gemma2(void)
{
    compare_real("gemma2");
}

static void gemma3(void)
{
    compare_real("gemma3");
}

/* ---- behavior ------------------------------------------------------------------------------- */

static void vocabulary_questions(void)
{
    weft_tokenizer *t = load(check_source("examples/storyteller/tokenizer.json"));
    if (!t)
        return;
    CHECK_EQ_INT(weft_tokenizer_vocab_size(t), 4096);
    CHECK_EQ_INT(weft_tokenizer_token_to_id(t, "<|im_end|>"), 4095);
    CHECK_EQ_INT(weft_tokenizer_token_to_id(t, "no such token"), -1);
    CHECK_STR(weft_tokenizer_id_to_token(t, 4093), "<|endoftext|>");
    CHECK_STR(weft_tokenizer_id_to_token(t, 4096), NULL);
    CHECK_STR(weft_tokenizer_id_to_token(t, -1), NULL);
    CHECK(weft_tokenizer_is_special(t, 4094));
    CHECK(!weft_tokenizer_is_special(t, 4092));
    CHECK(!weft_tokenizer_is_special(t, 1 << 30));
    CHECK_EQ_INT(weft_tokenizer_bos(t), 4093);
    CHECK_EQ_INT(weft_tokenizer_eos(t), 4093);
    CHECK_EQ_INT(weft_tokenizer_pad(t), 4093);
    weft_tokenizer_free(t);
    weft_tokenizer_free(NULL);
    weft_detokenizer_free(NULL);
}

static void empty_text_and_no_ids(void)
{
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    int32_t *ids = NULL;
    size_t count = 1, length = 1;
    char *text = NULL;
    if (!t)
        return;
    CHECK_OK(weft_tokenizer_encode(t, "", 0, WEFT_TOKENIZER_ADD_SPECIAL, &ids, &count));
    CHECK(ids != NULL);
    CHECK_EQ_INT(count, 0);
    CHECK_OK(weft_tokenizer_decode(t, ids, 0, 0, &text, &length));
    CHECK_STR(text, "");
    CHECK_EQ_INT(length, 0);
    weft_free(ids);
    weft_free(text);
    weft_tokenizer_free(t);
}

static void invalid_utf8_is_refused(void)
{
    static const struct {
        const char *text;
        size_t length, at;
    } bad[] = {
        {"\xFF", 1, 0},          {"abc\xC3", 4, 3},          {"\xC0\x80", 2, 0},
        {"a\xED\xA0\x80", 4, 1}, {"\xF4\x90\x80\x80", 4, 0}, {"0123456789\x80", 11, 10},
        {"\xE2\x82", 2, 0},
    };
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    for (size_t i = 0; t && i < sizeof bad / sizeof *bad; i++) {
        int32_t *ids = NULL;
        size_t count = 0;
        char message[64];
        CHECK_STATUS(weft_tokenizer_encode(t, bad[i].text, bad[i].length, 0, &ids, &count),
                     WEFT_INVALID);
        snprintf(message, sizeof message, "invalid UTF-8 at byte %zu", bad[i].at);
        CHECK_CONTAINS(weft_error_message(), message);
        CHECK(ids == NULL);
    }
    weft_tokenizer_free(t);
}

static void ids_without_a_token(void)
{
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    char *text = NULL;
    if (!t)
        return;
    const int32_t large[] = {100000, INT32_MAX}, negative[] = {-1};
    CHECK_OK(weft_tokenizer_decode(t, large, 2, 0, &text, NULL));
    CHECK_STR(text, "");
    weft_free(text);
    CHECK_STATUS(weft_tokenizer_decode(t, negative, 1, 0, &text, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "-1 is negative");
    CHECK(text == NULL);
    weft_tokenizer_free(t);
}

static void incomplete_characters_are_held_back(void)
{
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    weft_detokenizer *stream = NULL;
    int32_t *ids = NULL;
    size_t count = 0, length = 0;
    const char *text = NULL;
    if (!t)
        return;
    CHECK_OK(weft_tokenizer_encode(t, "\xF0\x9F\x98\x80", 4, 0, &ids, &count));
    CHECK_OK(weft_detokenizer_new(t, 0, &stream));
    CHECK(count > 1);
    for (size_t i = 0; i < count; i++) {
        CHECK_OK(weft_detokenizer_push(stream, ids[i], &text, &length));
        CHECK_STR(text, i + 1 < count ? "" : "\xF0\x9F\x98\x80");
    }
    CHECK_OK(weft_detokenizer_push(stream, ids[0], &text, &length));
    CHECK_STR(text, "");
    CHECK_OK(weft_detokenizer_finish(stream, &text, &length));
    CHECK_STR(text, "\xEF\xBF\xBD");
    CHECK_OK(weft_detokenizer_finish(stream, &text, &length));
    CHECK_STR(text, "");
    weft_detokenizer_free(stream);
    weft_free(ids);
    weft_tokenizer_free(t);
}

/* Encodes and decodes a text of `length` bytes made of `unit`; seconds it took. */
static double round_trip(const weft_tokenizer *t, const char *unit, size_t length)
{
    const size_t size = strlen(unit);
    char *text = malloc(length), *back = NULL;
    int32_t *ids = NULL;
    size_t count = 0, decoded = 0;
    for (size_t i = 0; text && i < length; i++)
        text[i] = unit[i % size];
    const clock_t start = clock();
    CHECK_OK(weft_tokenizer_encode(t, text, length, 0, &ids, &count));
    CHECK_OK(weft_tokenizer_decode(t, ids, count, 0, &back, &decoded));
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    CHECK_EQ_INT(decoded, length);
    CHECK(decoded == length && memcmp(text, back, length) == 0);
    weft_free(ids);
    weft_free(back);
    free(text);
    return seconds;
}

/* Quadratic work would be 16 times as long for 4 times the text, and hours for 1 MB. */
static void time_grows_with_the_length(void)
{
    static const char *const units[] = {"a",  " ",  "\n",       "1",     "-", "ab",        "a b",
                                        "\t", "'s", "\xC3\xA9", "\r\n ", "<", "<|im_end|>"};
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    const size_t length = 250 * 3000; /* a multiple of the size of every unit */
    for (size_t i = 0; t && i < sizeof units / sizeof *units; i++) {
        const size_t size = strlen(units[i]);
        const double seconds = round_trip(t, units[i], length / size * size);
        if (seconds > 20)
            CHECK_FAIL("750 kB of \"%s\" take %.1f s", units[i], seconds);
    }
    weft_tokenizer_free(t);
}

/* Marks that are out of order are put in order in linear time too; decoding does not restore their
 * order, so only the time and the number of ids are checked. */
static void a_long_run_of_marks(void)
{
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    const size_t pairs = 100000;
    char *text = malloc(4 * pairs);
    int32_t *ids = NULL;
    size_t count = 0;
    for (size_t i = 0; text && i < pairs; i++)
        memcpy(text + 4 * i, "\xCC\x81\xCC\xA3", 4); /* U+0301 (230), U+0323 (220) */
    if (t && CHECK_OK(weft_tokenizer_encode(t, text, 4 * pairs, 0, &ids, &count)))
        CHECK_EQ_INT(count, 4 * pairs);
    weft_free(ids);
    free(text);
    weft_tokenizer_free(t);
}

static void a_book_is_encoded_and_decoded(void)
{
    const char *path = check_shared("data/shakespeare.txt");
    if (!path) {
        check_skip("../shared has no data/shakespeare.txt");
        return;
    }
    weft_tokenizer *t = load(check_source("examples/storyteller"));
    FILE *file = fopen(path, "rb");
    char *text = malloc(2 << 20), *back = NULL;
    int32_t *ids = NULL;
    size_t count = 0, decoded = 0;
    const size_t length = file && text ? fread(text, 1, 2 << 20, file) : 0;
    CHECK_EQ_INT(length, 1115394);
    if (t && CHECK_OK(weft_tokenizer_encode(t, text, length, 0, &ids, &count))) {
        CHECK_OK(weft_tokenizer_decode(t, ids, count, 0, &back, &decoded));
        CHECK(decoded == length && memcmp(text, back, length) == 0);
    }
    if (file)
        fclose(file);
    weft_free(ids);
    weft_free(back);
    free(text);
    weft_tokenizer_free(t);
}

CHECK_MAIN("tokenizer", CHECK_CASE(random_texts_with_the_storyteller),
           CHECK_CASE(every_part_that_a_file_can_ask_for),
           CHECK_CASE(unigram_and_word_piece_models), CHECK_CASE(words_and_marks_in_front),
           CHECK_CASE(unigram_and_word_piece_in_gguf), CHECK_CASE(qwen2_5), CHECK_CASE(qwen3),
           CHECK_CASE(llama3_2), CHECK_CASE(gemma2), CHECK_CASE(gemma3),
           CHECK_CASE(vocabulary_questions), CHECK_CASE(empty_text_and_no_ids),
           CHECK_CASE(invalid_utf8_is_refused), CHECK_CASE(ids_without_a_token),
           CHECK_CASE(incomplete_characters_are_held_back), CHECK_CASE(time_grows_with_the_length),
           CHECK_CASE(a_long_run_of_marks), CHECK_CASE(a_book_is_encoded_and_decoded))
