/* cli/edit.c -- reads lines from a terminal, with editing, or from a pipe. */
#include "cli/edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli/edit_line.h"

bool cli_edit_is_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static cli_edit_result read_plain(char **line)
{
    size_t room = 0;
    *line = NULL;
    errno = 0;
    ssize_t n = getline(line, &room, stdin);
    if (n >= 0) {
        while (n > 0 && ((*line)[n - 1] == '\n' || (*line)[n - 1] == '\r'))
            (*line)[--n] = '\0';
        return CLI_EDIT_LINE;
    }
    const bool interrupted = errno == EINTR, memory = errno == ENOMEM;
    free(*line);
    *line = NULL;
    clearerr(stdin);
    return interrupted ? CLI_EDIT_INTERRUPTED : memory ? CLI_EDIT_FAILED : CLI_EDIT_END;
}

#ifdef WEFT_HAVE_EDITLINE
void cli_edit_configure(const char *(*command)(int i), bool history)
{
    cli_edit_line_configure(command, history);
}

static cli_edit_result read_edited(const char *prompt, char **line)
{
    return cli_edit_line(prompt, line);
}
#else
void cli_edit_configure(const char *(*command)(int i), bool history)
{
    (void)command;
    (void)history;
}

static cli_edit_result read_edited(const char *prompt, char **line)
{
    fputs(prompt, stdout);
    fflush(stdout);
    return read_plain(line);
}
#endif

cli_edit_result cli_edit_read(const char *prompt, char **line)
{
    if (!cli_edit_is_terminal())
        return read_plain(line);
    cli_edit_result result = read_edited(prompt, line);
    while (result == CLI_EDIT_LINE) {
        const size_t n = strlen(*line);
        char *more = NULL;
        if (n == 0 || (*line)[n - 1] != '\\')
            break;
        result = read_edited("... ", &more);
        char *joined = result == CLI_EDIT_LINE ? realloc(*line, n + strlen(more) + 1) : NULL;
        if (joined != NULL) {
            joined[n - 1] = '\n';
            strcpy(joined + n, more);
            *line = joined;
        } else {
            result = result == CLI_EDIT_LINE ? CLI_EDIT_FAILED : result;
            free(*line);
            *line = NULL;
        }
        free(more);
    }
    if (result != CLI_EDIT_LINE)
        putchar('\n');
    return result;
}
