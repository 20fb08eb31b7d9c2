/* tests/optim/test_apply.c -- weft_optim_apply: AdamW against its formula in double, clipping,
 * non-finite updates with every type, master copies. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/optim/scenes.h"
#include "tests/optim/states.h"
#include "tests/support/golden.h"

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

static bool update(weft_optim *o, const double *g, weft_dtype dtype, weft_optim_call *call)
{
    weft_scope_open();
    weft_array *array = weft_astype(weft_from_data(g, WEFT_FLOAT64, (weft_dims){1, {N}}), dtype);
    const bool done = CHECK_OK(weft_optim_apply(o, &array, call));
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
static const weft_optim_adamw_options options = {
    .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6, .weight_decay = 0.1, .bias_correction = true};

/* AdamW over one slot; NULL options: bias correction alone. */
static weft_status new_adamw(weft_array **slot, double lr, const weft_optim_adamw_options *o,
                             weft_optim **out)
{
    static const weft_optim_adamw_options corrected = {.bias_correction = true};
    char *path = "p";
    const weft_nn_slots slots = {.slots = &slot, .paths = &path, .n = 1};
    const weft_optim_group group = {
        .type = &weft_optim_adamw, .options = o ? o : &corrected, .learning_rate = lr};
    return weft_optim_new(&slots, &group, 1, out);
}

/* Runs STEPS updates in the dtype, clipped if clip > 0, beside the reference. */
static void follow_reference(weft_dtype dtype, double clip, double tolerance)
{
    reference r = start;
    weft_array *slot = new_slot(&r, dtype);
    weft_optim *o;
    if (CHECK_OK(new_adamw(&slot, 0.02, &options, &o))) {
        for (int s = 0; s < STEPS; s++) {
            double g[N];
            gradient_at(s, g);
            weft_optim_call call = {.lr_factor = 1 - s / 20.0, .clip = clip};
            if (!update(o, g, dtype == WEFT_BFLOAT16 ? WEFT_FLOAT32 : dtype, &call))
                break;
            const double norm = norm_of(g);
            CHECK_RELATIVE(call.grad_norm, norm, 1e-6);
            CHECK(call.applied);
            reference_step(&r, g, call.lr_factor,
                           clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1);
        }
        CHECK_EQ_INT(weft_optim_step_count(o), STEPS);
        CHECK_EQ_INT(weft_dtype_of(slot), dtype);
        check_slot(slot, r.p, tolerance);
    }
    weft_optim_free(o);
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

/* Twelve updates of about 0.02 are at bfloat16's resolution near 3: without the master copy they
 * would be lost or add up to another sum. */
static void bfloat16_is_the_rounded_master(void)
{
    follow_reference(WEFT_BFLOAT16, 0, 8e-3);
    reference r = start;
    weft_array *slot = new_slot(&r, WEFT_BFLOAT16);
    weft_optim *o;
    if (CHECK_OK(new_adamw(&slot, 1e-4, NULL, &o))) {
        const double g[N] = {1, 1, 1, 1, 1};
        for (int s = 0; s < 50; s++)
            update(o, g, WEFT_FLOAT32, &(weft_optim_call){.lr_factor = 1});
        double master[N], stored[N];
        CHECK_OK(weft_read(state_of(o, "p.master"), WEFT_FLOAT64, master, N));
        CHECK_OK(weft_read(slot, WEFT_FLOAT64, stored, N));
        for (int i = 0; i < N; i++) {
            CHECK_CLOSE(master[i], start.p[i] - 50e-4, 2e-4); /* and the decay */
            CHECK_RELATIVE(stored[i], master[i], 1.0 / 256);
        }
    }
    weft_optim_free(o);
    weft_drop(slot);
}

static void defaults_equal_pytorch(void)
{
    reference r = {.p = {1, -0.5, 0.25, 2, -3},
                   .lr = 1e-5,
                   .beta1 = 0.9,
                   .beta2 = 0.999,
                   .eps = 1e-8,
                   .decay = 0.01};
    weft_array *slot = new_slot(&r, WEFT_FLOAT64);
    weft_optim *o;
    if (CHECK_OK(new_adamw(&slot, 1e-5, NULL, &o))) {
        for (int s = 0; s < STEPS; s++) {
            double g[N];
            gradient_at(s, g);
            update(o, g, WEFT_FLOAT64, &(weft_optim_call){.lr_factor = 1});
            reference_step(&r, g, 1, 1);
        }
        check_slot(slot, r.p, 1e-10);
    }
    weft_optim_free(o);
    weft_drop(slot);
}

typedef struct snapshot {
    float p[N], m[N], v[N];
} snapshot;

static snapshot look(weft_optim *o, weft_array *p)
{
    snapshot s = {{0}, {0}, {0}};
    CHECK_OK(weft_read(p, WEFT_FLOAT32, s.p, N));
    CHECK_OK(weft_read(state_of(o, "p.m"), WEFT_FLOAT32, s.m, N));
    CHECK_OK(weft_read(state_of(o, "p.v"), WEFT_FLOAT32, s.v, N));
    return s;
}

/* An update with that loss and gradient leaves parameter and moments bit for bit what they were. */
static void expect_unchanged(weft_optim *o, weft_array *const *slot, double loss, const double *g)
{
    const snapshot before = look(o, *slot);
    weft_scope_open();
    weft_optim_call call = {.lr_factor = 1, .loss = weft_scalar(loss, WEFT_FLOAT32)};
    update(o, g, WEFT_FLOAT32, &call);
    weft_scope_close(NULL);
    CHECK(!call.applied);
    const snapshot after = look(o, *slot);
    CHECK_BYTES(&after, &before, sizeof after);
}

static void steps_that_are_not_finite_change_nothing(void)
{
    reference r = start;
    weft_array *slot = new_slot(&r, WEFT_FLOAT32);
    weft_optim *o;
    if (!CHECK_OK(new_adamw(&slot, 0.02, &options, &o)))
        return;
    double g[N];
    gradient_at(0, g);
    update(o, g, WEFT_FLOAT32, &(weft_optim_call){.lr_factor = 1});
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        expect_unchanged(o, &slot, bad[i], g);
        double worse[N];
        gradient_at(1, worse);
        worse[2] = bad[i];
        expect_unchanged(o, &slot, 1, worse);
    }
    CHECK_EQ_INT(weft_optim_step_count(o), 1);
    /* The next update is the second one. */
    gradient_at(1, g);
    update(o, g, WEFT_FLOAT32, &(weft_optim_call){.lr_factor = 1});
    double first[N];
    gradient_at(0, first);
    reference_step(&r, first, 1, 1);
    reference_step(&r, g, 1, 1);
    check_slot(slot, r.p, 2e-6);
    weft_optim_free(o);
    weft_drop(slot);
}

