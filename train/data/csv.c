/* train/data/csv.c -- reads tables: CSV (RFC 4180) and the same format with tabs.
 *
 * A quoted field may contain separators, line breaks and doubled quotes. In a field that does not
 * begin with a quote, a quote is an ordinary character. Lines end with LF or CRLF. Empty lines are
 * skipped. */
#include <string.h>

#include "core/failure.h"
#include "train/data/reader.h"
#include "weft/memory.h"

typedef struct field {
    size_t start, length; /* in the text of the table */
} field;

typedef struct table {
    weft__reader *reader;
    const char *at, *end; /* the unread part */
    char separator;
    int64_t line;
    char *text; /* the record's fields, without quotes */
    size_t n_text, text_capacity;
    field *fields;
    size_t n_fields, fields_capacity;
    json_object *header; /* an array of names */
} table;

/* ---- records -------------------------------------------------------------------------------- */

static bool put(table *t, char c)
{
    if (t->n_text == t->text_capacity) {
        const size_t capacity = 2 * t->text_capacity + 256;
        char *moved = weft_realloc(t->text, capacity);
        if (moved == NULL)
            return false;
        t->text = moved;
        t->text_capacity = capacity;
    }
    t->text[t->n_text++] = c;
    return true;
}

static bool begin_field(table *t)
{
    if (t->n_fields == t->fields_capacity) {
        const size_t capacity = 2 * t->fields_capacity + 16;
        field *moved = weft_realloc(t->fields, capacity * sizeof *moved);
        if (moved == NULL)
            return false;
        t->fields = moved;
        t->fields_capacity = capacity;
    }
    t->fields[t->n_fields++] = (field){t->n_text, 0};
    return true;
}

static bool at_line_end(const table *t)
{
    return t->at == t->end || *t->at == '\n' ||
           (*t->at == '\r' && t->at + 1 < t->end && t->at[1] == '\n');
}

/* Reads the rest of a quoted field, after its opening quote. */
static weft_status read_quoted(table *t)
{
    while (t->at < t->end) {
        const char c = *t->at++;
        if (c == '"' && (t->at == t->end || *t->at != '"')) {
            if (at_line_end(t) || *t->at == t->separator)
                return WEFT_OK;
            return weft_fail(WEFT_INVALID,
                             "field %zu: expected a separator after the closing quote",
                             t->n_fields);
        }
        t->at += c == '"';
        t->line += c == '\n';
        if (!put(t, c))
            return weft__out_of_memory(t->reader->path, "a row");
    }
    return weft_fail(WEFT_INVALID, "field %zu: its quote is not closed", t->n_fields);
}

static weft_status read_field(table *t)
{
    if (!begin_field(t))
        return weft__out_of_memory(t->reader->path, "a row");
    weft_status status = WEFT_OK;
    if (t->at < t->end && *t->at == '"') {
        t->at++;
        status = read_quoted(t);
    } else {
        while (status == WEFT_OK && !at_line_end(t) && *t->at != t->separator)
            status = put(t, *t->at++) ? WEFT_OK : weft__out_of_memory(t->reader->path, "a row");
    }
    field *last = &t->fields[t->n_fields - 1];
    last->length = t->n_text - last->start;
    return status;
}

static void skip_line_end(table *t)
{
    t->at += t->at < t->end && *t->at == '\r';
    if (t->at < t->end) {
        t->at++;
        t->line++;
    }
}

/* Reads the fields of the next record. After a malformed record, reading resumes at the next line.
 */
static weft_status read_record(table *t)
{
    const char *start = t->at;
    const int64_t line = t->line;
    t->n_fields = t->n_text = 0;
    weft_status status = read_field(t);
    while (status == WEFT_OK && !at_line_end(t)) {
        t->at++; /* the separator */
        status = read_field(t);
    }
    if (status == WEFT_OK) {
        skip_line_end(t);
        return WEFT_OK;
    }
    const char *newline = memchr(start, '\n', (size_t)(t->end - start));
    t->at = newline ? newline + 1 : t->end;
    t->line = line + 1;
    return weft_fail(status, "%s", weft_error_message());
}

