/* ops/kernel.h -- helpers for infer functions, test cases and reference kernels. */
#ifndef OPS_KERNEL_H
#define OPS_KERNEL_H

#include <string.h>

#include "ops/common.h"

/* A weft_dims as a constant initializer, which the compound literal of WEFT_DIMS cannot be. */
#define DIMS(...)                                                                                  \
    {                                                                                              \
        .n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .at = { __VA_ARGS__ }      \
    }

/* For weft_op.no_test_dtypes. */
#define DTYPE_BIT(dtype) (1u << (dtype))
enum {
    DTYPE_INTEGERS = DTYPE_BIT(WEFT_UINT8) | DTYPE_BIT(WEFT_UINT16) | DTYPE_BIT(WEFT_UINT32) |
                     DTYPE_BIT(WEFT_UINT64) | DTYPE_BIT(WEFT_INT8) | DTYPE_BIT(WEFT_INT16) |
                     DTYPE_BIT(WEFT_INT32) | DTYPE_BIT(WEFT_INT64),
    DTYPE_NOT_INEXACT = DTYPE_INTEGERS | DTYPE_BIT(WEFT_BOOL),
    DTYPE_NOT_FLOAT = DTYPE_NOT_INEXACT | DTYPE_BIT(WEFT_COMPLEX64)
};

/* The field table of weft_axis_params. */
extern const weft_field weft__axis_fields[];

/* For infer of ops with one axis: the index from the front of `axis` in a shape of rank ndim, or -1
 * with the reason. Parameters must count axes from the end, which kernels rely on but files may
 * violate. */
int weft__check_axis(int64_t axis, int ndim, weft_why *why);
/* Checks that input i has an integer dtype. */
bool weft__expect_indices(const weft_array *node, int i, weft_why *why);

/* Converts `axis` to count from the end. False: *failed is x, if that has failed, or an error
 * array. */
bool weft__axis_from_end(const char *op, weft_array *x, int64_t axis, int64_t *out,
                         weft_array **failed);

/* Sets *failed to NULL, or to an error array when a caller's list has more than WEFT_MAX_DIMS
 * numbers. Functions that read such a list before an op does check it first. */
bool weft__list_fits(const char *op, const weft_dims *list, weft_array **failed);

/* Axes counted from the end in the given order; they must be distinct. */
bool weft__axes_in_order(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why);
/* The same for infer, on axes among the parameters. */
bool weft__check_axes(const weft_dims *axes, int ndim, weft_dims *out, weft_why *why);

/* Element i of an integer tensor as an index into an axis of `length`; negative indices count from
 * the end. Out of range, the failure names op, index and length. */
weft_status weft__index_at(const weft_call *call, const weft_tensor *indices, int64_t i,
                           int64_t length, int64_t *out);

/* Zeros on the device of `like`. */
weft_array *weft__zeros_on_device_of(weft_array *like, weft_dims shape, weft_dtype dtype);

/* start + i * step for i below count, each computed in double. */
weft_array *weft__arange_count(double start, double step, int64_t count, weft_dtype dtype);

static inline bool set_spec(weft_spec *out, weft_dtype dtype, const weft_dims *shape)
{
    *out = (weft_spec){.dtype = dtype, .shape = *shape};
    return true;
}

/* The multi-index of a row-major index, and back. */
static inline void index_split(const weft_dims *shape, int64_t index, int64_t *at)
{
    for (int i = shape->n - 1; i >= 0; i--) {
        at[i] = index % shape->at[i];
        index /= shape->at[i];
    }
}

static inline int64_t index_join(const weft_dims *shape, const int64_t *at)
{
    int64_t index = 0;
    for (int i = 0; i < shape->n; i++) {
        index = index * shape->at[i] + at[i];
    }
    return index;
}

/* Copies one element between tensors of one dtype, bit for bit. */
static inline void move_element(const weft_tensor *from, int64_t i, const weft_tensor *to,
                                int64_t o)
{
    int64_t size = (int64_t)weft_dtype_size(from->dtype);
    memcpy((char *)to->data + weft_tensor_offset(to, o) * size,
           (const char *)from->data + weft_tensor_offset(from, i) * size, (size_t)size);
}

/* Reads element `index` of a complex64 tensor as two doubles, in which sums are accumulated. */
static inline void get_complex(const weft_tensor *t, int64_t index, double *re, double *im)
{
    weft_complex64 z;
    memcpy(&z, (const char *)t->data + weft_tensor_offset(t, index) * (int64_t)sizeof z, sizeof z);
    *re = (double)z.re;
    *im = (double)z.im;
}

/* Stores element `index` of a contiguous tensor. */
static inline void set_complex(const weft_tensor *t, int64_t index, double re, double im)
{
    const weft_complex64 z = {(float)re, (float)im};
    memcpy((char *)t->data + index * (int64_t)sizeof z, &z, sizeof z);
}

/* (re, im) times (by_re, by_im) */
static inline void times_complex(double *re, double *im, double by_re, double by_im)
{
    const double product = *re * by_re - *im * by_im;
    *im = *re * by_im + *im * by_re;
    *re = product;
}

/* Whether element a of s sorts before element b of t, tensors of one dtype. NaN sorts last. Complex
 * numbers sort by their real, then their imaginary parts; those with a NaN part last. */
bool weft__sorts_before(const weft_tensor *s, int64_t a, const weft_tensor *t, int64_t b);

/* A shape split at one axis: element (o, i, j) has row-major index (o * length + i) * inner + j. */
typedef struct axis_extents {
    int64_t outer, length, inner;
} axis_extents;

static inline axis_extents extents_of(const weft_dims *shape, int64_t axis)
{
    int front = (int)(axis < 0 ? axis + shape->n : axis);
    axis_extents e = {1, shape->at[front], 1};
    for (int i = 0; i < shape->n; i++) {
        if (i < front) {
            e.outer *= shape->at[i];
        } else if (i > front) {
            e.inner *= shape->at[i];
        }
    }
    return e;
}

#endif
