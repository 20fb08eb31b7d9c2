/* ops/quantize/quantized.h -- what the files of this folder share. */
#ifndef OPS_QUANTIZE_QUANTIZED_H
#define OPS_QUANTIZE_QUANTIZED_H

#include "core/encoding/encoding.h"
#include "ops/kernel.h"
#include "weft/quantize.h"

extern const weft_op weft_op_dequantize, weft_op_quantized_matmul, weft_op_requantize;

/* ---- common.c ------------------------------------------------------------------------------- */

extern const weft_field weft__quantized_fields[];

/* Mode, bits and group of the options, with the defaults of `mode` where they are NULL or say
 * nothing. NULL, or an error array: `where` begins its message. */
weft_array *weft__quantized_params(const char *where, const weft_quantize_options *options,
                                   weft_quantize_mode mode, weft_quantized_params *out);

static inline bool is_affine(const weft_quantized_params *p)
{
    return p->mode == WEFT_ENCODING_AFFINE;
}

/* How many tensors hold the matrix. */
static inline int tensors_of(const weft_quantized_params *p)
{
    return is_affine(p) ? 3 : 2;
}

/* Checks codes, scales and biases, the inputs from `first` on; fills the shape of what they hold.
 */
bool weft__expect_quantized(const weft_array *node, int first, const weft_quantized_params *p,
                            weft_dims *shape, weft_why *why);
/* Checks that input i is a float matrix whose rows are whole groups. */
bool weft__expect_groups(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why);
/* Checks that input i, the last, is a global scale if there is one. */
bool weft__expect_global(const weft_array *node, int i, const weft_quantized_params *p,
                         weft_why *why);

/* Specs of the codes, scales and biases of a matrix (..., K) with scales of `scale`. */
void weft__quantized_specs(const weft_quantized_params *p, const weft_dims *shape, weft_dtype scale,
                           weft_spec *out);

/* For weft_op.vmap of ops whose parameters do not count axes: one more axis in front of all inputs.
 * One by one with a global scale, of which there is one a call. */
bool weft__quantized_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                          int64_t size, weft_array **out);

/* The inputs of an op: x (NULL: none), the tensors, and what follows. */
int weft__quantized_inputs(weft_array *x, weft_array *codes, weft_array *scales, weft_array *biases,
                           weft_array *more, weft_array **in);
/* NULL, or an error array: biases without need, or none where they are needed. */
weft_array *weft__check_biases(const char *where, const weft_quantized_params *p,
                               const weft_array *biases);

/* ---- dequantize.c --------------------------------------------------------------------------- */

/* The codes of the affine mode as numbers of `dtype`. */
weft_array *weft__codes_as(weft_array *codes, weft_array *scales, weft_dtype dtype,
                           const weft_quantized_params *p);
/* (..., K) to (..., K / group): the sum of each group. */
weft_array *weft__group_sums(weft_array *x, int64_t group);

/* ---- quantized_product.c: the op that the public functions are made of ----------------------- */

/* weft_quantized_params says the shapes; lhs and rhs may be NULL. */
weft_array *weft__quantized_product(weft_array *x, weft_array *codes, weft_array *scales,
                                    weft_array *biases, weft_array *lhs, weft_array *rhs,
                                    weft_quantized_params p);

#endif
