/* tests/text/test_tokenizer_extend.c -- tokenizers with added tokens: ids and texts against the
 * tokenizers library (tests/golden/tokenizer_added.py), saving and loading, and refused input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/tokenizer_json.h"
#include "weft/convert.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/tokenizer.h"

enum { MOST = 8 };

static json_object *field(json_object *object, const char *key)
{
    json_object *value = json_object_object_get(object, key);
    if (value == NULL)
        CHECK_FAIL("the golden file lacks %s", key);
    return value;
}

static void expect_case(const weft_tokenizer *t, json_object *one, const char *name)
{
    json_object *text = field(one, "text"), *ids = field(one, "ids"), *decoded;
    int32_t *got;
    size_t n, length;
    char *back;
    if (!CHECK_OK(weft_tokenizer_encode(t, json_object_get_string(text),
                                        (size_t)json_object_get_string_len(text), 0, &got, &n)))
        return;
    bool equal = n == json_object_array_length(ids);
    for (size_t i = 0; equal && i < n; i++)
        equal = got[i] == json_object_get_int(json_object_array_get_idx(ids, i));
    if (!equal)
        CHECK_FAIL("%s: ids of %s", name, json_object_to_json_string(text));
    decoded = field(one, "decoded");
    if (equal && CHECK_OK(weft_tokenizer_decode(t, got, n, 0, &back, &length))) {
        if (length != (size_t)json_object_get_string_len(decoded) ||
            memcmp(back, json_object_get_string(decoded), length) != 0)
            CHECK_FAIL("%s: text of %s: %s", name, json_object_to_json_string(decoded), back);
        weft_free(back);
    }
    weft_free(got);
}

static int read_tokens(json_object *list, const char *tokens[MOST])
{
    int n = (int)json_object_array_length(list);
    n = n < MOST ? n : MOST;
    for (int i = 0; i < n; i++)
        tokens[i] = json_object_get_string(json_object_array_get_idx(list, (size_t)i));
    return n;
}

static void expect_all(const weft_tokenizer *t, json_object *entry, int n)
{
    const char *tokens[MOST], *name = json_object_get_string(field(entry, "name"));
    const int first = json_object_get_int(field(entry, "first"));
    json_object *texts = field(entry, "texts");
    read_tokens(field(entry, "tokens"), tokens);
    CHECK_EQ_INT(weft_tokenizer_vocab_size(t), first + n);
    for (int i = 0; i < n; i++)
        CHECK_EQ_INT(weft_tokenizer_token_to_id(t, tokens[i]), first + i);
    for (size_t i = 0; i < json_object_array_length(texts); i++)
        expect_case(t, json_object_array_get_idx(texts, i), name);
}

/* From a file, in memory and saved; tokens that the vocabulary has are refused. */
static void expect_entry(json_object *entry, const char *path)
{
    const char *tokens[MOST], *known[MOST];
    const int n = read_tokens(field(entry, "tokens"), tokens);
    const int n_known = read_tokens(field(entry, "known"), known);
    weft_tokenizer *t, *again = NULL;
    const char *folder = check_temporary("saved");
    if (!CHECK_OK(weft_tokenizer_extend(path, tokens, n, &t)))
        return;
    CHECK_EQ_INT(weft_tokenizer_further(t), n);
    expect_all(t, entry, n);
    if (CHECK_OK(weft_tokenizer_save(t, folder)) && CHECK_OK(weft_tokenizer_load(folder, &again))) {
        CHECK_EQ_INT(weft_tokenizer_further(again), 0);
        CHECK_EQ_INT(weft_tokenizer_eos(again), weft_tokenizer_eos(t));
        expect_all(again, entry, n);
        check_tokenizer_json(folder, t);
    }
    weft_tokenizer_free(t);
    weft_tokenizer_free(again);
    for (int i = 0; i < n_known; i++) {
        CHECK_STATUS(weft_tokenizer_extend(path, &known[i], 1, &t), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "already, with id");
    }
}

/* The tokenizer of that name in a golden file, in a file of its own. */
static bool write_tokenizer(const char *fixture, const char *name, const char *path)
{
    weft__json_doc doc = {0};
    bool found = false;
    if (!CHECK_OK(weft__json_read(check_fixture(fixture), &doc)))
        return false;
    for (size_t i = 0; !found && i < json_object_array_length(doc.root); i++) {
        json_object *one = json_object_array_get_idx(doc.root, i);
        found = strcmp(json_object_get_string(field(one, "name")), name) == 0;
        const char *text = json_object_to_json_string(field(one, "tokenizer"));
        if (found)
            CHECK_OK(weft_file_write(path, text, strlen(text)));
    }
    weft__json_free(&doc);
    return CHECK(found);
}

static void ids_and_texts_of_new_tokens(void)
{
    weft__json_doc doc = {0};
    char path[512];
    if (!CHECK_OK(weft__json_read(check_fixture("tokenizer_added.json"), &doc)))
        return;
    const size_t n = json_object_array_length(doc.root);
    CHECK_EQ_INT(n, 84);
    for (size_t i = 0; i < n; i++) {
        json_object *entry = json_object_array_get_idx(doc.root, i);
        json_object *file = json_object_object_get(entry, "file"); /* null: the storyteller */
        snprintf(path, sizeof path, "%s",
                 file ? check_temporary("one.json") : check_source("examples/storyteller"));
        if (file == NULL || write_tokenizer(json_object_get_string(file),
                                            json_object_get_string(field(entry, "name")), path))
            expect_entry(entry, path);
    }
    weft__json_free(&doc);
}

