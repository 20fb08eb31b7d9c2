/* models/gguf/gguf.h -- models in GGUF files: configuration and tensors in the form of a checkpoint
 * folder. */
#ifndef WEFT_MODELS_GGUF_H
#define WEFT_MODELS_GGUF_H

#include "models/weights.h"
#include "weft/gguf.h"

/* ---- names.c -------------------------------------------------------------------------------- */

/* A GGUF architecture. */
typedef struct weft__gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* of Weft's families */
    bool permuted;          /* rows of q and k are in pairs, for interleaved rotation */
    bool sandwich;          /* norms before and after both parts of a layer */
    double norm_offset;     /* offset that was added to the norms' gains */
} weft__gguf_arch;

/* NULL: WEFT_UNSUPPORTED, with the list of supported ones; `where` begins the message. */
const weft__gguf_arch *weft__gguf_arch_named(const char *name, const char *where);
/* The architecture for a model's configuration; NULL: none. */
const weft__gguf_arch *weft__gguf_arch_of(const weft_config *config, const char *model_type);

/* Converts a tensor's name to its path in a tree, and back; false: unknown. */
bool weft__gguf_to_path(const weft__gguf_arch *arch, const char *name, char *out, size_t size);
bool weft__gguf_from_path(const weft__gguf_arch *arch, const char *path, char *out, size_t size);

/* ---- gguf.c --------------------------------------------------------------------------------- */

/* The file's tensors by tree path; encoded ones are arrays of `dtype` (0: the dtype of the file's
 * first matrix, or `blocks` if that is in blocks; *used is set to it). They are temporaries. With
 * `apart`, combined gates and ups of experts in blocks are decoded and split. */
weft_status weft__gguf_weights(const weft_gguf *file, bool apart, weft_dtype dtype,
                               weft_dtype blocks, weft_dtype *used, weft__weights *out);

/* ---- config.c ------------------------------------------------------------------------------- */

/* The equivalent of config.json. */
weft_status weft__gguf_config(const weft_gguf *file, weft_config **out);

/* Appends ,"key":x, with a fraction or an exponent since transformers distinguishes floats from
 * integers: the shortest decimal for a float32, the usual type in these files. */
void weft__gguf_add_number(weft__text *out, const char *key, double x);

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
} weft__gguf_source;

/* weft_model_save_gguf with these. */
weft_status weft__model_save_gguf(weft_model *model, const char *path,
                                  const weft_gguf_model_options *options,
                                  const weft__gguf_source *source);

/* ---- sampling.c ----------------------------------------------------------------------------- */

/* The sampler options as a generation_config.json; *out is NULL if the file has none. */
weft_status weft__gguf_generation(const weft_gguf *file, weft_config **out);

#endif
