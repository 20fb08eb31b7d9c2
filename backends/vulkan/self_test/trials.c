/* backends/vulkan/self_test/trials.c -- the trials of a device: sums, softmax, products of each
 * dtype, attention, gathers, and a block of quantized weights. The expected values are computed
 * here, in double. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/self_test/trial.h"
#include "weft/op_params.h"
#include "weft/quantize.h"

static weft_status run_op(weft__trials *t, const char *name, const void *params,
                          const weft_tensor *in, int n_in, const weft_tensor *out, int n_out)
{
    weft_call call = {.op = weft_op_find(name),
                      .params = params,
                      .n_inputs = n_in,
                      .n_outputs = n_out,
                      .in = in,
                      .out = out};
    return weft__trial_run(t, &call, NULL);
}

/* ---- reductions ----------------------------------------------------------------------------- */

/* Rows whose sums cancel, which are correct only with compensated summation. */
static weft_status try_sum(weft__trials *t)
{
    enum { ROWS = 3, COLUMNS = 200 };
    static const weft_reduce_params params = {.axes = {1, {-1}}};
    float x[ROWS * COLUMNS], y[ROWS];
    double expected[ROWS] = {0};
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double large = i % 4 == 1 ? 3e7 : i % 4 == 3 ? -3e7 : 0;
        x[i] = (float)(weft__trial_sample((uint32_t)i) + large);
        expected[i / COLUMNS] += (double)x[i];
    }
    const weft_tensor in = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(ROWS, COLUMNS), x);
    const weft_tensor out = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(ROWS), y);
    weft_status status = run_op(t, "sum", &params, &in, 1, &out, 1);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "sum", &out, expected, 1e-6, 0, NULL, NULL);
    }
    return status;
}

/* Rows with -inf, as masks produce; a row of only -inf gives NaN. */
static weft_status try_softmax(weft__trials *t)
{
    enum { ROWS = 3, COLUMNS = 70 };
    static const weft_axis_params params = {.axis = -1};
    float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    double expected[ROWS * COLUMNS];
    for (int r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; i++) {
            x[i] = r == 2 || i % 5 == 2 ? -INFINITY : (float)(20 * weft__trial_sample((uint32_t)i));
            expected[i] = exp((double)x[i]);
            sum += expected[i];
        }
        for (int i = r * COLUMNS; i < (r + 1) * COLUMNS; i++) {
            expected[i] = r == 2 ? (double)NAN : expected[i] / sum;
        }
    }
    const weft_dims shape = WEFT_DIMS(ROWS, COLUMNS);
    const weft_tensor in = weft__trial_tensor(WEFT_FLOAT32, shape, x);
    const weft_tensor out = weft__trial_tensor(WEFT_FLOAT32, shape, y);
    weft_status status = run_op(t, "softmax", &params, &in, 1, &out, 1);
    if (status == WEFT_OK) { /* GLSL allows an exponential to be off by 3 + 2 |x| ulp */
        weft__trial_compare(t, "softmax", &out, expected, 2e-5, 1e-30, NULL, NULL);
    }
    return status;
}

/* ---- products ------------------------------------------------------------------------------- */

enum { MAX_SIDE = 40 };

/* Small integers: the results are exact in every dtype, for any order and width of sums. */
static weft_status try_product(weft__trials *t, weft_dtype dtype, int m, int k, int n)
{
    double a[MAX_SIDE * MAX_SIDE], b[MAX_SIDE * MAX_SIDE], y[MAX_SIDE * MAX_SIDE];
    double expected[MAX_SIDE * MAX_SIDE] = {0};
    const weft_tensor in[2] = {weft__trial_tensor(dtype, WEFT_DIMS(m, k), a),
                               weft__trial_tensor(dtype, WEFT_DIMS(k, n), b)};
    const weft_tensor out = weft__trial_tensor(dtype, WEFT_DIMS(m, n), y);
    for (int i = 0; i < m * k; i++) {
        weft_tensor_set(&in[0], i, rint(3 * weft__trial_sample((uint32_t)i)));
    }
    for (int i = 0; i < k * n; i++) {
        weft_tensor_set(&in[1], i, rint(2 * weft__trial_sample((uint32_t)i + 5000)));
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            for (int l = 0; l < k; l++) {
                expected[i * n + j] +=
                    weft_tensor_get(&in[0], i * k + l) * weft_tensor_get(&in[1], l * n + j);
            }
        }
    }
    weft_status status = run_op(t, "matmul", NULL, in, 2, &out, 1);
    if (status == WEFT_OK) {
        char what[64];
        snprintf(what, sizeof what, "matmul of %s (%d, %d) x (%d, %d)", weft_dtype_name(dtype), m,
                 k, k, n);
        weft__trial_compare(t, what, &out, expected, 0, 0, NULL, NULL);
    }
    return status;
}

