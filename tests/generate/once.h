/* tests/generate/once.h -- the storyteller, and what it generates after a prompt; for one file of a
 * suite. */
#ifndef TESTS_GENERATE_ONCE_H
#define TESTS_GENERATE_ONCE_H

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"

static weft_model *model;
static weft_tokenizer *tokenizer;

static bool ready(void)
{
    return storyteller(&model, &tokenizer);
}

static const int32_t once[] = {2010, 370, 627, 258, 550, 451, 309}; /* Once upon a time there was */
enum { ONCE = (int)(sizeof once / sizeof *once) };

static weft_generate_stats generate(const weft_generate_options *o, generated *t)
{
    weft_generate_stats stats = {0};
    CHECK_OK(weft_generate(model, tokenizer, once, ONCE, o, generated_collect, t, &stats));
    return stats;
}

#endif