/* A configuration that lists added tokens gets the new ones; one without a list stays as it is. */
static void configurations_list_new_tokens(void)
{
    static const char config[] =
        "{\"added_tokens_decoder\": {\"0\": {\"content\": \"<unk>\"}}, \"eos_token\": \"<unk>\"}";
    static const char *const token[] = {"<new>"};
    char folder[512], path[600], *text;
    weft_tokenizer *t;
    snprintf(folder, sizeof folder, "%s", check_temporary("configured"));
    CHECK_OK(weft_folder_make(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    if (!write_tokenizer("tokenizer_small.json", "Split Removed", path))
        return;
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    CHECK_OK(weft_file_write(path, config, strlen(config)));
    if (!CHECK_OK(weft_tokenizer_extend(folder, token, 1, &t)))
        return;
    const int id = weft_tokenizer_token_to_id(t, "<new>");
    CHECK_EQ_INT(weft_tokenizer_eos(t), 0);
    CHECK_OK(weft_tokenizer_save(t, folder));
    if (CHECK_OK(weft_file_read(path, 0, &text, NULL))) {
        char *entry = weft_format("\"%d\": {\"content\": \"<new>\", \"single_word\": false", id);
        CHECK_CONTAINS(text, entry);
        CHECK_CONTAINS(text, "\"eos_token\": \"<unk>\"");
        weft_free(entry);
        weft_free(text);
    }
    weft_tokenizer_free(t);
    if (CHECK_OK(weft_tokenizer_load(folder, &t)))
        CHECK_STATUS(weft_tokenizer_save(t, folder), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected one of weft_tokenizer_extend");
    weft_tokenizer_free(t);
}

/* The tokenizer of a GGUF file becomes a tokenizer.json. */
static void tokenizers_of_gguf_files(void)
{
    static const char *const tokens[] = {"<q>", "<hero>"};
    const char *folder = check_source("examples/storyteller");
    const char text[] = "<q>Once upon a time<hero> \xC3\xA9";
    char path[512];
    weft_tokenizer *plain, *coded = NULL;
    snprintf(path, sizeof path, "%s", check_fixture("tokenizer_bert-cased.gguf"));
    CHECK_STATUS(weft_tokenizer_extend(path, tokens, 2, &plain), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "only BPE");
    snprintf(path, sizeof path, "%s", check_temporary("story.gguf"));
    if (!CHECK_OK(weft_tokenizer_extend(folder, tokens, 2, &plain)))
        return;
    if (CHECK_OK(weft_convert(folder, path, NULL, NULL)) &&
        CHECK_OK(weft_tokenizer_extend(path, tokens, 2, &coded))) {
        int32_t *a = NULL, *b = NULL;
        size_t n, m;
        CHECK_OK(weft_tokenizer_encode(plain, text, strlen(text), 0, &a, &n));
        CHECK_OK(weft_tokenizer_encode(coded, text, strlen(text), 0, &b, &m));
        CHECK(a && b && n == m && memcmp(a, b, n * sizeof *a) == 0);
        CHECK_EQ_INT(weft_tokenizer_eos(coded), weft_tokenizer_eos(plain));
        if (CHECK_OK(weft_tokenizer_save(coded, check_temporary("coded"))))
            check_tokenizer_json(check_temporary("coded"), plain);
        weft_free(a);
        weft_free(b);
    }
    weft_tokenizer_free(plain);
    weft_tokenizer_free(coded);
}

static void bad_tokens_are_refused(void)
{
    static const char *const twice[] = {"<a>", "<b>", "<a>"}, *const empty[] = {""},
                             *const broken[] = {"a\xff"};
    const char *folder = check_source("examples/storyteller");
    weft_tokenizer *t;
    CHECK_STATUS(weft_tokenizer_extend(folder, twice, 3, &t), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "'<a>' is given twice");
    CHECK(t == NULL);
    CHECK_STATUS(weft_tokenizer_extend(folder, twice, 0, &t), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "at least one");
    CHECK_STATUS(weft_tokenizer_extend(folder, empty, 1, &t), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "is empty");
    CHECK_STATUS(weft_tokenizer_extend(folder, broken, 1, &t), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "invalid UTF-8");
    CHECK_STATUS(weft_tokenizer_extend("/nowhere", twice, 1, &t), WEFT_IO);
    static const char gaps[] = "{\"added_tokens\": [], \"model\": {\"type\": \"BPE\", \"vocab\": "
                               "{\"a\": 0, \"b\": 2}, \"merges\": []}}";
    const char *path = check_temporary("gaps.json");
    CHECK_OK(weft_file_write(path, gaps, strlen(gaps)));
    CHECK_STATUS(weft_tokenizer_extend(path, twice, 1, &t), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "new tokens ids from 2 on, which are in use below 3");
    CHECK(t == NULL);
}

CHECK_MAIN("tokenizer_extend", CHECK_CASE(ids_and_texts_of_new_tokens),
           CHECK_CASE(configurations_list_new_tokens), CHECK_CASE(tokenizers_of_gguf_files),
           CHECK_CASE(bad_tokens_are_refused))
