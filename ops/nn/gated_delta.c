/* ops/nn/gated_delta.c -- the gated delta rule (Yang, Kautz and Hatamizadeh 2025): each head has a
 * state matrix that decays, and is corrected towards each token's value; and the rule of Mamba 2
 * (Dao and Gu 2024), which adds each token's value without a correction.
 *
 * The expansion splits a sequence into chunks, within which everything is a matrix product (Yang et
 * al. 2024). With G the running sum of g since the start of the chunk, S the state before it, and
 * A_ij = beta_i (k_i . k_j) exp(G_i - G_j) for j < i, the tokens add (I + A)^-1 diag(beta) (V -
 * diag(exp G) K S^T); without a correction they add V.
 */
#include "core/failure.h"
#include "ops/batch.h"
#include "ops/nn/nn.h"

enum { Q, K, V, G, BETA, N_INPUTS = 6 }; /* the state is the last one; Mamba 2 has no beta */
enum { CHUNK = 64 /* a power of two */ };

/* ---- in chunks ------------------------------------------------------------------------------ */

/* A sequence of L tokens in n chunks of C. The last chunk is padded with tokens that change
 * nothing. */
typedef struct chunks {
    int64_t L, Hv, n, C;
} chunks;

static bool corrects(const weft_array *node)
{
    return weft_node_op(node)->arity == N_INPUTS;
}

static int state_of(const weft_array *node)
{
    return corrects(node) ? N_INPUTS - 1 : N_INPUTS - 2;
}

static chunks chunks_of(weft_array *node)
{
    chunks c = {.L = input_shape(node, Q).at[1], .Hv = input_shape(node, V).at[2], .C = 1};
    while (c.C < CHUNK && c.C < c.L) {
        c.C *= 2;
    }
    c.n = (c.L + c.C - 1) / c.C;
    return c;
}

/* Input i, (B, L, heads, D), as (B, Hv, n, C, D), with heads repeated for the value heads that
 * share them. */
static weft_array *in_chunks(weft_array *node, int i, const chunks *c)
{
    weft_array *x = computed_input(node, i);
    x = weft_ndim(x) == 3 ? weft_expand_dims(x, -1) : x;
    int64_t B = weft_dim(x, 0), H = weft_dim(x, 2), D = weft_dim(x, 3);
    x = weft_transpose(x, WEFT_DIMS(0, 2, 1, 3));
    x = weft_pad(x, 2, 0, c->n * c->C - c->L, 0);
    if (H != c->Hv) {
        weft_dims repeated = WEFT_DIMS(B, H, c->Hv / H, c->n * c->C, D);
        x = weft_broadcast_to(weft_expand_dims(x, 2), repeated);
    }
    return weft_reshape(x, WEFT_DIMS(B, c->Hv, c->n, c->C, D));
}

/* (C, C): 1 where `i` is in the later and `j` in the earlier half of the same block of size 2
 * `half`. */
static weft_array *below_blocks(weft_array *like, int64_t half)
{
    int64_t C = weft_dim(like, -1);
    float mask[CHUNK * CHUNK];
    for (int64_t i = 0; i < C; i++) {
        for (int64_t j = 0; j < C; j++) {
            bool same = i / (2 * half) == j / (2 * half);
            mask[i * C + j] = same && i / half % 2 == 1 && j / half % 2 == 0 ? 1 : 0;
        }
    }
    weft_array *a = weft_from_data(mask, WEFT_FLOAT32, WEFT_DIMS(C, C));
    return on_device_of(like, weft_astype(a, weft_dtype_of(like)));
}

/* (I + A)^-1 for the part of a (..., C, C) below the diagonal. Diagonal blocks of size 1, 2, 4, ...
 * are inverted, each from those of half its size. */
static weft_array *unit_inverse(weft_array *a)
{
    int64_t C = weft_dim(a, -1);
    weft_array *inverse = on_device_of(a, weft_identity(C, weft_dtype_of(a)));
    inverse = weft_broadcast_to(inverse, weft_shape(a));
    for (int64_t half = 1; half < C; half *= 2) {
        weft_array *below = weft_multiply(a, below_blocks(a, half));
        if (half > 1) {
            below = weft_matmul(weft_matmul(inverse, below), inverse);
        }
        inverse = weft_subtract(inverse, below);
    }
    return inverse;
}

