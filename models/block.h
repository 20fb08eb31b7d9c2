/* models/block.h -- one block of the decoder. */
#ifndef WEFT_MODELS_BLOCK_H
#define WEFT_MODELS_BLOCK_H

#include "models/decoder.h"

/* What all blocks of one forward share. */
typedef struct weft__step {
    weft_array *positions;   /* (L) or (B, L) */
    weft_array *frequencies; /* (d/2) */
    double amplitude;
    weft_array *mask; /* NULL: causality alone */
} weft__step;

/* `window` 0: none. */
weft_module *weft__block_new(const weft__decoder_config *c, int64_t window);

/* x (B, L, E) -> (B, L, E). cache may be NULL. */
weft_array *weft__block_forward(weft_module *block, weft_array *x, const weft__step *step,
                                weft_cache *cache);

/* Where its parameters are. */
weft_device *weft__block_device(const weft_module *block);

/* Whether the MLP's activation is known; its names for a message otherwise. */
bool weft__activation_known(const char *name);
extern const char weft__activation_names[];

#endif
