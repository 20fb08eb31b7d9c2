/* cli/eval_choices.c -- weft eval --task choices: the choice with the highest log-probability. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"

#include "cli/text.h"

enum { ROWS = 32 }; /* rows scored in one call */

/* The requests for several rows. The choices of a row are adjacent. */
typedef struct block {
    const weft_task_row *rows;
    int n_rows, n;
    weft_score_request *requests; /* (n) own their ids */
    weft_scored *results;
} block;

static void free_block(block *b)
{
    for (int i = 0; b->requests != NULL && i < b->n; i++)
        weft_free((int32_t *)b->requests[i].text.ids);
    if (b->results != NULL)
        weft_scored_free(b->results, (size_t)b->n);
    free(b->requests);
    free(b->results);
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t trimmed(const char *text)
{
    size_t n = strlen(text);
    while (n > 0 && is_space(text[n - 1]))
        n--;
    return n;
}

/* Makes the requests of a row. As in lm-evaluation-harness, prompt and choice are encoded together,
 * and the choice starts after as many tokens as the prompt has when encoded alone. White space at
 * the end of the prompt belongs to the choice. */
static weft_status add_row(const eval_run *run, const weft_task_row *row,
                           weft_score_request *requests)
{
    char *prompt;
    const bool special = !eval_is_spoken(run, row);
    int32_t *ids = NULL;
    size_t n = 0;
    weft_status status = eval_prompt(run, row, &prompt);
    const unsigned flags = special ? WEFT_TOKENIZER_ADD_SPECIAL : 0;
    const size_t length = status == WEFT_OK ? trimmed(prompt) : 0;
    if (status == WEFT_OK)
        status = weft_tokenizer_encode(run->tokenizer, prompt, length, flags, &ids, &n);
    weft_free(ids);
    for (int i = 0; status == WEFT_OK && i < row->n_texts; i++) {
        const bool apart = special && prompt[length] == '\0' && !is_space(row->texts[i][0]);
        char *text = weft_format("%s%s%s", prompt, apart ? " " : "", row->texts[i]);
        if (text == NULL) {
            status = weft_fail(WEFT_MEMORY, "eval: out of memory for a choice");
            break;
        }
        weft_score_request *r = &requests[i];
        status = weft_tokenizer_encode(run->tokenizer, text, strlen(text), flags, &ids, &r->text.n);
        r->text.ids = ids;
        r->from = n < r->text.n ? n : r->text.n - 1;
        weft_free(text);
        if (status == WEFT_OK && r->from == 0)
            status = weft_fail(WEFT_INVALID,
                               "%s: no token is in front of the choices: expected a longer "
                               "prompt",
                               row->where);
    }
    weft_free(prompt);
    return status;
}

static weft_status score(const eval_run *run, block *b)
{
    for (int i = 0; i < b->n_rows; i++)
        b->n += b->rows[i].n_texts;
    b->requests = calloc((size_t)b->n, sizeof *b->requests);
    b->results = calloc((size_t)b->n, sizeof *b->results);
    if (b->requests == NULL || b->results == NULL)
        return weft_fail(WEFT_MEMORY, "eval: out of memory for %d choices", b->n);
    weft_status status = WEFT_OK;
    for (int i = 0, at = 0; status == WEFT_OK && i < b->n_rows; at += b->rows[i++].n_texts)
        status = add_row(run, &b->rows[i], b->requests + at);
    if (status == WEFT_OK)
        status = weft_score(run->model, b->requests, (size_t)b->n, NULL, b->results);
    for (int i = 0, at = 0; status == WEFT_OK && i < b->n_rows; at += b->rows[i++].n_texts) {
        for (int k = 0; status == WEFT_OK && k < b->rows[i].n_texts; k++) {
            const weft_scored *s = &b->results[at + k];
            if (s->status != WEFT_OK)
                status = weft_fail(s->status, "%s: %s", b->rows[i].where, s->message);
        }
    }
    return status;
}

/* The first choice with the largest log-probability; with `normalized`, divided by the number of
 * characters. */
static int best(const weft_task_row *row, const weft_scored *s, bool normalized)
{
    int found = 0;
    double most = -INFINITY;
    for (int i = 0; i < row->n_texts; i++) {
        const double value = s[i].logprob / (normalized ? cli_characters(row->texts[i]) : 1);
        if (value > most) {
            most = value;
            found = i;
        }
    }
    return found;
}

static void print_details(const eval_run *run, const weft_task_row *row, const weft_scored *s,
                          const int chosen[2])
{
    FILE *f = run->details;
    fputs("{\"model\": ", f);
    cli_json_text(f, run->subject->name, strlen(run->subject->name));
    fprintf(f,
            ", \"line\": %lld, \"answer\": %d, \"chosen\": %d, \"chosen_norm\": %d, "
            "\"logprobs\": [",
            (long long)row->number, row->answer, chosen[0], chosen[1]);
    for (int i = 0; i < row->n_texts; i++) {
        fputs(i > 0 ? ", " : "", f);
        cli_json_number(f, s[i].logprob);
    }
    fputs("]}\n", f);
}

weft_status eval_choices(const eval_run *run, const weft_task_rows *rows, eval_result *out)
{
    double *scores[2] = {calloc(rows->n, sizeof(double)), calloc(rows->n, sizeof(double))};
    weft_status status = WEFT_OK;
    if (scores[0] == NULL || scores[1] == NULL)
        status = weft_fail(WEFT_MEMORY, "eval: out of memory for %zu rows", rows->n);
    for (size_t i = 0; status == WEFT_OK && i < rows->n; i += ROWS) {
        block b = {.rows = rows->at + i, .n_rows = (int)(rows->n - i < ROWS ? rows->n - i : ROWS)};
        status = score(run, &b);
        for (int k = 0, at = 0; status == WEFT_OK && k < b.n_rows; at += b.rows[k++].n_texts) {
            const weft_task_row *row = &b.rows[k];
            const int chosen[2] = {best(row, b.results + at, false),
                                   best(row, b.results + at, true)};
            for (int m = 0; m < 2; m++)
                scores[m][i + (size_t)k] = chosen[m] == row->answer;
            if (run->details)
                print_details(run, row, b.results + at, chosen);
        }
        cli_progress_show(run->progress, (double)(i + (size_t)b.n_rows) / (double)rows->n, false,
                          "%s: %s of %s rows", run->subject->name, cli_count((int64_t)i + b.n_rows),
                          cli_count((int64_t)rows->n));
        free_block(&b);
    }
    if (status != WEFT_OK) {
        free(scores[0]);
        free(scores[1]);
        return status;
    }
    eval_add_scores(out, "acc", scores[0], (int64_t)rows->n);
    eval_add_scores(out, "acc_norm", scores[1], (int64_t)rows->n);
    return WEFT_OK;
}
