/* text/jinja/numbers.c -- numbers from texts, integers beyond 64 bits, and the order of numbers.
 *
 * Integers beyond 64 bits keep their digits: they are printed and compared exactly. Arithmetic with
 * them fails. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/node.h"
#include "text/jinja/tables.h"

enum { MAX_DIGITS = 4300, FLOAT_DIGITS = 310 }; /* Python's limit; digits of the largest double */

/* ---- strings to numbers ---------------------------------------------------------------------- */

static jinja_value trimmed(jinja_value s)
{
    jinja quiet = {.steps = UINT64_MAX};
    return weft__jinja_trim(&quiet, s, weft__jinja_none(), true, true);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/* The digits of an integer with "_" between them, and whether a minus precedes them; n is 0 if the
 * text is not an integer. */
static jinja_value digits_of(jinja_value text, int base, bool *minus)
{
    const jinja_value s = trimmed(text);
    *minus = s.n > 0 && s.as.s[0] == '-';
    size_t start = *minus || (s.n > 0 && s.as.s[0] == '+');
    if (s.n - start > 2 && s.as.s[start] == '0') {
        const char mark = (char)(s.as.s[start + 1] | 32);
        if ((mark == 'x' && base == 16) || (mark == 'o' && base == 8) || (mark == 'b' && base == 2))
            start += 2;
    }
    bool digit = false; /* an _ must be between two digits */
    for (size_t i = start; i < s.n; i++) {
        const bool separator = s.as.s[i] == '_' && digit;
        if (!separator && digit_of(s.as.s[i]) >= base)
            return weft__jinja_view("", 0);
        digit = !separator;
    }
    return weft__jinja_view(s.as.s + start, digit ? s.n - start : 0);
}

bool weft__jinja_to_integer(jinja_value text, int base, int64_t *out)
{
    bool minus;
    int64_t value = 0;
    const jinja_value digits = digits_of(text, base, &minus);
    for (size_t i = 0; i < digits.n; i++)
        if (digits.as.s[i] != '_' &&
            (__builtin_mul_overflow(value, base, &value) ||
             __builtin_sub_overflow(value, digit_of(digits.as.s[i]), &value)))
            return false;
    if (digits.n == 0 || (!minus && value == INT64_MIN))
        return false;
    *out = minus ? value : -value;
    return true;
}

jinja_value weft__jinja_integer_of(jinja *j, jinja_value text, int base)
{
    bool minus;
    int64_t integer = 0;
    if (weft__jinja_to_integer(text, base, &integer))
        return weft__jinja_int(integer);
    const jinja_value from = digits_of(text, base, &minus);
    if (from.n == 0 || from.n > MAX_DIGITS || !weft__jinja_charge(j, from.n * from.n))
        return weft__jinja_undefined(NULL);
    char *digits = weft__jinja_take(j, 2 * from.n + 1); /* a base of 36 needs 1.56 times as many */
    size_t n = 0;                                       /* of digits, the last one first */
    for (size_t i = 0; i < from.n && digits; i++) {
        int carry = from.as.s[i] == '_' ? 0 : digit_of(from.as.s[i]);
        for (size_t k = 0; from.as.s[i] != '_' && (k < n || carry > 0); k++) {
            carry += k < n ? base * (digits[k] - '0') : 0;
            digits[k] = (char)('0' + carry % 10);
            carry /= 10;
            n = k < n ? n : k + 1;
        }
    }
    for (size_t i = 0; i < n / 2; i++) {
        const char swap = digits[i];
        digits[i] = digits[n - 1 - i];
        digits[n - 1 - i] = swap;
    }
    return weft__jinja_big(digits, n, minus);
}

jinja_value weft__jinja_big(const char *digits, size_t n, bool negative)
{
    if (n == 19 && negative && memcmp(digits, "9223372036854775808", n) == 0)
        return weft__jinja_int(INT64_MIN);
    return (jinja_value){.kind = JINJA_BIG, .negative = negative, .n = n, .as.s = digits};
}

jinja_value weft__jinja_truncated(jinja *j, double number)
{
    char digits[FLOAT_DIGITS];
    if (fabs(number) < 0x1p63)
        return weft__jinja_int((int64_t)number);
    snprintf(digits, sizeof digits, "%.0f", fabs(number));
    const jinja_value copy = weft__jinja_string(j, digits, strlen(digits));
    return j->status ? copy : weft__jinja_big(copy.as.s, copy.n, number < 0);
}

bool weft__jinja_to_number(jinja_value text, double *out)
{
    const jinja_value s = trimmed(text);
    char digits[400];
    size_t n = 0;
    bool digit = false;
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.as.s[i];
        const bool last = digit;
        digit = c >= '0' && c <= '9';
        if (c == '_' && last)
            continue;
        if (!digit && !strchr("+-.eE", c))
            break;
        if (!c || n + 1 == sizeof digits)
            return false;
        digits[n++] = c;
    }
    digits[n] = '\0';
    static const char *const names[] = {"nan", "inf", "infinity", "+inf", "-inf"};
    static const double values[] = {NAN, INFINITY, INFINITY, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (s.n == strlen(names[i]) && memcmp(s.as.s, names[i], s.n) == 0) {
            *out = values[i];
            return true;
        }
    char *end = NULL;
    *out = strtod(digits, &end);
    return n > 0 && *end == '\0' && (n == s.n || memchr(s.as.s, '_', s.n)) &&
           digit_of(digits[n - 1]) < 11 - (digits[n - 1] == '.');
}

/* ---- numbers -------------------------------------------------------------------------------- */

bool weft__jinja_is_integer(jinja_value value, int64_t *out)
{
    if (value.kind == JINJA_BOOL)
        *out = value.as.b;
    else if (value.kind == JINJA_INT)
        *out = value.as.i;
    else
        return false;
    return true;
}

bool weft__jinja_is_number(jinja_value value, double *out)
{
    int64_t integer = 0;
    if (value.kind == JINJA_FLOAT) {
        *out = value.as.f;
    } else if (weft__jinja_is_integer(value, &integer)) {
        *out = (double)integer;
    } else if (value.kind == JINJA_BIG) {
        char digits[FLOAT_DIGITS];
        snprintf(digits, sizeof digits, "%.*s", (int)value.n, value.as.s);
        *out = value.n < sizeof digits ? strtod(digits, NULL) : INFINITY;
        *out = value.negative ? -*out : *out;
    } else {
        return false;
    }
    return true;
}

/* Numbers without their sign: more digits, or the first different one. */
static int order_digits(jinja_value a, jinja_value b)
{
    if (a.n != b.n)
        return a.n < b.n ? -1 : 1;
    const int order = memcmp(a.as.s, b.as.s, a.n);
    return (order > 0) - (order < 0);
}

static int sign_of(double x, double y)
{
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

/* An integer beyond 64 bits against any number: its sign, unless the other one is beyond them on
 * the same side. */
static int order_big(jinja_value a, jinja_value b)
{
    char digits[FLOAT_DIGITS];
    const int sign = a.negative ? -1 : 1;
    double number = 0;
    weft__jinja_is_number(b, &number);
    if (isnan(number))
        return 2;
    if (b.kind == JINJA_FLOAT && fabs(number) >= 0x1p63 && (number < 0) == a.negative) {
        if (isinf(number))
            return -sign;
        snprintf(digits, sizeof digits, "%.0f", fabs(number));
        b = weft__jinja_big(digits, strlen(digits), false);
    } else if (b.kind != JINJA_BIG || a.negative != b.negative) {
        return sign;
    }
    return sign * order_digits(a, b);
}

/* An integer against a double: exact, where a conversion to double would round. */
static int order_float(int64_t a, double b)
{
    if (!(b >= -0x1p63 && b < 0x1p63))
        return isnan(b) ? 2 : b < 0 ? 1 : -1;
    const int64_t whole = (int64_t)b;
    return a != whole ? (a > whole) - (a < whole) : sign_of(0, b - (double)whole);
}

int weft__jinja_order_numbers(jinja_value a, jinja_value b)
{
    int64_t i = 0, k = 0;
    double x = 0, y = 0;
    const bool left = weft__jinja_is_integer(a, &i), right = weft__jinja_is_integer(b, &k);
    if (!weft__jinja_is_number(a, &x) || !weft__jinja_is_number(b, &y))
        return JINJA_NO_NUMBERS;
    if (left && right)
        return (i > k) - (i < k);
    int order = 0;
    if (a.kind == JINJA_BIG)
        return order_big(a, b);
    if (b.kind == JINJA_BIG)
        order = order_big(b, a);
    else if (left)
        return order_float(i, y);
    else if (right)
        order = order_float(k, x);
    else
        return sign_of(x, y);
    return order == 2 ? 2 : -order;
}
