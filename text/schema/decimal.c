/* text/schema/decimal.c -- exact decimal numbers. */
#include "text/schema/decimal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 1000 };

/* Clamps the number of decimals; doubles have fewer. */
static long limited(long places)
{
    return places < -MOST_PLACES ? -MOST_PLACES : places > MOST_PLACES ? MOST_PLACES : places;
}

bool weft__decimal_of(json_object *number, weft__decimal *out)
{
    const char *at = json_object_to_json_string_ext(number, JSON_C_TO_STRING_PLAIN);
    int64_t digits = 0, zeros = 0; /* zeros: trailing zeros, not counted yet */
    long places = 0;
    int n = 0;
    bool behind = false;
    for (at += *at == '-'; *at == '.' || (*at >= '0' && *at <= '9'); at++) {
        behind |= *at == '.';
        places += behind && *at != '.';
        if (*at == '0' && digits > 0)
            zeros++;
        if (*at == '.' || *at == '0')
            continue;
        n += (int)(zeros < WEFT__DECIMAL_DIGITS ? zeros : WEFT__DECIMAL_DIGITS) + 1;
        if (n > WEFT__DECIMAL_DIGITS)
            return false;
        for (; zeros > 0; zeros--)
            digits *= 10;
        digits = digits * 10 + (*at - '0');
    }
    const long exponent = *at == 'e' || *at == 'E' ? strtol(at + 1, NULL, 10) : 0;
    places = limited(limited(places - (long)zeros) - limited(exponent));
    *out = (weft__decimal){digits, digits == 0 ? 0 : (int)places};
    return true;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int64_t weft__common_multiple(int64_t a, int64_t b)
{
    if (a == INT64_MAX || b == INT64_MAX)
        return INT64_MAX;
    const int64_t factor = b / common_divisor(a, b);
    return a > INT64_MAX / factor ? INT64_MAX : a * factor;
}

int64_t weft__decimal_step(weft__decimal of, int places)
{
    int64_t step = of.digits;
    int i = of.places;
    for (; i < places; i++) {
        if (step > INT64_MAX / 10)
            return INT64_MAX;
        step *= 10;
    }
    /* Each missing decimal removes one factor of 10 from the step, as far as it has the factors. */
    for (; i > places; i--) {
        step /= step % 2 == 0 ? 2 : 1;
        step /= step % 5 == 0 ? 5 : 1;
    }
    return step;
}

/* ---- numbers of any size -------------------------------------------------------------------- */

/* A number 0.DIGITS * 10^magnitude, as its text has it. */
typedef struct digits {
    const char *at; /* the first digit that is not 0 */
    long n;         /* up to the last that is not 0, without the point; 0: the number is 0 */
    long magnitude;
    bool negative;
} digits;

static digits read_digits(json_object *number)
{
    const char *at = json_object_to_json_string_ext(number, JSON_C_TO_STRING_PLAIN);
    digits d = {.negative = *at == '-'};
    long n = 0; /* digits so far, from the first that is not 0 */
    bool behind = false;
    for (at += *at == '-'; *at == '.' || (*at >= '0' && *at <= '9'); at++) {
        behind |= *at == '.';
        if (*at == '.' || (*at == '0' && n == 0)) {
            d.magnitude -= behind && *at != '.';
            continue;
        }
        d.at = n == 0 ? at : d.at;
        n++;
        d.magnitude += !behind;
        d.n = *at != '0' ? n : d.n;
    }
    const bool exponent = *at == 'e' || *at == 'E';
    d.magnitude += limited(exponent ? strtol(at + 1, NULL, 10) : 0);
    return *at == 'I' ? (digits){"1", 1, LONG_MAX, d.negative} : d; /* Infinity */
}

/* The next digit; 0 after the last. */
static int next_digit(digits *d)
{
    if (d->n == 0)
        return 0;
    d->n--;
    d->at += *d->at == '.';
    return *d->at++ - '0';
}

static int sign_of(const digits *d)
{
    return d->n == 0 ? 0 : d->negative ? -1 : 1;
}

int weft__decimal_compare(json_object *a, json_object *b)
{
    digits x = read_digits(a), y = read_digits(b);
    const int sign = sign_of(&x);
    if (sign != sign_of(&y) || sign == 0)
        return sign - sign_of(&y);
    if (x.magnitude != y.magnitude)
        return x.magnitude < y.magnitude ? -sign : sign;
    while (x.n > 0 || y.n > 0) {
        const int difference = next_digit(&x) - next_digit(&y);
        if (difference != 0)
            return difference < 0 ? -sign : sign;
    }
    return 0;
}

bool weft__decimal_is_integer(json_object *number)
{
    const digits d = read_digits(number);
    return d.n <= d.magnitude || d.n == 0;
}

bool weft__decimal_is_multiple(json_object *number, weft__decimal of)
{
    digits d = read_digits(number);
    const long more = of.places - (d.n - d.magnitude); /* zeros that make its places equal */
    int64_t rest = 0;
    if (d.n == 0 || more < 0)
        return d.n == 0; /* the last digit, which is not 0, is beyond the places of `of` */
    for (long i = d.n + more; i > 0; i--)
        rest = (rest * 10 + next_digit(&d)) % of.digits;
    return rest == 0;
}

void weft__decimal_write(weft__text *out, json_object *number)
{
    digits d = read_digits(number);
    if (d.n == 0) {
        weft__text_append(out, "0", 1);
        return;
    }
    weft__text_format(out, "%s%ld.", d.negative ? "-" : "", d.magnitude);
    while (d.n > 0)
        weft__text_format(out, "%d", next_digit(&d));
}
