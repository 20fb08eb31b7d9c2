/* backends/vulkan/spirv/float_modes.h -- the float controls that shaders request: everything that
 * the device supports of preserving subnormals, NaN, infinities and signed zeros, and rounding to
 * nearest. */
#ifndef BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H
#define BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H

#include "backends/vulkan/loader.h"
#include "backends/vulkan/spirv/words.h"

enum {
    SPIRV_DENORMS32 = 1,  /* preserves subnormal floats */
    SPIRV_SPECIALS32 = 2, /* preserves NaN, infinities and the sign of 0 */
    SPIRV_EVEN32 = 4,     /* rounds results to nearest */
    SPIRV_MODES64 = 3,    /* shift for the same bits for double */
    SPIRV_MODES16 = 6     /* and for half, used only if double cannot be set without it */
};

/* The modes that a device supports. `subnormals`: including that of subnormal floats. */
uint32_t weft__spirv_float_modes(const VkPhysicalDeviceFloatControlsProperties *p, bool subnormals);

/* Appends the module of n words to *out with these modes declared for its entry point: those of
 * double only if it computes in double, SPIRV_EVEN32 only if it has precise arithmetic. Modules of
 * versions before SPIR-V 1.4, and modules that already declare modes, are copied unchanged.
 * out->failed: out of memory. */
void weft__spirv_set_float_modes(const uint32_t *words, size_t n, uint32_t modes, spirv_words *out);

#endif
