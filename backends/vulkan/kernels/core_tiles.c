/* backends/vulkan/kernels/core_tiles.c -- the tiles of product_cores.comp for each vendor's matrix
 * cores. The choice among them depends on these constants and the shape alone, so results have the
 * same bits in every run. */
#include "backends/vulkan/kernels/product_plan.h"

/* Measured on an H200 (docs/performance-log.md), the last two numbers from products of 4,096^3 and
 * 6,144^3. Tiles with few rows or columns are for adapters and small batches; the rates of those
 * whose subgroups divide the terms were measured on an H100 from such products. The rates of sums
 * were measured there for 192x128 and 128x192, relative to 128x128. */
static const core_tile nvidia[] = {
    {192, 128, 64, 4, 2, 1, 306, 276, 100, false, false, false},
    {128, 192, 64, 2, 4, 1, 302, 356, 100, false, false, false},
    {128, 128, 64, 4, 2, 1, 292, 292, 100, false, false, false},
    {256, 128, 48, 4, 2, 1, 312, 312, 100, false, true, true},
    {128, 256, 48, 2, 4, 1, 304, 304, 100, false, false, true},
    {128, 64, 64, 4, 2, 1, 193, 193, 100, false, false, false},
    {64, 128, 64, 2, 4, 1, 188, 188, 100, false, false, false},
    {64, 64, 64, 2, 2, 1, 191, 191, 100, false, false, false},
    {128, 32, 64, 4, 1, 1, 175, 175, 100, false, false, false},
    {32, 128, 64, 1, 4, 1, 170, 170, 100, false, false, false},
    {128, 16, 64, 4, 1, 1, 104, 104, 100, false, false, false},
    {16, 128, 64, 1, 4, 1, 94, 94, 100, false, false, false},
    {32, 32, 32, 2, 2, 1, 76, 76, 100, false, false, false},
    {32, 32, 32, 1, 1, 8, 52, 52, 100, true, false, false},
    {64, 16, 64, 1, 1, 4, 36, 36, 100, true, false, false},
    {32, 16, 64, 1, 1, 4, 33, 33, 100, true, false, false},
    {16, 16, 64, 1, 1, 8, 30, 30, 100, true, false, false},
    {16, 32, 32, 1, 1, 8, 31, 31, 100, true, false, false},
    {16, 32, 64, 1, 1, 6, 39, 39, 100, true, false, false},
    {16, 64, 64, 1, 1, 4, 54, 54, 100, true, false, false},
    {64, 64, 128, 2, 2, 1, 135, 135, 100, true, false, false},
};

/* Unmeasured: the largest tiles and the part of a subgroup have the sizes of ggml's for RADV and
 * for Xe 2, and the rates fall with the operands that a tile reads for each result. */
/* clang-format off */
#define SMALLER_TILES \
    {128, 64, 16, 4, 2, 1, 70, 70, 50, false, false, false}, \
    {64, 128, 16, 2, 4, 1, 70, 70, 50, false, false, false}, \
    {64, 64, 32, 2, 2, 1, 60, 60, 50, false, false, false}, \
    {128, 32, 32, 4, 1, 1, 50, 50, 50, false, false, false}, \
    {32, 128, 32, 1, 4, 1, 50, 50, 50, false, false, false}, \
    {128, 16, 32, 4, 1, 1, 30, 30, 50, false, false, false}, \
    {16, 128, 32, 1, 4, 1, 30, 30, 50, false, false, false}, \
    {32, 32, 32, 2, 2, 1, 25, 25, 50, false, false, false}, \
    {32, 32, 32, 1, 1, 8, 17, 17, 50, true, false, false}, \
    {32, 16, 64, 1, 1, 4, 11, 11, 50, true, false, false}, \
    {16, 32, 32, 1, 1, 8, 11, 11, 50, true, false, false}, \
    {16, 16, 64, 1, 1, 8, 8, 8, 50, true, false, false}, \
    {64, 64, 32, 2, 2, 1, 60, 60, 50, true, false, false}
/* clang-format on */

/* For subgroups of 32. */
static const core_tile amd[] = {
    {128, 128, 16, 4, 2, 1, 100, 100, 50, false, false, false},
    SMALLER_TILES,
};

/* For subgroups of 16 and matrices of 8 x 16 x 16. */
static const core_tile intel[] = {
    {128, 128, 16, 4, 4, 1, 100, 100, 50, false, false, false},
    SMALLER_TILES,
};

static const struct {
    const core_tile *tiles;
    int n, padding;
} tables[] = {
    /* Padding on NVIDIA: conflict-free with 8, 288 TFLOP/s compared with 206 for 16 and 70 for 0.
     */
    [WEFT__VULKAN_CORES_NVIDIA] = {nvidia, sizeof nvidia / sizeof *nvidia, 8},
    [WEFT__VULKAN_CORES_AMD] = {amd, sizeof amd / sizeof *amd, 8},
    [WEFT__VULKAN_CORES_INTEL] = {intel, sizeof intel / sizeof *intel, 0},
};

int weft__product_core_tiles(weft__vulkan_cores_kind kind, const core_tile **out)
{
    *out = tables[kind].tiles;
    return tables[kind].n;
}

int weft__product_core_padding(weft__vulkan_cores_kind kind)
{
    return tables[kind].padding;
}
