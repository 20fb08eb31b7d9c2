/* backends/cpu/linear_cross_entropy.c -- losses and their gradients directly from hidden states.
 *
 * The gradient of a row is the mean of the weight's rows under the softmax, minus the target's row:
 * an attention of x to the weight, with the weight as values too. It is computed in the same way,
 * WORDS rows of the weight at a time: a product with x, a running softmax, and a product with the
 * exponentials. So no more logits than those exist at a time, and each is computed once. The
 * target's row is left out of the product and added at the end times its probability minus 1, since
 * the two terms nearly cancel out for a probable target. Rows with a negative target are skipped
 * first. The work is divided by shape only.
 */
#include <math.h>
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/quantized.h"
#include "backends/cpu/rows.h"
#include "backends/cpu/sizes.h"
#include "weft/op_params.h"

enum {
    PASS_ROWS = 512, /* rows of x for which the weight is read once */
    WORDS = 1984,    /* rows of the weight at a time. Rows of logits that are a power of two apart
                       would share the sets of a cache */
    ROW_GRAIN = 8    /* rows per task */
};

typedef struct loss {
    const weft_call *call;
    const cpu_kernels *kernels;
    const weft_linear_cross_entropy_params *params;
    cpu_rows x, dx;
    cpu_codes codes; /* if the weight is encoded */
    const weft_tensor *weight, *targets;
    int64_t N, E, V;
    int64_t x_row; /* floats from row to row of decoded x */
    int64_t pass;  /* rows of the largest pass */
    /* In the workspace. */
    int64_t *row; /* indices of the rows with a target */
    float *decoded, *logits, *mean, *sum, *top, *own;
    float *spread; /* sums of e^(s - top) (s - top) of each row, for the entropies */
    void *products;
    /* The running pass: rows [first, first + rows) of those with a target. */
    int64_t first, rows;
    int64_t v0, words;
} loss;

static void make_plan(loss *p, const weft_call *call)
{
    memset(p, 0, sizeof *p);
    p->call = call;
    p->kernels = weft__cpu_kernels();
    p->params = call->params;
    p->x = weft__cpu_rows_of(&call->in[0]);
    p->weight = &call->in[1];
    if (p->weight->encoding)
        p->codes = weft__cpu_codes_encoded(p->weight);
    p->targets = &call->in[2];
    p->N = p->x.n;
    p->E = p->x.width;
    p->V = p->weight->shape.at[0];
    p->x_row = weft__cpu_row_room(p->E) + weft__cpu_row_room(1);
    p->pass = smaller(PASS_ROWS, p->N);
}

static const char *word(const loss *p, int64_t v)
{
    return (const char *)p->weight->data +
           v * p->weight->strides[0] * (int64_t)weft_dtype_size(p->weight->dtype);
}

/* Reads row v of the weight as float32. */
static void read_word(const loss *p, int64_t v, float *out)
{
    if (p->weight->encoding)
        p->kernels->decode_codes(&p->codes, v, 0, p->E / p->codes.group, out);
    else
        p->kernels->decode(p->weight->dtype, word(p, v), out, p->E);
}

