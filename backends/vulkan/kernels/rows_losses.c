/* backends/vulkan/kernels/rows_losses.c -- kernel rows for cross-entropy and the optimizer step. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/losses.h"

static const weft_kernel_row rows[] = {
    {.op = "cross_entropy", .fits = weft__vulkan_fits, .kernel = weft__vulkan_cross_entropy},
    {.op = "cross_entropy_vjp",
     .in_place = {1u << 0},
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_cross_entropy_vjp},
    {.op = "adamw",
     .in_place = {1u << 0, 1u << 2, 1u << 3},
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_adamw},
    {.op = "adamw8bit",
     .in_place = {1u << 0, 1u << 2, 1u << 3, 1u << 4, 1u << 5},
     .fits = weft__vulkan_adamw8bit_fits,
     .kernel = weft__vulkan_adamw8bit},
    {.op = "adamw16bit",
     .in_place = {1u << 0, 1u << 2, 1u << 3},
     .fits = weft__vulkan_adamw16bit_fits,
     .kernel = weft__vulkan_adamw16bit},
};

const weft__vulkan_family weft__vulkan_losses = {rows, sizeof rows / sizeof *rows};
