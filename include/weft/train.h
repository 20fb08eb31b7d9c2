/* weft/train.h -- fine-tuning: data, loss, the training loop. Adapters: weft/adapter.h.
 *
 *     weft_model_load("storyteller", NULL, &model);
 *     weft_tokenizer_load("storyteller", &tokenizer);
 *     weft_nn_lora_inject(weft_model_module(model), &(weft_nn_lora_options){.rank = 16});
 *     weft_dataset_load("shakespeare.txt", tokenizer, &(weft_dataset_options){.length = 256}, 0.1,
 *                       &data, &validation);
 *     weft_batches_new(data, 8, 0, &batches);
 *     weft_trainer_new(model, &(weft_trainer_options){.lr = 2e-4, .folder = "run"}, &trainer);
 *     weft_trainer_run(trainer, batches, validation, &result);
 *
 * Everything `weft train` does is one of these calls. In the option structs zero means the default.
 * Each object is freed by its _free, which accepts NULL, and is used by one thread at a time.
 */
#ifndef WEFT_TRAIN_H
#define WEFT_TRAIN_H

#include "weft/adapter.h"
#include "weft/cancel.h"
#include "weft/chat.h"
#include "weft/group.h"
#include "weft/model.h"
#include "weft/objective.h"
#include "weft/optim.h"
#include "weft/probe.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data ----------------------------------------------------------------------------------- */

/* Samples: sequences of token ids, with a weight in the loss for each token. */
typedef struct weft_dataset weft_dataset;

typedef enum weft_data_format {
    WEFT_DATA_AUTO = 0, /* by the file's extension; without a known one JSON lines or a JSON array
                           when the contents begin as one, else text */
    WEFT_DATA_JSONL,    /* a JSON object a line: a row */
    WEFT_DATA_JSON,     /* one JSON array of rows */
    WEFT_DATA_CSV,      /* RFC 4180: the first record names the members of the others */
    WEFT_DATA_TSV,      /* the same with tabs */
    WEFT_DATA_TEXT,     /* one text, cut into windows */
    WEFT_DATA_FORMATS
} weft_data_format;

/* What a row is, by the members that it has; the first of these that fits. */
typedef enum weft_row_kind {
    WEFT_ROW_MESSAGES = 0, /* messages, tools: a conversation */
    WEFT_ROW_SHAREGPT,     /* conversations, tools: one with from and value */
    WEFT_ROW_PREFERENCE,   /* chosen, rejected, perhaps prompt: texts or arrays of messages */
    WEFT_ROW_COMPLETION,   /* prompt, completion: texts, or both arrays of messages */
    WEFT_ROW_ALPACA,       /* instruction, output; perhaps input, system */
    WEFT_ROW_QUESTION,     /* question, answer */
    WEFT_ROW_TEXT,         /* text */
    WEFT_ROW_KINDS
} weft_row_kind;

/* What becomes of a sample that is longer than allowed. */
typedef enum weft_long_samples {
    WEFT_LONG_KEEP_HEAD = 0, /* keep its first tokens, and so the prompt of a completion */
    WEFT_LONG_KEEP_TAIL,     /* keep its last tokens */
    WEFT_LONG_SPLIT,         /* cut it into samples of one group; each begins with the last token of
                                the one before it, so that every target stays one */
    WEFT_LONG_DROP,          /* leave it out */
    WEFT_LONG_REFUSE,        /* fail */
    WEFT_LONG_POLICIES
} weft_long_samples;

/* "jsonl", "messages", "keep-head" and so on, as the command spells them; AUTO is "auto". */
WEFT_API const char *weft_data_format_name(weft_data_format format);
WEFT_API const char *weft_row_kind_name(weft_row_kind kind);
WEFT_API const char *weft_long_samples_name(weft_long_samples policy);

