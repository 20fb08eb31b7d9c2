/* cli/program.h -- commands in messages, as the user can run them. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

/* Records argv[0]. */
void cli_set_program(const char *name);

/* How the user can run this program again, quoted for a shell: the path that was used, or "weft" if
 * the shell found it in the PATH. */
const char *cli_program(void);

/* Prints a line "  weft COMMAND WORD..."; the last element of `words` is NULL. */
void cli_print_command(const char *const *words);

#endif
