/* tests/transforms/test_jacobian.c -- Jacobians in both modes and Hessians against JAX, through
 * each other and other transforms, with integers and empty arrays, and refused input. */
#include "tests/check.h"

#include <stdio.h>

#include "tests/support/golden.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static int net(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_tanh(weft_linear(in[0], in[1], in[2]));
    out[1] = weft_sum(weft_exp(out[0]), WEFT_DIMS(0), false);
    return 2;
}

static weft_array *loss(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[2];
    net(context, in, n_in, out, 2);
    weft_array *squares = weft_sum(weft_square(out[0]), WEFT_ALL_AXES, false);
    return weft_add(squares, weft_prod(out[1], WEFT_ALL_AXES, false));
}

static bool inputs(weft_array *in[3])
{
    in[0] = golden_get("x");
    in[1] = golden_get("w");
    in[2] = golden_get("b");
    return in[0] && in[1] && in[2];
}

typedef weft_status jacobian_of(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                weft_array **outs, int n_out, weft_array **jacobians);

/* Rounding of few operations on numbers around 1. */
static void against_jax(void)
{
    jacobian_of *const ways[] = {weft_jacobian, weft_jacobian_forward};
    weft_array *in[3], *outs[2], *all[9];
    char name[32];
    if (!golden_open("transforms/jacobian")) {
        return;
    }
    weft_scope_open();
    for (int way = 0; way < 2 && CHECK(inputs(in)); way++) {
        CHECK_OK(ways[way](net, NULL, in, 3, outs, 2, all));
        for (int k = 0; k < 6; k++) {
            snprintf(name, sizeof name, "jacobian.%d.%d", k / 3, k % 3);
            golden_check(all[k], name, 1e-14);
        }
        CHECK_EQ_INT(weft_size(outs[1]), 4);
    }
    CHECK_OK(weft_hessian(loss, NULL, in, 3, all));
    for (int k = 0; k < 9; k++) {
        snprintf(name, sizeof name, "hessian.%d.%d", k / 3, k % 3);
        golden_check(all[k], name, 1e-12);
    }
    weft_scope_close(NULL);
    golden_close();
}

/* ---- with other transforms ------------------------------------------------------------------ */

static int squared_jacobian(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    weft_array *all[3];
    (void)room;
    jacobian_of *const *way = context;
    const weft_status status = (*way)(net, NULL, in, n_in, NULL, 1, all);
    out[0] = status == WEFT_OK ? weft_sum(weft_square(all[1]), WEFT_ALL_AXES, false)
                               : weft_error_array("%s", weft_error_message());
    return 1;
}

/* A penalty on the Jacobian: differentiated, compiled, over a batch. */
static void inside_other_transforms(void)
{
    jacobian_of *ways[] = {weft_jacobian, weft_jacobian_forward};
    weft_array *in[3], *plain, *compiled_value, *batch;
    if (!golden_open("transforms/jacobian")) {
        return;
    }
    weft_scope_open();
    for (int way = 0; way < 2 && CHECK(inputs(in)); way++) {
        const weft_gradcheck_options options = {.seed = 2, .forward = true};
        CHECK_OK(weft_gradcheck(squared_jacobian, &ways[way], in, 3, &options));
        squared_jacobian(&ways[way], in, 3, &plain, 1);
        CHECK_OK(weft_eval(plain));
        weft_compiled *compiled;
        if (CHECK_OK(weft_compile(squared_jacobian, &ways[way], NULL, 0, NULL, &compiled))) {
            CHECK_OK(weft_compiled_call(compiled, in, 3, &compiled_value, 1));
            CHECK_RELATIVE(weft_item(compiled_value), weft_item(plain), 1e-14);
            weft_compiled_free(compiled);
        }
        weft_array *twice[] = {weft_stack((weft_array *[]){in[0], weft_scale(in[0], 0.5)}, 2, 0),
                               in[1], in[2]};
        const int axes[] = {0, WEFT_NO_AXIS, WEFT_NO_AXIS};
        CHECK_OK(weft_vmap(squared_jacobian, &ways[way], twice, axes, 3, &batch, NULL, 1));
        weft_array *first = weft_take(batch, weft_scalar_int(0, WEFT_INT32), 0);
        CHECK_RELATIVE(weft_item(first), weft_item(plain), 1e-14);
    }
    weft_scope_close(NULL);
    golden_close();
}

