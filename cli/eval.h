/* cli/eval.h -- interface between eval.c (the command), the files that measure, and eval_table.c
 * (output). */
#ifndef CLI_EVAL_H
#define CLI_EVAL_H

#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/progress.h"
#include "weft/task.h"

/* The values of --task. */
enum { EVAL_LOSS, EVAL_EXACT, EVAL_CHOICES, EVAL_RETRIEVAL };

typedef struct eval_values {
    const char *model, *adapter, *details;
    cli_data_source source;
    cli_place place;
    cli_texts compare, stop;
    int task;
    int64_t window, batch_size, context, chunks, rows, max_tokens;
    double last;
    bool chat, force, json;
    cli_given given;
} eval_values;

/* A model, or a model with adapters, that is evaluated. */
typedef struct eval_subject {
    const char *name;
    const char *adapter; /* NULL: none */
    char path[4096];     /* of the model */
} eval_subject;

/* A mean and its standard error. */
typedef struct eval_metric {
    const char *name;
    double value;
    double error;   /* NaN: unknown */
    double *scores; /* (n of the result) the averaged values, owned; NULL: not kept */
    bool share;     /* shown in percent */
} eval_metric;

enum { EVAL_METRICS = 5 };

typedef struct eval_result {
    const char *name; /* name of the subject */
    eval_metric metrics[EVAL_METRICS];
    int n_metrics;
    int64_t n; /* number of averaged values: tokens for a loss, rows for a task or a classifier */
    bool rows; /* whether n counts rows */
    int64_t chunks; /* number of chunks with --context, else 0 */
    double seconds;
} eval_result;

/* The state of a measurement. */
typedef struct eval_run {
    const eval_values *values;
    const eval_subject *subject;
    weft_tokenizer *tokenizer;
    weft_chat *chat;     /* NULL: the model has no template */
    weft_labels *labels; /* labels of the classifiers; n 0: no subject is a classifier */
    weft_model *model;
    cli_progress *progress;
    FILE *details; /* --details, or NULL */
} eval_run;

/* Read --data: the rows of a task, freed with weft_task_rows_free, also after a failure; or the
 * text of all files and rows, freed with weft_free. */
weft_status eval_rows_read(const eval_values *v, weft_task_rows *out);
weft_status eval_text_read(const eval_values *v, char **text, size_t *length);

/* Whether a row's prompt is rendered with the chat template. Otherwise the tokenizer adds its
 * special tokens. */
bool eval_is_spoken(const eval_run *run, const weft_task_row *row);
/* Returns the text that precedes a row's answer. Free *text with weft_free. */
weft_status eval_prompt(const eval_run *run, const weft_task_row *row, char **text);

/* Evaluate all rows: --task exact by comparing generated answers, --task choices by the
 * log-probabilities of the choices. */
weft_status eval_exact(const eval_run *run, const weft_task_rows *rows, eval_result *out);
weft_status eval_choices(const eval_run *run, const weft_task_rows *rows, eval_result *out);
/* Reads --data in windows for the loss; for classifiers, reads rows with text and label. */
weft_status eval_load_data(const eval_run *run, weft_dataset **out);
/* Finds the labels of the classifiers among n subjects; out->n is 0 if there are none.
 * WEFT_INVALID when their labels differ. */
weft_status eval_find_labels(const eval_subject *subjects, int n, weft_labels *out);
/* Measures the loss and the accuracy of a classifier. For a model without a classification head
 * they are those of a predictor that uses the label frequencies of the data. */
weft_status eval_classifier(const eval_run *run, eval_result *out);
/* Ranks the passages of --data for its queries. */
weft_status eval_retrieval(const eval_run *run, eval_result *out);
/* Measure the loss on --data, and for --context the perplexity by chunks. */
weft_status eval_loss(const eval_run *run, eval_result *out);
weft_status eval_perplexity(const eval_run *run, weft_perplexity *out);

/* Adds the mean of n scores as a metric; takes ownership of `scores`. */
void eval_add_scores(eval_result *result, const char *name, double *scores, int64_t n);

/* Prints the results to standard output. The others are compared with the first. */
void eval_print(const eval_values *v, const eval_result *results, int n);

#endif
