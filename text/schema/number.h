/* text/schema/number.h -- numbers in decimal notation, read character by character. */
#ifndef WEFT_TEXT_SCHEMA_NUMBER_H
#define WEFT_TEXT_SCHEMA_NUMBER_H

#include "text/schema/schema.h"

/* Most digits of a bounded number or an integer; more would not be exact in a double. */
enum { NUMBER_DIGITS = 15 };

typedef enum number_phase {
    NUMBER_START, /* nothing, or a sign */
    NUMBER_ZERO,  /* a leading zero, which no digit may follow */
    NUMBER_WHOLE,
    NUMBER_POINT, /* a point that needs a digit */
    NUMBER_FRACTION,
    NUMBER_E, /* an exponent that needs a sign or a digit */
    NUMBER_E_SIGN,
    NUMBER_EXPONENT
} number_phase;

/* The prefix of a number read so far. */
typedef struct number_prefix {
    int64_t digits; /* without sign and point */
    signed char n_whole, n_fraction, n_exponent;
    bool negative;
    unsigned char phase;
} number_prefix;

/* Reads one more character; false, with nothing changed, when no valid number begins so. */
bool weft__number_step(const schema_choice *choice, number_prefix *prefix, char c);
/* Whether the number may end here. */
bool weft__number_ends(const schema_choice *choice, const number_prefix *prefix);
/* The number of characters missing to the nearest valid end. */
int64_t weft__number_distance(const schema_choice *choice, const number_prefix *prefix);
/* The length of the shortest number. */
int64_t weft__number_least(const schema_choice *choice);

#endif
