/* backends/vulkan/cores.c -- detects and enables a device's matrix cores. */
#include "backends/vulkan/cores.h"

#include <string.h>

#include "backends/vulkan/device.h"
#include "weft/memory.h"

/* Constants of extensions that the headers of Vulkan 1.3.239 (Debian 12) do not define. */
enum {
    MATRIX_FEATURES = 1000506000, /* VkPhysicalDeviceCooperativeMatrixFeaturesKHR */
    MATRIX_PROPERTIES = 1000506001,
    BFLOAT16_FEATURES = 1000141000 /* VkPhysicalDeviceShaderBfloat16FeaturesKHR */
};

static const char *const matrix_extension = "VK_KHR_cooperative_matrix";
static const char *const bfloat16_extension = "VK_KHR_shader_bfloat16";

/* VkCooperativeMatrixPropertiesKHR */
typedef struct matrix_properties {
    VkStructureType type;
    void *next;
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* VkComponentTypeKHR */
    VkBool32 saturating;
    uint32_t scope;
} matrix_properties;

typedef VkResult(VKAPI_PTR *get_matrix_properties)(VkPhysicalDevice, uint32_t *,
                                                   matrix_properties *);

/* ---- Probing -------------------------------------------------------------------------------- */

/* Whether the device has the features that the modules need, except the 16-bit types. */
static bool has_features(const weft__vulkan_instance *v, weft__vulkan_physical *p, bool *float16,
                         bool *bfloat16)
{
    weft__vulkan_core_features f = {0};
    VkPhysicalDeviceVulkan12Features v12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    *bfloat16 = weft__vulkan_has_extension(v, p->handle, bfloat16_extension);
    f.v13.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES;
    f.v13.pNext = &v12;
    f.matrix.type = (VkStructureType)MATRIX_FEATURES;
    f.matrix.next = &f.v13;
    f.bfloat16.type = (VkStructureType)BFLOAT16_FEATURES;
    f.bfloat16.next = &f.matrix;
    VkPhysicalDeviceFeatures2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                                     .pNext = *bfloat16 ? (void *)&f.bfloat16 : &f.matrix};
    v->GetPhysicalDeviceFeatures2(p->handle, &all);
    *float16 = v12.shaderFloat16;
    *bfloat16 = *bfloat16 && f.bfloat16.type16 && f.bfloat16.matrix;
    return f.matrix.matrix && v12.vulkanMemoryModel && f.v13.subgroupSizeControl &&
           f.v13.computeFullSubgroups;
}

static void read_matrices(const weft__vulkan_instance *v, weft__vulkan_physical *p)
{
    get_matrix_properties get = (get_matrix_properties)v->GetInstanceProcAddr(
        v->handle, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    matrix_properties all[WEFT__VULKAN_MATRICES];
    uint32_t n = WEFT__VULKAN_MATRICES;
    memset(all, 0, sizeof all);
    for (int i = 0; i < WEFT__VULKAN_MATRICES; i++) {
        all[i].type = (VkStructureType)MATRIX_PROPERTIES;
    }
    if (!get || get(p->handle, &n, all) < 0) {
        return;
    }
    p->facts.n_matrices = (int)n;
    for (uint32_t i = 0; i < n; i++) {
        const matrix_properties *m = &all[i];
        p->facts.matrices[i] = (weft__vulkan_core_matrix){.m = m->m,
                                                          .n = m->n,
                                                          .k = m->k,
                                                          .a = m->a,
                                                          .b = m->b,
                                                          .c = m->c,
                                                          .result = m->result,
                                                          .scope = m->scope,
                                                          .saturating = m->saturating};
    }
}

static uint32_t processors_of(const weft__vulkan_instance *v, const weft__vulkan_physical *p)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV count = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &count};
    if (weft__vulkan_has_extension(v, p->handle, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) {
        v->GetPhysicalDeviceProperties2(p->handle, &properties);
    }
    return count.shaderSMCount;
}

