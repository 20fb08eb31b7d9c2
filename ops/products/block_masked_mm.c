/* ops/products/block_masked_mm.c -- a matrix product with block masks on its operands and its
 * result. */
#include "ops/products/chosen.h"

/* Expands a mask (..., R, C) of blocks to the elements of a matrix (rows, columns). */
static weft_array *spread(weft_array *mask, int64_t block, int64_t rows, int64_t columns)
{
    weft_dims fine = weft_shape(mask), wide = fine, whole = fine;
    int n = fine.n;
    int64_t R = fine.at[n - 2], C = fine.at[n - 1];
    fine.n = wide.n = n + 2;
    fine.at[n - 2] = wide.at[n - 2] = R;
    fine.at[n] = wide.at[n] = C;
    fine.at[n - 1] = fine.at[n + 1] = 1;
    wide.at[n - 1] = wide.at[n + 1] = block;
    whole.at[n - 2] = R * block;
    whole.at[n - 1] = C * block;
    mask = weft_broadcast_to(weft_reshape(mask, fine), wide);
    mask = weft_reshape(mask, whole);
    return weft_slice(mask, WEFT_DIMS(-2, -1), WEFT_DIMS(0, 0), WEFT_DIMS(rows, columns),
                      (weft_dims){0});
}

/* A bool mask selects or replaces by zero; a numeric mask multiplies. */
static weft_array *masked(weft_array *x, weft_array *mask, int64_t block, const char *name)
{
    if (!mask || !weft_ok(mask) || !weft_ok(x)) {
        return mask && !weft_ok(mask) ? mask : x;
    }
    int64_t rows = weft_dim(x, -2), columns = weft_dim(x, -1);
    int64_t R = (rows + block - 1) / block, C = (columns + block - 1) / block;
    if (weft_ndim(mask) < 2 || weft_ndim(mask) + 2 > WEFT_MAX_DIMS || weft_dim(mask, -2) != R ||
        weft_dim(mask, -1) != C) {
        weft_dims shape = weft_shape(mask);
        char text[WEFT_SHAPE_TEXT];
        return weft_error_array("block_masked_mm: %s: expected (..., %lld, %lld), got %s", name,
                                (long long)R, (long long)C, weft__shape_text(&shape, text));
    }
    mask = spread(mask, block, rows, columns);
    if (weft_dtype_of(mask) == WEFT_BOOL) {
        weft_array *zero = weft_to(weft_scalar(0, weft_dtype_of(x)), weft_device_of(x));
        return weft_where(mask, x, zero);
    }
    return weft_multiply(x, weft_astype(mask, weft_dtype_of(x)));
}

weft_array *weft_block_masked_mm(weft_array *a, weft_array *b, int64_t block, weft_array *mask_out,
                                 weft_array *mask_lhs, weft_array *mask_rhs)
{
    weft_scope_open();
    if (!weft_ok(a) || !weft_ok(b)) {
        return weft_scope_close(weft_ok(a) ? b : a);
    }
    if (weft_ndim(a) < 2 || weft_ndim(b) < 2) {
        return weft_scope_close(weft_error_array(
            "block_masked_mm: expected matrices, got ranks %d and %d", weft_ndim(a), weft_ndim(b)));
    }
    if (block < 1) {
        return weft_scope_close(
            weft_error_array("block_masked_mm: blocks of %lld", (long long)block));
    }
    weft_dtype dtype = weft_promote(weft_dtype_of(a), weft_dtype_of(b));
    dtype = weft_dtype_is_float(dtype) ? dtype : WEFT_FLOAT32;
    a = masked(weft_astype(a, dtype), mask_lhs, block, "mask_lhs");
    b = masked(weft_astype(b, dtype), mask_rhs, block, "mask_rhs");
    return weft_scope_close(masked(weft_matmul(a, b), mask_out, block, "mask_out"));
}
