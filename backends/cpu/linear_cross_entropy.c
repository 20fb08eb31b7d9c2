/* backends/cpu/linear_cross_entropy.c -- losses and their gradients directly from hidden states.
 *
 * The gradient of a row is the mean of the weight rows under the softmax, minus the target's row:
 * an attention of x to the weight, with the weight as values too. It is computed in the same way,
 * tile by tile with a running softmax; no more logits than those of a tile exist at a time, and
 * each is computed once. Rows with a negative target are skipped first. With few rows the
 * vocabulary is divided instead, by shape only, and the parts are merged in order. The rows of an
 * encoded weight are decoded once per tile.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/quantized.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum {
    TILE_ROWS = 192,
    TILE_WORDS = 256,    /* vocabulary entries per tile */
    TILE_WORDS_LD = 272, /* their stride in memory, such that rows fall into different cache sets */
    K_BLOCK = 512,       /* columns of the embedding packed at a time */
    MANY_TASKS = 8,
    PART_WORDS = 4 * TILE_WORDS
};

typedef struct loss {
    const weft_call *call;
    const cpu_kernels *kernels;
    const weft_linear_cross_entropy_params *params;
    cpu_rows x, dx;
    cpu_codes codes; /* if the weight is encoded */
    const weft_tensor *weight, *targets;
    int64_t N, E, V, E_ld;
    int64_t tile;          /* rows of the largest tile */
    int64_t n_parts, part; /* of the vocabulary */
    int64_t n_rows;        /* rows with a target */
    int64_t rows;          /* rows per tile in this run */
    int64_t n_tiles;
    int64_t *row; /* (n_rows) indices of these rows */
    float *partials, *memory;
    int64_t partial; /* floats of a partial result: sums, maxima, target's score, mean row */
    int64_t scratch; /* floats per worker, and offsets in them */
    int64_t at_s, at_packed, at_weight, at_result;
} loss;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static void make_plan(loss *p, const weft_call *call)
{
    memset(p, 0, sizeof *p);
    p->call = call;
    p->kernels = weft__cpu_kernels();
    p->params = call->params;
    p->x = weft__cpu_rows_of(&call->in[0]);
    p->weight = &call->in[1];
    if (p->weight->encoding)
        p->codes = weft__cpu_codes_encoded(p->weight);
    p->targets = &call->in[2];
    p->N = p->x.n;
    p->E = p->x.width;
    p->V = p->weight->shape.at[0];
    p->E_ld = weft__cpu_row_room(p->E);
    p->tile = smaller(TILE_ROWS, weft__cpu_row_room(p->N));
    p->n_parts = 1;
    int64_t tiles = ceil_div(p->N, TILE_ROWS);
    if (tiles > 0 && tiles < MANY_TASKS && p->V >= 2 * PART_WORDS)
        p->n_parts = smaller(p->V / PART_WORDS, ceil_div(MANY_TASKS, tiles));
    p->part = ceil_div(ceil_div(p->V, p->n_parts), TILE_WORDS) * TILE_WORDS;
    p->partial = p->tile * (3 + (p->params->with_gradient ? p->E_ld : 0));
    p->at_s = p->tile * p->E_ld;
    p->at_packed = p->at_s + p->tile * TILE_WORDS_LD;
    p->at_weight = p->at_packed + TILE_WORDS * smaller(p->E_ld, K_BLOCK);
    p->at_result = p->at_weight + TILE_WORDS * p->E_ld;
    p->scratch = p->at_result + p->partial;
}

/* The most tiles, since at most N rows have a target. */
static int64_t most_partials(const loss *p)
{
    return p->n_parts > 1 ? 2 * ceil_div(p->N, TILE_ROWS) * p->n_parts : 0;
}

int64_t weft__cpu_linear_cross_entropy_workspace(const weft_call *call)
{
    loss p;
    make_plan(&p, call);
    int64_t index = weft__cpu_row_room(p.N) * (int64_t)sizeof(int64_t);
    int64_t floats = most_partials(&p) * p.partial + weft__cpu_workers() * p.scratch;
    return index + floats * (int64_t)sizeof(float);
}

bool weft__cpu_linear_cross_entropy_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[0].shape.at[1] > 0 &&
           call->in[1].shape.at[0] > 0;
}

static const char *word(const loss *p, int64_t v)
{
    return (const char *)p->weight->data +
           v * p->weight->strides[0] * (int64_t)weft_dtype_size(p->weight->dtype);
}

/* Reads row v of the weight as float32. */
static void read_word(const loss *p, int64_t v, float *out)
{
    if (p->weight->encoding)
        p->kernels->decode_codes(&p->codes, v, 0, p->E / p->codes.group, out);
    else
        p->kernels->decode(p->weight->dtype, word(p, v), out, p->E);
}

