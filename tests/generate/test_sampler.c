/* tests/generate/test_sampler.c -- generate/sampler.c: each step, their order, the draw. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "weft/generate.h"
#include "weft/random.h"

enum { V = 5 };

/* Probabilities 0.4, 0.3, 0.15, 0.1, 0.05, not in order. */
static const double shares[V] = {0.1, 0.4, 0.05, 0.3, 0.15};

static weft_array *logits(void)
{
    float values[V];
    for (int i = 0; i < V; i++)
        values[i] = (float)log(shares[i]);
    return weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(1, V));
}

/* The remaining tokens, as a string of their indices. */
static const char *left(const weft_sampler_options *options)
{
    static char word[V + 1];
    float values[V];
    int n = 0;
    weft_scope_open();
    if (!CHECK_OK(weft_read(weft_sampler_logits(logits(), NULL, options), WEFT_FLOAT32, values, V)))
        values[0] = NAN;
    weft_scope_close(NULL);
    for (int i = 0; i < V; i++) {
        if (values[i] > -INFINITY)
            word[n++] = (char)('0' + i);
    }
    word[n] = '\0';
    return word;
}

static void top_k_leaves_k(void)
{
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_k = 1}), "1");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_k = 3}), "134");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_k = 0}), "01234");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_k = 99}), "01234");
}

static void top_p_leaves_the_fewest_that_add_up(void)
{
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.001}), "1");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.39}), "1");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.41}), "13");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.71}), "134");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 1}), "01234");
}

static void min_p_leaves_a_share_of_the_largest(void)
{
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .min_p = 0.74}), "13");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .min_p = 0.3}), "134");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .min_p = 0.1}), "01234");
}

/* Temperature 2 takes square roots: 0.632 0.548 0.387 0.316 0.224 of 2.107, so the first two hold
 * 0.56 and not 0.7. */
static void temperature_comes_before_top_p(void)
{
    CHECK_STR(left(&(weft_sampler_options){.temperature = 2, .top_p = 0.6}), "134");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.6}), "13");
}

/* Were top-k first, its two tokens would be renormalized to 0.57 and 0.43, and 0.5 would leave one:
 * top-p comes first and leaves both. */
static void top_p_comes_before_top_k(void)
{
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.5, .top_k = 2}), "13");
    CHECK_STR(left(&(weft_sampler_options){.temperature = 1, .top_p = 0.9, .top_k = 2}), "13");
    CHECK_STR(
        left(&(weft_sampler_options){.temperature = 1, .top_p = 0.9, .top_k = 4, .min_p = 0.5}),
        "13");
}

static void ties_stay_together(void)
{
    weft_scope_open();
    const float values[] = {1, 2, 2, 0};
    weft_array *x = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(1, 4));
    float out[4];
    const weft_sampler_options o = {.temperature = 1, .top_k = 1};
    CHECK_OK(weft_read(weft_sampler_logits(x, NULL, &o), WEFT_FLOAT32, out, 4));
    CHECK(out[0] == -INFINITY && out[1] == 2 && out[2] == 2 && out[3] == -INFINITY);
    weft_scope_close(NULL);
}

static void the_penalty_lowers_tokens_that_occurred(void)
{
    weft_scope_open();
    const float values[] = {2, -2, 2, -2}, seen[] = {1, 3, 0, 0};
    const float wanted[] = {1, -4, 2, -2};
    weft_array *x = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(1, 4));
    weft_array *s = weft_from_data(seen, WEFT_FLOAT32, WEFT_DIMS(1, 4));
    float out[4];
    const weft_sampler_options o = {.repetition_penalty = 2};
    const weft_sampler_inputs in = {.seen = s};
    CHECK_OK(weft_read(weft_sampler_logits(x, &in, &o), WEFT_FLOAT32, out, 4));
    for (int i = 0; i < 4; i++)
        CHECK_CLOSE(out[i], wanted[i], 1e-6);
    /* Without it, greedy takes the first of the two largest; with it, the other. */
    CHECK_EQ_INT(weft_item_int(weft_sampler_draw(x, &in, NULL)), 0);
    CHECK_EQ_INT(weft_item_int(weft_sampler_draw(x, &in, &o)), 2);
    weft_scope_close(NULL);
}

