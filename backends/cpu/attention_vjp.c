/* backends/cpu/attention_vjp.c -- the gradient of attention, tile by tile (Dao et al. 2022): the
 * probabilities are recomputed from the log-sum-exp.
 *
 *     p = exp(s - lse)   dp = do v^T   ds = p (dp - rowsum(do o))
 *     dq = scale ds k    dk = scale ds^T q    dv = p^T do
 *
 * A task has a part of the keys of one key head and all queries of its group; it owns its rows of
 * dk and dv. dq is summed in the workspace, one copy for each part, and the copies are added in
 * order. So no two tasks write to the same memory, and the number of threads changes nothing.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/attention.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"

enum {
    MANY_TASKS = 8, /* with this many tasks dividing the keys gains nothing */
    ROW_GRAIN = 64  /* rows of a task that only sums */
};

typedef struct backward {
    cpu_attention a;
    const weft_tensor *o, *lse, *d_o;
    const weft_tensor *out; /* dq dk dv */
    float *memory;
    int64_t rows, n_parts, part;
    int64_t pairs;             /* B Hk */
    int64_t at_dq, at_scratch; /* offsets in the workspace; before them: rowsum(do o), (B, L, H) */
    int64_t dq;                /* floats of dq of one pair of row and head, in one part */
    int64_t scratch;           /* floats per worker, and offsets in them */
    int64_t at_do, at_s, at_dp, at_k, at_kt, at_vt, at_dk, at_dv, at_mask;
    /* For parts: the queries and do packed as A, stripe by stripe, and as B, all of a tile; p or ds
     * packed as A; and the product of a stripe. */
    int64_t at_qa, at_doa, at_qb, at_dob, at_pa, at_c;
} backward;

/* Floats of the packed rows of a stripe of k elements. */
static int64_t packed_stripe(const backward *g, int64_t k)
{
    return round_up(g->a.stripe * g->a.G, g->a.kernels->parts.width) *
           weft__cpu_attention_depth(&g->a, k);
}

static void place_parts(backward *g)
{
    const cpu_attention *a = &g->a;
    const int64_t stripes = (a->block + a->stripe - 1) / a->stripe, width = a->kernels->parts.width;
    const int64_t deep = weft__cpu_attention_depth(a, g->rows);
    const int64_t across = packed_stripe(g, ATTENTION_KEYS), along = ATTENTION_KEYS * deep;
    g->at_qa = g->scratch;
    g->at_doa = g->at_qa + stripes * packed_stripe(g, a->D);
    g->at_qb = g->at_doa + stripes * packed_stripe(g, a->Dv);
    g->at_dob = g->at_qb + round_up(a->D, width) * deep;
    g->at_pa = g->at_dob + round_up(a->Dv, width) * deep;
    g->at_c = g->at_pa + (across > along ? across : along);
    g->scratch = g->at_c + round_up(a->stripe * a->G, width) * a->D_ld;
}

static void make_plan(backward *g, const weft_call *call)
{
    const weft_attention_params *params = call->params;
    memset(g, 0, sizeof *g);
    g->a = weft__cpu_attention_of(call, params->has_mask ? &call->in[6] : NULL, ATTENTION_ROWS, 1);
    const cpu_attention *a = &g->a;
    g->o = &call->in[3];
    g->lse = &call->in[4];
    g->d_o = &call->in[5];
    g->out = call->out;
    g->rows = round_up(a->block * a->G, ATTENTION_VECTOR);
    g->pairs = a->B * a->Hk;
    int64_t tiles = (a->S + ATTENTION_KEYS - 1) / ATTENTION_KEYS;
    g->n_parts = 1;
    if (g->pairs > 0 && g->pairs < MANY_TASKS) {
        int64_t wanted = (MANY_TASKS + g->pairs - 1) / g->pairs;
        g->n_parts = wanted < tiles ? wanted : tiles > 0 ? tiles : 1;
    }
    g->part = (tiles + g->n_parts - 1) / g->n_parts * ATTENTION_KEYS;
    g->dq = a->L * a->G * a->D;
    g->at_dq = round_up(a->B * a->L * a->H, ATTENTION_VECTOR);
    g->at_scratch = round_up(g->at_dq + g->pairs * g->n_parts * g->dq, ATTENTION_VECTOR);
    g->at_do = g->rows * a->D_ld;
    g->at_s = g->at_do + g->rows * a->Dv_ld;
    g->at_dp = g->at_s + g->rows * ATTENTION_KEYS_LD;
    g->at_k = g->at_dp + g->rows * ATTENTION_KEYS_LD;
    g->at_kt = g->at_k + ATTENTION_KEYS * a->D_ld;
    g->at_vt = g->at_kt + ATTENTION_KEYS * a->D_ld;
    g->at_dk = g->at_vt + ATTENTION_KEYS * a->Dv_ld;
    g->at_dv = g->at_dk + ATTENTION_KEYS * a->D_ld;
    g->at_mask = g->at_dv + ATTENTION_KEYS * a->Dv_ld;
    g->scratch = g->at_mask + ATTENTION_KEYS;
    if (a->parts)
        place_parts(g);
}

