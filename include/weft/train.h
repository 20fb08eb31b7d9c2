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
 * `weft train` uses only these functions. In option structs zero means the default. Objects are
 * freed by their _free functions, which accept NULL, and used by one thread at a time.
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
#include "weft/reward.h"
#include "weft/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Data ----------------------------------------------------------------------------------- */

typedef enum weft_data_format {
    WEFT_DATA_AUTO = 0, /* by the file's extension, or by its contents if that is unknown */
    WEFT_DATA_JSONL,    /* one row, a JSON object, per line */
    WEFT_DATA_JSON,     /* one JSON array of rows */
    WEFT_DATA_CSV,      /* RFC 4180; the first record has the column names */
    WEFT_DATA_TSV,      /* the same with tabs */
    WEFT_DATA_TEXT,     /* one text, cut into windows */
    WEFT_DATA_PARQUET,  /* rows of columns; those of bytes without a logical type are null */
    WEFT_DATA_FORMATS
} weft_data_format;

/* The kind of a row: the first of these whose members it has. */
typedef enum weft_row_kind {
    WEFT_ROW_MESSAGES = 0, /* messages: a conversation */
    WEFT_ROW_SHAREGPT,     /* conversations: messages with from and value */
    WEFT_ROW_PREFERENCE,   /* chosen, rejected, optional prompt: texts or arrays of messages */
    WEFT_ROW_COMPLETION,   /* prompt, completion: texts, or both arrays of messages */
    WEFT_ROW_ALPACA,       /* instruction, output */
    WEFT_ROW_QUESTION,     /* question, answer */
    WEFT_ROW_TEXT,         /* text */
    WEFT_ROW_KINDS
} weft_row_kind;

/* What happens to a sample that is longer than allowed. */
typedef enum weft_long_samples {
    WEFT_LONG_KEEP_HEAD = 0, /* keep its first tokens, and so the prompt of a completion */
    WEFT_LONG_KEEP_TAIL,     /* keep its last tokens */
    WEFT_LONG_SPLIT,         /* cut it into samples of one group; each begins with the last token of
                                the previous one, so no target is lost */
    WEFT_LONG_DROP,          /* drop it */
    WEFT_LONG_REFUSE,        /* fail */
    WEFT_LONG_POLICIES
} weft_long_samples;

typedef struct weft_dataset_options {
    weft_data_format format;
    int64_t length;     /* most tokens of a sample, and the size of a text's windows; 0: 512 */
    int64_t stride;     /* between the starts of a text's windows; 0: length - 1, which makes every
                           token but the first a target once */
    const int32_t *eos; /* ends texts and completions; NULL: the tokenizer's; id below 0: none */
    weft_long_samples longer; /* for samples longer than length */
    int64_t max_bad_rows;     /* per source, skipped with a warning; 0: the first one fails */
    bool learn_prompt;        /* prompts contribute to the loss too */
    bool last_turn;           /* train only the last assistant turn of a conversation */
    uint64_t seed;            /* for the choice of validation rows */
    /* A folder that caches tokenized data, or NULL. Data with the same files, tokenizer, chat
     * template and options is read from there, but not standard input and templates with dates. */
    const char *cache;
    const char *tokenizer_path; /* with cache: the tokenizer's files are part of the key */
    const weft_chat *chat;      /* borrowed: renders conversations; with NULL they are an error */
    int64_t vocabulary;         /* ids must be below it; 0: not checked */
    const char *system;         /* the system text of rows without one, except texts; NULL: none */
    weft_examples examples;     /* the expected kind of examples; other rows are an error */
    /* Borrowed. Not NULL: rows have a text and a label (a string or an integer). A sample is the
     * text's tokens with the tokenizer's special tokens; its only target, after the last token, is
     * the label's index. */
    weft_labels *labels;
    /* Of WEFT_EXAMPLES_TEXTS: what precedes anchors, and all other texts; NULL: nothing. */
    const char *query_prompt, *passage_prompt;
    const weft_cancel *cancel; /* once it is set, loading fails with WEFT_CANCELLED; NULL: never */
} weft_dataset_options;

