/* cli/pages.h -- prints help, manual page and completion scripts from the option tables. */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include <stdio.h>

#include "cli/options.h"

void cli_print_overview(FILE *file);                         /* the list of commands */
void cli_print_help(FILE *file, const cli_command *command); /* one command */
void cli_print_man(FILE *file);                              /* weft.1 in troff's man macros */

/* Completion scripts, by the shell's name: "bash|fish|zsh". */
#define CLI_SHELLS "bash|fish|zsh"
void cli_print_completion(FILE *file, int shell);

/* The next option of a command, from *i on, that is not hidden; the last is --help, then NULL. */
const cli_option *cli_next_option(const cli_command *c, int *i);

#endif
