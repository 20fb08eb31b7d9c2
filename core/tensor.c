/* core/tensor.c -- element access for reference kernels, for any dtype and strides. */
#include <math.h>
#include <string.h>

#include "core/shape.h"
#include "weft/op.h"

int64_t weft_tensor_size(const weft_tensor *t)
{
    return weft__shape_size(&t->shape);
}

bool weft_tensor_is_contiguous(const weft_tensor *t)
{
    int64_t stride = 1;
    for (int i = t->shape.n - 1; i >= 0; i--) {
        if (t->shape.at[i] == 0) {
            return true;
        }
        if (t->shape.at[i] != 1 && t->strides[i] != stride) {
            return false;
        }
        stride *= t->shape.at[i];
    }
    return true;
}

int64_t weft_tensor_offset(const weft_tensor *t, int64_t index)
{
    int64_t offset = 0;
    for (int i = t->shape.n - 1; i >= 0 && index > 0; i--) {
        int64_t dim = t->shape.at[i];
        offset += index % dim * t->strides[i];
        index /= dim;
    }
    return offset;
}

static char *address(const weft_tensor *t, int64_t index)
{
    return (char *)t->data + weft_tensor_offset(t, index) * (int64_t)weft_dtype_size(t->dtype);
}

/* memcpy, since memory of the user may be unaligned. */
#define LOAD(type, p)                                                                              \
    type value;                                                                                    \
    memcpy(&value, (p), sizeof value)

/* Element `index` of an encoded tensor, by decoding its block. */
static double get_encoded(const weft_tensor *t, int64_t index)
{
    const weft_encoding *e = t->encoding;
    float block[WEFT_MAX_BLOCK];
    e->decode(e, (const char *)t->data + index / e->block * e->block_bytes, e->block, block);
    return (double)block[index % e->block];
}

int64_t weft_encoding_bytes(const weft_encoding *e, int64_t elements)
{
    return elements / e->block * e->block_bytes;
}

double weft_tensor_get(const weft_tensor *t, int64_t index)
{
    if (t->encoding) {
        return get_encoded(t, index);
    }
    const char *p = address(t, index);
    switch (t->dtype) {
    case WEFT_FLOAT16: {
        LOAD(uint16_t, p);
        return (double)weft_float16_to_float(value);
    }
    case WEFT_BFLOAT16: {
        LOAD(uint16_t, p);
        return (double)weft_bfloat16_to_float(value);
    }
    case WEFT_FLOAT32:
    case WEFT_COMPLEX64: { /* the real part */
        LOAD(float, p);
        return (double)value;
    }
    case WEFT_FLOAT64: {
        LOAD(double, p);
        return value;
    }
    case WEFT_UINT64: {
        LOAD(uint64_t, p);
        return (double)value;
    }
    default:
        return (double)weft_tensor_get_int(t, index);
    }
}

int64_t weft_tensor_get_int(const weft_tensor *t, int64_t index)
{
    const char *p = address(t, index);
    switch (t->dtype) {
    case WEFT_BOOL:
    case WEFT_UINT8: {
        LOAD(uint8_t, p);
        return value;
    }
    case WEFT_UINT16: {
        LOAD(uint16_t, p);
        return value;
    }
    case WEFT_UINT32: {
        LOAD(uint32_t, p);
        return value;
    }
    case WEFT_INT8: {
        LOAD(int8_t, p);
        return value;
    }
    case WEFT_INT16: {
        LOAD(int16_t, p);
        return value;
    }
    case WEFT_INT32: {
        LOAD(int32_t, p);
        return value;
    }
    case WEFT_UINT64:
    case WEFT_INT64: {
        LOAD(int64_t, p);
        return value;
    }
    default: {
        double value = weft_tensor_get(t, index);
        if (isnan(value)) {
            return 0;
        }
        return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
    }
    }
}

#undef LOAD

/* Saturates and turns NaN into 0, as a cast does. */
static int64_t saturate(double value, double low, double high)
{
    if (isnan(value)) {
        return 0;
    }
    return (int64_t)(value < low ? low : value > high ? high : value);
}

static int64_t to_integer(double value, weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BOOL:
        return value != 0;
    case WEFT_UINT8:
        return saturate(value, 0, UINT8_MAX);
    case WEFT_UINT16:
        return saturate(value, 0, UINT16_MAX);
    case WEFT_UINT32:
        return saturate(value, 0, UINT32_MAX);
    case WEFT_INT8:
        return saturate(value, INT8_MIN, INT8_MAX);
    case WEFT_INT16:
        return saturate(value, INT16_MIN, INT16_MAX);
    case WEFT_INT32:
        return saturate(value, INT32_MIN, INT32_MAX);
    case WEFT_UINT64:
        if (isnan(value) || value <= 0) {
            return 0;
        }
        return (int64_t)(value >= 0x1p64 ? UINT64_MAX : (uint64_t)value);
    default:
        if (isnan(value)) {
            return 0;
        }
        return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : (int64_t)value;
    }
}

void weft_tensor_set(const weft_tensor *t, int64_t index, double value)
{
    char *p = address(t, index);
    switch (t->dtype) {
    case WEFT_FLOAT16: {
        uint16_t bits = weft_float_to_float16((float)value);
        memcpy(p, &bits, sizeof bits);
        break;
    }
    case WEFT_BFLOAT16: {
        uint16_t bits = weft_float_to_bfloat16((float)value);
        memcpy(p, &bits, sizeof bits);
        break;
    }
    case WEFT_FLOAT32: {
        float f = (float)value;
        memcpy(p, &f, sizeof f);
        break;
    }
    case WEFT_FLOAT64:
        memcpy(p, &value, sizeof value);
        break;
    case WEFT_COMPLEX64: {
        weft_complex64 c = {(float)value, 0};
        memcpy(p, &c, sizeof c);
        break;
    }
    default:
        weft_tensor_set_int(t, index, to_integer(value, t->dtype));
    }
}

void weft_tensor_set_int(const weft_tensor *t, int64_t index, int64_t value)
{
    char *p = address(t, index);
    switch (weft_dtype_class(t->dtype)) {
    case WEFT_CLASS_BOOL:
        *p = value != 0;
        break;
    case WEFT_CLASS_INTEGER: /* little-endian: the low bytes come first */
        memcpy(p, &value, weft_dtype_size(t->dtype));
        break;
    default:
        weft_tensor_set(t, index, (double)value);
    }
}
