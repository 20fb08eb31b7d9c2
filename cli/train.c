/* cli/train.c -- weft train: runs the training. */
#include "cli/train.h"

#include "cli/profile.h"
#include "cli/program.h"
#include "weft/tool/run.h"

/* The number of updates. By default one epoch, or as many epochs as make at least 100 updates. */
static int64_t updates(const train_values *v, const train_run *r)
{
    enum { LEAST = 100 };
    int64_t batches = weft_batches_count(r->batches);
    int64_t epoch = (batches + v->trainer.accumulate - 1) / v->trainer.accumulate;
    const int64_t times = v->trainer.objective_options.num_iterations,
                  iterations = train_has_rewards(v) && times > 0 ? times : 1;
    if (v->trainer.steps != 0)
        return v->trainer.steps;
    if (v->trainer.epochs != 0)
        return iterations *
               (int64_t)ceil(v->trainer.epochs * (double)batches / (double)v->trainer.accumulate -
                             1e-9);
    if (train_has_rewards(v))
        return iterations * epoch;
    if (v->batches != NULL || epoch >= LEAST)
        return epoch;
    return epoch * ((LEAST + epoch - 1) / epoch);
}

/* By default validation reads at most SHARE times the tokens of the updates, which takes about as
 * long as they do; but there is always one validation, after the last update. */
static int64_t validate_every(const train_values *v, const train_run *r)
{
    enum { TIMES = 10, SHARE = 3 };
    const int64_t steps = updates(v, r), batches = weft_batches_count(r->batches);
    if (v->val_every != CLI_ABSENT)
        return v->val_every;
    double times = TIMES;
    if (r->data && r->validation) {
        const double epoch = (double)weft_dataset_info_of(r->data).tokens,
                     read = epoch * (double)(steps * v->trainer.accumulate) / (double)batches,
                     each = (double)weft_dataset_info_of(r->validation).tokens;
        times = fmax(fmin(times, floor(SHARE * read / fmax(each, 1))), 1);
    }
    return (double)steps > times ? steps / (int64_t)times : 1;
}

weft_trainer_options train_trainer_options(const train_values *v, train_run *r)
{
    if (r->data)
        r->data_info = weft_dataset_info_of(r->data);
    const bool data = v->source.paths.n > 0;
    weft_trainer_options o = v->trainer;
    o.objective = train_objective(v);
    o.objective_options = train_objective_options(v, r);
    const bool samples = train_samples(v) || v->trainer.objective_options.lmbda > 0;
    o.sampling = samples ? &r->sampling : NULL;
    o.steps = updates(v, r);
    o.optimizer = train_optimizer(v);
    o.optimizer_options = r->optimizer_options;
    if (o.schedule == NULL)
        o.schedule = data ? "cosine" : "constant";
    o.warmup = v->warmup != CLI_ABSENT ? v->warmup : 0;
    o.warmup_share = v->warmup == CLI_ABSENT && data ? WEFT_LORA_WARMUP : 0;
    o.clip = isnan(v->clip) ? (data ? 1.0 : 0.0) : v->clip;
    o.validate_every = validate_every(v, r);
    o.sampler = v->sample_prompts.n > 0 && train_is_first() ? train_sample : NULL;
    o.general = r->general;
    o.folder = v->out;
    o.command = (const char *const *)r->words.at;
    o.n_command = r->words.n;
    o.base_name = r->path;
    o.init_adapter = v->init_adapter;
    o.data_name = data ? cli_data_first(&v->source) : v->completions ? v->completions : v->batches;
    o.sources = r->sources;
    o.n_sources = data ? v->source.paths.n : 1;
    o.validation_source = v->val_data ? &r->validation_source : NULL;
    o.data = r->data ? &r->data_info : NULL;
    o.callback = train_is_first() ? train_show : NULL;
    o.validating = train_is_first() ? train_show_validation : NULL;
    o.context = r;
    o.group = train_ranks();
    train_put_tokenizer(v, r, &o);
    return o;
}

