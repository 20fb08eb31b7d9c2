/* tests/support/models.c -- loads the small models of tests: those of tests/golden/models, and the
 * storyteller. */
#include "tests/support/models.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"

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
