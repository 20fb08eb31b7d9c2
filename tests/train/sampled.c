/* tests/train/sampled.c -- runs of the storyteller that sample and reward completions. */
#include "tests/train/sampled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/task.h"

static const char prompts[] = "{\"prompt\": \"The king\", \"answer\": \"a\"}\n"
                              "{\"prompt\": \"Once upon a time there was a\"}\n"
                              "{\"prompt\": \"A fox\", \"answer\": 3}\n"
                              "{\"prompt\": \"The queen said that the\"}\n"
                              "{\"prompt\": \"Long ago\", \"answer\": [\"x\", \"y\"]}\n"
                              "{\"question\": \"In the wood\"}\n";

/* Two rewards: the share of the letter e, and whether there is a period, null for some. */
static weft_status rewards(void *context, const weft_completion *c, size_t n,
                           const weft_cancel *cancel, double *out)
{
    sampled_run *r = context;
    (void)cancel;
    r->calls++;
    r->mean = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t length = strlen(c[i].text);
        double letters = 0;
        for (size_t k = 0; k < length; k++)
            letters += c[i].text[k] == 'e';
        out[2 * i] = letters / (double)(length + 1);
        out[2 * i + 1] = length % 5 == 4 ? NAN : strchr(c[i].text, '.') != NULL;
        r->mean += (out[2 * i] + (isnan(out[2 * i + 1]) ? 0 : 0.25 * out[2 * i + 1])) / (double)n;
        CHECK(c[i].tokens >= 1 && c[i].tokens <= SAMPLED_MOST);
        CHECK(!c[i].truncated || c[i].tokens == SAMPLED_MOST);
        CHECK(c[i].row[0] == '{' && c[i].where != NULL);
        if (r->n_texts < SAMPLED_KEPT)
            snprintf(r->texts[r->n_texts++], sizeof *r->texts, "%s|%s", c[i].prompt, c[i].text);
    }
    return WEFT_OK;
}

static weft_model *starting_model(const char *start)
{
    weft_model *model = NULL;
    const weft_model_options f32 = {.dtype = WEFT_FLOAT32};
    if (!CHECK_OK(weft_model_load(check_source("examples/storyteller"), &f32, &model)))
        return NULL;
    if (start) {
        CHECK_OK(weft_adapter_load(model, start, NULL));
        return model;
    }
    weft_random_seed(7);
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model),
                                 &(weft_nn_lora_options){.rank = 4, .alpha = 8}));
    return model;
}

static weft_dataset *load_data(const sampled_run *r, const weft_tokenizer *tokenizer)
{
    weft_dataset *d = NULL;
    if (r->file[0]) {
        CHECK_OK(weft_dataset_load_completions(r->file, r->objective, &r->options, &d));
        return d;
    }
    const char *path = check_temporary("prompts.jsonl");
    const weft_data_source source = {.path = path};
    CHECK_OK(weft_file_write(path, prompts, sizeof prompts - 1));
    CHECK_OK(weft_dataset_load_prompts(&source, 1, tokenizer, NULL, &d));
    return d;
}

static void keep_values(sampled_run *r, weft_model *model)
{
    weft_nn_slots slots = {0};
    if (weft_nn_trainable(weft_model_module(model), &slots) == WEFT_OK) {
        for (int i = 0; i < slots.n; i++) {
            weft_array *a = *slots.slots[i];
            if (CHECK(r->n_values + weft_size(a) <= SAMPLED_VALUES) &&
                weft_read(a, WEFT_FLOAT32, r->values + r->n_values, weft_size(a)) == WEFT_OK)
                r->n_values += weft_size(a);
        }
    }
    weft_nn_slots_free(&slots);
}

bool sampled_open(sampled_run *r)
{
    r->model = starting_model(r->start);
    r->objective = r->objective ? r->objective : &weft_objective_grpo;
    r->options.num_generations = SAMPLED_GROUP;
    r->options.max_completion_length = SAMPLED_MOST;
    return r->model &&
           CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &r->tokenizer)) &&
           (r->data = load_data(r, r->tokenizer)) != NULL &&
           CHECK_OK(weft_batches_new(r->data, r->file[0] ? 2 * SAMPLED_GROUP : 2, 3, &r->batches));
}

void sampled_close(sampled_run *r)
{
    weft_batches_free(r->batches);
    weft_dataset_free(r->data);
    weft_tokenizer_free(r->tokenizer);
    weft_model_free(r->model);
    r->batches = NULL;
    r->data = NULL;
    r->tokenizer = NULL;
    r->model = NULL;
}

/* The callback. A report's parts are those of the trainer. */
static bool keep(void *context, const weft_train_report *report)
{
    sampled_run *r = context;
    const weft_policy_report *p = &report->rewards.policy;
    for (int k = 0; k < p->n_parts && k < 2; k++) {
        r->parts[r->history.n][2 * k] = p->parts[k].mean;
        r->parts[r->history.n][2 * k + 1] = p->parts[k].std;
    }
    return run_keep(&r->history, report);
}

void sampled_train(weft_group *group, void *run)
{
    sampled_run *r = run;
    const char *const names[] = {"letters", r->same_names ? "letters" : "period"};
    static const double weights[] = {1, 0.25};
    weft_trainer *trainer = NULL;
    weft_sampling s = r->sampling;
    s.tokenizer = r->tokenizer;
    s.reward = s.reward ? s.reward : rewards;
    s.context = s.context ? s.context : r;
    s.names = names;
    s.weights = weights;
    s.n_rewards = 2;
    r->history.stop_after = r->stop_after;
    const weft_trainer_options o = {.objective = r->objective,
                                    .objective_options = r->options,
                                    .sampling = r->file[0] ? NULL : &s,
                                    .steps = r->steps,
                                    .lr = r->lr > 0 ? r->lr : 0.01,
                                    .accumulate = r->accumulate,
                                    .compile = r->compile,
                                    .seed = 5,
                                    .validate_every = r->validate_every,
                                    .patience = r->patience,
                                    .folder = r->folder,
                                    .resume = r->resume,
                                    .overwrite = r->overwrite,
                                    .save_every = 2,
                                    .cancel = r->cancel,
                                    .group = group,
                                    .callback = keep,
                                    .context = r};
    r->status = weft_group_agree(group, weft_trainer_new(r->model, &o, &trainer), NULL);
    if (r->status == WEFT_OK)
        r->status =
            weft_trainer_run(trainer, r->batches, r->validated ? r->data : NULL, &r->result);
    snprintf(r->message, sizeof r->message, "%s", r->status == WEFT_OK ? "" : weft_error_message());
    keep_values(r, r->model);
    weft_trainer_free(trainer);
}

void sampled_run_alone(sampled_run *r)
{
    if (sampled_open(r))
        sampled_train(NULL, r);
    sampled_close(r);
}