int64_t weft__cpu_attention_vjp_workspace(const weft_call *call)
{
    backward g;
    make_plan(&g, call);
    return (g.at_scratch + weft__cpu_workers() * g.scratch) * (int64_t)sizeof(float);
}

/* ---- rowsum(do o) --------------------------------------------------------------------------- */

static void delta_task(void *context, int64_t begin, int64_t end, int worker)
{
    const backward *g = context;
    const cpu_attention *a = &g->a;
    float *o = g->memory + g->at_scratch + worker * g->scratch;
    float *d_o = o + a->Dv_ld;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / (a->L * a->H), l = i / a->H % a->L, h = i % a->H;
        weft__cpu_attention_load(a, g->o, b, l, 1, h, 1, 1, o, a->Dv_ld);
        weft__cpu_attention_load(a, g->d_o, b, l, 1, h, 1, 1, d_o, a->Dv_ld);
        g->memory[i] = a->kernels->dot(o, d_o, a->Dv);
    }
}

/* ---- One tile ------------------------------------------------------------------------------- */

typedef struct place {
    int64_t b, hk, l0, n_l;
    int64_t rows;  /* n_l * G */
    int64_t s0, n; /* keys */
    int64_t skip;  /* loaded keys before s0; a multiple of the panels' columns */
    int64_t loaded;
} place;

/* C (m, n) = or += A times B. Rows of A are a_row floats apart; with `across` A is the transpose of
 * such rows. B is in panels of k rows if `panels`, else its rows are b_row apart. */
typedef struct product {
    int64_t m, n, k;
    const float *a;
    int64_t a_row;
    bool across;
    const float *b;
    int64_t b_row;
    bool panels;
    float *c;
    int64_t c_row;
    bool add;
} product;

static void multiply(const cpu_kernels *kernels, const product *p)
{
    const int64_t rows = kernels->gemm_rows, columns = kernels->gemm_columns;
    cpu_block block = {.m = p->m,
                       .n = p->n,
                       .k = p->k,
                       .a = p->a,
                       .a_panel = p->across ? rows : rows * p->a_row,
                       .a_row = p->across ? 1 : p->a_row,
                       .a_k = p->across ? p->a_row : 1,
                       .b = p->b,
                       .b_panel = p->panels ? columns * p->k : columns,
                       .b_k = p->panels ? columns : p->b_row,
                       .c = p->c,
                       .c_row = p->c_row,
                       .add = p->add};
    kernels->gemm_block(&block);
}

/* Turns scores and dp of rows [row, row + rows) and n keys into p and ds, in place; zeros at masked
 * positions. */
