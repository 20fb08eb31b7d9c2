/* train/run/report.c -- report.html: a run's curves, settings and samples on one page. */
#include <math.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/json.h"
#include "core/io/utf8.h"
#include "core/list.h"
#include "train/run/curve.h"
#include "train/run/number.h"

enum {
    LOSS,
    SMOOTHED,
    VALIDATION,
    RATE,
    NORM,
    SPEED,
    CHOSEN,
    REJECTED,
    MARGIN,
    ACCURACY,
    SMOOTH_MARGIN,
    SMOOTH_ACCURACY,
    REWARD,
    HELD_OUT,
    KL,
    ENTROPY,
    LOW,
    HIGH,
    LENGTH,
    TRUNCATED,
    PARTS, /* single rewards: MOST_PARTS of them */
    SERIES = PARTS + 4
};

enum { MOST_PARTS = SERIES - PARTS };

/* Losses are smoothed over updates / SPANS, at least LEAST_SPAN updates. */
enum { LEAST_SPAN = 5, SPANS = 20 };

typedef struct series {
    double *x, *y;
    int n;
} series;

typedef struct page {
    const char *folder;
    weft__text text, samples;
    series of[SERIES];
    char *parts[MOST_PARTS]; /* the rewards' names */
} page;

/* By which a report is recognized. */
#define TITLE "<title>Training run</title>"

static const char *const style =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2rem auto;padding:0 1rem;"
    "color:#111827;background:#f9fafb}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\n"
    "svg{display:block;width:100%;margin:1rem 0}\n"
    "table{border-collapse:collapse;background:#fff;width:100%}\n"
    "td,th{padding:.3rem .7rem;border:1px solid #e5e7eb;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}\n"
    "th{font-weight:500;color:#4b5563;width:38%}\n"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;background:#fff;border:1px solid #e5e7eb;"
    "padding:.7rem;margin:.4rem 0 1rem}pre b{color:#6b7280}\n"
    "@media (prefers-color-scheme:dark){body{color:#f3f4f6;background:#030712}"
    "table,pre{background:#111827}td,th,pre{border-color:#1f2937}th{color:#9ca3af}}\n";

/* Appends text from models, data or file names without markup, control characters and characters
 * that change the direction of text. */
static void escape(weft__text *t, const char *text, size_t n)
{
    size_t size;
    for (size_t i = 0; i < n; i += size) {
        const char c = text[i];
        const int step = weft__utf8_step(text + i, n - i);
        size = step > 0 ? (size_t)step : 1;
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            weft__text_format(t, "&#%d;", c);
        else if (c == '\n' || c == '\t' ||
                 (step > 0 && !weft__utf8_is_hidden(weft__utf8_decode(text + i, step))))
            weft__text_append(t, text + i, size);
        else
            weft__text_format(t, "%s", weft_printable_n(text + i, size));
    }
}

static void escape_value(weft__text *t, json_object *value);

/* The members, one after another: "path a.jsonl, rows 1000". */
static void escape_members(weft__text *t, json_object *object)
{
    bool first = true;
    json_object_object_foreach(object, key, value)
    {
        weft__text_format(t, first ? "" : ", ");
        escape(t, key, strlen(key));
        weft__text_format(t, " ");
        escape_value(t, value);
        first = false;
    }
}

static void escape_elements(weft__text *t, json_object *array)
{
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        json_object *value = json_object_array_get_idx(array, i);
        const bool object = json_object_is_type(value, json_type_object);
        weft__text_format(t, i == 0 ? "" : object ? "<br>" : ", ");
        escape_value(t, value);
    }
}

