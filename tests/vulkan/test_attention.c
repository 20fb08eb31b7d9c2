/* tests/vulkan/test_attention.c -- attention and its gradient on the Vulkan device against the
 * CPU's: decoding and tiles, caches, masks, windows, chunks of the keys. */
#include <math.h>
#include <stdio.h>

#include "tests/vulkan/both.h"
#include "weft/op.h"
#include "weft/op_params.h"

typedef enum lie {
    DENSE,
    CACHE, /* keys and values are the middle of longer ones */
    HEADS  /* (B, H, L, D), transposed */
} lie;

typedef enum masking { NONE, BOOLS, BOOLS_OF_HEADS, BOOLS_OF_KEYS, FLOATS } masking;

typedef struct problem {
    int64_t B, L, S, H, Hk, D, Dv;
    weft_attention_params params;
    masking mask;
    lie lie;
    weft_dtype dtype, cache_dtype; /* 0: float32, and that of q */
    int out;
    int32_t lengths[2]; /* with has_lengths */
} problem;

static weft_dtype dtype_of(const problem *p)
{
    return p->dtype ? p->dtype : WEFT_FLOAT32;
}

static weft_array *heads(const problem *p, weft_dtype dtype, int64_t L, int64_t H, int64_t D,
                         bool cached)
{
    if (p->lie == CACHE && cached) {
        weft_array *x = both_draw(WEFT_DIMS(p->B, L + 9, H, D), dtype, -1, 1);
        return weft_slice_axis(x, 1, 3, 3 + L);
    }
    if (p->lie == HEADS) {
        weft_array *x = both_draw(WEFT_DIMS(p->B, H, L, D), dtype, -1, 1);
        return weft_transpose(x, WEFT_DIMS(0, 2, 1, 3));
    }
    return both_draw(WEFT_DIMS(p->B, L, H, D), dtype, -1, 1);
}

static weft_array *mask_of(const problem *p)
{
    switch (p->mask) {
    case BOOLS:
        return both_draw(WEFT_DIMS(p->B, 1, p->L, p->S), WEFT_BOOL, 0, 3);
    case BOOLS_OF_HEADS:
        return both_draw(WEFT_DIMS(1, p->H, 1, p->S), WEFT_BOOL, 0, 2);
    case BOOLS_OF_KEYS: {
        weft_array *longer = both_draw(WEFT_DIMS(p->B, 1, 1, p->S + 3), WEFT_BOOL, 0, 2);
        return weft_slice_axis(longer, 3, 1, 1 + p->S);
    }
    case FLOATS:
        return both_draw(WEFT_DIMS(1, p->H, p->L, p->S), dtype_of(p), -2, 2);
    case NONE:
        break;
    }
    return NULL;
}

/* Output 0 or 1 of attention; 2 to 4: gradients. */
static weft_array *make(const void *context)
{
    const problem *p = context;
    const weft_dtype dtype = dtype_of(p), cache = p->cache_dtype ? p->cache_dtype : dtype;
    weft_attention_params params = p->params;
    params.has_mask = p->mask != NONE;
    params.scale = params.scale != 0 ? params.scale : 1 / sqrt((double)p->D);
    weft_array *in[7] = {heads(p, dtype, p->L, p->H, p->D, false),
                         heads(p, cache, p->S, p->Hk, p->D, true),
                         heads(p, cache, p->S, p->Hk, p->Dv, true), mask_of(p)};
    int n = 3 + params.has_mask;
    if (params.has_lengths) {
        in[n++] = weft_from_data(p->lengths, WEFT_INT32, WEFT_DIMS(p->B));
    }
    weft_array *node = weft_apply(weft_op_find("attention"), in, n, &params);
    if (p->out < 2) {
        return weft_pick(node, p->out);
    }
    in[6] = in[3];
    in[3] = weft_pick(node, 0);
    in[4] = weft_pick(node, 1);
    in[5] = heads(p, dtype, p->L, p->H, p->Dv, false);
    node = weft_apply(weft_op_find("attention_vjp"), in, 6 + params.has_mask, &params);
    return weft_pick(node, p->out - 2);
}

