/* tests/ops/test_quantize.c -- quantized matrices: MLX's values bit for bit, encodings against
 * separate tensors, products against float64, gradients, and refused input. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

static const char *const mode_names[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};

/* Option i of all, with the name that the golden file has for it. */
static bool option_at(int i, weft_quantize_options *o, char name[32])
{
    static const int64_t bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    if (i < 18) {
        *o = (weft_quantize_options){WEFT_AFFINE, groups[i % 3], bits[i / 3], NULL};
        snprintf(name, 32, "affine%d_%d", (int)o->bits, (int)o->group_size);
    } else if (i < 21) {
        *o = (weft_quantize_options){.mode = (weft_quantize_mode)(i - 17)};
        snprintf(name, 32, "%s", mode_names[o->mode]);
    }
    return i < 21;
}

static int64_t words_of(weft_array *a)
{
    return weft_nbytes(a) / (weft_nbytes(a) % 4 ? 1 : 4);
}

/* Named in an evaluation: stays readable. */
static weft_array *ready(weft_array *a)
{
    CHECK_OK(weft_eval(a));
    return a;
}

static void quantize_ready(weft_array *w, const weft_quantize_options *o, weft_array *q[3])
{
    weft_quantize(w, o, q);
    for (int i = 0; i < 3 && q[i]; i++) {
        ready(q[i]);
    }
}

/* Whether two arrays hold the same bytes. */
static bool same_bits(weft_array *a, weft_array *b, const char *what)
{
    weft_dims x = weft_shape(a), y = weft_shape(b);
    a = weft_to(a, weft_device_get("cpu"));
    b = weft_to(b, weft_device_get("cpu"));
    const void *p = weft_data(a), *q = weft_data(b);
    if (!p || !q) {
        return CHECK_FAIL("%s: %s", what, weft_error_message());
    }
    bool same = x.n == y.n && memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at) == 0 &&
                weft_dtype_of(a) == weft_dtype_of(b) && memcmp(p, q, (size_t)weft_nbytes(a)) == 0;
    return same ? CHECK(same) : CHECK_FAIL("%s: the bits differ", what);
}

static bool same_as_golden(weft_array *a, const char *name, const char *part)
{
    char tensor[96];
    snprintf(tensor, sizeof tensor, "%s/%s", name, part);
    weft_array *b = golden_get(tensor);
    return b && same_bits(a, b, tensor);
}

/* ---- MLX's values --------------------------------------------------------------------------- */

static void compare_case(weft_array *w, const char *name, const weft_quantize_options *o,
                         weft_dtype dense)
{
    weft_array *q[3];
    quantize_ready(w, o, q);
    same_as_golden(q[0], name, "codes");
    same_as_golden(q[1], name, "scales");
    if (q[2]) {
        same_as_golden(q[2], name, "biases");
    }
    same_as_golden(weft_dequantize(q[0], q[1], q[2], dense, o), name, "dense");
}

static void every_mode_equals_mlx(void)
{
    static const char *const kinds[] = {"f32", "f16", "bf16"};
    if (!golden_open("ops/quantize")) {
        return;
    }
    for (int k = 0; k < 3; k++) {
        char name[80], mode[32];
        snprintf(name, sizeof name, "%s/in0", kinds[k]);
        weft_array *w = golden_get(name);
        weft_quantize_options o;
        for (int i = 0; option_at(i, &o, mode); i++) {
            weft_scope_open();
            snprintf(name, sizeof name, "%s/%s", kinds[k], mode);
            compare_case(w, name, &o, weft_dtype_of(w));
            weft_scope_close(NULL);
        }
    }
    golden_close();
}

static void the_ramp_and_a_global_scale(void)
{
    if (!golden_open("ops/quantize")) {
        return;
    }
    weft_array *w = golden_get("ramp/in0");
    weft_quantize_options o;
    char mode[32], name[48];
    for (int i = 0; i < 18; i += 3) {
        option_at(i, &o, mode);
        snprintf(name, sizeof name, "ramp/%s", mode);
        compare_case(w, name, &o, WEFT_FLOAT32);
    }
    o = (weft_quantize_options){.mode = WEFT_NVFP4, .global_scale = golden_get("global/scale")};
    compare_case(golden_get("global/in0"), "global/nvfp4", &o, WEFT_FLOAT32);
    golden_close();
}

