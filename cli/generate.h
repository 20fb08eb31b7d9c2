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
    bool ignore_eos, no_special, no_cache, shift, include_stop, json_value, schema_open, echo,
        stats, json, invariant;
} generate_values;

typedef struct prompt_ids {
    char *text;
    size_t length;
    int32_t *ids;
    size_t n;
} prompt_ids;

/* A model, or an engine of another program, that generates. */
typedef struct generate_source {
    weft_model *model;
    weft_tokenizer *tokenizer;
    weft_engine *engine; /* NULL: the model generates */
} generate_source;

/* Generates, and prints text as it is generated or, with --json, one object at the end. */
weft_status generate_print(const generate_values *values, const generate_source *source,
                           const prompt_ids *prompt, weft_generate_options *options,
                           weft_generate_stats *stats);

/* ---- generate_batch.c ----------------------------------------------------------------------- */

/* --batch: generates a text for each line of a file and prints a line when each ends. `path` is the
 * model's path. *good: no line failed. */
weft_status generate_batch(const generate_values *values, const char *path, weft_model *model,
                           const weft_tokenizer *tokenizer, const weft_generate_options *options,
                           bool *good);

/* Loads the model of --draft; NULL without the option. */
weft_status generate_load_draft(const generate_values *values, const weft_tokenizer *tokenizer,
                                weft_model **out);

#endif
