/* tests/train/test_optimizer.c -- AdamW against its formula in double, clipping, updates that are
 * not finite, master copies. */
#include <math.h>

#include "tests/check.h"
#include "weft/train.h"

enum { N = 5, STEPS = 12 };

/* AdamW as Loshchilov & Hutter write it, on doubles. */
typedef struct reference {
    double p[N], m[N], v[N];
    double lr, beta1, beta2, eps, decay;
    int t;
} reference;

static void reference_step(reference *r, const double *g, double factor, double scale)
{
    r->t++;
    for (int i = 0; i < N; i++) {
        const double gradient = g[i] * scale, lr = r->lr * factor;
        r->m[i] = r->beta1 * r->m[i] + (1 - r->beta1) * gradient;
        r->v[i] = r->beta2 * r->v[i] + (1 - r->beta2) * gradient * gradient;
        const double m = r->m[i] / (1 - pow(r->beta1, r->t));
        const double v = r->v[i] / (1 - pow(r->beta2, r->t));
        r->p[i] -= lr * r->decay * r->p[i];
        r->p[i] -= lr * m / (sqrt(v) + r->eps);
    }
}

static void gradient_at(int step, double *g)
{
    for (int i = 0; i < N; i++)
        g[i] = sin(1 + step * 1.7 + i) * (i + 1);
}

static double norm_of(const double *g)
{
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += g[i] * g[i];
    return sqrt(sum);
}

/* A slot with the reference's parameters. */
static weft_array *new_slot(const reference *r, weft_dtype dtype)
{
    weft_array *slot = NULL;
    weft_scope_open();
    CHECK_OK(weft_set(&slot,
                      weft_astype(weft_from_data(r->p, WEFT_FLOAT64, (weft_dims){1, {N}}), dtype)));
    weft_scope_close(NULL);
    return slot;
}

static bool update(weft_optimizer *o, const double *g, weft_dtype dtype, weft_optimizer_call *call)
{
    weft_scope_open();
    weft_array *array = weft_astype(weft_from_data(g, WEFT_FLOAT64, (weft_dims){1, {N}}), dtype);
    const bool done = CHECK_OK(weft_optimizer_update(o, &array, call));
    weft_scope_close(NULL);
    return done;
}

static void check_slot(weft_array *slot, const double *expected, double tolerance)
{
    double values[N];
    if (CHECK_OK(weft_read(slot, WEFT_FLOAT64, values, N))) {
        for (int i = 0; i < N; i++)
            CHECK_CLOSE(values[i], expected[i], tolerance);
    }
}

static const reference start = {.p = {1, -0.5, 0.25, 2, -3},
                                .lr = 0.02,
                                .beta1 = 0.8,
                                .beta2 = 0.95,
                                .eps = 1e-6,
                                .decay = 0.1};
static const weft_adamw_options options = {
    .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1};

/* Runs STEPS updates in the dtype, clipped if clip > 0, beside the reference. */
static void follow_reference(weft_dtype dtype, double clip, double tolerance)
{
    reference r = start;
    weft_array *slot = new_slot(&r, dtype), **slots[] = {&slot};
    weft_optimizer *o;
    if (CHECK_OK(weft_optimizer_new(slots, 1, &options, &o))) {
        for (int s = 0; s < STEPS; s++) {
            double g[N];
            gradient_at(s, g);
            weft_optimizer_call call = {.lr_factor = 1 - s / 20.0, .clip = clip};
            if (!update(o, g, dtype == WEFT_BFLOAT16 ? WEFT_FLOAT32 : dtype, &call))
                break;
            const double norm = norm_of(g);
            CHECK_RELATIVE(call.grad_norm, norm, 1e-6);
            CHECK(call.applied);
            reference_step(&r, g, call.lr_factor,
                           clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1);
        }
        CHECK_EQ_INT(weft_optimizer_steps(o), STEPS);
        CHECK_EQ_INT(weft_dtype_of(slot), dtype);
        check_slot(slot, r.p, tolerance);
    }
    weft_optimizer_free(o);
    weft_drop(slot);
}

static void float32_follows_the_formula(void)
{
    follow_reference(WEFT_FLOAT32, 0, 2e-6);
}

static void clipping_scales_by_the_global_norm(void)
{
    follow_reference(WEFT_FLOAT32, 2.5, 2e-6);
    follow_reference(WEFT_FLOAT32, 1e9, 2e-6);
}

/* Twelve updates of about 0.02 are below bfloat16's resolution at 3: without the master copy they
 * would be lost or add up to something else. */
static void bfloat16_is_the_rounded_master(void)
{
    follow_reference(WEFT_BFLOAT16, 0, 8e-3);
    reference r = start;
    weft_array *slot = new_slot(&r, WEFT_BFLOAT16), **slots[] = {&slot};
    weft_optimizer *o;
    if (CHECK_OK(weft_optimizer_new(slots, 1, &(weft_adamw_options){.lr = 1e-4}, &o))) {
        const double g[N] = {1, 1, 1, 1, 1};
        for (int s = 0; s < 50; s++)
            update(o, g, WEFT_FLOAT32, &(weft_optimizer_call){.lr_factor = 1});
        int n;
        weft_array ***state = weft_optimizer_state(o, &n);
        CHECK_EQ_INT(n, 3);
        double master[N], stored[N];
        CHECK_OK(weft_read(*state[2], WEFT_FLOAT64, master, N));
        CHECK_OK(weft_read(slot, WEFT_FLOAT64, stored, N));
        for (int i = 0; i < N; i++) {
            CHECK_CLOSE(master[i], start.p[i] - 50e-4, 2e-4); /* and the decay */
            CHECK_RELATIVE(stored[i], master[i], 1.0 / 256);
        }
    }
    weft_optimizer_free(o);
    weft_drop(slot);
}

