/* ops/structure/identity.c -- ops that keep the values: contiguous changes the memory layout,
 * stop_gradient the derivative. */
#include "ops/kernel.h"

static weft_status identity_reference(const weft_call *call)
{
    int64_t size = weft_tensor_size(&call->in[0]);
    for (int64_t i = 0; i < size; i++) {
        move_element(&call->in[0], i, &call->out[0], i);
    }
    return WEFT_OK;
}

static bool identity_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    weft_dims shape = input_shape(node, 0);
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case identity_cases[] = {
    {.name = "2d", .n_inputs = 1, .in = {{.shape = DIMS(2, 3)}}},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(0)}}},
};

/* ---- contiguous ----------------------------------------------------------------------------- */

static bool contiguous_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    (void)node, (void)out;
    return weft_tensor_is_contiguous(in);
}

static void contiguous_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    (void)node;
    if (wanted[0]) {
        grads[0] = cts[0];
    }
}

const weft_op weft_op_contiguous = {
    .name = "contiguous",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .infer = identity_infer,
    .vjp = contiguous_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .view = contiguous_view,
    .reference = identity_reference,
    .cases = identity_cases,
    .n_cases = sizeof identity_cases / sizeof *identity_cases,
};

weft_array *weft_contiguous(weft_array *x)
{
    return apply1(&weft_op_contiguous, x, NULL);
}

/* ---- stop_gradient -------------------------------------------------------------------------- */

static bool stop_gradient_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    (void)node, (void)in, (void)out;
    return true;
}

static bool stop_gradient_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0); /* encoded or not */
    return true;
}

const weft_op weft_op_stop_gradient = {
    .name = "stop_gradient",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .infer = stop_gradient_infer,
    .takes_encoded = 1u << 0,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .is_identity = always_identity,
    .view = stop_gradient_view,
    .reference = identity_reference,
    .cases = identity_cases,
    .n_cases = sizeof identity_cases / sizeof *identity_cases,
};

weft_array *weft_stop_gradient(weft_array *x)
{
    return apply1(&weft_op_stop_gradient, x, NULL);
}
