/* train/data/parquet/column.c -- reads the entries of a column: its pages, their levels and values.
 *
 * Format: github.com/apache/parquet-format, parquet.thrift. The numbers of fields and types are
 * from there. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/decompress.h"
#include "train/data/parquet/parquet.h"
#include "train/data/parquet/thrift.h"
#include "weft/memory.h"

enum { DATA_PAGE = 0, DICTIONARY_PAGE = 2, DATA_PAGE_V2 = 3 };
enum { RLE = 3, BIT_PACKED = 4 }; /* encodings of levels */

/* Of a page in bytes. */
enum { LARGEST_PAGE = 1 << 30 };

typedef struct page_header {
    int64_t type, size, compressed;
    int64_t entries, encoding;
    int64_t def_encoding, rep_encoding; /* version 1 */
    int64_t def_bytes, rep_bytes;       /* version 2 */
    bool has_values_compressed;
} page_header;

weft_status weft__parquet_column_fail(const weft__parquet_column *c, weft_status status,
                                      const char *what)
{
    char name[160];
    return weft_fail(status, "%s: column %s, row group %zu: %s", c->file,
                     weft_printable(weft__parquet_path(c->leaf, name)), c->group + 1, what);
}

static weft_status invalid(const weft__parquet_column *c, const char *what)
{
    return weft__parquet_column_fail(c, WEFT_INVALID, what);
}

/* The failure of a function that sets `error`, to NULL if it is out of memory. */
static weft_status failure(const weft__parquet_column *c, const char *error)
{
    return error ? invalid(c, error) : weft__out_of_memory(c->file, "its pages");
}

/* ---- page headers --------------------------------------------------------------------------- */

/* The header of a data page (either version) or a dictionary page: integers and one boolean. */
static void read_details(weft__thrift *t, const weft__thrift_field *at, page_header *h)
{
    weft__thrift_field f = {0};
    const bool two = at->id == 8;
    weft__thrift_struct(t, at);
    while (weft__thrift_next(t, &f)) {
        int64_t *to = f.id == 1               ? &h->entries
                      : f.id == (two ? 4 : 2) ? &h->encoding
                      : f.id == (two ? 5 : 3) ? (two ? &h->def_bytes : &h->def_encoding)
                      : f.id == (two ? 6 : 4) ? (two ? &h->rep_bytes : &h->rep_encoding)
                                              : NULL;
        if (to && (at->id != 7 || f.id < 3)) /* a dictionary page has two integers */
            *to = weft__thrift_int(t, &f);
        else if (two && f.id == 7)
            h->has_values_compressed = weft__thrift_bool(t, &f);
        else
            weft__thrift_skip(t, &f);
    }
}

static weft_status read_header(weft__parquet_column *c, page_header *h)
{
    weft__thrift t = {.at = c->at, .end = c->end};
    weft__thrift_field f = {0};
    *h = (page_header){.type = -1, .has_values_compressed = true};
    while (weft__thrift_next(&t, &f)) {
        if (f.id == 1)
            h->type = weft__thrift_int(&t, &f);
        else if (f.id == 2)
            h->size = weft__thrift_int(&t, &f);
        else if (f.id == 3)
            h->compressed = weft__thrift_int(&t, &f);
        else if (f.id == 5 || f.id == 7 || f.id == 8)
            read_details(&t, &f, h);
        else
            weft__thrift_skip(&t, &f);
    }
    if (t.error)
        return invalid(c, "the header of a page is malformed or missing");
    c->at = t.at;
    if (h->compressed < 0 || h->compressed > c->end - c->at || h->size < 0 ||
        h->size > LARGEST_PAGE)
        return invalid(c, "the header of a page has an invalid size");
    return WEFT_OK;
}

/* ---- decompression -------------------------------------------------------------------------- */

/* Decompressed bytes, of which there are to be `size`. */
typedef struct output {
    const weft__parquet_column *column;
    char **at;
    size_t *capacity, n, size;
} output;

static weft_status append(void *context, const char *bytes, size_t n)
{
    output *o = context;
    if (n > o->size - o->n)
        return invalid(o->column, "a page is larger than its header says");
    if (*o->at == NULL || o->n + n > *o->capacity) {
        const size_t capacity = o->n + n + (o->n + n) / 2;
        char *moved = weft_realloc(*o->at, capacity); /* not NULL, also without a byte */
        if (moved == NULL)
            return weft__out_of_memory(o->column->file, "a page");
        *o->at = moved;
        *o->capacity = capacity;
    }
    if (n > 0)
        memcpy(*o->at + o->n, bytes, n);
    o->n += n;
    return WEFT_OK;
}

