/* tests/cpu/test_kernels.c -- norms, rope, losses and AdamW of the CPU against plain loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/cpu/tensors.h"
#include "weft/op_params.h"

static const weft_dtype narrow[] = {WEFT_FLOAT32, WEFT_FLOAT16, WEFT_BFLOAT16};

/* One problem on every instruction set, dtype and layout. */
typedef void check_fn(weft_dtype dtype, lie layout);

static void everywhere(check_fn *check)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++)
        for (int d = 0; d < 3 && weft__cpu_use_isa(isa) == isa; d++) {
            check(narrow[d], LIE_DENSE);
            check(narrow[d], LIE_ROWS);
        }
    weft__cpu_use_isa(CPU_ISA_COUNT);
}

/* Runs `run` with one thread and with more: the first `bytes` of `out` stay the same. */
static void same_bits(void (*run)(void *), void *context, const owned_tensor *out, int n)
{
    int before = weft_threads();
    void *first[4];
    weft_set_threads(1);
    run(context);
    for (int i = 0; i < n; i++) {
        first[i] = malloc((size_t)out[i].bytes);
        memcpy(first[i], out[i].memory, (size_t)out[i].bytes);
    }
    for (int threads = 2; threads <= 4; threads++) {
        weft_set_threads(threads);
        run(context);
        for (int i = 0; i < n; i++)
            CHECK_BYTES(out[i].memory, first[i], (size_t)out[i].bytes);
    }
    for (int i = 0; i < n; i++)
        free(first[i]);
    weft_set_threads(before);
}

/* A row's call, repeated by same_bits. */
typedef struct task {
    const char *op;
    const void *params;
    weft_tensor in[8], out[4];
    int n_in, n_out;
} task;

static void run_task(void *context)
{
    task *t = context;
    run_row(t->op, t->params, t->in, t->n_in, t->out, t->n_out);
}

