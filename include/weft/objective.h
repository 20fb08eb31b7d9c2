/* weft/objective.h -- training objectives: supervised, by preferences, with rewards, from a
 * teacher, of vectors of texts.
 *
 *     weft_dataset_load("pairs.jsonl", tokenizer, &(weft_dataset_options){
 *         .examples = weft_objective_dpo.examples}, 0, &data, NULL);
 *     weft_dataset_add_reference(data, model, NULL);
 *     weft_trainer_new(model, &(weft_trainer_options){.objective = &weft_objective_dpo}, &trainer);
 */
#ifndef WEFT_OBJECTIVE_H
#define WEFT_OBJECTIVE_H

#include "weft/cancel.h"
#include "weft/group.h"
#include "weft/model.h"
#include "weft/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples: sequences of token ids, with a weight in the loss for each token; and batches of them:
 * weft/train.h. */
typedef struct weft_dataset weft_dataset;
typedef struct weft_batch weft_batch;
typedef struct weft_sample weft_sample;
typedef struct weft_embed_settings weft_embed_settings; /* weft/batch.h */

/* The kind of a dataset's examples, the units of shuffling, splitting and batching. */
typedef enum weft_examples {
    WEFT_EXAMPLES_SINGLE = 0, /* a sample */
    WEFT_EXAMPLES_LABELED,    /* a completion of a prompt that is desirable or not */
    WEFT_EXAMPLES_PAIRS,      /* a chosen and a rejected completion of one prompt */
    WEFT_EXAMPLES_SCORED,     /* a sampled completion with its reward, in groups of one prompt */
    WEFT_EXAMPLES_TEXTS,  /* texts whose vectors are compared: an anchor, a positive, and perhaps
                             negatives or a score */
    WEFT_EXAMPLES_PROMPTS /* prompts, for which the trainer samples completions with rewards */
} weft_examples;

/* Columns of a batch that only some objectives read; bits of a set. */
typedef enum weft_column {
    WEFT_COLUMN_REFERENCE = 1, /* reference log-probabilities of rows */
    WEFT_COLUMN_LABELS = 2,    /* whether examples are desirable; of texts, their scores */
    WEFT_COLUMN_ADVANTAGES = 4,
    WEFT_COLUMN_OLD = 8,      /* log-probabilities of tokens before the first update on them */
    WEFT_COLUMN_REF = 16,     /* reference log-probabilities of tokens */
    WEFT_COLUMN_SAMPLED = 32, /* log-probabilities of tokens that the sampler computed */
    WEFT_COLUMN_TOP = 64,     /* a stored teacher's most probable ids */
    WEFT_COLUMN_TOP_LOGPROBS = 128,   /* and their log-probabilities */
    WEFT_COLUMN_TEACHER_TOKENS = 256, /* samples as a teacher reads them */
    WEFT_COLUMN_TEACHER_TARGETS = 512
} weft_column;

/* Options of all objectives. Zero means the objective's default; where that is not zero, a number
 * below zero means zero. */
typedef struct weft_objective_options {
    double beta;            /* 0: 0.1, for SimPO 2 */
    double label_smoothing; /* DPO, SimPO: the share of wrongly labeled pairs, in [0, 0.5) */
    double desirable_weight, undesirable_weight; /* KTO: weights of these completions; 0: 1 */
    double gamma;                                /* SimPO: the margin; 0: 0.5 */
    /* The others are those of objectives with rewards: weft_objective_grpo. */
    double epsilon, epsilon_high, delta, temperature;
    int64_t num_generations, num_iterations, max_completion_length, mask_truncated;
    const char *loss_type, *importance, *scale_rewards; /* borrowed; NULL: the default */
    double lmbda;                                       /* distill: weft_objective_distill */
    double scale;                                       /* ranking, CoSENT: of cosines; 0: 20 */
    double margin;                                      /* triplets: between the distances; 0: 5 */
    /* Objectives that compare vectors. Not empty: the loss is the sum of those of the first so many
     * elements of the vectors, divided by their norms (Matryoshka, Kusupati et al. 2022). */
    weft_dims dimensions;
    /* The same: how texts become vectors, borrowed. Its prompt and max_tokens are not used, and its
     * `dense` is not trained. NULL: the mean of the hidden states. */
    const weft_embed_settings *embed;
    /* distill: the teacher, borrowed, with the vocabulary of the model that is trained. */
    weft_model *teacher;
    const char *teacher_name; /* its path, by whose files a run knows it; borrowed; NULL: none */
} weft_objective_options;

