/* backends/vulkan/spirv/float_modes.c -- declares a device's float controls in its shaders. */
#include "backends/vulkan/spirv/float_modes.h"

#include "backends/vulkan/spirv/opcodes.h"

uint32_t weft__spirv_float_modes(const VkPhysicalDeviceFloatControlsProperties *p, bool subnormals)
{
    /* If only float32 is independent, double must have the mode of half. If nothing is independent,
     * nothing is requested. */
    const VkShaderFloatControlsIndependence some =
        VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_32_BIT_ONLY;
    const VkShaderFloatControlsIndependence all = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
    bool denorms16 = p->denormBehaviorIndependence == some && p->shaderDenormPreserveFloat16 &&
                     p->shaderDenormPreserveFloat64;
    bool even16 = p->roundingModeIndependence == some && p->shaderRoundingModeRTEFloat16 &&
                  p->shaderRoundingModeRTEFloat64;
    bool denorms64 = p->denormBehaviorIndependence == all && p->shaderDenormPreserveFloat64;
    bool even64 = p->roundingModeIndependence == all && p->shaderRoundingModeRTEFloat64;
    bool even32 = p->roundingModeIndependence == some || p->roundingModeIndependence == all;
    const struct {
        bool is;
        uint32_t mode;
    } modes[] = {
        {subnormals, SPIRV_DENORMS32},
        {p->shaderSignedZeroInfNanPreserveFloat32, SPIRV_SPECIALS32},
        {even32 && p->shaderRoundingModeRTEFloat32, SPIRV_EVEN32},
        {denorms16 || denorms64, SPIRV_DENORMS32 << SPIRV_MODES64},
        {p->shaderSignedZeroInfNanPreserveFloat64, SPIRV_SPECIALS32 << SPIRV_MODES64},
        {even16 || even64, SPIRV_EVEN32 << SPIRV_MODES64},
        {denorms16, SPIRV_DENORMS32 << SPIRV_MODES16},
        {even16, SPIRV_EVEN32 << SPIRV_MODES16},
    };
    uint32_t set = 0;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        set |= modes[i].is ? modes[i].mode : 0;
    }
    return set;
}

static const struct {
    uint32_t bit, capability, mode;
} kinds[] = {
    {SPIRV_DENORMS32, SPIRV_DENORM_PRESERVE, SPIRV_MODE_DENORM_PRESERVE},
    {SPIRV_SPECIALS32, SPIRV_NAN_PRESERVE, SPIRV_MODE_NAN_PRESERVE},
    {SPIRV_EVEN32, SPIRV_ROUND_TO_EVEN, SPIRV_MODE_ROUND_TO_EVEN},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Facts about a module, from the instructions before its types. Rounding to nearest is declared for
 * float32 only if a module has precise arithmetic: together with NaN preservation it keeps NVIDIA's
 * compiler from fusing multiply-adds, which costs float32 products 29% of their rate
 * (docs/performance-log.md). */
typedef struct preamble {
    size_t capabilities, modes; /* ends of the two sections */
    uint32_t entry;
    bool float64; /* the module computes in double */
    bool own;     /* it already declares modes */
    bool precise; /* it has arithmetic that must not be contracted */
} preamble;

static preamble read_preamble(const uint32_t *words, size_t n)
{
    preamble p = {.capabilities = SPIRV_HEADER_WORDS};
    for (size_t at = SPIRV_HEADER_WORDS; at < n && words[at] >> 16; at += words[at] >> 16) {
        uint32_t opcode = words[at] & 0xffffu, end = words[at] >> 16;
        if (opcode == SPIRV_OP_CAPABILITY) {
            p.capabilities = at + end;
            p.float64 |= words[at + 1] == SPIRV_FLOAT64;
            p.own |= words[at + 1] >= SPIRV_DENORM_PRESERVE && words[at + 1] <= SPIRV_ROUND_TO_ZERO;
        } else if (opcode == SPIRV_OP_ENTRY_POINT) {
            p.entry = words[at + 2];
            p.modes = at + end;
        } else if (opcode == SPIRV_OP_EXECUTION_MODE) {
            p.modes = at + end;
        } else if (opcode == SPIRV_OP_DECORATE && end > 2) {
            p.precise |= words[at + 2] == SPIRV_NO_CONTRACTION;
        } else if (opcode >= SPIRV_OP_TYPE_VOID && opcode < SPIRV_OP_DECORATE) {
            break;
        }
    }
    return p;
}

static void add_modes(spirv_words *out, uint32_t entry, uint32_t modes)
{
    static const struct {
        uint32_t width, shift;
    } widths[] = {{32, 0}, {64, SPIRV_MODES64}, {16, SPIRV_MODES16}};
    for (int w = 0; w < 3; w++) {
        for (int i = 0; i < KINDS; i++) {
            if (modes >> widths[w].shift & kinds[i].bit) {
                SPIRV_EMIT(out, SPIRV_OP_EXECUTION_MODE, entry, kinds[i].mode, widths[w].width);
            }
        }
    }
}

void weft__spirv_set_float_modes(const uint32_t *words, size_t n, uint32_t modes, spirv_words *out)
{
    preamble p = read_preamble(words, n);
    modes &= p.float64 ? UINT32_MAX : (1u << SPIRV_MODES64) - 1;
    modes &= p.precise ? UINT32_MAX : ~(uint32_t)SPIRV_EVEN32;
    if (words[1] < SPIRV_VERSION_1_4 || p.own || !p.modes || !modes) {
        spirv_add(out, words, n);
        return;
    }
    spirv_add(out, words, p.capabilities);
    for (int i = 0; i < KINDS; i++) {
        if (modes & (kinds[i].bit | kinds[i].bit << SPIRV_MODES64)) {
            SPIRV_EMIT(out, SPIRV_OP_CAPABILITY, kinds[i].capability);
        }
    }
    spirv_add(out, words + p.capabilities, p.modes - p.capabilities);
    add_modes(out, p.entry, modes);
    spirv_add(out, words + p.modes, n - p.modes);
}
