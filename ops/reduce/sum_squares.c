/* ops/reduce/sum_squares.c -- the sum of the squares of several arrays, for norms over all
 * parameters. */
#include "ops/reduce/sum_squares.h"

#include "ops/reduce/reduce.h"

static void expand(weft_array *node, weft_array **outs)
{
    const weft_dtype dtype = weft_node_spec(node, 0)->dtype;
    for (int i = 0; i < weft_node_n_inputs(node); i++) {
        weft_array *wide = weft_astype(weft_node_input(node, i), dtype);
        weft_array *sum = weft_sum(weft_square(wide), WEFT_ALL_AXES, false);
        outs[0] = i == 0 ? sum : weft_add(outs[0], sum);
    }
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dtype dtype = WEFT_FLOAT32;
    if (weft_node_n_inputs(node) < 1)
        return weft_because(why, "no arrays");
    for (int i = 0; i < weft_node_n_inputs(node); i++) {
        if (!weft_dtype_is_float(input_dtype(node, i)))
            return weft_because(why, "input %d is %s, expected a float dtype", i,
                                weft_dtype_name(input_dtype(node, i)));
        dtype = weft_promote(dtype, input_dtype(node, i));
    }
    return set_spec(out, dtype, &(weft_dims){0});
}

static const weft_case cases[] = {
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(3, 5)}}},
    {.name = "several",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 3, 4)}, {.shape = {0}}, {.shape = DIMS(700)}, {.shape = DIMS(0, 3)}}},
};

const weft_op weft_op_sum_squares = {
    .name = "sum_squares",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .infer = infer,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = (1u << WEFT_FLOAT16) - 1 + (1u << WEFT_COMPLEX64),
};

weft_array *weft__sum_squares(weft_array *const *arrays, int n)
{
    return weft_apply(&weft_op_sum_squares, arrays, n, NULL);
}
