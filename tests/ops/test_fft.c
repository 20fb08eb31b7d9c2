/* tests/ops/test_fft.c -- Fourier transforms: against SciPy in float64, and their derivatives. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/weft.h"

/* Against the largest element of a spectrum of standard normal numbers, which float32 gives with a
 * relative RMS error of a few 1e-7; single elements are off by a little more. */
static const double tolerance = 4e-6;

static char tensor[64];

static weft_array *input(const char *name)
{
    snprintf(tensor, sizeof tensor, "%s/in0", name);
    return golden_get(tensor);
}

static void check(const char *name, weft_array *y, double scale)
{
    snprintf(tensor, sizeof tensor, "%s/out0", name);
    golden_check(y, tensor, tolerance * scale);
}

static void every_length_equals_scipy(void)
{
    static const int64_t lengths[] = {1,  2,  3,  4,  5,  6,   7,   8,   11,  13,  16,  25,
                                      49, 60, 61, 67, 97, 128, 134, 210, 243, 509, 1024};
    golden_open("ops/fft");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char name[32];
        int64_t n = lengths[i];
        double size = sqrt((double)n); /* of the elements */
        weft_scope_open();
        snprintf(name, sizeof name, "fft_of%d", (int)n);
        weft_array *x = input(name);
        weft_array *y = weft_fft(x, 0, -1, WEFT_FFT_BACKWARD);
        check(name, y, size);
        snprintf(tensor, sizeof tensor, "%s/in0", name);
        golden_check(weft_ifft(y, 0, -1, WEFT_FFT_BACKWARD), tensor, tolerance);
        snprintf(name, sizeof name, "rfft_of%d", (int)n);
        x = input(name);
        y = weft_rfft(x, 0, -1, WEFT_FFT_BACKWARD);
        check(name, y, size);
        snprintf(tensor, sizeof tensor, "%s/in0", name);
        golden_check(weft_irfft(y, n, -1, WEFT_FFT_BACKWARD), tensor, tolerance);
        snprintf(name, sizeof name, "irfft_of%d", (int)n);
        check(name, weft_irfft(input(name), n, -1, WEFT_FFT_BACKWARD), 1);
        weft_scope_close(NULL);
    }
    golden_close();
}

typedef weft_array *one_axis(weft_array *x, int64_t n, int axis, weft_fft_norm norm);
typedef weft_array *many_axes(weft_array *x, weft_dims lengths, weft_dims axes, weft_fft_norm norm);

static void normalization_equals_scipy(void)
{
    static const struct {
        const char *name;
        one_axis *one;
        many_axes *many;
    } cases[] = {{"fft", weft_fft, NULL},   {"ifft", weft_ifft, NULL},
                 {"rfft", weft_rfft, NULL}, {"irfft", weft_irfft, NULL},
                 {"fftn", NULL, weft_fftn}, {"irfftn", NULL, weft_irfftn}};
    golden_open("ops/fft");
    weft_scope_open();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int norm = 0; norm < 3; norm++) {
            char name[32];
            snprintf(name, sizeof name, "%s_norm%d", cases[i].name, norm);
            weft_array *x = input(name);
            check(name,
                  cases[i].one ? cases[i].one(x, 0, -1, (weft_fft_norm)norm)
                               : cases[i].many(x, WEFT_SCALAR, WEFT_ALL_AXES, (weft_fft_norm)norm),
                  1);
        }
    }
    weft_scope_close(NULL);
    golden_close();
}

