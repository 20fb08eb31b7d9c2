/* nn/layers/upsample.c -- resizes images and sequences by interpolation along each axis. */
#include <math.h>
#include <stdio.h>

#include "core/failure.h"
#include "nn/module.h"
#include "weft/layers.h"

/* Each output along an axis is a weighted sum of `taps` inputs: tap k of output i is input index[k
 * * M + i] with weight[k * M + i]. */
typedef struct mixing {
    int64_t N, M; /* number of inputs, of outputs */
    int taps;
    int32_t *index;
    double *weight;
} mixing;

static int64_t clipped(double i, int64_t N)
{
    return i < 0 ? 0 : i > (double)(N - 1) ? N - 1 : (int64_t)i;
}

/* The position of output i in input coordinates, with aligned corners or aligned centers. */
static double place(const weft_nn_upsample *m, const mixing *x, double scale, int64_t i)
{
    if (m->align_corners)
        return (double)i * ((double)(x->N - 1) / (double)(x->M > 1 ? x->M - 1 : 1));
    const double step = 1 / scale;
    return (double)i * step - ((double)(x->M - 1) * step - (double)x->N + 1) / 2;
}

static double triangle(double d)
{
    return d < 1 ? 1 - d : 0;
}

/* The kernel of Keys 1981, with slope a at distance 1. */
static double cubic(double d, double a)
{
    if (d <= 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d <= 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

static void set_tap(mixing *x, int k, int64_t i, double index, double weight)
{
    x->index[k * x->M + i] = (int32_t)clipped(index, x->N);
    x->weight[k * x->M + i] = weight;
}

static void nearest_taps(mixing *x, int64_t i)
{
    const double ratio = (double)x->N / (double)x->M;
    set_tap(x, 0, i, x->M > x->N ? nearbyint(((double)i + 0.5) * ratio - 0.5) : (double)i * ratio,
            1);
}

static void linear_taps(mixing *x, int64_t i, double at)
{
    at = at < 0 ? 0 : at > (double)(x->N - 1) ? (double)(x->N - 1) : at;
    set_tap(x, 0, i, floor(at), 1 - (at - floor(at)));
    set_tap(x, 1, i, ceil(at), at - floor(at));
}

static void cubic_taps(mixing *x, int64_t i, double at)
{
    for (int k = 0; k < 4; k++) {
        const double index = floor(at) + k - 1;
        set_tap(x, k, i, index, cubic(fabs(at - index), -0.75));
    }
}

/* Sets the taps for antialiased downsampling: the filter is as wide as an output, and only inputs
 * within the array count. */
static void antialiased_taps(mixing *x, int64_t i, double at, double width, bool is_cubic)
{
    double sum = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < x->taps; k++) {
            const double index = floor(at) + k - (x->taps - 1) / 2;
            const double d = fabs(at - index) / width;
            const bool inside = index >= 0 && index < (double)x->N;
            const double w = !inside ? 0 : is_cubic ? cubic(d, -0.5) : triangle(d);
            if (pass == 0)
                sum += w;
            else
                set_tap(x, k, i, index, sum > 0 ? w / sum : w);
        }
    }
}

static int taps_of(const weft_nn_upsample *m, double width)
{
    if (m->antialias)
        return 2 * (int)ceil((m->mode == WEFT_UPSAMPLE_CUBIC ? 2 : 1) * width) + 1;
    return m->mode == WEFT_UPSAMPLE_NEAREST ? 1 : m->mode == WEFT_UPSAMPLE_LINEAR ? 2 : 4;
}

static void fill(mixing *x, const weft_nn_upsample *m, double scale, double width)
{
    for (int64_t i = 0; i < x->M; i++) {
        const double at = place(m, x, scale, i);
        if (m->antialias)
            antialiased_taps(x, i, at, width, m->mode == WEFT_UPSAMPLE_CUBIC);
        else if (m->mode == WEFT_UPSAMPLE_NEAREST)
            nearest_taps(x, i);
        else if (m->mode == WEFT_UPSAMPLE_LINEAR)
            linear_taps(x, i, at);
        else
            cubic_taps(x, i, at);
    }
}