static void bad_input_is_refused(void)
{
    weft_optim *o;
    weft_array *slot = NULL;
    CHECK_STATUS(new_adamw(&slot, 1, NULL, &o), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "p: expected a float array, got none");
    CHECK(o == NULL);
    slot = new_slot(&start, WEFT_INT32);
    CHECK_STATUS(new_adamw(&slot, 1, NULL, &o), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "int32");
    weft_drop(slot);
    slot = new_slot(&start, WEFT_FLOAT32);
    CHECK_STATUS(new_adamw(&slot, -1, NULL, &o), WEFT_INVALID);
    CHECK_STATUS(new_adamw(&slot, 1, &(weft_optim_adamw_options){.beta2 = 1}, &o), WEFT_INVALID);
    if (CHECK_OK(new_adamw(&slot, 1, NULL, &o))) {
        weft_scope_open();
        weft_array *g = weft_ones_like(slot);
        CHECK_STATUS(weft_optim_apply(o, &g, &(weft_optim_call){.clip = -1}), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "clip");
        weft_optim_call failed = {.loss = weft_error_array("no loss")};
        CHECK_STATUS(weft_optim_apply(o, &g, &failed), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "no loss");
        CHECK_OK(weft_optim_accumulate(o, 2));
        CHECK_STATUS(weft_optim_apply(o, &g, &(weft_optim_call){.lr_factor = 1}), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "accumulates");
        weft_scope_close(NULL);
    }
    weft_optim_free(o);
    weft_drop(slot);
}

/* ---- every type ----------------------------------------------------------------------------- */

/* An optimizer of the scene by a golden run's type. */
static weft_optim *optimizer_of(const run *r, const scene *s)
{
    weft_optim *o = NULL;
    const weft_optim_group group = {
        .type = r->type, .options = r->options, .learning_rate = r->learning_rate};
    CHECK_OK(weft_optim_new(&s->slots, &group, 1, &o));
    return o;
}

/* The sum of squares and the hash of the bytes of all parameters and states. */
static uint64_t fingerprint(weft_optim *o)
{
    int n;
    uint64_t hash = 0;
    weft_array ***slots = weft_optim_slots(o, &n);
    for (int i = 0; i < n; i++) {
        double values[64];
        const int64_t size = weft_size(*slots[i]);
        if (!CHECK(size <= 64) || !CHECK_OK(weft_read(*slots[i], WEFT_FLOAT64, values, size)))
            continue;
        const unsigned char *bytes = (const unsigned char *)values;
        for (size_t j = 0; j < (size_t)size * sizeof *values; j++)
            hash = (hash ^ bytes[j]) * 1099511628211u;
    }
    return hash;
}

