/* backends/cpu/isa/convert_rows.c -- converts rows of 16-bit floats from and to float32. */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

static void decode(weft_dtype dtype, const void *from, float *to, int64_t n)
{
    int64_t i = 0;
    const uint16_t *half = from;
    switch (dtype) {
    case WEFT_BFLOAT16:
        for (; i + LANES <= n; i += LANES)
            vstore(to + i, vload_bfloat16(half + i));
        for (; i < n; i++)
            to[i] = weft_bfloat16_to_float(half[i]);
        break;
    case WEFT_FLOAT16:
        for (; i + LANES <= n; i += LANES)
            vstore(to + i, vload_float16(half + i));
        for (; i < n; i++)
            to[i] = weft_float16_to_float(half[i]);
        break;
    default:
        memcpy(to, from, (size_t)n * sizeof(float));
    }
}

static void encode(weft_dtype dtype, const float *from, void *to, int64_t n)
{
    int64_t i = 0;
    uint16_t *half = to;
    switch (dtype) {
    case WEFT_BFLOAT16:
        for (; i + LANES <= n; i += LANES)
            vstore_bfloat16(half + i, vload(from + i));
        for (; i < n; i++)
            half[i] = weft_float_to_bfloat16(from[i]);
        break;
    case WEFT_FLOAT16:
        for (; i + LANES <= n; i += LANES)
            vstore_float16(half + i, vload(from + i));
        for (; i < n; i++)
            half[i] = weft_float_to_float16(from[i]);
        break;
    default:
        memcpy(to, from, (size_t)n * sizeof(float));
    }
}

void CPU_NAME(weft__fill_convert_rows)(cpu_kernels *table)
{
    table->decode = decode;
    table->encode = encode;
    table->lanes = LANES;
}
