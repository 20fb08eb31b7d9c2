/* tests/cpu/test_int8.c -- products of 8-bit activations against their definition in float64 and
 * against exact products, on every instruction set and number of threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/gemm.h"
#include "tests/check.h"
#include "tests/cpu/int8_integers.h"
#include "weft/gguf.h"
#include "weft/io.h"
#include "weft/nn.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static const char *const kinds[] = {"Q8_0", "Q4_0", "Q4_K", "affine 4", "affine 8", "Q4_1",
                                    "Q5_0", "Q5_1", "Q5_K", "IQ4_NL",   "IQ4_XS",   "MXFP4"};
enum {
    Q4_K = 2,
    AFFINE_4 = 3,
    AFFINE_8 = 4,
    KINDS = sizeof kinds / sizeof *kinds,
    TERMS = CPU_INT8_TERMS
};

/* Random codes with normal scales, for kinds that Weft does not encode. */
static weft_array *any_blocks(const weft_encoding *e, weft_dims shape, uint64_t seed)
{
    const int64_t blocks = shape.at[0] * shape.at[1] / e->block;
    uint8_t *bytes = malloc((size_t)(blocks * e->block_bytes));
    for (int64_t i = 0; i < blocks * e->block_bytes; i++)
        bytes[i] = (uint8_t)((seed = seed * 6364136223846793005u + 1) >> 56);
    for (int64_t i = 0; i < blocks; i++) {
        uint8_t *block = bytes + i * e->block_bytes;
        if (e->kind == WEFT_ENCODING_GGUF_MXFP4)
            block[0] = (uint8_t)(120 + block[0] % 8);
        else
            block[1] = 0x2c; /* of a float16 */
        if (e->kind == WEFT_ENCODING_Q4_1 || e->kind == WEFT_ENCODING_Q5_1)
            block[3] = e->kind == WEFT_ENCODING_Q4_1 ? 0xb8 : 0xbc; /* the minimum: balanced */
    }
    return weft_from_blocks(bytes, e, WEFT_FLOAT32, shape, free, bytes);
}

/* The encoding of kind t, NULL for affine codes. */
static const weft_encoding *block_type(int t)
{
    return t == AFFINE_4 || t == AFFINE_8 ? NULL : weft_gguf_encoding(kinds[t]);
}

/* The weight encoded as kind t, or a random weight of that kind. */
static weft_array *encoded(int t, weft_array *w, int64_t group, weft_dtype scale)
{
    const weft_quantize_options o = {.bits = t == AFFINE_4 ? 4 : 8, .group_size = group};
    const weft_encoding *e = block_type(t);
    if (e == NULL)
        return weft_encode(w, weft_quantize_encoding(&o, scale));
    return e->encode ? weft_encode(w, e) : any_blocks(e, weft_shape(w), (uint64_t)t);
}

static weft_array *normal(uint64_t seed, weft_dims shape)
{
    return weft_random_normal(weft_random_key(seed), shape, 0, 1, WEFT_FLOAT32);
}

/* Float32 values on the host (free). */
static float *values(weft_array *a)
{
    float *out = calloc((size_t)weft_size(a) + 1, sizeof *out);
    a = weft_astype(weft_decode(a), WEFT_FLOAT32);
    CHECK_OK(weft_read(a, WEFT_FLOAT32, out, weft_size(a)));
    return out;
}

/* Rows of k numbers as the header defines them, each 32 to multiples of a step. */
static void define(const float *x, int64_t n, double *out)
{
    for (int64_t b = 0; b < n; b += TERMS) {
        float largest = 0;
        for (int i = 0; i < TERMS; i++)
            largest = fmaxf(largest, fabsf(x[b + i]));
        const float inverse = largest > 0 ? 127 / largest : 0, step = largest * (1.0f / 127);
        for (int i = 0; i < TERMS; i++)
            out[b + i] = (double)step * nearbyintf(x[b + i] * inverse);
    }
}

/* Numbers rounded to bfloat16, halves away from zero. */
static void round_to_bfloat16(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits + 0x8000) & 0xffff0000;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

