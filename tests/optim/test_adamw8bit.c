/* tests/optim/test_adamw8bit.c -- AdamW with 8-bit moments against bitsandbytes' and against
 * AdamW. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/optim/states.h"
#include "tests/support/golden.h"
#include "weft/optim.h"

enum { ROWS = 50, COLUMNS = 101, SIZE = ROWS * COLUMNS, BLOCK = 256, STEPS = 16 };
enum { BLOCKS = (SIZE + BLOCK - 1) / BLOCK };

static const weft_optim_adamw_options options = {.weight_decay = 0.1, .bias_correction = true};

typedef struct subject {
    weft_array *array, **address;
    char *path;
    weft_nn_slots slots;
    weft_optim *optimizer;
} subject;

static bool start_at(subject *s, weft_array *start, const weft_optim_type *type)
{
    static char path[] = "w";
    const weft_optim_group group = {.type = type, .options = &options, .learning_rate = 0.01};
    *s = (subject){.address = &s->array, .path = path};
    s->slots = (weft_nn_slots){1, &s->address, &s->path};
    return CHECK_OK(weft_set(&s->array, start)) &&
           CHECK_OK(weft_optim_new(&s->slots, &group, 1, &s->optimizer));
}

static void end(subject *s)
{
    weft_optim_free(s->optimizer);
    weft_drop(s->array);
}

/* The golden file's gradient of update t: see adamw8bit.py. */
static weft_array *gradient(const char *base, int t)
{
    weft_array *flat = weft_reshape(golden_as(base, WEFT_FLOAT32), WEFT_DIMS(SIZE));
    const int64_t rolled = 37 * t % SIZE;
    weft_array *parts[] = {weft_slice_axis(flat, 0, SIZE - rolled, SIZE),
                           weft_slice_axis(flat, 0, 0, SIZE - rolled)};
    flat = weft_scale(weft_concatenate(parts, 2, 0), 1 + t / 8.0);
    return weft_reshape(flat, WEFT_DIMS(ROWS, COLUMNS));
}

static void follow(subject *s, const char *base, int from, int to)
{
    for (int t = from; t < to; t++) {
        weft_scope_open();
        weft_array *g = weft_to(gradient(base, t), weft_default_device());
        CHECK_OK(weft_optim_update(s->optimizer, &g));
        weft_scope_close(NULL);
    }
}

/* The number of codes that differ from the golden ones; these must be adjacent codes. */
static int count_other(weft_array *codes, const char *tensor)
{
    static uint8_t a[SIZE], b[SIZE];
    int n = 0;
    CHECK_OK(weft_read(codes, WEFT_UINT8, a, SIZE));
    CHECK_OK(weft_read(golden_get(tensor), WEFT_UINT8, b, SIZE));
    for (int i = 0; i < SIZE; i++) {
        n += a[i] != b[i];
        CHECK(a[i] - b[i] >= -1 && a[i] - b[i] <= 1);
    }
    return n;
}

/* The mean and the largest difference. */
static double apart(weft_array *a, const char *tensor, double *largest)
{
    weft_array *b = weft_to(golden_as(tensor, WEFT_FLOAT32), weft_device_of(a));
    weft_array *away = weft_abs(weft_subtract(a, b));
    *largest = weft_item(weft_max(away, WEFT_ALL_AXES, false));
    return weft_item(weft_mean(away, WEFT_ALL_AXES, false));
}

static weft_array *start(void)
{
    return weft_to(golden_as("start", WEFT_FLOAT32), weft_default_device());
}

/* A value midway between two codes may get the other code if sums round differently. */
static void codes_are_the_nearest(void)
{
    subject s;
    double most;
    if (!golden_open("optim/adamw8bit"))
        return;
    weft_scope_open();
    if (start_at(&s, start(), &weft_optim_adamw8bit)) {
        follow(&s, "base", 0, STEPS);
        const int m = count_other(state_of(s.optimizer, "w.m"), "m");
        const int v = count_other(state_of(s.optimizer, "w.v"), "v");
        const double mean = apart(s.array, "base/nearest", &most);
        printf("  other codes: %d and %d of %d; parameters %.2g apart, at most %.2g\n", m, v, SIZE,
               mean, most);
        CHECK(m <= 5 && v <= 5);
        CHECK_CLOSE(mean, 0, 1e-6);
        CHECK(golden_check(state_of(s.optimizer, "w.m_scale"), "m_scale", 1e-6));
        CHECK(golden_check(state_of(s.optimizer, "w.v_scale"), "v_scale", 1e-6));
    }
    end(&s);
    weft_scope_close(NULL);
    golden_close();
}

