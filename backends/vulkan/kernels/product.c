/* backends/vulkan/kernels/product.c -- plans and launches of matrix products. Products with few
 * rows or columns use the vector shaders, which read the matrix once in place; others use tiles. If
 * there are too few tiles to fill the device, the terms are divided and a second launch sums the
 * parts. */
#include <string.h>

#include "backends/vulkan/kernels/nn.h"
#include "backends/vulkan/kernels/product_plan.h"
#include "backends/vulkan/shaders.h"

enum {
    NO_TYPE = WEFT__PRODUCT_NO_TYPE,
    FEW_ROWS = 8,         /* most rows for the vector shaders */
    VECTOR_THREADS = 128, /* matvec.comp, vecmat.comp */
    TILE_TERMS = 16,
    BUSY = 128,          /* workgroups of tiles that keep a device busy; dividing makes twice as
                          * many */
    BUSY_VECTORS = 1024, /* the same for the vector shaders */
    LEAST_PART = 256,    /* terms */
    LEAST_VECTOR_PART = 64,
    LONG_TERMS = 4096,   /* rows of weights from which an invocation loads four pieces at a time of
                          * each of its two columns */
    SOME_NORMED = 512,   /* fewest workgroups that normalize rows, if there are as many columns */
    MOST_NORMED = 2048,  /* most workgroups that normalize rows */
    NORMED_PASSES = 4,   /* columns that each computes one after another, between these limits */
    MOST_SUMS = 1 << 24, /* elements of all partial results together */
    FEW_COLUMNS = 128,   /* too few for a column per invocation, */
    LONG_COLUMN = 16384  /* if columns are this long */
};

/* products.glsl */
typedef struct product_push {
    uint64_t a, b, y, bias;
    uint32_t batches, rows, columns, terms;
    int32_t a_row, a_term, b_term, b_column;
    uint32_t y_row, y_column;
    uint32_t chunk;
    int32_t bias_stride;
    uint32_t first_group;
    union {
        struct {
            int32_t sizes[3];
            int32_t a_batch[4], b_batch[4];
        };
        struct {
            uint32_t groups, weight[2];
            float eps, offset;
        } norm;
    };
} product_push;

/* sum_parts.comp */
typedef struct parts_push {
    uint64_t sums, y, bias, row_shifts, column_shifts;
    uint32_t rows, columns, count, parts, bias_stride, unused;
} parts_push;

static const tile_shape large = {16, 16, 2, 2}, medium = {16, 16, 1, 1}, small = {8, 8, 1, 1},
                        low = {32, 8, 1, 1}, lowest = {32, 4, 1, 1}, narrow = {8, 32, 1, 1},
                        narrowest = {4, 32, 1, 1};

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- Plans ---------------------------------------------------------------------------------- */

/* The number of invocations that share `work`: a power of two, at most `most`. */
static int64_t lanes_for(int64_t work, int64_t most)
{
    int64_t lanes = 1;
    while (lanes < work && lanes < most) {
        lanes *= 2;
    }
    return lanes;
}

static int64_t piece_of(weft_dtype dtype)
{
    return 16 / (int64_t)weft_dtype_size(dtype);
}

/* Sets the strides of axes of length 1, where any is valid, to 0, which counts as aligned, so that
 * contiguous axes are recognized. */
static void simplify(weft__vulkan_product *p)
{
    if (p->rows == 1) {
        p->a.outer = 0;
    }
    if (p->columns == 1) {
        p->b.outer = 0;
    }
    if (p->terms == 1) {
        p->a.term = p->a.outer == 1 ? 0 : 1;
        p->b.term = p->b.outer == 1 ? 0 : 1;
    }
}

static void exchange(product_plan *plan)
{
    weft__vulkan_product *p = &plan->p;
    weft__vulkan_factor a = p->a;
    int64_t rows = p->rows;
    p->a = p->b;
    p->b = a;
    p->rows = p->columns;
    p->columns = rows;
    plan->swapped = !plan->swapped;
}

