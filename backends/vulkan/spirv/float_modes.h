/* backends/vulkan/spirv/float_modes.h -- what shaders ask of a device's floats: all that it offers
 * of keeping subnormals, keeping NaN, infinities and the sign of 0, and rounding to nearest. */
#ifndef BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H
#define BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H

#include "backends/vulkan/loader.h"
#include "backends/vulkan/spirv/words.h"

enum {
    SPIRV_DENORMS32 = 1,  /* subnormal floats are kept */
    SPIRV_SPECIALS32 = 2, /* so are NaN, infinities and the sign of 0 */
    SPIRV_EVEN32 = 4,     /* results are rounded to nearest */
    SPIRV_MODES64 = 3,    /* the same for double, shifted by so many bits */
    SPIRV_MODES16 = 6     /* and for half, used only where double cannot be set without it */
};

/* The modes that a device offers. `subnormals`: also that of subnormal floats. */
uint32_t weft__spirv_float_modes(const VkPhysicalDeviceFloatControlsProperties *p, bool subnormals);

/* Appends the module of n words to *out with these modes declared for its entry point: those of
 * double only where it computes in double, SPIRV_EVEN32 only where it has precise arithmetic. A
 * module of a version before SPIR-V 1.4 and one that declares modes itself are copied unchanged.
 * out->failed: no memory. */
void weft__spirv_set_float_modes(const uint32_t *words, size_t n, uint32_t modes, spirv_words *out);

#endif