/* Decompresses in[0, n), which becomes `size` bytes, into a growing buffer. */
static weft_status decompress(const weft__parquet_column *c, const uint8_t *in, size_t n,
                              size_t size, char **out, size_t *capacity)
{
    static const weft__codec codecs[] = {
        [0] = WEFT__UNCOMPRESSED, [1] = WEFT__SNAPPY, [2] = WEFT__GZIP, [6] = WEFT__ZSTD};
    char name[160], where[160 + 160];
    output o = {.column = c, .at = out, .capacity = capacity, .size = size};
    weft__parquet_path(c->leaf, name);
    snprintf(where, sizeof where, "%s: column %s", c->file, weft_printable(name));
    weft_status status = append(&o, "", 0);
    if (status == WEFT_OK && (n > 0 || size > 0))
        status = weft__decompress(codecs[c->chunk.codec], in, n, where, append, &o);
    if (status == WEFT_OK && o.n != size)
        return invalid(c, "a page is smaller than its header says");
    return status;
}

/* ---- levels --------------------------------------------------------------------------------- */

/* Bits for levels from 0 to `most`. */
static int width_of(int most)
{
    int bits = 0;
    for (; most > 0; most /= 2)
        bits++;
    return bits;
}

/* Finds the levels at the start of a page of version 1. */
static bool begin_levels(weft__parquet_runs *r, int most, int64_t encoding, int64_t entries,
                         const uint8_t **at, const uint8_t *end)
{
    const size_t left = (size_t)(end - *at);
    uint64_t n = 0;
    *r = (weft__parquet_runs){.width = width_of(most), .only_packed = encoding == BIT_PACKED};
    if (most == 0)
        return true;
    if (encoding == BIT_PACKED) {
        n = ((uint64_t)entries * (uint64_t)r->width + 7) / 8;
    } else if (encoding == RLE && left >= 4) {
        n = weft__parquet_bits(*at, 4, 0, 32);
        *at += 4;
    } else {
        return false;
    }
    if (n > (uint64_t)(end - *at))
        return false;
    r->at = *at;
    r->end = *at += n;
    return true;
}

static weft_status begin_values(weft__parquet_column *c, const page_header *h, const uint8_t *at,
                                const uint8_t *end)
{
    const char *error = NULL;
    return weft__parquet_values_open(&c->values, c->leaf->element, h->encoding, at,
                                     (size_t)(end - at), &c->dictionary, &error)
               ? WEFT_OK
               : failure(c, error);
}

/* ---- pages ---------------------------------------------------------------------------------- */

static weft_status open_page_1(weft__parquet_column *c, const page_header *h)
{
    const uint8_t *at = c->at, *end = at + h->compressed;
    weft_status status = WEFT_OK;
    if (c->chunk.codec != 0) {
        status =
            decompress(c, at, (size_t)h->compressed, (size_t)h->size, &c->page, &c->page_capacity);
        at = (const uint8_t *)c->page;
        end = at + h->size;
    }
    if (status != WEFT_OK)
        return status;
    if (!begin_levels(&c->reps, c->leaf->rep, h->rep_encoding, h->entries, &at, end) ||
        !begin_levels(&c->defs, c->leaf->present, h->def_encoding, h->entries, &at, end))
        return invalid(c, "the levels of a page are malformed");
    return begin_values(c, h, at, end);
}

static weft_status open_page_2(weft__parquet_column *c, const page_header *h)
{
    const uint8_t *at = c->at, *end = at + h->compressed;
    if (h->rep_bytes < 0 || h->def_bytes < 0 || h->rep_bytes > h->compressed ||
        h->def_bytes > h->compressed - h->rep_bytes || h->rep_bytes + h->def_bytes > h->size)
        return invalid(c, "the levels of a page are malformed");
    const size_t size = (size_t)(h->size - h->rep_bytes - h->def_bytes);
    c->reps =
        (weft__parquet_runs){.at = at, .end = at + h->rep_bytes, .width = width_of(c->leaf->rep)};
    at += h->rep_bytes;
    c->defs = (weft__parquet_runs){
        .at = at, .end = at + h->def_bytes, .width = width_of(c->leaf->present)};
    at += h->def_bytes;
    weft_status status = WEFT_OK;
    if (c->chunk.codec != 0 && h->has_values_compressed && end > at) {
        status = decompress(c, at, (size_t)(end - at), size, &c->page, &c->page_capacity);
        at = (const uint8_t *)c->page;
        end = at + size;
    }
    return status == WEFT_OK ? begin_values(c, h, at, end) : status;
}

