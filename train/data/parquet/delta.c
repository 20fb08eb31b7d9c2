/* train/data/parquet/delta.c -- DELTA_BINARY_PACKED: integers as differences.
 *
 * A header (values in a block, miniblocks in a block, number of values, first value) is followed by
 * blocks: their least difference, the widths of their miniblocks, and for each miniblock the
 * differences minus the least one, packed. Sums wrap. */
#include "train/data/parquet/parquet.h"

/* Limits the values that a few bytes can encode. */
enum { LARGEST_BLOCK = 1 << 16 };

static bool fail(const char **error, const char *what)
{
    *error = what;
    return false;
}

static bool read_varint(weft__parquet_delta *d, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && d->at < d->end; shift += 7) {
        const uint8_t byte = *d->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_zigzag(weft__parquet_delta *d, uint64_t *out)
{
    if (!read_varint(d, out))
        return false;
    *out = *out >> 1 ^ -(*out & 1);
    return true;
}

bool weft__parquet_delta_open(weft__parquet_delta *d, const uint8_t *at, const uint8_t *end,
                              const char **error)
{
    uint64_t block;
    *d = (weft__parquet_delta){.at = at, .end = end, .first = true};
    if (!read_varint(d, &block) || !read_varint(d, &d->minis) || !read_varint(d, &d->left) ||
        !read_zigzag(d, &d->value))
        return fail(error, "the differences end too early");
    if (block == 0 || block > LARGEST_BLOCK || d->minis == 0 || d->minis > block ||
        block % d->minis != 0 || block / d->minis % 8 != 0 || d->left > INT32_MAX)
        return fail(error, "the header of the differences is invalid");
    d->per_mini = block / d->minis;
    d->mini = d->minis; /* a block follows */
    return true;
}

/* The size of the current miniblock in bytes. */
static uint64_t mini_bytes(const weft__parquet_delta *d)
{
    return d->per_mini / 8 * d->widths[d->mini];
}

/* Goes to the next miniblock, and to the next block after the last one. */
static bool next_mini(weft__parquet_delta *d)
{
    if (d->widths && d->mini < d->minis) {
        d->at += mini_bytes(d);
        d->mini++;
    }
    if (d->mini == d->minis) {
        if (!read_zigzag(d, &d->least) || d->minis > (uint64_t)(d->end - d->at))
            return false;
        d->widths = d->at;
        d->at += d->minis;
        d->mini = 0;
    }
    d->in_mini = 0;
    return d->widths[d->mini] <= 64 && mini_bytes(d) <= (uint64_t)(d->end - d->at);
}

bool weft__parquet_delta_next(weft__parquet_delta *d, int64_t *out, const char **error)
{
    if (d->left == 0)
        return fail(error, "it has fewer values than its levels say");
    d->left--;
    if (!d->first) {
        if ((d->widths == NULL || d->in_mini == d->per_mini) && !next_mini(d))
            return fail(error, "the differences end too early");
        const int width = d->widths[d->mini];
        d->value += d->least + weft__parquet_bits(d->at, (size_t)mini_bytes(d),
                                                  d->in_mini++ * (uint64_t)width, width);
    }
    d->first = false;
    *out = (int64_t)d->value;
    return true;
}

bool weft__parquet_delta_end(weft__parquet_delta d, const uint8_t **end, uint64_t *sum,
                             const char **error)
{
    int64_t n = 0;
    *sum = 0;
    while (d.left > 0) {
        if (!weft__parquet_delta_next(&d, &n, error))
            return false;
        if (n < 0 || n > INT32_MAX)
            return fail(error, "a length is invalid");
        *sum += (uint64_t)n;
    }
    *end = d.widths ? d.at + mini_bytes(&d) : d.at;
    return true;
}