/* G_i - G_j for j < i, else 0, from g (..., C, 1): (..., C, C). Each difference is summed
 * separately, since differences of large running sums would be inexact. */
static weft_array *sums_between(weft_array *g, const chunks *c)
{
    weft_array *later = on_device_of(g, weft_tri(c->C, c->C, -1, weft_dtype_of(g)));
    return weft_cumsum(weft_multiply(g, later), -2, false, true);
}

static weft_array *chunk_at(weft_array *x, int64_t i)
{
    return weft_squeeze(weft_slice_axis(x, 2, i, i + 1), 2);
}

/* Terms that do not depend on the state, for all chunks, (B, Hv, n, C, ...). */
typedef struct parts {
    weft_array *fresh;   /* (Dv): added by tokens to an empty state */
    weft_array *known;   /* (D): multiplied by the state and subtracted from that; or NULL */
    weft_array *among;   /* (C): weights of the chunk's tokens for the queries */
    weft_array *queries; /* (D): queries to the state before the chunk */
    weft_array *keys;    /* (D): keys, decayed to the end of the chunk */
    weft_array *decay;   /* (1, 1): decay of the state over the chunk */
} parts;

static parts parts_of(weft_array *node, const chunks *c)
{
    weft_array *q = in_chunks(node, Q, c), *k = in_chunks(node, K, c), *v = in_chunks(node, V, c);
    weft_array *g = in_chunks(node, G, c); /* (..., C, 1) */
    weft_array *sums = weft_cumsum(g, -2, false, true), *decay = weft_exp(sums);
    weft_array *apart = sums_between(g, c);
    weft_array *to_end = weft_exp(weft_slice_axis(apart, -2, c->C - 1, c->C)); /* (..., 1, C) */
    weft_array *seen = on_device_of(g, weft_tri(c->C, c->C, 0, weft_dtype_of(g)));
    weft_array *between = weft_multiply(weft_exp(apart), seen);
    weft_array *across = weft_swapaxes(k, -1, -2); /* (..., D, C) */
    weft_array *known = NULL;
    if (corrects(node)) {
        weft_array *beta = in_chunks(node, BETA, c);                      /* (..., C, 1) */
        weft_array *own = weft_multiply(weft_matmul(k, across), between); /* (..., C, C) */
        weft_array *inverse = unit_inverse(weft_multiply(own, beta));
        v = weft_matmul(inverse, weft_multiply(v, beta));
        known = weft_matmul(inverse, weft_multiply(k, weft_multiply(beta, decay)));
    }
    return (parts){
        .fresh = v,
        .known = known,
        .among = weft_multiply(weft_matmul(q, across), between),
        .queries = weft_multiply(q, decay),
        .keys = weft_multiply(k, weft_swapaxes(to_end, -1, -2)),
        .decay = weft_slice_axis(decay, -2, c->C - 1, c->C),
    };
}

/* Computes one chunk: updates *state (B, Hv, Dv, D) and returns y (B, Hv, C, Dv). */
static weft_array *read_chunk(const parts *p, int64_t i, weft_array **state)
{
    weft_array *across = weft_swapaxes(*state, -1, -2); /* (B, Hv, D, Dv) */
    weft_array *added = chunk_at(p->fresh, i);          /* (B, Hv, C, Dv) */
    if (p->known) {
        added = weft_subtract(added, weft_matmul(chunk_at(p->known, i), across));
    }
    weft_array *learned = weft_matmul(weft_swapaxes(added, -1, -2), chunk_at(p->keys, i));
    *state = weft_add(weft_multiply(*state, chunk_at(p->decay, i)), learned);
    return weft_add(weft_matmul(chunk_at(p->queries, i), across),
                    weft_matmul(chunk_at(p->among, i), added));
}