/* A guarded update is the plain one of clipped gradients, at the scaled rate. */
static void every_type_is_clipped(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++) {
        scene plain, guarded;
        scene_start(&plain, WEFT_FLOAT32);
        scene_start(&guarded, WEFT_FLOAT32);
        weft_optim *a = optimizer_of(&runs[i], &plain), *b = optimizer_of(&runs[i], &guarded);
        for (int t = 0; a && b && t < 4; t++) {
            weft_array *g[SCENE_PARAMETERS], *clipped[SCENE_PARAMETERS];
            weft_scope_open();
            scene_gradients(t, WEFT_FLOAT32, g);
            weft_clip_grad_norm(g, SCENE_PARAMETERS, 0.5, clipped);
            CHECK_OK(weft_optim_update(a, clipped));
            weft_optim_call call = {.lr_factor = 1, .clip = 0.5};
            CHECK_OK(weft_optim_apply(b, g, &call));
            CHECK(call.applied && call.grad_norm > 0.5);
            for (int p = 0; p < SCENE_PARAMETERS; p++) {
                weft_array *off = weft_abs(weft_subtract(plain.arrays[p], guarded.arrays[p]));
                CHECK_CLOSE(weft_item(weft_max(off, WEFT_ALL_AXES, false)), 0, 1e-6);
            }
            weft_scope_close(NULL);
        }
        CHECK_EQ_INT(weft_optim_step_count(b), 4);
        weft_optim_free(a);
        weft_optim_free(b);
        scene_end(&plain);
        scene_end(&guarded);
    }
}

static void steps_that_are_not_finite_change_nothing_in_any_type(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++) {
        scene s;
        scene_start(&s, WEFT_FLOAT32);
        weft_optim *o = optimizer_of(&runs[i], &s);
        for (int t = 0; o && t < 4; t++) {
            weft_array *g[SCENE_PARAMETERS];
            weft_scope_open();
            scene_gradients(t, WEFT_FLOAT32, g);
            weft_optim_call call = {.lr_factor = 1, .clip = t == 3 ? 1 : 0};
            if (t == 1)
                call.loss = weft_scalar(NAN, WEFT_FLOAT32);
            if (t >= 2)
                g[1] = weft_scale(g[1], INFINITY);
            const uint64_t before = fingerprint(o);
            CHECK_OK(weft_optim_apply(o, g, &call));
            CHECK(call.applied == (t == 0));
            CHECK((fingerprint(o) == before) == (t > 0));
            weft_scope_close(NULL);
        }
        CHECK_EQ_INT(weft_optim_step_count(o), 1);
        weft_optim_free(o);
        scene_end(&s);
    }
}

/* A factor of zero changes only the states. */
static void the_factor_scales_the_rate(void)
{
    const double g[N] = {1, -1, 1, 1, -1};
    weft_array *slot = new_slot(&start, WEFT_FLOAT32);
    weft_optim *o = NULL;
    const weft_optim_adamw_options plain = {.weight_decay = -1, .bias_correction = true};
    if (CHECK_OK(new_adamw(&slot, 0.1, &plain, &o))) {
        weft_optim_call call = {.lr_factor = 0};
        update(o, g, WEFT_FLOAT32, &call);
        check_slot(slot, start.p, 0);
        call.lr_factor = 0.5;
        update(o, g, WEFT_FLOAT32, &call);
        double expected[N];
        for (int i = 0; i < N; i++)
            expected[i] = start.p[i] - 0.05 * g[i];
        check_slot(slot, expected, 1e-6);
        CHECK_CLOSE(weft_optim_learning_rate(o, 0), 0.1, 0);
    }
    weft_optim_free(o);
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

CHECK_MAIN("apply", CHECK_CASE(float32_follows_the_formula),
           CHECK_CASE(clipping_scales_by_the_global_norm),
           CHECK_CASE(bfloat16_is_the_rounded_master), CHECK_CASE(defaults_equal_pytorch),
           CHECK_CASE(steps_that_are_not_finite_change_nothing), CHECK_CASE(bad_input_is_refused),
           CHECK_CASE(every_type_is_clipped),
           CHECK_CASE(steps_that_are_not_finite_change_nothing_in_any_type),
           CHECK_CASE(the_factor_scales_the_rate), CHECK_CASE(global_norm_is_over_all_arrays))
