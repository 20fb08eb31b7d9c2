/* core/io/print_number.h -- a column of numbers as text: one format for all of them. */
#ifndef CORE_IO_PRINT_NUMBER_H
#define CORE_IO_PRINT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/dtype.h"

enum { WEFT__NUMBER_TEXT = 360 }; /* the largest double and a precision of 17 */

/* How the floats of an array are written: with an exponent or not, and padded to what. */
typedef struct weft__float_format {
    weft_dtype dtype; /* digits are the fewest that tell its numbers apart */
    int precision;    /* digits after the point at most */
    bool scientific, plus;
    int left, right;     /* columns before and after the point */
    int exponent_digits; /* of the scientific form */
} weft__float_format;

/* The format for n numbers, `stride` apart. */
weft__float_format weft__float_format_of(const double *values, int64_t n, int stride,
                                         weft_dtype dtype, int precision, bool suppress, bool plus);
/* One number; returns its length. */
int weft__float_text(const weft__float_format *f, double value, char out[WEFT__NUMBER_TEXT]);

/* A number by itself: the fewest digits that are it. */
int weft__scalar_text(double value, weft_dtype dtype, char out[WEFT__NUMBER_TEXT]);

#endif
