/* tests/bench/vulkan_products.c -- measures matrix products, products with few rows (reading
 * weights), products of one token, products of experts, and copies on a device: vulkan_products
 * [DEVICE [FIRST]]. FIRST limits it to lines that begin so. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "weft/array.h"
#include "weft/backend.h"
#include "weft/gguf.h"
#include "weft/op_params.h"
#include "weft/ops.h"
#include "weft/quantize.h"

enum { RUNS = 7, MOST = 64, CACHE = 200 << 20 }; /* bytes of weights: more than any cache holds */

static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};
static weft_device *device;
static const char *wanted = "";

static void must(weft_status status)
{
    if (status != WEFT_OK) {
        fprintf(stderr, "vulkan_products: %s\n", weft_error_message());
        exit(1);
    }
}

/* Numbers that differ, made on the device. */
static weft_array *make(weft_dims shape, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.at[i];
    weft_array *x = weft_arange(0, (double)n, 1, WEFT_FLOAT32);
    x = weft_subtract(weft_scale(weft_remainder(x, weft_scalar(251, WEFT_FLOAT32)), 1.0 / 125),
                      weft_scalar(1, WEFT_FLOAT32));
    x = weft_keep(weft_reshape(weft_astype(x, dtype), shape));
    must(weft_eval(x));
    return x;
}

typedef weft_array *make_fn(weft_array *x, weft_array *w);

typedef struct work {
    weft_array *x, *w[MOST];
    int n_w, count; /* products at a time, over the weights in turn */
    make_fn *make;
} work;

static double run_once(const work *k)
{
    weft_array *ys[4 * MOST];
    weft_scope_open();
    for (int i = 0; i < k->count; i++)
        ys[i] = k->make(k->x, k->w[i % k->n_w]);
    must(weft_synchronize(device));
    double start = seconds();
    must(weft_eval_n(ys, k->count));
    must(weft_synchronize(device));
    double end = seconds();
    weft_scope_close(NULL);
    return (end - start) / k->count;
}

/* The median time of one product. */
static double measure(const work *k)
{
    double times[RUNS];
    run_once(k);
    for (int i = 0; i < RUNS; i++)
        times[i] = run_once(k);
    qsort(times, RUNS, sizeof *times, by_size);
    return times[RUNS / 2];
}

static void release(work *k)
{
    weft_drop(k->x);
    for (int i = 0; i < k->n_w; i++)
        weft_drop(k->w[i]);
}

static bool skipped(const char *name)
{
    return strncmp(name, wanted, strlen(wanted)) != 0;
}

/* ---- Matrices ------------------------------------------------------------------------------- */

static weft_array *nn(weft_array *x, weft_array *w)
{
    return weft_matmul(x, w);
}

static weft_array *nt(weft_array *x, weft_array *w)
{
    return weft_matmul(x, weft_swapaxes(w, 0, 1));
}

static weft_array *tn(weft_array *x, weft_array *w)
{
    return weft_matmul(weft_swapaxes(x, 0, 1), w);
}

static void time_matrices(const char *name, make_fn *make_one, weft_dims x, weft_dims w,
                          double flops, weft_dtype dtype)
{
    char line[80];
    snprintf(line, sizeof line, "matmul %s %lldx%lld %lldx%lld %s", name, (long long)x.at[0],
             (long long)x.at[1], (long long)w.at[0], (long long)w.at[1], weft_dtype_name(dtype));
    if (skipped(line))
        return;
    int count = (int)(1e12 / flops);
    work k = {.x = make(x, dtype), .n_w = 2, .make = make_one};
    k.count = count < 4 ? 4 : count < MOST ? count : MOST;
    k.w[0] = make(w, dtype);
    k.w[1] = make(w, dtype);
    double time = measure(&k);
    printf("%-48s %10.1f us %9.2f TFLOP/s\n", line, time * 1e6, flops / time * 1e-12);
    release(&k);
}

static void all_matrices(weft_dtype dtype)
{
    for (int64_t n = 1024; n <= 4096; n *= 2) {
        double flops = 2.0 * (double)n * (double)n * (double)n;
        weft_dims square = WEFT_DIMS(n, n);
        time_matrices("NN", nn, square, square, flops, dtype);
        time_matrices("NT", nt, square, square, flops, dtype);
        time_matrices("TN", tn, square, square, flops, dtype);
    }
    /* An adapter of rank 16 over 2048 tokens: forward, back, and the gradients of both. */
    double flops = 2.0 * 2048 * 4096 * 16;
    time_matrices("NT", nt, WEFT_DIMS(2048, 4096), WEFT_DIMS(16, 4096), flops, dtype);
    time_matrices("NT", nt, WEFT_DIMS(2048, 16), WEFT_DIMS(4096, 16), flops, dtype);
    time_matrices("TN", tn, WEFT_DIMS(2048, 16), WEFT_DIMS(2048, 4096), flops, dtype);
    time_matrices("TN", tn, WEFT_DIMS(2048, 4096), WEFT_DIMS(2048, 16), flops, dtype);
}

