/* train/trainer_run.c -- the loop over updates: schedule, validation, saving, stopping. */
#include <math.h>
#include <stdio.h>

#include "core/buffer.h"
#include "core/clock.h"
#include "core/failure.h"
#include "optim/optim.h"
#include "train/data/dataset.h"
#include "train/examples.h"
#include "train/parallel/parallel.h"
#include "train/rollout.h"
#include "weft/tool/run.h"

/* Tokens per second are averaged over this many updates. */
enum { RECENT = 20 };

typedef struct loop {
    weft_trainer *t;
    weft_batches *batches;
    const weft_dataset *validation;
    weft__run *run;
    weft__plan plan;
    weft_batch *update;      /* (accumulate): the batches of one update, or of several */
    int64_t *first_examples; /* (accumulate + 1): scratch space of the latter */
    weft_dataset *sampled;   /* the completions of the batches; NULL: those of the data */
    weft__journal *journal;  /* of sampled completions; NULL: none */
    bool stopping;           /* after the last update on the current batches */
    bool saving;             /* rank 0 wants a checkpoint */
    double began;
    double saved;           /* time of the last save, or of the start */
    double seconds[RECENT]; /* durations of the latest updates */
    int64_t tokens[RECENT];
    int64_t first; /* updates before this run was started or resumed */
    int64_t peak;  /* bytes of memory */
    weft__run_state state;
} loop;

/* ---- one update ----------------------------------------------------------------------------- */

static void free_update(loop *l)
{
    for (int64_t i = 0; i < l->t->o.accumulate; i++)
        weft_batch_free(&l->update[i]);
    weft_dataset_free(l->sampled);
    l->sampled = NULL;
}

/* Samples the completions of n batches of prompts, and makes batches of them. */
static weft_status sample_batches(loop *l, int64_t update, int64_t from, int n)
{
    const int64_t *first = l->first_examples;
    weft_status status = weft__rollout_sample(l->t, l->batches, update, from, n, l->journal,
                                              l->first_examples, &l->sampled);
    int64_t *examples = weft_calloc(l->sampled ? (size_t)first[n] + 1 : 1, sizeof *examples);
    if (status == WEFT_OK && examples == NULL)
        status = weft__out_of_memory("training", "the batches of an update");
    for (int64_t i = 0; status == WEFT_OK && i < first[n]; i++)
        examples[i] = i;
    for (int b = 0; status == WEFT_OK && b < n; b++)
        status = weft__batch_of_examples(l->sampled, examples + first[b], NULL,
                                         (int)(first[b + 1] - first[b]), &l->update[b]);
    weft_free(examples);
    return status;
}

/* Whether an update is the last one on its batches. Checkpoints and stops wait for it, so they need
 * no log-probabilities of earlier weights. */
static bool is_last_on_batches(const loop *l, int64_t step)
{
    return step % weft__rollout_iterations(l->t) == 0;
}

/* Makes this rank's n batches from number `from` on, which are used for one update or several. The
 * first batch of all ranks has number `update`. */
static weft_status make_batches(loop *l, int64_t update, int64_t from, int n)
{
    const weft_dataset *data = weft__batches_dataset(l->batches);
    weft_status status = WEFT_OK;
    const bool samples = weft__rollout_samples(l->t, update);
    if (samples)
        status = sample_batches(l, update, from, n);
    for (int i = 0; status == WEFT_OK && !samples && i < n; i++) {
        status = weft_batches_at(l->batches, from + i, &l->update[i]);
        l->first_examples[i] = weft__batches_first(l->batches, from + i);
    }
    if (l->sampled)
        data = l->sampled;
    if (l->t->o.objective->examples != WEFT_EXAMPLES_SCORED)
        return status;
    status = weft_group_agree(l->t->o.group, status, NULL);
    return status == WEFT_OK
               ? weft__rollout_prepare(l->t, data, l->update, l->first_examples, n, &l->t->policy)
               : status;
}

/* Runs one update. The batches of a rank are consecutive, or all of them if the ranks share each.
 */
