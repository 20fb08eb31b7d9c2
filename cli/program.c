/* cli/program.c -- commands in messages, as the user can run them: the path of the program, and
 * words quoted for a shell. */
#include "cli/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/shell.h"

static char *program; /* quoted; NULL: weft */

/* The word, quoted if a shell needs it; the caller frees it. NULL: no memory. */
static char *quoted(const char *word)
{
    char *out = malloc(WEFT__SHELL_ROOM(strlen(word)));
    return out ? weft__shell_quote(word, out) : NULL;
}

/* A name without a slash was found in the PATH. One with control characters is not repeated, since
 * it could change the terminal. */
void cli_set_program(const char *name)
{
    if (strchr(name, '/') == NULL)
        return;
    for (const char *at = name; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return;
    }
    free(program);
    program = quoted(name);
}

const char *cli_program(void)
{
    return program ? program : "weft";
}

void cli_print_command(const char *const *words)
{
    printf("  %s", cli_program());
    for (; *words; words++) {
        char *word = quoted(*words);
        printf(" %s", word ? word : *words);
        free(word);
    }
    putchar('\n');
}
