/* tests/core/test_fuse.c -- merged elementwise ops give the same bits as ops one by one. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/backend.h"
#include "weft/compile.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { LEAVES = 6, LAYOUTS = 4, KINDS = 14, WIDEST = 40 };

typedef struct expression {
    uint64_t state;
    bool one_by_one;
    weft_array *leaves[LEAVES];
} expression;

static uint64_t draw(expression *e, uint64_t below)
{
    e->state = e->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (e->state >> 33) % below;
}

/* The same operand in all layouts that ops can meet: whole, one number, rows, transposed. */
static weft_array *leaf(int64_t rows, int64_t columns, int k, weft_dtype dtype)
{
    static const int shapes[LAYOUTS][2] = {{1, 1}, {0, 0}, {0, 1}, {1, 0}};
    bool turned = k % LAYOUTS == 0 && k > 0;
    weft_dims shape =
        WEFT_DIMS(shapes[k % LAYOUTS][0] ? rows : 1, shapes[k % LAYOUTS][1] ? columns : 1);
    if (turned) {
        shape = WEFT_DIMS(columns, rows);
    }
    weft_array *x = weft_random_uniform(weft_random_key((uint64_t)k), shape, -2, 2, WEFT_FLOAT32);
    x = weft_astype(x, dtype);
    CHECK_OK(weft_eval(x));
    return turned ? weft_transpose(x, WEFT_DIMS(1, 0)) : x;
}

static weft_array *combine(uint64_t kind, weft_array *x, weft_array *y)
{
    switch (kind) {
    case 0:
    case 1:
        return weft_add(x, y);
    case 2:
        return weft_subtract(x, y);
    case 3:
    case 4:
        return weft_multiply(x, y);
    case 5:
        return weft_maximum(x, y);
    case 6:
        return weft_minimum(y, x);
    case 7:
        return weft_divide(x, y);
    case 8:
        return weft_silu(x);
    case 9:
        return weft_tanh(x);
    case 10:
        return weft_where(weft_less(x, y), x, weft_negative(y));
    case 11:
        return weft_sigmoid(x);
    case 12:
        return weft_exp(weft_minimum(x, y));
    default:
        return weft_square(weft_abs(x));
    }
}

/* A chain of `ops` ops with a second chain that joins it halfway. */
static weft_array *build(expression *e, int ops)
{
    weft_array *chains[2] = {e->leaves[0], e->leaves[4]};
    for (int i = 0; i < ops; i++) {
        int which = i < ops / 2 && i % 3 == 2;
        uint64_t kind = draw(e, KINDS), other = draw(e, LEAVES);
        weft_array *y = i == ops / 2 ? chains[1] : e->leaves[other];
        chains[which] = combine(i == ops / 2 ? 0 : kind, chains[which], y);
        if (e->one_by_one) {
            CHECK_OK(weft_eval(weft_keep(chains[which])));
            weft_drop(chains[which]);
        }
    }
    return chains[0];
}

static void same_bits(weft_dtype dtype, int64_t rows, int64_t columns, int ops, uint64_t seed)
{
    weft_scope_open();
    expression e = {.state = seed};
    for (int k = 0; k < LEAVES; k++) {
        e.leaves[k] = weft_keep(leaf(rows, columns, k, dtype));
    }
    expression apart = e;
    apart.one_by_one = true;
    weft_array *want = build(&apart, ops), *got = build(&e, ops);
    CHECK_OK(weft_eval(got));
    CHECK_OK(weft_eval(want));
    size_t bytes = (size_t)(weft_size(got)) * weft_dtype_size(dtype);
    const void *a = weft_data(got), *b = weft_data(want);
    if (CHECK(a && b)) {
        CHECK_BYTES(a, b, bytes);
    }
    for (int k = 0; k < LEAVES; k++) {
        weft_drop(e.leaves[k]);
    }
    weft_scope_close(NULL);
}

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_FLOAT64};

static void check_size(int64_t rows, int64_t columns)
{
    for (int d = 0; d < 4; d++) {
        for (int ops = 2; ops <= WIDEST; ops += 5) {
            for (uint64_t seed = 1; seed <= 4; seed++) {
                same_bits(dtypes[d], rows, columns, ops, seed + (uint64_t)ops);
            }
        }
    }
}

static void small_arrays_keep_their_bits(void)
{
    check_size(3, 5);
    check_size(1, 1);
}

static void long_rows_keep_their_bits(void)
{
    check_size(7, 1031);
}

static void short_rows_keep_their_bits(void)
{
    check_size(1200, 33);
}

static void empty_arrays_stay_empty(void)
{
    check_size(0, 4);
}

/* ---- Reductions that compute what they read ------------------------------------------------- */

enum { REDUCTIONS = 4 };

