/* backends/vulkan/kernels/linear_cross_entropy.c -- losses of hidden states and their gradients,
 * some rows of logits at a time: logits by a product, the losses and the logits' gradients in their
 * place, and the gradients of the hidden states by a second product. */
#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/product.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

/* Bytes of logits: for 128 rows of a vocabulary of 150000, and where both products run on matrix
 * cores for 256 of 128000. The products use tiles of 128 rows. */
enum { LOGITS_ROOM = 80 << 20, CORES_ROOM = 128 << 20, TILE_ROWS = 128 };

typedef struct chunk {
    const weft_call *call;
    const weft_linear_cross_entropy_params *params;
    const weft_tensor *x, *weight, *targets;
    int64_t N, E, V;
    bool narrow;         /* logits' gradients are rounded to bfloat16, for matrix cores */
    int64_t first, rows; /* of N, at this time */
    uint64_t logits, gradients, products; /* addresses in the workspace */
} chunk;

/* token_loss.comp */
typedef struct loss_push {
    uint64_t logits, losses, targets, gradients, fault;
    uint32_t fault_code, first, rows, V, target_stride;
    float cap;
} loss_push;

/* Whether the second product runs on matrix cores. Float16 would lose small probabilities. */
static bool is_narrow(const chunk *c)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(c->call);
    return cores && c->params->with_gradient && c->x->dtype == WEFT_BFLOAT16 &&
           c->weight->dtype == WEFT_BFLOAT16 && c->V % 8 == 0 && c->E % 8 == 0 &&
           weft__vulkan_core_shape_of(cores, WEFT_BFLOAT16);
}

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
    c.narrow = is_narrow(&c);
    return c;
}

static int64_t chunk_rows(const chunk *c)
{
    int64_t rows = (c->narrow ? CORES_ROOM : LOGITS_ROOM) / (4 * c->V);
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
    return (weft__vulkan_product){.rows = c->rows,
                                  .columns = c->E,
                                  .terms = c->V,
                                  .sizes = {1, 1, 1, 1},
                                  .a = {.dtype = c->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32,
                                        .address = c->gradients,
                                        .outer = c->V,
                                        .term = 1},
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

/* ---- The workspace: logits, their gradients in 16 bits, and then what the products need ------ */

static int64_t logits_bytes(const chunk *c)
{
    return (chunk_rows(c) * c->V * 4 + 63) / 64 * 64;
}

static int64_t gradients_bytes(const chunk *c)
{
    return c->narrow ? (chunk_rows(c) * c->V * 2 + 63) / 64 * 64 : 0;
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
    return logits_bytes(&c) + gradients_bytes(&c) + bytes;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static weft_status losses(const chunk *c)
{
    const weft_call *call = c->call;
    const loss_push push = {
        .logits = c->logits,
        .losses = weft__vulkan_address(&call->out[0]),
        .targets = weft__vulkan_address(c->targets),
        .gradients = c->gradients,
        .fault = weft__vulkan_fault(call),
        .fault_code = weft__vulkan_fault_code(call, "%s: target %lld: expected below %lld", c->V),
        .first = (uint32_t)c->first,
        .rows = (uint32_t)c->rows,
        .V = (uint32_t)c->V,
        .target_stride = (uint32_t)c->targets->strides[0],
        .cap = (float)c->params->softcap};
    weft__vulkan_launch launch = {.shader = &weft__shader_token_loss,
                                  .n_constants = 4,
                                  .constants = {c->targets->dtype, c->params->with_gradient,
                                                c->params->softcap > 0,
                                                c->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32},
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
    c.gradients = c.narrow ? c.logits + (uint64_t)logits_bytes(&c) : c.logits;
    c.products = c.logits + (uint64_t)(logits_bytes(&c) + gradients_bytes(&c));
    weft_status status = WEFT_OK;
    for (; c.first < c.N && status == WEFT_OK; c.first += rows) {
        c.rows = rows < c.N - c.first ? rows : c.N - c.first;
        status = run(&c);
    }
    return status;
}
