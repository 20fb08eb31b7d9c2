/* backends/cpu/fft.c -- Fourier transforms of lines in float32.
 *
 * Several lines are transformed side by side, so that even the first passes fill the vectors.
 * Lengths with prime factors of up to 61 use passes of those radices; others use Bluestein's
 * convolution (1970) with a power of two. All factors are computed in float64.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/room.h"
#include "backends/cpu/structure.h"
#include "weft/backend.h"
#include "weft/op_params.h"

enum { LANES = 16, CACHED = 1 << 15, LARGEST_RADIX = 61, MAX_PASSES = 64, GRAIN = 1 << 14 };

/* ---- powers of e^{-2 pi i / n} -------------------------------------------------------------- */

/* Every power is the product of one of the first `fine` powers and one of the multiples of `fine`.
 */
typedef struct roots {
    int64_t n, fine;
    double *low, *high; /* pairs */
} roots;

static roots make_roots(int64_t n, cpu_workspace_rest *room)
{
    roots w = {.n = n, .fine = (int64_t)sqrt((double)n) + 1};
    int64_t coarse = n / w.fine + 1;
    w.low = weft__cpu_workspace_take(room, 2 * w.fine, sizeof(double));
    w.high = weft__cpu_workspace_take(room, 2 * coarse, sizeof(double));
    if (!room->base)
        return w;
    double unit = -2 * 3.14159265358979323846 / (double)n;
    for (int64_t i = 0; i < w.fine; i++) {
        w.low[2 * i] = cos(unit * (double)i);
        w.low[2 * i + 1] = sin(unit * (double)i);
    }
    for (int64_t i = 0; i < coarse; i++) {
        w.high[2 * i] = cos(unit * (double)(i * w.fine));
        w.high[2 * i + 1] = sin(unit * (double)(i * w.fine));
    }
    return w;
}

static void power(const roots *w, int64_t j, float *re, float *im)
{
    const double *a = w->low + 2 * (j % w->fine), *b = w->high + 2 * (j / w->fine);
    *re = (float)(a[0] * b[0] - a[1] * b[1]);
    *im = (float)(a[0] * b[1] + a[1] * b[0]);
}

/* ---- plans ---------------------------------------------------------------------------------- */

typedef struct plan {
    int64_t n;
    int passes;
    cpu_fft_pass pass[MAX_PASSES]; /* s and the planes are not set */
} plan;

/* The radices of n, smallest first; false: n has a larger prime factor. */
static bool factor(int64_t n, plan *p)
{
    static const int first[] = {4, 2, 3, 5};
    p->n = n;
    p->passes = 0;
    for (int radix = -4; radix <= LARGEST_RADIX; radix++) {
        int r = radix < 0 ? first[radix + 4] : radix;
        for (; r > 1 && n % r == 0; n /= r)
            p->pass[p->passes++].radix = r;
    }
    return n == 1;
}

/* Computes the factors of every pass; called after `factor`. */
static void fill_plan(plan *p, const roots *w, cpu_workspace_rest *room)
{
    int64_t n = p->n;
    for (int i = 0; i < p->passes; i++) {
        cpu_fft_pass *f = &p->pass[i];
        int64_t r = f->radix, m = n / r, step = p->n / n;
        f->m = m;
        f->wr = weft__cpu_workspace_take(room, (r - 1) * m, sizeof(float));
        f->wi = weft__cpu_workspace_take(room, (r - 1) * m, sizeof(float));
        f->cr = weft__cpu_workspace_take(room, r, sizeof(float));
        f->ci = weft__cpu_workspace_take(room, r, sizeof(float));
        n = m;
        if (!room->base)
            continue;
        for (int64_t k = 1; k < r; k++)
            for (int64_t q = 0; q < m; q++)
                power(w, k * q * step, &f->wr[(k - 1) * m + q], &f->wi[(k - 1) * m + q]);
        for (int64_t k = 0; k < r; k++)
            power(w, k * (p->n / r), &f->cr[k], &f->ci[k]);
    }
}

/* Two planes. */
typedef struct planes {
    float *re, *im;
} planes;

static planes swapped(planes x)
{
    return (planes){x.im, x.re};
}

/* Transforms `lanes` lines side by side; the result is in one of the two pairs of planes. The
 * inverse is the transform with real and imaginary planes exchanged. */
static planes run_plan(const plan *p, planes x, planes other, int64_t lanes)
{
    const cpu_kernels *kernels = weft__cpu_kernels();
    int64_t s = lanes;
    for (int i = 0; i < p->passes; i++) {
        cpu_fft_pass f = p->pass[i];
        f.s = s;
        f.xr = x.re;
        f.xi = x.im;
        f.yr = other.re;
        f.yi = other.im;
        kernels->fft_pass(&f);
        planes swap = x;
        x = other;
        other = swap;
        s *= f.radix;
    }
    return x;
}

