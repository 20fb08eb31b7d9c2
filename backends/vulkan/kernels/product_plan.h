/* backends/vulkan/kernels/product_plan.h -- the plan of a matrix product: interface between
 * product.c and product_cores.c. */
#ifndef BACKENDS_VULKAN_KERNELS_PRODUCT_PLAN_H
#define BACKENDS_VULKAN_KERNELS_PRODUCT_PLAN_H

#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/product.h"

/* The constant for the dtype of a missing bias (products.glsl). */
enum { WEFT__PRODUCT_NO_TYPE = 255 };

typedef enum product_way { BY_TILES, BY_COLUMNS, BY_TERMS, BY_CORES } product_way;

/* A tile of matmul.comp: invocations, and quads (4 elements) per invocation, along columns and
 * rows. */
typedef struct tile_shape {
    int across, down, a_quads, b_quads;
} tile_shape;

/* A tile of product_cores.comp: elements, and subgroups along rows and columns; or, with `split`,
 * subgroups that divide the terms instead. */
typedef struct core_tile {
    uint16_t rows, columns, terms;
    uint8_t down, across, split;
    /* The time of a tile is (terms + extra) / rate for each of its elements. Measured; only the
     * ratios of rates matter. `sum_rate` is for sums of products (linear_sum) whose operands' terms
     * are adjacent in memory. */
    uint16_t rate, sum_rate, extra;
    bool narrow;                /* for products that are limited by memory bandwidth */
    bool a_by_row, b_by_column; /* only for operands whose terms are not adjacent in memory */
} core_tile;

typedef struct product_plan {
    weft__vulkan_product p; /* with the strides of single rows, columns and terms simplified */
    bool wide;              /* in float64 */
    bool swapped;           /* a and b are exchanged: y^T = b^T a^T */
    product_way way;
    tile_shape tile;
    core_tile core;
    int64_t batches, groups; /* groups: workgroups per part */
    int64_t lanes;           /* of the vector shaders: per column, or along the columns */
    int64_t each;            /* of matvec.comp: columns that an invocation works on */
    int64_t parts, chunk;
    int n_products;     /* > 0: a sum of so many products, whose terms are p.terms together */
    uint64_t records;   /* of a sum: the address of its operands' records */
    int64_t long_terms; /* of a sum: numbers of terms that need several steps, combined by OR */
    /* Rows or terms that are items of segments (products.glsl). p.rows or p.terms is then the mean
     * number of items for a matrix; p.bias and p.bias_stride are those that the shaders read. */
    enum { NOT_BY_ITEM, ROWS_BY_ITEM, TERMS_BY_ITEM } by_item;
    int64_t items, matrices;
    /* p.a and p.b are copies of these bfloat16 operands in float16, whose rows and columns are
     * scaled (product_scaled.c). */
    bool scaled;
    weft__vulkan_factor from_a, from_b;
    uint64_t a_shifts, b_shifts; /* addresses of the exponents of the scales */
} product_plan;

void weft__product_make_plan(product_plan *plan, const weft__vulkan_product *product,
                             const weft__vulkan_cores *cores);

/* Plans products of items, for which plan->by_item, items and matrices are set. False: the layouts
 * do not allow it. */
bool weft__product_plan_items(product_plan *plan, const weft__vulkan_product *product,
                              const weft__vulkan_cores *cores);
/* The rows of a tile. */
int64_t weft__product_tile_rows(const product_plan *plan);
/* Tiles along the rows of one batch; rows by item: the most segments of at most `rows` items. */
int64_t weft__product_row_tiles(const product_plan *plan, int64_t rows);

/* Plans with matrix cores; false: dtypes, strides or sizes are not supported. */
bool weft__product_choose_cores(product_plan *plan, const weft__vulkan_cores *cores);

/* product_scaled.c: whether the device has matrices of float16 only, and the sizes and dtypes allow
 * or (forced) only the dtypes allow to multiply scaled copies. */
bool weft__product_can_scale(const product_plan *plan, const weft__vulkan_cores *cores,
                             bool forced);
/* Replaces the operands by copies that are still to be made. */
void weft__product_scale(product_plan *plan);
/* Bytes of the copies and the exponents; 0 for other plans. */
int64_t weft__product_scaled_bytes(const product_plan *plan);
/* Makes the copies at `room` and sets their addresses. */
weft_status weft__product_copy_scaled(const weft_call *call, product_plan *plan, uint64_t room);

/* Whether the product's own launch writes float32 (float64) sums, from which a second one makes the
 * result. */
static inline bool weft__product_has_sums(const product_plan *plan)
{
    return plan->parts > 1 || plan->scaled;
}

/* Launches a plan. */
weft_status weft__product_run_plan(const weft_call *call, product_plan *plan,
                                   const weft__vulkan_cores *cores, uint64_t workspace);

/* Sets shader and constants; NULL shader: out of memory. `y` is the address that the launch writes,
 * in `y_type`. */
void weft__product_cores_launch(const product_plan *plan, const weft__vulkan_cores *cores,
                                uint64_t y, uint32_t y_type, uint32_t bias_type,
                                weft__vulkan_launch *launch);

/* Whether all loads are of `count` contiguous elements, along the terms or along the other axis of
 * length `size`. */
bool weft__product_is_packed(const weft__vulkan_factor *f, bool by_term, int64_t size,
                             int64_t count);
bool weft__product_is_by_term(const weft__vulkan_factor *f);

/* The tiles for such cores, not all of which a device may support, and the padding elements of each
 * line in shared memory. */
int weft__product_core_tiles(weft__vulkan_cores_kind kind, const core_tile **out);
int weft__product_core_padding(weft__vulkan_cores_kind kind);

/* Whether the device can run it for operands of `dtype`, which has a shape, whose terms are
 * adjacent in memory (by_term) or not. */
bool weft__product_tile_runs(const core_tile *tile, weft_dtype dtype, bool a_by_term,
                             bool b_by_term, const weft__vulkan_cores *cores);

/* For tests and measurements: use only this tile, and no vector shaders; NULL: automatic. */
void weft__product_force_core_tile(const core_tile *tile);

/* gather_mm.c, for tests: decode at most so many bytes of matrices at a time; 0: automatic. */
void weft__gather_limit_room(int64_t bytes);

#endif