static weft_status make_update(loop *l, int64_t s, double factor, weft_train_report *report)
{
    weft_group_info place = weft_group_info_of(l->t->o.group);
    const int64_t A = l->t->o.accumulate;
    if (weft__trainer_shares_batches(l->t))
        place = (weft_group_info){.size = 1};
    const int64_t begin = A * place.rank / place.size, end = A * (place.rank + 1) / place.size;
    const int64_t first = s / weft__rollout_iterations(l->t) * A;
    weft_status status = WEFT_OK;
    if (is_last_on_batches(l, s))
        status = make_batches(l, first, first + begin, (int)(end - begin));
    if (status == WEFT_OK)
        status = weft_trainer_step(l->t, l->update, (int)(end - begin), factor, report);
    if (status != WEFT_OK || is_last_on_batches(l, s + 1))
        free_update(l);
    return status;
}

static void add_rates(loop *l, int64_t s, double seconds, weft_train_report *report)
{
    const int64_t made = s + 1 - l->first, n = made < RECENT ? made : RECENT;
    double time = 0, tokens = 0;
    l->seconds[s % RECENT] = seconds;
    l->tokens[s % RECENT] = report->tokens;
    for (int64_t i = s - n + 1; i <= s; i++) {
        time += l->seconds[i % RECENT];
        tokens += (double)l->tokens[i % RECENT];
    }
    report->tokens_per_second = time > 0 ? tokens / time : 0;
    report->remaining = (double)(l->plan.steps - report->step) * time / (double)n;
}

/* Whether the report of an update has some of its completions: the first one on new completions
 * in each tenth of the run. */
static bool shows_samples(const loop *l, int64_t step)
{
    const int64_t iterations = weft__rollout_iterations(l->t), each = l->plan.steps / 10;
    return step % iterations == 1 % iterations &&
           (step == 1 || each <= iterations || step / each != (step - iterations) / each);
}

static weft_status step(loop *l, int64_t s, weft_train_report *report)
{
    const double began = weft__seconds(), factor = weft_rate_at(l->plan.factor, s);
    weft_status status = isnan(factor) ? weft_error_status() : make_update(l, s, factor, report);
    if (status != WEFT_OK)
        return status;
    const int64_t seen = (s / weft__rollout_iterations(l->t) + 1) * l->t->o.accumulate;
    report->step = s + 1;
    report->steps = l->plan.steps;
    if (shows_samples(l, report->step)) {
        report->samples = l->t->samples;
        report->n_samples = l->t->n_samples;
    }
    report->epoch = (double)seen / (double)weft_batches_count(l->batches);
    report->lr = l->t->o.lr * factor;
    report->total_tokens = l->state.result.tokens += report->tokens;
    const double seconds = weft__seconds() - began;
    l->state.result.training_seconds += seconds;
    add_rates(l, s, seconds, report);
    l->state.result.steps = report->step;
    if (report->applied) {
        l->state.result.loss = report->loss;
        l->state.skipped = 0;
        return WEFT_OK;
    }
    l->state.skipped++;
    l->state.result.skipped++;
    weft_log_message(WEFT_LOG_WARNING,
                     "update %lld: loss %g and gradient norm %g are not both finite: nothing was "
                     "changed",
                     (long long)report->step, report->loss, report->grad_norm);
    return WEFT_OK;
}

/* ---- validation and saving ------------------------------------------------------------------ */

static bool is_cancelled(const loop *l)
{
    return l->t->o.cancel && weft_cancel_is_set(l->t->o.cancel);
}

static bool goes_on(void *context, int64_t targets, int64_t total)
{
    const loop *l = context;
    const weft_trainer_options *o = &l->t->o;
    return !is_cancelled(l) && (!o->validating || o->validating(o->context, targets, total));
}

/* Turns a failure to write into a warning: training continues, and later writes may succeed. */
static weft_status warn(weft_status status)
{
    if (status == WEFT_IO)
        weft_log_message(WEFT_LOG_WARNING, "%s; training continues", weft_error_message());
    return status == WEFT_IO ? WEFT_OK : status;
}

