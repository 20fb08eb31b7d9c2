/* cli/shared.h -- options that several commands have: each fills the field of struct T that is
 * called as it is. HELP is what it means to the command. */
#ifndef CLI_SHARED_H
#define CLI_SHARED_H

#include <stddef.h>

#include "cli/options.h"

#define CLI_PROMPT_OPTION(T, FALLBACK, HELP)                                                       \
    {                                                                                              \
        .name = "prompt", .letter = 'p', .kind = CLI_TEXT, .value = "TEXT",                        \
        .fallback = (FALLBACK), .offset = offsetof(T, prompt), .help = (HELP)                      \
    }

#define CLI_FILE_OPTION(T, HELP)                                                                   \
    {                                                                                              \
        .name = "file", .letter = 'f', .kind = CLI_TEXT, .value = "FILE",                          \
        .offset = offsetof(T, file), .help = (HELP)                                                \
    }

#define CLI_OUT_OPTION(T, HELP)                                                                    \
    {                                                                                              \
        .name = "out", .letter = 'o', .kind = CLI_TEXT, .value = "FILE",                           \
        .offset = offsetof(T, out), .help = (HELP)                                                 \
    }

#define CLI_NO_SPECIAL_OPTION(T)                                                                   \
    {                                                                                              \
        .name = "no-special", .kind = CLI_FLAG, .offset = offsetof(T, no_special),                 \
        .help = "do not put the tokenizer's special tokens around a text"                          \
    }

#define CLI_ADAPTER_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "adapter", .letter = 'a', .kind = CLI_JOINED, .value = "DIR[:W]",                  \
        .offset = offsetof(T, adapter),                                                            \
        .help = "an adapter of PEFT, mlx-lm or llama.cpp; of several, the sum, each times its "    \
                "weight W (1)"                                                                     \
    }

#define CLI_BACKEND_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "backend", .kind = CLI_TEXT, .value = "NAME", .fallback = "native",                \
        .offset = offsetof(T, backend),                                                            \
        .help = "what computes: native, or by Python (WEFT_PYTHON) transformers or mlx-lm"         \
    }

/* A JSON Schema that the answer keeps to. */
#define CLI_SCHEMA_OPTION(T, HELP)                                                                 \
    {                                                                                              \
        .name = "json-schema", .letter = 'j', .kind = CLI_TEXT, .value = "FILE",                   \
        .offset = offsetof(T, json_schema), .help = (HELP)                                         \
    }

#define CLI_TIMEOUT_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "timeout", .kind = CLI_REAL, .value = "SECONDS", .low = CLI_ABOVE_ZERO,            \
        .high = CLI_ANY, .offset = offsetof(T, timeout),                                           \
        .help = "end a generated text after so long"                                               \
    }

#define CLI_TOKENS_PER_EVAL_OPTION(T)                                                              \
    {                                                                                              \
        .name = "tokens-per-eval", .kind = CLI_INT, .value = "N", .fallback = "1", .low = 1,       \
        .high = 1024, .offset = offsetof(T, tokens_per_eval),                                      \
        .help = "compute N tokens before any of them is looked at"                                 \
    }

#define CLI_SHIFT_OPTION(T)                                                                        \
    {                                                                                              \
        .name = "shift", .kind = CLI_FLAG, .offset = offsetof(T, shift),                           \
        .help = "go on where the model has no more positions: the first few tokens "               \
                "(--sink-tokens) and the last half are read again"                                 \
    }

#define CLI_STATS_OPTION(T)                                                                        \
    {                                                                                              \
        .name = "stats", .kind = CLI_FLAG, .offset = offsetof(T, stats),                           \
        .help = "print speed and memory on standard error behind each text"                        \
    }

#define CLI_INVARIANT_OPTION(T)                                                                    \
    {                                                                                              \
        .name = "invariant", .kind = CLI_FLAG, .offset = offsetof(T, invariant),                   \
        .help = "of many texts, compute each alone: the same numbers to the last bit, whatever "   \
                "else is asked for (slower)"                                                       \
    }

#define CLI_JSON_OPTION(T, HELP)                                                                   \
    {                                                                                              \
        .name = "json", .kind = CLI_FLAG, .offset = offsetof(T, json), .help = (HELP)              \
    }

#endif
