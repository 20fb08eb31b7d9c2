/* tests/bench/few_rows.c -- measures the share of the machine's ceilings that products with few
 * rows reach, in every encoding of weights: few_rows [NAME [ROUNDS]].
 *
 * x (rows, 4096) times weights (N, 4096)^T: of 1 MB, which stay in a cache near the core, and of
 * 256 MB. The share is that of the time that the tighter ceiling allows: reading the weights, where
 * they lie in memory, or arithmetic. With one thread times are processor time.
 */
#include <stdint.h>

#include "tests/bench/bench.h"
#include "weft/backend.h"
#include "weft/bench.h"
#include "weft/gguf.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { ROUNDS = 7, MOST_ROUNDS = 100, WIDTH = 4096, PATTERN = 64 };

static const char *const kinds[] = {
    "float32", "bfloat16", "float16",
    "Q8_0",    "Q4_0",     "Q4_1",
    "Q5_0",    "Q4_K",     "Q5_K",
    "Q6_K",    "IQ4_NL",   "affine-8-64-bfloat16",
    "mxfp4",   "nvfp4",    "affine-4-64-bfloat16",
    "mxfp8",
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double now(void)
{
    return weft_threads() == 1 ? seconds_by(CLOCK_PROCESS_CPUTIME_ID) : seconds();
}

/* ---- Weights -------------------------------------------------------------------------------- */

typedef struct weights {
    const weft_encoding *encoding; /* NULL: dense */
    weft_dtype dtype;
    size_t row_bytes;
} weights;

static weights weights_of(const char *name)
{
    static const weft_dtype dense[] = {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_FLOAT16};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, kinds[i]) == 0)
            return (weights){NULL, dense[i], WIDTH * weft_dtype_size(dense[i])};
    const weft_encoding *e = weft_gguf_encoding(name);
    e = e ? e : weft_encoding_find(name);
    if (e == NULL) {
        fprintf(stderr, "unknown encoding: %s\n", name);
        exit(1);
    }
    return (weights){e, WEFT_FLOAT32, (size_t)weft_encoding_bytes(e, WIDTH)};
}

/* n rows, of which the first PATTERN repeat. */
static char *made(const weights *w, int64_t n)
{
    char *bytes = malloc((size_t)n * w->row_bytes);
    if (bytes == NULL)
        exit(1);
    weft_scope_open();
    weft_array *x = weft_random_normal(NULL, WEFT_DIMS(PATTERN, WIDTH), 0, 1, WEFT_FLOAT32);
    x = weft_astype(x, w->dtype);
    check(weft_eval(x));
    const char *data = weft_data(x);
    for (int64_t i = 0; i < PATTERN && i < n; i++) {
        if (w->encoding && w->encoding->encode == NULL)
            memset(bytes + (size_t)i * w->row_bytes, 0x2a, w->row_bytes); /* normal scales */
        else if (w->encoding)
            w->encoding->encode(w->encoding, (const float *)(const void *)data + i * WIDTH, WIDTH,
                                bytes + (size_t)i * w->row_bytes);
        else
            memcpy(bytes + (size_t)i * w->row_bytes, data + (size_t)i * w->row_bytes, w->row_bytes);
    }
    for (int64_t i = PATTERN; i < n; i++)
        memcpy(bytes + (size_t)i * w->row_bytes, bytes + (size_t)(i % PATTERN) * w->row_bytes,
               w->row_bytes);
    weft_scope_close(NULL);
    return bytes;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Seconds of a product, the median. */
static double measure(const weights *w, char *bytes, int64_t n, int rows, int rounds, int times)
{
    double took[MOST_ROUNDS];
    weft_scope_open();
    const weft_dims shape = WEFT_DIMS(n, WIDTH);
    weft_array *matrix = w->encoding
                             ? weft_from_blocks(bytes, w->encoding, w->dtype, shape, NULL, NULL)
                             : weft_from_memory(bytes, w->dtype, shape, NULL, NULL);
    weft_array *x = weft_random_normal(NULL, WEFT_DIMS(rows, WIDTH), 0, 1, w->dtype);
    check(weft_eval(x));
    for (int r = -1; r < rounds; r++) { /* the first is not counted */
        const double start = now();
        for (int t = 0; t < times; t++) {
            weft_scope_open();
            check(weft_eval(weft_linear(x, matrix, NULL)));
            weft_scope_close(NULL);
        }
        took[r < 0 ? 0 : r] = (now() - start) / times;
    }
    weft_scope_close(NULL);
    return median(took, rounds);
}

static void measure_kind(const char *name, const weft_ceiling *peaks, int rounds)
{
    static const int rows[] = {1, 4, 8, 16, 24};
    const weights w = weights_of(name);
    const bool one = weft_threads() == 1;
    const double flops =
        1e9 * (one ? peaks[WEFT_CEILING_FLOAT32].one : peaks[WEFT_CEILING_FLOAT32].all);
    const double read = 1e9 * (one ? peaks[WEFT_CEILING_READ].one : peaks[WEFT_CEILING_READ].all);
    for (int far = 0; far < 2; far++) {
        const int64_t n = (int64_t)((far ? 256e6 : 1e6) / (double)w.row_bytes);
        char *bytes = made(&w, n);
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            const double took = measure(&w, bytes, n, rows[r], rounds, far ? 1 : 20);
            const double work = 2.0 * rows[r] * WIDTH * (double)n,
                         size = (double)n * (double)w.row_bytes;
            const double least = far && size / read > work / flops ? size / read : work / flops;
            printf("%-20s %-6s %2d rows: %6.1f GB/s (%.2f), %6.1f GFLOP/s (%.2f), share %.2f\n",
                   name, far ? "memory" : "cache", rows[r], 1e-9 * size / took, size / took / read,
                   1e-9 * work / took, work / took / flops, least / took);
        }
        fflush(stdout);
        free(bytes);
    }
}

int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "all";
    const int rounds = argc > 2 ? atoi(argv[2]) : ROUNDS;
    bool found = false;
    weft_ceiling peaks[WEFT_CEILING_COUNT];
    for (int k = 0; k < KINDS; k++)
        found |= strcmp(only, "all") == 0 || strcmp(only, kinds[k]) == 0;
    if (!found || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "few_rows [NAME [ROUNDS]]: NAME all or an encoding, ROUNDS from 1 to %d\n",
                MOST_ROUNDS);
        return 2;
    }
    check(weft_bench_ceilings(weft_default_device(), weft_threads(), rounds, peaks));
    for (int k = 0; k < WEFT_CEILING_COUNT; k++)
        if (peaks[k].measured)
            printf("%-26s %-8s %10.1f %6.1f\n", peaks[k].name, peaks[k].unit, peaks[k].one,
                   peaks[k].all);
    for (int k = 0; k < KINDS; k++)
        if (strcmp(only, "all") == 0 || strcmp(only, kinds[k]) == 0)
            measure_kind(kinds[k], peaks, rounds);
    return 0;
}