/* Saves the best adapter and records its step. If it cannot be saved, `best` and best_step keep the
 * previous one. Only the first rank writes. */
static weft_status keep_best(loop *l, const weft_train_report *report)
{
    weft_status status = weft__run_save_best(l->run);
    bool unsaved = status == WEFT_IO;
    status = weft_group_agree(l->t->o.group, warn(status), &unsaved);
    if (status != WEFT_OK || unsaved)
        return status;
    l->state.result.best_validation = report->validation_loss;
    l->state.result.best_step = report->step;
    return WEFT_OK;
}

/* Validates. A cancelled validation leaves the report without a validation loss. */
static weft_status validate(loop *l, weft_train_report *report)
{
    const weft_evaluate_options o = {.batch_size = l->t->o.validation_batch,
                                     .max_samples = l->t->o.validation_samples,
                                     .objective = l->t->o.objective,
                                     .objective_options = l->t->o.objective_options,
                                     .group = l->t->o.group,
                                     .callback = goes_on,
                                     .context = l};
    weft_evaluation found = {.accuracy = NAN};
    weft_status status;
    if (l->t->o.objective->examples == WEFT_EXAMPLES_SCORED) {
        status = weft__rollout_validate(l->t, l->validation, o.max_samples, &found.loss);
        found.loss = -found.loss;
    } else {
        status = weft_evaluate(l->t->model, l->validation, &o, &found);
    }
    if (status != WEFT_OK)
        return status == WEFT_CANCELLED ? WEFT_OK : status;
    weft_train_result *r = &l->state.result;
    report->validation_loss = r->last_validation = found.loss;
    report->validation_accuracy = found.accuracy;
    l->state.validated = report->step;
    const weft_trainer_options *options = &l->t->o;
    if (options->sampler) {
        const weft_status sampled =
            options->sampler(options->context, report->step, &report->samples, &report->n_samples);
        if (sampled != WEFT_OK)
            return sampled;
    }
    if (report->step == 0) {
        r->first_validation = found.loss;
        return WEFT_OK;
    }
    if (isnan(found.loss) || r->best_validation <= found.loss) /* NaN: no prompt has a reward */
        return WEFT_OK;
    return keep_best(l, report);
}

/* Measures the loss of the general text. A cancelled measurement is made when the run is resumed. A
 * failure is logged; in a group it ends the run, since the ranks can no longer exchange anything,
 * unless all have the same loss that is not finite. */
static weft_status measure_general(loop *l, weft_train_report *report)
{
    const weft_evaluate_options o = {
        .batch_size = 1, .group = l->t->o.group, .callback = goes_on, .context = l};
    weft_train_result *r = &l->state.result;
    weft_evaluation found;
    const weft_status status = weft_evaluate(l->t->model, l->t->o.general, &o, &found);
    if (status == WEFT_CANCELLED)
        return WEFT_OK;
    if (status != WEFT_OK && weft_group_info_of(o.group).size > 1 && isfinite(found.loss))
        return weft_group_agree(o.group, status, NULL);
    if (status != WEFT_OK) {
        weft_log_message(WEFT_LOG_WARNING, "the loss of the general text was not measured: %s",
                         weft_error_message());
        return WEFT_OK;
    }
    report->general_loss = found.loss;
    *(report->step == 0 ? &r->first_general : &r->last_general) = found.loss;
    return WEFT_OK;
}

/* Whether an action that runs every `every` updates is due after this one, which `by` updates at
 * most separate from the last chance. */
static bool is_due(int64_t step, int64_t every, int64_t by)
{
    return every > 0 && step / every != (step - by) / every;
}

static bool must_save(const loop *l, int64_t step)
{
    const double minutes = l->t->o.save_minutes;
    if (!is_last_on_batches(l, step))
        return false;
    return is_due(step, l->t->o.save_every, weft__rollout_iterations(l->t)) ||
           (minutes > 0 && weft__seconds() - l->saved >= 60 * minutes);
}

static bool must_validate(const loop *l, int64_t step)
{
    return l->validation &&
           (step == 0 || step == l->plan.steps || is_due(step, l->t->o.validate_every, 1));
}

