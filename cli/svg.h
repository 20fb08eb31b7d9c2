/* cli/svg.h -- pictures as standalone SVG files: a style for light and dark pages, escaped text, a
 * scale of colors with its legend.
 *
 * Pictures are at least 480 units wide, are as wide as the page up to a limit, and use no font
 * smaller than 9 units, so that they can be read on a phone. Colors get further from the page's
 * with a larger value and differ in lightness, so that they need no color vision. */
#ifndef CLI_SVG_H
#define CLI_SVG_H

#include <stdio.h>

#include "weft/status.h"

/* How a file is recognized that a command may replace (cli_check_file). */
#define CLI_SVG_MARKER "<!-- drawn by weft -->"

enum { CLI_SVG_LEVELS = 9, CLI_SVG_WIDTH = 480, CLI_SVG_MARGIN = 16 };

/* A picture in memory, to whose `file` its elements are written. Classes: "title", "note", "label"
 * of texts; "mono" of texts in a monospaced font; "v0" to "v8" of areas in the colors of the scale,
 * "t0" to "t8" of texts on them and "s0" to "s8" of lines; "frame" of areas without a value; "hit"
 * of invisible areas with a <title>. */
typedef struct cli_svg {
    FILE *file;
    char *data;
    size_t size;
} cli_svg;

WEFT_NODISCARD weft_status cli_svg_open(cli_svg *svg);
/* Writes the file, complete or not at all, and frees the picture; path NULL: only frees it. `title`
 * describes the picture. */
weft_status cli_svg_close(cli_svg *svg, const char *path, const char *title, double width,
                          double height);

/* Writes text from models and users: escaped, with hidden characters and malformed UTF-8 as
 * escapes (\x1b). */
void cli_svg_text(FILE *file, const char *text, size_t length);

/* The width of such a text in monospaced columns; 2 for East Asian wide characters. */
int cli_svg_columns(const char *text, size_t length);

/* Writes lines of text from (x, *y) on, broken at spaces to `columns` columns, and moves *y below
 * them. */
void cli_svg_note(FILE *file, double x, double *y, const char *class, int columns,
                  const char *text);

/* Draws the scale's colors with a label in each, below the text `what`, and moves *y below it. */
void cli_svg_legend(FILE *file, double *y, const char *what, const char *const *labels);

#endif
