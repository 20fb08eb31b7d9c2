/* tests/fuzz/fuzz_checkpoint.c -- the bytes of a checkpoint's training.safetensors, from which a
 * run and an optimizer are restored. */
#include <stddef.h>
#include <stdint.h>

#include "tests/fuzz/tiny_model.h"
#include "train/run/checkpoint.h"
#include "weft/nn_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The identity of a run of the trainer, on data of one row. */
static bool identify(const weft_trainer *trainer, weft__identity *out)
{
    static const int32_t ids[] = {1, 2, 3, 4};
    weft_dataset *rows = NULL;
    weft_batches *batches = NULL;
    const bool made = weft_dataset_new(8, &rows) == WEFT_OK &&
                      weft_dataset_add(rows, ids, 4, 0) == WEFT_OK &&
                      weft_batches_new(rows, 1, 0, &batches) == WEFT_OK;
    if (made)
        weft__identity_of(&trainer->o, batches, out);
    weft_batches_free(batches);
    weft_dataset_free(rows);
    return made;
}

/* A trainer of the last norm alone, for the whole run, and the identity of its run. */
static weft_trainer *trainer_of_norm(weft__identity *identity)
{
    static weft_trainer *trainer;
    static weft__identity known;
    if (trainer == NULL && tiny_model() != NULL) {
        const weft_trainer_options o = {.folder = input_path(), .base_name = ""};
        weft_module *module = weft_model_module(tiny_model());
        weft_nn_freeze(module);
        if (weft_nn_unfreeze_some(module, &(weft_nn_choice){.path = "model.norm"}) != WEFT_OK ||
            weft_trainer_new(tiny_model(), &o, &trainer) != WEFT_OK || !identify(trainer, &known))
            return NULL;
    }
    *identity = known;
    return trainer;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char file[] = "step-1/training.safetensors";
    char path[128];
    weft__identity identity;
    weft__run_state state = {.skipped = 0};
    bool found;
    weft_set_log(input_drop_log, NULL);
    weft_trainer *trainer = trainer_of_norm(&identity);
    if (trainer == NULL || input_folder() == NULL)
        return 0;
    snprintf(path, sizeof path, "%s/step-1", input_path());
    if (mkdir(path, 0777) != 0 || !input_member(file, data, size))
        return 0;
    if (weft__checkpoint_load(trainer, &identity, &state, &found) == WEFT_OK && found &&
        (state.result.steps < 0 || state.result.tokens < 0 || trainer->micros[0] < 0))
        abort();
    snprintf(path, sizeof path, "%s/%s", input_path(), file);
    (void)weft_optim_load(trainer->optimizer, path); /* most inputs are malformed */
    return 0;
}
