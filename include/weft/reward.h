/* weft/reward.h -- sampling and rewarding completions in training (weft_objective_grpo). */
#ifndef WEFT_REWARD_H
#define WEFT_REWARD_H

#include "weft/cancel.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A sampled completion that is to be rewarded. Everything is borrowed. */
typedef struct weft_completion {
    const char *where;          /* "file:line" of the prompt's row */
    const char *prompt;         /* as the model read it */
    const char *text;           /* without special tokens and what ended it */
    const char *row;            /* the prompt's row, a JSON object */
    const char *const *answers; /* (n_answers): of the row */
    int n_answers;
    int64_t tokens;
    bool truncated; /* cut off at the largest length */
} weft_completion;

/* Computes the rewards (n, n_rewards) of n completions; NaN: none. In training they are those of a
 * batch, in validation those of all prompts; the ranks of a group call it for their own batches and
 * for their share of the prompts. It may be called again for the same completions when a run is
 * resumed. A failure ends the run; so does WEFT_CANCELLED, after
 * `cancel` (may be NULL) was set. */
typedef weft_status weft_reward_fn(void *context, const weft_completion *completions, size_t n,
                                   const weft_cancel *cancel, double *rewards);

/* Rewards by their descriptions:
 *   exact[:PART]         1 if the part of the completion equals that of one of the row's answers,
 *                        else 0; null without an answer. PART: `text` (the default) everything, in
 *                        lower case, with single spaces and no period at the end; `number` the last
 *                        number, by value; `boxed` the contents of the last \\boxed{}; <TAG> what
 *                        is in the last <TAG>...</TAG>. The last two are taken of a completion, and
 *                        of an answer that has them; both are then compared as text
 *   pattern:REGEX        1 if the regular expression (PCRE2) matches somewhere, else 0; ^ and
 *                        $ are the ends of the completion
 *   json-schema:FILE     1 if the completion is JSON that conforms to the schema, else 0; its
 *                        keywords are those of weft_constraint_new
 *   length:SOFT,HARD     0 up to SOFT tokens, falling to -1 at HARD and beyond (DAPO's soft
 *                        overlong punishment, Yu et al. 2025)
 *   program:COMMAND      what a program says, which /bin/sh runs for the lifetime of the rewards.
 * It reads JSON lines with id, prompt, completion and row, and writes a line with id and reward, a
 * finite number or null, for each, in any order */
typedef struct weft_rewards weft_rewards;

typedef struct weft_rewards_options {
    double seconds; /* without output before a program is killed, with its children; 0: 60 */
} weft_rewards_options;

/* Creates n rewards in *out, freed with weft_rewards_free, which ends their programs. WEFT_INVALID
 * for a malformed description, WEFT_IO and WEFT_UNSUPPORTED for a schema that cannot be read. NULL
 * options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_rewards_new(const char *const *descriptions, int n,
                                                     const weft_rewards_options *options,
                                                     weft_rewards **out) WEFT_NONNULL(1, 4);
WEFT_API void weft_rewards_free(weft_rewards *rewards); /* NULL is accepted */

/* weft_reward_fn whose context is a weft_rewards. A program is started by the first call. If it
 * ends, writes something else or nothing for too long, the status is WEFT_IO or WEFT_INVALID, and
 * the message names the row and has the end of its standard error. */
WEFT_NODISCARD WEFT_API weft_status weft_rewards_score(void *rewards,
                                                       const weft_completion *completions, size_t n,
                                                       const weft_cancel *cancel, double *out);

/* How completions of prompts are sampled and rewarded, for objectives with rewards. Their number,
 * temperature and largest length are those of the objective's options. Everything is borrowed. */
typedef struct weft_sampling {
    const weft_tokenizer *tokenizer; /* for texts */
    double top_p, min_p;             /* those of weft_sampler_options; the order is top_k first */
    int64_t top_k;
    const int32_t *stop; /* (n_stop): tokens that end a completion, besides the model's */
    int n_stop;
    int64_t rows; /* completions computed together; 0: 64 */
    weft_reward_fn *reward;
    void *context;            /* of it */
    const char *const *names; /* (n_rewards): names of the rewards, for the report */
    const double *weights;    /* (n_rewards): of their sum, over those that are not NaN; NULL: 1 */
    int n_rewards;
} weft_sampling;

#ifdef __cplusplus
}
#endif
#endif
