/* cli/report.c -- weft report: shows the curves and the result of training runs, side by side if
 * there are several, and writes them for other programs. */
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/lines.h"
#include "cli/plot.h"
#include "cli/shared.h"
#include "cli/text.h"

/* ---- curves --------------------------------------------------------------------------------- */

/* The curve of a metric with another name, smoothed in new memory if `smooth`; without points if
 * the metric is missing or memory is out. */
static weft_curve curve_of(const weft_history *run, const char *metric, const char *name,
                           bool smooth)
{
    const weft_curve *found = weft_history_find(run, metric);
    weft_curve curve = {.name = name};
    if (found == NULL)
        return curve;
    curve = *found;
    curve.name = name;
    if (!smooth)
        return curve;
    double *y = malloc((size_t)curve.n * sizeof *y);
    if (y)
        weft_curve_smooth(found, y);
    curve.y = y;
    curve.n = y ? curve.n : 0;
    return curve;
}

static const char *validation_of(const weft_history *run)
{
    return weft_history_find(run, "validation_reward") ? "validation_reward" : "validation_loss";
}

/* Draws the training loss, smoothed as in report.html, and the validation of a run. */
static void draw_one(const weft_history *run)
{
    weft_curve curves[] = {curve_of(run, "loss", "training, smoothed", true),
                           curve_of(run, validation_of(run), "validation", false)};
    const cli_plot_style style = cli_plot_style_of_stdout();
    curves[1].dots = true;
    cli_plot(stdout, curves, curves[1].n > 0 ? 2 : 1, &style);
    if (curves[0].n > 0)
        free((void *)curves[0].y);
}

/* Draws the validation of the runs, or their training loss if one has no validation. */
static void draw_several(weft_history *const *runs, const weft_history_table *table)
{
    weft_curve curves[WEFT_MOST_HISTORIES];
    const cli_plot_style style = cli_plot_style_of_stdout();
    const char *metric = validation_of(runs[0]);
    for (int r = 0; r < table->n_runs; r++) {
        const weft_curve *c = weft_history_find(runs[r], metric);
        if (c == NULL || c->n < 2)
            metric = "loss";
    }
    const bool smooth = strcmp(metric, "loss") == 0;
    for (int r = 0; r < table->n_runs; r++)
        curves[r] = curve_of(runs[r], metric, table->labels[r], smooth);
    puts(smooth                                   ? "training loss, smoothed"
         : strcmp(metric, "validation_loss") == 0 ? "validation loss"
                                                  : "validation reward");
    cli_plot(stdout, curves, table->n_runs, &style);
    for (int r = 0; smooth && r < table->n_runs; r++) {
        if (curves[r].n > 0)
            free((void *)curves[r].y);
    }
}

weft_status report_plot(const char *folder)
{
    weft_history *run;
    const weft_status status = weft_history_load(folder, &run);
    if (status == WEFT_OK)
        draw_one(run);
    weft_history_free(run);
    return status;
}

/* ---- one run -------------------------------------------------------------------------------- */

static double number_of(json_object *object, const char *key)
{
    json_object *value = NULL;
    const bool number =
        json_object_object_get_ex(object, key, &value) &&
        (json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int));
    return number ? json_object_get_double(value) : (double)NAN;
}

static const char *text_of(json_object *object, const char *key)
{
    json_object *value = NULL;
    const char *text =
        json_object_object_get_ex(object, key, &value) ? cli_plain_text(value) : NULL;
    return text ? weft_printable(text) : "";
}

static void print_run(const char *folder, json_object *run)
{
    json_object *result = json_object_object_get(run, "result"),
                *options = json_object_object_get(run, "options");
    const double steps = number_of(result, "steps"), planned = number_of(options, "steps");
    printf("%s: %s", weft_printable(folder), text_of(run, "state"));
    if (*text_of(run, "message"))
        printf(" (%s)", text_of(run, "message"));
    if (isfinite(steps))
        printf(", %.0f of %.0f updates, %s tokens in %s", steps, planned,
               cli_count((int64_t)fmax(number_of(result, "tokens"), 0)),
               cli_time(number_of(result, "seconds")));
    putchar('\n');
    if (isfinite(number_of(result, "best_validation")))
        printf("validation loss %.4f before, %.4f after, best %.4f at update %.0f\n",
               number_of(result, "first_validation"), number_of(result, "last_validation"),
               number_of(result, "best_validation"), number_of(result, "best_step"));
    else if (isfinite(number_of(result, "best_validation_reward")))
        printf("validation reward %.4f before, %.4f after, best %.4f at update %.0f\n",
               number_of(result, "first_validation_reward"),
               number_of(result, "last_validation_reward"),
               number_of(result, "best_validation_reward"), number_of(result, "best_step"));
    else if (isfinite(number_of(result, "loss")))
        printf("loss %.4f at the last update\n", number_of(result, "loss"));
    report_general(number_of(result, "first_general"), number_of(result, "last_general"));
    printf("report %s/report.html\n", weft_printable(folder));
}