static double seconds_so_far(const loop *l)
{
    return weft__seconds() - l->began;
}

/* Every rank takes part. */
static weft_status save(loop *l)
{
    l->saved = weft__seconds();
    l->state.result.seconds = seconds_so_far(l);
    weft_status status = weft__group_collect_states(l->t, true);
    if (status == WEFT_OK)
        status = warn(weft__run_save(l->run, &l->state));
    if (status == WEFT_OK)
        status = weft__optim_release(l->t->optimizer);
    return status == WEFT_OK && l->t->o.folder ? warn(weft_run_report(l->t->o.folder)) : status;
}

/* Saves a checkpoint if one is due. The checkpoint of the last update is saved by finish(). */
static weft_status save_if_due(loop *l, const weft_train_report *report)
{
    return l->saving && report->step < report->steps ? save(l) : WEFT_OK;
}

/* Reports an update to the probe. */
static void send_to_probe(const weft_probe *probe, const weft_train_report *report)
{
    if (probe == NULL || (probe->kinds & WEFT_PROBE_TRAINING) == 0 || report->step == 0)
        return;
    const weft_probe_event event = {.kind = WEFT_PROBE_TRAINING,
                                    .phase = WEFT_PROBE_UPDATE,
                                    .step = report->step,
                                    .layer = -1,
                                    .token = -1,
                                    .loss = report->loss,
                                    .grad_norm = report->grad_norm,
                                    .lr = report->lr};
    probe->event(probe->context, &event);
}

/* The most memory so far, on the CPU with what the process holds outside of arrays. That is
 * measured now: it changes little between updates. */
static int64_t peak_memory(loop *l)
{
    const int64_t now = weft__memory_peak_process();
    if (now > l->peak)
        l->peak = now;
    return l->peak;
}

static weft_status publish_report(loop *l, weft_train_report *report)
{
    report->seconds = seconds_so_far(l);
    report->peak_memory = peak_memory(l);
    weft_status status = weft__run_add(l->run, report);
    if (status == WEFT_OK && report->step > 0 && isfinite(report->validation_loss))
        status = warn(weft__run_draw(l->run));
    const weft_trainer_options *o = &l->t->o;
    bool stop = false;
    if (status == WEFT_OK) {
        send_to_probe(o->probe, report);
        const bool refused = o->callback && !o->callback(o->context, report);
        stop = refused || (is_cancelled(l) && report->step < report->steps);
    }
    double saves[WEFT__EXCHANGED] = {o->folder && must_save(l, report->step)};
    status = weft__group_exchange(o->group, status, &stop, saves, NULL);
    l->saving = saves[0] > 0;
    l->stopping = l->stopping || stop;
    const bool over = report->step == report->steps && !stop; /* it ended before it could stop */
    if (status == WEFT_OK && l->stopping && !over && is_last_on_batches(l, report->step))
        return weft_fail(WEFT_CANCELLED, "training was stopped after update %lld of %lld",
                         (long long)report->step, (long long)report->steps);
    return status;
}

/* Fails after max_skipped consecutive updates that were not finite, or at the end of a run without
 * any finite update. */
static weft_status check_skipped(const loop *l, int64_t step)
{
    const bool none = l->state.skipped == step && step == l->plan.steps;
    if (l->state.skipped < l->t->o.max_skipped && !none)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID,
                     "training: update %lld: the loss or its gradient was NaN or infinite %lld "
                     "times in a row; the weights are those after update %lld",
                     (long long)step, (long long)l->state.skipped,
                     (long long)(step - l->state.skipped));
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Whether `patience` validations have passed since the best one. This depends only on the result,
 * so a resumed run stops at the same update. */
static bool is_out_of_patience(const loop *l)
{
    const weft_train_result *r = &l->state.result;
    const int64_t every = l->t->o.validate_every, patience = l->t->o.patience;
    return patience > 0 && every > 0 && !isnan(r->best_validation) &&
           r->steps / every - r->best_step / every >= patience;
}

/* Whether an update is the run's last one. */
static bool ends_after(const loop *l, int64_t step)
{
    return step == l->plan.steps || (is_out_of_patience(l) && is_last_on_batches(l, step));
}

