/* tests/train/test_row_layouts.c -- rows as other training programs read them: Weft trains what
 * they train (tests/golden/train/row_layouts.py), or what the line states, with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "core/io/text.h"
#include "tests/check.h"
#include "weft/train.h"

enum { LEAST_ROWS = 60 };

/* The pieces of a sample as JSON, [["text", 0], ["text", 1]]. The first id has weight 0, since
 * nothing predicts it; here it gets the weight of the second. */
static void write_pieces(const weft_dataset *d, int64_t i, const weft_tokenizer *tokenizer,
                         weft__text *out)
{
    const weft_sample s = weft_dataset_at(d, i);
    weft__text_append(out, "[", 1);
    for (int64_t at = 0; at < s.length;) {
        const float weight = s.weights[at > 0 ? at : 1];
        char *text = NULL;
        int64_t end = at + 1;
        while (end < s.length && s.weights[end] == weight)
            end++;
        CHECK_OK(weft_tokenizer_decode(tokenizer, s.ids + at, (size_t)(end - at), 0, &text, NULL));
        weft__text_format(out, at > 0 ? ", [" : "[");
        weft__text_quote(out, text ? text : "");
        weft__text_format(out, ", %d]", (int)weight);
        weft_free(text);
        at = end;
    }
    weft__text_append(out, "]", 1);
}

static void compare(const weft__json *line, const weft__json *expected, const weft_dataset *d,
                    const weft_tokenizer *tokenizer)
{
    const char *layout = "", *program = "";
    weft__text got = {0};
    weft__json_doc doc = {0};
    CHECK_OK(weft__json_get_string(line, "layout", &layout));
    CHECK_OK(weft__json_get_string(line, "program", &program));
    weft__text_append(&got, "[", 1);
    for (int64_t i = 0; i < weft_dataset_info_of(d).samples; i++) {
        weft__text_format(&got, i > 0 ? ", " : "");
        write_pieces(d, i, tokenizer, &got);
    }
    weft__text_append(&got, "]", 1);
    CHECK_OK(weft__json_parse(got.at, got.n, "got", &doc));
    if (!CHECK(json_object_equal(doc.root, expected->value)))
        CHECK_FAIL("%s, %s:\n%s\nexpected\n%s", program, layout, got.at,
                   json_object_to_json_string(expected->value));
    weft__json_free(&doc);
    weft_free(got.at);
}

static void compare_line(const weft__json *line, const weft__json *theirs,
                         const weft_tokenizer *tokenizer, const weft_chat *chat)
{
    const char *objective = "", *why = NULL;
    weft__json row, expected;
    weft_dataset *d = NULL;
    CHECK_OK(weft__json_get_string(line, "objective", &objective));
    CHECK_OK(weft__json_get(line, "row", &row));
    CHECK_OK(weft__json_find(line, "weft", &expected));
    CHECK_OK(weft__json_find_string(line, "why", &why));
    const bool differs = expected.value != NULL;
    CHECK_EQ_INT(differs, why != NULL);
    if (differs) /* otherwise no reason is needed */
        CHECK(!json_object_equal(expected.value, theirs->value));
    else
        expected = *theirs;
    CHECK(expected.value != NULL);
    const weft_dataset_options o = {.chat = chat,
                                    .examples = strcmp(objective, "dpo") == 0 ? WEFT_EXAMPLES_PAIRS
                                                : strcmp(objective, "kto") == 0
                                                    ? WEFT_EXAMPLES_LABELED
                                                    : WEFT_EXAMPLES_SINGLE};
    const char *text = json_object_to_json_string(row.value);
    if (CHECK_OK(weft_dataset_parse(text, strlen(text), "row.jsonl", tokenizer, &o, 0, &d, NULL)))
        compare(line, &expected, d, tokenizer);
    weft_dataset_free(d);
}

static void layouts_of_other_programs(void)
{
    const char *folder = check_source("examples/storyteller");
    weft_tokenizer *tokenizer = NULL;
    weft_chat *chat = NULL;
    weft__json_doc golden = {0};
    char *text = NULL;
    size_t size = 0, n = 0;
    if (CHECK_OK(weft_tokenizer_load(folder, &tokenizer)) &&
        CHECK_OK(weft_chat_load(folder, &chat)) &&
        CHECK_OK(weft__json_read(check_source("tests/golden/train/row_layouts.json"), &golden)) &&
        CHECK_OK(weft_file_read(check_source("tests/golden/train/row_layouts.jsonl"), 0, &text,
                                &size))) {
        const weft__json all = weft__json_root(&golden);
        for (const char *at = text; at < text + size; n++) {
            const char *end = memchr(at, '\n', (size_t)(text + size - at));
            weft__json_doc doc = {0};
            weft__json theirs;
            if (!CHECK(end != NULL) ||
                !CHECK_OK(weft__json_parse(at, (size_t)(end - at), "row_layouts.jsonl", &doc)))
                break;
            const weft__json line = weft__json_root(&doc);
            if (CHECK_OK(weft__json_at(&all, n, &theirs)))
                compare_line(&line, &theirs, tokenizer, chat);
            weft__json_free(&doc);
            at = end + 1;
        }
        CHECK(n >= LEAST_ROWS);
    }
    weft_free(text);
    weft__json_free(&golden);
    weft_chat_free(chat);
    weft_tokenizer_free(tokenizer);
}

CHECK_MAIN("row_layouts", CHECK_CASE(layouts_of_other_programs))
