/* tests/optim/test_groups.c -- parameter groups, master copies, saving and loading, refused input,
 * clipping. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/optim/scenes.h"
#include "tests/support/golden.h"

static bool update(weft_optim *o, int t, weft_dtype dtype)
{
    weft_array *gradients[SCENE_PARAMETERS];
    weft_scope_open();
    scene_gradients(t, dtype, gradients);
    const bool done = CHECK_OK(weft_optim_update(o, gradients));
    weft_scope_close(NULL);
    return done;
}

/* Whether two arrays have the same elements, to the bit. */
static bool same(weft_array *a, weft_array *b)
{
    weft_scope_open();
    const bool equal = weft_item_int(weft_array_equal(a, b, false)) == 1;
    weft_scope_close(NULL);
    return equal;
}

/* ---- groups --------------------------------------------------------------------------------- */

/* Each parameter is updated as if its group's optimizer had been alone. */
static void parameters_go_to_the_first_group_that_takes_them(void)
{
    static char layer[] = "layer";
    static const weft_optim_lion_options lion = {.weight_decay = 0.2};
    const weft_optim_group groups[] = {
        {.type = &weft_optim_muon, .learning_rate = 0.05, .filter = weft_optim_is_matrix},
        {.type = &weft_optim_lion,
         .options = &lion,
         .learning_rate = 0.01,
         .filter = weft_optim_path_contains,
         .context = layer},
        {.type = &weft_optim_adamw, .learning_rate = 0.002},
    };
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    weft_optim *o = NULL;
    scene_start(&s, WEFT_FLOAT32);
    if (CHECK_OK(weft_optim_new(&s.slots, groups, 3, &o))) {
        for (int i = 0; i < SCENE_PARAMETERS; i++)
            CHECK_EQ_INT(weft_optim_group_of(o, i), i); /* w, b, k */
        CHECK_CLOSE(weft_optim_learning_rate(o, 1), 0.01, 0);
        for (int t = 0; t < 5; t++)
            update(o, t, WEFT_FLOAT32);
        for (int i = 0; i < SCENE_PARAMETERS; i++) {
            scene alone;
            weft_optim *one = NULL;
            weft_optim_group group = groups[i];
            group.filter = NULL;
            scene_start(&alone, WEFT_FLOAT32);
            if (CHECK_OK(weft_optim_new(&alone.slots, &group, 1, &one))) {
                for (int t = 0; t < 5; t++)
                    update(one, t, WEFT_FLOAT32);
                CHECK(same(alone.arrays[i], s.arrays[i]));
            }
            weft_optim_free(one);
            scene_end(&alone);
        }
    }
    weft_optim_free(o);
    scene_end(&s);
    golden_close();
}

static void states_have_names(void)
{
    static const char *const expected[] = {"layer.w",
                                           "layer.b",
                                           "k",
                                           "step",
                                           "learning_rate",
                                           "learning_rate.1",
                                           "layer.w.exp_avg_sq_row",
                                           "layer.w.exp_avg_sq_col",
                                           "layer.w.master",
                                           "layer.b.m",
                                           "layer.b.v",
                                           "layer.b.master",
                                           "k.exp_avg_sq_row",
                                           "k.exp_avg_sq_col",
                                           "k.master"};
    static char b[] = "layer.b";
    const weft_optim_group groups[] = {{.type = &weft_optim_adam,
                                        .learning_rate = 0.1,
                                        .filter = weft_optim_path_contains,
                                        .context = b},
                                       {.type = &weft_optim_adafactor}};
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    weft_optim *o = NULL;
    scene_start(&s, WEFT_BFLOAT16);
    if (CHECK_OK(weft_optim_new(&s.slots, groups, 2, &o))) {
        int n, m;
        weft_array ***slots = weft_optim_slots(o, &n), ***state = weft_optim_state(o, &m);
        const char *const *names = weft_optim_slot_names(o);
        if (CHECK_EQ_INT(n, 15)) {
            for (int i = 0; i < n; i++)
                CHECK_STR(names[i], expected[i]);
            CHECK_EQ_INT(m, n - SCENE_PARAMETERS);
            CHECK(state == slots + SCENE_PARAMETERS && slots[0] == s.addresses[0]);
            CHECK(weft_optim_state_names(o) == names + SCENE_PARAMETERS);
            CHECK_EQ_INT(weft_dim(*slots[6], 0), 6); /* rows of w */
            CHECK_EQ_INT(weft_dim(*slots[7], 0), 4);
            CHECK_EQ_INT(weft_dim(*slots[13], 1), 2); /* columns of k (2, 3, 2) */
            for (int i = 6; i < n; i++)
                CHECK_EQ_INT(weft_dtype_of(*slots[i]), WEFT_FLOAT32);
        }
    }
    weft_optim_free(o);
    scene_end(&s);
    golden_close();
}

