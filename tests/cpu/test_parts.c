/* tests/cpu/test_parts.c -- matrix products of bfloat16 parts against float64: dtypes, layouts,
 * sizes around the edges of tiles, sums, batches, encoded weights; the same bits beside any rows
 * and with any number of threads; numbers that are not finite; the workspace and its bound.
 *
 * The driver is called directly, so that sizes for which weft__cpu_gemm does not use it are tested
 * too. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/cpu/part_products.h"

static const weft_dtype floats[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
enum { FLOATS = sizeof floats / sizeof *floats };

static bool has_kernels(void)
{
    if (weft__cpu_kernels()->parts.width > 0)
        return true;
    check_skip("this machine has no kernels for products of bfloat16 parts");
    return false;
}

/* ---- Against float64 ------------------------------------------------------------------------ */

static double rounding(weft_dtype dtype)
{
    return dtype == WEFT_BFLOAT16 ? 0x1.01p-8 : dtype == WEFT_FLOAT16 ? 0x1.01p-11 : 0x1p-24;
}

/* In units of the sum of the magnitudes of all terms. Three orders: the products of parts that are
 * left out are at most 2^-26 of a term; of the six that are not, each is added in float32, which
 * rounds a sum by 2^-24 of it, and the roundings have random signs. Two orders: the product that is
 * left out is at most 2^-18 of a term, and so is what remains of each operand, with random signs.
 */
static double tolerance(const product_case *c)
{
    return c->coarse || c->c == WEFT_BFLOAT16 ? 0x1p-19 : 0x1p-22;
}

static void check_values(const product *p)
{
    const product_case *c = &p->c;
    const int64_t items = c->batch ? c->batch : 1;
    for (int64_t at = 0; at < items * c->m * c->n; at++) {
        const int64_t item = at / c->n / c->m, i = at / c->n % c->m, j = at % c->n;
        double magnitude;
        const double want = exact_element(p, item, i, j, &magnitude);
        const double got = weft_tensor_get(&p->out.t, at);
        const double bound = tolerance(c) * magnitude + rounding(c->c) * fabs(want) +
                             (c->c == WEFT_FLOAT16 ? 0x1p-25 : 0);
        if (!(fabs(got - want) <= bound)) {
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", label_of(c), (long long)at,
                       want, got);
            return;
        }
    }
    CHECK(true);
}

static void check_product(const product_case *c)
{
    product p;
    make_product(&p, c);
    CHECK(run_parts(&p));
    check_values(&p);
    free_product(&p);
}

/* One pair. */
static product_case simple(int64_t m, int64_t n, int64_t k, weft_dtype a, weft_dtype b,
                           weft_dtype c)
{
    return (product_case){.m = m, .n = n, .c = c, .pairs = 1, .pair = {{.k = k, .dtype = {a, b}}}};
}

static void test_dtypes_and_layouts(void)
{
    if (!has_kernels())
        return;
    for (int t = 0; t < FLOATS * FLOATS * FLOATS; t++)
        for (int l = 0; l < LIE_COUNT * LIE_COUNT; l++) {
            product_case c = simple(37, 45, 70, floats[t % FLOATS], floats[t / FLOATS % FLOATS],
                                    floats[t / FLOATS / FLOATS]);
            c.pair[0].layout[0] = (lie)(l % LIE_COUNT);
            c.pair[0].layout[1] = (lie)(l / LIE_COUNT);
            check_product(&c);
        }
}

static void test_sizes(void)
{
    static const int64_t sizes[] = {1, 8, 9, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 80};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    if (!has_kernels())
        return;
    for (int i = 0; i < SIZES * SIZES * SIZES; i++) {
        product_case c =
            simple(sizes[i % SIZES], sizes[i / SIZES % SIZES], sizes[i / SIZES / SIZES],
                   floats[i % FLOATS], floats[i / 3 % FLOATS], WEFT_FLOAT32);
        c.pair[0].layout[0] = (lie)(i / 7 % LIE_COUNT);
        c.pair[0].layout[1] = (lie)(i / 5 % LIE_COUNT);
        check_product(&c);
    }
}