static weft_array *reduced(int kind, weft_array *x, weft_dims axes, bool keep)
{
    switch (kind) {
    case 0:
        return weft_sum(x, axes, keep);
    case 1:
        return weft_mean(x, axes, keep);
    case 2:
        return weft_max(x, axes, keep);
    default:
        return weft_min(x, axes, keep);
    }
}

typedef struct scene {
    int kind;
    weft_dims axes;
    bool one_by_one;
} scene;

static int reduce_a_chain(void *context, weft_array *const *in, int n_in, weft_array **out,
                          int room)
{
    const scene *s = context;
    (void)n_in;
    (void)room;
    weft_array *steps[3] = {weft_subtract(in[0], in[1])};
    for (int i = 1; i < 3; i++) {
        if (s->one_by_one) {
            CHECK_OK(weft_eval(weft_keep(steps[i - 1])));
            weft_drop(steps[i - 1]);
        }
        steps[i] = i == 1 ? weft_tanh(steps[0]) : weft_multiply(steps[1], in[2]);
    }
    if (s->one_by_one) {
        CHECK_OK(weft_eval(weft_keep(steps[2])));
        weft_drop(steps[2]);
    }
    out[0] = reduced(s->kind, steps[2], s->axes, false);
    return 1;
}

static void same_bytes(weft_array *got, weft_array *want)
{
    CHECK_OK(weft_eval(got));
    CHECK_OK(weft_eval(want));
    const void *a = weft_data(got), *b = weft_data(want);
    if (CHECK(a && b)) {
        CHECK_BYTES(a, b, (size_t)weft_size(got) * weft_dtype_size(weft_dtype_of(got)));
    }
}

/* Evaluates one op at a time, merged and compiled; returns how many nodes were merged. */
static int64_t reduction_keeps_its_bits(weft_array *const *in, scene s)
{
    weft_device *cpu = weft_default_device();
    weft_array *want, *got, *compiled;
    scene apart = s;
    apart.one_by_one = true;
    reduce_a_chain(&apart, in, 3, &want, 1);
    CHECK_OK(weft_eval(want));
    int64_t before = weft_device_counts(cpu).fused;
    reduce_a_chain(&s, in, 3, &got, 1);
    CHECK_OK(weft_eval(got));
    int64_t merged = weft_device_counts(cpu).fused - before;
    weft_compiled *f = NULL;
    CHECK_OK(weft_compile(reduce_a_chain, &s, NULL, 0, NULL, &f));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(weft_compiled_call(f, in, 3, &compiled, 1));
        same_bytes(compiled, want);
    }
    weft_compiled_free(f);
    same_bytes(got, want);
    return merged;
}

static void reductions_of_chains_keep_their_bits(void)
{
    static const int64_t shapes[][3] = {{1, 1, 140000}, {300, 3, 64}, {3, 900, 33},
                                        {1, 2, 70000},  {3, 40, 600}, {1, 4096, 1}};
    static const weft_dims axes[] = {{.n = 3, .at = {-3, -2, -1}}, {.n = 1, .at = {-1}},
                                     {.n = 1, .at = {-2}},         {.n = 1, .at = {-3}},
                                     {.n = 2, .at = {-3, -2}},     {.n = 2, .at = {-3, -1}}};
    int64_t merged = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = 0; d < 4; d++) {
            weft_scope_open();
            weft_dims whole = WEFT_DIMS(shapes[i][0], shapes[i][1], shapes[i][2]);
            const weft_dims dims[3] = {whole, WEFT_DIMS(shapes[i][2]), (weft_dims){0}};
            weft_array *in[3];
            for (int k = 0; k < 3; k++) {
                in[k] =
                    weft_random_uniform(weft_random_key((uint64_t)k), dims[k], -2, 2, WEFT_FLOAT32);
                in[k] = weft_keep(weft_astype(in[k], dtypes[d]));
                CHECK_OK(weft_eval(in[k]));
            }
            for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
                int kind = (int)(i + a + (size_t)d) % REDUCTIONS;
                int64_t n = reduction_keeps_its_bits(in, (scene){kind, axes[a], false});
                CHECK(n == 2 || n == 3);
                merged += n == 3;
            }
            for (int k = 0; k < 3; k++) {
                weft_drop(in[k]);
            }
            weft_scope_close(NULL);
        }
    }
    CHECK(merged > 50); /* the others have several axes, wide columns or float64 */
}

CHECK_MAIN("fuse", CHECK_CASE(small_arrays_keep_their_bits), CHECK_CASE(long_rows_keep_their_bits),
           CHECK_CASE(short_rows_keep_their_bits), CHECK_CASE(empty_arrays_stay_empty),
           CHECK_CASE(reductions_of_chains_keep_their_bits))
