/* train/rollout.c -- prepares the completions of an update: their log-probabilities before it, and
 * their advantages. */
#include "train/rollout.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "train/data/dataset.h"
#include "train/parallel/group.h"
#include "weft/tool/data.h"

int64_t weft__rollout_iterations(const weft_trainer *t)
{
    return t->o.objective->examples == WEFT_EXAMPLES_SCORED ? t->o.objective_options.num_iterations
                                                            : 1;
}

/* Checks the sampling of distillation. */
static weft_status check_distill(const weft_trainer *t, const weft_batches *batches)
{
    const double lmbda = t->o.objective_options.lmbda;
    if ((lmbda > 0) != (t->o.sampling != NULL))
        return weft_fail(WEFT_INVALID, "trainer: sampling: expected %s",
                         lmbda > 0 ? "how to sample completions for lmbda" : "none without lmbda");
    if (lmbda == 0)
        return WEFT_OK;
    if (t->o.objective_options.teacher == NULL)
        return weft_fail(WEFT_INVALID, "objective distill: lmbda: expected a teacher that is not "
                                       "stored");
    if (weft__batches_dataset(batches) == NULL || weft__batches_packed(batches))
        return weft_fail(WEFT_UNSUPPORTED, "objective distill: lmbda: %s are unsupported",
                         weft__batches_dataset(batches) ? "packed rows" : "batches from a file");
    return weft__rollout_check_prompts(weft__batches_dataset(batches));
}

bool weft__rollout_samples(const weft_trainer *t, int64_t update)
{
    if (t->o.sampling == NULL || t->o.objective != &weft_objective_distill)
        return t->o.sampling != NULL;
    const uint64_t bits = weft__mix(weft__mix(t->o.seed, (uint64_t)update), t->o.seed);
    return (double)(bits >> 11) * 0x1p-53 < t->o.objective_options.lmbda;
}

weft_status weft__rollout_check(const weft_trainer *t, const weft_batches *batches)
{
    const weft_sampling *s = t->o.sampling;
    const weft_dataset *d = weft__batches_dataset(batches);
    const bool prompts = d && d->info.examples == WEFT_EXAMPLES_PROMPTS;
    const weft_objective_options *o = &t->o.objective_options;
    if (t->o.objective == &weft_objective_distill)
        return check_distill(t, batches);
    if (prompts != (s != NULL))
        return weft_fail(WEFT_INVALID, "trainer: sampling: expected %s",
                         prompts ? "how to sample completions of the prompts"
                                 : "prompts (weft_dataset_load_prompts)");
    if (d && d->info.examples == WEFT_EXAMPLES_SCORED && d->group != o->num_generations)
        return weft_fail(WEFT_INVALID,
                         "trainer: num_generations: expected that of the data, %lld, got %lld",
                         (long long)d->group, (long long)o->num_generations);
    if (d && d->info.examples == WEFT_EXAMPLES_SCORED && d->temperature != o->temperature)
        return weft_fail(WEFT_INVALID,
                         "trainer: temperature: expected that of the data, %g, got %g",
                         d->temperature, o->temperature);
    if (!prompts)
        return WEFT_OK;
    for (int i = 0; s->names && i < s->n_rewards; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(s->names[i], s->names[k]) == 0)
                return weft_fail(WEFT_INVALID, "trainer: sampling: reward %s is there twice",
                                 weft_printable(s->names[i]));
        }
    }
    if (s->tokenizer == NULL || s->reward == NULL || s->n_rewards < 1 || s->names == NULL ||
        s->rows < 0 || s->n_stop < 0)
        return weft_fail(WEFT_INVALID, "trainer: sampling: expected a tokenizer, rewards with "
                                       "names, and numbers of at least 0");
    return WEFT_OK;
}

/* ---- log-probabilities ---------------------------------------------------------------------- */

/* Computes the log-probabilities (B, L) of a batch, in micro-batches. */
static weft_status read_old(const weft_trainer *t, const weft_batch *batch, float *out)
{
    const int64_t n = weft__batch_samples(batch), L = weft_dim(batch->tokens, 1);
    int64_t step = t->micro > 0 ? t->micro : n;
    weft_status status = WEFT_OK;
    for (int64_t from = 0, to; status == WEFT_OK && from < n; from = to) {
        weft_batch part;
        weft_scope_open_lean();
        status = weft__trainer_part(t, batch, from, step, &to, &part);
        part.temperature = t->o.objective_options.temperature;
        if (status == WEFT_OK)
            status =
                weft_read(weft_negative(weft__token_losses(t->model, &part, part.targets, false)),
                          WEFT_FLOAT32, out + from * L, (to - from) * L);
        weft_scope_close(NULL);
        if (status == WEFT_MEMORY && step > 1) { /* again, in smaller parts */
            weft_memory_clear_cache();
            step = (step + 1) / 2;
            to = from;
            status = WEFT_OK;
        }
    }
    return status;
}