typedef struct weft_sample {
    const int32_t *ids;   /* (length) */
    const float *weights; /* (length): the weight of each id as a target; 0: not a target. The first
                             id is never a target. NULL: 1 each */
    int64_t length;       /* at least 2 */
    int64_t group; /* adjacent samples of one group stay together when samples are shuffled or
                      split; 0: no group */
} weft_sample;

typedef struct weft_dataset_info {
    int64_t samples, tokens;
    int64_t targets;   /* tokens with a weight other than 0 */
    int64_t longest;   /* tokens of the longest sample */
    int64_t truncated; /* too long samples that were truncated */
    int64_t split;     /* too long samples that were split */
    int64_t dropped;   /* too long samples that were dropped, by policy or without a target left */
    int64_t cut;       /* tokens lost by truncation */
    int64_t empty;     /* samples dropped because they have no target */
    int64_t empty_answers;            /* trained answers without text */
    int64_t bad_rows;                 /* malformed rows that were skipped */
    int64_t rows[WEFT_ROW_KINDS];     /* rows read, by kind */
    int64_t rendered;                 /* rows that the chat template rendered */
    int64_t files[WEFT_DATA_FORMATS]; /* files read, by format */
    bool cached;                      /* read from the cache: no sample can be added */
    weft_examples examples;           /* in pairs, even samples are chosen, odd ones rejected */
    int64_t texts;                    /* WEFT_EXAMPLES_TEXTS: the samples of each example, else 0 */
    bool scored;                      /* WEFT_EXAMPLES_TEXTS: each example has a score */
} weft_dataset_info;

/* A validation split: of each source with at least 200 samples 5%, at most 100 samples; of smaller
 * sources none. */
#define WEFT_SPLIT_AUTO (-1.0)

/* Loads samples. `path` is a file, a folder (its train.jsonl, else all files with a known extension
 * in it and its subfolders), a pattern with *, ? or [, or "-" for standard input, which needs
 * options->format. With 0 < split < 1 that share goes to *validation: of a text the last
 * characters, of rows at least one, chosen by the seed. With WEFT_SPLIT_AUTO rows are chosen in the
 * same way, and the last windows of texts; *validation is NULL if nothing is held out. With split
 * 0, *validation is NULL, and `validation` may be NULL. NULL options: all zero.
 *
 * Completions. A prompt and its completion are tokenized separately, as when generating. The
 * tokenizer's leading special tokens precede every row's sample and a text's first window. Alpaca
 * rows, questions and texts with a system prompt or history are rendered by the chat template;
 * without one they are a prompt, an empty line and a completion. docs/data.md lists all members.
 *
 * Pairs. With WEFT_EXAMPLES_PAIRS every row has chosen and rejected, texts or messages, and becomes
 * a pair (weft_dataset_add_pair). Without a prompt it is the common beginning of both: equal
 * messages, or equal text without a space at its end. Labels are true, false, 1 or 0, also as
 * strings. A string that is a JSON array of messages, as in a CSV cell, is read as that array.
 *
 * Conversations are rendered as at inference: an assistant turn follows the chat template's output
 * for the messages before it with the generation prompt, and ends with its last EOS. Where the
 * prompt begins an answer ("<think>") and the rendered message does not, the turn begins where both
 * part. A conversation is one sample in which only assistant turns are trained. If the template
 * renders earlier turns differently later, each trained turn is a sample, in one group. What a
 * template marks with {% generation %} is trained. "weight" of a message is the weight of its
 * tokens, "train": false is weight 0; "tools" and "chat_template_kwargs" go to the template.
 *
 * The log reports unused members, truncated and dropped samples, and validation samples that are
 * trained. A byte order mark is skipped. WEFT_INVALID ("file:line: what") for a malformed row and
 * without samples; WEFT_UNSUPPORTED for preference pairs among other samples, and for formats such
 * as Arrow and compression that this build lacks. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load(const char *path,
                                                      const weft_tokenizer *tokenizer,
                                                      const weft_dataset_options *options,
                                                      double split, weft_dataset **out,
                                                      weft_dataset **validation);

/* One part of a mixture. */
typedef struct weft_data_source {
    const char *path; /* as in weft_dataset_load */
    double weight;    /* how often each sample occurs in an epoch: with 2.5 twice, and a random half
                         of the samples, different in each epoch, once more; 0: 1 */
    char *const *files; /* n_files files to read; `path` is their name then; NULL: none */
    int n_files;
} weft_data_source;

