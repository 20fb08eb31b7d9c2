/* tests/train/test_no_memory.c -- each allocation of a training step of the llama fixture fails
 * once (on software drivers every ninth): each time the failure is reported, nothing leaks
 * (leaks are checked in the sanitizer build), the parameters are unchanged, and the step can be
 * repeated. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/train/recipes.h"

static const recipe *llama(void)
{
    for (int i = 0; i < n_recipes; i++) {
        if (recipes[i].folder[5] == 'l') {
            return &recipes[i];
        }
    }
    return NULL;
}

/* The sum of the squares of all trained parameters: it changes when any of them does. */
static double fingerprint(weft_model *model)
{
    weft_nn_slots slots;
    double sum = 0;
    if (CHECK_OK(weft_nn_trainable(weft_model_module(model), &slots))) {
        weft_scope_open();
        for (int i = 0; i < slots.n; i++) {
            weft_array *square = weft_square(weft_astype(*slots.slots[i], WEFT_FLOAT64));
            sum += weft_item(weft_sum(square, WEFT_ALL_AXES, false));
        }
        weft_scope_close(NULL);
    }
    weft_nn_slots_free(&slots);
    return sum;
}

/* A trainer made, one step, the trainer freed. */
static weft_status step(weft_model *model, const weft_batch *batch, bool checkpoint, bool compile)
{
    weft_trainer *trainer = NULL;
    weft_trainer_options options = recipe_options(llama());
    options.checkpoint = checkpoint;
    options.compile = compile;
    options.micro_batch = -1; /* otherwise a step without memory would be repeated */
    weft_status status = weft_trainer_new(model, &options, &trainer);
    if (status == WEFT_OK) {
        status = weft_trainer_step(trainer, batch, 1, 1, NULL);
    }
    weft_trainer_free(trainer);
    return status;
}

static void sweep(bool checkpoint, bool compile)
{
    weft_batches *batches = NULL;
    weft_batch batch = {0};
    weft_model *model = recipe_model(llama(), "initial");
    if (!model ||
        !CHECK_OK(weft_batches_open(recipe_path(llama(), "trajectory.safetensors"), &batches)) ||
        !CHECK_OK(weft_batches_at(batches, 0, &batch))) {
        return;
    }
    weft_scope_open();
    weft_memory_set_cache_limit(0); /* so that buffers are allocations too */
    CHECK_OK(step(model, &batch, checkpoint, compile));
    int64_t active = weft_memory_active();
    uint64_t n = 0;
    int failures = 0, tries = 0;
    weft_status status = WEFT_MEMORY;
    const uint64_t stride = !check_exhaustive() && check_in_software() ? 9 : 1;
    for (; n < 20000; n += stride) {
        double before = fingerprint(model);
        weft_scope_open(); /* a scope that found no memory leaves its temporaries to this one */
        weft_memory_fail_at(n + 1);
        status = step(model, &batch, checkpoint, compile);
        uint64_t made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (made <= n) { /* the step had fewer allocations: every one has failed once */
            break;
        }
        failures += status != WEFT_OK;
        tries++;
        bool same = status == WEFT_OK || fingerprint(model) == before;
        if (!same) {
            CHECK_FAIL("allocation %llu: the parameters changed", (unsigned long long)n + 1);
            break;
        }
    }
    printf("  %llu allocations, %d failures%s\n", (unsigned long long)n, failures,
           checkpoint ? " (with checkpointing)" : "");
    CHECK_OK(status);
    CHECK(n > 500 && n < 20000);
    /* Some failures are survived: those of a scope, of a cache, and those with a slower fallback:
     * a quarter of all in a compiled step on a device. */
    CHECK(failures > tries * 2 / 3);
    CHECK_EQ_INT(weft_memory_active(), active);
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    weft_batches_free(batches);
    weft_model_free(model);
}

static void every_allocation_of_a_step_fails_once(void)
{
    sweep(false, false);
}

static void every_allocation_of_a_checkpointed_step_fails_once(void)
{
    sweep(true, false);
}

static void every_allocation_of_a_compiled_step_fails_once(void)
{
    sweep(false, true);
}

CHECK_MAIN("train_no_memory", CHECK_CASE(every_allocation_of_a_step_fails_once),
           CHECK_CASE(every_allocation_of_a_checkpointed_step_fails_once),
           CHECK_CASE(every_allocation_of_a_compiled_step_fails_once))
