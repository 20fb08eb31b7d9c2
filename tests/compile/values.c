/* tests/compile/values.c -- arguments and results of functions of lengths. */
#include "tests/compile/values.h"

#include <string.h>

#include "tests/check.h"
#include "weft/ops.h"

weft_array *numbers(weft_dims shape, double step)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    weft_array *x = weft_sin(weft_scale(weft_arange(0, (double)n, 1, WEFT_FLOAT32), step));
    x = weft_reshape(x, shape);
    CHECK_OK(weft_eval(x));
    return x;
}

bool same_elements(weft_array *a, weft_array *b)
{
    const weft_dims x = weft_shape(a), y = weft_shape(b);
    if (weft_dtype_of(a) != weft_dtype_of(b) || x.n != y.n ||
        memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at) != 0)
        return false;
    weft_array *both[] = {weft_contiguous(a), weft_contiguous(b)};
    return weft_eval_n(both, 2) == WEFT_OK &&
           memcmp(weft_data(both[0]), weft_data(both[1]), (size_t)weft_nbytes(a)) == 0;
}
