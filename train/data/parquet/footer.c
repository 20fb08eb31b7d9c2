/* train/data/parquet/footer.c -- reads the footer of a Parquet file: the schema, and where the
 * columns of each row group are.
 *
 * Format: github.com/apache/parquet-format, parquet.thrift. The numbers of fields are from there.
 */
#include <string.h>

#include "core/failure.h"
#include "train/data/parquet/parquet.h"
#include "train/data/parquet/thrift.h"
#include "weft/memory.h"

/* ---- types ---------------------------------------------------------------------------------- */

/* The meaning of converted types, by number; `digits` as in the element. */
static const struct {
    weft__parquet_meaning meaning;
    int digits;
    bool zulu;
} converted[] = {
    {WEFT__PARQUET_TEXT, 0, false},                                     /* UTF8 */
    {WEFT__PARQUET_MAP, 0, false},      {WEFT__PARQUET_MAP, 0, false},  /* MAP_KEY_VALUE */
    {WEFT__PARQUET_LIST, 0, false},     {WEFT__PARQUET_TEXT, 0, false}, /* ENUM */
    {WEFT__PARQUET_DECIMAL, 0, false},  {WEFT__PARQUET_DATE, 0, false},
    {WEFT__PARQUET_TIME, 3, false},     {WEFT__PARQUET_TIME, 6, false},
    {WEFT__PARQUET_TIMESTAMP, 3, true}, {WEFT__PARQUET_TIMESTAMP, 6, true},
    {WEFT__PARQUET_UNSIGNED, 0, false}, /* 8, 16, 32 and 64 bits */
    {WEFT__PARQUET_UNSIGNED, 0, false}, {WEFT__PARQUET_UNSIGNED, 0, false},
    {WEFT__PARQUET_UNSIGNED, 0, false}, {WEFT__PARQUET_PLAIN, 0, false}, /* signed */
    {WEFT__PARQUET_PLAIN, 0, false},    {WEFT__PARQUET_PLAIN, 0, false},
    {WEFT__PARQUET_PLAIN, 0, false},    {WEFT__PARQUET_TEXT, 0, false}, /* JSON */
    {WEFT__PARQUET_IGNORED, 0, false},                                  /* BSON */
    {WEFT__PARQUET_IGNORED, 0, false},                                  /* INTERVAL */
};

/* The meaning of logical types, by the number of the field in their union. */
static const weft__parquet_meaning logical[] = {
    [1] = WEFT__PARQUET_TEXT,     [2] = WEFT__PARQUET_MAP,       [3] = WEFT__PARQUET_LIST,
    [4] = WEFT__PARQUET_TEXT,     [5] = WEFT__PARQUET_DECIMAL,   [6] = WEFT__PARQUET_DATE,
    [7] = WEFT__PARQUET_TIME,     [8] = WEFT__PARQUET_TIMESTAMP, [10] = WEFT__PARQUET_PLAIN,
    [12] = WEFT__PARQUET_TEXT,    [13] = WEFT__PARQUET_IGNORED,  [14] = WEFT__PARQUET_UUID,
    [15] = WEFT__PARQUET_HALF,    [16] = WEFT__PARQUET_IGNORED,  [17] = WEFT__PARQUET_IGNORED,
    [18] = WEFT__PARQUET_IGNORED,
};
enum { INTEGER = 10, LOGICAL = sizeof logical / sizeof *logical };

/* A union of units: milliseconds, microseconds, nanoseconds. */
static int read_unit(weft__thrift *t, const weft__thrift_field *at)
{
    weft__thrift_field f = {0};
    int digits = 0;
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        digits = f.id >= 1 && f.id <= 3 ? 3 * f.id : 0;
        weft__thrift_skip(t, &f);
    }
    return digits;
}

