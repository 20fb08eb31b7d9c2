/* tests/ops/test_random.c -- random words against JAX's, and the distributions computed from
 * them. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/support/arrays.h"
#include "weft/generate.h"
#include "weft/op.h"
#include "weft/ops.h"
#include "weft/random.h"

static const uint64_t seeds[] = {0, 1, 42, (UINT64_C(1) << 63) + 12345};
enum { SEEDS = sizeof seeds / sizeof *seeds, MANY = 1 << 17 };

static void expect_words(weft_array *a, const char *kind, int seed, int count)
{
    char name[64];
    int64_t n;
    snprintf(name, sizeof name, "%d.%s.%d", seed, kind, count);
    const double *expected = arrays_find(name, &n);
    if (!expected || !CHECK_EQ_INT(weft_size(a), n)) {
        return;
    }
    uint32_t *words = malloc((size_t)n * sizeof *words);
    if (CHECK(words) && CHECK_OK(weft_read(a, WEFT_UINT32, words, n))) {
        int64_t wrong = 0;
        for (int64_t i = 0; i < n; i++) {
            wrong += words[i] != (uint32_t)expected[i];
        }
        if (wrong) {
            CHECK_FAIL("%s: %lld of %lld words differ", name, (long long)wrong, (long long)n);
        }
    }
    free(words);
}

static void words_and_splits_are_those_of_jax(void)
{
    static const int words[] = {1, 2, 5, 1031}, parts[] = {1, 4, 7, 33};
    if (!CHECK(arrays_load("random.txt"))) {
        return;
    }
    weft_scope_open();
    for (int s = 0; s < SEEDS; s++) {
        weft_array *key = weft_random_key(seeds[s]);
        for (int i = 0; i < 4; i++) {
            expect_words(weft_random_bits(key, WEFT_DIMS(words[i]), 4), "words", s, words[i]);
            expect_words(weft_random_bits(key, WEFT_DIMS(parts[i]), 1), "bytes", s, parts[i]);
            expect_words(weft_random_bits(key, WEFT_DIMS(parts[i]), 2), "halves", s, parts[i]);
        }
        expect_words(weft_random_split(key, 2), "split", s, 2);
        expect_words(weft_random_split(key, 3), "split", s, 3);
    }
    CHECK_EQ_INT(weft_item_int(weft_random_bits(weft_random_key(0), WEFT_SCALAR, 4)), 1797259609);
    weft_scope_close(NULL);
    arrays_unload();
}

/* `count` words of the key 7 as the CPU makes them and as the reference kernel does. */
static void compare_with_reference(int64_t count)
{
    const weft_op *op = weft_op_find("random_bits");
    uint32_t key[2] = {0, 7}, *words = malloc((size_t)count * 2 * sizeof *words);
    weft_tensor in = {.dtype = WEFT_UINT32, .shape = {1, {2}}, .strides = {1}, .data = key};
    weft_tensor out = {.dtype = WEFT_UINT32, .shape = {1, {count}}, .strides = {1}, .data = words};
    weft_call call = {.op = op, .n_inputs = 1, .n_outputs = 1, .in = &in, .out = &out};
    if (!CHECK(op && words)) {
        free(words);
        return;
    }
    weft_scope_open();
    CHECK_OK(op->reference(&call));
    weft_array *a = weft_random_bits(weft_random_key(7), WEFT_DIMS(count), 4);
    CHECK_OK(weft_read(a, WEFT_UINT32, words + count, count));
    CHECK_BYTES(words + count, words, (size_t)count * sizeof *words);
    weft_scope_close(NULL);
    free(words);
}

static void every_instruction_set_makes_the_same_words(void)
{
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        (void)weft__cpu_use_isa((cpu_isa)isa);
        compare_with_reference(1);
        compare_with_reference(513);
        compare_with_reference(100001);
    }
}

/* ---- distributions -------------------------------------------------------------------------- */

