/* train/data/batch.c -- converts samples to the rows of a batch, padded or packed. */
#include "core/failure.h"
#include "core/shape.h"
#include "train/columns.h"
#include "weft/memory.h"

/* Samples and the rows that they share; starts is NULL if each has a row of its own. */
typedef struct source {
    const weft_sample *samples;
    const int64_t *starts;
    int64_t per_example, examples, rows;
} source;

/* The index of the i-th sample in packed row r, in which those of an example follow each other. */
static int64_t sample_index(const source *s, int64_t r, int64_t i)
{
    return i % s->per_example * s->examples + s->starts[r] + i / s->per_example;
}

static void measure(const source *s, weft__batch_sizes *out)
{
    const bool apart = s->starts == NULL || s->per_example > 1; /* a row for each sample */
    int64_t longest = 0, widest = 0;
    for (int64_t i = 0; i < s->per_example * s->examples; i++)
        longest = s->samples[i].length - 1 > longest ? s->samples[i].length - 1 : longest;
    for (int64_t r = 0; s->starts && r < s->rows; r++) {
        int64_t length = 0;
        for (int64_t i = 0; i < (s->starts[r + 1] - s->starts[r]) * s->per_example; i++)
            length += s->samples[sample_index(s, r, i)].length - 1;
        widest = length > widest ? length : widest;
    }
    out->N = apart ? s->examples : s->rows;
    out->B = out->N * s->per_example;
    out->L = apart ? longest : widest;
    out->R = s->starts ? s->rows : out->B;
    out->C = s->starts ? widest : longest;
    out->S = WEFT_TEACHER_TOP;
}

/* Writes a sample to row b from column `at` on. */
static void put(const weft_sample *s, int64_t b, int64_t at, weft__host_batch *host)
{
    for (int64_t i = 0; i < s->length - 1; i++) {
        const float weight = s->weights ? s->weights[i + 1] : 1;
        const int64_t cell = b * host->sizes.L + at + i;
        host->tokens[cell] = s->ids[i];
        host->targets[cell] = weight != 0 ? s->ids[i + 1] : -1;
        host->weights[cell] = weight;
        host->weighted = host->weighted || (weight != 0 && weight != 1);
        host->batch.n_targets += (double)weight;
    }
    host->batch.n_tokens += s->length - 1;
}

/* Makes n columns of a packed row, from `at` on, one sequence. */
static void mark(int64_t row, int64_t at, int64_t n, weft__host_batch *host)
{
    for (int64_t i = 0; i < n; i++) {
        host->first[row * host->sizes.C + at + i] = (int32_t)at;
        host->positions[row * host->sizes.C + at + i] = (int32_t)i;
    }
}

/* Packs the examples of row r. The padding is a separate sequence, so no token attends to it. */
static void pack_row(const source *s, int64_t r, weft__host_batch *host)
{
    int64_t at = 0;
    for (int64_t i = 0; i < (s->starts[r + 1] - s->starts[r]) * s->per_example; i++) {
        const int64_t index = sample_index(s, r, i), n = s->samples[index].length - 1;
        mark(r, at, n, host);
        for (int64_t k = 0; host->pack && k < n; k++) {
            host->pack[r * host->sizes.C + at + k] = (int32_t)(index * host->sizes.L + k);
            host->unpack[index * host->sizes.L + k] = (int32_t)(r * host->sizes.C + at + k);
        }
        if (host->pack == NULL)
            put(&s->samples[index], r, at, host);
        at += n;
    }
    mark(r, at, host->sizes.C - at, host);
}

static void **data_of(weft__host_batch *host, int c)
{
    return (void **)((char *)host + weft__columns[c].host);
}

/* Allocates a column, filled with its padding. */
static weft_status add_column(weft__host_batch *host, int c)
{
    const weft_dims shape = weft__column_shape(c, &host->sizes);
    const size_t n = (size_t)weft__shape_size(&shape);
    int32_t *data = weft_calloc(n + 1, sizeof *data);
    for (size_t i = 0; data && weft__columns[c].padding != 0 && i < n; i++)
        data[i] = weft__columns[c].padding;
    *data_of(host, c) = data;
    return data ? WEFT_OK : weft_fail(WEFT_MEMORY, "batch: out of memory for %zu elements", n);
}

weft_status weft__host_fill(const weft_sample *samples, weft_examples kind, int64_t texts,
                            const int64_t *starts, int n, unsigned columns, int64_t M,
                            weft__host_batch *host)
{
    const source s = {samples, starts, weft__rows_per_example(kind, texts), starts ? starts[n] : n,
                      n};
    const weft__column_rule last = starts == NULL      ? WEFT__ONES
                                   : s.per_example > 1 ? WEFT__REPACKED
                                                       : WEFT__PACKED;
    weft_status status = WEFT_OK;
    *host = (weft__host_batch){.batch = {.examples = kind, .texts = texts}};
    measure(&s, &host->sizes);
    host->sizes.M = M;
    if (host->sizes.L < 1)
        return weft_fail(WEFT_INVALID, "batch: expected samples of at least 2 tokens");
    for (int c = 0; status == WEFT_OK && c < WEFT__COLUMNS; c++) {
        if (weft__columns[c].rule <= last || weft__columns[c].bit & columns)
            status = add_column(host, c);
    }
    if (status != WEFT_OK)
        return status;
    for (int64_t b = 0; last != WEFT__PACKED && b < host->sizes.B; b++)
        put(&samples[b], b, 0, host);
    for (int64_t r = 0; starts && r < n; r++)
        pack_row(&s, r, host);
    return WEFT_OK;
}

weft_status weft__host_finish(weft__host_batch *host, weft_status status, weft_batch *out)
{
    *out = host->batch;
    weft_scope_open_lean();
    for (int c = 0; c < WEFT__COLUMNS; c++) {
        void *data = *data_of(host, c);
        const bool plain = weft__columns[c].rule == WEFT__ONES && !host->weighted;
        if (data && status == WEFT_OK && !plain)
            status = weft_set(
                weft__batch_slot(out, c),
                weft_from_data(data, weft__columns[c].dtype, weft__column_shape(c, &host->sizes)));
        weft_free(data);
    }
    weft_scope_close(NULL);
    if (status != WEFT_OK)
        weft_batch_free(out);
    return status;
}

weft_status weft_batch_of_samples(const weft_sample *samples, int n, weft_batch *out)
{
    weft__host_batch host;
    const weft_status status =
        weft__host_fill(samples, WEFT_EXAMPLES_SINGLE, 0, NULL, n, 0, 0, &host);
    return weft__host_finish(&host, status, out);
}
