/* train/objective/objective.c -- the list of objectives, their options, and shared functions. */
#include "train/objective/objective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "train/run/number.h"

const weft_objective *const weft_objectives[] = {
    &weft_objective_supervised, &weft_objective_dpo,
    &weft_objective_orpo,       &weft_objective_simpo,
    &weft_objective_kto,        &weft_objective_grpo,
    &weft_objective_dapo,       &weft_objective_dr_grpo,
    &weft_objective_gspo,       &weft_objective_rloo,
    &weft_objective_distill,    &weft_objective_ranking,
    &weft_objective_triplet,    &weft_objective_cosent,
    &weft_objective_cosine,     NULL};

const weft_objective *weft_objective_named(const char *name)
{
    for (int i = 0; weft_objectives[i]; i++) {
        if (strcmp(weft_objectives[i]->name, name) == 0)
            return weft_objectives[i];
    }
    return NULL;
}

/* ---- options -------------------------------------------------------------------------------- */

static const weft_field all_fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, label_smoothing),
    WEFT_FIELD(DOUBLE, weft_objective_options, gamma),
    WEFT_FIELD(DOUBLE, weft_objective_options, desirable_weight),
    WEFT_FIELD(DOUBLE, weft_objective_options, undesirable_weight),
    WEFT_FIELD(DOUBLE, weft_objective_options, epsilon),
    WEFT_FIELD(DOUBLE, weft_objective_options, epsilon_high),
    WEFT_FIELD(DOUBLE, weft_objective_options, delta),
    WEFT_FIELD(DOUBLE, weft_objective_options, temperature),
    WEFT_FIELD(INT, weft_objective_options, num_generations),
    WEFT_FIELD(INT, weft_objective_options, num_iterations),
    WEFT_FIELD(INT, weft_objective_options, max_completion_length),
    WEFT_FIELD(INT, weft_objective_options, mask_truncated),
    WEFT_FIELD(POINTER, weft_objective_options, loss_type), /* texts */
    WEFT_FIELD(POINTER, weft_objective_options, importance),
    WEFT_FIELD(POINTER, weft_objective_options, scale_rewards),
    WEFT_FIELD(DOUBLE, weft_objective_options, lmbda),
    WEFT_FIELD(DOUBLE, weft_objective_options, scale),
    WEFT_FIELD(DOUBLE, weft_objective_options, margin),
    WEFT_FIELDS_END,
};

static void *at(const weft_objective_options *options, const weft_field *field)
{
    return (void *)((uintptr_t)options + field->offset);
}

/* A number of the options. */
static double value_of(const weft_objective_options *options, const weft_field *field)
{
    return field->type == WEFT_FIELD_INT ? (double)*(const int64_t *)at(options, field)
                                         : *(const double *)at(options, field);
}

static const char *text_of(const weft_objective_options *options, const weft_field *field)
{
    return *(const char *const *)at(options, field);
}

/* Whether an option is not zero; *text describes it. */
static bool is_set(const weft_objective_options *options, const weft_field *field, char text[64])
{
    if (field->type == WEFT_FIELD_POINTER) {
        const char *value = text_of(options, field);
        snprintf(text, 64, "%.60s", value ? weft_printable(value) : "");
        return value != NULL;
    }
    snprintf(text, 64, "%g", value_of(options, field));
    return value_of(options, field) != 0;
}

/* -1 is zero also where the default is zero; other negative numbers are refused there. */
static void set_default(const weft_objective *objective, const weft_field *field,
                        weft_objective_options *options)
{
    if (field->type == WEFT_FIELD_POINTER) {
        const char **text = at(options, field);
        *text = *text ? *text : text_of(&objective->defaults, field);
    } else if (field->type == WEFT_FIELD_INT) {
        int64_t *value = at(options, field);
        const int64_t standard = *(const int64_t *)at(&objective->defaults, field);
        *value = *value == -1 ? 0 : weft__count_or_default(*value, standard);
    } else {
        double *value = at(options, field);
        *value = *value == -1 ? 0 : weft__or_default(*value, value_of(&objective->defaults, field));
    }
}

static bool takes(const weft_objective *objective, const weft_field *field)
{
    for (const weft_field *f = objective->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f->offset == field->offset)
            return true;
    }
    return false;
}

/* The member of the only option that is a list. */
static const weft_field list = WEFT_FIELD(DIMS, weft_objective_options, dimensions);

static weft_status check_dimensions(const weft_objective *objective, const weft_dims *d)
{
    if (d->n > 0 && !takes(objective, &list))
        return weft_fail(WEFT_INVALID, "objective %s: it has no option %s", objective->name,
                         list.name);
    for (int i = 0; i < d->n; i++) {
        if (d->at[i] < 1)
            return weft_fail(WEFT_INVALID, "objective %s: %s: expected positive numbers, got %lld",
                             objective->name, list.name, (long long)d->at[i]);
    }
    return WEFT_OK;
}

