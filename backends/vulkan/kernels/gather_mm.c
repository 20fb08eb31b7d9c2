/* backends/vulkan/kernels/gather_mm.c -- products of selected matrices, and their gradients with
 * respect to the matrices. If several items on average select a matrix, the items are sorted by
 * matrix (segments.comp) and multiplied as the rows or terms of ordinary products; otherwise each
 * result reads its operands by itself. */
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "backends/vulkan/kernels/quantized.h"
#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum {
    THREADS = 128,         /* gather_mm.comp */
    LANES = 32,            /* the same */
    MOST_MATRICES = 1024,  /* segments.comp */
    FEWEST_ITEMS = 2,      /* for each matrix, from which on they are sorted, */
    FEWEST_DECODED = 4,    /* and the same for encoded matrices */
    ROOM = 192 << 20,      /* most bytes of decoded matrices, of which there is at least one */
    SMALLEST_SEGMENT = 16, /* the fewest rows of a tile */
};

/* Indices (I), which may be in any order in memory. */
typedef struct gather_indices {
    uint64_t lowest; /* address */
    int32_t first, step;
} gather_indices;

static gather_indices indices_of(const weft_tensor *t)
{
    const int64_t n = t->shape.at[0], step = t->strides[0];
    const int64_t first = step < 0 && n > 0 ? (1 - n) * step : 0;
    const uint64_t address = weft__vulkan_address_or_0(t);
    return (gather_indices){.lowest =
                                address ? address - (uint64_t)first * weft_dtype_size(t->dtype) : 0,
                            .first = (int32_t)first,
                            .step = (int32_t)step};
}

/* ---- Each result by itself ------------------------------------------------------------------- */

/* Whether sizes fit, and items have something to select: else the reference reports the first
 * index. */
static bool copied_fits(const weft_call *call)
{
    return weft__vulkan_fits(call) &&
           (weft_tensor_size(&call->in[2]) == 0 ||
            (call->in[0].shape.at[0] > 0 && call->in[1].shape.at[0] > 0));
}

static bool alone_fits(const weft_call *call)
{
    return copied_fits(call) && weft__vulkan_is_forward(&call->in[0]) &&
           weft__vulkan_is_forward(&call->in[1]);
}

static weft_status alone(const weft_call *call)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const gather_indices lhs = indices_of(&call->in[2]), rhs = indices_of(&call->in[3]);
    bool wide = weft__vulkan_is_wide(call);
    struct gather_push {
        uint64_t a, b, lhs, rhs, y, fault;
        uint32_t a_code, b_code;
        int32_t a_length, b_length;
        uint32_t count, rows, columns, terms;
        int32_t lhs_first, lhs_step, rhs_first, rhs_step;
        int32_t a_matrix, a_row, a_term, b_matrix, b_term, b_column;
        uint32_t first_group;
    } push = {.a = weft__vulkan_address_or_0(a),
              .b = weft__vulkan_address_or_0(b),
              .lhs = lhs.lowest,
              .rhs = rhs.lowest,
              .y = weft__vulkan_address_or_0(y),
              .fault = weft__vulkan_fault(call),
              .a_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, a->shape.at[0]),
              .b_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, b->shape.at[0]),
              .a_length = (int32_t)a->shape.at[0],
              .b_length = (int32_t)b->shape.at[0],
              .count = (uint32_t)weft_tensor_size(y),
              .rows = (uint32_t)y->shape.at[1],
              .columns = (uint32_t)y->shape.at[2],
              .terms = (uint32_t)a->shape.at[2],
              .lhs_first = lhs.first,
              .lhs_step = lhs.step,
              .rhs_first = rhs.first,
              .rhs_step = rhs.step,
              .a_matrix = (int32_t)a->strides[0],
              .a_row = (int32_t)a->strides[1],
              .a_term = (int32_t)a->strides[2],
              .b_matrix = (int32_t)b->strides[0],
              .b_term = (int32_t)b->strides[1],
              .b_column = (int32_t)b->strides[2]};
    /* Adjacent invocations read adjacent elements. */
    uint32_t lanes = push.b_term == 1 && push.terms > 1 ? LANES : 1;
    weft__vulkan_launch launch = {.shader =
                                      wide ? &weft__shader_gather_mm_f64 : &weft__shader_gather_mm,
                                  .n_constants = 4,
                                  .constants = {(uint32_t)y->dtype, (uint32_t)call->in[2].dtype,
                                                (uint32_t)call->in[3].dtype, lanes},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .first_at = offsetof(struct gather_push, first_group),
                                  .groups = weft__vulkan_groups(push.count, THREADS / lanes),
                                  .work = 2.0 * push.count * push.terms};
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- Items sorted by matrix ------------------------------------------------------------------ */

