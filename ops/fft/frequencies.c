/* ops/fft/frequencies.c -- the frequencies of a spectrum's elements, and their order. */
#include "ops/fft/fft.h"

/* k / (n spacing) for count values of k, beyond `top` those of k - n. */
static weft_array *frequencies(const char *op, int64_t n, double spacing, int64_t count,
                               int64_t top)
{
    if (n < 1 || spacing == 0) {
        return weft_error_array("%s: %lld elements at a distance of %g", op, (long long)n, spacing);
    }
    float *values = weft_malloc((size_t)count * sizeof *values);
    if (!values) {
        return weft_error_array("%s: no memory for %lld values", op, (long long)count);
    }
    for (int64_t k = 0; k < count; k++) {
        values[k] = (float)((double)(k > top ? k - n : k) / ((double)n * spacing));
    }
    weft_array *y = weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(count));
    weft_free(values);
    return y;
}

weft_array *weft_fftfreq(int64_t n, double spacing)
{
    return frequencies("fftfreq", n, spacing, n, (n - 1) / 2);
}

weft_array *weft_rfftfreq(int64_t n, double spacing)
{
    return frequencies("rfftfreq", n, spacing, n / 2 + 1, n);
}

/* Rolls every axis by half its length, up or down. */
static weft_array *shift(weft_array *x, weft_dims axes, bool inverse)
{
    if (!weft_ok(x)) {
        return x;
    }
    if (axes.n <= 0) {
        axes.n = weft_ndim(x);
        for (int i = 0; i < axes.n; i++) {
            axes.at[i] = i;
        }
    }
    weft_dims by = {.n = axes.n};
    for (int i = 0; i < axes.n; i++) {
        int64_t half = weft_dim(x, (int)axes.at[i]) / 2;
        by.at[i] = inverse ? -half : half;
    }
    return axes.n == 0 ? x : weft_roll(x, by, axes);
}

weft_array *weft_fftshift(weft_array *x, weft_dims axes)
{
    return shift(x, axes, false);
}

weft_array *weft_ifftshift(weft_array *x, weft_dims axes)
{
    return shift(x, axes, true);
}
