/* core/encoding/ggml_encode_super.c -- encodes floats as GGUF's Q4_K and Q5_K: 8 groups of 32
 * numbers with x = scale * code - minimum and codes from 0 to `most`. A search finds the scales and
 * minima of least squared error. NaN becomes 0.
 *
 * The search tries about a hundred scales and minima for each group. It runs for all 8 groups at
 * once: the numbers of a block are transposed, so that compilers vectorize each loop over groups.
 * Each group's sums are added in the order of its numbers.
 */
#include "core/encoding/ggml.h"

#include <math.h>

enum { SMALL = 32, SUPER = 256, GROUPS = 8, MOST = 15, MOST_SCALE = 63 };

/* One number per group. */
typedef struct lanes {
    float at[GROUPS];
} lanes;

/* The scales and minima of the groups, and their sums of squared errors. */
typedef struct fits {
    lanes scale, minimum; /* >= 0 */
    lanes error;
} fits;

#define EACH_GROUP for (int g = 0; g < GROUPS; g++)

static float inverse_of(float scale)
{
    return scale > 0 ? 1 / scale : 0;
}

/* The code of x as a float: weft__ggml_whole from 0 to `most`, in a form that vectorizes. */
static inline float code_of(float x, float inverse, float minimum, float most)
{
    float code = (x + minimum) * inverse + 0.5f;
    code = code > 0 ? code : 0;
    code = code < most ? code : most;
    return (float)(int)code;
}

static void set_errors(const lanes x[SMALL], float most, fits *f)
{
    lanes inverse, sum = {{0}};
    EACH_GROUP
    {
        inverse.at[g] = inverse_of(f->scale.at[g]);
    }
    for (int i = 0; i < SMALL; i++) {
        EACH_GROUP
        {
            const float q = code_of(x[i].at[g], inverse.at[g], f->minimum.at[g], most);
            const float e = f->scale.at[g] * q - f->minimum.at[g] - x[i].at[g];
            sum.at[g] += e * e;
        }
    }
    f->error = sum;
}

/* Takes over the groups for which `f` has the smaller error. */
static void take_better(const fits *f, fits *best)
{
    EACH_GROUP
    {
        const bool better = f->error.at[g] < best->error.at[g];
        best->scale.at[g] = better ? f->scale.at[g] : best->scale.at[g];
        best->minimum.at[g] = better ? f->minimum.at[g] : best->minimum.at[g];
        best->error.at[g] = better ? f->error.at[g] : best->error.at[g];
    }
}

/* The scale and minimum of least error for the codes that those of `f` give; `sum_x` are the sums
 * of the groups' numbers. */
static void refit(const lanes x[SMALL], const lanes *sum_x, float most, fits *f)
{
    lanes inverse, sum_q = {{0}}, sum_qq = {{0}}, sum_qx = {{0}};
    EACH_GROUP
    {
        inverse.at[g] = inverse_of(f->scale.at[g]);
    }
    for (int i = 0; i < SMALL; i++) {
        EACH_GROUP
        {
            const float q = code_of(x[i].at[g], inverse.at[g], f->minimum.at[g], most);
            sum_q.at[g] += q;
            sum_qq.at[g] += q * q;
            sum_qx.at[g] += q * x[i].at[g];
        }
    }
    EACH_GROUP
    {
        const float n = SMALL, q = sum_q.at[g], qq = sum_qq.at[g], qx = sum_qx.at[g];
        const float determinant = n * qq - q * q;
        if (determinant <= 0) {
            continue;
        }
        float scale = (n * qx - q * sum_x->at[g]) / determinant;
        float minimum = (q * qx - qq * sum_x->at[g]) / determinant;
        if (minimum < 0) {
            minimum = 0;
            scale = qx / qq;
        }
        f->scale.at[g] = scale > 0 ? scale : 0;
        f->minimum.at[g] = minimum;
    }
}

/* Tries ranges from smaller than the numbers' own, which clips them, to larger, and refits each a
 * few times. */
