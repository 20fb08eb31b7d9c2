/* weft/dtype.h -- element types and type promotion. */
#ifndef WEFT_DTYPE_H
#define WEFT_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Values are stable: they are written into exported files. */
typedef enum weft_dtype {
    WEFT_BOOL = 0, /* one byte, 0 or 1 */
    WEFT_UINT8,
    WEFT_UINT16,
    WEFT_UINT32,
    WEFT_UINT64,
    WEFT_INT8,
    WEFT_INT16,
    WEFT_INT32,
    WEFT_INT64,
    WEFT_FLOAT16,
    WEFT_BFLOAT16,
    WEFT_FLOAT32,
    WEFT_FLOAT64,
    WEFT_COMPLEX64, /* two float32: real, imaginary */
    WEFT_DTYPE_COUNT
} weft_dtype;

typedef struct weft_complex64 {
    float re, im;
} weft_complex64;

/* What the scalar expression of an elementwise op is computed in (op.h). */
typedef enum weft_class {
    WEFT_CLASS_REAL,    /* float for 16- and 32-bit floats, double for float64 */
    WEFT_CLASS_INTEGER, /* 64-bit wrapping, signed or unsigned as the dtype is */
    WEFT_CLASS_BOOL,
    WEFT_CLASS_COMPLEX,
    WEFT_CLASS_COUNT
} weft_class;

/* A number that is no dtype has the name "no dtype", size 1 and no kind; what would make an array
 * of it gives an error array. */
WEFT_API size_t weft_dtype_size(weft_dtype dtype);      /* bytes of one element */
WEFT_API const char *weft_dtype_name(weft_dtype dtype); /* "float32"; a literal */
/* The class that elementwise ops compute in for this dtype. */
WEFT_API weft_class weft_dtype_class(weft_dtype dtype);
WEFT_API bool weft_dtype_is_float(weft_dtype dtype);   /* the four real floating types */
WEFT_API bool weft_dtype_is_integer(weft_dtype dtype); /* u8..i64; bool is not */
WEFT_API bool weft_dtype_is_signed(weft_dtype dtype);  /* i8..i64 */

/* Finds a dtype by name; false leaves *out as it was. */
WEFT_API bool weft_dtype_parse(const char *name, weft_dtype *out) WEFT_NONNULL(2);

/* The promoted dtype of two arrays, from the symmetric table that JAX and MLX use:
 * u64 with a signed type is float32; float16 with bfloat16 is float32; an integer with a float is
 * that float; anything with complex64 is complex64. */
WEFT_API weft_dtype weft_promote(weft_dtype a, weft_dtype b);

/* Whether promotion of `from` and `to` gives `to`. */
WEFT_API bool weft_can_cast(weft_dtype from, weft_dtype to);

/* The kinds of NumPy's type hierarchy. A dtype belongs to several; bool only to the generic kind.
 */
typedef enum weft_kind {
    WEFT_KIND_GENERIC, /* all */
    WEFT_KIND_NUMBER,  /* integers, floats, complex */
    WEFT_KIND_INTEGER,
    WEFT_KIND_SIGNED_INTEGER,
    WEFT_KIND_UNSIGNED_INTEGER,
    WEFT_KIND_INEXACT, /* floats, complex */
    WEFT_KIND_FLOATING,
    WEFT_KIND_COMPLEX
} weft_kind;
WEFT_API bool weft_is_dtype(weft_dtype dtype, weft_kind kind);

/* The limits of a float dtype; for complex64 those of its parts. False: the dtype is not a float.
 */
typedef struct weft_finfo {
    int bits;
    double min, max;        /* the lowest and the largest finite number */
    double eps;             /* from 1 to the next number */
    double smallest_normal; /* positive */
    double smallest_subnormal;
} weft_finfo;
WEFT_API bool weft_finfo_of(weft_dtype dtype, weft_finfo *out) WEFT_NONNULL(2);

/* The limits of an integer dtype. False: the dtype is not an integer. */
typedef struct weft_iinfo {
    int bits;
    int64_t min;
    uint64_t max;
} weft_iinfo;
WEFT_API bool weft_iinfo_of(weft_dtype dtype, weft_iinfo *out) WEFT_NONNULL(2);

/* Storage conversions of the 16-bit floats, round to nearest even; NaN stays NaN. */
WEFT_API float weft_float16_to_float(uint16_t bits);
WEFT_API uint16_t weft_float_to_float16(float value);
WEFT_API float weft_bfloat16_to_float(uint16_t bits);
WEFT_API uint16_t weft_float_to_bfloat16(float value);

#ifdef __cplusplus
}
#endif
#endif
