/* cli/classify.h -- interface between classify.c (input and output) and classify_choices.c
 * (computes the model's choices). */
#ifndef CLI_CLASSIFY_H
#define CLI_CLASSIFY_H

#include "cli/common.h"
#include "cli/inputs.h"

typedef struct classify_values {
    const char *model, *file, *labels, *adapter, *backend, *logits;
    cli_words texts;
    cli_place place;
    int64_t top, batch_tokens, seed;
    double temperature;
    bool no_special, invariant, force, json;
} classify_values;

typedef struct classify_run {
    weft_tokenizer *tokenizer;
    weft_model *model;
    weft_engine *engine; /* the backend program, or NULL */
    cli_inputs texts;
} classify_run;

/* A candidate: a token or a label that may follow the text. */
typedef struct classify_choice {
    const char *text;
    size_t length;
    int32_t id;     /* token id */
    double logprob; /* for a label, the sum over its tokens */
    double share;   /* probability, for labels among the given labels; NaN: unknown */
} classify_choice;

/* Prints the line of a text. The choices are sorted, the most probable first. */
void classify_print(const classify_values *v, const cli_input *t, const classify_choice *choices,
                    size_t n);

weft_status classify_by_token(const classify_values *v, classify_run *r);
weft_status classify_by_engine(const classify_values *v, classify_run *r);
weft_status classify_by_labels(const classify_values *v, classify_run *r);

#endif
