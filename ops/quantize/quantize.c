/* ops/quantize/quantize.c -- the quantize op: a matrix to codes, scales and biases. */
#include "ops/quantize/quantized.h"

/* ---- Reference ------------------------------------------------------------------------------ */

static float global_of(const weft_call *call, const weft_quantized_params *p)
{
    return p->has_global ? (float)weft_tensor_get(&call->in[1], 0) : 0;
}

static weft_status reference(const weft_call *call)
{
    const weft_quantized_params *p = call->params;
    const weft_tensor *w = &call->in[0];
    const float global = global_of(call, p);
    int64_t groups = weft_tensor_size(w) / p->group;
    uint8_t *codes = call->out[0].data;
    for (int64_t g = 0; g < groups; g++, codes += p->group * p->bits / 8) {
        float in[WEFT_MAX_BLOCK], scale, bias;
        for (int64_t i = 0; i < p->group; i++) {
            in[i] = (float)weft_tensor_get(w, g * p->group + i);
        }
        if (is_affine(p)) {
            weft__affine_encode(in, p->group, (int)p->bits, &scale, &bias, codes);
            weft_tensor_set(&call->out[1], g, (double)scale);
            weft_tensor_set(&call->out[2], g, (double)bias);
        } else {
            weft__float_encode((weft_encoding_kind)p->mode, in, p->group, global,
                               (uint8_t *)call->out[1].data + g, codes);
        }
    }
    return WEFT_OK;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    if (weft_node_n_inputs(node) < 1 || !weft__expect_groups(node, 0, p, why) ||
        !weft__expect_global(node, 1, p, why)) {
        return false;
    }
    weft_dims shape = input_shape(node, 0);
    weft__quantized_specs(p, &shape, input_dtype(node, 0), out);
    return true;
}

static const weft_case cases[] = {
    {.name = "matrix",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 64)}},
     .params =
         &(const weft_quantized_params){.mode = WEFT_ENCODING_AFFINE, .bits = 4, .group = 64}},
};

const weft_op weft_op_quantize = {
    .name = "quantize",
    .family = WEFT_CORE_RANK,
    .arity = -1,
    .n_outputs = -4,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = infer,
    .zero_gradient = 3,
    .vmap = weft__quantized_vmap,
    .reference = reference,
    /* The results are bit patterns, which tests/ops/test_quantize.c tests. */
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ~0u,
};

/* ---- Public --------------------------------------------------------------------------------- */

void weft_quantize(weft_array *w, const weft_quantize_options *options, weft_array *out[3])
{
    weft_scope_open();
    weft_quantized_params p;
    weft_array *bad = weft__quantized_params("quantize", options, WEFT_AFFINE, &p);
    weft_array *in[] = {w, bad || !p.has_global ? NULL : options->global_scale};
    weft_array *y = bad ? bad : weft_apply(&weft_op_quantize, in, 1 + p.has_global, &p);
    for (int i = 0; i < 3; i++) {
        out[i] = i == 2 && !bad && !is_affine(&p) ? NULL : bad ? bad : weft_pick(y, i);
    }
    weft_scope_close_n(out, 3);
}
