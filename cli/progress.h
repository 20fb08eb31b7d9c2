/* cli/progress.h -- a bar on a terminal, plain lines elsewhere; always on standard error. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

#include "weft/status.h"

typedef struct cli_progress {
    bool terminal, color;
    bool shown;  /* a bar stands on the current line */
    double last; /* seconds, when it was drawn */
} cli_progress;

/* Looks at standard error, TERM and NO_COLOR (https://no-color.org). */
void cli_progress_start(cli_progress *progress);

/* On a terminal: redraws the bar at `share` (0 to 1) with the text behind it, at most ten times a
 * second unless `line`. Elsewhere: prints the text as a line if `line`. */
void cli_progress_show(cli_progress *progress, double share, bool line, const char *format, ...)
    WEFT_PRINTF(4, 5);

/* Takes the bar away, so that other lines can be printed. */
void cli_progress_clear(cli_progress *progress);

/* Puts the line after the bar. */
void cli_progress_end(cli_progress *progress);

#endif