/* ---- edges ---------------------------------------------------------------------------------- */

/* Rows of a table by index, how many there are, and the table itself. */
static int rows(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_take(in[0], in[1], 0);
    out[1] = weft_scalar_int(weft_size(in[1]), WEFT_INT32);
    out[2] = in[0];
    return 3;
}

static void integers_and_independent_results(void)
{
    jacobian_of *const ways[] = {weft_jacobian, weft_jacobian_forward};
    weft_scope_open();
    weft_array *in[] = {weft_ones(WEFT_DIMS(3, 2), WEFT_FLOAT32),
                        weft_from_data((int32_t[]){2, 0}, WEFT_INT32, WEFT_DIMS(2)),
                        weft_scalar(1, WEFT_FLOAT32)};
    for (int way = 0; way < 2; way++) {
        weft_array *all[9];
        CHECK_OK(ways[way](rows, NULL, in, 3, NULL, 3, all));
        CHECK(!all[1] && !all[3] && !all[4] && !all[5] && !all[7]);
        weft_array *eye = weft_reshape(weft_eye(6, 6, 0, WEFT_FLOAT32), WEFT_DIMS(3, 2, 3, 2));
        CHECK_OK(weft_eval(eye));
        CHECK_EQ_INT(weft_item_int(weft_array_equal(all[6], eye, false)), 1);
        weft_array *chosen = weft_take(eye, in[1], 0);
        CHECK_EQ_INT(weft_item_int(weft_array_equal(all[0], chosen, false)), 1);
        CHECK_EQ_INT(weft_ndim(all[2]), 2);
        CHECK_EQ_INT(weft_item_int(weft_any(all[2], WEFT_ALL_AXES, false)), 0);
    }
    weft_scope_close(NULL);
}

static int squares(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_square(in[0]);
    return 1;
}

static weft_array *no_scalar(void *context, weft_array *const *in, int n_in)
{
    (void)context, (void)n_in;
    return in[0];
}

static void empty_arrays_scalars_and_refused_input(void)
{
    jacobian_of *const ways[] = {weft_jacobian, weft_jacobian_forward};
    weft_scope_open();
    for (int way = 0; way < 2; way++) {
        weft_array *x = weft_zeros(WEFT_DIMS(0, 2), WEFT_FLOAT32), *j;
        CHECK_OK(ways[way](squares, NULL, &x, 1, NULL, 1, &j));
        CHECK_EQ_INT(weft_ndim(j), 4);
        CHECK_EQ_INT(weft_size(j), 0);
        x = weft_scalar(3, WEFT_FLOAT32);
        CHECK_OK(ways[way](squares, NULL, &x, 1, NULL, 1, &j));
        CHECK_CLOSE(weft_item(j), 6, 0);
        x = weft_ones(WEFT_DIMS(1, 1, 1, 1, 1, 1, 1, 1, 2), WEFT_FLOAT32);
        CHECK_STATUS(ways[way](squares, NULL, &x, 1, NULL, 1, &j), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "more than 16 dims");
        x = weft_ones(WEFT_DIMS(2), WEFT_COMPLEX64);
        CHECK_STATUS(ways[way](squares, NULL, &x, 1, NULL, 1, &j), WEFT_UNSUPPORTED);
        x = weft_error_array("broken");
        CHECK_STATUS(ways[way](squares, NULL, &x, 1, NULL, 1, &j), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "broken");
    }
    weft_array *x = weft_ones(WEFT_DIMS(2), WEFT_FLOAT32), *h;
    CHECK_STATUS(weft_hessian(no_scalar, NULL, &x, 1, &h), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected a float scalar");
    weft_scope_close(NULL);
}

CHECK_MAIN("jacobian", CHECK_CASE(against_jax), CHECK_CASE(inside_other_transforms),
           CHECK_CASE(integers_and_independent_results),
           CHECK_CASE(empty_arrays_scalars_and_refused_input))
