/* ops/nn/nn.h -- functions shared by the neural-network ops. */
#ifndef OPS_NN_NN_H
#define OPS_NN_NN_H

#include "core/graph.h"
#include "ops/common.h"

/* The compute dtype of a fused op, by its first input. */
static inline weft_dtype compute_dtype(weft_array *x)
{
    return weft_dtype_of(x) == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
}

/* Input i of the node in the compute dtype of its first input. */
static inline weft_array *computed_input(const weft_array *node, int i)
{
    return weft_astype(weft_node_input(node, i), compute_dtype(weft_node_input(node, 0)));
}

/* Moves x, made on the default device, to the device of `like`. */
static inline weft_array *on_device_of(weft_array *like, weft_array *x)
{
    return weft_to(x, weft_device_of(like));
}

static inline weft_spec dense(weft_dtype dtype, weft_dims shape)
{
    return (weft_spec){.dtype = dtype, .shape = shape};
}

/* For ops with a varying number of outputs: output `from` and later ones do not exist. */
static inline void no_outputs_from(weft_spec *out, int from)
{
    for (int i = from; i < WEFT_MAX_OUTPUTS; i++) {
        out[i].shape.n = -1;
    }
}

/* For weft_op.no_test_dtypes: all except the real floats. */
enum {
    ONLY_FLOATS = (1 << WEFT_FLOAT16) - 1 + (1 << WEFT_COMPLEX64),
};

/* ---- rms_norm.c ----------------------------------------------------------------------------- */

extern const weft_field weft__norm_fields[];

/* Checks x and the optional weight of the norms and their gradients. */
bool weft__norm_infer_inputs(const weft_array *node, weft_why *why);
/* Checks the cotangent, the last input, with index `ct`. */
bool weft__norm_infer_cotangent(const weft_array *node, int ct, weft_why *why);
/* vmap of the norms and of their gradients. */
bool weft__norm_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                     weft_array **out);
bool weft__norm_vjp_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                         weft_array **out);

/* ---- check.c: checks of input i for infer functions; `name` is its name in messages ---------- */

bool weft__expect_float(const weft_array *node, int i, const char *name, weft_why *why);
bool weft__expect_integer(const weft_array *node, int i, const char *name, weft_why *why);
bool weft__expect_shape(const weft_array *node, int i, const char *name, weft_dims shape,
                        weft_why *why);
bool weft__expect_rank(const weft_array *node, int i, const char *name, const char *letters,
                       int rank, weft_why *why);
bool weft__expect_inputs(const weft_array *node, int n, weft_why *why);

/* ---- linear.c ------------------------------------------------------------------------------- */

extern const weft_op weft_op_linear;

extern const weft_op weft_op_linear_sum; /* linear_sum.c */

/* The node with these parameters; the bias may be NULL. */
weft_array *weft__linear_of(weft_array *x, weft_array *weight, weft_array *bias,
                            const weft_linear_params *params);
/* Gradients of a dense weight and of the bias, from the product's cotangent. */
weft_array *weft__linear_weight_gradient(weft_array *x, weft_array *weight, weft_array *ct,
                                         bool transposed);
weft_array *weft__linear_bias_gradient(weft_array *bias, weft_array *ct);

/* x w^T + bias, or x w when transposed. */
weft_array *weft__linear(weft_array *x, weft_array *weight, weft_array *bias, bool transposed);

/* The gradient of an encoded weight, input i, as a vjp returns it: an error. */
weft_array *weft__encoded_gradient(const weft_array *node, int i);

/* matmul.c: the gradient of an operand of `shape` from that of its broadcast of the same rank,
 * summed over the axes of length 1. */
weft_array *weft__sum_broadcast(weft_array *gradient, weft_dims shape);

/* x (..., E) as a matrix (rows, E). */
weft_array *weft__rows(weft_array *x);

/* ---- attention_work.c ----------------------------------------------------------------------- */

void weft__attention_work(const weft_call *call, weft_work *work);
void weft__attention_vjp_work(const weft_call *call, weft_work *work);

/* ---- rope.c --------------------------------------------------------------------------------- */

extern const weft_op weft_op_rope;
/* Checks x, which is that input of the node, and the positions and frequencies after it. */
bool weft__rope_infer(const weft_array *node, int x, weft_why *why);

/* ---- attention_append.c --------------------------------------------------------------------- */

enum { APPEND_PAGES = 8 }; /* the input with the pages */
extern const weft_op weft_op_attention_append;
/* The node's size of a page; 0: there are none, or it is another op. */
int64_t weft__attention_append_page(const weft_array *node);

/* ---- attention.c ---------------------------------------------------------------------------- */

