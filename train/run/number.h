/* train/run/number.h -- writes numbers for JSON and SVG. */
#ifndef WEFT_TRAIN_NUMBER_H
#define WEFT_TRAIN_NUMBER_H

enum { WEFT__NUMBER_TEXT = 40 };

/* Writes the shortest text that reads back as exactly this double, in any locale; "null" if it is
 * not finite. Whole numbers below 1e15 have no exponent. Returns `out`. */
const char *weft__number(double value, char out[WEFT__NUMBER_TEXT]);

/* The same with that many significant digits. */
const char *weft__significant(double value, int digits, char out[WEFT__NUMBER_TEXT]);

/* The same with a fixed number of decimals. */
const char *weft__decimals(double value, int decimals, char out[WEFT__NUMBER_TEXT]);

#endif