/* The same from n sources, with the same failures. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_load_mixture(const weft_data_source *sources,
                                                              int n,
                                                              const weft_tokenizer *tokenizer,
                                                              const weft_dataset_options *options,
                                                              double split, weft_dataset **out,
                                                              weft_dataset **validation);

/* The same from memory, with the same failures. `name` is the file name in messages, and its
 * extension decides the format with WEFT_DATA_AUTO. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_parse(const char *data, size_t size,
                                                       const char *name,
                                                       const weft_tokenizer *tokenizer,
                                                       const weft_dataset_options *options,
                                                       double split, weft_dataset **out,
                                                       weft_dataset **validation);

/* Collects the labels of the sources' rows, which have text and label: sorted by value if all are
 * integers, else by their bytes. Free with weft_labels_free. WEFT_INVALID for fewer than two
 * labels; otherwise fails as weft_dataset_load. */
WEFT_NODISCARD WEFT_API weft_status weft_labels_find(const weft_data_source *sources, int n,
                                                     const weft_tokenizer *tokenizer,
                                                     const weft_dataset_options *options,
                                                     weft_labels *out);

/* The number of samples of `dataset` whose ids equal those of a sample in `others`, or, if that is
 * NULL, of an earlier sample in `dataset`. Weights are ignored. -1 when out of memory. */
WEFT_API int64_t weft_dataset_duplicates(const weft_dataset *dataset, const weft_dataset *others)
    WEFT_NONNULL(1);

/* Creates an empty dataset in *out for samples of at most `length` ids (0: 512), freed with
 * weft_dataset_free; sets its policy for longer samples; and adds a sample, which is copied, or
 * dropped if it has no target. WEFT_INVALID for a negative id, for a weight that is negative or not
 * finite, and, with WEFT_LONG_REFUSE, for a longer sample. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_new(int64_t length, weft_dataset **out)
    WEFT_NONNULL(2);
WEFT_API void weft_dataset_set_longer(weft_dataset *dataset, weft_long_samples policy)
    WEFT_NONNULL(1);
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_sample(weft_dataset *dataset,
                                                            const weft_sample *sample)
    WEFT_NONNULL(1, 2);
/* Adds a sample of `n` ids, of which the first `prompt` have weight 0 and the others weight 1, with
 * the same failures. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add(weft_dataset *dataset, const int32_t *ids,
                                                     int64_t n, int64_t prompt);
/* Adds `n` ids as windows of `length` ids, `stride` apart (0: length - 1); the rest is a shorter
 * window if it has a target. Fails as weft_dataset_add_sample. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_windows(weft_dataset *dataset,
                                                             const int32_t *ids, int64_t n,
                                                             int64_t stride) WEFT_NONNULL(1);
/* Adds a preference pair: two sequences that begin with the same prompt, whose tokens have weight
 * 0. A pair is dropped if one of the two has no target, also after truncation. WEFT_INVALID if the
 * dataset has samples that are not pairs, and for a longer sample with WEFT_LONG_SPLIT. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_pair(weft_dataset *dataset,
                                                          const weft_sample *chosen,
                                                          const weft_sample *rejected)
    WEFT_NONNULL(1);
/* Adds a sample whose prompt has weight 0 and whose completion is desirable or not. WEFT_INVALID if
 * the dataset has samples of another kind, and for a longer sample with WEFT_LONG_SPLIT. */
