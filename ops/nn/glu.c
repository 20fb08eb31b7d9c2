/* ops/nn/glu.c -- the gradients of y = activation(gate) * up (Shazeer 2020), both at once: they
 * share what they read and the activation's exponential. */
#include "ops/nn/glu.h"

#include "ops/elementwise/elementwise.h"
#include "ops/nn/nn.h"

static const weft_field glu_fields[] = {WEFT_FIELD(INT, weft_glu_params, activation),
                                        WEFT_FIELDS_END};

static weft_array *activated(const weft_glu_params *p, weft_array *gate)
{
    return p->activation == WEFT_GLU_SILU ? weft_silu(gate) : weft_gelu_tanh(gate);
}

static weft_array *slope(const weft_glu_params *p, weft_array *gate)
{
    return elementwise1(
        p->activation == WEFT_GLU_SILU ? &weft_op_silu_slope : &weft_op_gelu_tanh_slope, gate);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_dims shape = input_shape(node, 0);
    const weft_dtype dtype = input_dtype(node, 0);
    if (!weft__expect_inputs(node, 3, why)) {
        return false;
    }
    if (!weft_dtype_is_float(dtype)) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    for (int i = 1; i < 3; i++) {
        const weft_dims other = input_shape(node, i);
        if (!weft__shape_equal(&other, &shape) || input_dtype(node, i) != dtype) {
            return weft_because(why, "gate, up and the cotangent differ in shape or dtype");
        }
    }
    out[0] = out[1] = dense(dtype, shape);
    return true;
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_glu_params *p = weft_node_params(node);
    weft_array *gate = weft_node_input(node, 0), *ct = weft_node_input(node, 2);
    outs[0] = weft_multiply(ct, weft_multiply(weft_node_input(node, 1), slope(p, gate)));
    outs[1] = weft_multiply(ct, activated(p, gate));
}

static const weft_glu_params silu = {WEFT_GLU_SILU}, gelu_tanh = {WEFT_GLU_GELU_TANH};

static const weft_case cases[] = {
    {"silu", 3, {{.shape = {2, {3, 8}}}, {.shape = {2, {3, 8}}}, {.shape = {2, {3, 8}}}}, &silu},
    {"gelu_tanh", 3, {{.shape = {1, {7}}}, {.shape = {1, {7}}}, {.shape = {1, {7}}}}, &gelu_tanh},
    {"empty", 3, {{.shape = {2, {0, 4}}}, {.shape = {2, {0, 4}}}, {.shape = {2, {0, 4}}}}, &silu},
};

const weft_op weft_op_glu_vjp = {
    .name = "glu_vjp",
    .family = WEFT_COMPOSITE,
    .arity = 3,
    .n_outputs = 2,
    .params_size = sizeof(weft_glu_params),
    .params_fields = glu_fields,
    .infer = infer,
    .takes_leading_axis = true,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

void weft__glu_vjp(weft_glu_activation activation, weft_array *node, weft_array *ct,
                   const bool *wanted, weft_array **grads)
{
    const weft_glu_params p = {activation};
    weft_array *gate = weft_node_input(node, 0), *up = weft_node_input(node, 1);
    if (wanted[0] && wanted[1]) {
        weft_array *both = apply3(&weft_op_glu_vjp, gate, up, ct, &p);
        grads[0] = weft_pick(both, 0);
        grads[1] = weft_pick(both, 1);
    } else if (wanted[0]) {
        grads[0] = weft_multiply(ct, weft_multiply(up, slope(&p, gate)));
    } else if (wanted[1]) {
        grads[1] = weft_multiply(ct, activated(&p, gate));
    }
}
