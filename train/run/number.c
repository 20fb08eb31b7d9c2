/* train/run/number.c -- writes numbers for JSON and SVG. */
#include "train/run/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT_DIGITS = 6, DOUBLE_DIGITS = 17 };

/* Whole numbers below this are written with all their digits. */
#define MOST_WHOLE 1e15

/* Replaces the locale's decimal separator, which printf writes, by a point. */
static const char *with_point(char *out)
{
    char *at = strpbrk(out, ",");
    if (at)
        *at = '.';
    return out;
}

const char *weft__number(double value, char out[WEFT__NUMBER_TEXT])
{
    if (!isfinite(value)) {
        memcpy(out, "null", sizeof "null");
        return out;
    }
    if (value == trunc(value) && fabs(value) < MOST_WHOLE) {
        snprintf(out, WEFT__NUMBER_TEXT, "%.0f", value);
        return out;
    }
    for (int digits = FLOAT_DIGITS; digits <= DOUBLE_DIGITS; digits++) {
        snprintf(out, WEFT__NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    return with_point(out);
}

const char *weft__significant(double value, int digits, char out[WEFT__NUMBER_TEXT])
{
    snprintf(out, WEFT__NUMBER_TEXT, "%.*g", digits, value);
    return with_point(out);
}

const char *weft__decimals(double value, int decimals, char out[WEFT__NUMBER_TEXT])
{
    snprintf(out, WEFT__NUMBER_TEXT, "%.*f", decimals, value);
    if (*out == '-' && strspn(out + 1, "0.,") == strlen(out + 1))
        memmove(out, out + 1, strlen(out)); /* no -0.00 */
    return with_point(out);
}
