/* tests/support/models.h -- loads the small models of tests: those of tests/golden/models, and the
 * storyteller. */
#ifndef TESTS_SUPPORT_MODELS_H
#define TESTS_SUPPORT_MODELS_H

#include "weft/model.h"
#include "weft/tokenizer.h"

/* A new model from tests/golden/models/NAME, as it is stored there. NULL, and a failed check, when
 * it does not load. */
weft_model *fixture_model(const char *name);

/* The storyteller in float32 and its tokenizer, which all cases of a suite share: loaded by the
 * first call, freed at exit. False, and a failed check, when they do not load. */
bool storyteller(weft_model **model, weft_tokenizer **tokenizer);

/* The largest difference of two models' logits for a few tokens. */
double logits_apart(weft_model *a, weft_model *b);

/* Adds noise to all trained parameters. */
void disturb(weft_model *model);

#endif
