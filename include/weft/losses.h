/* weft/losses.h -- loss functions.
 *
 * Formulas, arguments and their order are MLX's. Predictions and targets have one shape unless said
 * otherwise. Everything is computed and returned in float32, in float64 where an input is float64.
 * The means divide by the number of losses, also where weights are given. Common rules: ops.h.
 */
#ifndef WEFT_LOSSES_H
#define WEFT_LOSSES_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_reduction {
    WEFT_REDUCTION_NONE = 0, /* every loss */
    WEFT_REDUCTION_MEAN,     /* a scalar */
    WEFT_REDUCTION_SUM
} weft_reduction;

/* ---- Classes -------------------------------------------------------------------------------- */

/* Minus the logarithm of the softmax of the logits along `axis`, at the targets: integers of the
 * logits' shape without the axis (negative targets are ignored), or probabilities in the logits'
 * shape. weights (NULL: ones) has the losses' shape and multiplies them. label_smoothing in [0, 1)
 * is the share of the target that goes to all classes alike. weft_cross_entropy_rows (neural.h) is
 * the op without these options. */
WEFT_API weft_array *weft_loss_cross_entropy(weft_array *logits, weft_array *targets,
                                             weft_array *weights, int axis, double label_smoothing,
                                             weft_reduction reduction);
/* -(t log p + (1 - t) log(1 - p)) for p = sigmoid(inputs), or p = inputs when they are no logits;
 * logarithms are at least -100 then. weights: NULL or of the inputs' shape. */
WEFT_API weft_array *weft_loss_binary_cross_entropy(weft_array *inputs, weft_array *targets,
                                                    weft_array *weights, bool with_logits,
                                                    weft_reduction reduction);
/* Minus the inputs, logarithms of probabilities along `axis`, at the integer targets. */
WEFT_API weft_array *weft_loss_nll(weft_array *inputs, weft_array *targets, int axis,
                                   weft_reduction reduction);
/* Sum along `axis` of exp(t) (t - x): both are logarithms of probabilities. */
WEFT_API weft_array *weft_loss_kl_div(weft_array *inputs, weft_array *targets, int axis,
                                      weft_reduction reduction);
/* max(0, 1 - x t), targets -1 or 1. */
WEFT_API weft_array *weft_loss_hinge(weft_array *inputs, weft_array *targets,
                                     weft_reduction reduction);

/* ---- Numbers -------------------------------------------------------------------------------- */

/* |x - t| */
WEFT_API weft_array *weft_loss_l1(weft_array *predictions, weft_array *targets,
                                  weft_reduction reduction);
/* (x - t)^2; weft_mse is its mean in one op. */
WEFT_API weft_array *weft_loss_mse(weft_array *predictions, weft_array *targets,
                                   weft_reduction reduction);
/* (x - t)^2 / (2 beta) where |x - t| < beta, else |x - t| - beta / 2. MLX's beta is 1. */
WEFT_API weft_array *weft_loss_smooth_l1(weft_array *predictions, weft_array *targets, double beta,
                                         weft_reduction reduction);
/* (x - t)^2 / 2 where |x - t| <= delta, else delta (|x - t| - delta / 2). MLX's delta is 1. */
WEFT_API weft_array *weft_loss_huber(weft_array *inputs, weft_array *targets, double delta,
                                     weft_reduction reduction);
/* log cosh(x - t) */
WEFT_API weft_array *weft_loss_log_cosh(weft_array *inputs, weft_array *targets,
                                        weft_reduction reduction);
/* (log v + (x - t)^2 / v) / 2 with v = max(variances, eps), and log(2 pi) / 2 more when `full`.
 * Variances have the inputs' shape. MLX's eps is 1e-6. */
WEFT_API weft_array *weft_loss_gaussian_nll(weft_array *inputs, weft_array *targets,
                                            weft_array *variances, bool full, double eps,
                                            weft_reduction reduction);

/* ---- Vectors and rankings ------------------------------------------------------------------- */

/* max(0, |a - p| - |a - n| + margin) with |d| = (sum |d_i|^p + eps)^(1/p) along `axis`; the three
 * broadcast. MLX: p 2, margin 1, eps 1e-6. */
WEFT_API weft_array *weft_loss_triplet(weft_array *anchors, weft_array *positives,
                                       weft_array *negatives, int axis, double p, double margin,
                                       double eps, weft_reduction reduction);
/* a . b / max(|a| |b|, eps) along `axis`: a similarity, which training makes smaller. MLX: axis 1,
 * eps 1e-8. */
WEFT_API weft_array *weft_loss_cosine_similarity(weft_array *a, weft_array *b, int axis, double eps,
                                                 weft_reduction reduction);
/* max(0, margin - t (a - b)): t is 1 where a is to rank above b, else -1. MLX's margin is 0. */
WEFT_API weft_array *weft_loss_margin_ranking(weft_array *a, weft_array *b, weft_array *targets,
                                              double margin, weft_reduction reduction);

#ifdef __cplusplus
}
#endif
#endif