typedef struct weft_dataset_options {
    weft_data_format format;
    int64_t length; /* most tokens of a sample, and the tokens of a text's window; 0: 512 */
    int64_t stride; /* from a text's window to the next; 0: length - 1, with which every
                       token but the first is a target once */
    int32_t eos;    /* ends texts and completions of rows; 0: the tokenizer's; below 0: none */
    weft_long_samples longer; /* than length */
    int64_t max_bad_rows;     /* of a source, skipped with a warning; 0: the first one fails */
    bool learn_prompt;        /* prompts contribute to the loss too */
    bool last_turn; /* of a conversation only the last assistant turn is trained, not each */
    uint64_t seed;  /* of the choice of rows for validation */
    /* A folder where what was read is kept, or NULL: data that was read before with the same files,
     * tokenizer, chat template and options is not tokenized again but mapped from there. Not for
     * standard input, and not for templates that write the date. */
    const char *cache;
    const char *tokenizer_path; /* with cache: of the tokenizer, whose files are part of the key */
    const weft_chat *chat;      /* borrowed: renders conversations; NULL: they are refused */
    weft_examples examples;     /* rows of another kind are refused */
    /* Borrowed, not NULL: rows with text and label (a text or an integer), each a sample of the
     * text's tokens with those that the tokenizer puts around it, and as its only target, behind
     * the last token, the number of the label. */
    weft_labels *labels;
} weft_dataset_options;

typedef struct weft_sample {
    const int32_t *ids;   /* (length); those of a dataset are the dataset's */
    const float *weights; /* (length): the weight of each id as a target, 0: it is none. The first
                             id is never a target. NULL: 1 each */
    int64_t length;       /* at least 2 */
    int64_t group;        /* neighbours with the same group stay together where samples are shuffled
                             or split; 0: alone */
} weft_sample;

typedef struct weft_dataset_info {
    int64_t samples, tokens;
    int64_t targets;   /* tokens that are trained: their weight is not 0 */
    int64_t longest;   /* tokens of the longest sample */
    int64_t truncated; /* samples that were longer than allowed and lost their end or start */
    int64_t split;     /* longer ones that became several samples */
    int64_t dropped;   /* longer ones that were left out: by policy, or no target was kept */
    int64_t cut;       /* tokens that longer ones lost */
    int64_t empty;     /* samples without a target, which were left out */
    int64_t bad_rows;  /* rows that were skipped */
    int64_t rows[WEFT_ROW_KINDS];     /* rows read, of each kind */
    int64_t files[WEFT_DATA_FORMATS]; /* files read, of each format */
    bool cached;                      /* mapped from the cache: no sample can be added */
    weft_examples examples;           /* of pairs the even samples are chosen, the odd rejected */
} weft_dataset_info;

/* Reads samples from a file, from all files of a folder and the folders in it (in order of their
 * paths, those with a known extension), from the files that match a pattern with *, ? or [, or,
 * "-", from standard input, whose format must be given. With split in (0, 1) that share goes to
 * *validation: of a text, the last characters; of rows, those chosen by the seed, at least one.
 * With split 0, *validation (may be NULL) is NULL. Validation samples that are also trained are
 * counted in the log.
 *
 * A prompt and its completion are tokenized apart, as they are when generating; the tokens that the
 * tokenizer puts in front of a text stand in front of every row's sample and of a text's first
 * window. Alpaca rows and questions go through the chat template as a turn of the user and one of
 * the assistant; without a template they are a prompt, an empty line and a completion.
 *
 * With WEFT_EXAMPLES_PAIRS every row has chosen and rejected, texts or arrays of messages, and
 * becomes a pair (weft_dataset_add_pair). The prompt is the row's, or what both begin with: the
 * same messages, or the same text less a space at its end. Labels may be true, false, 1 or 0, also
 * as texts; a text that is a JSON array of messages, as in a table, counts as that array.
 *
 * A conversation is rendered as at inference: what precedes an assistant turn is the chat
 * template's output for the messages before it with the generation prompt, and the turn ends with
 * its EOS. It becomes one sample in which every assistant turn is trained. Where the template
 * renders earlier turns differently once later ones follow (it may remove their reasoning), it
 * becomes one sample for each trained turn, in one group. A first message is not
 * trained. A message's optional member "weight" is the weight of its tokens; the row's optional
 * members "tools", an array or its text, and "chat_template_kwargs", an object or its text, go to
 * the template, the latter as variables such as enable_thinking. Tokens outside the trained turns
 * have weight 0.
 *
 * Says in the log which samples were cut or left out. A UTF-8 byte order mark in front is skipped.
 * WEFT_INVALID ("file:line: what") for a bad row, and when there is no sample; WEFT_UNSUPPORTED for
 * preference pairs among single samples and for files that cannot be read, such as Parquet. NULL
 * options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load(const char *path,
                                                      const weft_tokenizer *tokenizer,
                                                      const weft_dataset_options *options,
                                                      double split, weft_dataset **out,
                                                      weft_dataset **validation);

/* One part of a mixture. */
typedef struct weft_data_source {
    const char *path; /* as weft_dataset_load's */
    double weight;    /* how often an epoch of batches has each sample: of 2.5 twice, and half of
                         them, drawn anew for each epoch, once more; 0: 1 */
} weft_data_source;

