/* tests/vulkan/test_loss_slices.c -- the loss fused with a product, divided into slices of rows and
 * blocks of vocabulary entries, as matrix cores divide large problems: against float64, and with
 * the same bits for every number of slices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/vulkan/kernels/linear_cross_entropy.h"
#include "backends/vulkan/pace.h"
#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/op_params.h"

/* A chunk has several slices only if the vocabulary has several blocks, so if the weight is
 * encoded. */
typedef struct problem {
    int64_t N, E, V;
    const char *encoding; /* of the weight, in blocks of 256 entries; NULL: none */
    double softcap;
    int64_t slice; /* rows */
    weft_dtype target;
} problem;

typedef struct operands {
    weft_array *in[3]; /* hidden states, weight, targets */
} operands;

/* The division of the problem: blocks of 256 entries in bfloat16, and slices of rows. */
static void limit(const problem *p, int64_t slices)
{
    const weft__vulkan_loss_limits limits = {
        .logits = 4 * p->V * p->slice, .decoded = 256 * p->E * 2, .slices = slices, .narrow = true};
    weft__vulkan_limit_losses(&limits);
}

/* Targets in every block. Some are ignored: single ones, and all of the first slice's last rows. */
static weft_array *targets_of(const problem *p)
{
    double *targets = calloc((size_t)p->N, sizeof *targets);
    for (int64_t i = 0; targets && i < p->N; i++) {
        const bool ignored = i % 5 == 3 || (i >= p->slice / 2 && i < p->slice);
        targets[i] = ignored ? (double)(-1 - i % 100) : (double)(i * 233 % p->V);
    }
    weft_array *t = both_list(targets, WEFT_DIMS(p->N), p->target);
    free(targets);
    return t;
}

/* The scores have a standard deviation of 3: many entries contribute to each gradient. */
static operands operands_of(const problem *p)
{
    const double size = 4.5 / sqrt((double)p->E);
    weft_array *w = both_draw(WEFT_DIMS(p->V, p->E), WEFT_BFLOAT16, -size, size);
    if (p->encoding)
        w = weft_encode(w, weft_gguf_encoding(p->encoding));
    operands o = {{both_draw(WEFT_DIMS(p->N, p->E), WEFT_BFLOAT16, -2, 2), w, targets_of(p)}};
    CHECK_OK(weft_eval_n(o.in, 3));
    return o;
}

/* Losses, gradients and entropies. */
typedef struct results {
    weft_array *out[3];
    int64_t commands;
} results;

static int64_t commands(void)
{
    weft_counter all[16];
    const int n = weft_device_counters(weft_default_device(), all, 16);
    return n > 1 ? all[1].value : 0; /* "commands" */
}

static results results_of(const problem *p, const operands *o, const char *label)
{
    const weft_linear_cross_entropy_params params = {
        .softcap = p->softcap, .with_gradient = true, .with_entropy = true};
    weft_array *y = weft_apply(weft_op_find("linear_cross_entropy"), o->in, 3, &params);
    results r = {{weft_pick(y, 0), weft_pick(y, 1), weft_pick(y, 2)}, commands()};
    weft_device_reset_counts(weft_default_device());
    CHECK_OK(weft_eval(y));
    const weft_counts counts = weft_device_counts(weft_default_device());
    check_that(counts.rows == 1 && counts.references + counts.expansions == 0, __FILE__, __LINE__,
               "%s: not by its kernel", label);
    r.commands = commands() - r.commands;
    return r;
}

/* In float64, of the decoded weight. */
static weft_array *exact_of(const problem *p, const operands *o, int which)
{
    const weft_linear_cross_entropy_params params = {
        .softcap = p->softcap, .with_gradient = true, .with_entropy = true};
    weft_array *in[3];
    for (int i = 0; i < 3; i++) {
        weft_array *a = weft_encoding_of(o->in[i]) ? weft_decode(o->in[i]) : o->in[i];
        a = weft_to(a, weft_device_get("cpu"));
        in[i] = i < 2 ? weft_astype(a, WEFT_FLOAT64) : a;
    }
    return weft_pick(weft_apply(weft_op_find("linear_cross_entropy"), in, 3, &params), which);
}

