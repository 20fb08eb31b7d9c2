/* nn/layers/positions.c -- positional encodings: rotary, sinusoidal, ALiBi. */
#include <math.h>
#include <stdio.h>

#include "nn/module.h"
#include "weft/layers.h"

enum { MOST_FREQUENCIES = 4096 };

/* ---- rotary --------------------------------------------------------------------------------- */

/* Calls weft_rope, which expects (B, L, H, D): leading axes are merged to B, and H is 1. */
static weft_array *rotate(const weft_nn_rope *m, weft_array *x, int64_t offset)
{
    if (!weft_ok(x))
        return x;
    if (weft_ndim(x) < 2)
        return weft_error_array("rope: expected (..., L, D), got %d axes", weft_ndim(x));
    const int64_t L = weft_dim(x, -2), D = weft_dim(x, -1);
    const int64_t B = L * D > 0 ? weft_size(x) / (L * D) : 0;
    weft_array *positions = weft_arange((double)offset, (double)(offset + L), 1, WEFT_INT32);
    weft_array *y = weft_reshape(x, WEFT_DIMS(B, L, 1, D));
    y = weft_rope(y, positions, m->frequencies, m->traditional, 1);
    return weft_reshape(y, weft_shape(x));
}

static weft_array *rope_forward(weft_module *self, weft_array *x)
{
    return rotate((weft_nn_rope *)self, x, 0);
}

static void rope_describe(const weft_module *self, char *out, size_t size)
{
    const weft_nn_rope *m = (const weft_nn_rope *)self;
    snprintf(out, size, "dims=%lld%s", (long long)(2 * weft_dim(m->frequencies, 0)),
             m->traditional ? " traditional" : "");
}

static const weft_module_type rope_type = {
    .name = "rope",
    .forward = rope_forward,
    .describe = rope_describe,
};

weft_module *weft_nn_rope_new(int64_t dims, bool traditional, double base, double scale)
{
    float frequencies[MOST_FREQUENCIES];
    if (dims < 2 || dims % 2 != 0 || dims / 2 > MOST_FREQUENCIES) {
        weft_fail(WEFT_INVALID, "rope: expected an even number of dims up to %d, got %lld",
                  2 * MOST_FREQUENCIES, (long long)dims);
        return NULL;
    }
    weft_nn_rope *m = weft_nn_new(weft_nn_rope, &rope_type);
    if (m == NULL)
        return NULL;
    for (int64_t i = 0; i < dims / 2; i++)
        frequencies[i] = (float)((scale != 0 ? scale : 1) *
                                 pow(base > 0 ? base : 10000, -2.0 * (double)i / (double)dims));
    m->traditional = traditional;
    weft_nn_buffer(m, frequencies, weft_from_data(frequencies, WEFT_FLOAT32, WEFT_DIMS(dims / 2)));
    return weft_nn_finish(m);
}

weft_array *weft_nn_rope_call(weft_module *module, weft_array *x, int64_t offset)
{
    weft_nn_rope *m = (weft_nn_rope *)module;
    weft_nn_enter(m);
    return weft_nn_leave(m, rotate(m, x, offset));
}

/* ---- sinusoidal ----------------------------------------------------------------------------- */

static weft_array *sinusoidal_forward(weft_module *self, weft_array *x)
{
    const weft_nn_sinusoidal *m = (const weft_nn_sinusoidal *)self;
    weft_array *y = weft_multiply(weft_expand_dims(x, -1), m->sigmas);
    weft_array *both[] = {weft_sin(y), weft_cos(y)};
    if (m->cos_first) {
        weft_array *sines = both[0];
        both[0] = both[1];
        both[1] = sines;
    }
    return weft_scale(weft_concatenate(both, 2, -1), m->scale);
}

static const weft_module_type sinusoidal_type = {
    .name = "sinusoidal",
    .forward = sinusoidal_forward,
};

