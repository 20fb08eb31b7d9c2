/* backends/cpu/linear_cross_entropy_weight.c -- the gradient of the losses with respect to the
 * weight, a block of vocabulary entries at a time: a product computes the logits of all rows, their
 * gradients replace them, and a second product with the hidden states writes the block's rows of
 * the result. The work is divided by shape only. */
#include <math.h>
#include <string.h>

#include "backends/cpu/gemm.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/rows.h"
#include "weft/op_params.h"

enum { X, WEIGHT, TARGETS, LSE, CT };

/* Vocabulary entries of a block: an odd number of times 64, since rows of logits that are a power
 * of two apart would share the sets of a cache. */
enum {
    MOST_WORDS = 1984,
    LEAST_WORDS = 192,
    LOGITS = 4 << 20, /* elements, if that leaves a block the fewest entries */
    ROW_GRAIN = 8     /* rows per task */
};

typedef struct head {
    const weft_call *call;
    const cpu_kernels *kernels;
    cpu_matrix x; /* (N, E) */
    const weft_tensor *weight, *y;
    float cap;
    int64_t N, E, V, block;
    float *logits, *slopes; /* (N, block); a row for each worker */
    void *products;
    int64_t v0, words; /* the running block */
} head;

static head head_of(const weft_call *call)
{
    const weft_linear_cross_entropy_weight_grad_params *params = call->params;
    const weft_tensor *x = &call->in[X];
    head h = {.call = call,
              .kernels = weft__cpu_kernels(),
              .x = {.dtype = x->dtype, .data = x->data, .row = x->strides[0], .column = 1},
              .weight = &call->in[WEIGHT],
              .y = &call->out[0],
              .cap = (float)params->softcap,
              .N = x->shape.at[0],
              .E = x->shape.at[1]};
    h.V = h.weight->shape.at[0];
    h.block = h.N > 0 ? LOGITS / h.N / 128 * 128 - 64 : MOST_WORDS;
    h.block = h.block < LEAST_WORDS ? LEAST_WORDS : h.block > MOST_WORDS ? MOST_WORDS : h.block;
    h.words = h.block = h.block < h.V ? h.block : h.V;
    return h;
}

static const void *row_of(const weft_tensor *t, int64_t i)
{
    return (const char *)t->data + i * t->strides[0] * (int64_t)weft_dtype_size(t->dtype);
}

/* logits = x weight^T. Rows have the bits of the loss, whatever their number. */
static cpu_gemm product_of_logits(const head *h)
{
    return (cpu_gemm){.m = h->N,
                      .n = h->words,
                      .k = h->E,
                      .a = h->x,
                      .b = {.dtype = h->weight->dtype,
                            .data = row_of(h->weight, h->v0),
                            .row = 1,
                            .column = h->weight->strides[0]},
                      .c_dtype = WEFT_FLOAT32,
                      .c = h->logits,
                      .by_tiles = true};
}

/* The block of the result = gradients of logits^T x. For a result in bfloat16 these gradients are
 * rounded to bfloat16, as those of the hidden states. */
static cpu_gemm product_of_gradient(const head *h)
{
    return (cpu_gemm){.m = h->words,
                      .n = h->E,
                      .k = h->N,
                      .a = {.dtype = WEFT_FLOAT32,
                            .data = h->logits,
                            .row = 1,
                            .column = h->words,
                            .parts = h->y->dtype == WEFT_BFLOAT16},
                      .b = h->x,
                      .c_dtype = h->y->dtype,
                      .c = (void *)(uintptr_t)row_of(h->y, h->v0)};
}

/* Divides the workspace; returns its bytes. */
static int64_t place(head *h, float *memory)
{
    const cpu_gemm logits = product_of_logits(h), gradient = product_of_gradient(h);
    const int64_t a = weft__cpu_gemm_bound(&logits), b = weft__cpu_gemm_bound(&gradient);
    const int64_t row = weft__cpu_row_room(h->block), all = weft__cpu_row_room(h->N * h->block),
                  slopes = h->cap > 0 ? weft__cpu_workers() * row : 0;
    if (memory) {
        h->logits = memory;
        h->slopes = memory + all;
        h->products = memory + all + slopes;
    }
    return (all + slopes) * (int64_t)sizeof(float) + (a > b ? a : b);
}

int64_t weft__cpu_linear_cross_entropy_weight_workspace(const weft_call *call)
{
    head h = head_of(call);
    return place(&h, NULL);
}

bool weft__cpu_linear_cross_entropy_weight_fits(const weft_call *call)
{
    return weft__cpu_narrow_inputs(call) && weft_tensor_size(&call->in[X]) > 0 &&
           call->in[WEIGHT].shape.at[0] > 0;
}

/* Replaces logits by ct (p - hit) slope, where hit is 1 for the target. Its p - 1 is computed
 * without cancellation. */
static void residuals(void *context, int64_t begin, int64_t end, int worker)
{
    const head *h = context;
    float *slopes = h->slopes + worker * weft__cpu_row_room(h->block);
    for (int64_t i = begin; i < end; i++) {
        float *s = h->logits + i * h->words;
        int64_t target = weft_tensor_get_int(&h->call->in[TARGETS], i);
        const float lse = (float)weft_tensor_get(&h->call->in[LSE], i),
                    ct = (float)weft_tensor_get(&h->call->in[CT], i);
        if (target < 0) {
            memset(s, 0, (size_t)h->words * sizeof *s);
            continue;
        }
        target -= h->v0;
        const bool hit = target >= 0 && target < h->words;
        float own = hit ? s[target] : 0, slope = 1;
        if (h->cap > 0) {
            const float t = tanhf(own / h->cap);
            own = h->cap * t;
            slope = 1 - t * t;
            for (int64_t j = 0; j < h->words; j++)
                slopes[j] = ct;
            h->kernels->softmax_vjp_row(s, slopes, h->words, h->cap, NULL, lse, 0);
            memcpy(s, slopes, (size_t)h->words * sizeof *s);
        } else {
            h->kernels->probability_row(s, s, h->words, lse, ct);
        }
        if (hit)
            s[target] = ct * expm1f(own - lse) * slope;
    }
}

weft_status weft__cpu_linear_cross_entropy_weight(const weft_call *call)
{
    head h = head_of(call);
    place(&h, call->workspace);
    for (h.v0 = 0; h.v0 < h.V; h.v0 += h.block) {
        h.words = h.V - h.v0 < h.block ? h.V - h.v0 : h.block;
        const cpu_gemm logits = product_of_logits(&h), gradient = product_of_gradient(&h);
        weft__cpu_gemm(&logits, h.products);
        weft__cpu_parallel(h.N, ROW_GRAIN, residuals, &h);
        weft__cpu_gemm(&gradient, h.products);
    }
    return WEFT_OK;
}