/* The same from n sources, with the same failures. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_mixture(const weft_data_source *sources,
                                                              int n,
                                                              const weft_tokenizer *tokenizer,
                                                              const weft_dataset_options *options,
                                                              double split, weft_dataset **out,
                                                              weft_dataset **validation);

/* The same from memory, with the same failures; `name` is the file name in messages and for AUTO.
 */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_parse(const char *data, size_t size,
                                                       const char *name,
                                                       const weft_tokenizer *tokenizer,
                                                       const weft_dataset_options *options,
                                                       double split, weft_dataset **out,
                                                       weft_dataset **validation);

/* The labels of the rows of sources (rows with text and label): sorted, by value if all are
 * integers, else by their bytes. WEFT_INVALID for fewer than two. Free with weft_labels_free. */
WEFT_NODISCARD WEFT_API weft_status weft_labels_find(const weft_data_source *sources, int n,
                                                     const weft_tokenizer *tokenizer,
                                                     const weft_dataset_options *options,
                                                     weft_labels *out);

/* How many samples of `dataset` have the ids of one of `others`; NULL: of one before them in
 * `dataset`. Of ids alone: weights do not count. -1 when out of memory. */
WEFT_API int64_t weft_dataset_duplicates(const weft_dataset *dataset, const weft_dataset *others)
    WEFT_NONNULL(1);

/* A dataset to be filled by the program, and one more sample (copied), which is left out if it has
 * no target. length 0: 512. WEFT_INVALID for a negative id, for a weight that is negative or not
 * finite, and, with WEFT_LONG_REFUSE, for a sample of more than `length` ids. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_new(int64_t length, weft_dataset **out)
    WEFT_NONNULL(2);
WEFT_API void weft_dataset_set_longer(weft_dataset *dataset, weft_long_samples policy)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_sample(weft_dataset *dataset,
                                                            const weft_sample *sample)
    WEFT_NONNULL(1, 2);
/* The same, with the same failures, for `n` ids of which the first `prompt` are not trained and the
 * others have weight 1. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add(weft_dataset *dataset, const int32_t *ids,
                                                     int64_t n, int64_t prompt);
/* Windows of `length` ids, `stride` apart (0: length - 1), of `n` ids; the rest at the end is a
 * shorter window if it has a target. Fails as weft_dataset_add_sample does. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_windows(weft_dataset *dataset,
                                                             const int32_t *ids, int64_t n,
                                                             int64_t stride) WEFT_NONNULL(1);
/* Adds a preference pair: two sequences that begin with the same prompt, whose tokens have weight
 * 0. The dataset must be empty or have pairs alone, else it is WEFT_INVALID. A pair of which one
 * has no target, or, by the policy, loses its targets, is left out whole; WEFT_LONG_SPLIT is
 * WEFT_INVALID for longer ones. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_pair(weft_dataset *dataset,
                                                          const weft_sample *chosen,
                                                          const weft_sample *rejected)
    WEFT_NONNULL(1);
/* Adds a sample whose prompt has weight 0 and whose completion is desirable or not. The dataset
 * must be empty or have such samples alone, else it is WEFT_INVALID, as it is for one that would be
 * split. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_labelled(weft_dataset *dataset,
                                                              const weft_sample *sample,
                                                              bool desirable) WEFT_NONNULL(1, 2);
WEFT_API void weft_dataset_free(weft_dataset *dataset);

/* Computes the reference log-probabilities, a column of the dataset: for each sample the sum of its
 * targets' log-probabilities (times their weights) in the model as it is, dropout off. Objectives
 * with a reference need it from the weights that training starts from: call it before
 * weft_trainer_run, which restores those of a run that is resumed. It replaces an earlier column.
 * batch_size 0: 8. The group's ranks share the work. WEFT_INVALID for values not finite. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_reference(weft_dataset *dataset,
                                                               weft_model *model,
                                                               int64_t batch_size,
                                                               weft_group *group) WEFT_NONNULL(1);
/* That column in a safetensors file with a hash of the samples. A run that begins writes two into
 * its folder: reference.safetensors and reference-validation.safetensors. WEFT_INVALID for a file
 * of other samples and for a malformed one; the dataset stays as it is then. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_save_reference(const weft_dataset *dataset,
                                                                const char *path) WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_reference(weft_dataset *dataset,
                                                                const char *path) WEFT_NONNULL(1);
/* (samples; labelled: twice that, then those of prompts with other completions); NULL: none.
 * Borrowed from the dataset. */
