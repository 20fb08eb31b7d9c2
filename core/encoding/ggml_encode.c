/* core/encoding/ggml_encode.c -- floats to the block types Q8_0, Q4_0, Q4_K and Q5_K of GGUF.
 *
 * Q8_0 and Q4_0 are ggml's, bit for bit, for finite numbers. Q4_K and Q5_K look for the scales and
 * minima with the least squared error. NaN becomes 0.
 */
#include "core/encoding/ggml.h"

#include <math.h>

enum { SMALL = 32, SUPER = 256, GROUPS = 8, MOST = 15, MOST_SCALE = 63 };

/* ---- Blocks of 32 --------------------------------------------------------------------------- */

static void q8_0(const float *x, uint8_t *b)
{
    float most = 0;
    for (int i = 0; i < SMALL; i++) {
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    const float d = most / 127, inverse = d != 0 ? 1 / d : 0;
    weft__ggml_put_half(b, d);
    for (int i = 0; i < SMALL; i++) {
        b[2 + i] = (uint8_t)(int8_t)weft__ggml_whole(roundf(x[i] * inverse), -127, 127);
    }
}

/* The number that is largest in magnitude is code 0. */
static void q4_0(const float *x, uint8_t *b)
{
    float most = 0, edge = 0;
    for (int i = 0; i < SMALL; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            edge = x[i];
        }
    }
    const float d = edge / -8, inverse = d != 0 ? 1 / d : 0;
    weft__ggml_put_half(b, d);
    for (int i = 0; i < SMALL / 2; i++) {
        const float low = x[i] == x[i] ? x[i] : 0;
        const float high = x[i + SMALL / 2] == x[i + SMALL / 2] ? x[i + SMALL / 2] : 0;
        b[2 + i] = (uint8_t)(weft__ggml_whole(low * inverse + 8.5f, 0, MOST) |
                             weft__ggml_whole(high * inverse + 8.5f, 0, MOST) << 4);
    }
}

/* ---- Q4_K and Q5_K: x = scale * code - minimum, codes from 0 to `most` ---------------------- */

/* How 32 numbers are coded: codes, and the sum of the squared errors. */
typedef struct fit {
    float scale, minimum; /* both >= 0 */
    float error;
} fit;

static int code_of(float x, float inverse, float minimum, int most)
{
    return weft__ggml_whole((x + minimum) * inverse + 0.5f, 0, most);
}

static float error_of(const float *x, float scale, float minimum, int most)
{
    const float inverse = scale > 0 ? 1 / scale : 0;
    float error = 0;
    for (int i = 0; i < SMALL; i++) {
        const float e = scale * (float)code_of(x[i], inverse, minimum, most) - minimum - x[i];
        error += e * e;
    }
    return error;
}

/* The scale and minimum with the least error for the codes that those of `f` give. */
static void refit(const float *x, int most, fit *f)
{
    const float inverse = f->scale > 0 ? 1 / f->scale : 0;
    float sum_q = 0, sum_qq = 0, sum_x = 0, sum_qx = 0;
    for (int i = 0; i < SMALL; i++) {
        const float q = (float)code_of(x[i], inverse, f->minimum, most);
        sum_q += q;
        sum_qq += q * q;
        sum_x += x[i];
        sum_qx += q * x[i];
    }
    const float n = SMALL, determinant = n * sum_qq - sum_q * sum_q;
    if (determinant <= 0) {
        return;
    }
    f->scale = (n * sum_qx - sum_q * sum_x) / determinant;
    f->minimum = (sum_q * sum_qx - sum_qq * sum_x) / determinant;
    if (f->minimum < 0) {
        f->minimum = 0;
        f->scale = sum_qx / sum_qq;
    }
    f->scale = f->scale > 0 ? f->scale : 0;
}

