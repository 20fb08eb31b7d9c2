/* weft/ops.h -- the array operations.
 *
 * Common rules. Inputs are borrowed; the result is a temporary of the innermost scope; a failed
 * input is returned; a bad shape or dtype makes an error array. Elementwise functions promote
 * dtypes (weft_promote) and broadcast shapes as NumPy does. Axes may be negative. Functions on real
 * numbers take integers as float32 and compute 16-bit floats in float32. Names and semantics are
 * NumPy's where NumPy has the function. Letters: B batch, L query length, S key length, H heads,
 * Hk key/value heads, D head dim, E model dim, F output features, V vocabulary, R rank.
 */
#ifndef WEFT_OPS_H
#define WEFT_OPS_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Creation ------------------------------------------------------------------------------- */

WEFT_API weft_array *weft_zeros(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_ones(weft_dims shape, weft_dtype dtype);
WEFT_API weft_array *weft_full(weft_dims shape, double value, weft_dtype dtype);
WEFT_API weft_array *weft_zeros_like(weft_array *x);
WEFT_API weft_array *weft_ones_like(weft_array *x);
/* start, start + step, ... below (above, for a negative step) stop. */
WEFT_API weft_array *weft_arange(double start, double stop, double step, weft_dtype dtype);

/* ---- Elementwise: one input ----------------------------------------------------------------- */

WEFT_API weft_array *weft_negative(weft_array *x);
WEFT_API weft_array *weft_abs(weft_array *x); /* complex64: float32 magnitude */
WEFT_API weft_array *weft_sign(weft_array *x);
WEFT_API weft_array *weft_square(weft_array *x);
WEFT_API weft_array *weft_sqrt(weft_array *x);
WEFT_API weft_array *weft_rsqrt(weft_array *x);
WEFT_API weft_array *weft_reciprocal(weft_array *x);
WEFT_API weft_array *weft_exp(weft_array *x);
WEFT_API weft_array *weft_expm1(weft_array *x);
WEFT_API weft_array *weft_log(weft_array *x);
WEFT_API weft_array *weft_log1p(weft_array *x);
WEFT_API weft_array *weft_log2(weft_array *x);
WEFT_API weft_array *weft_sin(weft_array *x);
WEFT_API weft_array *weft_cos(weft_array *x);
WEFT_API weft_array *weft_tan(weft_array *x);
WEFT_API weft_array *weft_tanh(weft_array *x);
WEFT_API weft_array *weft_erf(weft_array *x);
WEFT_API weft_array *weft_erfinv(weft_array *x);
WEFT_API weft_array *weft_sigmoid(weft_array *x);
WEFT_API weft_array *weft_softplus(weft_array *x);
WEFT_API weft_array *weft_relu(weft_array *x);
WEFT_API weft_array *weft_silu(weft_array *x);      /* x sigmoid(x) */
WEFT_API weft_array *weft_gelu(weft_array *x);      /* x (1 + erf(x / sqrt 2)) / 2 */
WEFT_API weft_array *weft_gelu_tanh(weft_array *x); /* Hendrycks & Gimpel's tanh form */
WEFT_API weft_array *weft_floor(weft_array *x);     /* these four: integers unchanged */
WEFT_API weft_array *weft_ceil(weft_array *x);
WEFT_API weft_array *weft_round(weft_array *x); /* half to even */
WEFT_API weft_array *weft_trunc(weft_array *x);
WEFT_API weft_array *weft_isnan(weft_array *x); /* these four: bool */
WEFT_API weft_array *weft_isinf(weft_array *x);
WEFT_API weft_array *weft_isfinite(weft_array *x);
WEFT_API weft_array *weft_logical_not(weft_array *x);
WEFT_API weft_array *weft_bitwise_invert(weft_array *x);
/* Conversion. Float to integer saturates and NaN gives 0; to bool is x != 0; complex drops the
 * imaginary part. */
WEFT_API weft_array *weft_astype(weft_array *x, weft_dtype dtype);

/* ---- Elementwise: two and three inputs ------------------------------------------------------ */

WEFT_API weft_array *weft_add(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_subtract(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_multiply(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_divide(weft_array *a, weft_array *b); /* integers divide as float32 */
WEFT_API weft_array *weft_floor_divide(weft_array *a, weft_array *b); /* integer: x / 0 is 0 */
WEFT_API weft_array *weft_remainder(weft_array *a, weft_array *b);    /* sign of b */
WEFT_API weft_array *weft_power(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_maximum(weft_array *a, weft_array *b); /* NaN wins */
WEFT_API weft_array *weft_minimum(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_arctan2(weft_array *y, weft_array *x);
WEFT_API weft_array *weft_logaddexp(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_equal(weft_array *a, weft_array *b); /* comparisons: bool */
WEFT_API weft_array *weft_not_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_less_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_greater_equal(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_logical_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_and(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_or(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_bitwise_xor(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_left_shift(weft_array *a, weft_array *b);
WEFT_API weft_array *weft_right_shift(weft_array *a, weft_array *b);
/* condition ? a : b; condition is taken as bool. */
WEFT_API weft_array *weft_where(weft_array *condition, weft_array *a, weft_array *b);
WEFT_API weft_array *weft_clip(weft_array *x, weft_array *low, weft_array *high); /* NULL: open */
/* The gates of gated MLPs: silu(gate) up, and gelu_tanh(gate) up. */
WEFT_API weft_array *weft_swiglu(weft_array *gate, weft_array *up);
WEFT_API weft_array *weft_geglu(weft_array *gate, weft_array *up);

/* With a weak scalar: the result has x's dtype if x is a float (or float32 if x is an integer and
 * the value has a fraction). */
WEFT_API weft_array *weft_add_scalar(weft_array *x, double value);
WEFT_API weft_array *weft_scale(weft_array *x, double value);
WEFT_API weft_array *weft_power_scalar(weft_array *x, double exponent);
/* cap tanh(x / cap) */
WEFT_API weft_array *weft_softcap(weft_array *x, double cap);

/* ---- Shape ---------------------------------------------------------------------------------- */

WEFT_API weft_array *weft_reshape(weft_array *x, weft_dims shape); /* one dim may be -1 */
WEFT_API weft_array *weft_flatten(weft_array *x, int from_axis, int to_axis);
WEFT_API weft_array *weft_transpose(weft_array *x, weft_dims axes);
WEFT_API weft_array *weft_swapaxes(weft_array *x, int axis_a, int axis_b);
WEFT_API weft_array *weft_expand_dims(weft_array *x, int axis);
WEFT_API weft_array *weft_squeeze(weft_array *x, int axis);
WEFT_API weft_array *weft_broadcast_to(weft_array *x, weft_dims shape);
/* x[start:stop:step] on every axis listed in `axes` (with starts, stops, steps in the same order;
 * steps.n == 0: ones). Negative starts and stops count from the end; out-of-range ones clip. */
WEFT_API weft_array *weft_slice(weft_array *x, weft_dims axes, weft_dims starts, weft_dims stops,
                                weft_dims steps);
WEFT_API weft_array *weft_slice_axis(weft_array *x, int axis, int64_t start, int64_t stop);
/* The window of `sizes` on `axes` that begins at the integer array start (axes.n,); a start is
 * clipped so that the window fits. */
WEFT_API weft_array *weft_dynamic_slice(weft_array *x, weft_array *start, weft_dims axes,
                                        weft_dims sizes);
/* x with the window at `start` on `axes` replaced by `update` (which has x's rank). */
WEFT_API weft_array *weft_slice_update(weft_array *x, weft_array *update, weft_array *start,
                                       weft_dims axes);
WEFT_API weft_array *weft_concatenate(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_stack(weft_array *const *arrays, int n, int axis);
WEFT_API weft_array *weft_pad(weft_array *x, int axis, int64_t before, int64_t after, double value);
/* Row-major in memory; x itself when it is already. */
WEFT_API weft_array *weft_contiguous(weft_array *x);

/* ---- Indexing: out-of-range indices fail the evaluation ------------------------------------- */

/* x with `axis` replaced by the shape of `indices` (integers; negative count from the end). */
WEFT_API weft_array *weft_take(weft_array *x, weft_array *indices, int axis);
/* out[..., i, ...] = x[..., indices[..., i, ...], ...]; equal shapes off the axis. */
WEFT_API weft_array *weft_take_along_axis(weft_array *x, weft_array *indices, int axis);
/* x plus values at indices along the axis; repeated indices add up, in index order. */
WEFT_API weft_array *weft_scatter_add_along_axis(weft_array *x, weft_array *indices,
                                                 weft_array *values, int axis);
/* Rows of table (V, E) at ids (...): (..., E). */
WEFT_API weft_array *weft_embedding(weft_array *table, weft_array *ids);

/* ---- Reductions: axes may be WEFT_ALL_AXES -------------------------------------------------- */

/* sum and prod of bool and integers up to 32 bits are int32 or uint32; accumulation in at least
 * float32. mean of integers is float32. */
WEFT_API weft_array *weft_sum(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_mean(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_prod(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_max(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_min(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_all(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_any(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_logsumexp(weft_array *x, weft_dims axes, bool keepdims);
WEFT_API weft_array *weft_argmax(weft_array *x, int axis, bool keepdims); /* uint32; first wins */
WEFT_API weft_array *weft_argmin(weft_array *x, int axis, bool keepdims);
WEFT_API weft_array *weft_softmax(weft_array *x, int axis);
WEFT_API weft_array *weft_log_softmax(weft_array *x, int axis);
WEFT_API weft_array *weft_cumsum(weft_array *x, int axis, bool reverse, bool inclusive);
WEFT_API weft_array *weft_sort(weft_array *x, int axis);    /* ascending, stable, NaN last */
WEFT_API weft_array *weft_argsort(weft_array *x, int axis); /* uint32 */
/* The k largest along the axis, descending. */
WEFT_API weft_array *weft_topk(weft_array *x, int64_t k, int axis);

/* ---- Products ------------------------------------------------------------------------------- */

/* a (..., M, K) b (..., K, N) -> (..., M, N); 1-d operands as NumPy's matmul. float32
 * accumulation for 16-bit floats. */
WEFT_API weft_array *weft_matmul(weft_array *a, weft_array *b);
/* x (..., E) weight (F, E) [bias (F)] -> (..., F) in x's dtype: x weight^T + bias. The weight may
 * have another float dtype; it is converted on load. bias may be NULL. */
WEFT_API weft_array *weft_linear(weft_array *x, weft_array *weight, weft_array *bias);

/* ---- Neural network ops: fused, with float32 arithmetic inside ------------------------------ */

/* x / sqrt(mean(x^2) + eps) * (offset + weight); weight (E) or NULL. (Zhang & Sennrich 2019) */
WEFT_API weft_array *weft_rms_norm(weft_array *x, weft_array *weight, double eps, double offset);
/* (x - mean) / sqrt(var + eps) * weight + bias; weight and bias (E) or NULL. */
WEFT_API weft_array *weft_layer_norm(weft_array *x, weft_array *weight, weft_array *bias,
                                     double eps);

/* Rotary position embedding of x (B, L, H, D) at `positions` (L) or (B, L), integers, with inverse
 * frequencies (d/2) float32, d <= D even; the rest of the head passes through. Pairs are (j,
 * j+d/2), or (2j, 2j+1) when interleaved. cos and sin are multiplied by amplitude. (Su et al. 2021)
 */
WEFT_API weft_array *weft_rope(weft_array *x, weft_array *positions, weft_array *frequencies,
                               bool interleaved, double amplitude);

/* How a model's inverse frequencies come about; zero means the default. */
typedef enum weft_rope_kind {
    WEFT_ROPE_DEFAULT = 0,
    WEFT_ROPE_LINEAR,
    WEFT_ROPE_LLAMA3,
    WEFT_ROPE_YARN,
    WEFT_ROPE_DYNAMIC,
    WEFT_ROPE_LONGROPE,
    WEFT_ROPE_PROPORTIONAL
} weft_rope_kind;

typedef struct weft_rope_options {
    weft_rope_kind kind;
    int64_t head_dim;
    double theta;                  /* 10000 */
    double factor;                 /* 1 */
    double partial;                /* share of the head that rotates; 1 */
    double low_freq_factor;        /* llama3: 1 */
    double high_freq_factor;       /* llama3: 4 */
    int64_t original_max_position; /* llama3: 8192; yarn, longrope: max_position */
    int64_t max_position;
    double beta_fast, beta_slow;              /* yarn: 32, 1 */
    bool no_truncate;                         /* yarn: do not round the correction range */
    double attention_factor;                  /* yarn, longrope: amplitude; 0: from the formula */
    double mscale, mscale_all_dim;            /* yarn */
    const double *short_factor, *long_factor; /* longrope: head_dim * partial / 2 numbers each */
    int64_t length;                           /* dynamic, longrope: current total length */
} weft_rope_options;

/* Inverse frequencies (d/2) float32, d = rotated dims (the whole head for PROPORTIONAL), and the
 * amplitude for weft_rope. Formulas: the papers and transformers' rope utilities. */
WEFT_API weft_array *weft_rope_frequencies(const weft_rope_options *options, double *amplitude);

typedef struct weft_attention_options {
    double scale;   /* of the scores; 0: 1 / sqrt(D) */
    bool causal;    /* query i sees keys j <= i + S - L */
    int64_t window; /* > 0 (needs causal): and only those with i + S - L - j < window */
    double softcap; /* > 0: scores become cap tanh(score / cap), before the mask */
    weft_array
        *mask; /* NULL; bool (true: visible) or float (added), broadcastable to (B, H, L, S) */
} weft_attention_options;

/* Scaled dot-product attention of q (B, L, H, D), k (B, S, Hk, D), v (B, S, Hk, Dv) -> (B, L, H,
 * Dv) in q's dtype; query head h reads key head h / (H / Hk). A query that sees no key gives zeros.
 * The L x S matrix is never stored. NULL options: all zero. */
WEFT_API weft_array *weft_attention(weft_array *q, weft_array *k, weft_array *v,
                                    const weft_attention_options *options);

/* -log softmax(logits)[target] per row: logits (..., V), targets (...) integers -> (...) float32
 * (float64 for float64 logits). A negative target gives 0 and no gradient. */
WEFT_API weft_array *weft_cross_entropy(weft_array *logits, weft_array *targets);
/* The same from hidden states x (N, E) and an output weight (V, E), targets (N) -> (N) float32
 * (float64 for float64 x), without ever holding the logits; rows with a negative target cost
 * nothing. softcap 0: none. */
WEFT_API weft_array *weft_linear_cross_entropy(weft_array *x, weft_array *weight,
                                               weft_array *targets, double softcap);
/* Mean of the per-row losses over rows where mask is not 0 (0 if there is none). */
WEFT_API weft_array *weft_masked_cross_entropy(weft_array *logits, weft_array *targets,
                                               weft_array *mask);
/* Mean of the squared differences of arrays of one shape, 0-d, in at least float32. */
WEFT_API weft_array *weft_mse(weft_array *prediction, weft_array *target);

/* One AdamW step for one parameter (Loshchilov & Hutter 2019), float32 moments:
 *   g <- g * grad_scale; m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2
 *   p <- p (1 - lr decay) - lr (m / correction1) / (sqrt(v / correction2) + eps)
 * `hyper` is float32 (5): lr, grad_scale, correction1, correction2, apply; when apply is 0 the
 * outputs are the inputs. out[0..2] are the new parameter, m and v. */
WEFT_API void weft_adamw(weft_array *parameter, weft_array *gradient, weft_array *m, weft_array *v,
                         weft_array *hyper, double beta1, double beta2, double eps, double decay,
                         weft_array **out);

/* ---- Graph ---------------------------------------------------------------------------------- */

/* x, with no gradient through it. */
WEFT_API weft_array *weft_stop_gradient(weft_array *x);

#ifdef __cplusplus
}
#endif
#endif