static void a_parameter_without_a_gradient_is_unchanged(void)
{
    const weft_optim_group group = {.type = &weft_optim_adam, .learning_rate = 0.1};
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    weft_optim *o = NULL;
    scene_start(&s, WEFT_FLOAT32);
    if (CHECK_OK(weft_optim_new(&s.slots, &group, 1, &o))) {
        weft_array *gradients[SCENE_PARAMETERS];
        weft_scope_open();
        scene_gradients(0, WEFT_FLOAT32, gradients);
        gradients[1] = NULL;
        CHECK_OK(weft_optim_update(o, gradients));
        CHECK(!same(s.arrays[0], scene_tensor("start/w", WEFT_FLOAT32)));
        CHECK(same(s.arrays[1], scene_tensor("start/b", WEFT_FLOAT32)));
        CHECK_EQ_INT(weft_optim_step_count(o), 1);
        weft_scope_close(NULL);
    }
    weft_optim_free(o);
    scene_end(&s);
    golden_close();
}

/* ---- a program's own type, on a module ------------------------------------------------------ */

typedef struct signs_options {
    double inertia; /* 0: 0.5 */
    int64_t power;
} signs_options;

/* m <- inertia m + g; p <- p - lr sign(m) */
static weft_array *signs_update(weft_optim_step *s)
{
    CHECK_CLOSE(weft_optim_hyper(s, "power").value, 3, 0);
    CHECK(!weft_ok(weft_optim_hyper(s, "mass").array));
    s->state[0] =
        weft_add(weft_optim_multiply(s->state[0], weft_optim_hyper(s, "inertia")), s->gradient);
    return weft_subtract(s->parameter,
                         weft_optim_multiply(weft_sign(s->state[0]), s->learning_rate));
}

static const weft_field signs_fields[] = {WEFT_FIELD(DOUBLE, signs_options, inertia),
                                          WEFT_FIELD(INT, signs_options, power), WEFT_FIELDS_END};
static const signs_options signs_defaults = {.inertia = 0.5, .power = 3};
static const weft_optim_type signs = {.name = "signs",
                                      .fields = signs_fields,
                                      .options_size = sizeof(signs_options),
                                      .defaults = &signs_defaults,
                                      .states = {"m"},
                                      .update = signs_update};