WEFT_NODISCARD WEFT_API weft_status weft_dataset_add_labeled(weft_dataset *dataset,
                                                             const weft_sample *sample,
                                                             bool desirable) WEFT_NONNULL(1, 2);

WEFT_API void weft_dataset_free(weft_dataset *dataset); /* NULL is accepted */

/* Counts of the dataset, and sample i, whose arrays belong to the dataset. */
WEFT_API weft_dataset_info weft_dataset_info_of(const weft_dataset *dataset) WEFT_NONNULL(1);
WEFT_API weft_sample weft_dataset_at(const weft_dataset *dataset, int64_t i) WEFT_NONNULL(1);
/* Whether the completion of sample i is desired: in pairs, the chosen one; in labeled samples, as
 * labeled; in all others true. */
WEFT_API bool weft_dataset_is_desirable(const weft_dataset *dataset, int64_t i) WEFT_NONNULL(1);

/* ---- Batches -------------------------------------------------------------------------------- */

/* Rows of tokens, and the next token of each position. */
typedef struct weft_batch {
    weft_array *tokens;  /* (B, L) int32, 0 in padding; owned by the batch, as all arrays here */
    weft_array *targets; /* (B, L) int32: the next token, or -1: not a target */
    weft_array *weights; /* (B, L) float32: the weight of each target; NULL: 1 each */
    /* Packed rows, else NULL: (B, L) int32: the index in the row where each token's sample begins,
     * and each token's position in its sample. */
    weft_array *first, *positions;
    /* Packed rows of pairs or labeled samples, else NULL. first, positions and pack then have one
     * row per packed row, the other columns one per sample. pack (R, C) int32: the flat index into
     * tokens, -1 for padding. unpack (B, L) int32: the flat index into the packed rows. Of
     * completions with rewards, without `first`: the only packed row has each group's prompt once
     * (weft_model_call). */
    weft_array *pack, *unpack;
    /* Pairs have the chosen samples in the first half of the rows, the rejected ones in the second;
     * labeled samples the samples, and their prompts with other samples' completions. Texts to be
     * compared have the anchors in the first rows, then the positives, then each negative; the only
     * target of a row is at its last token. */
    weft_examples examples;
    int64_t texts;         /* WEFT_EXAMPLES_TEXTS: the rows of each example */
    weft_array *reference; /* (B) float32: reference log-probabilities of the rows, or NULL */
    weft_array *labels;    /* (examples) float32; 1: desirable; the score of texts; or NULL */
    weft_array *advantages, *old, *ref, *sampled; /* or NULL: weft_dataset_load_completions */
    /* (B, L, WEFT_TEACHER_TOP) int32, float32: a stored teacher's; or NULL. */
    weft_array *top, *top_logprobs;
    /* (B, M) int32: the samples as a teacher reads them; or NULL. */
    weft_array *teacher_tokens, *teacher_targets;
    /* What the trainer computes of a teacher, for weft_objective_distill: the flat indices (K)
     * int32 of the targets' cells, -1 for padding, and the teacher's hidden states there (K, E). */
    weft_array *cells, *teacher;
    double embedding_noise; /* that of weft_model_call; initially 0: none */
    double temperature;     /* logits are divided by it; 0: 1 */
    int64_t n_tokens;       /* tokens read, without padding and the last token of each sample */
    double n_targets;       /* sum of the targets' weights */
} weft_batch;

/* Makes a batch of `n` samples; L is one less than the length of the longest. Free with
 * weft_batch_free. Fails only when out of memory. */
WEFT_NODISCARD WEFT_API weft_status weft_batch_of_samples(const weft_sample *samples, int n,
                                                          weft_batch *out);
