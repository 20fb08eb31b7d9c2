/* models/weights.h -- the tensors of a checkpoint by their paths in the tree. */
#ifndef WEFT_MODELS_WEIGHTS_H
#define WEFT_MODELS_WEIGHTS_H

#include "core/io/text.h"
#include "models/config.h"
#include "weft/model.h"

typedef struct weft__weight {
    char *path;        /* in the tree; of an unused tensor its name */
    char *name;        /* in the checkpoint; NULL: in a GGUF file */
    weft_array *array; /* a temporary, unless it is recorded */
    bool unused;       /* the tree has no such parameter: towers of other modalities, ... */
} weft__weight;

/* Zero it first; free it with weft__weights_free. */
typedef struct weft__weights {
    weft__weight *at; /* sorted by path */
    int n;
    weft__text
        skipped; /* "vision_tower, lm_head (tie_word_embeddings)": tensors that are not used */
    bool recorded;
} weft__weights;

/* Reads the file's tensors: finds their paths, marks those of towers as unused, stacks experts. */
weft_status weft__weights_read(const weft_safetensors *file, const weft_model_family *family,
                               weft__weights *out);
void weft__weights_free(weft__weights *w);

/* Takes an array with its path and its name in the checkpoint (NULL: none); the list must be sorted
 * again afterwards. */
weft_status weft__weights_add(weft__weights *w, const char *path, const char *name,
                              weft_array *array);
void weft__weights_sort(weft__weights *w);
/* The tensor at a path; NULL: absent. */
weft__weight *weft__weights_find(const weft__weights *w, const char *path);
/* The lookup function of a weft__tensors, whose context is a weft__weights. */
bool weft__weights_shape(const void *weights, const char *path, weft_dims *out);

/* Stacks experts that are stored individually, and splits combined gate and up, to the tensors of
 * trees: (experts, out, in) under switch_mlp or experts.switch_glu. */
weft_status weft__weights_stack_experts(weft__weights *w);

/* weights_parts.c: joins the two tensors of a parameter, decoded, to the parameter of trees. The
 * list must be sorted. */
weft_status weft__weights_join_parts(weft__weights *w, const weft_config *config);

/* weights_alternating.c, for experts of weft__decoder_config.alternating: changes a path of
 * transformers' checkpoints to the tree's, and returns the array in the tree's form. */
weft_array *weft__alternating_read(char *path, size_t size, weft_array *a);

/* Marks tensors that such a tree does not use although checkpoints may have them: keys and values
 * of layers that use others'. Drops a head that is tied to the embedding, and layers of
 * multi-token prediction that follow the last one. */
void weft__weights_find_unused(weft__weights *w, const weft_model_info *info,
                               const weft_config *config);

/* Sets the tree's parameters. */
weft_status weft__weights_load(const weft__weights *w, weft_module *tree,
                               const weft_nn_load_options *options);

/* Makes the list the record of a checkpoint, from which models are saved (models/save.h): keeps the
 * arrays of unused tensors and forgets the others. */
void weft__weights_record(weft__weights *w);

/* weft_model_load; with `apart` the tree has the form of checkpoint folders: gates and ups of
 * experts are two tensors, even if a GGUF file combines them. */
weft_status weft__model_load_tree(const char *path, bool apart, const weft_model_options *options,
                                  weft_model **out);

/* Called when the number of rows of its embedding has changed. */
void weft__model_set_vocabulary(weft_model *model, int64_t vocab_size);

#endif
