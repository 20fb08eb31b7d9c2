/* tests/cpu/test_gemm.c -- matmul and linear of the CPU against double loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/cpu/tensors.h"
#include "tests/support/child.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/random.h"

static const weft_dtype floats[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_FLOAT16, WEFT_BFLOAT16};
enum { FLOATS = sizeof floats / sizeof *floats };

/* ---- matmul --------------------------------------------------------------------------------- */

static int64_t operand_matrix(const weft_tensor *x, const weft_dims *out, int64_t batch)
{
    int64_t index = 0, step = 1;
    for (int axis = out->n - 3; axis >= 0; axis--) {
        int64_t at = batch % out->at[axis];
        batch /= out->at[axis];
        index += x->shape.at[axis] == 1 ? 0 : at * step;
        step *= x->shape.at[axis];
    }
    return index;
}

static void expect_matmul(const weft_tensor *a, const weft_tensor *b, const weft_tensor *c,
                          double *out)
{
    int rank = c->shape.n;
    int64_t M = c->shape.at[rank - 2], N = c->shape.at[rank - 1], K = a->shape.at[rank - 1];
    int64_t size = weft_tensor_size(c);
    double *a_at = tensor_doubles(a), *b_at = tensor_doubles(b);
    for (int64_t i = 0; i < size; i++) {
        int64_t batch = i / N / M, row = i / N % M, column = i % N;
        int64_t first_a = (operand_matrix(a, &c->shape, batch) * M + row) * K;
        int64_t first_b = operand_matrix(b, &c->shape, batch) * K * N + column;
        double sum = 0;
        for (int64_t k = 0; k < K; k++)
            sum += a_at[first_a + k] * b_at[first_b + k * N];
        out[i] = sum;
    }
    free(a_at);
    free(b_at);
}

static void try_matmul(weft_dtype dtype, weft_dims a_shape, weft_dims b_shape, lie a_lie, lie b_lie)
{
    owned_tensor a = tensor_random(dtype, a_shape, a_lie, -1, 1, 1);
    owned_tensor b = tensor_random(dtype, b_shape, b_lie, -1, 1, 2);
    weft_dims shape = a_shape;
    shape.at[shape.n - 1] = b_shape.at[shape.n - 1];
    for (int i = 0; i < shape.n - 2; i++)
        shape.at[i] = a_shape.at[i] == 1 ? b_shape.at[i] : a_shape.at[i];
    owned_tensor c = tensor_empty(dtype, shape);
    double *expected = calloc((size_t)weft_tensor_size(&c.t) + 1, sizeof(double));
    expect_matmul(&a.t, &b.t, &c.t, expected);
    weft_tensor in[] = {a.t, b.t};
    char what[160];
    snprintf(what, sizeof what, "matmul %s %lldx%lldx%lld layouts %d %d", weft_dtype_name(dtype),
             (long long)shape.at[shape.n - 2], (long long)shape.at[shape.n - 1],
             (long long)a_shape.at[shape.n - 1], a_lie, b_lie);
    bool blas = dtype == WEFT_FLOAT64 && (a_lie == LIE_GAPS || b_lie == LIE_GAPS);
    if (!blas || has_row("matmul", NULL, in, 2, &c.t, 1)) {
        run_row("matmul", NULL, in, 2, &c.t, 1);
        check_tensor(&c.t, expected, 2 * epsilon_of(dtype), 4 + (double)a_shape.at[shape.n - 1] / 8,
                     what);
    }
    free(expected);
    tensor_free(&a);
    tensor_free(&b);
    tensor_free(&c);
}

static void check_matmul_layouts(void)
{
    for (int d = 0; d < FLOATS; d++)
        for (lie a = LIE_DENSE; a < LIE_COUNT; a++)
            for (lie b = LIE_DENSE; b < LIE_COUNT; b++) {
                try_matmul(floats[d], WEFT_DIMS(37, 19), WEFT_DIMS(19, 45), a, b);
                try_matmul(floats[d], WEFT_DIMS(3, 13, 7), WEFT_DIMS(3, 7, 5), a, b);
            }
}

