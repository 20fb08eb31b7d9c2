/* backends/vulkan/cores.h -- matrix cores (VK_KHR_cooperative_matrix): a device's capabilities, and
 * the compiled modules that use them. */
#ifndef BACKENDS_VULKAN_CORES_H
#define BACKENDS_VULKAN_CORES_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/loader.h"

/* VkComponentTypeKHR and VkScopeKHR, which the headers of Vulkan 1.3.239 (Debian 12) do not define.
 */
enum {
    WEFT__VULKAN_IN_FLOAT16 = 0,
    WEFT__VULKAN_IN_FLOAT32 = 1,
    WEFT__VULKAN_IN_BFLOAT16 = 1000141000,
    WEFT__VULKAN_OF_SUBGROUP = 3
};

/* A row of the driver's list: (m, k) of type a by (k, n) of type b, added to c. */
typedef struct weft__vulkan_core_matrix {
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* VkComponentTypeKHR */
    uint32_t scope;
    bool saturating;
} weft__vulkan_core_matrix;

enum { WEFT__VULKAN_MATRICES = 128 };

/* What a driver states of a device, as vulkaninfo prints it. */
typedef struct weft__vulkan_core_facts {
    uint32_t vendor, device; /* PCI IDs */
    VkDriverId driver;
    bool software;                /* the device is a CPU */
    uint32_t smallest, largest;   /* subgroup sizes */
    uint32_t invocations, shared; /* limits of a workgroup */
    uint32_t processors;          /* number of multiprocessors; 0: unknown */
    bool usable;                  /* the extension, and the features that the modules need */
    bool float16, bfloat16;       /* arithmetic in float16; bfloat16 matrices */
    bool mixed_dot;               /* integerDotProduct4x8BitPackedMixedSignednessAccelerated */
    int n_matrices;
    weft__vulkan_core_matrix matrices[WEFT__VULKAN_MATRICES];
} weft__vulkan_core_facts;

/* The size of the matrices that the cores multiply: (m, k) by (k, n); m is 0 if there are none. */
typedef struct weft__vulkan_core_shape {
    uint32_t m, n, k;
} weft__vulkan_core_shape;

/* Which table of tiles is used (kernels/core_tiles.c). */
typedef enum weft__vulkan_cores_kind {
    WEFT__VULKAN_CORES_NVIDIA, /* also of devices without a table of their own */
    WEFT__VULKAN_CORES_AMD,
    WEFT__VULKAN_CORES_INTEL,
} weft__vulkan_cores_kind;

typedef struct weft__vulkan_cores {
    weft__vulkan_core_shape float16, bfloat16; /* with 16-bit inputs and float32 sums */
    weft__vulkan_cores_kind kind;
    uint32_t subgroup;            /* the subgroup size that pipelines request */
    uint32_t processors;          /* number of multiprocessors; a guess if unknown */
    uint32_t invocations, shared; /* limits of a workgroup: invocations; bytes of
                                   * shared memory */
    uint32_t largest;             /* most elements of a tile: software drivers take minutes to
                                   * compile larger ones */
    bool usual;                   /* used by default: the drivers that are known to have them */
    bool measured;                /* to be faster than float32 on such cards */
    bool alike;                   /* sums and left factors have the same layout in registers */
    const char *about;            /* why they are used by default, or why not */
} weft__vulkan_cores;

/* Decides from the facts alone. Without usable matrices float16.m and bfloat16.m are 0. */
void weft__vulkan_cores_choose(const weft__vulkan_core_facts *facts, weft__vulkan_cores *out);

typedef struct weft__vulkan_physical weft__vulkan_physical;

/* Fills p->facts, p->cores, p->present[WEFT__VULKAN_MATRIX], whether any shape is supported, and
 * p->present[WEFT__VULKAN_MATRIX_BFLOAT16]. */
void weft__vulkan_cores_probe(const weft__vulkan_instance *v, weft__vulkan_physical *p);

/* Removes bfloat16 matrices that p->used excludes. */
void weft__vulkan_cores_restrict(weft__vulkan_physical *p);

/* Extension structs and names to create a device that uses the cores. */
typedef struct weft__vulkan_core_features {
    VkPhysicalDeviceVulkan13Features v13;
    struct {
        VkStructureType type;
        void *next;
        VkBool32 matrix, robust;
    } matrix;
    struct {
        VkStructureType type;
        void *next;
        VkBool32 type16, dot, matrix;
    } bfloat16;
    const char *names[2];
    int n_names;
} weft__vulkan_core_features;

/* Requests what the cores need in f, and returns the first struct of the chain, which ends in
 * `next`. */
void *weft__vulkan_cores_enable(const weft__vulkan_cores *cores, weft__vulkan_core_features *f,
                                VkPhysicalDeviceVulkan12Features *v12, void *next);

/* The cores of the call's device; NULL if they are not used. */
const weft__vulkan_cores *weft__vulkan_cores_of(const weft_call *call);

static inline const weft__vulkan_core_shape *
weft__vulkan_core_shape_of(const weft__vulkan_cores *cores, weft_dtype dtype)
{
    const weft__vulkan_core_shape *shape = dtype == WEFT_FLOAT16    ? &cores->float16
                                           : dtype == WEFT_BFLOAT16 ? &cores->bfloat16
                                                                    : NULL;
    return shape && shape->m > 0 ? shape : NULL;
}

/* Whether products of `dtype` run on the cores: of bfloat16, without such matrices, as scaled
 * float16 (kernels/product_scaled.c). */
static inline bool weft__vulkan_cores_multiply(const weft__vulkan_cores *cores, weft_dtype dtype)
{
    return weft__vulkan_core_shape_of(cores, dtype == WEFT_BFLOAT16 && cores->bfloat16.m == 0
                                                 ? WEFT_FLOAT16
                                                 : dtype) != NULL;
}

/* The module for inputs of `dtype` (float16 or bfloat16), derived from the float16 module by
 * replacing its 16-bit type. Valid for modules that only load, store, convert and multiply-add
 * elements of that type. NULL with a message: out of memory. It is never freed. */
const weft__vulkan_shader *weft__vulkan_module_for(const weft__vulkan_shader *float16,
                                                   weft_dtype dtype);

#endif
