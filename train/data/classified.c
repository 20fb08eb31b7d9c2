/* train/data/classified.c -- labeled texts for classification. A sample has the tokens of the
 * text, and its last target is the index of the label, which the classification head predicts
 * there. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* ---- lists of labels ------------------------------------------------------------------------ */

static bool is_number(const char *text, long long *value)
{
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static int by_number(const void *a, const void *b)
{
    const long long x = strtoll(*(char *const *)a, NULL, 10);
    const long long y = strtoll(*(char *const *)b, NULL, 10);
    return x != y ? (x > y) - (x < y) : weft__by_text(a, b);
}

static void sort(weft_labels *labels)
{
    bool numbers = true;
    long long value;
    for (int i = 0; i < labels->n; i++)
        numbers = numbers && is_number(labels->at[i], &value);
    if (labels->n > 1)
        qsort(labels->at, (size_t)labels->n, sizeof *labels->at,
              numbers ? by_number : weft__by_text);
}

weft_status weft_labels_find(const weft_data_source *sources, int n,
                             const weft_tokenizer *tokenizer, const weft_dataset_options *options,
                             weft_labels *out)
{
    weft_dataset_options o = *options;
    weft_dataset *seen = NULL;
    *out = (weft_labels){.open = true};
    o.labels = out;
    o.cache = NULL;
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (strcmp(sources[i].path, "-") == 0)
            status = weft_fail(WEFT_UNSUPPORTED, "labels: standard input is read once: expected "
                                                 "the labels to be given");
    }
    if (status == WEFT_OK)
        status = weft_dataset_load_mixture(sources, n, tokenizer, &o, 0, &seen, NULL);
    weft_dataset_free(seen);
    out->open = false;
    sort(out);
    if (status == WEFT_OK && out->n < 2)
        status = weft_fail(WEFT_INVALID, "%s: expected at least two labels, got %d: '%s'",
                           sources[0].path, out->n, out->n > 0 ? weft_printable(out->at[0]) : "");
    if (status != WEFT_OK)
        weft_labels_free(out);
    return status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Lists as many labels as fit, for a message. */
static void list_labels(const weft_labels *labels, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < labels->n && n + 1 < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "",
                              weft_printable(labels->at[i]));
}

static weft_status unknown(const weft_labels *labels, const weft__json *at, const char *label)
{
    char known[200];
    list_labels(labels, known, sizeof known);
    return weft__json_fail(at, WEFT_INVALID, "expected one of the labels %s, got '%s'", known,
                           weft_printable(label));
}

/* The index of the row's label. The label is a string or an integer; an integer is the name of a
 * label or, if there is no such name, its index. */
static weft_status find_label(weft_labels *labels, weft__data_row *row, int *out)
{
    weft__json at;
    weft__data_row_take(row, WEFT__MEMBER_LABEL, &at);
    const bool integer =
        json_object_is_type(at.value, json_type_int) || weft__json_big_integer(at.value);
    const char *label = json_object_get_string(at.value);
    if ((!integer && !json_object_is_type(at.value, json_type_string)) || *label == '\0')
        return weft__json_fail(&at, WEFT_INVALID, "expected a text or an integer, got %s",
                               *label ? weft_printable(label) : "an empty text");
    *out = weft_labels_index(labels, label);
    if (*out < 0 && labels->open) {
        *out = labels->n;
        return weft_labels_add(labels, label);
    }
    if (*out < 0 && integer && json_object_get_int64(at.value) >= 0 &&
        json_object_get_int64(at.value) < labels->n)
        *out = (int)json_object_get_int64(at.value);
    return *out < 0 ? unknown(labels, &at, label) : WEFT_OK;
}

/* Shortens a text to ids[*from, *from + *n). *n is 0 if the text is dropped. */
static weft_status shorten(weft__reader *r, int64_t *from, int64_t *n)
{
    const int64_t limit = r->rows->limit - 1, over = *n - limit; /* 1 for the label */
    weft_dataset_info *info = &r->rows->info;
    if (over <= 0)
        return WEFT_OK;
    if (r->o.longer == WEFT_LONG_REFUSE || r->o.longer == WEFT_LONG_SPLIT)
        return weft_fail(WEFT_INVALID, "%s: the text has %lld tokens, more than the %lld allowed%s",
                         r->where, (long long)*n, (long long)limit,
                         r->o.longer == WEFT_LONG_SPLIT ? ", and texts with a label cannot be split"
                                                        : "");
    const bool drop = r->o.longer == WEFT_LONG_DROP;
    info->cut += drop ? *n : over;
    info->dropped += drop;
    *from = r->o.longer == WEFT_LONG_KEEP_TAIL ? over : 0;
    *n = drop ? 0 : limit;
    return WEFT_OK;
}

static weft_status add_text(weft__reader *r, const weft__json *at, int label)
{
    const char *text;
    size_t length, count;
    int32_t *ids, target = label;
    weft_status status = weft__json_as_string(at, &text, &length);
    if (status != WEFT_OK)
        return status;
    status =
        weft_tokenizer_encode(r->tokenizer, text, length, WEFT_TOKENIZER_ADD_SPECIAL, &ids, &count);
    if (status != WEFT_OK)
        return weft_fail(status, "%s: %s", r->where, weft_error_message());
    int64_t from = 0, n = (int64_t)count;
    if (n == 0)
        status = weft__json_fail(at, WEFT_INVALID, "expected a text with at least one token");
    if (status == WEFT_OK)
        status = shorten(r, &from, &n);
    if (status == WEFT_OK && n > 0) {
        const weft_sample tokens = {.ids = ids + from, .length = n};
        status = weft__dataset_check_sample(r->rows, &tokens);
        if (status != WEFT_OK)
            status = weft__json_fail(at, status, "%s", weft_error_message());
    }
    r->sample.n = 0;
    if (status == WEFT_OK && n > 0)
        status = weft__builder_add(&r->sample, ids + from, (size_t)n, 0);
    if (status == WEFT_OK && n > 0)
        status = weft__builder_add(&r->sample, &target, 1, 1);
    if (status == WEFT_OK && n > 0) {
        const weft_sample sample = {r->sample.ids, r->sample.weights, r->sample.n, 0};
        status = weft__dataset_append(r->rows, &sample, n < (int64_t)count);
    }
    weft_free(ids);
    return status;
}

weft_status weft__reader_add_classified(weft__reader *r, weft__data_row *row)
{
    static const char *const keys[] = {"text", "label"};
    int label = 0;
    weft__json text;
    weft_status status = weft__json_as_object(row->json);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        if (json_object_object_get(row->json->value, keys[i]) == NULL)
            status =
                weft__json_fail(row->json, WEFT_INVALID,
                                "expected \"text\" and \"label\", and there is no \"%s\"", keys[i]);
    }
    if (status == WEFT_OK)
        status = find_label(r->o.labels, row, &label);
    if (status != WEFT_OK)
        return status;
    weft__data_row_take(row, WEFT__MEMBER_TEXT, &text);
    if (r->o.labels->open) { /* only the labels are collected */
        r->sample.n = 0;
        status = weft__builder_add(&r->sample, (const int32_t[]){0, 0}, 2, 1);
        return status == WEFT_OK ? weft__builder_finish(&r->sample, 0, r->rows) : status;
    }
    return add_text(r, &text, label);
}
