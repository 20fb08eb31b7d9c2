/* ops/nn/rope.c -- rotary position embedding (Su et al. 2021). Its gradient is the rotation by the
 * negative angle. */
#include "ops/batch.h"
#include "ops/nn/nn.h"

/* ---- Expansion ------------------------------------------------------------------------------ */

/* cos and sin of the angles, (1 or B, L, 1, d/2), in the compute dtype. */
static void turns(weft_array *node, weft_array **cosine, weft_array **sine)
{
    const weft_rope_params *params = weft_node_params(node);
    weft_array *positions = weft_astype(weft_node_input(node, 1), WEFT_FLOAT32);
    int64_t B = weft_ndim(positions) == 2 ? weft_dim(positions, 0) : 1, L = weft_dim(positions, -1);
    positions = weft_reshape(positions, WEFT_DIMS(B, L, 1, 1));
    weft_array *angle = weft_multiply(positions, weft_node_input(node, 2));
    angle = weft_astype(angle, compute_dtype(weft_node_input(node, 0)));
    *cosine = weft_scale(weft_cos(angle), params->amplitude);
    *sine = weft_scale(weft_sin(angle), params->inverse ? -params->amplitude : params->amplitude);
}

/* The first and second members of the pairs in x (B, L, H, d), each (B, L, H, d/2). */
static void split(weft_array *x, bool interleaved, weft_array **first, weft_array **second)
{
    weft_dims shape = weft_shape(x);
    int64_t half = shape.at[3] / 2;
    if (interleaved) {
        x = weft_reshape(x, WEFT_DIMS(shape.at[0], shape.at[1], shape.at[2], half, 2));
        *first = weft_squeeze(weft_slice_axis(x, -1, 0, 1), -1);
        *second = weft_squeeze(weft_slice_axis(x, -1, 1, 2), -1);
    } else {
        *first = weft_slice_axis(x, -1, 0, half);
        *second = weft_slice_axis(x, -1, half, 2 * half);
    }
}

static weft_array *join(weft_array *first, weft_array *second, bool interleaved)
{
    weft_array *both[] = {first, second};
    if (!interleaved) {
        return weft_concatenate(both, 2, -1);
    }
    weft_dims shape = weft_shape(first);
    shape.at[3] *= 2;
    return weft_reshape(weft_stack(both, 2, -1), shape);
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_rope_params *params = weft_node_params(node);
    weft_array *x = computed_input(node, 0);
    int64_t D = weft_dim(x, -1), d = 2 * weft_dim(weft_node_input(node, 2), 0);
    if (d == 0) {
        outs[0] = weft_node_input(node, 0);
        return;
    }
    weft_array *cosine, *sine, *first, *second;
    turns(node, &cosine, &sine);
    split(weft_slice_axis(x, -1, 0, d), params->interleaved, &first, &second);
    weft_array *turned_first =
        weft_subtract(weft_multiply(first, cosine), weft_multiply(second, sine));
    weft_array *turned_second = weft_add(weft_multiply(second, cosine), weft_multiply(first, sine));
    weft_array *y = join(turned_first, turned_second, params->interleaved);
    if (d < D) {
        weft_array *parts[] = {y, weft_slice_axis(x, -1, d, D)};
        y = weft_concatenate(parts, 2, -1);
    }
    outs[0] = weft_astype(y, input_dtype(node, 0));
}

/* ---- The op --------------------------------------------------------------------------------- */

/* at: the input with the positions, after x. */
static bool infer_positions(const weft_array *node, int at, weft_why *why)
{
    weft_dims x = input_shape(node, at - 1), positions = input_shape(node, at);
    char text[WEFT_SHAPE_TEXT];
    bool fits = (positions.n == 1 || (positions.n == 2 && positions.at[0] == x.at[0])) &&
                positions.at[positions.n - 1] == x.at[1];
    return fits || weft_because(why, "the positions have shape %s, expected (%lld) or (%lld, %lld)",
                                weft__shape_text(&positions, text), (long long)x.at[1],
                                (long long)x.at[0], (long long)x.at[1]);
}

bool weft__rope_infer(const weft_array *node, int x, weft_why *why)
{
    const int positions = x + 1, frequencies = x + 2;
    if (!weft__expect_float(node, x, "x", why) ||
        !weft__expect_rank(node, x, "x", "(B, L, H, D)", 4, why) ||
        !weft__expect_integer(node, positions, "the position array", why) ||
        !infer_positions(node, positions, why) ||
        !weft__expect_rank(node, frequencies, "the frequency array", "(d/2)", 1, why)) {
        return false;
    }
    const int64_t half = input_shape(node, frequencies).at[0], D = input_shape(node, x).at[3];
    if (input_dtype(node, frequencies) != WEFT_FLOAT32) {
        return weft_because(why, "the frequencies are %s, expected float32",
                            weft_dtype_name(input_dtype(node, frequencies)));
    }
    return half <= D / 2 || weft_because(why, "%lld frequencies turn more than a head of %lld",
                                         (long long)half, (long long)D);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    if (!weft__rope_infer(node, 0, why)) {
        return false;
    }
    *out = dense(input_dtype(node, 0), input_shape(node, 0));
    return true;
}

