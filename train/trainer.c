/* train/trainer.c -- one update: loss, gradients, optimizer. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "core/hash.h"
#include "nn/lora.h"
#include "optim/optim.h"
#include "train/parallel/parallel.h"
#include "train/rollout.h"
#include "weft/transforms.h"

enum {
    DEFAULT_SKIPPED = 5,
    DEFAULT_VALIDATION_BATCH = 8,
    DEFAULT_SAVE_MINUTES = 10,
    DEFAULT_KEEP = 2
};

#define DEFAULT_LR 1e-5

/* ---- making --------------------------------------------------------------------------------- */

static weft_status check_options(const weft_trainer_options *o)
{
    if (o->steps < 0 || !(o->epochs >= 0) || o->accumulate < 0)
        return weft_fail(WEFT_INVALID,
                         "trainer: expected steps, epochs and accumulate of at least 0, got %lld, "
                         "%g and %lld",
                         (long long)o->steps, o->epochs, (long long)o->accumulate);
    if (o->warmup < 0 || !(o->warmup_share >= 0 && o->warmup_share <= 1))
        return weft_fail(WEFT_INVALID,
                         "trainer: warmup: expected at least 0 updates or a share in [0, 1], got "
                         "%lld and %g",
                         (long long)o->warmup, o->warmup_share);
    if (!(o->lora_plus >= 0 && isfinite(o->lora_plus)))
        return weft_fail(WEFT_INVALID, "trainer: lora_plus: expected a positive number, got %g",
                         o->lora_plus);
    if (!(o->neftune >= 0 && isfinite(o->neftune)))
        return weft_fail(WEFT_INVALID, "trainer: neftune: expected at least 0, got %g", o->neftune);
    if (!(o->clip >= 0))
        return weft_fail(WEFT_INVALID, "trainer: clip: expected at least 0, got %g", o->clip);
    if (o->validate_every < 0 || o->save_every < 0 || o->max_skipped < 0 ||
        o->validation_samples < 0 || o->patience < 0 || o->validation_batch < 0 || o->keep < 0 ||
        isnan(o->save_minutes))
        return weft_fail(WEFT_INVALID, "trainer: expected counts of at least 0");
    if (o->resume && o->overwrite)
        return weft_fail(WEFT_INVALID, "trainer: resume and overwrite exclude each other");
    return WEFT_OK;
}

/* Of options whose objective is set. */
static bool shares_batches(const weft_trainer_options *o)
{
    return o->objective->compare && weft_group_info_of(o->group).size > 1;
}

bool weft__trainer_shares_batches(const weft_trainer *t)
{
    return shares_batches(&t->o);
}

static weft_status check_group(const weft_trainer_options *o)
{
    const int ranks = shares_batches(o) ? 1 : weft_group_info_of(o->group).size;
    if (o->accumulate > 0 && o->accumulate < ranks)
        return weft_fail(WEFT_INVALID,
                         "trainer: accumulate: expected at least a batch for each of %d ranks, got "
                         "%lld",
                         ranks, (long long)o->accumulate);
    return WEFT_OK;
}

/* Checks the schedule's syntax. It is parsed again when the number of steps is known. */
static weft_status check_schedule(const weft_trainer_options *o)
{
    weft_rate *rate;
    const weft_status status = weft_rate_parse(o->schedule, 1, 1000, &rate);
    weft_rate_free(rate);
    return status;
}

static void fill_defaults(weft_trainer_options *o)
{
    if (o->objective == NULL)
        o->objective = &weft_objective_supervised;
    if (o->epochs == 0)
        o->epochs = 1;
    if (o->accumulate == 0)
        o->accumulate = shares_batches(o) ? 1 : weft_group_info_of(o->group).size;
    if (weft_group_info_of(o->group).rank > 0)
        o->folder = NULL;
    if (o->max_skipped == 0)
        o->max_skipped = DEFAULT_SKIPPED;
    if (o->save_minutes == 0)
        o->save_minutes = DEFAULT_SAVE_MINUTES;
    if (o->keep == 0)
        o->keep = DEFAULT_KEEP;
    if (o->lr == 0)
        o->lr = DEFAULT_LR;
    if (o->lora_plus == 0)
        o->lora_plus = 1;
    if (o->optimizer == NULL)
        o->optimizer = &weft_optim_adamw;
    if (o->schedule == NULL)
        o->schedule = "constant";
    if (o->validation_batch == 0)
        o->validation_batch = DEFAULT_VALIDATION_BATCH;
    if (o->base_name == NULL)
        o->base_name = "";
    if (o->data_name == NULL)
        o->data_name = "";
}

