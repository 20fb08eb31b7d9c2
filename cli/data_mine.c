/* cli/data_mine.c -- weft data --mine-negatives: writes pairs with texts that are similar to their
 * anchors without being their positives. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/data_show.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "cli/shared.h"
#include "cli/train.h"
#include "cli/words.h"
#include "weft/memory.h"
#include "weft/retrieval.h"
#include "weft/task.h"

/* What is read, and lists of its texts. */
typedef struct reading {
    weft_task_rows pairs, corpus;
    const char **texts; /* anchors, positives, corpus */
    weft_mine_texts lists;
} reading;

static void close_reading(reading *r)
{
    weft_task_rows_free(&r->pairs);
    weft_task_rows_free(&r->corpus);
    free(r->texts);
}

static weft_status read_rows(const data_values *v, const weft_data_source *sources, int n,
                             weft_task_kind kind, weft_task_rows *out)
{
    weft_dataset_options given = {0};
    cli_data_options(&v->source, &given);
    const weft_task_options o = {.format =
                                     kind == WEFT_TASK_DOCUMENTS ? WEFT_DATA_AUTO : given.format,
                                 .max_bad_rows = given.max_bad_rows,
                                 .kind = kind};
    return weft_task_rows_load(sources, n, &o, out);
}

static weft_status read_corpus(const data_values *v, weft_task_rows *out)
{
    weft_data_source sources[CLI_MOST] = {{0}};
    const int n = v->mine.corpus.n;
    for (int i = 0; i < n; i++)
        sources[i].path = v->mine.corpus.at[i];
    weft_status status = cli_data_resolve(sources, n);
    if (status == WEFT_OK)
        status = read_rows(v, sources, n, WEFT_TASK_DOCUMENTS, out);
    cli_data_release(sources, n);
    return status;
}

static weft_status open_reading(const data_values *v, reading *r)
{
    weft_data_source sources[CLI_MOST];
    weft_status status = cli_data_open(&v->source, sources);
    if (status == WEFT_OK)
        status = read_rows(v, sources, v->source.paths.n, WEFT_TASK_COMPARED, &r->pairs);
    cli_data_release(sources, v->source.paths.n);
    if (status == WEFT_OK && v->mine.corpus.n > 0)
        status = read_corpus(v, &r->corpus);
    if (status != WEFT_OK)
        return status;
    const size_t n = r->pairs.n, m = r->corpus.n;
    r->texts = malloc((2 * n + m + 1) * sizeof *r->texts);
    if (r->texts == NULL)
        return weft_fail(WEFT_MEMORY, "data: out of memory for %zu texts", 2 * n + m);
    for (size_t i = 0; i < n; i++) {
        r->texts[i] = r->pairs.at[i].texts[0];
        r->texts[n + i] = r->pairs.at[i].texts[1];
    }
    for (size_t i = 0; i < m; i++)
        r->texts[2 * n + i] = r->corpus.at[i].texts[0];
    r->lists = (weft_mine_texts){r->texts, r->texts + n, (int64_t)n, r->texts + 2 * n, (int64_t)m};
    return WEFT_OK;
}

/* ---- what is written --------------------------------------------------------------------------
 */

static void put_text(FILE *file, const char *name, const char *text)
{
    fprintf(file, "%s\"%s\": ", strcmp(name, "anchor") == 0 ? "{" : ", ", name);
    cli_json_text(file, text, strlen(text));
}

/* Writes a row of pair p with its negatives [from, to). */
static void put_row(FILE *file, const mine_values *v, const weft_mined *m, int64_t p, int64_t from,
                    int64_t to)
{
    put_text(file, "anchor", m->anchors[p]);
    put_text(file, "positive", m->positives[p]);
    for (int64_t i = from; i < to; i++) {
        char name[40];
        snprintf(name, sizeof name, v->tuples ? "negative_%lld" : "negative", (long long)i + 1);
        put_text(file, name, m->negatives[p * m->num_negatives + i]);
    }
    if (v->scores)
        fprintf(file, ", \"cosines\": [%.9g", (double)m->positive_scores[p]);
    for (int64_t i = from; v->scores && i < to; i++)
        fprintf(file, ", %.9g", (double)m->scores[p * m->num_negatives + i]);
    fputs(v->scores ? "]}\n" : "}\n", file);
}

/* The negatives of a pair. */
static int64_t count(const weft_mined *m, int64_t p)
{
    int64_t n = 0;
    while (n < m->num_negatives && m->negatives[p * m->num_negatives + n])
        n++;
    return n;
}

/* Triplets, a row for each negative; or tuples, of pairs with all negatives. */
static int64_t put_rows(FILE *file, const mine_values *v, const weft_mined *m)
{
    int64_t rows = 0;
    for (int64_t p = 0; p < m->n; p++) {
        const int64_t n = count(m, p);
        for (int64_t i = 0; !v->tuples && i < n; i++)
            put_row(file, v, m, p, i, i + 1);
        if (v->tuples && n == m->num_negatives)
            put_row(file, v, m, p, 0, n);
        rows += v->tuples ? n == m->num_negatives : n;
    }
    return rows;
}

