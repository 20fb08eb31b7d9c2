/* generate/shift.h -- generation beyond the context length (weft_generate_options.shift). */
#ifndef WEFT_GENERATE_SHIFT_H
#define WEFT_GENERATE_SHIFT_H

#include "generate/generation.h"

/* Creates the first generator; cuts a prompt that is longer than the context. */
weft_status weft__shift_open(weft__generation *r, const int32_t *prompt, size_t n);

/* Whether the generator ended because of the context length, and generation should continue. */
bool weft__shift_wanted(const weft__generation *r);

/* Replaces it by a generator that continues; by none on failure. */
weft_status weft__shift_go_on(weft__generation *r);

/* The generators' combined statistics; all zero before the first. */
weft_generate_stats weft__shift_stats(const weft__generation *r);

#endif
