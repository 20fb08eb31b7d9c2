/* ops/fft/transform.c -- the discrete Fourier transform along one axis: complex, from real numbers
 * to half a spectrum, and back. */
#include <complex.h>
#include <math.h>

#include "ops/fft/fft.h"

typedef double _Complex number;

/* ---- reference: in float64 ------------------------------------------------------------------- */

enum { LARGEST_RADIX = 64 }; /* larger prime factors use a convolution, which is cheaper */

static int64_t smallest_factor(int64_t n)
{
    for (int64_t p = 2; p * p <= n; p++) {
        if (n % p == 0) {
            return p;
        }
    }
    return n;
}

static int64_t largest_factor(int64_t n)
{
    int64_t p = smallest_factor(n);
    while (p < n) {
        n /= p;
        p = smallest_factor(n);
    }
    return p;
}

/* Data shared by the recursion: the powers of e^{-2 pi i / size}, and a buffer for one butterfly.
 */
typedef struct roots {
    int64_t size;
    number *power, *room;
} roots;

/* out[0..n) = the transform of in[0], in[step], ...: Cooley & Tukey 1965. The depth is the number
 * of n's prime factors. */
static void transform(const roots *w, const number *in, int64_t step, number *out, int64_t n)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int64_t p = smallest_factor(n), m = n / p;
    for (int64_t r = 0; r < p; r++) {
        transform(w, in + r * step, step * p, out + r * m, m);
    }
    for (int64_t k = 0; k < m; k++) {
        for (int64_t r = 0; r < p; r++) {
            w->room[r] = out[r * m + k] * w->power[r * k * step % w->size];
        }
        for (int64_t q = 0; q < p; q++) {
            number sum = 0;
            for (int64_t r = 0; r < p; r++) {
                sum += w->room[r] * w->power[r * q % p * (w->size / p)];
            }
            out[q * m + k] = sum;
        }
    }
}

/* Transforms lines of n numbers from x to y. For large prime factors it convolves with chirps, by
 * transforms whose size is a power of two (Bluestein 1970); otherwise chirp is NULL. */
typedef struct line {
    int64_t n;
    roots w; /* size of the transforms, and length of x and y */
    number *x, *y, *chirp, *spectrum;
} line;

static number root(int64_t j, int64_t n, bool inverse)
{
    double angle = 2 * 3.14159265358979323846 * (double)j / (double)n;
    return CMPLX(cos(angle), inverse ? sin(angle) : -sin(angle));
}

/* chirp[j] = e^{-pi i j^2 / n}; spectrum is the transform of its conjugate, wrapped around. */
static void make_chirps(line *l, bool inverse)
{
    int64_t m = l->w.size;
    for (int64_t j = 0; j < m; j++) {
        l->x[j] = 0;
    }
    for (int64_t j = 0; j < l->n; j++) {
        l->chirp[j] = root(j * j % (2 * l->n), 2 * l->n, inverse);
        l->x[j] = conj(l->chirp[j]);
        l->x[(m - j) % m] = l->x[j];
    }
    transform(&l->w, l->x, 1, l->spectrum, m);
}

static weft_status make_line(const char *op, int64_t n, bool inverse, line *l)
{
    bool convolved = largest_factor(n) > LARGEST_RADIX;
    int64_t m = convolved ? 2 : n;
    while (convolved && m < 2 * n - 1) {
        m *= 2;
    }
    int64_t room = LARGEST_RADIX + (convolved ? n + m : 0);
    *l = (line){.n = n, .w.size = m};
    l->x = weft_malloc((size_t)(3 * m + room) * sizeof *l->x);
    if (!l->x) {
        return weft_fail(WEFT_MEMORY, "%s: out of memory for %lld numbers", op,
                         (long long)(3 * m + room));
    }
    l->y = l->x + m;
    l->w.power = l->y + m;
    l->w.room = l->w.power + m;
    for (int64_t i = 0; i < m; i++) {
        l->w.power[i] = root(i, m, inverse && !convolved);
    }
    if (convolved) {
        l->chirp = l->w.room + LARGEST_RADIX;
        l->spectrum = l->chirp + n;
        make_chirps(l, inverse);
    }
    return WEFT_OK;
}

