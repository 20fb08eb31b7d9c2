/* backends/vulkan/self_test/trials_cores.c -- trials of matrix cores: products of every layout and
 * kind of tile, attention and its gradient, in both 16-bit dtypes, against sums in double. */
#include <math.h>
#include <stdio.h>

#include "backends/vulkan/self_test/trial.h"
#include "weft/memory.h"
#include "weft/op_params.h"

static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};

static bool is_used(const weft__trials *t, weft_dtype dtype)
{
    return weft__vulkan_core_shape_of(&t->state->physical.cores, dtype) != NULL;
}

static bool is_software(const weft__trials *t)
{
    return t->state->physical.facts.software;
}

static double half_unit(weft_dtype dtype)
{
    return dtype == WEFT_FLOAT16 ? 0x1p-11 : 0x1p-8;
}

/* Whether all elements are within `tolerance` of the largest expected one. */
static void compare(weft__trials *t, const char *what, const weft_tensor *actual,
                    const double *expected, double tolerance)
{
    const int64_t n = weft_tensor_size(actual);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(expected[i]));
    }
    for (int64_t i = 0; i < n && !t->wrong[0]; i++) {
        const double got = weft_tensor_get(actual, i);
        if (!(fabs(got - expected[i]) <= tolerance * largest)) {
            snprintf(t->wrong, sizeof t->wrong, "%s, element %lld: expected %.9g, got %.9g", what,
                     (long long)i, expected[i], got);
        }
    }
}