WEFT_API const float *weft_dataset_reference(const weft_dataset *dataset) WEFT_NONNULL(1);

/* Counts of the dataset, and sample i, whose arrays belong to the dataset. */
WEFT_API weft_dataset_info weft_dataset_info_of(const weft_dataset *dataset) WEFT_NONNULL(1);
WEFT_API weft_sample weft_dataset_at(const weft_dataset *dataset, int64_t i) WEFT_NONNULL(1);
/* Whether sample i has the completion that is wanted: of pairs the chosen one, of labelled samples
 * one with that label, and of all others it is true. */
WEFT_API bool weft_dataset_is_desirable(const weft_dataset *dataset, int64_t i) WEFT_NONNULL(1);

/* ---- Batches -------------------------------------------------------------------------------- */

/* Rows of tokens and what follows each of them. */
typedef struct weft_batch {
    weft_array *tokens;  /* (B, L) int32, 0 where a row is padded; held by the batch */
    weft_array *targets; /* (B, L) int32: the next token, -1 where it is not trained */
    weft_array *weights; /* (B, L) float32: the weight of each target; NULL: 1 each */
    /* Of packed rows, else NULL: (B, L) int32, where in its row each token's sample begins, and
     * each token's position in its sample. */
    weft_array *first, *positions;
    /* Of packed rows of pairs or of labelled samples, else NULL. The arrays above but first and
     * positions, which are (R, C), have a row for each sample. The model reads R rows of C tokens:
     * `pack` (R, C) int32 has the element of tokens (counted over all rows) at each place, -1 where
     * such a row is padded, and `unpack` (B, L) int32 the place that an element of tokens has. */
    weft_array *pack, *unpack;
    /* Of preference pairs, else 0 and NULL: pairs, whose chosen samples are the first rows and
     * whose rejected ones are as many rows after them, and (B) float32: each row's reference
     * log-probability, where the dataset has that column. */
    int64_t pairs;
    weft_array *reference;
    /* Of labelled samples, else NULL: (pairs) float32, 1 where it is desirable; the rows after them
     * are then their prompts with other samples' completions. */
    weft_array *labels;
    double embedding_noise; /* as weft_model_call's; 0, as made: none */
    int64_t n_tokens;       /* tokens read: no padding, and no last token of a sample */
    double n_targets;       /* sum of the weights: without `weights`, of targets that are not -1 */
} weft_batch;

