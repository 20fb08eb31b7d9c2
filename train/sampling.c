/* train/sampling.c -- samples completions of an update's prompts with the current weights, and has
 * them rewarded. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "core/io/text.h"
#include "nn/lora.h"
#include "train/data/builder.h"
#include "train/data/dataset.h"
#include "train/examples.h"
#include "train/parallel/parallel.h"
#include "train/rollout.h"
#include "weft/batch.h"

/* The completions of an update while they are sampled: those of a prompt follow each other. Each
 * batch is sampled and rewarded by itself, so how many rows are computed at a time, and which
 * completions a reward sees, does not depend on the number of ranks. */
typedef struct sampled {
    weft_trainer *t;
    weft__rollout r;
    int64_t *which, *numbers; /* those of r */
    const int32_t *eos;
    int n_eos;
    weft_generate_options *options; /* these are (n group) */
    weft_generate_request *requests;
    weft_generated_row *rows;
    weft_completion *texts; /* own `text` */
    bool greedy;            /* the most probable tokens */
} sampled;

static int64_t count(const sampled *s)
{
    return s->r.n * s->r.group;
}

static const weft_task_row *row_of(const weft__rollout *r, int64_t i)
{
    return &r->prompts->rows.at[r->which[i / r->group]];
}

/* ---- sampling ------------------------------------------------------------------------------- */

/* Whether the completions have rewards. Those of distillation follow the prompts of samples. */
static bool has_rewards(const sampled *s)
{
    return s->r.prompts->info.examples == WEFT_EXAMPLES_PROMPTS;
}

/* The number of ids before the last completion of sample i; all of a prompt. */
static int64_t prompt_length(const weft_dataset *d, int64_t i)
{
    const bool prompts = d->info.examples == WEFT_EXAMPLES_PROMPTS;
    const weft_sample sample = weft_dataset_at(d, i);
    int64_t n = sample.length;
    while (!prompts && n > 1 && sample.weights[n - 1] == 0)
        n--;
    while (!prompts && n > 1 && sample.weights[n - 1] != 0)
        n--;
    return n;
}

weft_status weft__rollout_check_prompts(const weft_dataset *d)
{
    for (int64_t i = 0; i < d->info.samples; i++) {
        if (prompt_length(d, i) < 2)
            return weft_fail(WEFT_INVALID,
                             "objective distill: lmbda: sample %lld: expected a prompt of at least "
                             "2 tokens before the completion, got 1",
                             (long long)i + 1);
    }
    return WEFT_OK;
}

static bool ends(const sampled *s, int32_t id)
{
    const weft_sampling *o = s->t->o.sampling;
    bool found = false;
    for (int i = 0; i < s->n_eos; i++)
        found = found || s->eos[i] == id;
    for (int i = 0; i < o->n_stop; i++)
        found = found || o->stop[i] == id;
    return found;
}

/* weft_generate_fn: a token that ends a completion belongs to it. */
static bool goes_on(void *context, const weft_generated *token)
{
    return token->id < 0 || !ends(context, token->id);
}

/* Whether a completion has its end. */
static bool is_ended(const sampled *s, const weft_generated_row *row)
{
    return row->n > 0 && ends(s, row->ids[row->n - 1]);
}

/* Makes the requests. The random numbers of a token depend on the seed, the batch, the prompt, the
 * completion's index in its group, and the position. Caches do not depend on free memory. */
static void make_requests(sampled *s)
{
    const weft_trainer_options *o = &s->t->o;
    for (int64_t i = 0; i < count(s); i++) {
        const weft_sample prompt = weft_dataset_at(s->r.prompts, s->which[i / s->r.group]);
        const uint64_t batch = weft__mix(o->seed, (uint64_t)s->numbers[i / s->r.group]),
                       group = weft__mix(batch, (uint64_t)s->which[i / s->r.group]);
        s->options[i] = (weft_generate_options){
            .sampler = {.temperature = s->greedy ? 0 : o->objective_options.temperature,
                        .top_p = o->sampling->top_p,
                        .top_k = o->sampling->top_k,
                        .min_p = o->sampling->min_p,
                        .order = WEFT_SAMPLER_TOP_K_FIRST},
            .seed = weft__mix(group, (uint64_t)(i % s->r.group)),
            .max_tokens = o->objective_options.max_completion_length,
            .ignore_eos = true,
            .logprobs = !s->greedy,
            .scaled_logprobs = !s->greedy,
            .cache = {.max_context = -1, .kv_bits = 32},
        };
        const size_t length = (size_t)prompt_length(s->r.prompts, s->which[i / s->r.group]);
        s->requests[i] =
            (weft_generate_request){.prompt = {prompt.ids, length}, .options = &s->options[i]};
    }
}

