/* backends/cpu/attention.c -- the attention forward pass: tiles of queries against tiles of keys
 * with a running softmax (Dao et al. 2022), in float32.
 *
 * A task has all query heads of one key head, so keys are packed once for them and no head is
 * copied; with one or two queries a task has all heads. A tile's rows are computed in stripes, each
 * without the keys that come after all of its queries. When there are few tasks and many keys
 * (decoding), the keys are divided, by their number alone, and the partial results are merged in
 * order. Must equal the double loop of tests/cpu/test_attention.c.
 */
#include "backends/cpu/attention.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum {
    MANY_TASKS = 8,  /* with this many tasks dividing the keys gains nothing */
    PART_KEYS = 256, /* minimum number of keys of a part */
    MOST_ROWS = 768, /* of a tile, for which keys and values are packed once */
    WANTED_TASKS = 32,
    MOST_PARTS = 16,
    INPUT_PARTS = 2,      /* most parts of an element of q, k and v */
    PROBABILITY_PARTS = 2 /* with one, results in bfloat16 would differ from those of float32 */
};

typedef struct forward {
    cpu_attention a;
    float *memory;
    const weft_tensor *o, *lse;
    int64_t rows;                             /* rows of a full tile */
    int64_t heads;                            /* key heads per task */
    int64_t n_parts, part;                    /* number of parts of the keys; keys per part */
    int64_t partial;                          /* floats of a partial result: sums, maxima, o */
    int64_t n_partials;                       /* 0 if there is only one part */
    int64_t scratch;                          /* floats per worker */
    int64_t at_s, at_kt, at_v, at_mask, at_o; /* offsets in the scratch */
    int64_t at_p, at_rows; /* for parts: packed probabilities, and queries to be packed */
} forward;

/* Large tiles if there are many. */
static int64_t tile_rows(const weft_call *call)
{
    const weft_dims *q = &call->in[0].shape;
    const int64_t rows = q->at[0] * q->at[1] * q->at[2] / WANTED_TASKS;
    return rows < ATTENTION_ROWS ? ATTENTION_ROWS : rows < MOST_ROWS ? rows : MOST_ROWS;
}

/* Floats of the packed queries of a stripe, for parts. */
static int64_t packed_query(const forward *f)
{
    const cpu_attention *a = &f->a;
    return round_up(a->stripe * a->G, 2 * ATTENTION_VECTOR) * a->parts *
           weft__cpu_attention_depth(a, a->D);
}

/* Floats of n packed columns of k elements, for parts. */
static int64_t packed_columns(const cpu_attention *a, int64_t n, int64_t k)
{
    return round_up(n, 2 * ATTENTION_VECTOR) * a->parts * weft__cpu_attention_depth(a, k);
}

