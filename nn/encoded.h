/* nn/encoded.h -- encoded parameters in checkpoints: "a.weight" has the codes, "a.scales" the
 * scales and, for affine encoding, "a.biases" the biases. */
#ifndef WEFT_NN_ENCODED_H
#define WEFT_NN_ENCODED_H

#include "weft/nn_tools.h"

/* Whether a parameter may be encoded: the weights of linears and embeddings. */
bool weft__nn_takes_encoded(const weft_nn_item *item);

/* The path of part 0 (the codes: the parameter's own path), 1 (scales) or 2 (biases). False: too
 * long. */
bool weft__nn_part_path(const char *path, int part, char *out, size_t size);

/* The codes, scales and biases (or NULL) of an encoded array; false if it is dense or in blocks
 * without such parts. */
bool weft__nn_parts(weft_array *a, weft_array *out[3]);

/* Finds the format of the stored parts (NULL: absent) of a parameter of `shape` from their shapes
 * and dtypes. False: no format matches. */
bool weft__nn_format_of(const weft_safetensors_entry *const parts[3], const weft_dims *shape,
                        weft_quantize_options *out);

/* quantize.c: whether the options select the weight, of a linear or another supported module, and
 * its encoding. */
bool weft__nn_is_quantized(const weft_nn_quantize_options *o, const weft_encoding *encoding,
                           const char *path, weft_module *m);
weft_array *weft__nn_quantized(weft_array *weight, const weft_encoding *encoding);

/* The format of an encoding that has parts. */
weft_quantize_options weft__nn_format(const weft_encoding *encoding);

/* The array in another float dtype. An array with parts keeps its codes, unless the dtype is
 * float64, to which no kernel decodes. */
weft_array *weft__nn_recast(weft_array *a, weft_dtype dtype);

#endif