static void search(const lanes x[SMALL], float most, fits *best)
{
    enum { RANGES = 13, TURNS = 3 };
    lanes low = {{0}}, high = x[0], sum_x = {{0}};
    for (int i = 0; i < SMALL; i++) {
        EACH_GROUP
        {
            low.at[g] = x[i].at[g] < low.at[g] ? x[i].at[g] : low.at[g];
            high.at[g] = x[i].at[g] > high.at[g] ? x[i].at[g] : high.at[g];
            sum_x.at[g] += x[i].at[g];
        }
    }
    *best = (fits){.scale = {{0}}};
    EACH_GROUP
    {
        best->minimum.at[g] = -low.at[g];
    }
    set_errors(x, most, best);
    for (int r = 0; r < RANGES; r++) {
        const float steps = most - 3 + 0.4f * (float)r;
        fits f = *best;
        EACH_GROUP
        {
            f.scale.at[g] = (high.at[g] - low.at[g]) / steps;
            f.minimum.at[g] = -low.at[g];
        }
        for (int t = 0; t <= TURNS; t++) {
            set_errors(x, most, &f);
            take_better(&f, best);
            if (t < TURNS) {
                refit(x, &sum_x, most, &f);
            }
        }
    }
}

/* Scales and minima as multiples of d and least, of least error near the wanted ones. */
static void choose_multiples(const lanes x[SMALL], const fits *wanted, float most, float d,
                             float least, int scales[GROUPS], int minima[GROUPS])
{
    int s[GROUPS], m[GROUPS];
    lanes error;
    EACH_GROUP
    {
        s[g] = scales[g] =
            d > 0 ? weft__ggml_whole(wanted->scale.at[g] / d + 0.5f, 0, MOST_SCALE) : 0;
        m[g] = minima[g] =
            least > 0 ? weft__ggml_whole(wanted->minimum.at[g] / least + 0.5f, 0, MOST_SCALE) : 0;
        error.at[g] = INFINITY;
    }
    for (int candidate = 0; candidate < 25; candidate++) {
        int i[GROUPS], j[GROUPS];
        fits f;
        EACH_GROUP
        {
            i[g] = s[g] + candidate / 5 - 2;
            j[g] = m[g] + candidate % 5 - 2;
            f.scale.at[g] = d * (float)i[g];
            f.minimum.at[g] = least * (float)j[g];
        }
        set_errors(x, most, &f);
        EACH_GROUP
        {
            if (i[g] >= 0 && i[g] <= MOST_SCALE && j[g] >= 0 && j[g] <= MOST_SCALE &&
                f.error.at[g] < error.at[g]) {
                error.at[g] = f.error.at[g];
                scales[g] = i[g];
                minima[g] = j[g];
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

/* Writes two halves (d, least), scales and minima in 12 bytes, for five bits 32 bytes of fifth
 * bits, and the low four bits. */
static void scales_and_minima(const float *in, bool five, uint8_t *b)
{
    const float most = five ? 31 : MOST;
    float most_scale = 0, most_minimum = 0;
    lanes x[SMALL];
    fits best;
    for (int i = 0; i < SUPER; i++) {
        x[i % SMALL].at[i / SMALL] = in[i] == in[i] ? in[i] : 0;
    }
    search(x, most, &best);
    EACH_GROUP
    {
        most_scale = best.scale.at[g] > most_scale ? best.scale.at[g] : most_scale;
        most_minimum = best.minimum.at[g] > most_minimum ? best.minimum.at[g] : most_minimum;
    }
    memset(b, 0, five ? 176 : 144);
    weft__ggml_put_half(b, most_scale / (float)MOST_SCALE);
    weft__ggml_put_half(b + 2, most_minimum / (float)MOST_SCALE);
    const float d = weft__ggml_half(b), least = weft__ggml_half(b + 2);
    int scales[GROUPS], minima[GROUPS];
    choose_multiples(x, &best, most, d, least, scales, minima);
    EACH_GROUP
    {
        put_scale_min(b + 4, g, scales[g], minima[g]);
        const float inverse = inverse_of(d * (float)scales[g]), minimum = least * (float)minima[g];
        uint8_t *high = b + 16, *codes = high + (five ? SMALL : 0) + g / 2 * SMALL;
        for (int i = 0; i < SMALL; i++) {
            const int code = (int)code_of(x[i].at[g], inverse, minimum, most);
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

WEFT__GGML_BLOCKS(q4_k)
WEFT__GGML_BLOCKS(q5_k)
