/* generate/caches/plan.h -- how a model's caches store keys and values by default. */
#ifndef WEFT_GENERATE_CACHES_PLAN_H
#define WEFT_GENERATE_CACHES_PLAN_H

#include "weft/model.h"

/* weft_cache_options.kv_bits with the default for this model instead of 0. */
int weft__kv_bits(weft_model *model, int bits);
/* A copy of the options (NULL: all zero) with such kv_bits. */
weft_cache_options weft__cache_options_of(weft_model *model, const weft_cache_options *options);
/* The number of tokens that fit in free memory in caches that keep all tokens, beside the windows
 * and states of so many sequences. */
int64_t weft__cache_fitting(weft_model *model, const weft_cache_options *options, int64_t rows);
bool weft__cache_options_same(const weft_cache_options *a, const weft_cache_options *b);

#endif