/* For steps that add up to 0.04 on average. */
static void updates_are_nearly_those_of_bitsandbytes_and_adamw(void)
{
    static const struct {
        const char *base, *other;
        double mean, most;
    } cases[] = {{"base", "base/bitsandbytes", 5e-5, 5e-3},
                 {"base", "base/adamw", 8e-4, 5e-3},
                 {"wide", "wide/adamw", 2e-3, 4e-2}};
    if (!golden_open("optim/adamw8bit"))
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        subject s;
        double most;
        weft_scope_open();
        if (start_at(&s, start(), &weft_optim_adamw8bit)) {
            follow(&s, cases[i].base, 0, STEPS);
            const double mean = apart(s.array, cases[i].other, &most);
            printf("  %s: %.2g apart, at most %.2g\n", cases[i].other, mean, most);
            CHECK(mean > 0 && mean < cases[i].mean);
            CHECK(most < cases[i].most);
        }
        end(&s);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void small_parameters_equal_adamw(void)
{
    subject s[2];
    const weft_optim_type *const types[] = {&weft_optim_adamw8bit, &weft_optim_adamw};
    weft_scope_open();
    for (int k = 0; k < 2; k++) {
        weft_array *ones = weft_ones(WEFT_DIMS(4095), WEFT_FLOAT32);
        if (start_at(&s[k], ones, types[k])) {
            for (int t = 0; t < 4; t++) {
                weft_array *g = weft_sin(weft_arange((double)t, 4095 + (double)t, 1, WEFT_FLOAT32));
                CHECK_OK(weft_optim_update(s[k].optimizer, &g));
            }
        }
    }
    weft_array *away = weft_abs(weft_subtract(s[0].array, s[1].array));
    CHECK_CLOSE(weft_item(weft_max(away, WEFT_ALL_AXES, false)), 0,
                1e-6); /* 1 is rounded to 1e-7 */
    end(&s[0]);
    end(&s[1]);
    weft_scope_close(NULL);
}

/* Bytes of the state beside the step and the rate. */
static int64_t bytes_of(const subject *s)
{
    int n;
    int64_t bytes = 0;
    weft_array ***slots = weft_optim_state(s->optimizer, &n);
    for (int i = 0; i < n; i++)
        bytes += weft_ndim(*slots[i]) > 0 ? weft_nbytes(*slots[i]) : 0;
    return bytes;
}

static void the_state_takes_a_quarter(void)
{
    subject s;
    if (start_at(&s, weft_ones(WEFT_DIMS(1024, 1000), WEFT_FLOAT32), &weft_optim_adamw8bit))
        CHECK_EQ_INT(bytes_of(&s), 1024000 * 2 + 1024000 / 256 * 8);
    end(&s);
    if (start_at(&s, weft_ones(WEFT_DIMS(1024, 1000), WEFT_FLOAT32), &weft_optim_adamw))
        CHECK_EQ_INT(bytes_of(&s), 1024000 * 8);
    end(&s);
}

/* Half of the updates, a file, and the other half: the same bytes as all at once. */
static void a_saved_state_continues_with_the_same_bytes(void)
{
    subject whole, first, second;
    const char *path = check_temporary("state.safetensors");
    if (!golden_open("optim/adamw8bit"))
        return;
    weft_scope_open();
    if (start_at(&whole, start(), &weft_optim_adamw8bit) &&
        start_at(&first, start(), &weft_optim_adamw8bit)) {
        follow(&whole, "wide", 0, STEPS);
        follow(&first, "wide", 0, STEPS / 2);
        CHECK_OK(weft_optim_save(first.optimizer, path));
        if (start_at(&second, first.array, &weft_optim_adamw8bit) &&
            CHECK_OK(weft_optim_load(second.optimizer, path))) {
            follow(&second, "wide", STEPS / 2, STEPS);
            static float a[SIZE], b[SIZE];
            CHECK_OK(weft_read(second.array, WEFT_FLOAT32, a, SIZE));
            CHECK_OK(weft_read(whole.array, WEFT_FLOAT32, b, SIZE));
            CHECK_BYTES(a, b, sizeof a);
        }
        end(&second);
    }
    end(&first);
    end(&whole);
    weft_scope_close(NULL);
    golden_close();
}

/* A scheduled number is computed by array functions instead of the fused op: the same results,
 * except for values midway between two codes if sums round differently. */
static void the_fused_op_does_what_the_formula_does(void)
{
    static char path[] = "w";
    weft_rate *rate = weft_rate_constant(0.9);
    const weft_optim_schedule beta1 = {"beta1", rate};
    const weft_optim_group group = {.type = &weft_optim_adamw8bit,
                                    .options = &options,
                                    .learning_rate = 0.01,
                                    .schedules = &beta1,
                                    .n_schedules = 1};
    subject fused, plain = {.address = &plain.array, .path = path};
    plain.slots = (weft_nn_slots){1, &plain.address, &plain.path};
    if (!golden_open("optim/adamw8bit"))
        return;
    weft_scope_open();
    if (start_at(&fused, start(), &weft_optim_adamw8bit) &&
        CHECK_OK(weft_set(&plain.array, start())) &&
        CHECK_OK(weft_optim_new(&plain.slots, &group, 1, &plain.optimizer))) {
        static const char *const names[] = {"w.m", "w.v"};
        follow(&fused, "base", 0, STEPS);
        follow(&plain, "base", 0, STEPS);
        weft_array *away = weft_abs(weft_subtract(fused.array, plain.array));
        CHECK_CLOSE(weft_item(weft_mean(away, WEFT_ALL_AXES, false)), 0, 1e-6);
        for (int k = 0; k < 2; k++) {
            static uint8_t a[SIZE], b[SIZE];
            int other = 0;
            CHECK_OK(weft_read(state_of(fused.optimizer, names[k]), WEFT_UINT8, a, SIZE));
            CHECK_OK(weft_read(state_of(plain.optimizer, names[k]), WEFT_UINT8, b, SIZE));
            for (int i = 0; i < SIZE; i++)
                other += a[i] != b[i];
            CHECK(other <= 5);
        }
    }
    end(&fused);
    end(&plain);
    weft_rate_free(rate);
    weft_scope_close(NULL);
    golden_close();
}

/* A guarded update with a gradient that is not finite leaves every byte. */
static void gradients_that_are_not_finite_change_nothing(void)
{
    static const char *const names[] = {"w.m", "w.v", "w.m_scale", "w.v_scale"};
    static double before[5][SIZE], after[5][SIZE];
    subject s;
    if (!golden_open("optim/adamw8bit"))
        return;
    weft_scope_open();
    if (start_at(&s, start(), &weft_optim_adamw8bit)) {
        follow(&s, "base", 0, 3);
        for (int k = 0; k < 2; k++) {
            double(*to)[SIZE] = k ? after : before;
            for (int i = 0; i < 4; i++) {
                weft_array *a = state_of(s.optimizer, names[i]);
                CHECK_OK(weft_read(a, WEFT_FLOAT64, to[i], weft_size(a)));
            }
            CHECK_OK(weft_read(s.array, WEFT_FLOAT64, to[4], SIZE));
            weft_optim_call call = {.lr_factor = 1, .clip = 1};
            weft_array *g = weft_scale(weft_ones_like(s.array), NAN);
            if (k == 0)
                CHECK_OK(weft_optim_apply(s.optimizer, &g, &call));
            CHECK(!call.applied);
        }
        CHECK_BYTES(before, after, sizeof before);
    }
    end(&s);
    weft_scope_close(NULL);
    golden_close();
}

CHECK_MAIN("adamw8bit", CHECK_CASE(codes_are_the_nearest),
           CHECK_CASE(the_fused_op_does_what_the_formula_does),
           CHECK_CASE(gradients_that_are_not_finite_change_nothing),
           CHECK_CASE(updates_are_nearly_those_of_bitsandbytes_and_adamw),
           CHECK_CASE(small_parameters_equal_adamw), CHECK_CASE(the_state_takes_a_quarter),
           CHECK_CASE(a_saved_state_continues_with_the_same_bytes))