WEFT_API void weft_batch_free(weft_batch *batch) WEFT_NONNULL(1); /* leaves it zeroed */

/* An endless sequence of batches by index, epoch after epoch. */
typedef struct weft_batches weft_batches;

/* Batches of a dataset (borrowed) with batch_size samples or pairs each (0: 4); the last one may be
 * smaller. An epoch has every sample once, or as often as its source's weight says. Samples of
 * similar length share a batch; the assignment and the order of batches are drawn from the seed for
 * each epoch. WEFT_INVALID for an empty dataset. */
WEFT_NODISCARD WEFT_API weft_status weft_batches_new(const weft_dataset *dataset,
                                                     int64_t batch_size, uint64_t seed,
                                                     weft_batches **out);

/* The same with several samples packed into each row of up to `length` tokens (0: the length of the
 * longest sample). Samples do not attend to each other, so losses and gradients are those of padded
 * batches. A batch has batch_size rows. Rows are filled once by best fit, longest samples first,
 * and shuffled for each epoch. The model's family must support weft_model_call.first. WEFT_INVALID
 * for a sample that is longer than a row.
 *
 * The two samples of a pair, and a labeled sample and its prompt with another completion, share a
 * row; `length` counts both. */
WEFT_NODISCARD WEFT_API weft_status weft_batches_new_packed(const weft_dataset *dataset,
                                                            int64_t batch_size, int64_t length,
                                                            uint64_t seed, weft_batches **out);

/* The batches of a safetensors file, in the same order in every epoch: int32 `batches` (steps, B,
 * L) and int32 `prompt_lengths` (steps, B). Ids at index < prompt length are not targets. WEFT_IO
 * if the file cannot be read, WEFT_INVALID if it has other tensors. */
WEFT_NODISCARD WEFT_API weft_status weft_batches_open(const char *path, weft_batches **out)
    WEFT_NONNULL(2);

/* weft_batches_count: the number of batches in an epoch. weft_batches_at: batch i, freed with
 * weft_batch_free; fails only when out of memory. */
WEFT_API void weft_batches_free(weft_batches *batches);
WEFT_API int64_t weft_batches_count(const weft_batches *batches) WEFT_NONNULL(1); /* of one epoch */
WEFT_NODISCARD WEFT_API weft_status weft_batches_at(weft_batches *batches, int64_t i,
                                                    weft_batch *out) WEFT_NONNULL(1, 3);

/* ---- Loss ----------------------------------------------------------------------------------- */

/* `scale` times the weighted sum of -log p(target | previous tokens of the row) over all targets
 * that are not negative: float32 0-d. scale 1 / n_targets gives the weighted mean. Logits are
 * computed for targets only and never stored for all rows. `checkpoint`: gradient checkpointing per
 * layer. */
WEFT_API weft_array *weft_next_token_loss(weft_model *model, const weft_batch *batch, double scale,
                                          bool checkpoint) WEFT_NONNULL(2);

typedef struct weft_evaluation {
    double loss;       /* weighted mean of the targets' negative log-likelihoods, in nats, or the
                          objective's loss */
    double perplexity; /* e^loss; 0 for objectives other than the supervised one */
    /* Of the loss, treating samples as drawn at random; 0 for one sample and for objectives other
     * than the supervised one. */
    double standard_error;
    double accuracy; /* of a classifier, else NaN */
    int64_t targets; /* for objectives other than the supervised one: examples */
    double seconds;
} weft_evaluation;

/* Called after every batch with the number of targets so far and in total; return false to stop. */
typedef bool weft_evaluate_callback(void *context, int64_t targets, int64_t total);

typedef struct weft_evaluate_options {
    int64_t batch_size;              /* 0: 8 */
    int64_t max_samples;             /* use only the first samples or pairs; 0: all */
    const weft_objective *objective; /* NULL: weft_objective_supervised */
    weft_objective_options objective_options;
    weft_evaluate_callback *callback;
    void *context;
    weft_group *group; /* its ranks share the batches and get the same result; NULL: this process */
} weft_evaluate_options;