static bool takes_columns(const product_plan *plan)
{
    const weft__vulkan_product *p = &plan->p;
    return p->rows <= FEW_ROWS && p->a.term == 1 && p->b.term == 1 &&
           (p->columns * plan->batches >= FEW_COLUMNS || p->terms <= LONG_COLUMN);
}

static bool takes_terms(const product_plan *plan)
{
    const weft__vulkan_product *p = &plan->p;
    return p->rows <= FEW_ROWS && p->b.outer == 1;
}

static bool choose_vectors(product_plan *plan)
{
    if (plan->wide || plan->p.terms == 0) {
        return false;
    }
    const bool coded = plan->p.b.format != 0;
    if (coded && (plan->p.rows > FEW_ROWS || plan->p.b.term != 1)) {
        return false;
    }
    if (!coded && plan->p.rows > FEW_ROWS && plan->p.columns <= FEW_ROWS && !plan->p.has_bias) {
        exchange(plan);
    }
    if (takes_columns(plan)) {
        plan->way = BY_COLUMNS;
    } else if (!coded && takes_terms(plan)) {
        plan->way = BY_TERMS;
    } else {
        if (plan->swapped) {
            exchange(plan);
        }
        return false;
    }
    return true;
}

static int64_t tiles_of(const product_plan *plan, tile_shape tile)
{
    return plan->batches * weft__product_row_tiles(plan, 4 * tile.down * tile.a_quads) *
           ceil_div(plan->p.columns, 4 * tile.across * tile.b_quads);
}

int64_t weft__product_row_tiles(const product_plan *plan, int64_t rows)
{
    return plan->by_item == ROWS_BY_ITEM
               ? ceil_div(plan->items, rows) + smaller(plan->items, plan->matrices)
               : ceil_div(plan->p.rows, rows);
}

int64_t weft__product_tile_rows(const product_plan *plan)
{
    return plan->way == BY_CORES ? plan->core.rows : 4 * plan->tile.down * plan->tile.a_quads;
}

static void choose_tile(product_plan *plan)
{
    const weft__vulkan_product *p = &plan->p;
    int64_t parts = smaller(4, p->terms / (4 * LEAST_PART)); /* a few parts cost little */
    if (p->rows <= 32) {
        plan->tile = p->rows <= 16 ? lowest : p->columns <= 32 ? small : low;
    } else if (p->columns <= 32) {
        plan->tile = p->columns <= 16 ? narrowest : narrow;
    } else if (!plan->wide && p->rows > 64 && p->columns > 64 &&
               tiles_of(plan, large) * (parts > 1 ? parts : 1) >= BUSY) {
        plan->tile = large;
    } else {
        plan->tile = medium;
    }
    plan->groups = tiles_of(plan, plan->tile);
}

/* Divides the terms so that there are `wanted` workgroups with at least `least` terms each. */
static void divide(product_plan *plan, int64_t wanted, int64_t least)
{
    const weft__vulkan_product *p = &plan->p;
    int64_t size = plan->batches * p->rows * p->columns;
    if (size == 0) { /* called for the workspace only */
        return;
    }
    int64_t parts = smaller(wanted / plan->groups, smaller(p->terms / least, MOST_SUMS / size));
    if (parts > 1) {
        plan->chunk = ceil_div(ceil_div(p->terms, parts), TILE_TERMS) * TILE_TERMS;
        plan->parts = ceil_div(p->terms, plan->chunk);
    }
}

/* Workgroups that normalize rows for `blocks` of columns: few, so that rows are normalized
 * rarely, but enough to keep the device busy. */
static int64_t few_normed(int64_t blocks)
{
    int64_t groups = blocks / NORMED_PASSES;
    groups = groups < SOME_NORMED ? SOME_NORMED : smaller(groups, MOST_NORMED);
    return ceil_div(blocks, ceil_div(blocks, groups));
}