static double *zeros(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

/* ---- Norms ---------------------------------------------------------------------------------- */

typedef struct norm_problem {
    bool layer;
    weft_norm_params params;
    int64_t rows, E;
} norm_problem;

typedef struct norm_expected {
    double *y, *dx, *dw, *db;
} norm_expected;

static double gain_at(const norm_problem *p, const weft_tensor *w, int64_t i)
{
    if (!p->params.has_weight)
        return 1;
    return weft_tensor_get(w, i) + (p->layer ? 0 : p->params.offset);
}

static void expect_norm_row(const norm_problem *p, const weft_tensor *x, const weft_tensor *w,
                            const weft_tensor *b, const weft_tensor *ct, int64_t row,
                            norm_expected *e)
{
    int64_t first = row * p->E;
    double mean = 0, square = 0, total = 0, along = 0;
    for (int64_t i = 0; p->layer && i < p->E; i++)
        mean += weft_tensor_get(x, first + i) / (double)p->E;
    for (int64_t i = 0; i < p->E; i++)
        square += pow(weft_tensor_get(x, first + i) - mean, 2) / (double)p->E;
    double r = 1 / sqrt(square + p->params.eps);
    for (int64_t i = 0; i < p->E; i++) {
        double n = (weft_tensor_get(x, first + i) - mean) * r, c = weft_tensor_get(ct, first + i);
        double g = c * gain_at(p, w, i);
        e->y[first + i] = n * gain_at(p, w, i) + (p->params.has_bias ? weft_tensor_get(b, i) : 0);
        e->dw[i] += c * n;
        e->db[i] += c;
        total += p->layer ? g / (double)p->E : 0;
        along += g * n / (double)p->E;
    }
    for (int64_t i = 0; i < p->E; i++) {
        double n = (weft_tensor_get(x, first + i) - mean) * r;
        double g = weft_tensor_get(ct, first + i) * gain_at(p, w, i);
        e->dx[first + i] = r * (g - total - n * along);
    }
}

static void check_norm_outputs(const norm_problem *p, const weft_tensor *x, const weft_tensor *w,
                               const weft_tensor *b, const weft_tensor *ct, const norm_expected *e)
{
    weft_dtype dtype = x->dtype;
    owned_tensor y = tensor_empty(dtype, x->shape);
    owned_tensor grads[] = {tensor_empty(dtype, x->shape),
                            tensor_empty(WEFT_FLOAT32, WEFT_DIMS(p->E)),
                            tensor_empty(WEFT_FLOAT32, WEFT_DIMS(p->E))};
    char what[160];
    snprintf(what, sizeof what, "%s %s %lldx%lld", p->layer ? "layer_norm" : "rms_norm",
             weft_dtype_name(dtype), (long long)p->rows, (long long)p->E);
    task forward = {.op = p->layer ? "layer_norm" : "rms_norm", .params = &p->params, .n_out = 1};
    forward.in[forward.n_in++] = *x;
    if (p->params.has_weight)
        forward.in[forward.n_in++] = *w;
    if (p->params.has_bias)
        forward.in[forward.n_in++] = *b;
    forward.out[0] = y.t;
    run_task(&forward);
    check_tensor(&y.t, e->y, 4 * epsilon_of(dtype), 2, what);
    task vjp = {.op = p->layer ? "layer_norm_vjp" : "rms_norm_vjp", .params = &p->params};
    vjp.in[vjp.n_in++] = *x;
    if (p->params.has_weight)
        vjp.in[vjp.n_in++] = *w;
    vjp.in[vjp.n_in++] = *ct;
    vjp.out[vjp.n_out++] = grads[0].t;
    if (!p->params.frozen && p->params.has_weight)
        vjp.out[vjp.n_out++] = grads[1].t;
    if (!p->params.frozen && p->params.has_bias)
        vjp.out[vjp.n_out++] = grads[2].t;
    same_bits(run_task, &vjp, grads, 1);
    check_tensor(&grads[0].t, e->dx, 8 * epsilon_of(dtype), 4, what);
    if (!p->params.frozen && p->params.has_weight)
        check_tensor(&grads[1].t, e->dw, 0x1p-20, 8 + (double)p->rows / 4, what);
    if (!p->params.frozen && p->params.has_bias)
        check_tensor(&grads[2].t, e->db, 0x1p-20, 8 + (double)p->rows / 4, what);
    tensor_free(&y);
    for (int i = 0; i < 3; i++)
        tensor_free(&grads[i]);
}

static void check_norm(const norm_problem *p, weft_dtype dtype, lie layout)
{
    owned_tensor x = tensor_random(dtype, WEFT_DIMS(3, p->rows, p->E), layout, -2, 3, 21);
    owned_tensor ct = tensor_random(dtype, WEFT_DIMS(3, p->rows, p->E), layout, -1, 1, 22);
    owned_tensor w = tensor_random(dtype, WEFT_DIMS(p->E), LIE_DENSE, -1, 1, 23);
    owned_tensor b = tensor_random(WEFT_FLOAT32, WEFT_DIMS(p->E), LIE_DENSE, -1, 1, 24);
    int64_t rows = 3 * p->rows;
    norm_expected e = {zeros(rows * p->E), zeros(rows * p->E), zeros(p->E), zeros(p->E)};
    for (int64_t i = 0; i < rows; i++)
        expect_norm_row(p, &x.t, &w.t, &b.t, &ct.t, i, &e);
    check_norm_outputs(p, &x.t, &w.t, &b.t, &ct.t, &e);
    free(e.y);
    free(e.dx);
    free(e.dw);
    free(e.db);
    tensor_free(&x);
    tensor_free(&ct);
    tensor_free(&w);
    tensor_free(&b);
}

static void check_norms(weft_dtype dtype, lie layout)
{
    static const norm_problem problems[] = {
        {false, {1e-5, 1, true, false, false}, 2, 37},
        {false, {1e-6, 0, false, false, false}, 5, 64},
        {false, {1e-5, 0, true, false, true}, 4, 16},
        {false, {1e-5, 0, true, false, false}, 300, 96},
        {true, {1e-5, 0, true, true, false}, 3, 50},
        {true, {1e-5, 0, false, true, false}, 2, 33},
        {true, {1e-3, 0, true, false, false}, 70, 40},
        {true, {1e-2, 0, true, true, true}, 3, 1},
        {true, {1e-5, 0, false, false, false}, 0, 8},
    };
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_norm(&problems[i], dtype, layout);
}

static void test_norms(void)
{
    everywhere(check_norms);
}

/* ---- rope ----------------------------------------------------------------------------------- */

static void expect_rope(const weft_rope_params *params, const weft_tensor *x,
                        const weft_tensor *positions, const weft_tensor *frequencies, double *out)
{
    int64_t L = x->shape.at[1], H = x->shape.at[2], D = x->shape.at[3];
    int64_t half = frequencies->shape.at[0], size = weft_tensor_size(x);
    for (int64_t i = 0; i < size; i++)
        out[i] = weft_tensor_get(x, i);
    for (int64_t row = 0; row < size / D; row++) {
        int64_t place = row / H, at = positions->shape.n == 2 ? place : place % L;
        for (int64_t j = 0; j < half; j++) {
            int64_t a = row * D + (params->interleaved ? 2 * j : j);
            int64_t b = params->interleaved ? a + 1 : a + half;
            float angle =
                (float)weft_tensor_get_int(positions, at) * (float)weft_tensor_get(frequencies, j);
            double c = cos((double)angle) * params->amplitude;
            double s = sin((double)angle) * params->amplitude * (params->inverse ? -1 : 1);
            double xa = weft_tensor_get(x, a), xb = weft_tensor_get(x, b);
            out[a] = xa * c - xb * s;
            out[b] = xb * c + xa * s;
        }
    }
}

static void check_rope(weft_dtype dtype, lie layout)
{
    for (int kind = 0; kind < 8; kind++) {
        weft_rope_params params = {kind & 1, (kind & 2) != 0, kind & 4 ? 1.25 : 1};
        int64_t half = kind & 4 ? 5 : 12;
        owned_tensor x = tensor_random(dtype, WEFT_DIMS(2, 7, 3, 24), layout, -2, 2, 31);
        owned_tensor positions =
            tensor_indices(kind & 2 ? WEFT_DIMS(2, 7) : WEFT_DIMS(7), 5000, 32);
        owned_tensor f = tensor_random(WEFT_FLOAT32, WEFT_DIMS(half), LIE_DENSE, 0, 1, 33);
        owned_tensor y = tensor_empty(dtype, x.t.shape);
        double *expected = zeros(weft_tensor_size(&x.t));
        expect_rope(&params, &x.t, &positions.t, &f.t, expected);
        weft_tensor in[] = {x.t, positions.t, f.t};
        run_row("rope", &params, in, 3, &y.t, 1);
        check_tensor(&y.t, expected, 4 * epsilon_of(dtype), 2, "rope");
        if (layout == LIE_DENSE) {
            run_row("rope", &params, in, 3, &x.t, 1);
            check_tensor(&x.t, expected, 4 * epsilon_of(dtype), 2, "rope in place");
        }
        free(expected);
        tensor_free(&x);
        tensor_free(&positions);
        tensor_free(&f);
        tensor_free(&y);
    }
}

static void test_rope(void)
{
    everywhere(check_rope);
}

/* ---- Losses --------------------------------------------------------------------------------- */

/* The loss of a row of logits; its residual softmax - onehot replaces them. */
static double expect_loss(double *logits, int64_t V, int64_t target)
{
    double top = -INFINITY, sum = 0;
    for (int64_t v = 0; v < V; v++)
        top = logits[v] > top ? logits[v] : top;
    for (int64_t v = 0; v < V; v++)
        sum += exp(logits[v] - top);
    double lse = top + log(sum), loss = target < 0 ? 0 : lse - logits[target];
    for (int64_t v = 0; v < V; v++)
        logits[v] = target < 0 ? 0 : exp(logits[v] - lse) - (v == target);
    return loss;
}

/* The entropy of the softmax of the logits; 0 without a target. */
static double expect_entropy(const double *logits, int64_t V, int64_t target)
{
    double top = -INFINITY, sum = 0, weighted = 0;
    for (int64_t v = 0; v < V; v++)
        top = logits[v] > top ? logits[v] : top;
    for (int64_t v = 0; v < V; v++) {
        sum += exp(logits[v] - top);
        weighted += exp(logits[v] - top) * (logits[v] - top);
    }
    return target < 0 ? 0 : log(sum) - weighted / sum;
}

static owned_tensor some_targets(int64_t N, int64_t V)
{
    owned_tensor t = tensor_indices(WEFT_DIMS(N), V, 43);
    for (int64_t i = 0; i < N; i += 3)
        weft_tensor_set_int(&t.t, i, -100);
    return t;
}

static void check_cross_entropy(weft_dtype dtype, lie layout)
{
    enum { N = 40, V = 133 };
    owned_tensor x = tensor_random(dtype, WEFT_DIMS(N, V), layout, -6, 6, 41);
    owned_tensor ct = tensor_random(WEFT_FLOAT32, WEFT_DIMS(N), LIE_DENSE, -1, 1, 42);
    owned_tensor targets = some_targets(N, V), loss = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N));
    owned_tensor dx = tensor_empty(dtype, WEFT_DIMS(N, V));
    double *losses = zeros(N), *grads = zeros(N * V);
    for (int64_t i = 0; i < N; i++) {
        for (int64_t v = 0; v < V; v++)
            grads[i * V + v] = weft_tensor_get(&x.t, i * V + v);
        losses[i] = expect_loss(grads + i * V, V, weft_tensor_get_int(&targets.t, i));
        for (int64_t v = 0; v < V; v++)
            grads[i * V + v] *= weft_tensor_get(&ct.t, i);
    }
    task forward = {"cross_entropy", NULL, {x.t, targets.t}, {loss.t}, 2, 1};
    task vjp = {"cross_entropy_vjp", NULL, {x.t, targets.t, ct.t}, {dx.t}, 3, 1};
    same_bits(run_task, &forward, &loss, 1);
    same_bits(run_task, &vjp, &dx, 1);
    check_tensor(&loss.t, losses, 0x1p-20, 1, "cross_entropy");
    check_tensor(&dx.t, grads, 4 * epsilon_of(dtype), 0.1, "cross_entropy_vjp");
    free(losses);
    free(grads);
    tensor_free(&x);
    tensor_free(&ct);
    tensor_free(&targets);
    tensor_free(&loss);
    tensor_free(&dx);
}