static void soften(const backward *g, const place *p, int64_t row, int64_t rows, int64_t n,
                   float *scratch)
{
    const cpu_attention *a = &g->a;
    float *mask = a->mask ? scratch + g->at_mask : NULL;
    for (int64_t r = row; r < row + rows; r++) {
        int64_t l = p->l0 + r / a->G, h = p->hk * a->G + r % a->G, from, to;
        float *s = scratch + g->at_s + r * ATTENTION_KEYS_LD;
        float *dp = scratch + g->at_dp + r * ATTENTION_KEYS_LD;
        const weft_tensor *lse = g->lse;
        float sum =
            ((const float *)
                 lse->data)[p->b * lse->strides[0] + l * lse->strides[1] + h * lse->strides[2]];
        weft__cpu_attention_sees(a, p->b, l, &from, &to);
        from = from < p->s0 ? 0 : from - p->s0 < n ? from - p->s0 : n;
        to = to < p->s0 ? 0 : to - p->s0 < n ? to - p->s0 : n;
        if (from >= to || sum == -INFINITY) {
            memset(s, 0, (size_t)n * sizeof *s);
            memset(dp, 0, (size_t)n * sizeof *dp);
            continue;
        }
        if (mask)
            weft__cpu_attention_mask(a, p->b, h, l, p->s0 + from, to - from, mask);
        if (a->parts)
            a->kernels->scale_row(s + from, to - from, (float)a->params->scale);
        a->kernels->softmax_vjp_row(s + from, dp + from, to - from, (float)a->params->softcap, mask,
                                    sum, g->memory[(p->b * a->L + l) * a->H + h]);
        memset(s, 0, (size_t)from * sizeof *s);
        memset(s + to, 0, (size_t)(n - to) * sizeof *s);
        memset(dp, 0, (size_t)from * sizeof *dp);
        memset(dp + to, 0, (size_t)(n - to) * sizeof *dp);
    }
}

/* The same as run_stripe and run_key_stripe below, by products of bfloat16 parts. */
static void run_part_stripe(const backward *g, const place *p, int64_t row, int64_t rows, int64_t n,
                            float *scratch, float *dq)
{
    const cpu_attention *a = &g->a;
    const int64_t stripe = row / (a->stripe * a->G), width = a->kernels->parts.width;
    cpu_attention_product scores = {.m = rows,
                                    .n = n,
                                    .k = a->D,
                                    .b_k = a->D,
                                    .a = scratch + g->at_qa + stripe * packed_stripe(g, a->D),
                                    .c = scratch + g->at_s + row * ATTENTION_KEYS_LD,
                                    .c_row = ATTENTION_KEYS_LD};
    cpu_attention_product d_probability = scores;
    scores.b = scratch + g->at_kt + p->skip * weft__cpu_attention_depth(a, a->D);
    d_probability.k = d_probability.b_k = a->Dv;
    d_probability.a = scratch + g->at_doa + stripe * packed_stripe(g, a->Dv);
    d_probability.b = scratch + g->at_vt + p->skip * weft__cpu_attention_depth(a, a->Dv);
    d_probability.c = scratch + g->at_dp + row * ATTENTION_KEYS_LD;
    weft__cpu_attention_multiply(a, &scores);
    weft__cpu_attention_multiply(a, &d_probability);
    soften(g, p, row, rows, n, scratch);
    weft__cpu_attention_pack_a(a, 1, d_probability.c, ATTENTION_KEYS_LD, rows, n,
                               scratch + g->at_pa);
    const cpu_attention_product d_query = {.m = rows,
                                           .n = a->D,
                                           .k = n,
                                           .b_k = p->loaded,
                                           .a = scratch + g->at_pa,
                                           .b = scratch + g->at_k +
                                                width * weft__cpu_attention_depth(a, p->skip),
                                           .c = scratch + g->at_c,
                                           .c_row = a->D_ld};
    weft__cpu_attention_multiply(a, &d_query);
    for (int64_t r = 0; r < rows; r++)
        a->kernels->add_row(dq + (row + r) * a->D, scratch + g->at_c + r * a->D_ld, a->D);
}