static void a_program_has_its_own_type(void)
{
    static char bias[] = "bias";
    const weft_optim_group groups[] = {{.type = &signs,
                                        .learning_rate = 0.25,
                                        .filter = weft_optim_path_contains,
                                        .context = bias},
                                       {.type = &weft_optim_sgd, .learning_rate = 1}};
    weft_module *linear = weft_nn_linear_new(2, 1, true);
    weft_nn_slots parameters = {0};
    weft_optim *o = NULL;
    weft_scope_open();
    if (CHECK(linear != NULL) && CHECK_OK(weft_nn_trainable(linear, &parameters)) &&
        CHECK_OK(weft_optim_new(&parameters, groups, 2, &o))) {
        weft_array **b = weft_nn_find(linear, "bias"), *before = weft_copy(*b);
        CHECK_OK(weft_eval(before));
        const double g[] = {1, -0.25, -0.5}, expected[] = {-0.25, -0.5, -0.25};
        for (int t = 0; t < 3; t++) { /* m: 1, 0.25, -0.375 */
            weft_array *gradients[2];
            for (int i = 0; i < 2; i++)
                gradients[i] = weft_full(weft_shape(*parameters.slots[i]), g[t], WEFT_FLOAT32);
            CHECK_OK(weft_optim_update(o, gradients));
            CHECK_CLOSE(weft_item(weft_subtract(*b, before)), expected[t], 1e-6);
        }
        CHECK_STR(weft_optim_state_names(o)[3], "bias.m");
    }
    weft_scope_close(NULL);
    weft_optim_free(o);
    weft_nn_slots_free(&parameters);
    weft_nn_free(linear);
}

/* ---- 16 bits -------------------------------------------------------------------------------- */

/* 200 steps of about 1e-5 from 1, of which each is far below bfloat16's resolution there. */
static void master_copies_do_not_stagnate(weft_dtype dtype, const weft_optim_type *type)
{
    weft_array *p = NULL, **addresses[] = {&p};
    char path[] = "p", *paths[] = {path};
    const weft_nn_slots slots = {1, addresses, paths};
    const weft_optim_group group = {.type = type, .learning_rate = 1e-4};
    weft_optim *o = NULL;
    weft_scope_open();
    CHECK_OK(weft_set(&p, weft_ones(WEFT_DIMS(3, 3), dtype)));
    if (CHECK_OK(weft_optim_new(&slots, &group, 1, &o))) {
        for (int t = 0; t < 200; t++) {
            weft_scope_open();
            weft_array *g = weft_ones(WEFT_DIMS(3, 3), dtype);
            CHECK_OK(weft_optim_update(o, &g));
            weft_scope_close(NULL);
        }
        int n;
        weft_array ***state = weft_optim_state(o, &n);
        CHECK_STR(weft_optim_state_names(o)[n - 1], "p.master");
        const double master = weft_item(weft_mean(*state[n - 1], WEFT_ALL_AXES, false));
        const double stored =
            weft_item(weft_max(weft_astype(p, WEFT_FLOAT32), WEFT_ALL_AXES, false));
        CHECK_EQ_INT(weft_dtype_of(p), dtype);
        CHECK(master < 1 - 4e-3);
        CHECK_RELATIVE(stored, master, 1.0 / 256);
        CHECK(stored < 1);
    }
    weft_optim_free(o);
    weft_drop(p);
    weft_scope_close(NULL);
}

static void sixteen_bits_do_not_stagnate(void)
{
    const weft_optim_type *types[] = {&weft_optim_sgd, &weft_optim_adam, &weft_optim_adamw,
                                      &weft_optim_lion, &weft_optim_rmsprop};
    for (int i = 0; i < 5; i++) {
        master_copies_do_not_stagnate(WEFT_BFLOAT16, types[i]);
        master_copies_do_not_stagnate(WEFT_FLOAT16, types[i]);
    }
}

/* For every dtype of the parameter, the master copy has the values of a float32 parameter. */
static void a_master_copy_is_a_float32_parameter(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++) {
        const weft_optim_group group = {.type = runs[i].type,
                                        .options = runs[i].options,
                                        .learning_rate = runs[i].learning_rate};
        scene half, single;
        weft_optim *a = NULL, *b = NULL;
        scene_start(&half, WEFT_BFLOAT16);
        scene_start(&single, WEFT_FLOAT32);
        weft_scope_open();
        for (int j = 0; j < SCENE_PARAMETERS; j++)
            CHECK_OK(weft_set(&single.arrays[j], weft_astype(half.arrays[j], WEFT_FLOAT32)));
        weft_scope_close(NULL);
        if (CHECK_OK(weft_optim_new(&half.slots, &group, 1, &a)) &&
            CHECK_OK(weft_optim_new(&single.slots, &group, 1, &b))) {
            for (int t = 0; t < 5; t++) {
                update(a, t, WEFT_FLOAT32);
                update(b, t, WEFT_FLOAT32);
            }
            weft_scope_open();
            for (int j = 0; j < SCENE_PARAMETERS; j++)
                CHECK(same(half.arrays[j], weft_astype(single.arrays[j], WEFT_BFLOAT16)));
            weft_scope_close(NULL);
        }
        weft_optim_free(a);
        weft_optim_free(b);
        scene_end(&half);
        scene_end(&single);
    }
    golden_close();
}

