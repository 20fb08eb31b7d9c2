/* train/objective/policy.c -- training with rewards: GRPO and its relatives, as one loss whose
 * parts the options choose. */
#include <math.h>
#include <string.h>

#include "train/objective/objective.h"
#include "weft/activations.h"
#include "weft/transforms.h"

/* ---- the choices ---------------------------------------------------------------------------- */

/* What a batch's losses are divided by. */
typedef enum divisor { BY_TOKENS, BY_COMPLETIONS, BY_LENGTH, BY_BATCH } divisor;

static const char *const loss_types[] = {
    [BY_TOKENS] = "dapo", [BY_COMPLETIONS] = "grpo", [BY_LENGTH] = "dr_grpo", [BY_BATCH] = "bnpo"};

typedef enum level { OF_TOKEN, OF_MEAN, OF_SUM } level;

static const char *const importances[] = {
    [OF_TOKEN] = "token", [OF_MEAN] = "sequence", [OF_SUM] = "sum"};

enum { CHOICES = 4 };

/* The index of a text in the list; -1: not there. */
static int index_of(const char *text, const char *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(text, list[i]) == 0)
            return i;
    }
    return -1;
}

static divisor divisor_of(const weft_objective_options *o)
{
    return (divisor)index_of(o->loss_type, loss_types, CHOICES);
}

static level level_of(const weft_objective_options *o)
{
    return (level)index_of(o->importance, importances, CHOICES - 1);
}

bool weft__policy_penalizes_rewards(const weft_objective_options *o)
{
    return strcmp(o->scale_rewards, WEFT__LEAVE_ONE_OUT) == 0 && o->beta != 0;
}

bool weft__policy_needs_whole(const weft_objective_options *o)
{
    return divisor_of(o) == BY_BATCH;
}

/* ---- checks --------------------------------------------------------------------------------- */

static weft_status check_choice(const weft_objective *objective, const char *name, const char *text,
                                const char *const *list, int n)
{
    if (index_of(text, list, n) >= 0)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "objective %s: %s: expected %s, %s%s%s or %s, got %s",
                     objective->name, name, list[0], list[1], n > 3 ? ", " : "",
                     n > 3 ? list[2] : "", list[n - 1], weft_printable(text));
}

weft_status weft__policy_check(const weft_objective *objective, const weft_objective_options *o)
{
    const struct {
        const char *name;
        double value;
        bool good;
        const char *expected;
    } numbers[] = {
        {"beta", o->beta, o->beta >= 0, "a number of at least 0"},
        {"epsilon", o->epsilon, o->epsilon > 0 && o->epsilon < 1, "a number in (0, 1)"},
        {"epsilon_high", o->epsilon_high, o->epsilon_high >= 0 && isfinite(o->epsilon_high),
         "a number of at least 0"},
        {"delta", o->delta, o->delta == 0 || (o->delta > 1 && isfinite(o->delta)),
         "a number above 1"},
        {"temperature", o->temperature, o->temperature > 0 && isfinite(o->temperature),
         "a positive number"},
        {"num_generations", (double)o->num_generations, o->num_generations >= 2, "at least 2"},
        {"num_iterations", (double)o->num_iterations, o->num_iterations >= 1, "at least 1"},
        {"max_completion_length", (double)o->max_completion_length, o->max_completion_length >= 1,
         "at least 1"},
        {"mask_truncated", (double)o->mask_truncated,
         o->mask_truncated == 0 || o->mask_truncated == 1, "0 or 1"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!numbers[i].good)
            return weft_fail(WEFT_INVALID, "objective %s: %s: expected %s, got %g", objective->name,
                             numbers[i].name, numbers[i].expected, numbers[i].value);
    }
    static const char *const scales[] = {"group", "batch", "none", WEFT__LEAVE_ONE_OUT};
    weft_status status = check_choice(objective, "loss_type", o->loss_type, loss_types, CHOICES);
    if (status == WEFT_OK)
        status = check_choice(objective, "importance", o->importance, importances, CHOICES - 1);
    return status == WEFT_OK
               ? check_choice(objective, "scale_rewards", o->scale_rewards, scales, CHOICES)
               : status;
}

/* ---- the loss ------------------------------------------------------------------------------- */

/* What the loss computes of each row for the report: sums over its tokens or, for the last three
 * unless the importance is of tokens, the row's value. */
enum { TOKENS, KL, ENTROPY, MISMATCH, RATIO, LOW, HIGH, SUMS };

/* Sums over the tokens of each row: (B) of x (B, L) or (B, 1). */
static weft_array *over_row(weft_array *x, weft_array *mask)
{
    return weft_sum(weft_multiply(x, mask), WEFT_DIMS(-1), false);
}