static void test_cross_entropy(void)
{
    everywhere(check_cross_entropy);
}

typedef struct linear_loss {
    int64_t N, E, V;
    double softcap;
    bool with_gradient;
} linear_loss;

static void expect_linear_loss(const linear_loss *p, const weft_tensor *x, const weft_tensor *w,
                               const weft_tensor *targets, double *losses, double *grads,
                               double *entropies)
{
    double *logits = zeros(p->V), *slope = zeros(p->V);
    for (int64_t i = 0; i < p->N; i++) {
        for (int64_t v = 0; v < p->V; v++) {
            double s = 0;
            for (int64_t e = 0; e < p->E; e++)
                s += weft_tensor_get(x, i * p->E + e) * weft_tensor_get(w, v * p->E + e);
            double t = p->softcap > 0 ? tanh(s / p->softcap) : 0;
            logits[v] = p->softcap > 0 ? p->softcap * t : s;
            slope[v] = 1 - t * t;
        }
        entropies[i] = expect_entropy(logits, p->V, weft_tensor_get_int(targets, i));
        losses[i] = expect_loss(logits, p->V, weft_tensor_get_int(targets, i));
        for (int64_t v = 0; v < p->V; v++)
            for (int64_t e = 0; e < p->E; e++)
                grads[i * p->E + e] += logits[v] * slope[v] * weft_tensor_get(w, v * p->E + e);
    }
    free(logits);
    free(slope);
}