/* Evaluates the model's loss over a dataset, with dropout off and every target counted once.
 * WEFT_INVALID without targets, for a loss that is not finite, and when the dataset lacks a column
 * that the objective needs; WEFT_CANCELLED when the callback stopped it. NULL options: all zero. */
WEFT_NODISCARD WEFT_API weft_status weft_evaluate(weft_model *model, const weft_dataset *dataset,
                                                  const weft_evaluate_options *options,
                                                  weft_evaluation *out) WEFT_NONNULL(4);

/* ---- The trainer ---------------------------------------------------------------------------- */

/* The defaults of `weft train` for LoRA. */
#define WEFT_LORA_LEARNING_RATE 2e-4
#define WEFT_LORA_WARMUP 0.03

/* A prompt and the model's continuation. */
typedef struct weft_train_sample {
    const char *prompt, *text;
    bool rewarded; /* it is a completion with a reward */
    double reward;
} weft_train_sample;

typedef struct weft_train_report {
    int64_t step, steps; /* this one from 1 (0: the validation before training), and their number */
    double epoch;        /* passes over the data so far, such as 1.5 */
    double loss;         /* mean objective of the update's batches before it; NaN at step 0 */
    double grad_norm;    /* before clipping */
    double lr;           /* of this update */
    bool applied;        /* loss and norm were finite; otherwise nothing changed */
    int64_t tokens;      /* n_tokens of the update's batches */
    int64_t total_tokens;
    double tokens_per_second; /* over the latest updates, without validation */
    /* NaN if not measured at this step. Of objectives with rewards: minus the mean reward of the
     * validation prompts' completions. */
    double validation_loss;
    double validation_accuracy; /* of a classifier, else NaN */
    double general_loss;        /* of weft_trainer_options.general, where measured, else NaN */
    double seconds, remaining;
    /* Of the run so far: weft_memory_peak_held and, if all arrays are on the CPU and the system
     * states it, what the process holds outside of arrays. */
    int64_t peak_memory;
    weft_reward_report rewards;
    /* (n_samples): what the sampler generated after a validation, or some of the update's
     * completions with their rewards, in about ten updates of a run; else none. */
    const weft_train_sample *samples;
    int n_samples;
} weft_train_report;

/* Called after every validation: generates samples, which stay valid until the next call. A failure
 * ends the run. */
typedef weft_status weft_train_sampler(void *context, int64_t step,
                                       const weft_train_sample **samples, int *n);

/* Called after every update, and at step 0. Returning false stops the run, which saves a checkpoint
 * and returns WEFT_CANCELLED. */
typedef bool weft_train_callback(void *context, const weft_train_report *report);

