/* train/run/repeat.c -- compares the results of repeated updates with those of their run: losses,
 * tensors, files. */
#include "train/run/repeat.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/folder.h"
#include "core/io/json.h"
#include "core/io/kind.h"
#include "train/run/checkpoint.h"
#include "train/run/compare.h"
#include "train/run/number.h"

/* Adds a difference other than of numbers. */
static void differ(weft__repeated *out, const char *name, const char *how)
{
    weft__add_difference(&out->differences, "%s: %s", weft_printable(name), how);
    out->same = out->same_files = false;
}

/* ---- metrics.jsonl -------------------------------------------------------------------------- */

/* The lines of a metrics.jsonl. */
typedef struct lines {
    char *path, *text;
    size_t size, at;
} lines;

static weft_status open_lines(const char *folder, lines *out)
{
    *out = (lines){.path = weft_format("%s/metrics.jsonl", folder)};
    return out->path ? weft_file_read(out->path, (size_t)1 << 40, &out->text, &out->size)
                     : weft__out_of_memory("verify", "a path");
}

static void close_lines(lines *l)
{
    weft_free(l->path);
    weft_free(l->text);
}

/* Reads the next line of an update from `first` on. *step is -1 at the end. */
static weft_status next_line(lines *l, int64_t first, weft__json_doc *doc, int64_t *step)
{
    const char *newline;
    *step = -1;
    weft__json_free(doc);
    *doc = (weft__json_doc){.root = NULL};
    while ((newline = memchr(l->text + l->at, '\n', l->size - l->at)) != NULL) {
        const char *line = l->text + l->at;
        l->at = (size_t)(newline - l->text) + 1;
        weft_status status = weft__json_parse(line, (size_t)(newline - line), l->path, doc);
        const weft__json root = weft__json_root(doc);
        if (status == WEFT_OK)
            status = weft__json_get_int(&root, "step", step);
        if (status != WEFT_OK || *step >= first)
            return status;
        weft__json_free(doc);
        *doc = (weft__json_doc){.root = NULL};
        *step = -1;
    }
    return WEFT_OK;
}

/* The relative difference of two numbers; 0 if both are NaN, infinity if one is. */
static double relative(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : INFINITY;
    const double most = fmax(fabs(a), fabs(b));
    return a == b ? 0 : fabs(a - b) / most;
}

/* Compares the numbers of an update. */
static weft_status compare_update(const weft__json_doc *then, const weft__json_doc *now,
                                  int64_t step, weft__repeated *out)
{
    static const char *const keys[] = {"loss",   "validation_loss", "validation_reward",
                                       "reward", "grad_norm",       "lr"};
    enum { LOSSES = 3 }; /* the first of them */
    const weft__json a = weft__json_root(then), b = weft__json_root(now);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < sizeof keys / sizeof *keys; i++) {
        double x = NAN, y = NAN;
        char first[WEFT__NUMBER_TEXT], second[WEFT__NUMBER_TEXT];
        status = weft__json_find_number(&a, keys[i], &x);
        if (status == WEFT_OK)
            status = weft__json_find_number(&b, keys[i], &y);
        if (isnan(x) && weft__begins_with(keys[i], strlen(keys[i]), "validation_"))
            continue; /* the run was stopped during that validation */
        const double off = relative(x, y);
        if (i < LOSSES)
            out->losses = fmax(out->losses, off);
        if (status != WEFT_OK || off == 0)
            continue;
        if (out->same)
            weft__add_difference(&out->differences, "update %" PRId64 ": %s: recorded %s, now %s",
                                 step, keys[i], weft__number(x, first), weft__number(y, second));
        out->same = false;
    }
    return status;
}

