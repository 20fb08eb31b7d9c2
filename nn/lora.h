/* nn/lora.h -- between the adapter's layer and its injection. */
#ifndef WEFT_NN_LORA_H
#define WEFT_NN_LORA_H

#include "nn/module.h"

/* An adapter that fits around `base` but does not hold it yet: weft__lora_attach, which cannot
 * fail, takes it. */
weft_status weft__lora_new(const weft_module *base, int64_t rank, double scale, double dropout,
                           weft_dtype dtype, weft_nn_lora_linear **out);
void weft__lora_attach(weft_nn_lora_linear *m, weft_module *base);

#endif