/* The parameters of a logical type. */
static void read_parameters(weft__thrift *t, const weft__thrift_field *at, weft__parquet_element *e)
{
    weft__thrift_field f = {0};
    const bool time = e->meaning == WEFT__PARQUET_TIME || e->meaning == WEFT__PARQUET_TIMESTAMP;
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        if (time && f.id == 1)
            e->zulu = weft__thrift_bool(t, &f);
        else if (time && f.id == 2)
            e->digits = read_unit(t, &f);
        else if (e->meaning == WEFT__PARQUET_DECIMAL && f.id == 1)
            e->scale = weft__thrift_int(t, &f);
        else if (at->id == INTEGER && f.id == 2)
            e->meaning = weft__thrift_bool(t, &f) ? WEFT__PARQUET_PLAIN : WEFT__PARQUET_UNSIGNED;
        else
            weft__thrift_skip(t, &f);
    }
}

static void read_logical(weft__thrift *t, const weft__thrift_field *at, weft__parquet_element *e)
{
    weft__thrift_field f = {0};
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        e->logical = true;
        e->meaning = f.id < LOGICAL ? logical[f.id] : WEFT__PARQUET_PLAIN;
        read_parameters(t, &f, e);
    }
}

static void read_converted(weft__parquet_element *e, int64_t type)
{
    if (e->logical || type < 0 || type >= (int64_t)(sizeof converted / sizeof *converted))
        return;
    e->meaning = converted[type].meaning;
    e->digits = converted[type].digits;
    e->zulu = converted[type].zulu;
}

static void read_element(weft__thrift *t, const weft__thrift_field *at, weft__parquet_element *e)
{
    weft__thrift_field f = {0};
    e->type = -1;
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        if (f.id == 1)
            e->type = weft__thrift_int(t, &f);
        else if (f.id == 2)
            e->length = weft__thrift_int(t, &f);
        else if (f.id == 3)
            e->repetition = weft__thrift_int(t, &f);
        else if (f.id == 4)
            e->name = weft__thrift_bytes(t, &f, &e->n_name);
        else if (f.id == 5)
            e->children = weft__thrift_int(t, &f);
        else if (f.id == 6)
            read_converted(e, weft__thrift_int(t, &f));
        else if (f.id == 7)
            e->scale = weft__thrift_int(t, &f);
        else if (f.id == 10)
            read_logical(t, &f, e);
        else
            weft__thrift_skip(t, &f);
    }
}

/* ---- row groups ----------------------------------------------------------------------------- */

static void read_column_data(weft__thrift *t, const weft__thrift_field *at, weft__parquet_chunk *c)
{
    weft__thrift_field f = {0};
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        int64_t *to = f.id == 1    ? &c->type
                      : f.id == 4  ? &c->codec
                      : f.id == 5  ? &c->entries
                      : f.id == 7  ? &c->bytes
                      : f.id == 9  ? &c->data_offset
                      : f.id == 11 ? &c->dictionary_offset
                                   : NULL;
        if (to)
            *to = weft__thrift_int(t, &f);
        else
            weft__thrift_skip(t, &f);
    }
}

static void read_chunk(weft__thrift *t, const weft__thrift_field *at, weft__parquet_chunk *c)
{
    weft__thrift_field f = {0};
    c->type = -1;
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        c->elsewhere |= f.id == 1;
        c->encrypted |= f.id == 8 || f.id == 9;
        if (f.id == 3)
            read_column_data(t, &f, c);
        else
            weft__thrift_skip(t, &f);
    }
}

/* Begins a list, and allocates an item of `size` bytes for each of its items. NULL: out of memory.
 */
static void *begin_list(weft__thrift *t, const weft__thrift_field *at, weft__thrift_field *item,
                        size_t size, void *before, size_t *n)
{
    weft_free(before); /* of an earlier field with the same number */
    *n = weft__thrift_list(t, at, item);
    void *out = weft_calloc(*n + 1, size);
    if (out == NULL)
        *n = 0;
    return out;
}