/* ---- Experts -------------------------------------------------------------------------------- */

enum { TOKENS = 4096, CHOSEN = 4, EXPERTS = 32 };

static weft_array *token_of, *expert_of; /* for each of the TOKENS * CHOSEN items */

static weft_array *experts_nt(weft_array *x, weft_array *w)
{
    return weft_gather_linear(x, w, token_of, expert_of);
}

static weft_array *experts_nn(weft_array *x, weft_array *w)
{
    return weft_gather_mm(weft_expand_dims(x, 1), w, token_of, expert_of, false);
}

/* The gradient of w (EXPERTS, K, N), with w as the cotangents (items, N). */
static weft_array *experts_tn(weft_array *x, weft_array *w)
{
    const weft_gather_mm_params params = {.count = EXPERTS};
    weft_array *in[] = {weft_expand_dims(x, 1), weft_expand_dims(w, 1), token_of, expert_of};
    return weft_apply(weft_op_find("gather_mm_sums"), in, 4, &params);
}

static void time_experts(const char *name, make_fn *make_one, int64_t K, int64_t N,
                         weft_dtype dtype)
{
    char line[80];
    snprintf(line, sizeof line, "experts %s %lldx%lld %s", name, (long long)K, (long long)N,
             weft_dtype_name(dtype));
    if (skipped(line))
        return;
    const double flops = 2.0 * TOKENS * CHOSEN * (double)K * (double)N;
    work k = {.x = make(WEFT_DIMS(TOKENS, K), dtype), .n_w = 1, .count = 4, .make = make_one};
    k.w[0] = make(make_one == experts_tn   ? WEFT_DIMS(TOKENS * CHOSEN, N)
                  : make_one == experts_nt ? WEFT_DIMS(EXPERTS, N, K)
                                           : WEFT_DIMS(EXPERTS, K, N),
                  dtype);
    const double time = measure(&k);
    printf("%-48s %10.1f us %9.2f TFLOP/s\n", line, time * 1e6, flops / time * 1e-12);
    fflush(stdout);
    release(&k);
}

/* The shapes of gpt-oss 20B, and adapters of rank 16. */
static void all_experts(weft_dtype dtype)
{
    weft_array *item = weft_arange(0, TOKENS * CHOSEN, 1, WEFT_INT32);
    token_of = weft_keep(weft_floor_divide(item, weft_scalar(CHOSEN, WEFT_INT32)));
    expert_of = weft_keep(weft_remainder(weft_multiply(item, weft_scalar(7919, WEFT_INT32)),
                                         weft_scalar(EXPERTS, WEFT_INT32)));
    must(weft_eval(token_of));
    must(weft_eval(expert_of));
    time_experts("NT", experts_nt, 2880, 5760, dtype);
    time_experts("NN", experts_nn, 2880, 2880, dtype);
    time_experts("TN", experts_tn, 2880, 2880, dtype);
    time_experts("NT", experts_nt, 2880, 16, dtype);
    time_experts("NT", experts_nt, 16, 5760, dtype);
    time_experts("TN", experts_tn, 2880, 16, dtype);
    time_experts("TN", experts_tn, 16, 2880, dtype);
    weft_drop(token_of);
    weft_drop(expert_of);
}

/* ---- Few rows ------------------------------------------------------------------------------- */

static void time_rows(const char *name, make_fn *make_one, int64_t rows, int64_t F, int64_t E,
                      weft_dtype dtype)
{
    char line[80];
    snprintf(line, sizeof line, "rows %s %lld by %lldx%lld %s", name, (long long)rows, (long long)F,
             (long long)E, weft_dtype_name(dtype));
    if (skipped(line))
        return;
    int64_t bytes = F * E * (int64_t)weft_dtype_size(dtype), n = CACHE / bytes + 1;
    work k = {.x = make(WEFT_DIMS(rows, make_one == nt ? E : F), dtype),
              .n_w = (int)(n < 2      ? 2
                           : n > MOST ? MOST
                                      : n),
              .count = MOST,
              .make = make_one};
    for (int i = 0; i < k.n_w; i++)
        k.w[i] = make(WEFT_DIMS(F, E), dtype);
    double time = measure(&k);
    printf("%-48s %10.1f us %9.0f GB/s\n", line, time * 1e6, (double)bytes / time * 1e-9);
    release(&k);
}

static void all_rows(weft_dtype dtype)
{
    static const int64_t rows[] = {1, 2, 4, 8};
    for (int i = 0; i < 4; i++) {
        time_rows("NT", nt, rows[i], 4096, 14336, dtype);
        time_rows("NT", nt, rows[i], 14336, 4096, dtype);
        time_rows("NT", nt, rows[i], 1024, 3072, dtype);
        time_rows("NN", nn, rows[i], 4096, 14336, dtype);
    }
}

/* ---- One token ------------------------------------------------------------------------------ */

