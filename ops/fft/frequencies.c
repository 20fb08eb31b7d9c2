/* ops/fft/frequencies.c -- the frequencies of a spectrum's elements, and shifts that reorder them.
 */
#include "ops/fft/fft.h"

/* k / (n spacing), computed in float64: for k from 0 to `top`, then from `rest` to -1. */
static weft_array *frequencies(const char *op, int64_t n, double spacing, int64_t top, int64_t rest)
{
    if (n < 1 || spacing == 0) {
        return weft_error_array("%s: %lld elements at a distance of %g: expected at least one "
                                "element, at a distance other than 0",
                                op, (long long)n, spacing);
    }
    weft_scope_open();
    weft_array *parts[] = {weft_arange_int(0, top + 1, 1, WEFT_FLOAT64),
                           weft_arange_int(rest, 0, 1, WEFT_FLOAT64)};
    weft_array *k = rest < 0 ? weft_concatenate(parts, 2, 0) : parts[0];
    return weft_scope_close(weft_astype(weft_divide_scalar(k, (double)n * spacing), WEFT_FLOAT32));
}

weft_array *weft_fftfreq(int64_t n, double spacing)
{
    int64_t top = n > 0 ? (n - 1) / 2 : 0;
    return frequencies("fftfreq", n, spacing, top, n > 0 ? top + 1 - n : 0);
}

weft_array *weft_rfftfreq(int64_t n, double spacing)
{
    return frequencies("rfftfreq", n, spacing, n / 2, 0);
}

/* Rolls every axis by half its length, up or down. */
static weft_array *shift(weft_array *x, weft_dims axes, bool inverse)
{
    weft_array *failed;
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__list_fits("fftshift", &axes, &failed)) {
        return failed;
    }
    if (axes.n < 0) {
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
    return weft_roll(x, by, axes);
}

weft_array *weft_fftshift(weft_array *x, weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(shift(x, axes, false));
}

weft_array *weft_ifftshift(weft_array *x, weft_dims axes)
{
    weft_scope_open();
    return weft_scope_close(shift(x, axes, true));
}