/* A batch of `n` samples: L is one less than the longest has tokens. Free with weft_batch_free. */
WEFT_NODISCARD WEFT_API weft_status weft_batch_of_samples(const weft_sample *samples, int n,
                                                          weft_batch *out);
WEFT_API void weft_batch_free(weft_batch *batch) WEFT_NONNULL(1); /* leaves it zeroed */

/* An endless sequence of batches, by index: epoch after epoch. */
typedef struct weft_batches weft_batches;

/* Batches of a dataset (borrowed), batch_size samples (of pairs: pairs) each and the rest in a
 * smaller one, so that an epoch has every sample once, or as often as the weight of its source
 * says. Samples of like length share a batch; which ones, and the order of the batches, are drawn
 * anew for each epoch from the seed. batch_size 0: 4. WEFT_INVALID for a dataset without samples.
 */
WEFT_NODISCARD WEFT_API weft_status weft_batches_new(const weft_dataset *dataset,
                                                     int64_t batch_size, uint64_t seed,
                                                     weft_batches **out);

/* The same with samples packed into rows: a row has samples one behind another, up to `length`
 * tokens (0: as many as the longest sample has), and none of them sees another. Both samples of a
 * pair, and a labelled one and its prompt with another completion, share a row, and `length` (0: of
 * the longest such two) counts both. A batch has batch_size rows. Which samples share a row is
 * drawn once, from the seed; rows are filled by best fit, the longest samples first, and are
 * shuffled for each epoch. Losses and gradients are those of padded batches. The model's family
 * must take weft_model_call.first. WEFT_INVALID for a sample, or two, longer than a row. */
WEFT_NODISCARD WEFT_API weft_status weft_batches_new_packed(const weft_dataset *dataset,
                                                            int64_t batch_size, int64_t length,
                                                            uint64_t seed, weft_batches **out);

/* The batches of a safetensors file, in their order, the same in every epoch: int32 `batches`
 * (steps, B, L) and int32 `prompt_lengths` (steps, B). Ids at index < prompt length are not
 * targets. WEFT_IO when the file cannot be read, WEFT_INVALID when it has other tensors. */
WEFT_NODISCARD WEFT_API weft_status weft_batches_open(const char *path, weft_batches **out)
    WEFT_NONNULL(2);

/* Frees the batches; the number of batches in an epoch; and batch i, which is freed with
 * weft_batch_free. weft_batches_at fails only when out of memory. */
WEFT_API void weft_batches_free(weft_batches *batches);
WEFT_API int64_t weft_batches_count(const weft_batches *batches) WEFT_NONNULL(1); /* of one epoch */
WEFT_NODISCARD WEFT_API weft_status weft_batches_at(weft_batches *batches, int64_t i,
                                                    weft_batch *out) WEFT_NONNULL(1, 3);

/* ---- Loss ----------------------------------------------------------------------------------- */

/* The sum over all targets of a batch that are not negative of -log p(target | the row's tokens so
 * far) times the target's weight, times `scale`: float32 0-d. With scale 1 / n_targets it is their
 * weighted mean. Logits are never held for all rows, nor computed where there is no target. With
 * `checkpoint` each layer's inside is computed again for its gradient. */
WEFT_API weft_array *weft_next_token_loss(weft_model *model, const weft_batch *batch, double scale,
                                          bool checkpoint) WEFT_NONNULL(2);

typedef struct weft_evaluation {
    double loss;       /* weighted mean of the targets' negative log-likelihoods, in nats, or that
                          of the objective */
    double perplexity; /* e^loss; of other objectives than the supervised 0, as standard_error */
    /* Of the loss, where the samples are drawn at random, each with all of its targets; 0 for one
     * sample. */
    double standard_error;
    double accuracy; /* of a classifier: the share of samples whose label is the most probable one;
                        else NaN */
    int64_t targets; /* of other objectives: examples, also for the callback */
    double seconds;
} weft_evaluation;

/* Called after every batch with the targets so far and in all; false stops. */
typedef bool weft_evaluate_callback(void *context, int64_t targets, int64_t total);