weft_status weft__objective_complete(const weft_objective *objective,
                                     weft_objective_options *options)
{
    for (const weft_field *f = all_fields; f->type != WEFT_FIELD_END; f++) {
        char text[64];
        if (is_set(options, f, text) && !takes(objective, f))
            return weft_fail(WEFT_INVALID, "objective %s: it has no option %s, which is %s",
                             objective->name, f->name, text);
        set_default(objective, f, options);
    }
    if (!(options->scale >= 0 && options->margin >= 0 && isfinite(options->scale) &&
          isfinite(options->margin)))
        return weft_fail(WEFT_INVALID,
                         "objective %s: scale, margin: expected finite numbers of at least 0, got "
                         "%g and %g",
                         objective->name, options->scale, options->margin);
    if (!isfinite(options->beta))
        return weft_fail(WEFT_INVALID, "objective %s: beta: expected a finite number, got %g",
                         objective->name, options->beta);
    if (!(options->label_smoothing >= 0 && options->label_smoothing < 0.5))
        return weft_fail(WEFT_INVALID,
                         "objective %s: label_smoothing: expected a number in [0, 0.5), got %g",
                         objective->name, options->label_smoothing);
    if (!(options->desirable_weight >= 0 && options->undesirable_weight >= 0 &&
          isfinite(options->desirable_weight) && isfinite(options->undesirable_weight)))
        return weft_fail(WEFT_INVALID,
                         "objective %s: desirable_weight, undesirable_weight: expected positive "
                         "numbers, got %g and %g",
                         objective->name, options->desirable_weight, options->undesirable_weight);
    if (!isfinite(options->gamma))
        return weft_fail(WEFT_INVALID, "objective %s: gamma: expected a finite number, got %g",
                         objective->name, options->gamma);
    const weft_status status = check_dimensions(objective, &options->dimensions);
    if (status != WEFT_OK)
        return status;
    return objective->examples == WEFT_EXAMPLES_SCORED ? weft__policy_check(objective, options)
           : objective == &weft_objective_distill      ? weft__distill_check(options)
                                                       : WEFT_OK;
}

bool weft__objective_needs_whole(const weft_objective *objective,
                                 const weft_objective_options *options)
{
    return objective->whole_batch ||
           (objective->examples == WEFT_EXAMPLES_SCORED && weft__policy_needs_whole(options));
}

static void write_dimensions(weft__text *t, const weft_dims *d)
{
    for (int i = 0; i < d->n; i++)
        weft__text_format(t, "%s%lld%s", i ? ", " : "\"dimensions\": [", (long long)d->at[i],
                          i + 1 < d->n ? "" : "], ");
}

void weft__objective_write(weft__text *t, const weft_objective *objective,
                           const weft_objective_options *options)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(t, "\"objective\": \"%s\", ", objective->name);
    for (const weft_field *f = objective->fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f->type == WEFT_FIELD_DIMS)
            write_dimensions(t, &options->dimensions);
        else if (f->type == WEFT_FIELD_POINTER)
            weft__text_format(t, "\"%s\": \"%s\", ", f->name, text_of(options, f));
        else
            weft__text_format(t, "\"%s\": %s, ", f->name,
                              weft__number(value_of(options, f), number));
    }
}

static weft_status check_same_text(const weft__json *object, const weft_objective *objective,
                                   const weft_field *f, const char *now)
{
    const char *then = now;
    const weft_status status = weft__json_find_string(object, f->name, &then);
    return status != WEFT_OK || strcmp(then, now) == 0
               ? status
               : weft_fail(WEFT_INVALID, "%s: %s of objective %s: expected the run's %s, got %s",
                           object->name, f->name, objective->name, weft_printable(then), now);
}

static weft_status check_same_dimensions(const weft__json *object, const weft_dims *now)
{
    weft__json then, item;
    size_t n = 0;
    weft_status status = weft__json_find(object, list.name, &then);
    if (status == WEFT_OK && then.value)
        status = weft__json_length(&then, &n);
    bool same = status == WEFT_OK && n == (size_t)now->n;
    for (size_t i = 0; same && i < n; i++) {
        int64_t number = 0;
        status = weft__json_at(&then, i, &item);
        if (status == WEFT_OK)
            status = weft__json_as_int(&item, &number);
        same = status == WEFT_OK && number == now->at[i];
    }
    return status == WEFT_OK && !same
               ? weft_fail(WEFT_INVALID, "%s: dimensions: expected those of the run", object->name)
               : status;
}

