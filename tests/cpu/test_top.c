/* tests/cpu/test_top.c -- selections against sorted rows, bit for bit: the k largest, and what
 * top-p keeps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "ops/reduce/top_p.h"
#include "tests/check.h"
#include "weft/backend.h"
#include "weft/io.h"
#include "weft/random.h"

/* Numbers with ties, both zeros, infinities and, if wanted, NaN. */
static weft_array *row_of(uint64_t seed, int64_t rows, int64_t n, int kind)
{
    weft_array *x =
        weft_random_normal(weft_random_key(seed), WEFT_DIMS(rows, n), 0, 3, WEFT_FLOAT32);
    if (kind == 1) /* many ties, zeros of both signs */
        x = weft_multiply(weft_round(x), weft_scalar(-0.5, WEFT_FLOAT32));
    if (kind == 2) /* one digit for all */
        x = weft_add(weft_multiply(x, weft_scalar(1e-4, WEFT_FLOAT32)),
                     weft_scalar(5, WEFT_FLOAT32));
    if (kind == 3) { /* infinities */
        weft_array *low = weft_less(x, weft_scalar(-4, WEFT_FLOAT32));
        x = weft_where(low, weft_scalar(-INFINITY, WEFT_FLOAT32), x);
    }
    if (kind == 4) { /* NaN and infinity */
        x = weft_where(weft_greater(x, weft_scalar(6, WEFT_FLOAT32)),
                       weft_scalar(NAN, WEFT_FLOAT32), x);
        x = weft_where(weft_less(x, weft_scalar(-6, WEFT_FLOAT32)),
                       weft_scalar(INFINITY, WEFT_FLOAT32), x);
    }
    return x;
}
enum { ROW_KINDS = 5 };

static weft_array *by_sorting(weft_array *x, int64_t k)
{
    return weft_slice(weft_sort(x, -1), WEFT_DIMS(-1), WEFT_DIMS(-1), WEFT_DIMS(-1 - k),
                      WEFT_DIMS(-1));
}

/* Whether two arrays have the same bytes. */
static bool same_bytes(weft_array *a, weft_array *b)
{
    const weft_dims x = weft_shape(a), y = weft_shape(b);
    char *p = calloc(1, (size_t)weft_nbytes(a) + 1), *q = calloc(1, (size_t)weft_nbytes(b) + 1);
    bool same = x.n == y.n && memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at) == 0 &&
                CHECK_OK(weft_read(a, weft_dtype_of(a), p, weft_size(a))) &&
                CHECK_OK(weft_read(b, weft_dtype_of(b), q, weft_size(b))) &&
                memcmp(p, q, (size_t)weft_nbytes(a)) == 0;
    free(p);
    free(q);
    return same;
}

static int64_t rows_run(void)
{
    return weft_device_counts(weft_device_get("cpu")).rows;
}

/* ---- The k largest -------------------------------------------------------------------------- */

static void the_largest_are_those_of_the_sorted_row(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16, WEFT_INT32,
                                        WEFT_UINT32,  WEFT_INT16,   WEFT_INT8,     WEFT_UINT8};
    static const int64_t ks[] = {1, 3, 60, 124};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int kind = 0; kind < ROW_KINDS; kind++)
            for (int i = 0; i < 4; i++) {
                weft_scope_open();
                weft_array *x = weft_astype(row_of(d + 1, 3, 1001, kind), dtypes[d]);
                if (!CHECK(same_bytes(weft_topk(x, ks[i], -1), by_sorting(x, ks[i]))))
                    printf("  %s, numbers of kind %d, k %d\n", weft_dtype_name(dtypes[d]), kind,
                           (int)ks[i]);
                weft_scope_close(NULL);
            }
}

/* The kernel takes only small k, in one call; sorting takes two. */
static void few_of_many_are_selected(void)
{
    weft_scope_open();
    weft_array *x = row_of(1, 1, 4096, 0), *y = weft_topk(x, 40, -1);
    CHECK_OK(weft_eval(x));
    weft_device_reset_counts(weft_device_get("cpu"));
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(rows_run(), 1);
    CHECK_EQ_INT(weft_device_counts(weft_device_get("cpu")).expansions, 0);
    weft_scope_close(NULL);
}

/* ---- What top-p keeps ----------------------------------------------------------------------- */

static weft_array *top_p_by_sorting(weft_array *x, weft_array *total, int64_t k, double p)
{
    weft_array *sorted = by_sorting(x, k);
    weft_array *before = weft_cumsum(weft_exp(weft_subtract(sorted, total)), -1, false, false);
    weft_array *kept = weft_less(before, weft_scalar(p, WEFT_FLOAT32));
    return weft_min(weft_where(kept, sorted, weft_scalar(INFINITY, WEFT_FLOAT32)), WEFT_DIMS(-1),
                    true);
}