/* Compares the updates after `from`, or for 0 from the validation before them. */
static weft_status compare_metrics(const char *recorded, const char *own, int64_t from, int64_t to,
                                   weft__repeated *out)
{
    lines then = {.text = NULL}, now = {.text = NULL};
    weft__json_doc a = {.root = NULL}, b = {.root = NULL};
    int64_t x = 0, y = 0;
    weft_status status = open_lines(recorded, &then);
    if (status == WEFT_OK)
        status = open_lines(own, &now);
    const int64_t first = from > 0 ? from + 1 : 0;
    while (status == WEFT_OK) {
        status = next_line(&now, first, &b, &y);
        if (status != WEFT_OK || y < 0 || y > to)
            break;
        status = next_line(&then, first, &a, &x);
        if (status == WEFT_OK && x != y) {
            weft__add_difference(&out->differences,
                                 "update %" PRId64 ": not in the run's metrics.jsonl", y);
            out->same = false;
            out->losses = INFINITY;
            break;
        }
        if (status == WEFT_OK)
            status = compare_update(&a, &b, y, out);
    }
    weft__json_free(&a);
    weft__json_free(&b);
    close_lines(&then);
    close_lines(&now);
    return status;
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* What comparing tensors found. */
typedef struct found {
    int64_t tensors, different;
    double weights;  /* the largest difference of one of the weights, relative */
    char first[512]; /* the first that differs, with its largest difference */
} found;

/* Whether a tensor is one of the weights; without a trainer all are. */
static bool is_weight(const weft_trainer *trainer, const char *name)
{
    if (trainer == NULL)
        return true;
    for (int i = 0; i < trainer->slots.n; i++)
        if (strcmp(trainer->slots.paths[i], name) == 0)
            return true;
    return false;
}

/* Compares the numbers of two arrays of equal shape: *most is the largest difference, *share the
 * norm of the difference by the norm. */
static weft_status measure(weft_array *a, weft_array *b, double *most, double *share)
{
    const int64_t n = weft_size(a);
    double *x = weft_malloc((size_t)(2 * n + 1) * sizeof *x), *y = x + n;
    double difference = 0, norm = 0;
    weft_status status = x ? weft_read(a, WEFT_FLOAT64, x, n) : weft__out_of_memory("verify", NULL);
    if (status == WEFT_OK)
        status = weft_read(b, WEFT_FLOAT64, y, n);
    *most = 0;
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        const double off = fabs(x[i] - y[i]);
        *most = off > *most || isnan(off) ? off : *most;
        difference += off * off;
        norm += x[i] * x[i];
    }
    *share = difference == 0 ? 0 : norm > 0 ? sqrt(difference / norm) : INFINITY;
    weft_free(x);
    return status;
}

static bool same_shape(const weft_array *a, const weft_array *b)
{
    bool same = weft_ndim(a) == weft_ndim(b);
    for (int i = 0; same && i < weft_ndim(a); i++)
        same = weft_dim(a, i) == weft_dim(b, i);
    return same;
}

static weft_status compare_tensor(const weft_trainer *trainer, const weft_safetensors *then,
                                  const weft_safetensors *now, int i, found *f)
{
    const char *name = weft_safetensors_name(then, i);
    const int k = weft_safetensors_find(now, name);
    weft_array *a = weft_safetensors_get_at(then, i);
    weft_array *b = k >= 0 ? weft_safetensors_get_at(now, k) : NULL;
    double most = INFINITY, share = INFINITY;
    weft_status status = weft_eval(a);
    if (status == WEFT_OK && b)
        status = weft_eval(b);
    if (status != WEFT_OK)
        return status;
    const bool fits = b && weft_dtype_of(a) == weft_dtype_of(b) && same_shape(a, b);
    const void *x = weft_data(a), *y = fits ? weft_data(b) : NULL;
    if (x == NULL || (fits && y == NULL))
        return weft_error_status();
    const size_t size = (size_t)weft_size(a) * weft_dtype_size(weft_dtype_of(a));
    const bool same = fits && memcmp(x, y, size) == 0;
    if (same)
        most = share = 0;
    else if (fits)
        status = measure(a, b, &most, &share);
    if (is_weight(trainer, name))
        f->weights = share <= f->weights ? f->weights : share; /* NaN, too */
    f->tensors++;
    if (!same && f->different++ == 0)
        snprintf(f->first, sizeof f->first, "%s (largest difference %.3g)", weft_printable(name),
                 most);
    return status;
}

