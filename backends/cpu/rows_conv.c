/* backends/cpu/rows_conv.c -- kernel rows for convolutions and products of selected matrices. Other
 * dtypes use the reference kernel. */
#include "backends/cpu/backend.h"
#include "backends/cpu/conv.h"
#include "backends/cpu/gemm.h"

const weft_kernel_row weft__cpu_conv_rows[] = {
    {.op = "conv",
     .fits = weft__cpu_conv_depthwise_fits,
     .workspace = weft__cpu_conv_depthwise_workspace,
     .kernel = weft__cpu_conv_depthwise},
    {.op = "conv",
     .fits = weft__cpu_conv_fits,
     .workspace = weft__cpu_conv_workspace,
     .kernel = weft__cpu_conv},
    {.op = "gather_mm",
     .layout = WEFT_STRIDED,
     .fits = weft__cpu_chosen_fits,
     .workspace = weft__cpu_gather_mm_workspace,
     .kernel = weft__cpu_gather_mm},
    {.op = "gather_mm_sums",
     .layout = WEFT_STRIDED,
     .fits = weft__cpu_chosen_fits,
     .workspace = weft__cpu_gather_mm_sums_workspace,
     .kernel = weft__cpu_gather_mm_sums},
    {.op = "segmented_mm",
     .layout = WEFT_STRIDED,
     .fits = weft__cpu_chosen_fits,
     .workspace = weft__cpu_segmented_mm_workspace,
     .kernel = weft__cpu_segmented_mm},
    {.op = "conv_weight_grad",
     .fits = weft__cpu_conv_depthwise_grad_fits,
     .workspace = weft__cpu_conv_depthwise_grad_workspace,
     .kernel = weft__cpu_conv_depthwise_grad},
    {.op = "conv_weight_grad",
     .fits = weft__cpu_conv_weight_grad_fits,
     .workspace = weft__cpu_conv_weight_grad_workspace,
     .kernel = weft__cpu_conv_weight_grad},
};
const int weft__cpu_conv_row_count = sizeof weft__cpu_conv_rows / sizeof *weft__cpu_conv_rows;