/* Several blocks in k, strips, tiles of rows that keep a strip of B, and pieces of A. */
static void test_large(void)
{
    static const int64_t sizes[][3] = {{600, 300, 1100}, {1030, 70, 200}, {513, 257, 129},
                                       {33, 600, 2100},  {700, 90, 600},  {150, 1000, 520},
                                       {1200, 40, 3000}};
    if (!has_kernels())
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 0; d < (check_few() ? 1 : FLOATS); d++) {
            const weft_dtype dtype = floats[d];
            product_case c = simple(sizes[i][0], sizes[i][1], sizes[i][2], dtype,
                                    i % 2 ? dtype : WEFT_FLOAT32, dtype);
            c.pair[0].layout[1] = i % 2 ? LIE_TRANSPOSED : LIE_DENSE;
            check_product(&c);
        }
}

static void test_bias_and_accumulate(void)
{
    if (!has_kernels())
        return;
    for (int i = 0; i < FLOATS * FLOATS; i++) {
        product_case c = simple(70, 300, 150, floats[i % FLOATS], floats[i / FLOATS], WEFT_FLOAT32);
        c.accumulate = true;
        check_product(&c);
        c.accumulate = false;
        c.bias = true;
        check_product(&c);
        c.c = floats[1 + i % 2];
        check_product(&c);
    }
}

/* Hints of the number of parts, and results that need only the precision of bfloat16. */
static void test_parts_and_coarse(void)
{
    if (!has_kernels())
        return;
    for (int i = 0; i < 32; i++) {
        product_case c = simple(70, 50, 300, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32);
        c.coarse = i / 16;
        c.pair[0].parts[0] = i % 4;
        c.pair[0].parts[1] = i / 4 % 4;
        if (c.pair[0].parts[0] == 3 || c.pair[0].parts[1] == 3)
            continue;
        check_product(&c);
    }
}

/* ---- Sums, batches, encoded weights --------------------------------------------------------- */

static void test_sums(void)
{
    if (!has_kernels())
        return;
    for (int d = 0; d < FLOATS; d++) {
        product_case c = simple(600, 90, 70, floats[d], floats[d], floats[d]);
        c.bias = true;
        c.pairs = 4;
        c.pair[1] = (pair_case){.k = 16, .dtype = {WEFT_FLOAT32, WEFT_BFLOAT16}};
        c.pair[2] = (pair_case){
            .k = 600, .dtype = {floats[d], WEFT_FLOAT16}, .layout = {LIE_TRANSPOSED, LIE_ROWS}};
        c.pair[3] = (pair_case){.k = 256, .dtype = {floats[d], 0}, .encoding = "Q8_0"};
        check_product(&c);
        c.m = 50;
        c.pairs = CPU_MOST_PAIRS;
        for (int i = 4; i < CPU_MOST_PAIRS; i++)
            c.pair[i] = (pair_case){.k = i == 5 ? 0 : i, .dtype = {floats[i % FLOATS], floats[d]}};
        check_product(&c);
    }
}

/* All items at once, some items at a time, and as rows of one product. */
static void test_batches(void)
{
    static const int64_t sizes[][4] = {
        {3, 37, 45, 70}, {5, 100, 300, 130}, {2, 600, 70, 90}, {40, 100, 32, 1000}};
    if (!has_kernels())
        return;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int s = 0; s < 2 * FLOATS; s++) {
            const weft_dtype dtype = floats[s / 2];
            if (check_few() && i == 3 && s > 0)
                continue;
            product_case c = simple(sizes[i][1], sizes[i][2], sizes[i][3], dtype, dtype, dtype);
            c.batch = sizes[i][0];
            c.shared_b = s % 2;
            check_product(&c);
            c.pair[0].layout[0] = LIE_TRANSPOSED;
            c.pair[0].layout[1] = LIE_GAPS;
            c.bias = true;
            check_product(&c);
        }
}

static void test_encoded(void)
{
    static const char *const names[] = {"Q8_0",
                                        "Q4_0",
                                        "Q4_K",
                                        "mxfp4",
                                        "mxfp8",
                                        "nvfp4",
                                        "affine-4-64-float32",
                                        "affine-4-128-bfloat16"};
    if (!has_kernels())
        return;
    for (size_t e = 0; e < sizeof names / sizeof *names; e++)
        for (int d = 0; d < FLOATS; d++) {
            product_case c = simple(50, 45, 768, floats[d], WEFT_FLOAT32, floats[d]);
            c.pair[0].encoding = names[e];
            check_product(&c);
            c.c = WEFT_FLOAT32;
            c.coarse = d == 0;
            check_product(&c);
            c.coarse = false;
            c.m = 600;
            c.n = 300;
            check_product(&c);
            c.n = 512;
            c.pair[0].k = 45;
            c.pair[0].code_terms = true;
            check_product(&c);
            c.m = 17;
            c.n = 1280;
            c.pair[0].k = 200;
            check_product(&c);
        }
}

