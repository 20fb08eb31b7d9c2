/* backends/cpu/isa/fft.c -- one pass of a Fourier transform, in Stockham's form, which needs no
 * reordering (Van Loan 1992).
 *
 * Element (p + m i) of the input, i < radix, contributes to element (radix p + k) of the output,
 * for each of s interleaved positions. Real and imaginary parts are in separate planes.
 */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

enum { BESIDE = 8 }; /* interleaved positions from which a loop over them pays */

#define INLINE static inline __attribute__((always_inline))

INLINE void butterfly2(const float *ar, const float *ai, float *br, float *bi)
{
    br[0] = ar[0] + ar[1];
    bi[0] = ai[0] + ai[1];
    br[1] = ar[0] - ar[1];
    bi[1] = ai[0] - ai[1];
}

INLINE void butterfly3(const float *ar, const float *ai, float *br, float *bi)
{
    const float half = -0.5f, root = 0.866025403784438647f;
    float sr = ar[1] + ar[2], si = ai[1] + ai[2];
    float dr = root * (ai[1] - ai[2]), di = root * (ar[2] - ar[1]);
    float mr = ar[0] + half * sr, mi = ai[0] + half * si;
    br[0] = ar[0] + sr;
    bi[0] = ai[0] + si;
    br[1] = mr + dr;
    bi[1] = mi + di;
    br[2] = mr - dr;
    bi[2] = mi - di;
}

INLINE void butterfly4(const float *ar, const float *ai, float *br, float *bi)
{
    float s0r = ar[0] + ar[2], s0i = ai[0] + ai[2], d0r = ar[0] - ar[2], d0i = ai[0] - ai[2];
    float s1r = ar[1] + ar[3], s1i = ai[1] + ai[3], d1r = ar[1] - ar[3], d1i = ai[1] - ai[3];
    br[0] = s0r + s1r;
    bi[0] = s0i + s1i;
    br[1] = d0r + d1i;
    bi[1] = d0i - d1r;
    br[2] = s0r - s1r;
    bi[2] = s0i - s1i;
    br[3] = d0r - d1i;
    bi[3] = d0i + d1r;
}

INLINE void butterfly5(const float *ar, const float *ai, float *br, float *bi)
{
    const float c1 = 0.309016994374947424f, c2 = -0.809016994374947424f;
    const float s1 = 0.951056516295153572f, s2 = 0.587785252292473129f;
    float ur = ar[1] + ar[4], ui = ai[1] + ai[4], tr = ar[2] + ar[3], ti = ai[2] + ai[3];
    float xr = ar[1] - ar[4], xi = ai[1] - ai[4], yr = ar[2] - ar[3], yi = ai[2] - ai[3];
    float m1r = ar[0] + c1 * ur + c2 * tr, m1i = ai[0] + c1 * ui + c2 * ti;
    float m2r = ar[0] + c2 * ur + c1 * tr, m2i = ai[0] + c2 * ui + c1 * ti;
    float n1r = s1 * xi + s2 * yi, n1i = -(s1 * xr + s2 * yr);
    float n2r = s2 * xi - s1 * yi, n2i = -(s2 * xr - s1 * yr);
    br[0] = ar[0] + ur + tr;
    bi[0] = ai[0] + ui + ti;
    br[1] = m1r + n1r;
    bi[1] = m1i + n1i;
    br[4] = m1r - n1r;
    bi[4] = m1i - n1i;
    br[2] = m2r + n2r;
    bi[2] = m2i + n2i;
    br[3] = m2r - n2r;
    bi[3] = m2i - n2i;
}

/* Position q of element p. The radix is a compile-time constant at each call. */
INLINE void element(const cpu_fft_pass *f, int radix, int64_t p, int64_t q)
{
    const int64_t m = f->m, s = f->s;
    float ar[5], ai[5], br[5], bi[5];
    for (int i = 0; i < radix; i++) {
        ar[i] = f->xr[q + s * (p + m * i)];
        ai[i] = f->xi[q + s * (p + m * i)];
    }
    if (radix == 2)
        butterfly2(ar, ai, br, bi);
    else if (radix == 3)
        butterfly3(ar, ai, br, bi);
    else if (radix == 4)
        butterfly4(ar, ai, br, bi);
    else
        butterfly5(ar, ai, br, bi);
    f->yr[q + s * radix * p] = br[0];
    f->yi[q + s * radix * p] = bi[0];
    for (int k = 1; k < radix; k++) {
        float wr = f->wr[(k - 1) * m + p], wi = f->wi[(k - 1) * m + p];
        f->yr[q + s * (radix * p + k)] = br[k] * wr - bi[k] * wi;
        f->yi[q + s * (radix * p + k)] = br[k] * wi + bi[k] * wr;
    }
}

INLINE void run(const cpu_fft_pass *pass, int radix)
{
    const cpu_fft_pass f = *pass;
    if (f.s >= BESIDE) {
        for (int64_t p = 0; p < f.m; p++) {
#pragma omp simd
            for (int64_t q = 0; q < f.s; q++)
                element(&f, radix, p, q);
        }
    } else {
        for (int64_t q = 0; q < f.s; q++) {
#pragma omp simd
            for (int64_t p = 0; p < f.m; p++)
                element(&f, radix, p, q);
        }
    }
}

/* y (+)= x c for s complex numbers. */
static void add_times(const float *xr, const float *xi, float cr, float ci, float *restrict yr,
                      float *restrict yi, int64_t s, int add)
{
#pragma omp simd
    for (int64_t q = 0; q < s; q++) {
        float re = xr[q] * cr - xi[q] * ci, im = xr[q] * ci + xi[q] * cr;
        yr[q] = add ? yr[q] + re : re;
        yi[q] = add ? yi[q] + im : im;
    }
}

/* By definition, with radix^2 products. */
static void any_radix(const cpu_fft_pass *f)
{
    const int64_t m = f->m, s = f->s, r = f->radix;
    for (int64_t p = 0; p < m; p++)
        for (int64_t k = 0; k < r; k++) {
            float *yr = f->yr + s * (r * p + k), *yi = f->yi + s * (r * p + k);
            float wr = k ? f->wr[(k - 1) * m + p] : 1, wi = k ? f->wi[(k - 1) * m + p] : 0;
            for (int64_t i = 0; i < r; i++) {
                float cr = f->cr[i * k % r], ci = f->ci[i * k % r];
                const float *xr = f->xr + s * (p + m * i), *xi = f->xi + s * (p + m * i);
                add_times(xr, xi, cr * wr - ci * wi, cr * wi + ci * wr, yr, yi, s, i > 0);
            }
        }
}

static void fft_pass(const cpu_fft_pass *f)
{
    if (f->radix == 2)
        run(f, 2);
    else if (f->radix == 3)
        run(f, 3);
    else if (f->radix == 4)
        run(f, 4);
    else if (f->radix == 5)
        run(f, 5);
    else
        any_radix(f);
}

void CPU_NAME(weft__fill_fft)(cpu_kernels *table)
{
    table->fft_pass = fft_pass;
}