typedef struct weft_trainer_options {
    const weft_objective *objective; /* NULL: weft_objective_supervised */
    weft_objective_options objective_options;
    const weft_sampling *sampling; /* borrowed; for a dataset of prompts, else NULL */
    int64_t steps;                 /* updates; 0: as `epochs` requires */
    double epochs;                 /* 0: 1 */
    int64_t accumulate;  /* batches per update, all targets weighted equally; 0: one per rank, or
                            one if the ranks share each (weft_trainer_step) */
    int64_t micro_batch; /* samples computed at a time; 0: all, or what fits; below 0: all */
    double lr;           /* learning rate; 0: 1e-5 */
    double lora_plus;    /* LoRA+ (Hayou et al. 2024): factor of lr for lora_B; 0: 1 */
    /* NULL: weft_optim_adamw. Its options are copied; NULL: its defaults, with bias_correction,
     * no_relative_step and no_scale_parameter where it has them. */
    const weft_optim_type *optimizer;
    const void *optimizer_options;
    double weight_decay;  /* if the optimizer has it; 0: that of its options; below 0: none */
    const char *schedule; /* of lr, for weft_rate_parse; NULL: "constant" */
    int64_t warmup;       /* update s < W, from 0, has lr (s + 1) / W; `schedule` begins at W */
    double warmup_share;  /* share of the updates, if warmup is 0; 0: no warmup */
    double clip;          /* largest gradient norm; 0: off */
    bool checkpoint;      /* gradient checkpointing per layer */
    bool compile;         /* compile updates: less host work */
    double neftune;       /* NEFTune's alpha (weft_model_call.embedding_noise); 0: off */
    uint64_t seed;        /* for dropout and noise: every update seeds the default generator */

    int64_t validate_every;      /* updates; 0: before the first and after the last only */
    int64_t patience;            /* stop after so many validations without a lower loss; 0: never */
    weft_train_sampler *sampler; /* called with `context`; may be NULL */
    int64_t validation_samples;  /* use only the first samples; 0: all */
    int64_t validation_batch;    /* samples per batch; 0: 8 */
    /* Samples of other text, whose loss before the first and after the last update shows what the
     * model forgets: next-token loss, one sample at a time. A failure to measure it is logged, or
     * in a group ends the run. Borrowed; NULL: not measured. */
    const weft_dataset *general;
    int64_t save_every;  /* updates between checkpoints; 0: by time only */
    double save_minutes; /* most minutes between checkpoints; 0: 10; below 0: by updates only */
    /* Fail after so many consecutive updates that are not finite (0: 5), and if all are. */
    int64_t max_skipped;

    const char *folder; /* NULL: nothing is written */
    /* If the folder has a run: resume it from its newest checkpoint, or overwrite it; WEFT_INVALID
     * without either. `resume` starts a run where there is none. */
    bool resume, overwrite;
    int64_t keep;               /* number of newest checkpoints to keep; 0: 2 */
    const char *const *command; /* (n_command): words stored in run.json for weft_run_command */
    int n_command;
    /* A tokenizer other than the base model's, saved with each adapter: the files of the folder or
     * GGUF file `tokenizer_path`, where those of `tokenizer`, an extended one, replace them. Both
     * may be NULL; borrowed. */
    const char *tokenizer_path;
    const weft_tokenizer *tokenizer;
    const char *chat_template; /* saved with each adapter as chat_template.jinja; NULL: none */
    const char *base_name;     /* of the model, for adapter_config.json and run.json; NULL: "" */
    const char *init_adapter;  /* that training begins with, for weft_trainer_verify; NULL: none */
    const char *data_name;     /* of the data, for run.json; NULL: "" */
    const weft_data_source *sources; /* (n_sources): of the data, for run.json; borrowed */
    int n_sources;
    const weft_data_source *validation_source; /* of separate validation data; or NULL */
    const weft_dataset_info *data; /* of the data, for run.json; borrowed; may be NULL */
    weft_train_callback *callback;
    /* Called with `context` during validation; may be NULL. Returning false ends
     * that validation without a loss; the run continues. */
    weft_evaluate_callback *validating;
    void *context;
    const weft_cancel *cancel; /* borrowed: stops the run after the update in progress or during
                                  sampling and validation, as the callback does; may be NULL */
    const weft_probe *probe;   /* borrowed: gets a training event per update; may be NULL */
    weft_group *group;         /* borrowed: the ranks that train together; NULL: this process */
} weft_trainer_options;

/* Trains the parameters of a model that are not frozen: the injected adapters, or without adapters
 * all parameters. */
typedef struct weft_trainer weft_trainer;

