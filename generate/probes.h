/* generate/probes.h -- data of a generator for probes. */
#ifndef WEFT_GENERATE_PROBES_H
#define WEFT_GENERATE_PROBES_H

#include "generate/generator.h"

/* Arrays of a step that have not been passed to the callback yet. NULL for kinds that are not
 * requested. */
struct weft__probed {
    weft_array *logits, *entropy; /* (V); () */
    weft_layer_summary *layers;   /* NULL: not requested */
};

/* Creates slots for the requested kinds; NULL if none of them needs arrays. */
weft_status weft__probed_new(const weft_generator *g, weft__probed **out);
void weft__probed_free(const weft_generator *g, weft__probed *probed); /* NULL is accepted */

/* The number of slots in g->probed, and the address of one. */
int weft__probed_count(const weft_generator *g);
weft_array **weft__probed_slot(weft_generator *g, int i);

/* Keeps the same arrays. */
weft_status weft__probed_copy(const weft_generator *g, const weft__probed *probed,
                              weft__probed **out);

/* Sets the arrays that depend on logits (1, V). */
weft_status weft__probe_logits(weft_generator *g, weft_array *logits);

/* Events for a chunk of the prompt, and for a token with the arrays of its step (NULL: none). */
void weft__probe_chunk(weft_generator *g);
weft_status weft__probe_token(weft_generator *g, weft__probed *probed, int32_t id, double logprob);

#endif