extern const weft_op weft_op_attention, weft_op_attention_codes;
extern const weft_op weft_op_attention_pages; /* attention_pages.c */
extern const weft_op weft_op_attention_vjp;   /* attention_vjp.c */
extern const weft_op weft_op_attention_sinks; /* attention_sinks.c */
extern const weft_field weft__attention_fields[];

/* ---- adamw.c --------------------------------------------------------------------------------- */

extern const weft_field weft__adamw_fields[];

/* Checks q, k, v and the parameters; there are n inputs before mask and lengths. */
bool weft__attention_infer(const weft_array *node, int n, weft_why *why);
/* Parts of it: the numbers of heads and the window; and mask and lengths after n other inputs, of
 * which the first are q (B, L, H, D) and one (B, S, ...). */
bool weft__attention_infer_heads(const weft_array *node, int64_t H, int64_t Hk, weft_why *why);
bool weft__attention_infer_rest(const weft_array *node, int n, weft_why *why);
/* The rest, and the outputs. */
bool weft__attention_infer_out(const weft_array *node, int n, weft_spec *out, weft_why *why);
/* attention_codes.c: all checks, and the outputs, where n inputs come before mask and lengths. */
bool weft__attention_codes_infer(const weft_array *node, int n, weft_spec *out, weft_why *why);
/* The keys of a row: S, or those of its pages. */
int64_t weft__attention_keys(const weft_array *node);

/* Applies an attention op to n inputs, of which the first is q, followed by those from the options,
 * for which `inputs` must have room. Returns its first output. */
weft_array *weft__attention_apply(const weft_op *op, weft_array **inputs, int n,
                                  const weft_attention_options *options);

/* attention_sinks.c: adds sinks (H) to attention's output o and log-sum-exp. */
weft_array *weft__attention_with_sinks(weft_array *o, weft_array *lse, weft_array *sinks);

/* attention_lengths.c: combines lengths, causality and window with `mask` (may be NULL) into one
 * mask. *params becomes that of the same attention without these three. */
weft_array *weft__attention_lengths_mask(weft_array *node, weft_array *mask,
                                         weft_attention_params *params);
/* Lengths as the op expects them, int32 (B). */
weft_array *weft__attention_lengths(weft_array *lengths, int64_t B);

/* attention_bounds.c: the keys [first, ends) that each query sees, each int32 (B, L) or NULL. */
typedef struct attention_bounds {
    weft_array *first, *ends;
} attention_bounds;

/* A bound as the op expects it. */
weft_array *weft__attention_bound(weft_array *bound, const char *name, int64_t B, int64_t L);
/* The inputs of a node. */
attention_bounds weft__attention_bounds_of(const weft_array *node);
/* The bool mask (B, 1, L, S) of the bounds, combined with `mask`, which may be NULL or a float
 * mask; without bounds `mask`. */
weft_array *weft__attention_bounds_mask(attention_bounds bounds, int64_t S, weft_array *mask);
/* Expands a node with bounds to the same op with that mask. The n inputs before the mask stay
 * unchanged. */
void weft__attention_bounds_expand(weft_array *node, int n, weft_array **outs);

/* The inputs of attention in the layout of its products, in the compute dtype: q (B, Hk, G, L, D),
 * k (B, Hk, 1, S, D), v (B, Hk, 1, S, Dv), where H = Hk G. They are views; no head is copied. */
typedef struct attention_parts {
    weft_array *q, *k, *v;
    weft_array *capped; /* scores before masking (B, Hk, G, L, S) */
    weft_array *scores; /* -inf at masked positions */
} attention_parts;

/* `mask` may be NULL. */
attention_parts weft__attention_parts(weft_array *q, weft_array *k, weft_array *v, weft_array *mask,
                                      const weft_attention_params *params);
/* (B, L, H, D) to (B, Hk, G, L, D), and back. */
weft_array *weft__attention_group(weft_array *x, int64_t Hk);
weft_array *weft__attention_ungroup(weft_array *x);

/* attention_batch.c: vmap of attention and its gradient. */
bool weft__attention_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out);

/* attention_vjp.c: dq, dk, dv from q, k, v, o, lse, do in smaller ops, and out[3], the gradient of
 * a float mask (NULL for others). d_lse (B, L, H), the cotangent of the log-sum-exp, may be NULL.
 */
void weft__attention_gradients(weft_array *const in[6], weft_array *mask, weft_array *d_lse,
                               const weft_attention_params *params, weft_array *out[4]);

/* ---- cross_entropy.c ------------------------------------------------------------------------ */

/* For each row of logits (..., V): the loss, and its gradient with respect to the logits. Both are
 * 0 where the target is negative. */
weft_array *weft__row_losses(weft_array *logits, weft_array *targets);
weft_array *weft__row_residuals(weft_array *logits, weft_array *targets);

#endif
