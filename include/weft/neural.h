/* weft/neural.h -- fused ops of neural networks, with float32 arithmetic inside.
 *
 * Common rules: ops.h.
 */
#ifndef WEFT_NEURAL_H
#define WEFT_NEURAL_H

#include "weft/array.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* How a model's inverse frequencies come about. In the options zero means the default, given here;
 * where that is not zero, a number below zero means zero. */
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
    int64_t window; /* > 0: and only those with |i + S - L - j| < window */
    double softcap; /* > 0: scores become cap tanh(score / cap), before the mask */
    weft_array
        *mask; /* NULL; bool (true: visible) or float (added), broadcastable to (B, H, L, S) */
    /* NULL, or integers 0-d, (1) or (B): use only the first lengths[b] keys of row b, as if k and v
     * ended there; causality (and not a window without it) counts from the last of them. Clipped to
     * [0, S]. Time depends on the lengths, not on S, so k and v may be a cache with free capacity.
     */
    weft_array *lengths;
    /* NULL, or integers (B, L) or (1, L): query i of row b sees only keys j >= first[b, i]. For
     * several sequences packed into a row, the start of each query's sequence. Time depends on the
     * visible keys if the device has a kernel for it; otherwise this becomes a mask. */
    weft_array *first;
    /* NULL, or integers of such a shape: query i of row b sees only keys j < ends[b, i]. With
     * `first`: the end of each query's sequence. */
    weft_array *ends;
    /* NULL, or float (H): attention sinks. Each head's logit is added to its softmax, after scale,
     * softcap and mask, without a value, so weights add up to less than 1. */
    weft_array *sinks;
    /* NULL, or int32 (B, N): k and v are pages of a pool, (P, page, Hk, D) and (P, page, Hk, Dv),
     * and row b reads pages[b, 0], pages[b, 1], ... (each below P) one after another, so that S is
     * N page. Kernels that support it read the pages where they are; otherwise they are copied. */
    weft_array *pages;
} weft_attention_options;

/* Scaled dot-product attention of q (B, L, H, D), k (B, S, Hk, D), v (B, S, Hk, Dv) -> (B, L, H,
 * Dv) in q's dtype, which k and v need not have; query head h reads key head h / (H / Hk). With
 * float16 k and v a CPU with AMX may round q and the probabilities to 16 bits. A query that sees no
 * key gives zeros. The L x S matrix is never stored, except for the gradient of a float mask (a
 * learned bias). NULL options: all zero. */
WEFT_API weft_array *weft_attention(weft_array *q, weft_array *k, weft_array *v,
                                    const weft_attention_options *options);

/* The gated delta rule (Yang, Kautz and Hatamizadeh 2025). Each value head has a matrix S, `state`
 * (B, Hv, Dv, D) at first (NULL: zeros), which reads the tokens one after another:
 *   S <- exp(g) S;  S <- S + beta (v - S k) k^T;  y = S q
 * with q, k (B, L, Hk, D), v (B, L, Hv, Dv), g and beta (B, L, Hv), g being at most 0; value head h
 * reads key head h / (Hv / Hk). Returns y (B, L, Hv, Dv) in q's dtype, and in *last, unless that is
 * NULL, the final S, float32 (float64 for float64 q). */
WEFT_API weft_array *weft_gated_delta(weft_array *q, weft_array *k, weft_array *v, weft_array *g,
                                      weft_array *beta, weft_array *state, weft_array **last);

/* The rule of Mamba 2 (Dao and Gu 2024): weft_gated_delta without a correction,
 *   S <- exp(g) S + v k^T;  y = S q
 * with the same shapes and results. In the paper's terms q is C, k is B, v is the input times its
 * time step, and g is A times the time step. */
WEFT_API weft_array *weft_state_space(weft_array *q, weft_array *k, weft_array *v, weft_array *g,
                                      weft_array *state, weft_array **last);

/* Keys or values quantized to 8 or 4 bits: steps * codes + least, in float32, with a step and a
 * minimum per group. */
typedef struct weft_kv_codes {
    /* uint8. 8 bits: (B, S, Hk, D). 4 bits: (B, S, Hk, D / 2), byte i with element i in its low
     * half and element D / 2 + i in its high half. */
    weft_array *codes;
    /* float32 (B, S, Hk, n): n groups of equal length in the order of the elements; with 4 bits n
     * is even. */
    weft_array *steps, *least;
} weft_kv_codes;

/* Dequantizes: (B, S, Hk, D) in `dtype`. */
WEFT_API weft_array *weft_kv_decode(const weft_kv_codes *codes, int bits, weft_dtype dtype)
    WEFT_NONNULL(1);

/* weft_attention with quantized keys and values, whose bits follow from the shapes of q and the
 * codes. Kernels that support it read the codes directly; otherwise they are dequantized to q's
 * dtype. Results agree within the rounding of that dtype. */
WEFT_API weft_array *weft_attention_codes(weft_array *q, const weft_kv_codes *keys,
                                          const weft_kv_codes *values,
                                          const weft_attention_options *options) WEFT_NONNULL(2, 3);

/* -log softmax(logits)[target] of each row: logits (..., V), targets (...) integers -> (...)
 * float32 (float64 for float64 logits). A negative target gives 0 and no gradient.
 * weft_loss_cross_entropy (losses.h) is the loss with options: another axis, probabilities as
 * targets, weights, label smoothing, a reduction. */
WEFT_API weft_array *weft_cross_entropy_rows(weft_array *logits, weft_array *targets);
/* The same from hidden states x (N, E) and an output weight (V, E), targets (N) -> (N) float32
 * (float64 for float64 x), without storing the logits. Negative targets are ignored. An encoded
 * weight has no gradient. softcap 0: off. */
WEFT_API weft_array *weft_linear_cross_entropy(weft_array *x, weft_array *weight,
                                               weft_array *targets, double softcap);
/* The mean of weft_cross_entropy_rows over the rows where mask (...) is not 0, or 0 without such a
 * row: a 0-d array. */
WEFT_API weft_array *weft_masked_cross_entropy(weft_array *logits, weft_array *targets,
                                               weft_array *mask);
/* Mean of the squared differences of arrays of one shape, 0-d, in at least float32. */
WEFT_API weft_array *weft_mse(weft_array *prediction, weft_array *target);

/* One AdamW step for one parameter (Loshchilov & Hutter 2019), float32 moments:
 *   g <- g * grad_scale; m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2
 *   p <- p (1 - lr decay) - lr (m / correction1) / (sqrt(v / correction2) + eps)
 * `hyper` is float32 (5): lr, grad_scale, correction1, correction2, apply. If apply is 0 the
 * outputs equal the inputs. out[0..2] are the new parameter, m and v. */
WEFT_API void weft_adamw(weft_array *parameter, weft_array *gradient, weft_array *m, weft_array *v,
                         weft_array *hyper, double beta1, double beta2, double eps, double decay,
                         weft_array **out);

#ifdef __cplusplus
}
#endif
#endif