/* Adjacent terms that an invocation of matvec.comp loads at a time. */
static int64_t terms_at_once(const weft__vulkan_factor *b)
{
    switch (b->format & 255) {
    case WEFT_ENCODING_Q4_K:
        return 32;
    case WEFT_ENCODING_Q6_K:
    case WEFT_ENCODING_Q8_0:
        return 16;
    default:
        return piece_of(b->dtype);
    }
}

static void choose_lanes(product_plan *plan)
{
    const weft__vulkan_product *p = &plan->p;
    int64_t piece = piece_of(p->b.dtype);
    if (plan->way == BY_COLUMNS) {
        int64_t work = ceil_div(p->terms, terms_at_once(&p->b)); /* by invocations */
        int64_t columns = p->columns * plan->batches;
        int64_t lanes = lanes_for(work, 32);
        while (lanes < VECTOR_THREADS && 4 * lanes <= work &&
               columns * lanes < 2 * BUSY_VECTORS * VECTOR_THREADS) {
            lanes *= 2;
        }
        plan->lanes = lanes;
        plan->each =
            p->gate || (p->rows <= 2 && columns * lanes >= 2 * BUSY_VECTORS * VECTOR_THREADS) ? 2
                                                                                              : 1;
        const int64_t adjacent = p->gate ? 1 : plan->each;
        plan->groups = plan->batches * ceil_div(p->columns, VECTOR_THREADS / lanes * adjacent);
        if (p->norm.on) {
            plan->groups = few_normed(plan->groups);
        }
    } else {
        plan->lanes = lanes_for(ceil_div(p->columns, piece), 32);
        plan->groups = plan->batches * ceil_div(p->columns, plan->lanes * piece);
        divide(plan, BUSY_VECTORS, LEAST_VECTOR_PART);
    }
}

static bool is_wide(const weft__vulkan_product *p)
{
    return p->a.dtype == WEFT_FLOAT64 || p->b.dtype == WEFT_FLOAT64 || p->y_dtype == WEFT_FLOAT64 ||
           (p->has_bias && p->bias_dtype == WEFT_FLOAT64);
}

bool weft__product_plan_items(product_plan *plan, const weft__vulkan_product *product,
                              const weft__vulkan_cores *cores)
{
    const bool by_rows = plan->by_item == ROWS_BY_ITEM;
    if (weft__product_is_by_term(&product->a) != by_rows ||
        (!by_rows && weft__product_is_by_term(&product->b))) {
        return false;
    }
    plan->p = *product;
    plan->parts = 1;
    plan->chunk = product->terms;
    plan->batches = by_rows ? 1 : plan->matrices;
    plan->wide = is_wide(product);
    if (!weft__product_choose_cores(plan, cores)) {
        choose_tile(plan);
    }
    return true;
}

/* Plans for the given number of batches. */
static void plan_batches(product_plan *plan, const weft__vulkan_product *product, int64_t batches,
                         const weft__vulkan_cores *cores)
{
    *plan = (product_plan){.p = *product, .parts = 1, .chunk = product->terms, .batches = batches};
    plan->wide = is_wide(product);
    simplify(&plan->p);
    if (choose_vectors(plan)) {
        choose_lanes(plan);
        return;
    }
    if (weft__product_choose_cores(plan, cores)) {
        return;
    }
    choose_tile(plan);
    if (plan->groups < BUSY) {
        divide(plan, 2 * BUSY, LEAST_PART);
    }
}

void weft__product_make_plan(product_plan *plan, const weft__vulkan_product *product,
                             const weft__vulkan_cores *cores)
{
    int64_t batches = 1;
    for (int i = 0; i < 4; i++) {
        batches *= product->sizes[i];
    }
    plan_batches(plan, product, product->separate ? 1 : batches, cores);
    if (product->separate) {
        plan->batches = batches;
        plan->groups *= batches;
    }
}

static int64_t workspace_of(const weft__vulkan_product *p, const weft__vulkan_cores *cores)
{
    product_plan plan;
    weft__product_make_plan(&plan, p, cores);
    const int64_t size = plan.wide ? sizeof(double) : sizeof(float),
                  sums = plan.parts * plan.batches * p->rows * p->columns * size;
    return weft__product_scaled_bytes(&plan) + (weft__product_has_sums(&plan) ? sums : 0);
}

