/* models/gguf/gguf.h -- models in GGUF files: configuration and tensors in the form of a checkpoint
 * folder. */
#ifndef WEFT_MODELS_GGUF_H
#define WEFT_MODELS_GGUF_H

#include "models/weights.h"
#include "weft/batch.h"
#include "weft/gguf.h"

/* ---- gguf.c --------------------------------------------------------------------------------- */

/* The file's tensors by tree path; encoded ones are arrays of `dtype` (0: the dtype of the file's
 * first matrix, or `blocks` if that is in blocks; *used is set to it). They are temporaries. With
 * `apart`, combined gates and ups of experts in blocks are decoded and split. */
weft_status weft__gguf_weights(const weft_gguf *file, bool apart, weft_dtype dtype,
                               weft_dtype blocks, weft_dtype *used, weft__weights *out);

/* ---- config.c ------------------------------------------------------------------------------- */

/* The equivalent of config.json. */
weft_status weft__gguf_config(const weft_gguf *file, weft_config **out);

/* ---- save.c --------------------------------------------------------------------------------- */

/* Returns the array to store in place of the parameter at `path`, with its shape: a temporary,
 * evaluated for one tensor at a time. NULL: the parameter itself. It may be called several times
 * for one path. */
typedef weft_array *weft__gguf_weight(void *context, const char *path);

/* What a file is made from besides the model. All zero: nothing. */
typedef struct weft__gguf_source {
    weft__gguf_weight *weight; /* NULL: all parameters as they are */
    void *context;
    /* Without a type in the options: matrices keep the type of `file` or their dtype, and those in
     * MLX's format become bfloat16. */
    bool keep;
    weft_gguf *file; /* its tensors are copied where the parameter is unchanged; NULL: none */
    struct weft__types *types; /* gets the types of the matrices; NULL: none */
    const char *settings;      /* the folder or file that says the pooling; NULL: options.text */
} weft__gguf_source;

/* weft_model_save_gguf with these. */
weft_status weft__model_save_gguf(weft_model *model, const char *path,
                                  const weft_gguf_model_options *options,
                                  const weft__gguf_source *source);

/* ---- encoder.c ------------------------------------------------------------------------------ */

/* The pooling that the file says, with the normalization of llama.cpp, and its linears. */
weft_status weft__gguf_embed_settings(const char *path, weft_embed_settings *out);

/* ---- sampling.c ----------------------------------------------------------------------------- */

/* The sampler options as a generation_config.json; *out is NULL if the file has none. */
weft_status weft__gguf_generation(const weft_gguf *file, weft_config **out);

#endif