/* While planning, lengths are unknown: all keys are assumed, which needs the most memory. */
static void make_plan(forward *f, const weft_call *call, bool planning)
{
    const weft_attention_params *params = call->params;
    const int mask = call->n_inputs - params->has_mask - params->has_lengths - params->has_first -
                     params->has_ends;
    memset(f, 0, sizeof *f);
    f->a = weft__cpu_attention_of(call, params->has_mask ? &call->in[mask] : NULL, tile_rows(call),
                                  INPUT_PARTS);
    const cpu_attention *a = &f->a;
    if (params->has_lengths && !planning)
        weft__cpu_attention_cut(&f->a, &call->in[call->n_inputs - 1]);
    f->o = &call->out[0];
    f->lse = &call->out[1];
    f->rows = round_up(a->block * a->G, ATTENTION_VECTOR);
    /* A few rows only stream the keys, so one task handles all heads, in memory order. */
    f->heads = a->block * a->G <= CPU_GEMV_ROWS && a->n_blocks == 1 ? a->Hk : 1;
    int64_t tiles = a->B * a->Hk * a->n_blocks;
    int64_t tasks = f->heads > 0 ? tiles / f->heads : 0;
    f->n_parts = 1;
    if (tasks > 0 && tasks < MANY_TASKS && a->S >= 2 * PART_KEYS)
        f->n_parts = a->S / PART_KEYS < MOST_PARTS ? a->S / PART_KEYS : MOST_PARTS;
    if (f->n_parts > 1 || f->heads > 1)
        f->n_partials = tiles * f->n_parts;
    f->part = round_up((a->S + f->n_parts - 1) / f->n_parts, ATTENTION_VECTOR);
    f->partial = f->rows * (2 + a->Dv_ld);
    /* Rows of scores: whole tiles, or vectors. */
    const int64_t whole = a->parts ? 2 * ATTENTION_VECTOR : ATTENTION_VECTOR;
    const int64_t stripe = round_up(a->stripe * a->G, whole);
    const int64_t stripes = (a->block + a->stripe - 1) / a->stripe;
    f->at_s = f->rows * a->D_ld;
    int64_t keys = ATTENTION_KEYS * a->D_ld;
    int64_t values = a->bits ? larger(keys, ATTENTION_KEYS * a->Dv_ld)
                             : ATTENTION_KEYS * a->Dv_ld; /* decoded keys use this buffer too */
    if (a->parts) {
        f->at_s = larger(f->at_s, stripes * packed_query(f));
        keys = larger(keys, packed_columns(a, ATTENTION_KEYS, a->D));
        values = larger(values, packed_columns(a, a->Dv, ATTENTION_KEYS));
    }
    f->at_kt = f->at_s + stripe * ATTENTION_KEYS_LD;
    f->at_v = f->at_kt + keys;
    f->at_mask = f->at_v + values;
    f->at_o = f->at_mask + ATTENTION_KEYS;
    f->at_p = f->at_o + f->partial;
    f->at_rows = f->at_p;
    f->scratch = f->at_p;
    if (a->parts) {
        f->at_rows += PROBABILITY_PARTS * stripe * weft__cpu_attention_depth(a, ATTENTION_KEYS);
        f->scratch = f->at_rows + stripe * a->D_ld;
    }
}

int64_t weft__cpu_attention_workspace(const weft_call *call)
{
    forward f;
    make_plan(&f, call, true);
    int64_t floats = f.n_partials * f.partial + weft__cpu_workers() * f.scratch;
    return floats * (int64_t)sizeof(float);
}

/* ---- One tile ------------------------------------------------------------------------------- */

/* Queries of a tile, or of a stripe of it. */
typedef struct place {
    int64_t b, hk, l0, n_l;
    int64_t rows;   /* n_l * G */
    int64_t row;    /* of the tile, where the stripe begins */
    bool in_place;  /* keys and values are read where they are: the tile has a few rows */
    int64_t stripe; /* its number */
} place;

/* Decodes quantized keys or values to rows of floats. */
static void decode(const cpu_attention *a, const weft_tensor *x, const place *p, int64_t s0,
                   int64_t n, float *out, int64_t ld)
{
    const cpu_kv_codes codes = weft__cpu_attention_codes_at(a, x, p->b, s0, p->hk);
    a->kernels->kv_decode(&codes, n, out, ld);
    for (int64_t s = 0; s < n; s++)
        for (int64_t i = codes.width; i < ld; i++)
            out[s * ld + i] = 0;
}

/* Packs keys [s0, s0 + n), and copies their values: rows of the tensor are often a power of two
 * apart, so they would share the sets of the L1 cache. */
static void load_keys(const forward *f, const place *p, int64_t s0, int64_t n, float *scratch)
{
    const cpu_attention *a = &f->a;
    float *v = scratch + f->at_v, *kt = scratch + f->at_kt;
    if (a->bits) {
        decode(a, a->k, p, s0, n, v, a->D_ld);
        a->kernels->pack_b(WEFT_FLOAT32, v, 1, a->D_ld, a->D, n, kt);
        decode(a, a->v, p, s0, n, v, a->Dv_ld);
    } else if (a->parts) {
        weft__cpu_attention_pack_b(a, a->k, p->b, s0, n, p->hk, true, kt);
        weft__cpu_attention_pack_b(a, a->v, p->b, s0, n, p->hk, false, v);
    } else {
        weft__cpu_attention_pack(a, a->k, p->b, s0, n, p->hk, kt);
        weft__cpu_attention_load(a, a->v, p->b, s0, n, p->hk, 1, 1, v, a->Dv_ld);
    }
}

