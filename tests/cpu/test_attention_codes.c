/* tests/cpu/test_attention_codes.c -- attention over quantized keys and values, read without
 * decoding, on every instruction set against attention over the decoded ones. */
#include <math.h>
#include <stdio.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "weft/ops.h"
#include "weft/random.h"

typedef struct problem {
    const char *name;
    int64_t B, L, S, H, Hk, D, Dv, group;
    weft_attention_options options; /* the mask and the lengths aside */
    int64_t lengths[2];             /* both 0: none */
    bool mask;
} problem;

/* Groups are those of one half of a head with 4 bits. */
static const problem problems[] = {
    {"decode", 1, 1, 700, 4, 2, 128, 128, 64, {.causal = true}, {0}, false},
    {"one head", 2, 1, 1100, 1, 1, 64, 64, 32, {.causal = true, .window = 500}, {0}, false},
    {"groups of 40", 2, 1, 300, 6, 2, 80, 80, 40, {.causal = true}, {0}, false},
    {"groups of 8", 1, 1, 129, 3, 3, 16, 48, 8, {.causal = true}, {0}, false},
    {"groups of 12", 1, 2, 131, 3, 3, 48, 24, 12, {.causal = true, .softcap = 3}, {0}, false},
    {"rooms", 2, 1, 1280, 6, 2, 64, 128, 32, {.causal = true}, {9, 777}, false},
    {"eight rows", 1, 1, 600, 16, 2, 64, 32, 16, {.causal = true}, {0}, false},
    {"proposals", 1, 5, 520, 4, 2, 64, 64, 32, {.causal = true}, {300, 0}, false},
    {"three queries", 1, 3, 520, 2, 1, 256, 256, 64, {.causal = true}, {300, 0}, false},
    {"prompt", 2, 150, 150, 3, 1, 32, 16, 8, {.causal = true, .window = 37}, {0}, false},
    {"capped", 1, 70, 300, 2, 1, 32, 64, 16, {.causal = true, .softcap = 2}, {0}, false},
    {"mask", 2, 1, 600, 4, 1, 64, 64, 32, {.causal = false}, {500, 411}, true},
    {"mask of a tile", 2, 40, 200, 2, 2, 32, 32, 16, {.causal = false}, {0}, true},
    {"nothing is seen", 2, 1, 300, 2, 1, 32, 32, 16, {.causal = true}, {0, 2}, false},
    {"no keys", 1, 2, 0, 2, 1, 32, 32, 16, {.causal = true}, {0}, false},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

static weft_array *uniform(uint64_t *key, weft_dims shape, double lo, double hi)
{
    return weft_random_uniform(weft_random_key(++*key), shape, lo, hi, WEFT_FLOAT32);
}

/* Codes of B heads of `width` elements whose tokens lie `room` apart: a cache with room. */
static weft_kv_codes codes(uint64_t *key, const problem *p, int bits, int64_t width)
{
    const int64_t bytes = width * bits / 8, groups = width / p->group, room = p->S + 3;
    const double most = bits == 8 ? 255 : 15;
    weft_array *all = uniform(key, WEFT_DIMS(p->B, room, p->Hk, bytes), 0, 255.99);
    weft_kv_codes c = {
        weft_astype(weft_floor(all), WEFT_UINT8),
        uniform(key, WEFT_DIMS(p->B, room, p->Hk, groups), 0.5 / most, 4 / most),
        uniform(key, WEFT_DIMS(p->B, room, p->Hk, groups), -3, 1),
    };
    weft_array **parts[] = {&c.codes, &c.steps, &c.least};
    for (int i = 0; i < 3; i++)
        *parts[i] = weft_slice_axis(*parts[i], 1, 2, 2 + p->S);
    return c;
}

static void compare(const problem *p, int bits, weft_dtype dtype, double tolerance)
{
    weft_scope_open();
    uint64_t key = 7;
    weft_array *q = uniform(&key, WEFT_DIMS(p->B, p->L, p->H, p->D), -2, 2);
    q = weft_astype(q, dtype);
    const weft_kv_codes k = codes(&key, p, bits, p->D), v = codes(&key, p, bits, p->Dv);
    weft_attention_options o = p->options;
    const int32_t lengths[2] = {(int32_t)p->lengths[0], (int32_t)p->lengths[1]};
    if (lengths[0] || lengths[1])
        o.lengths = weft_from_data(lengths, WEFT_INT32, WEFT_DIMS(p->B));
    if (p->mask)
        o.mask = weft_less_scalar(uniform(&key, WEFT_DIMS(p->B, 1, p->L, p->S), 0, 1), 0.6);
    weft_array *got = weft_attention_codes(q, &k, &v, &o);
    weft_array *want =
        weft_attention(weft_astype(q, WEFT_FLOAT32), weft_kv_decode(&k, bits, WEFT_FLOAT32),
                       weft_kv_decode(&v, bits, WEFT_FLOAT32), &o);
    CHECK_EQ_INT(weft_dtype_of(got), dtype);
    weft_array *gap = weft_abs(weft_subtract(weft_astype(got, WEFT_FLOAT32), want));
    if (!CHECK_CLOSE(weft_item(weft_max(gap, WEFT_ALL_AXES, false)), 0, tolerance))
        printf("  %s, %d bits\n", p->name, bits);
    weft_scope_close(NULL);
}

/* Elements are at most 5. One way rounds sums of groups, the other rounds elements: 1e-5 is 2e-6 of
 * 5. */
static void codes_are_as_good_as_elements(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (int i = 0; i < PROBLEMS; i++) {
            compare(&problems[i], 8, WEFT_FLOAT32, 1e-5);
            compare(&problems[i], 4, WEFT_FLOAT32, 1e-5);
        }
    }
    weft__cpu_use_isa(CPU_ISA_COUNT - 1);
}