typedef struct size {
    int64_t m, n, k;
} size;

/* Whether x and the weight are rounded to bfloat16 instead, as the header defines. */
static bool by_bfloat16(size s, weft_dtype dtype)
{
    const cpu_gemm g = {.m = s.m,
                        .n = s.n,
                        .k = s.k,
                        .a = {.dtype = dtype, .parts = 1},
                        .b = {.dtype = WEFT_FLOAT32, .parts = 1},
                        .c_dtype = dtype};
    return s.m > 24 && weft__cpu_by_parts.takes(&g);
}

/* Under ThreadSanitizer, which looks for races and makes these loops slow, one row in 16 is
 * compared. */
#ifdef __SANITIZE_THREAD__
enum { ROW_STEP = 16 };
#else
enum { ROW_STEP = 1 };
#endif

/* ---- Values --------------------------------------------------------------------------------- */

/* Against float64 over the rounded x: the remaining error is that of float32 sums over blocks. */
static void check_definition(int t, size s, weft_dtype dtype, bool with_bias)
{
    weft_scope_open();
    weft_array *x = weft_astype(normal(1, WEFT_DIMS(s.m, s.k)), dtype);
    weft_array *w = encoded(t, normal(2, WEFT_DIMS(s.n, s.k)), 32 << s.k % 3, dtype);
    weft_array *bias = with_bias ? normal(3, WEFT_DIMS(s.n)) : NULL;
    weft_array *y = weft_linear_int8(x, w, bias);
    CHECK(weft_dtype_of(y) == dtype);
    float *xs = values(x), *ws = values(w), *found = values(y), *b = bias ? values(bias) : NULL;
    double *rounded = calloc((size_t)(s.m * s.k), sizeof *rounded), worst = 0;
    if (by_bfloat16(s, dtype)) {
        round_to_bfloat16(ws, s.n * s.k);
        if (dtype == WEFT_FLOAT32)
            round_to_bfloat16(xs, s.m * s.k);
        for (int64_t i = 0; i < s.m * s.k; i++)
            rounded[i] = xs[i];
    } else {
        define(xs, s.m * s.k, rounded);
    }
    for (int64_t i = 0; i < s.m; i += ROW_STEP) {
        for (int64_t j = 0; j < s.n; j++) {
            double sum = b ? b[j] : 0, magnitude = fabs(sum);
            for (int64_t k = 0; k < s.k; k++) {
                const double product = rounded[i * s.k + k] * ws[j * s.k + k];
                sum += product;
                magnitude += fabs(product);
            }
            const double unit = dtype == WEFT_FLOAT32   ? 0x1p-24
                                : dtype == WEFT_FLOAT16 ? 0x1p-11
                                                        : 0x1p-8;
            /* Weights with a bias are differences of two sums: twice their size. */
            const double allowed = 4 * 0x1p-24 * magnitude + unit * fabs(sum);
            worst = fmax(worst, fabs(found[i * s.n + j] - sum) / allowed);
        }
    }
    if (!CHECK(worst < 1))
        printf("  %s, %d x %d x %d: %g of what is allowed\n", kinds[t], (int)s.m, (int)s.n,
               (int)s.k, worst);
    free(xs);
    free(ws);
    free(found);
    free(b);
    free(rounded);
    weft_scope_close(NULL);
}

/* Whether x is rounded for kind t; otherwise so few rows are exact. */
static bool rounds(int t, int64_t m)
{
    const char *fast[] = {"Q8_0", "Q4_0", "Q4_1"};
    int64_t least = CPU_GEMV_ROWS + 1;
    for (int i = 0; i < 3; i++)
        if (strcmp(kinds[t], fast[i]) == 0)
            least = weft__cpu_kernels()->int8_least;
    return m >= least || weft__cpu_kernels()->int8_rows;
}

