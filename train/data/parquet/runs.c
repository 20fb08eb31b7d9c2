/* train/data/parquet/runs.c -- small integers as runs of equal values and groups of packed ones:
 * levels, indices of dictionaries, booleans. */
#include "train/data/parquet/parquet.h"

uint64_t weft__parquet_bits(const uint8_t *data, size_t n, uint64_t from, int width)
{
    const uint64_t first = from / 8;
    const int shift = (int)(from % 8);
    uint64_t low = 0, high = 0;
    for (uint64_t i = 0; i < 8 && first + i < n; i++)
        low |= (uint64_t)data[first + i] << (8 * i);
    if (shift > 0 && first + 8 < n)
        high = data[first + 8];
    const uint64_t bits = shift > 0 ? low >> shift | high << (64 - shift) : low;
    return width < 64 ? bits & (((uint64_t)1 << width) - 1) : bits;
}

/* Begins the next run. */
static bool begin(weft__parquet_runs *r)
{
    if (r->packed) { /* skips the groups of the run */
        const uint64_t bytes = (r->bit + 7) / 8;
        r->at = bytes < (uint64_t)(r->end - r->at) ? r->at + bytes : r->end;
    }
    uint64_t header = 0;
    int shift = 0;
    do {
        if (r->at == r->end || shift > 28)
            return false;
        header |= (uint64_t)(*r->at & 0x7f) << shift;
        shift += 7;
    } while (*r->at++ & 0x80);
    r->packed = header & 1;
    r->bit = 0;
    r->left = r->packed ? header / 2 * 8 : header / 2;
    if (r->packed)
        return true;
    const size_t bytes = (size_t)(r->width + 7) / 8;
    if (bytes > (size_t)(r->end - r->at))
        return false;
    r->value = (uint32_t)weft__parquet_bits(r->at, bytes, 0, r->width);
    r->at += bytes;
    return true;
}

/* The deprecated encoding BIT_PACKED of levels. */
static bool next_packed(weft__parquet_runs *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < r->width; i++, r->bit++) {
        const uint64_t byte = r->bit / 8;
        if (byte >= (uint64_t)(r->end - r->at))
            return false;
        *out = *out << 1 | (r->at[byte] >> (7 - r->bit % 8) & 1);
    }
    return true;
}

bool weft__parquet_runs_next(weft__parquet_runs *r, uint32_t *out)
{
    if (r->only_packed)
        return next_packed(r, out);
    while (r->left == 0) {
        if (!begin(r))
            return false;
    }
    r->left--;
    *out = r->value;
    if (!r->packed)
        return true;
    const size_t bytes = (size_t)(r->end - r->at);
    if (r->bit + (uint64_t)r->width > 8 * (uint64_t)bytes)
        return false;
    *out = (uint32_t)weft__parquet_bits(r->at, bytes, r->bit, r->width);
    r->bit += (uint64_t)r->width;
    return true;
}
