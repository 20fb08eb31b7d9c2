/* train/head.h -- losses of the head's logits, for some rows at a time. */
#ifndef WEFT_TRAIN_HEAD_H
#define WEFT_TRAIN_HEAD_H

#include "weft/model.h"

/* The inputs of a call, with N rows each: hidden states (N, E), targets (N) int32, keys of the
 * head's dropout (N, 2), and those of a teacher (train/objective/distill.c): its hidden states
 * (N, T), or ids (N, K) int32 and their log-probabilities (N, K). */
enum {
    WEFT__HEAD_HIDDEN,
    WEFT__HEAD_TARGETS,
    WEFT__HEAD_KEYS,
    WEFT__HEAD_TEACHER,
    WEFT__HEAD_TOP,
    WEFT__HEAD_TOP_LOGPROBS,
    WEFT__HEAD_INPUTS
};

/* How losses are computed. */
typedef struct weft__head_call weft__head_call;
struct weft__head_call {
    weft_model *model;
    double temperature; /* logits are divided by it */
    bool with_entropy;  /* the entropies of the distributions follow the losses */
    /* The losses (1, n) of n rows from their logits (1, n, V) and the inputs (1, n, ...); NULL: the
     * targets' negative log-likelihoods. */
    weft_array *(*losses)(const weft__head_call *call, weft_array *logits, weft_array *const *in);
    weft_model *teacher; /* of `losses` */
    double beta;
};

/* Computes the losses (N) in out[0] and, with_entropy, the entropies (N) in out[1], for any kind of
 * head. Absent inputs are NULL. The gradient recomputes the logits, so only the logits of some rows
 * are ever in memory. */
void weft__head_losses(const weft__head_call *call, weft_array *const in[WEFT__HEAD_INPUTS],
                       weft_array *out[2]);

#endif
