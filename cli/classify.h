/* cli/classify.h -- between classify.c, which reads and prints, and classify_choices.c, which asks
 * the model. */
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
    bool no_special, invariant, json;
} classify_values;

typedef struct classify_run {
    weft_tokenizer *tokenizer;
    weft_model *model;
    weft_engine *engine; /* the backend program, or NULL */
    cli_inputs texts;
} classify_run;

/* A token or a label that may follow. */
typedef struct classify_choice {
    const char *text;
    size_t length;
    int32_t id;     /* of a token */
    double logprob; /* of a label: the sum over its tokens */
    double share;   /* probability; of a label: among the labels; NaN: not known */
} classify_choice;

/* Prints the line of a text; the choices are sorted, the best first. */
void classify_print(const classify_values *v, const cli_input *t, const classify_choice *choices,
                    size_t n);

weft_status classify_by_token(const classify_values *v, classify_run *r);
weft_status classify_by_engine(const classify_values *v, classify_run *r);
weft_status classify_by_labels(const classify_values *v, classify_run *r);

#endif
