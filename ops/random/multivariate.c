/* ops/random/multivariate.c -- the multivariate normal distribution. */
#include "ops/kernel.h"
#include "ops/random/random.h"
#include "weft/linalg.h"

/* U diag(sqrt(s)) V^T, with negative eigenvalues, which are rounding errors, treated as 0. */
static weft_array *root_of(weft_array *u, weft_array *s, weft_array *vt)
{
    weft_array *root = weft_sqrt(weft_maximum(s, weft_scalar(0, weft_dtype_of(s))));
    return weft_matmul(weft_multiply(u, weft_expand_dims(root, -2)), vt);
}

/* F with F F^T = covariance. The square roots from svd and eigh are symmetric, so the signs of the
 * vectors do not matter. */
static weft_array *factor(weft_array *covariance, weft_normal_method method)
{
    weft_array *u, *s, *vt;
    switch (method) {
    case WEFT_NORMAL_CHOLESKY:
        return weft_cholesky(covariance, false);
    case WEFT_NORMAL_EIGH:
        weft_eigh(covariance, false, &s, &u);
        return root_of(u, s, weft_swapaxes(u, -1, -2));
    default:
        weft_svd(covariance, true, &u, &s, &vt);
        return root_of(u, s, vt);
    }
}

static weft_dims without_last(weft_dims shape, int n)
{
    shape.n -= n;
    return shape;
}

/* Computes the batch shape; false, with an error array, if the arguments do not fit. */
static bool batch_shape(weft_array *mean, weft_array *covariance, weft_dims *batch,
                        weft_array **failed)
{
    weft_dims m = weft_shape(mean), c = weft_shape(covariance);
    char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
    if (m.n < 1 || c.n < 2 || c.at[c.n - 1] != c.at[c.n - 2] || c.at[c.n - 1] != m.at[m.n - 1]) {
        *failed = weft_error_array("multivariate_normal: expected a mean of (..., N) and a "
                                   "covariance of (..., N, N), got %s and %s",
                                   weft__shape_text(&m, a), weft__shape_text(&c, b));
        return false;
    }
    weft_dims all[] = {without_last(m, 1), without_last(c, 2), *batch}, wanted = *batch;
    if (!weft_broadcast_shapes(all, 3, batch) ||
        (wanted.n > 0 && !weft__shape_equal(&wanted, batch)) || batch->n + 2 > WEFT_MAX_DIMS) {
        *failed = weft_error_array("multivariate_normal: a mean of %s and a covariance of %s do "
                                   "not broadcast to the shape that is drawn",
                                   weft__shape_text(&m, a), weft__shape_text(&c, b));
        return false;
    }
    return true;
}

weft_array *weft_random_multivariate_normal(weft_array *key, weft_dims shape, weft_array *mean,
                                            weft_array *covariance, weft_normal_method method,
                                            weft_dtype dtype)
{
    weft_array *failed = weft__random_check("multivariate_normal", dtype);
    failed = failed ? failed : !weft_ok(mean) ? mean : !weft_ok(covariance) ? covariance : NULL;
    if (failed || !batch_shape(mean, covariance, &shape, &failed)) {
        return failed;
    }
    weft_scope_open();
    weft_dtype wide = weft_promote(dtype, WEFT_FLOAT32);
    bool one = weft_ndim(covariance) == 2 && shape.n > 0; /* one matrix for the whole batch: a
                                                           * single product */
    shape.at[shape.n++] = weft_dim(mean, -1);
    weft_array *z = weft_random_normal(key, shape, 0, 1, wide);
    weft_array *f = weft_swapaxes(factor(weft_astype(covariance, wide), method), -1, -2);
    weft_array *x =
        one ? weft_matmul(z, f) : weft_squeeze(weft_matmul(weft_expand_dims(z, -2), f), -2);
    return weft_scope_close(weft_astype(weft_add(x, weft_astype(mean, wide)), dtype));
}
