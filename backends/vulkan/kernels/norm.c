/* backends/vulkan/kernels/norm.c -- rms_norm, layer_norm and their gradients. Some threads share a
 * row; sums over rows take two launches and a fixed order. */
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum {
    GROUP = 256,     /* threads of a workgroup */
    MOST_KEPT = 8,   /* pieces that a thread keeps in registers */
    COLUMNS = 64,    /* columns per workgroup of norm_sums */
    ENOUGH = 2048,   /* workgroups that keep a large device busy */
    FEWEST_ROWS = 32 /* of a part */
};

/* (..., E) as rows: row r starts at r / inner * at[0] + r % inner * at[1]. */
typedef struct rows {
    uint32_t n, inner, width, at[2];
} rows;

/* Merges the leading axes to two, outer and inner, if the strides allow it. Axes of length 1 merge
 * with any. */
static bool rows_of(const weft_tensor *x, rows *out)
{
    int64_t length[2] = {1, 1}, stride[2] = {0, 0};
    if (weft_tensor_size(x) == 0) {
        *out = (rows){.inner = 1, .width = (uint32_t)x->shape.at[x->shape.n - 1]};
        return true;
    }
    int at = 1; /* filled from the innermost axis */
    for (int i = x->shape.n - 2; i >= 0; i--) {
        const int64_t n = x->shape.at[i], s = x->strides[i];
        if (n == 1) {
            continue;
        }
        if (length[at] > 1 && s != stride[at] * length[at]) {
            at--;
        }
        if (at < 0) {
            return false;
        }
        stride[at] = length[at] == 1 ? s : stride[at];
        length[at] *= n;
    }
    *out = (rows){.n = (uint32_t)(length[0] * length[1]),
                  .inner = (uint32_t)length[1],
                  .width = (uint32_t)x->shape.at[x->shape.n - 1],
                  .at = {(uint32_t)stride[0], (uint32_t)stride[1]}};
    return true;
}

/* The same rows divided into outer and inner at another length, if possible. */
static bool divide(rows *r, uint32_t inner)
{
    if (r->inner == inner) {
        return true;
    }
    /* Rows with a single stride can be divided anywhere. */
    if (r->inner != r->n || r->at[0] != 0) {
        return false;
    }
    r->at[0] = r->at[1] * inner;
    r->inner = inner;
    return true;
}

static bool share(rows *a, rows *b)
{
    return divide(a, b->inner) || divide(b, a->inner);
}

/* ---- A call --------------------------------------------------------------------------------- */

typedef struct norm {
    const weft_norm_params *params;
    bool layer, gradient, wide;
    const weft_tensor *weight, *other; /* other: bias, or cotangent */
    rows x, ct;
} norm;

static bool norm_of(const weft_call *call, bool layer, bool gradient, norm *n)
{
    *n = (norm){.params = call->params,
                .layer = layer,
                .gradient = gradient,
                .wide = weft__vulkan_is_wide(call)};
    int next = 1;
    n->weight = n->params->has_weight ? &call->in[next++] : NULL;
    n->other = next < call->n_inputs ? &call->in[next] : NULL;
    if (!rows_of(&call->in[0], &n->x)) {
        return false;
    }
    n->ct = n->x;
    return !n->gradient || (rows_of(n->other, &n->ct) && share(&n->x, &n->ct));
}

/* Both norms have the same layout of inputs. */
static bool fits(const weft_call *call, bool gradient)
{
    norm n;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!weft__vulkan_is_forward(&call->in[i])) {
            return false;
        }
    }
    return weft__vulkan_fits(call) && norm_of(call, false, gradient, &n);
}

bool weft__vulkan_norm_fits(const weft_call *call)
{
    return fits(call, false);
}

bool weft__vulkan_norm_vjp_fits(const weft_call *call)
{
    return fits(call, true);
}

/* Layout as in norm.glsl. */
typedef struct norm_push {
    uint64_t x, weight, other, y, stats;
    uint32_t x_at[2], other_at[2];
    uint32_t rows, inner, width, unused;
    weft__vulkan_reals reals; /* eps, offset */
} norm_push;

/* A power of two: at least 8, and `items` unless that is too many. */
static uint32_t threads_of(uint32_t items)
{
    uint32_t threads = 8;
    while (threads < GROUP && threads < items) {
        threads *= 2;
    }
    return threads;
}

uint32_t weft__vulkan_norm_pieces(weft_dtype dtype, uint32_t width, uint32_t starts,
                                  uint64_t addresses, uint32_t *threads)
{
    const uint32_t piece = 16 / (uint32_t)weft_dtype_size(dtype);
    const uint32_t pieces = width / piece, each = threads_of(pieces);
    const uint32_t kept = (pieces + each - 1) / each;
    if ((starts | width) % piece != 0 || addresses % 16 != 0 || pieces == 0 || kept > MOST_KEPT) {
        *threads = threads_of((width + 3) / 4);
        return 0;
    }
    *threads = each;
    return kept;
}

static norm_push push_of(const weft_call *call, const norm *n, uint64_t stats)
{
    const weft_norm_params *params = n->params;
    return (norm_push){.x = weft__vulkan_address_or_0(&call->in[0]),
                       .weight = weft__vulkan_address_or_0(n->weight),
                       .other = weft__vulkan_address_or_0(n->other),
                       .y = weft__vulkan_address_or_0(&call->out[0]),
                       .stats = stats,
                       .x_at = {n->x.at[0], n->x.at[1]},
                       .other_at = {n->ct.at[0], n->ct.at[1]},
                       .rows = n->x.n,
                       .inner = n->x.inner,
                       .width = n->x.width,
                       .reals = weft__vulkan_reals_of(n->wide, params->eps, params->offset)};
}

