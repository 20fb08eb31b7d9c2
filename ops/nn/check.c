/* ops/nn/check.c -- input checks for the infer functions in this folder. */
#include "ops/nn/nn.h"

bool weft__expect_float(const weft_array *node, int i, const char *name, weft_why *why)
{
    weft_dtype dtype = input_dtype(node, i);
    return weft_dtype_is_float(dtype) ||
           weft_because(why, "%s is %s, expected a float", name, weft_dtype_name(dtype));
}

bool weft__expect_integer(const weft_array *node, int i, const char *name, weft_why *why)
{
    weft_dtype dtype = input_dtype(node, i);
    return weft_dtype_is_integer(dtype) ||
           weft_because(why, "%s is %s, expected an integer", name, weft_dtype_name(dtype));
}

bool weft__expect_shape(const weft_array *node, int i, const char *name, weft_dims shape,
                        weft_why *why)
{
    weft_dims actual = input_shape(node, i);
    char expected_text[WEFT_SHAPE_TEXT], actual_text[WEFT_SHAPE_TEXT];
    return weft__shape_equal(&actual, &shape) ||
           weft_because(why, "%s has shape %s, expected %s", name,
                        weft__shape_text(&actual, actual_text),
                        weft__shape_text(&shape, expected_text));
}

bool weft__expect_rank(const weft_array *node, int i, const char *name, const char *letters,
                       int rank, weft_why *why)
{
    weft_dims actual = input_shape(node, i);
    char text[WEFT_SHAPE_TEXT];
    return actual.n == rank || weft_because(why, "%s has shape %s, expected %s", name,
                                            weft__shape_text(&actual, text), letters);
}

bool weft__expect_inputs(const weft_array *node, int n, weft_why *why)
{
    int actual = weft_node_n_inputs(node);
    return actual == n || weft_because(why, "%d inputs, expected %d", actual, n);
}