static void lengths_and_axes_equal_scipy(void)
{
    const weft_fft_norm norm = WEFT_FFT_BACKWARD;
    const weft_dims none = WEFT_SCALAR;
    golden_open("ops/fft");
    weft_scope_open();
    check("fft_crop", weft_fft(input("fft_crop"), 2, 1, norm), 1);
    check("fft_pad", weft_fft(input("fft_pad"), 9, 0, norm), 1);
    check("rfft_crop", weft_rfft(input("rfft_crop"), 5, -1, norm), 1);
    check("rfft_pad", weft_rfft(input("rfft_pad"), 7, 1, norm), 1);
    check("irfft_odd", weft_irfft(input("irfft_odd"), 7, 1, norm), 1);
    check("fft2", weft_fft2(input("fft2"), none, WEFT_ALL_AXES, norm), 1);
    check("ifft2", weft_ifft2(input("ifft2"), WEFT_DIMS(2, 8), WEFT_DIMS(0, 1), norm), 1);
    check("rfft2", weft_rfft2(input("rfft2"), none, WEFT_ALL_AXES, norm), 1);
    check("irfft2", weft_irfft2(input("irfft2"), WEFT_DIMS(4, 7), WEFT_ALL_AXES, norm), 1);
    check("rfftn", weft_rfftn(input("rfftn"), WEFT_DIMS(4, 5), WEFT_DIMS(2, 0), norm), 1);
    check("ifftn", weft_ifftn(input("ifftn"), WEFT_DIMS(6, 4), WEFT_ALL_AXES, norm), 1);
    check("irfftn", weft_irfftn(input("irfftn"), WEFT_DIMS(4, 5), WEFT_DIMS(2, 0), norm), 1);
    weft_scope_close(NULL);
    golden_close();
}

static void frequencies_equal_numpy(void)
{
    static const int64_t lengths[] = {1, 2, 7, 8};
    golden_open("ops/fft");
    weft_scope_open();
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "fftfreq%d", (int)lengths[i]);
        check(name, weft_fftfreq(lengths[i], 0.3), 0.05);
        snprintf(name, sizeof name, "rfftfreq%d", (int)lengths[i]);
        check(name, weft_rfftfreq(lengths[i], 0.3), 0.05);
    }
    weft_array *x = input("fftshift");
    check("fftshift", weft_fftshift(x, WEFT_ALL_AXES), 0);
    check("ifftshift", weft_ifftshift(x, WEFT_ALL_AXES), 0);
    check("fftshift_axis", weft_fftshift(x, WEFT_DIMS(1)), 0);
    weft_scope_close(NULL);
    golden_close();
}

/* |y|^2 summed in float64, for the error of a long transform: forward, back, and the difference. */
static void long_transforms_keep_their_precision(void)
{
    static const int64_t lengths[] = {65536, 100003, 99225};
    for (int i = 0; i < 3; i++) {
        weft_scope_open();
        weft_array *x =
            weft_random_normal(weft_random_key(3), WEFT_DIMS(lengths[i]), 0, 1, WEFT_FLOAT32);
        weft_array *y = weft_fft(x, 0, -1, WEFT_FFT_ORTHO);
        weft_array *back = weft_astype(weft_ifft(y, 0, -1, WEFT_FFT_ORTHO), WEFT_FLOAT32);
        weft_array *off =
            weft_subtract(weft_astype(back, WEFT_FLOAT64), weft_astype(x, WEFT_FLOAT64));
        double error = sqrt(weft_item(weft_mean(weft_square(off), WEFT_ALL_AXES, false)));
        if (!(error < 1e-6)) {
            CHECK_FAIL("length %d: RMS error %g", (int)lengths[i], error);
        }
        CHECK(true);
        weft_scope_close(NULL);
    }
}

