/* train/loss.c -- next-token loss, and evaluation over a dataset. */
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/failure.h"
#include "nn/module.h"
#include "ops/nn/linear_cross_entropy.h"
#include "train/data/dataset.h"
#include "train/head.h"
#include "train/objective/objective.h"
#include "train/parallel/group.h"
#include "weft/transforms.h"

/* Indices, on the device of x, with 0 in place of -1. */
static weft_array *places_of(weft_array *indices, const weft_array *x)
{
    return weft_maximum_scalar(weft_to(indices, weft_device_of(x)), 0);
}

/* The elements of x with the flat indices `places`; `other` where an index is -1. */
static weft_array *rearranged(weft_array *x, weft_array *places, double other)
{
    weft_array *there = weft_to(places, weft_device_of(x));
    weft_array *found = weft_take_flat(x, places_of(places, x));
    return weft_where(weft_greater_equal_scalar(there, 0), found,
                      weft_scalar(other, weft_dtype_of(x)));
}

/* Keys of the head's dropout for the tokens (B, L) of a batch: (B L, 2). A key depends only on the
 * random generator, the row's index in the complete batch and the column, so micro-batches use the
 * same keys. */
static weft_array *token_keys(weft_model *model, const weft_array *tokens)
{
    const weft_dims shape = weft_shape(tokens);
    const weft_dims all = WEFT_DIMS(shape.at[0], shape.at[1], 2);
    weft_array *columns = weft_arange_int(0, shape.at[1], 1, WEFT_UINT32); /* (L) */
    weft_array *const words[] = {columns, weft_zeros_like(columns)};
    weft_array *rows = weft__nn_root(weft_model_module(model))->row_keys; /* (B, 2) */
    if (rows == NULL) {
        weft_array *numbers = weft_arange_int(0, shape.at[0], 1, WEFT_UINT32);
        weft_array *const both[] = {weft_zeros_like(numbers), numbers};
        rows = weft_stack(both, 2, 1);
    }
    weft_array *keys = weft_add(weft_expand_dims(rows, 1), weft_stack(words, 2, 1));
    keys = weft_add(weft_broadcast_to(keys, all), weft_random_next_key());
    return weft_reshape(keys, WEFT_DIMS(shape.at[0] * shape.at[1], 2));
}

weft_array *weft__batch_lengths(const weft_batch *batch)
{
    const int64_t L = weft_dim(batch->tokens, 1);
    weft_array *last = weft_greater_equal_scalar(batch->targets, 0); /* (B, L) */
    weft_array *numbers = weft_arange_int(1, L + 1, 1, WEFT_INT32);
    weft_array *ends = weft_where(last, numbers, weft_scalar(0, WEFT_INT32));
    return weft_astype(weft_max(ends, WEFT_DIMS(1), false), WEFT_INT32); /* (B) */
}

/* Tokens of encoders see those after them, but not the padding; NULL: rows are packed, or the model
 * is another one. */
static weft_array *lengths_of(weft_model *model, const weft_batch *batch)
{
    return weft_model_info_of(model)->encoder && batch->first == NULL ? weft__batch_lengths(batch)
                                                                      : NULL;
}

/* The hidden states (B L, E) of the tokens that the model reads. */
static weft_array *hidden_states(weft_model *model, const weft_batch *batch, weft_array *tokens,
                                 bool checkpoint)
{
    const bool shared = weft__batch_shares(batch);
    const weft_model_call call = {
        .positions = batch->positions,
        .first = batch->first,
        .pack = shared ? batch->pack : NULL,
        .unpack = shared ? batch->unpack : NULL,
        .lengths = lengths_of(model, batch),
        .checkpoint = checkpoint,
        .embedding_noise = batch->embedding_noise,
    };
    return weft_flatten(weft_model_hidden(model, tokens, &call), 0, 1);
}

/* The rows of a column (B, L, S) at the cells. */
static weft_array *at_cells(weft_array *column, weft_array *at)
{
    return weft_take(weft_flatten(weft_to(column, weft_device_of(at)), 0, 1), at, 0);
}

