/* core/io/print_number.h -- formats a column of numbers in one common format. */
#ifndef CORE_IO_PRINT_NUMBER_H
#define CORE_IO_PRINT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/dtype.h"

enum { WEFT__NUMBER_TEXT = 360 }; /* enough for the largest double with precision 17 */

/* The format of the floats of an array: with or without exponent, and the widths. */
typedef struct weft__float_format {
    weft_dtype dtype; /* for its shortest digits */
    int precision;    /* most digits after the point */
    bool scientific, plus;
    int left, right;     /* columns before and after the point */
    int exponent_digits; /* in scientific form */
} weft__float_format;

/* The format for n numbers at intervals of `stride`. */
weft__float_format weft__float_format_of(const double *values, int64_t n, int stride,
                                         weft_dtype dtype, int precision, bool suppress, bool plus);
/* Formats one number; returns its length. */
int weft__float_text(const weft__float_format *f, double value, char out[WEFT__NUMBER_TEXT]);

/* Formats a single number with its shortest digits. */
int weft__scalar_text(double value, weft_dtype dtype, char out[WEFT__NUMBER_TEXT]);

#endif