static void defaults_are_pytorchs_but_for_the_rate(void)
{
    reference r = {.p = {1, -0.5, 0.25, 2, -3},
                   .lr = 1e-5,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .eps = 1e-8,
                   .decay = 0.01};
    weft_array *slot = new_slot(&r, WEFT_FLOAT64), **slots[] = {&slot};
    weft_optimizer *o;
    if (CHECK_OK(weft_optimizer_new(slots, 1, NULL, &o))) {
        for (int s = 0; s < STEPS; s++) {
            double g[N];
            gradient_at(s, g);
            update(o, g, WEFT_FLOAT64, &(weft_optimizer_call){.lr_factor = 1});
            reference_step(&r, g, 1, 1);
        }
        check_slot(slot, r.p, 1e-10);
    }
    weft_optimizer_free(o);
    weft_drop(slot);
}

typedef struct snapshot {
    float p[N], m[N], v[N];
} snapshot;

static snapshot look(weft_optimizer *o, weft_array *p)
{
    int n;
    snapshot s = {{0}, {0}, {0}};
    weft_array ***state = weft_optimizer_state(o, &n);
    CHECK_OK(weft_read(p, WEFT_FLOAT32, s.p, N));
    CHECK_OK(weft_read(*state[0], WEFT_FLOAT32, s.m, N));
    CHECK_OK(weft_read(*state[1], WEFT_FLOAT32, s.v, N));
    return s;
}

/* An update with that loss and gradient leaves parameter and moments bit for bit what they were. */
static void expect_unchanged(weft_optimizer *o, weft_array *const *slot, double loss,
                             const double *g)
{
    const snapshot before = look(o, *slot);
    weft_scope_open();
    weft_optimizer_call call = {.lr_factor = 1, .loss = weft_scalar(loss, WEFT_FLOAT32)};
    update(o, g, WEFT_FLOAT32, &call);
    weft_scope_close(NULL);
    CHECK(!call.applied);
    const snapshot after = look(o, *slot);
    CHECK_BYTES(&after, &before, sizeof after);
}

static void not_finite_changes_nothing(void)
{
    reference r = start;
    weft_array *slot = new_slot(&r, WEFT_FLOAT32), **slots[] = {&slot};
    weft_optimizer *o;
    if (!CHECK_OK(weft_optimizer_new(slots, 1, &options, &o)))
        return;
    double g[N];
    gradient_at(0, g);
    update(o, g, WEFT_FLOAT32, &(weft_optimizer_call){.lr_factor = 1});
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        expect_unchanged(o, &slot, bad[i], g);
        double worse[N];
        gradient_at(1, worse);
        worse[2] = bad[i];
        expect_unchanged(o, &slot, 1, worse);
    }
    CHECK_EQ_INT(weft_optimizer_steps(o), 1);
    /* The next update is the second one. */
    gradient_at(1, g);
    update(o, g, WEFT_FLOAT32, &(weft_optimizer_call){.lr_factor = 1});
    double first[N];
    gradient_at(0, first);
    reference_step(&r, first, 1, 1);
    reference_step(&r, g, 1, 1);
    check_slot(slot, r.p, 2e-6);
    weft_optimizer_free(o);
    weft_drop(slot);
}

static void bad_input_is_refused(void)
{
    weft_optimizer *o;
    weft_array *empty = NULL, **slots[] = {&empty};
    CHECK_STATUS(weft_optimizer_new(slots, 1, NULL, &o), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "slot 0");
    CHECK(o == NULL);
    weft_array *slot = new_slot(&start, WEFT_INT32);
    slots[0] = &slot;
    CHECK_STATUS(weft_optimizer_new(slots, 1, NULL, &o), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "int32");
    weft_drop(slot);
    slot = new_slot(&start, WEFT_FLOAT32);
    CHECK_STATUS(weft_optimizer_new(slots, 1, &(weft_adamw_options){.lr = -1}, &o), WEFT_INVALID);
    CHECK_STATUS(weft_optimizer_new(slots, 1, &(weft_adamw_options){.beta2 = 1}, &o), WEFT_INVALID);
    weft_drop(slot);
}

static void global_norm_is_over_all_arrays(void)
{
    weft_scope_open();
    weft_array *arrays[] = {weft_full(WEFT_DIMS(2, 2), 1, WEFT_FLOAT32),
                            weft_full(WEFT_DIMS(3), 2, WEFT_BFLOAT16)};
    CHECK_RELATIVE(weft_item(weft_global_norm(arrays, 2)), 4, 1e-6);
    weft_scope_close(NULL);
}

CHECK_MAIN("optimizer", CHECK_CASE(float32_follows_the_formula),
           CHECK_CASE(clipping_scales_by_the_global_norm),
           CHECK_CASE(bfloat16_is_the_rounded_master),
           CHECK_CASE(defaults_are_pytorchs_but_for_the_rate),
           CHECK_CASE(not_finite_changes_nothing), CHECK_CASE(bad_input_is_refused),
           CHECK_CASE(global_norm_is_over_all_arrays))
