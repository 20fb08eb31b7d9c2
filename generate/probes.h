/* generate/probes.h -- what a generator keeps for probes. */
#ifndef WEFT_GENERATE_PROBES_H
#define WEFT_GENERATE_PROBES_H

#include "generate/generator.h"

/* Arrays of a step, which the callback has not got yet. NULL where a kind is not wanted. */
struct weft__probed {
    weft_array *logits, *entropy; /* (V); () */
    weft_layer_summary *layers;   /* NULL: none is wanted */
};

/* Slots for the kinds that need arrays; none needs them: NULL. */
weft_status weft__probed_new(const weft_generator *g, weft__probed **out);
void weft__probed_free(const weft_generator *g, weft__probed *probed); /* NULL is accepted */

/* How many slots g->probed has, and the address of one. */
int weft__probed_count(const weft_generator *g);
weft_array **weft__probed_slot(weft_generator *g, int i);

/* The same arrays, kept. */
weft_status weft__probed_copy(const weft_generator *g, const weft__probed *probed,
                              weft__probed **out);

/* Sets what logits (1, V) give. */
weft_status weft__probe_logits(weft_generator *g, weft_array *logits);

/* Events of a chunk of the prompt, and of a token with what its step kept (NULL: nothing). */
void weft__probe_chunk(weft_generator *g);
weft_status weft__probe_token(weft_generator *g, weft__probed *probed, int32_t id, double logprob);

#endif
