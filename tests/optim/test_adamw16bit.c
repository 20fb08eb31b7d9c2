/* tests/optim/test_adamw16bit.c -- AdamW in bfloat16: where values are rounded to and how often,
 * updates against float64, what the random bits depend on, saved states, and training that rounding
 * to the nearest number would stop. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/nn/adamw16bit.h"
#include "tests/check.h"
#include "tests/optim/states.h"
#include "weft/weft.h"

enum { P, M, V, OUTPUTS };

/* ---- one step of the op --------------------------------------------------------------------- */

typedef struct step {
    weft_array *p, *g, *state[2], *out[OUTPUTS];
    weft_adamw_params params;
    float hyper[5];
    uint64_t seed; /* of the key */
} step;

/* Values as bfloat16; NULL: all are `fill`. */
static weft_array *brains(const float *values, float fill, int64_t n)
{
    weft_array *x = values ? weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(n))
                           : weft_full(WEFT_DIMS(n), (double)fill, WEFT_FLOAT32);
    return weft_astype(x, WEFT_BFLOAT16);
}

static void run(step *s)
{
    weft_array *hyper = weft_from_data(s->hyper, WEFT_FLOAT32, WEFT_DIMS(5));
    weft__adamw16bit(s->p, s->g, s->state, hyper, weft_random_key(s->seed), &s->params, s->out);
    CHECK_OK(weft_eval_n(s->out, OUTPUTS));
}

/* The bits of x rounded with the given random bits below 2^16. */
static uint32_t expected_bits(float x, uint32_t random)
{
    uint32_t all;
    memcpy(&all, &x, sizeof all);
    const uint32_t sign = all & 0x80000000, size = all ^ sign;
    if (size >= 0x7f800000)
        return all >> 16;
    const uint32_t low = size & 0xffff, next = size >> 16;
    const uint32_t up = next + (low + random > 0xffff);
    return sign >> 16 | (up > 0x7f7f ? 0x7f7f : up);
}

/* A number of any size, from a counter. */
static float any_number(int i)
{
    static const float fixed[] = {0,           -0.0f,   1,          -1,        INFINITY, -INFINITY,
                                  NAN,         FLT_MAX, -FLT_MAX,   FLT_MIN,   1e-3f,    -65504,
                                  0x1.fep127f, 1.5f,    0x1.fep-9f, -0x1p-126f};
    const int n = sizeof fixed / sizeof *fixed;
    if (i < n)
        return fixed[i];
    return (float)(sin(12.9898 * i) * exp2(fmod(37.0 * i, 240) - 120));
}

/* With beta1 = 0 the new m is the gradient, rounded. */
static void values_become_one_of_their_neighbors(void)
{
    enum { MOST = 20000 };
    static const int sizes[] = {1, 2, 7, 4096, 4100, MOST - 1, MOST};
    static float x[MOST];
    static uint16_t got[MOST], formula[MOST];
    static uint32_t words[MOST];
    for (int i = 0; i < MOST; i++)
        x[i] = any_number(i);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const int n = sizes[k];
        int wrong = 0, other = 0, moved = 0;
        weft_scope_open();
        step s = {.p = brains(NULL, 1, n),
                  .g = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(n)),
                  .state = {brains(NULL, -0.0f, n), brains(NULL, 0, n)}, /* -0 + x is x */
                  .params = {.beta2 = 0.9, .eps = 1e-8},
                  .hyper = {0, 1, 1, 1, 1},
                  .seed = 40 + k};
        run(&s);
        weft_array *bits[3];
        weft__rounding_bits(weft_random_key(s.seed), WEFT_DIMS(n), bits);
        weft_array *by_ops = weft__stochastic_round(s.g, bits[M], WEFT_BFLOAT16);
        CHECK_OK(weft_read(bits[M], WEFT_UINT32, words, n));
        CHECK_OK(weft_read(weft_view(s.out[M], WEFT_UINT16), WEFT_UINT16, got, n));
        CHECK_OK(weft_read(weft_view(by_ops, WEFT_UINT16), WEFT_UINT16, formula, n));
        for (int i = 0; i < n; i++) {
            uint32_t raw;
            memcpy(&raw, &x[i], sizeof raw);
            other += got[i] != formula[i];
            if (isnan(x[i]))
                wrong += (got[i] & 0x7fff) <= 0x7f80;
            else
                wrong += got[i] != expected_bits(x[i], words[i]);
            moved += got[i] != raw >> 16;
        }
        CHECK_EQ_INT(wrong, 0);
        CHECK_EQ_INT(other, 0);
        CHECK(n < 4000 || (moved > n / 3 && moved < 2 * n / 3));
        weft_scope_close(NULL);
    }
}

