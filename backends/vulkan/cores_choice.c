/* backends/vulkan/cores_choice.c -- decides from what a driver states which matrices are used, with
 * which subgroups and tiles, and whether by default. */
#include "backends/vulkan/cores.h"

enum { VENDOR_NVIDIA = 0x10de, USUAL_PROCESSORS = 64 };

/* ---- Matrices ------------------------------------------------------------------------------- */

/* The modules' tiles are multiples of 8; 16 by 16 by 16 is preferred. */
static void take_shape(const weft__vulkan_core_matrix *m, weft__vulkan_core_shape *best)
{
    const bool fits =
        m->m % 8 == 0 && m->n % 8 == 0 && m->k % 8 == 0 && m->m <= 16 && m->n <= 16 && m->k <= 16;
    if (fits && m->m * m->n * m->k > best->m * best->n * best->k) {
        *best = (weft__vulkan_core_shape){m->m, m->n, m->k};
    }
}

static void take_shapes(const weft__vulkan_core_facts *f, weft__vulkan_cores *out)
{
    for (int i = 0; i < f->n_matrices; i++) {
        const weft__vulkan_core_matrix *m = &f->matrices[i];
        if (m->scope != WEFT__VULKAN_OF_SUBGROUP || m->saturating || m->a != m->b ||
            m->c != WEFT__VULKAN_IN_FLOAT32 || m->result != WEFT__VULKAN_IN_FLOAT32) {
            continue;
        }
        if (m->a == WEFT__VULKAN_IN_FLOAT16 && f->float16) {
            take_shape(m, &out->float16);
        } else if (m->a == WEFT__VULKAN_IN_BFLOAT16 && f->bfloat16) {
            take_shape(m, &out->bfloat16);
        }
    }
}

/* ---- Drivers -------------------------------------------------------------------------------- */

typedef struct family {
    VkDriverId driver;
    weft__vulkan_cores_kind kind;
    bool measured;
    const char *yes, *no; /* descriptions; `no` if `has` is false */
    bool (*has)(const weft__vulkan_core_facts *f);
} family;

static bool is_nvidia(const weft__vulkan_core_facts *f)
{
    return f->vendor == VENDOR_NVIDIA;
}

/* RDNA 3 and later: waves of 32 and 64, and products of bytes of both signs. RDNA 2 has no matrix
 * cores, although AMD's own driver announces the extension there. */
static bool is_rdna3(const weft__vulkan_core_facts *f)
{
    return f->smallest == 32 && f->largest == 64 && f->mixed_dot;
}

/* Xe 2 and later: the smallest subgroups have 16 invocations, those of Xe and before 8. */
static bool is_xe2(const weft__vulkan_core_facts *f)
{
    return f->smallest == 16;
}

static const char *const rdna3 = "AMD, RDNA 3 or later: unmeasured",
                         *const before_rdna3 = "AMD before RDNA 3 has no matrix cores",
                         *const xe2 = "Intel, Xe 2 or later: unmeasured",
                         *const before_xe2 = "Intel before Xe 2: slower with them";

static const family *family_of(VkDriverId driver)
{
    static const family all[] = {
        {VK_DRIVER_ID_NVIDIA_PROPRIETARY, WEFT__VULKAN_CORES_NVIDIA, true,
         "NVIDIA's driver: measured", "NVIDIA's driver for another vendor's device", is_nvidia},
        {VK_DRIVER_ID_MESA_NVK, WEFT__VULKAN_CORES_NVIDIA, false, "NVK: unmeasured",
         "NVK for another vendor's device", is_nvidia},
        {VK_DRIVER_ID_MESA_RADV, WEFT__VULKAN_CORES_AMD, false, rdna3, before_rdna3, is_rdna3},
        {VK_DRIVER_ID_AMD_PROPRIETARY, WEFT__VULKAN_CORES_AMD, false, rdna3, before_rdna3,
         is_rdna3},
        {VK_DRIVER_ID_AMD_OPEN_SOURCE, WEFT__VULKAN_CORES_AMD, false, rdna3, before_rdna3,
         is_rdna3},
        {VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA, WEFT__VULKAN_CORES_INTEL, false, xe2, before_xe2,
         is_xe2},
        {VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, WEFT__VULKAN_CORES_INTEL, false, xe2, before_xe2,
         is_xe2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].driver == driver) {
            return &all[i];
        }
    }
    return NULL;
}

/* 32 where it can be selected, since drivers have different defaults; Intel's matrices need the
 * smallest. */
static uint32_t subgroup_of(const weft__vulkan_core_facts *f, weft__vulkan_cores_kind kind)
{
    if (kind == WEFT__VULKAN_CORES_INTEL) {
        return f->smallest;
    }
    return f->smallest > 32 ? f->smallest : f->largest < 32 ? f->largest : 32;
}

void weft__vulkan_cores_choose(const weft__vulkan_core_facts *f, weft__vulkan_cores *out)
{
    const family *known = family_of(f->driver);
    *out = (weft__vulkan_cores){.invocations = f->invocations,
                                .shared = f->shared,
                                .processors = f->processors ? f->processors : USUAL_PROCESSORS,
                                .largest = f->software ? 32 * 32 : 1024 * 1024,
                                .kind = known ? known->kind : WEFT__VULKAN_CORES_NVIDIA};
    out->subgroup = subgroup_of(f, out->kind);
    if (f->usable) {
        take_shapes(f, out);
    }
    if (out->float16.m == 0 && out->bfloat16.m == 0) {
        out->about = "the driver offers no matrices that Weft uses";
        return;
    }
    out->usual = known && known->has(f);
    out->measured = out->usual && known->measured;
    out->alike = out->measured && out->kind == WEFT__VULKAN_CORES_NVIDIA; /* self-test: attention */
    out->about = !known ? "a driver that Weft does not know" : out->usual ? known->yes : known->no;
}
