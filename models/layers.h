/* models/layers.h -- reads the properties of each layer from config.json. */
#ifndef WEFT_MODELS_LAYERS_H
#define WEFT_MODELS_LAYERS_H

#include "models/decoder.h"

/* Checks the number of layers, before families look for tensors of all layers. */
weft_status weft__layers_check_number(const weft_config *config, const weft__decoder_config *c);

/* Sets sizes that are 0 and have defaults, and checks the others. */
weft_status weft__layers_check(const weft_config *config, weft__decoder_config *c);

/* The window of one layer, by layer_types or the rule; 0: none. */
weft_status weft__layers_window(const weft_config *config, const weft__decoder_config *c,
                                weft__window_rule rule, int64_t layer, int64_t *window);

/* Reads all layers; `out` has room for num_hidden_layers. */
weft_status weft__layers_read(const weft_config *config, const weft__decoder_config *c,
                              weft__window_rule windows, const weft__architecture *architecture,
                              weft__layer *out);

#endif