/* ---- files ---------------------------------------------------------------------------------- */

/* Ten updates at once; and five, a file, a new optimizer, and five more. */
static void continue_run(const run *r, weft_dtype dtype)
{
    const weft_optim_group group = {
        .type = r->type, .options = r->options, .learning_rate = r->learning_rate};
    const char *path = check_temporary("state.safetensors");
    scene s, other;
    weft_optim *whole = NULL, *first = NULL, *second = NULL;
    scene_start(&s, dtype);
    scene_start(&other, dtype);
    if (CHECK_OK(weft_optim_new(&s.slots, &group, 1, &whole)) &&
        CHECK_OK(weft_optim_new(&other.slots, &group, 1, &first))) {
        for (int t = 0; t < 10; t++)
            update(whole, t, dtype);
        for (int t = 0; t < 5; t++)
            update(first, t, dtype);
        CHECK_OK(weft_optim_save(first, path));
        if (CHECK_OK(weft_optim_new(&other.slots, &group, 1, &second)) &&
            CHECK_OK(weft_optim_load(second, path))) {
            CHECK_EQ_INT(weft_optim_step_count(second), 5);
            for (int t = 5; t < 10; t++)
                update(second, t, dtype);
            int n;
            weft_array ***a = weft_optim_slots(whole, &n), ***b = weft_optim_slots(second, &n);
            for (int i = 0; i < n; i++) {
                if (!CHECK(same(*a[i], *b[i])))
                    CHECK_FAIL("%s: %s", r->name, weft_optim_slot_names(whole)[i]);
            }
        }
    }
    weft_optim_free(whole);
    weft_optim_free(first);
    weft_optim_free(second);
    scene_end(&s);
    scene_end(&other);
}

static void a_loaded_state_continues_to_the_bit(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++) {
        continue_run(&runs[i], WEFT_FLOAT32);
        continue_run(&runs[i], WEFT_BFLOAT16);
    }
    golden_close();
}

static void a_state_that_does_not_fit_changes_nothing(void)
{
    static const weft_optim_sgd_options momentum = {.momentum = 0.9};
    const weft_optim_group adam = {.type = &weft_optim_adam, .learning_rate = 0.1};
    const weft_optim_group sgd = {
        .type = &weft_optim_sgd, .options = &momentum, .learning_rate = 0.5};
    const weft_optim_group rmsprop = {.type = &weft_optim_rmsprop, .learning_rate = 0.25};
    const char *path = check_temporary("other.safetensors");
    if (!golden_open("optim/optimizers"))
        return;
    scene s, wide;
    weft_optim *a = NULL, *b = NULL, *c = NULL;
    scene_start(&s, WEFT_FLOAT32);
    scene_start(&wide, WEFT_FLOAT64);
    if (CHECK_OK(weft_optim_new(&s.slots, &adam, 1, &a)) &&
        CHECK_OK(weft_optim_new(&s.slots, &sgd, 1, &b)) &&
        CHECK_OK(weft_optim_new(&wide.slots, &rmsprop, 1, &c))) {
        CHECK_OK(weft_optim_save(a, path));
        CHECK_STATUS(weft_optim_load(b, path), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), ".m is unexpected");
        CHECK_CLOSE(weft_optim_learning_rate(b, 0), 0.5, 0);
        CHECK_STATUS(weft_optim_load(c, path), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "layer.w.v: expected float64");
        CHECK_OK(weft_optim_save(b, path));
        CHECK_STATUS(weft_optim_load(a, path), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "layer.w.m is missing");
        CHECK(weft_optim_load(a, check_temporary("none")) != WEFT_OK);
    }
    weft_optim_free(a);
    weft_optim_free(b);
    weft_optim_free(c);
    scene_end(&s);
    scene_end(&wide);
    golden_close();
}

