/* models/weights.h -- checkpoints' tensor names. */
#ifndef WEFT_MODELS_WEIGHTS_H
#define WEFT_MODELS_WEIGHTS_H

#include "weft/model.h"

/* Names on the way into a tree. `drop_head`: the head is the embedding, so a copy is ignored. */
typedef struct weft__renaming {
    const weft_model_family *family;
    bool drop_head;
} weft__renaming;

/* A weft_nn_rename; the context is a weft__renaming. */
bool weft__weights_rename(void *context, const char *name, char *out, size_t size);

/* Whether the file has that path once its names are renamed. */
bool weft__weights_have(const weft_safetensors *file, const weft_model_family *family,
                        const char *path);

/* The model_type that the tensors' names tell, for a config.json that does not say. */
const char *weft__weights_model_type(const weft_safetensors *file);

#endif