static void check_linear_loss(const linear_loss *p, weft_dtype x_dtype, weft_dtype w_dtype,
                              lie layout)
{
    owned_tensor x = tensor_random(x_dtype, WEFT_DIMS(p->N, p->E), layout, -1, 1, 51);
    owned_tensor w = tensor_random(w_dtype, WEFT_DIMS(p->V, p->E), layout, -1, 1, 52);
    owned_tensor targets = some_targets(p->N, p->V);
    owned_tensor out[] = {tensor_empty(WEFT_FLOAT32, WEFT_DIMS(p->N)),
                          tensor_empty(x_dtype, WEFT_DIMS(p->N, p->E)),
                          tensor_empty(WEFT_FLOAT32, WEFT_DIMS(p->N))};
    double *losses = zeros(p->N), *grads = zeros(p->N * p->E), *entropies = zeros(p->N);
    expect_linear_loss(p, &x.t, &w.t, &targets.t, losses, grads, entropies);
    weft_linear_cross_entropy_params params = {p->softcap, p->with_gradient, true};
    const int last = p->with_gradient ? 2 : 1;
    if (last == 1) {
        const owned_tensor unused = out[1];
        out[1] = out[2];
        out[2] = unused;
    }
    task t = {"linear_cross_entropy",         &params, {x.t, w.t, targets.t},
              {out[0].t, out[1].t, out[2].t}, 3,       last + 1};
    same_bits(run_task, &t, out, last + 1);
    char what[160];
    snprintf(what, sizeof what, "linear_cross_entropy %s %s %lldx%lldx%lld",
             weft_dtype_name(x_dtype), weft_dtype_name(w_dtype), (long long)p->N, (long long)p->E,
             (long long)p->V);
    check_tensor(&out[0].t, losses, 0x1p-19, 1, what);
    if (p->with_gradient)
        check_tensor(&out[1].t, grads, 8 * epsilon_of(x_dtype), 1, what);
    check_tensor(&out[last].t, entropies, 0x1p-19, 1, what);
    free(losses);
    free(grads);
    free(entropies);
    tensor_free(&x);
    tensor_free(&w);
    tensor_free(&targets);
    for (int i = 0; i < 3; i++)
        tensor_free(&out[i]);
}

