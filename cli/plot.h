/* cli/plot.h -- draws curves as text: in braille dots if the terminal supports them, else in ASCII.
 */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stdio.h>

#include "weft/tool/run.h"

typedef struct cli_plot_style {
    int columns, rows; /* size of the plot with its labels: at least 24 x 4 */
    bool braille, color;
} cli_plot_style;

/* The style for standard output. On a terminal: at most 100 columns, braille if the locale is UTF-8
 * (LC_ALL, LC_CTYPE or LANG), colors unless NO_COLOR is set. Otherwise 72 columns of ASCII. */
cli_plot_style cli_plot_style_of_stdout(void);

/* Draws curves with common axes and a legend: x ascending, and a mark for each point of those with
 * dots. Several lines differ by color, or without color by letters. Draws nothing with
 * fewer than two points. */
void cli_plot(FILE *file, const weft_curve *curves, int n, const cli_plot_style *style);

#endif
