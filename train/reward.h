/* train/reward.h -- internal interface of rewards. */
#ifndef WEFT_TRAIN_REWARD_H
#define WEFT_TRAIN_REWARD_H

#include "weft/reward.h"

/* A program that computes rewards. */
typedef struct weft__reward_program weft__reward_program;

weft_status weft__reward_program_new(const char *command, const char *name, double seconds,
                                     weft__reward_program **out);
/* Ends the program. NULL is accepted. */
void weft__reward_program_free(weft__reward_program *program);
/* The rewards of n completions into out[0], out[step], ...; starts the program if it is not
 * running. */
weft_status weft__reward_program_score(weft__reward_program *program,
                                       const weft_completion *completions, size_t n,
                                       const weft_cancel *cancel, double *out, int step);

/* Reads a line of n bytes, the answer to one of `count` completions: out[id step] gets its reward.
 * `missing` says which ids have none yet. `name` is for messages. WEFT_INVALID for another line. */
weft_status weft__reward_answer(const char *line, size_t n, const char *name, bool *missing,
                                size_t count, double *out, int step);

#endif