weft_array *weft__cell_losses(const weft__head_call *call, const weft_batch *batch, bool checkpoint)
{
    weft_array *hidden = hidden_states(call->model, batch, batch->tokens, checkpoint),
               *cells = weft_to(batch->cells, weft_device_of(hidden)), /* (K) */
                   *at = weft_maximum_scalar(cells, 0), *out[2];
    weft_array *in[WEFT__HEAD_INPUTS] = {[WEFT__HEAD_HIDDEN] = weft_take(hidden, at, 0),
                                         [WEFT__HEAD_TARGETS] = cells,
                                         [WEFT__HEAD_TEACHER] = batch->teacher};
    if (batch->teacher == NULL) {
        in[WEFT__HEAD_TOP] = at_cells(batch->top, at);
        in[WEFT__HEAD_TOP_LOGPROBS] = at_cells(batch->top_logprobs, at);
    }
    if (weft_model_module(call->model)->training)
        in[WEFT__HEAD_KEYS] =
            weft_take(weft_to(token_keys(call->model, batch->tokens), weft_device_of(at)), at, 0);
    weft__head_losses(call, in, out);
    return out[0];
}

/* The negative log-likelihoods of targets (B, L) in the rows that the model reads: float32 (B L),
 * or (R C) if the rows are packed and share no tokens, which have a target in each sample; and the
 * entropies of their distributions, unless NULL. */
static weft_array *token_losses(weft_model *model, const weft_batch *batch, weft_array *targets,
                                bool checkpoint, weft_array **entropies)
{
    weft_array *tokens = batch->tokens, *read = tokens;
    const bool shared = weft__batch_shares(batch);
    if (batch->pack)
        read = rearranged(tokens, batch->pack, 0); /* (R, C) */
    if (batch->pack && !shared) {
        tokens = read;
        targets = rearranged(targets, batch->pack, -1); /* (R, C) */
    }
    weft_array *x = hidden_states(model, batch, read, checkpoint); /* (B L, E) or (R C, E) */
    if (shared)
        x = weft_take(x, weft_flatten(places_of(batch->unpack, x), 0, 1), 0); /* (B L, E) */
    weft_array *weight = weft_model_head_weight(model);                       /* (V, E) */
    weft_array *next = weft_flatten(targets, 0, 1), *out[2];
    const weft__head_call h = {.model = model,
                               .temperature = batch->temperature > 0 ? batch->temperature : 1,
                               .with_entropy = entropies != NULL};
    if (weight) {
        weft_device *there = weft_device_of(weight);
        const double softcap = weft_model_info_of(model)->softcap;
        out[0] = weft__linear_cross_entropy(weft_to(x, there), weight, weft_to(next, there),
                                            softcap, h.temperature, entropies ? &out[1] : NULL);
    } else {
        const bool training = weft_model_module(model)->training;
        weft__head_losses(&h,
                          (weft_array *[WEFT__HEAD_INPUTS]){
                              [WEFT__HEAD_HIDDEN] = x,
                              [WEFT__HEAD_TARGETS] = next,
                              [WEFT__HEAD_KEYS] = training ? token_keys(model, tokens) : NULL},
                          out);
    }
    if (entropies)
        *entropies = weft_stop_gradient(weft_astype(out[1], WEFT_FLOAT32));
    return weft_astype(out[0], WEFT_FLOAT32);
}

/* The values of the rows that the model reads as (B, L). */
static weft_array *unpacked(const weft_batch *batch, weft_array *values, const weft_array *targets)
{
    return batch->unpack && !weft__batch_shares(batch) ? rearranged(values, batch->unpack, 0)
                                                       : weft_reshape(values, weft_shape(targets));
}

weft_array *weft__token_losses_with(weft_model *model, const weft_batch *batch, weft_array *targets,
                                    bool checkpoint, weft_array **entropies)
{
    weft_array *losses = token_losses(model, batch, targets, checkpoint, entropies);
    if (entropies)
        *entropies = unpacked(batch, *entropies, targets);
    return unpacked(batch, losses, targets);
}

weft_array *weft__token_losses(weft_model *model, const weft_batch *batch, weft_array *targets,
                               bool checkpoint)
{
    return weft__token_losses_with(model, batch, targets, checkpoint, NULL);
}

weft_array *weft_next_token_loss(weft_model *model, const weft_batch *batch, double scale,
                                 bool checkpoint)
{
    weft_scope_open();
    weft_array *losses = weft__token_losses(model, batch, batch->targets, checkpoint); /* (B, L) */
    if (batch->weights)
        losses = weft_multiply(losses, weft_to(batch->weights, weft_device_of(losses)));
    weft_array *sum = weft_sum(losses, WEFT_ALL_AXES, false);
    return weft_scope_close(weft_scale(sum, scale));
}

/* ---- evaluation ----------------------------------------------------------------------------- */

enum { DEFAULT_BATCH = 8 };

/* Longest first: batches need little padding, and evaluation runs out of memory at once or never.
 */