/* A training objective. */
typedef struct weft_objective {
    const char *name;
    const char *summary;
    weft_examples examples;   /* the kind of examples that it needs */
    unsigned columns;         /* the weft_column bits that it requires */
    unsigned accepts;         /* further ones that data may have; it ignores them */
    bool whole_batch;         /* a batch's loss is not the sum of its samples' losses */
    int64_t texts;            /* WEFT_EXAMPLES_TEXTS: the texts of an example; 0: any number */
    const weft_field *fields; /* the options that it uses */
    weft_objective_options defaults;
    /* The weight of a batch in the mean over an update, computed without the model. Defaults are
     * filled in the options, also below. */
    double (*weight)(const weft_batch *batch, const weft_objective_options *options);
    /* The summed loss of a batch, float32 0-d; divided by `weight` it is the mean. Sets *rewards to
     * the rewards (B) float32 of the rows, or to NULL. */
    weft_array *(*loss)(weft_model *model, const weft_batch *batch,
                        const weft_objective_options *options, bool checkpoint,
                        weft_array **rewards);
    /* In place of `loss`: the mean loss of a batch of texts, float32 0-d, from their vectors (B, D)
     * float32. A batch can then be computed a few examples at a time, with the same gradients. */
    weft_array *(*compare)(weft_array *vectors, const weft_batch *batch,
                           const weft_objective_options *options);
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

/* GRPO (Shao et al. 2024), and below its relatives, which differ only in the defaults of the
 * options. Data: weft_dataset_load_completions. An update's batches have whole groups of
 * num_generations (8) completions of one prompt. With the reward r of a completion, its advantage
 * is A = (r - mean) / (std + 1e-4) with the mean of its group and the standard deviation, with n -
 * 1, by scale_rewards: "group" that of the group, "batch" that of the update's batches, "none" A =
 * r - mean. "leave-one-out" (RLOO): A = r - the mean of the others in the group. Completions
 * without a reward have A = 0 and are in no mean and deviation; beta still applies to them.
 *
 * Log-probabilities are those of logits / temperature (1) over the whole vocabulary: logp now, old
 * before the first of num_iterations (1) updates on the same completions, ref at the start of the
 * run. The ratio rho is exp(logp - old) of a token for the importance "token", exp of its mean over
 * the completion for "sequence", and of its sum for "sum". A token's loss is
 *   -min(min(rho, delta) A, clip(rho, 1 - epsilon, 1 + epsilon_high) A) + beta KL
 *   KL = (e^d - d - 1) rho, d = ref - logp
 * epsilon: 0.2. epsilon_high 0: epsilon. delta 0: no such bound. beta: 0, without ref. With
 * leave-one-out the penalty is in the reward instead, r - beta sum(old - ref).
 *
 * The loss of an update is, by loss_type: "dapo" the mean over all its tokens; "grpo" the mean over
 * completions of their means; "dr_grpo" the sum / (completions x max_completion_length (512));
 * "bnpo" the mean over batches of their means over tokens. mask_truncated 1: completions that were
 * cut off have no token in the loss, but their rewards count; 0: the default, below 0: no.
 *
 * grpo: loss_type "dapo", scale_rewards "group", importance "token". The report has the means of
 * KL, entropy, rho and the clipped shares (weft_policy_report). */
WEFT_API extern const weft_objective weft_objective_grpo;
/* DAPO (Yu et al. 2025): epsilon_high 0.28, mask_truncated. */
WEFT_API extern const weft_objective weft_objective_dapo;
/* Dr. GRPO (Liu et al. 2025): loss_type "dr_grpo", scale_rewards "none". */
WEFT_API extern const weft_objective weft_objective_dr_grpo;
/* GSPO (Zheng et al. 2025): importance "sequence", loss_type "grpo", epsilon 3e-4, epsilon_high
 * 4e-4. */
WEFT_API extern const weft_objective weft_objective_gspo;
/* RLOO (Ahmadian et al. 2024): scale_rewards "leave-one-out", importance "sum", loss_type "grpo",
 * num_generations 2, beta 0.05. */
WEFT_API extern const weft_objective weft_objective_rloo;

/* Loads sampled completions with their rewards, for objectives with rewards: JSON lines with
 *   prompt_ids, completion_ids   token ids, at least one each
 *   reward                       a number, or null: none
 *   truncated                    optional: whether the completion was cut off before its end
 *   logprobs                     optional, in all lines or none: the sampler's log-probability of
 *                                each id of the completion, at the objective's temperature
 * Each num_generations lines are a group, with equal prompts. The options are those of the
 * objective; others than num_generations, max_completion_length, mask_truncated and temperature are
 * not used here. Free *out with weft_dataset_free. WEFT_INVALID ("file:line: what") for malformed
 * lines. The batches of such a dataset have whole groups, in the order of the file, and are not
 * packed.
 *
 * Columns of such a batch: `advantages`, at first the rewards (NaN: none), which weft_trainer_run
 * replaces; log-probabilities of the targets before the first update on the batch, `old` (NULL: the
 * current ones, without a gradient), and at the start of the run, `ref` (weft_dataset_add_reference
 * before the run; only for a beta other than 0). weft_trainer_run makes num_iterations updates in a
 * row on the same batches, and saves and stops only after the last of them. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_completions(
    const char *path, const weft_objective *objective, const weft_objective_options *options,
    weft_dataset **out) WEFT_NONNULL(1, 2, 4);

/* The following compare the vectors of texts (Reimers and Gurevych 2019).
 *
 * Ranking with the other texts of the batch as negatives (Henderson et al. 2017): -log of the
 * softmax of `scale` times the cosines of the anchor and all positives and negatives of the batch,
 * at the anchor's own positive. Texts equal to that positive are left out. */
WEFT_API extern const weft_objective weft_objective_ranking;
/* Triplets (Schroff et al. 2015): max(0, |a - p| - |a - n| + margin), with Euclidean norms. */
WEFT_API extern const weft_objective weft_objective_triplet;
/* CoSENT (Su 2022): log(1 + sum exp(scale (c_i - c_j))) over all pairs i, j of the batch whose
 * scores are s_i < s_j, c being the cosines. It is one number for a batch. */
WEFT_API extern const weft_objective weft_objective_cosent;
/* (c - s)^2: the squared difference of cosine and score. */
WEFT_API extern const weft_objective weft_objective_cosine;

/* Generalized knowledge distillation (GKD, Agarwal et al. 2024). With the distributions S of the
 * model and T of the teacher, of logits / temperature (0.9), and M = (1 - beta) S + beta T, the
 * loss of a target is beta KL(T | M) + (1 - beta) KL(S | M) summed over the vocabulary; for beta 0
 * KL(T | S), for beta 1 KL(S | T). beta: 0.5. The mean is that over all targets. The gradient is
 * that of S alone. If the two vocabularies have different sizes, as of padded heads, the
 * distributions are those over their common ids.
 *
 * lmbda in [0, 1]: with this probability the samples of a batch have, instead of their last
 * completions, ones of at most max_completion_length (512) tokens that the model samples at this
 * temperature (weft_trainer_options.sampling). 0: the default, never. */
WEFT_API extern const weft_objective weft_objective_distill;

/* All objectives, terminated by NULL. */
WEFT_API extern const weft_objective *const weft_objectives[];
/* The objective with that name, a literal, or NULL without a message. */
WEFT_API const weft_objective *weft_objective_named(const char *name);

/* One of several rewards of completions: its mean and deviation; NaN: no completion has it. */
typedef struct weft_reward_part {
    const char *name;
    double mean, std;
} weft_reward_part;

/* Of objectives with rewards: the completions of an update, and what the loss computes of them.
 * Means of kl and entropy are over tokens; those of ratio and the clipped shares over tokens, or
 * over completions unless the importance is "token". */
typedef struct weft_policy_report {
    int64_t completions;       /* 0: the objective has no advantages */
    int64_t tokens;            /* of completions, in the loss */
    double reward, reward_std; /* over all of them; NaN without rewards */
    double equal_groups;       /* share of groups without differences in their rewards */
    double length, truncated;  /* mean number of tokens; share of completions that were cut off */
    double kl, entropy, ratio, clipped_low, clipped_high; /* kl: 0 without beta */
    double mismatch; /* mean over tokens of |old - the sampler's log-probability|; 0 without it */
    /* Of sampled completions: each reward by name, over the completions that have it; owned by the
     * trainer until the next update. */
    const weft_reward_part *parts;
    int n_parts;
} weft_policy_report;

/* Rewards of an update: means over chosen and rejected rows, the share of pairs whose chosen row
 * has the larger reward (NaN for labeled examples), and the difference of the means. pairs 0: the
 * objective has no rewards. */
typedef struct weft_reward_report {
    int64_t pairs, n_chosen, n_rejected; /* examples, and the rows in the means */
    double chosen, rejected, accuracy, margin;
    weft_policy_report policy;
} weft_reward_report;

/* ---- data of objectives --------------------------------------------------------------------- */

/* Adds an example of texts that are compared: an anchor, a positive and negatives, 2 to 64 and as
 * many in every example. Each sample has the ids of a text and a last id that is its only target,
 * with weight 1, and marks the last token. All examples have a score or none has one (NULL).
 * WEFT_INVALID otherwise, and for a text that is longer than the dataset's length. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_texts(weft_dataset *dataset,
                                                           const weft_sample *texts, int n,
                                                           const float *score) WEFT_NONNULL(1, 2);

typedef struct weft_reference_options {
    int64_t batch_size;        /* examples that are computed together; 0: 8 */
    weft_group *group;         /* its ranks share the work; NULL: this process alone */
    const weft_cancel *cancel; /* once it is set, WEFT_CANCELLED; NULL: never */
    /* A file that keeps what has been computed, every minute and when cancelled, and from which a
     * later call continues. For a process alone. NULL: none. */
    const char *progress;
} weft_reference_options;