/* Compares the tensors of a file: weights and, if the trainer says which these are, others. */
static weft_status compare_tensors(const weft_trainer *trainer, const char *then, const char *now,
                                   const char *name, weft__repeated *out)
{
    weft_safetensors *a = NULL, *b = NULL;
    found f = {.tensors = 0};
    weft_status status = weft_safetensors_open(then, &a);
    if (status == WEFT_OK)
        status = weft_safetensors_open(now, &b);
    if (status == WEFT_OK && weft_safetensors_count(a) != weft_safetensors_count(b))
        differ(out, name, "another number of tensors");
    for (int i = 0; status == WEFT_OK && i < weft_safetensors_count(a); i++) {
        weft_scope_open();
        status = compare_tensor(trainer, a, b, i, &f);
        weft_scope_close(NULL);
    }
    weft_safetensors_close(a);
    weft_safetensors_close(b);
    out->weights = f.weights <= out->weights ? out->weights : f.weights;
    if (status != WEFT_OK || f.different == 0)
        return status;
    out->same = false;
    weft__add_difference(&out->differences, "%s: %lld of %lld tensors differ, first %s",
                         weft_printable(name), (long long)f.different, (long long)f.tensors,
                         f.first);
    return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Whether two open files have the same bytes. */
static bool have_same_bytes(FILE *a, FILE *b)
{
    enum { PIECE = 1 << 16 };
    char x[PIECE], y[PIECE];
    size_t n, m;
    do {
        n = fread(x, 1, PIECE, a);
        m = fread(y, 1, PIECE, b);
        if (n != m || memcmp(x, y, n) != 0)
            return false;
    } while (n > 0);
    return !ferror(a) && !ferror(b);
}

static bool are_same(const char *then, const char *now)
{
    FILE *a = fopen(then, "rb"), *b = fopen(now, "rb");
    const bool same = a && b && have_same_bytes(a, b);
    if (a)
        fclose(a);
    if (b)
        fclose(b);
    return same;
}

/* Finds files that the run's checkpoint lacks. */
static void find_missing(const char *then, const char *now, weft__repeated *out)
{
    DIR *open_folder = opendir(now);
    const struct dirent *file;
    while (open_folder && (file = readdir(open_folder)) != NULL) {
        char *path = weft_format("%s/%s", then, file->d_name);
        if (path && !weft__exists(path))
            differ(out, file->d_name, "missing");
        weft_free(path);
    }
    if (open_folder)
        closedir(open_folder);
}

/* Compares a file of a checkpoint. The metadata of the state's file contains times, so its tensors
 * are compared. */
static weft_status compare_file(const weft_trainer *trainer, const char *then, const char *now,
                                const char *name, weft__repeated *out)
{
    char *a = weft_format("%s/%s", then, name), *b = weft_format("%s/%s", now, name);
    const bool state = strcmp(name, WEFT__STATE_FILE) == 0;
    weft_status status = a && b ? WEFT_OK : weft__out_of_memory("verify", "a path");
    if (status == WEFT_OK && (state || !are_same(a, b))) {
        const size_t before = out->differences.n;
        if (weft__ends_with(name, ".safetensors") && weft__exists(b))
            status = compare_tensors(state ? trainer : NULL, a, b, name, out);
        if (!state && before == out->differences.n)
            differ(out, name, weft__exists(b) ? "other bytes" : "not made again");
        out->same = out->same && state;
    }
    weft_free(a);
    weft_free(b);
    return status;
}

static weft_status compare_files(const weft_trainer *trainer, const char *then, const char *now,
                                 weft__repeated *out)
{
    DIR *open_folder = opendir(then);
    const struct dirent *file;
    weft_status status = WEFT_OK;
    find_missing(then, now, out);
    while (status == WEFT_OK && open_folder && (file = readdir(open_folder)) != NULL) {
        if (file->d_name[0] == '.' || strcmp(file->d_name, WEFT__STATE_FILE) == 0)
            continue;
        char *a = weft_format("%s/%s", then, file->d_name),
             *b = weft_format("%s/%s", now, file->d_name);
        struct stat info;
        if (a == NULL || b == NULL)
            status = weft__out_of_memory("verify", "a path");
        else if (stat(a, &info) == 0 && S_ISDIR(info.st_mode)) /* 1_Pooling of an embedder */
            status = compare_files(trainer, a, b, out);
        else
            status = compare_file(trainer, then, now, file->d_name, out);
        weft_free(a);
        weft_free(b);
    }
    if (open_folder)
        closedir(open_folder);
    return status;
}

weft_status weft__repeated_compare(const weft_trainer *trainer, const char *recorded,
                                   const char *own, int64_t from, int64_t to, weft__repeated *out)
{
    *out = (weft__repeated){.same = true, .same_files = true};
    char *then = weft__checkpoint_path(recorded, to), *now = weft__checkpoint_path(own, to);
    weft_status status = then && now ? WEFT_OK : weft__out_of_memory("verify", "a path");
    if (status == WEFT_OK)
        status = compare_metrics(recorded, own, from, to, out);
    if (status == WEFT_OK)
        status = compare_file(trainer, then, now, WEFT__STATE_FILE, out);
    if (status == WEFT_OK)
        status = compare_files(trainer, then, now, out);
    weft_free(then);
    weft_free(now);
    return status;
}