static int compare_lengths(const void *a, const void *b)
{
    const weft_sample *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? 1 : -1;
    return x->ids < y->ids ? -1 : x->ids > y->ids;
}

/* Sums over samples i of their losses s_i and weights w_i. */
typedef struct loss_sums {
    double s, w, ss, sw, ww;
    int64_t samples, correct; /* correct: only for classifiers */
} loss_sums;

/* The standard error of the ratio S / W of sums over n samples drawn at random:
 * sqrt(n / (n - 1) sum_i (s_i - S / W w_i)^2) / W. */
static double standard_error(const loss_sums *t)
{
    const double n = (double)t->samples, loss = t->s / t->w;
    const double squares = t->ss - 2 * loss * t->sw + loss * loss * t->ww;
    return t->samples > 1 ? sqrt(n / (n - 1) * fmax(squares, 0)) / t->w : 0;
}

static double sample_weight(const weft_sample *s)
{
    double sum = 0;
    for (int64_t i = 1; i < s->length; i++)
        sum += s->weights ? (double)s->weights[i] : 1;
    return sum;
}

static void add_loss(loss_sums *t, double s, double w)
{
    t->s += s;
    t->w += w;
    t->ss += s * s;
    t->sw += s * w;
    t->ww += w * w;
    t->samples++;
}

/* For classifiers: adds to *correct the number of samples whose most probable label is right. `x`
 * has the hidden states (B, L, E) of the batch. */
static weft_status count_correct(weft_model *model, const weft_sample *samples, int n,
                                 weft_array *x, int64_t *correct)
{
    int32_t *at = weft_malloc(2 * (size_t)n * sizeof *at);
    if (at == NULL)
        return weft__out_of_memory("evaluation", "labels");
    for (int i = 0; i < n; i++)
        at[i] = (int32_t)(i * weft_dim(x, 1) + samples[i].length - 2);
    weft_array *last = weft_from_data(at, WEFT_INT32, WEFT_DIMS(n));
    x = weft_take(weft_flatten(x, 0, 1), weft_to(last, weft_device_of(x)), 0); /* (B, E) */
    weft_array *logits = weft_model_head(model, weft_expand_dims(x, 0));       /* (1, B, labels) */
    weft_array *found = weft_squeeze(weft_argmax(logits, -1, false), 0);       /* (B) */
    found = weft_astype(found, WEFT_INT32);
    const weft_status status = weft_read(found, WEFT_INT32, at, n);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        *correct += at[i] == samples[i].ids[samples[i].length - 1];
    weft_free(at);
    return status;
}

/* Counts correct labels of a batch. For classifiers it computes the hidden states a second time. */
static weft_status batch_labels(weft_model *model, const weft_batch *batch,
                                const weft_sample *samples, int n, int64_t *correct)
{
    const weft_model_call call = {
        .positions = batch->positions, .first = batch->first, .lengths = lengths_of(model, batch)};
    if (weft_model_info_of(model)->n_labels == 0)
        return WEFT_OK;
    return count_correct(model, samples, n, weft_model_hidden(model, batch->tokens, &call),
                         correct);
}

/* Adds the losses of a batch of n samples to the sums. `room` (n) is scratch space. */
static weft_status batch_loss(weft_model *model, const weft_sample *samples, int n, float *room,
                              loss_sums *sums)
{
    weft_batch batch;
    weft_status status = weft_batch_of_samples(samples, n, &batch);
    if (status != WEFT_OK)
        return status;
    weft_scope_open_lean();
    weft_array *rows = weft__row_log_probabilities(model, &batch, false); /* (B) */
    status = weft_read(rows, WEFT_FLOAT32, room, n);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        add_loss(sums, -(double)room[i], sample_weight(&samples[i]));
    if (status == WEFT_OK)
        status = batch_labels(model, &batch, samples, n, &sums->correct);
    weft_scope_close(NULL);
    weft_batch_free(&batch);
    return status;
}

/* Adds up the sums and targets of all ranks. *stop becomes true if any rank stops. */
static weft_status add_ranks(weft_group *group, weft_status status, bool *stop, loss_sums *t,
                             int64_t *targets)
{
    double values[WEFT__EXCHANGED] = {
        t->s, t->w, t->ss, t->sw, t->ww, (double)t->samples, (double)*targets, (double)t->correct};
    status = weft__group_exchange(group, status, stop, values, NULL);
    *t = (loss_sums){values[0], values[1],          values[2],         values[3],
                     values[4], (int64_t)values[5], (int64_t)values[7]};
    *targets = (int64_t)values[6];
    return status;
}

