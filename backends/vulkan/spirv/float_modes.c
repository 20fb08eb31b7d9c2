/* backends/vulkan/spirv/float_modes.c -- what a device lets shaders ask for of their floats. */
#include "backends/vulkan/spirv/float_modes.h"

#include "backends/vulkan/device.h"

uint32_t weft__spirv_float_modes(const weft_call *call)
{
    const weft__vulkan_device *d = weft_device_state(call->device);
    const VkPhysicalDeviceFloatControlsProperties *p = &d->physical.float_controls;
    /* Where float32 cannot behave otherwise than the widths that are not used here, nothing is
     * asked for. */
    const VkShaderFloatControlsIndependence none = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
    bool denorms = p->denormBehaviorIndependence != none;
    bool rounding = p->roundingModeIndependence != none;
    const struct {
        bool is;
        uint32_t mode;
    } modes[] = {
        {d->physical.used[WEFT__VULKAN_SUBNORMALS], WEFT__SPIRV_DENORMS32},
        {p->shaderSignedZeroInfNanPreserveFloat32, WEFT__SPIRV_SPECIALS32},
        {rounding && p->shaderRoundingModeRTEFloat32, WEFT__SPIRV_EVEN32},
        {denorms && p->shaderDenormPreserveFloat64, WEFT__SPIRV_DENORMS32 << WEFT__SPIRV_MODES64},
        {p->shaderSignedZeroInfNanPreserveFloat64, WEFT__SPIRV_SPECIALS32 << WEFT__SPIRV_MODES64},
        {rounding && p->shaderRoundingModeRTEFloat64, WEFT__SPIRV_EVEN32 << WEFT__SPIRV_MODES64},
    };
    uint32_t all = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        all |= modes[i].is ? modes[i].mode : 0;
    }
    return all;
}
