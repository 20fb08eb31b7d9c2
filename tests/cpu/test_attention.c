/* tests/cpu/test_attention.c -- attention and its gradient on the CPU against plain loops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/kernels.h"
#include "tests/check.h"
#include "tests/cpu/tensors.h"
#include "weft/op_params.h"

typedef struct attention_case {
    const char *name;
    int64_t B, L, S, H, Hk, D, Dv;
    weft_attention_params params;
    weft_dims mask; /* rank 0: none */
    bool float_mask;
    int32_t lengths[2]; /* with has_lengths */
} attention_case;

static const attention_case problems[] = {
    {"plain", 2, 5, 7, 2, 2, 8, 8, {.scale = 0.3}, {0}, false, {0}},
    {"causal", 2, 150, 150, 3, 1, 16, 16, {.scale = 0.25, .causal = true}, {0}, false, {0}},
    {"offset", 1, 70, 300, 2, 1, 20, 12, {.scale = 0.2, .causal = true}, {0}, false, {0}},
    {"more queries", 1, 40, 25, 2, 2, 8, 8, {.scale = 0.2, .causal = true}, {0}, false, {0}},
    {"window",
     1,
     300,
     300,
     2,
     2,
     8,
     16,
     {.scale = 0.3, .window = 37, .causal = true},
     {0},
     false,
     {0}},
    {"both sides", 1, 300, 300, 2, 2, 8, 16, {.scale = 0.3, .window = 37}, {0}, false, {0}},
    {"both sides, more keys",
     2,
     90,
     350,
     4,
     2,
     8,
     8,
     {.scale = 0.3, .window = 60},
     {0},
     false,
     {0}},
    {"softcap",
     1,
     33,
     140,
     4,
     2,
     32,
     32,
     {.scale = 0.5, .softcap = 2, .causal = true},
     {0},
     false,
     {0}},
    {"decode", 1, 1, 700, 6, 2, 64, 64, {.scale = 0.125, .causal = true}, {0}, false, {0}},
    {"decode one head",
     2,
     1,
     1100,
     1,
     1,
     24,
     40,
     {.scale = 0.2, .window = 500, .causal = true},
     {0},
     false,
     {0}},
    {"bool mask",
     2,
     9,
     200,
     4,
     2,
     8,
     8,
     {.scale = 0.3, .has_mask = true},
     {4, {2, 1, 9, 200}},
     false,
     {0}},
    {"key mask",
     2,
     3,
     600,
     4,
     1,
     8,
     8,
     {.scale = 0.3, .has_mask = true},
     {4, {2, 1, 1, 600}},
     false,
     {0}},
    {"float mask",
     1,
     20,
     30,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .softcap = 3, .causal = true, .has_mask = true},
     {4, {1, 2, 20, 30}},
     true,
     {0}},
    {"query mask",
     1,
     20,
     30,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .has_mask = true},
     {4, {1, 2, 20, 1}},
     false,
     {0}},
    {"eight heads", 1, 1, 600, 16, 2, 40, 72, {.scale = 0.2, .causal = true}, {0}, false, {0}},
    {"seven rows", 1, 7, 30, 3, 3, 16, 100, {.scale = 0.2, .causal = true}, {0}, false, {0}},
    {"odd widths", 1, 60, 200, 4, 2, 40, 72, {.scale = 0.2, .causal = true}, {0}, false, {0}},
    {"no keys", 1, 3, 0, 2, 1, 8, 8, {.scale = 0.3}, {0}, false, {0}},
    {"many heads", 1, 2, 10, 210, 1, 8, 8, {.scale = 0.3, .causal = true}, {0}, false, {0}},
};

