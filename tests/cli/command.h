/* tests/cli/command.h -- runs build/cli/weft and checks its output. */
#ifndef TESTS_CLI_COMMAND_H
#define TESTS_CLI_COMMAND_H

#include "weft/status.h"

typedef struct output {
    int code; /* exit status; -1: it did not exit by itself */
    char *out, *err;
} output;

/* Runs `weft` with the arguments, as a shell splits them, and `input` (NULL: none) on its standard
 * input. The texts belong to this function and are valid until the next call. */
output weft_command(const char *input, const char *format, ...) WEFT_PRINTF(2, 3);

/* The same for any shell command. */
output shell_command(const char *input, const char *format, ...) WEFT_PRINTF(2, 3);

/* The folder of the storyteller. */
const char *model(void);

/* A text file in the suite's temporary folder. */
const char *text_file(const char *name, const char *text);

/* A text file of many short sentences. */
const char *story_file(void);

/* An adapter of the storyteller that changes its answers, trained at the first call with these
 * options. */
const char *storyteller_adapter(const char *options);

/* Checks that the command failed with this status and one line on standard error, "weft: ...". */
void check_one_line(const output *o, int code);

#endif