/* One rounding at the end: half a unit in the last place of 5. */
static void narrow_queries_are_rounded_once(void)
{
    for (int i = 0; i < PROBLEMS; i++) {
        compare(&problems[i], 8, WEFT_BFLOAT16, 0.0157);
        compare(&problems[i], 4, WEFT_FLOAT16, 0.00196);
    }
}

static void misfits_are_errors(void)
{
    weft_scope_open();
    weft_array *q = weft_zeros(WEFT_DIMS(1, 1, 2, 32), WEFT_FLOAT32);
    weft_array *steps = weft_ones(WEFT_DIMS(1, 9, 1, 2), WEFT_FLOAT32);
    weft_kv_codes k = {weft_zeros(WEFT_DIMS(1, 9, 1, 32), WEFT_UINT8), steps, steps}, v = k;
    CHECK(weft_ok(weft_attention_codes(q, &k, &v, NULL)));
    v.codes = weft_zeros(WEFT_DIMS(1, 8, 1, 32), WEFT_UINT8);
    CHECK_CONTAINS(weft_error(weft_attention_codes(q, &k, &v, NULL)), "values");
    v.codes = weft_zeros(WEFT_DIMS(1, 9, 1, 32), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_attention_codes(q, &k, &v, NULL)), "codes in uint8");
    v.codes = weft_zeros(WEFT_DIMS(1, 9, 1, 31), WEFT_UINT8);
    CHECK_CONTAINS(weft_error(weft_attention_codes(q, &k, &v, NULL)), "do not divide");
    v = k;
    k.codes = weft_zeros(WEFT_DIMS(1, 9, 1, 20), WEFT_UINT8);
    CHECK_CONTAINS(weft_error(weft_attention_codes(q, &k, &v, NULL)), "no codes of 32 elements");
    weft_scope_close(NULL);
}

CHECK_MAIN("attention over codes", CHECK_CASE(codes_are_as_good_as_elements),
           CHECK_CASE(narrow_queries_are_rounded_once), CHECK_CASE(misfits_are_errors))
