/* tests/text/test_tokenizer_splits.c -- the pre-tokenizers of CLIP, Falcon, DeepSeek and others
 * against the tokenizers library (tests/golden/tokenizer_splits.py): from tokenizer.json, and by
 * their names in GGUF files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "text/tokenizer/parts.h"
#include "weft/memory.h"

static json_object *field(json_object *object, const char *key)
{
    return json_object_object_get(object, key);
}

static text_string text_of(json_object *string)
{
    return (text_string){json_object_get_string(string),
                         (size_t)json_object_get_string_len(string)};
}

static void check_cases(const weft_tokenizer *t, json_object *cases, const char *name)
{
    for (size_t i = 0; i < json_object_array_length(cases); i++) {
        json_object *one = json_object_array_get_idx(cases, i), *expected = field(one, "ids");
        const text_string text = text_of(field(one, "text"));
        int32_t *ids = NULL;
        size_t n = 0;
        char *back = NULL;
        if (!CHECK_OK(weft_tokenizer_encode(t, text.text, text.length, 0, &ids, &n)))
            continue;
        bool same = n == json_object_array_length(expected);
        for (size_t k = 0; k < n && same; k++)
            same = ids[k] == json_object_get_int(json_object_array_get_idx(expected, k));
        if (!CHECK(same))
            printf("  it was %s: %s\n", name, json_object_get_string(one));
        if (CHECK_OK(weft_tokenizer_decode(t, ids, n, 0, &back, NULL)))
            CHECK_STR(back, json_object_get_string(field(one, "decoded")));
        weft_free(back);
        weft_free(ids);
    }
}

/* The tokenizer of a GGUF file with these tokens and merges. */
static weft_tokenizer *from_parts(json_object *model, const char *pre)
{
    json_object *vocab = field(model, "vocab"), *merges = field(model, "merges");
    const size_t count = (size_t)json_object_object_length(vocab);
    const size_t merge_count = json_object_array_length(merges);
    text_string *tokens = calloc(count, sizeof *tokens);
    text_string *pairs = calloc(merge_count, sizeof *pairs);
    char **texts = calloc(merge_count, sizeof *texts);
    weft_tokenizer *t = NULL;
    json_object_object_foreach(vocab, key, id)
    {
        tokens[json_object_get_int(id)] = (text_string){key, strlen(key)};
    }
    for (size_t i = 0; i < merge_count; i++) {
        json_object *pair = json_object_array_get_idx(merges, i);
        texts[i] = weft_format("%s %s", json_object_get_string(json_object_array_get_idx(pair, 0)),
                               json_object_get_string(json_object_array_get_idx(pair, 1)));
        pairs[i] = (text_string){texts[i], strlen(texts[i])};
    }
    const text_parts parts = {.name = "m.gguf",
                              .model = "gpt2",
                              .pre = pre,
                              .tokens = tokens,
                              .token_count = count,
                              .merges = pairs,
                              .merge_count = merge_count,
                              .bos = -1,
                              .eos = -1,
                              .unknown = -1,
                              .pad = -1};
    CHECK_OK(weft__tokenizer_from_parts(&parts, &t));
    for (size_t i = 0; i < merge_count; i++)
        weft_free(texts[i]);
    free(texts);
    free(pairs);
    free(tokens);
    return t;
}

static void splits_are_those_of_the_library(void)
{
    weft__json_doc doc = {0};
    size_t names = 0;
    if (!CHECK_OK(weft__json_read(check_fixture("tokenizer_splits.json"), &doc)))
        return;
    for (size_t i = 0; i < json_object_array_length(doc.root); i++) {
        json_object *one = json_object_array_get_idx(doc.root, i), *pre = field(one, "pre");
        const char *name = json_object_get_string(field(one, "name"));
        const char *json = json_object_to_json_string(field(one, "tokenizer"));
        weft_tokenizer *t = NULL;
        if (CHECK_OK(weft_tokenizer_parse(json, strlen(json), NULL, 0, name, &t)))
            check_cases(t, field(one, "cases"), name);
        weft_tokenizer_free(t);
        for (size_t k = 0; k < json_object_array_length(pre); k++, names++) {
            const char *of = json_object_get_string(json_object_array_get_idx(pre, k));
            t = from_parts(field(field(one, "tokenizer"), "model"), of);
            if (t)
                check_cases(t, field(one, "cases"), of);
            weft_tokenizer_free(t);
        }
    }
    CHECK_EQ_INT(json_object_array_length(doc.root), 16);
    CHECK(names >= 31);
    weft__json_free(&doc);
}

static void unsupported_options_are_refused(void)
{
    static const char start[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]";
    static const struct {
        const char *rest, *message;
    } cases[] = {
        {",\"continuing_subword_prefix\":\"##\"}}", "continuing_subword_prefix is unsupported"},
        {",\"end_of_word_suffix\":\"</w>\",\"byte_fallback\":true}}",
         "end_of_word_suffix with byte_fallback is unsupported"},
        {"},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
         "{\"type\":\"Metaspace\"}]}}",
         "a pre-tokenizer (\"Metaspace\") behind ByteLevel is unsupported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = weft_format("%s%s", start, cases[i].rest);
        weft_tokenizer *t = NULL;
        CHECK_STATUS(weft_tokenizer_parse(json, strlen(json), NULL, 0, "t", &t), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), cases[i].message);
        weft_tokenizer_free(t);
        weft_free(json);
    }
}

CHECK_MAIN("tokenizer_splits", CHECK_CASE(splits_are_those_of_the_library),
           CHECK_CASE(unsupported_options_are_refused))
