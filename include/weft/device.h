/* weft/device.h -- what a device is, for programs that choose one. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_device_traits {
    bool discrete;       /* a card with memory of its own: not integrated, virtual or software */
    bool fast_bfloat16;  /* Weft uses its units for products of bfloat16 matrices (AMX, matrix
                          * cores), and such units were measured to be faster than float32 */
    int64_t free_memory; /* bytes that no process uses; 0: unknown */
} weft_device_traits;

/* Describes a device of the CPU or Vulkan backend without opening it, so before its self-test; all
 * zero for other backends. The name is as for weft_device_get. WEFT_DEVICE if there is no such
 * device, or if it lacks what Weft needs. */
WEFT_NODISCARD WEFT_API weft_status weft_device_traits_of(const char *name, weft_device_traits *out)
    WEFT_NONNULL(1, 2);

/* weft_memory_active and weft_memory_peak of one device's memory alone. */
WEFT_API int64_t weft_device_active(const weft_device *device) WEFT_NONNULL(1);
WEFT_API int64_t weft_device_peak(const weft_device *device) WEFT_NONNULL(1);

/* What an open device is and how fast the kernels are that its backend chooses among, as one JSON
 * object for reports: of Vulkan devices the driver, memory, limits, features, the matrices that the
 * driver offers, and for each tile of matrix products its results and rate. This takes seconds.
 * Free it with weft_free. NULL: the backend has nothing to say (WEFT_UNSUPPORTED, as that of the
 * CPU), or it failed, with a message. */
WEFT_API char *weft_device_inspect(weft_device *device) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
