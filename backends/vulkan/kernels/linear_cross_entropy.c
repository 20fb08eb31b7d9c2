/* backends/vulkan/kernels/linear_cross_entropy.c -- losses of hidden states and their gradients, a
 * chunk of rows at a time: a product computes the logits, the losses and the logits' gradients
 * replace them, and a second product computes the gradients of the hidden states. An encoded weight
 * is decoded a block of vocabulary entries at a time for each of the products; logits are then
 * stored block after block, and the second product is summed over the blocks. On matrix cores, a
 * chunk then has several slices of rows, so that weights are decoded less often; each slice has the
 * bits that it would have as a chunk. */
#include "backends/vulkan/kernels/linear_cross_entropy.h"

#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/product.h"
#include "backends/vulkan/kernels/quantized.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

/* Bytes of a slice's logits: for 128 rows of a vocabulary of 150000 or, if both products run on
 * matrix cores, for 256 of 128000. The products use tiles of 128 rows. */
enum { LOGITS_ROOM = 80 << 20, CORES_ROOM = 128 << 20, TILE_ROWS = 128 };

/* Bytes of vocabulary entries decoded at a time, the fewest of them, and the slices of rows that
 * each decoded block is multiplied with. */
enum { DECODED_ROOM = 64 << 20, LEAST_BLOCK = 256, SLICES = 4 };

static weft__vulkan_loss_limits limits; /* 0: the defaults above */

void weft__vulkan_limit_losses(const weft__vulkan_loss_limits *l)
{
    limits = l ? *l : (weft__vulkan_loss_limits){0};
}

typedef struct chunk {
    const weft_call *call;
    const weft_linear_cross_entropy_params *params;
    const weft_tensor *x, *weight, *targets;
    int64_t N, E, V;
    bool narrow;   /* the logits' gradients are rounded to bfloat16, for matrix cores */
    int64_t block; /* vocabulary entries per block; V if the weight is not encoded */
    int64_t slice; /* rows of a product; a chunk is a slice, or several if blocks are decoded */

    int64_t first, rows;                      /* the current chunk of the N rows */
    uint64_t logits, decoded, sums, products; /* addresses in the workspace */
} chunk;

/* A block of vocabulary entries. */
typedef struct words {
    int64_t first, n;
} words;

/* token_loss.comp */
typedef struct loss_push {
    uint64_t logits, losses, entropies, targets, gradients, fault;
    uint32_t fault_code, first, rows, V, target_stride;
    float cap;
    uint32_t block;
} loss_push;

bool weft__vulkan_loss_is_narrow(const weft_call *call)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const weft_tensor *x = &call->in[0], *weight = &call->in[1];
    return x->dtype == WEFT_BFLOAT16 && weight->dtype == WEFT_BFLOAT16 &&
           weight->shape.at[0] % 8 == 0 && weight->shape.at[1] % 8 == 0 &&
           (limits.narrow || (cores && weft__vulkan_core_shape_of(cores, WEFT_BFLOAT16)));
}

int64_t weft__vulkan_loss_room(bool narrow)
{
    return limits.logits > 0 ? limits.logits : narrow ? CORES_ROOM : LOGITS_ROOM;
}

/* The dtype to which an encoded weight is decoded: exact unless matrix cores are used. */
static weft_dtype decoded_dtype(const chunk *c)
{
    return c->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32;
}

static int64_t blocks_of(const chunk *c)
{
    return c->block > 0 ? (c->V + c->block - 1) / c->block : 0;
}

static int64_t slice_rows(const chunk *c)
{
    const int64_t rows = c->V > 0 ? weft__vulkan_loss_room(c->narrow) / (4 * c->V) : 1;
    return rows > TILE_ROWS ? rows / TILE_ROWS * TILE_ROWS : rows > 1 ? rows : 1;
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
    c.narrow = c.params->with_gradient && weft__vulkan_loss_is_narrow(call);
    c.block = c.V;
    if (c.weight->encoding && c.E > 0) {
        const int64_t room = limits.decoded > 0 ? limits.decoded : DECODED_ROOM;
        const int64_t most = room / (c.E * (int64_t)weft_dtype_size(decoded_dtype(&c)));
        const int64_t whole = most > LEAST_BLOCK ? most / TILE_ROWS * TILE_ROWS : LEAST_BLOCK;
        c.block = whole < c.V ? whole : c.V;
    }
    c.slice = slice_rows(&c);
    return c;
}

static words words_of(const chunk *c, int64_t i)
{
    const int64_t first = i * c->block, rest = c->V - first;
    return (words){first, rest < c->block ? rest : c->block};
}

static int64_t chunk_rows(const chunk *c)
{
    const int64_t slices = limits.slices > 0 ? limits.slices : SLICES;
    const int64_t rows = c->slice * (c->narrow && blocks_of(c) > 1 ? slices : 1);
    return rows < c->N || c->N == 0 ? rows : c->N;
}

