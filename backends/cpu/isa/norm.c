/* backends/cpu/isa/norm.c -- the row kernels of RMSNorm and LayerNorm and of their gradients.
 *
 * y and dx may be x or ct. gain and bias may be NULL, meaning 1 and 0. Results are added to dw and
 * db, which may be NULL.
 */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

static float inverse_root(float mean_square, float eps)
{
    return 1 / __builtin_sqrtf(mean_square + eps);
}

/* The dot product, in whole vectors and then the remainder. */
static float dot_rows(const float *a, const float *b, int64_t n)
{
    vf s0 = {0}, s1 = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        s0 += vload(a + i) * vload(b + i);
        s1 += vload(a + i + LANES) * vload(b + i + LANES);
    }
    float sum = vsum(s0 + s1);
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void rms_row(const float *x, const float *gain, float *y, int64_t n, float eps)
{
    const float r = inverse_root(dot_rows(x, x, n) / (float)n, eps);
    if (gain) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * r * gain[i];
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] * r;
    }
}

static void rms_vjp_row(const float *x, const float *gain, const float *ct, float *dx, float *dw,
                        int64_t n, float eps)
{
    const float r = inverse_root(dot_rows(x, x, n) / (float)n, eps);
    float along = 0;
    if (gain) {
#pragma omp simd reduction(+ : along)
        for (int64_t i = 0; i < n; i++)
            along += ct[i] * gain[i] * x[i];
    } else {
        along = dot_rows(ct, x, n);
    }
    along *= r * r / (float)n;
    if (dw) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dw[i] += ct[i] * x[i] * r;
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = r * ((gain ? ct[i] * gain[i] : ct[i]) - x[i] * along);
}

static float sum_row(const float *x, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

static void moments(const float *x, int64_t n, float eps, float *mean, float *inverse)
{
    const float m = sum_row(x, n) / (float)n;
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (int64_t i = 0; i < n; i++)
        square += (x[i] - m) * (x[i] - m);
    *mean = m;
    *inverse = inverse_root(square / (float)n, eps);
}

static void layer_row(const float *x, const float *gain, const float *bias, float *y, int64_t n,
                      float eps)
{
    float mean, r;
    moments(x, n, eps, &mean, &r);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] - mean) * r * (gain ? gain[i] : 1.0f) + (bias ? bias[i] : 0.0f);
}

static void layer_vjp_row(const float *x, const float *gain, const float *ct, float *dx, float *dw,
                          float *db, int64_t n, float eps)
{
    float mean, r, total = 0, along = 0;
    moments(x, n, eps, &mean, &r);
#pragma omp simd reduction(+ : total, along)
    for (int64_t i = 0; i < n; i++) {
        float g = gain ? ct[i] * gain[i] : ct[i];
        total += g;
        along += g * (x[i] - mean);
    }
    total /= (float)n;
    along *= r * r / (float)n;
    if (dw) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            dw[i] += ct[i] * (x[i] - mean) * r;
    }
    if (db) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            db[i] += ct[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dx[i] = r * ((gain ? ct[i] * gain[i] : ct[i]) - total - (x[i] - mean) * along);
}

void CPU_NAME(weft__fill_norm)(cpu_kernels *table)
{
    table->rms_row = rms_row;
    table->rms_vjp_row = rms_vjp_row;
    table->layer_row = layer_row;
    table->layer_vjp_row = layer_vjp_row;
}
