/* cli/edit_line.h -- reads a line from a terminal with editing, by libedit. */
#ifndef CLI_EDIT_LINE_H
#define CLI_EDIT_LINE_H

#include "cli/edit.h"

/* As cli_edit_configure, and as cli_edit_read without continued lines. */
void cli_edit_line_configure(const char *(*command)(int i), bool history);
cli_edit_result cli_edit_line(const char *prompt, char **line);

#endif
