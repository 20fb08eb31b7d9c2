/* tests/vulkan/both.h -- one graph on the CPU and on the Vulkan device, and the results held
 * together. */
#ifndef TESTS_VULKAN_BOTH_H
#define TESTS_VULKAN_BOTH_H

#include "tests/check.h"
#include "weft/ops.h"

/* Whether there is a Vulkan device; else the running case is skipped. */
bool both_there(void);

/* Makes the graph on the default device. */
typedef weft_array *both_make(const void *context);

/* Evaluates what `make` makes on both devices: |difference| <= tolerance * max(1, |expected|), NaN
 * where NaN is, and with a tolerance of 0 the same bits. On the Vulkan device only rows may have
 * run.
 */
void both_same(both_make *make, const void *context, double tolerance, const char *label);

/* The evaluation fails on both devices, on the Vulkan device with `message`, and that device goes
 * on working. */
void both_fail(both_make *make, const void *context, const char *message);

/* The same numbers from every device: uniform in [lo, hi), on the default device. Whole ones for
 * integer dtypes. */
weft_array *both_draw(weft_dims shape, weft_dtype dtype, double lo, double hi);

/* Elements of `values`, converted, on the default device. */
weft_array *both_list(const double *values, weft_dims shape, weft_dtype dtype);

#endif