static weft_status find_slots(weft_trainer *t)
{
    weft_module *tree = weft_model_module(t->model);
    const weft_status status = weft_nn_trainable(tree, &t->slots);
    if (status != WEFT_OK)
        return status;
    const size_t n = (size_t)t->slots.n;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "trainer: every parameter of the model is frozen");
    t->gradients = weft_calloc(n, sizeof(weft_array *));
    t->sums = weft_calloc(n + 1, sizeof(weft_array *));
    t->sum_slots = weft_calloc(n + 1, sizeof *t->sum_slots);
    t->sum_values = weft_calloc(n + 1, sizeof(weft_array *));
    t->micros = weft_calloc((size_t)weft_group_info_of(t->o.group).size, sizeof *t->micros);
    if (t->gradients == NULL || t->sums == NULL || t->sum_slots == NULL || t->sum_values == NULL ||
        t->micros == NULL)
        return weft_fail(WEFT_MEMORY, "trainer: out of memory for %zu gradients", n);
    for (size_t i = 0; i < n + 1; i++)
        t->sum_slots[i] = &t->sums[i];
    return WEFT_OK;
}

/* Whether a batch cannot be split: noise is drawn for a complete batch, and some losses depend on
 * one. */
static bool needs_whole(const weft_trainer_options *o)
{
    return o->neftune > 0 || weft__objective_needs_whole(o->objective, &o->objective_options);
}

void weft__trainer_split(weft_trainer *t)
{
    if (t->o.micro_batch == 0 && !needs_whole(&t->o))
        t->micro = t->micros[weft_group_info_of(t->o.group).rank];
}

static weft_status check_objective(const weft_model *model, const weft_trainer_options *o)
{
    const char *name = o->objective->name;
    const weft_status status = weft__objective_check_model(o->objective, model);
    if (status != WEFT_OK)
        return status;
    if (shares_batches(o) && o->neftune > 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "trainer: neftune: objective %s in several processes is unsupported",
                         name);
    if (o->objective->compare && o->compile)
        return weft_fail(WEFT_UNSUPPORTED, "trainer: compile: objective %s is unsupported", name);
    return WEFT_OK;
}

weft_status weft_trainer_new(weft_model *model, const weft_trainer_options *options,
                             weft_trainer **out)
{
    *out = NULL;
    weft_trainer *t = weft_calloc(1, sizeof *t);
    if (t == NULL)
        return weft__out_of_memory("trainer", NULL);
    t->model = model;
    if (options)
        t->o = *options;
    weft_status status = check_options(&t->o);
    fill_defaults(&t->o);
    if (status == WEFT_OK)
        status = check_group(&t->o);
    if (status == WEFT_OK)
        status = weft__objective_complete(t->o.objective, &t->o.objective_options);
    t->micro = t->o.micro_batch > 0 ? t->o.micro_batch : 0;
    if (status == WEFT_OK && t->micro > 0 && needs_whole(&t->o))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "trainer: micro_batch: NEFTune and objective %s need whole batches",
                           t->o.objective->name);
    if (status == WEFT_OK)
        status = check_schedule(&t->o);
    if (status == WEFT_OK && t->o.neftune > 0 && !weft_model_info_of(model)->takes_noise)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "trainer: neftune: the model's family does not support noise");
    if (status == WEFT_OK)
        status = check_objective(model, &t->o);
    if (status == WEFT_OK)
        status = find_slots(t);
    weft__lora_unsettle(weft_model_module(model)); /* what updates make invalid */
    if (status == WEFT_OK)
        status = weft__trainer_optimizer(t);
    if (status == WEFT_OK && !t->o.compile)
        status = weft__pipeline_new(t);
    if (status != WEFT_OK) {
        weft_trainer_free(t);
        return status;
    }
    status = t->o.compile ? weft__trainer_compile(t) : WEFT_OK;
    if (status != WEFT_OK) {
        weft_trainer_free(t);
        return status;
    }
    *out = t;
    return WEFT_OK;
}

static void drop_sums(weft_trainer *t)
{
    for (int i = 0; t->sums && i <= t->slots.n; i++) {
        weft_drop(t->sums[i]);
        t->sums[i] = NULL;
    }
}

