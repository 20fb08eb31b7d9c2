/* train/run/export.c -- the metrics of runs for other programs: CSV, and TensorBoard's event files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "core/io/text.h"
#include "core/list.h"
#include "train/run/history.h"
#include "train/run/number.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- CSV ------------------------------------------------------------------------------------ */

/* Adds a field, quoted if it has a comma, a quote or a line break (RFC 4180). */
static void add_field(weft__text *t, const char *field)
{
    if (strpbrk(field, ",\"\r\n") == NULL) {
        weft__text_append(t, field, strlen(field));
        return;
    }
    weft__text_append(t, "\"", 1);
    for (const char *at = field; *at; at++)
        weft__text_append(t, *at == '"' ? "\"\"" : at, *at == '"' ? 2 : 1);
    weft__text_append(t, "\"", 1);
}

/* The names of all metrics of the runs, which own them. */
typedef struct columns {
    const char **names;
    int n;
    bool failed;
} columns;

static void add_columns(columns *c, const weft_history *run)
{
    for (int i = 0; i < run->n && !c->failed; i++) {
        int k = 0;
        while (k < c->n && strcmp(c->names[k], run->names[i]) != 0)
            k++;
        if (k < c->n)
            continue;
        c->failed = !weft__list_more(c->names, c->n);
        if (!c->failed)
            c->names[c->n++] = run->names[i];
    }
}

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The updates of a run that have a metric, ascending, in new memory; NULL: out of memory. */
static double *steps_of(const weft_history *run, size_t *n)
{
    size_t all = 0, kept = 0;
    for (int i = 0; i < run->n; i++)
        all += (size_t)run->curves[i].n;
    double *steps = weft_malloc((all + 1) * sizeof *steps);
    if (steps == NULL)
        return NULL;
    all = 0;
    for (int i = 0; i < run->n; i++) {
        memcpy(steps + all, run->x[i], (size_t)run->curves[i].n * sizeof *steps);
        all += (size_t)run->curves[i].n;
    }
    qsort(steps, all, sizeof *steps, by_number);
    for (size_t i = 0; i < all; i++) {
        if (kept == 0 || steps[i] != steps[kept - 1])
            steps[kept++] = steps[i];
    }
    *n = kept;
    return steps;
}

/* The value of a curve (NULL: none) at an update, or NaN. `at` is the next point to look at. */
static double value_at(const weft_curve *curve, int *at, double step)
{
    double y = NAN;
    for (; curve && *at < curve->n && curve->x[*at] <= step; ++*at)
        y = curve->x[*at] == step ? curve->y[*at] : y;
    return y;
}

/* Adds the lines of a run: one for each update. `at` (columns->n): room for positions. */
static bool add_lines(weft__text *t, const weft_history *run, const char *label, const columns *c,
                      int *at)
{
    char number[WEFT__NUMBER_TEXT];
    size_t n = 0;
    double *steps = steps_of(run, &n);
    memset(at, 0, (size_t)c->n * sizeof *at);
    for (size_t i = 0; steps && i < n; i++) {
        if (label) {
            add_field(t, label);
            weft__text_append(t, ",", 1);
        }
        weft__text_format(t, "%s", weft__number(steps[i], number));
        for (int k = 0; k < c->n; k++) {
            const double y = value_at(weft_history_find(run, c->names[k]), &at[k], steps[i]);
            weft__text_format(t, ",%s", isnan(y) ? "" : weft__number(y, number));
        }
        weft__text_append(t, "\n", 1);
    }
    weft_free(steps);
    return steps != NULL;
}

weft_status weft_histories_csv(weft_history *const *runs, int n, const char *path)
{
    weft_history_table table;
    columns c = {.n = 0};
    weft__text t = {0};
    weft_status status = weft_histories_compare(runs, n, &table);
    if (status != WEFT_OK)
        return status;
    for (int r = 0; r < n; r++)
        add_columns(&c, runs[r]);
    int *at = weft_calloc((size_t)c.n + 1, sizeof *at);
    t.failed = c.failed || at == NULL;
    weft__text_format(&t, n > 1 ? "run,step" : "step");
    for (int i = 0; i < c.n; i++) {
        weft__text_append(&t, ",", 1);
        add_field(&t, c.names[i]);
    }
    weft__text_append(&t, "\n", 1);
    for (int r = 0; r < n && !t.failed; r++)
        t.failed = !add_lines(&t, runs[r], n > 1 ? table.labels[r] : NULL, &c, at) || t.failed;
    status = t.failed ? weft__out_of_memory(path, "the metrics")
                      : weft__file_check_kind(path, n > 1 ? "^run,step," : "^step,",
                                              "metrics of a run as CSV");
    if (status == WEFT_OK)
        status = weft_file_write(path, t.at, t.n);
    weft_free(at);
    weft_free(c.names);
    weft_free(t.at);
    weft_history_table_free(&table);
    return status;
}

/* ---- TensorBoard ---------------------------------------------------------------------------- */

/* CRC-32C (Castagnoli), reflected. */
static uint32_t crc32c(const char *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)bytes[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ (crc & 1 ? UINT32_C(0x82F63B78) : 0);
    }
    return ~crc;
}

static void add_word(weft__text *t, uint64_t word, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        const char byte = (char)(word >> (8 * i));
        weft__text_append(t, &byte, 1);
    }
}

