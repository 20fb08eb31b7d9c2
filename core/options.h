/* core/options.h -- zero in the numbers of option structs (docs/architecture.md, Options). */
#ifndef WEFT_CORE_OPTIONS_H
#define WEFT_CORE_OPTIONS_H

#include <stdint.h>

/* Zero means the default, and a negative number zero. Where zero is the default, a negative number
 * stays, for the caller to refuse; so does NaN. */
static inline double weft__or_default(double value, double standard)
{
    return value == 0 ? standard : value < 0 && standard != 0 ? 0 : value;
}

static inline int64_t weft__count_or_default(int64_t value, int64_t standard)
{
    return value == 0 ? standard : value < 0 && standard != 0 ? 0 : value;
}

#endif
