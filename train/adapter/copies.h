/* train/adapter/copies.h -- copies of base weights in PEFT's files. */
#ifndef WEFT_TRAIN_ADAPTER_COPIES_H
#define WEFT_TRAIN_ADAPTER_COPIES_H

#include "train/adapter/adapter.h"

/* Identifies copies among other tensors. */
typedef struct weft__copies {
    weft_module *tree;
    const weft__names *whole; /* modules that are trained in full */
} weft__copies;

/* Whether the parameter at the path is tied. */
bool weft__adapter_is_tied(weft_module *tree, const char *path);
/* Whether the path is below one of the modules. */
bool weft__adapter_is_inside(const weft__names *modules, const char *path);

/* Whether the tensor is a copy of the base's weight of a module P, which PEFT saves with
 * save_embedding_layers or if it resized the embedding: P.base_layer.weight if P is adapted,
 * P.original_module.weight if P is trained in full, otherwise P.weight. `path` becomes P.weight. */
bool weft__adapter_is_base_copy(const weft__copies *c, const char *name, char *path, size_t size);
/* Whether the tensor is the second copy of a module that is trained in full. */
bool weft__adapter_is_second_copy(const weft__copies *c, const char *name);

/* Checks that copies equal the weights of the model, up to further rows of a resized embedding, and
 * the rows of modules that are trained in full. */
weft_status weft__adapter_check_copies(const weft__copies *c, const weft_safetensors *file);
/* Appends rows to the weights of modules that are trained in full and have more in the file. */
weft_status weft__adapter_grow_whole(const weft__copies *c, const weft_safetensors *file);
/* Adds the further rows of other resized embeddings and heads as rows of new tokens. */
weft_status weft__adapter_add_copied_rows(const weft__copies *c, const weft_safetensors *file);

#endif
