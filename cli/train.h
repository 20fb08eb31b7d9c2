/* cli/train.h -- interface between train.c (the run), train_options.c (the options) and the files
 * for parts of a run. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/progress.h"
#include "cli/words.h"
#include "weft/batch.h"

/* The values of --task. */
enum { TRAIN_GENERATE, TRAIN_CLASSIFY, TRAIN_EMBED };

/* The values of --train-on. */
enum { TRAIN_ON_TURNS, TRAIN_ON_LAST, TRAIN_ON_EVERYTHING };

/* How --task embed makes vectors, beside what the checkpoint says; NULL and -1: as it says. */
typedef struct embed_choice {
    const char *query_prompt, *passage_prompt;
    int pooling; /* a weft_pooling */
} embed_choice;

typedef struct train_values {
    weft_trainer_options trainer; /* as the options say; train.c adds what depends on the run */
    weft_nn_lora_options lora;    /* as the options say; train_adapter.c adds its lists */
    const char *model, *batches, *completions, *out, *val_data, *optimizer_options;
    cli_data_source source;
    cli_place place;
    const char *config;
    cli_texts sample_prompts;
    double val_split, max_memory, clip;
    int64_t val_every, batch_size, length, warmup;
    const char *labels, *dimensions;
    embed_choice embed;
    cli_texts rewards;          /* their descriptions */
    const char *reward_weights; /* NULL: 1 each */
    double reward_seconds;
    const char *teacher, *teacher_file, *teacher_system;
    const char *general;    /* file of the general text; NULL: the built-in one; "none" */
    weft_sampling sampling; /* as the options say; train_rewards.c adds what depends on the run */
    int optimizer, train_on, objective, task;
    bool pack, json, dry_run;
    cli_given given;
    /* Options of the adapter. */
    const char *targets, *init_adapter, *rank_pattern, *alpha_pattern, *whole;
    const char *train_tokens, *add_tokens;
    int64_t layers;
    int adapter_dtype;
    bool full;                          /* all parameters are trained, without an adapter */
    const struct verify_values *verify; /* weft verify: checks a run; NULL: trains */
} train_values;

/* The state of a run. */
typedef struct train_run {
    const train_values *values;
    const weft_cancel *cancel; /* of reading data and of the reference; NULL: they end by
                                  themselves */
    int64_t planned;           /* number of updates, unless validation ends the run early */
    bool differs;              /* weft verify: from what was recorded */
    bool configured;           /* whether config.json has been written */
    cli_word_list words;       /* train_words */
    void *optimizer_options;   /* the struct of the optimizer's type */
    char path[4096];           /* path of the model */
    weft_model *model;
    char *text_path;           /* location of the tokenizer's files; NULL: not opened */
    weft_tokenizer *tokenizer; /* NULL with --batches */
    weft_labels labels;        /* labels for --task classify */
    weft_embed_settings embed; /* settings for --task embed */
    weft_chat *chat;           /* NULL: the model has no chat template */
    weft_model *teacher;       /* of distillation; NULL: none, or stored */
    char teacher_path[4096];   /* of --teacher; "": none */
    int64_t storing;           /* bytes of a teacher whose distributions are stored first */
    weft_rewards *rewards;     /* NULL: completions have no rewards */
    double reward_weights[CLI_MOST];
    int32_t *stop; /* ends turns of the chat template; NULL: the model's ids */
    weft_sampling sampling;
    weft_dataset *data, *validation;    /* NULL: none */
    weft_dataset *general;              /* windows of the general text; NULL: not measured */
    weft_dataset_info data_info;        /* information about `data` */
    bool validation_given;              /* `validation` is not split from `data` */
    int64_t vocabulary;                 /* of the model; 0: not known yet */
    int64_t positions;                  /* the most of an encoder's text; 0: not a limit */
    weft_data_source sources[CLI_MOST]; /* sources of the data or the batches, for run.json */
    weft_data_source validation_source; /* of --val-data; its path NULL: none */
    weft_batches *batches;
    weft_trainer *trainer;
    weft_train_result result;
    weft_train_sample *samples; /* (n_samples) the latest samples; owns prompts and texts */
    int n_samples;
    double latest_validation, latest_accuracy; /* shown beside the progress bar */
    double loss_sum, loss_weight;              /* of the smoothed loss that is shown */
    double smoothed; /* that loss at the last update; at the lowest validation loss, 0: none */
    double loss_at_best, lowest_validation;
    int64_t updates;            /* made by this process */
    double reloaded_validation; /* validation loss of the adapter in best/ after reloading; NaN: not
                                   measured */
    cli_progress progress;
} train_run;