/* The words of specs: independent of the file. */
static void literal_words(void)
{
    float w[32];
    for (int i = 0; i < 32; i++) {
        w[i] = (float)(7 * i % 32 - 12) * 0.125f;
    }
    static const uint32_t four[] = {0x7ad158bf, 0xae259c03, 0xe269c047, 0x369d148b};
    static const uint32_t three[] = {0x4173152f, 0xca13b8a9, 0x2e609dc5};
    weft_array *x = weft_from_data(w, WEFT_FLOAT32, WEFT_DIMS(1, 32)), *q[3];
    weft_quantize(x, &(weft_quantize_options){.group_size = 32}, q);
    weft_array *expected = weft_from_data(four, WEFT_UINT32, WEFT_DIMS(1, 4));
    same_bits(q[0], expected, "4 bits");
    CHECK_CLOSE(weft_item(q[1]), -0.263888896, 1e-9);
    CHECK_CLOSE(weft_item(q[2]), 2.375, 0);
    weft_quantize(x, &(weft_quantize_options){.group_size = 32, .bits = 3}, q);
    same_bits(q[0], weft_from_data(three, WEFT_UINT32, WEFT_DIMS(1, 3)), "3 bits");
    weft_quantize(weft_full(WEFT_DIMS(1, 64), -1.5, WEFT_FLOAT32), NULL, q);
    CHECK_CLOSE(weft_item(q[2]), -1.5, 0);
    CHECK_RELATIVE(fabs(weft_item(q[1])), 1e-7, 1e-6);
}

static void float8(void)
{
    if (!golden_open("ops/quantize")) {
        return;
    }
    uint8_t all[256];
    for (int i = 0; i < 256; i++) {
        all[i] = (uint8_t)i;
    }
    weft_array *codes = weft_from_data(all, WEFT_UINT8, WEFT_DIMS(256));
    same_as_golden(weft_to_fp8(golden_get("fp8/in0")), "fp8", "codes");
    golden_check(weft_from_fp8(codes, WEFT_FLOAT32), "fp8/all", 0);
    golden_close();
}

/* NaN, infinities and extreme magnitudes change only their own group; except in affine,
 * infinities stay infinite or become the largest number of the mode. */
static void extremes(void)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 3e38, 1e-45, 1e-40};
    for (size_t v = 0; v < sizeof odd / sizeof *odd; v++) {
        weft_quantize_options o;
        char mode[32];
        for (int i = 0; option_at(i, &o, mode); i++) {
            weft_scope_open();
            float w[256];
            for (int k = 0; k < 256; k++) {
                w[k] = (float)(k % 16 - 8) / 8;
            }
            w[3] = (float)odd[v];
            weft_array *q[3], *x = weft_from_data(w, WEFT_FLOAT32, WEFT_DIMS(1, 256));
            weft_quantize(x, &o, q);
            float y[256];
            weft_array *back = weft_dequantize(q[0], q[1], q[2], WEFT_FLOAT32, &o);
            CHECK_OK(weft_read(back, WEFT_FLOAT32, y, 256));
            for (int k = 128; k < 256; k++) { /* another group */
                if (!(fabsf(y[k] - w[k]) < 0.5f)) {
                    CHECK_FAIL("%s: element %d is %g", mode, k, (double)y[k]);
                    break;
                }
            }
            if (o.mode != WEFT_AFFINE && isinf(odd[v])) {
                CHECK(o.mode == WEFT_NVFP4 ? fabsf(y[3]) == 448 * 6 : isinf(y[3]));
            }
            weft_scope_close(NULL);
        }
    }
}

/* ---- Encodings ------------------------------------------------------------------------------ */

static weft_array *normal(weft_dims shape, weft_dtype dtype, uint64_t state)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(state >> 40) / 16777216.0f - 0.5f;
        }
        x[i] = sum;
    }
    weft_array *a = weft_astype(weft_from_data(x, WEFT_FLOAT32, shape), dtype);
    free(x);
    return ready(a);
}

