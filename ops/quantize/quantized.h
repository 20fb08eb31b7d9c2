/* ops/quantize/quantized.h -- functions shared by the quantization ops. */
#ifndef OPS_QUANTIZE_QUANTIZED_H
#define OPS_QUANTIZE_QUANTIZED_H

#include "core/encoding/encoding.h"
#include "ops/kernel.h"
#include "weft/quantize.h"

extern const weft_op weft_op_dequantize, weft_op_quantized_matmul, weft_op_requantize;

/* ---- common.c ------------------------------------------------------------------------------- */

extern const weft_field weft__quantized_fields[];

/* Reads mode, bits and group from the options, with the defaults of `mode` for what is missing.
 * Returns NULL, or an error array whose message begins with `where`. */
weft_array *weft__quantized_params(const char *where, const weft_quantize_options *options,
                                   weft_quantize_mode mode, weft_quantized_params *out);

static inline bool is_affine(const weft_quantized_params *p)
{
    return p->mode == WEFT_ENCODING_AFFINE;
}

/* The number of tensors of a quantized matrix. */
static inline int tensors_of(const weft_quantized_params *p)
{
    return is_affine(p) ? 3 : 2;
}

/* Checks codes, scales and biases, which start at input `first`; *shape gets the shape of the
 * matrix. */
bool weft__expect_quantized(const weft_array *node, int first, const weft_quantized_params *p,
                            weft_dims *shape, weft_why *why);
/* Checks that input i is a float matrix whose row length is a multiple of the group. */
bool weft__expect_groups(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why);
/* Checks that input i, the last one, is a global scale, if the mode has one. */
bool weft__expect_global(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why);

/* Specs of the codes, scales and biases of a matrix (..., K) with scales of dtype `scale`. */
void weft__quantized_specs(const weft_quantized_params *p, const weft_dims *shape, weft_dtype scale,
                           weft_spec *out);

/* For weft_op.vmap of ops whose parameters do not refer to axes: adds an axis in front of all
 * inputs. With a global scale the examples are computed one by one, since a call has only one. */
bool weft__quantized_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out);

/* Collects the inputs of an op: x (NULL: none), the tensors, and then the others. */
int weft__quantized_inputs(weft_array *x, weft_array *codes, weft_array *scales, weft_array *biases,
                           weft_array *more, weft_array **in);
/* Returns NULL, or an error array if biases are given for a mode without them, or missing. */
weft_array *weft__check_biases(const char *where, const weft_quantized_params *p,
                               const weft_array *biases);

/* ---- dequantize.c --------------------------------------------------------------------------- */

/* The codes of affine mode as numbers of `dtype`. */
weft_array *weft__codes_as(weft_array *codes, weft_array *scales, weft_dtype dtype,
                           const weft_quantized_params *p);
/* (..., K) to (..., K / group): sums over each group. */
weft_array *weft__group_sums(weft_array *x, int64_t group);

/* ---- quantized_product.c: the op behind the public functions --------------------------------- */

/* The shapes are those described at weft_quantized_params; lhs and rhs may be NULL. */
weft_array *weft__quantized_product(weft_array *x, weft_array *codes, weft_array *scales,
                                    weft_array *biases, weft_array *lhs, weft_array *rhs,
                                    weft_quantized_params p);

#endif
