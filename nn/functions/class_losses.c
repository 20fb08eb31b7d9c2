/* nn/functions/class_losses.c -- losses for probabilities and classes. */
#include "nn/functions/losses.h"
#include "weft/transforms.h"

/* ---- cross-entropy -------------------------------------------------------------------------- */

/* Cross-entropy with integer targets and classes on the last axis. */
static weft_array *of_classes(weft_array *logits, weft_array *targets, double smoothing)
{
    weft_array *y = weft_cross_entropy_rows(logits, targets);
    if (smoothing == 0)
        return y;
    weft_array *all = weft_subtract(weft_logsumexp(logits, WEFT_DIMS(-1), false),
                                    weft_mean(logits, WEFT_DIMS(-1), false));
    y = weft_add(weft_scale(y, 1 - smoothing), weft_scale(all, smoothing));
    weft_array *counts = weft_greater_equal(targets, weft_scalar(0, weft_dtype_of(targets)));
    return weft_where(counts, y, weft_zeros_like(y));
}

/* Cross-entropy with targets that are probabilities. */
static weft_array *of_probabilities(weft_array *logits, weft_array *targets, int axis,
                                    double smoothing)
{
    const weft_dims axes = WEFT_DIMS(axis);
    weft_array *shifted = weft_subtract(logits, weft_stop_gradient(weft_max(logits, axes, true)));
    weft_array *score = weft_sum(weft_multiply(shifted, weft__loss_wide(targets)), axes, false);
    if (smoothing > 0) {
        weft_array *all = weft_mean(shifted, axes, false);
        score = weft_add(weft_scale(score, 1 - smoothing), weft_scale(all, smoothing));
    }
    return weft_subtract(weft_logsumexp(shifted, axes, false), score);
}

weft_array *weft_loss_cross_entropy(weft_array *logits, weft_array *targets, weft_array *weights,
                                    int axis, double label_smoothing, weft_reduction reduction)
{
    weft_scope_open();
    if (!(label_smoothing >= 0 && label_smoothing < 1))
        return weft_scope_close(weft_error_array(
            "cross_entropy: expected a label smoothing in [0, 1), got %g", label_smoothing));
    if (!weft_ok(logits) || !weft_ok(targets))
        return weft_scope_close(weft_ok(logits) ? targets : logits);
    weft_array *x = weft__loss_wide(logits);
    if (weft_ndim(targets) != weft_ndim(logits)) {
        weft_array *y = of_classes(weft_moveaxis(x, axis, -1), targets, label_smoothing);
        return weft__loss_close(y, weights, reduction);
    }
    weft_array *unequal = weft__loss_unequal("cross_entropy", logits, targets);
    if (unequal)
        return weft_scope_close(unequal);
    return weft__loss_close(of_probabilities(x, targets, axis, label_smoothing), weights,
                            reduction);
}

/* ---- other losses ---------------------------------------------------------------------------- */

/* log x, but at least -100, where the gradient is 0. */
static weft_array *bounded_log(weft_array *x)
{
    return weft_clip(weft_log(x), weft_scalar(-100, weft_dtype_of(x)), NULL);
}

weft_array *weft_loss_binary_cross_entropy(weft_array *inputs, weft_array *targets,
                                           weft_array *weights, bool with_logits,
                                           weft_reduction reduction)
{
    weft_scope_open();
    weft_array *unequal = weft__loss_unequal("binary_cross_entropy", inputs, targets);
    if (unequal)
        return weft_scope_close(unequal);
    weft_array *x = weft__loss_wide(inputs), *t = weft__loss_wide(targets);
    if (with_logits)
        return weft__loss_close(weft_subtract(weft_softplus(x), weft_multiply(x, t)), weights,
                                reduction);
    weft_array *yes = weft_multiply(t, bounded_log(x));
    weft_array *no = weft_multiply(weft_add_scalar(weft_negative(t), 1),
                                   bounded_log(weft_add_scalar(weft_negative(x), 1)));
    return weft__loss_close(weft_negative(weft_add(yes, no)), weights, reduction);
}

weft_array *weft_loss_nll(weft_array *inputs, weft_array *targets, int axis,
                          weft_reduction reduction)
{
    weft_scope_open();
    weft_array *x = weft__loss_wide(inputs);
    weft_array *at = weft_take_along_axis(x, weft_expand_dims(targets, axis), axis);
    return weft__loss_close(weft_negative(weft_squeeze(at, axis)), NULL, reduction);
}

weft_array *weft_loss_kl_div(weft_array *inputs, weft_array *targets, int axis,
                             weft_reduction reduction)
{
    weft_scope_open();
    weft_array *x = weft__loss_wide(inputs), *t = weft__loss_wide(targets);
    weft_array *y = weft_multiply(weft_exp(t), weft_subtract(t, x));
    return weft__loss_close(weft_sum(y, WEFT_DIMS(axis), false), NULL, reduction);
}

weft_array *weft_loss_hinge(weft_array *inputs, weft_array *targets, weft_reduction reduction)
{
    weft_scope_open();
    weft_array *xt = weft_multiply(weft__loss_wide(inputs), weft__loss_wide(targets));
    return weft__loss_close(weft_relu(weft_add_scalar(weft_negative(xt), 1)), NULL, reduction);
}