/* ---- The same bits -------------------------------------------------------------------------- */

static const product_case *repeated_cases(int *n)
{
    static product_case cases[6];
    cases[0] = simple(600, 300, 700, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32);
    cases[1] = simple(130, 70, 90, WEFT_FLOAT16, WEFT_FLOAT32, WEFT_FLOAT16);
    cases[2] = simple(80, 1000, 513, WEFT_BFLOAT16, WEFT_BFLOAT16, WEFT_BFLOAT16);
    cases[3] = simple(550, 520, 256, WEFT_FLOAT32, WEFT_FLOAT32, WEFT_FLOAT32);
    cases[3].pair[0].encoding = "Q4_K";
    cases[4] = simple(70, 512, 190, WEFT_BFLOAT16, WEFT_FLOAT32, WEFT_FLOAT32);
    cases[4].pair[0].encoding = "Q8_0";
    cases[4].pair[0].code_terms = true;
    cases[5] = simple(300, 200, 150, WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT32);
    cases[5].bias = true;
    cases[5].pairs = 2;
    cases[5].pair[1] = (pair_case){.k = 40, .dtype = {WEFT_FLOAT32, WEFT_FLOAT32}};
    *n = 6;
    return cases;
}

/* A row has the same bits beside any number of rows. */
static void test_rows(void)
{
    static const int64_t counts[] = {1, 2, 8, 16, 17, 31, 32, 33, 64};
    int n;
    if (!has_kernels())
        return;
    const product_case *cases = repeated_cases(&n);
    for (int i = 0; i < n; i++) {
        product p;
        make_product(&p, &cases[i]);
        CHECK(run_parts(&p));
        char *all = malloc((size_t)p.out.bytes);
        memcpy(all, p.out.memory, (size_t)p.out.bytes);
        const int64_t row_bytes = p.out.bytes / cases[i].m;
        for (size_t r = 0; r < sizeof counts / sizeof *counts; r++) {
            const int64_t first = (int64_t)r * 5 % (cases[i].m - counts[r] + 1);
            cpu_gemm g = p.g;
            cpu_pair more[CPU_MOST_PAIRS];
            memcpy(more, p.more, sizeof more);
            for (int q = 0; q < cases[i].pairs; q++) {
                cpu_matrix *a = q == 0 ? &g.a : &more[q].a;
                a->data =
                    (const char *)a->data + first * a->row * (int64_t)weft_dtype_size(a->dtype);
            }
            g.more = more + 1;
            g.m = counts[r];
            CHECK(run_with_guard(&g, true));
            CHECK_BYTES(g.c, all + first * row_bytes, (size_t)(counts[r] * row_bytes));
        }
        free(all);
        free_product(&p);
    }
}

static int64_t draw(int64_t least, int64_t most)
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)((state >> 33) % (uint64_t)(most - least + 1));
}

/* Sizes of different orders of magnitude. */
enum { NARROW_M = 700, NARROW_N = 300, NARROW_K = 700 };

/* Float32 weights with the significant bits of bfloat16 (0), of float16 (1), of float32 in one of
 * the blocks (2), or of float32 (3). */
static float narrow_number(int kind, int64_t k, int64_t column)
{
    const float x = (float)draw(-100000, 100000) / 1e5f;
    const bool whole = kind == 3 || (kind == 2 && k == 400 && column == 290);
    return whole ? x
                 : weft_bfloat16_to_float(weft_float_to_bfloat16(x)) + (kind == 1 ? 0x1p-9f : 0);
}

/* C for B with these strides. */
static void multiply_narrow(const float *a, const float *b, int64_t row, int64_t column, float *c)
{
    const cpu_gemm g = {.m = NARROW_M,
                        .n = NARROW_N,
                        .k = NARROW_K,
                        .a = {.dtype = WEFT_FLOAT32, .data = a, .row = NARROW_K, .column = 1},
                        .b = {.dtype = WEFT_FLOAT32, .data = b, .row = row, .column = column},
                        .c_dtype = WEFT_FLOAT32,
                        .c = c};
    CHECK(run_with_guard(&g, true));
}

/* Blocks of weights are packed in as few parts as represent them, in either layout and with several
 * tiles of rows. Blocks with other strides are not examined, and give the same bits. */
