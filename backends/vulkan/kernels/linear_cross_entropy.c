/* backends/vulkan/kernels/linear_cross_entropy.c -- losses of hidden states and their gradients,
 * some rows of logits at a time: logits by a product, the losses and the logits' gradients in their
 * place, and the gradients of the hidden states by a second product. */
#include "backends/vulkan/kernels/product.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

/* Bytes of logits: for 128 rows of a vocabulary of 150000. The products use tiles of 128 rows. */
enum { LOGITS_ROOM = 80 << 20, TILE_ROWS = 128 };

typedef struct chunk {
    const weft_call *call;
    const weft_linear_cross_entropy_params *params;
    const weft_tensor *x, *weight, *targets;
    int64_t N, E, V;
    int64_t first, rows;       /* of N, at this time */
    uint64_t logits, products; /* addresses in the workspace */
} chunk;

/* token_loss.comp */
typedef struct loss_push {
    uint64_t logits, losses, targets, fault;
    uint32_t fault_code, first, rows, V, target_stride;
    float cap;
} loss_push;

static chunk chunk_of(const weft_call *call)
{
    chunk c = {.call = call,
               .params = call->params,
               .x = &call->in[0],
               .weight = &call->in[1],
               .targets = &call->in[2]};
    c.N = c.x->shape.at[0];
    c.E = c.x->shape.at[1];
    c.V = c.weight->shape.at[0];
    return c;
}

static int64_t chunk_rows(const chunk *c)
{
    int64_t rows = LOGITS_ROOM / (4 * c->V);
    rows = rows > TILE_ROWS ? rows / TILE_ROWS * TILE_ROWS : rows > 1 ? rows : 1;
    return rows < c->N || c->N == 0 ? rows : c->N;
}

static uint64_t address_of(const weft_tensor *t, int64_t row)
{
    uint64_t bytes = (uint64_t)(row * t->strides[0] * (int64_t)weft_dtype_size(t->dtype));
    return t->buffer ? weft__vulkan_address(t) + bytes : 0;
}

static weft__vulkan_product logits_product(const chunk *c)
{
    weft__vulkan_product p = {.rows = c->rows,
                              .columns = c->V,
                              .terms = c->E,
                              .sizes = {1, 1, 1, 1},
                              .a = weft__vulkan_matrix(c->x, 0, 1),
                              .b = weft__vulkan_matrix(c->weight, 0, 1),
                              .y_dtype = WEFT_FLOAT32,
                              .y = c->logits};
    p.a.address = address_of(c->x, c->first);
    return p;
}

static weft__vulkan_product gradient_product(const chunk *c)
{
    const weft_tensor *dx = &c->call->out[1];
    return (weft__vulkan_product){
        .rows = c->rows,
        .columns = c->E,
        .terms = c->V,
        .sizes = {1, 1, 1, 1},
        .a = {.dtype = WEFT_FLOAT32, .address = c->logits, .outer = c->V, .term = 1},
        .b = weft__vulkan_matrix(c->weight, 1, 0),
        .y_dtype = dx->dtype,
        .y = address_of(dx, c->first)};
}

bool weft__vulkan_linear_cross_entropy_dense_fits(const weft_call *call)
{
    chunk c = chunk_of(call);
    return weft__vulkan_fits(call) && c.V > 0 && c.E > 0 && c.weight->dtype != WEFT_FLOAT64;
}

bool weft__vulkan_linear_cross_entropy_fits(const weft_call *call)
{
    return weft__vulkan_linear_cross_entropy_dense_fits(call) && weft__vulkan_goes_forward(call);
}

/* ---- The workspace: logits, and then what the products need --------------------------------- */

static int64_t logits_bytes(const chunk *c)
{
    return (chunk_rows(c) * c->V * 4 + 63) / 64 * 64;
}

static int64_t products_bytes(chunk *c, int64_t rows)
{
    c->rows = rows;
    weft__vulkan_product logits = logits_product(c);
    int64_t bytes = weft__vulkan_product_workspace(c->call, &logits), more = 0;
    if (c->params->with_gradient) {
        weft__vulkan_product gradient = gradient_product(c);
        more = weft__vulkan_product_workspace(c->call, &gradient);
    }
    return more > bytes ? more : bytes;
}

int64_t weft__vulkan_linear_cross_entropy_workspace(const weft_call *call)
{
    chunk c = chunk_of(call);
    int64_t rows = chunk_rows(&c), bytes = products_bytes(&c, rows);
    if (c.N % rows > 0) {
        int64_t last = products_bytes(&c, c.N % rows);
        bytes = last > bytes ? last : bytes;
    }
    return logits_bytes(&c) + bytes;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static weft_status losses(const chunk *c)
{
    const weft_call *call = c->call;
    const loss_push push = {
        .logits = c->logits,
        .losses = weft__vulkan_address(&call->out[0]),
        .targets = weft__vulkan_address(c->targets),
        .fault = weft__vulkan_fault(call),
        .fault_code = weft__vulkan_fault_code(call, "%s: target %lld: expected below %lld", c->V),
        .first = (uint32_t)c->first,
        .rows = (uint32_t)c->rows,
        .V = (uint32_t)c->V,
        .target_stride = (uint32_t)c->targets->strides[0],
        .cap = (float)c->params->softcap};
    weft__vulkan_launch launch = {
        .shader = &weft__shader_token_loss,
        .n_constants = 3,
        .constants = {c->targets->dtype, c->params->with_gradient, c->params->softcap > 0},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = push.rows};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status run(const chunk *c)
{
    weft__vulkan_product logits = logits_product(c);
    weft_status status = weft__vulkan_product_run(c->call, &logits, c->products);
    if (status == WEFT_OK) {
        status = losses(c);
    }
    if (status == WEFT_OK && c->params->with_gradient) {
        weft__vulkan_product gradient = gradient_product(c);
        status = weft__vulkan_product_run(c->call, &gradient, c->products);
    }
    return status;
}

weft_status weft__vulkan_linear_cross_entropy(const weft_call *call)
{
    chunk c = chunk_of(call);
    int64_t rows = chunk_rows(&c);
    c.logits = weft__vulkan_workspace(call);
    c.products = c.logits + (uint64_t)logits_bytes(&c);
    weft_status status = WEFT_OK;
    for (; c.first < c.N && status == WEFT_OK; c.first += rows) {
        c.rows = rows < c.N - c.first ? rows : c.N - c.first;
        status = run(&c);
    }
    return status;
}
