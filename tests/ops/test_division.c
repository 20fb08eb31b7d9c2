/* tests/ops/test_division.c -- floor_divide, remainder and divmod against exact rational quotients
 * and NumPy, over a grid of signs, zeros, infinities, NaN, subnormals and ends of integer ranges;
 * and the gradient of remainder. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/ops.h"
#include "weft/transforms.h"

enum { MOST = 4096 };

static const char *named(const char *kind, const char *part)
{
    static char name[4][64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(name[turn], sizeof name[turn], "%s.%s", kind, part);
    return name[turn];
}

typedef struct pairs {
    double a[MOST], b[MOST], expected[MOST], actual[MOST];
    int64_t n;
} pairs;

static bool read_pairs(const char *kind, const char *part, weft_array *actual, pairs *out)
{
    out->n = weft_size(actual);
    return out->n <= MOST && CHECK_OK(weft_read(actual, WEFT_FLOAT64, out->actual, out->n)) &&
           CHECK_OK(weft_read(golden_get(named(kind, "a")), WEFT_FLOAT64, out->a, out->n)) &&
           CHECK_OK(weft_read(golden_get(named(kind, "b")), WEFT_FLOAT64, out->b, out->n)) &&
           CHECK_OK(weft_read(golden_get(named(kind, part)), WEFT_FLOAT64, out->expected, out->n));
}

static bool flushed(const pairs *p, int64_t i)
{
    return check_may_be_flushed(p->a[i]) || check_may_be_flushed(p->b[i]) ||
           check_may_be_flushed(p->expected[i]);
}

/* Quotients are exact, with the sign of zeros, below 2^23 (float64: 2^52), and closer than the two
 * roundings of a / b and its floor above. */
static void check_quotients(const char *kind, weft_array *actual, double exact_below,
                            double tolerance)
{
    static pairs p;
    if (!read_pairs(kind, "quotient", actual, &p)) {
        return;
    }
    for (int64_t i = 0; i < p.n; i++) {
        double e = p.expected[i], x = p.actual[i];
        bool same = x == e && (tolerance == 0 || signbit(x) == signbit(e));
        bool near = fabs(e) >= exact_below && isfinite(e) && fabs(x - e) <= tolerance * fabs(e);
        if (!same && !near && !(isnan(x) && isnan(e)) && !flushed(&p, i)) {
            CHECK_FAIL("%s: floor_divide(%.9g, %.9g): expected %.9g, got %.9g", kind, p.a[i],
                       p.b[i], e, x);
            return;
        }
    }
}

static void check_remainders(const char *kind, weft_array *actual)
{
    static pairs p;
    if (!read_pairs(kind, "rest", actual, &p)) {
        return;
    }
    for (int64_t i = 0; i < p.n; i++) {
        double e = p.expected[i], x = p.actual[i];
        if (x != e && !(isnan(x) && isnan(e)) && !flushed(&p, i)) {
            CHECK_FAIL("%s: remainder(%.9g, %.9g): expected %.9g, got %.9g", kind, p.a[i], p.b[i],
                       e, x);
            return;
        }
    }
}

static void quotients_and_remainders_agree_with_numpy(void)
{
    static const struct {
        const char *kind;
        double exact_below, tolerance;
    } kinds[] = {
        {"float32", 0x1p23, 0x1p-22},
        {"float64", 0x1p52, 0x1p-51},
        {"float16", 0x1p11, 0x1p-10},
        {"int8", 0, 0},
        {"int16", 0, 0},
        {"int32", 0, 0},
        {"int64", 0, 0},
        {"uint8", 0, 0},
        {"uint32", 0, 0},
        {"uint64", 0, 0},
    };
    golden_open("ops/division");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        weft_scope_open();
        weft_array *a = golden_get(named(kinds[k].kind, "a"));
        weft_array *b = golden_get(named(kinds[k].kind, "b")), *both[2];
        check_quotients(kinds[k].kind, weft_floor_divide(a, b), kinds[k].exact_below,
                        kinds[k].tolerance);
        check_remainders(kinds[k].kind, weft_remainder(a, b));
        weft_divmod(a, b, &both[0], &both[1]);
        CHECK_OK(weft_eval_n(both, 2));
        check_quotients(kinds[k].kind, both[0], kinds[k].exact_below, kinds[k].tolerance);
        check_remainders(kinds[k].kind, both[1]);
        weft_scope_close(NULL);
    }
}

static weft_array *remainder_of(void *context, weft_array *const *in, int n)
{
    (void)context, (void)n;
    return weft_sum(weft_remainder(in[0], in[1]), WEFT_ALL_AXES, false);
}

/* d (a mod b) / d b = -floor(a / b): 1 mod 0.1 is 1 - 9 * 0.1, not 1 - 10 * 0.1. The quotients of
 * floats are far enough from integers for double to tell their floor. */
static void remainder_has_the_gradient_of_its_quotient(void)
{
    const float a[] = {1, -1, 0.3F, 7, 0.7F}, b[] = {0.1F, 0.1F, 0.1F, -2, -0.1F};
    weft_dims shape = {1, {5}};
    weft_scope_open();
    weft_array *in[] = {weft_from_data(a, WEFT_FLOAT32, shape),
                        weft_from_data(b, WEFT_FLOAT32, shape)};
    weft_array *grads[2] = {NULL};
    double values[5];
    CHECK_OK(weft_grad(remainder_of, NULL, in, 2, NULL, 0, grads));
    CHECK_OK(weft_read(grads[1], WEFT_FLOAT64, values, 5));
    for (int i = 0; i < 5; i++) {
        CHECK_CLOSE(values[i], -floor((double)a[i] / (double)b[i]), 0);
    }
    weft_scope_close(NULL);
}

CHECK_MAIN("division", CHECK_CASE(quotients_and_remainders_agree_with_numpy),
           CHECK_CASE(remainder_has_the_gradient_of_its_quotient))