static void run_part_keys(const backward *g, const place *p, int64_t row, int64_t key, int64_t n,
                          float *scratch)
{
    const cpu_attention *a = &g->a;
    const int64_t from = row * ATTENTION_KEYS_LD + key, width = a->kernels->parts.width;
    const int64_t above = width * weft__cpu_attention_depth(a, row);
    cpu_attention_product d_key = {.m = n,
                                   .n = a->D,
                                   .k = p->rows - row,
                                   .b_k = p->rows,
                                   .a = scratch + g->at_pa,
                                   .b = scratch + g->at_qb + above,
                                   .c = scratch + g->at_dk + (p->skip + key) * a->D_ld,
                                   .c_row = a->D_ld,
                                   .add = true};
    cpu_attention_product d_value = d_key;
    d_value.n = a->Dv;
    d_value.b = scratch + g->at_dob + above;
    d_value.c = scratch + g->at_dv + (p->skip + key) * a->Dv_ld;
    d_value.c_row = a->Dv_ld;
    weft__cpu_attention_pack_across(a, scratch + g->at_dp + from, ATTENTION_KEYS_LD, n, d_key.k,
                                    scratch + g->at_pa);
    weft__cpu_attention_multiply(a, &d_key);
    weft__cpu_attention_pack_across(a, scratch + g->at_s + from, ATTENTION_KEYS_LD, n, d_key.k,
                                    scratch + g->at_pa);
    weft__cpu_attention_multiply(a, &d_value);
}

/* Rows [row, row + rows) of the tile, and n keys: p, ds and their part of dq. */
static void run_stripe(const backward *g, const place *p, int64_t row, int64_t rows, int64_t n,
                       float *scratch, float *dq)
{
    const cpu_attention *a = &g->a;
    const cpu_kernels *kernels = a->kernels;
    const float *q = scratch + row * a->D_ld, *d_o = scratch + g->at_do + row * a->Dv_ld;
    const float *k = scratch + g->at_k + p->skip * a->D_ld;
    const float *kt = scratch + g->at_kt + p->skip * a->D;
    const float *vt = scratch + g->at_vt + p->skip * a->Dv;
    float *s = scratch + g->at_s + row * ATTENTION_KEYS_LD;
    float *dp = scratch + g->at_dp + row * ATTENTION_KEYS_LD;
    product scores = {rows, n, a->D, q, a->D_ld, false, kt, 0, true, s, ATTENTION_KEYS_LD, false};
    multiply(kernels, &scores);
    product d_probability = {rows, n, a->Dv, d_o, a->Dv_ld,          false,
                             vt,   0, true,  dp,  ATTENTION_KEYS_LD, false};
    multiply(kernels, &d_probability);
    soften(g, p, row, rows, n, scratch);
    product d_query = {rows,  a->D, n,       dp,    ATTENTION_KEYS_LD,
                       false, k,    a->D_ld, false, dq + row * a->D,
                       a->D,  true};
    multiply(kernels, &d_query);
}

/* Adds to dk and dv of n keys from `key` on, from rows [row, p->rows). */
static void run_key_stripe(const backward *g, const place *p, int64_t row, int64_t key, int64_t n,
                           float *scratch)
{
    const cpu_attention *a = &g->a;
    const int64_t rows = p->rows - row, from = row * ATTENTION_KEYS_LD + key;
    const float *q = scratch + row * a->D_ld, *d_o = scratch + g->at_do + row * a->Dv_ld;
    float *dk = scratch + g->at_dk + (p->skip + key) * a->D_ld;
    float *dv = scratch + g->at_dv + (p->skip + key) * a->Dv_ld;
    product d_key = {
        n,  a->D,    rows, scratch + g->at_dp + from, ATTENTION_KEYS_LD, true, q, a->D_ld, false,
        dk, a->D_ld, true};
    multiply(a->kernels, &d_key);
    product d_value = {
        n,  a->Dv,    rows, scratch + g->at_s + from, ATTENTION_KEYS_LD, true, d_o, a->Dv_ld, false,
        dv, a->Dv_ld, true};
    multiply(a->kernels, &d_value);
}

/* Packs the tile's queries and do, for parts. */
static void pack_rows(const backward *g, const place *p, float *scratch)
{
    const cpu_attention *a = &g->a;
    const float *q = scratch, *d_o = scratch + g->at_do;
    const int64_t most = a->stripe * a->G;
    for (int64_t row = 0; row < p->rows; row += most) {
        const int64_t rows = p->rows - row < most ? p->rows - row : most;
        weft__cpu_attention_pack_a(a, 1, q + row * a->D_ld, a->D_ld, rows, a->D,
                                   scratch + g->at_qa + row / most * packed_stripe(g, a->D));
        weft__cpu_attention_pack_a(a, 1, d_o + row * a->Dv_ld, a->Dv_ld, rows, a->Dv,
                                   scratch + g->at_doa + row / most * packed_stripe(g, a->Dv));
    }
    a->kernels->parts.pack_b(WEFT_FLOAT32, 1, q, a->D_ld, 1, p->rows, a->D, scratch + g->at_qb);
    a->kernels->parts.pack_b(WEFT_FLOAT32, 1, d_o, a->Dv_ld, 1, p->rows, a->Dv,
                             scratch + g->at_dob);
}