static uint64_t address_of(const weft_tensor *t, int64_t row)
{
    uint64_t bytes = (uint64_t)(row * t->strides[0] * (int64_t)weft_dtype_size(t->dtype));
    return t->buffer ? weft__vulkan_address(t) + bytes : 0;
}

/* The block's rows of the weight, decoded if necessary, as an operand with these axes. */
static weft__vulkan_factor weight_of(const chunk *c, int outer_axis, int term_axis)
{
    if (!c->weight->encoding) {
        return weft__vulkan_matrix(c->weight, outer_axis, term_axis);
    }
    return (weft__vulkan_factor){.dtype = decoded_dtype(c),
                                 .address = c->decoded,
                                 .outer = outer_axis == 0 ? c->E : 1,
                                 .term = term_axis == 0 ? c->E : 1};
}

/* n slices of the current chunk, of so many rows each. */
typedef struct slices {
    int64_t first, rows, n;
} slices;

static weft__vulkan_product logits_product(const chunk *c, words w, slices r)
{
    weft__vulkan_product p = {.rows = r.rows,
                              .columns = w.n,
                              .terms = c->E,
                              .sizes = {1, 1, 1, r.n},
                              .separate = true,
                              .a = weft__vulkan_matrix(c->x, 0, 1),
                              .b = weight_of(c, 0, 1),
                              .y_dtype = WEFT_FLOAT32,
                              .y = c->logits + (uint64_t)((w.first * c->rows + r.first * w.n) * 4)};
    p.a.address = address_of(c->x, c->first + r.first);
    p.a.batch[3] = r.rows * p.a.outer;
    return p;
}

static weft__vulkan_product gradient_product(const chunk *c, words w, slices r)
{
    const weft_tensor *dx = &c->call->out[1];
    const int64_t block = w.first / c->block, at = block * c->rows + r.first;
    const int64_t row = c->narrow ? 2 * w.n : w.n; /* 16-bit gradients replace float32 logits */
    const bool summed = blocks_of(c) > 1;
    return (weft__vulkan_product){
        .rows = r.rows,
        .columns = c->E,
        .terms = w.n,
        .sizes = {1, 1, 1, r.n},
        .separate = true,
        .a = {.dtype = c->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32,
              .address = c->logits + (uint64_t)((w.first * c->rows + r.first * w.n) * 4),
              .outer = row,
              .term = 1,
              .batch = {0, 0, 0, r.rows * row}},
        .b = weight_of(c, 1, 0),
        .y_dtype = summed ? WEFT_FLOAT32 : dx->dtype,
        .y = summed ? c->sums + (uint64_t)(at * c->E * 4) : address_of(dx, c->first + r.first)};
}

typedef weft__vulkan_product product_of(const chunk *c, words w, slices r);

static slices whole_slices(const chunk *c)
{
    return (slices){0, c->slice, c->rows / c->slice};
}

static slices last_slice(const chunk *c)
{
    const int64_t rest = c->rows % c->slice;
    return (slices){c->rows - rest, rest, rest > 0};
}

bool weft__vulkan_linear_cross_entropy_dense_fits(const weft_call *call)
{
    chunk c = chunk_of(call);
    return weft__vulkan_fits(call) && c.V > 0 && c.E > 0 && c.weight->dtype != WEFT_FLOAT64;
}

static bool is_narrow_float(const weft_tensor *t)
{
    return t->dtype == WEFT_FLOAT32 || t->dtype == WEFT_FLOAT16 || t->dtype == WEFT_BFLOAT16;
}

bool weft__vulkan_linear_cross_entropy_encoded_fits(const weft_call *call)
{
    const chunk c = chunk_of(call);
    return weft__vulkan_decodes(c.weight) && is_narrow_float(c.x) && c.V > 0 && c.E > 0 &&
           c.E % 8 == 0 && c.N * c.E < INT32_MAX && c.V * c.E < INT32_MAX;
}

bool weft__vulkan_linear_cross_entropy_fits(const weft_call *call)
{
    return weft__vulkan_linear_cross_entropy_dense_fits(call) && weft__vulkan_goes_forward(call);
}

/* ---- The workspace: logits, a decoded block, sums, then the products' workspace -------------- */

static int64_t logits_bytes(const chunk *c)
{
    return (chunk_rows(c) * c->V * 4 + 63) / 64 * 64;
}

static int64_t decoded_bytes(const chunk *c)
{
    const int64_t bytes = c->block * c->E * (int64_t)weft_dtype_size(decoded_dtype(c));
    return c->weight->encoding ? (bytes + 63) / 64 * 64 : 0;
}

static int64_t sums_bytes(const chunk *c)
{
    const int64_t blocks = c->params->with_gradient ? blocks_of(c) : 1;
    return blocks > 1 ? (blocks * chunk_rows(c) * c->E * 4 + 63) / 64 * 64 : 0;
}