static weft_status set_column(weft_array **slot, const float *values, weft_dims shape)
{
    weft_scope_open_lean();
    const weft_status status = weft_set(slot, weft_from_data(values, WEFT_FLOAT32, shape));
    weft_scope_close(NULL);
    return status;
}

/* Subtracts the penalty beta sum(old - ref) from the rewards (B). */
static weft_status penalize(const weft_trainer *t, const weft_batch *batch, const float *old,
                            double *rewards)
{
    const int64_t B = weft_dim(batch->tokens, 0), L = weft_dim(batch->tokens, 1);
    if (batch->ref == NULL)
        return weft_fail(WEFT_INVALID,
                         "objective %s: beta %g needs reference log-probabilities "
                         "(weft_dataset_add_reference)",
                         t->o.objective->name, t->o.objective_options.beta);
    float *ref = weft_calloc((size_t)(B * L) + 1, sizeof *ref);
    weft_status status = ref ? weft_read(batch->ref, WEFT_FLOAT32, ref, B * L)
                             : weft__out_of_memory("training", "reference log-probabilities");
    for (int64_t i = 0; status == WEFT_OK && i < B * L; i++)
        rewards[i / L] -= t->o.objective_options.beta * (double)(old[i] - ref[i]);
    weft_free(ref);
    return status;
}

weft_status weft__rollout_keep_reference(weft_trainer *t)
{
    if (t->o.sampling == NULL || t->o.objective_options.beta == 0 ||
        t->o.objective->examples != WEFT_EXAMPLES_SCORED)
        return WEFT_OK;
    t->start = weft_calloc((size_t)t->slots.n, sizeof(weft_array *));
    for (int i = 0; t->start && i < t->slots.n; i++)
        t->start[i] = weft_keep(*t->slots.slots[i]);
    return t->start ? WEFT_OK : weft__out_of_memory("trainer", "the reference policy");
}

/* Computes the log-probabilities of the reference policy: with the parameters of the start in place
 * of the current ones. */
static weft_status read_ref(const weft_trainer *t, const weft_batch *batch, float *out)
{
    const int n = t->slots.n;
    weft_array **now = weft_calloc((size_t)n + 1, sizeof(weft_array *));
    if (now == NULL)
        return weft__out_of_memory("training", "the reference policy");
    for (int i = 0; i < n; i++)
        now[i] = weft_keep(*t->slots.slots[i]);
    weft_status status = weft_update(t->slots.slots, t->start, n);
    if (status == WEFT_OK)
        status = read_old(t, batch, out);
    const weft_status restored = weft_update(t->slots.slots, now, n);
    for (int i = 0; i < n; i++)
        weft_drop(now[i]);
    weft_free(now);
    return status == WEFT_OK ? restored : status;
}

/* Sets `old` and `ref` and penalizes the rewards, as far as needed. */
static weft_status score(const weft_trainer *t, weft_batch *batch, double *rewards)
{
    const weft_objective_options *o = &t->o.objective_options;
    const bool penalty = weft__policy_penalizes_rewards(o), needs_old = o->num_iterations > 1;
    const int64_t cells = weft_size(batch->tokens);
    if (!needs_old && !penalty && t->start == NULL)
        return WEFT_OK;
    float *old = weft_calloc((size_t)cells + 1, sizeof *old);
    weft_status status = old ? WEFT_OK : weft__out_of_memory("training", "log-probabilities");
    if (status == WEFT_OK && t->start)
        status = read_ref(t, batch, old);
    if (status == WEFT_OK && t->start)
        status = set_column(&batch->ref, old, weft_shape(batch->tokens));
    if (status == WEFT_OK && (needs_old || penalty))
        status = read_old(t, batch, old);
    if (status == WEFT_OK && (needs_old || penalty))
        status = set_column(&batch->old, old, weft_shape(batch->tokens));
    if (status == WEFT_OK && penalty)
        status = penalize(t, batch, old, rewards);
    weft_free(old);
    return status;
}

/* ---- advantages ----------------------------------------------------------------------------- */

/* Sums over the rewards that are not NaN. */
typedef struct reward_sums {
    double n, sum, squares;
} reward_sums;

static reward_sums sums_of(const double *rewards, int64_t n)
{
    reward_sums s = {0};
    for (int64_t i = 0; i < n; i++) {
        if (isnan(rewards[i]))
            continue;
        s.n++;
        s.sum += rewards[i];
    }
    for (int64_t i = 0; i < n && s.n > 0; i++) {
        const double d = rewards[i] - s.sum / s.n;
        s.squares += isnan(d) ? 0 : d * d;
    }
    return s;
}

/* The standard deviation, with n - 1; 0 for fewer than two rewards. */
static double deviation(const reward_sums *s)
{
    return s->n > 1 ? sqrt(s->squares / (s->n - 1)) : 0;
}