/* Scores of a few rows for keys [s0, s0 + n), which lie one after another. */
static void scores_in_place(const forward *f, const place *p, int64_t s0, int64_t n, float *scratch,
                            float *s)
{
    const cpu_attention *a = &f->a;
    const weft_tensor *k = a->k;
    if (a->bits) {
        const cpu_kv_codes codes = weft__cpu_attention_codes_at(a, k, p->b, s0, p->hk);
        a->kernels->kv_dot(&codes, (int)p->rows, scratch, a->D_ld, scratch + f->at_kt, n, s,
                           ATTENTION_KEYS_LD);
        return;
    }
    a->kernels->gemv(k->dtype, (int)p->rows, a->D, scratch,
                     weft__cpu_attention_row(a, k, p->b, s0, p->hk), k->strides[1], n, NULL, s,
                     ATTENTION_KEYS_LD);
}

/* Scores of the stripe's rows for keys [s0, s0 + n). */
static void scores(const forward *f, const place *p, int64_t s0, int64_t n, float *scratch)
{
    const cpu_attention *a = &f->a;
    float *s = scratch + f->at_s;
    if (!p->in_place && a->parts) {
        const cpu_attention_product product = {.m = p->rows,
                                               .n = n,
                                               .k = a->D,
                                               .b_k = a->D,
                                               .a = scratch + p->stripe * packed_query(f),
                                               .b = scratch + f->at_kt,
                                               .c = s,
                                               .c_row = ATTENTION_KEYS_LD,
                                               .a_parts = a->parts,
                                               .b_parts = a->parts};
        weft__cpu_attention_multiply(a, &product);
        return;
    }
    for (int64_t i = 0, run; p->in_place && i < n; i += run) {
        run = weft__cpu_attention_run(a, s0 + i, n - i);
        scores_in_place(f, p, s0 + i, run, scratch, s + i);
    }
    if (p->in_place)
        return;
    cpu_block block = {.m = p->rows,
                       .n = n,
                       .k = a->D,
                       .a = scratch + p->row * a->D_ld,
                       .a_panel = a->kernels->gemm_rows * a->D_ld,
                       .a_row = a->D_ld,
                       .a_k = 1,
                       .b = scratch + f->at_kt,
                       .b_panel = a->D * a->kernels->gemm_columns,
                       .b_k = a->kernels->gemm_columns,
                       .c = s,
                       .c_row = ATTENTION_KEYS_LD};
    a->kernels->gemm_block(&block);
}

static void soften(const forward *f, const place *p, int64_t s0, int64_t n, float *scratch,
                   float *result)
{
    const cpu_attention *a = &f->a;
    float *sum = result + p->row, *top = sum + f->rows;
    float *o = result + 2 * f->rows + p->row * a->Dv_ld;
    float *mask = a->mask ? scratch + f->at_mask : NULL;
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t l = p->l0 + r / a->G, from, to;
        float *s = scratch + f->at_s + r * ATTENTION_KEYS_LD;
        weft__cpu_attention_sees(a, p->b, l, &from, &to);
        from = from < s0 ? 0 : from - s0 < n ? from - s0 : n;
        to = to < s0 ? 0 : to - s0 < n ? to - s0 : n;
        if (from >= to) {
            memset(s, 0, (size_t)n * sizeof *s);
            continue;
        }
        if (mask)
            weft__cpu_attention_mask(a, p->b, p->hk * a->G + r % a->G, l, s0 + from, to - from,
                                     mask);
        if (a->parts && !p->in_place)
            a->kernels->scale_row(s + from, to - from, (float)a->params->scale);
        float before = top[r];
        float factor = a->kernels->softmax_row(s + from, to - from, (float)a->params->softcap, mask,
                                               &top[r], &sum[r]);
        if (top[r] != before)
            a->kernels->scale_row(o + r * a->Dv_ld, a->Dv, factor);
        memset(s, 0, (size_t)from * sizeof *s);
        memset(s + to, 0, (size_t)(n - to) * sizeof *s);
    }
}

