/* cli/caching.h -- the options for the KV cache that generating commands share. */
#ifndef CLI_CACHING_H
#define CLI_CACHING_H

#include "cli/common.h"

/* The KV cache options; CLI_ABSENT where the user gave none. */
typedef struct cli_caching {
    int64_t max_context, sink_tokens, kv_bits;
} cli_caching;

/* The options that fill a `cli_caching caching` in struct T. */
#define CLI_CACHING_OPTIONS(T)                                                                     \
    {.name = "max-context",                                                                        \
     .kind = CLI_INT,                                                                              \
     .value = "N",                                                                                 \
     .low = 0,                                                                                     \
     .high = CLI_ANY,                                                                              \
     .offset = offsetof(T, caching.max_context),                                                   \
     .help = "keep the first few tokens and the last ones in the KV cache, "                       \
             "N in all; 0: all tokens; default: as many as the model has "                         \
             "positions, or fewer if memory is short"},                                            \
        {.name = "sink-tokens",                                                                    \
         .kind = CLI_INT,                                                                          \
         .value = "N",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, caching.sink_tokens),                                               \
         .help = "the number of first tokens to keep; default: 4"},                                \
    {                                                                                              \
        .name = "kv-bits", .kind = CLI_INT, .value = "BITS", .low = 4, .high = 32,                 \
        .offset = offsetof(T, caching.kv_bits),                                                    \
        .help = "store keys and values in 16 bits, or quantized to 8 or 4 bits; 32: in the "       \
                "compute dtype; default: 16 if the weights are quantized, otherwise 32"            \
    }

/* Copies the command's options to `options`. If another program computes, `model` is NULL and none
 * of the options may be given. Warns on standard error if memory allows fewer positions than the
 * model has. */
weft_status cli_caching_apply(const char *command, const cli_caching *caching, weft_model *model,
                              weft_cache_options *options);

#endif