/* Few rows use the kernels that stream weights. Software drivers compile slowly, so for them one
 * trial of each kind suffices. */
static weft_status try_products(weft__trials *t)
{
    static const struct {
        weft_dtype dtype;
        int m;
    } products[] = {{WEFT_FLOAT32, 33}, {WEFT_FLOAT16, 1}, {WEFT_BFLOAT16, 33}, {WEFT_BFLOAT16, 1}};
    const bool software = t->state->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    weft_status status = WEFT_OK;
    for (int i = 0; i < (software ? 2 : 4) && status == WEFT_OK && !t->wrong[0]; i++) {
        status = try_product(t, products[i].dtype, products[i].m, 33, 20);
    }
    return status;
}

static weft_status try_product64(weft__trials *t)
{
    return try_product(t, WEFT_FLOAT64, 33, 33, 20);
}

/* ---- attention ------------------------------------------------------------------------------ */

enum { L = 5, S = 9, HEADS = 2, D = 16 };

/* The reference: o (L, HEADS, D) and lse (L, HEADS) for two query heads and one key head, causal.
 */
static void attend(const float *q, const float *k, const float *v, double scale, double *o,
                   double *lse)
{
    for (int row = 0; row < L * HEADS; row++) {
        const int seen = row / HEADS + S - L + 1;
        double weight[S], sum = 0;
        for (int j = 0; j < seen; j++) {
            double score = 0;
            for (int d = 0; d < D; d++) {
                score += (double)q[row * D + d] * (double)k[j * D + d];
            }
            weight[j] = exp(score * scale);
            sum += weight[j];
        }
        for (int d = 0; d < D; d++) {
            o[row * D + d] = 0;
            for (int j = 0; j < seen; j++) {
                o[row * D + d] += weight[j] / sum * (double)v[j * D + d];
            }
        }
        lse[row] = log(sum);
    }
}

static weft_status try_attention(weft__trials *t)
{
    static const weft_attention_params params = {.scale = 0.25, .causal = true};
    float q[L * HEADS * D], k[S * D], v[S * D], o[L * HEADS * D], lse[L * HEADS];
    double expected[L * HEADS * D], expected_lse[L * HEADS];
    for (int i = 0; i < L * HEADS * D; i++) {
        q[i] = (float)(3 * weft__trial_sample((uint32_t)i));
    }
    for (int i = 0; i < S * D; i++) { /* values of one sign, so that sums do not cancel */
        k[i] = (float)(3 * weft__trial_sample((uint32_t)i + 1000));
        v[i] = (float)(2 + weft__trial_sample((uint32_t)i + 2000));
    }
    attend(q, k, v, params.scale, expected, expected_lse);
    const weft_tensor in[3] = {weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, L, HEADS, D), q),
                               weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, S, 1, D), k),
                               weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, S, 1, D), v)};
    const weft_tensor out[2] = {weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, L, HEADS, D), o),
                                weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, L, HEADS), lse)};
    weft_status status = run_op(t, "attention", &params, in, 3, out, 2);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "attention", &out[0], expected, 1e-5, 0, NULL, NULL);
        weft__trial_compare(t, "attention's logsumexp", &out[1], expected_lse, 1e-5, 1e-3, NULL,
                            NULL);
    }
    return status;
}

/* ---- gathers and blocks --------------------------------------------------------------------- */