static double tolerance_of(const problem *p, int out)
{
    weft_dtype dtype = out == 1 && dtype_of(p) != WEFT_FLOAT64 ? WEFT_FLOAT32 : dtype_of(p);
    if ((out == 3 || out == 4) && p->cache_dtype) {
        dtype = p->cache_dtype;
    }
    return dtype == WEFT_FLOAT64    ? 1e-13
           : dtype == WEFT_FLOAT16  ? 0x1p-10
           : dtype == WEFT_BFLOAT16 ? 0x1p-7
           : out < 2                ? 2e-6
                                    : 4e-6;
}

static void check(const problem *problems, size_t n, int outs)
{
    for (size_t i = 0; both_there() && i < n; i++) {
        problem p = problems[i];
        for (p.out = 0; p.out < outs; p.out++) {
            char label[120];
            snprintf(label, sizeof label, "case %d: L %lld, S %lld, D %lld, output %d", (int)i,
                     (long long)p.L, (long long)p.S, (long long)p.D, p.out);
            both_same(make, &p, tolerance_of(&p, p.out), label);
        }
    }
}

#define CHECK_ALL(problems, outs) check(problems, sizeof problems / sizeof *problems, outs)

static void decoding_reads_a_cache(void)
{
    static const problem problems[] = {
        {2, 1, 600, 8, 2, 64, 64, {.causal = true}, .lie = CACHE},
        {1, 1, 37, 4, 4, 128, 128, {.causal = true}, .lie = CACHE},
        {1, 1, 600, 3, 3, 80, 80, {.causal = true, .window = 100}, .lie = CACHE},
        {1, 2, 513, 4, 1, 32, 48, {.causal = true, .softcap = 2}, .lie = CACHE},
        {2, 7, 300, 2, 2, 64, 64, {.causal = true, .window = 9}, .lie = CACHE},
        {2, 1, 300, 5, 1, 256, 256, .mask = BOOLS_OF_KEYS, .lie = CACHE},
        {1, 1, 200, 2, 1, 512, 512, {.causal = true}, .mask = FLOATS, .lie = HEADS},
        {1, 1, 600, 2, 1, 100, 300, {.causal = true}, .lie = DENSE},
        {1, 1, 0, 2, 1, 16, 16, .lie = DENSE},
    };
    CHECK_ALL(problems, 2);
}

static void lengths_cut_the_keys(void)
{
#define CUT .causal = true, .has_lengths = true
    static const problem problems[] = {
        {2, 1, 600, 8, 2, 64, 64, {CUT}, .lie = CACHE, .lengths = {9, 555}},
        {2, 1, 600, 3, 3, 80, 80, {CUT, .window = 100}, .lie = DENSE, .lengths = {0, 480}},
        {2, 7, 300, 2, 2, 64, 64, {CUT, .window = 9}, .lie = CACHE, .lengths = {299, 5}},
        {2, 1, 300, 5, 1, 256, 256, {.has_lengths = true}, BOOLS_OF_KEYS, .lengths = {30, 301}},
        {2, 65, 600, 4, 1, 128, 128, {CUT}, .lie = CACHE, .lengths = {65, 400}},
        {2, 33, 600, 2, 2, 32, 32, {CUT, .softcap = 2}, FLOATS, .lengths = {600, 20}},
        {2, 40, 90, 2, 1, 48, 20, {.has_lengths = true}, .lie = HEADS, .lengths = {-1, 64}},
    };
#undef CUT
    CHECK_ALL(problems, 2);
}