/* The mean over n elements of a value between two neighbors `ulp` apart. */
static void check_mean(weft_array *x, double expected, double ulp, int64_t n)
{
    const double share = fmod(expected, ulp) / ulp;
    const double sigma = ulp * sqrt(share * (1 - share) / (double)n);
    const double mean = weft_item(weft_mean(weft_astype(x, WEFT_FLOAT64), WEFT_ALL_AXES, false));
    check_that(sigma > 0 && fabs(mean - expected) < 4 * sigma, __FILE__, __LINE__,
               "expected %.9g +- 4 x %.2g, got %.9g", expected, sigma, mean);
}

/* 1 where the value was rounded up, else 0. */
static weft_array *is_up(weft_array *x, double between)
{
    return weft_astype(weft_greater_scalar(weft_astype(x, WEFT_FLOAT32), between), WEFT_FLOAT64);
}

/* p = 1 decays by 2^-12, m = 1 by 0.1, v = 1 by 0.001: none of the results is a bfloat16. */
static void rounding_is_unbiased_and_independent(void)
{
    enum { N = 1 << 17 };
    weft_scope_open();
    weft_array *ones = brains(NULL, 1, N);
    step s = {.p = ones,
              .g = brains(NULL, 0, N),
              .state = {brains(NULL, 1, N), brains(NULL, 1, N)},
              .params = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e30, .decay = 1},
              .hyper = {0x1p-12f, 1, 1, 1, 1},
              .seed = 3};
    run(&s);
    check_mean(s.out[P], 1 - 0x1p-12, 0x1p-8, N);
    check_mean(s.out[M], (double)0.9f, 0x1p-8, N);
    check_mean(s.out[V], (double)0.999f, 0x1p-8, N);
    weft_array *up[OUTPUTS];
    for (int i = 0; i < OUTPUTS; i++) {
        up[i] = is_up(s.out[i], i == M ? 0.9 : 0.998);
        up[i] = weft_subtract(up[i], weft_mean(up[i], WEFT_ALL_AXES, false));
    }
    for (int i = 0; i < OUTPUTS; i++) {
        const int j = (i + 1) % OUTPUTS;
        const double a = weft_item(weft_mean(weft_square(up[i]), WEFT_ALL_AXES, false)),
                     b = weft_item(weft_mean(weft_square(up[j]), WEFT_ALL_AXES, false)),
                     both = weft_item(weft_mean(weft_multiply(up[i], up[j]), WEFT_ALL_AXES, false));
        CHECK_CLOSE(both / sqrt(a * b), 0, 4 / sqrt(N));
    }
    weft_scope_close(NULL);
}

/* ---- the optimizer -------------------------------------------------------------------------- */

enum { ROWS = 50, COLUMNS = 101, SIZE = ROWS * COLUMNS };

static const weft_optim_adamw16bit_options options = {
    .weight_decay = 0.1, .bias_correction = true, .seed = 5};

typedef struct subject {
    weft_array *array, **address;
    char *path;
    weft_nn_slots slots;
    weft_optim *optimizer;
} subject;

/* Numbers between -1 and 1. */
static weft_array *waves(double phase, weft_dtype dtype)
{
    weft_array *x = weft_sin(weft_arange(phase, phase + SIZE, 1, WEFT_FLOAT32));
    return weft_astype(weft_reshape(x, WEFT_DIMS(ROWS, COLUMNS)), dtype);
}

