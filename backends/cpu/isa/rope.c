/* backends/cpu/isa/rope.c -- rotary embedding of one head. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/vocabulary.h"

static void rope_angles(const float *frequency, float position, float amplitude, bool inverse,
                        float *cosine, float *sine, int64_t n)
{
    const float sine_amplitude = inverse ? -amplitude : amplitude;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float angle = position * frequency[i];
        cosine[i] = amplitude * cos_f32(angle);
        sine[i] = sine_amplitude * sin_f32(angle);
    }
}

/* Rotates pairs (i, i + n), or (2 i, 2 i + 1). y may be x. */
static void rope_row(const float *x, const float *cosine, const float *sine, bool interleaved,
                     float *y, int64_t n)
{
    if (interleaved) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float a = x[2 * i], b = x[2 * i + 1];
            y[2 * i] = a * cosine[i] - b * sine[i];
            y[2 * i + 1] = b * cosine[i] + a * sine[i];
        }
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float a = x[i], b = x[i + n];
            y[i] = a * cosine[i] - b * sine[i];
            y[i + n] = b * cosine[i] + a * sine[i];
        }
    }
}

void CPU_NAME(weft__fill_rope)(cpu_kernels *table)
{
    table->rope_angles = rope_angles;
    table->rope_row = rope_row;
}