static void bad_calls_are_refused(void)
{
    const weft_fft_norm norm = WEFT_FFT_BACKWARD;
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(2, 3), WEFT_FLOAT32);
    CHECK(strstr(weft_error(weft_fft(x, -1, -1, norm)), "fft: length -1, expected 1 or more"));
    CHECK(strstr(weft_error(weft_fft(x, 0, 2, norm)), "out of range"));
    CHECK(strstr(weft_error(weft_irfft(weft_ones(WEFT_DIMS(1), WEFT_COMPLEX64), 0, -1, norm)),
                 "length 0"));
    CHECK(strstr(weft_error(weft_fftn(x, WEFT_DIMS(2, 2), WEFT_DIMS(0), norm)),
                 "2 lengths for 1 axes"));
    CHECK(
        strstr(weft_error(weft_fftn(x, WEFT_DIMS(2), WEFT_SCALAR, norm)), "1 lengths for 0 axes"));
    CHECK(strstr(weft_error(weft_rfftn(x, WEFT_SCALAR, WEFT_SCALAR, norm)),
                 "rfftn: expected at least one axis"));
    CHECK(strstr(weft_error(weft_fft(weft_ones(WEFT_DIMS(2, 0), WEFT_FLOAT32), 0, -1, norm)),
                 "length 0"));
    CHECK(strstr(weft_error(weft_fftfreq(0, 1)), "fftfreq"));
    weft_scope_close(NULL);
}

/* ---- derivatives ---------------------------------------------------------------------------- */

/* A filter: sum of c |F x|^2, whose gradient is 2 F^H (c F x). All is quadratic, so the difference
 * of values at x + h and x - h is 2 h times the gradient, whatever the size of h. */
static weft_array *filtered(void *context, weft_array *const *in, int n)
{
    const bool *half = context;
    weft_array *c = weft_arange(1, (double)weft_dim(in[0], -1) + 1, 1, WEFT_FLOAT32);
    weft_array *y;
    (void)n;
    if (*half) {
        weft_array *spectrum = weft_rfft(in[0], 0, -1, WEFT_FFT_ORTHO);
        weft_array *low = weft_slice_axis(spectrum, -1, 0, 3);
        y = weft_irfft(low, weft_dim(in[0], -1), -1, WEFT_FFT_ORTHO);
    } else {
        y = weft_astype(
            weft_ifft2(
                weft_scale(weft_fft2(in[0], WEFT_SCALAR, WEFT_ALL_AXES, WEFT_FFT_BACKWARD), 0.5),
                WEFT_DIMS(4, 9), WEFT_ALL_AXES, WEFT_FFT_BACKWARD),
            WEFT_FLOAT32);
        y = weft_slice_axis(y, -1, 0, weft_dim(in[0], -1));
    }
    return weft_sum(weft_multiply(c, weft_square(y)), WEFT_ALL_AXES, false);
}

static void gradients_are_adjoints(void)
{
    for (int half = 0; half < 2; half++) {
        for (int64_t n = 6; n < 8; n++) {
            bool real = half;
            float values[32] = {0};
            for (int64_t i = 0; i < 4 * n; i++) {
                values[i] = (float)sin(1.7 * (double)i + 0.3);
            }
            for (int64_t at = 0; at < 4 * n; at += 5) {
                weft_scope_open();
                weft_dims shape = WEFT_DIMS(4, n);
                weft_array *x = weft_from_data(values, WEFT_FLOAT32, shape), *grad;
                weft_value_and_grad(filtered, &real, &x, 1, &grad);
                float gradient[32], here = values[at];
                CHECK_OK(weft_read(grad, WEFT_FLOAT32, gradient, 4 * n));
                values[at] = here + 1;
                x = weft_from_data(values, WEFT_FLOAT32, shape);
                double up = weft_item(filtered(&real, &x, 1));
                values[at] = here - 1;
                x = weft_from_data(values, WEFT_FLOAT32, shape);
                double down = weft_item(filtered(&real, &x, 1));
                values[at] = here;
                CHECK_CLOSE(gradient[at], (up - down) / 2, 1e-4);
                weft_scope_close(NULL);
            }
        }
    }
}

CHECK_MAIN("fft", CHECK_CASE(every_length_equals_scipy), CHECK_CASE(normalization_equals_scipy),
           CHECK_CASE(lengths_and_axes_equal_scipy), CHECK_CASE(frequencies_equal_numpy),
           CHECK_CASE(long_transforms_keep_their_precision), CHECK_CASE(bad_calls_are_refused),
           CHECK_CASE(gradients_are_adjoints))
