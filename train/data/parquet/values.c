/* train/data/parquet/values.c -- decodes the values of a page, one at a time.
 *
 * Encodings: github.com/apache/parquet-format, Encodings.md. */
#include <string.h>

#include "train/data/parquet/parquet.h"
#include "weft/memory.h"

/* Encodings, by their numbers in the format. */
enum {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_BINARY_PACKED = 5,
    DELTA_LENGTH_BYTE_ARRAY = 6,
    DELTA_BYTE_ARRAY = 7,
    RLE_DICTIONARY = 8,
    BYTE_STREAM_SPLIT = 9,
};

static bool fail(const char **error, const char *what)
{
    *error = what;
    return false;
}

static bool too_early(const char **error)
{
    return fail(error, "the values end too early");
}

static uint32_t read_u32(const uint8_t *at)
{
    return (uint32_t)weft__parquet_bits(at, 4, 0, 32);
}

/* Bytes of a value; 0: they vary, or are less than one. */
static size_t length_of(const weft__parquet_element *e)
{
    static const size_t lengths[WEFT__PARQUET_TYPES] = {
        [WEFT__PARQUET_INT32] = 4, [WEFT__PARQUET_INT64] = 8,  [WEFT__PARQUET_INT96] = 12,
        [WEFT__PARQUET_FLOAT] = 4, [WEFT__PARQUET_DOUBLE] = 8,
    };
    return e->type == WEFT__PARQUET_FIXED ? (size_t)e->length : lengths[e->type];
}

/* ---- a value in memory ---------------------------------------------------------------------- */

/* Reads a value of fixed size. */
static void read_fixed(weft__parquet_type type, const uint8_t *at, size_t n,
                       weft__parquet_value *out)
{
    float single;
    if (type == WEFT__PARQUET_INT32) {
        out->whole = (int32_t)read_u32(at);
    } else if (type == WEFT__PARQUET_INT64) {
        out->whole = (int64_t)weft__parquet_bits(at, 8, 0, 64);
    } else if (type == WEFT__PARQUET_FLOAT) {
        const uint32_t bits = read_u32(at);
        memcpy(&single, &bits, sizeof single);
        out->number = (double)single;
    } else if (type == WEFT__PARQUET_DOUBLE) {
        const uint64_t bits = weft__parquet_bits(at, 8, 0, 64);
        memcpy(&out->number, &bits, sizeof bits);
    } else {
        out->bytes = at;
        out->n = n;
    }
}

/* Takes n bytes of the page. */
static bool take(weft__parquet_values *v, uint64_t n, weft__parquet_value *out, const char **error)
{
    if (n > (uint64_t)(v->end - v->at))
        return too_early(error);
    out->bytes = v->at;
    out->n = (size_t)n;
    v->at += n;
    return true;
}

static bool next_plain(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    if (v->type == WEFT__PARQUET_BOOLEAN) {
        if (v->index / 8 >= (uint64_t)(v->end - v->at))
            return too_early(error);
        out->whole = v->at[v->index / 8] >> (v->index % 8) & 1;
        v->index++;
        return true;
    }
    if (v->type != WEFT__PARQUET_BYTES) {
        if (!take(v, v->length, out, error))
            return false;
        read_fixed(v->type, out->bytes, v->length, out);
        return true;
    }
    return take(v, 4, out, error) && take(v, read_u32(out->bytes), out, error);
}

/* ---- dictionaries --------------------------------------------------------------------------- */

/* Finds the values of a dictionary of byte arrays. */
static bool find_offsets(weft__parquet_dictionary *d, const char **error)
{
    weft_free(d->offsets);
    d->offsets = weft_malloc((d->n + 1) * sizeof *d->offsets);
    if (d->offsets == NULL)
        return fail(error, NULL);
    size_t at = 0;
    for (size_t i = 0; i < d->n; i++) {
        d->offsets[i] = (uint32_t)at;
        if (d->size - at < 4)
            return fail(error, "its dictionary ends too early");
        const size_t n = read_u32((const uint8_t *)d->bytes + at);
        if (n > d->size - at - 4)
            return fail(error, "its dictionary ends too early");
        at += 4 + n;
    }
    return true;
}

