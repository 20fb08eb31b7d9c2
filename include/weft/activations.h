/* weft/activations.h -- activation functions.
 *
 * The activation functions of MLX. Some are single ops in other headers: weft_sigmoid, weft_relu,
 * weft_silu, weft_softplus, weft_tanh, weft_gelu and weft_gelu_tanh (MLX's gelu_approx) in
 * elementwise.h, weft_softmax and weft_log_softmax in reduce.h. Results have x's shape and dtype;
 * integers are converted to float32 where the formula needs fractions. Common rules: ops.h.
 */
#ifndef WEFT_ACTIVATIONS_H
#define WEFT_ACTIVATIONS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

WEFT_API weft_array *weft_relu2(weft_array *x); /* max(x, 0)^2 */
WEFT_API weft_array *weft_relu6(weft_array *x); /* min(max(x, 0), 6) */
/* max(slope x, x); MLX's slope is 0.01. */
WEFT_API weft_array *weft_leaky_relu(weft_array *x, double slope);
/* max(x, 0) + alpha min(x, 0); alpha is broadcast with x. (He et al. 2015) */
WEFT_API weft_array *weft_prelu(weft_array *x, weft_array *alpha);

/* x where x > 0, else alpha (exp(x) - 1); MLX's alpha is 1. (Clevert et al. 2015) */
WEFT_API weft_array *weft_elu(weft_array *x, double alpha);
/* max(x, 0) + min(0, alpha (exp(x / alpha) - 1)); MLX's alpha is 1. (Barron 2017) */
WEFT_API weft_array *weft_celu(weft_array *x, double alpha);
/* 1.0507... elu(x, 1.6732...), with all digits of the constants. (Klambauer et al. 2017) */
WEFT_API weft_array *weft_selu(weft_array *x);

WEFT_API weft_array *weft_gelu_fast_approx(weft_array *x); /* x sigmoid(1.702 x) */
WEFT_API weft_array *weft_mish(weft_array *x);             /* x tanh(softplus(x)) (Misra 2019) */
WEFT_API weft_array *weft_log_sigmoid(weft_array *x);      /* -softplus(-x) */
WEFT_API weft_array *weft_softsign(weft_array *x);         /* x / (1 + |x|) */
/* The first half of x along the axis, whose length is even, times the sigmoid of the second half.
 * (Dauphin et al. 2016) */
WEFT_API weft_array *weft_glu(weft_array *x, int axis);
WEFT_API weft_array *weft_softmin(weft_array *x, int axis); /* softmax(-x) */

WEFT_API weft_array *weft_hardswish(weft_array *x); /* x min(max(x + 3, 0), 6) / 6 */
/* min(max(x, low), high); MLX: -1 and 1. */
WEFT_API weft_array *weft_hard_tanh(weft_array *x, double low, double high);
/* x where |x| > bound, else 0; MLX's bound is 0.5. */
WEFT_API weft_array *weft_hard_shrink(weft_array *x, double bound);
/* x - sign(x) bound where |x| > bound, else 0; MLX's bound is 0.5. */
WEFT_API weft_array *weft_softshrink(weft_array *x, double bound);
/* int32: 1 where x >= threshold, else 0, as in MLX. There is no gradient. */
WEFT_API weft_array *weft_binary_step(weft_array *x, double threshold);

#ifdef __cplusplus
}
#endif
#endif