/* Whether matrix cores can be used depends on the addresses, so the workspace suffices for both
 * ways. */
int64_t weft__vulkan_product_workspace(const weft_call *call, const weft__vulkan_product *p)
{
    const int64_t bytes = workspace_of(p, NULL);
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const int64_t on_cores = cores ? workspace_of(p, cores) : 0;
    return on_cores > bytes ? on_cores : bytes;
}

/* ---- Launches ------------------------------------------------------------------------------- */

bool weft__product_is_packed(const weft__vulkan_factor *f, bool by_term, int64_t size,
                             int64_t count)
{
    int64_t bits =
        (by_term ? f->outer : f->term) | f->batch[0] | f->batch[1] | f->batch[2] | f->batch[3];
    return (by_term ? f->term : f->outer) == 1 && bits % count == 0 && size % count == 0 &&
           f->address % ((uint64_t)count * weft_dtype_size(f->dtype)) == 0;
}

bool weft__product_is_by_term(const weft__vulkan_factor *f)
{
    int64_t outer = f->outer < 0 ? -f->outer : f->outer, term = f->term < 0 ? -f->term : f->term;
    return f->outer != 1 && (f->term == 1 || outer == 0 || term <= outer);
}

static product_push push_of(const product_plan *plan, uint64_t workspace)
{
    const weft__vulkan_product *p = &plan->p;
    product_push push = {.a = p->a.address,
                         .b = p->b.address,
                         .y = weft__product_has_sums(plan) ? workspace : p->y,
                         .bias = p->gate ? p->twin : p->bias,
                         .batches = (uint32_t)plan->batches,
                         .rows = (uint32_t)p->rows,
                         .columns = (uint32_t)p->columns,
                         .terms = (uint32_t)p->terms,
                         .a_row = (int32_t)p->a.outer,
                         .a_term = (int32_t)p->a.term,
                         .b_term = (int32_t)p->b.term,
                         .b_column = (int32_t)p->b.outer,
                         .y_row = (uint32_t)(plan->swapped ? 1 : p->columns),
                         .y_column = (uint32_t)(plan->swapped ? p->rows : 1),
                         .bias_stride = (int32_t)p->bias_stride};
    if (plan->by_item == ROWS_BY_ITEM) {
        const int64_t rows = weft__product_tile_rows(plan);
        push.rows = (uint32_t)(weft__product_row_tiles(plan, rows) * rows);
    }
    if (plan->n_products > 0) {
        push.a = plan->records;
        push.terms = (uint32_t)plan->n_products;
    }
    push.chunk = plan->n_products > 0 ? (uint32_t)plan->parts
                 : plan->parts > 1    ? (uint32_t)plan->chunk
                 : push.terms > 0     ? push.terms
                                      : 1;
    if (p->norm.on) {
        push.norm.groups = (uint32_t)plan->groups;
        memcpy(push.norm.weight, &p->norm.weight, sizeof push.norm.weight);
        push.norm.eps = p->norm.eps;
        push.norm.offset = p->norm.offset;
        return push;
    }
    for (int i = 0; i < 4; i++) {
        push.a_batch[i] = (int32_t)p->a.batch[i];
        push.b_batch[i] = (int32_t)p->b.batch[i];
        if (i > 0) {
            push.sizes[i - 1] = (int32_t)p->sizes[i];
        }
    }
    return push;
}

/* The type that the product's own launch writes. */
static uint32_t y_type(const product_plan *plan)
{
    return !weft__product_has_sums(plan) ? plan->p.y_dtype
           : plan->wide                  ? WEFT_FLOAT64
                                         : WEFT_FLOAT32;
}

static uint32_t bias_type(const product_plan *plan)
{
    return !weft__product_has_sums(plan) && plan->p.has_bias ? plan->p.bias_dtype : NO_TYPE;
}