static int64_t target_of(const loss *p, int64_t row)
{
    return weft_tensor_get_int(p->targets, row);
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Rows v0 and following of the weight; `codes` is for those of an encoded one. */
static cpu_matrix weight_from(const loss *p, int64_t v0, cpu_codes *codes)
{
    if (!p->weight->encoding)
        return (cpu_matrix){.dtype = p->weight->dtype,
                            .data = word(p, v0),
                            .row = p->weight->strides[0],
                            .column = 1};
    *codes = weft__cpu_codes_from(&p->codes, v0);
    return (cpu_matrix){.dtype = WEFT_FLOAT32, .codes = codes, .row = p->E, .column = 1};
}

/* The bfloat16 parts of an element of decoded x; 0: all. */
static int parts_of_x(const loss *p)
{
    return p->x.t->dtype == WEFT_BFLOAT16 ? 1 : p->x.t->dtype == WEFT_FLOAT16 ? 2 : 0;
}

/* logits = x weight^T */
static cpu_gemm product_of_logits(const loss *p, cpu_codes *codes)
{
    cpu_matrix w = weight_from(p, p->v0, codes);
    w.column = w.row;
    w.row = 1;
    return (cpu_gemm){
        .m = p->rows,
        .n = p->words,
        .k = p->E,
        .a = {.dtype = WEFT_FLOAT32,
              .data = p->decoded,
              .row = p->x_row,
              .column = 1,
              .parts = parts_of_x(p)},
        .b = w,
        .c_dtype = WEFT_FLOAT32,
        .c = p->logits,
        .by_tiles = true,
    };
}

/* mean += exponentials weight. For a gradient in bfloat16 the exponentials are rounded to bfloat16,
 * which changes a sum of many of them less than its own rounding. */
static cpu_gemm product_of_mean(const loss *p, cpu_codes *codes)
{
    cpu_matrix w = weight_from(p, p->v0, codes);
    w.code_terms = true;
    return (cpu_gemm){.m = p->rows,
                      .n = p->E,
                      .k = p->words,
                      .a = {.dtype = WEFT_FLOAT32,
                            .data = p->logits,
                            .row = p->words,
                            .column = 1,
                            .parts = p->x.t->dtype == WEFT_BFLOAT16},
                      .b = w,
                      .c_dtype = WEFT_FLOAT32,
                      .c = p->mean,
                      .accumulate = p->v0 > 0,
                      .coarse = p->x.t->dtype == WEFT_BFLOAT16,
                      .by_tiles = true};
}

/* Bytes for the products of any pass. */
static int64_t products_workspace(const loss *p)
{
    loss largest = *p;
    cpu_codes codes;
    largest.rows = p->pass;
    largest.words = smaller(WORDS, p->V);
    const cpu_gemm logits = product_of_logits(&largest, &codes);
    const cpu_gemm mean = product_of_mean(&largest, &codes);
    const int64_t a = weft__cpu_gemm_bound(&logits), b = weft__cpu_gemm_bound(&mean);
    return a > b ? a : b;
}

/* ---- Workspace ------------------------------------------------------------------------------ */

/* Divides the workspace; returns its bytes. */
static int64_t place(loss *p, char *memory)
{
    const bool gradient = p->params->with_gradient;
    const int64_t n = weft__cpu_row_room(p->pass);
    const int64_t floats[] = {
        n * p->x_row, n * smaller(WORDS, p->V), gradient ? n * p->E : 0, n, n, n, n};
    float **const arrays[] = {&p->decoded, &p->logits, &p->mean,  &p->sum,
                              &p->top,     &p->own,    &p->spread};
    int64_t at = weft__cpu_row_room(p->N) * (int64_t)sizeof *p->row;
    p->row = (int64_t *)(void *)memory;
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        *arrays[i] = memory ? (float *)(void *)(memory + at) : NULL;
        at += floats[i] * (int64_t)sizeof(float);
    }
    p->products = memory ? memory + at : NULL;
    return at + products_workspace(p);
}

int64_t weft__cpu_linear_cross_entropy_workspace(const weft_call *call)
{
    loss p;
    make_plan(&p, call);
    return place(&p, NULL);
}

bool weft__cpu_linear_cross_entropy_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && call->in[0].shape.at[1] > 0 &&
           call->in[1].shape.at[0] > 0;
}

/* ---- A pass --------------------------------------------------------------------------------- */

/* Items of these tasks are the rows of the pass. */
static void begin_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const loss *p = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        p->kernels->decode(p->x.t->dtype, weft__cpu_row(&p->x, p->row[p->first + i]),
                           p->decoded + i * p->x_row, p->E);
        p->sum[i] = p->spread[i] = 0;
        p->top[i] = -INFINITY;
    }
}

/* The sum of n products of exponentials and their logits, less `top`. */
static float spread_of(const float *exponentials, const float *logits, int64_t n, float top)
{
    enum { LANES = 8 };
    float sums[LANES] = {0};
    for (int64_t j = 0; j + LANES <= n; j += LANES) {
        for (int k = 0; k < LANES; k++)
            sums[k] += exponentials[j + k] * (logits[j + k] - top);
    }
    for (int64_t j = n / LANES * LANES; j < n; j++)
        sums[0] += exponentials[j] * (logits[j] - top);
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/* Adds the block's logits s of row i to its spread. With a softcap, the differences of capped
 * logits are the logarithms of their exponentials. */
static void add_spread(const loss *p, int64_t i, const float *s)
{
    const float cap = (float)p->params->softcap, before = p->top[i], sum = p->sum[i];
    float room[WORDS], top = before, total = sum, added = 0;
    memcpy(room, s, (size_t)p->words * sizeof *s);
    const float factor = p->kernels->softmax_row(room, p->words, cap, NULL, &top, &total);
    if (cap > 0) {
        for (int64_t j = 0; j < p->words; j++)
            added += room[j] > 0 ? room[j] * logf(room[j]) : 0;
    } else {
        added = spread_of(room, s, p->words, top);
    }
    if (sum > 0)
        added += factor * (p->spread[i] + (before - top) * sum);
    p->spread[i] = added;
}

/* Makes exponentials of logits, without the target's, and scales the mean if the maximum changed.
 */
static void soften(void *context, int64_t begin, int64_t end, int worker)
{
    const loss *p = context;
    const float cap = (float)p->params->softcap;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float *s = p->logits + i * p->words;
        const int64_t target = target_of(p, p->row[p->first + i]) - p->v0;
        if (target >= 0 && target < p->words)
            p->own[i] = cap > 0 ? cap * tanhf(s[target] / cap) : s[target];
        float factor;
        if (p->params->with_entropy)
            add_spread(p, i, s);
        if (cap > 0 && p->params->with_gradient)
            factor = p->kernels->softmax_slope_row(s, p->words, cap, &p->top[i], &p->sum[i]);
        else
            factor = p->kernels->softmax_row(s, p->words, cap, NULL, &p->top[i], &p->sum[i]);
        if (!p->params->with_gradient)
            continue;
        if (target >= 0 && target < p->words)
            s[target] = 0;
        if (p->v0 > 0 && factor != 1)
            p->kernels->scale_row(p->mean + i * p->E, p->E, factor);
    }
}