static void test_matmul_layouts(void)
{
    each_isa(check_matmul_layouts);
}

static void check_matmul_sizes(void)
{
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 70, 33},  {70, 1, 33},   {100, 1, 1},
                                       {1, 100, 1},    {12, 32, 0},  {0, 5, 3},     {5, 0, 3},
                                       {97, 33, 64},   {64, 8, 200}, {8, 192, 700}, {24, 64, 1030},
                                       {130, 300, 17}, {300, 11, 90}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (lie a = LIE_DENSE; a <= LIE_TRANSPOSED; a++)
            for (lie b = LIE_DENSE; b <= LIE_TRANSPOSED; b++)
                for (int d = 0; d < FLOATS; d++)
                    try_matmul(floats[d], WEFT_DIMS(sizes[i][0], sizes[i][2]),
                               WEFT_DIMS(sizes[i][2], sizes[i][1]), a, b);
}

static void test_matmul_sizes(void)
{
    each_isa(check_matmul_sizes);
}

static void test_matmul_broadcast(void)
{
    for (int d = 0; d < FLOATS; d++) {
        try_matmul(floats[d], WEFT_DIMS(2, 1, 30, 9), WEFT_DIMS(1, 3, 9, 40), LIE_DENSE, LIE_DENSE);
        try_matmul(floats[d], WEFT_DIMS(4, 2, 5, 9), WEFT_DIMS(1, 1, 9, 8), LIE_ROWS,
                   LIE_TRANSPOSED);
        try_matmul(floats[d], WEFT_DIMS(1, 2, 5, 9), WEFT_DIMS(4, 2, 9, 8), LIE_DENSE, LIE_ROWS);
    }
}

/* More of B than is packed at once: columns in passes, and batches in groups. */
static void test_matmul_passes(void)
{
    try_matmul(WEFT_FLOAT32, WEFT_DIMS(25, 3000), WEFT_DIMS(3000, 1500), LIE_DENSE, LIE_TRANSPOSED);
    try_matmul(WEFT_BFLOAT16, WEFT_DIMS(30, 26, 520), WEFT_DIMS(30, 520, 200), LIE_DENSE,
               LIE_DENSE);
}

/* ---- linear --------------------------------------------------------------------------------- */

typedef struct linear_case {
    int64_t rows, E, F;
    bool transposed, bias;
    weft_dtype x, w;
    lie layout;
} linear_case;

static void expect_linear(const linear_case *c, int64_t n, int64_t k,
                          const weft_tensor *const in[3], double *out)
{
    double *x = tensor_doubles(in[0]), *w = tensor_doubles(in[1]), *bias = tensor_doubles(in[2]);
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = c->bias ? bias[j] : 0;
            for (int64_t p = 0; p < k; p++)
                sum += x[i * k + p] * w[c->transposed ? p * n + j : j * k + p];
            out[i * n + j] = sum;
        }
    free(x);
    free(w);
    free(bias);
}

static void try_linear(const linear_case *c)
{
    int64_t n = c->transposed ? c->E : c->F, k = c->transposed ? c->F : c->E;
    owned_tensor x = tensor_random(c->x, WEFT_DIMS(c->rows, k), c->layout, -1, 1, 3);
    owned_tensor w = tensor_random(c->w, WEFT_DIMS(c->F, c->E), c->layout, -1, 1, 4);
    owned_tensor bias = tensor_random(c->w, WEFT_DIMS(c->F), LIE_DENSE, -1, 1, 5);
    owned_tensor y = tensor_empty(c->x, WEFT_DIMS(c->rows, n));
    double *expected = calloc((size_t)(c->rows * n) + 1, sizeof(double));
    expect_linear(c, n, k, (const weft_tensor *const[]){&x.t, &w.t, &bias.t}, expected);
    weft_tensor in[] = {x.t, w.t, bias.t};
    weft_linear_params params = {.transposed = c->transposed};
    run_row("linear", &params, in, c->bias ? 3 : 2, &y.t, 1);
    char what[160];
    snprintf(what, sizeof what, "linear %s %s rows %lld E %lld F %lld%s%s layout %d",
             weft_dtype_name(c->x), weft_dtype_name(c->w), (long long)c->rows, (long long)c->E,
             (long long)c->F, c->transposed ? " transposed" : "", c->bias ? " bias" : "",
             c->layout);
    double epsilon = epsilon_of(c->x);
    check_tensor(&y.t, expected, 2 * epsilon, 4 + (double)k / 8, what);
    free(expected);
    tensor_free(&x);
    tensor_free(&w);
    tensor_free(&bias);
    tensor_free(&y);
}

