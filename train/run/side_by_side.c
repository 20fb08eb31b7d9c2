/* train/run/side_by_side.c -- several runs side by side: their results, the options that
 * differ, and their curves on one page. */
#include <math.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/list.h"
#include "train/run/history.h"
#include "train/run/number.h"
#include "train/run/page.h"
#include "train/run/panels.h"
#include "train/run/report.h"
#include "train/run/settings.h"
#include "weft/memory.h"

/* ---- rows ----------------------------------------------------------------------------------- */

/* Adds a row without values; NULL: out of memory. */
static weft_history_row *new_row(weft_history_table *table, const char *name, bool option)
{
    weft_history_row row = {.option = option};
    if (!weft__list_more(table->rows, table->n_rows))
        return NULL;
    row.name = weft_strdup(name);
    row.values = weft_calloc((size_t)table->n_runs, sizeof *row.values);
    table->rows[table->n_rows++] = row;
    return row.name && row.values ? &table->rows[table->n_rows - 1] : NULL;
}

static bool set_value(weft_history_row *row, int run, weft__text *value)
{
    row->values[run] = value->failed ? NULL : weft_strdup(value->at ? value->at : "");
    weft_free(value->at);
    *value = (weft__text){0};
    return row->values[run] != NULL;
}

/* Writes a result of a run as text; writes nothing if it is unknown. */
typedef void describe(weft__text *t, const weft_history *h);

static void add_state(weft__text *t, const weft_history *h)
{
    weft__text_format(t, "%s", weft_printable(weft__history_text(h, NULL, "state")));
}

static void add_title(weft__text *t, const weft_history *h)
{
    weft__report_title(t, h);
}

static void add_updates(weft__text *t, const weft_history *h)
{
    const weft_curve *c = weft_history_find(h, "lr");
    const double planned = weft__history_number(h, "options", "steps");
    weft__page_count(t, c ? c->x[c->n - 1] : 0);
    if (isfinite(planned)) {
        weft__text_format(t, " of ");
        weft__page_count(t, planned);
    }
}

static void add_outcome(weft__text *t, const weft_history *h)
{
    char number[WEFT__NUMBER_TEXT];
    const weft__outcome o = weft__history_outcome(h);
    if (o.what == NULL)
        return;
    weft__text_format(t, "%s to ", weft__decimals(o.first, 4, number));
    weft__text_format(t, "%s", weft__decimals(o.last, 4, number));
}

static void add_best(weft__text *t, const weft_history *h)
{
    char number[WEFT__NUMBER_TEXT];
    const weft__outcome o = weft__history_outcome(h);
    if (isnan(o.best))
        return;
    weft__text_format(t, "%s at ", weft__decimals(o.best, 4, number));
    weft__page_count(t, o.best_at);
}

static void add_range(weft__text *t, const weft_history *h, const char *metric)
{
    char number[WEFT__NUMBER_TEXT];
    const weft__summary s = weft__history_summary(h, metric);
    if (s.n < 2)
        return;
    weft__text_format(t, "%s to ", weft__decimals(s.first, 4, number));
    weft__text_format(t, "%s", weft__decimals(s.last, 4, number));
}

static void add_general(weft__text *t, const weft_history *h)
{
    add_range(t, h, "general_loss");
}

static void add_accuracy(weft__text *t, const weft_history *h)
{
    add_range(t, h, "validation_accuracy");
}

static void add_loss(weft__text *t, const weft_history *h)
{
    char number[WEFT__NUMBER_TEXT];
    weft_curve c;
    if (!weft__history_smoothed(h, "loss", &c))
        return;
    weft__text_format(t, "%s to ", weft__decimals(c.y[0], 4, number));
    weft__text_format(t, "%s", weft__decimals(c.y[c.n - 1], 4, number));
    weft_free((void *)c.y);
}

/* Adds the last value of a metric. */
static void add_last(weft__text *t, const weft_history *h, const char *metric,
                     void (*add)(weft__text *t, double value))
{
    const weft__summary s = weft__history_summary(h, metric);
    if (s.n > 0)
        add(t, s.last);
}

static void add_tokens(weft__text *t, const weft_history *h)
{
    add_last(t, h, "total_tokens", weft__page_count);
}

static void add_time(weft__text *t, const weft_history *h)
{
    add_last(t, h, "seconds", weft__page_time);
}

