/* engine/train.c -- weft_engine_train and weft_engine_adapt: calls that compute alone. */
#include "engine/engine.h"

typedef struct training {
    const weft_engine_train_options *options;
    weft_train_result *result;
} training;

static weft_status train(weft_engine *e, const weft_cancel *cancel, void *context)
{
    const training *t = context;
    weft_engine_train_options options = *t->options;
    options.trainer.cancel = cancel; /* set when the caller cancels */
    return e->backend->train != NULL ? e->backend->train(e->state, &options, t->result)
                                     : weft__engine_cannot(e, "train");
}

weft_status weft_engine_train(weft_engine *engine, const weft_engine_train_options *options,
                              weft_train_result *result)
{
    weft_train_result none;
    training t = {options, result != NULL ? result : &none};
    *t.result = (weft_train_result){0};
    return weft__engine_in_turn(engine, "train", true, options->trainer.cancel, train, &t);
}

static weft_status adapt(weft_engine *e, const weft_cancel *cancel, void *context)
{
    (void)cancel;
    return e->backend->adapt != NULL ? e->backend->adapt(e->state, context)
                                     : weft__engine_cannot(e, "replace adapters");
}

weft_status weft_engine_adapt(weft_engine *engine, const char *adapter)
{
    return weft__engine_in_turn(engine, "adapt", true, NULL, adapt, (void *)adapter);
}
