/* tests/vulkan/test_cores_choice.c -- which matrices, subgroups and tiles are used, and whether by
 * default, from what drivers state of recorded and constructed devices; no device is needed. */
#include <stdio.h>

#include "backends/vulkan/kernels/product_plan.h"
#include "tests/check.h"

enum {
    F16 = WEFT__VULKAN_IN_FLOAT16,
    F32 = WEFT__VULKAN_IN_FLOAT32,
    BF16 = WEFT__VULKAN_IN_BFLOAT16,
    U8 = 7,
    S32 = 5,
    U32 = 9,
    SUBGROUP = WEFT__VULKAN_OF_SUBGROUP,
    WORKGROUP = 2
};

#define ROW(M, N, K, IN, SUM)                                                                      \
    {                                                                                              \
        .m = (M), .n = (N), .k = (K), .a = (IN), .b = (IN), .c = (SUM), .result = (SUM),           \
        .scope = SUBGROUP                                                                          \
    }

/* A device as its driver states it, and the expected choice. */
static const struct device {
    const char *name;
    weft__vulkan_core_facts facts;
    bool usual, measured;
    weft__vulkan_cores_kind kind;
    uint32_t subgroup;
    weft__vulkan_core_shape float16, bfloat16;
    const char *about;
} devices[] = {
    {"NVIDIA H200, driver 580 (recorded)",
     {.vendor = 0x10de,
      .driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
      .smallest = 32,
      .largest = 32,
      .invocations = 1024,
      .shared = 49152,
      .processors = 132,
      .usable = true,
      .float16 = true,
      .bfloat16 = true,
      .mixed_dot = true,
      .n_matrices = 8,
      .matrices = {ROW(16, 16, 16, F16, F16), ROW(16, 8, 16, F16, F16), ROW(16, 8, 8, F16, F16),
                   ROW(16, 16, 16, F16, F32), ROW(16, 8, 16, F16, F32), ROW(16, 8, 8, F16, F32),
                   ROW(16, 16, 32, U8, U32), ROW(16, 16, 16, BF16, F32)}},
     true,
     true,
     WEFT__VULKAN_CORES_NVIDIA,
     32,
     {16, 16, 16},
     {16, 16, 16},
     "measured"},
    {"NVK",
     {.vendor = 0x10de,
      .driver = VK_DRIVER_ID_MESA_NVK,
      .smallest = 32,
      .largest = 32,
      .invocations = 1024,
      .shared = 49152,
      .usable = true,
      .float16 = true,
      .mixed_dot = true,
      .n_matrices = 1,
      .matrices = {ROW(16, 8, 16, F16, F32)}},
     true,
     false,
     WEFT__VULKAN_CORES_NVIDIA,
     32,
     {16, 8, 16},
     {0},
     "unmeasured"},
    /* RX 7900 XTX under RADV: 14 rows, two of them of floats. */
    {"RADV, RDNA 3",
     {.vendor = 0x1002,
      .device = 0x744c,
      .driver = VK_DRIVER_ID_MESA_RADV,
      .smallest = 32,
      .largest = 64,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true,
      .mixed_dot = true,
      .n_matrices = 3,
      .matrices = {ROW(16, 16, 16, F16, F16), ROW(16, 16, 16, F16, F32), ROW(16, 16, 16, U8, S32)}},
     true,
     false,
     WEFT__VULKAN_CORES_AMD,
     32,
     {16, 16, 16},
     {0},
     "RDNA 3 or later"},
    {"RADV, RDNA 4, with bfloat16",
     {.vendor = 0x1002,
      .device = 0x7550,
      .driver = VK_DRIVER_ID_MESA_RADV,
      .smallest = 32,
      .largest = 64,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true,
      .bfloat16 = true,
      .mixed_dot = true,
      .n_matrices = 2,
      .matrices = {ROW(16, 16, 16, F16, F32), ROW(16, 16, 16, BF16, F32)}},
     true,
     false,
     WEFT__VULKAN_CORES_AMD,
     32,
     {16, 16, 16},
     {16, 16, 16},
     "RDNA 3 or later"},
    {"AMD's driver, RDNA 3",
     {.vendor = 0x1002,
      .driver = VK_DRIVER_ID_AMD_PROPRIETARY,
      .smallest = 32,
      .largest = 64,
      .invocations = 1024,
      .shared = 32768,
      .usable = true,
      .float16 = true,
      .mixed_dot = true,
      .n_matrices = 1,
      .matrices = {ROW(16, 16, 16, F16, F32)}},
     true,
     false,
     WEFT__VULKAN_CORES_AMD,
     32,
     {16, 16, 16},
     {0},
     "RDNA 3 or later"},
    /* The driver reports the extension without matrix hardware. */
    {"AMD's driver, RDNA 2",
     {.vendor = 0x1002,
      .driver = VK_DRIVER_ID_AMD_PROPRIETARY,
      .smallest = 32,
      .largest = 64,
      .invocations = 1024,
      .shared = 32768,
      .usable = true,
      .float16 = true,
      .n_matrices = 1,
      .matrices = {ROW(16, 16, 16, F16, F32)}},
     false,
     false,
     WEFT__VULKAN_CORES_AMD,
     32,
     {16, 16, 16},
     {0},
     "before RDNA 3"},
    {"RADV, GCN",
     {.vendor = 0x1002,
      .driver = VK_DRIVER_ID_MESA_RADV,
      .smallest = 64,
      .largest = 64,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true},
     false,
     false,
     WEFT__VULKAN_CORES_AMD,
     64,
     {0},
     {0},
     "offers no matrices"},
    /* Arc B570 under Mesa. */
    {"Mesa, Xe 2",
     {.vendor = 0x8086,
      .device = 0xe20c,
      .driver = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
      .smallest = 16,
      .largest = 32,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true,
      .bfloat16 = true,
      .mixed_dot = true,
      .n_matrices = 3,
      .matrices = {ROW(8, 16, 16, F16, F32), ROW(8, 16, 16, BF16, F32), ROW(8, 16, 32, U8, U32)}},
     true,
     false,
     WEFT__VULKAN_CORES_INTEL,
     16,
     {8, 16, 16},
     {8, 16, 16},
     "Xe 2 or later"},
    {"Intel's Windows driver, Xe 2",
     {.vendor = 0x8086,
      .driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
      .smallest = 16,
      .largest = 32,
      .invocations = 1024,
      .shared = 32768,
      .usable = true,
      .float16 = true,
      .n_matrices = 1,
      .matrices = {ROW(8, 16, 16, F16, F32)}},
     true,
     false,
     WEFT__VULKAN_CORES_INTEL,
     16,
     {8, 16, 16},
     {0},
     "Xe 2 or later"},
    {"Mesa, Arc A770",
     {.vendor = 0x8086,
      .driver = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
      .smallest = 8,
      .largest = 32,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true,
      .n_matrices = 1,
      .matrices = {ROW(8, 8, 16, F16, F32)}},
     false,
     false,
     WEFT__VULKAN_CORES_INTEL,
     8,
     {8, 8, 16},
     {0},
     "before Xe 2"},
    {"llvmpipe, Mesa 26 (recorded)",
     {.vendor = 0x10005,
      .driver = VK_DRIVER_ID_MESA_LLVMPIPE,
      .software = true,
      .smallest = 8,
      .largest = 8,
      .invocations = 1024,
      .shared = 32768,
      .usable = true,
      .float16 = true,
      .n_matrices = 2,
      .matrices = {ROW(8, 8, 8, F16, F16), ROW(8, 8, 8, F16, F32)}},
     false,
     false,
     WEFT__VULKAN_CORES_NVIDIA,
     8,
     {8, 8, 8},
     {0},
     "does not know"},
    /* Not used: matrices of a workgroup, saturating, with mixed operands, too large, or of types
     * without features. */
    {"rows that do not fit",
     {.driver = VK_DRIVER_ID_MESA_RADV,
      .smallest = 32,
      .largest = 64,
      .invocations = 1024,
      .shared = 65536,
      .usable = true,
      .float16 = true,
      .mixed_dot = true,
      .n_matrices = 6,
      .matrices = {{16, 16, 16, F16, F16, F32, F32, WORKGROUP, false},
                   {16, 16, 16, F16, F16, F32, F32, SUBGROUP, true},
                   {16, 16, 16, F16, BF16, F32, F32, SUBGROUP, false},
                   {16, 16, 16, F16, F16, F32, F16, SUBGROUP, false},
                   {16, 16, 32, F16, F16, F32, F32, SUBGROUP, false},
                   {16, 16, 16, BF16, BF16, F32, F32, SUBGROUP, false}}},
     false,
     false,
     WEFT__VULKAN_CORES_AMD,
     32,
     {0},
     {0},
     "offers no matrices"},
    {"a driver without the needed features",
     {.vendor = 0x10de,
      .driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
      .smallest = 32,
      .largest = 32,
      .invocations = 1024,
      .shared = 49152,
      .float16 = true,
      .n_matrices = 1,
      .matrices = {ROW(16, 16, 16, F16, F32)}},
     false,
     false,
     WEFT__VULKAN_CORES_NVIDIA,
     32,
     {0},
     {0},
     "offers no matrices"},
};