static void add_speed(weft__text *t, const weft_history *h)
{
    add_last(t, h, "tokens_per_second", weft__page_count);
}

static void add_memory(weft__text *t, const weft_history *h)
{
    add_last(t, h, "peak_memory", weft__page_bytes);
}

static void add_trained(weft__text *t, const weft_history *h)
{
    const double n = weft__history_number(h, "model", "trainable");
    if (isfinite(n))
        weft__page_count(t, n);
}

static const struct {
    const char *name;
    describe *of;
} results[] = {{"model and data", add_title},
               {"state", add_state},
               {"updates", add_updates},
               {"validation", add_outcome},
               {"best validation", add_best},
               {"validation accuracy", add_accuracy},
               {"training loss, smoothed", add_loss},
               {"general text", add_general},
               {"trained parameters", add_trained},
               {"tokens", add_tokens},
               {"time", add_time},
               {"tokens/s", add_speed},
               {"peak memory", add_memory}};

/* Leaves out rows without a value. */
static bool add_results(weft_history_table *table, weft_history *const *runs)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        weft_history_row *row = new_row(table, results[i].name, false);
        bool any = false;
        for (int r = 0; row && r < table->n_runs; r++) {
            weft__text t = {0};
            results[i].of(&t, runs[r]);
            any = any || t.n > 0;
            if (!set_value(row, r, &t))
                row = NULL;
        }
        if (row == NULL)
            return false;
        if (any)
            continue;
        for (int r = 0; r < table->n_runs; r++)
            weft_free(row->values[r]);
        weft_free(row->values);
        weft_free(row->name);
        table->n_rows--;
    }
    return true;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Adds a value to that of an option of a run, which may be given several times. */
static bool add_option(weft_history_table *table, int from, const char *name, int run,
                       const char *value)
{
    int i = from;
    while (i < table->n_rows && strcmp(table->rows[i].name, name) != 0)
        i++;
    weft_history_row *row = i < table->n_rows ? &table->rows[i] : new_row(table, name, true);
    if (row == NULL)
        return false;
    char *before = row->values[run];
    row->values[run] = before ? weft_format("%s, %s", before, value) : weft_strdup(value);
    weft_free(before);
    return row->values[run] != NULL;
}

/* The options and arguments of the command line. */
static bool add_command(weft_history_table *table, int from, const weft_history *h, int run)
{
    weft__options o = {.words = weft__history_member(h, NULL, "command")};
    bool added = true;
    while (added && weft__options_next(&o)) {
        const char *name = o.name ? o.name : "model";
        added = weft__option_effect(name) == WEFT__OF_PLACE ||
                add_option(table, from, name, run, o.value ? o.value : "yes");
    }
    return added;
}

/* The members of "options", of runs that other programs than the command made. */
static bool add_settings(weft_history_table *table, int from, const weft_history *h, int run)
{
    json_object *options = weft__history_member(h, NULL, "options");
    if (!json_object_is_type(options, json_type_object))
        return true;
    json_object_object_foreach(options, name, value)
    {
        if (!add_option(table, from, name, run,
                        json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                                  JSON_C_TO_STRING_NOSLASHESCAPE)))
            return false;
    }
    return true;
}

static bool is_same(const weft_history_row *row, int n_runs)
{
    for (int r = 1; r < n_runs; r++) {
        const char *a = row->values[0], *b = row->values[r];
        if ((a == NULL) != (b == NULL) || (a && strcmp(a, b) != 0))
            return false;
    }
    return true;
}

static void free_row(weft_history_row *row, int n_runs)
{
    for (int r = 0; row->values && r < n_runs; r++)
        weft_free(row->values[r]);
    weft_free(row->values);
    weft_free(row->name);
}