static void transform_line(const line *l)
{
    int64_t m = l->w.size;
    if (!l->chirp) {
        transform(&l->w, l->x, 1, l->y, m);
        return;
    }
    for (int64_t j = 0; j < m; j++) {
        l->x[j] = j < l->n ? l->x[j] * l->chirp[j] : 0;
    }
    transform(&l->w, l->x, 1, l->y, m);
    for (int64_t j = 0; j < m; j++) {
        l->x[j] = conj(l->y[j] * l->spectrum[j]); /* inverse transform as a forward one between
                                                   * conjugates */
    }
    transform(&l->w, l->x, 1, l->y, m);
    for (int64_t k = 0; k < l->n; k++) {
        l->y[k] = conj(l->y[k]) * l->chirp[k] / (double)m;
    }
}

static number load(const weft_tensor *t, int64_t i)
{
    if (t->dtype == WEFT_COMPLEX64) {
        const weft_complex64 *z = (const weft_complex64 *)t->data + weft_tensor_offset(t, i);
        return CMPLX(z->re, z->im);
    }
    return weft_tensor_get(t, i);
}

static void store(const weft_tensor *t, int64_t i, number value)
{
    if (t->dtype == WEFT_COMPLEX64) {
        weft_complex64 *z = (weft_complex64 *)t->data + weft_tensor_offset(t, i);
        *z = (weft_complex64){(float)creal(value), (float)cimag(value)};
    } else {
        weft_tensor_set(t, i, creal(value));
    }
}

/* Element j of a spectrum of length n from its first half x; the rest mirrors it. */
static number mirrored(const weft_tensor *in, int64_t base, int64_t inner, int64_t j, int64_t n)
{
    if (j > n / 2) {
        return conj(load(in, base + (n - j) * inner));
    }
    number value = load(in, base + j * inner);
    return j == 0 || 2 * j == n ? creal(value) : value;
}

static weft_status reference(const weft_call *call)
{
    const weft_fft_params *p = call->params;
    const weft_tensor *in = &call->in[0], *out = &call->out[0];
    axis_extents from = extents_of(&in->shape, p->axis), to = extents_of(&out->shape, p->axis);
    bool half = out->dtype != WEFT_COMPLEX64;
    int64_t n = half ? to.length : from.length;
    line l;
    weft_status status = make_line(call->op->name, n, p->inverse || half, &l);
    if (status != WEFT_OK) {
        return status;
    }
    for (int64_t i = 0; i < from.outer * from.inner; i++) {
        int64_t outer = i / from.inner, inner = i % from.inner;
        int64_t base = outer * from.length * from.inner + inner;
        for (int64_t j = 0; j < n; j++) {
            l.x[j] = half ? mirrored(in, base, from.inner, j, n) : load(in, base + j * from.inner);
        }
        transform_line(&l);
        for (int64_t k = 0; k < to.length; k++) {
            store(out, (outer * to.length + k) * to.inner + inner, l.y[k] * p->scale);
        }
    }
    weft_free(l.x);
    return WEFT_OK;
}

/* ---- derivatives ---------------------------------------------------------------------------- */

/* Multiplies by `edge` the elements of the half spectrum that represent one element of n (0 and n /
 * 2), and by `inside` those that represent two. */
static weft_array *weigh(weft_array *x, int64_t axis, int64_t n, double edge, double inside)
{
    weft_array *k = weft_arange(0, (double)(n / 2 + 1), 1, WEFT_FLOAT32);
    weft_array *zero = weft_scalar(0, WEFT_FLOAT32);
    weft_array *middle = weft_scalar(n % 2 ? 0 : (double)(n / 2), WEFT_FLOAT32);
    weft_array *single = weft_logical_or(weft_equal(k, zero), weft_equal(k, middle));
    weft_array *weights =
        weft_where(single, weft_scalar(edge, WEFT_FLOAT32), weft_scalar(inside, WEFT_FLOAT32));
    weft_dims shape = {.n = (int)-axis};
    for (int i = 0; i < shape.n; i++) {
        shape.at[i] = i == 0 ? n / 2 + 1 : 1;
    }
    weights = weft_to(weft_reshape(weights, shape), weft_device_of(x));
    return weft_multiply(x, weights);
}

