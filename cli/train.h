/* cli/train.h -- between train.c, which runs, and train_report.c, which tells. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli/common.h"
#include "cli/progress.h"

/* The values of --train-on. */
enum { TRAIN_ON_TURNS, TRAIN_ON_LAST, TRAIN_ON_EVERYTHING };

typedef struct train_values {
    const char *model, *data, *batches, *out, *val_data, *targets, *init_adapter;
    cli_place place;
    double val_split, epochs, lr, weight_decay, clip, alpha, dropout;
    double save_minutes;
    int64_t val_every, save_every, steps, batch_size, accumulate, length, warmup, seed, rank;
    int schedule, adapter_dtype, train_on;
    bool checkpoint, compile, rslora, json, overwrite;
} train_values;

/* What a run has open. */
typedef struct train_run {
    char path[4096]; /* of the model */
    weft_model *model;
    weft_tokenizer *tokenizer;       /* NULL with --batches */
    weft_chat *chat;                 /* NULL: the model has no chat template */
    weft_dataset *data, *validation; /* NULL: none */
    weft_batches *batches;
    weft_trainer *trainer;
    weft_train_result result;
    double latest_validation; /* the latest, for the bar */
    cli_progress progress;
} train_run;

/* From now on SIGINT, SIGTERM and SIGHUP (unless it was ignored, as by nohup) set *cancel, which
 * lasts as long as the program, and say so on standard error; a second SIGINT or SIGTERM ends the
 * program. SIGPIPE is ignored: a pipe that is closed must not end a run. */
weft_status train_catch_signals(const weft_cancel **cancel);
/* The signal that set it; 0: none. */
int train_stop_signal(void);

/* What is about to be done, on standard error. */
void train_print_plan(const train_values *v, const train_run *r, const weft_trainer_options *o);

/* The callback of the trainer. */
weft_train_callback train_show;

/* What came out, on standard output. */
void train_print_result(const train_values *v, const train_run *r);

#endif
