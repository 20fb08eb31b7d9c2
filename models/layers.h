/* models/layers.h -- what config.json says of the layers, one by one. */
#ifndef WEFT_MODELS_LAYERS_H
#define WEFT_MODELS_LAYERS_H

#include "models/decoder.h"

/* Fills in the sizes that are 0 and may be, and checks the rest. */
weft_status weft__layers_check(const weft_config *config, weft__decoder_config *c);

/* The window of one layer, 0: none; by layer_types or else the rule. */
weft_status weft__layers_window(const weft_config *config, const weft__decoder_config *c,
                                weft__window_rule rule, int64_t layer, int64_t *window);

/* All of them; `out` has room for num_hidden_layers. */
weft_status weft__layers_read(const weft_config *config, const weft__decoder_config *c,
                              weft__window_rule windows, const weft__architecture *architecture,
                              weft__layer *out);

#endif