/* The matrix of the transform is symmetric, so its adjoint is its conjugate. */
static void fft_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                    weft_array **grads)
{
    const weft_fft_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = weft__fft_axis(cts[0], p->axis, !p->inverse, p->scale);
    }
}

static void rfft_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    const weft_fft_params *p = weft_node_params(node);
    weft_array *x = weft_node_input(node, 0);
    if (wanted[0]) {
        int64_t n = weft_dim(x, (int)p->axis);
        weft_array *half = weigh(cts[0], p->axis, n, 1, 0.5);
        grads[0] = weft_astype(weft__irfft_axis(half, p->axis, n, p->scale), weft_dtype_of(x));
    }
}

static void irfft_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                      weft_array **grads)
{
    const weft_fft_params *p = weft_node_params(node);
    if (wanted[0]) {
        grads[0] = weigh(weft__rfft_axis(cts[0], p->axis, p->scale), p->axis, p->n, 1, 2);
    }
}

/* ---- the ops -------------------------------------------------------------------------------- */

static bool check(const weft_array *node, bool complex_, weft_dims *shape, int *front,
                  weft_why *why)
{
    const weft_fft_params *p = weft_node_params(node);
    weft_dtype dtype = input_dtype(node, 0);
    bool fits = complex_ ? dtype == WEFT_COMPLEX64 : dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT64;
    if (!fits) {
        return weft_because(why, "unsupported for %s", weft_dtype_name(dtype));
    }
    *shape = input_shape(node, 0);
    *front = weft__check_axis(p->axis, shape->n, why);
    if (*front < 0) {
        return false;
    }
    return shape->at[*front] > 0 || weft_because(why, "an axis of length 0");
}

static bool fft_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    int front;
    return check(node, true, &shape, &front, why) && set_spec(out, WEFT_COMPLEX64, &shape);
}

static bool rfft_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    weft_dims shape;
    int front;
    if (!check(node, false, &shape, &front, why)) {
        return false;
    }
    shape.at[front] = shape.at[front] / 2 + 1;
    return set_spec(out, WEFT_COMPLEX64, &shape);
}

static bool irfft_infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_fft_params *p = weft_node_params(node);
    weft_dims shape;
    int front;
    if (!check(node, true, &shape, &front, why)) {
        return false;
    }
    if (p->n < 1 || p->n / 2 + 1 != shape.at[front]) {
        return weft_because(why, "%lld elements are not half a spectrum of %lld",
                            (long long)shape.at[front], (long long)p->n);
    }
    shape.at[front] = p->n;
    return set_spec(out, WEFT_FLOAT32, &shape);
}

static const weft_field fft_fields[] = {
    WEFT_FIELD(INT, weft_fft_params, axis),
    WEFT_FIELD(INT, weft_fft_params, n),
    WEFT_FIELD(BOOL, weft_fft_params, inverse),
    WEFT_FIELD(DOUBLE, weft_fft_params, scale),
    WEFT_FIELDS_END,
};

static const weft_fft_params last = {.axis = -1, .scale = 1};
static const weft_fft_params back = {.axis = -1, .inverse = true, .scale = 0.125};
static const weft_fft_params middle = {.axis = -2, .scale = 1};

/* The radices 2, 3, 4, 5 and 7 and their products, a prime that is not a radix, more lines than
 * lanes. */
static const weft_case fft_cases[] = {
    {.name = "small", .n_inputs = 1, .in = {{.shape = DIMS(3, 8)}}, .params = &back},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(3, 1)}}, .params = &last},
    {.name = "mixed", .n_inputs = 1, .in = {{.shape = DIMS(2, 420)}}, .params = &last},
    {.name = "prime", .n_inputs = 1, .in = {{.shape = DIMS(101)}}, .params = &last},
    {.name = "middle", .n_inputs = 1, .in = {{.shape = DIMS(2, 24, 19)}}, .params = &middle},
    {.name = "long", .n_inputs = 1, .in = {{.shape = DIMS(1024)}}, .params = &last},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(0, 4)}}, .params = &last},
};

