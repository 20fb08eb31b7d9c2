/* backends/cpu/isa/loss.c -- the row kernels of cross-entropy and AdamW. */
#include <math.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/vocabulary.h"

/* log(sum(exp(x))) */
static float logsumexp_row(const float *x, int64_t n)
{
    float top = -INFINITY, sum = 0;
#pragma omp simd reduction(max : top)
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top ? x[i] : top;
    const float base = top == -INFINITY ? 0 : top;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += exp_f32(x[i] - base);
    return base + log_f32(sum);
}

/* out = factor exp(x - lse); out may be x. */
static void probability_row(const float *x, float *out, int64_t n, float lse, float factor)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = factor * exp_f32(x[i] - lse);
}

/* softmax_row with a cap, where the result is multiplied by the cap's slope, as the gradient with
 * respect to the raw scores requires. The sum is of the exponentials only. */
static float softmax_slope_row(float *s, int64_t n, float cap, float *maximum, float *sum)
{
    const float inverse = 1 / cap, before = *maximum;
    float top = before, total = 0;
#pragma omp simd reduction(max : top)
    for (int64_t j = 0; j < n; j++) {
        float t = tanh_f32(s[j] * inverse);
        s[j] = t;
        top = cap * t > top ? cap * t : top;
    }
    const float base = top == -INFINITY ? 0 : top;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < n; j++) {
        float t = s[j];
        float e = exp_f32(cap * t - base);
        s[j] = e * (1 - t * t);
        total += e;
    }
    const float factor = exp_f32(before - base);
    *maximum = top;
    *sum = *sum * factor + total;
    return factor;
}

static void adamw_row(const cpu_adamw *a, float *p, const float *g, float *m, float *v, int64_t n)
{
    const float beta1 = a->beta1, beta2 = a->beta2, rest1 = a->rest1, rest2 = a->rest2;
    const float scale = a->grad_scale, keep = a->keep, rate = a->rate;
    const float root = a->root, eps = a->eps;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gradient = g[i] * scale;
        float first = beta1 * m[i] + rest1 * gradient;
        float second = beta2 * v[i] + rest2 * gradient * gradient;
        m[i] = first;
        v[i] = second;
        p[i] = p[i] * keep - rate * first / (__builtin_sqrtf(second * root) + eps);
    }
}

/* Equals the array functions of ops/nn/adamw8bit.c, which explains the numbers. */
static void moment_codes_row(const cpu_moment_codes *c, const float *x, float scale, uint8_t *codes,
                             int64_t n)
{
    const float filled = scale > 0 ? scale : 1, zero = c->zero, first = c->first;
    const float least = c->least, one = c->one, lowest = c->positive ? 1 : 0;
    const float l0 = c->limits[0], l1 = c->limits[1], l2 = c->limits[2];
    const float l3 = c->limits[3], l4 = c->limits[4], l5 = c->limits[5];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float share = x[i] / filled, size = share < 0 ? -share : share;
        const float d = (size > l0 ? 1.0f : 0.0f) + (size > l1 ? 1.0f : 0.0f) +
                        (size > l2 ? 1.0f : 0.0f) + (size > l3 ? 1.0f : 0.0f) +
                        (size > l4 ? 1.0f : 0.0f) + (size > l5 ? 1.0f : 0.0f);
        const float end = d < 1   ? 1e6f
                          : d < 2 ? 1e5f
                          : d < 3 ? 1e4f
                          : d < 4 ? 1e3f
                          : d < 5 ? 1e2f
                          : d < 6 ? 1e1f
                                  : 1.0f;
        const float count = first * (float)(1 << (int32_t)d);
        float k = (float)(int32_t)((size * end - 0.1f) * (1 / 0.9f) * count);
        k = k < 0 ? 0 : k > count - 1 ? count - 1 : k;
        const float rank = size <= least ? 0 : k + count + 1 - first;
        float up = share > one ? 255 : zero + rank, code = share < 0 ? zero - rank : up;
        code = share > 0 && code < lowest ? lowest : code;
        codes[i] = (uint8_t)code;
    }
}

void CPU_NAME(weft__fill_loss)(cpu_kernels *table)
{
    table->logsumexp_row = logsumexp_row;
    table->probability_row = probability_row;
    table->softmax_slope_row = softmax_slope_row;
    table->adamw_row = adamw_row;
    table->moment_codes_row = moment_codes_row;
}
