/* text/schema/decimal.h -- decimal numbers as they are written, for multipleOf: 0.3 is three times
 * 0.1, which it is not in binary. */
#ifndef WEFT_TEXT_SCHEMA_DECIMAL_H
#define WEFT_TEXT_SCHEMA_DECIMAL_H

#include <json-c/json_object.h>
#include <stdbool.h>
#include <stdint.h>

/* digits / 10^places, of which digits does not end with a zero; places may be below 0. */
typedef struct weft__decimal {
    int64_t digits;
    int places;
} weft__decimal;

enum { WEFT__DECIMAL_DIGITS = 17 };

/* False when the absolute value of a number has more digits than WEFT__DECIMAL_DIGITS. */
bool weft__decimal_of(json_object *number, weft__decimal *out);

/* The absolute value of `value` is a multiple of `of`, which is not 0. */
bool weft__decimal_is_multiple(weft__decimal value, weft__decimal of);

/* The step in which numbers with so many digits behind the point are multiples: digits / 10^places
 * is one of `of` exactly where `digits` is one of the step. INT64_MAX: only 0 is. */
int64_t weft__decimal_step(weft__decimal of, int places);

/* INT64_MAX: it is more than that. */
int64_t weft__common_multiple(int64_t a, int64_t b);

#endif
