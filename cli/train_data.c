/* cli/train_data.c -- opens the data of weft train: samples, validation samples and batches. */
#include <string.h>

#include "cli/train.h"

/* Loads --val-data, or valid.jsonl of the folders in mlx-lm's layout. */
static weft_status load_validation(const train_values *v, train_run *r, weft_dataset_options o)
{
    char *parts[CLI_MOST];
    weft_data_source sources[CLI_MOST] = {{0}};
    cli_data_options(&v->source, &o);
    o.format = WEFT_DATA_AUTO; /* --format applies only to --data */
    r->validation_source.path = v->val_data;
    int n = 0;
    weft_status status = WEFT_OK;
    const bool own = train_splits_by_default(v);
    if (v->val_data != NULL) {
        status = cli_data_resolve(&r->validation_source, 1);
        sources[n++] = r->validation_source;
    }
    if (own && cli_data_parts(&v->source, "valid.jsonl", parts) < 0)
        status = weft_fail(WEFT_MEMORY, "train: out of memory for the paths of the data");
    for (int i = 0; own && i < v->source.paths.n; i++) {
        if (parts[i] != NULL)
            sources[n++].path = parts[i];
    }
    if (status == WEFT_OK && n > 0)
        status = weft_dataset_load_mixture(sources, n, r->tokenizer, &o, 0, &r->validation, NULL);
    if (own)
        cli_data_parts_free(&v->source, parts);
    return status;
}

/* Warns about validation samples that are also trained, which make the validation loss too low. */
static void report_duplicates(const train_run *r)
{
    int64_t n =
        r->validation_given && r->data ? weft_dataset_duplicates(r->validation, r->data) : 0;
    if (n > 0)
        weft_log_message(WEFT_LOG_WARNING, "%s of the %s validation samples are also trained",
                         cli_count(n), cli_count(weft_dataset_info_of(r->validation).samples));
}

void train_check_length(const train_run *r)
{
    const int64_t positions = weft_model_info_of(r->model)->max_positions;
    int64_t longest = r->data ? r->data_info.longest : 0;
    longest -=
        longest > 0 && r->data_info.examples == WEFT_EXAMPLES_TEXTS; /* the mark of the end */
    if (positions > 0 && longest > positions)
        weft_log_message(WEFT_LOG_WARNING,
                         "the longest sample has %s tokens, and the model was trained for %s "
                         "positions: --length %lld cuts longer samples as --long says",
                         cli_count(longest), cli_count(positions), (long long)positions);
}

/* Rows of packed preference examples have room for both samples of a pair. */
static weft_status open_batches(const train_values *v, train_run *r)
{
    const bool two = train_objective(v)->examples != WEFT_EXAMPLES_SINGLE;
    const int64_t room = two ? 2 * v->length : v->length;
    return v->pack
               ? weft_batches_new_packed(r->data, v->batch_size, room, v->trainer.seed, &r->batches)
               : weft_batches_new(r->data, v->batch_size, v->trainer.seed, &r->batches);
}

bool train_splits_by_default(const train_values *v)
{
    return isnan(v->val_split) && v->val_data == NULL && v->batches == NULL &&
           !train_has_rewards(v);
}

