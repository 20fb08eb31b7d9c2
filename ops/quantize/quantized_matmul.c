/* ops/quantize/quantized_matmul.c -- weft_quantized_matmul and weft_gather_qmm: convert batches and
 * dtypes for the op. */
#include "ops/quantize/quantized.h"

/* A call, with x and w reshaped to (Bx, M, T) and (Bw, R, ...). */
typedef struct product_call {
    weft_quantized_params p;
    weft_array *x, *codes, *scales, *biases, *global;
    weft_dims x_batch, w_batch; /* shapes of the flattened batch axes */
    weft_dtype dtype;           /* of the result */
    int64_t M;
} product_call;

static weft_dims batch_of(weft_array *x)
{
    weft_dims shape = weft_shape(x);
    shape.n -= 2;
    return shape;
}

static weft_array *matrices(weft_array *x)
{
    weft_dims shape = weft_shape(x), batch = batch_of(x);
    return weft_reshape(
        x, WEFT_DIMS(weft__shape_size(&batch), shape.at[shape.n - 2], shape.at[shape.n - 1]));
}

/* Returns NULL, or an error array. */
static weft_array *prepare(product_call *c, const char *where, weft_array *const tensors[4],
                           bool transposed, const weft_quantize_options *options,
                           weft_quantize_mode mode)
{
    weft_array *bad = weft__quantized_params(where, options, mode, &c->p);
    for (int i = 0; i < 4 && !bad; i++) {
        bad = tensors[i] ? (weft_ok(tensors[i]) ? NULL : tensors[i])
              : i < 3    ? weft_error_array("%s: tensor %d of 3 is NULL", where, i)
                         : NULL;
    }
    bad = bad ? bad : weft__check_biases(where, &c->p, tensors[3]);
    if (bad) {
        return bad;
    }
    c->p.transposed = transposed;
    c->x = as_inexact(tensors[0]);
    c->dtype = weft_dtype_of(c->x);
    c->scales = tensors[2];
    c->biases = tensors[3];
    c->global = c->p.has_global ? options->global_scale : NULL;
    if (is_affine(&c->p)) {
        c->dtype = weft_promote(c->dtype,
                                weft_promote(weft_dtype_of(c->scales), weft_dtype_of(c->biases)));
        c->scales = weft_astype(c->scales, c->dtype);
        c->biases = weft_astype(c->biases, c->dtype);
    }
    if (weft_ndim(c->x) < 2 || weft_ndim(tensors[1]) < 2 ||
        weft_ndim(tensors[1]) != weft_ndim(c->scales)) {
        return weft_error_array("%s: expected matrices, got x, codes and scales of rank %d, %d, %d",
                                where, weft_ndim(c->x), weft_ndim(tensors[1]),
                                weft_ndim(c->scales));
    }
    c->x_batch = batch_of(c->x);
    c->w_batch = batch_of(tensors[1]);
    c->M = weft_dim(c->x, -2);
    c->x = weft_astype(matrices(c->x), c->global ? WEFT_FLOAT32 : c->dtype);
    c->codes = matrices(tensors[1]);
    c->scales = matrices(c->scales);
    c->biases = c->biases ? matrices(c->biases) : NULL;
    c->p.has_global = false;
    return NULL;
}

/* Reshapes (J, M, C) to the batch axes before M, and multiplies by the global scale. */
static weft_array *finish(const product_call *c, weft_array *y, const weft_dims *batch, int64_t M)
{
    if (c->global) {
        y = weft_multiply(y, weft_divide(c->global, weft_scalar(2688, WEFT_FLOAT32)));
    }
    weft_dims shape = *batch;
    shape.at[shape.n++] = M;
    shape.at[shape.n++] = weft_dim(y, -1);
    return weft_astype(weft_reshape(y, shape), c->dtype);
}

static weft_array *product(const product_call *c, weft_array *lhs, weft_array *rhs)
{
    return weft__quantized_product(c->x, c->codes, c->scales, c->biases, lhs, rhs, c->p);
}