static void products_equal_their_definition(void)
{
    static const size sizes[] = {{9, 1, 256},     {48, 33, 768},  {49, 70, 1024}, {131, 32, 512},
                                 {10, 2080, 256}, {1540, 5, 256}, {1, 2080, 512}, {2, 70, 768},
                                 {1, 33, 1024},   {4, 19, 256},   {16, 33, 512},  {7, 33, 1024},
                                 {1, 5, 96},      {3, 5, 448},    {8, 5, 896},    {20, 5, 96},
                                 {25, 40, 256}};
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (int t = 0; t < KINDS; t++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
                if (rounds(t, sizes[i].m) &&
                    (!block_type(t) || sizes[i].k % block_type(t)->block == 0))
                    check_definition(t, sizes[i], dtypes[(t + (int)i) % 3], i % 2 == 0);
    }
}

/* The error of rounding normal activations, as documented: between 0.4% and 0.7% of the result, and
 * of both to bfloat16 between 0.2% and 0.25%. */
static void errors_are_stated(void)
{
    const bool sixteen = by_bfloat16((size){64, 96, 1024}, WEFT_FLOAT32);
    for (int t = 0; t < KINDS; t++) {
        weft_scope_open();
        weft_array *x = normal(4, WEFT_DIMS(64, 1024));
        weft_array *w = encoded(t, normal(5, WEFT_DIMS(96, 1024)), 64, WEFT_BFLOAT16);
        weft_array *exact = weft_linear(weft_astype(x, WEFT_FLOAT64),
                                        weft_astype(weft_decode(w), WEFT_FLOAT64), NULL);
        weft_array *off =
            weft_subtract(weft_astype(weft_linear_int8(x, w, NULL), WEFT_FLOAT64), exact);
        const double error = sqrt(weft_item(weft_mean(weft_square(off), WEFT_ALL_AXES, false)) /
                                  weft_item(weft_mean(weft_square(exact), WEFT_ALL_AXES, false)));
        printf("  %s: root mean square error %.5f of the result\n", kinds[t], error);
        CHECK(sixteen ? error > 0.002 && error < 0.0025 : error > 0.004 && error < 0.007);
        weft_scope_close(NULL);
    }
}

/* ---- The same integers ---------------------------------------------------------------------- */

/* Every instruction set. */
static void instruction_sets_round_to_the_same_integers(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (int largest = 15; largest <= 255; largest += 240) {
            CHECK_EQ_INT(int8_wrong_sums(weft__cpu_kernels(), false, largest), 0);
            CHECK_EQ_INT(int8_wrong_sums(weft__cpu_kernels(), true, largest), 0);
        }
        CHECK_EQ_INT(int8_wrong_rows(weft__cpu_kernels()), 0);
        CHECK_EQ_INT(int8_wrong_roundings(weft__cpu_kernels()), 0);
    }
}

static void check_threads(int64_t rows)
{
    static const int counts[] = {1, 2, 5};
    float *first = NULL;
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        weft_set_threads(counts[i]);
        weft_array *w = encoded(Q4_K, normal(6, WEFT_DIMS(2100, 512)), 0, WEFT_FLOAT32);
        float *y = values(weft_linear_int8(normal(7, WEFT_DIMS(rows, 512)), w, NULL));
        if (first == NULL)
            first = y;
        else
            CHECK(memcmp(first, y, (size_t)rows * 2100 * sizeof *y) == 0);
        if (y != first)
            free(y);
        weft_scope_close(NULL);
    }
    weft_set_threads(0);
    free(first);
}

static void threads_do_not_matter(void)
{
    check_threads(1);
    check_threads(12);
    check_threads(100);
}

/* ---- Exact products ------------------------------------------------------------------------- */

static bool same(weft_array *a, weft_array *b)
{
    return weft_item(weft_array_equal(a, b, false)) == 1;
}

/* Few rows without a kernel for them, weights without such kernels, and plain weights are exact;
 * more rows are not. */