/* ---- a call --------------------------------------------------------------------------------- */

typedef struct transform {
    const weft_call *call;
    bool half_in, half_out, inverse;
    int axis; /* from the front */
    int64_t n, in_length, out_length, inner, lines, lanes;
    bool chirped;
    plan plan; /* for n, or for the convolution */
    planes chirp,
        answer;     /* e^{-pi i j^2 / n}, and the transform of its conjugate over the length */
    int64_t blocks; /* of lines */
    bool by_block;  /* the workspace is per block, not per worker */
    char *rooms;
    int64_t room; /* bytes per worker or block */
} transform;

/* Gives a worker its two pairs of planes. */
static void give_planes(const transform *t, cpu_workspace_rest *room, planes *a, planes *b)
{
    int64_t count = t->plan.n * t->lanes;
    a->re = weft__cpu_workspace_take(room, count, sizeof(float));
    a->im = weft__cpu_workspace_take(room, count, sizeof(float));
    b->re = weft__cpu_workspace_take(room, count, sizeof(float));
    b->im = weft__cpu_workspace_take(room, count, sizeof(float));
}

static void fill_chirp(transform *t, cpu_workspace_rest *room)
{
    int64_t n = t->n, size = t->plan.n;
    roots w = make_roots(2 * n, room);
    t->chirp.re = weft__cpu_workspace_take(room, n, sizeof(float));
    t->chirp.im = weft__cpu_workspace_take(room, n, sizeof(float));
    planes x, y;
    x.re = weft__cpu_workspace_take(room, size, sizeof(float));
    x.im = weft__cpu_workspace_take(room, size, sizeof(float));
    y.re = weft__cpu_workspace_take(room, size, sizeof(float));
    y.im = weft__cpu_workspace_take(room, size, sizeof(float));
    if (!room->base)
        return;
    memset(x.re, 0, (size_t)size * sizeof(float));
    memset(x.im, 0, (size_t)size * sizeof(float));
    for (int64_t j = 0, square = 0; j < n; j++) {
        power(&w, square, &t->chirp.re[j], &t->chirp.im[j]);
        square = (square + 2 * j + 1) % (2 * n);
        int64_t mirror = j ? size - j : 0;
        x.re[j] = x.re[mirror] = t->chirp.re[j] / (float)size;
        x.im[j] = x.im[mirror] = -t->chirp.im[j] / (float)size;
    }
    t->answer = run_plan(&t->plan, x, y, 1);
}

/* Prepares the call; with room->base NULL only computes the size of the workspace. */
static void prepare(transform *t, const weft_call *call, cpu_workspace_rest *room)
{
    const weft_fft_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    *t = (transform){.call = call, .axis = (int)p->axis + in->shape.n, .inner = 1, .lines = 1};
    t->half_in = out->dtype != WEFT_COMPLEX64;
    t->half_out = in->dtype != WEFT_COMPLEX64;
    t->inverse = p->inverse || t->half_in;
    t->in_length = in->shape.at[t->axis];
    t->out_length = out->shape.at[t->axis];
    t->n = t->half_in ? t->out_length : t->in_length;
    for (int i = 0; i < in->shape.n; i++) {
        t->inner *= i > t->axis ? in->shape.at[i] : 1;
        t->lines *= i != t->axis ? in->shape.at[i] : 1;
    }
    t->chirped = !factor(t->n, &t->plan);
    if (t->chirped) {
        int64_t size = 1;
        while (size < 2 * t->n - 1)
            size *= 2;
        factor(size, &t->plan);
    }
    roots w = make_roots(t->plan.n, room);
    fill_plan(&t->plan, &w, room);
    if (t->chirped)
        fill_chirp(t, room);
    t->lanes = CACHED / t->plan.n;
    t->lanes = t->lanes < 1 ? 1 : t->lanes > LANES ? LANES : t->lanes;
    t->lanes = t->lanes > t->lines ? (t->lines > 0 ? t->lines : 1) : t->lanes;
    cpu_workspace_rest one = {0};
    planes a, b;
    give_planes(t, &one, &a, &b);
    t->room = one.used;
    t->blocks = (t->lines + t->lanes - 1) / t->lanes;
    t->by_block = t->blocks < weft__cpu_workers();
    t->rooms = weft__cpu_workspace_take(room, t->by_block ? t->blocks : weft__cpu_workers(),
                                        (size_t)one.used);
}

int64_t weft__cpu_fft_workspace(const weft_call *call)
{
    transform t;
    cpu_workspace_rest room = {0};
    prepare(&t, call, &room);
    return room.used;
}