static void test_narrow_weights(void)
{
    enum { SIZE = NARROW_K * NARROW_N };
    float *a = malloc(NARROW_M * NARROW_K * sizeof *a), *b = malloc(4 * (size_t)SIZE * sizeof *b);
    float *c = malloc(3 * (size_t)NARROW_M * NARROW_N * sizeof *c);
    float *along = b + SIZE, *apart = b + 2 * SIZE;
    const int64_t results = NARROW_M * NARROW_N;
    for (int64_t i = 0; i < NARROW_M * NARROW_K; i++)
        a[i] = (float)draw(-100000, 100000) / 1e5f;
    for (int kind = 0; has_kernels() && kind < 4; kind++) {
        for (int64_t k = 0; k < NARROW_K; k++)
            for (int64_t j = 0; j < NARROW_N; j++)
                b[k * NARROW_N + j] = along[j * NARROW_K + k] = apart[2 * (k * NARROW_N + j)] =
                    narrow_number(kind, k, j);
        multiply_narrow(a, b, NARROW_N, 1, c);
        multiply_narrow(a, along, 1, NARROW_K, c + results);
        multiply_narrow(a, apart, 2 * NARROW_N, 2, c + 2 * results);
        CHECK_BYTES(c, c + 2 * results, (size_t)results * sizeof *c);
        CHECK_BYTES(c + results, c + 2 * results, (size_t)results * sizeof *c);
    }
    free(a);
    free(b);
    free(c);
}

static void test_threads(void)
{
    const int before = weft_threads();
    int n;
    if (!has_kernels())
        return;
    const product_case *cases = repeated_cases(&n);
    for (int i = 0; i < n; i++) {
        product p;
        make_product(&p, &cases[i]);
        weft_set_threads(1);
        CHECK(run_parts(&p));
        char *one = malloc((size_t)p.out.bytes);
        memcpy(one, p.out.memory, (size_t)p.out.bytes);
        for (int threads = 2; threads <= 4; threads++) {
            weft_set_threads(threads);
            memset(p.out.memory, 0, (size_t)p.out.bytes);
            CHECK(run_parts(&p));
            CHECK_BYTES(p.out.memory, one, (size_t)p.out.bytes);
        }
        free(one);
        free_product(&p);
    }
    weft_set_threads(before);
}

/* ---- Numbers that are not finite, and the largest ones -------------------------------------- */

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Compares C (m, n) = A B with float64 whose results are rounded to float32. */
static void check_special(const cpu_gemm *g, const char *what)
{
    const float *a = g->a.data, *b = g->b.data, *c = g->c;
    CHECK(weft__cpu_by_parts.takes(g));
    run_with_guard(g, false);
    for (int64_t i = 0; i < g->m * g->n; i++) {
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < g->k; k++) {
            const double term = (double)a[i / g->n * g->k + k] * b[k * g->n + i % g->n];
            sum += term;
            magnitude += fabs(term);
        }
        const float want = (float)sum;
        const bool same = isnan(want)   ? isnan(c[i]) != 0
                          : isinf(want) ? c[i] == want
                                        : fabs(c[i] - sum) <= 0x1p-22 * (magnitude + fabs(sum));
        if (!same) {
            CHECK_FAIL("%s: element %lld: expected %.9g, got %.9g", what, (long long)i, want, c[i]);
            return;
        }
    }
}

/* Single elements of A, of B, of both in the same product and in different ones. */
static void test_special_numbers(void)
{
    enum { M = 56, N = 300, K = 300 };
    const float numbers[] = {INFINITY,
                             -INFINITY,
                             from_bits(0x7fffffff),
                             from_bits(0xffffffff),
                             from_bits(0x7f800001),
                             NAN,
                             FLT_MAX,
                             -FLT_MAX,
                             0x1.fefffep127f,
                             0x1.fe8p127f,
                             -0x1.fep127f,
                             0x1p127f};
    if (!has_kernels())
        return;
    owned_tensor a = tensor_random(WEFT_FLOAT32, WEFT_DIMS(M, K), LIE_DENSE, -0.1, 0.1, 1);
    owned_tensor b = tensor_random(WEFT_FLOAT32, WEFT_DIMS(K, N), LIE_DENSE, -0.1, 0.1, 2);
    owned_tensor c = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(M, N));
    float *x = a.memory, *y = b.memory;
    const cpu_gemm g = {.m = M,
                        .n = N,
                        .k = K,
                        .a = {.data = x, .row = K, .column = 1, .dtype = WEFT_FLOAT32},
                        .b = {.data = y, .row = N, .column = 1, .dtype = WEFT_FLOAT32},
                        .c_dtype = WEFT_FLOAT32,
                        .c = c.memory,
                        .by_tiles = true};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        for (int where = 1; where < 16; where++) {
            float *const at[] = {&x[7 * K + 9], &y[9 * N + 11], &x[50 * K + 66], &y[3 * N + 79]};
            float kept[4];
            char what[60];
            for (int s = 0; s < 4; s++) {
                kept[s] = *at[s];
                *at[s] = where >> s & 1 ? numbers[i] : kept[s];
            }
            snprintf(what, sizeof what, "%a in places %d", (double)numbers[i], where);
            check_special(&g, what);
            for (int s = 0; s < 4; s++)
                *at[s] = kept[s];
        }
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
}

