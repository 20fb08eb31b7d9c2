/* train/run/curve.c -- draws curves over common axes as SVG: a file, or a figure of a page. */
#include "train/run/curve.h"

#include <float.h>
#include <math.h>

#include "core/failure.h"
#include "train/run/number.h"
#include "train/run/page.h"
#include "weft/io.h"
#include "weft/memory.h"

enum { MOST_POINTS = 1200, TICKS = 6, DIGITS = 6 };

/* The size of a picture, and the room around its axes. */
typedef struct frame {
    int width, height, left, right, top, bottom;
} frame;

static const frame of_file = {860, 480, 72, 28, 64, 60}, of_page = {480, 250, 82, 28, 12, 42};

/* The style of a file; a page has its own. The colors are distinguishable with color blindness
 * (Okabe and Ito), and the dashes without color. */
static const char *const style =
    "<style>\n"
    "  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #4b5563 }\n"
    "  .title { font-size: 17px; font-weight: 600; fill: #111827 }\n"
    "  .page { fill: #ffffff } .grid { stroke: #e5e7eb } .axis { stroke: #9ca3af }\n"
    "  .curve { fill: none; stroke-width: 2; stroke-linejoin: round }\n"
    "  .k0 { stroke: #0072b2 } .k1 { stroke: #d55e00; stroke-dasharray: 7 3 }\n"
    "  .k2 { stroke: #00795a; stroke-dasharray: 2 3 }\n"
    "  .k3 { stroke: #a2478a; stroke-dasharray: 9 3 2 3 }\n"
    "  circle.k0 { fill: #0072b2 } circle.k1 { fill: #d55e00 } circle.k2 { fill: #00795a }\n"
    "  circle.k3 { fill: #a2478a }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #9ca3af } .title { fill: #f3f4f6 } .page { fill: #111827 }\n"
    "    .grid { stroke: #1f2937 } .axis { stroke: #4b5563 }\n"
    "    .k0 { stroke: #56b4e9 } .k1 { stroke: #f0a04b } .k2 { stroke: #3fcf9f }\n"
    "    .k3 { stroke: #e39ac6 } circle.k0 { fill: #56b4e9 } circle.k1 { fill: #f0a04b }\n"
    "    circle.k2 { fill: #3fcf9f } circle.k3 { fill: #e39ac6 }\n"
    "  }\n"
    "</style>\n";

typedef struct range {
    double low, high, tick; /* range and tick distance of an axis; the distance is a round number */
} range;

typedef struct plot {
    weft__text text;
    frame f;
    range x, y;
} plot;

/* ---- axes ----------------------------------------------------------------------------------- */

/* The tick distance: the smallest of 1, 2 or 5 times a power of ten that gives at most TICKS
 * intervals. */