/* Runs weft train with its parsed values; returns the exit status. */
int train_command(void *values);
/* The same for options that --config does not complete. */
int train_parsed(train_values *v);
/* verify.c: checks the run in the folder, which is only read. */
weft_status train_verify(const train_values *v, train_run *r, const weft_trainer_options *options);
/* The trainer's options of a run whose data is open. */
weft_trainer_options train_trainer_options(const train_values *v, train_run *r);
/* Frees what the run owns, the model too. */
void train_free(train_run *r);

/* The usage error if options exclude each other or a required option is missing; NULL: none. */
const char *train_complaint(const train_values *v);
/* Checks --out, with the same result on every rank. WEFT_INVALID if it contains a run and neither
 * --resume nor --overwrite is given; WEFT_IO if it cannot be written or its disk is full. */
weft_status train_check_out(const train_values *v);

/* Opens the tokenizer, chat template, data, validation data and batches for the model at r->path.
 */
weft_status train_open_data(const train_values *v, train_run *r);
/* Checks that the data's tokens are in the vocabulary of the model, which is loaded. If not, reads
 * the data again, which fails at the file and row. */
weft_status train_check_ids(const train_values *v, train_run *r);

/* Warns about samples with more tokens than the model has positions. */
void train_check_length(const train_run *r);

/* Whether neither --val-split nor --val-data decides about validation: large data is then split. */
bool train_splits_by_default(const train_values *v);

/* Whether the chat template rendered rows of the data: the model is then used in chats. */
bool train_in_chats(const train_run *r);

/* Installs signal handlers. SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless it is ignored, as with
 * nohup) set *cancel, which is never freed, and print a notice on standard error; a second signal
 * other than SIGHUP has its default action. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe
 * or a file size limit does not end a run. */
weft_status train_catch_signals(const weft_cancel **cancel);
/* The signal that stopped the run; 0: none. */
int train_stop_signal(void);

/* The usage error for an option of the adapter that was given although --init-adapter determines
 * it, or although --full trains no adapter; NULL: none. */
const char *train_adapter_conflict(const train_values *v);
/* Whether --init-adapter determines the option, or --full does not use it. */
bool train_is_unused(const train_values *v, const cli_option *option);
/* Adds the options of --config that the command line does not set, and calls `run`; returns the
 * exit status. The message for a malformed file or an unknown option names the file and the option.
 */
int train_with_config(train_values *v, int (*run)(train_values *v));
/* Writes the options in `words` (train_words) to config.json in the run's folder. */
weft_status train_write_config(const train_values *v, const cli_word_list *words);
/* --dry-run: measures and prints memory and time. WEFT_MEMORY when the run does not fit. */
weft_status train_dry_run(const train_values *v, train_run *r, const weft_trainer_options *options);

/* The sizes of the batches in an epoch, as rows x columns including padding. */
typedef struct train_epoch {
    int64_t batches, tokens; /* tokens, including padding */
    int64_t largest;         /* index of the batch with the most tokens */
    int64_t rows, columns;   /* shape of the largest batch */
    int unit;                /* rows per example: 2 for a preference pair, else 1 */
    bool packed_pairs; /* rows contain pairs; estimated as pairs of two samples that each fill half
                          a row */
} train_epoch;

/* WEFT_CANCELLED once `cancel` is set, which may be NULL. */
weft_status train_check_cancel(const weft_cancel *cancel);
/* Makes all batches of an epoch. WEFT_CANCELLED once `cancel` is set, which may be NULL. */
weft_status train_read_epoch(const train_values *v, train_run *r, const weft_cancel *cancel,
                             train_epoch *out);
/* What an update with the largest batch needs beside the adapter and what other threads use, in
 * *bytes: an estimate from small batches if it exceeds what the memory limit leaves, else measured.
 * Sets options->micro_batch to what fits, if it may be chosen. WEFT_CANCELLED as options->cancel
 * says. */
weft_status train_measure(const train_values *v, train_run *r, const train_epoch *epoch,
                          weft_trainer_options *options, int64_t *bytes);

/* The memory limit of this process in bytes: --max-memory, or its share of the device's memory; 0:
 * unknown. */
int64_t train_memory(const train_values *v);

/* A device over which the layers are spread, if several are given. */
typedef struct train_device {
    const char *name;
    int64_t peak, memory; /* bytes: of arrays since the last reset, and the device's own */
} train_device;

/* Their number; 0: the model is on one device. */
int train_devices(const train_values *v, train_device out[WEFT_MODEL_DEVICES]);
/* As many batches of an update as a trainer computes at the same time, but at least 2. */
int train_batches_at_a_time(const train_values *v, int64_t accumulate);
void train_print_devices(const train_device *devices, int n, bool json);

/* Limits the memory of arrays to train_memory. */
weft_status train_limit_memory(const train_values *v, const train_run *r);

