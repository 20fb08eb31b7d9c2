/* cli/sampling.h -- how tokens are chosen: the options that generating commands share. */
#ifndef CLI_SAMPLING_H
#define CLI_SAMPLING_H

#include "cli/common.h"

/* What the user said of it; absent values are the model's or the command's own. */
typedef struct cli_sampling {
    int64_t max_tokens, seed, top_k;
    double temperature, top_p, min_p, repetition_penalty;
} cli_sampling;

/* The options that fill a `cli_sampling sampling` in struct T. */
#define CLI_SAMPLING_OPTIONS(T)                                                                    \
    {.name = "max-tokens",                                                                         \
     .letter = 'n',                                                                                \
     .kind = CLI_INT,                                                                              \
     .value = "N",                                                                                 \
     .low = 1,                                                                                     \
     .high = CLI_ANY,                                                                              \
     .offset = offsetof(T, sampling.max_tokens),                                                   \
     .help = "the most tokens to generate; default 256, of weft chat 1024"},                       \
        {.name = "temperature",                                                                    \
         .letter = 't',                                                                            \
         .kind = CLI_REAL,                                                                         \
         .value = "T",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, sampling.temperature),                                              \
         .help = "how boldly to choose; 0: always the most probable token; default of this and "   \
                 "the next four: what the model's generation_config.json says, else 0.7 and off"}, \
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
        {.name = "repetition-penalty",                                                             \
         .kind = CLI_REAL,                                                                         \
         .value = "X",                                                                             \
         .low = CLI_ABOVE_ZERO,                                                                    \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, sampling.repetition_penalty),                                       \
         .help = "above 1: tokens that occurred are less likely; 1: off"},                         \
    {                                                                                              \
        .name = "seed", .letter = 's', .kind = CLI_INT, .value = "N", .fallback = "0", .low = 0,   \
        .high = CLI_ANY, .offset = offsetof(T, sampling.seed),                                     \
        .help = "the same seed chooses the same tokens"                                            \
    }

/* What the model says, and then what the user says, goes to `options`. */
void cli_sampling_apply(const cli_sampling *sampling, const weft_model *model,
                        weft_generate_options *options);

#endif
