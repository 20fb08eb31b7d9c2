/* train/adapter/list.h -- a list of the adapters of a tree, which every file format is written from
 * and read into. */
#ifndef WEFT_TRAIN_ADAPTER_LIST_H
#define WEFT_TRAIN_ADAPTER_LIST_H

#include "weft/train.h"

typedef struct weft__adapter_entry {
    char *path; /* the module's path; owned */
    bool embedding;
    double scale;
    /* A (R, in) and B (out, R), the module's lora_A and lora_B; (n, R, in) and (n, out, R) for
     * experts. m (out), or NULL for plain LoRA. Borrowed from the module, or temporaries. */
    weft_array *A, *B, *m;
} weft__adapter_entry;

typedef struct weft__adapter_list {
    weft__adapter_entry *at;
    int n;
    double dropout;
} weft__adapter_list;

/* Zero the list first; free it also after a failure. */
void weft__adapter_list_free(weft__adapter_list *list);

/* The entry at the path, created if it is missing. NULL: out of memory, which is reported. */
weft__adapter_entry *weft__adapter_list_entry(weft__adapter_list *list, const char *path);

/* WEFT_UNSUPPORTED if the output head or the embedding is adapted and both are tied: mlx-lm and
 * llama.cpp would apply the adapter to both. `format` is named in the message. */
weft_status weft__adapter_list_check(const weft__adapter_list *list, const weft_model *model,
                                     const char *format);

/* Lists the adapters of a tree. WEFT_INVALID if there are none. */
weft_status weft__adapter_list_of(weft_module *tree, weft__adapter_list *out);

/* The same, if nothing else of the tree is trained: WEFT_UNSUPPORTED otherwise. */
weft_status weft__adapter_list_removable(weft_module *tree, weft__adapter_list *out);

/* Lists the adapters of a model for a file in `format`. PiSSA adapters become LoRA adapters of
 * twice the rank. WEFT_INVALID if there are none. WEFT_UNSUPPORTED if other parameters are trained
 * too, or if only some of the adapters are DoRA. */
weft_status weft__adapter_list_for(weft_model *model, const char *format, weft__adapter_list *out);

/* Adds the adapters to the modules of a tree. `where` is the file, for messages. WEFT_UNSUPPORTED
 * if only some of them are DoRA. */
weft_status weft__adapter_list_put(const weft__adapter_list *list, weft_module *tree,
                                   const char *where, const weft_adapter_options *options);

/* ---- convert.c ------------------------------------------------------------------------------ */

/* Loads an adapter that is not in PEFT's format. */
weft_status weft__adapter_load_list(weft_model *model, const char *path, weft_adapter_format format,
                                    const weft_adapter_options *options);

/* ---- mlx.c, gguf.c -------------------------------------------------------------------------- */

weft_status weft__adapter_mlx_read(const char *folder, weft__adapter_list *out);
weft_status weft__adapter_mlx_write(weft_model *model, const char *folder, const char *base_name);

weft_status weft__adapter_gguf_read(const char *path, weft_model *model, weft__adapter_list *out);
weft_status weft__adapter_gguf_write(weft_model *model, const char *path, const char *base_name);

#endif