static void check_linear(void)
{
    static const int64_t rows[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 21, 24, 25, 50};
    static const int64_t widths[][2] = {{1, 1},    {7, 5},     {64, 48}, {131, 77},
                                        {16, 300}, {1040, 21}, {192, 70}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
            for (int d = 0; d < FLOATS; d++)
                for (int e = 0; e < FLOATS; e++) {
                    if ((floats[d] == WEFT_FLOAT64) != (floats[e] == WEFT_FLOAT64))
                        continue;
                    linear_case c = {rows[r],      widths[i][0],
                                     widths[i][1], false,
                                     i % 2 == 0,   floats[d],
                                     floats[e],    (r + i) % 3 == 0 ? LIE_ROWS : LIE_DENSE};
                    try_linear(&c);
                    c.transposed = true;
                    c.bias = false;
                    try_linear(&c);
                }
}

static void test_linear(void)
{
    each_isa(check_linear);
}

/* ---- Any number of threads gives the same bits ---------------------------------------------- */

static void test_threads(void)
{
    static const int64_t sizes[][3] = {
        {300, 200, 150}, {3, 900, 700}, {8, 192, 2048}, {20, 500, 320}, {500, 8, 600}};
    int before = weft_threads();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 0; d < FLOATS; d++)
            for (lie l = LIE_DENSE; l <= LIE_TRANSPOSED; l++) {
                int64_t M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
                owned_tensor a = tensor_random(floats[d], WEFT_DIMS(M, K), l, -1, 1, 1);
                owned_tensor b = tensor_random(floats[d], WEFT_DIMS(K, N), l, -1, 1, 2);
                owned_tensor one = tensor_empty(floats[d], WEFT_DIMS(M, N));
                owned_tensor many = tensor_empty(floats[d], WEFT_DIMS(M, N));
                weft_tensor in[] = {a.t, b.t};
                weft_set_threads(1);
                run_row("matmul", NULL, in, 2, &one.t, 1);
                for (int threads = 2; threads <= 4; threads++) {
                    weft_set_threads(threads);
                    run_row("matmul", NULL, in, 2, &many.t, 1);
                    CHECK_BYTES(many.t.data, one.t.data, (size_t)one.bytes);
                }
                tensor_free(&a);
                tensor_free(&b);
                tensor_free(&one);
                tensor_free(&many);
            }
    weft_set_threads(before);
}

/* 16-bit operands have the sums of the same numbers in float32, however their rows are decoded: all
 * at once, as long as they are short enough, or tile by tile. Computed by the float32 driver, since
 * only one of them might use products of bfloat16 parts. */