typedef struct weft_evaluate_options {
    int64_t batch_size;              /* 0: 8 */
    int64_t max_samples;             /* the first ones only, of pairs so many pairs; 0: all */
    const weft_objective *objective; /* whose loss; NULL: weft_objective_supervised */
    weft_objective_options objective_options;
    weft_evaluate_callback *callback;
    void *context;
    weft_group *group; /* its ranks share the batches, each gets the result; NULL: alone */
} weft_evaluate_options;

/* The model's loss over a dataset, dropout off, every target counted once. WEFT_INVALID when there
 * is none, when the loss is NaN or infinite, or when the dataset lacks what the objective needs.
 * NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_evaluate(weft_model *model, const weft_dataset *dataset,
                                                  const weft_evaluate_options *options,
                                                  weft_evaluation *out) WEFT_NONNULL(4);

/* ---- The loss curve ------------------------------------------------------------------------- */

typedef struct weft_curve {
    const char *name;
    const double *x, *y; /* points with a y that is not finite are left out */
    int n;
    bool dots; /* mark every point */
} weft_curve;

/* Draws up to four curves over common axes as a self-contained SVG file. WEFT_IO if it cannot be
 * written. */
WEFT_NODISCARD WEFT_API weft_status weft_curves_save(const char *path, const char *title,
                                                     const char *x_name, const weft_curve *curves,
                                                     int n);

/* ---- The trainer ---------------------------------------------------------------------------- */

/* The defaults of `weft train` for LoRA. */
#define WEFT_LORA_LEARNING_RATE 2e-4
#define WEFT_LORA_WARMUP 0.03

/* A prompt, and what the model continues it with. */
typedef struct weft_train_sample {
    const char *prompt, *text;
} weft_train_sample;

typedef struct weft_train_report {
    int64_t step, steps; /* from 1 (0: validation before it, no loss); of the whole run */
    double epoch;        /* share of the data seen: 1.5 is half of the second time */
    double loss;         /* mean of the objective (over targets or pairs), before it; NaN at 0 */
    double grad_norm;    /* before the update and before clipping */
    double lr;           /* of this update */
    bool applied;        /* loss and norm were finite; otherwise nothing changed */
    int64_t tokens;      /* n_tokens of the update's batches */
    int64_t total_tokens;
    double tokens_per_second;   /* of the latest updates, validation left out */
    double validation_loss;     /* NaN when it was not measured at this step */
    double validation_accuracy; /* of a classifier; else NaN */
    double seconds, remaining;
    int64_t peak_memory; /* weft_memory_peak_held since weft_trainer_run began */
    weft_reward_report rewards;
    const weft_train_sample *samples; /* (n_samples): what the sampler generated */
    int n_samples;
} weft_train_report;

/* Called after every validation: sets what was generated, which lasts until the next call. A
 * failure ends the run. */
typedef weft_status weft_train_sampler(void *context, int64_t step,
                                       const weft_train_sample **samples, int *n);

/* Called after every update, and at step 0. False stops the run: the adapter is saved and the run
 * returns WEFT_CANCELLED. */
typedef bool weft_train_callback(void *context, const weft_train_report *report);

