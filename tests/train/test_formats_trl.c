/* tests/train/test_formats_trl.c -- every format of rows with five real tokenizers: ids and weights
 * as TRL has them (tests/golden/train/formats.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "tests/support/unpacked.h"
#include "weft/train.h"

enum { MOST_ROWS = 64 };

static weft__json_doc rows[MOST_ROWS]; /* the lines of formats.jsonl */
static int n_rows;

static bool read_rows(void)
{
    char *text;
    size_t size;
    if (!CHECK_OK(
            weft_file_read(check_source("tests/golden/train/formats.jsonl"), 0, &text, &size)))
        return false;
    for (const char *at = text; at < text + size && n_rows < MOST_ROWS;) {
        const char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (!CHECK(end != NULL) ||
            !CHECK_OK(weft__json_parse(at, (size_t)(end - at), "formats.jsonl", &rows[n_rows])))
            break;
        n_rows++;
        at = end + 1;
    }
    weft_free(text);
    return CHECK(n_rows > 15);
}

/* The dataset of a line's row. */
static weft_dataset *read_row(const weft__json *line, const weft_tokenizer *tokenizer,
                              const weft_chat *chat)
{
    const char *objective = "";
    weft__json row;
    weft_dataset *d = NULL;
    CHECK_OK(weft__json_get_string(line, "objective", &objective));
    CHECK_OK(weft__json_get(line, "row", &row));
    const weft_dataset_options o = {.chat = chat,
                                    .last_turn = strcmp(objective, "supervised-last") == 0,
                                    .examples = strcmp(objective, "dpo") == 0 ? WEFT_EXAMPLES_PAIRS
                                                : strcmp(objective, "kto") == 0
                                                    ? WEFT_EXAMPLES_LABELED
                                                    : WEFT_EXAMPLES_SINGLE};
    const char *text = json_object_to_json_string(row.value);
    CHECK_OK(weft_dataset_parse(text, strlen(text), "row.jsonl", tokenizer, &o, 0, &d, NULL));
    return d;
}

static bool is_line_break(const weft_tokenizer *tokenizer, int32_t id)
{
    char *text = NULL;
    CHECK_OK(weft_tokenizer_decode(tokenizer, &id, 1, 0, &text, NULL));
    const bool is = text != NULL && strcmp(text, "\n") == 0;
    weft_free(text);
    return is;
}

/* The same ids and the same trained ids, except for the first, which nothing predicts. In TRL the
 * end of the last turn of a conversation (`told`) is followed by the template's line break. */
static void compare(const char *name, const weft_sample *s, const weft__json *golden, bool told,
                    const weft_tokenizer *tokenizer)
{
    weft__json ids, weights, item;
    size_t n = 0;
    int64_t id = -1, weight = -1, differ = 0;
    CHECK_OK(weft__json_get(golden, "ids", &ids));
    CHECK_OK(weft__json_get(golden, "weights", &weights));
    CHECK_OK(weft__json_length(&ids, &n));
    for (int64_t k = 0; k < (int64_t)n; k++) {
        CHECK_OK(weft__json_at(&ids, (size_t)k, &item));
        CHECK_OK(weft__json_as_int(&item, &id));
        CHECK_OK(weft__json_at(&weights, (size_t)k, &item));
        CHECK_OK(weft__json_as_int(&item, &weight));
        if (k >= s->length)
            differ += !(told && is_line_break(tokenizer, (int32_t)id));
        else
            differ += s->ids[k] != id || (k > 0 && s->weights[k] != (float)weight);
    }
    CHECK(s->length <= (int64_t)n);
    if (!CHECK_EQ_INT(differ, 0))
        CHECK_FAIL("%s: %lld ids, expected %zu", name, (long long)s->length, n);
}

static void compare_row(const weft__json *line, const weft__json *golden,
                        const weft_tokenizer *tokenizer, const weft_chat *chat)
{
    const char *name = "";
    size_t n = 0;
    weft__json row;
    CHECK_OK(weft__json_get_string(line, "name", &name));
    CHECK_OK(weft__json_get(line, "row", &row));
    CHECK_OK(weft__json_length(golden, &n));
    weft_dataset *d = read_row(line, tokenizer, chat);
    if (d && CHECK_EQ_INT(weft_dataset_info_of(d).samples, n)) {
        for (size_t i = 0; i < n; i++) {
            weft__json sample, label;
            const weft_sample s = weft_dataset_at(d, (int64_t)i);
            CHECK_OK(weft__json_at(golden, i, &sample));
            compare(name, &s, &sample,
                    json_object_object_get_ex(row.value, "chat_template_kwargs", NULL), tokenizer);
            CHECK_OK(weft__json_find(&sample, "label", &label));
            if (label.value)
                CHECK_EQ_INT(weft_dataset_is_desirable(d, (int64_t)i),
                             json_object_get_boolean(label.value));
        }
    }
    weft_dataset_free(d);
}

static void compare_folder(const char *folder, const char *name, int compared_rows)
{
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft__json_doc doc = {0};
    weft__json all, golden;
    int compared = 0;
    if (CHECK_OK(weft_tokenizer_load(folder, &tokenizer)) &&
        CHECK_OK(weft__json_read(check_source("tests/golden/train/formats.json"), &doc))) {
        const weft__json root = weft__json_root(&doc);
        (void)weft_chat_load(folder, &chat); /* one of them has no template */
        CHECK_OK(weft__json_get(&root, name, &all));
        for (int i = 0; i < n_rows; i++) {
            const weft__json line = weft__json_root(&rows[i]);
            CHECK_OK(weft__json_at(&all, (size_t)i, &golden));
            if (!json_object_is_type(golden.value, json_type_array))
                continue;
            compare_row(&line, &golden, tokenizer, chat);
            compared++;
        }
    }
    CHECK_EQ_INT(compared, compared_rows);
    weft__json_free(&doc);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

/* `compared_rows`: those that the tokenizer's template takes. */
static void compare_tokenizer(const char *name, int compared_rows)
{
    const char *folder = unpacked_tokenizer(name);
    if (!folder)
        return;
    if (read_rows())
        compare_folder(folder, name, compared_rows);
    while (n_rows > 0)
        weft__json_free(&rows[--n_rows]);
}

static void gemma2_rows_equal_trl(void)
{
    compare_tokenizer("gemma2", 6);
}

static void gemma3_rows_equal_trl(void)
{
    compare_tokenizer("gemma3", 16);
}

static void llama3_2_rows_equal_trl(void)
{
    compare_tokenizer("llama3_2", 17);
}

static void qwen2_5_rows_equal_trl(void)
{
    compare_tokenizer("qwen2_5", 17);
}

static void qwen3_rows_equal_trl(void)
{
    compare_tokenizer("qwen3", 17);
}

CHECK_MAIN("formats_trl", CHECK_CASE(gemma2_rows_equal_trl), CHECK_CASE(gemma3_rows_equal_trl),
           CHECK_CASE(llama3_2_rows_equal_trl), CHECK_CASE(qwen2_5_rows_equal_trl),
           CHECK_CASE(qwen3_rows_equal_trl))
