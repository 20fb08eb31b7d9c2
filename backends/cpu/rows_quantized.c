/* backends/cpu/rows_quantized.c -- the rows of quantised matrices and encoded arrays. */
#include "backends/cpu/backend.h"
#include "backends/cpu/quantized.h"

const weft_kernel_row weft__cpu_quantized_rows[] = {
    {.op = "linear",
     .layout = WEFT_LAST_DIM,
     .takes_encoded = 1 << 1,
     .fits = weft__cpu_linear_encoded_fits,
     .workspace = weft__cpu_linear_encoded_workspace,
     .kernel = weft__cpu_linear_encoded},
    {.op = "quantized_matmul",
     .fits = weft__cpu_quantized_matmul_fits,
     .workspace = weft__cpu_quantized_matmul_workspace,
     .kernel = weft__cpu_quantized_matmul},
    {.op = "cast",
     .takes_encoded = 1 << 0,
     .fits = weft__cpu_cast_encoded_fits,
     .workspace = weft__cpu_encoded_workspace,
     .kernel = weft__cpu_cast_encoded},
    {.op = "take",
     .takes_encoded = 1 << 0,
     .fits = weft__cpu_take_encoded_fits,
     .workspace = weft__cpu_encoded_workspace,
     .kernel = weft__cpu_take_encoded},
    {.op = "encode",
     .takes_encoded = 1 << 1,
     .workspace = weft__cpu_encoded_workspace,
     .kernel = weft__cpu_encode},
    {.op = "quantize",
     .fits = weft__cpu_quantize_fits,
     .workspace = weft__cpu_encoded_workspace,
     .kernel = weft__cpu_quantize},
    {.op = "dequantize",
     .fits = weft__cpu_dequantize_fits,
     .workspace = weft__cpu_encoded_workspace,
     .kernel = weft__cpu_dequantize},
};
const int weft__cpu_quantized_row_count =
    sizeof weft__cpu_quantized_rows / sizeof *weft__cpu_quantized_rows;