static bool start_from(subject *s, weft_array *start, const weft_optim_type *type,
                       const void *settings, const weft_optim_schedule *schedule)
{
    static char path[] = "w";
    const weft_optim_group group = {.type = type,
                                    .options = settings,
                                    .learning_rate = 1e-3,
                                    .schedules = schedule,
                                    .n_schedules = schedule != NULL};
    *s = (subject){.address = &s->array, .path = path};
    s->slots = (weft_nn_slots){1, &s->address, &s->path};
    return CHECK_OK(weft_set(&s->array, start)) &&
           CHECK_OK(weft_optim_new(&s->slots, &group, 1, &s->optimizer));
}

static bool start(subject *s)
{
    return start_from(s, waves(0, WEFT_BFLOAT16), &weft_optim_adamw16bit, &options, NULL);
}

static void end(subject *s)
{
    weft_optim_free(s->optimizer);
    weft_drop(s->array);
}

static void follow(subject *s, int from, int to)
{
    for (int t = from; t < to; t++) {
        weft_scope_open();
        weft_array *g = weft_scale(waves(7.5 * t, WEFT_FLOAT32), 1 + t / 8.0);
        CHECK_OK(weft_optim_update(s->optimizer, &g));
        weft_scope_close(NULL);
    }
}

static weft_array *part(const subject *s, int i)
{
    return i == P ? s->array : state_of(s->optimizer, i == M ? "w.m" : "w.v");
}

/* The number of elements that differ. */
static int differing(weft_array *a, weft_array *b)
{
    static uint16_t x[SIZE], y[SIZE];
    int n = 0;
    CHECK_EQ_INT(weft_dtype_of(a), WEFT_BFLOAT16);
    CHECK_OK(weft_read(weft_view(a, WEFT_UINT16), WEFT_UINT16, x, SIZE));
    CHECK_OK(weft_read(weft_view(b, WEFT_UINT16), WEFT_UINT16, y, SIZE));
    for (int i = 0; i < SIZE; i++)
        n += x[i] != y[i];
    return n;
}

static double ulp_of(double x)
{
    return ldexp(1, ilogb(x) - 7);
}

/* Each value is next to the one in float64, and none of the three has a bias. */
static void check_update(double before[OUTPUTS][SIZE], double after[OUTPUTS][SIZE], const double *g,
                         int t)
{
    const double decay = options.weight_decay, lr = 1e-3;
    double bias[OUTPUTS] = {0};
    for (int i = 0; i < SIZE; i++) {
        double want[OUTPUTS];
        want[M] = 0.9 * before[M][i] + 0.1 * g[i];
        want[V] = 0.999 * before[V][i] + 0.001 * g[i] * g[i];
        const double m = want[M] / (1 - pow(0.9, t)), v = want[V] / (1 - pow(0.999, t));
        want[P] = before[P][i] * (1 - lr * decay) - lr * m / (sqrt(v) + 1e-8);
        for (int k = 0; k < OUTPUTS; k++) {
            const double away = (after[k][i] - want[k]) / ulp_of(want[k]);
            check_that(fabs(away) < 1.001, __FILE__, __LINE__, "update %d, %d of %d: %g, got %g", t,
                       i, k, want[k], after[k][i]);
            bias[k] += away / SIZE;
        }
    }
    for (int k = 0; k < OUTPUTS; k++)
        CHECK_CLOSE(bias[k], 0, 4 * 0.5 / sqrt(SIZE));
}