/* The same for a few rows, whose probabilities are s, and values that lie one after another. */
static void gather_in_place(const forward *f, const place *p, int64_t s0, int64_t n, const float *s,
                            float *o)
{
    const cpu_attention *a = &f->a;
    const weft_tensor *v = a->v;
    if (a->bits) {
        const cpu_kv_codes codes = weft__cpu_attention_codes_at(a, v, p->b, s0, p->hk);
        a->kernels->kv_add(&codes, (int)p->rows, n, s, ATTENTION_KEYS_LD, o, a->Dv_ld);
        return;
    }
    a->kernels->gemv_across(v->dtype, (int)p->rows, n, s, ATTENTION_KEYS_LD,
                            weft__cpu_attention_row(a, v, p->b, s0, p->hk), v->strides[1], a->Dv, o,
                            a->Dv_ld);
}

/* o += probabilities times values, of n keys of `loaded`. */
static void gather(const forward *f, const place *p, int64_t s0, int64_t n, int64_t loaded,
                   float *scratch, float *result)
{
    const cpu_attention *a = &f->a;
    float *o = result + 2 * f->rows + p->row * a->Dv_ld;
    if (!p->in_place && a->parts) {
        const cpu_attention_product product = {.m = p->rows,
                                               .n = a->Dv,
                                               .k = n,
                                               .b_k = loaded,
                                               .a = scratch + f->at_p,
                                               .b = scratch + f->at_v,
                                               .c = o,
                                               .c_row = a->Dv_ld,
                                               .add = true,
                                               .a_parts = PROBABILITY_PARTS,
                                               .b_parts = a->parts};
        weft__cpu_attention_pack_a(a, PROBABILITY_PARTS, scratch + f->at_s, ATTENTION_KEYS_LD,
                                   p->rows, n, scratch + f->at_p);
        weft__cpu_attention_multiply(a, &product);
        return;
    }
    for (int64_t i = 0, run; p->in_place && i < n; i += run) {
        run = weft__cpu_attention_run(a, s0 + i, n - i);
        gather_in_place(f, p, s0 + i, run, scratch + f->at_s + i, o);
    }
    if (p->in_place)
        return;
    cpu_block block = {.m = p->rows,
                       .n = a->Dv,
                       .k = n,
                       .a = scratch + f->at_s,
                       .a_panel = a->kernels->gemm_rows * ATTENTION_KEYS_LD,
                       .a_row = ATTENTION_KEYS_LD,
                       .a_k = 1,
                       .b = scratch + f->at_v,
                       .b_panel = a->kernels->gemm_columns,
                       .b_k = a->Dv_ld,
                       .c = o,
                       .c_row = a->Dv_ld,
                       .add = true};
    a->kernels->gemm_block(&block);
}

/* Adds keys [s0, s0 + n) to the results of a tile, whose queries are loaded: for each stripe those
 * that its queries attend to. */
static void run_tile(const forward *f, const place *p, int64_t s0, int64_t n, float *scratch,
                     float *result)
{
    const cpu_attention *a = &f->a;
    place stripe = *p;
    stripe.in_place = p->rows <= CPU_GEMV_ROWS;
    if (!stripe.in_place)
        load_keys(f, p, s0, n, scratch);
    for (int64_t l = 0; l < p->n_l; l += stripe.n_l) {
        stripe.l0 = p->l0 + l;
        stripe.n_l = p->n_l - l < a->stripe ? p->n_l - l : a->stripe;
        stripe.row = l * a->G;
        stripe.stripe = l / a->stripe;
        stripe.rows = stripe.n_l * a->G;
        const int64_t keys = weft__cpu_attention_keys(a, p->b, stripe.l0 + stripe.n_l - 1, s0, n);
        if (keys <= 0)
            continue;
        scores(f, &stripe, s0, keys, scratch);
        soften(f, &stripe, s0, keys, scratch, result);
        gather(f, &stripe, s0, keys, n, scratch, result);
    }
}

/* ---- A task --------------------------------------------------------------------------------- */

