/* tests/nn/test_init.c -- initializers: moments, bounds, structure. */
#include <math.h>

#include "tests/check.h"
#include "weft/init.h"
#include "weft/ops.h"
#include "weft/random.h"

static double largest(weft_array *x)
{
    return weft_item(weft_max(weft_abs(x), WEFT_ALL_AXES, false));
}

static double deviation(weft_array *x)
{
    return sqrt(weft_item(weft_mean(weft_square(x), WEFT_ALL_AXES, false)));
}

static weft_array *key(void)
{
    return weft_random_key(11);
}

/* Kernels of 5 between 40 inputs and 60 outputs: fans 200 and 300. The estimate of a deviation from
 * 12000 numbers has a relative error of 0.6%; the largest of 12000 uniform ones misses the bound by
 * less than 0.1%. */
static void fans_set_deviations_and_bounds(void)
{
    const weft_dims shape = WEFT_DIMS(60, 5, 40);
    const weft_dtype f = WEFT_FLOAT32;
    weft_scope_open();
    CHECK_RELATIVE(deviation(weft_init_glorot_normal(key(), shape, 2, f)), 2 * sqrt(2 / 500.),
                   0.02);
    CHECK_RELATIVE(largest(weft_init_glorot_uniform(key(), shape, 2, f)), 2 * sqrt(6 / 500.), 1e-3);
    CHECK_RELATIVE(deviation(weft_init_he_normal(key(), shape, WEFT_FAN_IN, 1, f)), sqrt(1 / 200.),
                   0.02);
    CHECK_RELATIVE(deviation(weft_init_he_normal(key(), shape, WEFT_FAN_OUT, 1, f)), sqrt(1 / 300.),
                   0.02);
    CHECK_RELATIVE(largest(weft_init_he_uniform(key(), shape, WEFT_FAN_IN, 1, f)), sqrt(3 / 200.),
                   1e-3);
    CHECK_RELATIVE(largest(weft_init_he_uniform(key(), shape, WEFT_FAN_OUT, 1, f)), sqrt(3 / 300.),
                   1e-3);
    CHECK_RELATIVE(deviation(weft_init_normal(key(), shape, 0, 3, f)), 3, 0.02);
    CHECK_RELATIVE(largest(weft_init_uniform(key(), shape, -1, 7, f)), 7, 1e-3);
    CHECK_CLOSE(weft_item(weft_min(weft_init_constant(shape, 4, f), WEFT_ALL_AXES, false)), 4, 0);
    CHECK(!weft_ok(weft_init_glorot_normal(key(), WEFT_DIMS(3), 1, f)));
    CHECK(!weft_ok(weft_init_he_uniform(key(), WEFT_SCALAR, WEFT_FAN_IN, 1, f)));
    CHECK_EQ_INT(weft_size(weft_init_he_normal(key(), WEFT_DIMS(3, 0), WEFT_FAN_IN, 1, f)), 0);
    weft_scope_close(NULL);
}

static void identity_is_one_on_the_diagonal(void)
{
    weft_scope_open();
    weft_array *i = weft_init_identity(WEFT_DIMS(5, 5), WEFT_BFLOAT16);
    weft_array *x = weft_random_normal(key(), WEFT_DIMS(5, 5), 0, 1, WEFT_BFLOAT16);
    CHECK_EQ_INT(weft_dtype_of(i), WEFT_BFLOAT16);
    CHECK(weft_item_int(weft_array_equal(weft_matmul(x, i), x, false)));
    CHECK(!weft_ok(weft_init_identity(WEFT_DIMS(2, 3), WEFT_FLOAT32)));
    weft_scope_close(NULL);
}

/* Every row has the same number of zeros, in places of its own. */
static void sparse_has_zeros_in_each_row(void)
{
    weft_scope_open();
    weft_array *x = weft_init_sparse(key(), WEFT_DIMS(300, 21), 0.3, 1, 2, WEFT_FLOAT32);
    weft_array *left = weft_count_nonzero(x, WEFT_DIMS(1), false);
    weft_array *columns = weft_count_nonzero(x, WEFT_DIMS(0), false);
    CHECK_OK(weft_eval_n((weft_array *[]){left, columns}, 2));
    CHECK_EQ_INT(weft_item_int(weft_max(left, WEFT_ALL_AXES, false)), 21 - 7);
    CHECK_EQ_INT(weft_item_int(weft_min(left, WEFT_ALL_AXES, false)), 21 - 7);
    CHECK(weft_item_int(weft_max(columns, WEFT_ALL_AXES, false)) < 240); /* 200 +- 8 expected */
    CHECK(weft_item_int(weft_min(columns, WEFT_ALL_AXES, false)) > 160);
    CHECK(!weft_ok(weft_init_sparse(key(), WEFT_DIMS(3), 0.3, 0, 1, WEFT_FLOAT32)));
    CHECK(!weft_ok(weft_init_sparse(key(), WEFT_DIMS(3, 3), 1.5, 0, 1, WEFT_FLOAT32)));
    CHECK(weft_ok(weft_init_sparse(NULL, WEFT_DIMS(3, 3), 0.5, 0, 1, WEFT_FLOAT32)));
    weft_scope_close(NULL);
}

static void orthogonal_keeps_lengths(void)
{
    weft_scope_open();
    weft_array *tall = weft_init_orthogonal(key(), WEFT_DIMS(9, 4), 2, WEFT_FLOAT64);
    weft_array *wide = weft_init_orthogonal(key(), WEFT_DIMS(4, 9), 2, WEFT_FLOAT64);
    weft_array *four = weft_scale(weft_init_identity(WEFT_DIMS(4, 4), WEFT_FLOAT64), 4);
    weft_array *t = weft_matmul(weft_swapaxes(tall, 0, 1), tall);
    weft_array *w = weft_matmul(wide, weft_swapaxes(wide, 0, 1));
    CHECK(weft_item_int(weft_allclose(t, four, 0, 1e-12, false)));
    CHECK(weft_item_int(weft_allclose(w, four, 0, 1e-12, false)));
    CHECK_EQ_INT(weft_dtype_of(weft_init_orthogonal(NULL, WEFT_DIMS(2, 2), 1, WEFT_FLOAT16)),
                 WEFT_FLOAT16);
    CHECK(!weft_ok(weft_init_orthogonal(key(), WEFT_DIMS(2, 2, 2), 1, WEFT_FLOAT32)));
    weft_scope_close(NULL);
}

CHECK_MAIN("init", CHECK_CASE(fans_set_deviations_and_bounds),
           CHECK_CASE(identity_is_one_on_the_diagonal), CHECK_CASE(sparse_has_zeros_in_each_row),
           CHECK_CASE(orthogonal_keeps_lengths))
