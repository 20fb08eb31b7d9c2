/* cli/inputs.h -- the texts of a command that takes many: from its arguments, or the lines of a
 * file. */
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
    const char *file;    /* the file that contains it ("-": standard input); NULL: an argument */
    size_t number;       /* number of the line or argument, from 1 */
    json_object *object; /* owns the text, or NULL */
    int32_t *ids;
    size_t n_ids;
    char *message; /* its error, or NULL */
} cli_input;

typedef struct cli_inputs {
    cli_lines lines;
    cli_input *at;
    size_t n;
} cli_inputs;

/* The usage error if a command line has both texts and --file, or neither; NULL: none. */
const char *cli_inputs_complaint(const cli_words *texts, const char *file);

/* Reads the texts from the arguments or, without any, from the lines of `file` (NULL or "-":
 * standard input). Blank lines count, so text i is line i + 1. A malformed line fails alone. Free
 * with cli_inputs_free, also after a failure. */
weft_status cli_inputs_read(const char *command, const cli_words *texts, const char *file,
                            cli_inputs *out);

/* Encodes all texts, each after the text `before` (NULL: none). A text that cannot be encoded fails
 * alone. */
void cli_inputs_encode(cli_inputs *inputs, const weft_tokenizer *tokenizer, const char *before,
                       bool no_special);

/* Marks a text as failed with the calling thread's message, after its file and line. The first
 * message is kept. */
void cli_input_fail(cli_input *input);

bool cli_inputs_any_failed(const cli_inputs *inputs);

void cli_inputs_free(cli_inputs *inputs);

#endif
