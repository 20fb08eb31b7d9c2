/* cli/generate.h -- shared by generate.c (options) and generate_output.c (output). */
#ifndef CLI_GENERATE_H
#define CLI_GENERATE_H

#include "cli/caching.h"
#include "cli/sampling.h"

typedef struct generate_values {
    const char *model, *prompt, *file, *adapter, *json_schema, *batch, *draft, *backend;
    cli_place place;
    cli_sampling sampling;
    cli_caching caching;
    cli_texts stop;
    int64_t prefill, tokens_per_eval, batch_rows, draft_tokens, ngram;
    double timeout;
    bool ignore_eos, no_special, no_cache, shift, include_stop, json_value, echo, stats, json,
        invariant;
} generate_values;

typedef struct prompt_ids {
    char *text;
    size_t length;
    int32_t *ids;
    size_t n;
} prompt_ids;

/* What computes: a model, or an engine that is another program. */
typedef struct generate_source {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine; /* NULL: the model does */
} generate_source;

/* Generates and prints: as it comes, or with --json one object at the end. */
weft_status generate_print(const generate_values *values, const generate_source *source,
                           const prompt_ids *prompt, weft_generate_options *options,
                           weft_generate_stats *stats);

/* ---- generate_batch.c ----------------------------------------------------------------------- */

/* --batch: a text for each line of a file, `path` being the model's; prints a line for each as they
 * end. *good: none of them failed. */
weft_status generate_batch(const generate_values *values, const char *path, weft_model *model,
                           const weft_tokenizer *tokenizer, const weft_generate_options *options,
                           bool *good);

/* The model of --draft, NULL without it. */
weft_status generate_load_draft(const generate_values *values, const weft_tokenizer *tokenizer,
                                weft_model **out);

#endif