static void tiles_of_queries_see_the_right_keys(void)
{
    static const problem problems[] = {
        {2, 130, 130, 4, 2, 64, 64, {.causal = true}, .lie = DENSE},
        {1, 65, 600, 4, 1, 128, 128, {.causal = true}, .lie = CACHE},
        {1, 65, 65, 3, 3, 80, 80, {.causal = true, .window = 20}, .lie = HEADS},
        {1, 33, 600, 2, 2, 32, 32, {.causal = true, .window = 130}, .lie = CACHE},
        {1, 70, 40, 2, 1, 48, 20, {.causal = true}, .lie = DENSE}, /* the first queries see nothing
                                                                    */
        {2, 65, 200, 2, 2, 64, 64, {.softcap = 1.5}, .mask = BOOLS},
        {2, 20, 90, 4, 2, 32, 32, {.causal = true}, .mask = BOOLS_OF_HEADS},
        {1, 17, 90, 4, 2, 33, 31, {.causal = true, .softcap = 3}, .mask = FLOATS},
        {1, 40, 70, 2, 2, 256, 256, {.causal = true}, .mask = BOOLS_OF_KEYS, .lie = HEADS},
        {1, 20, 70, 1, 1, 512, 512, {.causal = true}, .lie = DENSE},
        {1, 40, 0, 2, 1, 16, 16, .lie = DENSE},
    };
    CHECK_ALL(problems, 2);
}

#define AS(mask_, lie_, dtype_, cache_)                                                            \
    .mask = mask_, .lie = lie_, .dtype = dtype_, .cache_dtype = cache_

static void attention_has_any_dtype(void)
{
    static const problem problems[] = {
        {1, 1, 300, 4, 2, 64, 64, {.causal = true}, AS(NONE, CACHE, WEFT_BFLOAT16, 0)},
        {1, 1, 300, 4, 2, 64, 64, {.causal = true}, AS(FLOATS, CACHE, WEFT_FLOAT16, 0)},
        {1, 1, 300, 4, 2, 64, 64, {.causal = true}, AS(NONE, CACHE, WEFT_FLOAT32, WEFT_FLOAT16)},
        {1,
         2,
         300,
         1,
         1,
         64,
         64,
         {.causal = true, .softcap = 2},
         AS(BOOLS, CACHE, WEFT_FLOAT64, 0)},
        {1, 65, 90, 4, 2, 64, 64, {.causal = true}, AS(NONE, CACHE, WEFT_BFLOAT16, 0)},
        {1, 65, 90, 4, 2, 32, 32, {.causal = true}, AS(FLOATS, HEADS, WEFT_FLOAT16, 0)},
        {1, 65, 90, 4, 2, 32, 32, {.causal = true}, AS(NONE, CACHE, WEFT_FLOAT32, WEFT_BFLOAT16)},
        {1,
         40,
         70,
         2,
         2,
         72,
         64,
         {.causal = true, .softcap = 2},
         AS(BOOLS, CACHE, WEFT_FLOAT64, 0)},
    };
    CHECK_ALL(problems, 2);
}

static void gradients_agree(void)
{
    static const problem problems[] = {
        {2, 130, 130, 4, 2, 64, 64, {.causal = true}, .lie = DENSE},
        {1, 65, 65, 3, 3, 80, 80, {.causal = true, .window = 20}, .lie = HEADS},
        {1, 7, 300, 2, 2, 128, 128, {.causal = true}, .lie = CACHE},
        {1, 70, 40, 2, 1, 48, 20, {.causal = true}, .lie = DENSE},
        {2, 65, 200, 2, 2, 64, 64, {.softcap = 1.5}, .mask = BOOLS},
        {2, 20, 90, 4, 2, 32, 32, {.causal = true}, .mask = BOOLS_OF_HEADS},
        {1, 17, 90, 4, 2, 33, 31, {.causal = true, .softcap = 3}, .mask = FLOATS},
        {1, 40, 70, 2, 2, 256, 256, {.causal = true}, .mask = BOOLS_OF_KEYS},
        {1, 20, 40, 1, 1, 512, 300, {.causal = true}, .lie = DENSE},
        {1, 1, 600, 8, 2, 64, 64, {.causal = true}, .lie = CACHE},
        {1, 40, 0, 2, 1, 16, 16, .lie = DENSE},
        {1, 0, 40, 2, 1, 16, 16, .lie = DENSE},
    };
    CHECK_ALL(problems, 5);
}

