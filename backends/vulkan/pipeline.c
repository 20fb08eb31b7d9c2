/* backends/vulkan/pipeline.c -- the table of pipelines, by shader and constants. */
#include "backends/vulkan/pipeline.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/spirv/float_modes.h"
#include "weft/memory.h"

/* The specialization constant BATCH of shaders/batch.glsl. */
enum { BATCH_ID = 31 };

weft_status weft__vulkan_pipelines_open(weft__vulkan_device *d)
{
    const VkPushConstantRange range = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT,
        .size = WEFT__VULKAN_MAX_PUSH,
    };
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkResult result = d->call.CreatePipelineLayout(d->handle, &info, NULL, &d->pipelines.layout);
    if (result != VK_SUCCESS) {
        return weft__vulkan_fail("vkCreatePipelineLayout", result);
    }
    weft__vulkan_cache_load(d);
    return WEFT_OK;
}

void weft__vulkan_pipelines_close(weft__vulkan_device *d)
{
    weft__vulkan_pipelines *p = &d->pipelines;
    for (size_t i = 0; i < p->capacity; i++) {
        if (p->table[i].shader) {
            d->call.DestroyPipeline(d->handle, p->table[i].handle, NULL);
        }
    }
    weft_free(p->table);
    if (p->cache) {
        d->call.DestroyPipelineCache(d->handle, p->cache, NULL);
    }
    if (p->layout) {
        d->call.DestroyPipelineLayout(d->handle, p->layout, NULL);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

static uint64_t hash_of(const weft__vulkan_pipeline *key)
{
    uint64_t hash = ((uint64_t)(uintptr_t)key->shader + key->batch) * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < key->n_constants; i++) {
        hash = (hash ^ key->constants[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash ^ hash >> 32;
}

/* The entry, or the free slot where it belongs. */
static weft__vulkan_pipeline *place_of(const weft__vulkan_pipelines *p,
                                       const weft__vulkan_pipeline *key)
{
    size_t at = hash_of(key) & (p->capacity - 1);
    for (;; at = (at + 1) & (p->capacity - 1)) {
        weft__vulkan_pipeline *e = &p->table[at];
        if (!e->shader || (e->shader == key->shader && e->batch == key->batch &&
                           e->n_constants == key->n_constants &&
                           memcmp(e->constants, key->constants,
                                  (size_t)key->n_constants * sizeof *key->constants) == 0)) {
            return e;
        }
    }
}

static bool grow(weft__vulkan_pipelines *p)
{
    weft__vulkan_pipelines larger = {.capacity = p->capacity ? 2 * p->capacity : 256};
    larger.table = weft_calloc(larger.capacity, sizeof *larger.table);
    if (!larger.table) {
        return false;
    }
    for (size_t i = 0; i < p->capacity; i++) {
        const weft__vulkan_pipeline *e = &p->table[i];
        if (e->shader) {
            *place_of(&larger, e) = *e;
        }
    }
    weft_free(p->table);
    p->table = larger.table;
    p->capacity = larger.capacity;
    return true;
}

void (*weft__vulkan_compiling)(const char *shader, uint32_t *words, size_t n);

/* Creates the shader module with the float modes that the device supports. */
static weft_status create_module(weft__vulkan_device *d, const weft__vulkan_shader *shader,
                                 VkShaderModule *out)
{
    spirv_words words = {0};
    uint32_t modes = weft__spirv_float_modes(&d->physical.float_controls,
                                             d->physical.used[WEFT__VULKAN_SUBNORMALS]);
    weft__spirv_set_float_modes(shader->words, shader->n_words, modes, &words);
    if (words.failed) {
        weft_free(words.at);
        return weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    if (weft__vulkan_compiling) {
        weft__vulkan_compiling(shader->name, words.at, words.n);
    }
    const VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = words.n * sizeof *words.at,
        .pCode = words.at,
    };
    VkResult result = d->call.CreateShaderModule(d->handle, &info, NULL, out);
    weft_free(words.at);
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail(shader->name, result);
}

/* The launch's constants, and BATCH of shaders/batch.glsl. */
static uint32_t fill_constants(const weft__vulkan_launch *launch, bool batch,
                               VkSpecializationMapEntry *entries, uint32_t *values)
{
    uint32_t n = (uint32_t)launch->n_constants;
    for (uint32_t i = 0; i < n; i++) {
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = 4 * i, .size = 4};
        values[i] = launch->constants[i];
    }
    if (batch) {
        entries[n] = (VkSpecializationMapEntry){.constantID = BATCH_ID, .offset = 4 * n, .size = 4};
        values[n++] = VK_TRUE;
    }
    return n;
}

static weft_status create(weft__vulkan_device *d, const weft__vulkan_launch *launch, bool batch,
                          VkPipeline *out)
{
    const weft__vulkan_shader *shader = launch->shader;
    VkShaderModule module;
    weft_status status = create_module(d, shader, &module);
    if (status != WEFT_OK) {
        return status;
    }
    VkSpecializationMapEntry entries[WEFT__VULKAN_MAX_CONSTANTS + 1];
    uint32_t values[WEFT__VULKAN_MAX_CONSTANTS + 1];
    const uint32_t n = fill_constants(launch, batch, entries, values);
    const VkSpecializationInfo constants = {
        .mapEntryCount = n,
        .pMapEntries = entries,
        .dataSize = n * sizeof *values,
        .pData = values,
    };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = launch->subgroup};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = launch->subgroup ? &subgroup : NULL,
                  .flags = launch->subgroup
                               ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT
                               : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = d->pipelines.layout,
    };
    VkResult result =
        d->call.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, out);
    d->call.DestroyShaderModule(d->handle, module, NULL);
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail(shader->name, result);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

weft_status weft__vulkan_pipeline_get(weft__vulkan_device *d, const weft__vulkan_launch *launch,
                                      bool batch, VkPipeline *out)
{
    weft__vulkan_pipelines *p = &d->pipelines;
    if (2 * p->count >= p->capacity && !grow(p)) {
        return weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    weft__vulkan_pipeline key = {
        .shader = launch->shader, .batch = batch, .n_constants = launch->n_constants};
    memcpy(key.constants, launch->constants, sizeof key.constants);
    weft__vulkan_pipeline *e = place_of(p, &key);
    if (!e->shader) {
        const int64_t start = now();
        char constants[16 * WEFT__VULKAN_MAX_CONSTANTS] = "";
        for (int i = 0, n = 0; i < launch->n_constants; i++) {
            n += snprintf(constants + n, sizeof constants - (size_t)n, " %u", launch->constants[i]);
        }
        weft_log_message(WEFT_LOG_DEBUG, "vulkan: compiling %s%s%s", launch->shader->name,
                         constants, batch ? " for batches" : "");
        weft_status status = create(d, launch, batch, &key.handle);
        if (status != WEFT_OK) {
            return status;
        }
        p->nanoseconds += now() - start;
        weft_log_message(WEFT_LOG_DEBUG, "vulkan: compiled %s in %.0f ms", launch->shader->name,
                         (double)(now() - start) / 1e6);
        *e = key;
        p->count++;
    }
    *out = e->handle;
    return WEFT_OK;
}