static bool must_measure_general(const loop *l, int64_t step)
{
    return l->t->o.general && (step == 0 || ends_after(l, step));
}

/* Runs what is measured before the first update, or after a resume what was cancelled when the run
 * stopped. */
static weft_status begin(loop *l)
{
    weft_train_result *r = &l->state.result;
    weft_train_report start = {.step = l->first,
                               .steps = l->plan.steps,
                               .loss = NAN,
                               .grad_norm = NAN,
                               .validation_loss = NAN,
                               .validation_accuracy = NAN,
                               .general_loss = NAN};
    weft_status status = WEFT_OK;
    if (!ends_after(l, l->first))
        r->last_general = NAN; /* of a run that ended and was extended */
    if (must_validate(l, l->first) && (l->first == 0 || l->state.validated != l->first))
        status = validate(l, &start);
    if (status == WEFT_OK && must_measure_general(l, l->first) &&
        (l->first == 0 || isnan(r->last_general)))
        status = measure_general(l, &start);
    const bool measured = !isnan(start.validation_loss) || !isnan(start.general_loss);
    const bool reports = measured || (l->first == 0 && must_validate(l, 0));
    return status == WEFT_OK && reports ? publish_report(l, &start) : status;
}

static weft_status run_updates(loop *l)
{
    weft_status status = begin(l);
    for (int64_t s = l->first; status == WEFT_OK && s < l->plan.steps; s++) {
        if (ends_after(l, s))
            break;
        weft_train_report report = {
            .validation_loss = NAN, .validation_accuracy = NAN, .general_loss = NAN};
        status = step(l, s, &report);
        if (status == WEFT_OK && must_validate(l, report.step))
            status = validate(l, &report);
        if (status == WEFT_OK && must_measure_general(l, report.step))
            status = measure_general(l, &report);
        if (status == WEFT_OK)
            status = publish_report(l, &report);
        if (status == WEFT_OK)
            status = save_if_due(l, &report);
        if (status == WEFT_OK)
            status = check_skipped(l, report.step);
    }
    return status;
}

/* Saves the weights, which are complete after any failure, and keeps the first failure's message.
 */
static weft_status finish(loop *l, weft_status status)
{
    l->state.result.seconds = seconds_so_far(l);
    l->state.result.peak_memory = peak_memory(l);
    l->state.result.peak_active = weft_memory_peak();
    status = weft__run_finish(l->run, &l->state, status);
    (void)weft__optim_release(l->t->optimizer); /* for want of memory they stay */
    const bool withdrawn = status == WEFT_MEMORY && l->state.result.steps == 0;
    if (l->t->o.folder == NULL || l->run == NULL || (withdrawn && !weft_run_exists(l->t->o.folder)))
        return status;
    char why[1024];
    snprintf(why, sizeof why, "%s", status == WEFT_OK ? "" : weft_error_message());
    const weft_status written = warn(weft_run_report(l->t->o.folder));
    return status == WEFT_OK ? written : weft_fail(status, "%s", why);
}

/* Opens the folder and restores the state of the run in it. */
static weft_status begin_run(loop *l)
{
    weft_group *group = l->t->o.group;
    weft_status status = weft__group_check_same(l->t, &l->plan, l->batches, l->validation);
    if (status == WEFT_OK)
        status = weft__run_open(l->t, &l->plan, l->batches, l->validation, &l->state, &l->run);
    if (status == WEFT_OK && l->t->o.sampling && l->t->o.sampling->reward && l->t->o.folder)
        status = weft__journal_open(l->t->o.folder, l->t->o.resume, &l->journal);
    status = weft_group_agree(group, status, NULL);
    if (status == WEFT_OK)
        status = weft__group_share_state(l->t, &l->state);
    weft__trainer_split(l->t);
    l->first = l->t->updates = l->state.result.steps;
    if (status == WEFT_OK && !is_last_on_batches(l, l->first))
        status = weft_fail(WEFT_INVALID,
                           "%s: the run failed after update %lld, among %lld updates on the same "
                           "completions, and cannot be resumed there",
                           l->t->o.folder ? l->t->o.folder : "run", (long long)l->first,
                           (long long)weft__rollout_iterations(l->t));
    l->began -= l->state.result.seconds;
    return status;
}