/* gather_mm of single rows, gather_mm_sums of single rows, and gather_linear. */
typedef enum gathered { PRODUCTS, SUMS, ENCODED } gathered;

/* 0: not known yet, or nothing there. */
static uint64_t address_of(const weft_tensor *t)
{
    return t->buffer ? weft__vulkan_address_or_0(t) : 0;
}

static int64_t last_of(const weft_tensor *t)
{
    return t->shape.at[t->shape.n - 1];
}

/* The last axis of a tensor of items. */
static int64_t last_stride(const weft_tensor *t)
{
    return last_of(t) == 1 ? 1 : t->strides[t->shape.n - 1];
}

static int64_t limited_room;

void weft__gather_limit_room(int64_t bytes)
{
    limited_room = bytes;
}

static int64_t count_matrices(const weft_call *call, gathered kind)
{
    return (kind == SUMS ? &call->out[0] : &call->in[1])->shape.at[0];
}

/* Of an encoded matrix. */
static int64_t bytes_of_one(const weft_call *call)
{
    const weft_dims *b = &call->in[1].shape;
    return b->at[1] * b->at[2] * (int64_t)weft_dtype_size(call->in[0].dtype);
}

/* The matrices that are multiplied at a time: all, or as many as may be decoded together. */
static int64_t matrices_at_once(const weft_call *call, gathered kind)
{
    const int64_t all = count_matrices(call, kind);
    if (kind != ENCODED) {
        return all;
    }
    const int64_t one = bytes_of_one(call), room = limited_room ? limited_room : ROOM;
    int64_t n = room / (one > 0 ? one : 1);
    n = n > MOST_MATRICES ? MOST_MATRICES : n < 1 ? 1 : n;
    return n < all ? n : all;
}

static int64_t decoded_bytes(const weft_call *call, gathered kind)
{
    const int64_t bytes = kind == ENCODED ? matrices_at_once(call, kind) * bytes_of_one(call) : 0;
    return (bytes + 63) / 64 * 64;
}

/* Plans the call with decoded matrices at its workspace, and lists of items behind them; false: the
 * shapes or layouts do not allow it. */
static bool plan_of(const weft_call *call, gathered kind, product_plan *plan)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const bool sums = kind == SUMS;
    const int64_t items = call->in[2].shape.at[0], at_once = matrices_at_once(call, kind),
                  all = count_matrices(call, kind);
    if ((kind != ENCODED && a->shape.at[1] != 1) || at_once > MOST_MATRICES ||
        weft_tensor_size(y) == 0 || all == 0) {
        return false;
    }
    const int64_t mean = (items + all - 1) / all;
    const uint64_t room = weft__vulkan_workspace(call);
    weft__vulkan_product p = {.rows = sums ? last_of(a) : mean,
                              .columns = last_of(y),
                              .terms = sums ? mean : last_of(a),
                              .sizes = {sums ? at_once : 1, 1, 1, 1},
                              .y_dtype = y->dtype,
                              .y = address_of(y),
                              .bias = room + (uint64_t)decoded_bytes(call, kind),
                              .bias_stride = items};
    p.a = (weft__vulkan_factor){.dtype = a->dtype,
                                .address = address_of(a),
                                .outer = sums ? last_stride(a) : a->strides[0],
                                .term = sums ? a->strides[0] : last_stride(a)};
    p.b = (weft__vulkan_factor){.dtype = b->dtype, .address = address_of(b)};
    if (kind == ENCODED) {
        p.b.dtype = a->dtype;
        p.b.address = room;
        p.b.outer = p.terms;
        p.b.term = 1;
        p.b.batch[0] = p.columns * p.terms;
    } else if (sums) {
        p.b.outer = last_stride(b);
        p.b.term = b->strides[0];
    } else {
        p.b.outer = b->strides[2];
        p.b.term = b->strides[1];
        p.b.batch[0] = b->strides[0];
    }
    *plan = (product_plan){
        .by_item = sums ? TERMS_BY_ITEM : ROWS_BY_ITEM, .items = items, .matrices = at_once};
    return (sums ? p.a.outer == 1 && p.b.outer == 1 : p.a.term == 1) &&
           weft__product_plan_items(plan, &p, weft__vulkan_cores_of(call));
}