static void test_decoding(void)
{
#if defined(__x86_64__)
    (void)weft__cpu_use_isa(CPU_AVX512);
#endif
    static const int64_t sizes[][3] = {{100, 1030, 700}, {3000, 300, 1024}, {13, 600, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int d = 2; d < FLOATS; d++) {
            const int64_t M = sizes[i][0], N = sizes[i][1], K = sizes[i][2];
            weft_scope_open();
            weft_array *key = weft_random_key(i), *wide[2], *narrow[2];
            for (int o = 0; o < 2; o++) {
                const weft_dims shape = o == 0 ? WEFT_DIMS(M, K) : WEFT_DIMS(K, N);
                wide[o] = weft_random_normal(key, shape, 0, 1, WEFT_FLOAT32);
                narrow[o] = weft_astype(wide[o], floats[d]);
                wide[o] = weft_astype(narrow[o], WEFT_FLOAT32);
            }
            weft_array *expected = weft_astype(weft_matmul(wide[0], wide[1]), floats[d]);
            weft_array *found = weft_matmul(narrow[0], narrow[1]);
            CHECK(weft_item(weft_array_equal(found, expected, false)) == 1);
            weft_scope_close(NULL);
        }
    (void)weft__cpu_use_isa((cpu_isa)(CPU_ISA_COUNT - 1));
}

/* ---- Address checks ------------------------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
enum {
    A,
    B,
    C,
    BIAS,
    PACKED_A,
    PACKED_B,
    SOURCE,
    TILE_X,
    TILE_W,
    TILE_Y,
    TURN,
    TURNED,
    RANGES,
    M = 17,
    K = 7
};

static int short_one; /* which of the ranges is a byte short; RANGES: none */

static void *range(int which, int64_t n)
{
    return calloc((size_t)n * sizeof(float) - (which == short_one), 1);
}

static void touch_ranges(void)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    const int64_t rows = kernels->gemm_rows, columns = kernels->gemm_columns;
    const int64_t n = columns + 3, panels = (M + rows - 1) / rows, panel = rows * K + columns / 2;
    float *a = range(A, M * K), *c = range(C, M * n), *bias = range(BIAS, n);
    float *packed_a = range(PACKED_A, (panels - 1) * panel + (K - 1) * rows + M % rows);
    float *packed_b = range(PACKED_B, 2 * columns * K), *source = range(SOURCE, K * n);
    kernels->pack_a(WEFT_FLOAT32, a, 1, M, M, K, packed_a);
    kernels->pack_a(WEFT_FLOAT32, a, K, 1, M, K, packed_a);
    kernels->pack_b(WEFT_FLOAT32, source, n, 1, K, n, packed_b);
    kernels->pack_b(WEFT_FLOAT32, source, 1, K, K, n, packed_b);
    float *b = range(B, columns * K + (K - 1) * columns + columns / 2);
    cpu_block block = {.m = M,
                       .n = n,
                       .k = K,
                       .a = a,
                       .a_panel = rows * K,
                       .a_row = K,
                       .a_k = 1,
                       .b = b,
                       .b_panel = columns * K,
                       .b_k = columns,
                       .c = c,
                       .c_row = n,
                       .bias = bias};
    kernels->gemm_block(&block);
    block.a = packed_a;
    block.a_panel = panel;
    block.a_row = 1;
    block.a_k = rows;
    kernels->gemm_block(&block);
    const cpu_tiles tiles = {.m = 3,
                             .n = 4,
                             .k = 16,
                             .x = range(TILE_X, 3 * 16),
                             .x_row = 16,
                             .w = range(TILE_W, 4 * 16),
                             .w_row = 16,
                             .y = range(TILE_Y, 3 * 4),
                             .y_row = 4};
    kernels->tiles(&tiles);
    kernels->turn(range(TURN, 5 * 16), 16, 15, 5, NULL, range(TURNED, 15 * 5), 5);
    uint32_t key[2] = {1, 2};
    kernels->threefry(key, (uint32_t *)source, (uint32_t *)c, K * n);
}

/* The kernels are not instrumented, but notice every range that is a byte too short. */
static void check_ranges(void)
{
    char said[4000];
    for (short_one = 0; short_one <= RANGES; short_one++) {
        const int status = in_child("WEFT_TEST_RANGE", "1", touch_ranges, said, sizeof said);
        if (!CHECK((status != 0) == (short_one < RANGES)))
            CHECK_FAIL("range %d: %s", short_one, said);
        if (short_one < RANGES)
            CHECK_CONTAINS(said, "ERROR: AddressSanitizer: ");
    }
}

static void test_ranges(void)
{
    each_isa(check_ranges);
}

#define RANGES_CASE CHECK_CASE(test_ranges),
#else
#define RANGES_CASE
#endif

CHECK_MAIN("gemm", RANGES_CASE CHECK_CASE(test_matmul_layouts), CHECK_CASE(test_matmul_sizes),
           CHECK_CASE(test_matmul_broadcast), CHECK_CASE(test_matmul_passes),
           CHECK_CASE(test_linear), CHECK_CASE(test_threads), CHECK_CASE(test_decoding))
