/* backends/vulkan/kernels/rows_structure.c -- kernel rows for ops that move elements, and for
 * random bits. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/move.h"
#include "backends/vulkan/kernels/structure.h"

static const weft_kernel_row rows[] = {
    {.op = "full", .fits = weft__vulkan_fits, .kernel = weft__vulkan_full},
    {.op = "arange", .fits = weft__vulkan_arange_fits, .kernel = weft__vulkan_arange},
    {.op = "random_bits",
     .fits = weft__vulkan_random_bits_fits,
     .kernel = weft__vulkan_random_bits},
    {.op = "complex_abs", .fits = weft__vulkan_fits, .kernel = weft__vulkan_complex_abs},

    {.op = "reshape",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_move_all},
    {.op = "concatenate",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_concatenate},
    {.op = "pad", .layout = WEFT_STRIDED, .fits = weft__vulkan_fits, .kernel = weft__vulkan_pad},
    {.op = "slice_grad",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_slice_grad},
    {.op = "dynamic_slice",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_dynamic_slice},
    {.op = "slice_update",
     .layout = WEFT_STRIDED,
     .in_place = {1u << 0},
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_slice_update},

    {.op = "slice_set",
     .layout = WEFT_STRIDED,
     .in_place = {1u << 0},
     .fits = weft__vulkan_fits,
     .kernel = weft__vulkan_slice_set},

    {.op = "bounded_index",
     .fits = weft__vulkan_bounded_index_fits,
     .kernel = weft__vulkan_bounded_index},
    {.op = "take", .fits = weft__vulkan_fits, .kernel = weft__vulkan_take},
    {.op = "take_along_axis", .fits = weft__vulkan_fits, .kernel = weft__vulkan_take_along_axis},
    {.op = "scatter_add",
     .in_place = {1u << 0},
     .fits = weft__vulkan_scatter_add_fits,
     .workspace = weft__vulkan_scatter_workspace,
     .kernel = weft__vulkan_scatter_add},
    {.op = "scatter_add_along_axis",
     .in_place = {1u << 0},
     .fits = weft__vulkan_scatter_add_fits,
     .workspace = weft__vulkan_scatter_along_workspace,
     .kernel = weft__vulkan_scatter_add_along_axis},
    {.op = "scatter",
     .in_place = {1u << 0},
     .fits = weft__vulkan_scatter_fits,
     .workspace = weft__vulkan_scatter_workspace,
     .kernel = weft__vulkan_scatter},
    {.op = "put_along_axis",
     .in_place = {1u << 0},
     .fits = weft__vulkan_fits,
     .workspace = weft__vulkan_scatter_along_workspace,
     .kernel = weft__vulkan_put_along_axis},
};

const weft__vulkan_family weft__vulkan_structure = {rows, sizeof rows / sizeof *rows};