static double *draw(weft_array *a, int64_t n)
{
    double *x = malloc((size_t)n * sizeof *x);
    if (!CHECK(x) || !CHECK_OK(weft_read(a, WEFT_FLOAT64, x, n))) {
        free(x);
        return NULL;
    }
    return x;
}

static void moments(const double *x, int64_t n, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    *mean = sum / (double)n;
    *variance = squares / (double)n - *mean * *mean;
}

static void uniform_is_the_words_over_2_to_the_32(void)
{
    weft_scope_open();
    weft_array *key = weft_random_key(3);
    double *words = draw(weft_random_bits(key, WEFT_DIMS(MANY), 4), MANY);
    double *unit = draw(weft_random_uniform(key, WEFT_DIMS(MANY), 0, 1, WEFT_FLOAT32), MANY);
    double *wide = draw(weft_random_uniform(key, WEFT_DIMS(MANY), -2, 5, WEFT_FLOAT64), MANY);
    int64_t wrong = 0;
    for (int64_t i = 0; words && unit && wide && i < MANY; i++) {
        float expected = fminf((float)words[i] * 0x1p-32f, nextafterf(1, 0));
        wrong += unit[i] != (double)expected;
        wrong += fabs(wide[i] - (words[i] * 0x1p-32 * 7 - 2)) > 1e-14;
    }
    CHECK_EQ_INT(wrong, 0);
    free(words);
    free(unit);
    free(wide);
    weft_scope_close(NULL);
}

/* Rounding must not reach the upper bound; plain rounding to bfloat16 would, once in 256 draws. */
static void uniform_stays_below_high(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT64};
    static const double ends[][2] = {{0, 1}, {1, 2}, {-1, 0}, {-3, -1}, {-0.5, 0.5}};
    weft_scope_open();
    for (int d = 0; d < 4; d++) {
        for (int e = 0; e < 5; e++) {
            double low = ends[e][0], high = ends[e][1], mean, variance;
            weft_array *a = weft_random_uniform(weft_random_key((uint64_t)e), WEFT_DIMS(MANY), low,
                                                high, dtypes[d]);
            CHECK_EQ_INT(weft_dtype_of(a), dtypes[d]);
            double *x = draw(a, MANY), least = INFINITY, largest = -INFINITY;
            for (int64_t i = 0; x && i < MANY; i++) {
                least = fmin(least, x[i]);
                largest = fmax(largest, x[i]);
            }
            CHECK(least >= low);
            CHECK(largest < high);
            if (x) {
                moments(x, MANY, &mean, &variance);
                CHECK_CLOSE(mean, (low + high) / 2, 0.01 * (high - low));
                CHECK_CLOSE(variance, (high - low) * (high - low) / 12, 0.01 * (high - low));
            }
            free(x);
        }
    }
    weft_scope_close(NULL);
}

/* The distribution function maps normal numbers back to the uniform numbers they come from. */
static void normal_inverts_the_error_function(void)
{
    weft_scope_open();
    weft_array *key = weft_random_key(11);
    double *x = draw(weft_random_normal(key, WEFT_DIMS(MANY), 0, 1, WEFT_FLOAT32), MANY);
    double *words = draw(weft_random_bits(key, WEFT_DIMS(MANY), 4), MANY);
    double mean, variance, worst = 0;
    for (int64_t i = 0; x && words && i < MANY; i++) {
        double u = words[i] * 0x1p-32 * 2 - 1;
        worst = fmax(worst, fabs(erf(x[i] / sqrt(2)) - u));
        if (!CHECK(isfinite(x[i]))) {
            break;
        }
    }
    CHECK_CLOSE(worst, 0, 1e-6);
    if (x) {
        moments(x, MANY, &mean, &variance);
        CHECK_CLOSE(mean, 0, 0.01);
        CHECK_CLOSE(variance, 1, 0.02);
    }
    free(x);
    free(words);
    x = draw(weft_random_normal(key, WEFT_DIMS(MANY), 3, 0.5, WEFT_BFLOAT16), MANY);
    if (x) {
        moments(x, MANY, &mean, &variance);
        CHECK_CLOSE(mean, 3, 0.01);
        CHECK_CLOSE(variance, 0.25, 0.01);
    }
    free(x);
    weft_scope_close(NULL);
}

