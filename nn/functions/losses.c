/* nn/functions/losses.c -- losses for numbers, vectors and rankings, and helpers of all losses. */
#include "nn/functions/losses.h"

#include <math.h>

#include "core/shape.h"

weft_array *weft__loss_wide(weft_array *x)
{
    return weft_dtype_of(x) == WEFT_FLOAT64 ? x : weft_astype(x, WEFT_FLOAT32);
}

weft_array *weft__loss_unequal(const char *loss, weft_array *a, weft_array *b)
{
    char expected[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    if (!weft_ok(a) || !weft_ok(b))
        return weft_ok(a) ? b : a;
    const weft_dims shape = weft_shape(a), other = weft_shape(b);
    if (weft__shape_equal(&shape, &other))
        return NULL;
    return weft_error_array("%s: shapes differ: %s and %s", loss,
                            weft__shape_text(&shape, expected), weft__shape_text(&other, got));
}

weft_array *weft__loss_close(weft_array *losses, weft_array *weights, weft_reduction reduction)
{
    if (weights) {
        weft_array *unequal = weft__loss_unequal("weights", losses, weights);
        losses = unequal ? unequal : weft_multiply(losses, weft__loss_wide(weights));
    }
    if (reduction == WEFT_REDUCTION_MEAN)
        losses = weft_mean(losses, WEFT_ALL_AXES, false);
    else if (reduction == WEFT_REDUCTION_SUM)
        losses = weft_sum(losses, WEFT_ALL_AXES, false);
    return weft_scope_close(losses);
}

static weft_array *scalar_as(weft_array *x, double value)
{
    return weft_scalar(value, weft_dtype_of(x));
}

/* a - b in at least float32, for arrays of one shape. */
static weft_array *difference(const char *loss, weft_array *a, weft_array *b)
{
    weft_array *unequal = weft__loss_unequal(loss, a, b);
    return unequal ? unequal : weft_subtract(weft__loss_wide(a), weft__loss_wide(b));
}

/* ---- numbers -------------------------------------------------------------------------------- */

weft_array *weft_loss_l1(weft_array *predictions, weft_array *targets, weft_reduction reduction)
{
    weft_scope_open();
    return weft__loss_close(weft_abs(difference("l1", predictions, targets)), NULL, reduction);
}

weft_array *weft_loss_mse(weft_array *predictions, weft_array *targets, weft_reduction reduction)
{
    weft_scope_open();
    return weft__loss_close(weft_square(difference("mse", predictions, targets)), NULL, reduction);
}

weft_array *weft_loss_smooth_l1(weft_array *predictions, weft_array *targets, double beta,
                                weft_reduction reduction)
{
    weft_scope_open();
    if (!(beta > 0))
        return weft_scope_close(
            weft_error_array("smooth_l1: expected a positive beta, got %g", beta));
    weft_array *d = weft_abs(difference("smooth_l1", predictions, targets));
    weft_array *near = weft_scale(weft_square(d), 0.5 / beta);
    weft_array *far = weft_add_scalar(d, -0.5 * beta);
    return weft__loss_close(weft_where(weft_less(d, scalar_as(d, beta)), near, far), NULL,
                            reduction);
}

weft_array *weft_loss_huber(weft_array *inputs, weft_array *targets, double delta,
                            weft_reduction reduction)
{
    weft_scope_open();
    weft_array *d = weft_abs(difference("huber", inputs, targets));
    weft_array *near = weft_scale(weft_square(d), 0.5);
    weft_array *far = weft_scale(weft_add_scalar(d, -0.5 * delta), delta);
    return weft__loss_close(weft_where(weft_less_equal(d, scalar_as(d, delta)), near, far), NULL,
                            reduction);
}

weft_array *weft_loss_log_cosh(weft_array *inputs, weft_array *targets, weft_reduction reduction)
{
    weft_scope_open();
    /* log cosh d = d + log(1 + exp(-2 d)) - log 2, which cannot overflow. */
    weft_array *d = difference("log_cosh", inputs, targets);
    weft_array *y = weft_add(d, weft_softplus(weft_scale(d, -2)));
    return weft__loss_close(weft_add_scalar(y, -M_LN2), NULL, reduction);
}

weft_array *weft_loss_gaussian_nll(weft_array *inputs, weft_array *targets, weft_array *variances,
                                   bool full, double eps, weft_reduction reduction)
{
    weft_scope_open();
    weft_array *unequal = weft__loss_unequal("gaussian_nll", inputs, variances);
    if (unequal)
        return weft_scope_close(unequal);
    weft_array *v = weft__loss_wide(variances);
    v = weft_maximum(v, scalar_as(v, eps));
    weft_array *d = difference("gaussian_nll", targets, inputs);
    weft_array *y = weft_scale(weft_add(weft_log(v), weft_divide(weft_square(d), v)), 0.5);
    if (full)
        y = weft_add_scalar(y, 0.5 * log(2 * M_PI));
    return weft__loss_close(y, NULL, reduction);
}

/* ---- vectors and rankings ------------------------------------------------------------------- */

/* (sum |a - b|^p + eps)^(1/p) */
static weft_array *distance(weft_array *a, weft_array *b, int axis, double p, double eps)
{
    weft_array *d = weft_abs(weft_subtract(weft__loss_wide(a), weft__loss_wide(b)));
    weft_array *sum = weft_sum(weft_power_scalar(d, p), WEFT_DIMS(axis), false);
    return weft_power_scalar(weft_add_scalar(sum, eps), 1 / p);
}

weft_array *weft_loss_triplet(weft_array *anchors, weft_array *positives, weft_array *negatives,
                              int axis, double p, double margin, double eps,
                              weft_reduction reduction)
{
    weft_scope_open();
    weft_array *near = distance(anchors, positives, axis, p, eps);
    weft_array *far = distance(anchors, negatives, axis, p, eps);
    weft_array *y = weft_relu(weft_add_scalar(weft_subtract(near, far), margin));
    return weft__loss_close(y, NULL, reduction);
}

weft_array *weft_loss_cosine_similarity(weft_array *a, weft_array *b, int axis, double eps,
                                        weft_reduction reduction)
{
    weft_scope_open();
    a = weft__loss_wide(a);
    b = weft__loss_wide(b);
    const weft_dims axes = WEFT_DIMS(axis);
    weft_array *norms = weft_multiply(weft_norm(a, axes, false), weft_norm(b, axes, false));
    weft_array *products = weft_sum(weft_multiply(a, b), axes, false);
    return weft__loss_close(weft_divide(products, weft_maximum(norms, scalar_as(norms, eps))), NULL,
                            reduction);
}

weft_array *weft_loss_margin_ranking(weft_array *a, weft_array *b, weft_array *targets,
                                     double margin, weft_reduction reduction)
{
    weft_scope_open();
    weft_array *unequal = weft__loss_unequal("margin_ranking", a, targets);
    if (unequal)
        return weft_scope_close(unequal);
    weft_array *d = difference("margin_ranking", b, a);
    weft_array *y = weft_add_scalar(weft_multiply(weft__loss_wide(targets), d), margin);
    return weft__loss_close(weft_relu(y), NULL, reduction);
}