static int64_t target_of(const loss *p, int64_t row)
{
    return weft_tensor_get_int(p->targets, row);
}

/* ---- One tile ------------------------------------------------------------------------------- */

typedef struct place {
    int64_t first, n; /* among the rows with a target */
    int64_t v0, words;
} place;

/* Reads the tile's rows of the weight into `scratch`. */
static void read_words(const loss *p, const place *t, float *scratch)
{
    for (int64_t v = 0; v < t->words; v++)
        read_word(p, t->v0 + v, scratch + p->at_weight + v * p->E_ld);
}

/* Scores of the tile's rows for its vocabulary entries. */
static void scores(const loss *p, const place *t, float *scratch)
{
    const int64_t columns = p->kernels->gemm_columns;
    const bool read = p->weight->encoding != NULL;
    const weft_dtype dtype = read ? WEFT_FLOAT32 : p->weight->dtype;
    const int64_t row = read ? p->E_ld : p->weight->strides[0];
    const char *words = read ? (const char *)(scratch + p->at_weight) : word(p, t->v0);
    if (read)
        read_words(p, t, scratch);
    for (int64_t e = 0; e < p->E; e += K_BLOCK) {
        int64_t k = smaller(K_BLOCK, p->E - e);
        p->kernels->pack_b(dtype, words + e * (int64_t)weft_dtype_size(dtype), 1, row, k, t->words,
                           scratch + p->at_packed);
        cpu_block block = {.m = t->n,
                           .n = t->words,
                           .k = k,
                           .a = scratch + e,
                           .a_panel = p->kernels->gemm_rows * p->E_ld,
                           .a_row = p->E_ld,
                           .a_k = 1,
                           .b = scratch + p->at_packed,
                           .b_panel = columns * k,
                           .b_k = columns,
                           .c = scratch + p->at_s,
                           .c_row = TILE_WORDS_LD,
                           .add = e > 0};
        p->kernels->gemm_block(&block);
    }
}

static void soften(const loss *p, const place *t, float *scratch, float *result)
{
    const float cap = (float)p->params->softcap;
    for (int64_t i = 0; i < t->n; i++) {
        float *s = scratch + p->at_s + i * TILE_WORDS_LD;
        float *sum = result + i, *top = result + p->tile + i, *own = result + 2 * p->tile + i;
        int64_t target = target_of(p, p->row[t->first + i]) - t->v0;
        if (target >= 0 && target < t->words)
            *own = cap > 0 ? cap * tanhf(s[target] / cap) : s[target];
        float before = *top, factor;
        if (cap > 0 && p->params->with_gradient)
            factor = p->kernels->softmax_slope_row(s, t->words, cap, top, sum);
        else
            factor = p->kernels->softmax_row(s, t->words, cap, NULL, top, sum);
        if (p->params->with_gradient && *top != before)
            p->kernels->scale_row(result + 3 * p->tile + i * p->E_ld, p->E, factor);
    }
}

/* mean += softmax times the weight's rows. */
static void gather(const loss *p, const place *t, float *scratch, float *result)
{
    cpu_block block = {.m = t->n,
                       .n = p->E,
                       .k = t->words,
                       .a = scratch + p->at_s,
                       .a_panel = p->kernels->gemm_rows * TILE_WORDS_LD,
                       .a_row = TILE_WORDS_LD,
                       .a_k = 1,
                       .b_panel = p->kernels->gemm_columns,
                       .c = result + 3 * p->tile,
                       .c_row = p->E_ld,
                       .add = true};
    const bool dense = p->weight->encoding == NULL;
    if (dense && p->weight->dtype == WEFT_FLOAT32 && p->E % p->kernels->lanes == 0) {
        block.b = (const float *)(const void *)word(p, t->v0);
        block.b_k = p->weight->strides[0];
    } else {
        if (dense) /* otherwise scores has read them */
            read_words(p, t, scratch);
        block.b = scratch + p->at_weight;
        block.b_k = p->E_ld;
    }
    p->kernels->gemm_block(&block);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static void run_part(const loss *p, int64_t first, int64_t n, int64_t part, float *scratch,
                     float *result)
{
    memset(result, 0, (size_t)p->partial * sizeof *result);
    for (int64_t i = 0; i < n; i++) {
        result[p->tile + i] = -INFINITY;
        p->kernels->decode(p->x.t->dtype, weft__cpu_row(&p->x, p->row[first + i]),
                           scratch + i * p->E_ld, p->E);
    }
    int64_t last = smaller(p->V, (part + 1) * p->part);
    for (int64_t v = part * p->part; v < last; v += TILE_WORDS) {
        place t = {.first = first, .n = n, .v0 = v, .words = smaller(TILE_WORDS, last - v)};
        scores(p, &t, scratch);
        soften(p, &t, scratch, result);
        if (p->params->with_gradient)
            gather(p, &t, scratch, result);
    }
}

/* The loss and gradient of row i of a tile; `scratch` has space for a row. */
static void put(const loss *p, int64_t row, int64_t i, float *result, float *scratch)
{
    const float cap = (float)p->params->softcap;
    float sum = result[i], top = result[p->tile + i], own = result[2 * p->tile + i];
    ((float *)p->call->out[0].data)[row] = top + logf(sum) - own;
    if (!p->params->with_gradient)
        return;
    float *mean = result + 3 * p->tile + i * p->E_ld;
    float slope = cap > 0 ? 1 - own / cap * (own / cap) : 1;
    p->kernels->scale_row(mean, p->E, 1 / sum);
    read_word(p, target_of(p, row), scratch);
    p->kernels->scale_row(scratch, p->E, -slope);
    p->kernels->add_row(mean, scratch, p->E);
    p->kernels->encode(p->dx.t->dtype, mean, weft__cpu_row(&p->dx, row), p->E);
}

static void tile_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss *p = context;
    float *scratch = p->memory + worker * p->scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i / p->n_parts * p->rows;
        int64_t n = smaller(p->rows, p->n_rows - first);
        if (p->n_parts > 1) {
            run_part(p, first, n, i % p->n_parts, scratch, p->partials + i * p->partial);
            continue;
        }
        run_part(p, first, n, 0, scratch, scratch + p->at_result);
        for (int64_t r = 0; r < n; r++)
            put(p, p->row[first + r], r, scratch + p->at_result, scratch);
    }
}

