/* models/config.h -- internal accessors of config.json. */
#ifndef WEFT_MODELS_CONFIG_H
#define WEFT_MODELS_CONFIG_H

#include "core/io/json.h"
#include "weft/model.h"

/* The value of a key, looked up like the public accessors; out->value is NULL if it is absent or
 * null. The second function looks only at the top level. */
weft__json weft__config_at(const weft_config *config, const char *key);
weft__json weft__config_at_top(const weft_config *config, const char *key);

/* The most layers of a model. A number from a file is compared with it before a loop over layers.
 */
enum { WEFT__MOST_LAYERS = 4096 };

/* weft_config_load of a folder's config.json. */
weft_status weft__config_load_folder(const char *folder, weft_config **out);

/* The object of the text model: text_config or the top level. */
struct json_object *weft__config_object(const weft_config *config);
/* From now on, adds each key that is looked up to `keys`; NULL: no longer. */
void weft__config_record_keys(weft_config *config, struct json_object *keys);

/* Whether the head is tied: the configuration of a multimodal model states it for the text model
 * too, and either may say that it is separate. */
bool weft__config_is_tied(const weft_config *config);

/* Whether the key is present, even as null. */
bool weft__config_mentions(const weft_config *config, const char *key);

/* Whether the key is present and null, where that has a meaning of its own. */
bool weft__config_is_null(const weft_config *config, const char *key);

/* The factors of longrope: head_dim / 2 numbers each, or NULL. */
typedef struct weft__rope_lists {
    double *short_factor, *long_factor;
    int64_t n_short, n_long;
} weft__rope_lists;
const weft__rope_lists *weft__config_rope_lists(const weft_config *config);

/* The object that scales the rotary embedding (rope_parameters or rope_scaling); value NULL: none.
 */
weft_status weft__config_rope_object(const weft_config *config, weft__json *out);
weft_status weft__config_read_rope_lists(const weft_config *config, weft__rope_lists *out);

/* The rotary embedding of layers with a window: rope_parameters.sliding_attention; otherwise, with
 * `sliding_theta`, rope_local_base_freq (or that value) without scaling; otherwise as for all
 * layers. */
weft_status weft__config_sliding_rope(const weft_config *config, int64_t head_dim, double theta,
                                      double sliding_theta, weft_rope_options *out);

/* Looks up the shapes of the checkpoint's tensors by path, for values missing from config.json. */
typedef struct weft__tensors {
    bool (*shape)(const void *context, const char *path, weft_dims *out);
    const void *context;
} weft__tensors;
/* `tensors` must outlive its use; NULL: none. */
void weft__config_set_tensors(weft_config *config, const weft__tensors *tensors);
bool weft__config_has_tensors(const weft_config *config);
/* Whether the convolution at `path` in layers is (channels, taps, 1), as MLX stores it. */
bool weft__config_taps_first(const weft_config *config, int64_t n_layers, const char *path);
/* False: the tensor does not exist, or no tensors are known. `out` may be NULL. */
bool weft__config_tensor(const weft_config *config, const char *path, weft_dims *out);

#endif