static void gradients_have_any_dtype(void)
{
    static const problem problems[] = {
        {1, 40, 70, 4, 2, 64, 64, {.causal = true}, AS(NONE, CACHE, WEFT_BFLOAT16, 0)},
        {1, 40, 70, 4, 2, 32, 32, {.causal = true}, AS(FLOATS, HEADS, WEFT_FLOAT16, 0)},
        {1, 40, 70, 4, 2, 32, 32, {.causal = true}, AS(NONE, CACHE, WEFT_FLOAT32, WEFT_BFLOAT16)},
        {1,
         40,
         70,
         2,
         2,
         72,
         64,
         {.causal = true, .softcap = 2},
         AS(BOOLS, CACHE, WEFT_FLOAT64, 0)},
    };
    CHECK_ALL(problems, 5);
}

/* On matrix cores where the device has them. */
static void tiles_of_16_bits(void)
{
    static const problem forward[] = {
        {2, 130, 130, 4, 2, 64, 64, {.causal = true}, AS(NONE, DENSE, WEFT_FLOAT16, 0)},
        {1, 65, 300, 4, 1, 128, 128, {.causal = true}, AS(NONE, CACHE, WEFT_BFLOAT16, 0)},
        {1, 65, 65, 3, 3, 80, 80, {.causal = true, .window = 20}, AS(NONE, HEADS, WEFT_FLOAT16, 0)},
        {1, 70, 40, 2, 1, 16, 16, {.causal = true}, AS(NONE, DENSE, WEFT_FLOAT16, 0)},
        {2, 65, 200, 2, 2, 64, 64, {.causal = false}, AS(BOOLS, DENSE, WEFT_FLOAT16, 0)},
        {1, 40, 90, 4, 2, 32, 32, {.causal = true}, AS(FLOATS, DENSE, WEFT_BFLOAT16, 0)},
    };
    static const problem cut[] = {
        {2,
         65,
         300,
         4,
         1,
         128,
         128,
         {.causal = true, .has_lengths = true},
         AS(NONE, CACHE, WEFT_FLOAT16, 0),
         .lengths = {65, 200}},
    };
    static const problem gradients[] = {
        {2, 130, 130, 4, 2, 64, 64, {.causal = true}, AS(NONE, DENSE, WEFT_FLOAT16, 0)},
        {1, 65, 65, 3, 3, 80, 80, {.causal = true, .window = 20}, AS(NONE, HEADS, WEFT_FLOAT16, 0)},
        {1, 40, 90, 4, 1, 128, 128, {.causal = true}, AS(NONE, CACHE, WEFT_BFLOAT16, 0)},
        {1, 70, 40, 2, 1, 16, 16, {.causal = true}, AS(NONE, DENSE, WEFT_FLOAT16, 0)},
        {1, 65, 100, 2, 2, 64, 64, {.causal = false}, AS(BOOLS, DENSE, WEFT_FLOAT16, 0)},
    };
    CHECK_ALL(forward, 2);
    CHECK_ALL(cut, 2);
    CHECK_ALL(gradients, 5);
}

CHECK_MAIN("vulkan_attention", CHECK_CASE(decoding_reads_a_cache), CHECK_CASE(lengths_cut_the_keys),
           CHECK_CASE(tiles_of_queries_see_the_right_keys), CHECK_CASE(attention_has_any_dtype),
           CHECK_CASE(gradients_agree), CHECK_CASE(gradients_have_any_dtype),
           CHECK_CASE(tiles_of_16_bits))