static void encodings_equal_separate_tensors(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int d = 0; d < 3; d++) {
        weft_quantize_options o;
        char mode[32];
        for (int i = 0; option_at(i, &o, mode); i++) {
            weft_scope_open();
            weft_array *w = normal(WEFT_DIMS(5, 256), dtypes[d], 7), *q[3], *parts[3];
            const weft_encoding *e = weft_quantize_encoding(&o, dtypes[d]);
            weft_array *encoded = ready(weft_encode(w, e));
            quantize_ready(w, &o, q);
            weft_split_encoded(encoded, parts);
            for (int t = 0; t < 3 && q[t]; t++) {
                same_bits(parts[t], q[t], e->name);
            }
            CHECK(!parts[2] == !q[2]);
            weft_array *joined = ready(weft_join_encoded(q[0], q[1], q[2], dtypes[d], &o));
            CHECK(weft_encoding_of(joined) == e);
            CHECK_EQ_INT(weft_nbytes(joined), 5 * 256 / e->block * e->block_bytes);
            weft_array *scales =
                weft_dtype_of(q[1]) == WEFT_UINT8 ? q[1] : weft_astype(q[1], WEFT_FLOAT32);
            weft_array *biases = q[2] ? weft_astype(q[2], WEFT_FLOAT32) : NULL;
            weft_array *dense = ready(weft_dequantize(q[0], scales, biases, WEFT_FLOAT32, &o));
            same_bits(weft_astype(encoded, WEFT_FLOAT32), dense, e->name);
            same_bits(weft_astype(joined, WEFT_FLOAT32), dense, e->name);
            same_bits(weft_decode(joined), weft_astype(dense, dtypes[d]), e->name);
            weft_scope_close(NULL);
        }
    }
}

/* Reads both in float64: the RMS of the difference relative to the RMS of b. */
static double rms_error(weft_array *a, weft_array *b)
{
    int64_t n = weft_size(b);
    double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    double error = 0, sum = 0;
    CHECK_OK(weft_read(a, WEFT_FLOAT64, x, n));
    CHECK_OK(weft_read(b, WEFT_FLOAT64, y, n));
    for (int64_t i = 0; i < n; i++) {
        error += (x[i] - y[i]) * (x[i] - y[i]);
        sum += y[i] * y[i];
    }
    free(x);
    free(y);
    return sqrt(error / sum);
}

/* Products of x with the encoded matrix and with the separate tensors against float64; both forms,
 * with and without a bias, few rows and many. */
static void check_products(const weft_quantize_options *o, weft_dtype dtype, int64_t M, int64_t N,
                           int64_t K, const char *mode)
{
    const double limit = dtype == WEFT_FLOAT32 ? 2e-6 : dtype == WEFT_FLOAT16 ? 5e-4 : 3e-3;
    weft_scope_open();
    weft_array *w = normal(WEFT_DIMS(N, K), dtype, 3), *x = normal(WEFT_DIMS(M, K), dtype, 5);
    weft_array *bias = normal(WEFT_DIMS(N), dtype, 6), *ct = normal(WEFT_DIMS(M, N), dtype, 8);
    weft_array *q[3];
    quantize_ready(w, o, q);
    weft_array *encoded = ready(weft_join_encoded(q[0], q[1], q[2], dtype, o));
    weft_array *exact = ready(weft_astype(weft_astype(encoded, WEFT_FLOAT32), WEFT_FLOAT64));
    weft_array *wide_x = weft_astype(x, WEFT_FLOAT64), *wide_ct = weft_astype(ct, WEFT_FLOAT64);
    weft_array *y = ready(weft_matmul(wide_x, weft_swapaxes(exact, 0, 1)));
    weft_array *with_bias = weft_add(y, weft_astype(bias, WEFT_FLOAT64));
    weft_array *dx = weft_matmul(wide_ct, exact);
    double errors[] = {
        rms_error(weft_linear(x, encoded, NULL), y),
        rms_error(weft_linear(x, encoded, bias), with_bias),
        rms_error(weft_quantized_matmul(x, q[0], q[1], q[2], true, o), y),
        rms_error(weft_quantized_matmul(ct, q[0], q[1], q[2], false, o), dx),
    };
    for (int i = 0; i < 4; i++) {
        if (!(errors[i] <= limit)) {
            CHECK_FAIL("%s %s (%d, %d, %d), product %d: %g", mode, weft_dtype_name(dtype), (int)M,
                       (int)N, (int)K, i, errors[i]);
        }
    }
    CHECK(true);
    weft_scope_close(NULL);
}

