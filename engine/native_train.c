/* engine/native_train.c -- training with the native backend: data, an adapter, a trainer's run. */
#include <string.h>

#include "core/io/folder.h"
#include "engine/engine.h"
#include "weft/memory.h"
#include "weft/random.h"

/* A run: the call's options with defaults, and the objects created for it. */
typedef struct run {
    const weft_engine_train_options *options;
    weft__native_parts parts;
    weft_train_result *result;
    weft_dataset *data, *validation;
    weft_dataset_info data_info;
    weft_batches *batches;
} run;

static weft_status open_data(run *r)
{
    const weft_engine_train_options *o = r->options;
    weft_dataset_options options = o->dataset;
    if (options.chat == NULL)
        options.chat = r->parts.chat;
    if (options.tokenizer_path == NULL)
        options.tokenizer_path = r->parts.text;
    options.examples = o->trainer.objective ? o->trainer.objective->examples : WEFT_EXAMPLES_SINGLE;
    weft_status status = WEFT_OK;
    if (o->validation != NULL)
        status =
            weft_dataset_load(o->validation, r->parts.tokenizer, &options, 0, &r->validation, NULL);
    if (status == WEFT_OK)
        status =
            weft_dataset_load(o->data, r->parts.tokenizer, &options, o->validation ? 0 : o->split,
                              &r->data, o->validation ? NULL : &r->validation);
    if (status != WEFT_OK)
        return status;
    r->data_info = weft_dataset_info_of(r->data);
    return o->pack ? weft_batches_new_packed(r->data, o->batch_size, options.length,
                                             o->trainer.seed, &r->batches)
                   : weft_batches_new(r->data, o->batch_size, o->trainer.seed, &r->batches);
}

static weft_status add_references(run *r, weft_model *model)
{
    const weft_objective *objective = r->options->trainer.objective;
    if (objective == NULL || !(objective->columns & WEFT_COLUMN_REFERENCE))
        return WEFT_OK;
    const weft_reference_options o = {.batch_size = r->options->batch_size};
    weft_status status = weft_dataset_add_reference(r->data, model, &o);
    if (status == WEFT_OK && r->validation != NULL)
        status = weft_dataset_add_reference(r->validation, model, &o);
    return status;
}

/* Adds an adapter to the linears, unless the model has one. */
static weft_status add_adapter(const run *r, weft_module *tree, bool *added)
{
    static const char *const all[] = {WEFT_LORA_ALL_LINEAR};
    weft_nn_lora_options lora = r->options->lora;
    *added = false;
    if (weft_nn_lora_count(tree) > 0)
        return WEFT_OK;
    if (lora.targets == NULL) {
        lora.targets = all;
        lora.n_targets = 1;
    }
    weft_random_seed(r->options->trainer.seed);
    const weft_status status = weft_nn_lora_inject(tree, &lora);
    *added = status == WEFT_OK;
    return status;
}

static weft_status new_trainer(run *r, weft_model *model, weft_trainer **out)
{
    weft_trainer_options o = r->options->trainer;
    if (o.lr == 0)
        o.lr = WEFT_LORA_LEARNING_RATE;
    if (o.base_name == NULL)
        o.base_name = r->parts.path;
    if (o.data_name == NULL)
        o.data_name = r->options->data;
    o.data = &r->data_info;
    if (strcmp(r->parts.text, r->parts.path) != 0)
        o.tokenizer_path = r->parts.text;
    return weft_trainer_new(model, &o, out);
}

/* Trains. Called by weft__native_use. */
static weft_status train(void *context, weft_model *model)
{
    run *r = context;
    weft_module *tree = weft_model_module(model);
    weft_trainer *trainer = NULL;
    bool added = false;
    weft_status status = add_references(r, model);
    if (status == WEFT_OK)
        status = add_adapter(r, tree, &added);
    if (status == WEFT_OK)
        status = new_trainer(r, model, &trainer);
    if (status == WEFT_OK) {
        if (r->parts.prompt_cache != NULL)
            weft_prompt_cache_clear(r->parts.prompt_cache);
        status = weft_trainer_run(trainer, r->batches, r->validation, r->result);
    }
    weft_trainer_free(trainer);
    const bool usable = status == WEFT_OK || status == WEFT_CANCELLED;
    if (added && !usable && r->result->steps == 0)
        weft_nn_lora_remove(tree);
    if (!usable || r->options->out == NULL)
        return status;
    char *message = status != WEFT_OK ? weft_strdup(weft_error_message()) : NULL;
    weft__folder f;
    weft_status saved = weft__folder_open_new(r->options->out, &f);
    if (saved == WEFT_OK)
        saved = weft_adapter_save(model, f.path, r->parts.path);
    if (saved == WEFT_OK && strcmp(r->parts.text, r->parts.path) != 0)
        saved = weft_tokenizer_copy(r->parts.text, f.path);
    saved = weft__folder_replace(&f, r->options->out, saved);
    if (saved == WEFT_OK && message != NULL)
        weft_fail(status, "%s", message);
    weft_free(message);
    return saved != WEFT_OK ? saved : status;
}

weft_status weft__native_train(void *state, const weft_engine_train_options *options,
                               weft_train_result *result)
{
    run r = {.options = options, .result = result};
    if (options->data == NULL)
        return weft_fail(WEFT_INVALID, "engine: train: expected data");
    weft_status status = weft__native_parts_of(state, &r.parts);
    if (status == WEFT_OK)
        status = open_data(&r);
    if (status == WEFT_OK)
        status = weft__native_use(state, train, &r);
    weft_batches_free(r.batches);
    weft_dataset_free(r.data);
    weft_dataset_free(r.validation);
    return status;
}
