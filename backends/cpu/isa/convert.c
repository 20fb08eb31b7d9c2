/* backends/cpu/isa/convert.c -- conversion of contiguous elements between any two dtypes. */
#include "backends/cpu/convert_elements.h"
#include "backends/cpu/elementwise_kernels.h"
#include "backends/cpu/isa/simd.h"

/* Converts whole vectors if there are instructions for the pair. Returns the number of elements
 * converted. */
SIMD int64_t convert_vectors(weft_dtype from, weft_dtype to, const void *in, void *out, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__) || defined(__aarch64__)
    if (from == WEFT_FLOAT16 && to == WEFT_FLOAT32) {
        for (; i + LANES <= n; i += LANES) {
            vstore((float *)out + i, vload_float16((const uint16_t *)in + i));
        }
    } else if (from == WEFT_FLOAT32 && to == WEFT_FLOAT16) {
        for (; i + LANES <= n; i += LANES) {
            vstore_float16((uint16_t *)out + i, vload((const float *)in + i));
        }
    }
#else
    (void)from;
    (void)to;
    (void)in;
    (void)out;
    (void)n;
#endif
    return i;
}

#define CONVERT(from, FROM, F, to, TO, T)                                                          \
    static void from##_to_##to(const void *source, void *target, int64_t n)                        \
    {                                                                                              \
        const F *restrict in = source;                                                             \
        T *restrict out = target;                                                                  \
        for (int64_t i = convert_vectors(WEFT_##FROM, WEFT_##TO, in, out, n); i < n; i++) {        \
            out[i] = STORE_##to(LOAD_##from(in[i]));                                               \
        }                                                                                          \
    }

#define CONVERT_TO_NUMBERS(from, FROM, F)                                                          \
    CONVERT(from, FROM, F, uint8, UINT8, uint8_t)                                                  \
    CONVERT(from, FROM, F, uint16, UINT16, uint16_t)                                               \
    CONVERT(from, FROM, F, uint32, UINT32, uint32_t)                                               \
    CONVERT(from, FROM, F, uint64, UINT64, uint64_t)                                               \
    CONVERT(from, FROM, F, int8, INT8, int8_t)                                                     \
    CONVERT(from, FROM, F, int16, INT16, int16_t)                                                  \
    CONVERT(from, FROM, F, int32, INT32, int32_t)                                                  \
    CONVERT(from, FROM, F, int64, INT64, int64_t)                                                  \
    CONVERT(from, FROM, F, float16, FLOAT16, uint16_t)                                             \
    CONVERT(from, FROM, F, bfloat16, BFLOAT16, uint16_t)                                           \
    CONVERT(from, FROM, F, float32, FLOAT32, float)                                                \
    CONVERT(from, FROM, F, float64, FLOAT64, double)

#define CONVERT_TO_ALL(from, FROM, F)                                                              \
    CONVERT_TO_NUMBERS(from, FROM, F)                                                              \
    CONVERT(from, FROM, F, truth, BOOL, uint8_t)                                                   \
    CONVERT(from, FROM, F, complex64, COMPLEX64, weft_complex64)

CONVERT_TO_ALL(truth, BOOL, uint8_t)
CONVERT_TO_ALL(uint8, UINT8, uint8_t)
CONVERT_TO_ALL(uint16, UINT16, uint16_t)
CONVERT_TO_ALL(uint32, UINT32, uint32_t)
CONVERT_TO_ALL(uint64, UINT64, uint64_t)
CONVERT_TO_ALL(int8, INT8, int8_t)
CONVERT_TO_ALL(int16, INT16, int16_t)
CONVERT_TO_ALL(int32, INT32, int32_t)
CONVERT_TO_ALL(int64, INT64, int64_t)
CONVERT_TO_ALL(float16, FLOAT16, uint16_t)
CONVERT_TO_ALL(bfloat16, BFLOAT16, uint16_t)
CONVERT_TO_ALL(float32, FLOAT32, float)
CONVERT_TO_ALL(float64, FLOAT64, double)
CONVERT_TO_NUMBERS(complex64, COMPLEX64, weft_complex64)

static void complex64_to_truth(const void *source, void *target, int64_t n)
{
    const weft_complex64 *restrict in = source;
    uint8_t *restrict out = target;
    for (int64_t i = 0; i < n; i++) {
        out[i] = (uint8_t)((in[i].re != 0) | (in[i].im != 0));
    }
}

static void complex64_to_complex64(const void *source, void *target, int64_t n)
{
    memcpy(target, source, (size_t)n * sizeof(weft_complex64));
}

#define ROW(from)                                                                                  \
    {                                                                                              \
        from##_to_truth, from##_to_uint8, from##_to_uint16, from##_to_uint32, from##_to_uint64,    \
            from##_to_int8, from##_to_int16, from##_to_int32, from##_to_int64, from##_to_float16,  \
            from##_to_bfloat16, from##_to_float32, from##_to_float64, from##_to_complex64          \
    }

/* In the order of weft_dtype. */
static cpu_convert *const conversions[WEFT_DTYPE_COUNT][WEFT_DTYPE_COUNT] = {
    ROW(truth), ROW(uint8), ROW(uint16),  ROW(uint32),   ROW(uint64),  ROW(int8),    ROW(int16),
    ROW(int32), ROW(int64), ROW(float16), ROW(bfloat16), ROW(float32), ROW(float64), ROW(complex64),
};

void CPU_NAME(weft__fill_convert)(cpu_elementwise_table *table)
{
    table->convert = conversions;
}
