/* tests/bench/reductions.c -- measures reductions, scans and sorts: reductions [FIRST]. FIRST
 * limits it to lines that begin so. peer_reductions.py does the same in NumPy and PyTorch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "weft/array.h"
#include "weft/ops.h"

enum { RUNS = 9 };

static const char *wanted = "";
static weft_array *x, *m, *whole, *half, *wide, *few, *few_wide, *few_whole;

static void must(weft_status status)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "reductions: %s\n", weft_error_message());
        exit(1);
    }
}

/* Numbers that are neither sorted nor equal. */
static weft_array *numbers(weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    weft_array *a = weft_sin(weft_arange(0, (double)n, 1, WEFT_FLOAT32));
    a = weft_keep(weft_astype(weft_scale(weft_reshape(a, shape), 300), dtype));
    must(weft_eval(a));
    return a;
}

#define LAST WEFT_DIMS(1)
#define FIRST WEFT_DIMS(0)
#define CASES(CASE)                                                                                \
    CASE("sum f32 last", weft_sum(x, LAST, false))                                                 \
    CASE("sum f32 first", weft_sum(x, FIRST, false))                                               \
    CASE("sum f32 all", weft_sum(x, WEFT_ALL_AXES, false))                                         \
    CASE("sum f32 middle", weft_sum(m, LAST, false))                                               \
    CASE("sum f32 turned", weft_sum(weft_transpose(x, WEFT_DIMS(1, 0)), LAST, false))              \
    CASE("sum bf16 last", weft_sum(half, LAST, false))                                             \
    CASE("max f32 last", weft_max(x, LAST, false))                                                 \
    CASE("prod f32 last", weft_prod(x, LAST, false))                                               \
    CASE("sum i32 last", weft_sum(whole, LAST, false))                                             \
    CASE("max i32 last", weft_max(whole, LAST, false))                                             \
    CASE("sum f64 last", weft_sum(wide, LAST, false))                                              \
    CASE("all f32 last", weft_all(x, LAST, false))                                                 \
    CASE("var f32 last", weft_var(x, LAST, false, 0))                                              \
    CASE("var f32 first", weft_var(x, FIRST, false, 0))                                            \
    CASE("cumsum f32 last", weft_cumsum(x, 1, false, true))                                        \
    CASE("cumsum f32 first", weft_cumsum(x, 0, false, true))                                       \
    CASE("cummax f32 last", weft_cummax(x, 1, false, true))                                        \
    CASE("logcumsumexp f32", weft_logcumsumexp(few, 1, false, true))                               \
    CASE("sort f32", weft_sort(few, 1))                                                            \
    CASE("sort f64", weft_sort(few_wide, 1))                                                       \
    CASE("argsort i32", weft_argsort(few_whole, 1))                                                \
    CASE("partition f32", weft_partition(few, 100, 1))

#define CASE(name, call)                                                                           \
    {                                                                                              \
        double best = 1e9;                                                                         \
        for (int i = 0; i < RUNS && strncmp(name, wanted, strlen(wanted)) == 0; i++) {             \
            weft_scope_open();                                                                     \
            double start = seconds();                                                              \
            must(weft_eval(call));                                                                 \
            double took = seconds() - start;                                                       \
            best = took < best ? took : best;                                                      \
            weft_scope_close(NULL);                                                                \
        }                                                                                          \
        if (best < 1e9) {                                                                          \
            printf("%-18s %8.2f ms\n", name, 1e3 * best);                                          \
        }                                                                                          \
    }

int main(int argc, char **argv)
{
    wanted = argc > 1 ? argv[1] : "";
    weft_scope_open();
    x = numbers(WEFT_DIMS(4096, 4096), WEFT_FLOAT32);
    m = numbers(WEFT_DIMS(64, 512, 512), WEFT_FLOAT32);
    whole = numbers(WEFT_DIMS(4096, 4096), WEFT_INT32);
    half = numbers(WEFT_DIMS(4096, 4096), WEFT_BFLOAT16);
    wide = numbers(WEFT_DIMS(2048, 4096), WEFT_FLOAT64);
    few = numbers(WEFT_DIMS(512, 4096), WEFT_FLOAT32);
    few_wide = numbers(WEFT_DIMS(512, 4096), WEFT_FLOAT64);
    few_whole = numbers(WEFT_DIMS(512, 4096), WEFT_INT32);
    CASES(CASE)
    weft_array *const kept[] = {x, m, whole, half, wide, few, few_wide, few_whole};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        weft_drop(kept[i]);
    }
    weft_scope_close(NULL);
    return 0;
}