/* Attention alone: the gradient has no lengths. */
static const attention_case cut_problems[] = {
    {"cut decode",
     2,
     1,
     1280,
     6,
     2,
     64,
     64,
     {.scale = 0.125, .causal = true, .has_lengths = true},
     {0},
     false,
     {9, 777}},
    {"cut on both sides",
     2,
     200,
     200,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .window = 20, .has_lengths = true},
     {0},
     false,
     {150, 200}},
    {"cut window",
     2,
     1,
     768,
     2,
     2,
     8,
     8,
     {.scale = 0.3, .window = 40, .causal = true, .has_lengths = true},
     {0},
     false,
     {600, 30}},
    {"cut tiles",
     2,
     70,
     512,
     4,
     2,
     16,
     24,
     {.scale = 0.3, .softcap = 2, .causal = true, .has_lengths = true},
     {0},
     false,
     {300, 71}},
    {"cut all seen",
     2,
     5,
     300,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .has_lengths = true},
     {0},
     false,
     {1, 299}},
    {"nothing left",
     2,
     3,
     300,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .causal = true, .has_lengths = true},
     {0},
     false,
     {0, 2}},
    {"outside",
     2,
     3,
     30,
     2,
     1,
     8,
     8,
     {.scale = 0.3, .causal = true, .has_lengths = true},
     {0},
     false,
     {-4, 31}},
    {"cut mask",
     2,
     3,
     600,
     4,
     1,
     8,
     8,
     {.scale = 0.3, .has_mask = true, .has_lengths = true},
     {4, {2, 1, 1, 600}},
     false,
     {500, 411}},
};

static double mask_at(const attention_case *c, const double *mask, int64_t b, int64_t h, int64_t l,
                      int64_t s)
{
    int64_t at[4] = {b, h, l, s}, index = 0;
    for (int i = 0; i < 4; i++)
        index = index * c->mask.at[i] + (c->mask.at[i] == 1 ? 0 : at[i]);
    double value = mask[index];
    return c->float_mask ? value : value != 0 ? 0 : -INFINITY;
}

static int64_t length_of(const attention_case *c, int64_t b)
{
    const int64_t length = c->params.has_lengths ? c->lengths[b] : c->S;
    return length < 0 ? 0 : length < c->S ? length : c->S;
}

typedef struct problem {
    attention_case c;
    owned_tensor q, k, v, mask, d_o;
    double *q_at, *k_at, *v_at, *mask_at, *d_o_at; /* the same as doubles */
    double *o, *lse, *dq, *dk, *dv;
} problem;

static int64_t at4(int64_t b, int64_t i, int64_t n, int64_t h, int64_t heads, int64_t j, int64_t w)
{
    return ((b * n + i) * heads + h) * w + j;
}

/* Scores of one query before the mask but after the cap, and with it; returns the log-sum-exp. */
static double expect_scores(const problem *p, int64_t b, int64_t l, int64_t h, double *capped,
                            double *score)
{
    const attention_case *c = &p->c;
    int64_t hk = h / (c->H / c->Hk);
    double top = -INFINITY, sum = 0;
    for (int64_t s = 0; s < c->S; s++) {
        double x = 0;
        for (int64_t d = 0; d < c->D; d++)
            x += p->q_at[at4(b, l, c->L, h, c->H, d, c->D)] *
                 p->k_at[at4(b, s, c->S, hk, c->Hk, d, c->D)];
        x *= c->params.scale;
        capped[s] = c->params.softcap > 0 ? c->params.softcap * tanh(x / c->params.softcap) : x;
        score[s] = capped[s] + (c->mask.n ? mask_at(c, p->mask_at, b, h, l, s) : 0);
        int64_t own = l + (c->params.causal ? length_of(c, b) : c->S) - c->L;
        if (s >= length_of(c, b))
            score[s] = -INFINITY;
        if ((c->params.causal && s > own) ||
            (c->params.window && llabs(own - s) >= c->params.window))
            score[s] = -INFINITY;
        top = score[s] > top ? score[s] : top;
    }
    for (int64_t s = 0; s < c->S; s++)
        sum += top == -INFINITY ? 0 : exp(score[s] - top);
    return sum > 0 ? top + log(sum) : -INFINITY;
}

