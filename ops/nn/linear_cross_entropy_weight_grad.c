/* ops/nn/linear_cross_entropy_weight_grad.c -- the gradient of linear_cross_entropy's losses with
 * respect to the weight. The logits are computed again, for a part of the vocabulary at a time, so
 * each row of the gradient is computed once. */
#include "ops/nn/linear_cross_entropy.h"
#include "ops/nn/nn.h"
#include "weft/transforms.h"

enum { X, WEIGHT, TARGETS, LSE, CT, INPUTS };

/* ---- Expansion ------------------------------------------------------------------------------ */

/* Inputs in the compute dtype. */
typedef struct words {
    weft_array *x, *weight, *lse, *ct; /* (N, E), (V, E), (N, 1), (N, 1) */
    weft_array *targets, *counts;      /* (N, 1), int32; counts: whether they are not negative */
    double softcap;
} words;

static weft_array *column(weft_array *x)
{
    return weft_expand_dims(x, -1);
}

static words words_of(weft_array *node)
{
    const weft_linear_cross_entropy_weight_grad_params *params = weft_node_params(node);
    /* The targets' own dtype may not have numbers for all classes. */
    weft_array *targets = weft_astype(column(weft_node_input(node, TARGETS)), WEFT_INT32);
    weft_array *zero = weft_scalar_int(0, WEFT_INT32);
    return (words){.x = computed_input(node, X),
                   .weight = weft_node_input(node, WEIGHT),
                   .lse = column(computed_input(node, LSE)),
                   .ct = column(computed_input(node, CT)),
                   .targets = targets,
                   .counts = weft_greater_equal(targets, zero),
                   .softcap = params->softcap};
}

/* Rows [from, to) of the gradient. */
static weft_array *words_gradient(const words *w, int64_t from, int64_t to)
{
    const weft__scores s =
        weft__scores_of(w->x, weft_slice_axis(w->weight, 0, from, to), w->softcap);
    weft_array *ids = on_device_of(s.logits, weft_arange_int(from, to, 1, WEFT_INT32));
    weft_array *hit = weft_astype(weft_equal(w->targets, ids), weft_dtype_of(s.logits));
    weft_array *d = weft_subtract(weft_exp(weft_subtract(s.logits, w->lse)), hit);
    d = weft_multiply(weft__sloped(&s, d), w->ct);
    d = weft_where(w->counts, d, weft_scalar(0, weft_dtype_of(d)));
    return weft_astype(weft_matmul(weft_swapaxes(d, 0, 1), w->x), weft_dtype_of(w->weight));
}

static void expand(weft_array *node, weft_array **outs)
{
    const words w = words_of(node);
    const weft_spec *spec = weft_node_spec(node, 0);
    const int64_t V = spec->shape.at[0], step = weft__loss_chunk(weft_dim(w.x, 0));
    if (V <= step) {
        outs[0] = words_gradient(&w, 0, V);
        return;
    }
    weft_array *all = on_device_of(w.weight, weft_zeros(spec->shape, spec->dtype));
    for (int64_t from = 0; from < V; from += step) {
        const int64_t to = from + step < V ? from + step : V;
        all = weft_slice_update_static(all, words_gradient(&w, from, to), WEFT_DIMS(0),
                                       WEFT_DIMS(from), WEFT_DIMS(to), WEFT_DIMS(1));
    }
    outs[0] = all;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    static const char *const names[] = {"x", "the weight", "the target array", "lse", "ct"};
    for (int i = 0; i < INPUTS; i++) {
        if (i != TARGETS && !weft__expect_float(node, i, names[i], why)) {
            return false;
        }
    }
    if (!weft__expect_integer(node, TARGETS, names[TARGETS], why) ||
        !weft__expect_rank(node, X, "x", "(N, E)", 2, why)) {
        return false;
    }
    const weft_dims x = input_shape(node, X), weight = input_shape(node, WEIGHT);
    if (!weft__expect_rank(node, WEIGHT, names[WEIGHT], "(V, E)", 2, why) ||
        !weft__expect_shape(node, WEIGHT, names[WEIGHT], WEFT_DIMS(weight.at[0], x.at[1]), why)) {
        return false;
    }
    for (int i = TARGETS; i < INPUTS; i++) {
        if (!weft__expect_shape(node, i, names[i], WEFT_DIMS(x.at[0]), why)) {
            return false;
        }
    }
    out[0] = dense(input_dtype(node, WEIGHT), weight);
    return true;
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_linear_cross_entropy_weight_grad_params, softcap),
    WEFT_FIELDS_END,
};

static const weft_linear_cross_entropy_weight_grad_params capped = {.softcap = 2};

#define CASE(N, E, V)                                                                              \
    {                                                                                              \
        {.shape = {2, {N, E}}}, {.shape = {2, {V, E}}}, {.shape = {1, {N}}, .index_below = V},     \
            {.shape = {1, {N}}, .lo = 4, .hi = 6},                                                 \
        {                                                                                          \
            .shape = { 1, {N} }                                                                    \
        }                                                                                          \
    }
static const weft_case cases[] = {
    {"gradient", INPUTS, CASE(3, 4, 5), NULL},
    {"softcap", INPUTS, CASE(4, 3, 6), &capped},
    {"no rows", INPUTS, CASE(0, 4, 5), NULL},
};
#undef CASE

/* The logits, and the gradient from them. */
static void count_work(const weft_call *call, weft_work *work)
{
    work->flops = 4 * (double)weft_tensor_size(&call->in[X]) * (double)call->in[WEIGHT].shape.at[0];
}

const weft_op weft_op_linear_cross_entropy_weight_grad = {
    .name = "linear_cross_entropy_weight_grad",
    .family = WEFT_COMPOSITE,
    .arity = INPUTS,
    .params_size = sizeof(weft_linear_cross_entropy_weight_grad_params),
    .params_fields = fields,
    .infer = infer,
    .expand = expand,
    .work = count_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

weft_array *weft__linear_cross_entropy_weight_grad(const weft__loss_weight_inputs *in,
                                                   double softcap)
{
    const weft_linear_cross_entropy_weight_grad_params params = {.softcap = softcap};
    weft_array *inputs[] = {in->x, in->weight, in->targets, in->lse, in->ct};
    return weft_apply(&weft_op_linear_cross_entropy_weight_grad, inputs, INPUTS, &params);
}
