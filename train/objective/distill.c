/* train/objective/distill.c -- distillation: divergences between the model's distributions and a
 * teacher's. */
#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "generate/rows.h"
#include "train/objective/objective.h"
#include "weft/losses.h"
#include "weft/transforms.h"

/* The number of cells is a multiple of this, so that compiled updates have few shapes. */
enum { CELLS = 64 };

/* The logarithm of a probability that is left out of a sum, and the least mass of a class. */
#define OUT (-1e30)
#define LEAST_MASS 1e-7

weft_status weft__distill_check(const weft_objective_options *o)
{
    const struct {
        const char *name;
        double value;
        bool good;
        const char *expected;
    } numbers[] = {
        {"beta", o->beta, o->beta >= 0 && o->beta <= 1, "a number in [0, 1]"},
        {"lmbda", o->lmbda, o->lmbda >= 0 && o->lmbda <= 1, "a number in [0, 1]"},
        {"temperature", o->temperature, o->temperature > 0 && isfinite(o->temperature),
         "a positive number"},
        {"max_completion_length", (double)o->max_completion_length, o->max_completion_length >= 1,
         "at least 1"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!numbers[i].good)
            return weft_fail(WEFT_INVALID, "objective distill: %s: expected %s, got %g",
                             numbers[i].name, numbers[i].expected, numbers[i].value);
    }
    return o->teacher ? weft__rows_expect_logits(o->teacher, "teacher", false) : WEFT_OK;
}

/* ---- the loss ------------------------------------------------------------------------------- */

/* The divergences (1, n) of distributions of the model and the teacher, as logarithms (1, n, V). */
static weft_array *divergences(weft_array *s, weft_array *t, double beta)
{
    const weft_reduction each = WEFT_REDUCTION_NONE;
    if (beta == 0)
        return weft_loss_kl_div(s, t, -1, each);
    if (beta == 1)
        return weft_loss_kl_div(t, s, -1, each);
    weft_array *m = weft_logaddexp(weft_add_scalar(s, log1p(-beta)), weft_add_scalar(t, log(beta)));
    return weft_add(weft_scale(weft_loss_kl_div(m, t, -1, each), beta),
                    weft_scale(weft_loss_kl_div(m, s, -1, each), 1 - beta));
}

/* The logarithms of the distributions over the first V ids. */
static weft_array *log_probabilities(weft_array *logits, int64_t V)
{
    if (weft_dim(logits, -1) > V)
        logits = weft_slice_axis(logits, -1, 0, V);
    return weft_log_softmax(weft_astype(logits, WEFT_FLOAT32), -1);
}

/* The divergences (1, n) from the logits (1, n, V) and the teacher's hidden states (1, n, T). */
static weft_array *from_hidden(const weft__head_call *call, weft_array *logits, weft_array *hidden)
{
    weft_array *theirs = weft_astype(weft_model_head(call->teacher, hidden), WEFT_FLOAT32);
    theirs = weft_stop_gradient(weft_scale(theirs, 1 / call->temperature)); /* (1, n, V) */
    theirs = weft_to(theirs, weft_device_of(logits));
    const int64_t own = weft_dim(logits, -1), other = weft_dim(theirs, -1),
                  V = own < other ? own : other;
    return divergences(log_probabilities(logits, V), log_probabilities(theirs, V), call->beta);
}

/* KL(T | S) (1, n) from the teacher's most probable ids (1, n, S): of the distributions over these
 * and one class for all others. */
static weft_array *from_top(weft_array *logits, weft_array *ids, weft_array *t)
{
    const weft_reduction each = WEFT_REDUCTION_NONE;
    weft_array *all = log_probabilities(logits, weft_dim(logits, -1)); /* (1, n, V) */
    weft_array *s = weft_take_along_axis(all, ids, -1);                /* (1, n, S) */
    weft_array *out = weft_to(weft_full(weft_shape(ids), OUT, WEFT_FLOAT32), weft_device_of(all));
    weft_array *others = weft_put_along_axis(all, ids, out, -1);
    weft_array *rest = weft_logsumexp(others, WEFT_DIMS(-1), false); /* (1, n) */
    weft_array *mass =
        weft_add_scalar(weft_negative(weft_sum(weft_exp(t), WEFT_DIMS(-1), false)), 1); /* (1, n) */
    mass = weft_maximum_scalar(mass, LEAST_MASS);
    weft_array *of_rest = weft_multiply(mass, weft_subtract(weft_log(mass), rest));
    return weft_add(weft_loss_kl_div(s, t, -1, each), of_rest);
}

static weft_array *row_losses(const weft__head_call *call, weft_array *logits,
                              weft_array *const *in)
{
    weft_device *there = weft_device_of(logits);
    weft_array *losses = in[WEFT__HEAD_TEACHER]
                             ? from_hidden(call, logits, in[WEFT__HEAD_TEACHER])
                             : from_top(logits, weft_to(in[WEFT__HEAD_TOP], there),
                                        weft_to(in[WEFT__HEAD_TOP_LOGPROBS], there));
    weft_array *targets = weft_to(in[WEFT__HEAD_TARGETS], there);
    return weft_where(weft_greater_equal_scalar(targets, 0), losses, weft_zeros_like(losses));
}