/* ---- refused input -------------------------------------------------------------------------- */

static void expect_refusal(const scene *s, const weft_optim_group *group, const char *part)
{
    weft_optim *o;
    CHECK_STATUS(weft_optim_new(&s->slots, group, 1, &o), WEFT_INVALID);
    CHECK(o == NULL);
    CHECK_CONTAINS(weft_error_message(), part);
}

static void bad_groups_are_refused(void)
{
    weft_rate *rate = weft_rate_constant(0.1);
    const weft_optim_schedule unknown[] = {{"beta3", rate}}, flag[] = {{"bias_correction", rate}},
                              none[] = {{"beta1", NULL}};
    const weft_optim_sgd_options nesterov = {.nesterov = true}, negative = {.momentum = -1};
    const weft_optim_adam_options beta = {.beta2 = 1};
    const weft_optim_rmsprop_options eps = {.eps = -1};
    const weft_optim_adamw_options nan_eps = {.eps = NAN};
    const struct {
        weft_optim_group group;
        const char *part;
    } cases[] = {
        {{.learning_rate = 1}, "group 0 has no type"},
        {{.type = &weft_optim_sgd}, "sgd: learning_rate: expected a positive number, got 0"},
        {{.type = &weft_optim_sgd, .options = &nesterov, .learning_rate = 1}, "nesterov needs"},
        {{.type = &weft_optim_sgd, .options = &negative, .learning_rate = 1},
         "sgd: momentum: expected a number of at least 0, got -1"},
        {{.type = &weft_optim_adam, .options = &beta, .learning_rate = 1},
         "adam: beta2: expected a number in [0, 1), got 1"},
        {{.type = &weft_optim_rmsprop, .options = &eps, .learning_rate = 1},
         "rmsprop: eps: expected a positive number, got 0"},
        {{.type = &weft_optim_adamw, .options = &nan_eps, .learning_rate = 1}, "adamw: eps"},
        {{.type = &weft_optim_adam, .learning_rate = 1, .schedules = unknown, .n_schedules = 1},
         "adam: it has no number beta3"},
        {{.type = &weft_optim_adam, .learning_rate = 1, .schedules = flag, .n_schedules = 1},
         "no number bias_correction"},
        {{.type = &weft_optim_adam, .learning_rate = 1, .schedules = none, .n_schedules = 1},
         "adam: beta1: there is no rate"},
        {{.type = &weft_optim_sgd, .learning_rate = 1, .filter = weft_optim_is_matrix},
         "layer.b: no group takes it"},
    };
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    scene_start(&s, WEFT_FLOAT32);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(&s, &cases[i].group, cases[i].part);
    weft_scope_open();
    CHECK_OK(weft_set(&s.arrays[1], weft_zeros(WEFT_DIMS(5), WEFT_INT32)));
    expect_refusal(&s, &(weft_optim_group){.type = &weft_optim_sgd, .learning_rate = 1},
                   "layer.b: expected a float array, got int32");
    CHECK_OK(weft_set(&s.arrays[1], NULL));
    expect_refusal(&s, &(weft_optim_group){.type = &weft_optim_sgd, .learning_rate = 1},
                   "layer.b: expected a float array, got none");
    weft_scope_close(NULL);
    scene_end(&s);
    golden_close();
    weft_rate_free(rate);
}

