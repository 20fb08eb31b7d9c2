/* train/run/history.c -- reads the records of a run: run.json, curves and samples. */
#include "train/run/history.h"

#include <math.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/folder.h"
#include "core/list.h"
#include "train/run/place.h"
#include "train/run/settings.h"
#include "weft/io.h"
#include "weft/memory.h"

/* The most metrics of a run; only malformed files have more. */
enum { MOST_METRICS = 512 };

/* Curves are smoothed over points / SPANS, at least LEAST_SPAN points. */
enum { LEAST_SPAN = 5, SPANS = 20 };

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

static int index_of(const weft_history *h, const char *name)
{
    int i = 0;
    while (i < h->n && strcmp(h->names[i], name) != 0)
        i++;
    return i;
}

/* The index of a metric, which is added if it is new; -1: out of memory, or too many. */
static int find_or_add(weft_history *h, const char *name, bool *failed)
{
    const int i = index_of(h, name);
    if (i < h->n)
        return i;
    if (i == MOST_METRICS)
        return -1;
    if (!weft__list_more(h->names, i) || !weft__list_more(h->x, i) || !weft__list_more(h->y, i) ||
        !weft__list_more(h->curves, i) || (h->names[i] = weft_strdup(name)) == NULL) {
        *failed = true;
        return -1;
    }
    h->x[i] = h->y[i] = NULL;
    h->curves[i] = (weft_curve){.name = h->names[i]};
    h->n++;
    return i;
}

static bool add_point(weft_history *h, const char *name, double x, double y)
{
    bool failed = false;
    const int i = find_or_add(h, name, &failed);
    if (i < 0)
        return !failed;
    const int n = h->curves[i].n;
    if (!weft__list_more(h->x[i], n) || !weft__list_more(h->y[i], n))
        return false;
    h->x[i][n] = x;
    h->y[i][n] = y;
    h->curves[i].n++;
    return true;
}

/* Adds the numbers of a line; booleans are 0 and 1. */
static bool add_numbers(weft_history *h, json_object *line, double step)
{
    json_object_object_foreach(line, key, value)
    {
        const json_type type = json_object_get_type(value);
        const double y = json_object_get_double(value);
        const bool number =
            type == json_type_double || type == json_type_int || type == json_type_boolean;
        if (number && isfinite(y) && strcmp(key, "step") != 0 && !add_point(h, key, step, y))
            return false;
    }
    return true;
}

static bool add_samples(weft_history *h, json_object *line, int64_t step)
{
    json_object *samples, *prompt, *text, *reward;
    if (!json_object_object_get_ex(line, "samples", &samples) ||
        !json_object_is_type(samples, json_type_array))
        return true;
    for (size_t i = 0; i < json_object_array_length(samples); i++) {
        json_object *sample = json_object_array_get_idx(samples, i);
        if (!json_object_is_type(sample, json_type_object) ||
            !json_object_object_get_ex(sample, "prompt", &prompt) ||
            !json_object_object_get_ex(sample, "text", &text) ||
            !json_object_is_type(prompt, json_type_string) ||
            !json_object_is_type(text, json_type_string))
            continue;
        weft__said said = {.step = step, .reward = NAN};
        if (json_object_object_get_ex(sample, "reward", &reward))
            said.reward = json_object_get_double(reward);
        if (!weft__list_more(h->said, h->n_said))
            return false;
        said.prompt = weft_strdup(json_object_get_string(prompt));
        said.text = weft_strdup(json_object_get_string(text));
        h->said[h->n_said++] = said;
        if (said.prompt == NULL || said.text == NULL)
            return false;
    }
    return true;
}

