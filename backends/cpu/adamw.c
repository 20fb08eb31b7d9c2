/* backends/cpu/adamw.c -- AdamW steps in one pass, in place where possible, with moments in
 * float32, 16 or 8 bits. */
#include <math.h>
#include <string.h>

#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { GRAIN = 16384, BLOCK = 512 };

bool weft__cpu_adamw_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[2].dtype == WEFT_FLOAT32 &&
           call->in[4].dtype == WEFT_FLOAT32;
}

typedef struct adamw {
    const weft_call *call;
    const cpu_kernels *kernels;
    cpu_adamw step;
} adamw;

static char *at(const weft_tensor *t, int64_t i)
{
    return (char *)t->data + i * (int64_t)weft_dtype_size(t->dtype);
}

static void adamw_task(void *context, int64_t begin, int64_t end, int worker)
{
    const adamw *a = context;
    const weft_tensor *in = a->call->in, *out = a->call->out;
    (void)worker;
    for (int64_t i = begin; i < end; i += BLOCK) {
        int64_t n = end - i < BLOCK ? end - i : BLOCK;
        float p[BLOCK], g[BLOCK], m[BLOCK], v[BLOCK];
        a->kernels->decode(in[0].dtype, at(&in[0], i), p, n);
        a->kernels->decode(in[1].dtype, at(&in[1], i), g, n);
        memcpy(m, at(&in[2], i), (size_t)n * sizeof *m);
        memcpy(v, at(&in[3], i), (size_t)n * sizeof *v);
        a->kernels->adamw_row(&a->step, p, g, m, v, n);
        a->kernels->encode(out[0].dtype, p, at(&out[0], i), n);
        memcpy(at(&out[1], i), m, (size_t)n * sizeof *m);
        memcpy(at(&out[2], i), v, (size_t)n * sizeof *v);
    }
}

static void copy(const weft_tensor *from, const weft_tensor *to)
{
    if (from->data != to->data)
        memcpy(to->data, from->data, (size_t)weft_tensor_size(from) * weft_dtype_size(from->dtype));
}

static cpu_adamw step_of(const weft_adamw_params *params, const float hyper[5])
{
    const double lr = (double)hyper[0];
    return (cpu_adamw){.grad_scale = hyper[1],
                       .beta1 = (float)params->beta1,
                       .rest1 = (float)(1 - params->beta1),
                       .beta2 = (float)params->beta2,
                       .rest2 = (float)(1 - params->beta2),
                       .keep = (float)(1 - lr * params->decay),
                       .rate = (float)(lr / (double)hyper[2]),
                       .root = (float)(1 / (double)hyper[3]),
                       .eps = (float)params->eps};
}

weft_status weft__cpu_adamw(const weft_call *call)
{
    const float *hyper = call->in[4].data;
    if (hyper[4] == 0) {
        copy(&call->in[0], &call->out[0]);
        copy(&call->in[2], &call->out[1]);
        copy(&call->in[3], &call->out[2]);
        return WEFT_OK;
    }
    adamw a = {.call = call, .kernels = weft__cpu_kernels(), .step = step_of(call->params, hyper)};
    weft__cpu_parallel(weft_tensor_size(&call->in[0]), GRAIN, adamw_task, &a);
    return WEFT_OK;
}

/* ---- 16-bit moments and stochastic rounding -------------------------------------------------- */

enum { KEY = 5, WORDS = 256 };

bool weft__cpu_adamw16bit_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[2].dtype == WEFT_BFLOAT16 &&
           call->in[3].dtype == WEFT_BFLOAT16 && call->in[4].dtype == WEFT_FLOAT32;
}

typedef struct rounded_adamw {
    adamw a;
    uint32_t key[2];
} rounded_adamw;

