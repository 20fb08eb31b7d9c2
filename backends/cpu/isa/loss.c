/* backends/cpu/isa/loss.c -- rows of cross-entropy, and the AdamW update. */
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

/* softmax_row with a cap where the result is multiplied by the cap's slope: what the gradient with
 * respect to the raw scores needs. The sum is of the exponentials alone. */
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

void CPU_NAME(weft__fill_loss)(cpu_kernels *table)
{
    table->logsumexp_row = logsumexp_row;
    table->probability_row = probability_row;
    table->softmax_slope_row = softmax_slope_row;
    table->adamw_row = adamw_row;
}
