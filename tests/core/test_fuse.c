/* tests/core/test_fuse.c -- merged elementwise ops give the bits that they give one by one. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
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

CHECK_MAIN("fuse", CHECK_CASE(small_arrays_keep_their_bits), CHECK_CASE(long_rows_keep_their_bits),
           CHECK_CASE(short_rows_keep_their_bits), CHECK_CASE(empty_arrays_stay_empty))