static void add_crc(weft__text *t, const char *bytes, size_t n)
{
    const uint32_t crc = crc32c(bytes, n);
    add_word(t, ((crc >> 15) | (crc << 17)) + UINT32_C(0xA282EAD8), 4);
}

/* A record of a TFRecord file: length, its checksum, the bytes, their checksum. */
static void add_record(weft__text *t, const weft__text *record)
{
    const size_t begin = t->n;
    add_word(t, record->n, 8);
    if (!t->failed)
        add_crc(t, t->at + begin, 8);
    weft__text_append(t, record->at, record->n);
    add_crc(t, record->at, record->n);
    t->failed = t->failed || record->failed;
}

static void add_varint(weft__text *t, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        add_word(t, (value & 0x7F) | 0x80, 1);
    add_word(t, value, 1);
}

/* Wire types of protocol buffers. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void add_key(weft__text *t, unsigned field, unsigned type)
{
    add_varint(t, (field << 3) | type);
}

static void add_bytes(weft__text *t, unsigned field, const char *bytes, size_t n)
{
    add_key(t, field, BYTES);
    add_varint(t, n);
    weft__text_append(t, bytes, n);
}

/* Fields of tensorflow.Event, Summary and Summary.Value. */
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SIMPLE };

static void begin_event(weft__text *event, double time)
{
    uint64_t bits;
    memcpy(&bits, &time, sizeof bits);
    event->n = 0;
    add_key(event, EVENT_TIME, FIXED64);
    add_word(event, bits, 8);
}

/* Adds a Summary.Value to a summary. `value`: room for it. */
static void add_scalar(weft__text *summary, weft__text *value, const char *tag, double y)
{
    const float simple = (float)y;
    uint32_t bits;
    memcpy(&bits, &simple, sizeof bits);
    value->n = 0;
    add_bytes(value, VALUE_TAG, tag, strlen(tag));
    add_key(value, VALUE_SIMPLE, FIXED32);
    add_word(value, bits, 4);
    if (!value->failed)
        add_bytes(summary, SUMMARY_VALUE, value->at, value->n);
    summary->failed = summary->failed || value->failed;
}

/* The seconds since 1970 at which the run began, from the time of its last line. */
static double began(const weft_history *run)
{
    struct stat info;
    const weft__summary seconds = weft__history_summary(run, "seconds");
    char *path = weft_format("%s/metrics.jsonl", run->folder);
    const bool known = path && stat(path, &info) == 0;
    weft_free(path);
    return known ? (double)info.st_mtime - (seconds.n > 0 ? seconds.last : 0) : 0;
}

/* Adds an event for each update of the run, with all its metrics. `at` (run->n): positions. */
static bool add_events(weft__text *t, const weft_history *run, int *at)
{
    weft__text event = {0}, summary = {0}, value = {0};
    const double start = began(run);
    double time = start;
    size_t n = 0;
    double *steps = steps_of(run, &n);
    begin_event(&event, start);
    add_bytes(&event, EVENT_VERSION, "brain.Event:2", strlen("brain.Event:2"));
    add_record(t, &event);
    for (size_t i = 0; steps && i < n; i++) {
        summary.n = 0;
        for (int k = 0; k < run->n; k++) {
            const double y = value_at(&run->curves[k], &at[k], steps[i]);
            if (isnan(y))
                continue;
            add_scalar(&summary, &value, run->names[k], y);
            if (strcmp(run->names[k], "seconds") == 0)
                time = start + y;
        }
        begin_event(&event, time);
        if (steps[i] > 0 && steps[i] < 9e18) { /* 0 is the default */
            add_key(&event, EVENT_STEP, VARINT);
            add_varint(&event, (uint64_t)steps[i]);
        }
        if (!summary.failed)
            add_bytes(&event, EVENT_SUMMARY, summary.at, summary.n);
        event.failed = event.failed || summary.failed;
        add_record(t, &event);
    }
    weft_free(event.at);
    weft_free(summary.at);
    weft_free(value.at);
    weft_free(steps);
    return steps != NULL && !t->failed;
}

/* Writes the event file of a run into a folder; replaces an earlier one. */
static weft_status write_events(const weft_history *run, const char *folder)
{
    weft__text t = {0};
    char *path = weft_format("%s/events.out.tfevents.0.weft", folder);
    int *at = weft_calloc((size_t)run->n + 1, sizeof *at);
    weft_status status = WEFT_OK;
    if (path == NULL || at == NULL || !add_events(&t, run, at))
        status = weft__out_of_memory(folder, "the metrics");
    if (status == WEFT_OK)
        status = weft_folder_make(folder);
    if (status == WEFT_OK)
        status = weft_file_write(path, t.at, t.n);
    weft_free(at);
    weft_free(path);
    weft_free(t.at);
    return status;
}

weft_status weft_histories_events(weft_history *const *runs, int n, const char *folder)
{
    weft_history_table table;
    weft_status status = weft_histories_compare(runs, n, &table);
    if (status != WEFT_OK)
        return status;
    for (int r = 0; status == WEFT_OK && r < n; r++) {
        char *label = table.labels[r];
        for (char *c = label; *c; c++)
            *c = *c == '/' ? '_' : *c;
        char *path = n > 1 ? weft_format("%s/%s", folder, label) : weft_strdup(folder);
        status = path ? write_events(runs[r], path) : weft__out_of_memory(folder, "the metrics");
        weft_free(path);
    }
    weft_history_table_free(&table);
    return status;
}