static weft_status try_gather(weft__trials *t)
{
    enum { ROWS = 6, COLUMNS = 5, CHOSEN = 4 };
    static const weft_axis_params params = {.axis = -2};
    int32_t indices[CHOSEN] = {5, 0, -2, 3};
    float x[ROWS * COLUMNS], y[CHOSEN * COLUMNS];
    double expected[CHOSEN * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        x[i] = (float)weft__trial_sample((uint32_t)i);
    }
    for (int i = 0; i < CHOSEN * COLUMNS; i++) {
        int row = indices[i / COLUMNS];
        expected[i] = (double)x[(row < 0 ? row + ROWS : row) * COLUMNS + i % COLUMNS];
    }
    const weft_tensor in[2] = {weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(ROWS, COLUMNS), x),
                               weft__trial_tensor(WEFT_INT32, WEFT_DIMS(CHOSEN), indices)};
    const weft_tensor out = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(CHOSEN, COLUMNS), y);
    weft_status status = run_op(t, "take", &params, in, 2, &out, 1);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "take", &out, expected, 0, 0, NULL, NULL);
    }
    return status;
}

/* Two blocks of Q4_K: 6-bit scales in 12 bytes, 4-bit codes. */
static weft_status try_blocks(weft__trials *t)
{
    enum { COUNT = 512 };
    const weft_encoding *e = weft_encoding_find("q4_k");
    unsigned char blocks[2 * 144];
    float y[COUNT], decoded[COUNT];
    double expected[COUNT];
    if (!e || weft_encoding_bytes(e, COUNT) != sizeof blocks) {
        return weft_fail(WEFT_INVALID, "vulkan: self-test: Q4_K is not as expected");
    }
    for (size_t i = 0; i < sizeof blocks; i++) {
        blocks[i] = (unsigned char)(128 + 127 * weft__trial_sample((uint32_t)i));
    }
    for (size_t block = 0; block < 2; block++) { /* scale and minimum: float16 */
        const uint16_t head[2] = {weft_float_to_float16(0.013F), weft_float_to_float16(0.21F)};
        memcpy(blocks + 144 * block, head, sizeof head);
    }
    e->decode(e, blocks, COUNT, decoded);
    for (int i = 0; i < COUNT; i++) {
        expected[i] = (double)decoded[i];
    }
    weft_tensor in = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(2, 256), blocks);
    const weft_tensor out = weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(2, 256), y);
    const weft_cast_params params = {WEFT_FLOAT32};
    in.encoding = e;
    weft_status status = run_op(t, "cast", &params, &in, 1, &out, 1);
    if (status == WEFT_OK) {
        weft__trial_compare(t, "decoding of a Q4_K block", &out, expected, 1e-6, 1e-6, NULL, NULL);
    }
    return status;
}

/* Required trials first; the others store and compute with bytes and wide numbers. */
const weft__trial weft__trials_all[] = {
    {"formulas", WEFT__TRIAL_NEEDED, weft__trial_real},
    {"integers", WEFT__TRIAL_NEEDED, weft__trial_int32},
    {"casts", WEFT__TRIAL_NEEDED, weft__trial_casts},
    {"sum", WEFT__TRIAL_NEEDED, try_sum},
    {"softmax", WEFT__TRIAL_NEEDED, try_softmax},
    {"products", WEFT__TRIAL_NEEDED, try_products},
    {"attention", WEFT__TRIAL_NEEDED, try_attention},
    {"gather", WEFT__TRIAL_NEEDED, try_gather},
    {"blocks", WEFT__TRIAL_NEEDED, try_blocks},
    {"float64 formulas", WEFT__VULKAN_FLOAT64, weft__trial_float64},
    {"float64 product", WEFT__VULKAN_FLOAT64, try_product64},
    {"int64", WEFT__VULKAN_INT64, weft__trial_int64},
    {"bytes", WEFT__VULKAN_STORAGE8, weft__trial_bytes},
    {"subnormals", WEFT__VULKAN_SUBNORMALS, weft__trial_subnormals},
    {"matrix products", WEFT__VULKAN_MATRIX, weft__trial_core_products},
    {"bfloat16 matrix products", WEFT__VULKAN_MATRIX_BFLOAT16, weft__trial_core_bfloat16},
    {"matrix attention", WEFT__VULKAN_MATRIX, weft__trial_core_attention},
};
const int weft__trials_count = sizeof weft__trials_all / sizeof *weft__trials_all;