static void other_products_are_exact(void)
{
    weft_scope_open();
    weft_array *w = normal(8, WEFT_DIMS(40, 256));
    weft_array *few = normal(9, WEFT_DIMS(8, 256)), *many = normal(9, WEFT_DIMS(9, 256));
    for (int t = 0; t < KINDS; t++) {
        weft_array *e = encoded(t, w, 64, WEFT_BFLOAT16);
        CHECK(same(weft_linear_int8(few, e, NULL), weft_linear(few, e, NULL)) == !rounds(t, 8));
        CHECK(!same(weft_linear_int8(many, e, NULL), weft_linear(many, e, NULL)));
    }
    weft_array *six = weft_encode(w, weft_gguf_encoding("Q6_K"));
    CHECK(same(weft_linear_int8(many, six, NULL), weft_linear(many, six, NULL)));
    CHECK(same(weft_linear_int8(many, w, NULL), weft_linear(many, w, NULL)));
    weft_scope_close(NULL);
}

static int product(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = weft_linear_int8(in[0], context, NULL);
    return 1;
}

static int exact_product(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = weft_linear(in[0], context, NULL);
    return 1;
}

static void gradients_are_exact(void)
{
    weft_scope_open();
    weft_array *w = encoded(2, normal(10, WEFT_DIMS(48, 256)), 0, WEFT_FLOAT32);
    weft_array *x = normal(11, WEFT_DIMS(20, 256)), *ct = normal(12, WEFT_DIMS(20, 48));
    weft_array *dx, *expected;
    CHECK_OK(weft_vjp(product, w, &x, 1, &ct, NULL, 1, &dx));
    CHECK_OK(weft_vjp(exact_product, w, &x, 1, &ct, NULL, 1, &expected));
    CHECK(same(dx, expected));
    weft_scope_close(NULL);
}

/* Rows with a NaN or an infinity are NaN, rows of zeros and of tiny numbers give the bias, and
 * other rows do not change. */
static void special_numbers(void)
{
    weft_scope_open();
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, 1e-44f};
    float *x = values(normal(13, WEFT_DIMS(12, 256)));
    float *bias = values(normal(14, WEFT_DIMS(40)));
    weft_array *w = encoded(1, normal(15, WEFT_DIMS(40, 256)), 0, WEFT_FLOAT32);
    weft_array *b = weft_from_data(bias, WEFT_FLOAT32, WEFT_DIMS(40));
    float *plain =
        values(weft_linear_int8(weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(12, 256)), w, b));
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 256; k++)
            x[2 * i * 256 + k] = i < 3 ? x[2 * i * 256 + k] : odd[i];
        x[2 * i * 256 + 77] = odd[i];
    }
    float *y = values(weft_linear_int8(weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(12, 256)), w, b));
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 40; j++) {
            const float found = y[i * 40 + j];
            if (i % 2 == 1 || i == 10)
                CHECK(found == plain[i * 40 + j]);
            else
                CHECK(i < 6 ? isnan(found) : found == bias[j]);
        }
    free(x);
    free(bias);
    free(plain);
    free(y);
    weft_scope_close(NULL);
}

/* A module's flag, which is false at first. */
static void modules_have_a_flag(void)
{
    weft_scope_open();
    weft_module *m = weft_nn_linear_new(256, 40, true);
    weft_array *x = normal(16, WEFT_DIMS(16, 256));
    CHECK_OK(weft_nn_quantize(m, NULL));
    weft_nn_linear *linear = (weft_nn_linear *)m;
    CHECK(same(weft_nn_call(m, x), weft_linear(x, linear->weight, linear->bias)));
    linear->int8 = true;
    CHECK(same(weft_nn_call(m, x), weft_linear_int8(x, linear->weight, linear->bias)));
    weft_nn_free(m);
    weft_scope_close(NULL);
}

CHECK_MAIN("8-bit activations", CHECK_CASE(products_equal_their_definition),
           CHECK_CASE(errors_are_stated), CHECK_CASE(instruction_sets_round_to_the_same_integers),
           CHECK_CASE(threads_do_not_matter), CHECK_CASE(other_products_are_exact),
           CHECK_CASE(gradients_are_exact), CHECK_CASE(special_numbers),
           CHECK_CASE(modules_have_a_flag))
