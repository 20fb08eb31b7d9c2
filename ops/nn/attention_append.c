/* ops/nn/attention_append.c -- a decoder's attention over a KV cache as one op: queries and keys
 * are rotated, keys and values are written to the cache, and the queries attend to it. Compiled
 * functions use it where the device has a kernel (core/compile/append.c). */
#include "ops/nn/nn.h"

enum { Q, KEYS, VALUES, V, K, POSITIONS, FREQUENCIES, START, FIXED };

int64_t weft__attention_append_page(const weft_array *node)
{
    const weft_attention_append_params *params = weft_node_params(node);
    return weft_node_op(node) == &weft_op_attention_append ? params->page : 0;
}

/* ---- Expansion ------------------------------------------------------------------------------ */

static weft_array *rotated(weft_array *node, int i)
{
    const weft_attention_append_params *params = weft_node_params(node);
    weft_array *in[] = {weft_node_input(node, i), weft_node_input(node, POSITIONS),
                        weft_node_input(node, FREQUENCIES)};
    return weft_apply(&weft_op_rope, in, 3, &params->rope);
}

/* Tokens (B, 1, ...) at indices `start` of the only row of x. */
static weft_array *in_pool(weft_array *x, weft_array *tokens, weft_array *start)
{
    tokens = weft_swapaxes(tokens, 0, 1);
    weft_array *at = weft_reshape(start, WEFT_DIMS(1, weft_dim(tokens, 1), 1, 1));
    return weft_put_along_axis(x, weft_broadcast_to(at, weft_shape(tokens)), tokens, 1);
}

static weft_array *in_pages(weft_array *x, int64_t page)
{
    const weft_dims shape = weft_shape(x);
    return weft_reshape(x, WEFT_DIMS(shape.at[1] / page, page, shape.at[2], shape.at[3]));
}

static void expand_pages(weft_array *node, weft_array **outs)
{
    const weft_attention_append_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    weft_array *in[FIXED], *start = weft_node_input(node, START);
    outs[2] = in_pool(weft_node_input(node, KEYS), rotated(node, K), start);
    outs[3] = in_pool(weft_node_input(node, VALUES), weft_node_input(node, V), start);
    in[0] = rotated(node, Q);
    in[1] = in_pages(outs[2], params->page);
    in[2] = in_pages(outs[3], params->page);
    for (int i = FIXED; i < n; i++) {
        in[3 + i - FIXED] = weft_node_input(node, i);
    }
    weft_array *y = weft_apply(&weft_op_attention_pages, in, 3 + n - FIXED, &params->attention);
    outs[0] = weft_pick(y, 0);
    outs[1] = weft_pick(y, 1);
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_attention_append_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    weft_array *in[FIXED], *start = weft_node_input(node, START);
    if (params->page > 0) {
        expand_pages(node, outs);
        return;
    }
    in[0] = rotated(node, Q);
    in[1] = outs[2] =
        weft_slice_update(weft_node_input(node, KEYS), rotated(node, K), start, WEFT_DIMS(1));
    in[2] = outs[3] = weft_slice_update(weft_node_input(node, VALUES), weft_node_input(node, V),
                                        start, WEFT_DIMS(1));
    for (int i = FIXED; i < n; i++) {
        in[3 + i - FIXED] = weft_node_input(node, i);
    }
    weft_array *y = weft_apply(&weft_op_attention, in, 3 + n - FIXED, &params->attention);
    outs[0] = weft_pick(y, 0);
    outs[1] = weft_pick(y, 1);
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer_fresh(const weft_array *node, int i, const char *name, int cache, weft_why *why)
{
    weft_dims shape = input_shape(node, cache);
    const int64_t L = input_shape(node, Q).at[1];
    if (L > shape.at[1]) {
        return weft_because(why, "%lld tokens for a cache of %lld", (long long)L,
                            (long long)shape.at[1]);
    }
    shape.at[0] = input_shape(node, Q).at[0];
    shape.at[1] = L;
    if (input_dtype(node, i) != input_dtype(node, cache)) {
        return weft_because(why, "%s is %s for a cache of %s", name,
                            weft_dtype_name(input_dtype(node, i)),
                            weft_dtype_name(input_dtype(node, cache)));
    }
    return weft__expect_shape(node, i, name, shape, why);
}

static bool infer_pages(const weft_array *node, weft_why *why)
{
    const int64_t page = weft__attention_append_page(node), B = input_shape(node, Q).at[0];
    const weft_dims keys = input_shape(node, KEYS), pages = input_shape(node, APPEND_PAGES);
    if (input_shape(node, Q).at[1] != 1 || keys.at[0] != 1 || keys.at[1] % page != 0) {
        return weft_because(why, "%lld tokens of a row for %lld pools of %lld in pages of %lld",
                            (long long)input_shape(node, Q).at[1], (long long)keys.at[0],
                            (long long)keys.at[1], (long long)page);
    }
    if (input_dtype(node, APPEND_PAGES) != WEFT_INT32) {
        return weft_because(why, "pages are %s, expected int32",
                            weft_dtype_name(input_dtype(node, APPEND_PAGES)));
    }
    return weft__expect_rank(node, APPEND_PAGES, "pages", "(B, N)", 2, why) &&
           weft__expect_shape(node, APPEND_PAGES, "pages", WEFT_DIMS(B, pages.at[1]), why);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const bool paged = weft__attention_append_page(node) > 0;
    if (weft__attention_append_page(node) < 0) {
        return weft_because(why, "pages of %lld tokens",
                            (long long)weft__attention_append_page(node));
    }
    if (!weft__attention_infer(node, FIXED + paged, why) || (paged && !infer_pages(node, why)) ||
        !infer_fresh(node, K, "k", KEYS, why) || !infer_fresh(node, V, "v", VALUES, why) ||
        !weft__rope_infer(node, K, why) || !weft__expect_integer(node, START, "start", why) ||
        !weft__expect_shape(node, START, "start", WEFT_DIMS(paged ? input_shape(node, Q).at[0] : 1),
                            why) ||
        !weft__attention_infer_out(node, FIXED + paged, out, why)) {
        return false;
    }
    out[2] = dense(input_dtype(node, KEYS), input_shape(node, KEYS));
    out[3] = dense(input_dtype(node, VALUES), input_shape(node, VALUES));
    return true;
}

/* Of the caches only the new tokens are written. */
static void work(const weft_call *call, weft_work *work)
{
    const int64_t tokens = call->in[Q].shape.at[0] * call->in[Q].shape.at[1];
    weft__attention_work(call, work);
    for (int i = KEYS; i <= VALUES; i++) {
        const weft_dims *shape = &call->in[i].shape;
        const int64_t kept = (shape->at[0] * shape->at[1] - tokens) * shape->at[2] * shape->at[3];
        work->bytes -= (double)kept * (double)weft_dtype_size(call->in[i].dtype);
    }
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_attention_append_params, attention.scale),
    WEFT_FIELD(DOUBLE, weft_attention_append_params, attention.softcap),
    WEFT_FIELD(INT, weft_attention_append_params, attention.window),
    WEFT_FIELD(BOOL, weft_attention_append_params, attention.causal),
    WEFT_FIELD(BOOL, weft_attention_append_params, attention.has_mask),
    WEFT_FIELD(BOOL, weft_attention_append_params, attention.has_lengths),
    WEFT_FIELD(BOOL, weft_attention_append_params, attention.has_first),
    WEFT_FIELD(BOOL, weft_attention_append_params, attention.has_ends),
    WEFT_FIELD(BOOL, weft_attention_append_params, rope.interleaved),
    WEFT_FIELD(BOOL, weft_attention_append_params, rope.inverse),
    WEFT_FIELD(DOUBLE, weft_attention_append_params, rope.amplitude),
    WEFT_FIELD(INT, weft_attention_append_params, page),
    WEFT_FIELDS_END,
};

