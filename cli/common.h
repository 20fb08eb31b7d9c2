/* cli/common.h -- functions shared by the commands: opening models, reporting failures, writing
 * JSON. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/options.h"
#include "cli/place.h"
#include "weft/weft.h"

/* Bounds for an option's number: above 0, and no upper limit. */
#define CLI_ABOVE_ZERO DBL_MIN
#define CLI_ANY INFINITY

/* Print "weft: COMMAND: message" on one line of standard error; return CLI_FAILURE or CLI_USAGE. */
int cli_fail(const char *command, const char *format, ...) WEFT_PRINTF(2, 3);
int cli_usage(const char *command, const char *format, ...) WEFT_PRINTF(2, 3);
void cli_usage_va(const char *command, const char *format, va_list arguments) WEFT_PRINTF(2, 0);
/* Returns CLI_OK for WEFT_OK; otherwise prints the library's message and returns CLI_FAILURE. */
int cli_status(weft_status status);

/* Prints the notes of weft_constraint_notes about a schema file on standard error. */
void cli_schema_notes(const char *path, const char *notes);
/* Disables the messages above, since another process of the same run prints them. */
void cli_be_quiet(void);

/* Seconds on a monotonic clock. */
double cli_seconds(void);

/* Writes generated or other untrusted text to standard output. On a terminal, control characters
 * other than newline and tab are shown as escapes (\x1b). */
void cli_write_text(const char *text, size_t length);

/* Installs a handler: the first Ctrl-C sets *cancel, which is never freed, and a second one ends
 * the program. */
weft_status cli_catch_interrupt(const weft_cancel **cancel);

bool cli_is_folder(const char *path);

/* Writes the path of a model to `out`: `name` itself if it is a path, the folder of ORG/NAME in the
 * local cache, or, for NULL and "storyteller", the model included with Weft. WEFT_INVALID for a
 * file that is not a GGUF file and for a folder without config.json and GGUF files. */
weft_status cli_model_path(const char *name, char *out, size_t size);
/* The same, but with --pull calls cli_fetch_missing first. */
weft_status cli_find_model(const cli_place *place, const char *name, char *out, size_t size);
/* The labels of the model at a path with an adapter, or NULL; none: it is no classifier. */
weft_status cli_labels_of(const char *path, const char *adapter, weft_labels *out);
/* Like cli_model_path, but also accepts a tokenizer.json, or a folder that contains one. */
weft_status cli_tokenizer_path(const char *name, char *out, size_t size);
/* Downloads ORG/NAME into the local cache, with a progress bar, unless it is a path or already
 * cached (pull.c). WEFT_OK also for names of another form, which cli_model_path rejects. */
weft_status cli_fetch_missing(const char *name);

/* Loads the chat template of the adapter (NULL: none), otherwise that of the model, to read
 * conversations from data. *out is NULL if neither has one. */
weft_status cli_load_template(const char *path, const char *adapter, weft_chat **out);

/* Parses the template of --template FILE; `tokenizer` is as for weft_chat_parse. */
weft_status cli_read_template(const char *file, const weft_tokenizer *tokenizer, weft_chat **out);

/* The text that the chat template writes after an assistant's turn, or NULL if it writes none. The
 * caller frees *end with weft_free. */
weft_status cli_end_of_turn(const weft_chat *chat, char **end);

/* WEFT_INVALID, with a message that suggests --force, if `out` (NULL: none) is an existing file or
 * a non-empty folder and `force` is not set. */
weft_status cli_check_out(const char *out, bool force);
/* WEFT_INVALID if `out` and `input` are the same file. NULL is accepted. */
weft_status cli_check_input(const char *out, const char *input);
/* The same for files that are replaced without `force` if the command wrote them: `marker` as for
 * weft__file_is_kind. */
weft_status cli_check_file(const char *out, const char *marker, bool force);

/* Loads a model, with an adapter unless that is NULL, as the options of the place say. *out is NULL
 * after a failure. */
weft_status cli_load_model(const char *path, const cli_place *place, const char *adapter,
                           weft_model **out);

/* Opens a model as an engine with a backend (NULL: the first usable one), for at most `context`
 * tokens (0: the model's limit). */
weft_status cli_load_engine(const char *path, const cli_place *place, const char *adapter,
                            const char *backend, int64_t context, weft_engine **out);

/* Whether --backend (NULL: not given) selects a program other than Weft. */
bool cli_is_other_backend(const char *name);

/* Calls weft_engine_generate and sets *stats. */
weft_status cli_engine_generate(weft_engine *engine, const weft_engine_request *request,
                                weft_generate_fn *callback, void *context,
                                weft_generate_stats *stats);

/* Reads the text from `prompt` ("-": standard input), from `file`, or, if both are NULL, from
 * standard input. The caller frees *text with weft_free; it is NUL-terminated. */
weft_status cli_read_text(const char *prompt, const char *file, char **text, size_t *length);

/* The usage error if both are given, or neither while standard input is a terminal; NULL: none. */
const char *cli_text_complaint(const char *prompt, const char *file);

/* Reads a stream to its end. The result is NUL-terminated and freed with free; NULL when out of
 * memory. */
char *cli_read_all(FILE *stream, size_t *length);

/* The n bytes of every rank, in order, which the caller frees with weft_free. NULL: *status has the
 * failure, the same on all ranks. */
void *cli_gather(weft_group *group, const void *own, size_t n, weft_status *status);

/* ---- Output --------------------------------------------------------------------------------- */

/* Write a JSON string with its quotes, or a JSON number, which is null if not finite. */
void cli_json_text(FILE *file, const char *text, size_t length);
void cli_json_number(FILE *file, double value);
/* Prints a comma and a member of an object with that number. */
void cli_json_member(const char *key, double value);

/* Format 1234567 as "1,234,567", bytes as "1.2 MB", and seconds as "1:02:03". The results are in
 * static buffers, which later calls reuse. */
const char *cli_count(int64_t value);
const char *cli_bytes(int64_t bytes);
const char *cli_time(double seconds);

/* The result of a conversion as a line; another line says so if few programs load the format. */
double cli_bits_per_parameter(const weft_convert_report *report);
void cli_print_conversion(const char *out, const weft_convert_report *report);

#endif
