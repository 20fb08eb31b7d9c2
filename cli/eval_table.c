/* cli/eval_table.c -- output of weft eval: a line, a table of several models, or JSON. */
#include <stdlib.h>
#include <string.h>

#include "cli/eval.h"
#include "cli/profile.h"

void eval_add_scores(eval_result *result, const char *name, double *scores, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += scores[i];
    const double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++)
        squares += (scores[i] - mean) * (scores[i] - mean);
    /* The sample standard deviation divided by sqrt(n), as in lm-evaluation-harness. */
    const double error = n > 1 ? sqrt(squares / (double)(n - 1) / (double)n) : (double)NAN;
    result->metrics[result->n_metrics++] = (eval_metric){name, mean, error, scores, true};
    result->n = n;
    result->rows = true;
}

/* The mean of the differences of two models' scores on the same rows, and its standard error: of
 * metric m. NaN if the numbers of rows differ. */
static eval_metric difference(const eval_result *result, const eval_result *first, int m)
{
    const eval_metric *a = &result->metrics[m], *base = &first->metrics[m];
    const int64_t n = result->n;
    const bool scored = a->scores && base->scores;
    eval_metric d = {
        .name = a->name, .value = a->value - base->value, .error = (double)NAN, .share = a->share};
    double squares = 0;
    if (result->rows && n != first->n) {
        d.value = (double)NAN;
        return d;
    }
    for (int64_t i = 0; scored && i < n; i++) {
        const double x = a->scores[i] - base->scores[i] - d.value;
        squares += x * x;
    }
    if (scored && n > 1)
        d.error = sqrt(squares / (double)(n - 1) / (double)n);
    return d;
}

/* ---- Text ----------------------------------------------------------------------------------- */

enum { CELL = 40 };

static void write_cell(const eval_metric *m, bool sign, char out[CELL])
{
    const double scale = m->share ? 100 : 1;
    const int digits = m->share || strcmp(m->name, "perplexity") == 0 ? 2 : 4;
    int n = snprintf(out, CELL, sign ? "%+.*f%s" : "%.*f%s", digits, scale * m->value,
                     m->share ? "%" : "");
    if (!isnan(m->error) && n > 0 && n < CELL)
        snprintf(out + n, (size_t)(CELL - n), " +/- %.*f", digits, scale * m->error);
}

/* Cell (row, column) of the table; row 0 is the head, columns are the name, the metrics and, for
 * all but the first model, their differences from it. */
static void write_table_cell(const eval_result *results, int row, int column, char out[CELL])
{
    const eval_result *r = &results[row > 0 ? row - 1 : 0];
    out[0] = '\0';
    if (column == 0) {
        snprintf(out, CELL, "%s", row > 0 ? weft_printable(r->name) : "model");
        return;
    }
    const int m = (column - 1) / 2;
    const bool change = (column - 1) % 2 == 1;
    if (row == 0) {
        snprintf(out, CELL, "%s", change ? "change" : r->metrics[m].name);
    } else if (!change) {
        write_cell(&r->metrics[m], false, out);
    } else if (row > 1) {
        const eval_metric d = difference(r, &results[0], m);
        if (!isnan(d.value))
            write_cell(&d, true, out);
    }
}

static void print_table(const eval_result *results, int n)
{
    const int columns = 1 + 2 * results[0].n_metrics;
    int widths[1 + 2 * EVAL_METRICS] = {0};
    char cell[CELL];
    for (int row = 0; row <= n; row++) {
        for (int c = 0; c < columns; c++) {
            write_table_cell(results, row, c, cell);
            const int length = (int)strlen(cell);
            widths[c] = length > widths[c] ? length : widths[c];
        }
    }
    for (int row = 0; row <= n; row++) {
        const int shown = row == 1 ? columns - 1 : columns; /* the first model has no difference */
        for (int c = 0; c < shown; c++) {
            write_table_cell(results, row, c, cell);
            printf(c == 0 ? "%-*s" : "  %*s", widths[c], cell);
        }
        putchar('\n');
    }
    printf("%s %s\n", cli_count(results[0].n), results[0].rows ? "rows" : "tokens");
}

static void print_line(const eval_values *v, const eval_result *r)
{
    if (r->chunks > 0) {
        printf("perplexity %.4f +/- %.5f, over %s tokens in %s chunks of %s, in %.1f s\n",
               r->metrics[1].value, r->metrics[1].error, cli_count(r->n), cli_count(r->chunks),
               cli_count(v->context), r->seconds);
        return;
    }
    if (!r->rows) {
        printf("loss %.4f +/- %.4f nats a token, perplexity %.2f, over %s tokens in %.1f s\n",
               r->metrics[0].value, r->metrics[0].error, r->metrics[1].value, cli_count(r->n),
               r->seconds);
        return;
    }
    for (int i = 0; i < r->n_metrics; i++) {
        char cell[CELL];
        write_cell(&r->metrics[i], false, cell);
        printf("%s %s, ", r->metrics[i].name, cell);
    }
    printf("over %s rows in %.1f s\n", cli_count(r->n), r->seconds);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void json_metric(const char *name, const char *suffix, double value)
{
    printf("\"%s%s\": ", name, suffix);
    cli_json_number(stdout, value);
    fputs(", ", stdout);
}

static void json_members(const eval_values *v, const eval_result *r, const eval_result *base)
{
    if (r->chunks > 0) {
        json_metric("uncertainty", "", r->metrics[1].error);
        printf("\"context\": %lld, \"chunks\": %lld, ", (long long)v->context,
               (long long)r->chunks);
    }
    for (int i = 0; i < r->n_metrics; i++) {
        const eval_metric *m = &r->metrics[i];
        json_metric(m->name, "", m->value);
        json_metric(m->name, "_stderr", m->error);
        if (r == base)
            continue;
        const eval_metric d = difference(r, base, i);
        json_metric(m->name, "_change", d.value);
        if (m->scores)
            json_metric(m->name, "_change_stderr", d.error);
    }
    printf("\"%s\": %lld, \"seconds\": %.6g", r->rows ? "rows" : "targets", (long long)r->n,
           r->seconds);
}

static void print_json(const eval_values *v, const eval_result *results, int n)
{
    putchar('{');
    if (n == 1)
        json_members(v, &results[0], &results[0]);
    else
        fputs("\"models\": [", stdout);
    for (int i = 0; n > 1 && i < n; i++) {
        fputs(i > 0 ? ", {\"name\": " : "{\"name\": ", stdout);
        cli_json_text(stdout, results[i].name, strlen(results[i].name));
        fputs(", ", stdout);
        json_members(v, &results[i], &results[0]);
        putchar('}');
    }
    printf("%s, \"peak_memory\": %lld", n > 1 ? "]" : "", (long long)weft_memory_peak_held());
    cli_place_json(stdout, &v->place);
    cli_profile_json(stdout);
    puts("}");
}

void eval_print(const eval_values *v, const eval_result *results, int n)
{
    if (v->json) {
        print_json(v, results, n);
        return;
    }
    if (n > 1)
        print_table(results, n);
    else
        print_line(v, &results[0]);
    cli_profile_print();
}