/* Adds the options, and removes those that all runs share. */
static bool add_options(weft_history_table *table, weft_history *const *runs)
{
    const int from = table->n_rows;
    bool commands = true;
    for (int r = 0; r < table->n_runs; r++)
        commands = commands && json_object_is_type(weft__history_member(runs[r], NULL, "command"),
                                                   json_type_array);
    for (int r = 0; r < table->n_runs; r++) {
        const bool added =
            commands ? add_command(table, from, runs[r], r) : add_settings(table, from, runs[r], r);
        if (!added)
            return false;
    }
    int kept = from;
    for (int i = from; i < table->n_rows; i++) {
        if (is_same(&table->rows[i], table->n_runs))
            free_row(&table->rows[i], table->n_runs);
        else
            table->rows[kept++] = table->rows[i];
    }
    table->n_rows = kept;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* The last component of each folder, or the folders themselves if two are equal. */
static bool add_labels(weft_history_table *table, weft_history *const *runs)
{
    bool unique = true;
    table->labels = weft_calloc((size_t)table->n_runs, sizeof *table->labels);
    for (int r = 0; table->labels && r < table->n_runs; r++) {
        size_t n, m;
        const char *name = weft__page_base(runs[r]->folder, &n);
        for (int k = 0; k < r; k++) {
            const char *other = weft__page_base(runs[k]->folder, &m);
            unique = unique && !(n == m && strncmp(name, other, n) == 0);
        }
    }
    for (int r = 0; table->labels && r < table->n_runs; r++) {
        size_t n = strlen(runs[r]->folder);
        const char *name = unique ? weft__page_base(runs[r]->folder, &n) : runs[r]->folder;
        table->labels[r] = weft_format("%.*s", (int)n, name);
        if (table->labels[r] == NULL)
            return false;
    }
    return table->labels != NULL;
}

weft_status weft_histories_compare(weft_history *const *runs, int n, weft_history_table *out)
{
    *out = (weft_history_table){.n_runs = n};
    if (n < 1 || n > WEFT_MOST_HISTORIES)
        return weft_fail(WEFT_INVALID, "report: expected 1 to %d runs, got %d", WEFT_MOST_HISTORIES,
                         n);
    if (add_labels(out, runs) && add_results(out, runs) && add_options(out, runs))
        return WEFT_OK;
    weft_history_table_free(out);
    return weft__out_of_memory("report", NULL);
}

void weft_history_table_free(weft_history_table *table)
{
    for (int i = 0; i < table->n_rows; i++)
        free_row(&table->rows[i], table->n_runs);
    for (int r = 0; table->labels && r < table->n_runs; r++)
        weft_free(table->labels[r]);
    weft_free(table->rows);
    weft_free(table->labels);
    *table = (weft_history_table){.n_runs = 0};
}

/* ---- the page ------------------------------------------------------------------------------- */

/* The rows that are options, or those that are results. */
static void add_rows(weft__text *t, const weft_history_table *table, bool options)
{
    weft__text_format(t, "<div class=\"wide\"><table class=\"runs\"><thead><tr><th></th>");
    for (int r = 0; r < table->n_runs; r++) {
        weft__text_format(t, "<th>");
        weft__page_escape(t, table->labels[r]);
        weft__text_format(t, "</th>");
    }
    weft__text_format(t, "</tr></thead>\n");
    for (int i = 0; i < table->n_rows; i++) {
        const weft_history_row *row = &table->rows[i];
        if (row->option != options)
            continue;
        weft__text_format(t, "<tr><th>");
        weft__page_escape(t, row->name);
        weft__text_format(t, "</th>");
        for (int r = 0; r < table->n_runs; r++) {
            weft__text_format(t, "<td>");
            weft__page_escape(t, row->values[r] ? row->values[r] : "not given");
            weft__text_format(t, "</td>");
        }
        weft__text_format(t, "</tr>\n");
    }
    weft__text_format(t, "</table></div>\n");
}

weft_status weft__report_compare(weft_history *const *runs, int n, const char *path)
{
    weft_history_table table;
    weft__text t = {0};
    const weft_status status = weft_histories_compare(runs, n, &table);
    if (status != WEFT_OK)
        return status;
    const int last = table.n_rows - 1;
    weft__page_begin(&t, "side by side");
    weft__text_format(&t, "<h1>%d runs side by side</h1>\n", n);
    add_rows(&t, &table, false);
    weft__text_format(&t, "<h2>Options that differ</h2>\n");
    if (last >= 0 && table.rows[last].option)
        add_rows(&t, &table, true);
    else
        weft__text_format(&t, "<p>The runs have the same options.</p>\n");
    weft__text_format(&t, "<h2>Curves</h2>\n");
    weft__panels_draw(&t, runs, (const char *const *)table.labels, n);
    weft__page_end(&t);
    weft_history_table_free(&table);
    return weft__page_write(&t, path);
}
