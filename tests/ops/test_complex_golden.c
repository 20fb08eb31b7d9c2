/* tests/ops/test_complex_golden.c -- products, variances, dot products and convolutions of complex
 * numbers against torch, with gradients in its convention; tangents against gradients; orders,
 * exponentials and scatters against NumPy. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/indexing.h"
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

static int call(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in, (void)room;
    function *const *f = context;
    (*f)(in, out);
    return 1;
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

/* Real parts first, then imaginary ones; NaN last in order, and it wins. */
static void check_order(const char *name)
{
    const struct {
        const char *part;
        weft_array *y;
    } parts[] = {
        {"sort", weft_sort(tensor(name, "x", -1), -1)},
        {"argsort", weft_astype(weft_argsort(tensor(name, "x", -1), -1), WEFT_INT32)},
        {"max", weft_max(tensor(name, "x", -1), WEFT_DIMS(1), false)},
        {"min", weft_min(tensor(name, "x", -1), WEFT_DIMS(1), false)},
        {"argmax", weft_astype(weft_argmax(tensor(name, "x", -1), 1, false), WEFT_INT32)},
        {"argmin", weft_astype(weft_argmin(tensor(name, "x", -1), 1, false), WEFT_INT32)},
        {"cummax", weft_cummax(tensor(name, "x", -1), 1, false, true)},
        {"cummin", weft_cummin(tensor(name, "x", -1), 1, false, true)},
        {"sort", weft_sort(weft_partition(tensor(name, "x", -1), 3, -1), -1)},
    };
    char text[64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(text, sizeof text, "%s/%s", name, parts[i].part);
        golden_check(parts[i].y, text, 0);
    }
    weft_array *x = tensor(name, "x", -1), *largest = tensor(name, "max", -1);
    weft_array *top = weft_squeeze(weft_topk(x, 1, -1), -1);
    if (name[0] == 'p') { /* without NaN */
        CHECK(weft_item(weft_array_equal(top, largest, false)) == 1);
        weft_array *row = weft_sort(weft_reshape(weft_slice_axis(x, 0, 0, 1), WEFT_DIMS(8)), 0);
        weft_array *left = weft_searchsorted(row, row, false), *right;
        right = weft_searchsorted(row, row, true);
        weft_array *own = weft_arange(0, 8, 1, WEFT_INT32);
        weft_array *all[] = {row, left, right, own};
        CHECK_OK(weft_eval_n(all, 4));
        CHECK(weft_item(weft_all(weft_less_equal(left, own), WEFT_ALL_AXES, false)) == 1);
        CHECK(weft_item(weft_all(weft_greater(right, own), WEFT_ALL_AXES, false)) == 1);
        weft_array *first = weft_take(row, left, 0);
        CHECK(weft_item(weft_array_equal(first, row, false)) == 1);
    }
}

/* Sums of eight exponentials with real parts apart by up to 100. */
static void check_exponentials(void)
{
    weft_array *x = golden_get("wide/x");
    CHECK_OK(weft_eval(x));
    golden_check(weft_softmax(x, -1), "wide/softmax", 1e-6);
    golden_check(weft_log_softmax(x, -1), "wide/log_softmax", 1e-6);
    golden_check(weft_logsumexp(x, WEFT_DIMS(1), false), "wide/logsumexp", 1e-6);
    golden_check(weft_logcumsumexp(x, 1, false, true), "wide/logcumsumexp", 1e-6);
    weft_array *turned = weft_swapaxes(x, 0, 1);
    CHECK_OK(weft_eval(turned));
    golden_check(weft_swapaxes(weft_softmax(turned, 0), 0, 1), "wide/softmax", 1e-6);
    golden_check(weft_logsumexp(turned, WEFT_DIMS(0), false), "wide/logsumexp", 1e-6);
}

static void check_scatters(void)
{
    weft_array *x = golden_get("scatter/x"), *at = golden_get("scatter/at");
    weft_array *values = weft_expand_dims(golden_get("scatter/values"), 1);
    CHECK_OK(weft_eval(values));
    golden_check(weft_scatter_add(x, &at, 1, values, WEFT_DIMS(0)), "scatter/add", 1e-6);
    golden_check(weft_scatter_prod(x, &at, 1, values, WEFT_DIMS(0)), "scatter/prod", 1e-6);
    golden_check(weft_scatter_max(x, &at, 1, values, WEFT_DIMS(0)), "scatter/max", 0);
    golden_check(weft_scatter_min(x, &at, 1, values, WEFT_DIMS(0)), "scatter/min", 0);
}

static void orders_exponentials_and_scatters(void)
{
    golden_open("ops/complex");
    weft_scope_open();
    check_order("plain");
    check_order("nan");
    check_exponentials();
    weft_scope_close(NULL);
    weft_scope_open();
    check_scatters();
    weft_scope_close(NULL);
    golden_close();
}

CHECK_MAIN("complex_golden", CHECK_CASE(values_and_gradients), CHECK_CASE(mixed_and_empty),
           CHECK_CASE(orders_exponentials_and_scatters))
