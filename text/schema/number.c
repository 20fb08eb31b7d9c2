/* text/schema/number.c -- decides whether the prefix of a number can become a number within its
 * bounds.
 *
 * Bounded numbers have no exponent and at most 15 digits, so that digits / 10^n is correctly
 * rounded and equals what a parser reads.
 */
#include "text/schema/number.h"

#include <math.h>

static const int64_t powers[] = {1,
                                 10,
                                 100,
                                 1000,
                                 10000,
                                 100000,
                                 1000000,
                                 10000000,
                                 100000000,
                                 1000000000,
                                 10000000000,
                                 100000000000,
                                 1000000000000,
                                 10000000000000,
                                 100000000000000,
                                 1000000000000000};

_Static_assert(SCHEMA_PLACES == NUMBER_DIGITS + 1, "a step for each number of places");

static bool bounded(const schema_choice *c)
{
    return c->minimum > -INFINITY || c->maximum < INFINITY;
}

static bool whole(const schema_choice *c)
{
    return !(c->types & SCHEMA_NUMBER);
}

/* A number that is not an integer has a fraction other than zeros, and no exponent. */
static bool distinct(const schema_choice *c)
{
    return !(c->types & SCHEMA_INTEGER);
}

/* Most digits before the point. If a fraction is required, there is always space for it. */
static int most_whole(const schema_choice *c)
{
    return distinct(c) ? NUMBER_DIGITS - 3 : NUMBER_DIGITS;
}

static bool counted(const schema_choice *c)
{
    return bounded(c) || distinct(c) || c->multiples;
}

/* The bounds on the digits after the sign. */
typedef struct interval {
    double least, most;
    bool above, below;
    bool distinct; /* a fraction is required, and does not end in a zero */
    const schema_multiples *multiples;
} interval;

static interval bounds_of(const schema_choice *c, bool negative)
{
    if (negative)
        return (interval){-c->maximum, -c->minimum, c->below, c->above, distinct(c), c->multiples};
    return (interval){c->minimum, c->maximum, c->above, c->below, distinct(c), c->multiples};
}

static bool reaches_least(const interval *b, int64_t digits, int n_fraction)
{
    const double value = (double)digits / (double)powers[n_fraction];
    return b->above ? value > b->least : value >= b->least;
}

static bool within_most(const interval *b, int64_t digits, int n_fraction)
{
    const double value = (double)digits / (double)powers[n_fraction];
    return b->below ? value < b->most : value <= b->most;
}

/* Whether some of the digits low .. high satisfy the upper bound; they satisfy the lower one. */
static bool any_from(const interval *b, int64_t low, int64_t high, int n_fraction)
{
    const int64_t step = b->multiples ? b->multiples->step[n_fraction] : 1;
    int64_t digits = low % step == 0 ? low : low - low % step + step;
    /* If two consecutive multiples end in a zero, all do. */
    if (b->distinct && digits % 10 == 0) {
        if (digits > high || step > high - digits)
            return false;
        digits += step;
    }
    return digits <= high && within_most(b, digits, n_fraction) &&
           !(b->distinct && digits % 10 == 0);
}

/* Whether some of the digits low .. high, the last n_fraction of them after the point, are within
 * the bounds. */
static bool any_within(const interval *b, int64_t low, int64_t high, int n_fraction)
{
    const double scaled = b->least * (double)powers[n_fraction];
    if (scaled > (double)high + 2 || (b->distinct && n_fraction == 0))
        return false;
    /* The product is rounded; the first valid multiple is at most a step or two away. */
    int64_t digits = scaled < (double)low ? low : (int64_t)scaled - 1;
    if (digits < low)
        digits = low;
    for (int i = 0; i < 4 && digits <= high; i++, digits++)
        if (reaches_least(b, digits, n_fraction))
            return any_from(b, digits, high, n_fraction);
    return false;
}

/* From an integer part: tries more digits before the point, then digits after it. */
static int64_t distance_from_whole(const schema_choice *c, const number_prefix *p)
{
    const interval b = bounds_of(c, p->negative);
    const int room = NUMBER_DIGITS - p->n_whole;
    const int longer = p->phase == NUMBER_ZERO ? 0 : most_whole(c) - p->n_whole;
    int64_t best = SCHEMA_NEVER;
    for (int more = 0; more <= longer; more++)
        for (int behind = 0; behind <= (whole(c) ? 0 : room - more); behind++) {
            const int64_t cost = more + (behind ? 1 + behind : 0);
            const int64_t low = p->digits * powers[more + behind];
            if (cost < best && any_within(&b, low, low + powers[more + behind] - 1, behind))
                best = cost;
        }
    return best;
}

