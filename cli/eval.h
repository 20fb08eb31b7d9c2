/* cli/eval.h -- between eval.c, which runs, the files that measure, and eval_table.c, which
 * prints. */
#ifndef CLI_EVAL_H
#define CLI_EVAL_H

#include "cli/common.h"
#include "cli/data_options.h"
#include "cli/lines.h"
#include "cli/progress.h"

/* The values of --task. */
enum { EVAL_LOSS, EVAL_EXACT, EVAL_CHOICES };

typedef struct eval_values {
    const char *model, *adapter, *details;
    cli_data_source source;
    cli_place place;
    cli_texts compare, stop;
    int task;
    int64_t window, batch_size, context, chunks, rows, max_tokens;
    double last;
    bool chat, json;
    cli_given given;
} eval_values;

/* What is measured: a model, or a model with adapters. */
typedef struct eval_subject {
    const char *name;
    const char *adapter; /* NULL: none */
    char path[4096];     /* of the model */
} eval_subject;

/* A mean with its standard error. */
typedef struct eval_metric {
    const char *name;
    double value;
    double error;   /* NaN: unknown */
    double *scores; /* (n of the result) the values of the mean, owned; NULL: not kept */
    bool share;     /* shown in percent */
} eval_metric;

enum { EVAL_METRICS = 2 };

typedef struct eval_result {
    const char *name; /* of the subject */
    eval_metric metrics[EVAL_METRICS];
    int n_metrics;
    int64_t n;      /* tokens of a loss, rows of a task or a classifier */
    bool rows;      /* n is of rows */
    int64_t chunks; /* of --context, else 0 */
    double seconds;
} eval_result;

/* One row of a task. */
typedef struct eval_row {
    const char *file;
    size_t line;
    json_object *object; /* owns the texts */
    const char *prompt;  /* NULL: `messages` */
    json_object *messages;
    const char **texts; /* (n_texts) answers that are right, or choices */
    int n_texts;
    int answer; /* the choice that is right */
} eval_row;

typedef struct eval_rows {
    eval_row *at;
    size_t n, room;
    int64_t bad;      /* malformed rows that were skipped */
    cli_lines *files; /* (n_files) which own the lines */
    int n_files;
} eval_rows;

/* What a measurement has open. */
typedef struct eval_run {
    const eval_values *values;
    const eval_subject *subject;
    weft_tokenizer *tokenizer;
    weft_chat *chat;     /* NULL: the model has no template */
    weft_labels *labels; /* of classifiers; n 0: there are none among what is measured */
    weft_model *model;
    cli_progress *progress;
    FILE *details; /* --details, or NULL */
} eval_run;

/* Reads the rows of --data for a task, "file:line: ..." in messages; skips as many malformed ones
 * as --max-bad-rows allows. Free with eval_rows_free, after a failure too. */
weft_status eval_rows_read(const eval_values *v, eval_rows *out);
void eval_rows_free(eval_rows *rows);

/* The text in front of a row's answer, in new memory (weft_free): its prompt, or what the chat
 * template makes of it, with *special whether the tokenizer adds its tokens. */
weft_status eval_prompt(const eval_run *run, const eval_row *row, char **text, bool *special);

/* Exact match of generated answers, and choices by log-probability, of each row. */
weft_status eval_exact(const eval_run *run, const eval_rows *rows, eval_result *out);
weft_status eval_choices(const eval_run *run, const eval_rows *rows, eval_result *out);
/* Reads --data for a loss, in windows; of classifiers, rows with text and label. */
weft_status eval_load_data(const eval_run *run, weft_dataset **out);
/* The labels of the adapters among n subjects; n 0: none of them is a classifier's. WEFT_INVALID
 * when they differ. */
weft_status eval_find_labels(const eval_subject *subjects, int n, weft_labels *out);
/* The loss and the accuracy of a classifier; of a model without its head those of the frequencies
 * that labels have in the data. */
weft_status eval_classifier(const eval_run *run, eval_result *out);
/* The loss of --data, and perplexity by chunks for --context. */
weft_status eval_loss(const eval_run *run, eval_result *out);
weft_status eval_perplexity(const eval_run *run, weft_perplexity *out);

/* Adds a metric whose mean is of n scores, which it takes. */
void eval_add_scores(eval_result *result, const char *name, double *scores, int64_t n);

/* The results on standard output, the first as what the others are compared with. */
void eval_print(const eval_values *v, const eval_result *results, int n);

#endif
