/* tests/vulkan/both.h -- evaluates one graph on the CPU and on the Vulkan device, and compares the
 * results. */
#ifndef TESTS_VULKAN_BOTH_H
#define TESTS_VULKAN_BOTH_H

#include "tests/check.h"
#include "weft/ops.h"

/* Returns whether there is a Vulkan device; if not, skips the running case. */
bool both_there(void);

/* Makes the graph on the default device. */
typedef weft_array *both_make(const void *context);

/* Evaluates the graph of `make` on both devices and checks |difference| <= tolerance * max(1,
 * |expected|) and equal NaN; with tolerance 0, equal bits. On the Vulkan device only kernel rows
 * may run. */
void both_same(both_make *make, const void *context, double tolerance, const char *label);

/* Checks that the evaluation fails on both devices, on the Vulkan device with `message`, and that
 * this device still works. */
void both_fail(both_make *make, const void *context, const char *message);

/* The same numbers from every device: uniform in [lo, hi), on the default device. Whole numbers for
 * integer dtypes. */
weft_array *both_draw(weft_dims shape, weft_dtype dtype, double lo, double hi);

/* Elements of `values`, converted, on the default device. */
weft_array *both_list(const double *values, weft_dims shape, weft_dtype dtype);

/* The number of ops that were fused into another op's kernel, on the default device. */
int64_t both_fused(void);

/* Whether to try few kernels, since a software driver compiles each for seconds; false with
 * check_exhaustive(). */
bool both_few(void);

/* The number of commands that used the device's matrix cores, while it is profiled. */
int64_t both_commands_on_cores(void);

/* Whether the device's matrix cores multiply matrices of this dtype. */
bool both_on_cores(weft_dtype dtype);

/* With one_by_one: evaluates and keeps an intermediate result, so that it is not fused. */
weft_array *both_apart(weft_array *a, bool one_by_one);

/* Whether both have the same dtype and bits. */
bool both_equal(weft_array *a, weft_array *b);

#endif