/* Fails with WEFT_MEMORY and a message that suggests settings that fit, with their memory. */
weft_status train_out_of_memory(const train_values *v, train_run *r,
                                const weft_trainer_options *options);
/* The command line with its defaults, which is saved so that the run can be resumed. */
cli_word_list train_words(const train_values *v);
/* --resume: sets options that were not given to those of the run in --out. `words` owns their
 * texts; the caller frees it after the values. WEFT_INVALID when a given option would change the
 * model, the data or the adapter. */
weft_status train_resume(train_values *v, cli_word_list *words);

/* ---- train_ranks.c: distributed training ---------------------------------------------------- */

/* Joins the group of processes. All ranks except the first print nothing from then on. */
weft_status train_open_ranks(void);
/* Waits for the other ranks and leaves the group. `code` is this rank's exit status. */
void train_close_ranks(int code);
weft_group *train_ranks(void); /* the group of ranks; NULL: not open */
bool train_is_first(void);
/* Sets defaults for several ranks: one batch per rank in an update, and this rank's device and
 * threads on its machine. `status` is the result of checking this rank's options; every rank fails
 * if one does. */
weft_status train_share_machine(train_values *v, weft_status status);
/* The number of ranks on this machine that use this rank's device, including this rank. */
int train_device_sharers(const train_values *v);

const char *train_objective_name(int i); /* of the i-th objective; NULL after the last */

/* The rules for --task, --objective and --train-on in train and data. */
#define TRAIN_TRAIN_ON_RULE(WORD)                                                                  \
    {                                                                                              \
        "task=classify train-on=" WORD, NULL,                                                      \
            "--train-on is for --task generate: of a text with a label the label is trained"       \
    }
#define TRAIN_NO_CHAT_RULE(NAME)                                                                   \
    {                                                                                              \
        "task=classify " NAME, NULL,                                                               \
            "--task classify reads texts with labels: no --system and no --template"               \
    }
#define TRAIN_NOT_OF_EMBED(NAME)                                                                   \
    {                                                                                              \
        "task=embed " NAME, NULL, "--" NAME " is not for --task embed"                             \
    }
/* `IS`: whether the objective compares texts; `IS_NOT`: the opposite. */
#define TRAIN_TASK_RULES(IS, IS_NOT)                                                               \
    {"labels !task=classify", NULL, "--labels is for --task classify"},                            \
        {"task=classify !objective=supervised", NULL, "--objective is for --task generate"},       \
        {"!task=embed", IS, "this --objective is for --task embed"},                               \
        {"task=embed", IS_NOT, "this --objective is for --task generate"},                         \
        {"query-prompt !task=embed", NULL, "--query-prompt is for --task embed"},                  \
        {"passage-prompt !task=embed", NULL, "--passage-prompt is for --task embed"},              \
        TRAIN_NOT_OF_EMBED("train-on"), TRAIN_NOT_OF_EMBED("system"),                              \
        TRAIN_NOT_OF_EMBED("template"), TRAIN_TRAIN_ON_RULE("last"),                               \
        TRAIN_TRAIN_ON_RULE("everything"), TRAIN_NO_CHAT_RULE("system"),                           \
        TRAIN_NO_CHAT_RULE("template"),                                                            \
    {                                                                                              \
        "!objective=supervised train-on=everything", NULL,                                         \
            "--train-on everything is for --objective supervised"                                  \
    }

/* The objective by its number; the default of --task embed. */
const weft_objective *train_objective_of(int task, int objective);
const weft_objective *train_objective(const train_values *v);
/* Whether its batches cannot be computed in parts. */
bool train_needs_whole_batches(const train_values *v);
/* Whether the objective is one with rewards. */
bool train_has_rewards(const train_values *v);
/* Whether completions of prompts are sampled. */
bool train_samples(const train_values *v);
/* The completions of a prompt. */
int64_t train_group(const train_values *v);
int64_t train_most_tokens(const train_values *v); /* of a completion */
/* Opens the prompts and the rewards. */
weft_status train_open_prompts(const train_values *v, train_run *r, const weft_dataset_options *o);
/* Finds the token that ends a turn of the chat template, for sampling. */
weft_status train_find_stop(train_run *r);
/* Opens the samples that the teacher reads, after the data. */
weft_status train_open_teacher_samples(const train_values *v, train_run *r,
                                       const weft_dataset_options *o, double split);
/* Opens the general text, after the model. */
weft_status train_open_general(const train_values *v, train_run *r);
/* Opens a stored teacher, or stores it, before the model is loaded. */
weft_status train_store_teacher(const train_values *v, train_run *r);
/* The bytes of a model's parameters on the device. */
int64_t train_model_bytes(const train_values *v, weft_model *model);
/* The tokens of the longest completion that is sampled after a prompt of the data, with the prompt;
 * 0: none is sampled. */