/* Sums the queries' elements over the groups of the keys' codes. */
static void sum_groups(const forward *f, const place *p, float *scratch)
{
    const cpu_attention *a = &f->a;
    const int64_t groups = a->k[1].shape.at[3], group = a->D / groups;
    for (int64_t i = 0; i < p->rows * groups; i++) {
        const float *x = scratch + i / groups * a->D_ld + i % groups * group;
        float sum = 0;
        for (int64_t j = 0; j < group; j++)
            sum += x[j];
        scratch[f->at_kt + i] = sum;
    }
}

static void load_queries(const forward *f, const place *p, float *scratch)
{
    const cpu_attention *a = &f->a;
    float scale = (float)a->params->scale;
    if (p->rows > CPU_GEMV_ROWS && a->parts) {
        float *rows = scratch + f->at_rows, *packed = scratch;
        for (int64_t l = 0; l < p->n_l; l += a->stripe, packed += packed_query(f)) {
            const int64_t n = p->n_l - l < a->stripe ? p->n_l - l : a->stripe;
            weft__cpu_attention_load(a, a->q, p->b, p->l0 + l, n, p->hk * a->G, a->G, 1, rows,
                                     a->D_ld);
            weft__cpu_attention_pack_a(a, a->parts, rows, a->D_ld, n * a->G, a->D, packed);
        }
        return;
    }
    if (p->rows > CPU_GEMV_ROWS || a->bits) {
        weft__cpu_attention_load(a, a->q, p->b, p->l0, p->n_l, p->hk * a->G, a->G, scale, scratch,
                                 a->D_ld);
        if (a->bits)
            sum_groups(f, p, scratch);
        return;
    }
    float *rows = scratch + f->at_kt;
    weft__cpu_attention_load(a, a->q, p->b, p->l0, p->n_l, p->hk * a->G, a->G, scale, rows,
                             a->D_ld);
    a->kernels->gemv_pack(WEFT_FLOAT32, (int)p->rows, a->D, rows, a->D_ld, scratch);
}

/* Computes one part of the keys for the queries of p, for its key head and the following ones.
 * Their results are n_parts * partial floats apart. */
static void run_keys(const forward *f, const place *p, int64_t part, float *scratch, float *results)
{
    const cpu_attention *a = &f->a;
    const int64_t step = f->n_parts * f->partial;
    for (int64_t h = 0; h < f->heads; h++) {
        memset(results + h * step, 0, (size_t)f->partial * sizeof *results);
        for (int64_t r = 0; r < p->rows; r++)
            results[h * step + f->rows + r] = -INFINITY;
    }
    int64_t from, last_to;
    weft__cpu_attention_sees_any(a, p->b, p->l0, p->n_l, &from, &last_to);
    if (from < part * f->part)
        from = part * f->part;
    if (last_to > (part + 1) * f->part)
        last_to = (part + 1) * f->part;
    for (int64_t s0 = from, n; s0 < last_to; s0 += n) {
        n = last_to - s0 < ATTENTION_KEYS ? last_to - s0 : ATTENTION_KEYS;
        if (p->rows > CPU_GEMV_ROWS) /* keys that are packed lie one after another */
            n = weft__cpu_attention_run(a, s0, n);
        for (int64_t h = 0; h < f->heads; h++) {
            place own = *p;
            own.hk += h;
            if (s0 == from || f->heads > 1)
                load_queries(f, &own, scratch);
            run_tile(f, &own, s0, n, scratch, results + h * step);
        }
    }
}

/* Divides by the sums and writes the tile's rows of both outputs. */
static void put(const forward *f, const place *p, float *result)
{
    const cpu_attention *a = &f->a;
    const float *sum = result, *top = result + f->rows;
    for (int64_t r = 0; r < p->rows; r++) {
        float *o = result + 2 * f->rows + r * a->Dv_ld;
        int64_t row = (p->b * a->L + p->l0 + r / a->G) * a->H + p->hk * a->G + r % a->G;
        bool any = sum[r] > 0 || sum[r] != sum[r];
        a->kernels->scale_row(o, a->Dv, any ? 1 / sum[r] : 0);
        char *to = (char *)f->o->data + row * a->Dv * (int64_t)weft_dtype_size(f->o->dtype);
        a->kernels->encode(f->o->dtype, o, to, a->Dv);
        ((float *)f->lse->data)[row] = any ? top[r] + logf(sum[r]) : -INFINITY;
    }
}