static void temperature_zero_is_greedy_whatever_else(void)
{
    static const weft_sampler_options options[] = {
        {.top_p = 0.99},
        {.top_k = 4},
        {.min_p = 0.01},
        {.top_p = 0.9, .top_k = 5, .min_p = 0.1},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            weft_scope_open();
            const weft_sampler_inputs in = {.key = weft_random_key(seed)};
            CHECK_EQ_INT(weft_item_int(weft_sampler_draw(logits(), &in, &options[i])), 1);
            weft_scope_close(NULL);
        }
    }
}

/* Draws follow the probabilities, are the same for the same key, and are int32, one a row. */
static void draws_follow_the_probabilities(void)
{
    enum { N = 20000 };
    static int32_t drawn[N], again[N];
    weft_scope_open();
    weft_array *rows = weft_broadcast_to(logits(), WEFT_DIMS(N, V));
    CHECK_OK(weft_eval(rows));
    const weft_sampler_options o = {.temperature = 1};
    const weft_sampler_inputs in = {.key = weft_random_key(5)};
    weft_array *tokens = weft_sampler_draw(rows, &in, &o);
    CHECK_EQ_INT(weft_dtype_of(tokens), WEFT_INT32);
    CHECK_EQ_INT(weft_ndim(tokens), 1);
    CHECK_OK(weft_read(tokens, WEFT_INT32, drawn, N));
    tokens = weft_sampler_draw(rows, &in, &o);
    CHECK_OK(weft_read(tokens, WEFT_INT32, again, N));
    weft_scope_close(NULL);
    CHECK_BYTES(again, drawn, sizeof drawn);
    int counts[V] = {0};
    for (int i = 0; i < N; i++)
        counts[drawn[i] >= 0 && drawn[i] < V ? drawn[i] : 0]++;
    for (int i = 0; i < V; i++) /* five standard deviations */
        CHECK_CLOSE((double)counts[i] / (double)N, shares[i], 5 * sqrt(0.25 / (double)N));
}

static void only_remaining_tokens_are_drawn(void)
{
    enum { N = 2000 };
    static int32_t drawn[N];
    weft_scope_open();
    weft_array *rows = weft_broadcast_to(logits(), WEFT_DIMS(N, V));
    const weft_sampler_options o = {.temperature = 1, .top_k = 2};
    const weft_sampler_inputs in = {.key = weft_random_key(1)};
    CHECK_OK(weft_read(weft_sampler_draw(rows, &in, &o), WEFT_INT32, drawn, N));
    weft_scope_close(NULL);
    int others = 0;
    for (int i = 0; i < N; i++)
        others += drawn[i] != 1 && drawn[i] != 3;
    CHECK_EQ_INT(others, 0);
}

static void bad_options_are_errors(void)
{
    static const weft_sampler_options bad[] = {
        {.temperature = -1},
        {.temperature = NAN},
        {.top_p = 1.5},
        {.top_p = -0.1},
        {.top_k = -1},
        {.order = (weft_sampler_order)2},
        {.min_p = 2},
        {.repetition_penalty = -1},
        {.temperature = (double)INFINITY},
    };
    weft_scope_open();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_array *x = weft_sampler_logits(logits(), NULL, &bad[i]);
        CHECK(!weft_ok(x));
        CHECK_CONTAINS(weft_error(x), "sampler: ");
    }
    weft_array *flat = weft_zeros(WEFT_DIMS(4), WEFT_FLOAT32);
    CHECK(!weft_ok(weft_sampler_draw(flat, NULL, NULL)));
    weft_scope_close(NULL);
}

CHECK_MAIN("sampler", CHECK_CASE(top_k_leaves_k), CHECK_CASE(top_p_leaves_the_fewest_that_add_up),
           CHECK_CASE(min_p_leaves_a_share_of_the_largest),
           CHECK_CASE(temperature_comes_before_top_p), CHECK_CASE(top_p_comes_before_top_k),
           CHECK_CASE(ties_stay_together), CHECK_CASE(the_penalty_lowers_tokens_that_occurred),
           CHECK_CASE(temperature_zero_is_greedy_whatever_else),
           CHECK_CASE(draws_follow_the_probabilities), CHECK_CASE(only_remaining_tokens_are_drawn),
           CHECK_CASE(bad_options_are_errors))