static weft_status run_rows(const weft_call *call, const norm *n, const weft__vulkan_shader *shader,
                            uint64_t stats)
{
    const norm_push push = push_of(call, n, stats);
    const bool whole = !n->gradient && !n->wide;
    const uint64_t addresses = push.x | push.y | push.weight | push.other;
    uint32_t threads;
    const uint32_t kept = weft__vulkan_norm_pieces(
        call->in[0].dtype, n->x.width, n->x.at[0] | n->x.at[1], whole ? addresses : 1, &threads);
    weft__vulkan_launch launch = {
        .shader = shader,
        .n_constants = n->gradient ? 5 : 6,
        .constants = {call->in[0].dtype, n->weight ? n->weight->dtype : WEFT_FLOAT32,
                      n->other ? n->other->dtype : WEFT_FLOAT32, threads, n->layer, kept},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(n->x.n, GROUP / threads)};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status run_norm(const weft_call *call, bool layer)
{
    norm n;
    norm_of(call, layer, false, &n);
    return run_rows(call, &n, n.wide ? &weft__shader_norm_f64 : &weft__shader_norm, 0);
}

weft_status weft__vulkan_rms_norm(const weft_call *call)
{
    return run_norm(call, false);
}

weft_status weft__vulkan_layer_norm(const weft_call *call)
{
    return run_norm(call, true);
}

/* ---- Sums over rows ------------------------------------------------------------------------- */

/* Layout as in norm_sums.comp. */
typedef struct sums_push {
    uint64_t x, ct, stats, parts, dw, db;
    uint32_t x_at[2], ct_at[2];
    uint32_t rows, inner, width, per_part, blocks;
} sums_push;

typedef struct division {
    uint32_t blocks, parts, per_part; /* blocks of columns, parts of the rows */
} division;

static division division_of(const rows *x)
{
    const uint64_t blocks = weft__vulkan_groups(x->width, COLUMNS);
    const uint64_t most = weft__vulkan_groups(x->n, FEWEST_ROWS);
    uint64_t parts = blocks > 0 && blocks < ENOUGH ? ENOUGH / blocks : 1;
    parts = parts < most ? parts : most;
    const uint64_t per_part = parts > 1 ? weft__vulkan_groups(x->n, parts) : x->n > 0 ? x->n : 1;
    parts = x->n > 0 ? weft__vulkan_groups(x->n, per_part) : 1;
    return (division){(uint32_t)blocks, (uint32_t)parts, (uint32_t)per_part};
}

int64_t weft__vulkan_norm_vjp_workspace(const weft_call *call)
{
    norm n;
    if (call->n_outputs == 1 || !norm_of(call, false, true, &n)) {
        return 0;
    }
    const division d = division_of(&n.x);
    const int64_t reals = 2 * (int64_t)n.x.n + 2 * (int64_t)d.parts * n.x.width;
    return reals * (n.wide ? 8 : 4);
}

static weft_status run_sums(const weft_call *call, const norm *n, uint64_t stats)
{
    const weft_tensor *outs = call->out + 1;
    const bool dw = n->params->has_weight, db = n->layer && n->params->has_bias;
    const division d = division_of(&n->x);
    sums_push push = {.x = weft__vulkan_address_or_0(&call->in[0]),
                      .ct = weft__vulkan_address_or_0(n->other),
                      .stats = stats,
                      .parts = stats + 2 * (uint64_t)n->x.n * (n->wide ? 8 : 4),
                      .dw = dw ? weft__vulkan_address_or_0(&outs[0]) : 0,
                      .db = db ? weft__vulkan_address_or_0(&outs[dw]) : 0,
                      .x_at = {n->x.at[0], n->x.at[1]},
                      .ct_at = {n->ct.at[0], n->ct.at[1]},
                      .rows = n->x.n,
                      .inner = n->x.inner,
                      .width = n->x.width,
                      .per_part = d.per_part,
                      .blocks = d.blocks};
    weft__vulkan_launch launch = {
        .shader = n->wide ? &weft__shader_norm_sums_f64 : &weft__shader_norm_sums,
        .n_constants = 4,
        .constants = {call->in[0].dtype, n->other->dtype, false, outs->dtype},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = (uint64_t)d.blocks * d.parts};
    weft_status status = weft__vulkan_dispatch(call, &launch);
    launch.constants[2] = true;
    launch.groups = d.blocks;
    push.rows = push.per_part = d.parts;
    return status == WEFT_OK ? weft__vulkan_dispatch(call, &launch) : status;
}

static weft_status run_vjp(const weft_call *call, bool layer)
{
    norm n;
    norm_of(call, layer, true, &n);
    const bool sums = call->n_outputs > 1;
    const uint64_t stats = sums ? weft__vulkan_workspace(call) : 0;
    weft_status status =
        run_rows(call, &n, n.wide ? &weft__shader_norm_vjp_f64 : &weft__shader_norm_vjp, stats);
    return status == WEFT_OK && sums ? run_sums(call, &n, stats) : status;
}

weft_status weft__vulkan_rms_norm_vjp(const weft_call *call)
{
    return run_vjp(call, false);
}

weft_status weft__vulkan_layer_norm_vjp(const weft_call *call)
{
    return run_vjp(call, true);
}