/* Ranges from less than the numbers' own, which clips them, to more, each improved by turns. */
static fit best_fit(const float *x, int most)
{
    enum { RANGES = 13, TURNS = 3 };
    float low = 0, high = x[0];
    for (int i = 0; i < SMALL; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    fit best = {.scale = 0, .minimum = -low, .error = error_of(x, 0, -low, most)};
    if (!(high > low)) {
        return best;
    }
    for (int r = 0; r < RANGES; r++) {
        const float steps = (float)most - 3 + 0.4f * (float)r;
        fit f = {.scale = (high - low) / steps, .minimum = -low};
        for (int t = 0; t < TURNS; t++) {
            f.error = error_of(x, f.scale, f.minimum, most);
            best = f.error < best.error ? f : best;
            refit(x, most, &f);
        }
        f.error = error_of(x, f.scale, f.minimum, most);
        best = f.error < best.error ? f : best;
    }
    return best;
}

/* Scale and minimum as multiples of d and least, with the least error near the wanted ones. */
static void choose_multiples(const float *x, const fit *f, int most, float d, float least,
                             int *scale, int *minimum)
{
    const int s = d > 0 ? weft__ggml_whole(f->scale / d + 0.5f, 0, MOST_SCALE) : 0;
    const int m = least > 0 ? weft__ggml_whole(f->minimum / least + 0.5f, 0, MOST_SCALE) : 0;
    float error = INFINITY;
    *scale = s;
    *minimum = m;
    for (int i = s > 1 ? s - 2 : 0; i <= s + 2 && i <= MOST_SCALE; i++) {
        for (int j = m > 1 ? m - 2 : 0; j <= m + 2 && j <= MOST_SCALE; j++) {
            const float e = error_of(x, d * (float)i, least * (float)j, most);
            if (e < error) {
                error = e;
                *scale = i;
                *minimum = j;
            }
        }
    }
}

static void put_scale_min(uint8_t *packed, int g, int scale, int minimum)
{
    if (g < 4) {
        packed[g] = (uint8_t)(packed[g] | scale);
        packed[g + 4] = (uint8_t)(packed[g + 4] | minimum);
    } else {
        packed[g + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
        packed[g - 4] = (uint8_t)(packed[g - 4] | scale >> 4 << 6);
        packed[g] = (uint8_t)(packed[g] | minimum >> 4 << 6);
    }
}

/* Two halves, scales and minima in 12 bytes, with five bits 32 bytes of the fifth ones, and the low
 * four. */
static void scales_and_minima(const float *in, bool five, uint8_t *b)
{
    const int most = five ? 31 : MOST;
    float x[SUPER], most_scale = 0, most_minimum = 0;
    fit fits[GROUPS];
    for (int i = 0; i < SUPER; i++) {
        x[i] = in[i] == in[i] ? in[i] : 0;
    }
    for (int g = 0; g < GROUPS; g++) {
        fits[g] = best_fit(x + SMALL * g, most);
        most_scale = fits[g].scale > most_scale ? fits[g].scale : most_scale;
        most_minimum = fits[g].minimum > most_minimum ? fits[g].minimum : most_minimum;
    }
    memset(b, 0, five ? 176 : 144);
    weft__ggml_put_half(b, most_scale / (float)MOST_SCALE);
    weft__ggml_put_half(b + 2, most_minimum / (float)MOST_SCALE);
    const float d = weft__ggml_half(b), least = weft__ggml_half(b + 2);
    for (int g = 0; g < GROUPS; g++) {
        const float *part = x + SMALL * g;
        int scale, minimum;
        choose_multiples(part, &fits[g], most, d, least, &scale, &minimum);
        put_scale_min(b + 4, g, scale, minimum);
        const float by = d * (float)scale, inverse = by > 0 ? 1 / by : 0;
        uint8_t *high = b + 16, *codes = high + (five ? SMALL : 0) + g / 2 * SMALL;
        for (int i = 0; i < SMALL; i++) {
            const int code = code_of(part[i], inverse, least * (float)minimum, most);
            codes[i] = (uint8_t)(codes[i] | (code & 15) << g % 2 * 4);
            if (five) {
                high[i] = (uint8_t)(high[i] | code >> 4 << g);
            }
        }
    }
}

static void q4_k(const float *in, uint8_t *b)
{
    scales_and_minima(in, false, b);
}

static void q5_k(const float *in, uint8_t *b)
{
    scales_and_minima(in, true, b);
}

/* ---- Rows ----------------------------------------------------------------------------------- */

WEFT__GGML_BLOCKS(q4_0)
WEFT__GGML_BLOCKS(q8_0)
WEFT__GGML_BLOCKS(q4_k)
WEFT__GGML_BLOCKS(q5_k)