static void bernoulli_and_categorical_have_their_frequencies(void)
{
    static const double logits[] = {0, 1, -INFINITY, 2, -1};
    double weights = 0, counts[5] = {0};
    weft_scope_open();
    double mean = weft_item(weft_mean(
        weft_astype(weft_random_bernoulli(weft_random_key(5), WEFT_DIMS(MANY), 0.3), WEFT_FLOAT32),
        WEFT_ALL_AXES, false));
    CHECK_CLOSE(mean, 0.3, 0.005);
    weft_array *never = weft_random_bernoulli(weft_random_key(6), WEFT_DIMS(1000), 0);
    weft_array *always = weft_random_bernoulli(weft_random_key(6), WEFT_DIMS(1000), 1);
    CHECK_EQ_INT(weft_item_int(weft_any(never, WEFT_ALL_AXES, false)), 0);
    CHECK_EQ_INT(weft_item_int(weft_all(always, WEFT_ALL_AXES, false)), 1);

    weft_array *l = weft_from_data(logits, WEFT_FLOAT64, WEFT_DIMS(5, 1));
    l = weft_broadcast_to(l, WEFT_DIMS(5, MANY));
    weft_array *choice = weft_random_categorical(weft_random_key(9), l, 0);
    CHECK_EQ_INT(weft_dtype_of(choice), WEFT_UINT32);
    double *x = draw(choice, MANY);
    for (int64_t i = 0; x && i < MANY; i++) {
        counts[(int)x[i]]++;
    }
    for (int k = 0; k < 5; k++) {
        weights += exp(logits[k]);
    }
    for (int k = 0; k < 5; k++) {
        CHECK_CLOSE(counts[k] / (double)MANY, exp(logits[k]) / weights, 0.006);
    }
    free(x);
    weft_scope_close(NULL);
}

/* With a key for each row, a row has the same draw as its key alone. */
static void categorical_takes_a_key_for_each_row(void)
{
    enum { B = 7, V = 1001 };
    weft_scope_open();
    weft_array *keys = weft_random_split(weft_random_key(11), B);
    weft_array *logits =
        weft_random_normal(weft_random_key(12), WEFT_DIMS(B, V), 0, 1, WEFT_FLOAT32);
    double *all = draw(weft_random_categorical(keys, logits, -1), B);
    for (int i = 0; all && i < B; i++) {
        weft_array *key = weft_squeeze(weft_slice_axis(keys, 0, i, i + 1), 0);
        weft_array *row = weft_slice_axis(logits, 0, i, i + 1);
        CHECK_EQ_INT(weft_item_int(weft_random_categorical(key, row, -1)), (int64_t)all[i]);
    }
    free(all);
    CHECK_CONTAINS(weft_error(weft_random_categorical(keys, logits, 0)), "expected logits (7, V)");
    CHECK_CONTAINS(weft_error(weft_random_categorical(weft_random_split(NULL, 3), logits, -1)),
                   "expected logits (3, V)");
    const weft_sampler_inputs in = {.key = keys};
    const weft_sampler_options o = {.temperature = 1, .xtc_probability = 0.5};
    CHECK_CONTAINS(weft_error(weft_sampler_draw(logits, &in, &o)), "with XTC");
    weft_scope_close(NULL);
}

/* ---- the default generator ------------------------------------------------------------------ */

static void read_key(weft_array *key, uint32_t out[2])
{
    CHECK_OK(weft_read(key, WEFT_UINT32, out, 2));
}

