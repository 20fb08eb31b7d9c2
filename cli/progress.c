/* cli/progress.c -- shows progress as a bar on a terminal, otherwise as lines. */
#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/common.h"

enum { BAR = 24, BAR_LEAST = 8, TEXT = 200 };

int cli_progress_columns(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

void cli_progress_start(cli_progress *p)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    memset(p, 0, sizeof *p);
    p->terminal = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    p->color = p->terminal && (no_color == NULL || no_color[0] == '\0');
}

static void draw(cli_progress *p, double share, const char *text)
{
    int room = cli_progress_columns() - (int)strlen(text) - 4;
    int width = room < BAR ? room : BAR;
    fputs("\r", stderr);
    if (width >= BAR_LEAST) {
        int full = (int)(share * width + 0.5);
        fprintf(stderr, "[%s", p->color ? "\033[36m" : "");
        for (int i = 0; i < width; i++)
            fputc(i < full ? '#' : '.', stderr);
        fprintf(stderr, "%s] ", p->color ? "\033[0m" : "");
    }
    /* A line that wraps could not be overwritten by the next one. */
    fprintf(stderr, "%.*s\033[K", cli_progress_columns() - 1, text);
    fflush(stderr);
    p->shown = true;
}

void cli_progress_show(cli_progress *p, double share, bool line, const char *format, ...)
{
    double now = cli_seconds();
    if (!line && (!p->terminal || now - p->last < 0.1))
        return;
    char text[TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    p->last = now;
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    if (p->terminal)
        draw(p, share, text);
    else
        fprintf(stderr, "%s\n", text);
}

void cli_progress_clear(cli_progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

void cli_progress_end(cli_progress *p)
{
    if (p->shown)
        fputc('\n', stderr);
    p->shown = false;
}
