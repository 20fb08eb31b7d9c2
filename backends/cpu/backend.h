/* backends/cpu/backend.h -- the CPU backend, and the tables of kernel rows that form it. */
#ifndef BACKENDS_CPU_BACKEND_H
#define BACKENDS_CPU_BACKEND_H

#include "weft/backend.h"
#include "weft/device.h"

/* Its rows are complete after the first call of `count`. */
extern weft_backend weft__cpu_backend;

/* weft_device_traits_of, for device `index`. */
weft_status weft__cpu_traits(int index, weft_device_traits *out);

/* Rows defined in rows_nn.c (products, norms, attention, losses) and rows_structure.c. */
extern const weft_kernel_row weft__cpu_nn_rows[];
extern const int weft__cpu_nn_row_count;
extern const weft_kernel_row weft__cpu_linalg_rows[]; /* rows_linalg.c */
extern const int weft__cpu_linalg_row_count;
extern const weft_kernel_row weft__cpu_quantized_rows[]; /* rows_quantized.c */
extern const int weft__cpu_quantized_row_count;
extern const weft_kernel_row weft__cpu_conv_rows[]; /* rows_conv.c */
extern const int weft__cpu_conv_row_count;
extern const weft_kernel_row weft__cpu_structure_rows[];
extern const int weft__cpu_structure_row_count;

/* elementwise.c, convert.c */
weft_status weft__cpu_elementwise(const weft_call *call, const weft_tape *tape);
weft_status weft__cpu_copy(const weft_call *call);

#endif
