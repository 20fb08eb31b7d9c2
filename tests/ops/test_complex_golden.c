/* tests/ops/test_complex_golden.c -- products, variances, dot products and convolutions of complex
 * numbers against torch, with gradients in its convention; tangents against gradients. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

typedef void function(weft_array *const *in, weft_array **out);

static void prod(weft_array *const *in, weft_array **out)
{
    out[0] = weft_prod(in[0], WEFT_DIMS(1), false);
}

static void cumprod(weft_array *const *in, weft_array **out)
{
    out[0] = weft_cumprod(in[0], 1, false, true);
}

static void cumprod_first(weft_array *const *in, weft_array **out)
{
    out[0] = weft_cumprod(in[0], 0, false, true);
}

static void var(weft_array *const *in, weft_array **out)
{
    out[0] = weft_var(in[0], WEFT_DIMS(1), false, 0);
}

static void var1(weft_array *const *in, weft_array **out)
{
    out[0] = weft_var(in[0], WEFT_ALL_AXES, false, 1);
}

static void std(weft_array *const *in, weft_array **out)
{
    out[0] = weft_std(in[0], WEFT_DIMS(1), false, 0);
}

static void vecdot(weft_array *const *in, weft_array **out)
{
    out[0] = weft_vecdot(in[0], in[1], -1);
}

static void conv1d(weft_array *const *in, weft_array **out)
{
    out[0] = weft_conv1d(in[0], in[1], 2, 1, 1, 1);
}

static void conv2d(weft_array *const *in, weft_array **out)
{
    out[0] = weft_conv2d(in[0], in[1], WEFT_DIMS(1), WEFT_DIMS(1, 1), WEFT_DIMS(1), 2);
}

static void conv_transpose1d(weft_array *const *in, weft_array **out)
{
    out[0] = weft_conv_transpose1d(in[0], in[1], 2, 1, 1, 0, 1);
}

static const struct scene {
    const char *name;
    function *f;
    int n;
} scenes[] = {
    {"prod", prod, 1},
    {"prod_zero", prod, 1},
    {"cumprod", cumprod, 1},
    {"cumprod_zero", cumprod_first, 1},
    {"var", var, 1},
    {"var1", var1, 1},
    {"std", std, 1},
    {"vecdot", vecdot, 2},
    {"conv1d", conv1d, 2},
    {"conv2d", conv2d, 2},
    {"conv_transpose1d", conv_transpose1d, 2},
};

static void call(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    (void)n_in, (void)n_out;
    function *const *f = context;
    (*f)(in, out);
}

static weft_array *tensor(const char *name, const char *part, int i)
{
    char text[64];
    snprintf(text, sizeof text, i < 0 ? "%s/%s" : "%s/%s%d", name, part, i);
    return golden_get(text);
}

/* Re sum conj(a) b: what ties a tangent to a gradient. */
static double inner(weft_array *a, weft_array *b)
{
    weft_array *product = weft_multiply(weft_conjugate(a), b);
    return weft_item(weft_real(weft_sum(product, WEFT_ALL_AXES, false)));
}

/* Sums of some ten products of numbers around 1, each rounded. */
static void against_torch(const struct scene *s)
{
    weft_array *in[2], *grads[2], *o, *ct = tensor(s->name, "ct", -1), *tangent;
    char text[64];
    function *f = s->f;
    for (int i = 0; i < s->n; i++) {
        in[i] = tensor(s->name, "in", i);
    }
    CHECK_OK(weft_vjp(call, &f, in, s->n, &ct, &o, 1, grads));
    snprintf(text, sizeof text, "%s/out0", s->name);
    golden_check(o, text, 2e-6);
    for (int i = 0; i < s->n; i++) {
        snprintf(text, sizeof text, "%s/grad%d", s->name, i);
        golden_check(grads[i], text, 4e-6);
    }
    CHECK_OK(weft_vjp(call, &f, in, s->n, &ct, NULL, 1, grads));
    CHECK_OK(weft_eval_n(grads, s->n));
    CHECK_OK(weft_jvp(call, &f, in, s->n, in, NULL, 1, &tangent));
    double sum = 0;
    for (int i = 0; i < s->n; i++) {
        sum += inner(grads[i], in[i]);
    }
    CHECK_CLOSE(inner(ct, tangent), sum, 2e-5 * (1 + (sum < 0 ? -sum : sum)));
}

static void values_and_gradients(void)
{
    if (!golden_open("ops/complex")) {
        return;
    }
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        weft_scope_open();
        against_torch(&scenes[i]);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* Real with complex, and nothing at all. */
static void mixed_and_empty(void)
{
    weft_scope_open();
    weft_array *z = weft_full(WEFT_DIMS(1, 3, 1), 2, WEFT_COMPLEX64);
    CHECK_OK(weft_eval(z));
    weft_array *y = weft_conv1d(z, weft_ones(WEFT_DIMS(1, 2, 1), WEFT_FLOAT32), 1, 0, 1, 1);
    CHECK_EQ_INT(weft_dtype_of(y), WEFT_COMPLEX64);
    CHECK_CLOSE(weft_item(weft_real(weft_sum(y, WEFT_ALL_AXES, false))), 8, 0);
    weft_array *none = weft_zeros(WEFT_DIMS(2, 0), WEFT_COMPLEX64);
    CHECK_OK(weft_eval(none));
    weft_array *one = weft_real(weft_prod(none, WEFT_DIMS(1), false));
    CHECK_CLOSE(weft_item(weft_sum(one, WEFT_ALL_AXES, false)), 2, 0);
    CHECK_EQ_INT(weft_size(weft_cumprod(none, 1, false, true)), 0);
    CHECK_EQ_INT(weft_dtype_of(weft_std(z, WEFT_ALL_AXES, false, 0)), WEFT_FLOAT32);
    CHECK_CLOSE(weft_item(weft_std(z, WEFT_ALL_AXES, false, 0)), 0, 0);
    weft_scope_close(NULL);
}

CHECK_MAIN("complex_golden", CHECK_CASE(values_and_gradients), CHECK_CASE(mixed_and_empty))
