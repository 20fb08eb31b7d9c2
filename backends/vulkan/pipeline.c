/* backends/vulkan/pipeline.c -- the table of pipelines, by shader and constants, and their
 * compilation. */
#include "backends/vulkan/pipeline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "backends/vulkan/spirv/float_modes.h"
#include "weft/array.h"
#include "weft/memory.h"
#include "weft/timeline.h"

/* BATCH_ID: the specialization constant BATCH of shaders/batch.glsl. TELL_AFTER: nanoseconds of
 * compiling after which a message reports it. */
enum { BATCH_ID = 31, TELL_AFTER = 1000000000, MOST_THREADS = 64 };

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
        for (int v = 0; p->table[i] && v < WEFT__VULKAN_VARIANTS; v++) {
            d->call.DestroyPipeline(d->handle, p->table[i]->handles[v], NULL);
        }
        weft_free(p->table[i]);
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

static uint64_t hash_of(const weft__vulkan_shader *shader, const uint32_t *constants, int n)
{
    uint64_t hash = (uint64_t)(uintptr_t)shader * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < n; i++) {
        hash = (hash ^ constants[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash ^ hash >> 32;
}

/* Where the pipeline is, or belongs. */
static weft__vulkan_pipeline **place_of(const weft__vulkan_pipelines *p,
                                        const weft__vulkan_shader *shader,
                                        const uint32_t *constants, int n)
{
    size_t at = hash_of(shader, constants, n) & (p->capacity - 1);
    for (;; at = (at + 1) & (p->capacity - 1)) {
        const weft__vulkan_pipeline *e = p->table[at];
        if (!e || (e->shader == shader && e->n_constants == n &&
                   memcmp(e->constants, constants, (size_t)n * sizeof *constants) == 0)) {
            return &p->table[at];
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
        weft__vulkan_pipeline *e = p->table[i];
        if (e) {
            *place_of(&larger, e->shader, e->constants, e->n_constants) = e;
        }
    }
    weft_free(p->table);
    p->table = larger.table;
    p->capacity = larger.capacity;
    return true;
}

weft__vulkan_pipeline *weft__vulkan_pipeline_find(weft__vulkan_device *d,
                                                  const weft__vulkan_launch *launch)
{
    weft__vulkan_pipelines *p = &d->pipelines;
    weft__vulkan_pipeline *e = NULL;
    if (2 * p->entries < p->capacity || grow(p)) {
        weft__vulkan_pipeline **place =
            place_of(p, launch->shader, launch->constants, launch->n_constants);
        e = *place ? *place : weft_calloc(1, sizeof *e);
        if (e && !*place) {
            e->shader = launch->shader;
            e->n_constants = launch->n_constants;
            memcpy(e->constants, launch->constants, sizeof e->constants);
            e->subgroup = launch->subgroup;
            *place = e;
            p->entries++;
        }
    }
    if (!e) {
        weft_fail(WEFT_MEMORY, "vulkan: out of memory");
    }
    return e;
}

/* ---- compiling ------------------------------------------------------------------------------ */

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

/* The pipeline's constants, and BATCH of shaders/batch.glsl. */
static uint32_t fill_constants(const weft__vulkan_pipeline *e, weft__vulkan_variant variant,
                               VkSpecializationMapEntry *entries, uint32_t *values)
{
    uint32_t n = (uint32_t)e->n_constants;
    for (uint32_t i = 0; i < n; i++) {
        entries[i] = (VkSpecializationMapEntry){.constantID = i, .offset = 4 * i, .size = 4};
        values[i] = e->constants[i];
    }
    if (variant == WEFT__VULKAN_MANY) {
        entries[n] = (VkSpecializationMapEntry){.constantID = BATCH_ID, .offset = 4 * n, .size = 4};
        values[n++] = VK_TRUE;
    }
    return n;
}

static weft_status create(weft__vulkan_device *d, const weft__vulkan_pipeline *e,
                          weft__vulkan_variant variant, VkPipeline *out)
{
    VkShaderModule module;
    weft_status status = create_module(d, e->shader, &module);
    if (status != WEFT_OK) {
        return status;
    }
    VkSpecializationMapEntry entries[WEFT__VULKAN_MAX_CONSTANTS + 1];
    uint32_t values[WEFT__VULKAN_MAX_CONSTANTS + 1];
    const uint32_t n = fill_constants(e, variant, entries, values);
    const VkSpecializationInfo constants = {
        .mapEntryCount = n,
        .pMapEntries = entries,
        .dataSize = n * sizeof *values,
        .pData = values,
    };
    const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = e->subgroup};
    const VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = e->subgroup ? &subgroup : NULL,
                  .flags =
                      e->subgroup ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pSpecializationInfo = &constants},
        .layout = d->pipelines.layout,
    };
    VkResult result =
        d->call.CreateComputePipelines(d->handle, d->pipelines.cache, 1, &info, NULL, out);
    d->call.DestroyShaderModule(d->handle, module, NULL);
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail(e->shader->name, result);
}