static int64_t distance_from_fraction(const schema_choice *c, const number_prefix *p)
{
    const interval b = bounds_of(c, p->negative);
    const int room = NUMBER_DIGITS - p->n_whole - p->n_fraction;
    for (int more = p->phase == NUMBER_POINT; more <= room; more++) {
        const int64_t low = p->digits * powers[more];
        if (any_within(&b, low, low + powers[more] - 1, p->n_fraction + more))
            return more;
    }
    return SCHEMA_NEVER;
}

static int64_t distance_from_start(const schema_choice *c, const number_prefix *p)
{
    int64_t best = SCHEMA_NEVER;
    for (int digit = 0; digit <= 9; digit++) {
        const number_prefix next = {.digits = digit,
                                    .n_whole = 1,
                                    .negative = p->negative,
                                    .phase = digit ? NUMBER_WHOLE : NUMBER_ZERO};
        const int64_t rest = distance_from_whole(c, &next);
        if (rest < SCHEMA_NEVER && rest + 1 < best)
            best = rest + 1;
    }
    return best;
}

int64_t weft__number_distance(const schema_choice *choice, const number_prefix *prefix)
{
    switch ((number_phase)prefix->phase) {
    case NUMBER_START:
        return counted(choice) ? distance_from_start(choice, prefix) : 1;
    case NUMBER_ZERO:
    case NUMBER_WHOLE:
        return counted(choice) ? distance_from_whole(choice, prefix) : 0;
    case NUMBER_POINT:
        return counted(choice) ? distance_from_fraction(choice, prefix) : 1;
    case NUMBER_FRACTION:
        return counted(choice) ? distance_from_fraction(choice, prefix) : 0;
    case NUMBER_E:
    case NUMBER_E_SIGN:
        return 1;
    case NUMBER_EXPONENT:
        return 0;
    }
    return SCHEMA_NEVER;
}

int64_t weft__number_least(const schema_choice *choice)
{
    const number_prefix plain = {0}, minus = {.negative = true};
    const int64_t a = weft__number_distance(choice, &plain);
    const int64_t b = weft__number_distance(choice, &minus) + 1;
    return a < b ? a : b > SCHEMA_NEVER ? SCHEMA_NEVER : b;
}

bool weft__number_ends(const schema_choice *choice, const number_prefix *prefix)
{
    return weft__number_distance(choice, prefix) == 0;
}

static bool add_digit(number_prefix *p, char c, unsigned char phase, signed char *count)
{
    if (c < '0' || c > '9' || p->n_whole + p->n_fraction >= NUMBER_DIGITS)
        return false;
    p->digits = p->digits * 10 + (c - '0');
    ++*count;
    p->phase = phase;
    return true;
}

static bool add_exponent_digit(number_prefix *p, char c)
{
    if (c < '0' || c > '9' || p->n_exponent >= 2)
        return false;
    p->n_exponent++;
    p->phase = NUMBER_EXPONENT;
    return true;
}

static bool add_mark(const schema_choice *choice, number_prefix *p, char c)
{
    if (c == '.' && p->phase != NUMBER_FRACTION && !whole(choice)) {
        p->phase = NUMBER_POINT;
        return p->n_whole < NUMBER_DIGITS;
    }
    if ((c == 'e' || c == 'E') && !whole(choice) && !counted(choice)) {
        p->phase = NUMBER_E;
        return true;
    }
    return false;
}

static bool read_character(const schema_choice *choice, number_prefix *p, char c)
{
    switch ((number_phase)p->phase) {
    case NUMBER_START:
        if (c == '-' && !p->negative)
            return p->negative = true;
        return add_digit(p, c, c == '0' ? NUMBER_ZERO : NUMBER_WHOLE, &p->n_whole);
    case NUMBER_ZERO:
        return add_mark(choice, p, c);
    case NUMBER_WHOLE:
        return (p->n_whole < most_whole(choice) && add_digit(p, c, NUMBER_WHOLE, &p->n_whole)) ||
               add_mark(choice, p, c);
    case NUMBER_POINT:
        return add_digit(p, c, NUMBER_FRACTION, &p->n_fraction);
    case NUMBER_FRACTION:
        return add_digit(p, c, NUMBER_FRACTION, &p->n_fraction) || add_mark(choice, p, c);
    case NUMBER_E:
        if (c == '+' || c == '-') {
            p->phase = NUMBER_E_SIGN;
            return true;
        }
        return add_exponent_digit(p, c);
    case NUMBER_E_SIGN:
    case NUMBER_EXPONENT:
        return add_exponent_digit(p, c);
    }
    return false;
}

bool weft__number_step(const schema_choice *choice, number_prefix *prefix, char c)
{
    number_prefix next = *prefix;
    if (!read_character(choice, &next, c) || weft__number_distance(choice, &next) >= SCHEMA_NEVER)
        return false;
    *prefix = next;
    return true;
}
