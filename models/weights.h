/* models/weights.h -- the tensors of a checkpoint by their paths in the tree. */
#ifndef WEFT_MODELS_WEIGHTS_H
#define WEFT_MODELS_WEIGHTS_H

#include "core/io/text.h"
#include "models/config.h"
#include "weft/model.h"

typedef struct weft__weight {
    char *path;
    weft_array *array; /* a temporary */
} weft__weight;

/* Zero it first; free it with weft__weights_free. */
typedef struct weft__weights {
    weft__weight *at; /* sorted by path */
    int n, capacity;
    weft__text
        skipped; /* "vision_tower, lm_head (tie_word_embeddings)": tensors that are not used */
    int n_skipped;
} weft__weights;

/* Reads the file's tensors: strips prefixes of wrappers, drops towers, stacks experts. */
weft_status weft__weights_read(const weft_safetensors *file, const weft_model_family *family,
                               weft__weights *out);
void weft__weights_free(weft__weights *w);

/* Takes an array with its path; the list must be sorted again afterwards. */
weft_status weft__weights_add(weft__weights *w, const char *path, weft_array *array);
void weft__weights_sort(weft__weights *w);
/* The tensor at a path; NULL: absent. */
weft__weight *weft__weights_find(const weft__weights *w, const char *path);
/* The lookup function of a weft__tensors, whose context is a weft__weights. */
bool weft__weights_shape(const void *weights, const char *path, weft_dims *out);

/* Stacks experts that are stored individually, and splits combined gate and up, to the tensors of
 * trees: (experts, out, in) under switch_mlp or experts.switch_glu. */
weft_status weft__weights_stack_experts(weft__weights *w);

/* Drops tensors that such a tree does not use although checkpoints may have them: the head if it is
 * tied to the embedding, keys and values of layers that use others'. */
void weft__weights_drop_unused(weft__weights *w, const weft_model_info *info);

/* Sets the tree's parameters. */
weft_status weft__weights_load(const weft__weights *w, weft_module *tree,
                               const weft_nn_load_options *options);

/* weft_model_load; with `apart` the tree has the form of checkpoint folders: gates and ups of
 * experts are two tensors, even if a GGUF file combines them. */
weft_status weft__model_load_tree(const char *path, bool apart, const weft_model_options *options,
                                  weft_model **out);

/* Called when the number of rows of its embedding has changed. */
void weft__model_set_vocabulary(weft_model *model, int64_t vocab_size);

/* The model_type inferred from the tensors' names, if config.json has none. */
const char *weft__weights_model_type(const weft_safetensors *file);

#endif
