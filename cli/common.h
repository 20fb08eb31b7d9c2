/* cli/common.h -- what several commands need: opening models, reporting failures, writing JSON. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/options.h"
#include "weft/weft.h"

/* Where and in which dtype a command computes. */
typedef struct cli_place {
    int dtype; /* index into CLI_DTYPES */
    const char *device;
    int activations; /* index into CLI_ACTIVATIONS */
    int64_t threads, gpu_layers, quantize;
    bool profile, pull;
    const char *trace;
} cli_place;

#define CLI_DTYPES "float32|bfloat16|float16|auto"
enum { CLI_DTYPE_AUTO = 3 };
#define CLI_ACTIVATIONS "exact|int8"

/* The options that fill parts of a `cli_place place` in struct T, and all of it. */
#define CLI_DEVICE_OPTION(T)                                                                       \
    {                                                                                              \
        .name = "device", .kind = CLI_TEXT, .value = "NAME", .fallback = "cpu",                    \
        .offset = offsetof(T, place.device),                                                       \
        .help = "where to compute: cpu, vulkan, vulkan:1, ...; weft info --devices lists them"     \
    }
#define CLI_THREADS_OPTION(T)                                                                      \
    {                                                                                              \
        .name = "threads", .kind = CLI_INT, .value = "N", .low = 1, .high = 4096,                  \
        .offset = offsetof(T, place.threads), .help = "threads of the CPU; default: one a core"    \
    }

#define CLI_PLACE_OPTIONS(T)                                                                       \
    {.name = "dtype",                                                                              \
     .kind = CLI_CHOICE,                                                                           \
     .value = CLI_DTYPES,                                                                          \
     .fallback = "float32",                                                                        \
     .offset = offsetof(T, place.dtype),                                                           \
     .help = "dtype of the weights; auto: that of the checkpoint"},                                \
        CLI_DEVICE_OPTION(T),                                                                      \
        {.name = "gpu-layers",                                                                     \
         .kind = CLI_INT,                                                                          \
         .value = "N",                                                                             \
         .low = 0,                                                                                 \
         .high = 1 << 20,                                                                          \
         .offset = offsetof(T, place.gpu_layers),                                                  \
         .help = "put only the last N layers there, the others on the CPU; when N is above their " \
                 "number, the output head too; default: everything there"},                        \
        {.name = "quantize",                                                                       \
         .kind = CLI_INT,                                                                          \
         .value = "BITS",                                                                          \
         .low = 2,                                                                                 \
         .high = 8,                                                                                \
         .offset = offsetof(T, place.quantize),                                                    \
         .help = "store the weights in 2, 3, 4, 5, 6 or 8 bits"},                                  \
        CLI_THREADS_OPTION(T),                                                                     \
        {.name = "profile",                                                                        \
         .kind = CLI_FLAG,                                                                         \
         .offset = offsetof(T, place.profile),                                                     \
         .help = "print time per op and kernel: on standard error, or in the JSON object"},        \
        {.name = "trace",                                                                          \
         .kind = CLI_TEXT,                                                                         \
         .value = "FILE",                                                                          \
         .offset = offsetof(T, place.trace),                                                       \
         .help = "write a timeline of the run as Chrome trace events (chrome://tracing, "          \
                 "Perfetto), with or without --profile"},                                          \
    {                                                                                              \
        .name = "pull", .kind = CLI_FLAG, .offset = offsetof(T, place.pull),                       \
        .help = "fetch a model that is named ORG/NAME and is not in the local cache yet, as weft " \
                "pull does"                                                                        \
    }

/* Of commands that compute with a model and do not train it. */
#define CLI_ACTIVATIONS_OPTION(T)                                                                  \
    {                                                                                              \
        .name = "activations", .kind = CLI_CHOICE, .value = CLI_ACTIVATIONS, .fallback = "exact",  \
        .offset = offsetof(T, place.activations),                                                  \
        .help = "int8: round activations to 8 bits where more than 8 rows meet quantized weights " \
                "(Q8_0, Q4_0, Q4_K, affine with 4 or 8 bits): faster prompts and batches on CPUs " \
                "with AVX-512 VNNI; other devices ignore it"                                       \
    }

/* Above 0, and up to anything. */
#define CLI_ABOVE_ZERO DBL_MIN
#define CLI_ANY INFINITY