static void expand(weft_array *node, weft_array **outs)
{
    const chunks c = chunks_of(node);
    weft_array *state = computed_input(node, state_of(node));
    weft_array **read = weft_malloc((size_t)(c.n + 1) * sizeof *read);
    weft_dims shape = weft_node_spec(node, 0)->shape; /* (B, L, Hv, Dv) */
    weft_array *y = weft_zeros(shape, compute_dtype(node));
    y = on_device_of(state, y);
    if (read == NULL) {
        outs[0] = outs[1] = weft__memory_error(weft_node_op(node)->name, "chunks");
        return;
    }
    if (c.n > 0) {
        const parts p = parts_of(node, &c);
        for (int64_t i = 0; i < c.n; i++) {
            read[i] = read_chunk(&p, i, &state);
        }
        y = weft_concatenate(read, (int)c.n, 2); /* (B, Hv, n C, Dv) */
        y = weft_transpose(weft_slice_axis(y, 2, 0, c.L), WEFT_DIMS(0, 2, 1, 3));
    }
    weft_free(read);
    outs[0] = weft_astype(y, input_dtype(node, Q));
    outs[1] = state;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    static const char *const names[] = {"q", "k", "v", "g", "beta", "the state"};
    static const char *const letters[] = {"(B, L, Hk, D)", "(B, L, Hk, D)", "(B, L, Hv, Dv)",
                                          "(B, L, Hv)",    "(B, L, Hv)",    "(B, Hv, Dv, D)"};
    static const int ranks[] = {4, 4, 4, 3, 3, 4};
    int state = state_of(node);
    if (!weft__expect_inputs(node, state + 1, why)) {
        return false;
    }
    for (int i = 0; i <= state; i++) {
        int j = i == state ? N_INPUTS - 1 : i;
        if (!weft__expect_float(node, i, names[j], why) ||
            !weft__expect_rank(node, i, names[j], letters[j], ranks[j], why)) {
            return false;
        }
    }
    weft_dims q = input_shape(node, Q), v = input_shape(node, V);
    int64_t B = q.at[0], L = q.at[1], Hk = q.at[2], D = q.at[3], Hv = v.at[2], Dv = v.at[3];
    if (Hk < 1 || Hv % Hk != 0) {
        return weft_because(why, "%lld heads of values, expected a multiple of the %lld of keys",
                            (long long)Hv, (long long)Hk);
    }
    if (!weft__expect_shape(node, K, names[K], q, why) ||
        !weft__expect_shape(node, V, names[V], WEFT_DIMS(B, L, Hv, Dv), why) ||
        !weft__expect_shape(node, G, names[G], WEFT_DIMS(B, L, Hv), why) ||
        (corrects(node) &&
         !weft__expect_shape(node, BETA, names[BETA], WEFT_DIMS(B, L, Hv), why)) ||
        !weft__expect_shape(node, state, names[N_INPUTS - 1], WEFT_DIMS(B, Hv, Dv, D), why)) {
        return false;
    }
    out[0] = dense(input_dtype(node, Q), v);
    out[1] = dense(compute_dtype(weft_node_input(node, Q)), input_shape(node, state));
    return true;
}

/* The batch is merged into B. */
static bool vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                 weft_array **out)
{
    weft_array *inputs[N_INPUTS];
    int n = state_of(node) + 1;
    for (int i = 0; i < n; i++) {
        inputs[i] = merge_batch(batch_of(in[i], batched[i], size));
    }
    weft_array *both = weft_apply(weft_node_op(node), inputs, n, NULL);
    int64_t B = input_shape(node, Q).at[0];
    out[0] = split_batch(weft_pick(both, 0), size, B);
    out[1] = split_batch(weft_pick(both, 1), size, B);
    return true;
}

#define TOKENS(B, L, Hk, Hv, D, Dv)                                                                \
    {.shape = {4, {B, L, Hk, D}}, .lo = -0.6, .hi = 0.6},                                          \
        {.shape = {4, {B, L, Hk, D}}, .lo = -0.6, .hi = 0.6}, {.shape = {4, {B, L, Hv, Dv}}},      \
    {                                                                                              \
        .shape = {3, {B, L, Hv}}, .lo = -1, .hi = -0.01                                            \
    }