/* Checks that the completions from .. to were sampled as far as they go. */
static weft_status check_rows(const sampled *s, int64_t from, int64_t to)
{
    weft_status status = WEFT_OK;
    for (int64_t i = from; status == WEFT_OK && i < to; i++) {
        const weft_generated_row *row = &s->rows[i];
        if (row->status != WEFT_OK)
            status = weft_fail(row->status, "%s: a completion: %s",
                               has_rewards(s) ? row_of(&s->r, i)->where : "training", row->message);
        else if (!is_ended(s, row) && row->stats.reason != WEFT_FINISH_LENGTH)
            status = weft_fail(WEFT_CANCELLED, "training was stopped while sampling");
    }
    return status;
}

/* Samples the completions from .. to. The batch is a new one, so its compiled steps have the
 * current weights. Its caches are freed before the update. Sequences have no budget of tokens: they
 * are set back, which changes the rounding, only when the memory ends. */
static weft_status generate(sampled *s, int64_t from, int64_t to)
{
    weft_running_batch *batch = NULL;
    enum { ROWS = 64 };
    const int64_t rows = s->t->o.sampling->rows;
    const weft_generate_batch_options o = {
        .rows = rows > 0 ? rows : ROWS, .cache_tokens = INT64_MAX, .cancel = s->t->o.cancel};
    weft_module *tree = weft_model_module(s->t->model);
    weft_status status = weft__lora_settle(tree);
    if (status == WEFT_OK)
        status = weft_running_batch_new(s->t->model, NULL, &o, &batch);
    for (int64_t i = from; status == WEFT_OK && i < to; i++)
        status = weft_running_batch_add(batch, &s->requests[i], goes_on, s, &s->rows[i]);
    for (bool more = true; status == WEFT_OK && more;)
        status = weft_running_batch_advance(batch, &more);
    weft_running_batch_free(batch);
    weft__lora_unsettle(tree);
    weft_memory_clear_cache();
    return status == WEFT_OK ? check_rows(s, from, to) : status;
}

/* ---- rewards -------------------------------------------------------------------------------- */

weft_status weft__completion_text(const weft_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                  unsigned flags, char **out)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    size_t size;
    weft__text text = {.n = 0};
    weft_status status = weft_tokenizer_decode(tokenizer, ids, n, flags, out, &size);
    if (status != WEFT_OK || strlen(*out) == size)
        return status;
    for (size_t i = 0; i < size; i++)
        weft__text_append(&text, (*out)[i] ? *out + i : replacement, (*out)[i] ? 1 : 3);
    weft__text_append(&text, "", 1);
    weft_free(*out);
    *out = text.at;
    if (!text.failed)
        return WEFT_OK;
    weft_free(text.at);
    *out = NULL;
    return weft__out_of_memory("training", "a completion");
}

static weft_status make_texts(sampled *s, int64_t from, int64_t to)
{
    weft_status status = WEFT_OK;
    for (int64_t i = from; status == WEFT_OK && i < to; i++) {
        const weft_generated_row *row = &s->rows[i];
        const weft_task_row *of = row_of(&s->r, i);
        char *text = NULL;
        status =
            weft__completion_text(s->t->o.sampling->tokenizer, row->ids, row->n - is_ended(s, row),
                                  WEFT_TOKENIZER_SKIP_SPECIAL, &text);
        s->texts[i] = (weft_completion){.where = of->where,
                                        .prompt = of->prompt,
                                        .text = text,
                                        .row = of->json,
                                        .answers = (const char *const *)of->texts,
                                        .n_answers = of->n_texts,
                                        .tokens = (int64_t)row->n,
                                        .truncated = !is_ended(s, row)};
    }
    return status;
}

/* The weighted sum of the rewards of completion i; NaN: it has none. */
static double total(const sampled *s, int64_t i)
{
    const weft_sampling *o = s->t->o.sampling;
    double sum = NAN;
    for (int k = 0; k < o->n_rewards; k++) {
        const double r = s->r.rewards[i * o->n_rewards + k] * (o->weights ? o->weights[k] : 1);
        if (!isnan(r))
            sum = isnan(sum) ? r : sum + r;
    }
    return sum;
}