/* Computes a column of the dataset, the reference log-probabilities: for each sample the weighted
 * sum of its targets' log-probabilities (of a completion with a reward, each) in the model's
 * current weights, with dropout off. It replaces an earlier column. NULL options: all zero.
 * WEFT_INVALID for values that are not finite.
 *
 * Objectives with a reference need the column for the weights that training starts from, so call
 * this before weft_trainer_run, which restores the column of a resumed run. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_reference(
    weft_dataset *dataset, weft_model *model, const weft_reference_options *options)
    WEFT_NONNULL(1);
/* Saves and loads that column as a safetensors file with a hash of the samples. A new run writes
 * reference.safetensors and reference-validation.safetensors into its folder. WEFT_IO for a file
 * that cannot be read or written; WEFT_INVALID for a file of other samples and a malformed one,
 * which leave the dataset unchanged. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_save_reference(const weft_dataset *dataset,
                                                                const char *path) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_reference(weft_dataset *dataset,
                                                                const char *path) WEFT_NONNULL(1);
/* Makes the samples of `theirs` what a teacher reads in place of those of the dataset, such as the
 * same rows with a longer system text. Both have the same targets, sample by sample. The dataset
 * takes `theirs`, also after a failure. WEFT_INVALID if they differ in their targets, naming the
 * sample. Batches cannot have packed rows. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_take_teacher_samples(weft_dataset *dataset,
                                                                      weft_dataset *theirs)
    WEFT_NONNULL(1, 2);

/* The most probable ids of a teacher that are stored for each target. */
enum { WEFT_TEACHER_TOP = 64 };

