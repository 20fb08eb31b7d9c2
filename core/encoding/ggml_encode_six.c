/* core/encoding/ggml_encode_six.c -- floats to the block type Q6_K of GGUF: x = d * scale * code,
 * with the scales and codes of the least squared error. NaN becomes 0.
 */
#include "core/encoding/ggml.h"

#include <math.h>

enum { SUPER = 256, GROUP = 16, GROUPS = SUPER / GROUP, LOW = -32, HIGH = 31, MOST_SCALE = 127 };

/* The nearest whole number within the codes. */
static int code_of(float x, float inverse)
{
    return weft__ggml_whole(floorf(x * inverse + 0.5f), LOW, HIGH);
}

static float error_of(const float *x, float scale)
{
    const float inverse = scale != 0 ? 1 / scale : 0;
    float error = 0;
    for (int i = 0; i < GROUP; i++) {
        const float e = scale * (float)code_of(x[i], inverse) - x[i];
        error += e * e;
    }
    return error;
}

/* The scale with the least error for the codes that `scale` gives. */
static float refit(const float *x, float scale)
{
    const float inverse = scale != 0 ? 1 / scale : 0;
    float sum_qx = 0, sum_qq = 0;
    for (int i = 0; i < GROUP; i++) {
        const float q = (float)code_of(x[i], inverse);
        sum_qx += q * x[i];
        sum_qq += q * q;
    }
    return sum_qq > 0 ? sum_qx / sum_qq : scale;
}

/* The best scale of 16 numbers. The one that is largest in magnitude is near code -32, so a scale
 * may be negative; ranges from less than its own, which clips it, to more. */
static float best_scale(const float *x)
{
    enum { RANGES = 19 };
    float most = 0, edge = 0, best = 0, error = INFINITY;
    for (int i = 0; i < GROUP; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            edge = x[i];
        }
    }
    if (most == 0) {
        return 0;
    }
    for (int r = 0; r < 2 * RANGES; r++) {
        const float codes = 30.2f + 0.2f * (float)(r / 2);
        float scale = edge / (r % 2 == 0 ? -codes : codes);
        for (int turn = 0; turn < 2; turn++) {
            const float e = error_of(x, scale);
            best = e < error ? scale : best;
            error = e < error ? e : error;
            scale = refit(x, scale);
        }
    }
    return best;
}

/* The multiple of d with the least error near the wanted scale. */
static int choose_multiple(const float *x, float scale, float d)
{
    const int near = d != 0 ? weft__ggml_whole(floorf(scale / d + 0.5f), -128, MOST_SCALE) : 0;
    int best = near;
    float error = INFINITY;
    for (int s = near - 2; s <= near + 2; s++) {
        const float e = s >= -128 && s <= MOST_SCALE ? error_of(x, d * (float)s) : INFINITY;
        best = e < error ? s : best;
        error = e < error ? e : error;
    }
    return best;
}

/* The largest scale is multiple -128 of d. */
static void q6_k(const float *in, uint8_t *b)
{
    float x[SUPER], scales[GROUPS], edge = 0;
    for (int i = 0; i < SUPER; i++) {
        x[i] = in[i] == in[i] ? in[i] : 0;
    }
    for (int g = 0; g < GROUPS; g++) {
        scales[g] = best_scale(x + GROUP * g);
        edge = fabsf(scales[g]) > fabsf(edge) ? scales[g] : edge;
    }
    memset(b, 0, 210);
    weft__ggml_put_half(b + 208, edge / -128);
    const float d = weft__ggml_half(b + 208);
    for (int g = 0; g < GROUPS; g++) {
        const int scale = choose_multiple(x + GROUP * g, scales[g], d);
        const float by = d * (float)scale, inverse = by != 0 ? 1 / by : 0;
        b[192 + g] = (uint8_t)(int8_t)scale;
        for (int i = GROUP * g; i < GROUP * (g + 1); i++) {
            const int code = code_of(x[i], inverse) - LOW, part = i % 128;
            uint8_t *low = b + i / 128 * 64 + i % 64, *high = b + 128 + i / 128 * 32 + i % 32;
            *low = (uint8_t)(*low | (code & 15) << part / 64 * 4);
            *high = (uint8_t)(*high | code >> 4 << part / 32 * 2);
        }
    }
}

WEFT__GGML_BLOCKS(q6_k)
