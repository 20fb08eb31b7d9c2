/* train/run/curve.c -- draws curves over common axes as SVG. */
#include "train/run/curve.h"

#include <float.h>
#include <math.h>

#include "core/failure.h"
#include "train/run/number.h"

enum { WIDTH = 860, HEIGHT = 480, LEFT = 72, RIGHT = 28, TOP = 64, BOTTOM = 60 };
enum { MOST_CURVES = 4, MOST_POINTS = 1200, TICKS = 6 };

static const char *const style =
    "<style>\n"
    "  text { font-family: system-ui, sans-serif; font-size: 13px; fill: #4b5563 }\n"
    "  .title { font-size: 17px; font-weight: 600; fill: #111827 }\n"
    "  .page { fill: #ffffff } .grid { stroke: #e5e7eb } .axis { stroke: #9ca3af }\n"
    "  .curve { fill: none; stroke-width: 1.8; stroke-linejoin: round }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #9ca3af } .title { fill: #f3f4f6 } .page { fill: #111827 }\n"
    "    .grid { stroke: #1f2937 } .axis { stroke: #4b5563 }\n"
    "  }\n"
    "</style>\n";

static const char *const colours[MOST_CURVES] = {"#3b82f6", "#ea580c", "#16a34a", "#9333ea"};

typedef struct range {
    double low, high, tick; /* range and tick distance of an axis; the distance is a round number */
} range;

typedef struct plot {
    weft__text text;
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
    return (range){floor(low / tick) * tick, ceil(high / tick) * tick, tick};
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
    const double width = WIDTH - LEFT - RIGHT;
    return (double)LEFT + (x - p->x.low) / (p->x.high - p->x.low) * width;
}

static double down(const plot *p, double y)
{
    const double bottom = HEIGHT - BOTTOM, height = HEIGHT - TOP - BOTTOM;
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
                          weft__decimals(across(p, x), 1, at), HEIGHT - BOTTOM + 22,
                          weft__decimals(x, decimals_of(p->x.tick), label));
    }
    weft__text_format(&p->text,
                      "<path class=\"axis\" d=\"M%d %dH%d\"/>\n"
                      "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n",
                      LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14,
                      name);
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
                          LEFT, at, WIDTH - RIGHT, LEFT - 10, at,
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

/* Draws a curve. A long one is drawn through the means of neighbouring points. */
static void draw_curve(plot *p, const weft_curve *c, int index)
{
    char px[WEFT__NUMBER_TEXT], py[WEFT__NUMBER_TEXT];
    const int count = 1 + (c->n - 1) / MOST_POINTS;
    bool begun = false;
    double x, y;
    weft__text_format(&p->text, "<path class=\"curve\" stroke=\"%s\" d=\"", colours[index]);
    for (int i = 0; i < c->n; i += count) {
        if (!mean_point(c, i, count, &x, &y))
            continue;
        weft__text_format(&p->text, "%s%s %s", begun ? "L" : "M",
                          weft__decimals(across(p, x), 1, px), weft__decimals(down(p, y), 1, py));
        begun = true;
    }
    weft__text_format(&p->text, "\"/>\n");
    for (int i = 0; c->dots && i < c->n; i++) {
        if (isfinite(c->y[i]))
            weft__text_format(&p->text, "<circle fill=\"%s\" cx=\"%s\" cy=\"%s\" r=\"3.5\"/>\n",
                              colours[index], weft__decimals(across(p, c->x[i]), 1, px),
                              weft__decimals(down(p, c->y[i]), 1, py));
    }
}

static void draw_text(plot *p, const char *text)
{
    for (const char *at = text; *at; at++) {
        if (*at == '<' || *at == '&')
            weft__text_format(&p->text, *at == '<' ? "&lt;" : "&amp;");
        else
            weft__text_append(&p->text, at, 1);
    }
}

static void draw_key(plot *p, const weft_curve *curves, int n)
{
    for (int i = 0; i < n; i++) {
        const int x = WIDTH - RIGHT - 180 * (n - i);
        weft__text_format(
            &p->text,
            "<path class=\"curve\" stroke=\"%s\" d=\"M%d 44h24\"/>\n<text x=\"%d\" y=\"48\">",
            colours[i], x, x + 32);
        draw_text(p, curves[i].name);
        weft__text_format(&p->text, "</text>\n");
    }
}

void weft__curves_draw(weft__text *out, const char *title, const char *x_name,
                       const weft_curve *curves, int n)
{
    plot p = {.text = *out};
    find_ranges(&p, curves, n);
    weft__text_format(
        &p.text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
        "role=\"img\">\n%s<rect class=\"page\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n"
        "<text class=\"title\" x=\"%d\" y=\"32\">",
        WIDTH, HEIGHT, style, WIDTH, HEIGHT, LEFT);
    draw_text(&p, title);
    weft__text_format(&p.text, "</text>\n");
    draw_y_axis(&p);
    draw_x_axis(&p, x_name);
    for (int i = 0; i < n; i++)
        draw_curve(&p, &curves[i], i);
    draw_key(&p, curves, n);
    weft__text_format(&p.text, "</svg>\n");
    *out = p.text;
}

weft_status weft_curves_save(const char *path, const char *title, const char *x_name,
                             const weft_curve *curves, int n)
{
    if (n < 1 || n > MOST_CURVES)
        return weft_fail(WEFT_INVALID, "%s: expected 1 to %d curves, got %d", path, MOST_CURVES, n);
    weft__text text = {0};
    weft__curves_draw(&text, title, x_name, curves, n);
    const weft_status status = text.failed ? weft__out_of_memory(path, "drawing it")
                                           : weft_file_write(path, text.at, text.n);
    weft_free(text.at);
    return status;
}
