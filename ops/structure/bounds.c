/* ops/structure/bounds.c -- bounded_index, which makes indices that are in range, and whether
 * kernels must check theirs. */
#include <stdatomic.h>

#include "ops/structure/index.h"

static atomic_bool unchecked;

void weft_set_index_checks(bool on)
{
    atomic_store(&unchecked, !on);
}

bool weft_index_checks(void)
{
    return !atomic_load(&unchecked);
}

/* The index in range for `index`, in modes CLIP and WRAP. */
static int64_t placed(int64_t index, bool huge, int64_t length, int64_t mode)
{
    if (mode == WEFT_BOUNDS_CLIP) {
        return huge || index >= length ? length - 1 : index < 0 ? 0 : index;
    }
    int64_t rest = huge ? (int64_t)((uint64_t)index % (uint64_t)length) : index % length;
    return rest < 0 ? rest + length : rest;
}

static weft_status bounded_index_reference(const weft_call *call)
{
    const weft_bounds_params *p = call->params;
    int64_t size = weft_tensor_size(&call->out[0]), at = 0;
    for (int64_t i = 0; i < size; i++) {
        weft_status status = WEFT_OK;
        if (p->mode == WEFT_BOUNDS_CHECK) {
            status = weft__index_at(call, &call->in[0], i, p->length, &at);
        } else {
            int64_t index = weft_tensor_get_int(&call->in[0], i);
            bool huge = call->in[0].dtype == WEFT_UINT64 && index < 0;
            at = placed(index, huge, p->length, p->mode);
        }
        if (status != WEFT_OK) {
            return status;
        }
        weft_tensor_set_int(&call->out[0], i, at);
    }
    return WEFT_OK;
}

static bool bounded_index_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_bounds_params *p = weft_node_params(node);
    weft_dims shape = input_shape(node, 0);
    if (!weft__expect_indices(node, 0, why)) {
        return false;
    }
    if (p->length < 0 || (p->length == 0 && p->mode != WEFT_BOUNDS_CHECK)) {
        return weft_because(why, "an axis of size %lld", (long long)p->length);
    }
    return set_spec(out, p->length <= INT32_MAX ? WEFT_INT32 : WEFT_INT64, &shape);
}

static const weft_field bounded_index_fields[] = {
    WEFT_FIELD(INT, weft_bounds_params, length),
    WEFT_FIELD(INT, weft_bounds_params, mode),
    WEFT_FIELDS_END,
};

static const weft_case bounded_index_cases[] = {
    {.name = "check",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_bounds_params){10, WEFT_BOUNDS_CHECK}},
    {.name = "clip",
     .n_inputs = 1,
     .in = {{.shape = DIMS(3, 4)}},
     .params = &(const weft_bounds_params){5, WEFT_BOUNDS_CLIP}},
    {.name = "wrap",
     .n_inputs = 1,
     .in = {{.shape = DIMS(7)}},
     .params = &(const weft_bounds_params){4, WEFT_BOUNDS_WRAP}},
    {.name = "long",
     .n_inputs = 1,
     .in = {{.shape = DIMS(7)}},
     .params = &(const weft_bounds_params){INT64_C(1) << 33, WEFT_BOUNDS_CHECK}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 2)}},
     .params = &(const weft_bounds_params){0, WEFT_BOUNDS_CHECK}},
};

const weft_op weft_op_bounded_index = {
    .name = "bounded_index",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft_bounds_params),
    .params_fields = bounded_index_fields,
    .infer = bounded_index_infer,
    .zero_gradient = 1u << 0,
    .takes_leading_axis = true,
    .reference = bounded_index_reference,
    .cases = bounded_index_cases,
    .n_cases = sizeof bounded_index_cases / sizeof *bounded_index_cases,
    .no_test_dtypes = (DTYPE_NOT_FLOAT & ~DTYPE_INTEGERS) | DTYPE_BIT(WEFT_FLOAT16) |
                      DTYPE_BIT(WEFT_BFLOAT16) | DTYPE_BIT(WEFT_FLOAT32) | DTYPE_BIT(WEFT_FLOAT64),
};

weft_array *weft__bounded(weft_array *indices, int64_t length, weft_bounds mode)
{
    weft_bounds_params params = {length, mode};
    return apply1(&weft_op_bounded_index, indices, &params);
}

weft_array *weft_clip_indices(weft_array *indices, int64_t length)
{
    weft_scope_open();
    return weft_scope_close(weft__bounded(indices, length, WEFT_BOUNDS_CLIP));
}

weft_array *weft_wrap_indices(weft_array *indices, int64_t length)
{
    weft_scope_open();
    return weft_scope_close(weft__bounded(indices, length, WEFT_BOUNDS_WRAP));
}
