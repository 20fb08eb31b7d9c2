/* cli/plot.c -- draws curves as text: in braille dots if the terminal supports them, else in ASCII.
 */
#include "cli/plot.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_COLUMNS = 24, MOST_COLUMNS = 100, PLAIN_COLUMNS = 72, LEAST_ROWS = 4, ROWS = 12 };
enum { LABEL = 10 }; /* width of the numbers on the left and the axis */

/* A cell has 2 x 4 dots in braille, and 1 x 2 in ASCII, drawn as . ' and : */
typedef struct canvas {
    int columns, rows, dots_x, dots_y; /* number of cells; dots per cell */
    uint8_t *dots;                     /* (rows, columns), one bit per dot in braille's order */
    uint8_t *marks;                    /* (rows, columns) */
    uint8_t *curves;                   /* (rows, columns): the latest one in the cell */
    int curve;                         /* that is drawn */
    bool letters;                      /* lines are drawn as letters, since colors are off */
    double low_x, high_x, low_y, high_y;
} canvas;

/* ---- the terminal --------------------------------------------------------------------------- */

static bool has_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) {
            const char *set = strchr(value, '.');
            return set && (strncasecmp(set, ".utf-8", 6) == 0 || strncasecmp(set, ".utf8", 5) == 0);
        }
    }
    return false;
}

cli_plot_style cli_plot_style_of_stdout(void)
{
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    const bool terminal = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0;
    struct winsize size;
    cli_plot_style style = {.columns = PLAIN_COLUMNS, .rows = ROWS};
    if (!terminal)
        return style;
    style.braille = has_utf8_locale();
    style.color = no_color == NULL || *no_color == '\0';
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        style.columns = size.ws_col < MOST_COLUMNS ? size.ws_col : MOST_COLUMNS;
    return style;
}

/* ---- drawing -------------------------------------------------------------------------------- */

static void set_dot(canvas *c, int x, int y)
{
    /* The bits of U+2800 + bits, by row and column of the cell. */
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int column = x / c->dots_x, row = y / c->dots_y;
    if (column < 0 || column >= c->columns || row < 0 || row >= c->rows)
        return;
    c->dots[row * c->columns + column] |= bits[y % c->dots_y][x % c->dots_x];
    c->curves[row * c->columns + column] = (uint8_t)c->curve;
}

static int dot_x(const canvas *c, double x)
{
    const double last = c->columns * c->dots_x - 1;
    return (int)lround((x - c->low_x) / (c->high_x - c->low_x) * last);
}

static int dot_y(const canvas *c, double y)
{
    const double last = c->rows * c->dots_y - 1;
    return (int)lround((c->high_y - y) / (c->high_y - c->low_y) * last);
}

/* Bresenham's line. */
static void draw_line(canvas *c, int x0, int y0, int x1, int y1)
{
    const int dx = abs(x1 - x0), dy = -abs(y1 - y0);
    const int sx = x0 < x1 ? 1 : -1, sy = y0 < y1 ? 1 : -1;
    for (int error = dx + dy;;) {
        set_dot(c, x0, y0);
        if (x0 == x1 && y0 == y1)
            return;
        const int twice = 2 * error;
        if (twice >= dy) {
            error += dy;
            x0 += sx;
        }
        if (twice <= dx) {
            error += dx;
            y0 += sy;
        }
    }
}

/* Draws the mean of the points in each column of dots, connected by lines. */
static void draw_curve(canvas *c, const weft_curve *curve)
{
    int last_x = -1, last_y = 0;
    for (int i = 0; i < curve->n;) {
        double sum = 0;
        int n = 0;
        const int x = dot_x(c, curve->x[i]);
        for (; i < curve->n && dot_x(c, curve->x[i]) == x; i++) {
            if (isfinite(curve->y[i])) {
                sum += curve->y[i];
                n++;
            }
        }
        if (n == 0)
            continue;
        const int y = dot_y(c, sum / n);
        draw_line(c, last_x < 0 ? x : last_x, last_x < 0 ? y : last_y, x, y);
        last_x = x;
        last_y = y;
    }
}

static void draw_marks(canvas *c, const weft_curve *curve)
{
    for (int i = 0; i < curve->n; i++) {
        if (!isfinite(curve->y[i]))
            continue;
        const int column = dot_x(c, curve->x[i]) / c->dots_x;
        const int at = dot_y(c, curve->y[i]) / c->dots_y * c->columns + column;
        c->marks[at] = 1;
        c->curves[at] = (uint8_t)c->curve;
    }
}

