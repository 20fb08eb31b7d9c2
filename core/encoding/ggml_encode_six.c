/* core/encoding/ggml_encode_six.c -- encodes floats as GGUF's Q6_K: x = d * scale * code, with the
 * scales and codes of least squared error. NaN becomes 0. */
#include "core/encoding/ggml.h"

#include <float.h>
#include <math.h>

enum { SUPER = 256, GROUP = 16, GROUPS = SUPER / GROUP, LOW = -32, HIGH = 31, MOST_SCALE = 127 };

/* One number per group: the search runs for all 16 groups at once. */
typedef float lanes __attribute__((vector_size(GROUPS * sizeof(float))));
typedef int32_t whole_lanes __attribute__((vector_size(GROUPS * sizeof(int32_t))));

/* Selects a where the mask is set, and b elsewhere. */
static inline void select_lanes(lanes *to, const whole_lanes *mask, const lanes *a, const lanes *b)
{
    *to = (lanes)((*mask & (whole_lanes)*a) | (~*mask & (whole_lanes)*b));
}

/* Always finite, so that no code is NaN. */
static float inverse_of(float scale)
{
    const float inverse = scale != 0 ? 1 / scale : 0;
    return fabsf(inverse) <= FLT_MAX ? inverse : copysignf(FLT_MAX, scale);
}

static void inverses_of(const lanes *scale, lanes *inverse)
{
    for (int g = 0; g < GROUPS; g++) {
        (*inverse)[g] = inverse_of((*scale)[g]);
    }
}

/* Codes as floats: rounded and clamped. Adding LOW makes them positive, so that truncation rounds.
 */
static inline void codes_of(const lanes *x, const lanes *inverse, lanes *codes)
{
    const lanes zero = {0}, most = zero + (HIGH - LOW);
    lanes code = *x * *inverse + (0.5f - LOW);
    const whole_lanes positive = code > zero;
    select_lanes(&code, &positive, &code, &zero);
    const whole_lanes within = code < most;
    select_lanes(&code, &within, &code, &most);
    *codes = __builtin_convertvector(__builtin_convertvector(code, whole_lanes) + LOW, lanes);
}

static void errors_of(const lanes x[GROUP], const lanes *scale, lanes *errors)
{
    lanes inverse, q, sum = {0};
    inverses_of(scale, &inverse);
    for (int i = 0; i < GROUP; i++) {
        codes_of(&x[i], &inverse, &q);
        const lanes e = *scale * q - x[i];
        sum += e * e;
    }
    *errors = sum;
}

/* The scales of least error for the codes that `scale` gives. */
static void refit(const lanes x[GROUP], lanes *scale)
{
    lanes inverse, q, sum_qx = {0}, sum_qq = {0};
    inverses_of(scale, &inverse);
    for (int i = 0; i < GROUP; i++) {
        codes_of(&x[i], &inverse, &q);
        sum_qx += q * x[i];
        sum_qq += q * q;
    }
    for (int g = 0; g < GROUPS; g++) {
        (*scale)[g] = sum_qq[g] > 0 ? sum_qx[g] / sum_qq[g] : (*scale)[g];
    }
}

/* Searches for the best scales. The element of largest magnitude gets a code near -32, so a scale
 * may be negative. Tries ranges from smaller than the group's own, which clips it, to larger. */
static void best_scales(const lanes x[GROUP], lanes *best)
{
    enum { RANGES = 19 };
    const lanes zero = {0};
    lanes most = zero, edge = zero, error = zero + INFINITY, e;
    for (int i = 0; i < GROUP; i++) {
        const whole_lanes negative = x[i] < zero;
        lanes magnitude = -x[i];
        select_lanes(&magnitude, &negative, &magnitude, &x[i]);
        const whole_lanes larger = magnitude > most;
        select_lanes(&edge, &larger, &x[i], &edge);
        select_lanes(&most, &larger, &magnitude, &most);
    }
    *best = zero;
    for (int r = 0; r < 2 * RANGES; r++) {
        const float codes = 30.2f + 0.2f * (float)(r / 2);
        lanes scale = edge / (r % 2 == 0 ? -codes : codes);
        for (int turn = 0; turn < 2; turn++) {
            errors_of(x, &scale, &e);
            const whole_lanes better = e < error;
            select_lanes(best, &better, &scale, best);
            select_lanes(&error, &better, &e, &error);
            if (turn == 0) {
                refit(x, &scale);
            }
        }
    }
    const whole_lanes any = most > zero;
    select_lanes(best, &any, best, &zero);
}

/* The multiples of d of least error near the wanted scales. */
static void choose_multiples(const lanes x[GROUP], const lanes *wanted, float d,
                             int multiples[GROUPS])
{
    int near[GROUPS];
    lanes error = {0}, e;
    error += INFINITY;
    for (int g = 0; g < GROUPS; g++) {
        near[g] = multiples[g] =
            d != 0 ? weft__ggml_whole(floorf((*wanted)[g] / d + 0.5f), -128, MOST_SCALE) : 0;
    }
    for (int offset = -2; offset <= 2; offset++) {
        lanes scale;
        for (int g = 0; g < GROUPS; g++) {
            scale[g] = d * (float)(near[g] + offset);
        }
        errors_of(x, &scale, &e);
        for (int g = 0; g < GROUPS; g++) {
            const int s = near[g] + offset;
            if (s >= -128 && s <= MOST_SCALE && e[g] < error[g]) {
                error[g] = e[g];
                multiples[g] = s;
            }
        }
    }
}

/* The largest scale becomes multiple -128 of d. */
static void q6_k(const float *in, uint8_t *b)
{
    lanes x[GROUP], scales;
    float edge = 0;
    for (int i = 0; i < SUPER; i++) {
        x[i % GROUP][i / GROUP] = in[i] == in[i] ? in[i] : 0;
    }
    best_scales(x, &scales);
    for (int g = 0; g < GROUPS; g++) {
        edge = fabsf(scales[g]) > fabsf(edge) ? scales[g] : edge;
    }
    memset(b, 0, 210);
    weft__ggml_put_half(b + 208, edge / -128);
    const float d = weft__ggml_half(b + 208);
    int multiples[GROUPS];
    choose_multiples(x, &scales, d, multiples);
    lanes by, inverse;
    for (int g = 0; g < GROUPS; g++) {
        by[g] = d * (float)multiples[g];
        b[192 + g] = (uint8_t)(int8_t)multiples[g];
    }
    inverses_of(&by, &inverse);
    for (int i = 0; i < GROUP; i++) {
        lanes codes;
        codes_of(&x[i], &inverse, &codes);
        for (int g = 0; g < GROUPS; g++) {
            const int at = GROUP * g + i, part = at % 128, code = (int)codes[g] - LOW;
            uint8_t *low = b + at / 128 * 64 + at % 64, *high = b + 128 + at / 128 * 32 + at % 32;
            *low = (uint8_t)(*low | (code & 15) << part / 64 * 4);
            *high = (uint8_t)(*high | code >> 4 << part / 32 * 2);
        }
    }
}

WEFT__GGML_BLOCKS(q6_k)