/* In stripes: of rows, each without the keys that come after all of its queries, and of keys, each
 * without the rows that come before them. */
static void run_tile(const backward *g, const place *p, float *scratch, float *dq)
{
    const cpu_attention *a = &g->a;
    int64_t done = 0; /* keys of earlier stripes of rows */
    weft__cpu_attention_load(a, a->q, p->b, p->l0, p->n_l, p->hk * a->G, a->G,
                             a->parts ? 1 : (float)a->params->scale, scratch, a->D_ld);
    weft__cpu_attention_load(a, g->d_o, p->b, p->l0, p->n_l, p->hk * a->G, a->G, 1,
                             scratch + g->at_do, a->Dv_ld);
    if (a->parts)
        pack_rows(g, p, scratch);
    int64_t first_row[ATTENTION_KEYS / ATTENTION_STRIPE + 1]; /* of each stripe of keys */
    for (int64_t l = 0; l < p->n_l; l += a->stripe) {
        const int64_t n_l = p->n_l - l < a->stripe ? p->n_l - l : a->stripe;
        const int64_t n = weft__cpu_attention_keys(a, p->b, p->l0 + l + n_l - 1, p->s0, p->n);
        for (; done < n; done += ATTENTION_STRIPE)
            first_row[done / ATTENTION_STRIPE] = l * a->G;
        if (n > 0)
            (a->parts ? run_part_stripe : run_stripe)(g, p, l * a->G, n_l * a->G, n, scratch, dq);
    }
    for (int64_t key = 0; key < p->n && key < done; key += ATTENTION_STRIPE)
        (a->parts ? run_part_keys : run_key_stripe)(
            g, p, first_row[key / ATTENTION_STRIPE], key,
            p->n - key < ATTENTION_STRIPE ? p->n - key : ATTENTION_STRIPE, scratch);
}

/* ---- A task --------------------------------------------------------------------------------- */

/* Writes the n rows of one head from scratch to the output x (B, S, Hk, width). */
static void put(const cpu_attention *a, const weft_tensor *x, const place *p, const float *from,
                int64_t ld)
{
    const int64_t width = x->shape.at[3];
    for (int64_t j = 0; j < p->n; j++) {
        int64_t row = (p->b * a->S + p->s0 + j) * a->Hk + p->hk;
        char *to = (char *)x->data + row * width * (int64_t)weft_dtype_size(x->dtype);
        a->kernels->encode(x->dtype, from + j * ld, to, width);
    }
}

/* Whether any query of the tile attends to any of its keys. Drops keys at both ends that none
 * attends to, at the beginning whole panels of keys. */
static bool clip(const cpu_attention *a, place *p)
{
    int64_t from, last_to;
    weft__cpu_attention_sees_any(a, p->b, p->l0, p->n_l, &from, &last_to);
    if (last_to - p->s0 < p->n)
        p->n = last_to - p->s0;
    if (p->n <= 0 || from >= p->s0 + p->n)
        return false;
    p->skip = from > p->s0 ? from - p->s0 : 0;
    p->skip -= p->skip % (a->parts ? a->kernels->parts.width : a->kernels->gemm_columns);
    p->s0 += p->skip;
    p->n -= p->skip;
    return true;
}

/* Adds the gradients of a block of queries, one run of queries that share keys at a time. */
static void run_block(const backward *g, const place *p, int64_t block, float *scratch, float *dq)
{
    const cpu_attention *a = &g->a;
    const int64_t l0 = block * a->block, end = l0 + a->block < a->L ? l0 + a->block : a->L;
    int64_t next;
    for (int64_t l = l0; l < end; l = next) {
        place tile = *p;
        next = weft__cpu_attention_run_end(a, p->b, l, end);
        tile.l0 = l;
        tile.n_l = next - l;
        tile.rows = tile.n_l * a->G;
        if (clip(a, &tile))
            run_tile(g, &tile, scratch, dq + l * a->G * a->D);
    }
}