/* |difference| <= unit * |exact| + absolute. */
static void compare(weft_array *actual, weft_array *exact, double unit, double absolute,
                    const char *label)
{
    const int64_t n = weft_size(exact);
    double *a = calloc((size_t)n, sizeof *a), *e = calloc((size_t)n, sizeof *e);
    bool fine = CHECK_EQ_INT(weft_size(actual), n) &&
                CHECK_OK(weft_read(actual, WEFT_FLOAT64, a, n)) &&
                CHECK_OK(weft_read(exact, WEFT_FLOAT64, e, n));
    for (int64_t i = 0; i < n && fine; i++)
        fine = check_that(fabs(a[i] - e[i]) <= unit * fabs(e[i]) + absolute, __FILE__, __LINE__,
                          "%s: element %lld: expected %.9g, got %.9g", label, (long long)i, e[i],
                          a[i]);
    free(a);
    free(e);
}

static const problem problems[] = {
    {47, 64, 600, "Q8_0", 0, 5, WEFT_INT32},  /* two chunks of four slices, then 5 and 2 rows */
    {47, 64, 2600, "Q8_0", 6, 5, WEFT_INT64}, /* more entries than a workgroup loads at once */
    {40, 256, 776, "Q4_K", 6, 5, WEFT_INT32}, /* whole chunks */
    {13, 64, 504, "Q8_0", 0, 5, WEFT_INT8},   /* fewer rows than a chunk, two blocks */
    {3, 64, 600, "Q8_0", 6, 5, WEFT_INT32},   /* fewer rows than a slice */
    {700, 64, 600, "Q8_0", 0, 128, WEFT_INT32},
    {47, 64, 600, NULL, 6, 5, WEFT_INT32},
    {47, 64, 2600, NULL, 0, 5, WEFT_INT32},
    {300, 64, 600, NULL, 0, 128, WEFT_INT64},
    /* The last case: the terms of one slice's products are divided, those of two slices planned
     * together would not be. */
    {1024, 2048, 264, "Q4_K", 0, 512, WEFT_INT32},
};

static void label_of(const problem *p, char *out, size_t size)
{
    snprintf(out, size, "%lldx%lldx%lld %s, slices of %lld, softcap %g", (long long)p->N,
             (long long)p->E, (long long)p->V, p->encoding ? p->encoding : "dense",
             (long long)p->slice, p->softcap);
}

static void check_values(const problem *p)
{
    char label[120];
    label_of(p, label, sizeof label);
    weft_scope_open();
    const operands o = operands_of(p);
    limit(p, 0);
    const results r = results_of(p, &o, label);
    compare(r.out[0], exact_of(p, &o, 0), 0, 2e-5, label);
    compare(r.out[2], exact_of(p, &o, 2), 0, 2e-5, label);
    /* The logits' gradients are rounded to bfloat16; their magnitudes add up to at most 2. */
    compare(r.out[1], exact_of(p, &o, 1), 0x1p-8, 0x1p-8 * 4.5 / sqrt((double)p->E), label);
    weft_scope_close(NULL);
}

static void check_bits(const problem *p)
{
    char label[120];
    label_of(p, label, sizeof label);
    weft_scope_open();
    const operands o = operands_of(p);
    limit(p, 1);
    const results one = results_of(p, &o, label);
    limit(p, 0);
    const results many = results_of(p, &o, label);
    for (int i = 0; i < 3; i++)
        check_that(both_equal(many.out[i], one.out[i]), __FILE__, __LINE__,
                   "%s: output %d: bits differ", label, i);
    if (p->encoding && p->N > p->slice)
        check_that(many.commands < one.commands, __FILE__, __LINE__,
                   "%s: %lld commands, of single slices %lld", label, (long long)many.commands,
                   (long long)one.commands);
    else
        CHECK_EQ_INT(many.commands, one.commands);
    weft_scope_close(NULL);
}

static void check_all(void (*check)(const problem *p))
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    weft__vulkan_most_work = 1e18; /* no launch is divided: commands are counted */
    const size_t n = sizeof problems / sizeof *problems;
    for (size_t i = 0; i < n - both_few(); i++) /* the last takes seconds in software */
        check(&problems[i]);
    weft__vulkan_most_work = 0;
    weft__vulkan_limit_losses(NULL);
    weft_set_default_device(weft_device_get("cpu"));
}

static void losses_and_gradients_are_those_of_float64(void)
{
    check_all(check_values);
}

static void every_number_of_slices_gives_the_same_bits(void)
{
    check_all(check_bits);
}

CHECK_MAIN("vulkan_loss_slices", CHECK_CASE(losses_and_gradients_are_those_of_float64),
           CHECK_CASE(every_number_of_slices_gives_the_same_bits))