static weft_status write_rows(const mine_values *v, const weft_mined *m, int64_t *rows)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    *rows = file ? put_rows(file, v, m) : 0;
    weft_status status = file == NULL || fclose(file) != 0
                             ? weft_fail(WEFT_MEMORY, "data: out of memory for the rows")
                             : WEFT_OK;
    if (status == WEFT_OK && *rows == 0)
        status = weft_fail(WEFT_INVALID,
                           "--mine-negatives: no negatives within the limits were "
                           "found: %s is not written",
                           weft_printable(v->out));
    if (status == WEFT_OK)
        status = weft_file_write(v->out, text, size);
    free(text);
    return status;
}

static void print_result(const data_values *v, const weft_mined *m, int64_t rows)
{
    double positive = 0, negative = 0;
    int64_t found = 0, missing = 0;
    for (int64_t p = 0; p < m->n; p++) {
        const int64_t n = count(m, p);
        positive += (double)m->positive_scores[p];
        for (int64_t i = 0; i < n; i++)
            negative += (double)m->scores[p * m->num_negatives + i];
        found += n;
        missing += n < m->num_negatives;
    }
    positive /= (double)m->n;
    negative /= found > 0 ? (double)found : 1;
    if (v->json) {
        fputs("{\"out\": ", stdout);
        cli_json_text(stdout, v->mine.out, strlen(v->mine.out));
        printf(", \"rows\": %lld, \"anchors\": %lld, \"pairs\": %lld, \"documents\": %lld, "
               "\"negatives\": %lld, \"incomplete\": %lld, \"positive_cosine\": %.6g, "
               "\"negative_cosine\": %.6g, \"by_absolute_margin\": %lld, \"by_relative_margin\": "
               "%lld, \"by_max_score\": %lld, \"by_min_score\": %lld",
               (long long)rows, (long long)m->queries, (long long)m->n, (long long)m->documents,
               (long long)found, (long long)missing, positive, negative,
               (long long)m->by_absolute_margin, (long long)m->by_relative_margin,
               (long long)m->by_max_score, (long long)m->by_min_score);
        cli_place_json(stdout, &v->place);
        puts("}");
        return;
    }
    printf("%s: %s rows\n", weft_printable(v->mine.out), cli_count(rows));
    printf("pairs      %s of ", cli_count(m->n));
    printf("%s anchors, among ", cli_count(m->queries));
    printf("%s documents; mean cosine %.4f\n", cli_count(m->documents), positive);
    printf("negatives  %s; mean cosine %.4f", cli_count(found), negative);
    if (missing > 0)
        printf("; fewer than %lld for %s pairs", (long long)m->num_negatives, cli_count(missing));
    putchar('\n');
}

/* ---- running --------------------------------------------------------------------------------- */

static bool show(void *context, int64_t done, int64_t total)
{
    cli_progress_show(context, (double)done / (double)total, false, "%s of %s texts",
                      cli_count(done), cli_count(total));
    return true;
}

static weft_status mine(const data_values *v, const char *path, const weft_tokenizer *tokenizer,
                        const weft_embed_settings *settings, const reading *r, weft_mined *out)
{
    const mine_values *m = &v->mine;
    weft_model *model = NULL;
    cli_progress progress;
    const weft_mine_options o = {
        .num_negatives = m->num_negatives,
        .range_min = m->range_min,
        .range_max = m->range_max == CLI_ABSENT ? 0 : m->range_max,
        .max_score = isnan(m->max_score) ? NULL : &m->max_score,
        .min_score = isnan(m->min_score) ? NULL : &m->min_score,
        .absolute_margin = isnan(m->absolute_margin) ? NULL : &m->absolute_margin,
        .relative_margin = isnan(m->relative_margin) ? NULL : &m->relative_margin,
        .random = m->random,
        .seed = (uint64_t)v->seed,
        .settings = settings,
        .callback = show,
        .context = &progress,
    };
    weft_status status = cli_load_model(path, &v->place, v->adapter, &model);
    cli_progress_start(&progress);
    if (status == WEFT_OK)
        status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_mine_negatives(model, tokenizer, &r->lists, &o, out);
    cli_progress_clear(&progress);
    weft_model_free(model);
    return status;
}

weft_status data_mine(const data_values *v)
{
    char path[4096];
    reading r = {.texts = NULL};
    weft_tokenizer *tokenizer = NULL;
    weft_embed_settings settings = {0};
    weft_mined mined = {.n = 0};
    int64_t rows = 0;
    weft_status status = cli_check_out(v->mine.out, v->force);
    if (status == WEFT_OK)
        status = cli_check_input(v->mine.out, v->data);
    for (int i = 0; status == WEFT_OK && i < v->mine.corpus.n; i++)
        status = cli_check_input(v->mine.out, v->mine.corpus.at[i]);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, path, sizeof path);
    if (status == WEFT_OK)
        status = open_reading(v, &r);
    if (status == WEFT_OK)
        status = embed_open(path, v->adapter, &v->embed, &settings);
    if (status == WEFT_OK)
        status = weft_adapter_tokenizer(path, v->adapter, &tokenizer);
    if (cli_is_given(&cli_data, &v->given, "length"))
        settings.max_tokens = v->length;
    if (status == WEFT_OK)
        status = mine(v, path, tokenizer, &settings, &r, &mined);
    if (status == WEFT_OK)
        status = write_rows(&v->mine, &mined, &rows);
    if (status == WEFT_OK)
        print_result(v, &mined, rows);
    if (status == WEFT_OK && !v->json)
        cli_profile_print();
    weft_mined_free(&mined);
    weft_embed_settings_free(&settings);
    weft_tokenizer_free(tokenizer);
    close_reading(&r);
    return status;
}
