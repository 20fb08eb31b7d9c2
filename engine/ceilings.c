/* engine/ceilings.c -- measures hardware limits: of the CPU by its instructions, of other devices
 * by the best rates that Weft reaches on them. */
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "engine/bench.h"
#include "weft/backend.h"
#include "weft/creation.h"
#include "weft/elementwise.h"
#include "weft/memory.h"
#include "weft/products.h"
#include "weft/random.h"

enum { FEWEST = 16 << 20, MOST = 128 << 20, REPEATS = 6, FIRST_WIDTH = 256, LAST_WIDTH = 16384 };
static const double ENOUGH = 0.05, LONG_SUM = 1e-3; /* seconds of a product and of a sum */

/* Seconds of one evaluation of x op y; negative on failure. */
static double time_one(weft_array *(*op)(weft_array *, weft_array *), weft_array *x, weft_array *y)
{
    weft_scope_open_lean();
    const double start = weft__seconds();
    weft_array *z = op(x, y);
    const bool fine = weft_eval(z) == WEFT_OK && weft_synchronize(weft_device_of(x)) == WEFT_OK;
    const double took = weft__seconds() - start;
    weft_scope_close(NULL);
    return fine ? took : -1;
}

/* Bytes per second of adding two arrays of n elements, the best of REPEATS, and the seconds of that
 * one; 0 on failure. */
static double sum_rate(weft_device *device, int64_t n, double *seconds)
{
    double best = 0;
    weft_scope_open_lean();
    weft_array *x = weft_to(weft_ones(WEFT_DIMS(n), WEFT_FLOAT32), device);
    weft_array *y = weft_to(weft_full(WEFT_DIMS(n), 2, WEFT_FLOAT32), device);
    weft_array *both[] = {x, y};
    bool fine = weft_eval_n(both, 2) == WEFT_OK;
    for (int i = 0; i < REPEATS && fine; i++) {
        const double took = time_one(weft_add, x, y);
        fine = took >= 0;
        if (took > 0 && 12.0 * (double)n / took > best) {
            best = 12.0 * (double)n / took;
            *seconds = took;
        }
    }
    weft_scope_close(NULL);
    weft_memory_clear_cache();
    return best;
}

/* With arrays so large that starting and awaiting the sum takes a small part of its time. */
double weft__bench_bandwidth(weft_device *device)
{
    double best = 0;
    for (int64_t n = FEWEST; n <= MOST; n *= 2) {
        double seconds = 0;
        const double rate = sum_rate(device, n, &seconds);
        best = rate > best ? rate : best;
        if (rate == 0 || seconds >= LONG_SUM)
            break;
    }
    return best;
}

/* Measures the second of two products of square matrices in seconds; the first one includes
 * preparations. Negative on failure. */
static double time_product(weft_device *device, weft_dtype dtype, int64_t width)
{
    const weft_dims shape = WEFT_DIMS(width, width);
    weft_scope_open_lean();
    weft_array *x = weft_to(weft_random_normal(NULL, shape, 0, 1, dtype), device);
    weft_array *y = weft_to(weft_random_normal(NULL, shape, 0, 1, dtype), device);
    weft_array *both[] = {x, y};
    double took = weft_eval_n(both, 2) == WEFT_OK ? time_one(weft_matmul, x, y) : -1;
    if (took >= 0)
        took = time_one(weft_matmul, x, y);
    weft_scope_close(NULL);
    weft_memory_clear_cache();
    return took;
}

/* GFLOP/s; 0: the device cannot compute it. */
static double product_rate(weft_device *device, weft_dtype dtype)
{
    double best = 0;
    for (int64_t width = FIRST_WIDTH; width <= LAST_WIDTH; width *= 2) {
        const double took = time_product(device, dtype, width);
        if (took <= 0)
            break;
        const double rate = 2e-9 * (double)(width * width) * (double)width / took;
        best = rate > best ? rate : best;
        if (took > ENOUGH)
            break;
    }
    return best;
}

static void measure_device(weft_device *device, int rounds, weft_ceiling *out)
{
    static const weft_ceiling kinds[WEFT_CEILING_COUNT] = {
        [WEFT_CEILING_FLOAT32] = {.name = "largest float32 product", .unit = "GFLOP/s"},
        [WEFT_CEILING_BF16] = {.name = "largest bfloat16 product", .unit = "GFLOP/s"},
        [WEFT_CEILING_INT8] = {.name = "8-bit dot", .unit = "GOP/s"},
        [WEFT_CEILING_AMX] = {.name = "bf16 tiles", .unit = "GFLOP/s"},
        [WEFT_CEILING_AMX_INT8] = {.name = "8-bit tiles", .unit = "GOP/s"},
        [WEFT_CEILING_READ] = {.name = "sum of two arrays", .unit = "GB/s"},
    };
    memcpy(out, kinds, sizeof kinds);
    for (int i = 0; i < rounds; i++) {
        const double rates[WEFT_CEILING_COUNT] = {
            [WEFT_CEILING_FLOAT32] = product_rate(device, WEFT_FLOAT32),
            [WEFT_CEILING_BF16] = product_rate(device, WEFT_BFLOAT16),
            [WEFT_CEILING_READ] = 1e-9 * weft__bench_bandwidth(device)};
        for (int k = 0; k < WEFT_CEILING_COUNT; k++)
            out[k].all = rates[k] > out[k].all ? rates[k] : out[k].all;
    }
    for (int k = 0; k < WEFT_CEILING_COUNT; k++) {
        out[k].one = out[k].all;
        out[k].present = out[k].measured = out[k].all > 0;
    }
}

weft_status weft_bench_ceilings(weft_device *device, int threads, int rounds,
                                weft_ceiling out[WEFT_CEILING_COUNT])
{
    if (rounds < 1 || threads < 1)
        return weft_fail(WEFT_INVALID,
                         "bench: ceilings: expected rounds and threads above 0, got %d and %d",
                         rounds, threads);
    if (strcmp(weft_device_name(device), "cpu") == 0)
        return weft__ceilings_of_cpu(threads, rounds, out);
    measure_device(device, rounds, out);
    return WEFT_OK;
}
