/* tests/ops/test_second_derivatives.c -- gradients and Hessians against torch in float64 in
 * delicate cases: products with zeros, ties, zeros in norms, ends of activations. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/indexing.h"
#include "weft/linalg.h"
#include "weft/ops.h"
#include "weft/transforms.h"

typedef weft_array *function(weft_array *x);

static weft_array *prod(weft_array *x)
{
    return weft_prod(x, WEFT_DIMS(1), false);
}

static weft_array *prod_all(weft_array *x)
{
    return weft_prod(x, WEFT_ALL_AXES, false);
}

static weft_array *cumprod(weft_array *x)
{
    return weft_cumprod(x, 1, false, true);
}

/* Elements 3 to 7 multiplied into the first three, at positions 0, 2, 0, 2, 0. */
static weft_array *scatter_prod(weft_array *x)
{
    static const int32_t positions[] = {0, 2, 0, 2, 0};
    weft_array *at = weft_from_data(positions, WEFT_INT32, WEFT_DIMS(5));
    weft_array *values = weft_reshape(weft_slice_axis(x, 0, 3, 8), WEFT_DIMS(5, 1));
    return weft_scatter_prod(weft_slice_axis(x, 0, 0, 3), &at, 1, values, WEFT_DIMS(0));
}

static weft_array *norm(weft_array *x)
{
    return weft_norm(x, WEFT_DIMS(1), false);
}

static weft_array *norm3(weft_array *x)
{
    return weft_norm_p(x, 3, WEFT_DIMS(1), false);
}

static weft_array *std(weft_array *x)
{
    return weft_std(x, WEFT_DIMS(1), false, 0);
}

static weft_array *var(weft_array *x)
{
    return weft_var(x, WEFT_DIMS(1), false, 1);
}

static weft_array *logsumexp(weft_array *x)
{
    return weft_logsumexp(x, WEFT_DIMS(1), false);
}

static weft_array *logcumsumexp(weft_array *x)
{
    return weft_logcumsumexp(x, 1, false, true);
}

static weft_array *softmax(weft_array *x)
{
    return weft_softmax(x, 1);
}

static weft_array *log_softmax(weft_array *x)
{
    return weft_log_softmax(x, 1);
}

static weft_array *max_squared(weft_array *x)
{
    return weft_square(weft_max(x, WEFT_DIMS(1), false));
}

static weft_array *sort_squared(weft_array *x)
{
    return weft_square(weft_sort(x, 1));
}

static weft_array *square_power(weft_array *x)
{
    return weft_power(x, weft_scalar(2, WEFT_FLOAT64));
}

static weft_array *cube_power(weft_array *x)
{
    return weft_power(x, weft_scalar(3, WEFT_FLOAT64));
}

static weft_array *logaddexp(weft_array *x)
{
    return weft_logaddexp(weft_slice_axis(x, 0, 0, 3), weft_slice_axis(x, 0, 3, 6));
}

static weft_array *arctan2(weft_array *x)
{
    return weft_arctan2(weft_slice_axis(x, 0, 0, 3), weft_slice_axis(x, 0, 3, 6));
}

static weft_array *sinc_like(weft_array *x)
{
    return weft_multiply(weft_sin(x), weft_square(x));
}

static const struct scene {
    const char *name;
    function *f;
} scenes[] = {
    {"prod", prod},
    {"prod_all", prod_all},
    {"cumprod", cumprod},
    {"scatter_prod_none", scatter_prod},
    {"scatter_prod_one", scatter_prod},
    {"scatter_prod_two", scatter_prod},
    {"scatter_prod_three", scatter_prod},
    {"norm", norm},
    {"norm3", norm3},
    {"std", std},
    {"var", var},
    {"logsumexp", logsumexp},
    {"logcumsumexp", logcumsumexp},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"max_squared", max_squared},
    {"sort_squared", sort_squared},
    {"square_power", square_power},
    {"cube_power", cube_power},
    {"sigmoid", weft_sigmoid},
    {"softplus", weft_softplus},
    {"silu", weft_silu},
    {"gelu", weft_gelu},
    {"gelu_tanh", weft_gelu_tanh},
    {"tanh", weft_tanh},
    {"erf", weft_erf},
    {"log1p", weft_log1p},
    {"expm1", weft_expm1},
    {"logaddexp", logaddexp},
    {"arctan2", arctan2},
    {"sinc_like", sinc_like},
};

static const char *part_of(const char *name, const char *part)
{
    static char text[2][64];
    static int turn;
    turn = 1 - turn;
    snprintf(text[turn], sizeof text[turn], "%s/%s", name, part);
    return text[turn];
}

static weft_array *loss(void *context, weft_array *const *in, int n)
{
    const struct scene *s = context;
    (void)n;
    weft_array *weights = golden_get(part_of(s->name, "weights"));
    return weft_sum(weft_multiply(s->f(in[0]), weights), WEFT_ALL_AXES, false);
}

static void gradients_and_hessians_are_those_of_torch(void)
{
    golden_open("ops/second");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        struct scene s = scenes[i];
        weft_scope_open();
        weft_array *x = golden_get(part_of(s.name, "in0")), *grad = NULL, *hessian = NULL;
        CHECK_OK(weft_grad(loss, &s, &x, 1, NULL, 0, &grad));
        golden_check(grad, part_of(s.name, "grad"), 1e-13);
        CHECK_OK(weft_hessian(loss, &s, &x, 1, &hessian));
        golden_check(hessian, part_of(s.name, "hessian"), 1e-12);
        weft_scope_close(NULL);
    }
}

CHECK_MAIN("second_derivatives", CHECK_CASE(gradients_and_hessians_are_those_of_torch))