/* Prints "weft: COMMAND: message" on one line of standard error; CLI_FAILURE or CLI_USAGE. */
int cli_fail(const char *command, const char *format, ...) WEFT_PRINTF(2, 3);
int cli_usage(const char *command, const char *format, ...) WEFT_PRINTF(2, 3);
void cli_usage_va(const char *command, const char *format, va_list arguments) WEFT_PRINTF(2, 0);
/* CLI_OK, or the library's message and CLI_FAILURE. */
int cli_status(weft_status status);
/* From now on these print nothing: another process of the same run does. */
void cli_be_quiet(void);

/* Seconds on a clock that never goes back. */
double cli_seconds(void);

/* Writes what a model generated, or other text from outside, to standard output. On a terminal,
 * control characters other than newline and tab are shown as escapes (\x1b). */
void cli_write_text(const char *text, size_t length);

/* From now on the first Ctrl-C sets *cancel, which lasts as long as the program, and a second one
 * ends the program. */
weft_status cli_catch_interrupt(const weft_cancel **cancel);

/* What makes no sense about a place; NULL: nothing. */
const char *cli_place_complaint(const cli_place *place);

/* Sets the device and the threads. With gpu_layers the CPU stays the default device. */
weft_status cli_set_place(const cli_place *place);

/* Where a model is: the path as it is, or ORG/NAME's in the local cache, or, for NULL and
 * "storyteller", the one that comes with Weft. Into out. WEFT_INVALID for a file that is no GGUF
 * file and for a folder without config.json and without GGUF files. */
weft_status cli_model_path(const char *name, char *out, size_t size);
/* The same, after cli_fetch_missing where the place has --pull. */
weft_status cli_find_model(const cli_place *place, const char *name, char *out, size_t size);
/* cli_model_path, where a tokenizer.json, or a folder with one, is enough. */
weft_status cli_tokenizer_path(const char *name, char *out, size_t size);
/* Fetches ORG/NAME into the local cache, with a bar, unless it is there or is a path (pull.c).
 * WEFT_OK also for names that are no ORG/NAME, which cli_model_path refuses. */
weft_status cli_fetch_missing(const char *name);

/* The chat template of the adapter (NULL: none) or else of the model, for data of conversations;
 * *out is NULL where there is none, and with a warning where it is malformed. */
weft_status cli_load_template(const char *path, const char *adapter, weft_chat **out);

/* WEFT_INVALID, naming --force, when that is not given and a file or a folder that is not empty is
 * at `out`. */
weft_status cli_check_out(const char *out, bool force);

/* Loads a model to a place, with an adapter around it unless that is NULL; *out is NULL after a
 * failure. */
weft_status cli_load_model(const char *path, const cli_place *place, const char *adapter,
                           weft_model **out);

/* The same as an engine by a backend (NULL: the first one that can be used), for at most `context`
 * tokens (0: as many as the model takes). */
weft_status cli_load_engine(const char *path, const cli_place *place, const char *adapter,
                            const char *backend, int64_t context, weft_engine **out);

/* Whether a name of --backend (NULL: none was given) is not Weft itself. */
bool cli_is_other_backend(const char *name);

/* weft_engine_generate with statistics. */
weft_status cli_engine_generate(weft_engine *engine, const weft_engine_request *request,
                                weft_generate_fn *callback, void *context,
                                weft_generate_stats *stats);

/* The text of `prompt` ("-": standard input), of `file`, or, when both are NULL, of standard input;
 * in new memory (weft_free), NUL-terminated. */
weft_status cli_read_text(const char *prompt, const char *file, char **text, size_t *length);

/* The usage error if both are given, or neither and standard input is a terminal; NULL: none. */
const char *cli_text_complaint(const char *prompt, const char *file);

/* Everything that a stream holds, NUL-terminated; NULL without memory. Free with free. */
char *cli_read_all(FILE *stream, size_t *length);

/* ---- Output --------------------------------------------------------------------------------- */

/* A JSON string with its quotes; a JSON number, null when it is not finite. */
void cli_json_text(FILE *file, const char *text, size_t length);
void cli_json_number(FILE *file, double value);

/* 1234567 as "1,234,567", bytes as "1.2 MB", seconds as "1:02:03", in one of a few static texts. */
const char *cli_count(int64_t value);
const char *cli_bytes(int64_t bytes);
const char *cli_time(double seconds);

#endif
