/* core/io/print_number.c -- prints floats as NumPy does: the fewest digits that distinguish them,
 * at most `precision` after the point, in a common width. */
#include "core/io/print_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number in decimal: 0.d1d2d3... * 10^point, without trailing zeros. */
typedef struct decimal {
    char digits[24];
    int n, point;
    bool negative;
} decimal;

/* Whether the text parses to the same number of the dtype. */
static bool reads_back(const char *text, double value, weft_dtype dtype)
{
    double back = strtod(text, NULL);
    switch (dtype) {
    case WEFT_FLOAT16:
        return weft_float_to_float16((float)back) == weft_float_to_float16((float)value);
    case WEFT_BFLOAT16:
        return weft_float_to_bfloat16((float)back) == weft_float_to_bfloat16((float)value);
    case WEFT_FLOAT64:
        return back == value;
    default:
        return strtof(text, NULL) == (float)value;
    }
}

static void parse(const char *text, decimal *d)
{
    const char *e = strchr(text, 'e');
    d->n = 0;
    d->point = atoi(e + 1) + 1;
    for (const char *p = text; p < e; p++) {
        if (*p >= '0' && *p <= '9') {
            d->digits[d->n++] = *p;
        }
    }
    while (d->n > 1 && d->digits[d->n - 1] == '0') {
        d->n--;
    }
}

/* The shortest digits that parse to the same number. */
static decimal shortest(double value, weft_dtype dtype)
{
    decimal d = {.negative = signbit(value)};
    char text[40];
    int digits = 1;
    do {
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(value));
    } while (++digits <= 17 && !reads_back(text, fabs(value), dtype));
    parse(text, &d);
    return d;
}

/* At most `after` digits after the point, or after the first digit in scientific form. The number
 * itself is rounded, not its shortest digits. */
static decimal cut(double value, weft_dtype dtype, int after, bool scientific)
{
    decimal d = shortest(value, dtype);
    int keep = scientific ? after + 1 : d.point + after;
    if (value == 0 || d.n <= keep) {
        return d;
    }
    char text[WEFT__NUMBER_TEXT];
    if (!scientific) { /* digits of the number, rounded at the last position that is shown */
        snprintf(text, sizeof text, "%.*f", after, value);
        return shortest(strtod(text, NULL), WEFT_FLOAT64);
    }
    snprintf(text, sizeof text, "%.*e", after, fabs(value));
    parse(text, &d);
    return d;
}

/* The digits before and after the point. */
static void positional(const decimal *d, char *before, char *after)
{
    int n = 0, m = 0;
    for (int i = 0; i < d->point; i++) {
        before[n++] = i < d->n ? d->digits[i] : '0';
    }
    if (n == 0) {
        before[n++] = '0';
    }
    bool zero = d->n == 1 && d->digits[0] == '0';
    for (int i = d->point; i < 0 && !zero; i++) {
        after[m++] = '0';
    }
    for (int i = d->point > 0 ? d->point : 0; i < d->n && !zero; i++) {
        after[m++] = d->digits[i];
    }
    before[n] = after[m] = 0;
}

static void scientific(const decimal *d, char *before, char *after, char *exponent)
{
    bool zero = d->n == 1 && d->digits[0] == '0';
    int e = zero ? 0 : d->point - 1;
    before[0] = d->digits[0];
    before[1] = 0;
    memcpy(after, d->digits + 1, (size_t)(d->n - 1));
    after[d->n - 1] = 0;
    snprintf(exponent, 16, "%c%02d", e < 0 ? '-' : '+', abs(e));
}

/* Decimal digits that every number of the dtype preserves. */
static int safe_digits(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_BFLOAT16:
        return 2;
    case WEFT_FLOAT16:
        return 3;
    case WEFT_FLOAT64:
        return 15;
    default:
        return 6;
    }
}

static bool needs_exponent(const double *values, int64_t n, int stride, weft_dtype dtype,
                           bool suppress)
{
    int digits = safe_digits(dtype);
    double largest = 0, smallest = INFINITY, limit = pow(10, digits < 8 ? digits : 8);
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(values[i * stride]);
        if (isfinite(v) && v != 0) {
            largest = fmax(largest, v);
            smallest = fmin(smallest, v);
        }
    }
    bool small = smallest < 1e-4 || largest / smallest > 1000;
    return largest > 0 && (largest >= limit || (!suppress && small));
}

static int larger(int a, size_t b)
{
    return a > (int)b ? a : (int)b;
}

