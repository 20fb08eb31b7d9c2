/* backends/cpu/quantized.h -- kernels over quantized matrices, used in rows_quantized.c. */
#ifndef BACKENDS_CPU_QUANTIZED_H
#define BACKENDS_CPU_QUANTIZED_H

#include "backends/cpu/kernels.h"
#include "weft/backend.h"
#include "weft/op_params.h"

/* ---- codes.c -------------------------------------------------------------------------------- */

/* Locates codes, scales and biases of an encoded tensor. */
cpu_codes weft__cpu_codes_encoded(const weft_tensor *t);
/* The matrix without its first rows. */
cpu_codes weft__cpu_codes_from(const cpu_codes *c, int64_t row);
/* The same for matrix `index` of separate row-major tensors of codes, scales and biases. */
cpu_codes weft__cpu_codes_apart(const weft_quantized_params *p, const weft_tensor *tensors,
                                int64_t index);

/* ---- encoded.c ------------------------------------------------------------------------------ */

weft_kernel weft__cpu_cast_encoded, weft__cpu_take_encoded, weft__cpu_encode, weft__cpu_quantize,
    weft__cpu_dequantize;
bool weft__cpu_cast_encoded_fits(const weft_call *call);
bool weft__cpu_take_encoded_fits(const weft_call *call);
bool weft__cpu_quantize_fits(const weft_call *call);
bool weft__cpu_dequantize_fits(const weft_call *call);
int64_t weft__cpu_encoded_workspace(const weft_call *call);

/* ---- quantized.c ---------------------------------------------------------------------------- */

weft_kernel weft__cpu_linear_encoded, weft__cpu_gather_encoded, weft__cpu_quantized_matmul;
bool weft__cpu_linear_encoded_fits(const weft_call *call);
bool weft__cpu_gather_encoded_fits(const weft_call *call);
bool weft__cpu_quantized_matmul_fits(const weft_call *call);
int64_t weft__cpu_linear_encoded_workspace(const weft_call *call);
int64_t weft__cpu_gather_encoded_workspace(const weft_call *call);
int64_t weft__cpu_quantized_matmul_workspace(const weft_call *call);

#endif