static weft_status read_line(weft_history *h, const char *text, size_t n, const char *path)
{
    weft__json_doc doc = {.root = NULL};
    int64_t step = 0;
    weft_status status = weft__json_parse(text, n, path, &doc);
    if (status == WEFT_OK) {
        const weft__json line = weft__json_root(&doc);
        status = weft__json_get_int(&line, "step", &step);
    }
    if (status == WEFT_OK &&
        (!add_numbers(h, doc.root, (double)step) || !add_samples(h, doc.root, step)))
        status = weft__out_of_memory("report", h->folder);
    weft__json_free(&doc);
    return status;
}

/* Skips malformed lines among others, with a warning for the first, and an incomplete last line. */
static weft_status read_lines(weft_history *h, const char *path, const char *text, size_t size)
{
    const char *at = text, *newline;
    char *why = NULL;
    int64_t read = 0;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (newline = memchr(at, '\n', size - (size_t)(at - text))) != NULL) {
        status = read_line(h, at, (size_t)(newline - at), path);
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
    return status;
}

static weft_status read_metrics(weft_history *h)
{
    char *path = weft_format("%s/metrics.jsonl", h->folder), *text = NULL;
    size_t size = 0;
    weft_status status = path ? weft_file_read(path, (size_t)1 << 40, &text, &size)
                              : weft__out_of_memory("report", h->folder);
    if (status == WEFT_OK)
        status = read_lines(h, path, text, size);
    for (int i = 0; i < h->n; i++) {
        h->curves[i].x = h->x[i];
        h->curves[i].y = h->y[i];
    }
    weft_free(text);
    weft_free(path);
    return status;
}

/* ---- loading -------------------------------------------------------------------------------- */

/* A copy of the folder's name without slashes at its end. */
static char *without_slashes(const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return weft_format("%.*s", (int)n, folder);
}

/* Finds the weights to use. */
static weft_status find_trained(weft_history *h)
{
    static const char *const names[] = {"best", "last"};
    for (int i = 0; i < 2; i++) {
        char *path = weft_format("%s/%s", h->folder, names[i]);
        if (path == NULL)
            return weft__out_of_memory("report", h->folder);
        if (h->trained == NULL && weft__exists(path)) {
            h->trained = path;
            h->has_best = i == 0;
        } else {
            weft_free(path);
        }
    }
    return WEFT_OK;
}

weft_status weft_history_load(const char *folder, weft_history **out)
{
    *out = NULL;
    weft_history *h = weft_calloc(1, sizeof *h);
    if (h)
        h->folder = without_slashes(folder);
    char *path = h && h->folder ? weft_format("%s/" WEFT__RUN_FILE, h->folder) : NULL;
    size_t size = 0;
    weft_status status = path ? WEFT_OK : weft__out_of_memory("report", folder);
    if (status == WEFT_OK && !weft__exists(path))
        status = weft_fail(WEFT_IO,
                           "%s: there is no training run in this folder: name the --out of weft "
                           "train (by default weft-run)",
                           weft_printable(path));
    if (status == WEFT_OK)
        status = weft_file_read(path, 0, &h->json, &size);
    if (status == WEFT_OK)
        status = weft__json_parse(h->json, size, path, &h->doc);
    if (status == WEFT_OK) {
        const weft__json root = weft__json_root(&h->doc);
        status = weft__json_as_object(&root);
    }
    if (status == WEFT_OK)
        status = read_metrics(h);
    if (status == WEFT_OK)
        status = find_trained(h);
    weft_free(path);
    if (status == WEFT_OK)
        *out = h;
    else
        weft_history_free(h);
    return status;
}

void weft_history_free(weft_history *h)
{
    if (h == NULL)
        return;
    for (int i = 0; i < h->n; i++) {
        weft_free(h->names[i]);
        weft_free(h->x[i]);
        weft_free(h->y[i]);
    }
    for (int i = 0; i < h->n_said; i++) {
        weft_free(h->said[i].prompt);
        weft_free(h->said[i].text);
    }
    weft_free(h->names);
    weft_free(h->x);
    weft_free(h->y);
    weft_free(h->curves);
    weft_free(h->said);
    weft__json_free(&h->doc);
    weft_free(h->json);
    weft_free(h->trained);
    weft_free(h->folder);
    weft_free(h);
}