static void expect_row(problem *p, int64_t b, int64_t l, int64_t h)
{
    const attention_case *c = &p->c;
    int64_t hk = h / (c->H / c->Hk), row = (b * c->L + l) * c->H + h;
    double *capped = calloc((size_t)c->S * 3 + 1, sizeof(double));
    double *prob = capped + c->S, *dp = prob + c->S, delta = 0;
    double lse = expect_scores(p, b, l, h, capped, prob);
    p->lse[row] = lse;
    for (int64_t s = 0; s < c->S; s++) {
        prob[s] = lse == -INFINITY ? 0 : exp(prob[s] - lse);
        for (int64_t d = 0; d < c->Dv; d++) {
            double v = p->v_at[at4(b, s, c->S, hk, c->Hk, d, c->Dv)];
            double d_o = p->d_o_at[row * c->Dv + d];
            p->o[row * c->Dv + d] += prob[s] * v;
            dp[s] += d_o * v;
            p->dv[at4(b, s, c->S, hk, c->Hk, d, c->Dv)] += prob[s] * d_o;
        }
        delta += prob[s] * dp[s];
    }
    for (int64_t s = 0; s < c->S; s++) {
        double t = c->params.softcap > 0 ? capped[s] / c->params.softcap : 0;
        double ds = prob[s] * (dp[s] - delta) * (1 - t * t) * c->params.scale;
        for (int64_t d = 0; d < c->D; d++) {
            int64_t qi = at4(b, l, c->L, h, c->H, d, c->D);
            int64_t ki = at4(b, s, c->S, hk, c->Hk, d, c->D);
            p->dq[qi] += ds * p->k_at[ki];
            p->dk[ki] += ds * p->q_at[qi];
        }
    }
    free(capped);
}