static void products_of_every_mode(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
    static const int64_t rows[] = {1, 2, 5, 8, 19};
    weft_quantize_options o;
    char mode[32];
    for (int i = 0; option_at(i, &o, mode); i++) {
        for (int d = 0; d < 3; d++) {
            check_products(&o, dtypes[d], rows[(i + d) % 5], 37, 256, mode);
        }
    }
    option_at(7, &o, mode);
    for (int r = 0; r < 5; r++) {
        check_products(&o, WEFT_BFLOAT16, rows[r], 70, 640, mode);
    }
}

static void products_of_mlx(void)
{
    static const struct {
        const char *name;
        weft_quantize_options o;
    } cases[] = {{"affine4", {0}},
                 {"affine3", {.group_size = 32, .bits = 3}},
                 {"mxfp8", {.mode = WEFT_MXFP8}},
                 {"nvfp4", {.mode = WEFT_NVFP4}}};
    if (!golden_open("ops/quantize")) {
        return;
    }
    weft_array *x = golden_get("product/in0");
    for (int i = 0; i < 4; i++) {
        char name[64];
        weft_array *q[3];
        const char *parts[] = {"codes", "scales", "biases"};
        for (int t = 0; t < 3; t++) {
            snprintf(name, sizeof name, "product/%s/%s", cases[i].name, parts[t]);
            q[t] = golden_has(name) ? golden_get(name) : NULL;
        }
        /* float32 sums of 256 terms up to 60, which cancel. */
        snprintf(name, sizeof name, "product/%s/out0", cases[i].name);
        golden_check(weft_quantized_matmul(x, q[0], q[1], q[2], true, &cases[i].o), name, 2e-5);
        snprintf(name, sizeof name, "product/%s/in1", cases[i].name);
        weft_array *y = golden_get(name);
        snprintf(name, sizeof name, "product/%s/out1", cases[i].name);
        golden_check(weft_quantized_matmul(y, q[0], q[1], q[2], false, &cases[i].o), name, 2e-5);
    }
    golden_close();
}

static void experts_and_both_operands_quantized(void)
{
    if (!golden_open("ops/quantize")) {
        return;
    }
    weft_quantize_options o = {.group_size = 32};
    weft_array *x = golden_get("experts/in0");
    weft_array *y = weft_gather_qmm(x, golden_get("experts/codes"), golden_get("experts/scales"),
                                    golden_get("experts/biases"), golden_get("experts/lhs"),
                                    golden_get("experts/rhs"), true, &o);
    golden_check(y, "experts/out0", 2e-5); /* float32 sums of 64 terms */
    weft_array *a = golden_get("both/in0"), *b = golden_get("both/in1"), *q[3];
    for (int i = 0; i < 2; i++) {
        o = (weft_quantize_options){.mode = i ? WEFT_MXFP8 : WEFT_NVFP4};
        const char *name = i ? "both/mxfp8" : "both/nvfp4";
        quantize_ready(b, &o, q);
        golden_check(weft_qqmm(a, b, NULL, NULL, NULL, &o), name, 2e-6);
        golden_check(weft_qqmm(a, q[0], q[1], NULL, NULL, &o), name, 2e-6);
        weft_array *one = weft_gather_qqmm(a, q[0], q[1], NULL, NULL, NULL, NULL, &o);
        golden_check(one, name, 2e-6);
    }
    golden_close();
}

static void batches_broadcast(void)
{
    weft_array *w = normal(WEFT_DIMS(2, 7, 64), WEFT_FLOAT32, 1), *q[3];
    weft_array *x = normal(WEFT_DIMS(3, 1, 4, 64), WEFT_FLOAT32, 2);
    quantize_ready(w, NULL, q);
    weft_array *dense = ready(weft_dequantize(q[0], q[1], q[2], WEFT_FLOAT32, NULL));
    weft_array *y = weft_quantized_matmul(x, q[0], q[1], q[2], true, NULL);
    CHECK_EQ_INT(weft_dim(y, 0), 3);
    CHECK_EQ_INT(weft_dim(y, 1), 2);
    CHECK(rms_error(y, weft_matmul(x, weft_swapaxes(dense, -1, -2))) < 1e-6);
    weft_array *row = normal(WEFT_DIMS(64), WEFT_FLOAT32, 4);
    weft_array *z = weft_quantized_matmul(row, q[0], q[1], q[2], true, NULL);
    CHECK(rms_error(
              z, weft_squeeze(weft_matmul(weft_expand_dims(row, 0), weft_swapaxes(dense, -1, -2)),
                              -2)) < 1e-6);
}

