/* generate/shift.h -- texts beyond the model's positions (weft_generate_options.shift). */
#ifndef WEFT_GENERATE_SHIFT_H
#define WEFT_GENERATE_SHIFT_H

#include "generate/generation.h"

/* Makes the first generator, from a prompt that is cut where it is longer than the positions. */
weft_status weft__shift_open(weft__generation *r, const int32_t *prompt, size_t n);

/* Whether the generator has ended for want of positions, and the text is to go on. */
bool weft__shift_wanted(const weft__generation *r);

/* Puts a generator that goes on in its place; none when that fails. */
weft_status weft__shift_go_on(weft__generation *r);

/* The generators' stats together; all zero before the first. */
weft_generate_stats weft__shift_stats(const weft__generation *r);

#endif
