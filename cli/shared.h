/* cli/shared.h -- options of several commands. Each fills the member of struct T with its own name;
 * HELP is its help text in the command. */
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

/* The metadata of files of logits, and how they are recognized. */
#define CLI_LOGITS_METADATA                                                                        \
    &(const weft_metadata)                                                                         \
    {                                                                                              \
        "weft.kind", "logits"                                                                      \
    }
#define CLI_LOGITS_MARKER "\"weft.kind\":\"logits\""

#define CLI_FORCE_OPTION(T, HELP)                                                                  \
    {                                                                                              \
        .name = "force", .kind = CLI_FLAG, .offset = offsetof(T, force), .help = (HELP)            \
    }

#define CLI_NO_SPECIAL_OPTION(T)                                                                   \
    {                                                                                              \
        .name = "no-special", .kind = CLI_FLAG, .offset = offsetof(T, no_special),                 \
        .help = "do not add the tokenizer's special tokens to a text"                              \
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

/* The JSON Schema that the output must match. */
#define CLI_SCHEMA_OPTION(T, HELP)                                                                 \
    {                                                                                              \
        .name = "json-schema", .letter = 'j', .kind = CLI_TEXT, .value = "FILE",                   \
        .offset = offsetof(T, json_schema), .help = (HELP)                                         \
    }

#define CLI_SCHEMA_OPEN_OPTION(T)                                                                  \
    {                                                                                              \
        .name = "schema-open", .kind = CLI_FLAG, .offset = offsetof(T, schema_open),               \
        .help = "with --json-schema: objects may have any properties that JSON Schema allows, in " \
                "any order, instead of those that the schema declares, in its order"               \
    }

#define CLI_TIMEOUT_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "timeout", .kind = CLI_REAL, .value = "SECONDS", .low = CLI_ABOVE_ZERO,            \
        .high = CLI_ANY, .offset = offsetof(T, timeout),                                           \
        .help = "stop generating a text after this time"                                           \
    }

#define CLI_TOKENS_PER_EVAL_OPTION(T)                                                              \
    {                                                                                              \
        .name = "tokens-per-eval", .kind = CLI_INT, .value = "N", .fallback = "1", .low = 1,       \
        .high = 1024, .offset = offsetof(T, tokens_per_eval),                                      \
        .help = "compute N tokens before the first of them is read"                                \
    }

#define CLI_SHIFT_OPTION(T)                                                                        \
    {                                                                                              \
        .name = "shift", .kind = CLI_FLAG, .offset = offsetof(T, shift),                           \
        .help = "continue beyond the model's positions: the first few tokens "                     \
                "(--sink-tokens) and the last half are processed again"                            \
    }

#define CLI_STATS_OPTION(T)                                                                        \
    {                                                                                              \
        .name = "stats", .kind = CLI_FLAG, .offset = offsetof(T, stats),                           \
        .help = "print speed and memory on standard error after each text"                         \
    }

#define CLI_INVARIANT_OPTION(T)                                                                    \
    {                                                                                              \
        .name = "invariant", .kind = CLI_FLAG, .offset = offsetof(T, invariant),                   \
        .help = "compute each of many texts alone, so that results are "                           \
                "bit-identical in any batch (slower)"                                              \
    }

#define CLI_TEXT_ONLY_OPTION(T)                                                                    \
    {                                                                                              \
        .name = "text-only", .kind = CLI_FLAG, .offset = offsetof(T, text_only),                   \
        .help = "for a folder, of a multimodal model: write only its text model"                   \
    }

#define CLI_JSON_OPTION(T, HELP)                                                                   \
    {                                                                                              \
        .name = "json", .kind = CLI_FLAG, .offset = offsetof(T, json), .marks = CLI_TRANSIENT,     \
        .help = (HELP)                                                                             \
    }

#endif
