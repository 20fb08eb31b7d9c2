/* train/objective/supervised.c -- supervised training: the next token's cross-entropy. */
#include "train/objective/objective.h"

static weft_array *loss(weft_model *model, const weft_batch *batch,
                        const weft_objective_options *options, bool checkpoint,
                        weft_array **rewards)
{
    (void)options;
    *rewards = NULL;
    return weft_next_token_loss(model, batch, 1, checkpoint);
}

const weft_objective weft_objective_supervised = {
    .name = "supervised",
    .summary = "the next token's cross-entropy",
    .weight = weft__target_weight,
    .loss = loss,
};