/* Computes, saves and loads a stored teacher, in whose place its model is not needed: for each
 * target of a dataset of single samples the WEFT_TEACHER_TOP most probable ids of a model and the
 * logarithms of their probabilities, of logits / temperature (0: 0.9), which is the
 * objective's, too. `vocabulary` is the number of ids of the model to train; the teacher's further
 * ids are left out (0: the teacher's number). weft_objective_distill then has the loss KL(T | S),
 * whatever beta, of the distributions over these ids and one class for all others, at most that of
 * the whole distributions. A target takes 512 bytes. batch_size 0: 8. Batches cannot have packed
 * rows, and samples cannot be added afterwards. Without a teacher (NULL) all entries are 0, which
 * suffices to measure the memory of updates.
 *
 * WEFT_UNSUPPORTED for a vocabulary without more ids. Loading fails with WEFT_IO for a file that
 * cannot be read, and with WEFT_INVALID for a file of other samples or another temperature and a
 * malformed one, which leave the dataset unchanged. Saving replaces a stored teacher; any other
 * file is refused with WEFT_INVALID, for which weft_teacher_check_file can ask before the
 * computation. */
WEFT_NODISCARD WEFT_API weft_status weft_teacher_check_file(const char *path) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_teacher(weft_dataset *dataset,
                                                             weft_model *teacher,
                                                             int64_t vocabulary, double temperature,
                                                             int64_t batch_size) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_save_teacher(const weft_dataset *dataset,
                                                              const char *path) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_teacher(weft_dataset *dataset,
                                                              const char *path, double temperature)
    WEFT_NONNULL(1);

/* The column, owned by the dataset: one value per sample (of completions with rewards: per id),
 * followed in labeled datasets by those of the prompts with other samples' completions; or NULL.
 */
WEFT_API const float *weft_dataset_reference(const weft_dataset *dataset) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