/* The range of all points; false when there are fewer than two. */
static bool find_ranges(canvas *c, const weft_curve *curves, int n)
{
    int points = 0;
    c->low_x = c->low_y = INFINITY;
    c->high_x = c->high_y = -INFINITY;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < curves[k].n; i++) {
            if (!isfinite(curves[k].y[i]))
                continue;
            c->low_x = fmin(c->low_x, curves[k].x[i]);
            c->high_x = fmax(c->high_x, curves[k].x[i]);
            c->low_y = fmin(c->low_y, curves[k].y[i]);
            c->high_y = fmax(c->high_y, curves[k].y[i]);
            points++;
        }
    }
    if (!(c->high_y > c->low_y)) {
        c->low_y -= 0.5;
        c->high_y += 0.5;
    }
    return points > 1 && c->high_x > c->low_x;
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Begins the color of a curve. */
static void print_color(FILE *file, int curve)
{
    static const int colors[] = {36, 33, 35, 32, 34, 31, 37, 90};
    fprintf(file, "\033[%dm", colors[curve % (int)(sizeof colors / sizeof *colors)]);
}

static void print_cell(FILE *file, const canvas *c, int at, const cli_plot_style *style)
{
    const uint8_t bits = c->dots[at];
    const bool mark = c->marks[at] != 0;
    if (style->color && (mark || bits))
        print_color(file, c->curves[at]);
    if (mark)
        fputs(style->braille ? "\xE2\x97\x8F" : "o", file); /* U+25CF */
    else if (c->letters && bits)
        fputc('a' + c->curves[at], file);
    else if (!style->braille)
        fputc(bits == 0 ? ' ' : bits == 1 ? '\'' : bits == 2 ? '.' : ':', file);
    else if (bits == 0)
        fputc(' ', file);
    else
        fprintf(file, "\xE2%c%c", 0xA0 + (bits >> 6), 0x80 + (bits & 0x3F)); /* U+2800 + bits */
    if (style->color && (mark || bits))
        fputs("\033[0m", file);
}

static void print_rows(FILE *file, const canvas *c, const cli_plot_style *style)
{
    for (int row = 0; row < c->rows; row++) {
        const bool labeled = row == 0 || row == c->rows - 1 || row == c->rows / 2;
        const double range = c->high_y - c->low_y;
        double y = c->high_y - range * (double)row / (double)(c->rows - 1);
        y = fabs(y) < 1e-6 * range ? 0 : y;
        if (labeled)
            fprintf(file, "%*.4g ", LABEL - 2, y);
        else
            fprintf(file, "%*s", LABEL - 1, "");
        fputs(style->braille ? "\xE2\x94\x82" : "|", file); /* U+2502 */
        int last = c->columns - 1;
        while (last >= 0 && !c->dots[row * c->columns + last] && !c->marks[row * c->columns + last])
            last--;
        for (int column = 0; column <= last; column++)
            print_cell(file, c, row * c->columns + column, style);
        fputc('\n', file);
    }
}

static void print_legend(FILE *file, const canvas *c, const weft_curve *curves, int n,
                         const cli_plot_style *style)
{
    char first[32], last[32];
    snprintf(first, sizeof first, "%.7g", c->low_x);
    snprintf(last, sizeof last, "%.7g", c->high_x);
    const int room = c->columns - (int)strlen(first);
    fprintf(file, "%*s%s%*s\n", LABEL, "", first, room > 0 ? room : 0, last);
    int length = 3 * (n - 1);
    for (int k = 0; k < n; k++)
        length += 2 + (int)strlen(curves[k].name);
    fprintf(file, "%*s", length <= c->columns ? LABEL : 0, "");
    for (int k = 0; k < n; k++) {
        const char letter[] = {(char)('a' + k), '\0'};
        const char *sign = curves[k].dots   ? style->braille ? "\xE2\x97\x8F" : "o"
                           : c->letters     ? letter
                           : style->braille ? "\xE2\xA0\xA4" /* U+2824 */
                                            : ".";
        fputs(k == 0 ? "" : length <= c->columns ? "   " : "\n", file);
        if (style->color)
            print_color(file, k);
        fprintf(file, "%s%s %s", sign, style->color ? "\033[0m" : "", curves[k].name);
    }
    fputc('\n', file);
}

void cli_plot(FILE *file, const weft_curve *curves, int n, const cli_plot_style *style)
{
    const int columns = style->columns > LEAST_COLUMNS ? style->columns : LEAST_COLUMNS;
    canvas c = {.columns = columns - LABEL - 1,
                .rows = style->rows > LEAST_ROWS ? style->rows : LEAST_ROWS,
                .dots_x = style->braille ? 2 : 1,
                .dots_y = style->braille ? 4 : 2};
    int lines = 0;
    if (!find_ranges(&c, curves, n))
        return;
    for (int k = 0; k < n; k++)
        lines += !curves[k].dots;
    c.letters = lines > 1 && !style->color;
    const size_t cells = (size_t)c.rows * (size_t)c.columns;
    c.dots = calloc(cells, 1);
    c.marks = calloc(cells, 1);
    c.curves = calloc(cells, 1);
    if (c.dots && c.marks && c.curves) {
        for (int k = 0; k < n; k++) {
            c.curve = k;
            if (curves[k].dots)
                draw_marks(&c, &curves[k]);
            else
                draw_curve(&c, &curves[k]);
        }
        print_rows(file, &c, style);
        print_legend(file, &c, curves, n, style);
    }
    free(c.dots);
    free(c.marks);
    free(c.curves);
}
