/* cli/train.h -- between train.c, which runs, train_options.c, which has the options, and the files
 * that do parts of a run. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/progress.h"
#include "cli/words.h"

/* The values of --task. */
enum { TRAIN_GENERATE, TRAIN_CLASSIFY };

/* The values of --train-on. */
enum { TRAIN_ON_TURNS, TRAIN_ON_LAST, TRAIN_ON_EVERYTHING };

typedef struct train_values {
    const char *model, *batches, *out, *val_data;
    const char *schedule, *optimizer_options;
    cli_data_source source;
    cli_place place;
    const char *config;
    cli_texts sample_prompts;
    int64_t patience;
    double val_split, max_memory, epochs, lr, weight_decay, clip, neftune;
    double save_minutes;
    int64_t val_every, save_every, steps, batch_size, micro_batch, accumulate, length, warmup, seed;
    const char *labels;
    int optimizer, train_on, objective, task;
    double beta, label_smoothing, gamma, desirable_weight, undesirable_weight;
    int64_t keep;
    bool pack, checkpoint, compile, json, dry_run, overwrite, resume;
    cli_given given;
    /* The adapter. */
    const char *targets, *init_adapter, *rank_pattern, *alpha_pattern, *whole;
    const char *train_tokens, *add_tokens;
    double alpha, dropout, lora_plus;
    int64_t rank, layers;
    int adapter_dtype;
    bool rslora, dora, pissa;
} train_values;

/* The words of --optimizer: the names of the types. */
#define TRAIN_OPTIMIZERS                                                                           \
    "adamw|adamw8bit|adam|adamax|sgd|rmsprop|adagrad|adadelta|lion|adafactor|muon"

/* The options of the optimizer named by --optimizer. */
typedef union train_optimizer_options {
    weft_optim_sgd_options sgd;
    weft_optim_rmsprop_options rmsprop;
    weft_optim_adagrad_options adagrad;
    weft_optim_adadelta_options adadelta;
    weft_optim_adam_options adam;
    weft_optim_adamw_options adamw;
    weft_optim_lion_options lion;
    weft_optim_adafactor_options adafactor;
    weft_optim_muon_options muon;
} train_optimizer_options;

/* What a run has open. */
typedef struct train_run {
    const train_values *values;
    int64_t planned;     /* updates, unless validation ends the run before */
    bool configured;     /* config.json was written */
    cli_word_list words; /* train_words */
    train_optimizer_options optimizer_options;
    char path[4096]; /* of the model */
    weft_model *model;
    char *text_path;                    /* of the tokenizer and its files; NULL: not opened */
    weft_tokenizer *tokenizer;          /* NULL with --batches */
    weft_labels labels;                 /* of --task classify */
    weft_chat *chat;                    /* NULL: the model has no chat template */
    weft_dataset *data, *validation;    /* NULL: none */
    weft_dataset_info data_info;        /* of data */
    weft_data_source sources[CLI_MOST]; /* of data or of the batches, for run.json */
    weft_batches *batches;
    weft_trainer *trainer;
    weft_train_result result;
    weft_train_sample *samples; /* (n_samples): the latest; texts are owned, prompts are not */
    int n_samples;
    double latest_validation, latest_accuracy; /* for the bar */
    double reloaded_validation; /* of the adapter in best/, loaded again; NaN: not measured */
    cli_progress progress;
} train_run;

/* Runs weft train with its parsed values; the exit status. */
int train_command(void *values);

/* The error if options exclude each other or one lacks another; NULL: none. */
const char *train_complaint(const train_values *v);
/* The error for an option that has no effect with the others, or NULL. */
const char *train_ignored_complaint(const train_values *v);
/* WEFT_INVALID when --out has a run that the options neither continue nor delete, WEFT_IO when it
 * cannot be written or its disk is full; the same on every rank. */
weft_status train_check_out(const train_values *v);

/* Opens tokenizer, chat template, data, validation data and batches, for the model at r->path. */
weft_status train_open_data(const train_values *v, train_run *r);

/* From now on SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless it was ignored, as by nohup) set *cancel,
 * which lasts as long as the program, and say so on standard error; a second SIGINT or SIGTERM ends
 * the program. SIGPIPE and SIGXFSZ are ignored: a pipe that is closed or a file that would be too
 * large must not end a run. */
weft_status train_catch_signals(const weft_cancel **cancel);
/* The signal that set it; 0: none. */
int train_stop_signal(void);

/* An option of the adapter that was given though --init-adapter brings it; NULL: none. */
const char *train_adapter_conflict(const train_values *v);
bool train_is_of_adapter(const char *name); /* an option that describes the adapter */
/* Runs with the options of --config that the command line does not replace; the exit status. A file
 * that is malformed or has an unknown option is a failure that names both. */
int train_with_config(train_values *v, int (*run)(train_values *v));
/* Whether two values of an option are equivalent. */
bool train_same_value(const char *a, const char *b);
/* Writes train_words as config.json into the run's folder. */
weft_status train_write_config(const train_values *v, const cli_word_list *words);
/* Measures memory and time and prints them; WEFT_MEMORY when the run does not fit. */
weft_status train_dry_run(const train_values *v, train_run *r, const weft_trainer_options *options);