/* ---- lines in and out ----------------------------------------------------------------------- */

static weft_complex64 read_element(const weft_tensor *t, int64_t at)
{
    if (t->dtype == WEFT_COMPLEX64)
        return ((const weft_complex64 *)t->data)[at];
    float value = t->dtype == WEFT_FLOAT64 ? (float)((const double *)t->data)[at]
                                           : ((const float *)t->data)[at];
    return (weft_complex64){value, 0};
}

/* Reads line `first + v` into lane v; a half spectrum is completed by mirroring. */
static void read_lines(const transform *t, int64_t first, int64_t count, planes x)
{
    const weft_tensor *in = &t->call->in[0];
    const int64_t step = in->strides[t->axis], lanes = t->lanes;
    for (int64_t v = 0; v < lanes; v++) {
        int64_t line = first + (v < count ? v : 0); /* unused lanes repeat the first line */
        int64_t base =
            weft_tensor_offset(in, line / t->inner * t->in_length * t->inner + line % t->inner);
        for (int64_t j = 0; j < t->in_length; j++) {
            weft_complex64 z = read_element(in, base + j * step);
            if (t->half_in && (j == 0 || 2 * j == t->n))
                z.im = 0;
            x.re[j * lanes + v] = z.re;
            x.im[j * lanes + v] = z.im;
            if (t->half_in && j > 0) {
                x.re[(t->n - j) * lanes + v] = z.re;
                x.im[(t->n - j) * lanes + v] = 2 * j == t->n ? 0 : -z.im;
            }
        }
    }
}

static void write_lines(const transform *t, int64_t first, int64_t count, planes y)
{
    const weft_tensor *out = &t->call->out[0];
    const weft_fft_params *p = t->call->params;
    const float scale = (float)p->scale;
    const int64_t lanes = t->lanes;
    for (int64_t v = 0; v < count; v++) {
        int64_t line = first + v;
        int64_t base = line / t->inner * t->out_length * t->inner + line % t->inner;
        for (int64_t k = 0; k < t->out_length; k++) {
            int64_t at = base + k * t->inner;
            if (t->half_in)
                ((float *)out->data)[at] = y.re[k * lanes + v] * scale;
            else
                ((weft_complex64 *)out->data)[at] =
                    (weft_complex64){y.re[k * lanes + v] * scale, y.im[k * lanes + v] * scale};
        }
    }
}

/* Multiplies elements [0, n) of each lane by `by`. */
static void multiply(planes x, planes by, int64_t n, int64_t lanes)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t v = j * lanes; v < (j + 1) * lanes; v++) {
            float re = x.re[v] * by.re[j] - x.im[v] * by.im[j];
            x.im[v] = x.re[v] * by.im[j] + x.im[v] * by.re[j];
            x.re[v] = re;
        }
}

/* Transforms x[0, n) as a convolution with the chirp. */
static planes by_chirp(const transform *t, planes x, planes other)
{
    const int64_t n = t->n, lanes = t->lanes, size = t->plan.n;
    multiply(x, t->chirp, n, lanes);
    size_t rest = (size_t)((size - n) * lanes) * sizeof(float);
    memset(x.re + n * lanes, 0, rest);
    memset(x.im + n * lanes, 0, rest);
    planes y = run_plan(&t->plan, x, other, lanes);
    multiply(y, t->answer, size, lanes);
    planes z = y.re == x.re ? other : x;
    y = swapped(run_plan(&t->plan, swapped(y), swapped(z), lanes));
    multiply(y, t->chirp, n, lanes);
    return y;
}

static void transform_lines(void *context, int64_t begin, int64_t end, int worker)
{
    const transform *t = context;
    for (int64_t block = begin; block < end; block++) {
        cpu_workspace_rest room = {.base = t->rooms + (t->by_block ? block : worker) * t->room};
        planes a, b;
        give_planes(t, &room, &a, &b);
        int64_t first = block * t->lanes, rest = t->lines - first;
        int64_t count = rest < t->lanes ? rest : t->lanes;
        planes x = t->inverse ? swapped(a) : a; /* real and imaginary planes are exchanged */
        read_lines(t, first, count, x);
        planes y = t->chirped ? by_chirp(t, a, b) : run_plan(&t->plan, a, b, t->lanes);
        write_lines(t, first, count, t->inverse ? swapped(y) : y);
    }
}

weft_status weft__cpu_fft(const weft_call *call)
{
    transform t;
    cpu_workspace_rest room = {.base = call->workspace};
    prepare(&t, call, &room);
    weft__cpu_parallel(t.blocks, GRAIN / (t.lanes * t.plan.n), transform_lines, &t);
    return WEFT_OK;
}
