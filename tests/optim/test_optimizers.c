/* tests/optim/test_optimizers.c -- every optimizer's first 20 updates against PyTorch, MLX and
 * NumPy, plain and compiled. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/optim/scenes.h"
#include "tests/support/golden.h"
#include "weft/compile.h"

/* ---- against the golden runs ---------------------------------------------------------------- */

/* The rows of the golden file. */
static const int kept[] = {1, 2, 5, 10, 20};
enum { N_KEPT = sizeof kept / sizeof *kept };

/* One update. */
static bool update(weft_optim *o, int t, weft_dtype dtype)
{
    weft_array *gradients[SCENE_PARAMETERS];
    weft_scope_open();
    scene_gradients(t, dtype, gradients);
    const bool done = CHECK_OK(weft_optim_update(o, gradients));
    weft_scope_close(NULL);
    return done;
}

/* All updates, and the parameters at those that are kept against the golden ones. */
static void follow(const char *name, const weft_optim_group *group, weft_dtype dtype,
                   double tolerance)
{
    static const char *const letters[] = {"w", "b", "k"};
    scene s;
    weft_optim *o = NULL;
    weft_array *rows[SCENE_PARAMETERS][N_KEPT];
    weft_scope_open();
    scene_start(&s, dtype);
    bool going = CHECK_OK(weft_optim_new(&s.slots, group, 1, &o));
    for (int t = 0, row = 0; going && t < SCENE_STEPS; t++) {
        going = update(o, t, dtype);
        if (t + 1 != kept[row])
            continue;
        for (int i = 0; i < SCENE_PARAMETERS; i++) {
            rows[i][row] = weft_copy(s.arrays[i]);
            CHECK_OK(weft_eval(rows[i][row]));
        }
        row++;
    }
    for (int i = 0; going && i < SCENE_PARAMETERS; i++) {
        char tensor[64];
        snprintf(tensor, sizeof tensor, "%s/%s", name, letters[i]);
        if (!golden_check(weft_stack(rows[i], N_KEPT, 0), tensor, tolerance))
            CHECK_FAIL("%s in %s", tensor, weft_dtype_name(dtype));
    }
    if (o)
        CHECK_EQ_INT(weft_optim_step_count(o), SCENE_STEPS);
    weft_optim_free(o);
    scene_end(&s);
    weft_scope_close(NULL);
}

/* Rounding of about 40 operations an update; Muon's iteration multiplies it by 3.4 five times. */
static double tolerance_of(const weft_optim_type *type, weft_dtype dtype)
{
    const double unit = dtype == WEFT_FLOAT64 ? 1e-14 : 2e-6;
    return type == &weft_optim_muon ? 20 * unit : unit;
}

static void follow_all(weft_dtype dtype)
{
    if (!golden_open("optim/optimizers"))
        return;
    for (int i = 0; i < n_runs; i++) {
        const weft_optim_group group = {.type = runs[i].type,
                                        .options = runs[i].options,
                                        .learning_rate = runs[i].learning_rate};
        follow(runs[i].name, &group, dtype, tolerance_of(runs[i].type, dtype));
    }
    golden_close();
}

static void float64_follows_the_golden_runs(void)
{
    follow_all(WEFT_FLOAT64);
}

static void float32_follows_the_golden_runs(void)
{
    follow_all(WEFT_FLOAT32);
}

static void scheduled_numbers_follow_the_golden_runs(void)
{
    weft_rate *decay = weft_rate_exponential_decay(0.02, 0.9);
    weft_rate *beta = weft_rate_linear(0.5, 0.9, 10);
    const weft_optim_adamw_options options = {.weight_decay = 0.1, .bias_correction = true};
    const weft_optim_schedule rates[] = {{"learning_rate", decay}}, betas[] = {{"beta1", beta}};
    const weft_optim_group adamw = {
        .type = &weft_optim_adamw, .options = &options, .schedules = rates, .n_schedules = 1};
    const weft_optim_group adam = {
        .type = &weft_optim_adam, .learning_rate = 0.01, .schedules = betas, .n_schedules = 1};
    if (CHECK(decay && beta) && golden_open("optim/optimizers")) {
        follow("adamw_scheduled", &adamw, WEFT_FLOAT64, 1e-14);
        follow("adamw_scheduled", &adamw, WEFT_FLOAT32, 2e-6);
        follow("adam_beta_scheduled", &adam, WEFT_FLOAT64, 1e-14);
        follow("adam_beta_scheduled", &adam, WEFT_FLOAT32, 2e-6);
        golden_close();
    }
    weft_rate_free(decay);
    weft_rate_free(beta);
}