static bool adds_residual(const product_plan *plan)
{
    return !weft__product_has_sums(plan) && plan->p.residual;
}

static bool y_is_packed(const product_plan *plan, uint64_t y)
{
    uint64_t bytes = 4 * weft_dtype_size((weft_dtype)y_type(plan));
    return !plan->wide && plan->p.columns % 4 == 0 && y % bytes == 0;
}

/* The type of b for the shader. */
static uint32_t b_type(const weft__vulkan_product *p)
{
    return p->b.format ? p->b.format : p->b.dtype;
}

static void tile_launch(const product_plan *plan, const product_push *push,
                        weft__vulkan_launch *launch)
{
    const weft__vulkan_product *p = &plan->p;
    tile_shape tile = plan->tile;
    bool a_by_term = weft__product_is_by_term(&p->a), b_by_term = weft__product_is_by_term(&p->b);
    launch->shader = p->b.format  ? &weft__shader_matmul_codes
                     : plan->wide ? &weft__shader_matmul_f64
                                  : &weft__shader_matmul;
    launch->n_constants = 16;
    const uint32_t constants[] = {
        (uint32_t)(tile.across * tile.down),
        p->a.dtype,
        b_type(p),
        y_type(plan),
        bias_type(plan),
        a_by_term,
        b_by_term,
        !plan->wide && weft__product_is_packed(&p->a, a_by_term, a_by_term ? p->terms : p->rows, 4),
        !plan->wide &&
            weft__product_is_packed(&p->b, b_by_term, b_by_term ? p->terms : p->columns, 4),
        y_is_packed(plan, push->y),
        (uint32_t)tile.across,
        (uint32_t)tile.down,
        (uint32_t)tile.a_quads,
        (uint32_t)tile.b_quads,
        adds_residual(plan),
        plan->by_item};
    for (int i = 0; i < launch->n_constants; i++) {
        launch->constants[i] = constants[i];
    }
}

static const weft__vulkan_shader *vector_shader(const weft__vulkan_product *p, bool by_columns)
{
    static const weft__vulkan_shader *const all[2][2][2] = {
        /* codes, gate, norm */
        {{&weft__shader_matvec, &weft__shader_matvec_normed},
         {&weft__shader_matvec_gated, &weft__shader_matvec_gated_normed}},
        {{&weft__shader_matvec_codes, &weft__shader_matvec_codes_normed},
         {&weft__shader_matvec_codes_gated, &weft__shader_matvec_codes_gated_normed}}};
    return by_columns ? all[p->b.format != 0][p->gate != WEFT__VULKAN_NO_GATE][p->norm.on]
                      : &weft__shader_vecmat;
}

/* The number of adjacent terms that can be loaded at a time. */
static uint32_t adjacent_of(const weft__vulkan_factor *a)
{
    return weft__product_is_packed(a, true, 8, 8)   ? 8
           : weft__product_is_packed(a, true, 4, 4) ? 4
                                                    : 1;
}

static void vector_launch(const product_plan *plan, weft__vulkan_launch *launch)
{
    const weft__vulkan_product *p = &plan->p;
    bool by_columns = plan->way == BY_COLUMNS; /* the last terms are loaded one by one */
    int64_t piece = piece_of(p->b.dtype);
    weft__vulkan_factor twin = p->b;
    twin.address = p->gate ? p->twin : twin.address;
    launch->shader = vector_shader(p, by_columns);
    const uint32_t constants[] = {
        p->a.dtype,
        b_type(p),
        y_type(plan),
        bias_type(plan),
        p->b.format
            ? p->b.aligned
            : weft__product_is_packed(&p->b, by_columns, by_columns ? piece : p->columns, piece) &&
                  weft__product_is_packed(&twin, by_columns, by_columns ? piece : p->columns,
                                          piece),
        (uint32_t)p->rows,
        (uint32_t)plan->lanes,
        p->rows <= 2 && (plan->each == 1 || p->terms >= LONG_TERMS) ? 4 : 2, /* loads */
        by_columns ? adjacent_of(&p->a) : adds_residual(plan),
        adds_residual(plan),
        p->gate ? (uint32_t)p->gate : (uint32_t)plan->each};
    launch->n_constants = by_columns ? 11 : 9;
    for (int i = 0; i < launch->n_constants; i++) {
        launch->constants[i] = constants[i];
    }
    if (p->norm.on) {
        weft__vulkan_row_norm_constants(&p->norm, p->a.dtype, p->a.address, (uint32_t)p->a.outer,
                                        p->terms, launch);
    }
}

