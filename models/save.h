/* models/save.h -- saves a model's tensors under the names that checkpoints have. */
#ifndef WEFT_MODELS_SAVE_H
#define WEFT_MODELS_SAVE_H

#include "models/decoder.h"
#include "models/names.h"
#include "models/weights.h"
#include "weft/io.h"

/* The record of the checkpoint that the model was loaded from; empty for a new model. */
const weft__weights *weft__model_stored(const weft_model *model);

/* Whether only the text model of a multimodal one is saved: if `asked`, if the checkpoint has
 * nothing else, and if a `dense` one is made from MLX's, whose other parts no other program loads.
 * False for other models. */
bool weft__model_saves_text(weft_model *model, bool asked, bool dense);

/* Whether the model was read from a checkpoint with experts in MXFP4 blocks, and no other matrix is
 * quantized: it is saved in that form. Otherwise quantized matrices are saved in MLX's format. */
bool weft__model_keeps_blocks(weft_model *model);

/* weights_alternating.c: whether a parameter is one of experts with alternating gates and ups, and
 * calls `put` for the tensors as which it is stored, in transformers' or MLX's layout. */
typedef weft_status weft__alternating_put(void *context, const char *name, weft_array *a);
bool weft__alternating_is(const char *path);
/* Gates (part 0) or ups (part 1) of alternating rows (n, 2 F, ...): (n, F, ...). */
weft_array *weft__alternating_part(weft_array *a, int part);
weft_status weft__alternating_write(const char *path, weft_array *a,
                                    const weft_named_arrays *parameters, bool mlx,
                                    weft__alternating_put *put, void *context);

/* weights_parts.c: parameters that other files have as two tensors. The path of part 0 or 1, for
 * the path of the whole (false: the parameter is one tensor), and the tensor of that part. */
bool weft__part_name(const char *path, int part, char *out, size_t size);
weft_array *weft__part_of(const weft__decoder_config *c, const char *path, weft_array *whole,
                          int part);

/* For adapters: the same of parameters whose parts are the halves of their rows. And for the path
 * of a module that is a half, 0 or 1, the paths of the whole and of the other half; -1: not a half.
 */
bool weft__half_name(const char *path, int half, char *out, size_t size);
int weft__half_of(const char *path, char *whole, char *other, size_t size);

/* The names of the class of an encoder with labels; NULL: another model. */
const weft__naming *weft__model_label_naming(weft_model *model);

/* weft_nn_save of the model's tree. Tensors have their names in the checkpoint, experts are stored
 * as there unless they are quantized, and the checkpoint's unused tensors are copied. Without
 * quantized matrices, experts and gated delta nets from MLX's files have transformers' layout. With
 * `text_only` the names are those of the text model, and nothing is copied. */
weft_status weft__model_save_tensors(weft_model *model, const char *path, bool text_only,
                                     const weft_nn_save_options *options);

#endif
