/* tests/cpu/test_programs.c -- merged ops as programs of stages give the same bits as ops one by
 * one: for numbers of all kinds, for each instruction set, with stores past the caches and within
 * them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/elementwise.h"
#include "tests/check.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { REPEATS = 2 };

static const float specials[] = {
    0.0f,      -0.0f,       1.0f,        -1.0f,     0.5f,       -2.5f,    3.0f,
    1e-40f,    -1e-40f,     1e-45f,      0x1p-126f, -0x1p-126f, 3.4e38f,  -3.4e38f,
    INFINITY,  -INFINITY,   NAN,         -NAN,      1.0e10f,    65504.0f, 65520.0f,
    -65536.0f, 1.00390625f, 0.33333334f, 16777216,  2.5e-8f,    6e-8f,    -1.01171875f,
};
enum { SPECIALS = sizeof specials / sizeof *specials, PAIRS = SPECIALS * SPECIALS * REPEATS };

static weft_array *both_ways(int kind, weft_array *x, weft_array *y)
{
    weft_array *truth = weft_less(x, y);
    switch (kind) {
    case 0:
        return weft_add(x, y);
    case 1:
        return weft_subtract(x, y);
    case 2:
        return weft_multiply(x, y);
    case 3:
        return weft_divide(x, y);
    case 4:
        return weft_minimum(x, y);
    case 5:
        return weft_maximum(x, y);
    case 6:
        return weft_where(truth, x, y);
    case 7:
        return weft_where(weft_less_equal(x, y), y, weft_negative(x));
    case 8:
        return weft_where(weft_equal(x, y), weft_square(x), y);
    case 9:
        return weft_where(weft_not_equal(x, y), weft_sqrt(x), weft_abs(y));
    case 10:
        return weft_where(weft_logical_and(x, y), weft_reciprocal(x), weft_relu(y));
    case 11:
        return weft_where(weft_logical_or(x, weft_logical_not(y)), weft_tanh(x), y);
    case 12:
        return weft_where(x, weft_silu(y), weft_exp(x));
    default:
        return NULL;
    }
}

enum { KINDS = 13 };

static weft_array *now_if(bool one_by_one, weft_array *a)
{
    if (one_by_one) {
        CHECK_OK(weft_eval(weft_keep(a)));
        weft_drop(a);
    }
    return a;
}

/* An op between two that it is merged with, both of which keep every bit. */
static weft_array *expression(int kind, weft_array *x, weft_array *y, bool turned, bool one_by_one)
{
    weft_array *u = now_if(one_by_one, weft_negative(x));
    weft_array *v = now_if(one_by_one, turned ? both_ways(kind, y, u) : both_ways(kind, u, y));
    return weft_negative(v);
}

static bool same_number(const char *a, const char *b, weft_dtype dtype, int64_t i)
{
    if (dtype == WEFT_FLOAT32) {
        float p, q;
        memcpy(&p, a + 4 * i, 4);
        memcpy(&q, b + 4 * i, 4);
        return memcmp(&p, &q, 4) == 0 || (isnan(p) && isnan(q));
    }
    uint16_t p, q;
    memcpy(&p, a + 2 * i, 2);
    memcpy(&q, b + 2 * i, 2);
    bool half = dtype == WEFT_FLOAT16;
    float f = half ? weft_float16_to_float(p) : weft_bfloat16_to_float(p);
    float g = half ? weft_float16_to_float(q) : weft_bfloat16_to_float(q);
    return p == q || (isnan(f) && isnan(g));
}

/* Which NaN it is depends on the order of the operands, which is the compiler's. */
static void same_numbers(weft_array *got, weft_array *want, const char *what)
{
    CHECK_OK(weft_eval(got));
    CHECK_OK(weft_eval(want));
    const char *a = weft_data(got), *b = weft_data(want);
    int64_t wrong = 0, n = a && b ? weft_size(got) : 0;
    for (int64_t i = 0; i < n; i++) {
        if (!same_number(a, b, weft_dtype_of(got), i) && wrong++ == 0) {
            printf("%s: element %lld of %lld\n", what, (long long)i, (long long)n);
        }
    }
    CHECK(n == weft_size(want) && n > 0);
    CHECK(wrong == 0);
}