static weft_status add_parts(const weft_call *call, const product_plan *plan, uint64_t workspace)
{
    const weft__vulkan_product *p = &plan->p;
    const parts_push push = {.sums = workspace,
                             .y = p->y,
                             .bias = p->bias,
                             .row_shifts = plan->a_shifts,
                             .column_shifts = plan->b_shifts,
                             .rows = (uint32_t)p->rows, /* products with a bias or scales are never
                                                         * swapped */
                             .columns = (uint32_t)p->columns,
                             .count = (uint32_t)(plan->batches * p->rows * p->columns),
                             .parts = (uint32_t)plan->parts,
                             .bias_stride = (uint32_t)p->bias_stride};
    weft__vulkan_launch launch = {
        .shader = plan->wide ? &weft__shader_sum_parts_f64 : &weft__shader_sum_parts,
        .n_constants = 4,
        .constants = {p->y_dtype, p->has_bias ? p->bias_dtype : (uint32_t)NO_TYPE, p->residual,
                      plan->scaled},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups(push.count, 256),
        .work = 64.0 * (double)push.count * (double)push.parts};
    return weft__vulkan_dispatch(call, &launch);
}

weft_status weft__vulkan_sum_parts(const weft_call *call, uint64_t sums, int64_t parts,
                                   int64_t count, uint64_t y, weft_dtype y_dtype)
{
    const product_plan plan = {.p = {.rows = 1, .columns = count, .y = y, .y_dtype = y_dtype},
                               .batches = 1,
                               .parts = parts};
    return add_parts(call, &plan, sums);
}

weft_status weft__product_run_plan(const weft_call *call, product_plan *plan,
                                   const weft__vulkan_cores *cores, uint64_t workspace)
{
    if (plan->scaled) {
        const weft_status copied = weft__product_copy_scaled(call, plan, workspace);
        if (copied != WEFT_OK) {
            return copied;
        }
        workspace += (uint64_t)weft__product_scaled_bytes(plan);
    }
    product_push push = push_of(plan, workspace);
    const bool by_vectors = plan->way != BY_CORES && plan->way != BY_TILES;
    weft__vulkan_launch launch = {
        .push = &push,
        .push_bytes = sizeof push,
        .first_at = by_vectors ? 0 : offsetof(product_push, first_group),
        .groups = (uint64_t)(plan->groups * plan->parts),
        .work = (plan->p.gate ? 4.0 : 2.0) *
                (double)(plan->by_item == ROWS_BY_ITEM ? plan->matrices : plan->batches) *
                (double)plan->p.rows * (double)plan->p.columns * (double)plan->p.terms};
    if (plan->way == BY_CORES) {
        weft__product_cores_launch(plan, cores, push.y, y_type(plan), bias_type(plan), &launch);
        if (!launch.shader) {
            return weft_error_status();
        }
    } else if (plan->way == BY_TILES) {
        tile_launch(plan, &push, &launch);
    } else {
        vector_launch(plan, &launch);
    }
    weft_status status = weft__vulkan_dispatch(call, &launch);
    return status == WEFT_OK && weft__product_has_sums(plan) ? add_parts(call, plan, workspace)
                                                             : status;
}

weft_status weft__vulkan_product_run(const weft_call *call, const weft__vulkan_product *p,
                                     uint64_t workspace)
{
    product_plan plan;
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    weft__product_make_plan(&plan, p, cores);
    return weft__product_run_plan(call, &plan, cores, workspace);
}
