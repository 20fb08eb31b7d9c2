/* train/data/rows.c -- reads the rows of a file: JSON lines, a JSON array, or Parquet. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/parquet/parquet.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* Maximum number of warnings about bad rows, and of locations in a message. */
enum { MOST_WARNINGS = 5, MOST_PLACES = 5 };

/* ---- after a row ---------------------------------------------------------------------------- */

static void note(weft__places *places, const char *where)
{
    const size_t n = strlen(places->text);
    const char *name = strrchr(where, '/') ? strrchr(where, '/') + 1 : where;
    if (places->n < MOST_PLACES)
        snprintf(places->text + n, sizeof places->text - n, "%s%s", n > 0 ? ", " : "", name);
    else if (places->n == MOST_PLACES)
        snprintf(places->text + n, sizeof places->text - n, ", ...");
    places->n++;
}

weft_status weft__reader_row_done(weft__reader *r, const char *where, weft_status status,
                                  const weft_dataset_info *before)
{
    weft_dataset_info *now = &r->rows->info;
    if (r->o.cancel != NULL && weft_cancel_is_set(r->o.cancel))
        return weft_fail(WEFT_CANCELLED, "%s: reading was stopped at %s", r->source, where);
    if (status == WEFT_INVALID || status == WEFT_UNSUPPORTED) { /* removes its samples */
        *now = *before;
        r->rows->n_ids = before->tokens;
    }
    if (now->truncated + now->split + now->dropped !=
        before->truncated + before->split + before->dropped)
        note(&r->longer, where);
    if (now->empty != before->empty)
        note(&r->empty, where);
    if (now->empty_answers != before->empty_answers)
        note(&r->empty_answers, where);
    if (status != WEFT_INVALID && status != WEFT_UNSUPPORTED)
        return status;
    if (r->n_bad >= r->o.max_bad_rows)
        return r->n_bad == 0
                   ? status
                   : weft_fail(status,
                               "%s (%lld bad rows before this one were skipped, as many as "
                               "are allowed)",
                               weft_error_message(), (long long)r->n_bad);
    if (++r->n_bad <= MOST_WARNINGS)
        weft__data_warn(r->said, "skipped a bad row: %s", weft_error_message());
    r->rows->info.bad_rows++;
    return WEFT_OK;
}

/* ---- JSON lines ----------------------------------------------------------------------------- */

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

static weft_status add_line(weft__reader *r, const char *text, size_t length, int64_t number)
{
    if (number == 1)
        weft__data_skip_mark(&text, &length);
    if (is_blank(text, length))
        return WEFT_OK;
    char *where = weft_format("%s:%lld", r->path, (long long)number);
    if (where == NULL)
        return weft__out_of_memory(r->path, "its rows");
    const weft_dataset_info before = r->rows->info;
    weft__json_doc doc;
    r->where = where;
    r->number = number;
    weft_status status = weft__json_parse(text, length, where, &doc);
    if (status == WEFT_OK) {
        const weft__json row = weft__json_root(&doc);
        status = r->add_row(r, &row);
        weft__json_free(&doc);
    }
    status = weft__reader_row_done(r, where, status, &before);
    r->where = r->path;
    weft_free(where);
    return status;
}

/* The state of reading lines from pieces of a file. */
typedef struct lines {
    weft__reader *reader;
    int64_t number;  /* of the next line */
    weft__text rest; /* the beginning of it in earlier pieces */
} lines;

/* Adds a line that ends with this piece, or an empty one. */
static weft_status end_line(lines *l, const char *text, size_t length)
{
    const bool whole = l->rest.n == 0;
    if (!whole)
        weft__text_append(&l->rest, text, length);
    if (l->rest.failed)
        return weft__out_of_memory(l->reader->path, "a row");
    const weft_status status =
        add_line(l->reader, whole ? text : l->rest.at, whole ? length : l->rest.n, l->number);
    l->rest.n = 0;
    l->number++;
    return status;
}

static weft_status add_piece(void *context, const char *data, size_t size)
{
    lines *l = context;
    const char *end = data + size, *newline;
    weft_status status = WEFT_OK;
    while (status == WEFT_OK && (newline = memchr(data, '\n', (size_t)(end - data))) != NULL) {
        status = end_line(l, data, (size_t)(newline - data));
        data = newline + 1;
    }
    if (status != WEFT_OK)
        return status;
    if (l->rest.n + (size_t)(end - data) > WEFT__JSON_MAX_BYTES)
        return weft_fail(WEFT_INVALID, "%s:%lld: expected a row of at most %d MiB", l->reader->path,
                         (long long)l->number, WEFT__JSON_MAX_BYTES >> 20);
    weft__text_append(&l->rest, data, (size_t)(end - data));
    return l->rest.failed ? weft__out_of_memory(l->reader->path, "a row") : WEFT_OK;
}

weft_status weft__reader_add_lines(weft__reader *r, weft__codec codec, const char *data,
                                   size_t size)
{
    lines l = {.reader = r, .number = 1};
    weft_status status = weft__decompress(codec, data, size, r->path, add_piece, &l);
    if (status == WEFT_OK && l.rest.n > 0)
        status = end_line(&l, "", 0);
    weft_free(l.rest.at);
    return status;
}

weft_status weft__read_jsonl(weft__reader *r, const char *data, size_t size)
{
    return weft__reader_add_lines(r, WEFT__UNCOMPRESSED, data, size);
}

/* ---- a JSON array --------------------------------------------------------------------------- */

/* Adds row `number`, counted from 1. `status` is that of reading it; after a failure `value` is not
 * used. */
static weft_status add_value(weft__reader *r, json_object *value, size_t number, weft_status status)
{
    char *where = weft_format("%s: row %zu", r->path, number);
    if (where == NULL)
        return weft__out_of_memory(r->path, "its rows");
    const weft_dataset_info before = r->rows->info;
    const weft__json row = {.value = value, .name = where};
    r->where = where;
    r->number = (int64_t)number;
    if (status == WEFT_OK)
        status = r->add_row(r, &row);
    status = weft__reader_row_done(r, where, status, &before);
    r->where = r->path;
    weft_free(where);
    return status;
}

weft_status weft__read_json(weft__reader *r, const char *data, size_t size)
{
    weft__json_doc doc;
    size_t n;
    weft_status status = weft__json_parse(data, size, r->path, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json array = weft__json_root(&doc);
    status = weft__json_length(&array, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++)
        status = add_value(r, json_object_array_get_idx(array.value, i), i + 1, WEFT_OK);
    weft__json_free(&doc);
    return status;
}

/* ---- Parquet -------------------------------------------------------------------------------- */

weft_status weft__read_parquet(weft__reader *r, const char *data, size_t size)
{
    weft__parquet *file;
    json_object *row = NULL;
    const char *bad = NULL;
    size_t number = 0;
    weft_status status = weft__parquet_open(data, size, r->path, &file);
    while (status == WEFT_OK) {
        status = weft__parquet_next(file, &row, &bad);
        if (status != WEFT_OK || (row == NULL && bad == NULL))
            break;
        number++;
        status = bad ? weft_fail(WEFT_INVALID, "%s: row %zu: %s", r->path, number, bad) : WEFT_OK;
        status = add_value(r, row, number, status);
        json_object_put(row);
    }
    weft__parquet_close(file);
    return status;
}
