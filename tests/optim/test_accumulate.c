/* tests/optim/test_accumulate.c -- accumulated gradients: an update in every nth call equals the
 * update with the sum, for every optimizer, plain and compiled, through a file, and with missing
 * gradients. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/optim/scenes.h"
#include "tests/support/golden.h"
#include "weft/compile.h"
#include "weft/ops.h"

enum { PARTS = 3, CALLS = 9 };

static bool same(weft_array *a, weft_array *b)
{
    weft_scope_open();
    const bool equal = weft_item_int(weft_array_equal(a, b, false)) == 1;
    weft_scope_close(NULL);
    return equal;
}

/* One call; or, if t is the first of PARTS, an update with the sum computed here. */
static void call(weft_optim *o, int t, weft_dtype dtype, bool whole)
{
    weft_array *sum[SCENE_PARAMETERS], *more[SCENE_PARAMETERS];
    weft_scope_open();
    scene_gradients(t, dtype, sum);
    for (int part = 1; whole && part < PARTS; part++) {
        scene_gradients(t + part, dtype, more);
        for (int i = 0; i < SCENE_PARAMETERS; i++)
            sum[i] = weft_add(weft_astype(sum[i], WEFT_FLOAT32), more[i]);
    }
    CHECK_OK(weft_optim_update(o, sum));
    weft_scope_close(NULL);
}

/* Between updates only the sums change; the third call is the update with them. */
static void against_sums(const run *r, weft_dtype dtype)
{
    const weft_optim_group group = {
        .type = r->type, .options = r->options, .learning_rate = r->learning_rate};
    scene a, b;
    weft_optim *parts = NULL, *whole = NULL;
    scene_start(&a, dtype);
    scene_start(&b, dtype);
    if (CHECK_OK(weft_optim_new(&a.slots, &group, 1, &parts)) &&
        CHECK_OK(weft_optim_accumulate(parts, PARTS)) &&
        CHECK_OK(weft_optim_new(&b.slots, &group, 1, &whole))) {
        for (int t = 0; t < CALLS; t++) {
            call(parts, t, dtype, false);
            CHECK_EQ_INT(weft_optim_step_count(parts), (t + 1) / PARTS);
            if (t % PARTS == PARTS - 1)
                call(whole, t - PARTS + 1, dtype, true);
            for (int i = 0; i < SCENE_PARAMETERS; i++) {
                if (!same(a.arrays[i], b.arrays[i]))
                    CHECK_FAIL("%s: parameter %d after call %d", r->name, i, t);
            }
        }
    }
    weft_optim_free(parts);
    weft_optim_free(whole);
    scene_end(&a);
    scene_end(&b);
}

static void every_third_call_updates_with_the_sum(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++)
        against_sums(&runs[i], WEFT_FLOAT32);
    against_sums(&runs[0], WEFT_BFLOAT16);
    golden_close();
}

/* ---- compiled ------------------------------------------------------------------------------- */

typedef struct problem {
    scene s;
    weft_optim *optimizer;
} problem;

static int step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    problem *p = context;
    (void)room;
    out[0] = weft_sum(in[0], WEFT_ALL_AXES, false);
    weft_array *gradients[SCENE_PARAMETERS];
    for (int i = 0; i < n_in; i++)
        gradients[i] = in[i];
    if (weft_optim_update(p->optimizer, gradients) != WEFT_OK)
        out[0] = weft_error_array("update: %s", weft_error_message());
    return 1;
}

static bool start(problem *p, weft_dtype dtype)
{
    const weft_optim_adamw_options adam = {.bias_correction = true};
    const weft_optim_group group = {
        .type = &weft_optim_adamw, .options = &adam, .learning_rate = 0.01};
    *p = (problem){0};
    scene_start(&p->s, dtype);
    return CHECK_OK(weft_optim_new(&p->s.slots, &group, 1, &p->optimizer)) &&
           CHECK_OK(weft_optim_accumulate(p->optimizer, PARTS));
}

static void end(problem *p)
{
    weft_optim_free(p->optimizer);
    scene_end(&p->s);
}