static void check_linear_losses(weft_dtype dtype, lie layout)
{
    static const linear_loss small[] = {{5, 8, 40, 0, true},
                                        {1, 20, 300, 3, true},
                                        {9, 30, 7, 0, false},
                                        {0, 8, 9, 0, true},
                                        {50, 16, 257, 2, false}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        check_linear_loss(&small[i], dtype, dtype, layout);
        check_linear_loss(&small[i], WEFT_FLOAT32, dtype, layout);
    }
}

static void test_linear_cross_entropy(void)
{
    everywhere(check_linear_losses);
    /* Several tiles of rows; parts of the vocabulary; blocks of the embedding; passes of rows. */
    check_linear_loss(&(linear_loss){500, 12, 100, 0, true}, WEFT_FLOAT32, WEFT_FLOAT32, LIE_DENSE);
    check_linear_loss(&(linear_loss){4, 24, 5000, 0, true}, WEFT_FLOAT32, WEFT_BFLOAT16, LIE_DENSE);
    check_linear_loss(&(linear_loss){300, 8, 2500, 5, true}, WEFT_FLOAT32, WEFT_FLOAT32, LIE_DENSE);
    check_linear_loss(&(linear_loss){6, 1100, 30, 9, true}, WEFT_FLOAT32, WEFT_FLOAT32, LIE_DENSE);
    check_linear_loss(&(linear_loss){1400, 4, 1990, 2, true}, WEFT_FLOAT32, WEFT_FLOAT16,
                      LIE_DENSE);
}

/* Gradients of rows whose targets have probabilities of 0.4 to 0.98, which consist almost only of
 * the target's row of the weight: as accurate, of their own size, as their dtype. The probability
 * of the other words is 1 minus that of the target, whose sum of V exponentials in float32 is wrong
 * by up to about 2^-24 times the root of V / 4, with vectors of four floats: half of 2^-18. */
