/* tests/nn/adapted.h -- a net of three layers for tests of adapters. */
#ifndef TESTS_NN_ADAPTED_H
#define TESTS_NN_ADAPTED_H

#include "weft/nn.h"

/* layers.0 .. layers.2, each with q_proj, v_proj and up_proj, and lm_head; NULL: no memory. */
weft_module *adapted_net(void);
/* Its input: (2, 16) float32. */
weft_array *adapted_input(void);
/* Fills every lora_B, so that the adapters change results. */
void adapted_fill(weft_module *m);
/* The largest magnitude of a - b. */
double adapted_difference(weft_array *a, weft_array *b);

#endif