static void escape_value(weft__text *t, json_object *value)
{
    if (json_object_is_type(value, json_type_string)) {
        escape(t, json_object_get_string(value), (size_t)json_object_get_string_len(value));
        return;
    }
    if (json_object_is_type(value, json_type_object)) {
        escape_members(t, value);
        return;
    }
    if (json_object_is_type(value, json_type_array)) {
        escape_elements(t, value);
        return;
    }
    char number[WEFT__NUMBER_TEXT];
    const double x =
        json_object_is_type(value, json_type_double) ? json_object_get_double(value) : 0;
    const char *text = fabs(x) >= 0.1
                           ? weft__decimals(x, 4, number)
                           : json_object_to_json_string_ext(
                                 value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    escape(t, text, strlen(text));
}

/* ---- metrics -------------------------------------------------------------------------------- */

static void add_point(page *p, int index, double x, double y)
{
    series *s = &p->of[index];
    if (!weft__list_more(s->x, s->n) || !weft__list_more(s->y, s->n)) {
        p->text.failed = true;
        return;
    }
    s->x[s->n] = x;
    s->y[s->n++] = y;
}

static void add_samples(page *p, json_object *line, int64_t step)
{
    json_object *samples, *prompt, *text, *reward;
    if (!json_object_object_get_ex(line, "samples", &samples) ||
        !json_object_is_type(samples, json_type_array))
        return;
    weft__text_format(&p->samples, "<h3>After update %lld</h3>\n", (long long)step);
    for (size_t i = 0; i < json_object_array_length(samples); i++) {
        json_object *sample = json_object_array_get_idx(samples, i);
        if (!json_object_is_type(sample, json_type_object) ||
            !json_object_object_get_ex(sample, "prompt", &prompt) ||
            !json_object_object_get_ex(sample, "text", &text))
            continue;
        weft__text_format(&p->samples, "<pre><b>");
        escape_value(&p->samples, prompt);
        weft__text_format(&p->samples, "</b>");
        escape_value(&p->samples, text);
        if (json_object_object_get_ex(sample, "reward", &reward)) {
            weft__text_format(&p->samples, "\n<b>reward ");
            escape_value(&p->samples, reward);
            weft__text_format(&p->samples, "</b>");
        }
        weft__text_format(&p->samples, "</pre>\n");
    }
}

/* Adds the single rewards of a line, "rewards/NAME", to their series. */
static void add_parts(page *p, json_object *line, int64_t step)
{
    static const char start[] = "rewards/", end[] = "/std";
    json_object_object_foreach(line, key, value)
    {
        const size_t n = strlen(key);
        const bool spread = n > strlen(end) && strcmp(key + n - strlen(end), end) == 0;
        if (strncmp(key, start, strlen(start)) != 0 || spread)
            continue;
        const char *name = key + strlen(start);
        int i = 0;
        while (i < MOST_PARTS && p->parts[i] && strcmp(p->parts[i], name) != 0)
            i++;
        if (i < MOST_PARTS && p->parts[i] == NULL)
            p->parts[i] = weft_strdup(name);
        const double y = json_object_get_double(value);
        if (i < MOST_PARTS && isfinite(y) && value)
            add_point(p, PARTS + i, (double)step, y);
    }
}

static weft_status add_line(page *p, const weft__json *line)
{
    static const struct {
        const char *key;
        int series;
    } keys[] = {{"loss", LOSS},
                {"validation_loss", VALIDATION},
                {"lr", RATE},
                {"grad_norm", NORM},
                {"tokens_per_second", SPEED},
                {"rewards/chosen", CHOSEN},
                {"rewards/rejected", REJECTED},
                {"rewards/margins", MARGIN},
                {"rewards/accuracies", ACCURACY},
                {"reward", REWARD},
                {"validation_reward", HELD_OUT},
                {"kl", KL},
                {"entropy", ENTROPY},
                {"clipped_low", LOW},
                {"clipped_high", HIGH},
                {"completion_length", LENGTH},
                {"truncated", TRUNCATED}};
    int64_t step;
    weft_status status = weft__json_get_int(line, "step", &step);
    for (size_t i = 0; status == WEFT_OK && i < sizeof keys / sizeof *keys; i++) {
        double value = NAN;
        status = weft__json_find_number(line, keys[i].key, &value);
        if (status == WEFT_OK && isfinite(value))
            add_point(p, keys[i].series, (double)step, value);
    }
    if (status == WEFT_OK && json_object_object_get_ex(line->value, "reward", NULL))
        add_parts(p, line->value, step);
    if (status == WEFT_OK)
        add_samples(p, line->value, step);
    return status;
}

static weft_status read_line(page *p, const char *text, size_t n, const char *path)
{
    weft__json_doc doc = {.root = NULL};
    weft_status status = weft__json_parse(text, n, path, &doc);
    if (status == WEFT_OK) {
        const weft__json line = weft__json_root(&doc);
        status = add_line(p, &line);
    }
    weft__json_free(&doc);
    return status;
}

/* Reads metrics.jsonl. Malformed lines among others are skipped with a warning for the first. An
 * incomplete last line is ignored. */
static weft_status read_metrics(page *p)
{
    char *path = weft_format("%s/metrics.jsonl", p->folder), *text = NULL, *why = NULL;
    size_t size = 0;
    weft_status status = path ? weft_file_read(path, (size_t)1 << 40, &text, &size)
                              : weft__out_of_memory("report", NULL);
    const char *at = text, *newline;
    int64_t read = 0;
    while (status == WEFT_OK && (newline = memchr(at, '\n', size - (size_t)(at - text))) != NULL) {
        status = read_line(p, at, (size_t)(newline - at), path);
        read += status == WEFT_OK;
        if (status == WEFT_INVALID && why == NULL)
            why = weft_strdup(weft_error_message());
        if (status == WEFT_INVALID)
            status = WEFT_OK;
        at = newline + 1;
    }
    if (status == WEFT_OK && why && read == 0)
        status = weft_fail(WEFT_INVALID, "%s", why);
    else if (status == WEFT_OK && why)
        weft_log_message(WEFT_LOG_WARNING, "%s; malformed lines are skipped", why);
    weft_free(why);
    weft_free(text);
    weft_free(path);
    return status;
}

/* Computes an exponential moving average with bias correction. */
static void smooth(page *p, int from, int to)
{
    const series *of = &p->of[from];
    const int span = of->n / SPANS > LEAST_SPAN ? of->n / SPANS : LEAST_SPAN;
    const double keep = 1 - 1 / (double)span;
    double sum = 0, weight = 0;
    for (int i = 0; i < of->n; i++) {
        sum = keep * sum + of->y[i];
        weight = keep * weight + 1;
        add_point(p, to, of->x[i], sum / weight);
    }
}

/* ---- the page ------------------------------------------------------------------------------- */

static void draw(page *p, const char *title, int index, const char *name)
{
    const series *s = &p->of[index];
    const weft_curve curve = {.name = name, .x = s->x, .y = s->y, .n = s->n};
    if (s->n > 1)
        weft__curves_draw(&p->text, title, "update", &curve, 1);
}

static weft_curve curve_of(const page *p, int index, const char *name)
{
    const series *s = &p->of[index];
    return (weft_curve){.name = name, .x = s->x, .y = s->y, .n = s->n};
}

/* Draws what objectives with rewards measure of the completions. */
static void draw_policy(page *p)
{
    weft_curve parts[MOST_PARTS];
    int n = 0;
    for (; n < MOST_PARTS && p->parts[n]; n++)
        parts[n] = curve_of(p, PARTS + n, p->parts[n]);
    if (n > 1 && parts[0].n > 1)
        weft__curves_draw(&p->text, "Mean of each reward", "update", parts, n);
    draw(p, "Divergence from the start (KL)", KL, "KL");
    draw(p, "Entropy of the next token", ENTROPY, "entropy");
    const weft_curve clipped[] = {curve_of(p, LOW, "below 1"), curve_of(p, HIGH, "above 1")};
    if (clipped[0].n > 1)
        weft__curves_draw(&p->text, "Share of ratios clipped", "update", clipped, 2);
    draw(p, "Tokens of a completion", LENGTH, "tokens");
    draw(p, "Share of completions cut off", TRUNCATED, "cut off");
}

/* Draws the reward curves of objectives with preferences or rewards. */
static void draw_rewards(page *p)
{
    const weft_curve rewards[] = {curve_of(p, CHOSEN, "chosen"), curve_of(p, REJECTED, "rejected")};
    if (rewards[0].n > 1 || rewards[1].n > 1)
        weft__curves_draw(&p->text, "Rewards", "update", rewards, 2);
    weft_curve mean[] = {curve_of(p, REWARD, "training"), curve_of(p, HELD_OUT, "validation")};
    mean[1].dots = true;
    if (mean[0].n > 1)
        weft__curves_draw(&p->text, "Mean reward", "update", mean, mean[1].n > 0 ? 2 : 1);
    draw_policy(p);
    draw(p, "Reward margin, smoothed", SMOOTH_MARGIN, "margin");
    draw(p, "Reward accuracy, smoothed", SMOOTH_ACCURACY, "accuracy");
}

static void draw_curves(page *p)
{
    const bool rewards = p->of[CHOSEN].n > 0 || p->of[REJECTED].n > 0 || p->of[REWARD].n > 0;
    weft_curve loss[] = {curve_of(p, SMOOTHED, "training, smoothed"),
                         curve_of(p, VALIDATION, "validation")};
    loss[1].dots = true;
    weft__curves_draw(&p->text, rewards ? "Loss" : "Loss (nats per token)", "update", loss,
                      loss[1].n > 0 ? 2 : 1);
    draw_rewards(p);
    draw(p, "Learning rate", RATE, "learning rate");
    draw(p, "Gradient norm before clipping", NORM, "norm");
    draw(p, "Tokens per second", SPEED, "tokens/s");
}

/* Writes a whole number with its digits in groups of three. */
static void add_count(weft__text *t, double value)
{
    char digits[WEFT__NUMBER_TEXT];
    weft__decimals(value, 0, digits);
    const size_t n = strlen(digits), sign = digits[0] == '-';
    for (size_t i = 0; i < n; i++)
        weft__text_format(t, i > sign && (n - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
}

static void add_bytes(weft__text *t, double value)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    char number[WEFT__NUMBER_TEXT];
    int unit = 0;
    for (; value >= 1000 && unit < 4; unit++)
        value /= 1000;
    weft__text_format(t, "%s %s", weft__decimals(value, unit > 0, number), units[unit]);
}

/* Writes 75 seconds as 1:15, and less than a minute with a decimal. */
static void add_time(weft__text *t, double value)
{
    char number[WEFT__NUMBER_TEXT];
    const long long s = value < 1e15 ? (long long)value : 0;
    if (s < 60)
        weft__text_format(t, "%s s", weft__decimals(value, 1, number));
    else if (s < 3600)
        weft__text_format(t, "%lld:%02lld", s / 60, s % 60);
    else
        weft__text_format(t, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

/* The members of run.json that are numbers with a unit or have another label than their name. */
static const struct {
    const char *key, *label;
    void (*add)(weft__text *t, double value); /* NULL: the value as it is */
} labels[] = {
    {"steps", "updates", add_count},
    {"skipped", "updates skipped, not finite", add_count},
    {"loss", "loss of the last update", NULL},
    {"first_validation", "validation loss before training", NULL},
    {"last_validation", "validation loss after training", NULL},
    {"best_validation", "lowest validation loss", NULL},
    {"first_validation_reward", "validation reward before training", NULL},
    {"last_validation_reward", "validation reward after training", NULL},
    {"best_validation_reward", "highest validation reward", NULL},
    {"best_step", "best after update", add_count},
    {"tokens", "tokens", add_count},
    {"seconds", "time", add_time},
    {"training_seconds", "time of the updates alone", add_time},
    {"peak_memory", "peak memory", add_bytes},
    {"samples", "samples", add_count},
    {"targets", "tokens in the loss", add_count},
    {"longest", "longest sample, in tokens", add_count},
    {"truncated", "samples cut", add_count},
    {"dropped", "samples left out", add_count},
    {"validation_samples", "validation samples", add_count},
    {"validation_targets", "validation tokens in the loss", add_count},
    {"parameters", "parameters", add_count},
    {"trainable", "trained parameters", add_count},
    {"lr", "learning rate", NULL},
};

/* Adds a row of a table. Other members are labelled by their names, with spaces. */
static void add_row(weft__text *t, const char *name, json_object *value)
{
    const size_t n = sizeof labels / sizeof *labels;
    size_t i = 0;
    while (i < n && strcmp(labels[i].key, name) != 0)
        i++;
    weft__text_format(t, "<tr><th>");
    if (i < n)
        weft__text_format(t, "%s", labels[i].label);
    else
        for (const char *at = name; *at; at++)
            escape(t, *at == '_' ? " " : at, 1);
    weft__text_format(t, "</th><td>");
    const bool number =
        json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
    if (i < n && labels[i].add && number && isfinite(json_object_get_double(value)))
        labels[i].add(t, json_object_get_double(value));
    else
        escape_value(t, value);
    weft__text_format(t, "</td></tr>\n");
}

/* Adds a member of run.json as a table. */
static void add_table(page *p, json_object *run, const char *key, const char *title)
{
    json_object *object;
    if (!json_object_object_get_ex(run, key, &object) ||
        !json_object_is_type(object, json_type_object))
        return;
    weft__text_format(&p->text, "<h2>%s</h2>\n<table>\n", title);
    json_object_object_foreach(object, name, value)
    {
        add_row(&p->text, name, value);
    }
    weft__text_format(&p->text, "</table>\n");
}

static const char *word_at(json_object *words, size_t i)
{
    json_object *word = json_object_array_get_idx(words, i);
    return json_object_is_type(word, json_type_string) ? json_object_get_string(word) : "";
}

/* Adds the command line as a table: a row for each option, with its values. */
static void add_command(page *p, json_object *run)
{
    json_object *words;
    if (!json_object_object_get_ex(run, "command", &words) ||
        !json_object_is_type(words, json_type_array) || json_object_array_length(words) == 0)
        return;
    bool open = false, rest = false;
    weft__text_format(&p->text, "<h2>Options</h2>\n<table>\n");
    for (size_t i = 0; i < json_object_array_length(words); i++) {
        const char *word = word_at(words, i);
        const bool name = !rest && strncmp(word, "--", 2) == 0;
        if (name && open)
            weft__text_format(&p->text, "</td></tr>\n");
        rest = rest || strcmp(word, "--") == 0;
        if (name || !open)
            weft__text_format(&p->text, "<tr><th>");
        if (name)
            escape(&p->text, rest ? "arguments" : word + 2, strlen(rest ? "arguments" : word + 2));
        if (name || !open)
            weft__text_format(&p->text, "</th><td>");
        if (!name) {
            escape(&p->text, word, strlen(word));
            weft__text_format(&p->text, " ");
        }
        open = true;
    }
    weft__text_format(&p->text, "</td></tr>\n</table>\n");
}

static void add_head(page *p, json_object *run)
{
    json_object *value;
    weft__text_format(&p->text,
                      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width\">\n" TITLE
                      "\n<style>\n%s</style></head><body>\n<h1>Run ",
                      style);
    escape(&p->text, p->folder, strlen(p->folder));
    weft__text_format(&p->text, "</h1>\n<p>");
    if (json_object_object_get_ex(run, "state", &value))
        escape_value(&p->text, value);
    if (json_object_object_get_ex(run, "message", &value)) {
        weft__text_format(&p->text, ": ");
        escape_value(&p->text, value);
    }
    weft__text_format(&p->text, "</p>\n");
}

static weft_status write_page(page *p, json_object *run)
{
    add_head(p, run);
    draw_curves(p);
    add_table(p, run, "result", "Result");
    if (p->samples.n > 0) {
        weft__text_format(&p->text, "<h2>Samples</h2>\n");
        weft__text_append(&p->text, p->samples.at, p->samples.n);
    }
    add_table(p, run, "data", "Data");
    add_table(p, run, "model", "Model");
    add_table(p, run, "options", "Settings");
    add_command(p, run);
    weft__text_format(&p->text, "</body></html>\n");
    char *path = weft_format("%s/report.html", p->folder);
    weft_status status = path == NULL || p->text.failed || p->samples.failed
                             ? weft__out_of_memory("report", NULL)
                             : weft__file_check_kind(path, TITLE, "the report of a run");
    if (status == WEFT_OK)
        status = weft_file_write(path, p->text.at, p->text.n);
    weft_free(path);
    return status;
}

weft_status weft_run_report(const char *folder)
{
    page p = {.folder = folder};
    weft__json_doc doc = {.root = NULL};
    char *path = weft_format("%s/run.json", folder);
    weft_status status = path ? weft__json_read(path, &doc) : weft__out_of_memory("report", NULL);
    if (status == WEFT_OK) {
        const weft__json root = weft__json_root(&doc);
        status = weft__json_as_object(&root);
    }
    if (status == WEFT_OK)
        status = read_metrics(&p);
    if (status == WEFT_OK) {
        smooth(&p, LOSS, SMOOTHED);
        smooth(&p, MARGIN, SMOOTH_MARGIN);
        smooth(&p, ACCURACY, SMOOTH_ACCURACY);
        status = write_page(&p, weft__json_root(&doc).value);
    }
    for (int i = 0; i < SERIES; i++) {
        weft_free(p.of[i].x);
        weft_free(p.of[i].y);
    }
    for (int i = 0; i < MOST_PARTS; i++)
        weft_free(p.parts[i]);
    weft_free(p.text.at);
    weft_free(p.samples.at);
    weft__json_free(&doc);
    weft_free(path);
    return status;
}