/* Merges part `other` of row i into `all`. */
static void merge(const loss *p, int64_t i, float *all, float *other)
{
    float *sum = all + i, *top = sum + p->tile, *own = top + p->tile;
    float its_top = other[p->tile + i];
    float both = *top > its_top ? *top : its_top;
    float a = expf(*top - both), b = expf(its_top - both);
    *sum = *sum * a + other[i] * b;
    *top = both;
    *own += other[2 * p->tile + i]; /* 0 in all parts without the target */
    if (p->params->with_gradient) {
        float *mean = all + 3 * p->tile + i * p->E_ld, *its = other + 3 * p->tile + i * p->E_ld;
        p->kernels->scale_row(mean, p->E, a);
        p->kernels->scale_row(its, p->E, b);
        p->kernels->add_row(mean, its, p->E);
    }
}

static void merge_task(void *context, int64_t begin, int64_t end, int worker)
{
    const loss *p = context;
    float *scratch = p->memory + worker * p->scratch;
    for (int64_t r = begin; r < end; r++) {
        float *parts = p->partials + r / p->rows * p->n_parts * p->partial;
        for (int64_t i = 1; i < p->n_parts; i++)
            merge(p, r % p->rows, parts, parts + i * p->partial);
        put(p, p->row[r], r % p->rows, parts, scratch);
    }
}

/* Lists the rows with a target; the others get zeros. */
static void choose_rows(loss *p)
{
    float *losses = p->call->out[0].data;
    for (int64_t i = 0; i < p->N; i++) {
        if (target_of(p, i) >= 0) {
            p->row[p->n_rows++] = i;
            continue;
        }
        losses[i] = 0;
        if (p->params->with_gradient)
            memset(weft__cpu_row(&p->dx, i), 0, (size_t)p->E * weft_dtype_size(p->dx.t->dtype));
    }
    /* Full tiles if there are many; an even number, so that two threads finish together. */
    p->n_tiles = ceil_div(p->n_rows, TILE_ROWS);
    if (p->n_tiles > 1)
        p->n_tiles += p->n_tiles % 2;
    p->rows = p->n_tiles ? ceil_div(p->n_rows, p->n_tiles) : 1;
    p->n_tiles = ceil_div(p->n_rows, p->rows);
}

weft_status weft__cpu_linear_cross_entropy(const weft_call *call)
{
    loss p;
    make_plan(&p, call);
    weft_status status = weft__cpu_check_targets(p.targets, p.V, call->op->name);
    if (status != WEFT_OK)
        return status;
    p.row = call->workspace;
    p.partials = (float *)(p.row + weft__cpu_row_room(p.N));
    p.memory = p.partials + most_partials(&p) * p.partial;
    if (p.params->with_gradient)
        p.dx = weft__cpu_rows_of(&call->out[1]);
    choose_rows(&p);
    weft__cpu_parallel(p.n_tiles * p.n_parts, 1, tile_task, &p);
    if (p.n_parts > 1)
        weft__cpu_parallel(p.n_rows, 16, merge_task, &p);
    return WEFT_OK;
}
