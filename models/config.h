/* models/config.h -- what the models' files read from config.json beyond the public accessors. */
#ifndef WEFT_MODELS_CONFIG_H
#define WEFT_MODELS_CONFIG_H

#include "core/io/json.h"
#include "weft/model.h"

/* The value of a key, looked up as the public accessors do; out->value is NULL when it is absent
 * or null. The second looks at the top only. */
weft__json weft__config_at(const weft_config *config, const char *key);
weft__json weft__config_at_top(const weft_config *config, const char *key);

/* Whether the key is there, even as null. */
bool weft__config_mentions(const weft_config *config, const char *key);

/* Factors of longrope, read when the config was: head_dim / 2 numbers each, or NULL. */
typedef struct weft__rope_lists {
    double *short_factor, *long_factor;
    int64_t n_short, n_long;
} weft__rope_lists;
const weft__rope_lists *weft__config_rope_lists(const weft_config *config);

/* The object that scales the rotary embedding (rope_parameters or rope_scaling); value NULL: none.
 */
weft_status weft__config_rope_object(const weft_config *config, weft__json *out);
weft_status weft__config_read_rope_lists(const weft_config *config, weft__rope_lists *out);

/* How layers with a window rotate: as rope_parameters says of sliding_attention; else, with
 * `sliding_theta`, by rope_local_base_freq (or that) without scaling; else as all layers. */
weft_status weft__config_sliding_rope(const weft_config *config, int64_t head_dim, double theta,
                                      double sliding_theta, weft_rope_options *out);

/* The shapes of the checkpoint's tensors by their paths, for what config.json leaves out. */
typedef struct weft__tensors {
    bool (*shape)(const void *context, const char *path, weft_dims *out);
    const void *context;
} weft__tensors;
/* `tensors` must outlive its use; NULL: there are none. */
void weft__config_set_tensors(weft_config *config, const weft__tensors *tensors);
bool weft__config_has_tensors(const weft_config *config);
/* False: there is no such tensor, or none at all. `out` may be NULL. */
bool weft__config_tensor(const weft_config *config, const char *path, weft_dims *out);

#endif
