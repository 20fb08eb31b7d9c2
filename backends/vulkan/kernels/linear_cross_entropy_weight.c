/* backends/vulkan/kernels/linear_cross_entropy_weight.c -- the gradient of the losses with respect
 * to the weight, a block of vocabulary entries at a time: a product computes the logits of all
 * rows, their gradients replace them or, for matrix cores, are stored in bfloat16, and a second
 * product with the hidden states writes the block's rows of the result. */
#include "backends/vulkan/kernels/linear_cross_entropy.h"
#include "backends/vulkan/kernels/product.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

/* The fewest entries of a block, and columns of the products' tiles; the columns of a row that a
 * workgroup of token_residuals.comp computes. */
enum { LEAST_BLOCK = 256, TILE = 128, SPAN = 2048 };

typedef struct head {
    const weft_call *call;
    const weft_tensor *x, *weight, *targets;
    int64_t N, E, V;
    bool narrow;                          /* gradients of logits in bfloat16 */
    int64_t block;                        /* vocabulary entries */
    uint64_t logits, residuals, products; /* addresses in the workspace */
} head;

/* A block of vocabulary entries. */
typedef struct words {
    int64_t first, n;
} words;

static head head_of(const weft_call *call)
{
    head h = {.call = call, .x = &call->in[0], .weight = &call->in[1], .targets = &call->in[2]};
    h.N = h.x->shape.at[0];
    h.E = h.x->shape.at[1];
    h.V = h.weight->shape.at[0];
    h.narrow = weft__vulkan_loss_is_narrow(call);
    const int64_t most = h.N > 0 ? weft__vulkan_loss_room(h.narrow) / (4 * h.N) : h.V;
    h.block = most > LEAST_BLOCK ? most / TILE * TILE : LEAST_BLOCK;
    h.block = h.block < h.V ? h.block : h.V;
    return h;
}

static words words_at(const head *h, int64_t first)
{
    const int64_t rest = h->V - first;
    return (words){first, rest < h->block ? rest : h->block};
}

static uint64_t row_address(const weft_tensor *t, int64_t row)
{
    const int64_t bytes = row * t->strides[0] * (int64_t)weft_dtype_size(t->dtype);
    return t->buffer ? weft__vulkan_address(t) + (uint64_t)bytes : 0;
}

static weft__vulkan_product logits_product(const head *h, words w)
{
    weft__vulkan_product p = {.rows = h->N,
                              .columns = w.n,
                              .terms = h->E,
                              .sizes = {1, 1, 1, 1},
                              .a = weft__vulkan_matrix(h->x, 0, 1),
                              .b = weft__vulkan_matrix(h->weight, 0, 1),
                              .y_dtype = WEFT_FLOAT32,
                              .y = h->logits};
    p.b.address = row_address(h->weight, w.first);
    return p;
}

static weft__vulkan_product weight_product(const head *h, words w)
{
    const weft_tensor *y = &h->call->out[0];
    return (weft__vulkan_product){.rows = w.n,
                                  .columns = h->E,
                                  .terms = h->N,
                                  .sizes = {1, 1, 1, 1},
                                  .a = {.dtype = h->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32,
                                        .address = h->residuals,
                                        .outer = 1,
                                        .term = w.n},
                                  .b = weft__vulkan_matrix(h->x, 1, 0),
                                  .y_dtype = y->dtype,
                                  .y = row_address(y, w.first)};
}

bool weft__vulkan_linear_cross_entropy_weight_fits(const weft_call *call)
{
    const head h = head_of(call);
    return weft__vulkan_fits(call) && h.N > 0 && h.V > 0 && h.E > 0 && h.N * h.block < INT32_MAX &&
           h.x->dtype != WEFT_FLOAT64 && h.weight->dtype != WEFT_FLOAT64;
}

/* ---- The workspace: logits, their gradients in bfloat16, then the products' workspace -------- */

static int64_t logits_bytes(const head *h)
{
    return (h->N * h->block * 4 + 63) / 64 * 64;
}

static int64_t residuals_bytes(const head *h)
{
    return h->narrow ? logits_bytes(h) / 2 : 0;
}

static int64_t products_bytes(const head *h, words w)
{
    const weft__vulkan_product logits = logits_product(h, w), weight = weight_product(h, w);
    const int64_t a = weft__vulkan_product_workspace(h->call, &logits),
                  b = weft__vulkan_product_workspace(h->call, &weight);
    return a > b ? a : b;
}

int64_t weft__vulkan_linear_cross_entropy_weight_workspace(const weft_call *call)
{
    const head h = head_of(call);
    const int64_t whole = products_bytes(&h, words_at(&h, 0)),
                  last = products_bytes(&h, words_at(&h, (h.V - 1) / h.block * h.block));
    return logits_bytes(&h) + residuals_bytes(&h) + (whole > last ? whole : last);
}

/* ---- Launches ------------------------------------------------------------------------------- */

static weft_status residuals(const head *h, words w)
{
    const weft_linear_cross_entropy_weight_grad_params *params = h->call->params;
    const uint32_t spans = (uint32_t)((w.n + SPAN - 1) / SPAN);
    const struct {
        uint64_t logits, lse, ct, targets, residuals;
        uint32_t rows, columns, first, spans;
        float cap;
        uint32_t unused;
    } push = {.logits = h->logits,
              .lse = weft__vulkan_address(&h->call->in[3]),
              .ct = weft__vulkan_address(&h->call->in[4]),
              .targets = weft__vulkan_address(h->targets),
              .residuals = h->residuals,
              .rows = (uint32_t)h->N,
              .columns = (uint32_t)w.n,
              .first = (uint32_t)w.first,
              .spans = spans,
              .cap = (float)params->softcap};
    const weft__vulkan_launch launch = {.shader = &weft__shader_token_residuals,
                                        .n_constants = 3,
                                        .constants = {h->targets->dtype, params->softcap > 0,
                                                      h->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32},
                                        .push = &push,
                                        .push_bytes = sizeof push,
                                        .groups = push.rows * spans,
                                        .work = 64.0 * push.rows * push.columns};
    return weft__vulkan_dispatch(h->call, &launch);
}

static weft_status run(const head *h, words w)
{
    const weft__vulkan_product logits = logits_product(h, w), weight = weight_product(h, w);
    weft_status status = weft__vulkan_product_run(h->call, &logits, h->products);
    if (status == WEFT_OK) {
        status = residuals(h, w);
    }
    return status == WEFT_OK ? weft__vulkan_product_run(h->call, &weight, h->products) : status;
}

weft_status weft__vulkan_linear_cross_entropy_weight(const weft_call *call)
{
    head h = head_of(call);
    h.logits = weft__vulkan_workspace(call);
    h.residuals = h.narrow ? h.logits + (uint64_t)logits_bytes(&h) : h.logits;
    h.products = h.logits + (uint64_t)(logits_bytes(&h) + residuals_bytes(&h));
    weft_status status = WEFT_OK;
    for (int64_t first = 0; first < h.V && status == WEFT_OK; first += h.block) {
        status = run(&h, words_at(&h, first));
    }
    return status;
}
