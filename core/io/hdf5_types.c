/* core/io/hdf5_types.c -- maps HDF5 types to Weft's dtypes as h5py does. */
#include "core/io/hdf5_types.h"

#include <string.h>

/* A 16-bit float with that many exponent bits. */
static hid_t half_type(size_t exponent, size_t bias)
{
    const size_t mantissa = 15 - exponent;
    hid_t type = H5Tcopy(H5T_NATIVE_FLOAT);
    if (H5Tset_fields(type, 15, mantissa, exponent, 0, mantissa) < 0 || H5Tset_size(type, 2) < 0 ||
        H5Tset_ebias(type, bias) < 0) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

static hid_t bool_type(void)
{
    hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    const signed char no = 0, yes = 1;
    if (H5Tenum_insert(type, "FALSE", &no) < 0 || H5Tenum_insert(type, "TRUE", &yes) < 0) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

static hid_t complex_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(weft_complex64));
    if (H5Tinsert(type, "r", offsetof(weft_complex64, re), H5T_NATIVE_FLOAT) < 0 ||
        H5Tinsert(type, "i", offsetof(weft_complex64, im), H5T_NATIVE_FLOAT) < 0) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

hid_t weft__hdf5_type(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BOOL:
        return bool_type();
    case WEFT_UINT8:
        return H5Tcopy(H5T_NATIVE_UINT8);
    case WEFT_UINT16:
        return H5Tcopy(H5T_NATIVE_UINT16);
    case WEFT_UINT32:
        return H5Tcopy(H5T_NATIVE_UINT32);
    case WEFT_UINT64:
        return H5Tcopy(H5T_NATIVE_UINT64);
    case WEFT_INT8:
        return H5Tcopy(H5T_NATIVE_INT8);
    case WEFT_INT16:
        return H5Tcopy(H5T_NATIVE_INT16);
    case WEFT_INT32:
        return H5Tcopy(H5T_NATIVE_INT32);
    case WEFT_INT64:
        return H5Tcopy(H5T_NATIVE_INT64);
    case WEFT_FLOAT16:
        return half_type(5, 15);
    case WEFT_BFLOAT16:
        return half_type(8, 127);
    case WEFT_FLOAT32:
        return H5Tcopy(H5T_NATIVE_FLOAT);
    case WEFT_FLOAT64:
        return H5Tcopy(H5T_NATIVE_DOUBLE);
    default:
        return complex_type();
    }
}

static bool integer_dtype(hid_t type, weft_dtype *out)
{
    static const weft_dtype by_size[2][9] = {
        {[1] = WEFT_UINT8, [2] = WEFT_UINT16, [4] = WEFT_UINT32, [8] = WEFT_UINT64},
        {[1] = WEFT_INT8, [2] = WEFT_INT16, [4] = WEFT_INT32, [8] = WEFT_INT64},
    };
    size_t size = H5Tget_size(type);
    if (size > 8 || (size & (size - 1)) != 0) {
        return false;
    }
    *out = by_size[H5Tget_sign(type) == H5T_SGN_2][size];
    return true;
}

static bool float_dtype(hid_t type, weft_dtype *out)
{
    size_t sign, exponent_at, exponent, mantissa_at, mantissa;
    size_t size = H5Tget_size(type);
    if (H5Tget_fields(type, &sign, &exponent_at, &exponent, &mantissa_at, &mantissa) < 0) {
        return false;
    }
    if (size == 2 && (exponent == 5 || exponent == 8)) {
        *out = exponent == 5 ? WEFT_FLOAT16 : WEFT_BFLOAT16;
        return true;
    }
    *out = size == 4 ? WEFT_FLOAT32 : WEFT_FLOAT64;
    return size == 4 || size == 8;
}

/* Whether the type is a compound of two float32, r and i. */
static bool is_complex(hid_t type)
{
    bool is = H5Tget_nmembers(type) == 2 && H5Tget_member_index(type, "r") == 0 &&
              H5Tget_member_index(type, "i") == 1;
    for (unsigned i = 0; is && i < 2; i++) {
        hid_t member = H5Tget_member_type(type, i);
        is = H5Tget_class(member) == H5T_FLOAT && H5Tget_size(member) == sizeof(float);
        H5Tclose(member);
    }
    return is;
}

/* Whether the type is an enum of FALSE, 0, and TRUE, 1. */
static bool is_bool(hid_t type)
{
    signed char value[8] = {0};
    bool is = H5Tget_nmembers(type) == 2 && H5Tget_size(type) == 1;
    is = is && H5Tenum_valueof(type, "FALSE", value) >= 0 && value[0] == 0;
    return is && H5Tenum_valueof(type, "TRUE", value) >= 0 && value[0] == 1;
}

bool weft__hdf5_dtype(hid_t type, weft_dtype *out)
{
    switch (H5Tget_class(type)) {
    case H5T_INTEGER:
        return integer_dtype(type, out);
    case H5T_FLOAT:
        return float_dtype(type, out);
    case H5T_ENUM:
        *out = WEFT_BOOL;
        return is_bool(type);
    case H5T_COMPOUND:
        *out = WEFT_COMPLEX64;
        return is_complex(type);
    default:
        return false;
    }
}
