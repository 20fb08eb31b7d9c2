/* cli/progress.h -- shows progress on standard error: as a bar on a terminal, otherwise as lines.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>

#include "weft/status.h"

typedef struct cli_progress {
    bool terminal, color;
    bool shown;  /* the current line shows a bar */
    double last; /* time of the last redraw, in seconds */
} cli_progress;

/* Initializes from standard error, TERM and NO_COLOR (https://no-color.org). */
void cli_progress_start(cli_progress *progress);

/* The width of the terminal of standard error; 80 if it is not a terminal. */
int cli_progress_columns(void);

/* On a terminal: redraws the bar at `share` (0 to 1), followed by the text, at most ten times a
 * second unless `line` is set. Otherwise: prints the text as a line if `line` is set. */
void cli_progress_show(cli_progress *progress, double share, bool line, const char *format, ...)
    WEFT_PRINTF(4, 5);

/* Erases the bar, so that other lines can be printed. */
void cli_progress_clear(cli_progress *progress);

/* Ends the line of the bar. */
void cli_progress_end(cli_progress *progress);

#endif