static void check_top_p(weft_array *x, int64_t k, const char *what)
{
    static const double ps[] = {1e-6, 0.3, 0.9, 0.999, 0.9999999};
    weft_array *total = weft_logsumexp(x, WEFT_DIMS(-1), true);
    CHECK_OK(weft_eval_n((weft_array *[]){x, total}, 2));
    for (int i = 0; i < 5; i++)
        if (!CHECK(
                same_bytes(weft__top_p(x, total, k, ps[i]), top_p_by_sorting(x, total, k, ps[i]))))
            printf("  %s, k %lld, p %g\n", what, (long long)k, ps[i]);
}

static void top_p_keeps_what_sorting_keeps(void)
{
    for (int kind = 0; kind < 4; kind++) {
        weft_scope_open();
        check_top_p(row_of(20 + (uint64_t)kind, 3, 5000, kind), 5000, "three rows");
        check_top_p(row_of(30 + (uint64_t)kind, 1, 5000, kind), 50, "with k");
        weft_scope_close(NULL);
    }
}

/* So flat that tens of thousands of elements are kept: more than the kernel examines first, and
 * more than a part in which long rows are summed. */
static void flat_rows(void)
{
    for (int rows = 1; rows <= 9; rows += 8) {
        weft_scope_open();
        weft_array *x = weft_multiply(row_of(40, rows, 151936, 0), weft_scalar(0.1, WEFT_FLOAT32));
        check_top_p(x, 151936, rows > 1 ? "nine flat rows" : "a flat row");
        weft_scope_close(NULL);
    }
}

/* A NaN in a row makes the threshold NaN, so that nothing is cut off; other rows, also one with an
 * infinity, are not affected. */
static void rows_with_nan_or_infinity(void)
{
    weft_scope_open();
    float x[3 * 600], found[3], expected[3];
    for (int i = 0; i < 3 * 600; i++)
        x[i] = sinf((float)i);
    x[600 + 5] = NAN;
    x[1200 + 5] = INFINITY;
    weft_array *a = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(3, 600));
    weft_array *total = weft_logsumexp(a, WEFT_DIMS(-1), true);
    CHECK_OK(weft_read(weft__top_p(a, total, 600, 0.5), WEFT_FLOAT32, found, 3));
    CHECK_OK(weft_read(top_p_by_sorting(a, total, 600, 0.5), WEFT_FLOAT32, expected, 3));
    CHECK(found[0] == expected[0] && found[0] < 1);
    CHECK(isnan(found[1]) && isnan(expected[1]));
    CHECK(found[2] == expected[2]);
    weft_scope_close(NULL);
}

static void threads_and_instruction_sets_do_not_matter(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (int threads = 1; threads <= 3; threads++) {
            weft_scope_open();
            weft_set_threads(threads);
            check_top_p(row_of(50, 2, 3000, 0), 3000, "threads");
            weft_scope_close(NULL);
        }
    }
    weft_set_threads(0);
}

static void misfits_are_errors(void)
{
    weft_scope_open();
    weft_array *x = weft_zeros(WEFT_DIMS(2, 5), WEFT_FLOAT32);
    weft_array *total = weft_zeros(WEFT_DIMS(2, 1), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft__top_p(x, x, 5, 0.5)), "top_p: expected shapes (B, V)");
    CHECK_CONTAINS(weft_error(weft__top_p(x, total, 6, 0.5)), "k is 6 for rows of 5");
    CHECK_CONTAINS(weft_error(weft__top_p(weft_astype(x, WEFT_FLOAT16), total, 5, 0.5)),
                   "expected two equal floating dtypes");
    CHECK_CONTAINS(weft_error(weft_topk(x, 6, -1)), "topk: k is 6 for an axis of size 5");
    CHECK_CONTAINS(weft_error(weft_topk(x, 1, 2)), "topk: ");
    weft_scope_close(NULL);
}

CHECK_MAIN("selections", CHECK_CASE(the_largest_are_those_of_the_sorted_row),
           CHECK_CASE(few_of_many_are_selected), CHECK_CASE(top_p_keeps_what_sorting_keeps),
           CHECK_CASE(flat_rows), CHECK_CASE(rows_with_nan_or_infinity),
           CHECK_CASE(threads_and_instruction_sets_do_not_matter), CHECK_CASE(misfits_are_errors))