const weft_op weft_op_fft = {
    .name = "fft",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_fft_params),
    .params_fields = fft_fields,
    .infer = fft_infer,
    .vjp = fft_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = reference,
    .cases = fft_cases,
    .n_cases = sizeof fft_cases / sizeof *fft_cases,
    .no_test_dtypes = ~DTYPE_BIT(WEFT_COMPLEX64),
    .tolerance = 0x1p-15, /* sums of a thousand numbers with cancellation */
};

static const weft_case rfft_cases[] = {
    {.name = "even", .n_inputs = 1, .in = {{.shape = DIMS(3, 8)}}, .params = &last},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(3, 1)}}, .params = &last},
    {.name = "odd", .n_inputs = 1, .in = {{.shape = DIMS(2, 105)}}, .params = &last},
    {.name = "prime", .n_inputs = 1, .in = {{.shape = DIMS(101)}}, .params = &last},
    {.name = "middle", .n_inputs = 1, .in = {{.shape = DIMS(2, 24, 19)}}, .params = &middle},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(0, 4)}}, .params = &last},
};

const weft_op weft_op_rfft = {
    .name = "rfft",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_fft_params),
    .params_fields = fft_fields,
    .infer = rfft_infer,
    .vjp = rfft_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = reference,
    .cases = rfft_cases,
    .n_cases = sizeof rfft_cases / sizeof *rfft_cases,
    .no_test_dtypes = ~DTYPE_BIT(WEFT_FLOAT32), /* float64 becomes complex64 */
    .tolerance = 0x1p-17,
};

static const weft_fft_params of8 = {.axis = -1, .n = 8, .scale = 0.125};
static const weft_fft_params of1 = {.axis = -1, .n = 1, .scale = 1};
static const weft_fft_params of105 = {.axis = -1, .n = 105, .scale = 1};
static const weft_fft_params of101 = {.axis = -1, .n = 101, .scale = 1};
static const weft_fft_params of24 = {.axis = -2, .n = 24, .scale = 1};
static const weft_case irfft_cases[] = {
    {.name = "even", .n_inputs = 1, .in = {{.shape = DIMS(3, 5)}}, .params = &of8},
    {.name = "one", .n_inputs = 1, .in = {{.shape = DIMS(3, 1)}}, .params = &of1},
    {.name = "odd", .n_inputs = 1, .in = {{.shape = DIMS(2, 53)}}, .params = &of105},
    {.name = "prime", .n_inputs = 1, .in = {{.shape = DIMS(51)}}, .params = &of101},
    {.name = "middle", .n_inputs = 1, .in = {{.shape = DIMS(2, 13, 19)}}, .params = &of24},
    {.name = "empty", .n_inputs = 1, .in = {{.shape = DIMS(0, 5)}}, .params = &of8},
};

const weft_op weft_op_irfft = {
    .name = "irfft",
    .family = WEFT_CORE_RANK,
    .arity = 1,
    .params_size = sizeof(weft_fft_params),
    .params_fields = fft_fields,
    .infer = irfft_infer,
    .vjp = irfft_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .reference = reference,
    .cases = irfft_cases,
    .n_cases = sizeof irfft_cases / sizeof *irfft_cases,
    .no_test_dtypes = ~DTYPE_BIT(WEFT_COMPLEX64),
    .tolerance = 0x1p-17,
};

weft_array *weft__fft_axis(weft_array *x, int64_t axis, bool inverse, double scale)
{
    weft_fft_params params = {.axis = axis, .inverse = inverse, .scale = scale};
    return apply1(&weft_op_fft, x, &params);
}

weft_array *weft__rfft_axis(weft_array *x, int64_t axis, double scale)
{
    return apply1(&weft_op_rfft, x, &(weft_fft_params){.axis = axis, .scale = scale});
}

weft_array *weft__irfft_axis(weft_array *x, int64_t axis, int64_t n, double scale)
{
    return apply1(&weft_op_irfft, x, &(weft_fft_params){.axis = axis, .n = n, .scale = scale});
}