static void fill(const weft_tensor *x, uint32_t seed)
{
    for (int64_t i = 0; i < weft_tensor_size(x); i++) {
        weft_tensor_set(x, i, weft__trial_sample((uint32_t)i + seed));
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* The transposed matrix as a view. */
static weft_tensor turn(weft_tensor x)
{
    const int64_t rows = x.shape.at[0], stride = x.strides[0];
    x.shape.at[0] = x.shape.at[1];
    x.shape.at[1] = rows;
    x.strides[0] = x.strides[1];
    x.strides[1] = stride;
    return x;
}

typedef struct sizes {
    int m, n, k;
} sizes;

static weft_status try_product(weft__trials *t, weft_dtype dtype, sizes s, bool a_turned,
                               bool b_turned)
{
    enum { MOST = 1 << 16 };
    double *memory = weft_malloc(5 * MOST * sizeof *memory);
    if (!memory) {
        return weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    double *a = memory, *b = memory + MOST, *y = memory + 2 * MOST, *expected = memory + 3 * MOST;
    const weft_tensor held[2] = {
        weft__trial_tensor(dtype, a_turned ? WEFT_DIMS(s.k, s.m) : WEFT_DIMS(s.m, s.k), a),
        weft__trial_tensor(dtype, b_turned ? WEFT_DIMS(s.n, s.k) : WEFT_DIMS(s.k, s.n), b)};
    fill(&held[0], 1);
    fill(&held[1], 100000);
    const weft_tensor in[2] = {a_turned ? turn(held[0]) : held[0],
                               b_turned ? turn(held[1]) : held[1]};
    const weft_tensor out = weft__trial_tensor(dtype, WEFT_DIMS(s.m, s.n), y);
    for (int i = 0; i < s.m * s.n; i++) {
        expected[i] = 0;
        for (int l = 0; l < s.k; l++) {
            const int row = i / s.n, column = i % s.n;
            expected[i] +=
                weft_tensor_get(&held[0], a_turned ? l * s.m + row : row * s.k + l) *
                weft_tensor_get(&held[1], b_turned ? column * s.k + l : l * s.n + column);
        }
    }
    weft_call call = {
        .op = weft_op_find("matmul"), .n_inputs = 2, .n_outputs = 1, .in = in, .out = &out};
    const weft_status status = weft__trial_run(t, &call, NULL);
    if (status == WEFT_OK) {
        char what[80];
        snprintf(what, sizeof what, "matmul of %s (%d, %d) x (%d, %d) %c%c on matrix cores",
                 weft_dtype_name(dtype), s.m, s.k, s.k, s.n, a_turned ? 'T' : 'N',
                 b_turned ? 'T' : 'N');
        compare(t, what, &out, expected, half_unit(dtype) + s.k * 0x1p-23);
    }
    weft_free(memory);
    return status;
}

/* Software drivers compile slowly, so they try one product. */
static weft_status try_products(weft__trials *t, weft_dtype dtype)
{
    static const sizes all[] = {{64, 64, 48},   {256, 256, 128}, {136, 72, 64}, {24, 256, 256},
                                {256, 24, 256}, {16, 64, 512},   {64, 16, 512}};
    const int n = is_software(t) ? 1 : (int)(sizeof all / sizeof *all);
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && is_used(t, dtype); i++) {
        for (int turned = 0; turned < 4 && status == WEFT_OK && !t->wrong[0]; turned++) {
            if (turned == 2 || !is_software(t)) {
                status = try_product(t, dtype, all[i], turned & 1, turned >> 1);
            }
        }
    }
    return status;
}

/* Of float16, and of bfloat16 where it is multiplied as scaled float16: a product large enough for
 * that, in two layouts, which have both of each operand. */
weft_status weft__trial_core_products(weft__trials *t)
{
    const sizes large = {256, 256, 256};
    weft_status status = try_products(t, WEFT_FLOAT16);
    for (int turned = 1; turned < 3 && !is_used(t, WEFT_BFLOAT16) && !is_software(t); turned++) {
        if (status == WEFT_OK && !t->wrong[0]) {
            status = try_product(t, WEFT_BFLOAT16, large, turned & 1, turned >> 1);
        }
    }
    return status;
}

weft_status weft__trial_core_bfloat16(weft__trials *t)
{
    return try_products(t, WEFT_BFLOAT16);
}

/* ---- Attention ------------------------------------------------------------------------------- */

enum { L = 64, D = 64, SIZE = L * D };

/* Of one head: o, and the gradients of q, k and v; all (L, D). */
typedef struct attended {
    double p[L * L], lse[L], o[SIZE], dq[SIZE], dk[SIZE], dv[SIZE];
} attended;

static double dot(const weft_tensor *a, int i, const weft_tensor *b, int j)
{
    double sum = 0;
    for (int d = 0; d < D; d++) {
        sum += weft_tensor_get(a, i * D + d) * weft_tensor_get(b, j * D + d);
    }
    return sum;
}

static void add_row(double *to, double factor, const weft_tensor *from, int row)
{
    for (int d = 0; d < D; d++) {
        to[d] += factor * weft_tensor_get(from, row * D + d);
    }
}

/* in: q, k, v, o, lse, the gradient of o. */
static void attend(const weft_tensor *in, double scale, attended *r)
{
    const weft_tensor *q = &in[0], *k = &in[1], *v = &in[2], *ct = &in[5];
    *r = (attended){.lse = {0}};
    for (int i = 0; i < L; i++) {
        double sum = 0, own = 0;
        for (int j = 0; j < L; j++) {
            r->p[i * L + j] = exp(scale * dot(q, i, k, j));
            sum += r->p[i * L + j];
        }
        r->lse[i] = log(sum);
        for (int j = 0; j < L; j++) {
            r->p[i * L + j] /= sum;
            add_row(r->o + i * D, r->p[i * L + j], v, j);
            own += r->p[i * L + j] * dot(ct, i, v, j);
        }
        for (int j = 0; j < L; j++) {
            const double p = r->p[i * L + j], ds = scale * p * (dot(ct, i, v, j) - own);
            add_row(r->dv + j * D, p, ct, i);
            add_row(r->dq + i * D, ds, k, j);
            add_row(r->dk + j * D, ds, q, i);
        }
    }
}

static weft_status try_attention(weft__trials *t, weft_dtype dtype, attended *r, double *memory)
{
    static const weft_attention_params params = {.scale = 0.5};
    const weft_dims shape = WEFT_DIMS(1, L, 1, D);
    weft_tensor in[6], out[3];
    for (int i = 0; i < 6; i++) {
        in[i] = i == 4 ? weft__trial_tensor(WEFT_FLOAT32, WEFT_DIMS(1, L, 1), memory + i * SIZE)
                       : weft__trial_tensor(dtype, shape, memory + i * SIZE);
        fill(&in[i], 10000 * (uint32_t)i);
    }
    for (int i = 0; i < 3; i++) {
        out[i] = weft__trial_tensor(dtype, shape, memory + (6 + i) * SIZE);
    }
    attend(in, params.scale, r);
    const weft_tensor forward[2] = {in[3], in[4]};
    weft_call call = {.op = weft_op_find("attention"),
                      .params = &params,
                      .n_inputs = 3,
                      .n_outputs = 2,
                      .in = in,
                      .out = forward};
    weft_status status = weft__trial_run(t, &call, NULL);
    if (status == WEFT_OK) {
        compare(t, "attention on matrix cores", &in[3], r->o, 2 * half_unit(dtype));
        compare(t, "attention's logsumexp on matrix cores", &in[4], r->lse, 1e-5);
        call = (weft_call){.op = weft_op_find("attention_vjp"),
                           .params = &params,
                           .n_inputs = 6,
                           .n_outputs = 3,
                           .in = in,
                           .out = out};
        status = weft__trial_run(t, &call, NULL);
    }
    if (status == WEFT_OK) { /* probabilities and gradients of scores are rounded to 16 bits */
        compare(t, "attention's dq on matrix cores", &out[0], r->dq, 8 * half_unit(dtype));
        compare(t, "attention's dk on matrix cores", &out[1], r->dk, 8 * half_unit(dtype));
        compare(t, "attention's dv on matrix cores", &out[2], r->dv, 8 * half_unit(dtype));
    }
    return status;
}

/* Not on software drivers, which take seconds to compile it. */
weft_status weft__trial_core_attention(weft__trials *t)
{
    weft_status status = WEFT_OK;
    attended *r = weft_malloc(sizeof *r);
    double *memory = weft_malloc(9 * SIZE * sizeof *memory);
    if (!r || !memory) {
        status = weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    for (int d = 0; d < 2 && status == WEFT_OK && !t->wrong[0] && !is_software(t); d++) {
        if (is_used(t, dtypes[d])) {
            status = try_attention(t, dtypes[d], r, memory);
        }
    }
    weft_free(memory);
    weft_free(r);
    return status;
}
