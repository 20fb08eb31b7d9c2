/* models/gguf/gguf.h -- models in GGUF files: configuration and tensors as those of a folder. */
#ifndef WEFT_MODELS_GGUF_H
#define WEFT_MODELS_GGUF_H

#include "models/weights.h"
#include "weft/gguf.h"

/* ---- names.c -------------------------------------------------------------------------------- */

/* An architecture of the format. */
typedef struct weft__gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* of Weft's families */
    bool permuted;          /* rows of q and k are in pairs, for interleaved rotation */
    bool sandwich;          /* norms before and after both parts of a layer */
    double norm_offset;     /* what norms' gains have had added */
} weft__gguf_arch;

/* NULL, and WEFT_UNSUPPORTED with the list of those that there are, in `where`'s name. */
const weft__gguf_arch *weft__gguf_arch_named(const char *name, const char *where);
/* Of a model's; NULL: there is none. */
const weft__gguf_arch *weft__gguf_arch_of(const weft_config *config, const char *model_type);

/* The path in a tree of the tensor of that name, and the other way; false: there is none. */
bool weft__gguf_to_path(const weft__gguf_arch *arch, const char *name, char *out, size_t size);
bool weft__gguf_from_path(const weft__gguf_arch *arch, const char *path, char *out, size_t size);

/* ---- gguf.c --------------------------------------------------------------------------------- */

/* The file's tensors under the paths of trees, encoded ones as arrays of `dtype` (0: the dtype of
 * the file's first matrix, or `blocks` when that is in blocks; *used is set to it). Temporaries.
 * With `apart`, gates and ups of experts that are one tensor in blocks become two, decoded. */
weft_status weft__gguf_weights(const weft_gguf *file, bool apart, weft_dtype dtype,
                               weft_dtype blocks, weft_dtype *used, weft__weights *out);

/* ---- config.c ------------------------------------------------------------------------------- */

/* What config.json would say. */
weft_status weft__gguf_config(const weft_gguf *file, weft_config **out);

/* Adds ,"key":x with the shortest decimal of a float32, which is what files mostly hold. */
void weft__gguf_add_number(weft__text *out, const char *key, double x);

/* ---- sampling.c ----------------------------------------------------------------------------- */

/* What generation_config.json would say of the sampler; *out is NULL when the file says nothing. */
weft_status weft__gguf_generation(const weft_gguf *file, weft_config **out);

#endif