static double *zeros(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

static problem make_problem(const attention_case *c, weft_dtype dtype, weft_dtype kv, lie layout)
{
    problem p = {.c = *c};
    p.q = tensor_random(dtype, WEFT_DIMS(c->B, c->L, c->H, c->D), layout, -2, 2, 11);
    p.k = tensor_random(kv, WEFT_DIMS(c->B, c->S, c->Hk, c->D), layout, -2, 2, 12);
    p.v = tensor_random(kv, WEFT_DIMS(c->B, c->S, c->Hk, c->Dv), layout, -1, 1, 13);
    p.d_o = tensor_random(dtype, WEFT_DIMS(c->B, c->L, c->H, c->Dv), layout, -1, 1, 14);
    if (c->mask.n) {
        p.mask = tensor_random(c->float_mask ? dtype : WEFT_BOOL, c->mask, LIE_DENSE, -2, 2, 15);
        int64_t size = weft_tensor_size(&p.mask.t);
        /* Sparse: some queries see no key. */
        for (int64_t i = 0; !c->float_mask && i < size; i++)
            weft_tensor_set(&p.mask.t, i, i % 7 % 3 == 0 && i % 1000 > 200);
    }
    p.q_at = tensor_doubles(&p.q.t);
    p.k_at = tensor_doubles(&p.k.t);
    p.v_at = tensor_doubles(&p.v.t);
    p.d_o_at = tensor_doubles(&p.d_o.t);
    p.mask_at = c->mask.n ? tensor_doubles(&p.mask.t) : NULL;
    p.o = zeros(c->B * c->L * c->H * c->Dv);
    p.lse = zeros(c->B * c->L * c->H);
    p.dq = zeros(c->B * c->L * c->H * c->D);
    p.dk = zeros(c->B * c->S * c->Hk * c->D);
    p.dv = zeros(c->B * c->S * c->Hk * c->Dv);
    for (int64_t b = 0; b < c->B; b++)
        for (int64_t l = 0; l < c->L; l++)
            for (int64_t h = 0; h < c->H; h++)
                expect_row(&p, b, l, h);
    return p;
}

static void free_problem(problem *p)
{
    tensor_free(&p->q);
    tensor_free(&p->k);
    tensor_free(&p->v);
    tensor_free(&p->mask);
    tensor_free(&p->d_o);
    free(p->q_at);
    free(p->k_at);
    free(p->v_at);
    free(p->mask_at);
    free(p->d_o_at);
    free(p->o);
    free(p->lse);
    free(p->dq);
    free(p->dk);
    free(p->dv);
}

typedef struct results {
    owned_tensor o, lse, dq, dk, dv;
} results;

static results run(const problem *p, weft_dtype dtype)
{
    results r = {tensor_empty(dtype, p->d_o.t.shape),
                 tensor_empty(WEFT_FLOAT32, WEFT_DIMS(p->c.B, p->c.L, p->c.H)),
                 tensor_empty(dtype, p->q.t.shape), tensor_empty(p->k.t.dtype, p->k.t.shape),
                 tensor_empty(p->v.t.dtype, p->v.t.shape)};
    weft_attention_params params = p->c.params;
    int masks = p->c.mask.n ? 1 : 0;
    weft_tensor in[] = {p->q.t, p->k.t, p->v.t, p->mask.t, {0}}, out[] = {r.o.t, r.lse.t};
    if (params.has_lengths) {
        int32_t lengths[2] = {p->c.lengths[0], p->c.lengths[1]};
        in[3 + masks] = (weft_tensor){
            .dtype = WEFT_INT32, .shape = WEFT_DIMS(p->c.B), .strides = {1}, .data = lengths};
        run_row("attention", &params, in, 4 + masks, out, 2);
        return r;
    }
    run_row("attention", &params, in, 3 + masks, out, 2);
    weft_tensor vjp_in[] = {p->q.t, p->k.t, p->v.t, r.o.t, r.lse.t, p->d_o.t, p->mask.t};
    weft_tensor vjp_out[] = {r.dq.t, r.dk.t, r.dv.t};
    run_row("attention_vjp", &params, vjp_in, 6 + masks, vjp_out, 3);
    return r;
}

static void free_results(results *r)
{
    tensor_free(&r->o);
    tensor_free(&r->lse);
    tensor_free(&r->dq);
    tensor_free(&r->dk);
    tensor_free(&r->dv);
}

/* Keys and values have the dtype `kv`. Products of float16 parts round q and the probabilities to
 * 16 bits, an error of 2^-17 of a product. */
static void try_mixed(const attention_case *c, weft_dtype dtype, weft_dtype kv, lie layout)
{
    problem p = make_problem(c, dtype, kv, layout);
    results r = run(&p, dtype);
    char what[160];
    const struct {
        const char *name;
        const weft_tensor *actual;
        const double *expected;
        double scale;
    } outputs[] = {{"o", &r.o.t, p.o, 1},
                   {"lse", &r.lse.t, p.lse, 1},
                   {"dq", &r.dq.t, p.dq, 4},
                   {"dk", &r.dk.t, p.dk, 4 + (double)c->L * (double)c->H / (double)c->Hk / 20},
                   {"dv", &r.dv.t, p.dv, 4 + (double)c->L * (double)c->H / (double)c->Hk / 20}};
    const double least = dtype != kv && kv == WEFT_FLOAT16 ? 0x1p-21 : 0x1p-23;
    for (int i = 0; i < (c->params.has_lengths ? 2 : 5); i++) {
        snprintf(what, sizeof what, "%s %s %s %s layout %d", c->name, weft_dtype_name(dtype),
                 weft_dtype_name(kv), outputs[i].name, layout);
        const double own = i == 1 ? 0x1p-23 : epsilon_of(outputs[i].actual->dtype);
        check_tensor(outputs[i].actual, outputs[i].expected, 8 * (own > least ? own : least),
                     outputs[i].scale, what);
    }
    free_results(&r);
    free_problem(&p);
}

static void try_case(const attention_case *c, weft_dtype dtype, lie layout)
{
    try_mixed(c, dtype, dtype, layout);
}

static void test_cases(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
            try_case(&problems[i], WEFT_FLOAT32, LIE_DENSE);
        for (size_t i = 0; i < sizeof cut_problems / sizeof *cut_problems; i++)
            try_case(&cut_problems[i], WEFT_FLOAT32, LIE_DENSE);
    }
}

static void test_dtypes_and_layouts(void)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        try_case(&problems[i], WEFT_BFLOAT16, LIE_DENSE);
        try_case(&problems[i], WEFT_FLOAT16, LIE_ROWS);
        try_case(&problems[i], WEFT_FLOAT32, LIE_ROWS);
    }
    for (size_t i = 0; i < sizeof cut_problems / sizeof *cut_problems; i++) {
        try_case(&cut_problems[i], WEFT_BFLOAT16, LIE_DENSE);
        try_case(&cut_problems[i], WEFT_FLOAT32, LIE_ROWS);
    }
}