/* Bytes that this process may take: --max-memory, or its part of the device's memory; 0: unknown.
 */
int64_t train_memory(const train_values *v);

/* Limits arrays to train_memory. */
weft_status train_limit_memory(const train_values *v, const train_run *r);

/* The error of a run that is out of memory: WEFT_MEMORY, with settings that would fit and their
 * memory. */
weft_status train_out_of_memory(const train_values *v, train_run *r,
                                const weft_trainer_options *options);
/* The command line with its defaults, for a run that is resumed. */
cli_word_list train_words(const train_values *v);
/* Reads the options that were not given from the run in --out. `words` (the caller's, to be freed
 * after the values) has their texts. WEFT_INVALID when one that was given would make another run.
 */
weft_status train_resume(train_values *v, cli_word_list *words);

/* ---- train_ranks.c: one rank of several ----------------------------------------------------- */

/* Finds out which rank this process is; all but the first print nothing from then on. */
weft_status train_open_ranks(void);
/* Waits for the others; `code` is this rank's exit status. */
void train_close_ranks(int code);
weft_group *train_ranks(void); /* NULL: they are not open */
bool train_is_first(void);
/* What makes no sense on several ranks; NULL: nothing. */
const char *train_ranks_complaint(const train_values *v);
/* A batch for each rank in an update, and this rank's device and threads on its machine, unless the
 * options say otherwise. `status` is how this rank found its options. */
weft_status train_share_machine(train_values *v, weft_status status);
/* How many ranks of this machine compute on this one's device, this one included. */
int train_device_sharers(void);

/* The words of --objective: the names of weft_objectives. */
#define TRAIN_OBJECTIVES "supervised|dpo|orpo|simpo|kto"
#define LABELS_COMPLAINT "--labels is for --task classify"
#define TRAIN_ON_EVERYTHING_COMPLAINT "--train-on everything is for --objective supervised"

const weft_objective *train_objective(const train_values *v);
weft_objective_options train_objective_options(const train_values *v);
/* What makes no sense beside --objective; NULL: nothing. */
const char *train_objective_complaint(const train_values *v);
/* Adds the reference log-probabilities to the run's data, if the objective needs them. */
weft_status train_add_reference(const train_values *v, train_run *r);

/* The type of --optimizer. */
const weft_optim_type *train_optimizer(const train_values *v);
/* Reads --optimizer-options and checks --schedule; WEFT_INVALID for malformed text. */
weft_status train_read_texts(const train_values *v, train_run *r);
/* Puts the adapter that the options describe around the model's linears. */
weft_status train_add_adapter(const train_values *v, train_run *r);

/* What makes no sense beside --task; NULL: nothing. */
const char *train_classify_complaint(const train_values *v);
/* The same of weft data. */
const char *classify_complaint(const weft_objective *objective, int train_on);
/* The labels of a list ("A,B,C"), or, where that is NULL, those of the data, sorted. */
weft_status classify_find_labels(const cli_data_source *source, const char *list,
                                 const weft_tokenizer *tokenizer, const weft_dataset_options *o,
                                 weft_labels *out);
/* With --task classify: finds the labels, and has texts read with them. */
weft_status train_find_labels(const train_values *v, train_run *r, weft_dataset_options *o);
/* Puts the classification head in; with --init-adapter that does. */
weft_status train_add_head(const train_values *v, const train_run *r);
void train_print_labels(const train_run *r); /* a line of the plan */

/* The run's tokenizer, once: that of --init-adapter or the model, with --add-tokens. */
weft_status train_open_tokenizer(const train_values *v, train_run *r);
/* What the trainer saves of it. */
void train_put_tokenizer(const train_values *v, const train_run *r, weft_trainer_options *o);
/* Makes the rows of --train-tokens and --add-tokens trainable; a tied head shares them. */
weft_status train_add_tokens(const train_values *v, train_run *r);
void train_print_tokens(const train_run *r); /* a line of the plan, where tokens are new */

/* What is trained, as part of the plan on standard error. */
void train_print_adapter(const train_values *v, const train_run *r);

/* What is about to be done, on standard error. */
void train_print_plan(const train_values *v, const train_run *r, const weft_trainer_options *o);

/* The sampler of the trainer, and the end of what it made. */
weft_train_sampler train_sample;
void train_free_samples(train_run *r);

/* The callback of the trainer. */
weft_train_callback train_show;

/* After a supervised run with validation: frees trainer and model, loads the adapter in best/ and
 * measures its validation loss, which should be what it was in the run; unless it is cancelled. */
weft_status train_reload(const train_values *v, train_run *r, const weft_cancel *cancel);
/* Whether the loss is the run's within 0.1%. */
bool train_reloaded_well(const train_run *r);

/* What came out, on standard output. */
void train_print_result(const train_values *v, const train_run *r);

#endif
