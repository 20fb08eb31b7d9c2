/* backends/cpu/isa/attention.c -- the row kernels of attention: softmax over a row of scores, and
 * its gradient.
 *
 * Scores are already scaled. `cap` > 0 replaces a score s by cap tanh(s / cap); `mask` (or NULL) is
 * added.
 */
#include <math.h>

#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/vocabulary.h"

/* One tile of a row's running softmax (Milakov & Gimelshein 2018): replaces n scores by exp(score -
 * maximum), updates the row's maximum and sum, and returns the factor for the row's previous
 * results. */
static float softmax_row(float *s, int64_t n, float cap, const float *mask, float *maximum,
                         float *sum)
{
    if (cap > 0) {
        const float inverse = 1 / cap;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            s[j] = cap * tanh_f32(s[j] * inverse);
    }
    if (mask) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            s[j] += mask[j];
    }
    const float before = *maximum;
    float top = before;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; j++)
        top = s[j] > top ? s[j] : top;
    const float base = top == -INFINITY ? 0 : top; /* fully masked so far: all exponentials are 0 */
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < n; j++) {
        float e = exp_f32(s[j] - base);
        s[j] = e;
        total += e;
    }
    const float factor = exp_f32(before - base);
    *maximum = top;
    *sum = *sum * factor + total;
    return factor;
}

/* Replaces n scores by probabilities exp(score - lse), and the gradient `dp` of the probabilities
 * by that of the raw scores, p (dp - delta). */
static void softmax_vjp_row(float *s, float *dp, int64_t n, float cap, const float *mask, float lse,
                            float delta)
{
    if (cap > 0) {
        const float inverse = 1 / cap;
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float t = tanh_f32(s[j] * inverse);
            float p = exp_f32(cap * t + (mask ? mask[j] : 0.0f) - lse);
            s[j] = p;
            dp[j] = p * (dp[j] - delta) * (1 - t * t);
        }
    } else if (mask) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float p = exp_f32(s[j] + mask[j] - lse);
            s[j] = p;
            dp[j] = p * (dp[j] - delta);
        }
    } else {
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            float p = exp_f32(s[j] - lse);
            s[j] = p;
            dp[j] = p * (dp[j] - delta);
        }
    }
}

static void scale_row(float *x, int64_t n, float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static void add_row(float *x, const float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
}

static float dot(const float *a, const float *b, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void CPU_NAME(weft__fill_attention)(cpu_kernels *table)
{
    table->softmax_row = softmax_row;
    table->softmax_vjp_row = softmax_vjp_row;
    table->scale_row = scale_row;
    table->add_row = add_row;
    table->dot = dot;
}