/* The same of a value of tokens; of a value of rows (B, 1) itself. */
static weft_array *of_row(weft_array *x, weft_array *mask)
{
    return weft_dim(x, 1) == 1 && weft_dim(mask, 1) != 1 ? weft_squeeze(x, 1) : over_row(x, mask);
}

/* The importance ratios: (B, L), or (B, 1) if they are of rows. */
static weft_array *ratios(weft_array *difference, weft_array *mask, weft_array *n, level of)
{
    if (of == OF_TOKEN)
        return weft_exp(difference);
    weft_array *sums = over_row(difference, mask); /* (B) */
    if (of == OF_MEAN)
        sums = weft_divide(sums, n);
    return weft_exp(weft_expand_dims(sums, 1));
}

static weft_array *flags(weft_array *condition, weft_array *and)
{
    return weft_astype(weft_logical_and(condition, and), WEFT_FLOAT32);
}

/* The sum of the tokens' losses of each row (B), divided as the loss type says. `n` has the numbers
 * of tokens (B), at least 1. */
static weft_array *divided(weft_array *rows, weft_array *n, weft_array *mask,
                           const weft_objective_options *o)
{
    switch (divisor_of(o)) {
    case BY_COMPLETIONS:
        return weft_divide(rows, n);
    case BY_LENGTH:
        return weft_scale(rows, 1 / (double)o->max_completion_length);
    case BY_BATCH:
        return weft_divide(rows, weft_maximum_scalar(weft_sum(mask, WEFT_ALL_AXES, false), 1));
    case BY_TOKENS:
        break;
    }
    return rows;
}

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    if (o->beta != 0 && batch->ref == NULL)
        return weft_error_array("objective: beta %g needs the column ref of reference "
                                "log-probabilities (weft_dataset_add_reference)",
                                o->beta);
    weft_batch scaled = *batch;
    scaled.temperature = o->temperature;
    weft_array *entropies;
    weft_array *now = weft_negative(weft__token_losses_with(model, &scaled, batch->targets,
                                                            checkpoint, &entropies)); /* (B, L) */
    weft_device *there = weft_device_of(now);
    weft_array *mask = weft__target_weights(batch, now);                    /* (B, L) */
    weft_array *counts = weft_sum(mask, WEFT_DIMS(-1), false);              /* (B) */
    weft_array *n = weft_maximum_scalar(counts, 1);                         /* (B) */
    weft_array *A = weft_expand_dims(weft_to(batch->advantages, there), 1); /* (B, 1) */
    weft_array *old = batch->old ? weft_to(batch->old, there) : weft_stop_gradient(now);
    weft_array *rho = ratios(weft_multiply(weft_subtract(now, old), mask), mask, n, level_of(o));
    const double low = 1 - o->epsilon,
                 high = 1 + (o->epsilon_high > 0 ? o->epsilon_high : o->epsilon);
    weft_array *clipped = weft_minimum_scalar(weft_maximum_scalar(rho, low), high);
    weft_array *bounded = o->delta > 0 ? weft_minimum_scalar(rho, o->delta) : rho;
    weft_array *losses =
        weft_negative(weft_minimum(weft_multiply(bounded, A), weft_multiply(clipped, A)));
    weft_array *kl = weft_zeros_like(now);
    if (o->beta != 0) {
        weft_array *ref = weft_to(batch->ref, there);
        weft_array *d = weft_multiply(weft_subtract(ref, now), mask);
        const bool in_rewards = weft__policy_penalizes_rewards(o);
        kl = in_rewards ? weft_subtract(old, ref)
                        : weft_multiply(weft_subtract(weft_expm1(d), d), rho);
        if (!in_rewards)
            losses = weft_add(losses, weft_scale(kl, o->beta));
    }
    weft_array *sampled = batch->sampled ? weft_to(batch->sampled, there) : old;
    weft_array *zero = weft_scalar(0, WEFT_FLOAT32);
    weft_array *sums[SUMS] = {
        [TOKENS] = counts,
        [KL] = over_row(kl, mask),
        [ENTROPY] = over_row(entropies, mask),
        [MISMATCH] = over_row(weft_abs(weft_subtract(old, sampled)), mask),
        [RATIO] = of_row(rho, mask),
        [LOW] = of_row(flags(weft_less_scalar(bounded, low), weft_less(A, zero)), mask),
        [HIGH] = of_row(flags(weft_greater_scalar(bounded, high), weft_greater(A, zero)), mask),
    };
    *rewards = weft_stop_gradient(weft_stack(sums, SUMS, 1)); /* (B, SUMS) */
    return weft_sum(divided(over_row(losses, mask), n, mask, o), WEFT_ALL_AXES, false);
}