static void read_facts(const weft__vulkan_instance *v, weft__vulkan_physical *p)
{
    const VkPhysicalDeviceLimits *limits = &p->properties.limits;
    weft__vulkan_core_facts *f = &p->facts;
    *f = (weft__vulkan_core_facts){.vendor = p->properties.vendorID,
                                   .device = p->properties.deviceID,
                                   .driver = p->driver.driverID,
                                   .software =
                                       p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU,
                                   .smallest = p->subgroup.subgroupSize,
                                   .largest = p->subgroup.subgroupSize,
                                   .invocations = limits->maxComputeWorkGroupInvocations,
                                   .shared = limits->maxComputeSharedMemorySize,
                                   .processors = processors_of(v, p)};
    if (p->properties.apiVersion < VK_API_VERSION_1_3) {
        return;
    }
    VkPhysicalDeviceVulkan13Properties v13 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &v13};
    v->GetPhysicalDeviceProperties2(p->handle, &properties);
    f->smallest = v13.minSubgroupSize;
    f->largest = v13.maxSubgroupSize;
    f->mixed_dot = v13.integerDotProduct4x8BitPackedMixedSignednessAccelerated;
    if (!weft__vulkan_has_extension(v, p->handle, matrix_extension)) {
        return;
    }
    const VkSubgroupFeatureFlags needed = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                          VK_SUBGROUP_FEATURE_SHUFFLE_BIT |
                                          VK_SUBGROUP_FEATURE_VOTE_BIT;
    f->usable = has_features(v, p, &f->float16, &f->bfloat16) &&
                (v13.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) &&
                (p->subgroup.supportedOperations & needed) == needed;
    read_matrices(v, p);
}

void weft__vulkan_cores_probe(const weft__vulkan_instance *v, weft__vulkan_physical *p)
{
    read_facts(v, p);
    weft__vulkan_cores_choose(&p->facts, &p->cores);
    p->present[WEFT__VULKAN_MATRIX_BFLOAT16] = p->cores.bfloat16.m > 0;
    p->present[WEFT__VULKAN_MATRIX] = p->cores.float16.m > 0 || p->cores.bfloat16.m > 0;
}

void weft__vulkan_cores_restrict(weft__vulkan_physical *p)
{
    bool *bfloat16 = &p->used[WEFT__VULKAN_MATRIX_BFLOAT16];
    *bfloat16 = *bfloat16 && p->used[WEFT__VULKAN_MATRIX];
    if (p->used[WEFT__VULKAN_MATRIX] && !*bfloat16) {
        p->cores.bfloat16 = (weft__vulkan_core_shape){0};
    }
}

/* ---- Enabling -------------------------------------------------------------------------------- */

void *weft__vulkan_cores_enable(const weft__vulkan_cores *cores, weft__vulkan_core_features *f,
                                VkPhysicalDeviceVulkan12Features *v12, void *next)
{
    *f = (weft__vulkan_core_features){.n_names = 1};
    f->names[0] = matrix_extension;
    v12->vulkanMemoryModel = VK_TRUE;
    v12->shaderFloat16 = cores->float16.m > 0;
    f->v13 = (VkPhysicalDeviceVulkan13Features){
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        .pNext = next,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = VK_TRUE};
    f->matrix.type = (VkStructureType)MATRIX_FEATURES;
    f->matrix.next = &f->v13;
    f->matrix.matrix = VK_TRUE;
    if (cores->bfloat16.m == 0) {
        return &f->matrix;
    }
    f->names[f->n_names++] = bfloat16_extension;
    f->bfloat16.type = (VkStructureType)BFLOAT16_FEATURES;
    f->bfloat16.next = &f->matrix;
    f->bfloat16.type16 = f->bfloat16.matrix = VK_TRUE;
    return &f->bfloat16;
}

const weft__vulkan_cores *weft__vulkan_cores_of(const weft_call *call)
{
    const weft__vulkan_device *d = weft_device_state(call->device);
    return d->physical.used[WEFT__VULKAN_MATRIX] ? &d->physical.cores : NULL;
}