static void updates_are_those_in_float64_rounded(void)
{
    static double before[OUTPUTS][SIZE], after[OUTPUTS][SIZE], g[SIZE];
    subject s;
    weft_scope_open();
    if (start(&s)) {
        for (int t = 1; t <= 3; t++) {
            for (int k = 0; k < OUTPUTS; k++)
                CHECK_OK(weft_read(part(&s, k), WEFT_FLOAT64, before[k], SIZE));
            weft_array *gradient = waves(7.5 * t, WEFT_FLOAT32);
            CHECK_OK(weft_read(gradient, WEFT_FLOAT64, g, SIZE));
            CHECK_OK(weft_optim_update(s.optimizer, &gradient));
            for (int k = 0; k < OUTPUTS; k++)
                CHECK_OK(weft_read(part(&s, k), WEFT_FLOAT64, after[k], SIZE));
            check_update(before, after, g, t);
        }
        int n;
        weft_optim_state(s.optimizer, &n);
        CHECK_EQ_INT(n, 4); /* the step, the rate, m and v: no master copy */
    }
    end(&s);
    weft_scope_close(NULL);
}

/* A scheduled number is computed by array functions instead of the fused op: the same results,
 * except where the last bit of a sum decides. */
static void the_fused_op_does_what_the_formula_does(void)
{
    weft_rate *rate = weft_rate_constant(0.9);
    const weft_optim_schedule beta1 = {"beta1", rate};
    subject fused, plain;
    weft_scope_open();
    if (start(&fused) &&
        start_from(&plain, waves(0, WEFT_BFLOAT16), &weft_optim_adamw16bit, &options, &beta1)) {
        follow(&fused, 0, 2);
        follow(&plain, 0, 2);
        for (int k = 0; k < OUTPUTS; k++)
            CHECK(differing(part(&fused, k), part(&plain, k)) <= SIZE / 500);
    }
    end(&fused);
    end(&plain);
    weft_rate_free(rate);
    weft_scope_close(NULL);
}

/* Other parameters may have other sizes or no gradients: only the index matters. */
static void random_bits_follow_seed_update_and_parameter(void)
{
    enum { N = 3, RUNS = 4 };
    static const int64_t seeds[RUNS] = {5, 5, 6, 5};
    weft_array *arrays[RUNS][N] = {{NULL}};
    weft_scope_open();
    for (int r = 0; r < RUNS; r++) {
        weft_array **slots[N];
        char names[N][2] = {"a", "b", "c"}, *paths[N] = {names[0], names[1], names[2]};
        weft_optim_adamw16bit_options o = options;
        const weft_optim_group group = {
            .type = &weft_optim_adamw16bit, .options = &o, .learning_rate = 1e-3};
        const weft_nn_slots all = {N, slots, paths};
        weft_optim *optimizer = NULL;
        o.seed = seeds[r];
        for (int i = 0; i < N; i++) {
            slots[i] = &arrays[r][i];
            CHECK_OK(weft_set(slots[i], waves(0, WEFT_BFLOAT16)));
        }
        if (CHECK_OK(weft_optim_new(&all, &group, 1, &optimizer))) {
            weft_array *g[N] = {waves(1, WEFT_BFLOAT16), NULL, waves(1, WEFT_BFLOAT16)};
            g[1] = r == 1 ? NULL : g[0];
            CHECK_OK(weft_optim_update(optimizer, g));
            if (r == 3)
                CHECK_OK(weft_optim_update(optimizer, g));
        }
        weft_optim_free(optimizer);
    }
    CHECK_EQ_INT(differing(arrays[0][0], arrays[1][0]), 0);
    CHECK_EQ_INT(differing(arrays[0][2], arrays[1][2]), 0);
    CHECK(differing(arrays[0][0], arrays[0][1]) > SIZE / 10);
    CHECK(differing(arrays[0][0], arrays[0][2]) > SIZE / 10);
    CHECK(differing(arrays[0][0], arrays[2][0]) > SIZE / 10);
    CHECK(differing(arrays[0][0], arrays[3][0]) > SIZE / 10);
    for (int r = 0; r < RUNS; r++)
        for (int i = 0; i < N; i++)
            CHECK_OK(weft_set(&arrays[r][i], NULL));
    weft_scope_close(NULL);
}