/* ---- compiled steps ------------------------------------------------------------------------- */

/* Two layers on random data. */
typedef struct mlp {
    weft_array *w1, *b1, *w2, *x, *y;
    weft_array **addresses[3];
    char *paths[3];
    weft_nn_slots slots;
    weft_optim *optimizer;
} mlp;

static weft_array *mlp_loss(void *context)
{
    const mlp *m = context;
    weft_array *h = weft_tanh(weft_linear(m->x, m->w1, m->b1));
    return weft_mean(weft_square(weft_subtract(weft_linear(h, m->w2, NULL), m->y)), WEFT_ALL_AXES,
                     false);
}

static int mlp_step(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    mlp *m = context;
    weft_array *gradients[3];
    (void)in;
    (void)n_in;
    (void)room;
    out[0] = weft_value_and_grad_slots(mlp_loss, m, m->slots.slots, 3, gradients);
    weft_clip_grad_norm(gradients, 3, 0.5, gradients);
    if (weft_optim_update(m->optimizer, gradients) != WEFT_OK)
        out[0] = weft_error_array("update: %s", weft_error_message());
    return 1;
}

/* n random numbers as an array of this shape */
static weft_array *wave(double phase, weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    weft_array *x = weft_arange(0, (double)n, 1, WEFT_FLOAT32);
    x = weft_sin(weft_add_scalar(weft_scale(x, 1.7), phase));
    return weft_astype(weft_reshape(x, shape), dtype);
}

static bool mlp_start(mlp *m, const weft_optim_group *group, weft_dtype dtype)
{
    static char w1[] = "w1", b1[] = "b1", w2[] = "w2";
    *m = (mlp){.addresses = {&m->w1, &m->b1, &m->w2}, .paths = {w1, b1, w2}};
    m->slots = (weft_nn_slots){3, m->addresses, m->paths};
    weft_scope_open();
    CHECK_OK(weft_set(&m->w1, wave(1, WEFT_DIMS(8, 4), dtype)));
    CHECK_OK(weft_set(&m->b1, wave(2, WEFT_DIMS(8), dtype)));
    CHECK_OK(weft_set(&m->w2, wave(3, WEFT_DIMS(2, 8), dtype)));
    CHECK_OK(weft_set(&m->x, wave(4, WEFT_DIMS(5, 4), dtype)));
    CHECK_OK(weft_set(&m->y, wave(5, WEFT_DIMS(5, 2), dtype)));
    CHECK_OK(weft_eval_n((weft_array *[]){m->w1, m->b1, m->w2, m->x, m->y}, 5));
    weft_scope_close(NULL);
    return CHECK_OK(weft_optim_new(&m->slots, group, 1, &m->optimizer));
}

static void mlp_end(mlp *m)
{
    weft_optim_free(m->optimizer);
    weft_array *all[] = {m->w1, m->b1, m->w2, m->x, m->y};
    for (int i = 0; i < 5; i++)
        weft_drop(all[i]);
}

/* Whether two arrays are the same, bit for bit or nearly. */
static void check_equal(weft_array *a, weft_array *b, double tolerance, const char *what)
{
    weft_scope_open();
    weft_array *away = weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false);
    if (!CHECK_CLOSE(weft_item(away), 0, tolerance))
        CHECK_FAIL("%s", what);
    weft_scope_close(NULL);
}

/* 20 compiled steps with a varying rate against as many plain ones. Fused chains may round
 * differently: hence a tolerance. */
