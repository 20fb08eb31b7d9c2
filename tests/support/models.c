/* tests/support/models.c -- loads the small models of tests: those of tests/golden/models, and the
 * storyteller. */
#include "tests/support/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "weft/ops.h"

weft_model *fixture_model(const char *name)
{
    char path[256];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    CHECK_OK(weft_model_load(check_fixture(path), NULL, &model));
    return model;
}

static weft_model *story_model;
static weft_tokenizer *story_tokenizer;

static void unload(void)
{
    weft_tokenizer_free(story_tokenizer);
    weft_model_free(story_model);
}

bool storyteller(weft_model **model, weft_tokenizer **tokenizer)
{
    if (!story_model) {
        const char *folder = check_source("examples/storyteller");
        const weft_model_options options = {.dtype = WEFT_FLOAT32};
        atexit(unload);
        CHECK_OK(weft_model_load(folder, &options, &story_model));
        CHECK_OK(weft_tokenizer_load(folder, &story_tokenizer));
    }
    *model = story_model;
    *tokenizer = story_tokenizer;
    return story_model && story_tokenizer;
}

double logits_apart(weft_model *a, weft_model *b)
{
    const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    weft_scope_open();
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 8));
    weft_array *difference =
        weft_subtract(weft_model_forward(a, tokens, NULL), weft_model_forward(b, tokens, NULL));
    const double worst = weft_item(weft_max(weft_abs(difference), WEFT_ALL_AXES, false));
    weft_scope_close(NULL);
    return worst;
}

void disturb(weft_model *model)
{
    weft_nn_slots slots;
    CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots));
    for (int i = 0; i < slots.n; i++) {
        weft_scope_open();
        weft_array *old = *slots.slots[i];
        weft_array *noise = weft_random_normal(NULL, weft_shape(old), 0, 0.1, WEFT_FLOAT32);
        CHECK_OK(weft_set(slots.slots[i], weft_astype(weft_add(old, noise), weft_dtype_of(old))));
        weft_scope_close(NULL);
    }
    weft_nn_slots_free(&slots);
}