/* ---- rows ----------------------------------------------------------------------------------- */

static json_object *text_of(const table *t, size_t i)
{
    const char *text = t->n_text > 0 ? t->text + t->fields[i].start : "";
    return json_object_new_string_len(text, (int)t->fields[i].length);
}

/* Reads the first record, the column names. Columns without a name are ignored. */
static weft_status read_header(table *t)
{
    weft_status status = read_record(t);
    if (status != WEFT_OK)
        return weft_fail(status, "%s:1: %s", t->reader->path, weft_error_message());
    const bool one = t->n_fields == 1 && t->separator == ',' && t->n_text > 0;
    if (one && memchr(t->text, ';', t->n_text))
        return weft_fail(WEFT_INVALID,
                         "%s:1: expected columns separated by commas, got semicolons: export the "
                         "table with commas, or with tabs and --format tsv",
                         t->reader->path);
    json_object *names = json_object_new_object(); /* to find a name that is there twice */
    t->header = json_object_new_array();
    bool fine = names && t->header;
    for (size_t i = 0; fine && i < t->n_fields; i++) {
        json_object *name = text_of(t, i);
        const char *text = name ? json_object_get_string(name) : NULL;
        if (text && *text && json_object_object_get_ex(names, text, NULL))
            status = weft_fail(WEFT_INVALID, "%s:1: the header has the name %s twice",
                               t->reader->path, weft_printable(text));
        fine = text && json_object_array_add(t->header, name) == 0;
        if (!fine)
            json_object_put(name);
        else if (*text)
            fine = json_object_object_add(names, text, json_object_get(name)) == 0;
    }
    json_object_put(names);
    return fine ? status : weft__out_of_memory(t->reader->path, NULL);
}

static weft_status add_record(table *t, const char *where)
{
    const size_t n = json_object_array_length(t->header);
    if (t->n_fields != n)
        return weft_fail(WEFT_INVALID, "%s: expected %zu fields, as the header has, got %zu", where,
                         n, t->n_fields);
    weft__json_doc doc = {.root = json_object_new_object(), .name = (char *)where};
    if (doc.root == NULL)
        return weft__out_of_memory(where, NULL);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_object_get_string(json_object_array_get_idx(t->header, i));
        if (*name != '\0')
            json_object_object_add(doc.root, name, text_of(t, i));
    }
    const weft__json row = weft__json_root(&doc);
    const weft_status status = t->reader->add_row(t->reader, &row);
    json_object_put(doc.root);
    return status;
}

static weft_status add_next(table *t)
{
    char *where = weft_format("%s:%lld", t->reader->path, (long long)t->line);
    if (where == NULL)
        return weft__out_of_memory(t->reader->path, "its rows");
    const weft_dataset_info before = t->reader->rows->info;
    t->reader->where = where;
    t->reader->number = t->line;
    weft_status status = read_record(t);
    if (status == WEFT_OK)
        status = add_record(t, where);
    else
        weft_fail(status, "%s: %s", where, weft_error_message());
    status = weft__reader_row_done(t->reader, where, status, &before);
    t->reader->where = t->reader->path;
    weft_free(where);
    return status;
}

static weft_status read_table(weft__reader *r, const char *data, size_t size, char separator)
{
    table t = {.reader = r, .at = data, .end = data + size, .separator = separator, .line = 1};
    weft_status status = size > 0 ? read_header(&t) : WEFT_OK;
    while (status == WEFT_OK && t.at < t.end) {
        if (at_line_end(&t))
            skip_line_end(&t);
        else
            status = add_next(&t);
    }
    json_object_put(t.header);
    weft_free(t.text);
    weft_free(t.fields);
    return status;
}

weft_status weft__read_csv(weft__reader *r, const char *data, size_t size)
{
    return read_table(r, data, size, ',');
}

weft_status weft__read_tsv(weft__reader *r, const char *data, size_t size)
{
    return read_table(r, data, size, '\t');
}