static double weight(const weft_batch *batch, const weft_objective_options *o)
{
    const divisor d = divisor_of(o);
    return d == BY_TOKENS  ? batch->n_targets
           : d == BY_BATCH ? 1
                           : (double)weft__batch_examples(batch);
}

/* ---- the report ----------------------------------------------------------------------------- */

weft_status weft__policy_add(weft_policy_report *r, const weft_batch *batch, weft_array *rows)
{
    const int64_t n = weft__batch_examples(batch);
    float *values = weft_calloc(SUMS * (size_t)n + 1, sizeof *values);
    if (values == NULL)
        return weft_fail(WEFT_MEMORY, "training: out of memory for the report of %lld completions",
                         (long long)n);
    const weft_status status = weft_read(rows, WEFT_FLOAT32, values, SUMS * n);
    double *const to[SUMS] = {
        [KL] = &r->kl,       [ENTROPY] = &r->entropy, [MISMATCH] = &r->mismatch,
        [RATIO] = &r->ratio, [LOW] = &r->clipped_low, [HIGH] = &r->clipped_high};
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        r->tokens += (int64_t)values[SUMS * i + TOKENS];
        for (int k = KL; k < SUMS; k++)
            *to[k] += (double)values[SUMS * i + k];
    }
    r->completions += status == WEFT_OK ? n : 0;
    weft_free(values);
    return status;
}

void weft__policy_finish(weft_policy_report *r, const weft_objective_options *o)
{
    const double tokens = r->tokens > 0 ? (double)r->tokens : 1,
                 units = level_of(o) == OF_TOKEN ? tokens : (double)r->completions;
    r->kl /= tokens;
    r->entropy /= tokens;
    r->mismatch /= tokens;
    r->ratio /= units;
    r->clipped_low /= units;
    r->clipped_high /= units;
}

/* ---- the objectives ------------------------------------------------------------------------- */

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, epsilon),
    WEFT_FIELD(DOUBLE, weft_objective_options, epsilon_high),
    WEFT_FIELD(DOUBLE, weft_objective_options, delta),
    WEFT_FIELD(DOUBLE, weft_objective_options, temperature),
    WEFT_FIELD(INT, weft_objective_options, num_generations),
    WEFT_FIELD(INT, weft_objective_options, num_iterations),
    WEFT_FIELD(INT, weft_objective_options, max_completion_length),
    WEFT_FIELD(INT, weft_objective_options, mask_truncated),
    WEFT_FIELD(POINTER, weft_objective_options, loss_type),
    WEFT_FIELD(POINTER, weft_objective_options, importance),
    WEFT_FIELD(POINTER, weft_objective_options, scale_rewards),
    WEFT_FIELDS_END,
};

/* An objective with these defaults, all of them, in the order of the columns of the table below. */
#define POLICY(id, text, high_share, low_share, group, kl_weight, masked, type, ratio_of, scale)   \
    const weft_objective weft_objective_##id = {                                                   \
        .name = #id,                                                                               \
        .summary = text ", from completions with rewards",                                         \
        .examples = WEFT_EXAMPLES_SCORED,                                                          \
        .columns = WEFT_COLUMN_ADVANTAGES,                                                         \
        .accepts = WEFT_COLUMN_OLD | WEFT_COLUMN_REF | WEFT_COLUMN_SAMPLED,                        \
        .fields = fields,                                                                          \
        .defaults = {.epsilon = low_share,                                                         \
                     .epsilon_high = high_share,                                                   \
                     .num_generations = group,                                                     \
                     .beta = kl_weight,                                                            \
                     .mask_truncated = masked,                                                     \
                     .loss_type = type,                                                            \
                     .importance = ratio_of,                                                       \
                     .scale_rewards = scale,                                                       \
                     .temperature = 1,                                                             \
                     .num_iterations = 1,                                                          \
                     .max_completion_length = 512},                                                \
        .weight = weight,                                                                          \
        .loss = loss,                                                                              \
    }

/*               epsilon_high, epsilon, group, beta, masked */
POLICY(grpo, "GRPO", 0, 0.2, 8, 0, 0, "dapo", "token", "group");
POLICY(dapo, "DAPO", 0.28, 0.2, 8, 0, 1, "dapo", "token", "group");
POLICY(dr_grpo, "Dr. GRPO", 0, 0.2, 8, 0, 0, "dr_grpo", "token", "none");
POLICY(gspo, "GSPO", 4e-4, 3e-4, 8, 0, 0, "grpo", "sequence", "group");
POLICY(rloo, "RLOO", 0, 0.2, 2, 0.05, 0, "grpo", "sum", WEFT__LEAVE_ONE_OUT);
