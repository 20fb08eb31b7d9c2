/* cli/edit.h -- reads lines from a terminal, with editing, or from a pipe. */
#ifndef CLI_EDIT_H
#define CLI_EDIT_H

#include <stdbool.h>

typedef enum cli_edit_result {
    CLI_EDIT_LINE,
    CLI_EDIT_INTERRUPTED, /* Ctrl-C: the line is discarded */
    CLI_EDIT_END,         /* no more lines */
    CLI_EDIT_FAILED       /* out of memory */
} cli_edit_result;

/* Sets how lines are edited on a terminal, before the first one is read. Tab completes the commands
 * that `command` lists without their slash (NULL at the end) at the start of a line; NULL: none.
 * With `history`, lines are kept for later runs (cli/history.h). A build without libedit ignores
 * both. */
void cli_edit_configure(const char *(*command)(int i), bool history);

/* Whether standard input and output are terminals. */
bool cli_edit_is_terminal(void);

/* Reads the next line of standard input without its newline; the caller frees it with free. On a
 * terminal, `prompt` is shown, and a line that ends with a backslash continues with the next one. A
 * text that the terminal marks as pasted is inserted with its line breaks, for editing, so that it
 * is one line. */
cli_edit_result cli_edit_read(const char *prompt, char **line);

#endif
