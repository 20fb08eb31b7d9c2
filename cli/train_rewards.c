/* cli/train_rewards.c -- weft train --reward: opens prompts and rewards. */
#include <stdlib.h>
#include <string.h>

#include "cli/common.h"
#include "cli/train.h"
#include "weft/task.h"

bool train_samples(const train_values *v)
{
    return train_has_rewards(v) && v->completions == NULL;
}

int64_t train_group(const train_values *v)
{
    const int64_t n = v->trainer.objective_options.num_generations;
    return n > 0 ? n : train_objective(v)->defaults.num_generations;
}

int64_t train_most_tokens(const train_values *v)
{
    const int64_t n = v->trainer.objective_options.max_completion_length;
    return n > 0 ? n : train_objective(v)->defaults.max_completion_length;
}

/* Parses --reward-weights. */
static weft_status read_weights(const train_values *v, double *out)
{
    const char *at = v->reward_weights;
    int n = 0;
    for (int i = 0; i < v->rewards.n; i++)
        out[i] = 1;
    for (bool more = at != NULL; more; n++) {
        char *end;
        const double weight = strtod(at, &end);
        if (end == at || !isfinite(weight) || (*end != ',' && *end != '\0'))
            return weft_fail(WEFT_INVALID,
                             "--reward-weights: expected numbers separated by commas, got %s",
                             weft_printable(v->reward_weights));
        if (n < v->rewards.n)
            out[n] = weight;
        more = *end == ',';
        at = end + 1;
    }
    if (at != NULL && n != v->rewards.n)
        return weft_fail(WEFT_INVALID,
                         "--reward-weights: expected a weight for each --reward, %d, got %d",
                         v->rewards.n, n);
    return WEFT_OK;
}

weft_status train_find_stop(train_run *r)
{
    char *end = NULL;
    size_t n = 0;
    weft_free(r->stop); /* of data that was read before */
    r->stop = NULL;
    r->sampling.n_stop = 0;
    if (!train_in_chats(r))
        return WEFT_OK;
    weft_status status = cli_end_of_turn(r->chat, &end);
    if (status == WEFT_OK && end)
        status = weft_tokenizer_encode(r->tokenizer, end, strlen(end), 0, &r->stop, &n);
    weft_free(end);
    r->sampling.stop = r->stop;
    r->sampling.n_stop = n == 1;
    return status;
}

/* Opens the prompts of --val-data. */
static weft_status open_validation(const train_values *v, train_run *r,
                                   const weft_dataset_options *o)
{
    weft_dataset_options options = *o;
    options.format = WEFT_DATA_AUTO; /* --format applies only to --data */
    r->validation_source.path = v->val_data;
    r->validation_given = true;
    weft_status status = cli_data_resolve(&r->validation_source, 1);
    return status == WEFT_OK ? weft_dataset_load_prompts(&r->validation_source, 1, r->tokenizer,
                                                         &options, &r->validation)
                             : status;
}

weft_status train_open_prompts(const train_values *v, train_run *r, const weft_dataset_options *o)
{
    const weft_rewards_options options = {.seconds = v->reward_seconds};
    weft_status status = read_weights(v, r->reward_weights);
    if (status == WEFT_OK && r->rewards == NULL)
        status = weft_rewards_new((const char *const *)v->rewards.at, v->rewards.n, &options,
                                  &r->rewards);
    if (status == WEFT_OK)
        status = cli_data_open(&v->source, r->sources);
    if (status == WEFT_OK)
        status =
            weft_dataset_load_prompts(r->sources, v->source.paths.n, r->tokenizer, o, &r->data);
    if (status == WEFT_OK && v->val_data)
        status = open_validation(v, r, o);
    if (status != WEFT_OK)
        return status;
    r->data_info = weft_dataset_info_of(r->data);
    r->sampling = v->sampling;
    r->sampling.tokenizer = r->tokenizer;
    r->sampling.reward = weft_rewards_score;
    r->sampling.context = r->rewards;
    r->sampling.names = (const char *const *)v->rewards.at;
    r->sampling.weights = r->reward_weights;
    r->sampling.n_rewards = v->rewards.n;
    status = train_find_stop(r);
    return status == WEFT_OK
               ? weft_batches_new(r->data, v->batch_size, v->trainer.seed, &r->batches)
               : status;
}

void train_print_rewards(const train_values *v)
{
    if (!train_samples(v))
        return;
    fprintf(stderr, "reward ");
    for (int i = 0; i < v->rewards.n; i++)
        fprintf(stderr, "%s %s", i ? "," : "", weft_printable(v->rewards.at[i]));
    fprintf(stderr, "; %s completions of each prompt\n", cli_count(train_group(v)));
}
