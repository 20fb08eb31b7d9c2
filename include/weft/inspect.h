/* weft/inspect.h -- the rotated keys and queries of every attention layer, and what its heads
 * attend to.
 *
 *     weft_inspection *found;
 *     status = weft_inspect(model, ids, n, &found);
 *     const float *keys = weft_data(found->layers[3].keys);    head h, token t: keys + (h S + t) D
 *     weft_inspection_free(found);
 */
#ifndef WEFT_INSPECT_H
#define WEFT_INSPECT_H

#include "weft/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zero: the layer has no attention, as some layers of hybrids. */
typedef struct weft_inspected_layer {
    int64_t source; /* the layer that the keys come from, usually the same */
    int64_t n_heads, n_kv_heads, head_dim;
    weft_array *keys;    /* (n_kv_heads, length, head_dim) float32 on the CPU, rotated */
    weft_array *queries; /* (n_heads, length, head_dim), the same; before the scale of the scores */
    /* (n_heads, length, length), the same: row i has the share of each token in what token i reads,
     * 0 for tokens that it does not see. NULL, except for layers that weft_inspect_weights names.
     */
    weft_array *weights;
} weft_inspected_layer;

typedef struct weft_inspection {
    const char *architecture; /* the family's model_type */
    int64_t length;           /* tokens */
    int32_t *ids;
    int64_t n_layers;
    weft_inspected_layer *layers;
} weft_inspection;

/* Runs one forward over n ids; free *out with weft_inspection_free. WEFT_INVALID for a prompt that
 * the model cannot take, WEFT_UNSUPPORTED for a family that does not fill weft_model_call's records
 * of any layer. */
WEFT_NODISCARD WEFT_API weft_status weft_inspect(weft_model *model, const int32_t *ids, size_t n,
                                                 weft_inspection **out) WEFT_NONNULL(4);

/* The same, with the attention weights of layers `first` to `last`: n_heads length^2 floats each.
 * Fails as weft_inspect. */
WEFT_NODISCARD WEFT_API weft_status weft_inspect_weights(weft_model *model, const int32_t *ids,
                                                         size_t n, int64_t first, int64_t last,
                                                         weft_inspection **out) WEFT_NONNULL(6);

/* Writes a safetensors file with "layers.N.keys" and, unless omitted, "layers.N.queries" of each
 * layer. Its metadata has the architecture, and tokens (ids) and sources as JSON lists. Layers that
 * share keys have copies of them. WEFT_IO if the file cannot be written. */
WEFT_NODISCARD WEFT_API weft_status weft_inspection_save(const weft_inspection *inspection,
                                                         const char *path) WEFT_NONNULL(1);

WEFT_API void weft_inspection_free(weft_inspection *inspection); /* NULL is accepted */

#ifdef __cplusplus
}
#endif
#endif
