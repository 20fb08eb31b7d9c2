/* backends/vulkan/pipeline.h -- compiled shaders, by shader and constants, in memory and on disk.
 */
#ifndef BACKENDS_VULKAN_PIPELINE_H
#define BACKENDS_VULKAN_PIPELINE_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/loader.h"

typedef struct weft__vulkan_device weft__vulkan_device;

/* What the dispatches of a pipeline consist of. */
typedef enum weft__vulkan_variant {
    WEFT__VULKAN_ONE,  /* a launch */
    WEFT__VULKAN_MANY, /* a batch of launches (shaders/batch.glsl) */
    WEFT__VULKAN_VARIANTS
} weft__vulkan_variant;

typedef struct weft__vulkan_pipeline {
    const weft__vulkan_shader *shader;
    int n_constants;
    uint32_t constants[WEFT__VULKAN_MAX_CONSTANTS];
    uint32_t subgroup;                         /* as in a launch */
    VkPipeline handles[WEFT__VULKAN_VARIANTS]; /* VK_NULL_HANDLE: not compiled */
    bool requested[WEFT__VULKAN_VARIANTS];     /* by a dry run */
    double rate; /* measured work per second (pace.h); 0: not measured yet */
} weft__vulkan_pipeline;

/* A variant of a pipeline that is not compiled yet. */
typedef struct weft__vulkan_missing {
    weft__vulkan_pipeline *pipeline;
    weft__vulkan_variant variant;
} weft__vulkan_missing;

typedef struct weft__vulkan_pipelines {
    VkPipelineLayout layout; /* shared by all: push constants, no descriptors */
    VkPipelineCache cache;
    weft__vulkan_pipeline **table; /* open addressing; a power of two */
    size_t capacity, entries;
    size_t count;        /* compiled variants */
    int64_t nanoseconds; /* in which they were compiled */
    /* When the cache was last saved: the number of pipelines, their compile time, the driver's
     * bytes, and the nanoseconds that saving took. */
    size_t saved, saved_bytes;
    int64_t saved_nanoseconds, saving;
} weft__vulkan_pipelines;

weft_status weft__vulkan_pipelines_open(weft__vulkan_device *d);
void weft__vulkan_pipelines_close(weft__vulkan_device *d);

/* Called with the stream's lock. weft__vulkan_pipeline_find: the pipeline of the launch, which may
 * not be compiled; NULL with a message: out of memory. weft__vulkan_pipeline_get: its variant,
 * compiled if necessary. weft__vulkan_pipelines_compile: compiles n variants on all cores. Those
 * that fail are left out, and fail again with a message when they are needed. */
weft__vulkan_pipeline *weft__vulkan_pipeline_find(weft__vulkan_device *d,
                                                  const weft__vulkan_launch *launch);
weft_status weft__vulkan_pipeline_get(weft__vulkan_device *d, weft__vulkan_pipeline *pipeline,
                                      weft__vulkan_variant variant, VkPipeline *out);
void weft__vulkan_pipelines_compile(weft__vulkan_device *d, weft__vulkan_missing *all, int n);

/* For tests that imitate a faulty driver: called with a copy of each module before it is compiled,
 * on any thread. NULL by default. */
extern void (*weft__vulkan_compiling)(const char *shader, uint32_t *words, size_t n);

/* The driver's cache on disk: ${XDG_CACHE_HOME:-~/.cache}/weft/, one file per device and driver.
 * Files that cannot be read or written are ignored. */
void weft__vulkan_cache_load(weft__vulkan_device *d);
void weft__vulkan_cache_save(weft__vulkan_device *d);

/* Whether to save the pipelines compiled since the last save: when compiling took 20 times as long
 * as the last save did. What a run leaves out at its end compiles faster than that. */
bool weft__vulkan_cache_is_due(const weft__vulkan_pipelines *p);

/* The path of the device's file with this ending; false: there is no home folder. `make` creates
 * the folder. The second function writes a file atomically. */
bool weft__vulkan_cache_path(const weft__vulkan_device *d, const char *ending, bool make, char *out,
                             size_t size);
void weft__vulkan_cache_write(const char *path, const void *data, size_t bytes);

#endif