static void run_keys(const backward *g, place p, float *scratch, float *dq)
{
    const cpu_attention *a = &g->a;
    p.loaded = p.n;
    if (a->parts) {
        weft__cpu_attention_pack_b(a, a->k, p.b, p.s0, p.n, p.hk, false, scratch + g->at_k);
        weft__cpu_attention_pack_b(a, a->k, p.b, p.s0, p.n, p.hk, true, scratch + g->at_kt);
        weft__cpu_attention_pack_b(a, a->v, p.b, p.s0, p.n, p.hk, true, scratch + g->at_vt);
    } else {
        weft__cpu_attention_load(a, a->k, p.b, p.s0, p.n, p.hk, 1, 1, scratch + g->at_k, a->D_ld);
        weft__cpu_attention_pack(a, a->k, p.b, p.s0, p.n, p.hk, scratch + g->at_kt);
        weft__cpu_attention_pack(a, a->v, p.b, p.s0, p.n, p.hk, scratch + g->at_vt);
    }
    memset(scratch + g->at_dk, 0, (size_t)(ATTENTION_KEYS * a->D_ld) * sizeof(float));
    memset(scratch + g->at_dv, 0, (size_t)(ATTENTION_KEYS * a->Dv_ld) * sizeof(float));
    for (int64_t block = 0; block < a->n_blocks; block++)
        run_block(g, &p, block, scratch, dq);
    if (a->parts)
        a->kernels->scale_row(scratch + g->at_dk, p.n * a->D_ld, (float)a->params->scale);
    put(a, &g->out[1], &p, scratch + g->at_dk, a->D_ld);
    put(a, &g->out[2], &p, scratch + g->at_dv, a->Dv_ld);
}

static void keys_task(void *context, int64_t begin, int64_t end, int worker)
{
    const backward *g = context;
    const cpu_attention *a = &g->a;
    float *scratch = g->memory + g->at_scratch + worker * g->scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t pair = i / g->n_parts, part = i % g->n_parts;
        float *dq = g->memory + g->at_dq + i * g->dq;
        memset(dq, 0, (size_t)g->dq * sizeof *dq);
        int64_t last = (part + 1) * g->part < a->S ? (part + 1) * g->part : a->S;
        for (int64_t s0 = part * g->part; s0 < last; s0 += ATTENTION_KEYS) {
            place p = {.b = pair / a->Hk, .hk = pair % a->Hk, .s0 = s0};
            p.n = last - s0 < ATTENTION_KEYS ? last - s0 : ATTENTION_KEYS;
            run_keys(g, p, scratch, dq);
        }
    }
}

/* Sums the parts of dq into the output. Items are its rows (B, L, H). */
static void dq_task(void *context, int64_t begin, int64_t end, int worker)
{
    const backward *g = context;
    const cpu_attention *a = &g->a;
    (void)worker;
    const weft_tensor *out = &g->out[0];
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / (a->L * a->H), l = i / a->H % a->L, h = i % a->H;
        int64_t pair = b * a->Hk + h / a->G;
        float *first =
            g->memory + g->at_dq + pair * g->n_parts * g->dq + (l * a->G + h % a->G) * a->D;
        for (int64_t part = 1; part < g->n_parts; part++)
            a->kernels->add_row(first, first + part * g->dq, a->D);
        a->kernels->scale_row(first, a->D, (float)a->params->scale);
        char *to = (char *)out->data + i * a->D * (int64_t)weft_dtype_size(out->dtype);
        a->kernels->encode(out->dtype, first, to, a->D);
    }
}

weft_status weft__cpu_attention_vjp(const weft_call *call)
{
    backward g;
    make_plan(&g, call);
    g.memory = call->workspace;
    int64_t rows = g.a.B * g.a.L * g.a.H;
    weft__cpu_parallel(rows, ROW_GRAIN, delta_task, &g);
    weft__cpu_parallel(g.pairs * g.n_parts, 1, keys_task, &g);
    weft__cpu_parallel(rows, ROW_GRAIN, dq_task, &g);
    return WEFT_OK;
}
