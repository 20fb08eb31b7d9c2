/* tests/ops/test_conv.c -- convolutions and pooling against torch, convolve against NumPy; their
 * gradients, sizes for which kernels differ, and messages. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

/* float64: a few roundings of sums of up to 300 terms below 4. */
static const double exact = 1e-12;
/* The same in float32. */
static const double close = 2e-5;

typedef struct convolution {
    weft_conv_options options;
    weft_dims padding, output_padding; /* of a transposed convolution */
    int axes;
} convolution;

static const convolution general[] = {
    {.options = {.groups = 1}},
    {.options = {.stride = {1, {2}},
                 .pad_low = {1, {2}},
                 .pad_high = {1, {1}},
                 .kernel_dilation = {1, {3}},
                 .groups = 2}},
    {.options = {.pad_low = {1, {1}}, .pad_high = {1, {1}}}},
    {.options = {.stride = {2, {2, 3}},
                 .pad_low = {2, {0, 1}},
                 .pad_high = {2, {2, 0}},
                 .kernel_dilation = {2, {2, 1}},
                 .groups = 4}},
    {.options = {.stride = {2, {1, 2}}, .pad_low = {1, {1}}, .pad_high = {1, {1}}, .groups = 20}},
    {.options = {.stride = {3, {1, 2, 1}},
                 .pad_low = {3, {1, 1, 0}},
                 .pad_high = {3, {0, 1, 1}},
                 .kernel_dilation = {3, {1, 1, 2}}}},
    {.options = {.groups = 1}},
    {.options = {.stride = {2, {2, 1}}, .pad_low = {1, {1}}, .pad_high = {1, {1}}}},
};

static const convolution transposed[] = {
    {.axes = 1, .options = {.stride = {1, {2}}}, .padding = {1, {1}}, .output_padding = {1, {1}}},
    {.axes = 2,
     .options = {.stride = {2, {2, 3}}, .groups = 2},
     .padding = {2, {1, 0}},
     .output_padding = {2, {1, 2}}},
    {.axes = 3,
     .options = {.stride = {3, {1, 2, 2}}, .kernel_dilation = {3, {2, 1, 1}}},
     .padding = {3, {0, 1, 1}},
     .output_padding = {3, {0, 0, 1}}},
};

enum {
    GENERAL = sizeof general / sizeof *general,
    TRANSPOSED = sizeof transposed / sizeof *transposed
};

static const char *tensor(const char *kind, int i, const char *name)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%d/%s", kind, i, name);
    return text;
}

static weft_array *apply(const convolution *c, weft_array *x, weft_array *weight)
{
    const weft_conv_options *o = &c->options;
    switch (c->axes) {
    case 1:
        return weft_conv_transpose1d(x, weight, o->stride.at[0], c->padding.at[0], 1,
                                     c->output_padding.at[0], o->groups);
    case 2:
        return weft_conv_transpose2d(x, weight, o->stride, c->padding, o->kernel_dilation,
                                     c->output_padding, o->groups);
    case 3:
        return weft_conv_transpose3d(x, weight, o->stride, c->padding, o->kernel_dilation,
                                     c->output_padding, o->groups);
    default:
        return weft_conv_general(x, weight, o);
    }
}

static int call(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = apply(context, in[0], in[1]);
    return 1;
}

static void equals_torch(const convolution *c, const char *kind, int i, weft_dtype dtype,
                         double tolerance)
{
    weft_scope_open();
    weft_array *in[] = {golden_as(tensor(kind, i, "in0"), dtype),
                        golden_as(tensor(kind, i, "in1"), dtype)};
    weft_array *ct = golden_as(tensor(kind, i, "in2"), dtype), *out[1], *grads[2];
    if (CHECK_OK(weft_vjp(call, (void *)c, in, 2, &ct, out, 1, grads))) {
        golden_check(out[0], tensor(kind, i, "out0"), tolerance);
        golden_check(grads[0], tensor(kind, i, "dx"), tolerance);
        golden_check(grads[1], tensor(kind, i, "dw"), tolerance);
    }
    weft_scope_close(NULL);
}

static void convolutions_and_gradients_equal_torch(void)
{
    CHECK(golden_open("ops/conv"));
    for (int i = 0; i < GENERAL; i++) {
        equals_torch(&general[i], "conv", i, WEFT_FLOAT64, exact);
        equals_torch(&general[i], "conv", i, WEFT_FLOAT32, close);
    }
    for (int i = 0; i < TRANSPOSED; i++) {
        equals_torch(&transposed[i], "transposed", i, WEFT_FLOAT64, exact);
        equals_torch(&transposed[i], "transposed", i, WEFT_FLOAT32, close);
    }
    golden_close();
}