void report_general(double first, double last)
{
    enum { MUCH = 10 }; /* percent */
    const double change = 100 * (last / first - 1);
    if (!isfinite(first) || !isfinite(last))
        return;
    printf("general text: loss %.4f before, %.4f after (%+.1f%%)%s\n", first, last, change,
           change >= MUCH ? ": the model forgets (docs/fine-tuning.md#what-the-model-forgets)"
                          : "");
}

/* ---- several runs --------------------------------------------------------------------------- */

static const char *value_of(const weft_history_row *row, int run)
{
    return row->values[run] ? weft_printable(row->values[run]) : "-";
}

static void print_padded(const char *text, int width)
{
    const int room = width - cli_characters(text);
    printf("%s%*s", text, room > 0 ? room : 0, "");
}

/* Prints a table with a column for each run or, if that is too wide, a line for each value. */
static void print_table(const weft_history_table *t)
{
    enum { GAP = 2, MOST = 100 };
    int widths[WEFT_MOST_HISTORIES], name = 0, total = 0;
    for (int i = 0; i < t->n_rows; i++)
        name = cli_characters(t->rows[i].name) > name ? cli_characters(t->rows[i].name) : name;
    for (int r = 0; r < t->n_runs; r++) {
        widths[r] = cli_characters(weft_printable(t->labels[r]));
        for (int i = 0; i < t->n_rows; i++) {
            const int width = cli_characters(value_of(&t->rows[i], r));
            widths[r] = width > widths[r] ? width : widths[r];
        }
        total += widths[r] + GAP;
    }
    const int most = isatty(STDOUT_FILENO) ? cli_plot_style_of_stdout().columns : MOST;
    const bool wide = name + total > most;
    if (!wide)
        print_padded("", name);
    for (int r = 0; !wide && r < t->n_runs; r++) {
        printf("%*s", GAP, "");
        print_padded(weft_printable(t->labels[r]), r + 1 < t->n_runs ? widths[r] : 0);
    }
    fputs(wide ? "" : "\n", stdout);
    for (int i = 0; i < t->n_rows; i++) {
        const weft_history_row *row = &t->rows[i];
        if (row->option && (i == 0 || !t->rows[i - 1].option))
            puts("options that differ:");
        print_padded(weft_printable(row->name), wide ? 0 : name);
        for (int r = 0; r < t->n_runs; r++) {
            if (wide)
                printf("\n  %s: ", weft_printable(t->labels[r]));
            else
                printf("%*s", GAP, "");
            print_padded(value_of(row, r), wide || r + 1 == t->n_runs ? 0 : widths[r]);
        }
        putchar('\n');
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void print_text(const char *text)
{
    if (text)
        cli_json_text(stdout, text, strlen(text));
    else
        fputs("null", stdout);
}

/* First, last, least and largest value of every metric. */
static void print_metrics(const weft_history *run)
{
    const weft_curve *c;
    fputs("\"metrics\": {", stdout);
    for (int i = 0; (c = weft_history_curve(run, i)) != NULL; i++) {
        double least = c->y[0], most = c->y[0];
        for (int k = 1; k < c->n; k++) {
            least = fmin(least, c->y[k]);
            most = fmax(most, c->y[k]);
        }
        const struct {
            const char *name;
            double value;
        } values[] = {
            {"first", c->y[0]}, {"last", c->y[c->n - 1]}, {"least", least}, {"largest", most}};
        fputs(i > 0 ? ", " : "", stdout);
        print_text(c->name);
        printf(": {\"lines\": %d", c->n);
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            printf(", \"%s\": ", values[k].name);
            cli_json_number(stdout, values[k].value);
        }
        putchar('}');
    }
    putchar('}');
}

static void print_json(weft_history *const *runs, json_object *const *records,
                       const weft_history_table *t)
{
    static const char *const members[] = {"state",   "message", "model", "data",
                                          "options", "command", "result"};
    fputs("{\"runs\": [", stdout);
    for (int r = 0; r < t->n_runs; r++) {
        fputs(r > 0 ? ", {\"folder\": " : "{\"folder\": ", stdout);
        print_text(weft_history_folder(runs[r]));
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            json_object *value = json_object_object_get(records[r], members[i]);
            printf(", \"%s\": %s", members[i],
                   json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                             JSON_C_TO_STRING_NOSLASHESCAPE));
        }
        fputs(", ", stdout);
        print_metrics(runs[r]);
        putchar('}');
    }
    fputs("], \"differences\": {", stdout);
    bool first = true;
    for (int i = 0; i < t->n_rows; i++) {
        if (!t->rows[i].option)
            continue;
        fputs(first ? "" : ", ", stdout);
        first = false;
        print_text(t->rows[i].name);
        for (int r = 0; r < t->n_runs; r++) {
            fputs(r > 0 ? ", " : ": [", stdout);
            print_text(t->rows[i].values[r]);
        }
        putchar(']');
    }
    puts("}}");
}

