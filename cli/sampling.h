/* cli/sampling.h -- the sampling options that generating commands share. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/common.h"

/* The sampling options given by the user. Absent ones have the model's or the command's defaults.
 */
typedef struct cli_sampling {
    int64_t max_tokens, seed, top_k;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    double xtc_probability, xtc_threshold;
    int order; /* index into CLI_ORDERS */
    cli_biases logit_bias;
    cli_ids suppress, stop_tokens;
} cli_sampling;

/* The words of --sampler-order, in the order of weft_sampler_order. */
#define CLI_ORDERS "top-p-first|top-k-first"

/* The options that fill a `cli_sampling sampling` in struct T. */
#define CLI_SAMPLING_OPTIONS(T)                                                                    \
    {.name = "max-tokens",                                                                         \
     .letter = 'n',                                                                                \
     .kind = CLI_INT,                                                                              \
     .value = "N",                                                                                 \
     .low = 1,                                                                                     \
     .high = CLI_ANY,                                                                              \
     .offset = offsetof(T, sampling.max_tokens),                                                   \
     .help = "the most tokens to generate; default 256, of weft chat 1024, with --server "         \
             "the server's"},                                                                      \
        {.name = "temperature",                                                                    \
         .letter = 't',                                                                            \
         .kind = CLI_REAL,                                                                         \
         .value = "T",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, sampling.temperature),                                              \
         .help = "the sampling temperature; 0: always the most probable token; default of this "   \
                 "and the next four: the model's generation_config.json, else 0.7 and off"},       \
        {.name = "top-p",                                                                          \
         .kind = CLI_REAL,                                                                         \
         .value = "P",                                                                             \
         .low = CLI_ABOVE_ZERO,                                                                    \
         .high = 1,                                                                                \
         .offset = offsetof(T, sampling.top_p),                                                    \
         .help = "choose among the fewest tokens whose probability adds up to P; 1: off"},         \
        {.name = "top-k",                                                                          \
         .kind = CLI_INT,                                                                          \
         .value = "K",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, sampling.top_k),                                                    \
         .help = "choose among the K most probable tokens; 0: off"},                               \
        {.name = "min-p",                                                                          \
         .kind = CLI_REAL,                                                                         \
         .value = "P",                                                                             \
         .low = 0,                                                                                 \
         .high = 1,                                                                                \
         .offset = offsetof(T, sampling.min_p),                                                    \
         .help = "choose among tokens with at least P times the largest probability; 0: off"},     \
        {.name = "sampler-order",                                                                  \
         .kind = CLI_CHOICE,                                                                       \
         .value = CLI_ORDERS,                                                                      \
         .offset = offsetof(T, sampling.order),                                                    \
         .help = "which of top-p and top-k is applied first; default: top-k-first, as in "         \
                 "transformers, when the model's generation_config.json sets top_k, top_p or "     \
                 "min_p, else top-p-first"},                                                       \
        {.name = "repetition-penalty",                                                             \
         .kind = CLI_REAL,                                                                         \
         .value = "X",                                                                             \
         .low = CLI_ABOVE_ZERO,                                                                    \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, sampling.repetition_penalty),                                       \
         .help = "above 1: tokens that occurred are less likely; 1: off"},                         \
        {.name = "presence-penalty",                                                               \
         .kind = CLI_REAL,                                                                         \
         .value = "X",                                                                             \
         .offset = offsetof(T, sampling.presence_penalty),                                         \
         .help = "subtract X from the logits of tokens that occurred"},                            \
        {.name = "frequency-penalty",                                                              \
         .kind = CLI_REAL,                                                                         \
         .value = "X",                                                                             \
         .offset = offsetof(T, sampling.frequency_penalty),                                        \
         .help = "subtract X from the logits of tokens for each time that they "                   \
                 "occurred"},                                                                      \
        {.name = "xtc-probability",                                                                \
         .kind = CLI_REAL,                                                                         \
         .value = "P",                                                                             \
         .low = 0,                                                                                 \
         .high = 1,                                                                                \
         .offset = offsetof(T, sampling.xtc_probability),                                          \
         .help = "XTC: the probability of excluding all top choices except the "                   \
                 "least probable one"},                                                            \
        {.name = "xtc-threshold",                                                                  \
         .kind = CLI_REAL,                                                                         \
         .value = "P",                                                                             \
         .fallback = "0.1",                                                                        \
         .low = 0,                                                                                 \
         .high = 1,                                                                                \
         .offset = offsetof(T, sampling.xtc_threshold),                                            \
         .help = "XTC: the smallest probability of a top choice"},                                 \
        {.name = "logit-bias",                                                                     \
         .kind = CLI_BIASES,                                                                       \
         .value = "ID:VALUE,...",                                                                  \
         .offset = offsetof(T, sampling.logit_bias),                                               \
         .help = "add to the logits of tokens; -inf: never that token"},                           \
        {.name = "suppress",                                                                       \
         .kind = CLI_IDS,                                                                          \
         .value = "ID,...",                                                                        \
         .offset = offsetof(T, sampling.suppress),                                                 \
         .help = "tokens that are never generated; default: those of generation_config.json"},     \
        {.name = "stop-tokens",                                                                    \
         .kind = CLI_IDS,                                                                          \
         .value = "ID,...",                                                                        \
         .offset = offsetof(T, sampling.stop_tokens),                                              \
         .help = "stop at these tokens too, which are not part of the text"},                      \
    {                                                                                              \
        .name = "seed", .letter = 's', .kind = CLI_INT, .value = "N", .low = 0, .high = CLI_ANY,   \
        .offset = offsetof(T, sampling.seed),                                                      \
        .help = "the same seed chooses the same tokens; default 0, of weft chat --server the "     \
                "server's"                                                                         \
    }

/* Sets `options` to the model's defaults, overridden by the command's options. Its lists point into
 * `sampling` or the model. `model` NULL: no defaults, since another program computes. */
void cli_sampling_apply(const cli_sampling *sampling, const weft_model *model,
                        weft_generate_options *options);

/* Makes XTC keep the newline and the end-of-sequence tokens. They are stored in `keep`, which must
 * outlive `options`. */
weft_status cli_sampling_protect(const weft_tokenizer *tokenizer, const weft_model *model,
                                 cli_ids *keep, weft_generate_options *options);

#endif