static void rows_of_an_encoded_table(void)
{
    weft_quantize_options o;
    char mode[32];
    for (int i = 0; option_at(i, &o, mode); i++) {
        weft_scope_open();
        weft_array *w = normal(WEFT_DIMS(9, 256), WEFT_BFLOAT16, 3);
        weft_array *e = ready(weft_encode(w, weft_quantize_encoding(&o, WEFT_BFLOAT16)));
        int32_t at[] = {8, 0, -2, 3, 3, 1};
        weft_array *ids = weft_from_data(at, WEFT_INT32, WEFT_DIMS(2, 3));
        same_bits(weft_embedding(e, ids), weft_take(weft_decode(e), ids, 0), mode);
        weft_scope_close(NULL);
    }
}

/* ---- Gradients ------------------------------------------------------------------------------ */

typedef struct gradient_case {
    weft_array *codes, *weight;
    weft_quantize_options options;
    bool transposed;
} gradient_case;

static int product_of(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const gradient_case *c = context;
    (void)n_in;
    (void)room;
    out[0] = weft_quantized_matmul(in[0], c->codes, in[1], in[2], c->transposed, &c->options);
    return 1;
}

static int encoded_product(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    const gradient_case *c = context;
    (void)n_in;
    (void)room;
    out[0] = weft_linear(in[0], c->weight, NULL);
    return 1;
}

static void gradients(void)
{
    weft_array *q[3];
    gradient_case c = {.options = {.group_size = 32, .bits = 3}};
    quantize_ready(normal(WEFT_DIMS(4, 64), WEFT_FLOAT32, 1), &c.options, q);
    c.codes = q[0];
    weft_array *in[] = {normal(WEFT_DIMS(2, 64), WEFT_FLOAT64, 2),
                        ready(weft_astype(q[1], WEFT_FLOAT64)),
                        ready(weft_astype(q[2], WEFT_FLOAT64))};
    c.transposed = true;
    CHECK_OK(weft_gradcheck(product_of, &c, in, 3, NULL));
    in[0] = normal(WEFT_DIMS(3, 2, 4), WEFT_FLOAT64, 2);
    c.transposed = false;
    CHECK_OK(weft_gradcheck(product_of, &c, in, 3, NULL));

    c.options = (weft_quantize_options){0};
    weft_array *w = normal(WEFT_DIMS(6, 128), WEFT_FLOAT32, 3);
    c.weight = ready(weft_encode(w, weft_encoding_find("affine-4-64-float32")));
    weft_array *x = normal(WEFT_DIMS(3, 128), WEFT_FLOAT32, 4), *dx;
    weft_array *ct = normal(WEFT_DIMS(3, 6), WEFT_FLOAT32, 5);
    CHECK_OK(weft_vjp(encoded_product, &c, &x, 1, &ct, NULL, 1, &dx));
    CHECK(rms_error(dx, weft_matmul(ct, weft_decode(c.weight))) < 1e-6);
}

static int quantize_one(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    weft_quantize(in[0], context, out);
    return 3;
}

/* Of a batch of matrices: the same bits as of all of them together. */
static void batches_are_quantized_one_by_one(void)
{
    weft_quantize_options o = {.bits = 6};
    weft_array *w = normal(WEFT_DIMS(3, 2, 128), WEFT_BFLOAT16, 1), *q[3], *batch[3];
    const int axis = 0;
    quantize_ready(w, &o, q);
    CHECK_OK(weft_vmap(quantize_one, &o, &w, &axis, 1, batch, NULL, 3));
    for (int i = 0; i < 3; i++) {
        same_bits(batch[i], q[i], "a batch");
    }
}

static int of_weight(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    out[0] = weft_linear(context, in[0], NULL);
    return 1;
}

