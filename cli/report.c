/* cli/report.c -- weft report: shows the curves and the result of the training run in a folder. */
#include "cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/lines.h"
#include "cli/plot.h"

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

typedef struct points {
    double *x, *y;
    int n;
} points;

static bool find_number(json_object *object, const char *key, double *out)
{
    json_object *value = NULL;
    if (!json_object_object_get_ex(object, key, &value) ||
        (!json_object_is_type(value, json_type_double) &&
         !json_object_is_type(value, json_type_int)))
        return false;
    *out = json_object_get_double(value);
    return isfinite(*out);
}

static void add_line(const cli_line *line, points *loss, points *validation)
{
    json_object *object = cli_parse_json(line->text, line->length);
    double step, y;
    if (json_object_is_type(object, json_type_object) && find_number(object, "step", &step)) {
        if (find_number(object, "loss", &y)) {
            loss->x[loss->n] = step;
            loss->y[loss->n++] = y;
        }
        if (find_number(object, "validation_loss", &y) ||
            find_number(object, "validation_reward", &y)) {
            validation->x[validation->n] = step;
            validation->y[validation->n++] = y;
        }
    }
    json_object_put(object);
}

/* Applies an exponential moving average with a span of a twentieth of the run, at least 5 updates,
 * as in report.html. */
static void smooth(points *p)
{
    const int span = p->n / 20 > 5 ? p->n / 20 : 5;
    const double keep = 1 - 1 / (double)span;
    double sum = 0, weight = 0;
    for (int i = 0; i < p->n; i++) {
        sum = keep * sum + p->y[i];
        weight = keep * weight + 1;
        p->y[i] = sum / weight;
    }
}

weft_status report_plot(const char *folder)
{
    char *path = weft_format("%s/metrics.jsonl", folder);
    cli_lines lines = {0};
    weft_status status = path ? cli_lines_read(path, false, &lines)
                              : weft_fail(WEFT_MEMORY, "report: out of memory");
    const size_t n = lines.n + 1;
    double *room = status == WEFT_OK ? calloc(4 * n, sizeof *room) : NULL;
    if (status == WEFT_OK && room == NULL)
        status = weft_fail(WEFT_MEMORY, "report: out of memory for %zu updates", lines.n);
    if (status == WEFT_OK) {
        points loss = {room, room + n, 0}, validation = {room + 2 * n, room + 3 * n, 0};
        for (size_t i = 0; i < lines.n; i++)
            add_line(&lines.at[i], &loss, &validation);
        smooth(&loss);
        const cli_curve curves[] = {{"training, smoothed", loss.x, loss.y, loss.n, false},
                                    {"validation", validation.x, validation.y, validation.n, true}};
        const cli_plot_style style = cli_plot_style_of_stdout();
        cli_plot(stdout, curves, validation.n > 0 ? 2 : 1, &style);
    }
    free(room);
    cli_lines_free(&lines);
    weft_free(path);
    return status;
}

/* ---- run.json ------------------------------------------------------------------------------- */

static double number_of(json_object *object, const char *key)
{
    double value;
    return find_number(object, key, &value) ? value : (double)NAN;
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
    json_object *result = NULL, *options = NULL;
    json_object_object_get_ex(run, "result", &result);
    json_object_object_get_ex(run, "options", &options);
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
    printf("report %s/report.html\n", weft_printable(folder));
}

static weft_status show(const char *folder)
{
    char *path = weft_format("%s/run.json", folder), *text = NULL;
    size_t size = 0;
    if (path != NULL && access(path, F_OK) != 0) {
        weft_free(path);
        return weft_fail(WEFT_IO,
                         "%s/run.json: there is no training run in this folder: name the --out of "
                         "weft train (by default weft-run)",
                         weft_printable(folder));
    }
    weft_status status =
        path ? weft_file_read(path, 0, &text, &size) : weft_fail(WEFT_MEMORY, "report: no memory");
    json_object *run = status == WEFT_OK ? cli_parse_json(text, size) : NULL;
    if (status == WEFT_OK && !json_object_is_type(run, json_type_object))
        status = weft_fail(WEFT_INVALID, "%s: expected a JSON object", weft_printable(path));
    if (status == WEFT_OK)
        status = weft_run_report(folder);
    if (status == WEFT_OK)
        status = report_plot(folder);
    if (status == WEFT_OK)
        print_run(folder, run);
    json_object_put(run);
    weft_free(text);
    weft_free(path);
    return status;
}

typedef struct report_values {
    const char *folder;
} report_values;

static const cli_argument arguments[] = {{"DIR", offsetof(report_values, folder), true}};

static int run(void *context)
{
    const report_values *v = context;
    return cli_status(show(v->folder ? v->folder : "weft-run"));
}

const cli_command cli_report = {
    .name = "report",
    .summary = "show the curves and the result of a training run",
    .description =
        "Draws the loss curve of the run in DIR (weft-run), finished or not: in braille on a "
        "UTF-8 terminal, else in ASCII. Writes DIR/report.html again, which also has learning "
        "rate, gradient norm and rewards.",
    .example = "weft report run",
    .arguments = arguments,
    .n_arguments = 1,
    .size = sizeof(report_values),
    .run = run,
};
