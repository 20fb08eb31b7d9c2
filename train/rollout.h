/* train/rollout.h -- the completions of an update of an objective with rewards. */
#ifndef WEFT_TRAIN_ROLLOUT_H
#define WEFT_TRAIN_ROLLOUT_H

#include "train/run/journal.h"
#include "train/trainer.h"

/* The number of consecutive updates on the same batches: 1 for objectives without rewards. */
int64_t weft__rollout_iterations(const weft_trainer *trainer);

/* Checks the options for sampling against the batches. */
weft_status weft__rollout_check(const weft_trainer *trainer, const weft_batches *batches);

/* Whether the update whose first batch, of all ranks, has number `update` uses sampled completions.
 */
bool weft__rollout_samples(const weft_trainer *trainer, int64_t update);

/* Samples the completions of this rank's n batches of prompts, from number `from` on, as a dataset
 * in *out, or reads them from the journal, which gets those that it lacks. Batch b has its
 * completions first[b] .. first[b + 1]. The update's first batch of all ranks has number `update`.
 * The journal is rank 0's: NULL on the others, or without one. A failure to sample may be this
 * rank's alone. */
weft_status weft__rollout_sample(weft_trainer *trainer, weft_batches *batches, int64_t update,
                                 int64_t from, int n, weft__journal *journal, int64_t *first,
                                 weft_dataset **out);

/* Checks that each sample has a prompt, whose completion distillation can sample. */
weft_status weft__rollout_check_prompts(const weft_dataset *samples);

/* Frees the texts of the trainer's samples. */
void weft__rollout_free_samples(weft_trainer *trainer);

/* Samples a completion of each of the first `most` prompts (0: all) with the most probable tokens,
 * and has them rewarded: each rank its share. *out is the mean of their weighted sums; NaN: none
 * has a reward. WEFT_CANCELLED on all ranks if one is. */
weft_status weft__rollout_validate(weft_trainer *trainer, const weft_dataset *prompts, int64_t most,
                                   double *out);

/* The text of a completion. Characters U+0000 are replaced by U+FFFD, so that the text ends where
 * the completion does. The caller frees it. */
weft_status weft__completion_text(const weft_tokenizer *tokenizer, const int32_t *ids, size_t n,
                                  unsigned flags, char **out);

/* Keeps the trained parameters as the reference policy of sampled completions, if it is needed. */
weft_status weft__rollout_keep_reference(weft_trainer *trainer);

/* Prepares this rank's n batches of completions for their first update: sets the columns `old`, if
 * the updates or the rewards need it, `ref` of sampled completions, and `advantages`. `first` has
 * the first example of each batch in the dataset. *report gets what is known of the rewards and
 * completions of all ranks. */
weft_status weft__rollout_prepare(weft_trainer *trainer, const weft_dataset *dataset,
                                  weft_batch *batches, const int64_t *first, int n,
                                  weft_policy_report *report);

#endif
