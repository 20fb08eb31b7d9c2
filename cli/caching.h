/* cli/caching.h -- the options for the KV cache that generating commands share. */
#ifndef CLI_CACHING_H
#define CLI_CACHING_H

#include "cli/common.h"

/* What the user said of it. */
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
     .help = "remember the first few tokens and the last, N in all; 0: everything; default: as "   \
             "many as the model has positions, or fewer where memory is short"},                   \
        {.name = "sink-tokens",                                                                    \
         .kind = CLI_INT,                                                                          \
         .value = "N",                                                                             \
         .low = 0,                                                                                 \
         .high = CLI_ANY,                                                                          \
         .offset = offsetof(T, caching.sink_tokens),                                               \
         .help = "how many the first few are; default: 4"},                                        \
    {                                                                                              \
        .name = "kv-bits", .kind = CLI_INT, .value = "BITS", .low = 4, .high = 8,                  \
        .offset = offsetof(T, caching.kv_bits), .help = "remember keys and values in 8 or 4 bits"  \
    }

/* Copies the command's options to `options`. Without a model (NULL) none may be given. Warns on
 * standard error if memory allows fewer positions than the model has. */
weft_status cli_caching_apply(const char *command, const cli_caching *caching, weft_model *model,
                              weft_cache_options *options);

#endif