static void train_both(const char *name, const weft_optim_group *group, weft_dtype dtype,
                       double tolerance)
{
    mlp plain, quick;
    weft_compiled *compiled = NULL;
    if (!mlp_start(&plain, group, dtype) || !mlp_start(&quick, group, dtype))
        return;
    int n;
    weft_array ***state = weft_optim_slots(quick.optimizer, &n);
    const weft_compile_options options = {.state_names = weft_optim_slot_names(quick.optimizer)};
    if (CHECK_OK(weft_compile(mlp_step, &quick, state, n, &options, &compiled))) {
        double first = 0, last = 0;
        for (int t = 0; t < SCENE_STEPS; t++) {
            weft_array *a, *b;
            const double rate = 0.01 / (1 + t);
            CHECK_OK(weft_optim_set_learning_rate(plain.optimizer, 0, rate));
            CHECK_OK(weft_optim_set_learning_rate(quick.optimizer, 0, rate));
            weft_scope_open();
            mlp_step(&plain, NULL, 0, &a, 1);
            CHECK_OK(weft_compiled_call(compiled, NULL, 0, &b, 1));
            last = weft_item(b);
            first = t == 0 ? last : first;
            CHECK_CLOSE(last, weft_item(a), 1e-2);
            weft_scope_close(NULL);
        }
        CHECK(dtype == WEFT_FLOAT32 ? last < first : last <= first);
        CHECK_EQ_INT(weft_compiled_counts(compiled).compiles, 1);
        CHECK_EQ_INT(weft_compiled_counts(compiled).traces, 1);
        CHECK_EQ_INT(weft_compiled_counts(compiled).calls, SCENE_STEPS);
        CHECK_EQ_INT(weft_optim_step_count(quick.optimizer), SCENE_STEPS);
        weft_array ***other = weft_optim_slots(plain.optimizer, &n);
        for (int i = 0; i < n; i++)
            check_equal(*state[i], *other[i], tolerance, name);
    }
    weft_compiled_free(compiled);
    mlp_end(&plain);
    mlp_end(&quick);
}

static void train_all(weft_dtype dtype, double tolerance)
{
    for (int i = 0; i < n_runs; i++) {
        const weft_optim_group group = {.type = runs[i].type,
                                        .options = runs[i].options,
                                        .learning_rate = runs[i].learning_rate};
        train_both(runs[i].name, &group, dtype, tolerance);
    }
}

static void a_compiled_step_compiles_once_and_is_the_plain_one(void)
{
    train_all(WEFT_FLOAT32, 1e-6);
}

static void a_compiled_step_has_master_copies(void)
{
    train_all(WEFT_BFLOAT16, 1e-2);
}

/* Rates that are part of the compiled graph. */
static void a_compiled_step_computes_its_rates(void)
{
    weft_rate *parts[] = {weft_rate_linear(0, 0.02, 5), weft_rate_cosine_decay(0.02, 15, 0)};
    weft_rate *rate = weft_rate_join(parts, 2, (const int64_t[]){5});
    weft_rate *beta = weft_rate_linear(0.5, 0.9, 10);
    const weft_optim_schedule rates[] = {{"learning_rate", rate}, {"beta1", beta}};
    const weft_optim_adamw_options options = {.bias_correction = true};
    for (int n = 1; n <= 2; n++) {
        const weft_optim_group group = {
            .type = &weft_optim_adamw, .options = &options, .schedules = rates, .n_schedules = n};
        train_both("adamw with rates", &group, WEFT_FLOAT32, 1e-6);
    }
    weft_rate_free(rate);
    weft_rate_free(beta);
}

/* ---- types ---------------------------------------------------------------------------------- */

static void types_have_names(void)
{
    int n = 0;
    for (const weft_optim_type *type; (type = weft_optim_type_at(n)) != NULL; n++)
        CHECK(weft_optim_type_find(type->name) == type);
    CHECK_EQ_INT(n, 12);
    CHECK(weft_optim_type_find("lamb") == NULL);
    CHECK(weft_optim_type_at(-1) == NULL);
}

CHECK_MAIN("optimizers", CHECK_CASE(float64_follows_the_golden_runs),
           CHECK_CASE(float32_follows_the_golden_runs),
           CHECK_CASE(scheduled_numbers_follow_the_golden_runs),
           CHECK_CASE(a_compiled_step_compiles_once_and_is_the_plain_one),
           CHECK_CASE(a_compiled_step_has_master_copies),
           CHECK_CASE(a_compiled_step_computes_its_rates), CHECK_CASE(types_have_names))
