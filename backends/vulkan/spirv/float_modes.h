/* backends/vulkan/spirv/float_modes.h -- what a shader may ask for of its floats. */
#ifndef BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H
#define BACKENDS_VULKAN_SPIRV_FLOAT_MODES_H

#include "backends/vulkan/dispatch.h"

enum {
    WEFT__SPIRV_DENORMS32 = 1,  /* subnormal floats are kept */
    WEFT__SPIRV_SPECIALS32 = 2, /* so are NaN, infinities and the sign of 0 */
    WEFT__SPIRV_EVEN32 = 4,     /* results are rounded to nearest */
    WEFT__SPIRV_MODES64 = 3     /* the same of double, shifted by so many bits */
};

/* Those that the call's device has. */
uint32_t weft__spirv_float_modes(const weft_call *call);

#endif
