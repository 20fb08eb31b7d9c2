/* train/objective/objective.h -- what the files of objectives share. */
#ifndef WEFT_TRAIN_OBJECTIVE_H
#define WEFT_TRAIN_OBJECTIVE_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/op.h"
#include "weft/train.h"

/* train/loss.c: the negative log-likelihoods of targets (B, L), 0 where they are negative: float32
 * (B, L). */
weft_array *weft__token_losses(weft_model *model, const weft_batch *batch, weft_array *targets,
                               bool checkpoint);

/* The weight of each target of a batch, 0 without a target: float32 (B, L), on the device of
 * `like`. */
weft_array *weft__target_weights(const weft_batch *batch, const weft_array *like);

/* The sums over each row of its targets' log-probabilities times their weights: float32 (B). */
weft_array *weft__row_log_probabilities(weft_model *model, const weft_batch *batch,
                                        bool checkpoint);

/* The weighted means over each row of its targets' log-probabilities, from the losses (B, L) of
 * weft__token_losses: float32 (B). */
weft_array *weft__row_means(const weft_batch *batch, weft_array *losses);

/* Chosen less rejected rows of values (B) of a batch of pairs: (pairs). */
weft_array *weft__pair_difference(const weft_batch *batch, weft_array *values);

/* The weight of a batch of pairs: how many. */
double weft__pair_weight(const weft_batch *batch);

/* ---- the run's objective -------------------------------------------------------------------- */

/* Fills in the defaults of the options; WEFT_INVALID, with the name, for one that the objective
 * does not take or whose value makes no sense. */
weft_status weft__objective_complete(const weft_objective *objective,
                                     weft_objective_options *options);

/* train/data/batches.c: the dataset of batches; NULL: they are a file's. */
const weft_dataset *weft__batches_dataset(const weft_batches *batches);

/* WEFT_INVALID if a dataset (NULL: batches of a file) lacks what the objective needs. */
weft_status weft__objective_check_data(const weft_objective *objective, const weft_dataset *data);

/* The same for a batch. */
weft_status weft__objective_check_batch(const weft_objective *objective, const weft_batch *batch);

/* The objective of a run and its options, as members of a JSON object, each followed by a comma. */
void weft__objective_write(weft__text *t, const weft_objective *objective,
                           const weft_objective_options *options);

/* WEFT_INVALID, naming what differs, when the members of a JSON object are of another objective;
 * one without them is of supervised training. */
weft_status weft__objective_check_same(const weft__json *object, const weft_objective *objective,
                                       const weft_objective_options *options);

/* Adds the rewards (B) of a batch to a report, whose means are sums until
 * weft__rewards_finish. */
weft_status weft__rewards_add(weft_reward_report *report, const weft_batch *batch,
                              weft_array *rewards);
void weft__rewards_finish(weft_reward_report *report);

/* weft_evaluate with an objective that is not the supervised one and a batch size, in a model that
 * is not training; the loss may be NaN. */
weft_status weft__objective_evaluate(weft_model *model, const weft_dataset *dataset,
                                     const weft_evaluate_options *o, weft_evaluation *out);

#endif
