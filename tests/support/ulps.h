/* tests/support/ulps.h -- how far float32 results of elementwise ops are from their formulas in
 * double: samples, distances in units in the last place, and the bounds of
 * tests/golden/ops/elementwise_ulps.txt. */
#ifndef TESTS_SUPPORT_ULPS_H
#define TESTS_SUPPORT_ULPS_H

#include "weft/backend.h"

/* By kind modulo 4: any bits; magnitudes from 2^-20 to 2^20; ordinary numbers; numbers near 1 and
 * -1. */
float ulps_sample(int kind);

/* In ulp of `want`, or of `scale` if that is larger. */
double ulps_distance(double got, double want, double scale);

/* A bound is in ulp of the result, or of the value of a formula if that is larger, such as the size
 * of terms that cancel. */
typedef struct ulps_bound {
    char op[40];
    double ulps;
    bool scaled; /* there is a formula */
    weft_tape scale;
} ulps_bound;

enum { ULPS_MAX_BOUNDS = 160 };

int ulps_read_bounds(ulps_bound *bounds);
const ulps_bound *ulps_find(const ulps_bound *bounds, int n, const char *op);

/* Whether the op has a bound: a formula of one or two reals. */
bool ulps_is_measured(const weft_op *op);

#endif