/* Checks the stored teachers of the data. */
static weft_status check_stored(const loop *l, int64_t vocabulary)
{
    const weft_dataset *const data[] = {weft__batches_dataset(l->batches), l->validation};
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        if (data[i])
            status = weft__top_check(data[i], vocabulary, l->t->o.objective_options.temperature);
    }
    return status;
}

static weft_status start(loop *l)
{
    const weft_trainer_options *o = &l->t->o;
    const weft_model_info *info = weft_model_info_of(l->t->model);
    weft_status status =
        weft__objective_check_data(o->objective, weft__batches_dataset(l->batches));
    if (status == WEFT_OK)
        status = weft__rollout_check(l->t, l->batches);
    if (status == WEFT_OK)
        status = weft__rollout_keep_reference(l->t);
    if (status == WEFT_OK)
        status = weft__batches_check_ids(l->batches, info);
    if (status == WEFT_OK && l->validation)
        status = weft__dataset_check_ids(l->validation, info);
    if (status == WEFT_OK && o->general)
        status = weft__dataset_check_ids(o->general, info);
    if (status == WEFT_OK && l->validation)
        status = weft__objective_check_data(o->objective, l->validation);
    if (status == WEFT_OK && o->objective == &weft_objective_distill)
        status = check_stored(l, info->vocab_size);
    if (status == WEFT_OK && l->validation && o->objective->examples == WEFT_EXAMPLES_SCORED &&
        (o->sampling == NULL ||
         weft_dataset_info_of(l->validation).examples != WEFT_EXAMPLES_PROMPTS))
        status = weft_fail(WEFT_UNSUPPORTED,
                           "trainer: objective %s: validation: expected prompts, and sampling",
                           o->objective->name);
    if (status != WEFT_OK)
        return status;
    const int64_t iterations = weft__rollout_iterations(l->t);
    l->plan = weft__plan_of(l->t, l->batches);
    if (l->plan.steps % iterations != 0)
        return weft_fail(WEFT_INVALID,
                         "trainer: steps: expected a multiple of num_iterations %lld, got %lld",
                         (long long)iterations, (long long)l->plan.steps);
    status = weft__plan_factor(&l->plan, o->schedule);
    if (status != WEFT_OK)
        return status;
    l->update = weft_calloc((size_t)o->accumulate, sizeof *l->update);
    l->first_examples = weft_calloc((size_t)o->accumulate + 1, sizeof *l->first_examples);
    if (l->update == NULL || l->first_examples == NULL)
        return weft_fail(WEFT_MEMORY, "training: out of memory for an update of %lld batches",
                         (long long)o->accumulate);
    return WEFT_OK;
}

weft_status weft_trainer_run(weft_trainer *trainer, weft_batches *batches,
                             const weft_dataset *validation, weft_train_result *result)
{
    loop l = {
        .t = trainer,
        .batches = batches,
        .validation = validation,
        .began = weft__seconds(),
        .saved = weft__seconds(),
        .state.result = {.loss = NAN,
                         .first_validation = NAN,
                         .last_validation = NAN,
                         .best_validation = NAN,
                         .first_general = NAN,
                         .last_general = NAN},
    };
    weft_memory_reset_peak();
    weft_group *group = trainer->o.group;
    weft_status status = weft_group_agree(group, start(&l), NULL);
    if (status == WEFT_OK)
        status = begin_run(&l);
    if (status == WEFT_OK) {
        status = finish(&l, weft_group_agree(group, run_updates(&l), NULL));
        status = weft_group_agree(group, status, NULL);
    }
    weft__run_free(l.run);
    weft__journal_free(l.journal);
    weft_rate_free(l.plan.factor);
    if (l.update)
        free_update(&l);
    weft_free(l.update);
    weft_free(l.first_examples);
    if (result)
        *result = l.state.result;
    return status;
}
