/* ops/structure/count.c -- number_of_elements: the number of elements along some axes, as an array.
 */
#include "ops/kernel.h"

typedef struct count_params {
    weft_dims axes; /* sorted, distinct, negative */
    bool inverted;
    weft_dtype dtype;
} count_params;

static const weft_field fields[] = {WEFT_FIELD(DIMS, count_params, axes),
                                    WEFT_FIELD(BOOL, count_params, inverted),
                                    WEFT_FIELD(DTYPE, count_params, dtype), WEFT_FIELDS_END};

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const count_params *p = weft_node_params(node);
    const weft_dims scalar = {0};
    weft_dims axes;
    return weft__axes_from_end(&p->axes, input_shape(node, 0).n, &axes, why) &&
           set_spec(out, p->dtype, &scalar);
}

/* The number for an array of this shape, on the default device. */
static weft_array *number(const weft_dims *shape, const count_params *p)
{
    int64_t count = 1;
    for (int i = 0; i < p->axes.n; i++) {
        count *= shape->at[p->axes.at[i] + shape->n];
    }
    if (!p->inverted && weft_dtype_is_integer(p->dtype)) {
        return weft_scalar_int(count, p->dtype);
    }
    return weft_scalar(p->inverted ? 1 / (double)count : (double)count, p->dtype);
}

/* Reads only the shape, which is known when an evaluation is planned. */
static void expand(weft_array *node, weft_array **outs)
{
    const weft_dims shape = input_shape(node, 0);
    outs[0] = number(&shape, weft_node_params(node));
}

static bool vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                 weft_array **out)
{
    (void)batched;
    out[0] = weft_broadcast_to(apply1(weft_node_op(node), in[0], weft_node_params(node)),
                               WEFT_DIMS(size));
    return true;
}

static const weft_case cases[] = {
    {.name = "one axis",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const count_params){DIMS(-1), false, WEFT_FLOAT32}},
    {.name = "inverted",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3, 4)}},
     .params = &(const count_params){DIMS(-3, -1), true, WEFT_FLOAT32}},
    {.name = "int64, no axes",
     .n_inputs = 1,
     .in = {{.shape = DIMS(2, 3)}},
     .params = &(const count_params){{0}, false, WEFT_INT64}},
    {.name = "empty",
     .n_inputs = 1,
     .in = {{.shape = DIMS(0, 3)}},
     .params = &(const count_params){DIMS(-2, -1), false, WEFT_INT32}},
};

const weft_op weft_op_number_of_elements = {
    .name = "number_of_elements",
    .family = WEFT_COMPOSITE,
    .arity = 1,
    .params_size = sizeof(count_params),
    .params_fields = fields,
    .infer = infer,
    .expand = expand,
    .takes_encoded = 1u << 0,
    .zero_gradient = 1u << 0,
    .vmap = vmap,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
};

/* A number at once, since it is known. Only a function that is exported for any lengths needs the
 * op, as its number differs from call to call. */
weft_array *weft_number_of_elements(weft_array *x, weft_dims axes, bool inverted, weft_dtype dtype)
{
    count_params params = {.inverted = inverted, .dtype = dtype};
    weft_why why;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__axes_from_end(&axes, weft_ndim(x), &params.axes, &why)) {
        return weft_error_array("number_of_elements: %s", why.text);
    }
    if (weft__length_reads()) {
        return apply1(&weft_op_number_of_elements, x, &params);
    }
    const weft_dims shape = weft_shape(x);
    return weft_to(number(&shape, &params), weft_device_of(x));
}