typedef struct weft_trainer_options {
    const weft_objective *objective; /* NULL: weft_objective_supervised */
    weft_objective_options objective_options;
    int64_t steps;       /* updates; 0: what `epochs` take */
    double epochs;       /* 0: 1 */
    int64_t accumulate;  /* batches an update, each target with the same weight; 0: one a rank */
    int64_t micro_batch; /* samples of one at a time; 0: all, or what fits; below 0: all */
    double lr;           /* 0: 1e-5 */
    double lora_plus;    /* LoRA+ (Hayou et al. 2024): lora_B has lr times this; 0: 1 */
    /* NULL: weft_optim_adamw. Its options are copied; NULL: its defaults, with bias_correction,
     * no_relative_step and no_scale_parameter where it has them. */
    const weft_optim_type *optimizer;
    const void *optimizer_options;
    double weight_decay;  /* of an optimizer that has it; 0: that of its options; below 0: none */
    const char *schedule; /* of lr, as weft_rate_parse reads it; NULL: "constant" */
    int64_t warmup;       /* update s < W, from 0, has lr (s + 1) / W; `schedule` begins at W */
    double warmup_share;  /* of the updates, when warmup is 0; 0: no warmup */
    double clip;          /* largest norm of the gradients; 0: off */
    bool checkpoint;      /* trade time for memory: weft_next_token_loss */
    bool compile;         /* batches run compiled: less work for the host per update */
    double neftune; /* NEFTune's alpha, in updates: weft_model_call.embedding_noise; 0: none */
    uint64_t seed;  /* of dropout and noise: every update seeds the default generator */

    int64_t validate_every;      /* updates; 0: before the first and after the last only */
    int64_t patience;            /* end after so many validations without a lower loss; 0: never */
    weft_train_sampler *sampler; /* with `context`; NULL: none */
    int64_t validation_samples;  /* the first ones only; 0: all */
    int64_t validation_batch;    /* samples a batch; 0: 8 */
    int64_t save_every;          /* updates; 0: by time alone */
    double save_minutes;         /* most minutes between saves; 0: 10; below 0: by updates alone */
    /* fail after so many updates in a row that were not finite, 0: 5; or if none of the run was */
    int64_t max_skipped;

    const char *folder; /* NULL: nothing is written */
    /* Of a run that the folder has: continue it from its newest checkpoint (where there is no run,
     * begin one), or delete it; without either it is WEFT_INVALID. */
    bool resume, overwrite;
    int64_t keep;               /* newest checkpoints that stay; 0: 2 */
    const char *const *command; /* (n_command): words that run.json keeps for weft_run_command */
    int n_command;
    /* A tokenizer other than the base's, whose files are written beside each saved adapter: those
     * of the folder or GGUF file `tokenizer_path` (NULL: none), with what `tokenizer` (NULL:
     * nothing), one of weft_tokenizer_extend, has in their place. Borrowed. */
    const char *tokenizer_path;
    const weft_tokenizer *tokenizer;
    const char *base_name; /* of the model, for adapter_config.json and run.json; NULL: "" */
    const char *data_name; /* of the data, for run.json; NULL: "" */
    const weft_data_source *sources; /* (n_sources): of the data, for run.json; borrowed */
    int n_sources;
    const char *validation_source; /* of validation data of its own; NULL: none */
    const weft_dataset_info *data; /* of the data, for run.json, borrowed; NULL: unknown */
    weft_train_callback *callback;
    void *context;
    const weft_cancel *cancel; /* borrowed: stops the run after the update in progress, or during
                                  validation, as a callback's false does. NULL: none */
    const weft_probe *probe;   /* borrowed: gets an event of kind training per update; NULL: none */
    weft_group *group; /* borrowed: the ranks that train together; NULL: this process alone */
} weft_trainer_options;

/* Trains the parameters of a model that are not frozen. Where adapters were injected these are the
 * adapters; otherwise whole parameters. */
typedef struct weft_trainer weft_trainer;

/* Borrows the model, whose tree keeps its form while the trainer lives; copies the options, but not
 * the strings. WEFT_INVALID when everything is frozen or an option is out of range. NULL options:
 * all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_new(weft_model *model,
                                                     const weft_trainer_options *options,
                                                     weft_trainer **out) WEFT_NONNULL(3);
WEFT_API void weft_trainer_free(weft_trainer *trainer);

/* One update from n batches (in a group: of each rank), for programs with a loop of their own:
 * fills loss, grad_norm, applied and tokens of *report (or NULL). `lr_factor` multiplies the
 * learning rate. WEFT_INVALID for batches that the objective cannot use; other failures are those
 * of weft_eval. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_step(weft_trainer *trainer,
                                                      const weft_batch *batches, int n,
                                                      double lr_factor, weft_train_report *report)
    WEFT_NONNULL(1);

typedef struct weft_train_result {
    int64_t steps;   /* updates made, applied or not */
    int64_t skipped; /* those that were not finite */
    double loss;     /* of the last update that was applied */
    double first_validation, last_validation, best_validation; /* NaN without validation data */
    int64_t best_step;
    int64_t tokens;
    double seconds;                   /* of the whole run */
    double training_seconds;          /* of its updates alone, without validation and saving */
    int64_t peak_memory, peak_active; /* weft_memory_peak_held and weft_memory_peak */
} weft_train_result;