#define STATE(B, Hv, D, Dv)                                                                        \
    {                                                                                              \
        .shape = { 4, {B, Hv, Dv, D} }                                                             \
    }
#define DELTA(B, L, Hk, Hv, D, Dv)                                                                 \
    N_INPUTS,                                                                                      \
    {                                                                                              \
        TOKENS(B, L, Hk, Hv, D, Dv), {.shape = {3, {B, L, Hv}}, .lo = 0, .hi = 1},                 \
            STATE(B, Hv, D, Dv)                                                                    \
    }
#define SPACE(B, L, Hk, Hv, D, Dv)                                                                 \
    N_INPUTS - 1,                                                                                  \
    {                                                                                              \
        TOKENS(B, L, Hk, Hv, D, Dv), STATE(B, Hv, D, Dv)                                           \
    }
#define CASES(INPUTS)                                                                              \
    {"grouped", INPUTS(2, 5, 1, 2, 3, 2), NULL}, {"one token", INPUTS(1, 1, 2, 2, 4, 3), NULL},    \
        {"no tokens", INPUTS(1, 0, 1, 1, 2, 2), NULL},                                             \
    {                                                                                              \
        "no texts", INPUTS(0, 2, 1, 1, 2, 2), NULL                                                 \
    }

static const weft_case cases[] = {CASES(DELTA)}, space_cases[] = {CASES(SPACE)};
#undef CASES
#undef SPACE
#undef DELTA
#undef STATE
#undef TOKENS

/* Token by token: each element of the state decays (1), is multiplied by the key (2), corrected (2)
 * and multiplied by the query (2). */
static void count_work(const weft_call *call, weft_work *work)
{
    const weft_dims *q = &call->in[Q].shape;
    const int each = call->n_inputs == N_INPUTS ? 7 : 5;
    work->flops = each * (double)q->at[3] * (double)weft_tensor_size(&call->in[V]);
}

const weft_op weft_op_gated_delta = {
    .name = "gated_delta",
    .family = WEFT_COMPOSITE,
    .arity = N_INPUTS,
    .n_outputs = 2,
    .infer = infer,
    .vmap = vmap,
    .expand = expand,
    .work = count_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

const weft_op weft_op_state_space = {
    .name = "state_space",
    .family = WEFT_COMPOSITE,
    .arity = N_INPUTS - 1,
    .n_outputs = 2,
    .infer = infer,
    .vmap = vmap,
    .expand = expand,
    .work = count_work,
    .cases = space_cases,
    .n_cases = sizeof space_cases / sizeof *space_cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

/* Of Mamba 2 without beta. */
static weft_array *apply(const weft_op *op, weft_array *q, weft_array *k, weft_array *v,
                         weft_array *g, weft_array *beta, weft_array *state, weft_array **last)
{
    weft_scope_open();
    if (state == NULL && weft_ok(q) && weft_ndim(q) == 4 && weft_ok(v) && weft_ndim(v) == 4) {
        weft_dims shape = WEFT_DIMS(weft_dim(q, 0), weft_dim(v, 2), weft_dim(v, 3), weft_dim(q, 3));
        state = on_device_of(q, weft_zeros(shape, compute_dtype(q)));
    } else if (state == NULL) {
        state = q; /* refused: wrong rank */
    }
    weft_array *inputs[N_INPUTS] = {q, k, v, g, op->arity == N_INPUTS ? beta : state, state};
    weft_array *both = weft_apply(op, inputs, op->arity, NULL);
    weft_array *y = weft_pick(both, 0), *after = last ? weft_pick(both, 1) : NULL;
    close_with(&y, &after);
    if (last) {
        *last = after;
    }
    return y;
}

weft_array *weft_gated_delta(weft_array *q, weft_array *k, weft_array *v, weft_array *g,
                             weft_array *beta, weft_array *state, weft_array **last)
{
    return apply(&weft_op_gated_delta, q, k, v, g, beta, state, last);
}

weft_array *weft_state_space(weft_array *q, weft_array *k, weft_array *v, weft_array *g,
                             weft_array *state, weft_array **last)
{
    return apply(&weft_op_state_space, q, k, v, g, NULL, state, last);
}
