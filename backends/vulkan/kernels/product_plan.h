/* backends/vulkan/kernels/product_plan.h -- how a matrix product is divided: between product.c and
 * product_cores.c. */
#ifndef BACKENDS_VULKAN_KERNELS_PRODUCT_PLAN_H
#define BACKENDS_VULKAN_KERNELS_PRODUCT_PLAN_H

#include "backends/vulkan/cores.h"
#include "backends/vulkan/kernels/product.h"

/* The value of constants for a bias that is not there (products.glsl). */
enum { WEFT__PRODUCT_NO_TYPE = 255 };

typedef enum product_way { BY_TILES, BY_COLUMNS, BY_TERMS, BY_CORES } product_way;

/* A tile of matmul.comp: invocations and quads (4 elements) of each, along the columns and the
 * rows. */
typedef struct tile_shape {
    int across, down, a_quads, b_quads;
} tile_shape;

/* A tile of product_cores.comp: elements, and subgroups along the rows and the columns. */
typedef struct core_tile {
    uint16_t rows, columns, terms;
    uint8_t down, across;
    /* The time of a tile: (its terms + extra) / rate for each of its elements. Measured; of rates
     * only the ratios matter. */
    uint16_t rate, extra;
} core_tile;

typedef struct product_plan {
    weft__vulkan_product p; /* with the strides of single rows, columns and terms made simple */
    bool wide;              /* in float64 */
    bool swapped;           /* a and b have changed places: y^T = b^T a^T */
    product_way way;
    tile_shape tile;
    core_tile core;
    int64_t batches, groups; /* groups of workgroups: of one part */
    int64_t lanes;           /* of the vector shaders: for a column, or along the columns */
    int64_t parts, chunk;
} product_plan;

/* Plans by matrix cores; false: the dtypes, strides or sizes do not fit. */
bool weft__product_choose_cores(product_plan *plan, const weft__vulkan_cores *cores);

/* Shader and constants; NULL shader: no memory. `y` is where the launch writes, in `y_type`. */
void weft__product_cores_launch(const product_plan *plan, const weft__vulkan_cores *cores,
                                uint64_t y, uint32_t y_type, uint32_t bias_type,
                                weft__vulkan_launch *launch);

/* Whether all loads are of `count` elements that lie side by side, along the terms or along the
 * other axis, whose length is `size`. */
bool weft__product_is_packed(const weft__vulkan_factor *f, bool by_term, int64_t size,
                             int64_t count);
bool weft__product_is_by_term(const weft__vulkan_factor *f);

/* For tests and benches: use only tile `i` of the table, and no vector shaders; -1: choose. The
 * count of tiles, of which a device may not be able to run all. */
void weft__product_force_core_tile(int i);
int weft__product_core_tiles(const core_tile **out);

#endif
