/* generate/shift.h -- generation beyond the context length (weft_generate_options.shift). */
#ifndef WEFT_GENERATE_SHIFT_H
#define WEFT_GENERATE_SHIFT_H

#include "generate/generation.h"

/* Creates a generator, of a prompt that may be longer than the context. */
weft_status weft__shift_open(weft_model *model, const int32_t *prompt, size_t n,
                             const weft_generate_options *options, weft_generator **out);

/* Whether it ended because of the context length, and generation should continue. */
bool weft__shift_wanted(const weft_generator *g);

/* Continues with the first and the last tokens. */
weft_status weft__shift_go_on(weft_generator *g);

#endif