static int64_t count_segments(const product_plan *plan, int64_t rows)
{
    return plan->by_item == ROWS_BY_ITEM ? weft__product_row_tiles(plan, rows) : plan->matrices;
}

static int64_t workspace_of(const weft_call *call, gathered kind)
{
    product_plan plan;
    return plan_of(call, kind, &plan)
               ? decoded_bytes(call, kind) +
                     (2 * plan.items + 3 * count_segments(&plan, SMALLEST_SEGMENT)) *
                         (int64_t)sizeof(uint32_t)
               : 0;
}

/* Sorts the items of plan->matrices matrices from `first` on. */
static weft_status sort_items(const weft_call *call, const product_plan *plan, int64_t first,
                              int64_t all)
{
    const gather_indices lhs = indices_of(&call->in[2]), rhs = indices_of(&call->in[3]);
    const int64_t A = call->in[0].shape.at[0], most = weft__product_tile_rows(plan);
    const uint64_t lists = plan->p.bias, items = (uint64_t)plan->items;
    const struct segments_push {
        uint64_t lhs, rhs, sources, order, segments, fault;
        uint32_t a_code, b_code;
        int32_t a_length, b_length;
        int32_t lhs_first, lhs_step, rhs_first, rhs_step;
        uint32_t items, most, count, first_matrix, matrices, unused;
    } push = {
        .lhs = lhs.lowest,
        .rhs = rhs.lowest,
        .sources = lists,
        .order = lists + items * sizeof(uint32_t),
        .segments = lists + 2 * items * sizeof(uint32_t),
        .fault = weft__vulkan_fault(call),
        .a_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, A),
        .b_code = weft__vulkan_fault_code(call, weft__vulkan_bad_index, all),
        .a_length = (int32_t)A,
        .b_length = (int32_t)all,
        .lhs_first = lhs.first,
        .lhs_step = lhs.step,
        .rhs_first = rhs.first,
        .rhs_step = rhs.step,
        .items = (uint32_t)items,
        .most = plan->by_item == ROWS_BY_ITEM ? (uint32_t)most : 0,
        .count = (uint32_t)count_segments(plan, most),
        .first_matrix = (uint32_t)first,
        .matrices = (uint32_t)plan->matrices,
    };
    const weft__vulkan_launch launch = {
        .shader = &weft__shader_segments,
        .n_constants = 2,
        .constants = {(uint32_t)call->in[2].dtype, (uint32_t)call->in[3].dtype},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = (uint64_t)plan->matrices,
        .work = 16.0 * (double)plan->items * (double)plan->matrices};
    return weft__vulkan_dispatch(call, &launch);
}

static weft_status sorted(const weft_call *call, gathered kind)
{
    product_plan plan;
    if (weft_tensor_size(&call->out[0]) == 0) {
        return WEFT_OK;
    }
    if (!plan_of(call, kind, &plan)) {
        return weft_fail(WEFT_UNSUPPORTED, "%s: unsupported layout", call->op->name);
    }
    const weft_tensor *b = &call->in[1];
    const int64_t all = count_matrices(call, kind), at_once = plan.matrices;
    weft_status status = WEFT_OK;
    for (int64_t first = 0; first < all && status == WEFT_OK; first += at_once) {
        plan.matrices = all - first < at_once ? all - first : at_once;
        if (kind == ENCODED) {
            status = weft__vulkan_decode_rows(call, b, first * b->shape.at[1],
                                              plan.matrices * b->shape.at[1], plan.p.b.dtype,
                                              plan.p.b.address);
        }
        status = status == WEFT_OK ? sort_items(call, &plan, first, all) : status;
        status = status == WEFT_OK
                     ? weft__product_run_plan(call, &plan, weft__vulkan_cores_of(call), plan.p.bias)
                     : status;
    }
    return status;
}