static double round_tick(double width)
{
    const double rough = width / (double)TICKS, power = pow(10, floor(log10(rough)));
    const double digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static range round_range(double low, double high, double least_tick)
{
    if (!(high > low)) {
        const double room = fmax(fabs(low) * 0.1, least_tick > 0 ? least_tick : 1e-3);
        low -= room;
        high += room;
    }
    const double tick = fmax(round_tick(high - low), least_tick);
    const double slack = 1e-6; /* of a tick: a value just beyond one adds no other */
    return (range){floor(low / tick + slack) * tick, ceil(high / tick - slack) * tick, tick};
}

static void find_ranges(plot *p, const weft_curve *curves, int n)
{
    double low_x = DBL_MAX, high_x = -DBL_MAX, low_y = DBL_MAX, high_y = -DBL_MAX;
    for (int c = 0; c < n; c++) {
        for (int i = 0; i < curves[c].n; i++) {
            const double x = curves[c].x[i], y = curves[c].y[i];
            if (!isfinite(y))
                continue;
            low_x = fmin(low_x, x);
            high_x = fmax(high_x, x);
            low_y = fmin(low_y, y);
            high_y = fmax(high_y, y);
        }
    }
    if (low_x > high_x)
        low_x = low_y = 0, high_x = high_y = 1;
    p->x = round_range(low_x, high_x, 1);
    p->x.low = low_x < high_x ? low_x : p->x.low; /* the x axis is not extended to round numbers */
    p->x.high = low_x < high_x ? high_x : p->x.high;
    p->y = round_range(low_y, high_y, 0);
}

static double across(const plot *p, double x)
{
    const double width = p->f.width - p->f.left - p->f.right;
    return (double)p->f.left + (x - p->x.low) / (p->x.high - p->x.low) * width;
}

static double down(const plot *p, double y)
{
    const double bottom = p->f.height - p->f.bottom, height = p->f.height - p->f.top - p->f.bottom;
    return bottom - (y - p->y.low) / (p->y.high - p->y.low) * height;
}

static int decimals_of(double tick)
{
    const double places = -floor(log10(tick) + 1e-9);
    return places > 0 ? (int)fmin(places, 12) : 0;
}

static void draw_x_axis(plot *p, const char *name)
{
    char at[WEFT__NUMBER_TEXT], label[WEFT__NUMBER_TEXT];
    const int64_t first = (int64_t)ceil(p->x.low / p->x.tick);
    const int64_t last = (int64_t)floor(p->x.high / p->x.tick);
    for (int64_t i = first; i <= last; i++) {
        const double x = (double)i * p->x.tick;
        weft__text_format(&p->text, "<text x=\"%s\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                          weft__decimals(across(p, x), 1, at), p->f.height - p->f.bottom + 20,
                          weft__decimals(x, decimals_of(p->x.tick), label));
    }
    weft__text_format(&p->text,
                      "<path class=\"axis\" d=\"M%d %dH%d\"/>\n"
                      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                      p->f.left, p->f.height - p->f.bottom, p->f.width - p->f.right,
                      (p->f.left + p->f.width - p->f.right) / 2, p->f.height - 6, name);
}

static void draw_y_axis(plot *p)
{
    char at[WEFT__NUMBER_TEXT], label[WEFT__NUMBER_TEXT];
    const int64_t first = llround(p->y.low / p->y.tick), last = llround(p->y.high / p->y.tick);
    for (int64_t i = first; i <= last; i++) {
        const double y = (double)i * p->y.tick;
        weft__decimals(down(p, y), 1, at);
        weft__text_format(&p->text,
                          "<path class=\"grid\" d=\"M%d %sH%d\"/>\n"
                          "<text x=\"%d\" y=\"%s\" dy=\"4\" text-anchor=\"end\">%s</text>\n",
                          p->f.left, at, p->f.width - p->f.right, p->f.left - 10, at,
                          weft__decimals(y, decimals_of(p->y.tick), label));
    }
}

/* ---- curves --------------------------------------------------------------------------------- */

/* The mean of the finite points among `count` points from i. False: all are infinite or NaN. */
static bool mean_point(const weft_curve *c, int i, int count, double *x, double *y)
{
    int n = 0;
    *x = *y = 0;
    for (int j = i; j < i + count && j < c->n; j++) {
        if (isfinite(c->y[j])) {
            *x += c->x[j];
            *y += c->y[j];
            n++;
        }
    }
    *x /= n > 0 ? n : 1;
    *y /= n > 0 ? n : 1;
    return n > 0;
}

static void add_pair(plot *p, const char *before, double x, double y, int decimals)
{
    char px[WEFT__NUMBER_TEXT], py[WEFT__NUMBER_TEXT];
    if (decimals < 0)
        weft__text_format(&p->text, "%s%s,%s", before, weft__significant(x, 9, px),
                          weft__significant(y, DIGITS, py));
    else
        weft__text_format(&p->text, "%s%s %s", before, weft__decimals(x, decimals, px),
                          weft__decimals(y, decimals, py));
}

/* The points of a curve: `drawn` in the picture, else their values. A long curve has the means of
 * neighboring points. */
static void add_points(plot *p, const weft_curve *c, bool drawn)
{
    const int count = 1 + (c->n - 1) / MOST_POINTS;
    bool begun = false;
    double x, y;
    for (int i = 0; i < c->n; i += count) {
        if (!mean_point(c, i, count, &x, &y))
            continue;
        if (drawn)
            add_pair(p, begun ? "L" : "M", across(p, x), down(p, y), 1);
        else
            add_pair(p, begun ? " " : "", x, y, -1);
        begun = true;
    }
}

/* Draws a curve. One of a page has its values too, for the script. */
static void draw_curve(plot *p, const weft_curve *c, int index, bool values)
{
    char px[WEFT__NUMBER_TEXT], py[WEFT__NUMBER_TEXT];
    weft__text_format(&p->text, "<path class=\"curve k%d\" d=\"", index);
    add_points(p, c, true);
    if (values) {
        weft__text_format(&p->text, "\" data-name=\"");
        weft__page_escape(&p->text, c->name);
        weft__text_format(&p->text, "\" data-p=\"");
        add_points(p, c, false);
    }
    weft__text_format(&p->text, "\"/>\n");
    for (int i = 0; c->dots && i < c->n; i++) {
        if (isfinite(c->y[i]))
            weft__text_format(&p->text, "<circle class=\"k%d\" cx=\"%s\" cy=\"%s\" r=\"3.5\"/>\n",
                              index, weft__decimals(across(p, c->x[i]), 1, px),
                              weft__decimals(down(p, c->y[i]), 1, py));
    }
}

static void draw_key(plot *p, const weft_curve *curves, int n)
{
    for (int i = 0; i < n; i++) {
        const int x = p->f.width - p->f.right - 180 * (n - i);
        weft__text_format(&p->text,
                          "<path class=\"curve k%d\" d=\"M%d 44h24\"/>\n<text x=\"%d\" y=\"48\">",
                          i, x, x + 32);
        weft__page_escape(&p->text, curves[i].name);
        weft__text_format(&p->text, "</text>\n");
    }
}

static void draw_all(plot *p, const char *x_name, const weft_curve *curves, const int *styles,
                     int n)
{
    draw_y_axis(p);
    draw_x_axis(p, x_name);
    for (int i = 0; i < n; i++)
        draw_curve(p, &curves[i], styles ? styles[i] : i, styles != NULL);
}

/* ---- figures of pages ----------------------------------------------------------------------- */

/* The ranges of the axes in the picture and in values. */
static void add_box(plot *p)
{
    char number[WEFT__NUMBER_TEXT];
    weft__text_format(&p->text, " data-box=\"%d %d %d %d %s", p->f.left, p->f.width - p->f.right,
                      p->f.top, p->f.height - p->f.bottom, weft__number(p->x.low, number));
    weft__text_format(&p->text, " %s\"", weft__number(p->x.high, number));
}

static void add_legend(plot *p, const weft_curve *curves, const int *styles, int n)
{
    weft__text_format(&p->text, "<small>");
    for (int i = 0; i < n; i++) {
        weft__text_format(&p->text,
                          "<span><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">"
                          "<path class=\"curve k%d\" d=\"M0 5h26\"/>",
                          styles[i]);
        if (curves[i].dots)
            weft__text_format(&p->text, "<circle class=\"k%d\" cx=\"13\" cy=\"5\" r=\"3.5\"/>",
                              styles[i]);
        weft__text_format(&p->text, "</svg>");
        weft__page_escape(&p->text, curves[i].name);
        weft__text_format(&p->text, "</span>");
    }
    weft__text_format(&p->text, "</small>");
}

void weft__figure_draw(weft__text *out, const char *title, const weft_curve *curves,
                       const int *styles, int n)
{
    plot p = {.text = *out, .f = of_page};
    find_ranges(&p, curves, n);
    weft__text_format(&p.text, "<figure><figcaption>");
    weft__page_escape(&p.text, title);
    add_legend(&p, curves, styles, n);
    weft__text_format(&p.text,
                      "</figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" tabindex=\"0\" "
                      "aria-label=\"",
                      p.f.width, p.f.height);
    weft__page_escape(&p.text, title);
    weft__text_format(&p.text, "\"");
    add_box(&p);
    weft__text_format(&p.text, ">\n");
    draw_all(&p, "update", curves, styles, n);
    weft__text_format(&p.text, "</svg></figure>\n");
    *out = p.text;
}

/* ---- files ---------------------------------------------------------------------------------- */

weft_status weft_curves_save(const char *path, const char *title, const char *x_name,
                             const weft_curve *curves, int n)
{
    enum { MOST_CURVES = 4 };
    if (n < 1 || n > MOST_CURVES)
        return weft_fail(WEFT_INVALID, "%s: expected 1 to %d curves, got %d", path, MOST_CURVES, n);
    plot p = {.f = of_file};
    find_ranges(&p, curves, n);
    weft__text_format(&p.text,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                      "role=\"img\">\n%s<rect class=\"page\" width=\"%d\" height=\"%d\" "
                      "rx=\"8\"/>\n<text class=\"title\" x=\"%d\" y=\"32\">",
                      p.f.width, p.f.height, style, p.f.width, p.f.height, p.f.left);
    weft__page_escape(&p.text, title);
    weft__text_format(&p.text, "</text>\n");
    draw_all(&p, x_name, curves, NULL, n);
    draw_key(&p, curves, n);
    weft__text_format(&p.text, "</svg>\n");
    const weft_status status = p.text.failed ? weft__out_of_memory(path, "drawing it")
                                             : weft_file_write(path, p.text.at, p.text.n);
    weft_free(p.text.at);
    return status;
}