static weft_status evaluate(weft_model *model, const weft_sample *samples, int64_t n,
                            const weft_evaluate_options *o, int64_t total, weft_evaluation *out)
{
    const int64_t B = o->batch_size < n ? o->batch_size : n;
    const weft_group_info place = weft_group_info_of(o->group);
    loss_sums sums = {0};
    bool stop = false;
    float *room = weft_calloc((size_t)B, sizeof *room);
    weft_status status = WEFT_OK;
    if (room == NULL)
        status = weft_fail(WEFT_MEMORY, "evaluation: out of memory for the losses of a batch");
    for (int64_t i = B * place.rank; status == WEFT_OK && !stop && i < n; i += B * place.size) {
        const int rows = (int)(n - i < B ? n - i : B);
        status = batch_loss(model, samples + i, rows, room, &sums);
        for (int k = 0; status == WEFT_OK && k < rows; k++)
            out->targets += weft__sample_targets(&samples[i + k]);
        stop = status == WEFT_OK && o->callback && !o->callback(o->context, out->targets, total);
    }
    weft_free(room);
    status = add_ranks(o->group, status, &stop, &sums, &out->targets);
    if (status == WEFT_OK && stop)
        status = weft_fail(WEFT_CANCELLED, "evaluation: stopped after %lld of %lld targets",
                           (long long)out->targets, (long long)total);
    if (sums.w > 0) {
        out->loss = sums.s / sums.w;
        out->standard_error = standard_error(&sums);
    }
    if (sums.samples > 0 && weft_model_info_of(model)->n_labels > 0)
        out->accuracy = (double)sums.correct / (double)sums.samples;
    return status;
}

/* The samples to evaluate, longest first. *total is their number of targets. */
static weft_sample *chosen_samples(const weft_dataset *dataset, int64_t n, int64_t *total)
{
    weft_sample *samples = weft_calloc((size_t)n, sizeof *samples);
    if (samples == NULL) {
        weft_fail(WEFT_MEMORY, "evaluation: out of memory for a list of %lld samples",
                  (long long)n);
        return NULL;
    }
    *total = 0;
    for (int64_t i = 0; i < n; i++) {
        samples[i] = weft_dataset_at(dataset, i);
        *total += weft__sample_targets(&samples[i]);
    }
    qsort(samples, (size_t)n, sizeof *samples, compare_lengths);
    return samples;
}

/* Evaluates the supervised objective. */
static weft_status evaluate_tokens(weft_model *model, const weft_dataset *dataset,
                                   const weft_evaluate_options *o, weft_evaluation *out)
{
    int64_t n = weft_dataset_info_of(dataset).samples, total;
    if (o->max_samples > 0 && o->max_samples < n)
        n = o->max_samples;
    if (n == 0)
        return weft_fail(WEFT_INVALID, "evaluation: the dataset has no samples");
    weft_status status = weft_model_info_of(model)->n_labels > 0
                             ? weft__dataset_check_ids(dataset, weft_model_info_of(model))
                             : WEFT_OK;
    if (status != WEFT_OK)
        return status;
    weft_sample *samples = chosen_samples(dataset, n, &total);
    if (samples == NULL)
        return WEFT_MEMORY;
    status = evaluate(model, samples, n, o, total, out);
    weft_free(samples);
    out->perplexity = exp(out->loss);
    return status;
}

weft_status weft_evaluate(weft_model *model, const weft_dataset *dataset,
                          const weft_evaluate_options *options, weft_evaluation *out)
{
    weft_evaluate_options o = options ? *options : (weft_evaluate_options){0};
    const double began = weft__seconds();
    const bool other = o.objective && o.objective != &weft_objective_supervised;
    *out = (weft_evaluation){.accuracy = (double)NAN};
    if (o.batch_size <= 0)
        o.batch_size = DEFAULT_BATCH;
    weft_module *module = weft_model_module(model);
    const bool training = module->training;
    weft_nn_train(module, false);
    const weft_status status = other ? weft__objective_evaluate(model, dataset, &o, out)
                                     : evaluate_tokens(model, dataset, &o, out);
    weft_nn_train(module, training);
    out->seconds = weft__seconds() - began;
    return status != WEFT_OK || isfinite(out->loss)
               ? status
               : weft_fail(WEFT_INVALID,
                           "evaluation: the loss is %s: the model's weights are damaged, or the "
                           "computation overflows in its dtype (try float32)",
                           isnan(out->loss) ? "NaN" : "infinite");
}