static weft_array *linear(weft_array *x, weft_array *w)
{
    return weft_linear(x, w, NULL);
}

static weft_array *normed(weft_array *x, weft_array *w)
{
    return weft_linear(weft_rms_norm(x, NULL, 1e-6, 0), w, NULL);
}

/* Each product reads the one before, as the layers of a model do when they decode. */
static double run_chain(const work *k)
{
    weft_scope_open_lean(); /* or norms would be stored for it */
    weft_array *y = k->x;
    for (int i = 0; i < k->count; i++)
        y = k->make(y, k->w[i % k->n_w]);
    must(weft_synchronize(device));
    double start = seconds();
    must(weft_eval(y));
    must(weft_synchronize(device));
    double end = seconds();
    weft_scope_close(NULL);
    return (end - start) / k->count;
}

static double measure_chain(const work *k)
{
    double times[RUNS];
    run_chain(k);
    for (int i = 0; i < RUNS; i++)
        times[i] = run_chain(k);
    qsort(times, RUNS, sizeof *times, by_size);
    return times[RUNS / 2];
}

/* Keeps the device busy until its clock has risen; it falls while the host encodes weights. */
static void warm(const work *k)
{
    const double end = seconds() + 0.3;
    while (seconds() < end)
        run_once(k);
}

/* Products of one row with weights in an encoding (NULL: bfloat16), independent of each other and,
 * where the matrix is square, as a chain without and with norms. */
static void time_token(const char *encoding, int64_t F, int64_t E)
{
    char line[80];
    snprintf(line, sizeof line, "token %lldx%lld %s", (long long)F, (long long)E,
             encoding ? encoding : "bfloat16");
    if (skipped(line))
        return;
    const weft_encoding *blocks = encoding ? weft_gguf_encoding(encoding) : NULL;
    const weft_encoding *e = blocks ? blocks : encoding ? weft_encoding_find(encoding) : NULL;
    work k = {.x = make(WEFT_DIMS(1, E), WEFT_BFLOAT16), .count = 4 * MOST, .make = linear};
    int64_t bytes = 0;
    weft_scope_open();
    for (int64_t all = 0; all < CACHE && k.n_w < MOST; all += bytes) {
        weft_array *w = make(WEFT_DIMS(F, E), blocks ? WEFT_FLOAT32 : WEFT_BFLOAT16);
        if (e) {
            weft_array *dense = w;
            w = weft_keep(weft_to(weft_encode(weft_to(dense, weft_device_get("cpu")), e), device));
            must(weft_eval(w));
            weft_drop(dense);
        }
        bytes = weft_nbytes(w);
        k.w[k.n_w++] = w;
    }
    weft_scope_close(NULL);
    warm(&k);
    double time = measure(&k);
    printf("%-40s %8.1f us %6.0f GB/s", line, time * 1e6, (double)bytes / time * 1e-9);
    if (F == E) {
        time = measure_chain(&k);
        k.make = normed;
        printf("   chain %6.1f us   with norms %6.1f us", time * 1e6, measure_chain(&k) * 1e6);
    }
    printf("\n");
    fflush(stdout);
    release(&k);
}

static void all_tokens(void)
{
    static const char *const encodings[] = {NULL, "Q8_0", "Q4_K", "Q6_K", "affine-4-64-bfloat16"};
    for (int i = 0; i < 5; i++) {
        time_token(encodings[i], 4096, 4096);
        time_token(encodings[i], 14336, 4096);
        time_token(encodings[i], 4096, 14336);
        time_token(encodings[i], 2048, 2048);
        time_token(encodings[i], 8192, 2048);
    }
}

/* ---- Copies --------------------------------------------------------------------------------- */

static weft_array *copied(weft_array *x, weft_array *w)
{
    (void)w;
    return weft_negative(x);
}

static void time_copy(void)
{
    if (skipped("copy 1 GiB"))
        return;
    weft_array *one = make(WEFT_DIMS(1 << 28), WEFT_FLOAT32);
    work k = {.x = one, .w = {weft_keep(one)}, .n_w = 1, .count = 4, .make = copied};
    double time = measure(&k);
    printf("%-48s %10.1f us %9.0f GB/s\n", "copy 1 GiB (negated), read and written", time * 1e6,
           (double)(INT64_C(2) << 30) / time * 1e-9);
    release(&k);
}

int main(int argc, char **argv)
{
    device = weft_device_get(argc > 1 ? argv[1] : "vulkan");
    if (!device) {
        fprintf(stderr, "vulkan_products: no such device\n");
        return 77;
    }
    wanted = argc > 2 ? argv[2] : "";
    weft_set_default_device(device);
    const char *description = weft_device_description(device);
    printf("%s: %s\n", weft_device_name(device), description ? description : "");
    time_copy();
    all_tokens();
    for (int d = 0; d < 3; d++)
        all_rows(dtypes[d]);
    for (int d = 0; d < 3; d++) {
        all_matrices(dtypes[d]);
        all_experts(dtypes[d]);
    }
    return 0;
}
