/* backends/vulkan/kernels/rows_attention.c -- kernel rows for attention, its gradient, and the
 * gated delta rule. */
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/nn.h"

/* First with the heads in place (keys and values are views of a cache); for other layouts, on
 * copies. */
#define ATTENTION(op_, layout_, fits_)                                                             \
    {                                                                                              \
        .op = op_, .layout = layout_, .fits = fits_,                                               \
        .workspace = weft__vulkan_attention_workspace, .kernel = weft__vulkan_attention_forward    \
    }
#define ATTENTION_VJP(layout_, fits_)                                                              \
    {                                                                                              \
        .op = "attention_vjp", .layout = layout_, .fits = fits_,                                   \
        .workspace = weft__vulkan_attention_vjp_workspace, .kernel = weft__vulkan_attention_vjp    \
    }
static const weft_kernel_row rows[] = {
    ATTENTION("attention", WEFT_LAST_DIM, weft__vulkan_attention_fits),
    ATTENTION("attention", WEFT_CONTIGUOUS, weft__vulkan_attention_fits_copies),
    ATTENTION("attention_pages", WEFT_LAST_DIM, weft__vulkan_attention_pages_fits),
    {.op = "attention_append",
     .layout = WEFT_LAST_DIM,
     .in_place = {0, 0, 1 << 1, 1 << 2},
     .fits = weft__vulkan_attention_append_fits,
     .workspace = weft__vulkan_attention_workspace,
     .kernel = weft__vulkan_attention_forward},
    ATTENTION_VJP(WEFT_LAST_DIM, weft__vulkan_attention_fits),
    ATTENTION_VJP(WEFT_CONTIGUOUS, weft__vulkan_attention_fits_copies),
    {.op = "gated_delta",
     .signature = "f",
     .layout = WEFT_CONTIGUOUS,
     .in_place = {0, 1 << 5},
     .fits = weft__vulkan_gated_delta_fits,
     .kernel = weft__vulkan_gated_delta},
    {.op = "state_space",
     .signature = "f",
     .layout = WEFT_CONTIGUOUS,
     .in_place = {0, 1 << 4},
     .fits = weft__vulkan_gated_delta_fits,
     .kernel = weft__vulkan_gated_delta},
};
#undef ATTENTION
#undef ATTENTION_VJP

const weft__vulkan_family weft__vulkan_attention = {rows, sizeof rows / sizeof *rows};
