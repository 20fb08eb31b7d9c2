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

#endif