enum { DEVICES = sizeof devices / sizeof *devices };

static void check_shape(const char *name, const weft__vulkan_core_shape *actual,
                        const weft__vulkan_core_shape *expected)
{
    check_that(actual->m == expected->m && actual->n == expected->n && actual->k == expected->k,
               __FILE__, __LINE__, "%s: %ux%ux%u, expected %ux%ux%u", name, actual->m, actual->n,
               actual->k, expected->m, expected->n, expected->k);
}

static void the_choice_follows_from_the_facts(void)
{
    for (int i = 0; i < DEVICES; i++) {
        const struct device *d = &devices[i];
        weft__vulkan_cores cores;
        weft__vulkan_cores_choose(&d->facts, &cores);
        check_that(cores.usual == d->usual && cores.measured == d->measured &&
                       cores.kind == d->kind && cores.subgroup == d->subgroup,
                   __FILE__, __LINE__, "%s: usual %d, measured %d, kind %d, subgroup %u", d->name,
                   cores.usual, cores.measured, (int)cores.kind, cores.subgroup);
        check_shape(d->name, &cores.float16, &d->float16);
        check_shape(d->name, &cores.bfloat16, &d->bfloat16);
        CHECK_CONTAINS(cores.about, d->about);
        CHECK(weft__vulkan_cores_multiply(&cores, WEFT_FLOAT16) == (d->float16.m > 0));
        CHECK(weft__vulkan_cores_multiply(&cores, WEFT_BFLOAT16) ==
              (d->float16.m > 0 || d->bfloat16.m > 0));
        CHECK(cores.processors > 0);
    }
}