static int64_t product_bytes(const chunk *c, product_of *product, words w)
{
    const weft__vulkan_product many = product(c, w, whole_slices(c)),
                               last = product(c, w, last_slice(c));
    const int64_t a = many.sizes[3] > 0 ? weft__vulkan_product_workspace(c->call, &many) : 0,
                  b = last.sizes[3] > 0 ? weft__vulkan_product_workspace(c->call, &last) : 0;
    return a > b ? a : b;
}

static int64_t products_bytes(chunk *c, int64_t rows)
{
    int64_t most = 0;
    c->rows = rows;
    for (int64_t i = 0; i < blocks_of(c); i++) {
        const words w = words_of(c, i);
        for (int k = 0; k <= c->params->with_gradient; k++) {
            const int64_t bytes = product_bytes(c, k == 0 ? logits_product : gradient_product, w);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

int64_t weft__vulkan_linear_cross_entropy_workspace(const weft_call *call)
{
    chunk c = chunk_of(call);
    int64_t rows = chunk_rows(&c), bytes = products_bytes(&c, rows);
    if (c.N % rows > 0) {
        int64_t last = products_bytes(&c, c.N % rows);
        bytes = last > bytes ? last : bytes;
    }
    return logits_bytes(&c) + decoded_bytes(&c) + sums_bytes(&c) + bytes;
}

/* ---- Launches ------------------------------------------------------------------------------- */

static weft_status losses(const chunk *c)
{
    const weft_call *call = c->call;
    const loss_push push = {
        .logits = c->logits,
        .losses = weft__vulkan_address(&call->out[0]),
        .entropies = c->params->with_entropy
                         ? weft__vulkan_address(&call->out[c->params->with_gradient ? 2 : 1])
                         : 0,
        .targets = weft__vulkan_address(c->targets),
        .gradients = c->logits,
        .fault = weft__vulkan_fault(call),
        .fault_code = weft__vulkan_fault_code(call, "%s: target %lld: expected below %lld", c->V),
        .first = (uint32_t)c->first,
        .rows = (uint32_t)c->rows,
        .V = (uint32_t)c->V,
        .target_stride = (uint32_t)c->targets->strides[0],
        .cap = (float)c->params->softcap,
        .block = (uint32_t)c->block};
    weft__vulkan_launch launch = {
        .shader = &weft__shader_token_loss,
        .n_constants = 7,
        .constants = {c->targets->dtype, c->params->with_gradient, c->params->softcap > 0,
                      c->narrow ? WEFT_BFLOAT16 : WEFT_FLOAT32, c->block < c->V, c->narrow,
                      c->params->with_entropy},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = push.rows,
        .work = 64.0 * push.rows * push.V};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status multiply_block(const chunk *c, product_of *product, words w)
{
    const slices all[] = {whole_slices(c), last_slice(c)};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        if (all[i].n > 0) {
            const weft__vulkan_product p = product(c, w, all[i]);
            status = weft__vulkan_product_run(c->call, &p, c->products);
        }
    }
    return status;
}

/* Multiplies by each block of vocabulary entries, decoding encoded ones first. The order is forward
 * or backward, so that the block decoded last can be reused. */
static weft_status multiply(const chunk *c, product_of *product, bool forward)
{
    const int64_t n = blocks_of(c);
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        const bool there = i == 0 && (!forward || c->first > 0) && c->params->with_gradient;
        const words w = words_of(c, forward ? i : n - 1 - i);
        if (c->weight->encoding && !there) {
            status = weft__vulkan_decode_rows(c->call, c->weight, w.first, w.n, decoded_dtype(c),
                                              c->decoded);
        }
        if (status == WEFT_OK) {
            status = multiply_block(c, product, w);
        }
    }
    return status;
}

static weft_status run(const chunk *c)
{
    weft_status status = multiply(c, logits_product, true);
    if (status == WEFT_OK) {
        status = losses(c);
    }
    if (status == WEFT_OK && c->params->with_gradient) {
        status = multiply(c, gradient_product, false);
    }
    if (status == WEFT_OK && c->params->with_gradient && blocks_of(c) > 1) {
        const weft_tensor *dx = &c->call->out[1];
        status = weft__vulkan_sum_parts(c->call, c->sums, blocks_of(c), c->rows * c->E,
                                        address_of(dx, c->first), dx->dtype);
    }
    return status;
}

weft_status weft__vulkan_linear_cross_entropy(const weft_call *call)
{
    chunk c = chunk_of(call);
    int64_t rows = chunk_rows(&c);
    c.logits = weft__vulkan_workspace(call);
    c.decoded = c.logits + (uint64_t)logits_bytes(&c);
    c.sums = c.decoded + (uint64_t)decoded_bytes(&c);
    c.products = c.sums + (uint64_t)sums_bytes(&c);
    weft_status status = WEFT_OK;
    for (; c.first < c.N && status == WEFT_OK; c.first += rows) {
        c.rows = rows < c.N - c.first ? rows : c.N - c.first;
        status = run(&c);
    }
    return status;
}
