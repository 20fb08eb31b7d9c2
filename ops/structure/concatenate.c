/* ops/structure/concatenate.c -- concatenate, and stack, which concatenates along a new axis. */
#include "core/failure.h"
#include "ops/kernel.h"

static weft_status concatenate_reference(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    int front = (int)p->axis + out->shape.n;
    int64_t at[WEFT_MAX_DIMS], offset = 0;
    for (int k = 0; k < call->n_inputs; k++) {
        const weft_tensor *in = &call->in[k];
        int64_t size = weft_tensor_size(in);
        for (int64_t i = 0; i < size; i++) {
            index_split(&in->shape, i, at);
            at[front] += offset;
            move_element(in, i, out, index_join(&out->shape, at));
        }
        offset += in->shape.at[front];
    }
    return WEFT_OK;
}

static void concatenate_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                            weft_array **grads)
{
    const weft_axis_params *p = weft_node_params(node);
    int64_t offset = 0;
    for (int k = 0; k < weft_node_n_inputs(node); k++) {
        int64_t length = weft_dim(weft_node_input(node, k), (int)p->axis);
        if (wanted[k]) {
            grads[k] = weft_slice_axis(cts[0], (int)p->axis, offset, offset + length);
        }
        offset += length;
    }
}

static bool concatenate_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    if (weft_node_n_inputs(node) < 1) {
        return weft_because(why, "no arrays");
    }
    weft_dims shape = input_shape(node, 0);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    int front = weft__check_axis(p->axis, shape.n, why);
    if (front < 0) {
        return false;
    }
    int64_t total = 0;
    for (int k = 0; k < weft_node_n_inputs(node); k++) {
        weft_dims other = input_shape(node, k), expected = shape;
        if (other.n == shape.n) {
            expected.at[front] = other.at[front];
        }
        if (!weft__shape_equal(&other, &expected) || input_dtype(node, k) != input_dtype(node, 0)) {
            return weft_because(why, "input %d is %s %s, input 0 is %s %s", k,
                                weft_dtype_name(input_dtype(node, k)), weft__shape_text(&other, a),
                                weft_dtype_name(input_dtype(node, 0)), weft__shape_text(&shape, b));
        }
        if (__builtin_add_overflow(total, other.at[front], &total)) {
            return weft_because(why, "the result has more than 2^63 elements");
        }
    }
    shape.at[front] = total;
    return set_spec(out, input_dtype(node, 0), &shape);
}

static const weft_case concatenate_cases[] = {
    {.name = "rows",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 3)}, {.shape = DIMS(4, 3)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "last",
     .n_inputs = 3,
     .in = {{.shape = DIMS(2, 1)}, {.shape = DIMS(2, 0)}, {.shape = DIMS(2, 3)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "middle",
     .n_inputs = 2,
     .in = {{.shape = DIMS(2, 1, 3)}, {.shape = DIMS(2, 2, 3)}},
     .params = &(const weft_axis_params){-2, false}},
    {.name = "empty",
     .n_inputs = 2,
     .in = {{.shape = DIMS(0, 2)}, {.shape = DIMS(0, 3)}},
     .params = &(const weft_axis_params){-1, false}},
};

static bool concatenate_is_identity(const void *params, int n_inputs)
{
    (void)params;
    return n_inputs == 1;
}

const weft_op weft_op_concatenate = {
    .name = "concatenate",
    .family = WEFT_STRUCTURAL,
    .arity = -1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = concatenate_infer,
    .vjp = concatenate_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .is_identity = concatenate_is_identity,
    .reference = concatenate_reference,
    .cases = concatenate_cases,
    .n_cases = sizeof concatenate_cases / sizeof *concatenate_cases,
};

/* Converts the arrays to their common dtype, adds a new axis to each if `stacks`, and applies the
 * op. */
static weft_array *join(weft_array *const *arrays, int n, int64_t axis, bool stacks)
{
    weft_array **same = weft_malloc((size_t)n * sizeof *same);
    if (!same) {
        return weft__memory_error("concatenate", "its inputs");
    }
    weft_dtype dtype = weft_dtype_of(arrays[0]);
    for (int i = 1; i < n; i++) {
        dtype = weft_promote(dtype, weft_dtype_of(arrays[i]));
    }
    for (int i = 0; i < n; i++) {
        weft_array *x = weft_astype(arrays[i], dtype);
        same[i] = stacks ? weft_expand_dims(x, (int)axis) : x;
    }
    weft_axis_params params = {.axis = axis};
    weft_array *y = n == 1 ? same[0] : weft_apply(&weft_op_concatenate, same, n, &params);
    weft_free(same);
    return y;
}

/* The first failed array, or an error array when there are no arrays; else NULL. */
static weft_array *first_failed(const char *op, weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        if (!weft_ok(arrays[i])) {
            return arrays[i];
        }
    }
    return n < 1 ? weft_error_array("%s: no arrays", op) : NULL;
}

weft_array *weft_concatenate(weft_array *const *arrays, int n, int axis)
{
    weft_array *failed = first_failed("concatenate", arrays, n);
    int64_t from_end;
    if (failed || !weft__axis_from_end("concatenate", arrays[0], axis, &from_end, &failed)) {
        return failed;
    }
    return join(arrays, n, from_end, false);
}

weft_array *weft_stack(weft_array *const *arrays, int n, int axis)
{
    weft_scope_open();
    weft_array *failed = first_failed("stack", arrays, n);
    if (failed) {
        return weft_scope_close(failed);
    }
    int ndim = weft_ndim(arrays[0]) + 1, front = weft__axis_front(axis, ndim);
    if (front < 0) {
        return weft_scope_close(
            weft_error_array("stack: axis %d is out of range for rank %d", axis, ndim));
    }
    for (int i = 1; i < n; i++) {
        weft_dims a = weft_shape(arrays[0]), b = weft_shape(arrays[i]);
        char at[WEFT_SHAPE_TEXT], bt[WEFT_SHAPE_TEXT];
        if (!weft__shape_equal(&a, &b)) {
            return weft_scope_close(weft_error_array("stack: input %d is %s, input 0 is %s", i,
                                                     weft__shape_text(&b, bt),
                                                     weft__shape_text(&a, at)));
        }
    }
    return weft_scope_close(join(arrays, n, front - ndim, true));
}