/* Whether a folder has the files of a run: run.json, metrics.jsonl, or a checkpoint. */
WEFT_API bool weft_run_exists(const char *folder);

/* The words that the options of the folder's run had as `command`, for a program that resumes it.
 * WEFT_IO without a run.json, WEFT_INVALID when it has none. Free with weft_run_words_free. */
typedef struct weft_run_words {
    char **at;
    int n;
} weft_run_words;
WEFT_NODISCARD WEFT_API weft_status weft_run_command(const char *folder, weft_run_words *out)
    WEFT_NONNULL(2);
WEFT_API void weft_run_words_free(weft_run_words *words) WEFT_NONNULL(1); /* leaves it zeroed */

/* Writes report.html into the folder of a run, from its run.json and metrics.jsonl: curves of loss
 * (the training loss smoothed exponentially), learning rate, gradient norm and tokens per second,
 * the result, samples, data and settings. It loads nothing from elsewhere, and texts are escaped.
 * WEFT_IO without those files, WEFT_INVALID when they are malformed. */
WEFT_NODISCARD WEFT_API weft_status weft_run_report(const char *folder);

/* The whole run: every update with its schedule, validation on `validation` (NULL: none), and in
 * the folder, which is made if need be:
 *   run.json       the options, sizes of model and data, "state": "running", "finished", "stopped"
 *                  or "failed" with the "message", and at the end the result
 *   metrics.jsonl  one object a report: step, loss, grad_norm, lr, tokens, ...; loss and grad_norm
 *                  to the last digit, null when not finite; validation_loss where it was measured
 *   loss.svg       the loss curve
 *   report.html    weft_run_report, written with each save and at the end
 *   step-N/        a checkpoint after update N: the adapter (without adapters in the tree: the
 *                  model), and training.safetensors: the trained parameters, the optimizer's state
 *                  and, as JSON in its metadata, a version, hashes of base model, tokenizer and
 *                  data, the next batch, the seed and the results so far
 *   last           a link to the newest checkpoint, also at the end; a folder with the adapter
 *                  where the file system has no links
 *   best/          the adapter of the lowest validation loss
 *   weights-N/     the adapter at the end, where the disk has no room for the last checkpoint
 *
 * Files other than metrics.jsonl appear whole or not at all; metrics.jsonl ends with a whole line.
 * A file that cannot be written during the run is a warning, and the run continues; the lines of
 * metrics.jsonl are kept and written when they can be. Only where that or the last save fails at
 * the end the run fails, with a message that names what was saved.
 *
 * A checkpoint is written beside its place, synced and renamed: whatever ends the process, the
 * newest one is whole. A run that is resumed from it ends with the same bytes as one that was not
 * stopped (on the same machine, with as many threads): batches are a function of the seed and their
 * number, dropout of the seed, the update and the batch in it. metrics.jsonl is cut back to the
 * checkpoint. One that cannot be read is a warning, and the one before it counts. WEFT_INVALID,
 * naming what differs, when the base model (where base_name is its path), tokenizer, data, batch
 * size, seed, accumulate, optimizer, the objective, one of its options or the names and shapes of
 * the trained parameters are not the run's; the other options may change.
 *
 * WEFT_CANCELLED when the callback or `cancel` stopped it, WEFT_INVALID after max_skipped; both
 * save a checkpoint first. WEFT_INVALID before anything else when the folder already has a run, or
 * while another run writes there. Dropout is on during updates and off at the end. `result` may be
 * NULL. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_run(weft_trainer *trainer, weft_batches *batches,
                                                     const weft_dataset *validation,
                                                     weft_train_result *result) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
