/* cli/inputs.h -- the texts of a command that takes many: its arguments, or the lines of a file. */
#ifndef CLI_INPUTS_H
#define CLI_INPUTS_H

#include "cli/common.h"
#include "cli/lines.h"

#define CLI_INPUTS_OPTION(T)                                                                       \
    {                                                                                              \
        .name = "file", .letter = 'f', .kind = CLI_TEXT, .value = "FILE",                          \
        .offset = offsetof(T, file),                                                               \
        .help = "read texts from a file, one a line, blank lines included; a line that is a JSON " \
                "object has it as \"prompt\" or \"text\"; - reads standard input"                  \
    }

typedef struct cli_input {
    const char *text;
    size_t length;
    const char *file;    /* which it is a line of ("-": standard input); NULL: an argument */
    size_t number;       /* of the line or the argument, from 1 */
    json_object *object; /* owns the text, or NULL */
    int32_t *ids;
    size_t n_ids;
    char *message; /* why it failed, or NULL */
} cli_input;

typedef struct cli_inputs {
    cli_lines lines;
    cli_input *at;
    size_t n;
} cli_inputs;

/* The usage error in the texts and --file of a command line; NULL: none. */
const char *cli_inputs_complaint(const cli_words *texts, const char *file);

/* The texts given, or without any the lines of `file` (NULL or "-": standard input), blank ones
 * included, so that text i is line i + 1. A line that cannot be read fails alone. Free with
 * cli_inputs_free, after a failure too. */
weft_status cli_inputs_read(const char *command, const cli_words *texts, const char *file,
                            cli_inputs *out);

/* The ids of every text; one that cannot be encoded fails alone. */
void cli_inputs_encode(cli_inputs *inputs, const weft_tokenizer *tokenizer, bool no_special);

/* The calling thread's message, with the file and the line in front, becomes the text's, unless it
 * has one. */
void cli_input_fail(cli_input *input);

bool cli_inputs_any_failed(const cli_inputs *inputs);

void cli_inputs_free(cli_inputs *inputs);

#endif
