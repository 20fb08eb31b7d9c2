/* ops/nn/adamw.c -- one AdamW step for one parameter (Loshchilov & Hutter 2019). */
#include "ops/nn/nn.h"

enum { PARAMETER, GRADIENT, M, V, HYPER };

/* Element i of `hyper`, as a 0-d array. */
static weft_array *hyper_at(weft_array *hyper, int i)
{
    return weft_squeeze(weft_slice_axis(hyper, 0, i, i + 1), 0);
}

/* share a + (1 - share) b */
static weft_array *blend(double share, weft_array *a, weft_array *b)
{
    return weft_add(weft_scale(a, share), weft_scale(b, 1 - share));
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_adamw_params *params = weft_node_params(node);
    weft_array *in[5], *old[3];
    weft_dtype dtype = input_dtype(node, M);
    for (int i = 0; i < 5; i++) {
        in[i] = weft_astype(weft_node_input(node, i), dtype);
    }
    weft_array *lr = hyper_at(in[HYPER], 0), *grad_scale = hyper_at(in[HYPER], 1);
    weft_array *g = weft_multiply(in[GRADIENT], grad_scale);
    weft_array *m = blend(params->beta1, in[M], g);
    weft_array *v = blend(params->beta2, in[V], weft_square(g));
    weft_array *root = weft_sqrt(weft_divide(v, hyper_at(in[HYPER], 3)));
    weft_array *step =
        weft_divide(weft_divide(m, hyper_at(in[HYPER], 2)), weft_add_scalar(root, params->eps));
    weft_array *kept = weft_subtract(weft_scalar(1, dtype), weft_scale(lr, params->decay));
    weft_array *p = weft_multiply(in[PARAMETER], kept);
    p = weft_subtract(p, weft_multiply(lr, step));
    weft_array *apply = weft_astype(hyper_at(in[HYPER], 4), WEFT_BOOL);
    old[0] = weft_node_input(node, PARAMETER);
    old[1] = in[M];
    old[2] = in[V];
    outs[0] = weft_where(apply, weft_astype(p, input_dtype(node, PARAMETER)), old[0]);
    outs[1] = weft_where(apply, m, old[1]);
    outs[2] = weft_where(apply, v, old[2]);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    static const char *const names[] = {"the parameter", "the gradient", "m", "v", "hyper"};
    weft_dims shape = input_shape(node, PARAMETER);
    weft_dtype dtype = input_dtype(node, M);
    for (int i = 0; i < 5; i++) {
        weft_dims expected = i == HYPER ? WEFT_DIMS(5) : shape;
        if (!weft__expect_float(node, i, names[i], why) ||
            !weft__expect_shape(node, i, names[i], expected, why)) {
            return false;
        }
    }
    if (input_dtype(node, V) != dtype || (dtype != WEFT_FLOAT32 && dtype != WEFT_FLOAT64)) {
        return weft_because(why, "m and v are %s and %s, expected float32 or float64 for both",
                            weft_dtype_name(dtype), weft_dtype_name(input_dtype(node, V)));
    }
    out[0] = dense(input_dtype(node, PARAMETER), shape);
    out[1] = dense(dtype, shape);
    out[2] = dense(dtype, shape);
    return true;
}

const weft_field weft__adamw_fields[] = {
    WEFT_FIELD(DOUBLE, weft_adamw_params, beta1),
    WEFT_FIELD(DOUBLE, weft_adamw_params, beta2),
    WEFT_FIELD(DOUBLE, weft_adamw_params, eps),
    WEFT_FIELD(DOUBLE, weft_adamw_params, decay),
    WEFT_FIELDS_END,
};

static const weft_adamw_params usual = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-3, .decay = 0.01};
static const weft_adamw_params no_decay = {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-2};

/* v and the five numbers of hyper are positive. */
#define INPUTS(...)                                                                                \
    {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}},                  \
        {.shape = {__VA_ARGS__}, .lo = 0.1, .hi = 2},                                              \
    {                                                                                              \
        .shape = {1, {5}}, .lo = 0.1, .hi = 1                                                      \
    }
static const weft_case cases[] = {
    {"matrix", 5, {INPUTS(2, {3, 4})}, &usual},
    {"vector", 5, {INPUTS(1, {7})}, &no_decay},
    {"0-d", 5, {INPUTS(0, {0})}, &usual},
    {"nothing", 5, {INPUTS(1, {0})}, &usual},
};
#undef INPUTS

const weft_op weft_op_adamw = {
    .name = "adamw",
    .family = WEFT_COMPOSITE,
    .arity = 5,
    .n_outputs = 3,
    .params_size = sizeof(weft_adamw_params),
    .params_fields = weft__adamw_fields,
    .infer = infer,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};

void weft_adamw(weft_array *parameter, weft_array *gradient, weft_array *m, weft_array *v,
                weft_array *hyper, double beta1, double beta2, double eps, double decay,
                weft_array **out)
{
    weft_scope_open();
    weft_adamw_params params = {.beta1 = beta1, .beta2 = beta2, .eps = eps, .decay = decay};
    weft_array *inputs[] = {parameter, gradient, m, v, hyper};
    weft_array *node = weft_apply(&weft_op_adamw, inputs, 5, &params);
    for (int i = 0; i < 3; i++) {
        out[i] = weft_pick(node, i);
    }
    weft_scope_close_n(out, 3);
}