/* Creates a trainer in *out; free it with weft_trainer_free. Borrows the model, whose module tree
 * must not change meanwhile; copies the options, but not their strings. NULL options: all zero.
 * WEFT_INVALID if everything is frozen and for options out of range. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_new(weft_model *model,
                                                     const weft_trainer_options *options,
                                                     weft_trainer **out) WEFT_NONNULL(3);
WEFT_API void weft_trainer_free(weft_trainer *trainer);

/* One update from n batches, for programs with their own loop. In a group each rank has n batches
 * of its own; with an objective that compares vectors all ranks have the same batches, and each
 * computes a share of their examples. `lr_factor` multiplies the learning rate. Fills loss,
 * grad_norm, applied and tokens of *report unless NULL. WEFT_INVALID for batches that the objective
 * cannot use; other failures are those of weft_eval. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_step(weft_trainer *trainer,
                                                      const weft_batch *batches, int n,
                                                      double lr_factor, weft_train_report *report)
    WEFT_NONNULL(1);

typedef struct weft_train_result {
    int64_t steps;   /* updates made, applied or not */
    int64_t skipped; /* updates that were not finite */
    double loss;     /* of the last update that was applied */
    double first_validation, last_validation, best_validation; /* NaN without validation data */
    int64_t best_step;
    int64_t tokens;
    double seconds;                     /* of the whole run */
    double training_seconds;            /* of its updates, without validation and saving */
    int64_t peak_memory;                /* as in weft_train_report */
    int64_t peak_active;                /* weft_memory_peak */
    double first_general, last_general; /* losses of `general`; NaN: not measured */
} weft_train_result;

/* Runs all updates with their schedule, and validation on `validation` unless NULL. `result` may be
 * NULL. Dropout is on during updates and off afterwards. Creates the folder if necessary and
 * writes:
 *   run.json       the options, sizes of model and data, "state": "running", "finished", "stopped"
 *                  or "failed" with the "message", and at the end the result
 *   metrics.jsonl  one object per report: step, loss, grad_norm, lr, tokens, ...; loss and
 *                  grad_norm exactly, or null if not finite; validation_loss where measured
 *   loss.svg       the loss curve
 *   report.html    weft_run_report, written with each checkpoint and at the end
 *   step-N/        a checkpoint after update N: the adapter (without adapters the model) and
 *                  training.safetensors: the trained parameters, the optimizer's state and, as
 *                  JSON in the metadata, a version, hashes of base model, tokenizer and data, the
 *                  next batch, the seed and the results so far
 *   last           a link to the newest checkpoint; a folder with the adapter where the file system
 *                  has no links
 *   best/          the adapter with the lowest validation loss
 *   weights-N/     the final adapter, if the disk has no room for the last checkpoint
 *
 * Files. A file other than metrics.jsonl is complete or absent; metrics.jsonl ends with a complete
 * line. If a file cannot be written during the run, the run logs a warning and continues, and lines
 * of metrics.jsonl are written later. Only if those lines or the last checkpoint cannot be written
 * at the end does the run fail, with a message that lists what was saved.
 *
 * Checkpoints are written to a temporary folder, synced and renamed, so the newest one is always
 * complete. A resumed run ends with the same bytes as an uninterrupted one, on the same machine
 * with the same number of threads. Batches depend on the seed and their index; dropout depends on
 * the seed, the update and the batch within it. Resuming truncates metrics.jsonl to the checkpoint,
 * and replaces an unreadable checkpoint by the previous one, with a warning.
 *
 * Errors. WEFT_INVALID before anything else if the folder already has a run, or another process
 * writes to it. When resuming, WEFT_INVALID if the base model (with base_name as its path),
 * tokenizer, data, batch size, seed, accumulate, optimizer, objective, its options or the trained
 * parameters differ from the run's; the message names the difference. Other options may change.
 * WEFT_CANCELLED when the callback or `cancel` stopped the run, WEFT_INVALID after max_skipped;
 * both save a checkpoint first. */
WEFT_NODISCARD WEFT_API weft_status weft_trainer_run(weft_trainer *trainer, weft_batches *batches,
                                                     const weft_dataset *validation,
                                                     weft_train_result *result) WEFT_NONNULL(1);

#ifdef __cplusplus
}
#endif
#endif
