/* cli/data_show.h -- interface between data.c (reading) and data_show.c (output). */
#ifndef CLI_DATA_SHOW_H
#define CLI_DATA_SHOW_H

#include "cli/train.h"

/* The options of --mine-negatives. */
typedef struct mine_values {
    const char *out; /* NULL: no negatives are mined */
    cli_texts corpus;
    int64_t num_negatives, range_min, range_max;
    double max_score, min_score, absolute_margin, relative_margin;
    int random, tuples; /* of their choices */
    bool scores;
} mine_values;

typedef struct data_values {
    const char *data, *model;
    cli_data_source source;
    double val_split;
    int64_t length, seed, show;
    const char *labels, *adapter;
    embed_choice embed;
    int train_on, objective, task;
    mine_values mine;
    cli_place place;
    bool json, jsonl, force;
    cli_given given;
} data_values;

typedef struct data_found {
    const weft_tokenizer *tokenizer;
    weft_dataset *data, *validation; /* validation NULL: none */
    const weft_labels *labels;       /* for --task classify, else NULL */
} data_found;

/* Prints sample i with marks before the trained parts, or as JSON segments. */
weft_status data_print_sample(const data_found *found, int64_t i, bool color);
weft_status data_print_segments(const data_found *found, const weft_sample *sample);

/* Print to standard output the number of samples with each label, if there are labels; the lengths
 * of the samples; and the numbers for labels again as a member of a JSON object, followed by a
 * comma. */
void data_print_labels(const data_found *found);
weft_status data_print_lengths(const data_found *found);
void data_json_labels(const data_found *found);

/* Prints to standard output the summary and the first samples; or the summary as a JSON object; or
 * every sample as a JSON object. */
weft_status data_print_summary(const data_values *v, const data_found *found);
weft_status data_print_json(const data_found *found);
weft_status data_print_samples(const data_found *found);

/* --mine-negatives: finds negatives of the pairs, writes them, and prints a summary. */
weft_status data_mine(const data_values *v);

#endif