static weft_status reward(sampled *s, int64_t from, int64_t to)
{
    const weft_sampling *o = s->t->o.sampling;
    double *rewards = s->r.rewards + from * o->n_rewards;
    weft_status status = make_texts(s, from, to);
    if (status == WEFT_OK)
        status =
            o->reward(o->context, s->texts + from, (size_t)(to - from), s->t->o.cancel, rewards);
    for (int64_t i = 0; status == WEFT_OK && i < (to - from) * o->n_rewards; i++) {
        if (fabs(rewards[i]) > FLT_MAX)
            status =
                weft_fail(WEFT_INVALID, "%s: reward %s: expected a number of at most %g, got %g",
                          s->texts[from + i / o->n_rewards].where, o->names[i % o->n_rewards],
                          (double)FLT_MAX, rewards[i]);
    }
    for (int64_t i = from; status == WEFT_OK && i < to; i++) {
        const double sum = total(s, i);
        if (fabs(sum) > FLT_MAX)
            status =
                weft_fail(WEFT_INVALID, "%s: weighted sum of rewards: expected at most %g, got %g",
                          s->texts[i].where, (double)FLT_MAX, sum);
    }
    return status;
}

/* ---- the result ----------------------------------------------------------------------------- */

static weft_status add(const sampled *s, int64_t i)
{
    const weft_generated_row *row = &s->rows[i];
    const weft_prompt *prompt = &s->requests[i].prompt;
    float *logprobs = weft_malloc((row->n + 1) * sizeof *logprobs);
    if (logprobs == NULL)
        return weft__out_of_memory("training", "completions");
    for (size_t k = 0; k < row->n; k++)
        logprobs[k] = (float)row->logprobs[k];
    const weft__completion c = {.prompt = prompt->ids,
                                .n_prompt = (int64_t)prompt->n,
                                .ids = row->ids,
                                .n = (int64_t)row->n,
                                .reward = total(s, i),
                                .truncated = !is_ended(s, row),
                                .logprobs = logprobs};
    const weft_status status =
        weft__dataset_add_completion(s->r.dataset, &s->t->o.objective_options, &c);
    weft_free(logprobs);
    return status;
}

/* Adds to `out` the sample of completion i after its prompt in `prompts`, for distillation. */
static weft_status add_sample(const sampled *s, int64_t i, const weft_dataset *prompts,
                              weft_dataset *out)
{
    const weft_generated_row *row = &s->rows[i];
    const int64_t of = s->which[i / s->r.group];
    const weft_sample whole = weft_dataset_at(prompts, of);
    weft__builder builder = {.n = 0};
    weft_status status =
        weft__builder_add(&builder, whole.ids, (size_t)prompt_length(prompts, of), 0);
    if (status == WEFT_OK)
        status = weft__builder_add(&builder, row->ids, row->n, 1);
    const weft_sample sample = {builder.ids, builder.weights, builder.n, 0};
    if (status == WEFT_OK)
        status = weft__dataset_append(out, &sample, !is_ended(s, row));
    weft__builder_free(&builder);
    return status;
}

/* Sets the mean and deviation of reward k over all ranks. */
static weft_status set_part(weft_trainer *t, weft_status status, const weft__rollout *r, int k)
{
    const int64_t n = status == WEFT_OK ? r->n * r->group : 0;
    double sums[WEFT__EXCHANGED] = {0}, squares[WEFT__EXCHANGED] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double x = r->rewards[i * r->n_names + k];
        sums[0] += !isnan(x);
        sums[1] += isnan(x) ? 0 : x;
    }
    status = weft__group_exchange(t->o.group, status, NULL, sums, NULL);
    const double m = sums[0], mean = sums[1] / fmax(m, 1);
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        const double d = r->rewards[i * r->n_names + k] - mean;
        squares[0] += isnan(d) ? 0 : d * d;
    }
    status = weft__group_exchange(t->o.group, status, NULL, squares, NULL);
    if (status == WEFT_OK)
        t->parts[k] = (weft_reward_part){.name = r->names[k],
                                         .mean = m > 0 ? mean : NAN,
                                         .std = m > 1   ? sqrt(squares[0] / (m - 1))
                                                : m > 0 ? 0
                                                        : NAN};
    return status;
}

void weft__rollout_free_samples(weft_trainer *t)
{
    for (int i = 0; i < t->n_samples; i++) {
        weft_free((char *)t->samples[i].prompt);
        weft_free((char *)t->samples[i].text);
    }
    t->n_samples = 0;
}

