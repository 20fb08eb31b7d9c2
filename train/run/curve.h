/* train/run/curve.h -- draws curves over common axes as SVG. */
#ifndef WEFT_TRAIN_CURVE_H
#define WEFT_TRAIN_CURVE_H

#include "core/io/text.h"
#include "weft/tool/run.h"

/* Appends a figure of a page: 1 to WEFT_MOST_HISTORIES curves with their values for the page's
 * script. `styles` (n): the color and dashes of each, below WEFT_MOST_HISTORIES (page.css). */
void weft__figure_draw(weft__text *out, const char *title, const weft_curve *curves,
                       const int *styles, int n);

#endif
