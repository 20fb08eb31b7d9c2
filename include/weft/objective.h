/* weft/objective.h -- training objectives: supervised and by preferences.
 *
 *     weft_dataset_load("pairs.jsonl", tokenizer, &(weft_dataset_options){
 *         .examples = weft_objective_dpo.examples}, 0, &data, NULL);
 *     weft_dataset_add_reference(data, model, 0, NULL);
 *     weft_trainer_new(model, &(weft_trainer_options){.objective = &weft_objective_dpo}, &trainer);
 */
#ifndef WEFT_OBJECTIVE_H
#define WEFT_OBJECTIVE_H

#include "weft/model.h"
#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_batch weft_batch; /* weft/train.h */

/* What one example of a dataset is: the unit of shuffling, splitting and batching. */
typedef enum weft_examples {
    WEFT_EXAMPLES_SINGLE = 0, /* a sample */
    WEFT_EXAMPLES_LABELLED,   /* a completion of a prompt that is desirable or not */
    WEFT_EXAMPLES_PAIRS       /* two: a chosen and a rejected completion of one prompt */
} weft_examples;

/* What an objective takes from here; zero is its default. */
typedef struct weft_objective_options {
    double beta;            /* 0: 0.1; of SimPO 2 */
    double label_smoothing; /* DPO, SimPO: share of pairs that are labelled the wrong way, in [0,
                               0.5) */
    double desirable_weight, undesirable_weight; /* KTO: of such completions; 0: 1 */
    double gamma;                                /* SimPO: the margin; 0: 0.5, below 0: none */
} weft_objective_options;

/* What is minimized: a table with a row for each objective. */
typedef struct weft_objective {
    const char *name;
    const char *summary;
    weft_examples examples;   /* what it is trained on */
    bool reference;           /* needs weft_dataset_add_reference */
    bool whole_batch;         /* the loss of a batch is not the sum of its samples' */
    const weft_field *fields; /* of the options: those that it takes */
    weft_objective_options defaults;
    /* What a batch counts in the mean over an update, known without the model. */
    double (*weight)(const weft_batch *batch);
    /* The sum over a batch of what is minimized, whose mean is that sum by `weight`: float32 0-d.
     * `rewards`: where pairs have rewards, (B) float32 for each row, else NULL. The options are
     * complete. */
    weft_array *(*loss)(weft_model *model, const weft_batch *batch,
                        const weft_objective_options *options, bool checkpoint,
                        weft_array **rewards);
} weft_objective;

/* weft_next_token_loss. */
WEFT_API extern const weft_objective weft_objective_supervised;
/* DPO (Rafailov et al. 2023): -log sigmoid(z) with z = beta times the difference, chosen less
 * rejected, of log-probabilities less the reference's. With label_smoothing e it is robust DPO
 * (Chowdhury et al. 2024): (-(1 - e) log sigmoid(z) + e log sigmoid(-z)) / (1 - 2 e). A row's
 * reward is beta times its log-probability less the reference's. */
WEFT_API extern const weft_objective weft_objective_dpo;
/* ORPO (Hong et al. 2024): the mean cross-entropy of the batch's chosen rows, prompts too, less the
 * mean over pairs of beta log sigmoid of the difference of log odds log(p / (1 - p)), where log p
 * is a completion's mean log-probability. A row's reward is beta log p. No reference. */
WEFT_API extern const weft_objective weft_objective_orpo;
/* SimPO (Meng et al. 2024): -log sigmoid(z), z the difference of beta log p (as in ORPO) less
 * gamma; with label_smoothing e -(1 - e) log sigmoid(z) - e log sigmoid(-z). A row's reward is beta
 * log p. No reference. */
WEFT_API extern const weft_objective weft_objective_simpo;
/* KTO (Ethayarajh et al. 2024): for a desirable completion 1 - sigmoid(beta (r - kl)), else
 * 1 - sigmoid(beta (kl - r)), times its weight. r is the log-probability less the reference's, kl
 * the mean of that, at least 0 and without a gradient, over the batch's prompts each with the
 * completion of the example before it in the dataset. A reward is beta r; chosen and rejected are
 * means over desirable and undesirable completions. */
WEFT_API extern const weft_objective weft_objective_kto;

/* All of them, and after the last NULL. */
WEFT_API extern const weft_objective *const weft_objectives[];
/* The objective of that name, a literal; NULL, without a message: there is none. */
WEFT_API const weft_objective *weft_objective_named(const char *name);

/* Rewards of an update's pairs: means of chosen and rejected rows, the share of pairs whose chosen
 * row has the larger one (NaN where examples are labelled, not paired), and the difference. pairs
 * 0: the objective has none. */
typedef struct weft_reward_report {
    int64_t pairs, n_chosen, n_rejected; /* examples, and the rows in the means */
    double chosen, rejected, accuracy, margin;
} weft_reward_report;

#ifdef __cplusplus
}
#endif
#endif