/* Widens the columns for one finite number. */
static void make_room(weft__float_format *f, double value)
{
    char before[WEFT__NUMBER_TEXT], after[WEFT__NUMBER_TEXT], exponent[16] = "";
    decimal d = cut(value, f->dtype, f->precision, f->scientific);
    if (f->scientific) {
        scientific(&d, before, after, exponent);
        f->exponent_digits = larger(f->exponent_digits, strlen(exponent) - 1);
    } else {
        positional(&d, before, after);
    }
    f->left = larger(f->left, strlen(before) + (d.negative || f->plus));
    f->right = larger(f->right, strlen(after));
}

weft__float_format weft__float_format_of(const double *values, int64_t n, int stride,
                                         weft_dtype dtype, int precision, bool suppress, bool plus)
{
    weft__float_format f = {.dtype = dtype, .precision = precision, .plus = plus};
    f.scientific = needs_exponent(values, n, stride, dtype, suppress);
    bool minus_infinity = false, infinite = false, missing = false;
    for (int64_t i = 0; i < n; i++) {
        double v = values[i * stride];
        missing = missing || isnan(v);
        infinite = infinite || isinf(v);
        minus_infinity = minus_infinity || v == -INFINITY;
        if (isfinite(v)) {
            make_room(&f, v);
        }
    }
    if (f.scientific) { /* from here on a fixed number of digits, and then the exponent */
        f.precision = f.right;
        f.right += f.exponent_digits + 2;
    }
    int beside = f.right + 1; /* columns beside the integer part */
    if (missing) {
        f.left = larger(f.left, (size_t)(3 + plus - beside > 0 ? 3 + plus - beside : 0));
    }
    if (infinite) {
        int width = 3 + (plus || minus_infinity);
        f.left = larger(f.left, (size_t)(width - beside > 0 ? width - beside : 0));
    }
    return f;
}

static int special(const weft__float_format *f, double value, char *out)
{
    const char *sign = value < 0 ? "-" : f->plus ? "+" : "";
    char text[8];
    snprintf(text, sizeof text, "%s%s", sign, isnan(value) ? "nan" : "inf");
    return snprintf(out, WEFT__NUMBER_TEXT, "%*s", f->left + f->right + 1, text);
}

int weft__float_text(const weft__float_format *f, double value, char out[WEFT__NUMBER_TEXT])
{
    if (!isfinite(value)) {
        return special(f, value, out);
    }
    char before[WEFT__NUMBER_TEXT], after[WEFT__NUMBER_TEXT], exponent[16] = "";
    decimal d = cut(value, f->dtype, f->precision, f->scientific);
    if (f->scientific) { /* if there are fewer digits than columns, further digits of the number
                          * follow */
        char text[WEFT__NUMBER_TEXT];
        snprintf(text, sizeof text, "%.*e", f->precision, fabs(value));
        snprintf(exponent, sizeof exponent, "%s", strchr(text, 'e') + 1);
        snprintf(before, sizeof before, "%c", text[0]);
        snprintf(after, sizeof after, "%.*s", f->precision, text + 2);
        char wide[16]; /* pads to the digits of the longest exponent */
        snprintf(wide, sizeof wide, "e%c%0*d", exponent[0], f->exponent_digits, atoi(exponent + 1));
        strcat(after, wide);
    } else {
        positional(&d, before, after);
    }
    const char *sign = d.negative ? "-" : f->plus ? "+" : "";
    int pad = f->left - (int)(strlen(before) + strlen(sign));
    return snprintf(out, WEFT__NUMBER_TEXT, "%*s%s%s.%-*s", pad > 0 ? pad : 0, "", sign, before,
                    f->right, after);
}

int weft__scalar_text(double value, weft_dtype dtype, char out[WEFT__NUMBER_TEXT])
{
    char before[WEFT__NUMBER_TEXT], after[WEFT__NUMBER_TEXT], exponent[16];
    if (!isfinite(value)) {
        return snprintf(out, WEFT__NUMBER_TEXT, "%s",
                        isnan(value) ? "nan"
                        : value < 0  ? "-inf"
                                     : "inf");
    }
    decimal d = shortest(value, dtype);
    const char *sign = d.negative ? "-" : "";
    double limit = dtype == WEFT_FLOAT64 ? 1e16 : pow(10, safe_digits(dtype));
    if (value != 0 && (fabs(value) >= limit || fabs(value) < 1e-4)) {
        scientific(&d, before, after, exponent);
        return snprintf(out, WEFT__NUMBER_TEXT, "%s%s%s%se%s", sign, before, after[0] ? "." : "",
                        after, exponent);
    }
    positional(&d, before, after);
    return snprintf(out, WEFT__NUMBER_TEXT, "%s%s.%s", sign, before, after[0] ? after : "0");
}