/* ---- the command ---------------------------------------------------------------------------- */

typedef struct report_values {
    cli_words folders;
    const char *html, *csv, *events;
    bool json;
} report_values;

typedef struct report {
    weft_history *runs[WEFT_MOST_HISTORIES];
    json_object *records[WEFT_MOST_HISTORIES]; /* run.json of each */
    int n;
    weft_history_table table;
} report;

static weft_status open_run(report *r, const char *folder)
{
    const weft_status status = weft_history_load(folder, &r->runs[r->n]);
    if (status != WEFT_OK)
        return status;
    const char *json = weft_history_json(r->runs[r->n]);
    r->records[r->n] = cli_parse_json(json, strlen(json));
    r->n++;
    return WEFT_OK;
}

static weft_status write_files(const report_values *v, const report *r)
{
    weft_status status = WEFT_OK;
    if (v->html)
        status = weft_histories_page(r->runs, r->n, v->html);
    if (status == WEFT_OK && v->csv)
        status = weft_histories_csv(r->runs, r->n, v->csv);
    if (status == WEFT_OK && v->events)
        status = weft_histories_events(r->runs, r->n, v->events);
    return status;
}

static void print(const report_values *v, const report *r)
{
    if (v->json) {
        print_json(r->runs, r->records, &r->table);
        return;
    }
    if (r->n == 1) {
        draw_one(r->runs[0]);
        print_run(weft_history_folder(r->runs[0]), r->records[0]);
    } else {
        draw_several(r->runs, &r->table);
        print_table(&r->table);
    }
    if (v->html)
        printf("page %s\n", weft_printable(v->html));
    if (v->csv)
        printf("metrics %s\n", weft_printable(v->csv));
    if (v->events)
        printf("for tensorboard --logdir %s\n", weft_printable(v->events));
}

static weft_status show(const report_values *v, report *r)
{
    weft_status status = WEFT_OK;
    if (v->folders.n == 0)
        status = open_run(r, "weft-run");
    for (int i = 0; status == WEFT_OK && i < v->folders.n; i++)
        status = open_run(r, v->folders.at[i]);
    if (status == WEFT_OK)
        status = weft_histories_compare(r->runs, r->n, &r->table);
    if (status == WEFT_OK && r->n == 1 && !v->json)
        status = weft_run_report(weft_history_folder(r->runs[0]));
    if (status == WEFT_OK)
        status = write_files(v, r);
    if (status == WEFT_OK)
        print(v, r);
    return status;
}

static int run(void *context)
{
    const report_values *v = context;
    report r = {.n = 0};
    if (v->folders.n > WEFT_MOST_HISTORIES)
        return cli_usage("report", "at most %d runs can be laid side by side, got %d",
                         WEFT_MOST_HISTORIES, v->folders.n);
    const int code = cli_status(show(v, &r));
    for (int i = 0; i < r.n; i++) {
        weft_history_free(r.runs[i]);
        json_object_put(r.records[i]);
    }
    weft_history_table_free(&r.table);
    return code;
}

static const cli_argument arguments[] = {{"DIR", offsetof(report_values, folders), CLI_MANY}};

#define AT(field) .offset = offsetof(report_values, field)

static const cli_option options[] = {
    CLI_TEXT_OPTION(
        "html", "FILE", AT(html),
        .help = "write the page to FILE; of several runs their table and their curves together"),
    CLI_TEXT_OPTION("csv", "FILE", AT(csv),
                    .help = "write the metrics to FILE as CSV, a line for each update"),
    CLI_TEXT_OPTION(
        "tensorboard", "FOLDER", AT(events),
        .help =
            "write the metrics as TensorBoard's event files; of several runs each into a folder "
            "in FOLDER"),
    CLI_JSON_OPTION(report_values, "print one JSON object and write no report.html"),
};

const cli_command cli_report = {
    .name = "report",
    .summary = "show the curves and the result of training runs",
    .description =
        "Draws the loss curve of the run in DIR (weft-run), finished or not: in braille on a "
        "UTF-8 terminal, else in ASCII. Writes DIR/report.html again, which has the result, the "
        "next commands, all curves, samples before and after, and the settings; it needs no "
        "network.\n\n"
        "Several runs, at most 8, are laid side by side: the result of each, the options that "
        "differ, and their curves in one plot.",
    .example = "weft report run\n"
               "weft report run wider --html both.html\n"
               "weft report run --csv run.csv --tensorboard boards",
    CLI_TABLE(report_values, arguments, options),
    .run = run,
};