static void run_both(weft_dtype dtype, double tolerance)
{
    problem plain, quick;
    weft_compiled *compiled = NULL;
    bool ready = start(&plain, dtype);
    ready = start(&quick, dtype) && ready;
    int n = 0;
    weft_array ***state = weft_optim_slots(quick.optimizer, &n);
    const weft_compile_options options = {.state_names = weft_optim_slot_names(quick.optimizer)};
    if (ready && CHECK_OK(weft_compile(step, &quick, state, n, &options, &compiled))) {
        for (int t = 0; t < CALLS; t++) {
            weft_array *gradients[SCENE_PARAMETERS], *out;
            weft_scope_open();
            scene_gradients(t, dtype, gradients);
            CHECK_OK(weft_eval_n(gradients, SCENE_PARAMETERS)); /* both use them */
            CHECK_OK(weft_optim_update(plain.optimizer, gradients));
            CHECK_OK(weft_compiled_call(compiled, gradients, SCENE_PARAMETERS, &out, 1));
            weft_scope_close(NULL);
        }
        CHECK_EQ_INT(weft_compiled_counts(compiled).traces, 1);
        CHECK_EQ_INT(weft_optim_step_count(quick.optimizer), CALLS / PARTS);
        weft_array ***other = weft_optim_slots(plain.optimizer, &n);
        for (int i = 0; i < n; i++) {
            weft_scope_open();
            weft_array *away =
                weft_max(weft_abs(weft_subtract(*state[i], *other[i])), WEFT_ALL_AXES, false);
            if (!CHECK_CLOSE(weft_item(away), 0, tolerance))
                CHECK_FAIL("%s", options.state_names[i]);
            weft_scope_close(NULL);
        }
    }
    weft_compiled_free(compiled);
    end(&plain);
    end(&quick);
}

/* Chains that are fused may round otherwise; a bfloat16 may then fall on the other side. */
static void compiled_once_for_all_calls(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    run_both(WEFT_FLOAT32, 1e-6);
    run_both(WEFT_BFLOAT16, 4e-3);
    golden_close();
}

/* ---- state ---------------------------------------------------------------------------------- */

/* Saved after the first of three calls, loaded by another, which continues as if it had not been
 * interrupted. */
static void sums_are_state(void)
{
    const char *path = check_temporary("accumulate.safetensors");
    if (!golden_open("optim/optimizers"))
        return;
    problem a, b;
    const bool has_a = start(&a, WEFT_FLOAT32), has_b = start(&b, WEFT_FLOAT32);
    if (has_a && has_b) {
        int n, found = 0;
        weft_optim_state(a.optimizer, &n);
        const char *const *names = weft_optim_state_names(a.optimizer);
        for (int i = 0; i < n; i++)
            found +=
                strcmp(names[i], "accumulated") == 0 || strcmp(names[i], "layer.w.gradient") == 0;
        CHECK_EQ_INT(found, 2);
        call(a.optimizer, 0, WEFT_FLOAT32, false);
        CHECK_OK(weft_optim_save(a.optimizer, path));
        CHECK_OK(weft_optim_load(b.optimizer, path));
        for (int t = 1; t < CALLS; t++) {
            call(a.optimizer, t, WEFT_FLOAT32, false);
            call(b.optimizer, t, WEFT_FLOAT32, false);
        }
        for (int i = 0; i < SCENE_PARAMETERS; i++)
            CHECK(same(a.s.arrays[i], b.s.arrays[i]));
    }
    end(&a);
    end(&b);
    golden_close();
}

/* NULL adds nothing; an error changes nothing; refused input. */
static void edges(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    problem a, b;
    const bool has_a = start(&a, WEFT_FLOAT32), has_b = start(&b, WEFT_FLOAT32);
    if (has_a && has_b) {
        weft_array *gradients[SCENE_PARAMETERS], *none[SCENE_PARAMETERS] = {NULL};
        weft_scope_open();
        scene_gradients(0, WEFT_FLOAT32, gradients);
        CHECK_OK(weft_eval_n(gradients, SCENE_PARAMETERS));
        CHECK_OK(weft_optim_update(a.optimizer, gradients));
        CHECK_OK(weft_optim_update(a.optimizer, none));
        weft_array *wrong[SCENE_PARAMETERS] = {weft_ones(WEFT_DIMS(2), WEFT_FLOAT32)};
        CHECK_STATUS(weft_optim_update(a.optimizer, wrong), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "layer.w: expected a float gradient");
        CHECK_OK(weft_optim_update(a.optimizer, none));
        CHECK_EQ_INT(weft_optim_step_count(a.optimizer), 1);
        CHECK_OK(weft_optim_update(b.optimizer, none));
        CHECK_OK(weft_optim_update(b.optimizer, none));
        CHECK_OK(weft_optim_update(b.optimizer, gradients));
        for (int i = 0; i < SCENE_PARAMETERS; i++)
            CHECK(same(a.s.arrays[i], b.s.arrays[i]));
        CHECK_STATUS(weft_optim_accumulate(a.optimizer, 2), WEFT_INVALID);
        CHECK_STATUS(weft_optim_accumulate(a.optimizer, 0), WEFT_INVALID);
        weft_scope_close(NULL);
    }
    end(&a);
    end(&b);
    golden_close();
}

CHECK_MAIN("accumulate", CHECK_CASE(every_third_call_updates_with_the_sum),
           CHECK_CASE(compiled_once_for_all_calls), CHECK_CASE(sums_are_state), CHECK_CASE(edges))