static void next_keys_are_the_second_halves_of_splits(void)
{
    uint32_t expected[4], key[2];
    weft_scope_open();
    weft_random_seed(42);
    weft_array *current = weft_random_key(42);
    for (int i = 0; i < 5; i++) {
        CHECK_OK(weft_read(weft_random_split(current, 2), WEFT_UINT32, expected, 4));
        read_key(weft_random_next_key(), key);
        CHECK_BYTES(key, expected + 2, sizeof key);
        current = weft_from_data(expected, WEFT_UINT32, WEFT_DIMS(2));
    }
    weft_random_seed(1);
    double a = weft_item(weft_random_uniform(NULL, WEFT_SCALAR, 0, 1, WEFT_FLOAT32));
    double b = weft_item(weft_random_uniform(NULL, WEFT_SCALAR, 0, 1, WEFT_FLOAT32));
    weft_random_seed(1);
    CHECK(a != b);
    CHECK_CLOSE(weft_item(weft_random_uniform(NULL, WEFT_SCALAR, 0, 1, WEFT_FLOAT32)), a, 0);
    weft_scope_close(NULL);
}

static void *first_key_of_a_thread(void *out)
{
    weft_scope_open();
    weft_status status = weft_read(weft_random_next_key(), WEFT_UINT32, out, 2);
    weft_scope_close(NULL);
    return status == WEFT_OK ? out : NULL;
}

static void every_thread_has_its_own_generator(void)
{
    pthread_t thread;
    uint32_t here[2], there[2];
    void *made = NULL;
    weft_scope_open();
    weft_random_seed(0);
    read_key(weft_random_next_key(), here);
    if (CHECK_EQ_INT(pthread_create(&thread, NULL, first_key_of_a_thread, there), 0)) {
        pthread_join(thread, &made);
        CHECK(made);
        CHECK_BYTES(there, here, sizeof here);
    }
    weft_scope_close(NULL);
}

static void bad_arguments_say_what_is_wrong(void)
{
    weft_scope_open();
    weft_array *key = weft_random_key(0);
    CHECK_CONTAINS(weft_error(weft_random_bits(weft_scalar(1, WEFT_FLOAT32), WEFT_DIMS(2), 4)),
                   "key: expected uint32 (..., 2), got float32 ()");
    CHECK_CONTAINS(weft_error(weft_random_bits(key, WEFT_DIMS(2), 8)), "1, 2 or 4 bytes, got 8");
    CHECK_CONTAINS(weft_error(weft_random_bits(key, WEFT_DIMS(-2), 4)), "negative dimension");
    CHECK_CONTAINS(weft_error(weft_random_bits(key, WEFT_DIMS(INT64_C(1) << 40), 4)), "words");
    CHECK_CONTAINS(weft_error(weft_random_uniform(key, WEFT_DIMS(2), 2, 1, WEFT_FLOAT32)),
                   "low <= high");
    CHECK_CONTAINS(weft_error(weft_random_uniform(key, WEFT_DIMS(2), 0, NAN, WEFT_FLOAT32)),
                   "low <= high");
    CHECK_CONTAINS(weft_error(weft_random_uniform(key, WEFT_DIMS(2), -3e38, 3e38, WEFT_FLOAT32)),
                   "a range that float32 can hold");
    CHECK_CONTAINS(weft_error(weft_random_normal(key, WEFT_DIMS(2), 0, 1, WEFT_INT32)),
                   "floating dtype, got int32");
    weft_scope_close(NULL);
}

CHECK_MAIN("random", CHECK_CASE(words_and_splits_are_those_of_jax),
           CHECK_CASE(every_instruction_set_makes_the_same_words),
           CHECK_CASE(uniform_is_the_words_over_2_to_the_32), CHECK_CASE(uniform_stays_below_high),
           CHECK_CASE(normal_inverts_the_error_function),
           CHECK_CASE(bernoulli_and_categorical_have_their_frequencies),
           CHECK_CASE(categorical_takes_a_key_for_each_row),
           CHECK_CASE(next_keys_are_the_second_halves_of_splits),
           CHECK_CASE(every_thread_has_its_own_generator),
           CHECK_CASE(bad_arguments_say_what_is_wrong))