/* Equals the array functions of ops/nn/adamw16bit.c, which explains it. */
static void round_row(const float *x, const uint32_t *bits, uint16_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t all;
        memcpy(&all, &x[i], sizeof all);
        const uint32_t size = all & 0x7fffffff, sum = size + bits[i];
        const uint32_t finite = sum < 0x7f7fffff ? sum : 0x7f7fffff;
        const uint32_t other = size > 0x7f800000 ? size | 0x400000 : size; /* a quiet NaN */
        out[i] = (uint16_t)(((size < 0x7f800000 ? finite : other) | (all & 0x80000000)) >> 16);
    }
}

/* Updates n elements, at most WORDS, with a word of random bits each. */
static void update_rounded(const adamw *a, int64_t from, int64_t n, const uint32_t *words)
{
    const weft_tensor *in = a->call->in, *out = a->call->out;
    float p[WORDS], g[WORDS], m[WORDS], v[WORDS];
    uint32_t low[WORDS], high[WORDS], both[WORDS];
    a->kernels->decode(in[0].dtype, at(&in[0], from), p, n);
    a->kernels->decode(in[1].dtype, at(&in[1], from), g, n);
    a->kernels->decode(in[2].dtype, at(&in[2], from), m, n);
    a->kernels->decode(in[3].dtype, at(&in[3], from), v, n);
    a->kernels->adamw_row(&a->step, p, g, m, v, n);
    for (int64_t i = 0; i < n; i++) {
        low[i] = words[i] & 0xffff;
        high[i] = words[i] >> 16;
        both[i] = low[i] ^ high[i];
    }
    if (out[0].dtype == WEFT_BFLOAT16)
        round_row(p, low, (uint16_t *)out[0].data + from, n);
    else
        a->kernels->encode(out[0].dtype, p, at(&out[0], from), n);
    round_row(m, both, (uint16_t *)out[1].data + from, n);
    round_row(v, high, (uint16_t *)out[2].data + from, n);
}

static void rounded_task(void *context, int64_t begin, int64_t end, int worker)
{
    const rounded_adamw *r = context;
    const int64_t size = weft_tensor_size(&r->a.call->in[0]), second = (size + 1) / 2;
    (void)worker;
    for (int64_t first = begin; first < end; first += WORDS) {
        const int64_t n = end - first < WORDS ? end - first : WORDS;
        const int64_t room = size - second - first, pairs = room < n ? room : n;
        uint32_t words[WORDS], more[WORDS];
        weft__cpu_random_words(r->key, size, first, n, words, more);
        update_rounded(&r->a, first, n, words);
        update_rounded(&r->a, first + second, pairs, more);
    }
}

weft_status weft__cpu_adamw16bit(const weft_call *call)
{
    const float *hyper = call->in[4].data;
    const uint32_t *key = call->in[KEY].data;
    if (hyper[4] == 0) {
        copy(&call->in[0], &call->out[0]);
        copy(&call->in[2], &call->out[1]);
        copy(&call->in[3], &call->out[2]);
        return WEFT_OK;
    }
    rounded_adamw r = {
        .a = {.call = call, .kernels = weft__cpu_kernels(), .step = step_of(call->params, hyper)},
        .key = {key[0], key[1]},
    };
    weft__cpu_parallel((weft_tensor_size(&call->in[0]) + 1) / 2, GRAIN / 2, rounded_task, &r);
    return WEFT_OK;
}

/* ---- 8-bit moments --------------------------------------------------------------------------- */

enum { P, G, FIRST, SECOND, FIRST_SCALE, NUMBERS = 6 };
enum { MOMENTS = 256 }; /* elements that share a scale */

bool weft__cpu_adamw8bit_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[NUMBERS].dtype == WEFT_FLOAT32;
}

/* Value i of the n values of a decade, relative to the decade's upper end. */
static double middle(double i, double n)
{
    return 0.1 + 0.9 * (i + 0.5) / n;
}

/* Fills the tables for codes of the first or second moment; ops/nn/adamw8bit.c defines them with
 * array functions. */