static void bad_gradients_change_nothing(void)
{
    const weft_optim_group group = {.type = &weft_optim_adam, .learning_rate = 0.1};
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    weft_optim *o = NULL;
    scene_start(&s, WEFT_FLOAT32);
    if (CHECK_OK(weft_optim_new(&s.slots, &group, 1, &o))) {
        weft_array *gradients[SCENE_PARAMETERS];
        weft_scope_open();
        scene_gradients(0, WEFT_FLOAT32, gradients);
        gradients[2] = weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32);
        CHECK(weft_optim_update(o, gradients) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), "k: expected a float gradient");
        gradients[2] = weft_error_array("broken");
        CHECK(weft_optim_update(o, gradients) != WEFT_OK);
        CHECK_CONTAINS(weft_error_message(), "broken");
        CHECK(same(s.arrays[0], scene_tensor("start/w", WEFT_FLOAT32)));
        CHECK_EQ_INT(weft_optim_step_count(o), 0);
        weft_scope_close(NULL);
    }
    weft_optim_free(o);
    scene_end(&s);
    golden_close();
}

/* Allocations of an update fail one by one: a failed update changes nothing, and a repeated one
 * succeeds. */
static void an_update_without_memory_changes_nothing(void)
{
    const weft_optim_group group = {.type = &weft_optim_adafactor};
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    weft_optim *o = NULL;
    scene_start(&s, WEFT_FLOAT32);
    if (CHECK_OK(weft_optim_new(&s.slots, &group, 1, &o))) {
        weft_array *gradients[SCENE_PARAMETERS];
        weft_scope_open();
        scene_gradients(0, WEFT_FLOAT32, gradients);
        CHECK_OK(weft_eval_n(gradients, SCENE_PARAMETERS));
        weft_array *start = scene_tensor("start/w", WEFT_FLOAT32);
        CHECK_OK(weft_eval(start));
        weft_status status = WEFT_MEMORY;
        int failures = 0;
        for (uint64_t nth = 1; status != WEFT_OK && nth < 4000; nth += 7) {
            weft_memory_fail_at(nth);
            status = weft_optim_update(o, gradients);
            weft_memory_fail_at(0);
            failures += status != WEFT_OK;
            if (!CHECK(status == WEFT_OK || same(s.arrays[0], start)) ||
                !CHECK_EQ_INT(weft_optim_step_count(o), status == WEFT_OK))
                break;
        }
        CHECK_OK(status);
        CHECK(failures > 5);
        weft_scope_close(NULL);
    }
    weft_optim_free(o);
    scene_end(&s);
    golden_close();
}

/* Every type takes parameters without axes and without elements. */
static void odd_shapes_are_fine(void)
{
    for (int i = 0; i < n_runs; i++) {
        weft_array *a = NULL, *b = NULL, *c = NULL, **addresses[] = {&a, &b, &c};
        char x[] = "a", y[] = "b", z[] = "c", *paths[] = {x, y, z};
        const weft_nn_slots slots = {3, addresses, paths};
        const weft_optim_group group = {.type = runs[i].type,
                                        .options = runs[i].options,
                                        .learning_rate = runs[i].learning_rate};
        weft_optim *o = NULL;
        weft_scope_open();
        CHECK_OK(weft_set(&a, weft_scalar(1, WEFT_FLOAT32)));
        CHECK_OK(weft_set(&b, weft_zeros(WEFT_DIMS(0, 4), WEFT_FLOAT32)));
        CHECK_OK(weft_set(&c, weft_zeros(WEFT_DIMS(0), WEFT_BFLOAT16)));
        if (CHECK_OK(weft_optim_new(&slots, &group, 1, &o))) {
            weft_array *gradients[] = {weft_ones_like(a), weft_ones_like(b), weft_ones_like(c)};
            CHECK_OK(weft_optim_update(o, gradients));
            CHECK(weft_item(a) < 1 && weft_item(a) > 0.5);
        }
        weft_optim_free(o);
        weft_drop(a);
        weft_drop(b);
        weft_drop(c);
        weft_scope_close(NULL);
    }
}

