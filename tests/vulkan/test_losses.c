/* tests/vulkan/test_losses.c -- cross-entropy and AdamW on the Vulkan device against the CPU's. */
#include <math.h>
#include <stdio.h>

#include "tests/vulkan/both.h"
#include "weft/op.h"

/* ---- Cross-entropy -------------------------------------------------------------------------- */

typedef struct loss {
    weft_dtype dtype, target_dtype;
    int64_t rows, V;
    double spread, lowest_target;
    double masked; /* logits below it are minus infinity */
} loss;

static weft_array *logits_of(const loss *l)
{
    weft_array *x = both_draw(WEFT_DIMS(l->rows, l->V), l->dtype, -l->spread, l->spread);
    if (l->masked > -l->spread) {
        weft_device *device = weft_default_device(), *cpu = weft_device_get("cpu");
        weft_set_default_device(cpu);
        weft_array *y = weft_to(x, cpu), *limit = weft_scalar(l->masked, l->dtype);
        x = weft_where(weft_less(y, limit), weft_scalar(-INFINITY, l->dtype), y);
        CHECK_OK(weft_eval(x));
        weft_set_default_device(device);
        x = weft_to(x, device);
    }
    return x;
}

static weft_array *targets_of(const loss *l, double V)
{
    double high = V < 127 ? V : l->target_dtype == WEFT_INT8 ? 127 : V;
    return both_draw(WEFT_DIMS(l->rows), l->target_dtype, l->lowest_target, high);
}

static weft_array *make_losses(const void *context)
{
    const loss *l = context;
    weft_array *x = logits_of(l);
    return weft_cross_entropy_rows(x, targets_of(l, (double)l->V));
}

static weft_array *make_gradient(const void *context)
{
    const loss *l = context;
    weft_array *x = logits_of(l), *targets = targets_of(l, (double)l->V);
    weft_dtype compute = l->dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_array *in[] = {x, targets, both_draw(WEFT_DIMS(l->rows), compute, -1, 1)};
    return weft_apply(weft_op_find("cross_entropy_vjp"), in, 3, NULL);
}

static double tolerance_of(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT64    ? 1e-12
           : dtype == WEFT_FLOAT16  ? 0x1p-11
           : dtype == WEFT_BFLOAT16 ? 0x1p-8
                                    : 4e-6;
}

static void check_loss(const loss *l)
{
    char label[120];
    snprintf(label, sizeof label, "%lld rows of %lld %s", (long long)l->rows, (long long)l->V,
             weft_dtype_name(l->dtype));
    both_same(make_losses, l, l->dtype == WEFT_FLOAT64 ? 1e-12 : 4e-6, label);
    both_same(make_gradient, l, tolerance_of(l->dtype), label);
}

static void losses_of_all_sizes(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT64};
    static const int64_t shapes[][2] = {{1, 1}, {7, 255}, {3, 1024}, {5, 1025}, {700, 3}};
    if (!both_there()) {
        return;
    }
    for (int d = 0; d < 4; d++) {
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            check_loss(&(loss){dtypes[d], WEFT_INT32, shapes[k][0], shapes[k][1], 8, 0, -9});
        }
    }
    check_loss(&(loss){WEFT_FLOAT32, WEFT_INT32, 70000, 3, 8, 0, -9});
    check_loss(&(loss){WEFT_FLOAT32, WEFT_INT64, 3, 260000, 20, 0, -21});
    check_loss(&(loss){WEFT_BFLOAT16, WEFT_INT64, 2, 151936, 20, 0, -21});
}

static void targets_of_all_types(void)
{
    static const weft_dtype targets[] = {WEFT_INT8,  WEFT_UINT8,  WEFT_INT16, WEFT_UINT16,
                                         WEFT_INT32, WEFT_UINT32, WEFT_INT64, WEFT_UINT64};
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        double lowest = weft_dtype_is_signed(targets[i]) ? -40 : 0; /* negative: no loss */
        check_loss(&(loss){WEFT_FLOAT32, targets[i], 300, 100, 5, lowest, -6});
    }
}