static weft_status train(const train_values *v, train_run *r)
{
    weft_trainer_options o = train_trainer_options(v, r);
    if (train_is_first())
        train_check_length(r);
    if (v->dry_run)
        return train_dry_run(v, r, &o);
    if (v->verify)
        return train_verify(v, r, &o);
    weft_status status = train_catch_signals(&o.cancel);
    if (status == WEFT_OK)
        status = train_limit_memory(v, r);
    if (status == WEFT_OK)
        status = weft_trainer_new(r->model, &o, &r->trainer);
    status = weft_group_agree(o.group, status, NULL);
    if (status != WEFT_OK)
        return status;
    train_print_plan(v, r, &o);
    r->planned = o.steps;
    cli_progress_start(&r->progress);
    status = cli_profile_start(&v->place);
    if (status == WEFT_OK)
        status = weft_trainer_run(r->trainer, r->batches, r->validation, &r->result);
    cli_progress_end(&r->progress);
    if (status == WEFT_MEMORY && weft_group_info_of(o.group).size == 1)
        status = train_out_of_memory(v, r, &o);
    if (status == WEFT_OK && train_is_first() && train_reload(v, r, o.cancel) != WEFT_OK)
        weft_log_message(WEFT_LOG_WARNING, "%s/best cannot be loaded again: %s",
                         weft_printable(v->out), weft_error_message());
    const bool ended = status == WEFT_OK || status == WEFT_CANCELLED;
    if (status == WEFT_OK || (ended && v->json))
        train_print_result(v, r);
    if (train_is_first() && ended && !v->json)
        cli_profile_print();
    if (status == WEFT_CANCELLED)
        weft_fail(
            status,
            "train: stopped after update %lld of %lld; %s/last holds the result so far; %s train "
            "--out %s --resume continues",
            (long long)r->result.steps, (long long)o.steps, v->out, cli_program(), v->out);
    return status;
}

void train_free(train_run *r)
{
    weft_trainer_free(r->trainer);
    weft_batches_free(r->batches);
    cli_data_release(r->sources, CLI_MOST);
    cli_data_release(&r->validation_source, 1);
    weft_dataset_free(r->data);
    weft_dataset_free(r->validation);
    weft_dataset_free(r->general);
    weft_tokenizer_free(r->tokenizer);
    weft_free(r->text_path);
    weft_labels_free(&r->labels);
    weft_embed_settings_free(&r->embed);
    weft_chat_free(r->chat);
    weft_rewards_free(r->rewards);
    weft_free(r->stop);
    weft_model_free(r->model);
    weft_model_free(r->teacher);
    train_free_samples(r);
    weft_free(r->optimizer_options);
    cli_words_free(&r->words);
}

/* Runs the training with complete options: those of --config or of the resumed run have been read.
 */
static int run_with(const train_values *v)
{
    const char *why = train_complaint(v);
    if (why != NULL)
        return cli_usage("train", "%s", why);
    train_run r = {.values = v,
                   .latest_validation = (double)NAN,
                   .latest_accuracy = (double)NAN,
                   .reloaded_validation = (double)NAN};
    if (train_read_texts(v, &r) != WEFT_OK) {
        weft_free(r.optimizer_options);
        return cli_usage("train", "%s", weft_error_message());
    }
    weft_status status = v->verify ? WEFT_OK : train_check_out(v);
    if (status == WEFT_OK)
        status = cli_find_model(&v->place, v->model, r.path, sizeof r.path);
    if (status == WEFT_OK)
        status =
            cli_place_settle(r.path, &v->place, v->full ? PLACE_FULL : PLACE_LORA, train_ranks());
    if (status == WEFT_OK) {
        r.words = train_words(v);
        status = train_open_data(v, &r);
    }
    if (status == WEFT_OK)
        status = train_store_teacher(v, &r);
    if (status == WEFT_OK)
        status = cli_load_model(r.path, &v->place, NULL, &r.model);
    if (status == WEFT_OK)
        status = train_add_head(v, &r);
    if (status == WEFT_OK)
        status = train_add_adapter(v, &r);
    if (status == WEFT_OK)
        status = train_check_ids(v, &r);
    if (status == WEFT_OK)
        status = train_open_general(v, &r);
    if (status == WEFT_OK)
        status = train_add_reference(v, &r);
    if (status == WEFT_OK)
        status = train_open_teacher(v, &r);
    if (status == WEFT_OK)
        status = train(v, &r);
    int code = status == WEFT_OK && r.differs ? CLI_FAILURE : cli_status(status);
    if (status == WEFT_CANCELLED && train_stop_signal() != 0)
        code = 128 + train_stop_signal();
    train_free(&r);
    return code;
}

int train_parsed(train_values *v)
{
    cli_word_list words = {.n = 0};
    weft_status status = WEFT_OK;
    const char *conflict = train_adapter_conflict(v);
    if (conflict != NULL && v->verify == NULL) /* a recorded command line has all defaults */
        return cli_usage("train", "%s", conflict);
    if (v->trainer.resume && !v->trainer.overwrite && weft_run_exists(v->out))
        status = train_resume(v, &words);
    status = train_share_machine(v, status);
    const int code = status == WEFT_OK ? run_with(v) : cli_status(status);
    cli_words_free(&words);
    return code;
}

int train_command(void *values)
{
    const weft_status status = train_open_ranks();
    if (status != WEFT_OK)
        return cli_status(status);
    const int code = train_with_config(values, train_parsed);
    train_close_ranks(code);
    return code;
}