static void bad_arguments_are_refused(void)
{
    weft_array *w = normal(WEFT_DIMS(4, 96), WEFT_FLOAT32, 1), *q[3], *g;
    weft_quantize(w, NULL, q);
    CHECK_CONTAINS(weft_error(q[0]), "the last dim, 96, is no multiple of the group, 64");
    CHECK(q[2] != NULL && !weft_ok(q[2]));
    weft_quantize(w, &(weft_quantize_options){.bits = 7}, q);
    CHECK_CONTAINS(weft_error(q[0]), "affine has no 7 bits with groups of 64");
    weft_quantize(weft_astype(w, WEFT_FLOAT64), &(weft_quantize_options){.group_size = 32}, q);
    CHECK_CONTAINS(weft_error(q[0]), "expected float32, float16 or bfloat16, got float64");
    weft_quantize(w, &(weft_quantize_options){.group_size = 32}, q);
    g = weft_dequantize(q[0], q[1], NULL, WEFT_FLOAT32, &(weft_quantize_options){.group_size = 32});
    CHECK_CONTAINS(weft_error(g), "dequantize: the affine mode needs biases");
    g = weft_dequantize(q[0], q[1], q[2], WEFT_FLOAT32, NULL);
    CHECK_CONTAINS(weft_error(g), "the codes have shape (4, 12), expected (4, 24)");
    g = weft_quantized_matmul(weft_ones(WEFT_DIMS(2, 64), WEFT_FLOAT32), q[0], q[1], q[2], true,
                              &(weft_quantize_options){.group_size = 32});
    CHECK_CONTAINS(weft_error(g), "inner dimensions differ");
    weft_array *e = weft_encode(w, weft_encoding_find("affine-4-64-float32"));
    CHECK_CONTAINS(weft_error(e), "the last dim, 96, is no multiple of 64");
    e = weft_encode(w, weft_encoding_find("affine-4-32-float32"));
    CHECK_CONTAINS(weft_error(weft_exp(e)), "input 0 is encoded as affine-4-32-float32: decode it");
    CHECK_CONTAINS(weft_error(weft_add(e, w)), "decode it first");
    CHECK_CONTAINS(weft_error(weft_reshape(e, WEFT_DIMS(96, 4))), "decode it first");
    weft_array *x = weft_ones(WEFT_DIMS(2, 96), WEFT_FLOAT32);
    weft_array *ct = weft_ones(WEFT_DIMS(2, 4), WEFT_FLOAT32);
    CHECK(weft_vjp(of_weight, x, &e, 1, &ct, NULL, 1, &g) != WEFT_OK || !weft_ok(g));
    CHECK(weft_data(e) == NULL);
    CHECK_CONTAINS(weft_error_message(), "encoded as affine-4-32-float32");
    CHECK_CONTAINS(
        weft_error(weft_qqmm(x, w, NULL, NULL, NULL, &(weft_quantize_options){.bits = 4})),
        "unsupported for the affine mode");
}

/* Matrices without elements. */
static void empty_matrices(void)
{
    weft_array *q[3], *w = ready(weft_zeros(WEFT_DIMS(0, 64), WEFT_FLOAT32));
    quantize_ready(w, NULL, q);
    weft_array *x = ready(weft_zeros(WEFT_DIMS(3, 64), WEFT_FLOAT32));
    weft_array *y = weft_quantized_matmul(x, q[0], q[1], q[2], true, NULL);
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_size(y), 0);
    weft_array *e = ready(weft_encode(w, weft_encoding_find("affine-4-64-float32")));
    y = weft_linear(x, e, NULL);
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_nbytes(e), 0);
    w = weft_ones(WEFT_DIMS(5, 64), WEFT_FLOAT32);
    e = ready(weft_encode(w, weft_encoding_find("affine-4-64-float32")));
    y = weft_linear(weft_zeros(WEFT_DIMS(0, 64), WEFT_FLOAT32), e, NULL);
    CHECK_OK(weft_eval(y));
    CHECK_EQ_INT(weft_dim(y, -1), 5);
    CHECK_EQ_INT(words_of(e), 5 * 10);
}

CHECK_MAIN("quantize", CHECK_CASE(every_mode_equals_mlx), CHECK_CASE(the_ramp_and_a_global_scale),
           CHECK_CASE(literal_words), CHECK_CASE(float8), CHECK_CASE(extremes),
           CHECK_CASE(encodings_equal_separate_tensors), CHECK_CASE(products_of_every_mode),
           CHECK_CASE(products_of_mlx), CHECK_CASE(experts_and_both_operands_quantized),
           CHECK_CASE(batches_broadcast), CHECK_CASE(rows_of_an_encoded_table),
           CHECK_CASE(gradients), CHECK_CASE(batches_are_quantized_one_by_one),
           CHECK_CASE(bad_arguments_are_refused), CHECK_CASE(empty_matrices))
