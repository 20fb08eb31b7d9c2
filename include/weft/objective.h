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

/* The kind of a dataset's examples, the units of shuffling, splitting and batching. */
typedef enum weft_examples {
    WEFT_EXAMPLES_SINGLE = 0, /* a sample */
    WEFT_EXAMPLES_LABELLED,   /* a completion of a prompt that is desirable or not */
    WEFT_EXAMPLES_PAIRS       /* a chosen and a rejected completion of one prompt */
} weft_examples;

/* Columns of a batch that only some objectives read; bits of a set. */
typedef enum weft_column {
    WEFT_COLUMN_REFERENCE = 1, /* reference log-probabilities of rows */
    WEFT_COLUMN_LABELS = 2     /* whether examples are desirable */
} weft_column;

/* Options of all objectives. Zero means the objective's default; where that is not zero, a number
 * below zero means zero. */
typedef struct weft_objective_options {
    double beta;            /* 0: 0.1, for SimPO 2 */
    double label_smoothing; /* DPO, SimPO: the share of wrongly labelled pairs, in [0, 0.5) */
    double desirable_weight, undesirable_weight; /* KTO: weights of these completions; 0: 1 */
    double gamma;                                /* SimPO: the margin; 0: 0.5 */
} weft_objective_options;

/* A training objective. */
typedef struct weft_objective {
    const char *name;
    const char *summary;
    weft_examples examples;   /* the kind of examples that it needs */
    unsigned columns;         /* the weft_column bits that it requires */
    unsigned accepts;         /* further ones that data may have; it ignores them */
    bool whole_batch;         /* a batch's loss is not the sum of its samples' losses */
    const weft_field *fields; /* the options that it uses */
    weft_objective_options defaults;
    /* The weight of a batch in the mean over an update, computed without the model. */
    double (*weight)(const weft_batch *batch);
    /* The summed loss of a batch, float32 0-d; divided by `weight` it is the mean. Sets *rewards to
     * the rewards (B) float32 of the rows, or to NULL. Defaults are filled in the options. */
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
/* ORPO (Hong et al. 2024): the mean cross-entropy of the chosen rows, including prompts, minus the
 * mean over pairs of beta log sigmoid(d). d is the difference of the log odds log(p / (1 - p)), log
 * p being a completion's mean log-probability. A row's reward is beta log p. No reference. */
WEFT_API extern const weft_objective weft_objective_orpo;
/* SimPO (Meng et al. 2024): -log sigmoid(z), z the difference of beta log p (as in ORPO) less
 * gamma; with label_smoothing e -(1 - e) log sigmoid(z) - e log sigmoid(-z). A row's reward is beta
 * log p. No reference. */
WEFT_API extern const weft_objective weft_objective_simpo;
/* KTO (Ethayarajh et al. 2024): a desirable completion has the loss 1 - sigmoid(beta (r - kl)), an
 * undesirable one 1 - sigmoid(beta (kl - r)), times its weight. r is the log-probability minus the
 * reference's. kl, at least 0 and without a gradient, is the mean of r over the batch's prompts,
 * each with the completion of the previous example in the dataset. A reward is beta r; chosen and
 * rejected are means over desirable and undesirable completions. */
WEFT_API extern const weft_objective weft_objective_kto;

/* All objectives, terminated by NULL. */
WEFT_API extern const weft_objective *const weft_objectives[];
/* The objective with that name, a literal, or NULL without a message. */
WEFT_API const weft_objective *weft_objective_named(const char *name);

/* Rewards of an update: means over chosen and rejected rows, the share of pairs whose chosen row
 * has the larger reward (NaN for labelled examples), and the difference of the means. pairs 0: the
 * objective has no rewards. */
typedef struct weft_reward_report {
    int64_t pairs, n_chosen, n_rejected; /* examples, and the rows in the means */
    double chosen, rejected, accuracy, margin;
} weft_reward_report;

#ifdef __cplusplus
}
#endif
#endif