/* Writes the advantages of one group. `all` is the deviation of the update's rewards. */
static void advantages_of(const double *rewards, int64_t n, const char *scale, double all,
                          float *out)
{
    const reward_sums s = sums_of(rewards, n);
    const bool others = strcmp(scale, WEFT__LEAVE_ONE_OUT) == 0;
    const double divisor = strcmp(scale, "group") == 0   ? deviation(&s) + 1e-4
                           : strcmp(scale, "batch") == 0 ? all + 1e-4
                                                         : 1;
    for (int64_t i = 0; i < n; i++) {
        const double mean = others ? (s.sum - rewards[i]) / fmax(s.n - 1, 1) : s.sum / fmax(s.n, 1);
        out[i] = isnan(rewards[i]) || s.n < 2 ? 0 : (float)((rewards[i] - mean) / divisor);
    }
}

/* Counts the groups, those with equal rewards, and the tokens and ends of their completions. */
static void count(const weft_dataset *d, int64_t first, const double *rewards, int64_t n,
                  double values[WEFT__EXCHANGED])
{
    enum { GROUPS = 3, EQUAL, LENGTH, TRUNCATED };
    for (int64_t g = 0; g < n; g += d->group) {
        const reward_sums s = sums_of(rewards + g, d->group);
        values[GROUPS]++;
        values[EQUAL] += deviation(&s) <= 1e-8;
    }
    for (int64_t i = first; i < first + n; i++) {
        values[LENGTH] += (double)(d->samples[i].length - d->samples[i].prompt);
        values[TRUNCATED] += d->samples[i].cut;
    }
}

/* Exchanges the sums of the rewards (n) of all ranks; *all is their deviation. */
static weft_status exchange(const weft_trainer *t, weft_status status, const double *rewards,
                            int64_t n, double counts[WEFT__EXCHANGED], weft_policy_report *report,
                            double *all)
{
    const reward_sums own = sums_of(rewards, n);
    counts[0] = own.n;
    counts[1] = own.sum;
    counts[2] = (double)n;
    status = weft__group_exchange(t->o.group, status, NULL, counts, NULL);
    const double mean = counts[1] / fmax(counts[0], 1);
    double squares[WEFT__EXCHANGED] = {0};
    for (int64_t i = 0; i < n; i++)
        squares[0] += isnan(rewards[i]) ? 0 : (rewards[i] - mean) * (rewards[i] - mean);
    if (status == WEFT_OK)
        status = weft__group_exchange(t->o.group, status, NULL, squares, NULL);
    const reward_sums total = {counts[0], counts[1], squares[0]};
    *all = deviation(&total);
    *report = (weft_policy_report){.reward = counts[0] > 0 ? mean : NAN,
                                   .reward_std = counts[0] > 0 ? *all : NAN,
                                   .equal_groups = counts[4] / fmax(counts[3], 1),
                                   .length = counts[5] / fmax(counts[2], 1),
                                   .truncated = counts[6] / fmax(counts[2], 1)};
    return status;
}

weft_status weft__rollout_prepare(weft_trainer *t, const weft_dataset *d, weft_batch *batches,
                                  const int64_t *first, int n, weft_policy_report *report)
{
    int64_t rows = 0;
    for (int b = 0; b < n; b++)
        rows += weft_dim(batches[b].tokens, 0);
    double *raw = weft_calloc(2 * (size_t)rows + 1, sizeof *raw),
           *rewards = raw ? raw + rows : NULL;
    float *A = weft_calloc((size_t)rows + 1, sizeof *A);
    weft_status status =
        raw && A ? WEFT_OK : weft__out_of_memory("training", "the advantages of an update");
    double counts[WEFT__EXCHANGED] = {0}, all = 0;
    for (int64_t b = 0, at = 0; status == WEFT_OK && b < n; b++) {
        const int64_t B = weft_dim(batches[b].tokens, 0);
        memcpy(raw + at, d->rewards + first[b], (size_t)B * sizeof *raw);
        memcpy(rewards + at, raw + at, (size_t)B * sizeof *raw);
        count(d, first[b], raw + at, B, counts);
        status = weft_batch_share(t, &batches[b]);
        if (status == WEFT_OK)
            status = score(t, &batches[b], rewards + at);
        at += B;
    }
    status = exchange(t, status, raw, status == WEFT_OK ? rows : 0, counts, report, &all);
    if (status == WEFT_OK && isnan(report->reward) && t->updates == 0 &&
        weft_group_info_of(t->o.group).rank == 0)
        weft_log_message(WEFT_LOG_WARNING,
                         "rewards: all of the first update are null, so it changes no weights; the "
                         "reward exact needs an \"answer\" in each row");
    for (int64_t g = 0; status == WEFT_OK && g < rows; g += d->group)
        advantages_of(rewards + g, d->group, t->o.objective_options.scale_rewards, all, A + g);
    for (int64_t b = 0, at = 0; status == WEFT_OK && b < n; b++) {
        const int64_t B = weft_dim(batches[b].tokens, 0);
        status = set_column(&batches[b].advantages, A + at, WEFT_DIMS(B));
        at += B;
    }
    weft_free(raw);
    weft_free(A);
    return status;
}