static weft_array *mix(const mixing *x, weft_array *a, int axis)
{
    const weft_dtype dtype = weft_dtype_of(a);
    weft_dims along = {.n = weft_ndim(a)};
    weft_array *y = NULL;
    for (int i = 0; i < along.n; i++)
        along.at[i] = i == axis ? x->M : 1;
    for (int k = 0; k < x->taps; k++) {
        const weft_dims vector = WEFT_DIMS(x->M);
        weft_array *index = weft_from_data(x->index + k * x->M, WEFT_INT32, vector);
        weft_array *term = weft_take(a, index, axis);
        if (x->taps > 1) {
            weft_array *w = weft_from_data(x->weight + k * x->M, WEFT_FLOAT64, vector);
            term = weft_multiply(term, weft_astype(weft_reshape(w, along), dtype));
        }
        y = y ? weft_add(y, term) : term;
    }
    return y;
}

static weft_array *along_axis(const weft_nn_upsample *m, weft_array *a, int axis)
{
    const double scale = m->scale[m->n_scales == 1 ? 0 : axis - 1];
    const double width = scale < 1 ? 1 / scale : 1;
    mixing x = {.N = weft_dim(a, axis), .taps = taps_of(m, width)};
    x.M = (int64_t)(scale * (double)x.N);
    const size_t count = (size_t)x.taps * (size_t)(x.M > 0 ? x.M : 1);
    x.index = weft_calloc(count, sizeof *x.index);
    x.weight = weft_calloc(count, sizeof *x.weight);
    weft_array *y;
    if (x.index == NULL || x.weight == NULL) {
        y = weft__memory_error("upsample", NULL);
    } else {
        fill(&x, m, scale, width);
        y = mix(&x, a, axis);
    }
    weft_free(x.index);
    weft_free(x.weight);
    return y;
}

static weft_array *forward(weft_module *self, weft_array *x)
{
    const weft_nn_upsample *m = (const weft_nn_upsample *)self;
    if (!weft_ok(x))
        return x;
    const int spatial = weft_ndim(x) - 2;
    if (spatial < 1 || (m->n_scales != 1 && m->n_scales != spatial))
        return weft_error_array("upsample: expected (N, ..., C) with %d axes between, got %d axes",
                                m->n_scales, weft_ndim(x));
    const weft_dtype dtype = weft_dtype_of(x);
    const bool weighted = m->mode != WEFT_UPSAMPLE_NEAREST || m->antialias;
    weft_array *y = weighted && dtype != WEFT_FLOAT64 ? weft_astype(x, WEFT_FLOAT32) : x;
    for (int axis = 1; axis <= spatial && weft_ok(y); axis++)
        y = along_axis(m, y, axis);
    return weft_dtype_is_float(dtype) ? weft_astype(y, dtype) : y;
}

static void describe(const weft_module *self, char *out, size_t size)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    const weft_nn_upsample *m = (const weft_nn_upsample *)self;
    snprintf(out, size, "by %g %s%s%s", m->scale[0], modes[m->mode],
             m->align_corners ? " align_corners" : "", m->antialias ? " antialias" : "");
}

static const weft_module_type type = {
    .name = "upsample",
    .forward = forward,
    .describe = describe,
};

weft_module *weft_nn_upsample_new(const double *scale, int n,
                                  const weft_nn_upsample_options *options)
{
    static const weft_nn_upsample_options defaults = {0};
    const weft_nn_upsample_options *o = options ? options : &defaults;
    const bool nearest = o->mode == WEFT_UPSAMPLE_NEAREST;
    bool fine = n >= 1 && n <= 3;
    for (int i = 0; i < n && fine; i++)
        fine = scale[i] > 0;
    if (!fine || (o->antialias && (nearest || o->align_corners))) {
        weft_fail(WEFT_INVALID, "upsample: %s",
                  fine ? "antialias goes with linear and cubic and without align_corners"
                       : "expected one to three positive scales");
        return NULL;
    }
    weft_nn_upsample *m = weft_nn_new(weft_nn_upsample, &type);
    if (m == NULL)
        return NULL;
    m->n_scales = n;
    for (int i = 0; i < n; i++)
        m->scale[i] = scale[i];
    m->mode = o->mode;
    m->align_corners = o->align_corners;
    m->antialias = o->antialias;
    return weft_nn_finish(m);
}