weft_module *weft_nn_sinusoidal_new(int64_t dims, const weft_nn_sinusoidal_options *options)
{
    static const weft_nn_sinusoidal_options defaults = {0};
    const weft_nn_sinusoidal_options *o = options ? options : &defaults;
    float sigmas[MOST_FREQUENCIES];
    const int64_t n = dims / 2;
    if (dims < 2 || dims % 2 != 0 || n > MOST_FREQUENCIES) {
        weft_fail(WEFT_INVALID, "sinusoidal: expected an even number of dims up to %d, got %lld",
                  2 * MOST_FREQUENCIES, (long long)dims);
        return NULL;
    }
    weft_nn_sinusoidal *m = weft_nn_new(weft_nn_sinusoidal, &sinusoidal_type);
    if (m == NULL)
        return NULL;
    const double low = log(o->min_freq > 0 ? o->min_freq : 1e-4);
    const double high = log(o->max_freq > 0 ? o->max_freq : 1);
    for (int64_t i = 0; i < n; i++) {
        const double share = n > 1 ? 1 - (double)i / (double)(n - 1) : 1;
        sigmas[i] = (float)(exp(share * (high - low) + low) * (o->full_turns ? 2 * M_PI : 1));
    }
    m->scale = o->scale != 0 ? o->scale : sqrt(2.0 / (double)dims);
    m->cos_first = o->cos_first;
    weft_nn_buffer(m, sigmas, weft_from_data(sigmas, WEFT_FLOAT32, WEFT_DIMS(n)));
    return weft_nn_finish(m);
}

/* ---- ALiBi ---------------------------------------------------------------------------------- */

/* Slopes fall geometrically from 2^(-8/n) to 2^-8 over n heads, n the largest power of 2 up to H;
 * the other heads get every second slope of 2n. */
static double slope(int64_t h, int64_t H)
{
    int64_t n = 1;
    while (2 * n <= H)
        n *= 2;
    return h < n ? exp2(-8.0 * (double)(h + 1) / (double)n)
                 : exp2(-8.0 * (double)(2 * (h - n) + 1) / (double)(2 * n));
}

weft_array *weft_alibi(int64_t H, int64_t L, int64_t S, int64_t offset, weft_dtype dtype)
{
    double slopes[MOST_FREQUENCIES];
    if (H < 1 || H > MOST_FREQUENCIES)
        return weft_error_array("alibi: expected 1 to %d heads, got %lld", MOST_FREQUENCIES,
                                (long long)H);
    for (int64_t h = 0; h < H; h++)
        slopes[h] = -slope(h, H);
    weft_scope_open();
    const weft_dtype wide = dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_array *i = weft_arange((double)offset, (double)(offset + L), 1, WEFT_INT32);
    weft_array *j = weft_arange(0, (double)S, 1, WEFT_INT32);
    weft_array *distance = weft_abs(weft_subtract(weft_expand_dims(i, -1), j)); /* (L, S) */
    weft_array *each =
        weft_astype(weft_from_data(slopes, WEFT_FLOAT64, WEFT_DIMS(1, H, 1, 1)), wide);
    return weft_scope_close(weft_astype(weft_multiply(each, weft_astype(distance, wide)), dtype));
}

static weft_array *biased(weft_array *scores, int64_t offset, weft_array *mask)
{
    if (!weft_ok(scores))
        return scores;
    if (weft_ndim(scores) != 4)
        return weft_error_array("alibi: expected scores (B, H, L, S), got %d axes",
                                weft_ndim(scores));
    weft_array *bias = weft_alibi(weft_dim(scores, 1), weft_dim(scores, 2), weft_dim(scores, 3),
                                  offset, weft_dtype_of(scores));
    return weft_add(scores, mask ? weft_add(bias, mask) : bias);
}

static weft_array *alibi_forward(weft_module *self, weft_array *scores)
{
    (void)self;
    return biased(scores, 0, NULL);
}

static const weft_module_type alibi_type = {.name = "alibi", .forward = alibi_forward};

weft_module *weft_nn_alibi_new(void)
{
    return weft_nn_allocate(sizeof(weft_module), &alibi_type);
}

weft_array *weft_nn_alibi_call(weft_module *m, weft_array *scores, int64_t offset, weft_array *mask)
{
    weft_nn_enter_module(m, __func__);
    return weft_nn_leave_module(m, biased(scores, offset, mask));
}
