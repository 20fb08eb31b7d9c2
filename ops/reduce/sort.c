/* ops/reduce/sort.c -- sort and argsort along an axis: ascending, stable, NaN last. Complex numbers
 * compare by their real, then by their imaginary parts. */
#include "ops/reduce/reduce.h"

/* Merges the runs [low, middle) and [middle, high) of element indices. */
static void merge(const weft_tensor *t, const int64_t *from, int64_t *to, int64_t low,
                  int64_t middle, int64_t high)
{
    int64_t a = low, b = middle;
    for (int64_t i = low; i < high; i++) {
        bool second = a >= middle || (b < high && weft__sorts_before(t, from[b], t, from[a]));
        to[i] = second ? from[b++] : from[a++];
    }
}

/* Merge sort of `length` element indices; returns the half of the buffer that has the result. */
static const int64_t *merge_sort(const weft_tensor *t, int64_t *numbers, int64_t *scratch,
                                 int64_t length)
{
    for (int64_t run = 1; run < length; run *= 2) {
        for (int64_t low = 0; low < length; low += 2 * run) {
            int64_t middle = low + run < length ? low + run : length;
            int64_t high = low + 2 * run < length ? low + 2 * run : length;
            merge(t, numbers, scratch, low, middle, high);
        }
        int64_t *swap = numbers;
        numbers = scratch;
        scratch = swap;
    }
    return numbers;
}

static weft_status sort_all(const weft_call *call, bool places)
{
    const weft_axis_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    axis_extents e = extents_of(&in->shape, p->axis);
    int64_t *numbers = weft_malloc((size_t)(e.length + 1) * 2 * sizeof *numbers);
    if (!numbers) {
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %lld places", call->op->name,
                         (long long)e.length);
    }
    for (int64_t o = 0; o < e.outer * e.inner; o++) {
        int64_t base = o / e.inner * e.length * e.inner + o % e.inner;
        for (int64_t i = 0; i < e.length; i++) {
            numbers[i] = base + i * e.inner;
        }
        const int64_t *sorted = merge_sort(in, numbers, numbers + e.length, e.length);
        for (int64_t i = 0; i < e.length; i++) {
            if (places) {
                weft_tensor_set_int(out, base + i * e.inner, (sorted[i] - base) / e.inner);
            } else {
                move_element(in, sorted[i], out, base + i * e.inner);
            }
        }
    }
    weft_free(numbers);
    return WEFT_OK;
}

static weft_status sort_reference(const weft_call *call)
{
    return sort_all(call, false);
}

static weft_status argsort_reference(const weft_call *call)
{
    return sort_all(call, true);
}

/* Each gradient is moved back to the position of its element. */
static void sort_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const weft_axis_params *p = weft_node_params(node);
    if (wanted[0]) {
        weft_array *x = weft_node_input(node, 0);
        weft_array *zeros = weft__zeros_on_device_of(x, weft_shape(x), weft_dtype_of(cts[0]));
        grads[0] =
            weft_scatter_add_along_axis(zeros, weft_argsort(x, (int)p->axis), cts[0], (int)p->axis);
    }
}

static bool check(const weft_array *node, weft_dims *shape, weft_why *why)
{
    const weft_axis_params *p = weft_node_params(node);
    *shape = input_shape(node, 0);
    int front = weft__check_axis(p->axis, shape->n, why);
    if (front < 0) {
        return false;
    }
    if (shape->at[front] > UINT32_MAX) {
        return weft_because(why, "an axis of size %lld", (long long)shape->at[front]);
    }
    return true;
}

static bool sort_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    return check(node, &shape, why) && set_spec(out, input_dtype(node, 0), &shape);
}

static bool argsort_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    return check(node, &shape, why) && set_spec(out, WEFT_UINT32, &shape);
}

static const weft_case cases[] = {
    {.name = "last",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 7)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "first",
     .n_inputs = 1,
     .in = {{.shape = DIMS(5, 2, 2)}},
     .params = &(const weft_axis_params){-3, false}},
    {.name = "long",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 150)}},
     .params = &(const weft_axis_params){-1, false}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 0)}},
     .params = &(const weft_axis_params){-1, false}},
};

const weft_op weft_op_sort = {
    .name = "sort",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = sort_infer,
    .vjp = sort_vjp,
    .takes_leading_axis = true,
    .reference = sort_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

const weft_op weft_op_argsort = {
    .name = "argsort",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_axis_params),
    .params_fields = weft__axis_fields,
    .infer = argsort_infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = argsort_reference,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

/* Kernels support only the last axis, so other axes are moved to the end. */
static weft_array *apply(const weft_op *op, weft_array *x, int axis)
{
    int64_t from_end;
    weft_array *failed;
    x = weft__flattened(x, &axis);
    if (!weft__axis_from_end(op->name, x, axis, &from_end, &failed)) {
        return failed;
    }
    weft_axis_params params = {.axis = -1};
    weft_array *last = weft_swapaxes(x, (int)from_end, -1);
    return weft_swapaxes(apply1(op, last, &params), (int)from_end, -1);
}

weft_array *weft_sort(weft_array *x, int axis)
{
    return apply(&weft_op_sort, x, axis);
}

weft_array *weft_argsort(weft_array *x, int axis)
{
    return apply(&weft_op_argsort, x, axis);
}