/* ---- reading -------------------------------------------------------------------------------- */

const char *weft_history_folder(const weft_history *h)
{
    return h->folder;
}

const char *weft_history_json(const weft_history *h)
{
    return h->json;
}

const weft_curve *weft_history_curve(const weft_history *h, int i)
{
    return i >= 0 && i < h->n ? &h->curves[i] : NULL;
}

const weft_curve *weft_history_find(const weft_history *h, const char *name)
{
    return weft_history_curve(h, index_of(h, name));
}

/* An exponential moving average with bias correction. */
void weft_curve_smooth(const weft_curve *curve, double *y)
{
    const int span = curve->n / SPANS > LEAST_SPAN ? curve->n / SPANS : LEAST_SPAN;
    const double keep = 1 - 1 / (double)span;
    double sum = 0, weight = 0;
    for (int i = 0; i < curve->n; i++) {
        sum = keep * sum + curve->y[i];
        weight = keep * weight + 1;
        y[i] = sum / weight;
    }
}

bool weft__history_smoothed(const weft_history *h, const char *name, weft_curve *out)
{
    const weft_curve *curve = weft_history_find(h, name);
    double *y = curve && curve->n > 1 ? weft_malloc((size_t)curve->n * sizeof *y) : NULL;
    if (y == NULL)
        return false;
    weft_curve_smooth(curve, y);
    *out = *curve;
    out->y = y;
    return true;
}

json_object *weft__history_member(const weft_history *h, const char *object, const char *name)
{
    json_object *in = h->doc.root, *found = NULL;
    if (object && (!json_object_object_get_ex(h->doc.root, object, &in) ||
                   !json_object_is_type(in, json_type_object)))
        return NULL;
    return json_object_object_get_ex(in, name, &found) ? found : NULL;
}

const char *weft__history_text(const weft_history *h, const char *object, const char *name)
{
    json_object *value = weft__history_member(h, object, name);
    const char *text = value ? weft__json_plain(value) : NULL;
    return text ? text : "";
}

double weft__history_number(const weft_history *h, const char *object, const char *name)
{
    json_object *value = weft__history_member(h, object, name);
    const bool number =
        json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
    return number ? json_object_get_double(value) : (double)NAN;
}

const char *weft__history_option(const weft_history *h, const char *name)
{
    return weft__option_of(weft__history_member(h, NULL, "command"), name, 0);
}

weft__summary weft__history_summary(const weft_history *h, const char *name)
{
    const weft_curve *c = weft_history_find(h, name);
    weft__summary s = {.n = c ? c->n : 0};
    for (int i = 0; i < s.n; i++) {
        const double y = c->y[i];
        if (i == 0)
            s = (weft__summary){y, y, y, y, c->x[0], c->x[0], s.n};
        if (y < s.least) {
            s.least = y;
            s.least_at = c->x[i];
        }
        if (y > s.most) {
            s.most = y;
            s.most_at = c->x[i];
        }
        s.last = y;
    }
    return s;
}

/* The best value is that of an update, not of the model before training. */
weft__outcome weft__history_outcome(const weft_history *h)
{
    const weft_curve *c = weft_history_find(h, "validation_reward");
    weft__outcome o = {.rises = c != NULL, .best = NAN};
    if (c == NULL)
        c = weft_history_find(h, "validation_loss");
    if (c == NULL)
        return o;
    o.what = o.rises ? "validation reward" : "validation loss";
    o.first = c->y[0];
    o.last = c->y[c->n - 1];
    for (int i = 0; i < c->n; i++) {
        if (c->x[i] > 0 && (isnan(o.best) || (o.rises ? c->y[i] > o.best : c->y[i] < o.best))) {
            o.best = c->y[i];
            o.best_at = c->x[i];
        }
    }
    return o;
}
