/* ops/nn/nn.h -- what the files of this folder share. */
#ifndef OPS_NN_NN_H
#define OPS_NN_NN_H

#include "ops/common.h"

/* The dtype that a fused op computes in, given its first input. */
static inline weft_dtype compute_dtype(weft_array *x)
{
    return weft_dtype_of(x) == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
}

/* Input i of the node in the compute dtype of its first input. */
static inline weft_array *computed_input(const weft_array *node, int i)
{
    return weft_astype(weft_node_input(node, i), compute_dtype(weft_node_input(node, 0)));
}

/* An array made on the default device, where `like` lives. */
static inline weft_array *beside(weft_array *like, weft_array *x)
{
    return weft_to(x, weft_device_of(like));
}

static inline weft_spec dense(weft_dtype dtype, weft_dims shape)
{
    return (weft_spec){.dtype = dtype, .shape = shape};
}

/* Of an op with a varying number of outputs: they end before `from`. */
static inline void no_outputs_from(weft_spec *out, int from)
{
    for (int i = from; i < WEFT_MAX_OUTPUTS; i++) {
        out[i].shape.n = -1;
    }
}

/* For weft_op.no_test_dtypes: all but the real floats. */
enum {
    ONLY_FLOATS = (1 << WEFT_FLOAT16) - 1 + (1 << WEFT_COMPLEX64),
};

/* ---- rms_norm.c ----------------------------------------------------------------------------- */

extern const weft_field weft__norm_fields[];

/* x and, if there is one, the weight: what the norms and their gradients share. */
bool weft__norm_infer_inputs(const weft_array *node, weft_why *why);
/* The cotangent as input `ct`, the last one. */
bool weft__norm_infer_cotangent(const weft_array *node, int ct, weft_why *why);
/* The norms over a batch, and their gradients. */
bool weft__norm_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                     weft_array **out);
bool weft__norm_vjp_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out);

/* ---- check.c: what infer functions ask of input i, called `name` in the message ------------- */

bool weft__expect_float(const weft_array *node, int i, const char *name, weft_why *why);
bool weft__expect_integer(const weft_array *node, int i, const char *name, weft_why *why);
bool weft__expect_shape(const weft_array *node, int i, const char *name, weft_dims shape,
                        weft_why *why);
bool weft__expect_rank(const weft_array *node, int i, const char *name, const char *letters,
                       int rank, weft_why *why);
bool weft__expect_inputs(const weft_array *node, int n, weft_why *why);

/* ---- linear.c ------------------------------------------------------------------------------- */

/* x w^T + bias, or x w when transposed. */
weft_array *weft__linear(weft_array *x, weft_array *weight, weft_array *bias, bool transposed);

/* What a vjp returns as the gradient of input i, an encoded weight: an error. */
weft_array *weft__encoded_gradient(const weft_array *node, int i);

/* matmul.c: the gradient of an operand of `shape` from that of its broadcast: of the same rank,
 * summed over the axes that were of length 1. */
weft_array *weft__sum_broadcast(weft_array *gradient, weft_dims shape);

/* x (..., E) as a matrix (rows, E). */
weft_array *weft__rows(weft_array *x);

/* ---- attention.c ---------------------------------------------------------------------------- */

extern const weft_op weft_op_attention;
extern const weft_op weft_op_attention_vjp;   /* attention_vjp.c */
extern const weft_op weft_op_attention_sinks; /* attention_sinks.c */
extern const weft_field weft__attention_fields[];

/* Checks q, k, v and the parameters; there are n inputs besides mask and lengths. */
bool weft__attention_infer(const weft_array *node, int n, weft_why *why);
/* Parts of it: the numbers of heads and the window; mask and lengths behind n other inputs, of
 * which the first are q (B, L, H, D) and one (B, S, ...). */
bool weft__attention_infer_heads(const weft_array *node, int64_t H, int64_t Hk, weft_why *why);
bool weft__attention_infer_rest(const weft_array *node, int n, weft_why *why);

/* Applies an op of attention to n inputs, the first being q, and what the options bring, for which
 * there is room behind them: its first output. */
weft_array *weft__attention_apply(const weft_op *op, weft_array **inputs, int n,
                                  const weft_attention_options *options);

/* attention_sinks.c: attention's output o and log-sum-exp, with sinks (H) beside the keys. */
weft_array *weft__attention_with_sinks(weft_array *o, weft_array *lse, weft_array *sinks);

/* attention_lengths.c: the mask that lengths, causality and window make with `mask`, which may be
 * NULL: with it, *params becomes those of the same attention without these three. */
weft_array *weft__attention_lengths_mask(weft_array *node, weft_array *mask,
                                         weft_attention_params *params);
/* Lengths as the op has them, int32 (B). */
weft_array *weft__attention_lengths(weft_array *lengths, int64_t B);

/* attention_first.c: first as int32 (B, L); the bool mask (B, 1, L, S) that it makes with `mask`,
 * which may be NULL and may be a float one; and the expansion of a node with first as the same op
 * with that mask, the n inputs in front of the mask being as they are. */
weft_array *weft__attention_first(weft_array *first, int64_t B, int64_t L);
weft_array *weft__attention_first_mask(weft_array *first, int64_t S, weft_array *mask);
void weft__attention_first_expand(weft_array *node, int n, weft_array **outs);

/* The arrays of one attention in the layout of its products, in the compute dtype: q (B, Hk, G, L,
 * D), k (B, Hk, 1, S, D), v (B, Hk, 1, S, Dv), where H = Hk G. Views: no head is copied. */
typedef struct attention_parts {
    weft_array *q, *k, *v;
    weft_array *capped; /* scores before the mask (B, Hk, G, L, S) */
    weft_array *scores; /* -inf where nothing is seen */
} attention_parts;

/* `mask` may be NULL. */
attention_parts weft__attention_parts(weft_array *q, weft_array *k, weft_array *v, weft_array *mask,
                                      const weft_attention_params *params);
/* (B, L, H, D) to (B, Hk, G, L, D), and back. */
weft_array *weft__attention_group(weft_array *x, int64_t Hk);
weft_array *weft__attention_ungroup(weft_array *x);

/* attention_batch.c: attention and its gradient over a batch. */
bool weft__attention_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out);

/* attention_vjp.c: dq, dk, dv from q, k, v, o, lse, do in smaller ops, and out[3], the gradient of
 * a float mask (NULL for another). d_lse (B, L, H), the cotangent of the log-sum-exp, may be NULL.
 */
void weft__attention_gradients(weft_array *const in[6], weft_array *mask, weft_array *d_lse,
                               const weft_attention_params *params, weft_array *out[4]);

/* ---- cross_entropy.c ------------------------------------------------------------------------ */

/* Per row of logits (..., V): the loss, and its gradient with respect to the logits. Both are 0
 * where the target is negative. */
weft_array *weft__row_losses(weft_array *logits, weft_array *targets);
weft_array *weft__row_residuals(weft_array *logits, weft_array *targets);

#endif
