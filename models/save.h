/* models/save.h -- saves a model's tensors under the names that checkpoints have. */
#ifndef WEFT_MODELS_SAVE_H
#define WEFT_MODELS_SAVE_H

#include "models/weights.h"

/* The record of the checkpoint that the model was loaded from; empty for a new model. */
const weft__weights *weft__model_stored(const weft_model *model);

/* Whether only the text model of a multimodal one is saved: if `asked`, if the checkpoint has
 * nothing else, and if a `dense` one is made from MLX's, whose other parts no other program loads.
 * False for other models. */
bool weft__model_saves_text(weft_model *model, bool asked, bool dense);

/* weft_nn_save of the model's tree. Tensors have their names in the checkpoint, experts are stored
 * as there unless they are quantized, and the checkpoint's unused tensors are copied. Without
 * quantized matrices, experts and gated delta nets from MLX's files have transformers' layout. With
 * `text_only` the names are those of the text model, and nothing is copied. */
weft_status weft__model_save_tensors(weft_model *model, const char *path, bool text_only,
                                     const weft_nn_save_options *options);

#endif