static weft_status open_dictionary(weft__parquet_column *c, const page_header *h)
{
    const char *error = NULL;
    weft__parquet_dictionary *d = &c->dictionary;
    d->loaded = false;
    d->size = (size_t)h->size;
    const weft_status status =
        decompress(c, c->at, (size_t)h->compressed, d->size, &d->bytes, &d->capacity);
    if (status != WEFT_OK)
        return status;
    return weft__parquet_dictionary_open(d, c->leaf->element, h->entries, &error)
               ? WEFT_OK
               : failure(c, error);
}

/* Reads the next page. Pages of other types are skipped. */
static weft_status next_page(weft__parquet_column *c)
{
    page_header h;
    weft_status status = read_header(c, &h);
    if (status != WEFT_OK)
        return status;
    const bool data = h.type == DATA_PAGE || h.type == DATA_PAGE_V2;
    if (data && (h.entries < 0 || h.entries > INT32_MAX || h.entries > c->left))
        return invalid(c, "its pages have more entries than the column");
    if (h.type == DICTIONARY_PAGE)
        status = open_dictionary(c, &h);
    else if (data)
        status = h.type == DATA_PAGE ? open_page_1(c, &h) : open_page_2(c, &h);
    if (status != WEFT_OK)
        return status;
    c->at += h.compressed;
    c->in_page = data ? h.entries : 0;
    c->left -= c->in_page;
    return WEFT_OK;
}

/* ---- columns -------------------------------------------------------------------------------- */

static weft_status check_codec(const weft__parquet_column *c)
{
    static const char *const refused[] = {[3] = "LZO", [4] = "Brotli", [5] = "LZ4", [7] = "LZ4"};
    const int64_t codec = c->chunk.codec;
    if (codec < 0 || codec > 7)
        return invalid(c, "it is compressed by an unknown method");
    if (refused[codec] == NULL)
        return WEFT_OK;
    char what[120];
    snprintf(what, sizeof what,
             "it is compressed by %s: expected Snappy, gzip, Zstandard or no compression",
             refused[codec]);
    return weft__parquet_column_fail(c, WEFT_UNSUPPORTED, what);
}

weft_status weft__parquet_column_open(weft__parquet_column *c, const weft__parquet_footer *footer,
                                      const uint8_t *data, size_t group)
{
    const weft__parquet_chunk *chunk = &footer->groups[group].chunks[c->leaf->leaf];
    const bool dictionary =
        chunk->dictionary_offset > 0 && chunk->dictionary_offset < chunk->data_offset;
    const int64_t start = dictionary ? chunk->dictionary_offset : chunk->data_offset;
    c->group = group;
    c->chunk = *chunk;
    c->in_page = 0;
    c->peeked = false;
    c->dictionary.loaded = false;
    if (chunk->encrypted || chunk->elsewhere)
        return weft__parquet_column_fail(
            c, WEFT_UNSUPPORTED, chunk->encrypted ? "it is encrypted" : "it is in another file");
    if (chunk->type != c->leaf->element->type)
        return invalid(c, "its type differs from that in the schema");
    if (chunk->entries < 0 || chunk->bytes < 0 || start < 0 || start > (int64_t)footer->size ||
        chunk->bytes > (int64_t)footer->size - start)
        return invalid(c, "its pages are outside the file");
    c->at = data + start;
    c->end = c->at + chunk->bytes;
    c->left = chunk->entries;
    return check_codec(c);
}

weft_status weft__parquet_column_peek(weft__parquet_column *c, bool *end)
{
    *end = false;
    if (c->peeked)
        return WEFT_OK;
    while (c->in_page == 0) {
        *end = c->left == 0;
        const weft_status status = *end ? WEFT_OK : next_page(c);
        if (*end || status != WEFT_OK)
            return status;
    }
    c->def = c->rep = 0;
    if ((c->leaf->rep > 0 && !weft__parquet_runs_next(&c->reps, &c->rep)) ||
        (c->leaf->present > 0 && !weft__parquet_runs_next(&c->defs, &c->def)))
        return invalid(c, "the levels of a page end too early");
    if (c->rep > (uint32_t)c->leaf->rep || c->def > (uint32_t)c->leaf->present)
        return invalid(c, "a level is too large");
    c->in_page--;
    c->peeked = true;
    return WEFT_OK;
}

weft_status weft__parquet_column_take(weft__parquet_column *c, weft__parquet_value *value)
{
    const char *error = NULL;
    c->peeked = false;
    return value == NULL || weft__parquet_values_next(&c->values, value, &error)
               ? WEFT_OK
               : failure(c, error);
}

void weft__parquet_column_free(weft__parquet_column *c)
{
    weft_free(c->page);
    weft_free(c->dictionary.bytes);
    weft_free(c->dictionary.offsets);
    weft_free(c->values.scratch);
}
