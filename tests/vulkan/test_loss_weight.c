/* tests/vulkan/test_loss_weight.c -- the gradient of the fused loss with respect to the weight, in
 * blocks of vocabulary entries: against float64, also with logits' gradients in bfloat16, as for
 * matrix cores. The CPU's kernel too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/vulkan/kernels/linear_cross_entropy.h"
#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/op_params.h"

typedef struct problem {
    int64_t N, E, V;
    weft_dtype x, weight, target;
    double softcap;
    int64_t block; /* vocabulary entries, at least 256; 0: the default */
    bool narrow;   /* logits' gradients in bfloat16 without matrix cores, too */
} problem;

static const problem problems[] = {
    {47, 64, 600, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT32, 0, 256, true},
    {47, 64, 2600, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT64, 6, 0, true},
    {300, 40, 776, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT16, 6, 256, true},
    {47, 64, 600, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT32, 0, 256, false},
    {13, 33, 601, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT32, 0, 256, true}, /* odd: not narrow */
    {47, 64, 600, WEFT_FLOAT16, WEFT_FLOAT16, WEFT_INT8, 6, 256, false},
    {47, 64, 600, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_INT32, 0, 256, false},
    {47, 64, 600, WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_INT32, 6, 0, false},
    {1, 1, 1, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_INT32, 0, 0, false},
};

enum { X, WEIGHT, TARGETS, LSE, CT, INPUTS };

/* Some targets are ignored, and some rows have no weight. */
static void operands_of(const problem *p, weft_array **in)
{
    const double size = 4.5 / sqrt((double)p->E);
    double targets[4096], ct[4096];
    for (int64_t i = 0; i < p->N; i++) {
        const int64_t classes = p->target == WEFT_INT8 && p->V > 127 ? 127 : p->V;
        targets[i] = i % 5 == 3 ? -1 : (double)(i * 233 % classes);
        ct[i] = i % 7 == 2 ? 0 : (i % 4 == 1 ? -1 : 1) * (double)(i + 1) / (double)p->N;
    }
    in[X] = both_draw(WEFT_DIMS(p->N, p->E), p->x, -2, 2);
    in[WEIGHT] = both_draw(WEFT_DIMS(p->V, p->E), p->weight, -size, size);
    in[TARGETS] = both_list(targets, WEFT_DIMS(p->N), p->target);
    in[CT] = both_list(ct, WEFT_DIMS(p->N), WEFT_FLOAT32);
}

static weft_array *on_cpu(weft_array *a, bool is_float)
{
    a = weft_to(a, weft_device_get("cpu"));
    return is_float ? weft_astype(a, WEFT_FLOAT64) : a;
}

static weft_array *gradient_of(const problem *p, weft_array *const *in)
{
    const weft_linear_cross_entropy_weight_grad_params params = {.softcap = p->softcap};
    return weft_apply(weft_op_find("linear_cross_entropy_weight_grad"), in, INPUTS, &params);
}

/* The largest error of a row and that of all, relative to their norms. */
static void errors_of(const problem *p, weft_array *actual, weft_array *exact, double errors[2])
{
    const int64_t n = p->V * p->E;
    double *a = calloc((size_t)n, sizeof *a), *e = calloc((size_t)n, sizeof *e);
    double all = 0, all_of = 0;
    errors[0] = errors[1] = INFINITY;
    if (a && e && CHECK_EQ_INT(weft_size(actual), n) &&
        CHECK_OK(weft_read(actual, WEFT_FLOAT64, a, n)) &&
        CHECK_OK(weft_read(exact, WEFT_FLOAT64, e, n))) {
        errors[0] = 0;
        for (int64_t v = 0; v < p->V; v++) {
            double row = 0, row_of = 0;
            for (int64_t i = v * p->E; i < (v + 1) * p->E; i++) {
                row += (a[i] - e[i]) * (a[i] - e[i]);
                row_of += e[i] * e[i];
            }
            const double error = row > 0 ? sqrt(row / row_of) : 0;
            errors[0] = error <= errors[0] ? errors[0] : error;
            all += row;
            all_of += row_of;
        }
        errors[1] = all > 0 ? sqrt(all / all_of) : 0;
    }
    free(a);
    free(e);
}

