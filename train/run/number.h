/* train/run/number.h -- numbers as JSON and SVG write them. */
#ifndef WEFT_TRAIN_NUMBER_H
#define WEFT_TRAIN_NUMBER_H

enum { WEFT__NUMBER_TEXT = 40 };

/* The shortest text that reads back as this very double, whatever the locale; "null" when it is not
 * finite. Returns `out`. */
const char *weft__number(double value, char out[WEFT__NUMBER_TEXT]);

/* The same with a number of decimals. */
const char *weft__decimals(double value, int decimals, char out[WEFT__NUMBER_TEXT]);

#endif