/* False: out of memory. */
static bool read_group(weft__thrift *t, const weft__thrift_field *at, weft__parquet_group *g)
{
    weft__thrift_field f = {0}, item;
    bool fine = true;
    weft__thrift_struct(t, at);
    while (fine && weft__thrift_next(t, &f)) {
        if (f.id == 1) {
            g->chunks = begin_list(t, &f, &item, sizeof *g->chunks, g->chunks, &g->n_chunks);
            fine = g->chunks != NULL;
            for (size_t i = 0; i < g->n_chunks; i++)
                read_chunk(t, &item, &g->chunks[i]);
        } else if (f.id == 3) {
            g->rows = weft__thrift_int(t, &f);
        } else {
            weft__thrift_skip(t, &f);
        }
    }
    return fine;
}

static void free_groups(weft__parquet_footer *footer)
{
    for (size_t i = 0; i < footer->n_groups; i++)
        weft_free(footer->groups[i].chunks);
    weft_free(footer->groups);
    footer->groups = NULL;
    footer->n_groups = 0;
}

static bool read_groups(weft__thrift *t, const weft__thrift_field *at, weft__parquet_footer *out)
{
    weft__thrift_field item;
    free_groups(out);
    out->groups = begin_list(t, at, &item, sizeof *out->groups, NULL, &out->n_groups);
    bool fine = out->groups != NULL;
    for (size_t i = 0; fine && i < out->n_groups; i++)
        fine = read_group(t, &item, &out->groups[i]);
    return fine;
}

static bool read_schema(weft__thrift *t, const weft__thrift_field *at, weft__parquet_footer *out)
{
    weft__thrift_field item;
    out->elements =
        begin_list(t, at, &item, sizeof *out->elements, out->elements, &out->n_elements);
    for (size_t i = 0; i < out->n_elements; i++)
        read_element(t, &item, &out->elements[i]);
    return out->elements != NULL;
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status read_footer(weft__thrift *t, const char *path, weft__parquet_footer *out)
{
    weft__thrift_field f = {0};
    bool fine = true;
    while (fine && weft__thrift_next(t, &f)) {
        if (f.id == 2)
            fine = read_schema(t, &f, out);
        else if (f.id == 4)
            fine = read_groups(t, &f, out);
        else if (f.id == 8)
            return weft_fail(WEFT_UNSUPPORTED, "%s: encrypted Parquet files cannot be read", path);
        else
            weft__thrift_skip(t, &f);
    }
    if (!fine)
        return weft__out_of_memory(path, "its footer");
    return t->error ? weft_fail(WEFT_INVALID, "%s: malformed footer: %s", path, t->error) : WEFT_OK;
}

weft_status weft__parquet_footer_read(const uint8_t *data, size_t size, const char *path,
                                      weft__parquet_footer *out)
{
    enum { TAIL = 8 }; /* the footer's length and "PAR1" */
    *out = (weft__parquet_footer){0};
    if (size >= 4 && memcmp(data + size - 4, "PARE", 4) == 0)
        return weft_fail(WEFT_UNSUPPORTED, "%s: encrypted Parquet files cannot be read", path);
    if (size < 4 + TAIL || memcmp(data, "PAR1", 4) != 0)
        return weft_fail(WEFT_INVALID, "%s: not a Parquet file: expected PAR1 at its start", path);
    if (memcmp(data + size - 4, "PAR1", 4) != 0)
        return weft_fail(WEFT_INVALID, "%s: expected PAR1 at its end: the file is truncated", path);
    const uint8_t *tail = data + size - TAIL;
    const size_t n = (size_t)(tail[0] | tail[1] << 8 | tail[2] << 16 | (uint32_t)tail[3] << 24);
    if (n > size - TAIL - 4)
        return weft_fail(WEFT_INVALID, "%s: its footer of %zu bytes does not fit into %zu bytes",
                         path, n, size);
    weft__thrift t = {.at = tail - n, .end = tail};
    out->size = size - TAIL - n;
    return read_footer(&t, path, out);
}

void weft__parquet_footer_free(weft__parquet_footer *footer)
{
    free_groups(footer);
    weft_free(footer->elements);
    *footer = (weft__parquet_footer){0};
}