bool weft__parquet_dictionary_open(weft__parquet_dictionary *d,
                                   const weft__parquet_element *element, int64_t n,
                                   const char **error)
{
    const size_t length = element->type == WEFT__PARQUET_BYTES ? 4 : length_of(element);
    if (element->type == WEFT__PARQUET_BOOLEAN || n < 0 || (size_t)n > d->size / length)
        return fail(error, "its dictionary ends too early");
    d->n = (size_t)n;
    if (element->type == WEFT__PARQUET_BYTES && !find_offsets(d, error))
        return false;
    d->loaded = true;
    return true;
}

static bool next_index(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    uint32_t i;
    const weft__parquet_dictionary *d = v->dictionary;
    const uint8_t *bytes = (const uint8_t *)d->bytes;
    if (!weft__parquet_runs_next(&v->runs, &i))
        return fail(error, "the indices of its dictionary end too early");
    if (i >= d->n)
        return fail(error, "an index is not in its dictionary");
    if (v->type == WEFT__PARQUET_BYTES) {
        out->bytes = bytes + d->offsets[i] + 4;
        out->n = read_u32(bytes + d->offsets[i]);
    } else {
        read_fixed(v->type, bytes + i * v->length, v->length, out);
    }
    return true;
}

/* ---- values in scratch memory --------------------------------------------------------------- */

static bool reserve(weft__parquet_values *v, size_t n, const char **error)
{
    if (n <= v->capacity)
        return true;
    const size_t capacity = n + n / 2;
    uint8_t *moved = weft_realloc(v->scratch, capacity);
    if (moved == NULL)
        return fail(error, NULL);
    v->scratch = moved;
    v->capacity = capacity;
    return true;
}

/* Byte k of value i is byte i of stream k. */
static bool next_split(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    if (v->index >= v->count)
        return too_early(error);
    for (size_t k = 0; k < v->length; k++)
        v->scratch[k] = v->at[k * v->count + v->index];
    v->index++;
    read_fixed(v->type, v->scratch, v->length, out);
    return true;
}

/* A value of DELTA_BYTE_ARRAY: a prefix of the previous value, and more bytes. */
static bool next_prefixed(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    int64_t prefix, suffix;
    if (!weft__parquet_delta_next(&v->prefixes, &prefix, error) ||
        !weft__parquet_delta_next(&v->delta, &suffix, error))
        return false;
    if (prefix < 0 || (uint64_t)prefix > v->n_scratch || suffix < 0)
        return fail(error, "a value begins with more bytes than the previous value has");
    if (!take(v, (uint64_t)suffix, out, error) || !reserve(v, (size_t)prefix + out->n + 1, error))
        return false;
    memcpy(v->scratch + prefix, out->bytes, out->n);
    v->n_scratch = (size_t)prefix + out->n;
    out->bytes = v->scratch;
    out->n = v->n_scratch;
    return v->length == 0 || out->n == v->length ? true : fail(error, "a value has another length");
}

static bool next_with_length(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    int64_t n;
    if (!weft__parquet_delta_next(&v->delta, &n, error))
        return false;
    return n >= 0 ? take(v, (uint64_t)n, out, error) : fail(error, "a length is negative");
}

/* ---- pages ---------------------------------------------------------------------------------- */

static bool open_indices(weft__parquet_values *v, const char **error)
{
    if (v->dictionary == NULL || !v->dictionary->loaded)
        return fail(error, "its dictionary is missing");
    if (v->at == v->end) /* no value */
        return true;
    v->runs = (weft__parquet_runs){.at = v->at + 1, .end = v->end, .width = *v->at};
    return v->runs.width <= 32 ? true : fail(error, "the indices of its dictionary are too wide");
}

static bool open_booleans(weft__parquet_values *v, const char **error)
{
    if (v->end - v->at < 4 || read_u32(v->at) > (uint64_t)(v->end - v->at - 4))
        return too_early(error);
    v->runs = (weft__parquet_runs){.at = v->at + 4, .end = v->at + 4 + read_u32(v->at), .width = 1};
    return true;
}