void weft_trainer_free(weft_trainer *trainer)
{
    if (trainer == NULL)
        return;
    weft_compiled_free(trainer->compiled);
    weft_compiled_free(trainer->compiled_sums);
    weft_nn_slots_free(&trainer->parameters);
    weft_optim_free(trainer->optimizer);
    weft_drop(trainer->row_rewards);
    weft__pipeline_free(trainer);
    drop_sums(trainer);
    for (int i = 0; trainer->start && i < trainer->slots.n; i++)
        weft_drop(trainer->start[i]);
    weft_free(trainer->start);
    weft_free(trainer->parts);
    weft__rollout_free_samples(trainer);
    weft_free(trainer->gradients);
    weft_free(trainer->sums);
    weft_free(trainer->sum_slots);
    weft_free(trainer->sum_values);
    weft_free(trainer->micros);
    weft_free(trainer->owners);
    weft_nn_slots_free(&trainer->slots);
    weft_free(trainer);
}

/* ---- one update ----------------------------------------------------------------------------- */

typedef struct loss_call {
    weft_trainer *trainer;
    const weft_batch *batch;
    weft_array *scale;
} loss_call;

static weft_array *loss_of(void *context)
{
    const loss_call *c = context;
    weft_trainer *t = c->trainer;
    weft_array *rewards = NULL;
    weft_scope_open();
    weft_array *sum = weft__objective_loss(t->o.objective, t->model, c->batch,
                                           &t->o.objective_options, t->o.checkpoint, &rewards);
    (void)weft_set(&t->row_rewards, rewards);
    return weft_scope_close(weft_multiply(sum, c->scale));
}

weft_array *weft__trainer_gradients(weft_trainer *t, weft_slot_loss_function *fn, void *context)
{
    weft_module *tree = weft_model_module(t->model);
    weft_nn_train(tree, true);
    weft__nn_root(tree)->row_keys = t->row_keys;
    weft_array *loss =
        weft_value_and_grad_slots(fn, context, t->slots.slots, t->slots.n, t->gradients);
    weft__nn_root(tree)->row_keys = NULL;
    weft_nn_train(tree, false);
    return loss;
}

weft_array *weft__trainer_differentiate(weft_trainer *t, const weft_batch *batch, weft_array *scale)
{
    weft_batch noisy = *batch;
    noisy.embedding_noise = t->o.neftune;
    loss_call call = {t, &noisy, scale};
    return weft__trainer_gradients(t, loss_of, &call);
}

weft_status weft__trainer_read_rewards(weft_trainer *t, const weft_batch *batch)
{
    if (t->row_rewards == NULL)
        return WEFT_OK;
    const weft_status status = weft__rewards_add(&t->rewards, batch, t->row_rewards);
    weft_drop(t->row_rewards);
    t->row_rewards = NULL;
    return status;
}

/* Evaluates the batch's rewards together with its loss, before the weights change, and reads them.
 */
static weft_status note_rewards(weft_trainer *t, const weft_batch *batch, weft_array *loss)
{
    weft_array *const both[] = {loss, t->row_rewards};
    const weft_status status = t->row_rewards ? weft_eval_n(both, 2) : WEFT_OK;
    return status == WEFT_OK ? weft__trainer_read_rewards(t, batch) : status;
}

static weft_status update(weft_trainer *t, weft_array *const *gradients, weft_array *norm,
                          weft_array *loss, double lr_factor, weft_optim_call *call)
{
    *call = (weft_optim_call){.lr_factor = lr_factor, .clip = t->o.clip, .loss = loss};
    return weft__optim_apply(t->optimizer, gradients, norm, call);
}

weft_status weft__trainer_add_to_sums(weft_trainer *t, weft_array *loss)
{
    weft_array **values = t->sum_values;
    for (int i = 0; i <= t->slots.n; i++) {
        values[i] = weft_astype(i < t->slots.n ? t->gradients[i] : loss, WEFT_FLOAT32);
        if (t->sums[i])
            values[i] = weft_add(t->sums[i], values[i]);
        if (!weft_ok(values[i]))
            return weft__report(values[i]);
    }
    return weft_update(t->sum_slots, values, t->slots.n + 1);
}

/* Adds the gradients of a (micro-)batch to the sums. They are evaluated immediately, so only one
 * batch's activations are in memory, or one more than the devices with layers. */