static weft_array *loss(weft_model *model, const weft_batch *batch, const weft_objective_options *o,
                        bool checkpoint, weft_array **rewards)
{
    *rewards = NULL;
    if (batch->teacher == NULL && batch->top == NULL)
        return weft_error_array("objective distill: expected a teacher");
    const weft__head_call call = {.model = model,
                                  .temperature = o->temperature,
                                  .losses = row_losses,
                                  .teacher = o->teacher,
                                  .beta = o->beta};
    weft_array *losses = weft__cell_losses(&call, batch, checkpoint); /* (K) */
    if (batch->weights) {
        weft_device *there = weft_device_of(losses);
        weft_array *at = weft_maximum_scalar(weft_to(batch->cells, there), 0);
        losses = weft_multiply(losses, weft_take_flat(weft_to(batch->weights, there), at));
    }
    return weft_sum(losses, WEFT_ALL_AXES, false);
}

/* ---- the teacher ---------------------------------------------------------------------------- */

/* Lists the flat indices of the targets (B, L), followed by -1. */
static weft_status find_cells(weft_array *targets, weft_array **out)
{
    const int64_t n = weft_size(targets);
    int32_t *ids = weft_calloc(2 * (size_t)n + CELLS, sizeof *ids), *cells = ids ? ids + n : NULL;
    if (ids == NULL)
        return weft__out_of_memory("training", "the targets of a batch");
    const weft_status status = weft_read(targets, WEFT_INT32, ids, n);
    int64_t found = 0;
    for (int64_t i = 0; status == WEFT_OK && i < n; i++) {
        if (ids[i] >= 0)
            cells[found++] = (int32_t)i;
    }
    const int64_t K = (found / CELLS + (found % CELLS > 0 || found == 0)) * CELLS;
    for (int64_t i = found; i < K; i++)
        cells[i] = -1;
    *out = weft_from_data(cells, WEFT_INT32, WEFT_DIMS(K));
    weft_free(ids);
    return status;
}

/* Evaluates the columns, all of which stay readable: those of a micro-batch are slices. */
static weft_status evaluate_columns(const weft_batch *batch)
{
    weft_array *columns[WEFT__COLUMNS];
    int n = 0;
    for (int c = 0; c < WEFT__COLUMNS; c++) {
        weft_array *column = *weft__batch_slot(batch, c);
        if (column)
            columns[n++] = column;
    }
    return weft_eval_n(columns, n);
}

weft_status weft__teacher_fill(const weft_objective *objective, const weft_objective_options *o,
                               weft_batch *batch)
{
    if (objective != &weft_objective_distill || batch->cells)
        return WEFT_OK;
    const weft_model_call call = {.positions = batch->positions, .first = batch->first};
    weft_array *tokens = batch->tokens, *cells = NULL;
    if (batch->teacher_tokens && batch->first)
        return weft_fail(WEFT_UNSUPPORTED, "objective distill: packed rows are unsupported for a "
                                           "teacher with samples of its own");
    weft_status status = evaluate_columns(batch);
    if (status == WEFT_OK)
        status = find_cells(batch->targets, &batch->cells);
    if (status != WEFT_OK || o->teacher == NULL)
        return status;
    cells = batch->cells;
    if (batch->teacher_tokens) {
        tokens = batch->teacher_tokens;
        status = find_cells(batch->teacher_targets, &cells);
        batch->teacher_tokens = batch->teacher_targets = NULL;
    }
    if (status == WEFT_OK && weft_dim(cells, 0) != weft_dim(batch->cells, 0))
        status = weft_fail(WEFT_INVALID, "objective distill: batch: expected as many "
                                         "teacher_targets as targets");
    if (status != WEFT_OK)
        return status;
    weft_array *hidden = weft_model_hidden(o->teacher, tokens, &call); /* (B, L, T) */
    weft_array *at = weft_maximum_scalar(weft_to(cells, weft_device_of(hidden)), 0);
    batch->teacher = weft_take(weft_flatten(hidden, 0, 1), at, 0); /* (K, T) */
    return evaluate_columns(batch);
}

/* ---- the objective -------------------------------------------------------------------------- */

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_objective_options, beta),
    WEFT_FIELD(DOUBLE, weft_objective_options, lmbda),
    WEFT_FIELD(DOUBLE, weft_objective_options, temperature),
    WEFT_FIELD(INT, weft_objective_options, max_completion_length),
    WEFT_FIELDS_END,
};

const weft_objective weft_objective_distill = {
    .name = "distill",
    .summary = "distillation, from a teacher's distributions",
    .accepts = WEFT_COLUMN_TEACHER_TOKENS | WEFT_COLUMN_TEACHER_TARGETS | WEFT_COLUMN_TOP |
               WEFT_COLUMN_TOP_LOGPROBS,
    .fields = fields,
    .defaults = {.beta = 0.5, .temperature = 0.9, .max_completion_length = 512},
    .weight = weft__target_weight,
    .loss = loss,
};