/* Every allocation of a new optimizer fails once. */
static void no_memory(void)
{
    const weft_optim_group group = {.type = &weft_optim_adamw, .learning_rate = 0.1};
    if (!golden_open("optim/optimizers"))
        return;
    scene s;
    scene_start(&s, WEFT_BFLOAT16);
    weft_status status = WEFT_MEMORY;
    for (uint64_t nth = 1; status != WEFT_OK && nth < 1000; nth++) {
        weft_optim *o;
        weft_memory_fail_at(nth);
        status = weft_optim_new(&s.slots, &group, 1, &o);
        weft_memory_fail_at(0);
        CHECK((status == WEFT_OK) == (o != NULL));
        weft_optim_free(o);
    }
    CHECK_OK(status);
    scene_end(&s);
    golden_close();
}

/* ---- gradients ------------------------------------------------------------------------------ */

static void clipping(void)
{
    weft_scope_open();
    weft_array *g[] = {weft_from_data((const float[]){3, 0}, WEFT_FLOAT32, WEFT_DIMS(2)), NULL,
                       weft_full(WEFT_SCALAR, -4, WEFT_BFLOAT16)};
    weft_array *out[3];
    CHECK_OK(weft_eval(g[2])); /* or the first norm would consume it */
    CHECK_CLOSE(weft_item(weft_clip_grad_norm(g, 3, 1, out)), 5, 1e-6);
    float values[2];
    CHECK_OK(weft_read(out[0], WEFT_FLOAT32, values, 2));
    CHECK_CLOSE(values[0], 0.6, 1e-6);
    CHECK(values[1] == 0 && out[1] == NULL);
    CHECK_EQ_INT(weft_dtype_of(out[2]), WEFT_BFLOAT16);
    CHECK_CLOSE(weft_item(out[2]), -0.8, 0.004);
    CHECK_CLOSE(weft_item(weft_clip_grad_norm(g, 3, 7, out)), 5, 1e-6); /* short enough */
    CHECK_CLOSE(weft_item(out[2]), -4, 0);
    CHECK(!weft_ok(weft_clip_grad_norm(g, 3, -1, out)) && !weft_ok(out[0]));
    weft_array *zero = weft_zeros(WEFT_DIMS(2), WEFT_FLOAT32);
    CHECK_CLOSE(weft_item(weft_clip_grad_norm(&zero, 1, 1, &zero)), 0, 0);
    CHECK_CLOSE(weft_item(weft_max(zero, WEFT_ALL_AXES, false)), 0, 0);
    weft_clip_grad_value(g, 3, 2, g);
    CHECK_CLOSE(weft_item(weft_max(g[0], WEFT_ALL_AXES, false)), 2, 0);
    CHECK_CLOSE(weft_item(g[2]), -2, 0);
    CHECK(g[1] == NULL && weft_dtype_of(g[2]) == WEFT_BFLOAT16);
    weft_clip_grad_value(g, 3, -1, g);
    CHECK(!weft_ok(g[0]));
    weft_scope_close(NULL);
}

CHECK_MAIN("optim_groups", CHECK_CASE(parameters_go_to_the_first_group_that_takes_them),
           CHECK_CASE(states_have_names), CHECK_CASE(a_parameter_without_a_gradient_is_unchanged),
           CHECK_CASE(a_program_has_its_own_type), CHECK_CASE(sixteen_bits_do_not_stagnate),
           CHECK_CASE(a_master_copy_is_a_float32_parameter),
           CHECK_CASE(a_loaded_state_continues_to_the_bit),
           CHECK_CASE(a_state_that_does_not_fit_changes_nothing),
           CHECK_CASE(bad_groups_are_refused), CHECK_CASE(bad_gradients_change_nothing),
           CHECK_CASE(an_update_without_memory_changes_nothing), CHECK_CASE(odd_shapes_are_fine),
           CHECK_CASE(no_memory), CHECK_CASE(clipping))
