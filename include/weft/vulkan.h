/* weft/vulkan.h -- a program's own kernels for the Vulkan backend, from SPIR-V.
 *
 *     static weft_status twice_kernel(const weft_call *call)
 *     {
 *         uint32_t n = (uint32_t)weft_tensor_size(&call->in[0]);
 *         const struct { uint64_t x, y; uint32_t n; } push = {
 *             weft_vulkan_address(&call->in[0]), weft_vulkan_address(&call->out[0]), n};
 *         return weft_vulkan_dispatch(call, &(weft_vulkan_launch){
 *             .shader = &twice, .push = &push, .push_bytes = 20, .groups = (n + 63) / 64});
 *     }
 *     static const weft_kernel_row row = {.op = "twice", .signature = "f", .layout =
 *         WEFT_CONTIGUOUS, .fits = weft_vulkan_fits, .kernel = twice_kernel};
 *     status = weft_backend_add_rows("vulkan", &row, 1);
 *
 * A shader is a compute shader for Vulkan 1.2 with the entry point "main" and no descriptors. It
 * reads and writes at addresses (GL_EXT_buffer_reference) from the push constants. Push constants
 * have the layout of a C struct (GL_EXT_scalar_block_layout). Workgroups are spread over x, y and
 * z. The number of a workgroup is x + X (y + Y z), with X, Y, Z = gl_NumWorkGroups. There may be
 * more workgroups than requested, so the shader checks that its own has work. The float controls
 * that the device offers (DenormPreserve, SignedZeroInfNanPreserve, RoundingModeRTE) are set for
 * shaders of SPIR-V 1.4 or later that set none themselves.
 */
#ifndef WEFT_VULKAN_H
#define WEFT_VULKAN_H

#include "weft/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WEFT_VULKAN_MAX_CONSTANTS = 16,
    WEFT_VULKAN_MAX_PUSH = 128 /* bytes */
};

/* SPIR-V words. A pipeline is kept for each address of such a struct and constants, so it and its
 * words live, unchanged, as long as the process. */
typedef struct weft_vulkan_shader {
    const char *name;
    const uint32_t *words;
    size_t n_words;
} weft_vulkan_shader;

typedef struct weft_vulkan_launch {
    const weft_vulkan_shader *shader;
    int n_constants; /* values of the specialization constants 0, 1, ... */
    uint32_t constants[WEFT_VULKAN_MAX_CONSTANTS];
    const void *push;    /* the push constants; copied */
    uint32_t push_bytes; /* a multiple of 4 */
    uint64_t groups;     /* workgroups; 0: nothing is done */
} weft_vulkan_launch;

/* In a kernel of a row of the Vulkan backend: records the launch, after everything that wrote an
 * input of the call and everything that read or wrote its outputs and workspace. Launches of one
 * call run one after another. WEFT_INVALID: no SPIR-V, too many constants or bytes;
 * WEFT_UNSUPPORTED: this build has no Vulkan. */
WEFT_NODISCARD WEFT_API weft_status weft_vulkan_dispatch(const weft_call *call,
                                                         const weft_vulkan_launch *launch)
    WEFT_NONNULL(2);

/* The device address of element 0, and of the call's workspace (0: it has none). */
WEFT_API uint64_t weft_vulkan_address(const weft_tensor *t);
WEFT_API uint64_t weft_vulkan_workspace(const weft_call *call);

/* For the `fits` of rows: no operand is encoded or spans 2^31 elements or more, and the device can
 * compute in float64 and store single bytes where the dtypes need it. */
WEFT_API bool weft_vulkan_fits(const weft_call *call);

#ifdef __cplusplus
}
#endif
#endif
