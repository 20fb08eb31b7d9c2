/* engine/bench_train.c -- measures training steps of a LoRA adapter. */
#include <string.h>

#include "core/clock.h"
#include "core/failure.h"
#include "core/options.h"
#include "engine/bench.h"
#include "weft/adapter.h"
#include "weft/memory.h"
#include "weft/nn.h"
#include "weft/random.h"
#include "weft/train.h"

enum { STEPS = 3, WARM_UP = 1, ROWS = 1, LENGTH = 512, RANK = 16, SEED = 7 };

static int64_t given(int64_t value, int64_t fallback)
{
    return value != 0 ? value : fallback;
}

static weft_bench_train_options completed(const weft_bench_train_options *options)
{
    weft_bench_train_options o = {0};
    if (options != NULL)
        o = *options;
    o.steps = given(o.steps, STEPS);
    o.warm_up = weft__count_or_default(o.warm_up, WARM_UP);
    o.rows = given(o.rows, ROWS);
    o.length = given(o.length, LENGTH);
    o.rank = given(o.rank, RANK);
    return o;
}

/* Runs one step on random tokens; *took: seconds. */
static weft_status run_step(const weft_bench_train_options *o, weft_model *model,
                            weft_trainer *trainer, uint64_t number, double *took, double *loss)
{
    const int64_t vocabulary = weft_model_info_of(model)->vocab_size;
    weft_train_report report = {0};
    if (o->cancel != NULL && weft_cancel_is_set(o->cancel))
        return weft_fail(WEFT_CANCELLED, "bench: cancelled");
    weft_scope_open();
    weft_array *ids = weft_random_randint(weft_random_key(number), WEFT_DIMS(o->rows, o->length), 0,
                                          vocabulary, WEFT_INT32);
    const int64_t tokens = o->rows * o->length;
    const weft_batch batch = {
        .tokens = ids, .targets = ids, .n_targets = (double)tokens, .n_tokens = tokens};
    weft_status status = weft_eval(ids);
    if (status == WEFT_OK)
        status = weft_synchronize(weft_default_device());
    const double began = weft__seconds();
    if (status == WEFT_OK)
        status = weft_trainer_step(trainer, &batch, 1, 1, &report);
    if (status == WEFT_OK)
        status = weft_synchronize(weft_default_device());
    *took = weft__seconds() - began;
    *loss = report.loss;
    weft_scope_close(NULL);
    return status;
}

static weft_status run_steps(const weft_bench_train_options *o, weft_model *model,
                             weft_trainer *trainer, double *times, weft_bench_train_report *r)
{
    weft_status status = WEFT_OK;
    uint64_t number = SEED;
    double took = 0;
    for (int64_t i = 0; i < o->warm_up && status == WEFT_OK; i++)
        status = run_step(o, model, trainer, number++, i > 0 ? &took : &r->cold_seconds, &r->loss);
    for (int64_t i = 0; i < o->steps && status == WEFT_OK; i++)
        status = run_step(o, model, trainer, number++, &times[i], &r->loss);
    if (status == WEFT_OK && o->extra != NULL) {
        o->extra(o->context, true);
        status = run_step(o, model, trainer, number, &took, &r->loss);
        o->extra(o->context, false);
    }
    return status;
}

/* Injects an adapter unless the model has one. */
static weft_status inject(weft_model *model, int64_t rank)
{
    static const char *const all[] = {WEFT_LORA_ALL_LINEAR};
    weft_module *module = weft_model_module(model);
    const weft_nn_lora_options o = {
        .rank = rank, .alpha = 2 * (double)rank, .targets = all, .n_targets = 1};
    return weft_nn_lora_count(module) > 0 ? WEFT_OK : weft_nn_lora_inject(module, &o);
}

weft_status weft_bench_train(weft_model *model, const weft_bench_train_options *options,
                             weft_bench_train_report *report)
{
    const weft_bench_train_options o = completed(options);
    const weft_trainer_options training = {.lr = 1e-4, .clip = 1, .checkpoint = o.checkpoint};
    weft_trainer *trainer = NULL;
    *report = (weft_bench_train_report){.steps = o.steps, .tokens = o.rows * o.length};
    if (o.steps < 0 || o.rows < 0 || o.length < 0 || o.rank < 0)
        return weft_fail(WEFT_INVALID, "bench: steps, rows, length and rank: expected at least 0");
    double *times = weft_calloc((size_t)o.steps, sizeof *times);
    weft_status status =
        times != NULL ? inject(model, o.rank) : weft_fail(WEFT_MEMORY, "bench: out of memory");
    if (status == WEFT_OK)
        status = weft_trainer_new(model, &training, &trainer);
    weft_memory_reset_peak();
    if (status == WEFT_OK)
        status = run_steps(&o, model, trainer, times, report);
    report->peak_memory = weft_memory_peak();
    if (status == WEFT_OK)
        report->seconds = weft__bench_median(times, o.steps);
    if (report->seconds > 0)
        report->per_second = (double)report->tokens / report->seconds;
    weft_trainer_free(trainer);
    weft_free(times);
    return status;
}
