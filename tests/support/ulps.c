/* tests/support/ulps.c -- samples, distances and bounds of elementwise results. */
#include "tests/support/ulps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"

static uint64_t state = 11;

static uint64_t next_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state ^ state >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

static float between(double low, double high)
{
    return (float)(low + (high - low) * ((double)(next_word() >> 11) * 0x1p-53));
}

float ulps_sample(int kind)
{
    uint32_t word = (uint32_t)(next_word() >> 32);
    float x;
    switch (kind % 4) {
    case 0:
        memcpy(&x, &word, sizeof x);
        return x;
    case 1:
        return ldexpf(between(-2, 2), (int)(word % 41) - 20);
    case 2:
        return between(-10, 10);
    default:
        return (word & 1 ? 1.0f : -1.0f) + ldexpf(between(-1, 1), -(int)(word >> 8) % 24);
    }
}

static double ulp(double x)
{
    int e;
    frexp(x, &e);
    return ldexp(1, e > -125 ? e - 24 : -149);
}

double ulps_distance(double got, double want, double scale)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : (double)INFINITY;
    }
    if (fabs(want) >= 0x1.ffffffp127 || isinf(got)) {
        bool near =
            fabs(want) >= 0x1.fffff8p127; /* may round to infinity, or within an ulp of it */
        return near && (isinf(got) || fabs(got) >= 0x1.fffff8p127) ? 0 : (double)INFINITY;
    }
    return fabs(got - want) / ulp(isfinite(scale) ? fmax(fabs(want), fabs(scale)) : want);
}

/* op bound [formula of the scale] [# reason] */
static bool read_bound(char *line, ulps_bound *b)
{
    char why[256];
    int end = 0;
    line[strcspn(line, "#\n")] = 0;
    if (sscanf(line, "%39s %lf %n", b->op, &b->ulps, &end) != 2) {
        return false;
    }
    const weft_op *op = weft_op_find(b->op);
    b->scaled = line[end] != 0;
    if (b->scaled && op &&
        !weft_tape_parse(line + end, WEFT_CLASS_REAL, op->arity, &b->scale, why, sizeof why)) {
        CHECK_FAIL("%s: %s", b->op, why);
    }
    return true;
}

int ulps_read_bounds(ulps_bound *bounds)
{
    FILE *file = fopen(check_fixture("ops/elementwise_ulps.txt"), "r");
    char line[512];
    int n = 0;
    while (file && n < ULPS_MAX_BOUNDS && fgets(line, sizeof line, file)) {
        n += read_bound(line, &bounds[n]);
    }
    if (file) {
        fclose(file);
    }
    return n;
}

bool ulps_is_measured(const weft_op *op)
{
    return op->family == WEFT_ELEMENTWISE && op->formula.real && !op->infer && !op->predicate &&
           op->arity <= 2;
}

const ulps_bound *ulps_find(const ulps_bound *bounds, int n, const char *op)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(bounds[i].op, op) == 0) {
            return &bounds[i];
        }
    }
    return NULL;
}