/* Large numbers; minus infinity beside numbers; a gradient in the memory of the logits. */
static void extreme_logits(void)
{
    if (!both_there()) {
        return;
    }
    check_loss(&(loss){WEFT_FLOAT32, WEFT_INT32, 20, 600, 3e4, 0, -4e4});
    check_loss(&(loss){WEFT_FLOAT16, WEFT_INT32, 20, 600, 6e4, 0, -7e4});
    loss masked = {WEFT_FLOAT32, WEFT_INT32, 40, 700, 5, 0, 0};
    both_same(make_losses, &masked, 4e-6, "masked");
    both_same(make_gradient, &masked, 4e-6, "masked");
}

static weft_array *make_bad_target(const void *context)
{
    const loss *l = context;
    return weft_cross_entropy_rows(
        logits_of(l), weft_full(WEFT_DIMS(l->rows), l->lowest_target, l->target_dtype));
}

static void targets_beyond_the_vocabulary_fail(void)
{
    if (both_there()) {
        loss l = {WEFT_FLOAT32, WEFT_INT32, 1, 5, 1, 5, -2};
        both_fail(make_bad_target, &l, "cross_entropy: target 5: expected below 5");
        l.target_dtype = WEFT_INT64;
        l.lowest_target = 0x1p32;
        both_fail(make_bad_target, &l, "cross_entropy: target 4294967296: expected below 5");
    }
}

/* ---- AdamW ---------------------------------------------------------------------------------- */

typedef struct optimizer {
    weft_dtype parameter, gradient, moments, hyper;
    int64_t n;
    double apply;
    bool moments_wanted; /* m and v one after the other, otherwise the parameter */
} optimizer;

/* Two steps, the second in the memory of the first. */
static weft_array *make_steps(const void *context)
{
    const optimizer *o = context;
    weft_dims shape = WEFT_DIMS(o->n);
    const double numbers[] = {0.03, 0.7, 0.1, 0.002, o->apply};
    weft_array *out[3] = {both_draw(shape, o->parameter, -2, 2),
                          both_draw(shape, o->moments, -1, 1), both_draw(shape, o->moments, 0, 1)};
    weft_array *gradient = both_draw(shape, o->gradient, -1, 1);
    weft_array *hyper = both_list(numbers, WEFT_DIMS(5), o->hyper);
    for (int step = 0; step < 2; step++) {
        weft_adamw(out[0], gradient, out[1], out[2], hyper, 0.9, 0.99, 1e-8, 0.1, out);
    }
    return o->moments_wanted ? weft_concatenate(out + 1, 2, 0) : out[0];
}

static void steps_of_the_optimizer(void)
{
    static const optimizer all[] = {
        {WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, 100003, 1, false},
        {WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, 1000, 1, false},
        {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT32, 257, 1, false},
        {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT32, 1, 1, false},
        {WEFT_FLOAT64, WEFT_FLOAT64, WEFT_FLOAT64, WEFT_FLOAT64, 999, 1, false},
        {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT64, WEFT_FLOAT32, 999, 1, false},
        {WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32, 777, 0, false},
    };
    if (!both_there()) {
        return;
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char label[80];
        snprintf(label, sizeof label, "step %zu", i);
        double tolerance = all[i].parameter == WEFT_BFLOAT16  ? 0x1p-7
                           : all[i].parameter == WEFT_FLOAT16 ? 0x1p-10
                           : all[i].moments == WEFT_FLOAT64   ? 1e-12
                                                              : 2e-6;
        optimizer o = all[i];
        both_same(make_steps, &o, o.apply != 0 ? tolerance : 0, label);
        o.moments_wanted = true;
        both_same(make_steps, &o, o.apply != 0 ? fmin(tolerance, 2e-6) : 0, label);
    }
}

CHECK_MAIN("vulkan_losses", CHECK_CASE(losses_of_all_sizes), CHECK_CASE(targets_of_all_types),
           CHECK_CASE(extreme_logits), CHECK_CASE(targets_beyond_the_vocabulary_fail),
           CHECK_CASE(steps_of_the_optimizer))
