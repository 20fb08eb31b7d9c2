/* text/schema/decimal.c -- exact decimal numbers. */
#include "text/schema/decimal.h"

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

bool weft__decimal_is_multiple(weft__decimal value, weft__decimal of)
{
    const int64_t step = weft__decimal_step(of, value.places < 0 ? 0 : value.places);
    if (value.digits == 0 || step == INT64_MAX)
        return value.digits == 0;
    int64_t rest = value.digits % step;
    for (int i = value.places; i < 0 && rest != 0; i++) {
        if (rest > INT64_MAX / 10)
            return false;
        rest = rest * 10 % step;
    }
    return rest == 0;
}
