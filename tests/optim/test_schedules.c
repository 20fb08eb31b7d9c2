/* tests/optim/test_schedules.c -- rates against MLX's schedules, joined, in compiled functions. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/compile.h"
#include "weft/optim.h"

/* linear, then cosine, then exponential */
static weft_rate *joined(void)
{
    weft_rate *parts[] = {weft_rate_linear(0, 0.1, 10), weft_rate_cosine_decay(0.1, 20, 0),
                          weft_rate_exponential_decay(0.01, 0.5)};
    return weft_rate_join(parts, 3, (const int64_t[]){10, 30});
}

/* The steps of the golden file. */
enum { N = 17 };

static void check_rate(weft_rate *rate, const char *tensor)
{
    int64_t at[N];
    double expected[N];
    weft_scope_open();
    if (CHECK(rate != NULL) && CHECK_OK(weft_read(golden_get("rates/at"), WEFT_INT64, at, N)) &&
        CHECK_OK(weft_read(golden_get(tensor), WEFT_FLOAT64, expected, N))) {
        for (int i = 0; i < N; i++) {
            CHECK_CLOSE(weft_rate_at(rate, at[i]), expected[i], 1e-15);
            weft_array *step = weft_scalar_int(at[i], WEFT_INT32);
            weft_array *value = weft_rate_array(rate, step);
            CHECK_EQ_INT(weft_dtype_of(value), WEFT_FLOAT64);
            CHECK_CLOSE(weft_item(value), expected[i], 1e-15);
            value = weft_rate_array(rate, weft_scalar((double)at[i], WEFT_FLOAT32));
            CHECK_EQ_INT(weft_dtype_of(value), WEFT_FLOAT32);
            CHECK_CLOSE(weft_item(value), expected[i], 2e-8); /* ulps of 0.1: 7e-9 */
        }
    }
    weft_scope_close(NULL);
    weft_rate_free(rate);
}

static void rates_are_mlxs(void)
{
    if (!golden_open("optim/optimizers"))
        return;
    check_rate(weft_rate_exponential_decay(0.1, 0.97), "rates/exponential");
    check_rate(weft_rate_step_decay(0.1, 0.9, 10), "rates/step");
    check_rate(weft_rate_cosine_decay(0.1, 30, 0.01), "rates/cosine");
    check_rate(weft_rate_linear(0, 0.1, 15), "rates/linear");
    check_rate(joined(), "rates/join");
    golden_close();
}

static weft_array *root(void *context, weft_array *step)
{
    return weft_scale(weft_rsqrt(weft_add_scalar(step, 1)), *(double *)context);
}

static weft_array *vector(void *context, weft_array *step)
{
    (void)context;
    return weft_add(step, weft_ones(WEFT_DIMS(2), WEFT_FLOAT32));
}

static void custom_rates_and_products(void)
{
    double scale = 3;
    weft_rate *rate = weft_rate_product(weft_rate_custom(root, &scale), weft_rate_constant(2));
    CHECK_CLOSE(weft_rate_at(rate, 8), 2, 1e-15);
    weft_rate_free(rate);
    rate = weft_rate_custom(vector, NULL);
    CHECK(isnan(weft_rate_at(rate, 0)));
    weft_rate_free(rate);
}

static void arguments_out_of_range_are_refused(void)
{
    CHECK(weft_rate_exponential_decay(1, 0) == NULL);
    CHECK_CONTAINS(weft_error_message(), "rate: expected a positive number, got 0");
    CHECK(weft_rate_step_decay(1, 0.5, 0) == NULL);
    CHECK(weft_rate_cosine_decay(1, -1, 0) == NULL);
    CHECK(weft_rate_linear(1, 0, 0) == NULL);
    CHECK_CONTAINS(weft_error_message(), "linear schedule: steps: expected at least 1, got 0");
    CHECK(weft_rate_join(NULL, 0, NULL) == NULL);
    /* a part that failed fails the whole, and the others are freed */
    weft_rate *parts[] = {weft_rate_constant(1), weft_rate_linear(1, 0, 0), weft_rate_constant(1)};
    CHECK(weft_rate_join(parts, 3, (const int64_t[]){1, 2}) == NULL);
    CHECK(weft_rate_product(NULL, weft_rate_constant(1)) == NULL);
    weft_rate_free(NULL);
    weft_rate *rate = weft_rate_constant(1);
    weft_scope_open();
    CHECK(!weft_ok(weft_rate_array(rate, weft_ones(WEFT_DIMS(3), WEFT_FLOAT32))));
    weft_scope_close(NULL);
    weft_rate_free(rate);
}

/* Every allocation of a join fails once: nothing leaks, nothing is freed twice. */
static void no_memory(void)
{
    for (uint64_t nth = 1; nth <= 6; nth++) {
        weft_memory_fail_at(nth);
        weft_rate *rate = joined();
        weft_memory_fail_at(0);
        CHECK((rate == NULL) == (nth < 7));
        weft_rate_free(rate);
    }
}

static int value(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = weft_rate_array(context, in[0]);
    return 1;
}

static void rates_compile(void)
{
    weft_rate *rate = joined();
    weft_compiled *compiled = NULL;
    if (CHECK_OK(weft_compile(value, rate, NULL, 0, NULL, &compiled))) {
        for (int64_t s = 0; s < 40; s++) {
            weft_array *out;
            weft_scope_open();
            weft_array *step = weft_scalar_int(s, WEFT_INT64);
            CHECK_OK(weft_compiled_call(compiled, &step, 1, &out, 1));
            CHECK_CLOSE(weft_item(out), weft_rate_at(rate, s), 1e-17);
            weft_scope_close(NULL);
        }
        CHECK_EQ_INT(weft_compiled_counts(compiled).compiles, 1);
    }
    weft_compiled_free(compiled);
    weft_rate_free(rate);
}

CHECK_MAIN("schedules", CHECK_CASE(rates_are_mlxs), CHECK_CASE(custom_rates_and_products),
           CHECK_CASE(arguments_out_of_range_are_refused), CHECK_CASE(no_memory),
           CHECK_CASE(rates_compile))