/* Inputs are rounded to the dtype first: the difference is one rounding of the result. */
static void narrow_floats_are_rounded_once(void)
{
    static const struct {
        weft_dtype dtype;
        double tolerance;
    } narrow[] = {{WEFT_FLOAT16, 0x1p-11}, {WEFT_BFLOAT16, 0x1p-8}};
    CHECK(golden_open("ops/conv"));
    for (int d = 0; d < 2; d++) {
        for (int i = 0; i < GENERAL; i++) {
            weft_scope_open();
            weft_array *x = golden_as(tensor("conv", i, "in0"), narrow[d].dtype);
            weft_array *w = golden_as(tensor("conv", i, "in1"), narrow[d].dtype);
            weft_array *y = weft_conv_general(x, w, &general[i].options);
            weft_array *want = weft_conv_general(weft_astype(x, WEFT_FLOAT64),
                                                 weft_astype(w, WEFT_FLOAT64), &general[i].options);
            CHECK_EQ_INT(weft_dtype_of(y), narrow[d].dtype);
            weft_array *scale = weft_maximum(weft_abs(want), weft_scalar(1, WEFT_FLOAT64));
            weft_array *error =
                weft_abs(weft_divide(weft_subtract(weft_astype(y, WEFT_FLOAT64), want), scale));
            CHECK_CLOSE(weft_item(weft_max(error, WEFT_ALL_AXES, false)), 0,
                        narrow[d].tolerance + 1e-5);
            weft_scope_close(NULL);
        }
    }
    golden_close();
}

static weft_array *ramp(weft_dims shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    weft_array *x = weft_sin(weft_arange(0, (double)n, 1, WEFT_FLOAT32));
    return weft_reshape(x, shape);
}

static weft_array *total(void *context, weft_array *const *in, int n)
{
    (void)n;
    return weft_sum(weft_square(weft_conv_general(in[0], in[1], context)), WEFT_ALL_AXES, false);
}

static double difference(weft_array *a, weft_array *b)
{
    weft_array *d = weft_abs(weft_subtract(weft_astype(a, WEFT_FLOAT64), b));
    return weft_item(weft_max(d, WEFT_ALL_AXES, false));
}

/* Sizes with several tiles, pieces of the terms, passes and stretches, against float64. */
static void large_ones_equal_float64(void)
{
    static const struct {
        weft_dims x, w;
        weft_conv_options o;
    } cases[] = {
        {{4, {2, 17, 19, 70}}, {4, {90, 3, 3, 70}}, {.pad_low = {1, {1}}, .pad_high = {1, {1}}}},
        {{4, {1, 5, 5, 600}}, {4, {40, 3, 3, 600}}, {.pad_low = {1, {1}}}},
        {{4, {1, 40, 41, 3}}, {4, {35, 7, 7, 3}}, {.stride = {1, {2}}, .pad_low = {1, {3}}}},
        {{3, {2, 300, 24}}, {3, {24, 5, 4}}, {.pad_low = {1, {2}}, .groups = 6}},
        {{4, {1, 30, 30, 50}}, {4, {50, 3, 3, 1}}, {.stride = {1, {2}}, .groups = 50}},
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        weft_scope_open();
        weft_array *in[2] = {ramp(cases[i].x), ramp(cases[i].w)}, *wide[2], *g[2], *want[2];
        wide[0] = weft_astype(in[0], WEFT_FLOAT64);
        wide[1] = weft_astype(in[1], WEFT_FLOAT64);
        void *o = (void *)&cases[i].o;
        weft_array *all[4] = {in[0], in[1], wide[0], wide[1]};
        CHECK_OK(weft_eval_n(all, 4));
        weft_array *norm = weft_value_and_grad(total, o, wide, 2, want);
        weft_array *loss = weft_value_and_grad(total, o, in, 2, g);
        weft_array *found[6] = {norm, loss, want[0], want[1], g[0], g[1]};
        CHECK_OK(weft_eval_n(found, 6));
        CHECK_RELATIVE(weft_item(loss), weft_item(norm), 1e-6);
        for (int k = 0; k < 2; k++) {
            double size = weft_item(weft_max(weft_abs(want[k]), WEFT_ALL_AXES, false));
            CHECK_CLOSE(difference(g[k], want[k]) / size, 0, 1e-5);
        }
        weft_scope_close(NULL);
    }
}