/* Several threads may call it for different variants. */
static weft_status compile(weft__vulkan_device *d, weft__vulkan_pipeline *e,
                           weft__vulkan_variant variant)
{
    const int64_t start = weft_timeline_now();
    char constants[16 * WEFT__VULKAN_MAX_CONSTANTS] = "";
    VkPipeline handle = VK_NULL_HANDLE;
    for (int i = 0, n = 0; i < e->n_constants; i++) {
        n += snprintf(constants + n, sizeof constants - (size_t)n, " %u", e->constants[i]);
    }
    const weft_status status = create(d, e, variant, &handle);
    if (status == WEFT_OK) {
        e->handles[variant] = handle;
        weft_log_message(WEFT_LOG_DEBUG, "vulkan: compiled %s%s%s in %.0f ms", e->shader->name,
                         constants, variant == WEFT__VULKAN_MANY ? " for batches" : "",
                         (double)(weft_timeline_now() - start) / 1e6);
    }
    return status;
}

weft_status weft__vulkan_pipeline_get(weft__vulkan_device *d, weft__vulkan_pipeline *e,
                                      weft__vulkan_variant variant, VkPipeline *out)
{
    if (!e->handles[variant]) {
        const int64_t start = weft_timeline_now();
        const weft_status status = compile(d, e, variant);
        if (status != WEFT_OK) {
            return status;
        }
        d->pipelines.nanoseconds += weft_timeline_now() - start;
        d->pipelines.count++;
    }
    *out = e->handles[variant];
    return WEFT_OK;
}

/* ---- compiling on all cores ----------------------------------------------------------------- */

typedef struct compilation {
    weft__vulkan_device *d;
    const weft__vulkan_missing *all;
    int n;
    int64_t began;
    atomic_int next, done;
    atomic_bool told;
} compilation;

/* Compiles one after another, as the other threads do. */
static void *compile_some(void *context)
{
    compilation *c = context;
    for (int i = atomic_fetch_add(&c->next, 1); i < c->n; i = atomic_fetch_add(&c->next, 1)) {
        (void)compile(c->d, c->all[i].pipeline, c->all[i].variant);
        const int done = atomic_fetch_add(&c->done, 1) + 1;
        if (weft_timeline_now() - c->began > TELL_AFTER && done < c->n &&
            !atomic_exchange(&c->told, true)) {
            weft_log_message(WEFT_LOG_INFO,
                             "compiling shaders for %s: %d of %d are done; they are kept for later "
                             "runs",
                             c->d->physical.properties.deviceName, done, c->n);
        }
    }
    return NULL;
}

/* Long shaders first, so that none of them is left for the end. */
static int by_words(const void *a, const void *b)
{
    const weft__vulkan_missing *x = a, *y = b;
    const size_t n = x->pipeline->shader->n_words, m = y->pipeline->shader->n_words;
    return n < m ? 1 : -(n > m);
}

void weft__vulkan_pipelines_compile(weft__vulkan_device *d, weft__vulkan_missing *all, int n)
{
    compilation c = {.d = d, .all = all, .n = n, .began = weft_timeline_now()};
    pthread_t threads[MOST_THREADS];
    const int cores = weft_threads() < MOST_THREADS ? weft_threads() : MOST_THREADS,
              wanted = cores < n ? cores : n;
    int started = 0;
    if (n > 0) {
        qsort(all, (size_t)n, sizeof *all, by_words);
    }
    while (started < wanted - 1 && pthread_create(&threads[started], NULL, compile_some, &c) == 0) {
        started++;
    }
    (void)compile_some(&c);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    for (int i = 0; i < n; i++) {
        d->pipelines.count += all[i].pipeline->handles[all[i].variant] != VK_NULL_HANDLE;
    }
    d->pipelines.nanoseconds += weft_timeline_now() - c.began;
}