static weft_status add_part(weft_trainer *t, weft_batch *batch, double scale)
{
    weft_status status = weft__teacher_fill(t->o.objective, &t->o.objective_options, batch);
    if (status != WEFT_OK)
        return status;
    if (t->compiled_sums) {
        status = weft__trainer_add(t, batch, scale);
        return status == WEFT_OK ? weft__trainer_read_rewards(t, batch) : status;
    }
    weft_array *loss = weft__trainer_differentiate(t, batch, weft_scalar(scale, WEFT_FLOAT32));
    if (weft__pipeline_is_used(t))
        return weft__pipeline_add(t, batch, loss);
    status = note_rewards(t, batch, loss);
    return status == WEFT_OK ? weft__trainer_add_to_sums(t, loss) : status;
}

/* Seeds the random generator for a batch. Dropout depends only on the seed, the update, the batch's
 * index over all ranks and the row; noise on the first three. Resumed and parallel runs therefore
 * draw the same numbers as an uninterrupted run of one process, whatever the micro-batch size. */
void weft__trainer_seed(const weft_trainer *t, int batch)
{
    const uint64_t update = weft__mix(t->o.seed, (uint64_t)t->updates);
    weft_random_seed(weft__mix(update, (uint64_t)(t->first_batch + batch)));
}

/* Adds a batch's gradients to the sums, one micro-batch at a time. */
static weft_status add_batch(weft_trainer *t, const weft_batch *batch, int b, double scale)
{
    const int64_t n = weft__batch_samples(batch), step = t->micro > 0 ? t->micro : n;
    weft_status status = WEFT_OK;
    if (t->o.objective->compare && (step < n || weft__trainer_shares_batches(t))) {
        status = weft__pipeline_finish(t, WEFT_OK); /* sums in the order of the batches */
        return status == WEFT_OK ? weft__trainer_add_cached(t, batch, b, scale) : status;
    }
    for (int64_t from = 0, to; status == WEFT_OK && from < n; from = to) {
        weft_batch part;
        weft_scope_open_lean();
        weft__trainer_seed(t, b);
        status = weft__trainer_part(t, batch, from, step, &to, &part);
        t->row_keys = weft__batch_row_keys(batch, from, to);
        if (status == WEFT_OK)
            status = add_part(t, &part, scale);
        t->row_keys = NULL;
        weft_scope_close(NULL);
    }
    return status;
}

/* Adds up the gradients of this rank's batches. Drops the sums on failure. */
static weft_status add_batches(weft_trainer *t, const weft_batch *batches, int n, double scale)
{
    weft_status status = WEFT_OK;
    for (int b = 0; status == WEFT_OK && b < n; b++)
        status = add_batch(t, &batches[b], b, scale);
    status = weft__pipeline_finish(t, status);
    if (status != WEFT_OK)
        drop_sums(t);
    return status;
}

/* Sums the gradients over the ranks and updates the parameters, each rank its own. `status` is the
 * result of this rank's batches. */
static weft_status update_from_sums(weft_trainer *t, weft_status status, double lr_factor,
                                    weft_optim_call *call)
{
    weft_array *norm;
    weft_scope_open_lean();
    status = weft__group_add_sums(t, status, &norm);
    const bool updates = status == WEFT_OK;
    if (updates)
        status = update(t, t->sums, norm, t->sums[t->slots.n], lr_factor, call);
    drop_sums(t);
    weft_scope_close(NULL);
    return updates ? weft__group_share_update(t, status, call->applied) : status;
}

static weft_status update_from_one(weft_trainer *t, const weft_batch *whole, double scale,
                                   double lr_factor, weft_optim_call *call)
{
    weft_batch own = *whole, *batch = &own;
    weft_status status = weft__teacher_fill(t->o.objective, &t->o.objective_options, batch);
    if (status != WEFT_OK)
        return status;
    weft__trainer_seed(t, 0);
    t->row_keys = weft__batch_row_keys(batch, 0, weft__batch_samples(batch));
    if (t->compiled) {
        status = weft__trainer_update(t, batch, scale, lr_factor, call);
        if (status == WEFT_OK)
            status = weft__trainer_read_rewards(t, batch);
    } else {
        weft_array *loss = weft__trainer_differentiate(t, batch, weft_scalar(scale, WEFT_FLOAT32));
        status = note_rewards(t, batch, loss);
        if (status == WEFT_OK)
            status = update(t, t->gradients, NULL, loss, lr_factor, call);
    }
    t->row_keys = NULL;
    return status;
}

