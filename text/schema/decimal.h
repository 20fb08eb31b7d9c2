/* text/schema/decimal.h -- exact decimal numbers, of any size: 0.3 is a multiple of 0.1, but not in
 * binary, and doubles of 2^53 and 2^53 + 1 are equal. */
#ifndef WEFT_TEXT_SCHEMA_DECIMAL_H
#define WEFT_TEXT_SCHEMA_DECIMAL_H

#include <json-c/json_object.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/io/text.h"

/* digits / 10^places, where digits does not end in a zero; places may be negative. */
typedef struct weft__decimal {
    int64_t digits;
    int places;
} weft__decimal;

enum { WEFT__DECIMAL_DIGITS = 17 };

/* False when the absolute value has more than WEFT__DECIMAL_DIGITS digits. */
bool weft__decimal_of(json_object *number, weft__decimal *out);

/* Whether a number of any size is a multiple of `of`, which is not 0 (absolute values). */
bool weft__decimal_is_multiple(json_object *number, weft__decimal of);

/* Below 0, 0 or above 0: a is less than b, equal to it, or more. */
int weft__decimal_compare(json_object *a, json_object *b);

bool weft__decimal_is_integer(json_object *number);

/* Appends one form for all notations of a number. */
void weft__decimal_write(weft__text *out, json_object *number);

/* For numbers with `places` decimals: digits / 10^places is a multiple of `of` if and only if
 * `digits` is a multiple of the result. INT64_MAX: only 0 is. */
int64_t weft__decimal_step(weft__decimal of, int places);

/* INT64_MAX: overflow. */
int64_t weft__common_multiple(int64_t a, int64_t b);

#endif
