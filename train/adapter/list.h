/* train/adapter/list.h -- the adapters of a tree as a list, which every file format is written from
 * and read into. */
#ifndef WEFT_TRAIN_ADAPTER_LIST_H
#define WEFT_TRAIN_ADAPTER_LIST_H

#include "weft/train.h"

typedef struct weft__adapter_entry {
    char *path; /* of the module; owned */
    bool embedding;
    double scale;
    /* A (R, in) and B (out, R), as lora_A and lora_B of a module, of experts (n, R, in) and (n,
     * out, R); m (out), NULL: plain LoRA. Borrowed: temporaries or the modules' own. */
    weft_array *A, *B, *m;
} weft__adapter_entry;

typedef struct weft__adapter_list {
    weft__adapter_entry *at;
    int n, capacity;
    double dropout;
} weft__adapter_list;

/* Zero the list first; free it also after a failure. */
void weft__adapter_list_free(weft__adapter_list *list);

/* The entry of that path, a new one if there is none yet; NULL and a message: out of memory. */
weft__adapter_entry *weft__adapter_list_entry(weft__adapter_list *list, const char *path);

/* WEFT_UNSUPPORTED, in the name of `format`, when the head or the embedding of a model is adapted
 * where they are tied: mlx-lm and llama.cpp apply an adapter of one to both. */
weft_status weft__adapter_list_check(const weft__adapter_list *list, const weft_model *model,
                                     const char *format);

/* The adapters of a tree. WEFT_INVALID when there are none. */
weft_status weft__adapter_list_of(weft_module *tree, weft__adapter_list *out);

/* The list of a model's adapters, PiSSA's as LoRA of twice the rank, for a file of that format.
 * WEFT_INVALID when there are none; WEFT_UNSUPPORTED also when parameters beside adapters are
 * trained, or some adapters are DoRA and others are not. */
weft_status weft__adapter_list_for(weft_model *model, const char *format, weft__adapter_list *out);

/* Puts the adapters around the modules of a tree. `where` is the file, for messages.
 * WEFT_UNSUPPORTED when some are DoRA and others are not. */
weft_status weft__adapter_list_put(const weft__adapter_list *list, weft_module *tree,
                                   const char *where, const weft_adapter_options *options);

/* ---- adapter_convert.c ----------------------------------------------------------------------- */

/* Loads an adapter of a format other than PEFT's. */
weft_status weft__adapter_load_list(weft_model *model, const char *path, weft_adapter_format format,
                                    const weft_adapter_options *options);

/* ---- adapter_mlx.c, adapter_gguf.c ----------------------------------------------------------- */

#define WEFT__ADAPTER_MLX_TENSORS "adapters.safetensors"

weft_status weft__adapter_mlx_read(const char *folder, weft__adapter_list *out);
weft_status weft__adapter_mlx_write(weft_model *model, const char *folder, const char *base_name);

weft_status weft__adapter_gguf_read(const char *path, weft_model *model, weft__adapter_list *out);
weft_status weft__adapter_gguf_write(weft_model *model, const char *path, const char *base_name);

#endif
