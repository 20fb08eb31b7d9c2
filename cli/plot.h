/* cli/plot.h -- curves as text: braille dots where the terminal shows them, else ASCII. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

typedef struct cli_curve {
    const char *name;
    const double *x, *y; /* (n) x ascending; points with a y that is not finite are left out */
    int n;
    bool marks; /* a mark for each point instead of a line */
} cli_curve;

typedef struct cli_plot_style {
    int columns, rows; /* of the plot with its labels: at least 24 and 4 */
    bool braille, color;
} cli_plot_style;

/* What suits standard output: braille on a terminal whose locale is UTF-8 (LC_ALL, LC_CTYPE or
 * LANG), colours unless NO_COLOR is set, up to 100 of its columns; 72 columns of ASCII elsewhere.
 */
cli_plot_style cli_plot_style_of_stdout(void);

/* Draws up to two curves over common axes, with a legend; nothing without two points. */
void cli_plot(FILE *file, const cli_curve *curves, int n, const cli_plot_style *style);

#endif