static bool open_split(weft__parquet_values *v, const char **error)
{
    const size_t n = (size_t)(v->end - v->at);
    if (n % v->length != 0)
        return too_early(error);
    v->count = n / v->length;
    return v->count == 0 || reserve(v, v->length, error);
}

/* The lengths of byte arrays, after those of their prefixes with DELTA_BYTE_ARRAY. */
static bool open_lengths(weft__parquet_values *v, const char **error)
{
    uint64_t sum;
    if (v->encoding == DELTA_BYTE_ARRAY &&
        (!weft__parquet_delta_open(&v->prefixes, v->at, v->end, error) ||
         !weft__parquet_delta_end(v->prefixes, &v->at, &sum, error)))
        return false;
    if (!weft__parquet_delta_open(&v->delta, v->at, v->end, error) ||
        !weft__parquet_delta_end(v->delta, &v->at, &sum, error))
        return false;
    return sum <= (uint64_t)(v->end - v->at) ? true : too_early(error);
}

static bool is_whole(weft__parquet_type type)
{
    return type == WEFT__PARQUET_INT32 || type == WEFT__PARQUET_INT64;
}

static bool is_bytes(weft__parquet_type type)
{
    return type == WEFT__PARQUET_BYTES || type == WEFT__PARQUET_FIXED;
}

bool weft__parquet_values_open(weft__parquet_values *v, const weft__parquet_element *element,
                               int64_t encoding, const uint8_t *data, size_t n,
                               const weft__parquet_dictionary *dictionary, const char **error)
{
    *v = (weft__parquet_values){.type = (weft__parquet_type)element->type,
                                .length = length_of(element),
                                .encoding = encoding,
                                .at = data,
                                .end = data + n,
                                .dictionary = dictionary,
                                .scratch = v->scratch,
                                .capacity = v->capacity};
    if (encoding == PLAIN)
        return true;
    if (encoding == PLAIN_DICTIONARY || encoding == RLE_DICTIONARY)
        return open_indices(v, error);
    if (encoding == RLE && v->type == WEFT__PARQUET_BOOLEAN)
        return open_booleans(v, error);
    if (encoding == DELTA_BINARY_PACKED && is_whole(v->type))
        return weft__parquet_delta_open(&v->delta, v->at, v->end, error);
    if (encoding == DELTA_LENGTH_BYTE_ARRAY && v->type == WEFT__PARQUET_BYTES)
        return open_lengths(v, error);
    if (encoding == DELTA_BYTE_ARRAY && is_bytes(v->type))
        return open_lengths(v, error);
    if (encoding == BYTE_STREAM_SPLIT && v->length > 0 && v->type != WEFT__PARQUET_INT96)
        return open_split(v, error);
    return fail(error, "its values have an unknown encoding, or one that does not fit their type");
}

static bool next_difference(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    if (!weft__parquet_delta_next(&v->delta, &out->whole, error))
        return false;
    if (v->type == WEFT__PARQUET_INT32)
        out->whole = (int32_t)(uint32_t)out->whole;
    return true;
}

static bool next_boolean(weft__parquet_values *v, weft__parquet_value *out, const char **error)
{
    uint32_t bit;
    if (!weft__parquet_runs_next(&v->runs, &bit))
        return too_early(error);
    out->whole = bit;
    return true;
}

bool weft__parquet_values_next(weft__parquet_values *v, weft__parquet_value *out,
                               const char **error)
{
    *out = (weft__parquet_value){0};
    switch (v->encoding) {
    case PLAIN:
        return next_plain(v, out, error);
    case RLE:
        return next_boolean(v, out, error);
    case DELTA_BINARY_PACKED:
        return next_difference(v, out, error);
    case DELTA_LENGTH_BYTE_ARRAY:
        return next_with_length(v, out, error);
    case DELTA_BYTE_ARRAY:
        return next_prefixed(v, out, error);
    case BYTE_STREAM_SPLIT:
        return next_split(v, out, error);
    default:
        return next_index(v, out, error);
    }
}
