/* train/objective/objective.h -- internal interface of the objectives. */
#ifndef WEFT_TRAIN_OBJECTIVE_H
#define WEFT_TRAIN_OBJECTIVE_H

#include "core/io/json.h"
#include "core/io/text.h"
#include "train/columns.h"
#include "train/head.h"
#include "weft/op.h"

/* The scale_rewards of RLOO. */
#define WEFT__LEAVE_ONE_OUT "leave-one-out"

/* train/loss.c: the number of tokens of each row of a batch that is not packed: those up to the
 * last target: int32 (B). */
weft_array *weft__batch_lengths(const weft_batch *batch);

/* train/loss.c: the negative log-likelihoods of targets (B, L): float32 (B, L). 0 where a target is
 * negative. The second function also gives the entropy of each distribution, without a gradient, if
 * `entropies` is not NULL. */
weft_array *weft__token_losses(weft_model *model, const weft_batch *batch, weft_array *targets,
                               bool checkpoint);
weft_array *weft__token_losses_with(weft_model *model, const weft_batch *batch, weft_array *targets,
                                    bool checkpoint, weft_array **entropies);

/* The losses (K) of the tokens in a batch's `cells`, as a call of the head computes them. */
weft_array *weft__cell_losses(const weft__head_call *call, const weft_batch *batch,
                              bool checkpoint);

/* train/objective/distill.c: sets the columns that the loss of distillation reads, with what the
 * teacher computes of the batch, as arrays of the current scope. Does nothing for other objectives.
 */
weft_status weft__teacher_fill(const weft_objective *objective,
                               const weft_objective_options *options, weft_batch *batch);
/* WEFT_INVALID, naming the option, if one of distillation is invalid. Defaults are filled in. */
weft_status weft__distill_check(const weft_objective_options *options);

/* The weight of a batch: the sum of its targets' weights. */
double weft__target_weight(const weft_batch *batch, const weft_objective_options *options);

/* The weight of each target of a batch, 0 without a target: float32 (B, L) on the device of `like`.
 */
weft_array *weft__target_weights(const weft_batch *batch, const weft_array *like);

/* The sum of weighted log-probabilities of the targets in each row: float32 (B). */
weft_array *weft__row_log_probabilities(weft_model *model, const weft_batch *batch,
                                        bool checkpoint);

/* The weighted mean log-probability of the targets in each row, from the losses (B, L) of
 * weft__token_losses: float32 (B). */
weft_array *weft__row_means(const weft_batch *batch, weft_array *losses);

/* The values (B) of chosen rows minus those of rejected rows, for a batch of pairs: (pairs). */
weft_array *weft__pair_difference(const weft_batch *batch, weft_array *values);

/* The vectors (B, D) float32 of the rows of a batch of texts. */
weft_array *weft__text_vectors(weft_model *model, const weft_batch *batch,
                               const weft_objective_options *options, bool checkpoint);

/* The mean loss of a batch from its vectors, for an objective with `compare`. */
weft_array *weft__objective_compare(const weft_objective *objective, weft_array *vectors,
                                    const weft_batch *batch, const weft_objective_options *options);

/* The summed loss of a batch, for any objective; *rewards may become NULL. */
weft_array *weft__objective_loss(const weft_objective *objective, weft_model *model,
                                 const weft_batch *batch, const weft_objective_options *options,
                                 bool checkpoint, weft_array **rewards);

/* The weight of a batch of pairs or texts: its number of examples. */
double weft__pair_weight(const weft_batch *batch, const weft_objective_options *options);

/* ---- the run's objective -------------------------------------------------------------------- */

/* Sets the defaults of the options. WEFT_INVALID, naming the option, if the objective does not have
 * it or its value is invalid. */
weft_status weft__objective_complete(const weft_objective *objective,
                                     weft_objective_options *options);

/* Whether a batch cannot be split into micro-batches. */
bool weft__objective_needs_whole(const weft_objective *objective,
                                 const weft_objective_options *options);

/* train/objective/policy.c: WEFT_INVALID, naming the option, if one of an objective with rewards is
 * invalid. Defaults are filled in. */
weft_status weft__policy_check(const weft_objective *objective,
                               const weft_objective_options *options);
/* Whether the penalty is part of the rewards. */
bool weft__policy_penalizes_rewards(const weft_objective_options *options);
/* Whether the loss is a mean over batches. */
bool weft__policy_needs_whole(const weft_objective_options *options);
/* Adds what the loss computed of a batch's rows, its `rewards`, to a report of sums. */
weft_status weft__policy_add(weft_policy_report *report, const weft_batch *batch, weft_array *rows);
/* Turns the sums into means. */
void weft__policy_finish(weft_policy_report *report, const weft_objective_options *options);

/* train/data/batches.c: the dataset of the batches; NULL if they come from a file. */
const weft_dataset *weft__batches_dataset(const weft_batches *batches);
/* The examples of batch i of a dataset, valid until the next call, and its number of rows. */
weft_status weft__batches_examples(weft_batches *batches, int64_t i, const int64_t **examples,
                                   int *rows);
bool weft__batches_packed(const weft_batches *batches); /* rows have several samples */
/* Of scored completions: the first example of batch i. */
int64_t weft__batches_first(const weft_batches *batches, int64_t i);
/* The same as weft__dataset_check_ids, of the batches. */
weft_status weft__batches_check_ids(const weft_batches *batches, const weft_model_info *info);
/* WEFT_UNSUPPORTED if the model cannot be trained with the objective: encoders make vectors, which
 * can only be compared, and classifiers logits of labels. */
weft_status weft__objective_check_model(const weft_objective *objective, const weft_model *model);

/* WEFT_INVALID, naming objective and column, if a dataset or batch has other examples than the
 * objective's, lacks a column that the objective requires, or has one that it does not accept, or
 * if a column of a batch has another dtype or shape. NULL stands for batches from a file. */
weft_status weft__objective_check_data(const weft_objective *objective, const weft_dataset *data);
weft_status weft__objective_check_batch(const weft_objective *objective, const weft_batch *batch);

/* Writes the objective and its options as members of a JSON object, each followed by a comma. */
void weft__objective_write(weft__text *t, const weft_objective *objective,
                           const weft_objective_options *options);

/* WEFT_INVALID, naming the difference, if the members of a JSON object describe another objective
 * or other options. An object without these members stands for supervised training. */
weft_status weft__objective_check_same(const weft__json *object, const weft_objective *objective,
                                       const weft_objective_options *options);

/* Adds the rewards (B) of a batch to a report. The report has sums instead of means until
 * weft__rewards_finish. */
weft_status weft__rewards_add(weft_reward_report *report, const weft_batch *batch,
                              weft_array *rewards);
void weft__rewards_finish(weft_reward_report *report, const weft_objective_options *options);

/* weft_evaluate for an objective other than the supervised one, with a batch size and a model that
 * is not in training mode. The loss may be NaN. */
weft_status weft__objective_evaluate(weft_model *model, const weft_dataset *dataset,
                                     const weft_evaluate_options *o, weft_evaluation *out);

#endif
