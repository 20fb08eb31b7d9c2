/* backends/vulkan/kernels/rows_norms.c -- kernel rows for norms, rotary embeddings and gated linear
 * units. */
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/nn.h"

/* First with the rows in place; for other layouts, on copies. */
#define NORM(name, layout_, fits_)                                                                 \
    {                                                                                              \
        .op = #name, .signature = "F", .layout = layout_, .fits = fits_, .in_place = {1},          \
        .kernel = weft__vulkan_##name                                                              \
    }
#define NORM_VJP(name, layout_, fits_)                                                             \
    {                                                                                              \
        .op = #name, .signature = "F", .layout = layout_, .fits = fits_,                           \
        .workspace = weft__vulkan_norm_vjp_workspace, .kernel = weft__vulkan_##name                \
    }
#define ROPE(layout_, fits_)                                                                       \
    {                                                                                              \
        .op = "rope", .layout = layout_, .fits = fits_, .in_place = {1},                           \
        .kernel = weft__vulkan_rope, .takes_epilogue = weft__vulkan_rope_takes_epilogue,           \
        .takes_prologue = weft__vulkan_rope_takes_prologue                                         \
    }
static const weft_kernel_row rows[] = {
    NORM(rms_norm, WEFT_LAST_DIM, weft__vulkan_norm_fits),
    NORM(rms_norm, WEFT_CONTIGUOUS, weft__vulkan_fits),
    NORM(layer_norm, WEFT_LAST_DIM, weft__vulkan_norm_fits),
    NORM(layer_norm, WEFT_CONTIGUOUS, weft__vulkan_fits),
    NORM_VJP(rms_norm_vjp, WEFT_LAST_DIM, weft__vulkan_norm_vjp_fits),
    NORM_VJP(rms_norm_vjp, WEFT_CONTIGUOUS, weft__vulkan_fits),
    NORM_VJP(layer_norm_vjp, WEFT_LAST_DIM, weft__vulkan_norm_vjp_fits),
    NORM_VJP(layer_norm_vjp, WEFT_CONTIGUOUS, weft__vulkan_fits),
    {.op = "glu_vjp",
     .signature = "F",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_glu_vjp_fits,
     .in_place = {7, 7},
     .kernel = weft__vulkan_glu_vjp},
    ROPE(WEFT_LAST_DIM, weft__vulkan_rope_fits),
    ROPE(WEFT_CONTIGUOUS, weft__vulkan_fits),
};
#undef NORM
#undef NORM_VJP
#undef ROPE

const weft__vulkan_family weft__vulkan_norms = {rows, sizeof rows / sizeof *rows};