/* Operands of every layout have a tile that runs, also with few rows or columns; the largest tile
 * of the table runs where its operands fit. */
static void devices_in_use_have_tiles(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT16, WEFT_BFLOAT16};
    for (int i = 0; i < DEVICES; i++) {
        weft__vulkan_cores cores;
        weft__vulkan_cores_choose(&devices[i].facts, &cores);
        for (int d = 0; d < 2; d++) {
            const core_tile *tiles;
            const int n = weft__product_core_tiles(cores.kind, &tiles);
            int run[2][2] = {{0}}; /* [by term][split] */
            for (int t = 0; t < n && weft__vulkan_core_shape_of(&cores, dtypes[d]); t++)
                for (int by_term = 0; by_term < 2; by_term++)
                    run[by_term][tiles[t].split > 1] +=
                        weft__product_tile_runs(&tiles[t], dtypes[d], by_term, by_term, &cores);
            if (!weft__vulkan_core_shape_of(&cores, dtypes[d]) || devices[i].facts.software)
                continue;
            for (int by_term = 0; by_term < 2; by_term++)
                check_that(run[by_term][0] > 0 && run[by_term][1] > 0, __FILE__, __LINE__,
                           "%s, %s: %d and %d tiles", devices[i].name, weft_dtype_name(dtypes[d]),
                           run[by_term][0], run[by_term][1]);
        }
    }
}

/* What product_cores.comp requires of a tile, for every table. */
static void tiles_are_well_formed(void)
{
    static const weft__vulkan_cores_kind kinds[] = {
        WEFT__VULKAN_CORES_NVIDIA, WEFT__VULKAN_CORES_AMD, WEFT__VULKAN_CORES_INTEL};
    for (int k = 0; k < 3; k++) {
        const core_tile *tiles;
        const int n = weft__product_core_tiles(kinds[k], &tiles);
        CHECK_EQ_INT(weft__product_core_padding(kinds[k]) % 8, 0);
        for (int t = 0; t < n; t++) {
            const core_tile *c = &tiles[t];
            CHECK(c->rows % (8 * c->down) == 0 && c->columns % (8 * c->across) == 0);
            CHECK(c->terms % 16 == 0);
            CHECK(c->split == 1 || (c->down == 1 && c->across == 1));
            CHECK(c->rate > 0 && c->sum_rate > 0);
        }
    }
}

CHECK_MAIN("vulkan_cores_choice", CHECK_CASE(the_choice_follows_from_the_facts),
           CHECK_CASE(devices_in_use_have_tiles), CHECK_CASE(tiles_are_well_formed))
