/* cli/train_data.c -- opens the data of weft train: samples, validation samples and batches. */
#include "cli/train.h"

static weft_status load_validation(const train_values *v, train_run *r, weft_dataset_options o)
{
    cli_data_options(&v->source, &o);
    o.format = WEFT_DATA_AUTO; /* --format applies only to --data */
    weft_data_source *source = &r->validation_source;
    source->path = v->val_data;
    const weft_status status = cli_data_resolve(source, 1);
    return status == WEFT_OK
               ? weft_dataset_load_mixture(source, 1, r->tokenizer, &o, 0, &r->validation, NULL)
               : status;
}

/* Warns about validation samples that are also trained, which make the validation loss too low. */
static void report_duplicates(const train_values *v, const train_run *r)
{
    int64_t n = v->val_data && r->data ? weft_dataset_duplicates(r->validation, r->data) : 0;
    if (n > 0)
        weft_log_message(WEFT_LOG_WARNING, "%s of the %s validation samples are also trained",
                         cli_count(n), cli_count(weft_dataset_info_of(r->validation).samples));
}

/* Rows of packed preference examples have room for both samples of a pair. */
static weft_status open_batches(const train_values *v, train_run *r)
{
    const bool two = train_objective(v)->examples != WEFT_EXAMPLES_SINGLE;
    const int64_t room = two ? 2 * v->length : v->length;
    return v->pack ? weft_batches_new_packed(r->data, v->batch_size, room, (uint64_t)v->seed,
                                             &r->batches)
                   : weft_batches_new(r->data, v->batch_size, (uint64_t)v->seed, &r->batches);
}

bool train_splits_by_default(const train_values *v)
{
    return isnan(v->val_split) && v->val_data == NULL && v->batches == NULL;
}

/* Refuses options that need validation if the data was too small to hold some out by default. */
static weft_status check_validation(const train_values *v, const train_run *r)
{
    const char *name = v->patience > 0              ? "patience"
                       : v->sample_prompts.n > 0    ? "sample-prompt"
                       : v->val_every != CLI_ABSENT ? "val-every"
                                                    : NULL;
    if (name == NULL || r->validation != NULL || !train_splits_by_default(v))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "train: --%s needs --val-split or --val-data: the data has only %s samples, "
                     "and fewer than 200 are not split by default",
                     name, cli_count(weft_dataset_info_of(r->data).samples));
}

weft_status train_open_data(const train_values *v, train_run *r)
{
    r->sources[0].path = v->batches;
    if (v->batches != NULL && v->val_data == NULL)
        return weft_batches_open(v->batches, &r->batches);
    weft_dataset_options o = {.length = v->length,
                              .learn_prompt = v->train_on == TRAIN_ON_EVERYTHING,
                              .last_turn = v->train_on == TRAIN_ON_LAST,
                              .seed = (uint64_t)v->seed,
                              .examples = train_objective(v)->examples};
    weft_status status = train_open_tokenizer(v, r);
    if (status == WEFT_OK)
        status = cli_load_template(r->path, v->init_adapter, &r->chat);
    o.chat = r->chat;
    o.tokenizer_path = r->text_path;
    if (status == WEFT_OK)
        status = train_find_labels(v, r, &o);
    if (status == WEFT_OK && v->val_data != NULL)
        status = load_validation(v, r, o);
    if (status != WEFT_OK)
        return status;
    if (v->batches != NULL)
        return weft_batches_open(v->batches, &r->batches);
    weft_dataset **split_off = v->val_data != NULL ? NULL : &r->validation;
    const double split = train_splits_by_default(v) ? WEFT_SPLIT_AUTO
                         : v->val_data != NULL      ? 0
                                                    : v->val_split;
    status = cli_data_open(&v->source, r->sources);
    if (status == WEFT_OK)
        status = cli_data_load(&v->source, r->tokenizer, &o, split, &r->data, split_off);
    if (status == WEFT_OK)
        status = check_validation(v, r);
    if (status == WEFT_OK)
        status = open_batches(v, r);
    if (status == WEFT_OK)
        report_duplicates(v, r);
    return status;
}
