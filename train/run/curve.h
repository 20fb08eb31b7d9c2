/* train/run/curve.h -- draws curves over common axes as SVG. */
#ifndef WEFT_TRAIN_CURVE_H
#define WEFT_TRAIN_CURVE_H

#include "core/io/text.h"
#include "weft/train.h"

/* Appends the SVG that weft_curves_save writes, for 1 to 4 curves. */
void weft__curves_draw(weft__text *out, const char *title, const char *x_name,
                       const weft_curve *curves, int n);

#endif