static float *entropies_of(const loss *p)
{
    return p->call->out[p->params->with_gradient ? 2 : 1].data;
}

/* Writes losses and gradients; the rows of decoded x then serve as memory. */
static void end_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const loss *p = context;
    const float cap = (float)p->params->softcap;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = p->row[p->first + i];
        float *mean = p->mean + i * p->E, *own_word = p->decoded + i * p->x_row;
        ((float *)p->call->out[0].data)[row] = p->top[i] + logf(p->sum[i]) - p->own[i];
        if (p->params->with_entropy)
            entropies_of(p)[row] = logf(p->sum[i]) - p->spread[i] / p->sum[i];
        if (!p->params->with_gradient)
            continue;
        const float slope = cap > 0 ? 1 - p->own[i] / cap * (p->own[i] / cap) : 1;
        const float others = 1 - expf(p->own[i] - p->top[i]) / p->sum[i]; /* their probability */
        p->kernels->scale_row(mean, p->E, 1 / p->sum[i]);
        read_word(p, target_of(p, row), own_word);
        p->kernels->scale_row(own_word, p->E, -slope * others);
        p->kernels->add_row(mean, own_word, p->E);
        p->kernels->encode(p->dx.t->dtype, mean, weft__cpu_row(&p->dx, row), p->E);
    }
}

static void run_pass(loss *p)
{
    weft__cpu_parallel(p->rows, ROW_GRAIN, begin_rows, p);
    for (p->v0 = 0; p->v0 < p->V; p->v0 += WORDS) {
        cpu_codes codes;
        p->words = smaller(WORDS, p->V - p->v0);
        const cpu_gemm logits = product_of_logits(p, &codes);
        weft__cpu_gemm(&logits, p->products);
        weft__cpu_parallel(p->rows, ROW_GRAIN, soften, p);
        if (p->params->with_gradient) {
            const cpu_gemm mean = product_of_mean(p, &codes);
            weft__cpu_gemm(&mean, p->products);
        }
    }
    weft__cpu_parallel(p->rows, ROW_GRAIN, end_rows, p);
}

/* Lists the rows with a target and returns their number; the others get zeros. */
static int64_t choose_rows(loss *p)
{
    float *losses = p->call->out[0].data;
    int64_t n = 0;
    for (int64_t i = 0; i < p->N; i++) {
        if (target_of(p, i) >= 0) {
            p->row[n++] = i;
            continue;
        }
        losses[i] = 0;
        if (p->params->with_entropy)
            entropies_of(p)[i] = 0;
        if (p->params->with_gradient)
            memset(weft__cpu_row(&p->dx, i), 0, (size_t)p->E * weft_dtype_size(p->dx.t->dtype));
    }
    return n;
}

weft_status weft__cpu_linear_cross_entropy(const weft_call *call)
{
    loss p;
    make_plan(&p, call);
    weft_status status = weft__cpu_check_targets(p.targets, p.V, call->op->name);
    if (status != WEFT_OK)
        return status;
    place(&p, call->workspace);
    if (p.params->with_gradient)
        p.dx = weft__cpu_rows_of(&call->out[1]);
    const int64_t n = choose_rows(&p), passes = (n + PASS_ROWS - 1) / PASS_ROWS;
    for (int64_t i = 0; i < passes; i++) { /* passes of almost equal size */
        p.first = i * n / passes;
        p.rows = (i + 1) * n / passes - p.first;
        run_pass(&p);
    }
    return WEFT_OK;
}