static void make_codes(bool second, cpu_moment_codes *out)
{
    enum { DECADES = 7, CODES = 256 };
    const double zero = second ? 0 : 127, first = second ? 2 : 1, last = 64 * first;
    *out = (cpu_moment_codes){.zero = (float)zero,
                              .first = (float)first,
                              .least = (float)(0.5e-6 * middle(0, first)),
                              .one = (float)((1 + middle(last - 1, last)) / 2),
                              .positive = second};
    for (int d = 1; d < DECADES; d++) {
        const double n = first * (1 << d), end = pow(10, d - DECADES + 1);
        out->limits[d - 1] =
            (float)((end / 10 * middle(n / 2 - 1, n / 2) + end * middle(0, n)) / 2);
    }
    for (int code = 0; code < CODES; code++) {
        const double rank = code - zero, index = fabs(rank) - 1;
        double n = first, end = 1e-6;
        for (int d = 1; d < DECADES && index >= first * ((1 << d) - 1); d++, n *= 2)
            end *= 10;
        const double size = fmin(end * middle(index - n + first, n), 1);
        out->values[code] = rank == 0 ? 0 : (float)(rank < 0 ? -size : size);
    }
}

typedef struct coded_adamw {
    adamw a;
    cpu_moment_codes codes[2];
} coded_adamw;

static void decode_moment(const coded_adamw *c, int i, int64_t block, int64_t n, float *out)
{
    const weft_tensor *in = c->a.call->in;
    const uint8_t *codes = (const uint8_t *)in[FIRST + i].data + block * MOMENTS;
    const float scale = ((const float *)in[FIRST_SCALE + i].data)[block];
    for (int64_t k = 0; k < n; k++)
        out[k] = c->codes[i].values[codes[k]] * scale;
}

static void encode_moment(const coded_adamw *c, int i, int64_t block, int64_t n, const float *x)
{
    const weft_tensor *out = c->a.call->out;
    const float most = c->a.kernels->max_row(x, n), least = c->a.kernels->min_row(x, n);
    const float scale = most > -least ? most : -least;
    ((float *)out[3 + i].data)[block] = scale;
    c->a.kernels->moment_codes_row(&c->codes[i], x, scale,
                                   (uint8_t *)out[FIRST - 1 + i].data + block * MOMENTS, n);
}

static void coded_task(void *context, int64_t begin, int64_t end, int worker)
{
    enum { N = MOMENTS };
    const coded_adamw *c = context;
    const weft_tensor *in = c->a.call->in, *out = c->a.call->out;
    const int64_t size = weft_tensor_size(&in[P]);
    (void)worker;
    for (int64_t block = begin; block < end; block++) {
        const int64_t from = block * N, n = size - from < N ? size - from : N;
        float p[N], g[N], m[N], v[N];
        c->a.kernels->decode(in[P].dtype, at(&in[P], from), p, n);
        c->a.kernels->decode(in[G].dtype, at(&in[G], from), g, n);
        decode_moment(c, 0, block, n, m);
        decode_moment(c, 1, block, n, v);
        c->a.kernels->adamw_row(&c->a.step, p, g, m, v, n);
        c->a.kernels->encode(out[0].dtype, p, at(&out[0], from), n);
        encode_moment(c, 0, block, n, m);
        encode_moment(c, 1, block, n, v);
    }
}

weft_status weft__cpu_adamw8bit(const weft_call *call)
{
    const float *hyper = call->in[NUMBERS].data;
    if (hyper[4] == 0) {
        copy(&call->in[P], &call->out[0]);
        for (int i = 0; i < 4; i++)
            copy(&call->in[FIRST + i], &call->out[1 + i]);
        return WEFT_OK;
    }
    coded_adamw c = {
        .a = {.call = call, .kernels = weft__cpu_kernels(), .step = step_of(call->params, hyper)}};
    make_codes(false, &c.codes[0]);
    make_codes(true, &c.codes[1]);
    weft__cpu_parallel((weft_tensor_size(&call->in[P]) + MOMENTS - 1) / MOMENTS, GRAIN / MOMENTS,
                       coded_task, &c);
    return WEFT_OK;
}