int64_t train_sampled_length(const train_values *v, const train_run *r);
/* Opens the teacher, after the model. */
weft_status train_open_teacher(const train_values *v, train_run *r);
void train_print_rewards(const train_values *v); /* prints a line of the plan */
/* The field of an objective's options that an option of the command sets; NULL: none. */
const weft_field *train_objective_field(const weft_objective *objective, const cli_option *option);
/* Adds reference log-probabilities to the run's data if the objective needs them. */
weft_status train_add_reference(const train_values *v, train_run *r);

/* The optimizer type selected by --optimizer. */
const weft_optim_type *train_optimizer(const train_values *v);
/* Reads --optimizer-options and checks --schedule; WEFT_INVALID for malformed text. */
weft_status train_read_texts(const train_values *v, train_run *r);
/* Adds the adapter that the options describe to the model's linears. */
weft_status train_add_adapter(const train_values *v, train_run *r);

/* The labels of the model at `path`, which may be listed again; if it has none, reads them from a
 * list ("A,B,C"); if that is NULL, collects those of the data, sorted. */
weft_status classify_find_labels(const cli_data_source *source, const char *path, const char *list,
                                 const weft_tokenizer *tokenizer, const weft_dataset_options *o,
                                 weft_labels *out);
/* With --task classify: finds the labels and sets them in the dataset options. */
weft_status train_find_labels(const train_values *v, train_run *r, weft_dataset_options *o);
/* Adds the classification head, unless --init-adapter loads one. */
weft_status train_add_head(const train_values *v, const train_run *r);
void train_print_labels(const train_run *r); /* prints a line of the plan */

/* Reads numbers as in "384,128"; NULL: none. WEFT_INVALID for other text. */
weft_status embed_read_dimensions(const char *list, weft_dims *out);
/* The settings of a model with an adapter, or NULL: those beside the adapter, else the model's.
 * `prompt` as in weft_embed_settings_load. */
weft_status embed_settings_of(const char *path, const char *adapter, const char *prompt,
                              weft_embed_settings *out);
/* Reads these settings and replaces what the options choose. `out` is zeroed or has earlier
 * settings. */
weft_status embed_open(const char *path, const char *adapter, const embed_choice *choice,
                       weft_embed_settings *out);
/* Fails if the settings have a prompt that is not empty and exclude prompts. */
weft_status embed_check_prompts(const char *path, const weft_embed_settings *settings);
/* The most tokens of a text: --length if it is given, else at most the settings'. */
int64_t embed_length(const weft_embed_settings *settings, bool given, int64_t length);
/* With --task embed: checks the length of texts against the positions of an encoder, which is
 * loaded. Sets *again if the data must be read again with fewer tokens. */
weft_status train_check_texts(const train_values *v, train_run *r, bool *again);
/* With --task embed: reads the settings and puts length and prompts into the dataset options. */
weft_status train_open_embed(const train_values *v, train_run *r, weft_dataset_options *o);
/* The objective's options of the run. */
weft_objective_options train_objective_options(const train_values *v, const train_run *r);

/* Opens the run's tokenizer if it is not open yet: that of --init-adapter or the model, extended by
 * --add-tokens. */
weft_status train_open_tokenizer(const train_values *v, train_run *r);
/* Sets the trainer's options for saving the tokenizer. */
void train_put_tokenizer(const train_values *v, const train_run *r, weft_trainer_options *o);
/* Makes the embedding rows of --train-tokens and --add-tokens trainable, and their rows of the
 * head. A tied head shares them. */
weft_status train_add_tokens(const train_values *v, train_run *r);
void train_print_tokens(const train_run *r); /* prints a line of the plan if tokens were added */

/* Prints what is trained, as part of the plan, on standard error. */
void train_print_adapter(const train_values *v, const train_run *r);

/* Prints the plan of the run on standard error. */
void train_print_plan(const train_values *v, const train_run *r, const weft_trainer_options *o);

/* The trainer's callback for samples; the second function frees them. */
weft_train_sampler train_sample;
void train_free_samples(train_run *r);

/* The trainer's callbacks for the progress of updates and of a validation. */
weft_train_callback train_show;
weft_evaluate_callback train_show_validation;

/* After a run with validation: frees trainer and model, loads the adapter in best/, and measures
 * its validation loss, which should equal the one during the run. Does nothing more once cancelled.
 */
weft_status train_reload(const train_values *v, train_run *r, const weft_cancel *cancel);
/* Whether the validation loss after reloading is within 0.1% of the one during the run. */
bool train_reloaded_well(const train_run *r);

/* Prints the result of the run on standard output. */
void train_print_result(const train_values *v, const train_run *r);

#endif