static bool on_vulkan(void)
{
    return weft_default_device() != weft_device_get("cpu");
}

/* Relative errors: of sums in float32, of the result's rounding and of that of the logits'
 * gradients. */
static double bound_of(const problem *p)
{
    const bool bfloat16 = p->x == WEFT_BFLOAT16 && p->weight == WEFT_BFLOAT16;
    const bool rounded = on_vulkan() ? bfloat16 && p->V % 8 == 0 && p->E % 8 == 0 &&
                                           (p->narrow || both_on_cores(WEFT_BFLOAT16))
                                     : p->weight == WEFT_BFLOAT16;
    const double unit = p->weight == WEFT_FLOAT32   ? 0
                        : p->weight == WEFT_FLOAT16 ? 0x1p-12
                                                    : 0x1p-9;
    return 1e-5 + unit + (rounded ? 0x1p-9 : 0);
}

static void check_problem(const problem *p)
{
    char label[120];
    snprintf(label, sizeof label, "%s %lldx%lldx%lld %s %s%s, softcap %g",
             on_vulkan() ? "vulkan" : "cpu", (long long)p->N, (long long)p->E, (long long)p->V,
             weft_dtype_name(p->x), weft_dtype_name(p->weight), p->narrow ? ", narrow" : "",
             p->softcap);
    const weft__vulkan_loss_limits limits = {.logits = 4 * p->N * p->block, .narrow = p->narrow};
    weft__vulkan_limit_losses(&limits);
    weft_scope_open();
    weft_array *in[INPUTS], *exact_in[INPUTS];
    operands_of(p, in);
    for (int i = 0; i < INPUTS; i++)
        exact_in[i] = i == LSE ? NULL : on_cpu(in[i], i != TARGETS);
    weft_array *logits = weft_linear(exact_in[X], exact_in[WEIGHT], NULL);
    logits = p->softcap > 0 ? weft_softcap(logits, p->softcap) : logits;
    exact_in[LSE] = weft_logsumexp(logits, WEFT_DIMS(-1), false);
    in[LSE] = weft_to(weft_astype(exact_in[LSE], WEFT_FLOAT32), weft_default_device());
    CHECK_OK(weft_eval_n(in, INPUTS));
    weft_array *actual = gradient_of(p, in);
    weft_device_reset_counts(weft_default_device());
    CHECK_OK(weft_eval(actual));
    const weft_counts counts = weft_device_counts(weft_default_device());
    check_that(counts.rows == 1 && counts.references + counts.expansions == 0, __FILE__, __LINE__,
               "%s: not by its kernel", label);
    double errors[2];
    errors_of(p, actual, gradient_of(p, exact_in), errors);
    printf("%s: error %.2e, of a row %.2e\n", label, errors[1], errors[0]);
    check_that(errors[1] <= bound_of(p) && errors[0] <= 2 * bound_of(p), __FILE__, __LINE__,
               "%s: error %g, of a row %g", label, errors[1], errors[0]);
    weft_scope_close(NULL);
}

static void gradients_are_those_of_float64(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_problem(&problems[i]);
    weft__vulkan_limit_losses(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

/* Also in several blocks, and in smaller blocks for many rows. */
static void gradients_of_the_cpu_are_those_of_float64(void)
{
    static const problem more[] = {
        {3000, 8, 1500, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_INT32, 0, 0, false},
        {3000, 8, 1500, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_INT32, 6, 0, false},
        {5, 72, 4100, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_INT64, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_problem(&problems[i]);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        check_problem(&more[i]);
}

/* On a card with matrix cores, in blocks as by default. */
static void large_gradients_are_those_of_float64(void)
{
    static const problem large = {1024,       512, 40000, WEFT_BFLOAT16, WEFT_BFLOAT16,
                                  WEFT_INT32, 0,   0,     true};
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    if (both_few())
        check_skip("takes seconds in software");
    else
        check_problem(&large);
    weft__vulkan_limit_losses(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_loss_weight", CHECK_CASE(gradients_are_those_of_float64),
           CHECK_CASE(gradients_of_the_cpu_are_those_of_float64),
           CHECK_CASE(large_gradients_are_those_of_float64))