static void check_probable_targets(weft_dtype dtype, double tolerance)
{
    enum { N = 40, E = 64, V = 2500 };
    owned_tensor x = tensor_random(dtype, WEFT_DIMS(N, E), LIE_DENSE, -1, 1, 51);
    owned_tensor w = tensor_random(dtype, WEFT_DIMS(V, E), LIE_DENSE, -1, 1, 52);
    owned_tensor targets = some_targets(N, V), loss = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N)),
                 dx = tensor_empty(dtype, WEFT_DIMS(N, E));
    double *losses = zeros(N), *grads = zeros(N * E);
    for (int64_t i = 0; i < N; i++) {
        const int64_t target = weft_tensor_get_int(&targets.t, i);
        for (int64_t e = 0; e < E && target >= 0; e++)
            weft_tensor_set(&x.t, i * E + e,
                            (0.4 + 0.004 * (double)i) * weft_tensor_get(&w.t, target * E + e));
    }
    const linear_loss p = {N, E, V, 0, true};
    double *entropies = zeros(N);
    expect_linear_loss(&p, &x.t, &w.t, &targets.t, losses, grads, entropies);
    free(entropies);
    const weft_linear_cross_entropy_params params = {.with_gradient = true};
    task t = {"linear_cross_entropy", &params, {x.t, w.t, targets.t}, {loss.t, dx.t}, 3, 2};
    run_task(&t);
    for (int64_t i = 0; i < N; i++) {
        double error = 0, size = 0;
        for (int64_t e = 0; e < E; e++) {
            const double want = grads[i * E + e], got = weft_tensor_get(&dx.t, i * E + e);
            error += (got - want) * (got - want);
            size += want * want;
        }
        const double others = 1 - exp(-losses[i]);
        if (others == 0) /* no target */
            CHECK(error == 0);
        else if (!CHECK(sqrt(error) <= (tolerance + 0x1p-18 / others) * sqrt(size)))
            printf("  %s, row %lld: %g of the gradient\n", weft_dtype_name(dtype), (long long)i,
                   sqrt(error / size));
    }
    free(losses);
    free(grads);
    tensor_free(&x);
    tensor_free(&w);
    tensor_free(&targets);
    tensor_free(&loss);
    tensor_free(&dx);
}

static void test_probable_targets(void)
{
    check_probable_targets(WEFT_FLOAT32, 0x1p-18);   /* logits of 13 with the rounding of 2^-22 */
    check_probable_targets(WEFT_BFLOAT16, 0x1.2p-9); /* the rounding of the result */
}

/* A row's loss and gradient have the same bits beside any number of rows: losses of the same
 * sample, computed in different batches, are compared in preference objectives. */
static void test_rows_are_independent(void)
{
    enum { N = 100, E = 32, V = 300 };
    static const int64_t fewer[] = {2, 9, 20, 36, 75};
    owned_tensor x = tensor_random(WEFT_FLOAT32, WEFT_DIMS(N, E), LIE_DENSE, -1, 1, 51);
    owned_tensor w = tensor_random(WEFT_FLOAT32, WEFT_DIMS(V, E), LIE_DENSE, -1, 1, 52);
    owned_tensor targets = some_targets(N, V), loss = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N)),
                 dx = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N, E));
    float losses[N], grads[N * E];
    const weft_linear_cross_entropy_params params = {.with_gradient = true};
    task t = {"linear_cross_entropy", &params, {x.t, w.t, targets.t}, {loss.t, dx.t}, 3, 2};
    run_task(&t);
    memcpy(losses, loss.t.data, sizeof losses);
    memcpy(grads, dx.t.data, sizeof grads);
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        const int64_t n = fewer[i];
        t.in[0].shape.at[0] = t.in[2].shape.at[0] = n;
        t.out[0].shape.at[0] = t.out[1].shape.at[0] = n;
        run_task(&t);
        CHECK(memcmp(losses, loss.t.data, (size_t)n * sizeof *losses) == 0);
        CHECK(memcmp(grads, dx.t.data, (size_t)(n * E) * sizeof *grads) == 0);
    }
    tensor_free(&x);
    tensor_free(&w);
    tensor_free(&targets);
    tensor_free(&loss);
    tensor_free(&dx);
}

static void test_target_too_large(void)
{
    owned_tensor x = tensor_random(WEFT_FLOAT32, WEFT_DIMS(2, 5), LIE_DENSE, -1, 1, 1);
    owned_tensor targets = tensor_indices(WEFT_DIMS(2), 5, 2);
    weft_tensor_set_int(&targets.t, 1, 5);
    owned_tensor loss = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(2));
    weft_tensor in[] = {x.t, targets.t};
    CHECK_STATUS(status_of_row("cross_entropy", NULL, in, 2, &loss.t, 1), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "target 5 of row 1: expected below 5");
    tensor_free(&x);
    tensor_free(&targets);
    tensor_free(&loss);
}

/* ---- AdamW ---------------------------------------------------------------------------------- */