/* Keeps the first completion of some prompts; of a single prompt its first ones. */
static weft_status keep_samples(weft_trainer *t, const weft__rollout *r)
{
    enum { MOST = sizeof t->samples / sizeof *t->samples };
    const int64_t step = r->n > 1 ? r->group : 1, n = r->n > 1 ? r->n : r->group;
    weft_status status = WEFT_OK;
    weft__rollout_free_samples(t);
    for (int64_t i = 0; status == WEFT_OK && i < n && t->n_samples < MOST; i++) {
        const weft__dataset_sample *s = &r->dataset->samples[i * step];
        const int32_t *ids = r->dataset->ids + s->start;
        char *prompt = weft_strdup(row_of(r, i * step)->prompt), *text = NULL;
        status = prompt ? weft__completion_text(r->tokenizer, ids + s->prompt,
                                                (size_t)(s->length - s->prompt),
                                                WEFT_TOKENIZER_SKIP_SPECIAL, &text)
                        : weft__out_of_memory("training", "samples");
        t->samples[t->n_samples++] = (weft_train_sample){.prompt = prompt,
                                                         .text = text,
                                                         .rewarded = true,
                                                         .reward = r->dataset->rewards[i * step]};
    }
    return status;
}

/* Describes the completions of all ranks; samples are this rank's. */
static weft_status describe(weft_trainer *t, weft_status status, const weft__rollout *r)
{
    if (t->parts == NULL)
        t->parts = weft_calloc((size_t)r->n_names, sizeof *t->parts);
    if (status == WEFT_OK)
        status = t->parts ? keep_samples(t, r) : weft__out_of_memory("training", "rewards");
    for (int k = 0; k < r->n_names; k++)
        status = set_part(t, status, r, k);
    return status;
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Lists the prompts of n batches, from number `from` on. */
static weft_status list_prompts(sampled *s, weft_batches *batches, int64_t from, int n,
                                int64_t *first)
{
    weft_status status = WEFT_OK;
    for (int b = 0; status == WEFT_OK && b < n; b++) {
        const int64_t *examples;
        int rows;
        status = weft__batches_examples(batches, from + b, &examples, &rows);
        int64_t *which = weft_realloc(s->which, (size_t)(s->r.n + rows + 1) * sizeof *which);
        s->which = which ? which : s->which;
        int64_t *numbers = weft_realloc(s->numbers, (size_t)(s->r.n + rows + 1) * sizeof *numbers);
        s->numbers = numbers ? numbers : s->numbers;
        if (status == WEFT_OK && !(which && numbers))
            status = weft__out_of_memory("training", "the prompts of an update");
        first[b] = count(s);
        for (int i = 0; status == WEFT_OK && i < rows; i++) {
            which[s->r.n] = examples[i];
            numbers[s->r.n++] = from + b;
        }
    }
    first[n] = count(s);
    s->r.which = s->which;
    s->r.numbers = s->numbers;
    return status;
}

static weft_status allocate(sampled *s)
{
    const size_t N = (size_t)count(s) + 1;
    s->options = weft_calloc(N, sizeof *s->options);
    s->requests = weft_calloc(N, sizeof *s->requests);
    s->rows = weft_calloc(N, sizeof *s->rows);
    s->texts = weft_calloc(N, sizeof *s->texts);
    s->r.rewards = weft_calloc(N * (size_t)s->r.n_names + 1, sizeof *s->r.rewards);
    return s->options && s->requests && s->rows && s->texts && s->r.rewards
               ? WEFT_OK
               : weft__out_of_memory("training", "completions");
}

static void release(sampled *s)
{
    for (int64_t i = 0; s->texts && i < count(s); i++)
        weft_free((char *)s->texts[i].text);
    weft_generated_rows_free(s->rows, s->rows ? (size_t)count(s) : 0);
    weft_free(s->rows);
    weft_free(s->which);
    weft_free(s->numbers);
    weft_free(s->options);
    weft_free(s->requests);
    weft_free(s->texts);
    weft_free(s->r.rewards);
}

/* Makes a dataset of the completions. */
static weft_status make_dataset(sampled *s)
{
    weft_status status =
        has_rewards(s) ? weft__dataset_of_completions(&s->t->o.objective_options, &s->r.dataset)
                       : weft_dataset_new(INT64_MAX, &s->r.dataset);
    for (int64_t i = 0; status == WEFT_OK && i < count(s); i++)
        status = has_rewards(s) ? add(s, i) : add_sample(s, i, s->r.prompts, s->r.dataset);
    if (status == WEFT_OK && s->r.prompts->taught)
        status = weft_dataset_new(INT64_MAX, &s->r.dataset->taught);
    for (int64_t i = 0; status == WEFT_OK && s->r.prompts->taught && i < count(s); i++)
        status = add_sample(s, i, s->r.prompts->taught, s->r.dataset->taught);
    return status;
}

/* Samples the completions of n batches, which begin at first[0 .. n - 1], and has them rewarded. */
static weft_status sample(sampled *s, const int64_t *first, int n)
{
    weft_status status = WEFT_OK;
    make_requests(s);
    for (int b = 0; status == WEFT_OK && b < n; b++) {
        status = generate(s, first[b], first[b + 1]);
        if (status == WEFT_OK && has_rewards(s))
            status = reward(s, first[b], first[b + 1]);
    }
    return status == WEFT_OK ? make_dataset(s) : status;
}

/* ---- validation ----------------------------------------------------------------------------- */

/* Adds up the rewards of this rank's share of the n prompts: sums has their number and sum. */
static weft_status validate_share(sampled *s, double sums[WEFT__EXCHANGED])
{
    weft_status status = allocate(s);
    if (status != WEFT_OK || s->r.n == 0)
        return status;
    make_requests(s);
    status = generate(s, 0, s->r.n);
    if (status == WEFT_OK)
        status = reward(s, 0, s->r.n);
    for (int64_t i = 0; status == WEFT_OK && i < s->r.n; i++) {
        const double r = total(s, i);
        sums[0] += !isnan(r);
        sums[1] += isnan(r) ? 0 : r;
    }
    return status;
}

weft_status weft__rollout_validate(weft_trainer *t, const weft_dataset *prompts, int64_t most,
                                   double *out)
{
    const weft_sampling *o = t->o.sampling;
    const weft_group_info place = weft_group_info_of(t->o.group);
    const int64_t all = prompts->info.samples, n = most > 0 && most < all ? most : all,
                  from = n * place.rank / place.size, to = n * (place.rank + 1) / place.size;
    sampled s = {.t = t,
                 .greedy = true,
                 .r = {.prompts = prompts,
                       .n = to - from,
                       .group = 1,
                       .names = o->names,
                       .n_names = o->n_rewards,
                       .tokenizer = o->tokenizer}};
    double sums[WEFT__EXCHANGED] = {0};
    s.eos = weft_model_eos(t->model, &s.n_eos);
    s.which = weft_calloc((size_t)s.r.n + 1, sizeof *s.which);
    s.numbers = weft_calloc((size_t)s.r.n + 1, sizeof *s.numbers);
    for (int64_t i = 0; s.which && i < s.r.n; i++)
        s.which[i] = from + i;
    s.r.which = s.which;
    s.r.numbers = s.numbers;
    weft_status status = s.which && s.numbers ? validate_share(&s, sums)
                                              : weft__out_of_memory("validation", "prompts");
    bool stop = status == WEFT_CANCELLED; /* which is no failure: the ranks go on */
    status = weft__group_exchange(t->o.group, stop ? WEFT_OK : status, &stop, sums, NULL);
    *out = sums[0] > 0 ? sums[1] / sums[0] : NAN;
    release(&s);
    return status == WEFT_OK && stop
               ? weft_fail(WEFT_CANCELLED, "training was stopped while it validated")
               : status;
}

/* ---- updates -------------------------------------------------------------------------------- */

weft_status weft__rollout_sample(weft_trainer *t, weft_batches *batches, int64_t update,
                                 int64_t from, int n, weft__journal *journal, int64_t *first,
                                 weft_dataset **out)
{
    const weft_sampling *o = t->o.sampling;
    const int64_t group = t->o.objective_options.num_generations;
    sampled s = {.t = t,
                 .r = {.prompts = weft__batches_dataset(batches),
                       .group = group > 0 ? group : 1,
                       .names = o->names,
                       .n_names = o->n_rewards,
                       .tokenizer = o->tokenizer}};
    const bool rewarded = has_rewards(&s);
    bool keeps = false;
    s.eos = weft_model_eos(t->model, &s.n_eos);
    *out = NULL;
    weft_status status = list_prompts(&s, batches, from, n, first);
    if (status == WEFT_OK)
        status = allocate(&s);
    if (rewarded)
        status = weft__group_find_completions(t->o.group, status, journal, update, t->o.accumulate,
                                              &t->o.objective_options, &s.r, &keeps);
    const bool found = s.r.dataset != NULL;
    if (status == WEFT_OK && !found)
        status = sample(&s, first, n);
    if (keeps && !found)
        status = weft__group_keep_completions(t->o.group, status, journal, update, &s.r);
    if (rewarded)
        status = describe(t, status, &s.r);
    release(&s);
    if (status == WEFT_OK)
        *out = s.r.dataset;
    else
        weft_dataset_free(s.r.dataset);
    return status;
}