/* Results near FLT_MAX that are finite, although products of rounded parts are not. */
static void test_large_results(void)
{
    enum { SIZE = 400 };
    if (!has_kernels())
        return;
    float *x = calloc(SIZE * SIZE, sizeof *x), *y = calloc(SIZE * SIZE, sizeof *y);
    float *z = calloc(SIZE * SIZE, sizeof *z);
    const cpu_gemm g = {.m = SIZE,
                        .n = SIZE,
                        .k = SIZE,
                        .a = {.data = x, .row = SIZE, .column = 1, .dtype = WEFT_FLOAT32},
                        .b = {.data = y, .row = SIZE, .column = 1, .dtype = WEFT_FLOAT32},
                        .c_dtype = WEFT_FLOAT32,
                        .c = z};
    for (int i = 0; i < SIZE; i++)
        x[i * SIZE + i] = y[i * SIZE + i] = i % 2 ? 0x1.ff8p63f : 0x1p60f;
    check_special(&g, "results near the largest float32");
    free(x);
    free(y);
    free(z);
}

/* ---- The bound of the workspace ------------------------------------------------------------- */

static int64_t draw_size(void)
{
    return draw(1, (int64_t)1 << draw(3, 15));
}

static void test_bound(void)
{
    static const int64_t groups[] = {16, 32, 64, 128, 256};
    const int before = weft_threads();
    if (!has_kernels())
        return;
    for (int i = 0; i < 20000; i++) {
        if (i % 500 == 0)
            weft_set_threads((int)draw(1, 8));
        const cpu_codes codes = {.group = groups[draw(0, 4)]};
        cpu_gemm g = {.m = draw_size(),
                      .n = draw_size(),
                      .k = draw_size(),
                      .a = {.dtype = floats[draw(0, 2)], .parts = (int)draw(0, 2)},
                      .b = {.dtype = floats[draw(0, 2)], .parts = (int)draw(0, 2)},
                      .c_dtype = floats[draw(0, 2)],
                      .coarse = draw(0, 1)};
        if (draw(0, 1)) {
            g.b.codes = &codes;
            g.b.code_terms = draw(0, 1);
        }
        cpu_gemm most = g;
        most.m += draw(0, 1) * draw_size();
        most.k += draw(0, 1) * draw_size();
        most.n += draw(0, 1) * draw_size();
        const int64_t need = weft__cpu_by_parts.takes(&g) ? weft__cpu_by_parts.workspace(&g) : 0;
        const int64_t bound = weft__cpu_by_parts.bound(&most);
        if (need > bound) {
            CHECK_FAIL("%lldx%lldx%lld, %d threads: %lld bytes, bound %lld", (long long)g.m,
                       (long long)g.n, (long long)g.k, weft_threads(), (long long)need,
                       (long long)bound);
            break;
        }
    }
    CHECK(true);
    weft_set_threads(before);
}

CHECK_MAIN("parts", CHECK_CASE(test_dtypes_and_layouts), CHECK_CASE(test_sizes),
           CHECK_CASE(test_large), CHECK_CASE(test_bias_and_accumulate),
           CHECK_CASE(test_parts_and_coarse), CHECK_CASE(test_sums), CHECK_CASE(test_batches),
           CHECK_CASE(test_encoded), CHECK_CASE(test_rows), CHECK_CASE(test_narrow_weights),
           CHECK_CASE(test_threads), CHECK_CASE(test_special_numbers),
           CHECK_CASE(test_large_results), CHECK_CASE(test_bound))