/* Every pair of special numbers; y as an array, or one number after another. */
static void special_numbers(cpu_isa isa, weft_dtype dtype)
{
    static float x[PAIRS], y[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        x[i] = specials[i % SPECIALS];
        y[i] = specials[i / SPECIALS % SPECIALS];
    }
    weft_scope_open();
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(PAIRS)), dtype);
    weft_array *b = weft_astype(weft_from_data(y, WEFT_FLOAT32, WEFT_DIMS(PAIRS)), dtype);
    CHECK_OK(weft_eval(weft_keep(a)));
    CHECK_OK(weft_eval(weft_keep(b)));
    for (int kind = 0; kind < KINDS; kind++) {
        for (int turned = 0; turned < 2; turned++) {
            char what[64];
            snprintf(what, sizeof what, "%s, op %d%s", weft__cpu_isa_name(isa), kind,
                     turned ? ", turned" : "");
            weft_scope_open();
            same_numbers(expression(kind, a, b, turned, false),
                         expression(kind, a, b, turned, true), what);
            for (int i = 0; i < SPECIALS; i++) {
                weft_array *c = weft_full((weft_dims){0}, (double)specials[i], dtype);
                CHECK_OK(weft_eval(weft_keep(c)));
                same_numbers(expression(kind, a, c, turned, false),
                             expression(kind, a, c, turned, true), what);
                weft_drop(c);
            }
            weft_scope_close(NULL);
        }
    }
    weft_drop(a);
    weft_drop(b);
    weft_scope_close(NULL);
}

static void for_each_isa(void (*body)(cpu_isa))
{
    const cpu_isa best = weft__cpu_isa();
    for (cpu_isa isa = CPU_BASELINE; isa <= best; isa++) {
        weft__cpu_elementwise_use(isa);
        body(isa);
    }
    weft__cpu_elementwise_use(best);
}

static void in_all_dtypes(cpu_isa isa)
{
    special_numbers(isa, WEFT_FLOAT32);
    special_numbers(isa, WEFT_FLOAT16);
    special_numbers(isa, WEFT_BFLOAT16);
}

static void numbers_of_all_kinds(void)
{
    for_each_isa(in_all_dtypes);
}

/* ---- Past the caches ------------------------------------------------------------------------ */

static void long_chain(cpu_isa isa)
{
    static const int64_t lengths[] = {512, 4096, 16384, 70001, 300000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        weft_scope_open();
        weft_array *x =
            weft_random_uniform(weft_random_key(3), WEFT_DIMS(lengths[i]), -1, 1, WEFT_FLOAT32);
        weft_array *y =
            weft_random_uniform(weft_random_key(4), WEFT_DIMS(lengths[i]), -1, 1, WEFT_FLOAT32);
        CHECK_OK(weft_eval(weft_keep(x)));
        CHECK_OK(weft_eval(weft_keep(y)));
        weft_array *merged[2];
        for (int past = 0; past < 2; past++) {
            weft__cpu_elementwise_cache(past ? 0 : INT64_MAX);
            weft_array *z = weft_multiply(weft_add(x, y), weft_subtract(x, y));
            merged[past] = weft_keep(weft_add(weft_tanh(z), weft_maximum(z, y)));
            CHECK_OK(weft_eval(merged[past]));
        }
        weft__cpu_elementwise_cache(INT64_MAX);
        weft_array *z = now_if(
            true, weft_multiply(now_if(true, weft_add(x, y)), now_if(true, weft_subtract(x, y))));
        weft_array *want = weft_add(now_if(true, weft_tanh(z)), now_if(true, weft_maximum(z, y)));
        same_numbers(merged[0], want, weft__cpu_isa_name(isa));
        same_numbers(merged[1], want, weft__cpu_isa_name(isa));
        for (int k = 0; k < 2; k++) {
            weft_drop(merged[k]);
        }
        weft_drop(x);
        weft_drop(y);
        weft_scope_close(NULL);
    }
}

static void chains_past_the_caches_keep_their_bits(void)
{
    for_each_isa(long_chain);
    weft__cpu_elementwise_cache(32 << 20);
}

CHECK_MAIN("programs", CHECK_CASE(numbers_of_all_kinds),
           CHECK_CASE(chains_past_the_caches_keep_their_bits))