weft_status weft__objective_check_same(const weft__json *object, const weft_objective *objective,
                                       const weft_objective_options *options)
{
    const char *name = weft_objective_supervised.name;
    weft_status status = weft__json_find_string(object, "objective", &name);
    if (status == WEFT_OK && strcmp(name, objective->name) != 0)
        return weft_fail(WEFT_INVALID, "%s: objective: expected the run's %s, got %s", object->name,
                         weft_printable(name), objective->name);
    for (const weft_field *f = objective->fields;
         status == WEFT_OK && f && f->type != WEFT_FIELD_END; f++) {
        if (f->type == WEFT_FIELD_DIMS)
            status = check_same_dimensions(object, &options->dimensions);
        if (f->type == WEFT_FIELD_POINTER)
            status = check_same_text(object, objective, f, text_of(options, f));
        if (f->type == WEFT_FIELD_DIMS || f->type == WEFT_FIELD_POINTER)
            continue;
        double then = value_of(options, f);
        status = weft__json_find_number(object, f->name, &then);
        if (status == WEFT_OK && then != value_of(options, f))
            return weft_fail(WEFT_INVALID, "%s: %s of objective %s: expected the run's %g, got %g",
                             object->name, f->name, name, then, value_of(options, f));
    }
    return status;
}

/* ---- log-probabilities ---------------------------------------------------------------------- */

weft_array *weft__target_weights(const weft_batch *batch, const weft_array *like)
{
    weft_device *there = weft_device_of(like);
    weft_array *trained = weft_astype(weft_greater_equal_scalar(weft_to(batch->targets, there), 0),
                                      WEFT_FLOAT32); /* (B, L) */
    return batch->weights ? weft_multiply(trained, weft_to(batch->weights, there)) : trained;
}

weft_array *weft__row_log_probabilities(weft_model *model, const weft_batch *batch, bool checkpoint)
{
    weft_array *losses = weft__token_losses(model, batch, batch->targets, checkpoint); /* (B, L) */
    if (batch->weights)
        losses = weft_multiply(losses, weft_to(batch->weights, weft_device_of(losses)));
    return weft_negative(weft_sum(losses, WEFT_DIMS(-1), false)); /* (B) */
}

weft_array *weft__row_means(const weft_batch *batch, weft_array *losses)
{
    weft_array *weights = weft__target_weights(batch, losses);                         /* (B, L) */
    weft_array *sums = weft_sum(weft_multiply(losses, weights), WEFT_DIMS(-1), false); /* (B) */
    return weft_negative(weft_divide(sums, weft_sum(weights, WEFT_DIMS(-1), false)));
}

weft_array *weft__pair_difference(const weft_batch *batch, weft_array *values)
{
    const int64_t n = weft__batch_examples(batch);
    return weft_subtract(weft_slice_axis(values, 0, 0, n), weft_slice_axis(values, 0, n, 2 * n));
}

double weft__target_weight(const weft_batch *batch, const weft_objective_options *options)
{
    (void)options;
    return batch->n_targets;
}

double weft__pair_weight(const weft_batch *batch, const weft_objective_options *options)
{
    (void)options;
    return (double)weft__batch_examples(batch);
}

/* ---- rewards -------------------------------------------------------------------------------- */

weft_status weft__rewards_add(weft_reward_report *report, const weft_batch *batch,
                              weft_array *rewards)
{
    if (batch->examples == WEFT_EXAMPLES_SCORED)
        return weft__policy_add(&report->policy, batch, rewards);
    const int64_t n = weft__batch_examples(batch);
    const int64_t rows = n * weft__rows_per_example(batch->examples, batch->texts);
    const bool labeled = batch->examples == WEFT_EXAMPLES_LABELED,
               pairs = batch->examples == WEFT_EXAMPLES_PAIRS;
    float *values = weft_calloc(3 * (size_t)n + 1, sizeof *values);
    if (values == NULL)
        return weft_fail(WEFT_MEMORY, "training: out of memory for the rewards of %lld examples",
                         (long long)n);
    weft_status status = weft_read(rewards, WEFT_FLOAT32, values, rows);
    if (status == WEFT_OK && labeled)
        status = weft_read(batch->labels, WEFT_FLOAT32, values + 2 * n, n);
    for (int64_t r = 0; status == WEFT_OK && r < (labeled ? n : rows); r++) {
        const bool chosen = labeled ? values[2 * n + r] > 0 : r < n;
        *(chosen ? &report->chosen : &report->rejected) += (double)values[r];
        *(chosen ? &report->n_chosen : &report->n_rejected) += 1;
    }
    for (int64_t i = 0; status == WEFT_OK && i < n; i++)
        report->accuracy += pairs ? (double)(values[i] > values[n + i]) : NAN;
    report->pairs += status == WEFT_OK ? n : 0;
    weft_free(values);
    return status;
}

void weft__rewards_finish(weft_reward_report *report, const weft_objective_options *options)
{
    if (report->policy.completions > 0)
        weft__policy_finish(&report->policy, options);
    if (report->pairs == 0)
        return;
    report->chosen = report->n_chosen > 0 ? report->chosen / (double)report->n_chosen : NAN;
    report->rejected = report->n_rejected > 0 ? report->rejected / (double)report->n_rejected : NAN;
    report->accuracy /= (double)report->pairs;
    report->margin = report->chosen - report->rejected;
}