/* Half of the updates, a file, and the other half: the same bytes as all at once. */
static void a_saved_state_continues_with_the_same_bytes(void)
{
    subject whole, first, second = {0};
    const char *path = check_temporary("state.safetensors");
    weft_scope_open();
    if (start(&whole) && start(&first)) {
        follow(&whole, 0, 8);
        follow(&first, 0, 4);
        CHECK_OK(weft_optim_save(first.optimizer, path));
        if (start_from(&second, first.array, &weft_optim_adamw16bit, &options, NULL) &&
            CHECK_OK(weft_optim_load(second.optimizer, path))) {
            follow(&second, 4, 8);
            for (int k = 0; k < OUTPUTS; k++)
                CHECK_EQ_INT(differing(part(&whole, k), part(&second, k)), 0);
        }
        end(&second);
    }
    end(&first);
    end(&whole);
    weft_scope_close(NULL);
}

/* A guarded update with a gradient that is not finite leaves every byte; one with formulas, too. */
static void gradients_that_are_not_finite_change_nothing(void)
{
    weft_rate *rate = weft_rate_constant(0.9);
    const weft_optim_schedule beta1 = {"beta1", rate};
    for (int scheduled = 0; scheduled < 2; scheduled++) {
        subject s;
        weft_scope_open();
        if (start_from(&s, waves(0, WEFT_BFLOAT16), &weft_optim_adamw16bit, &options,
                       scheduled ? &beta1 : NULL)) {
            follow(&s, 0, 2);
            weft_array *before[OUTPUTS];
            for (int k = 0; k < OUTPUTS; k++) {
                before[k] = weft_copy(part(&s, k));
                CHECK_OK(weft_eval(before[k]));
            }
            weft_optim_call call = {.lr_factor = 1, .clip = 1};
            weft_array *g = weft_scale(waves(1, WEFT_BFLOAT16), NAN);
            CHECK_OK(weft_optim_apply(s.optimizer, &g, &call));
            CHECK(!call.applied);
            for (int k = 0; k < OUTPUTS; k++)
                CHECK_EQ_INT(differing(before[k], part(&s, k)), 0);
            g = waves(1, WEFT_BFLOAT16);
            CHECK_OK(weft_optim_apply(s.optimizer, &g, &call));
            CHECK(call.applied);
            CHECK(differing(before[P], part(&s, P)) > SIZE / 10);
        }
        end(&s);
        weft_scope_close(NULL);
    }
    weft_rate_free(rate);
}

/* float32 parameters are not rounded, float16 ones have a master copy. */
static void other_parameters_keep_their_precision(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_FLOAT64};
    for (int i = 0; i < 3; i++) {
        subject s;
        weft_scope_open();
        if (start_from(&s, waves(0, dtypes[i]), &weft_optim_adamw16bit, &options, NULL)) {
            int n;
            weft_optim_state(s.optimizer, &n);
            CHECK_EQ_INT(n, dtypes[i] == WEFT_FLOAT16 ? 5 : 4);
            CHECK_EQ_INT(weft_dtype_of(state_of(s.optimizer, "w.m")), WEFT_BFLOAT16);
            follow(&s, 0, 4);
            CHECK_EQ_INT(weft_dtype_of(s.array), dtypes[i]);
        }
        end(&s);
        weft_scope_close(NULL);
    }
}

static void options_are_checked(void)
{
    weft_optim_adamw16bit_options o = {.beta2 = 1};
    subject s = {0};
    weft_scope_open();
    const weft_optim_group group = {
        .type = &weft_optim_adamw16bit, .options = &o, .learning_rate = 1};
    char path[] = "w", *paths[] = {path};
    weft_array **address = &s.array;
    const weft_nn_slots slots = {1, &address, paths};
    CHECK_OK(weft_set(&s.array, brains(NULL, 1, 4)));
    CHECK_STATUS(weft_optim_new(&slots, &group, 1, &s.optimizer), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "adamw16bit: beta2: expected a number in [0, 1), got 1");
    weft_drop(s.array);
    weft_scope_close(NULL);
}

/* ---- training ------------------------------------------------------------------------------- */