/* ---- gather_mm ------------------------------------------------------------------------------ */

static bool sorted_fits(const weft_call *call)
{
    product_plan plan;
    return alone_fits(call) && plan_of(call, PRODUCTS, &plan) &&
           plan.items >= FEWEST_ITEMS * plan.matrices;
}

static int64_t sorted_workspace(const weft_call *call)
{
    return workspace_of(call, PRODUCTS);
}

static weft_status gather_mm(const weft_call *call)
{
    return sorted(call, PRODUCTS);
}

/* ---- gather_mm_sums ------------------------------------------------------------------------- */

static bool sums_fits(const weft_call *call)
{
    product_plan plan;
    return alone_fits(call) && (weft_tensor_size(&call->out[0]) == 0 || plan_of(call, SUMS, &plan));
}

/* The inputs are copied. */
static bool copied_sums_fits(const weft_call *call)
{
    return copied_fits(call) && call->in[0].shape.at[1] == 1 &&
           call->out[0].shape.at[0] <= MOST_MATRICES;
}

static int64_t sums_workspace(const weft_call *call)
{
    return workspace_of(call, SUMS);
}

static weft_status gather_mm_sums(const weft_call *call)
{
    return sorted(call, SUMS);
}

/* ---- gather_linear -------------------------------------------------------------------------- */

/* Encoded matrices, which are decoded a part at a time. With fewer items each result decodes what
 * it reads (quantized.c). */
static bool encoded_fits(const weft_call *call)
{
    const weft_tensor *b = &call->in[1];
    product_plan plan;
    return weft__vulkan_decodes(b) && last_of(b) % 8 == 0 && weft_tensor_size(b) <= INT32_MAX &&
           weft_tensor_size(&call->in[0]) <= INT32_MAX &&
           weft_tensor_size(&call->out[0]) <= INT32_MAX && call->in[0].shape.at[0] > 0 &&
           call->in[0].dtype != WEFT_FLOAT64 && plan_of(call, ENCODED, &plan) &&
           plan.items >= FEWEST_DECODED * b->shape.at[0];
}

static int64_t encoded_workspace(const weft_call *call)
{
    return workspace_of(call, ENCODED);
}

static weft_status gather_linear(const weft_call *call)
{
    return sorted(call, ENCODED);
}

/* ---- The rows ------------------------------------------------------------------------------- */

static const weft_kernel_row rows[] = {
    {.op = "gather_mm",
     .signature = "FFIIF",
     .layout = WEFT_STRIDED,
     .fits = sorted_fits,
     .workspace = sorted_workspace,
     .kernel = gather_mm},
    {.op = "gather_mm",
     .signature = "FFIIF",
     .layout = WEFT_STRIDED,
     .fits = alone_fits,
     .kernel = alone},
    {.op = "gather_mm", .signature = "FFIIF", .fits = copied_fits, .kernel = alone},
    {.op = "gather_mm_sums",
     .signature = "FFIIF",
     .layout = WEFT_STRIDED,
     .fits = sums_fits,
     .workspace = sums_workspace,
     .kernel = gather_mm_sums},
    {.op = "gather_mm_sums",
     .signature = "FFIIF",
     .layout = WEFT_CONTIGUOUS,
     .fits = copied_sums_fits,
     .workspace = sums_workspace,
     .kernel = gather_mm_sums},
    {.op = "gather_linear",
     .takes_encoded = 1 << 1,
     .fits = encoded_fits,
     .workspace = encoded_workspace,
     .kernel = gather_linear},
};

const weft__vulkan_family weft__vulkan_gathered = {rows, sizeof rows / sizeof *rows};