static weft_array *rotate(weft_array *x, weft_array *positions, weft_array *frequencies,
                          const weft_rope_params *params);

static void rope_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    weft_rope_params params = *(const weft_rope_params *)weft_node_params(node);
    params.inverse = !params.inverse;
    if (wanted[0]) {
        grads[0] = rotate(cts[0], weft_node_input(node, 1), weft_node_input(node, 2), &params);
    }
}

/* The batch is merged into B; positions shared by all rows stay shared. */
static bool rope_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                      weft_array **out)
{
    if (batched[2]) {
        return false;
    }
    weft_dims x = input_shape(node, 0), positions = input_shape(node, 1);
    weft_array *at = in[1];
    if (positions.n == 2 || batched[1]) {
        at = batch_of(at, batched[1], size);
        at = positions.n == 2 ? at : weft_expand_dims(at, 1);
        at = merge_batch(weft_broadcast_to(at, WEFT_DIMS(size, x.at[0], x.at[1])));
    }
    weft_array *rows = merge_batch(batch_of(in[0], batched[0], size));
    out[0] = split_batch(rotate(rows, at, in[2], weft_node_params(node)), size, x.at[0]);
    return true;
}

static const weft_field fields[] = {
    WEFT_FIELD(BOOL, weft_rope_params, interleaved),
    WEFT_FIELD(BOOL, weft_rope_params, inverse),
    WEFT_FIELD(DOUBLE, weft_rope_params, amplitude),
    WEFT_FIELDS_END,
};

static const weft_rope_params halves = {.amplitude = 1};
static const weft_rope_params pairs = {.interleaved = true, .amplitude = 1.25};
static const weft_rope_params back = {.inverse = true, .amplitude = 1};

#define POSITIONS(...)                                                                             \
    {                                                                                              \
        .shape = {__VA_ARGS__}, .index_below = 50                                                  \
    }
#define FREQUENCIES(n)                                                                             \
    {                                                                                              \
        .shape = {1, {n}}, .lo = 0.01, .hi = 1, .fixed_float32 = true                              \
    }
static const weft_case cases[] = {
    {"halves", 3, {{.shape = {4, {2, 3, 2, 4}}}, POSITIONS(1, {3}), FREQUENCIES(2)}, &halves},
    {"rows", 3, {{.shape = {4, {2, 3, 1, 4}}}, POSITIONS(2, {2, 3}), FREQUENCIES(2)}, &halves},
    {"pairs", 3, {{.shape = {4, {1, 3, 2, 6}}}, POSITIONS(1, {3}), FREQUENCIES(3)}, &pairs},
    {"partial", 3, {{.shape = {4, {1, 2, 2, 7}}}, POSITIONS(1, {2}), FREQUENCIES(2)}, &pairs},
    {"inverse", 3, {{.shape = {4, {1, 2, 2, 6}}}, POSITIONS(1, {2}), FREQUENCIES(2)}, &back},
    {"no batch", 3, {{.shape = {4, {0, 2, 1, 4}}}, POSITIONS(1, {2}), FREQUENCIES(2)}, &halves},
};
#undef POSITIONS
#undef FREQUENCIES

/* The frequencies have no gradient. */
const weft_op weft_op_rope = {
    .name = "rope",
    .family = WEFT_COMPOSITE,
    .arity = 3,
    .params_size = sizeof(weft_rope_params),
    .params_fields = fields,
    .infer = infer,
    .vjp = rope_vjp,
    .zero_gradient = 1u << 1 | 1u << 2,
    .linear = true,
    .vmap = rope_vmap,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

static weft_array *rotate(weft_array *x, weft_array *positions, weft_array *frequencies,
                          const weft_rope_params *params)
{
    return apply3(&weft_op_rope, x, positions, frequencies, params);
}

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_rope(weft_array *x, weft_array *positions, weft_array *frequencies,
                      bool interleaved, double amplitude)
{
    weft_scope_open();
    weft_rope_params params = {.interleaved = interleaved, .amplitude = amplitude};
    return weft_scope_close(rotate(as_inexact(x), positions, frequencies, &params));
}