bool weft__trainer_halve(weft_trainer *t, int64_t largest)
{
    const int64_t now = t->micro > 0 && t->micro < largest ? t->micro : largest;
    if (t->o.micro_batch != 0 || needs_whole(&t->o) || now == 1)
        return false;
    t->micro = (now + 1) / 2;
    weft_log_message(WEFT_LOG_WARNING,
                     "update %lld: out of memory; from now on batches are computed %lld samples at "
                     "a time, with the same gradients",
                     (long long)t->updates + 1, (long long)t->micro);
    weft_memory_clear_cache();
    return true;
}

/* Whether to compute the batches again in smaller parts. Batches that the ranks share are not:
 * other ranks may be waiting for the next exchange. */
static bool retries(weft_trainer *t, const weft_batch *batches, int n)
{
    int64_t largest = 1;
    for (int b = 0; b < n; b++) {
        const int64_t samples = weft__batch_samples(&batches[b]);
        largest = samples > largest ? samples : largest;
    }
    return !weft__trainer_shares_batches(t) && weft__trainer_halve(t, largest);
}

/* Retries with smaller micro-batches before the next exchange. Ranks may use different sizes. */
static weft_status update_from(weft_trainer *t, const weft_batch *batches, int n, double scale,
                               double lr_factor, weft_optim_call *call)
{
    const bool one = n == 1 && weft_group_info_of(t->o.group).size == 1;
    weft_status status;
    bool whole;
    do {
        whole = one && (t->micro == 0 || weft__batch_samples(&batches[0]) <= t->micro);
        t->rewards = (weft_reward_report){0};
        weft_scope_open_lean();
        status = whole ? update_from_one(t, &batches[0], scale, lr_factor, call)
                       : add_batches(t, batches, n, scale);
        weft_scope_close(NULL);
    } while (status == WEFT_MEMORY && retries(t, batches, n));
    t->micros[weft_group_info_of(t->o.group).rank] = t->micro;
    return whole ? status : update_from_sums(t, status, lr_factor, call);
}

/* Adds up the targets and tokens of the batches of all ranks. */
static weft_status count_shares(const weft_trainer *t, const weft_batch *batches, int n,
                                weft__shares *shares)
{
    weft_status status = WEFT_OK;
    const bool shared = weft__trainer_shares_batches(t);
    const bool counts = !shared || weft_group_info_of(t->o.group).rank == 0;
    *shares = (weft__shares){0};
    for (int b = 0; status == WEFT_OK && b < n; b++) {
        status = weft__objective_check_batch(t->o.objective, &batches[b]);
        if (!counts)
            continue;
        if (status == WEFT_OK)
            shares->targets += t->o.objective->weight(&batches[b], &t->o.objective_options);
        shares->tokens += batches[b].n_tokens;
    }
    status = weft__group_add_shares(t, status, shared ? 0 : n, shares);
    if (t->o.objective->examples == WEFT_EXAMPLES_SCORED && shares->targets == 0)
        shares->targets = 1; /* all completions were cut off, and are masked: the loss is 0 */
    return status != WEFT_OK || shares->targets > 0
               ? status
               : weft_fail(WEFT_INVALID, "trainer: the update's batches have no targets");
}

weft_status weft_trainer_step(weft_trainer *trainer, const weft_batch *batches, int n,
                              double lr_factor, weft_train_report *report)
{
    weft__shares shares;
    weft_status status = count_shares(trainer, batches, n, &shares);
    if (status != WEFT_OK)
        return status;
    const double scale = 1 / shares.targets;
    weft_optim_call call = {0};
    trainer->first_batch = shares.first;
    status = update_from(trainer, batches, n, scale, lr_factor, &call);
    trainer->updates += status == WEFT_OK;
    if (status == WEFT_OK && report) {
        report->loss = call.loss_value;
        report->grad_norm = call.grad_norm;
        report->applied = call.applied;
        report->tokens = shares.tokens;
        weft__rewards_finish(&trainer->rewards, &trainer->o.objective_options);
        report->rewards = trainer->rewards;
        weft_policy_report *p = &report->rewards.policy;
        p->reward = trainer->policy.reward;
        p->reward_std = trainer->policy.reward_std;
        p->equal_groups = trainer->policy.equal_groups;
        p->length = trainer->policy.length;
        p->truncated = trainer->policy.truncated;
        p->parts = trainer->parts;
        p->n_parts = trainer->parts ? trainer->o.sampling->n_rewards : 0;
    }
    return status;
}
