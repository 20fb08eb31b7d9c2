/* cli/edit.h -- lines from a person, edited where there is a terminal, or from a pipe. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include <stdbool.h>

typedef enum cli_edit_result {
    CLI_EDIT_LINE,
    CLI_EDIT_INTERRUPTED, /* Ctrl-C: the line is thrown away */
    CLI_EDIT_END,         /* no more lines */
    CLI_EDIT_FAILED       /* no memory */
} cli_edit_result;

/* Whether a person is there: standard input and output are terminals. */
bool cli_edit_is_terminal(void);

/* The next line of standard input, without its end, which the caller frees with free. `prompt` is
 * shown to a person alone; a line of theirs that ends with a backslash goes on with the next. */
cli_edit_result cli_edit_read(const char *prompt, char **line);

#endif