typedef struct adam_state {
    owned_tensor p, g, m, v, hyper;
} adam_state;

static void expect_adamw(const adam_state *s, const weft_adamw_params *k, int64_t i, double *p,
                         double *m, double *v)
{
    double lr = weft_tensor_get(&s->hyper.t, 0);
    double g = weft_tensor_get(&s->g.t, i) * weft_tensor_get(&s->hyper.t, 1);
    *m = k->beta1 * weft_tensor_get(&s->m.t, i) + (1 - k->beta1) * g;
    *v = k->beta2 * weft_tensor_get(&s->v.t, i) + (1 - k->beta2) * g * g;
    double step = *m / weft_tensor_get(&s->hyper.t, 2) /
                  (sqrt(*v / weft_tensor_get(&s->hyper.t, 3)) + k->eps);
    *p = weft_tensor_get(&s->p.t, i) * (1 - lr * k->decay) - lr * step;
}

static void check_adamw(weft_dtype dtype, lie layout)
{
    if (layout != LIE_DENSE)
        return;
    enum { N = 40000 };
    static const float hyper[] = {0.01f, 0.5f, 0.1f, 0.002f, 1};
    weft_adamw_params params = {0.9, 0.999, 1e-8, 0.1};
    adam_state s = {tensor_random(dtype, WEFT_DIMS(N), LIE_DENSE, -1, 1, 61),
                    tensor_random(WEFT_FLOAT32, WEFT_DIMS(N), LIE_DENSE, -1, 1, 62),
                    tensor_random(WEFT_FLOAT32, WEFT_DIMS(N), LIE_DENSE, -1, 1, 63),
                    tensor_random(WEFT_FLOAT32, WEFT_DIMS(N), LIE_DENSE, 0.01, 1, 64),
                    tensor_empty(WEFT_FLOAT32, WEFT_DIMS(5))};
    memcpy(s.hyper.memory, hyper, sizeof hyper);
    double *p = zeros(N), *m = zeros(N), *v = zeros(N);
    for (int64_t i = 0; i < N; i++)
        expect_adamw(&s, &params, i, &p[i], &m[i], &v[i]);
    owned_tensor out[] = {tensor_empty(dtype, WEFT_DIMS(N)),
                          tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N)),
                          tensor_empty(WEFT_FLOAT32, WEFT_DIMS(N))};
    task t = {
        "adamw", &params, {s.p.t, s.g.t, s.m.t, s.v.t, s.hyper.t}, {out[0].t, out[1].t, out[2].t},
        5,       3};
    same_bits(run_task, &t, out, 3);
    check_tensor(&out[0].t, p, 2 * epsilon_of(dtype), 1, "adamw p");
    check_tensor(&out[1].t, m, 0x1p-21, 1, "adamw m");
    check_tensor(&out[2].t, v, 0x1p-21, 1, "adamw v");
    t.out[0] = s.p.t;
    t.out[1] = s.m.t;
    t.out[2] = s.v.t;
    run_task(&t);
    CHECK_BYTES(s.p.memory, out[0].memory, (size_t)out[0].bytes);
    CHECK_BYTES(s.v.memory, out[2].memory, (size_t)out[2].bytes);
    weft_tensor_set(&s.hyper.t, 4, 0); /* a step that is not to be taken */
    t.out[0] = out[0].t;
    memset(out[0].memory, 1, (size_t)out[0].bytes);
    run_task(&t);
    CHECK_BYTES(out[0].memory, s.p.memory, (size_t)s.p.bytes);
    free(p);
    free(m);
    free(v);
    owned_tensor *all[] = {&s.p, &s.g, &s.m, &s.v, &s.hyper, &out[0], &out[1], &out[2]};
    for (int i = 0; i < 8; i++)
        tensor_free(all[i]);
}

static void test_adamw(void)
{
    everywhere(check_adamw);
}

CHECK_MAIN("kernels", CHECK_CASE(test_norms), CHECK_CASE(test_rope), CHECK_CASE(test_cross_entropy),
           CHECK_CASE(test_linear_cross_entropy), CHECK_CASE(test_probable_targets),
           CHECK_CASE(test_rows_are_independent), CHECK_CASE(test_target_too_large),
           CHECK_CASE(test_adamw))
