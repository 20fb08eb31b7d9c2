/* train/data/rows.c -- reads the rows of a file: JSON lines, a JSON array, or a table. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
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
    if (status == WEFT_INVALID || status == WEFT_UNSUPPORTED) { /* removes its samples */
        *now = *before;
        r->rows->n_ids = before->tokens;
    }
    if (now->truncated + now->split + now->dropped !=
        before->truncated + before->split + before->dropped)
        note(&r->longer, where);
    if (now->empty != before->empty)
        note(&r->empty, where);
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
    if (is_blank(text, length))
        return WEFT_OK;
    char *where = weft_format("%s:%lld", r->path, (long long)number);
    if (where == NULL)
        return weft__out_of_memory(r->path, "its rows");
    const weft_dataset_info before = r->rows->info;
    weft__json_doc doc;
    r->where = where;
    weft_status status = weft__json_parse(text, length, where, &doc);
    if (status == WEFT_OK) {
        const weft__json row = weft__json_root(&doc);
        status = weft__reader_add_row(r, &row);
        weft__json_free(&doc);
    }
    status = weft__reader_row_done(r, where, status, &before);
    r->where = r->path;
    weft_free(where);
    return status;
}

static weft_status add_lines(weft__reader *r, const char *data, size_t size)
{
    const char *end = data + size;
    weft_status status = WEFT_OK;
    int64_t number = 1;
    for (const char *at = data; status == WEFT_OK && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        status = add_line(r, at, (size_t)(stop - at), number);
        at = stop + 1;
    }
    return status;
}

/* ---- a JSON array --------------------------------------------------------------------------- */

static weft_status add_item(weft__reader *r, const weft__json *array, size_t i)
{
    weft__json row;
    const weft_status found = weft__json_at(array, i, &row);
    char *where = weft_format("%s: row %zu", r->path, i + 1);
    if (found != WEFT_OK || where == NULL) {
        weft_free(where);
        return found != WEFT_OK ? found : weft__out_of_memory(r->path, "its rows");
    }
    const weft_dataset_info before = r->rows->info;
    row.name = r->where = where;
    row.path[0] = '\0';
    const weft_status status =
        weft__reader_row_done(r, where, weft__reader_add_row(r, &row), &before);
    r->where = r->path;
    weft_free(where);
    return status;
}

static weft_status add_array(weft__reader *r, const char *data, size_t size)
{
    weft__json_doc doc;
    size_t n;
    weft_status status = weft__json_parse(data, size, r->path, &doc);
    if (status != WEFT_OK)
        return status;
    const weft__json array = weft__json_root(&doc);
    status = weft__json_length(&array, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++)
        status = add_item(r, &array, i);
    weft__json_free(&doc);
    return status;
}

weft_status weft__reader_add_rows(weft__reader *r, const char *data, size_t size,
                                  weft_data_format format)
{
    switch (format) {
    case WEFT_DATA_JSON:
        return add_array(r, data, size);
    case WEFT_DATA_CSV:
        return weft__reader_add_table(r, data, size, ',');
    case WEFT_DATA_TSV:
        return weft__reader_add_table(r, data, size, '\t');
    default:
        return add_lines(r, data, size);
    }
}
