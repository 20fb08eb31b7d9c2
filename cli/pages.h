/* cli/pages.h -- prints help, manual page and completion script from the option tables. */
#ifndef CLI_PAGES_H
#define CLI_PAGES_H

#include <stdio.h>

#include "cli/options.h"

void cli_print_overview(FILE *file);                         /* the list of commands */
void cli_print_help(FILE *file, const cli_command *command); /* one command */
void cli_print_man(FILE *file);                              /* weft.1 in troff's man macros */
void cli_print_bash(FILE *file);                             /* a completion script for bash */

#endif