static const weft_attention_append_params plain = {.attention = {.scale = 0.5},
                                                   .rope = {.amplitude = 1}};
static const weft_attention_append_params capped = {
    .attention = {.scale = 0.6, .softcap = 1.5, .window = 4, .causal = true},
    .rope = {.interleaved = true, .amplitude = 1.25}};

#define INPUTS(B, L, S, H, Hk, D, Dv, pairs)                                                       \
    {                                                                                              \
        {.shape = {4, {B, L, H, D}}}, {.shape = {4, {B, S, Hk, D}}},                               \
            {.shape = {4, {B, S, Hk, Dv}}}, {.shape = {4, {B, L, Hk, Dv}}},                        \
            {.shape = {4, {B, L, Hk, D}}}, {.shape = {1, {L}}, .index_below = 50},                 \
            {.shape = {1, {pairs}}, .lo = 0.01, .hi = 1, .fixed_float32 = true},                   \
        {                                                                                          \
            .shape = {1, {1}}, .index_below = S - L + 1                                            \
        }                                                                                          \
    }
static const weft_case cases[] = {
    {"one token", 8, INPUTS(2, 1, 5, 4, 2, 4, 3, 2), &plain},
    {"pairs, window and softcap", 8, INPUTS(1, 2, 6, 2, 1, 6, 4, 2), &capped},
    {"no batch", 8, INPUTS(0, 1, 3, 2, 2, 4, 4, 2), &plain},
};
#undef INPUTS

const weft_op weft_op_attention_append = {
    .name = "attention_append",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 4,
    .params_size = sizeof(weft_attention_append_params),
    .params_fields = fields,
    .infer = infer,
    .zero_gradient = 1u << POSITIONS | 1u << FREQUENCIES | 1u << START,
    .expand = expand,
    .work = work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    /* Rotated queries and keys are rounded, but not in the float64 that the test compares with. */
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};