/* Lengths give the same bits as shorter keys and values, for any length of the rest. */
static void test_cuts(void)
{
    attention_case c = {
        "cut", 1,     1,  1536, 6, 2, 16, 16, {.scale = 0.25, .causal = true, .has_lengths = true},
        {0},   false, {0}};
    for (int i = 0; i < 5; i++) {
        c.lengths[0] = (const int32_t[]){1, 255, 513, 1100, 1536}[i];
        for (c.L = 1; c.L < 50; c.L += 40) {
            problem p = make_problem(&c, WEFT_FLOAT32, WEFT_FLOAT32, LIE_DENSE);
            results whole = run(&p, WEFT_FLOAT32);
            p.c.params.has_lengths = false;
            p.c.S = p.k.t.shape.at[1] = p.v.t.shape.at[1] = c.lengths[0];
            weft_tensor in[] = {p.q.t, p.k.t, p.v.t};
            owned_tensor o = tensor_empty(WEFT_FLOAT32, p.d_o.t.shape);
            owned_tensor lse = tensor_empty(WEFT_FLOAT32, WEFT_DIMS(c.B, c.L, c.H));
            run_row("attention", &p.c.params, in, 3, (weft_tensor[]){o.t, lse.t}, 2);
            CHECK_BYTES(whole.o.memory, o.memory, (size_t)o.bytes);
            CHECK_BYTES(whole.lse.memory, lse.memory, (size_t)lse.bytes);
            tensor_free(&o);
            tensor_free(&lse);
            free_results(&whole);
            free_problem(&p);
        }
    }
}

/* Queries of a model that computes in one dtype, keys and values of a cache in another. */
static void test_mixed_dtypes(void)
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++) {
        if (weft__cpu_use_isa(isa) != isa)
            continue;
        for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
            try_mixed(&problems[i], WEFT_FLOAT32, WEFT_FLOAT16, i % 2 ? LIE_ROWS : LIE_DENSE);
            try_mixed(&problems[i], WEFT_FLOAT32, WEFT_BFLOAT16, LIE_DENSE);
            try_mixed(&problems[i], WEFT_BFLOAT16, WEFT_FLOAT16, LIE_DENSE);
        }
        for (size_t i = 0; i < sizeof cut_problems / sizeof *cut_problems; i++)
            try_mixed(&cut_problems[i], WEFT_FLOAT32, WEFT_FLOAT16, LIE_DENSE);
    }
}

static void check_threads(weft_dtype kv)
{
    int before = weft_threads();
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        problem p = make_problem(&problems[i], WEFT_FLOAT32, kv, LIE_DENSE);
        weft_set_threads(1);
        results one = run(&p, WEFT_FLOAT32);
        for (int threads = 2; threads <= 4; threads++) {
            weft_set_threads(threads);
            results many = run(&p, WEFT_FLOAT32);
            CHECK_BYTES(many.o.memory, one.o.memory, (size_t)one.o.bytes);
            CHECK_BYTES(many.lse.memory, one.lse.memory, (size_t)one.lse.bytes);
            CHECK_BYTES(many.dq.memory, one.dq.memory, (size_t)one.dq.bytes);
            CHECK_BYTES(many.dk.memory, one.dk.memory, (size_t)one.dk.bytes);
            CHECK_BYTES(many.dv.memory, one.dv.memory, (size_t)one.dv.bytes);
            free_results(&many);
        }
        free_results(&one);
        free_problem(&p);
    }
    weft_set_threads(before);
}

static void test_threads(void)
{
    check_threads(WEFT_FLOAT32);
    check_threads(WEFT_FLOAT16);
}

CHECK_MAIN("attention", CHECK_CASE(test_cases), CHECK_CASE(test_dtypes_and_layouts),
           CHECK_CASE(test_mixed_dtypes), CHECK_CASE(test_cuts), CHECK_CASE(test_threads))
