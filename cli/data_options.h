/* cli/data_options.h -- the options for reading data. */
#ifndef CLI_DATA_OPTIONS_H
#define CLI_DATA_OPTIONS_H

#include <stddef.h>

#include "cli/options.h"
#include "weft/train.h"

/* The values of these options: member `source` of a command's struct. */
typedef struct cli_data_source {
    cli_texts paths;
    const char *mix, *cache;
    const char *system, *template_file;
    int format, longer; /* -1: absent */
    int64_t max_bad_rows;
} cli_data_source;

#define CLI_DATA_AT(T, FIELD) .offset = offsetof(T, source) + offsetof(cli_data_source, FIELD)

/* The words of --format. */
const char *cli_data_format(int i);

/* The options for reading the files of a dataset. */
#define CLI_DATA_READING_OPTIONS(T)                                                                \
    {.name = "format",                                                                             \
     .kind = CLI_CHOICE,                                                                           \
     .word = cli_data_format,                                                                      \
     CLI_DATA_AT(T, format),                                                                       \
     .marks = CLI_FIXED | CLI_OF_DATA,                                                             \
     .help = "format of the data, which standard input needs; default: by the file's extension"},  \
        {.name = "long",                                                                           \
         .kind = CLI_CHOICE,                                                                       \
         .value = "keep-head|keep-tail|split|drop|refuse",                                         \
         CLI_DATA_AT(T, longer),                                                                   \
         .marks = CLI_FIXED | CLI_OF_VALIDATION,                                                   \
         .unset = "keep-head",                                                                     \
         .help =                                                                                   \
             "samples that are longer: keep their first tokens and so the prompt of a "            \
             "completion (the default), their last ones, split them, leave them out, or fail"},    \
        {.name = "token-cache",                                                                    \
         .kind = CLI_TEXT,                                                                         \
         .value = "DIR",                                                                           \
         CLI_DATA_AT(T, cache),                                                                    \
         .marks = CLI_OF_VALIDATION,                                                               \
         .help = "keep tokens there: the same data is not tokenized again"},                       \
    {                                                                                              \
        .name = "max-bad-rows", .kind = CLI_INT, .value = "N", .fallback = "0", .low = 0,          \
        .high = CLI_ANY, CLI_DATA_AT(T, max_bad_rows), .marks = CLI_FIXED | CLI_OF_VALIDATION,     \
        .help = "skip up to N malformed rows instead of failing at the first"                      \
    }

/* How train and data render conversations. */
#define CLI_DATA_CHAT_OPTIONS(T)                                                                   \
    {.name = "system",                                                                             \
     .kind = CLI_TEXT,                                                                             \
     .value = "TEXT",                                                                              \
     CLI_DATA_AT(T, system),                                                                       \
     .marks = CLI_FIXED | CLI_OF_VALIDATION,                                                       \
     .help = "the system text of rows that have none; rows of text alone have no system text"},    \
    {                                                                                              \
        .name = "template", .kind = CLI_TEXT, .value = "FILE", CLI_DATA_AT(T, template_file),      \
        .marks = CLI_FIXED | CLI_OF_VALIDATION,                                                    \
        .help = "use this Jinja template instead of the model's; weft train saves it with the "    \
                "adapter"                                                                          \
    }

/* The option for the paths of a dataset. */
#define CLI_DATA_PATHS_OPTION(T)                                                                   \
    {                                                                                              \
        .name = "data", .letter = 'd', .kind = CLI_TEXTS, .value = "FILE", CLI_DATA_AT(T, paths),  \
        .help = "a file, a folder, a pattern as in '*.jsonl', or - for standard input: text, or "  \
                "rows of JSON lines, a JSON array, CSV, TSV or Parquet, also compressed by gzip "  \
                "or Zstandard; or a dataset that weft pull --dataset fetched: ORG/NAME, "          \
                "ORG/NAME:SPLIT or ORG/NAME/CONFIG:SPLIT (the split \"train\" if none is "         \
                "named); may be given several times"                                               \
    }

#define CLI_DATA_MIX_OPTION(T)                                                                     \
    {                                                                                              \
        .name = "mix", .kind = CLI_TEXT, .value = "W,W,...", CLI_DATA_AT(T, mix),                  \
        .marks = CLI_FIXED | CLI_OF_DATA,                                                          \
        .help = "how often an epoch has each sample of each --data, as in 1,0.5"                   \
    }

/* The first of the paths, or NULL. */
const char *cli_data_first(const cli_data_source *data);

/* Copies the command's options to the library's. --token-cache needs options->tokenizer_path. */
void cli_data_options(const cli_data_source *data, weft_dataset_options *options);

/* Finds the files of the sources that name datasets of the hub (ORG/NAME[/CONFIG][:SPLIT]) in the
 * local cache. Free with cli_data_release, also after a failure. */
weft_status cli_data_resolve(weft_data_source *sources, int n);
void cli_data_release(weft_data_source *sources, int n);

/* Writes the sources with their weights to `out`, which has room for CLI_MOST, and resolves them.
 * WEFT_INVALID when --mix does not have a weight for each --data; otherwise as cli_data_resolve. */
weft_status cli_data_open(const cli_data_source *data, weft_data_source *out);

/* For each path that is a folder in mlx-lm's layout, one with train.jsonl: puts the file `name` in
 * it (such as valid.jsonl) into `parts`, which has room for CLI_MOST, or NULL if it is absent. The
 * caller frees them with cli_data_parts_free. Returns their number, or -1 when out of memory. */
int cli_data_parts(const cli_data_source *data, const char *name, char **parts);
void cli_data_parts_free(const cli_data_source *data, char **parts);

/* Loads the dataset from these sources. */
weft_status cli_data_load(const cli_data_source *data, const weft_tokenizer *tokenizer,
                          const weft_dataset_options *options, double split, weft_dataset **out,
                          weft_dataset **validation);

#endif