/* Refuses options that need validation if the data was too small to hold some out by default. */
static weft_status check_validation(const train_values *v, const train_run *r)
{
    const char *name = v->trainer.patience > 0      ? "patience"
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

/* A batch has all completions of batch_size prompts. */
static weft_status open_completions(const train_values *v, train_run *r)
{
    const weft_objective *objective = train_objective(v);
    const weft_objective_options *o = &v->trainer.objective_options;
    weft_status status = train_open_tokenizer(v, r);
    if (status == WEFT_OK)
        status = weft_dataset_load_completions(v->completions, objective, o, &r->data);
    return status == WEFT_OK ? weft_batches_new(r->data, v->batch_size * train_group(v),
                                                v->trainer.seed, &r->batches)
                             : status;
}

weft_status train_open_data(const train_values *v, train_run *r)
{
    r->sources[0].path = v->completions ? v->completions : v->batches;
    if (v->completions != NULL)
        return open_completions(v, r);
    if (v->batches != NULL && v->val_data == NULL)
        return weft_batches_open(v->batches, &r->batches);
    const int64_t most = r->positions + 1; /* of an encoder */
    weft_dataset_options o = {.length = most > 1 && most < v->length ? most : v->length,
                              .learn_prompt = v->train_on == TRAIN_ON_EVERYTHING,
                              .last_turn = v->train_on == TRAIN_ON_LAST,
                              .seed = v->trainer.seed,
                              .vocabulary = r->vocabulary,
                              .cancel = r->cancel,
                              .examples = train_objective(v)->examples};
    weft_status status = train_open_tokenizer(v, r);
    if (status == WEFT_OK)
        status = v->source.template_file
                     ? cli_read_template(v->source.template_file, r->tokenizer, &r->chat)
                     : cli_load_template(r->path, v->init_adapter, &r->chat);
    o.chat = r->chat;
    o.tokenizer_path = r->text_path;
    if (train_samples(v)) {
        cli_data_options(&v->source, &o);
        return status == WEFT_OK ? train_open_prompts(v, r, &o) : status;
    }
    if (status == WEFT_OK)
        status = train_find_labels(v, r, &o);
    if (status == WEFT_OK)
        status = train_open_embed(v, r, &o);
    if (status == WEFT_OK)
        status = load_validation(v, r, o);
    if (status != WEFT_OK)
        return status;
    r->validation_given = r->validation != NULL;
    if (v->batches != NULL)
        return weft_batches_open(v->batches, &r->batches);
    weft_dataset **split_off = r->validation_given ? NULL : &r->validation;
    const double split = r->validation_given          ? 0
                         : train_splits_by_default(v) ? WEFT_SPLIT_AUTO
                                                      : v->val_split;
    status = cli_data_open(&v->source, r->sources);
    if (status == WEFT_OK)
        status = cli_data_load(&v->source, r->tokenizer, &o, split, &r->data, split_off);
    if (status == WEFT_OK)
        status = check_validation(v, r);
    if (status == WEFT_OK && v->teacher_system)
        status = train_open_teacher_samples(v, r, &o, split);
    if (status == WEFT_OK)
        status = open_batches(v, r);
    if (status == WEFT_OK)
        report_duplicates(r);
    return status;
}

/* The first sample with an id that is not below the vocabulary's size; -1: all are. */
static int64_t misfit(const weft_dataset *data, int64_t vocabulary)
{
    const int64_t n = data ? weft_dataset_info_of(data).samples : 0;
    for (int64_t i = 0; i < n; i++) {
        const weft_sample s = weft_dataset_at(data, i);
        for (int64_t k = 0; k < s.length; k++) {
            if (s.ids[k] >= vocabulary)
                return i;
        }
    }
    return -1;
}

weft_status train_check_ids(const train_values *v, train_run *r)
{
    r->vocabulary = weft_model_info_of(r->model)->vocab_size;
    const int64_t bad = misfit(r->data, r->vocabulary);
    if (v->completions != NULL && bad >= 0)
        return weft_fail(WEFT_INVALID,
                         "%s: completion %lld: expected token ids below %lld, the size of the "
                         "model's vocabulary",
                         v->completions, (long long)bad + 1, (long long)r->vocabulary);
    bool again = bad >= 0 || misfit(r->validation, r->vocabulary) >= 0;
    const weft_status status = train_check_texts(v, r, &again);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < v->source.paths.n; i++) /* standard input is read once */
        again = again && strcmp(v->source.paths.at[i], "-") != 0;
    if (!again)
        return WEFT_OK; /* other batches are checked when the run begins */
    weft_batches_free(r->batches);
    weft_dataset_free(r->data);
    weft_dataset_free(r->validation);
    weft_chat_free(r->chat);
    weft_labels_free(&r->labels);
    r->batches = NULL;
    r->data = r->validation = NULL;
    r->chat = NULL;
    return train_open_data(v, r);
}