static void convolve_equals_numpy(void)
{
    static const char *const names[] = {"full", "same", "valid"};
    CHECK(golden_open("ops/conv"));
    for (int i = 0; i < 5; i++) {
        weft_scope_open();
        weft_array *a = golden_get(tensor("convolve", i, "in0"));
        weft_array *v = golden_get(tensor("convolve", i, "in1"));
        for (int mode = 0; mode < 3; mode++)
            golden_check(weft_convolve(a, v, (weft_convolve_mode)mode),
                         tensor("convolve", i, names[mode]), exact);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* ---- Pooling -------------------------------------------------------------------------------- */

typedef struct pool {
    weft_dims window, stride, padding;
    bool mean;
} pool;

static weft_array *pooled(const pool *p, weft_array *x)
{
    return p->mean ? weft_avg_pool(x, p->window, p->stride, p->padding)
                   : weft_max_pool(x, p->window, p->stride, p->padding);
}

static weft_array *pool_total(void *context, weft_array *const *in, int n)
{
    (void)n;
    return weft_sum(weft_square(pooled(context, in[0])), WEFT_ALL_AXES, false);
}

static void pooling_equals_torch(void)
{
    static const pool pools[] = {{{1, {3}}, {1, {2}}, {1, {1}}, false},
                                 {{2, {2, 3}}, {1, {2}}, {2, {0, 1}}, false},
                                 {{1, {2}}, {3, {2, 1, 2}}, {0}, false}};
    CHECK(golden_open("ops/conv"));
    for (int i = 0; i < 6; i++) {
        weft_scope_open();
        pool p = pools[i / 2];
        p.mean = i % 2;
        weft_array *x = golden_get(tensor("pool", i / 2, "in0")), *grad;
        golden_check(pooled(&p, x), tensor("pool", i / 2, p.mean ? "avg" : "max"), exact);
        CHECK_OK(weft_eval(weft_value_and_grad(pool_total, &p, &x, 1, &grad)));
        golden_check(grad, tensor("pool", i / 2, p.mean ? "davg" : "dmax"), exact);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void windows_slide(void)
{
    weft_scope_open();
    weft_array *x = weft_reshape(weft_arange(0, 12, 1, WEFT_INT32), WEFT_DIMS(3, 4));
    weft_array *y = weft_sliding_window_view(x, WEFT_DIMS(2, 3), WEFT_DIMS(0, -1));
    int32_t v[24];
    CHECK_EQ_INT(weft_ndim(y), 4);
    CHECK_OK(weft_read(y, WEFT_INT32, v, 24));
    for (int i = 0; i < 24; i++)
        CHECK_EQ_INT(v[i], i / 12 * 4 + i / 6 % 2 + i / 3 % 2 * 4 + i % 3);
    CHECK_CONTAINS(weft_error(weft_sliding_window_view(x, WEFT_DIMS(5), WEFT_DIMS(1))),
                   "a window of 5 on an axis of 4");
    weft_scope_close(NULL);
}

static void errors_say_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(1, 5, 6, 4), WEFT_FLOAT32);
    weft_array *w = weft_zeros(WEFT_DIMS(3, 3, 3, 4), WEFT_FLOAT32);
    weft_conv_options two = {.groups = 2}, strides = {.stride = {3, {1, 1, 1}}},
                      zero = {.stride = {1, {0}}}, cut = {.pad_low = {1, {-3}}};
    CHECK_CONTAINS(weft_error(weft_conv_general(x, w, &two)), "channels differ");
    CHECK_CONTAINS(weft_error(weft_conv_general(x, w, &strides)), "expected one number or 2");
    CHECK_CONTAINS(weft_error(weft_conv_general(x, w, &zero)), "strides of 0");
    CHECK_CONTAINS(weft_error(weft_conv_general(x, w, &cut)),
                   "axis 1: a kernel that spans 3 on 2 padded elements");
    CHECK_CONTAINS(weft_error(weft_conv1d(x, w, 1, 0, 1, 1)), "conv1d: x has rank 4: expected 3");
    CHECK_CONTAINS(weft_error(weft_convolve(x, w, WEFT_CONVOLVE_FULL)), "expected two vectors");
    CHECK_CONTAINS(weft_error(weft_max_pool(x, WEFT_DIMS(7), WEFT_DIMS(1), WEFT_DIMS(0))),
                   "a window of 7");
    CHECK_CONTAINS(weft_error(weft_avg_pool(x, WEFT_DIMS(2, 2, 2), WEFT_DIMS(1), WEFT_DIMS(0))),
                   "3 numbers");
    weft_scope_close(NULL);
}

CHECK_MAIN("conv", CHECK_CASE(convolutions_and_gradients_equal_torch),
           CHECK_CASE(narrow_floats_are_rounded_once), CHECK_CASE(large_ones_equal_float64),
           CHECK_CASE(convolve_equals_numpy), CHECK_CASE(pooling_equals_torch),
           CHECK_CASE(windows_slide), CHECK_CASE(errors_say_what_is_wrong))