/* Flat indices of the matrices in a batch of `shape`, broadcast to `to` and flattened. */
static weft_array *broadcast_numbers(weft_array *like, const weft_dims *shape, const weft_dims *to)
{
    double n = (double)weft__shape_size(shape);
    weft_array *all = weft_to(weft_arange(0, n, 1, WEFT_INT32), weft_device_of(like));
    all = weft_broadcast_to(weft_reshape(all, *shape), *to);
    return weft_reshape(all, WEFT_DIMS(weft__shape_size(to)));
}

/* ---- quantized_matmul ----------------------------------------------------------------------- */

static weft_array *quantized_matmul(product_call *c)
{
    weft_dims batch;
    const int64_t Bx = weft__shape_size(&c->x_batch);
    if (weft__shape_size(&c->w_batch) == 1 && c->w_batch.n <= c->x_batch.n) {
        /* A single matrix w: all rows of x in one product. */
        c->x = weft_reshape(c->x, WEFT_DIMS(1, Bx * c->M, weft_dim(c->x, -1)));
        return finish(c, product(c, NULL, NULL), &c->x_batch, c->M);
    }
    if (!weft__shape_broadcast(&c->x_batch, &c->w_batch, &batch)) {
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        return weft_error_array("quantized_matmul: batch axes do not broadcast: %s and %s",
                                weft__shape_text(&c->x_batch, a), weft__shape_text(&c->w_batch, b));
    }
    if (weft__shape_equal(&c->x_batch, &c->w_batch)) {
        return finish(c, product(c, NULL, NULL), &batch, c->M);
    }
    weft_array *lhs = broadcast_numbers(c->x, &c->x_batch, &batch);
    weft_array *rhs = broadcast_numbers(c->x, &c->w_batch, &batch);
    return finish(c, product(c, lhs, rhs), &batch, c->M);
}

weft_array *weft_quantized_matmul(weft_array *x, weft_array *codes, weft_array *scales,
                                  weft_array *biases, bool transposed,
                                  const weft_quantize_options *options)
{
    weft_scope_open();
    product_call c;
    bool vector = weft_ok(x) && weft_ndim(x) == 1;
    weft_array *const tensors[] = {vector ? weft_expand_dims(x, 0) : x, codes, scales, biases};
    weft_array *bad = prepare(&c, "quantized_matmul", tensors, transposed, options, WEFT_AFFINE);
    weft_array *y = bad ? bad : quantized_matmul(&c);
    return weft_scope_close(vector && weft_ok(y) ? weft_squeeze(y, -2) : y);
}

/* ---- gather_qmm ----------------------------------------------------------------------------- */

/* The given indices, or the indices of all matrices in the shape of their batch. */
static weft_array *indices_or_all(weft_array *indices, const product_call *c,
                                  const weft_dims *batch)
{
    return indices ? indices : weft_reshape(broadcast_numbers(c->x, batch, batch), *batch);
}

weft_array *weft_gather_qmm(weft_array *x, weft_array *codes, weft_array *scales,
                            weft_array *biases, weft_array *lhs, weft_array *rhs, bool transposed,
                            const weft_quantize_options *options)
{
    weft_scope_open();
    product_call c;
    weft_array *const tensors[] = {x, codes, scales, biases};
    weft_array *bad = prepare(&c, "gather_qmm", tensors, transposed, options, WEFT_AFFINE);
    if (bad || (lhs && !weft_ok(lhs)) || (rhs && !weft_ok(rhs))) {
        return weft_scope_close(bad ? bad : lhs && !weft_ok(lhs) ? lhs : rhs);
    }
    lhs = indices_or_all(lhs, &c, &c.x_batch);
    rhs = indices_or_all(rhs, &c, &c.w_batch);
    weft_dims left = weft_shape(lhs), right = weft_shape(rhs), batch;
    if (!weft__shape_broadcast(&left, &right, &batch)) {
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        return weft_scope_close(weft_error_array("gather_qmm: indices do not broadcast: %s and %s",
                                                 weft__shape_text(&left, a),
                                                 weft__shape_text(&right, b)));
    }
    weft_dims flat = WEFT_DIMS(weft__shape_size(&batch));
    lhs = weft_reshape(weft_broadcast_to(lhs, batch), flat);
    rhs = weft_reshape(weft_broadcast_to(rhs, batch), flat);
    return weft_scope_close(finish(&c, product(&c, lhs, rhs), &batch, c.M));
}
