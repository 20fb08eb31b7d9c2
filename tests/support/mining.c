/* tests/support/mining.c -- compares mined negatives with those of sentence-transformers. */
#include "tests/support/mining.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/memory.h"
#include "weft/task.h"

static bool read_rows(const char *name, const char *end, weft_task_kind kind, weft_task_rows *out)
{
    char path[128];
    snprintf(path, sizeof path, "train/mining/%s%s.jsonl", name, end);
    const weft_data_source source = {.path = check_fixture(path)};
    return CHECK_OK(weft_task_rows_load(&source, 1, &(weft_task_options){.kind = kind}, out));
}

/* Text k of each row; the caller frees the list. */
static const char **column(const weft_task_rows *rows, int k)
{
    const char **texts = calloc(rows->n + 1, sizeof *texts);
    for (size_t i = 0; texts && i < rows->n; i++)
        texts[i] = rows->at[i].texts[k];
    return texts;
}

/* The number of equal rows from the first one on. */
static size_t count_equal(const weft_mined *m, const weft_task_rows *golden, bool tuples)
{
    const int64_t step = tuples ? m->num_negatives : 1;
    size_t at = 0;
    for (int64_t i = 0; i < m->n * m->num_negatives; i += step) {
        const int64_t p = i / m->num_negatives;
        const weft_task_row *row = &golden->at[at];
        if (m->negatives[i + step - 1] == NULL)
            continue;
        bool same = at < golden->n && row->n_texts == 2 + step &&
                    strcmp(row->texts[0], m->anchors[p]) == 0 &&
                    strcmp(row->texts[1], m->positives[p]) == 0;
        for (int64_t k = 0; same && k < step; k++)
            same = strcmp(row->texts[2 + k], m->negatives[i + k]) == 0;
        if (!same)
            return at;
        at++;
    }
    return at;
}

void check_mining(const char *model, const char *name, const char *golden,
                  const weft_mine_options *options, bool corpus, bool tuples)
{
    char end[64];
    weft_task_rows pairs = {0}, documents = {0}, expected = {0};
    weft_model *m = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_embed_settings settings = {0};
    weft_mined found = {0};
    snprintf(end, sizeof end, "-%s", golden);
    if (!read_rows(name, "", WEFT_TASK_COMPARED, &pairs) ||
        !read_rows(name, end, WEFT_TASK_COMPARED, &expected) ||
        (corpus && !read_rows(name, "-corpus", WEFT_TASK_DOCUMENTS, &documents)))
        return;
    const char **anchors = column(&pairs, 0), **positives = column(&pairs, 1),
               **texts = column(&documents, 0);
    weft_mine_options o = *options;
    o.settings = &settings;
    if (CHECK_OK(weft_model_load(model, NULL, &m)) &&
        CHECK_OK(weft_tokenizer_load(model, &tokenizer)) &&
        CHECK_OK(weft_embed_settings_load(model, NULL, &settings)) &&
        CHECK_OK(weft_mine_negatives(
            m, tokenizer,
            &(weft_mine_texts){anchors, positives, (int64_t)pairs.n, texts, (int64_t)documents.n},
            &o, &found))) {
        const size_t n = count_equal(&found, &expected, tuples);
        printf("  %s, %s: %zu of %zu rows\n", name, golden, n, expected.n);
        CHECK_EQ_INT(n, expected.n);
        CHECK(n > 5);
    }
    weft_mined_free(&found);
    weft_embed_settings_free(&settings);
    weft_tokenizer_free(tokenizer);
    weft_model_free(m);
    free(anchors);
    free(positives);
    free(texts);
    weft_task_rows_free(&pairs);
    weft_task_rows_free(&documents);
    weft_task_rows_free(&expected);
}