/* Later queries attend to more keys, so they are scheduled first, for balance. */
static place place_of(const cpu_attention *a, int64_t tile)
{
    int64_t pair = tile % (a->B * a->Hk), block = a->n_blocks - 1 - tile / (a->B * a->Hk);
    place p = {.b = pair / a->Hk, .hk = pair % a->Hk, .l0 = block * a->block};
    p.n_l = a->L - p.l0 < a->block ? a->L - p.l0 : a->block;
    p.rows = p.n_l * a->G;
    return p;
}

/* Computes the queries of p for all keys, one run of queries that share keys at a time. */
static void attend(const forward *f, const place *p, float *scratch)
{
    const cpu_attention *a = &f->a;
    const int64_t end = p->l0 + p->n_l;
    place run = *p;
    for (; run.l0 < end; run.l0 += run.n_l) {
        run.n_l = weft__cpu_attention_run_end(a, p->b, run.l0, end) - run.l0;
        run.rows = run.n_l * a->G;
        run_keys(f, &run, 0, scratch, scratch + f->at_o);
        put(f, &run, scratch + f->at_o);
    }
}

static void attend_task(void *context, int64_t begin, int64_t end, int worker)
{
    const forward *f = context;
    float *scratch = f->memory + f->n_partials * f->partial + worker * f->scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t tile = i / f->n_parts * f->heads, part = i % f->n_parts;
        place p = place_of(&f->a, tile);
        if (p.n_l <= 0)
            continue;
        if (f->n_partials > 0)
            run_keys(f, &p, part, scratch, f->memory + (tile * f->n_parts + part) * f->partial);
        else
            attend(f, &p, scratch);
    }
}

/* Adds the parts of a tile in order, into the first. */
static void merge(const forward *f, const place *p, float *parts)
{
    const cpu_attention *a = &f->a;
    for (int64_t r = 0; r < p->rows; r++) {
        float *sum = parts + r, *top = parts + f->rows + r;
        float *o = parts + 2 * f->rows + r * a->Dv_ld;
        for (int64_t i = 1; i < f->n_parts; i++) {
            float *other = parts + i * f->partial;
            float other_top = other[f->rows + r];
            if (other_top == -INFINITY && other[r] == 0)
                continue;
            float both = *top > other_top ? *top : other_top;
            float own = expf(*top - both), its = expf(other_top - both);
            *sum = *sum * own + other[r] * its;
            *top = both;
            float *its_o = other + 2 * f->rows + r * a->Dv_ld;
            a->kernels->scale_row(o, a->Dv, own);
            a->kernels->scale_row(its_o, a->Dv, its);
            a->kernels->add_row(o, its_o, a->Dv);
        }
    }
}

static void merge_task(void *context, int64_t begin, int64_t end, int worker)
{
    const forward *f = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        place p = place_of(&f->a, i);
        float *parts = f->memory + i * f->n_parts * f->partial;
        merge(f, &p, parts);
        put(f, &p, parts);
    }
}

weft_status weft__cpu_attention_pages(const weft_call *call)
{
    const cpu_attention a = weft__cpu_attention_of(call, NULL, 1, INPUT_PARTS);
    return weft__cpu_attention_has_pages(&a)
               ? weft__cpu_attention(call)
               : weft_fail(WEFT_INVALID, "attention_pages: a page is not one of the pool's %lld",
                           (long long)a.k->shape.at[0]);
}

weft_status weft__cpu_attention(const weft_call *call)
{
    forward f;
    make_plan(&f, call, false);
    f.memory = call->workspace;
    int64_t tiles = f.a.B * f.a.Hk * f.a.n_blocks;
    if (tiles == 0)
        return WEFT_OK;
    weft__cpu_parallel(tiles / f.heads * f.n_parts, 1, attend_task, &f);
    if (f.n_partials > 0)
        weft__cpu_parallel(tiles, MANY_TASKS, merge_task, &f);
    return WEFT_OK;
}
