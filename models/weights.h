/* models/weights.h -- the tensors of a checkpoint under the paths of the tree that they go to. */
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
    weft__text skipped; /* "vision_tower, lm_head (tie_word_embeddings)": what is not used */
    int n_skipped;
} weft__weights;

/* The file's tensors: prefixes of wrappers stripped, towers left out, experts put together. */
weft_status weft__weights_read(const weft_safetensors *file, const weft_model_family *family,
                               weft__weights *out);
void weft__weights_free(weft__weights *w);

/* Takes an array under a path; then they must be sorted again. */
weft_status weft__weights_add(weft__weights *w, const char *path, weft_array *array);
void weft__weights_sort(weft__weights *w);
/* NULL: there is none. */
weft__weight *weft__weights_find(const weft__weights *w, const char *path);
/* The context of a weft__tensors. */
bool weft__weights_shape(const void *weights, const char *path, weft_dims *out);

/* Experts that are stored one by one, and gate and up that are stored as one, become the stacks
 * that trees have: (experts, out, in) under switch_mlp or experts.switch_glu. */
weft_status weft__weights_stack_experts(weft__weights *w);

/* Without what a tree of that description has no place for though checkpoints may: the head when
 * it is the embedding, keys and values of layers that attend to others'. */
void weft__weights_drop_unused(weft__weights *w, const weft_model_info *info);

/* Sets the tree's parameters. */
weft_status weft__weights_load(const weft__weights *w, weft_module *tree,
                               const weft_nn_load_options *options);

/* weft_model_load; with `apart`, the tree is that of folders: gates and ups of experts are two
 * tensors where a GGUF file has them as one, too. */
weft_status weft__model_load_tree(const char *path, bool apart, const weft_model_options *options,
                                  weft_model **out);

/* Once its embedding has another number of rows. */
void weft__model_set_vocabulary(weft_model *model, int64_t vocab_size);

/* The model_type that the tensors' names tell, for a config.json that does not say. */
const char *weft__weights_model_type(const weft_safetensors *file);

#endif