/* AdamW in bfloat16, rounded to the nearest number. */
static weft_array *update_nearest(weft_optim_step *s)
{
    weft_array *state[2] = {weft_astype(s->state[0], WEFT_FLOAT32),
                            weft_astype(s->state[1], WEFT_FLOAT32)};
    weft_optim_step wide = *s;
    wide.parameter = weft_astype(s->parameter, WEFT_FLOAT32);
    wide.state = state;
    weft_array *value = weft_optim_adamw.update(&wide);
    for (int i = 0; i < 2; i++)
        s->state[i] = weft_astype(state[i], WEFT_BFLOAT16);
    return weft_astype(value, WEFT_BFLOAT16);
}

static weft_optim_type nearest;

static const char config_text[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": 64, \"intermediate_size\": "
    "128, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 32, \"max_position_embeddings\": 64, \"rope_theta\": 10000.0, "
    "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true}";

/* The loss after training all weights of a small model, in bfloat16, on four sequences. */
static double trained_loss(const weft_optim_type *type, double *first)
{
    enum { STEPS = 120, BATCH = 4, LENGTH = 24 };
    const weft_trainer_options o = {.lr = 1e-4, .clip = 1, .optimizer = type};
    weft_config *config = NULL;
    weft_model *model = NULL;
    weft_trainer *trainer = NULL;
    weft_train_report report = {0};
    weft_scope_open();
    weft_random_seed(5);
    weft_array *ids =
        weft_random_randint(weft_random_key(1), WEFT_DIMS(BATCH, LENGTH + 1), 0, 64, WEFT_INT32);
    const weft_batch batch = {.tokens = weft_slice_axis(ids, 1, 0, LENGTH),
                              .targets = weft_slice_axis(ids, 1, 1, LENGTH + 1),
                              .n_targets = BATCH * LENGTH,
                              .n_tokens = BATCH * LENGTH};
    if (CHECK_OK(weft_config_parse(config_text, "test", &config)) &&
        CHECK_OK(weft_model_new(config, &model)) &&
        CHECK_OK(weft_nn_cast(weft_model_module(model), WEFT_BFLOAT16)) &&
        CHECK_OK(weft_trainer_new(model, &o, &trainer))) {
        for (int i = 0; i < STEPS; i++) {
            CHECK_OK(weft_trainer_step(trainer, &batch, 1, 1, &report));
            *first = i == 0 ? report.loss : *first;
        }
    }
    weft_trainer_free(trainer);
    weft_model_free(model);
    weft_config_free(config);
    weft_scope_close(NULL);
    return report.loss;
}

static void training_reaches_the_loss_of_float32_states(void)
{
    double first = 0;
    nearest = weft_optim_adamw16bit;
    nearest.name = "nearest";
    nearest.update = update_nearest;
    nearest.guards = NULL;
    const double wide = trained_loss(&weft_optim_adamw, &first);
    const double rounded = trained_loss(&weft_optim_adamw16bit, &first);
    const double stalled = trained_loss(&nearest, &first);
    printf("  loss %.4f, then %.4f in float32, %.4f in bfloat16, %.4f rounded to the nearest\n",
           first, wide, rounded, stalled);
    CHECK_CLOSE(rounded, wide, 0.05 * (first - wide));
    CHECK(stalled > wide + 0.2 * (first - wide));
}

CHECK_MAIN("adamw16bit", CHECK_CASE(values_become_one_of_their_neighbors),
           CHECK_CASE(rounding_is_unbiased_and_independent),
           CHECK_CASE(updates_are_those_in_float64_rounded),
           CHECK_CASE(the_fused_op_does_what_the_formula_does),
           CHECK_CASE(random_bits_follow_seed_update_and_parameter),
           CHECK_CASE(a_saved_state_continues_with_the_same_bytes),
           CHECK_CASE(gradients_that_are_not_finite_change_nothing),
           CHECK_CASE(other_parameters_keep_their_precision), CHECK_CASE(options_are_checked),
           CHECK_CASE(training_reaches_the_loss_of_float32_states))
