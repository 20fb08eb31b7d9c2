/* backends/vulkan/pipeline_cache.c -- stores the driver's compiled pipelines between runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/vulkan/device.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/timeline.h"

enum { PATH = 1024, LARGEST = 256 << 20, SAVE_SHARE = 20 };

/* One folder per user. The file name identifies device and driver, which the driver checks again in
 * its own header. */
bool weft__vulkan_cache_path(const weft__vulkan_device *d, const char *ending, bool make, char *out,
                             size_t size)
{
    const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[PATH];
    int n = base && base[0]   ? snprintf(folder, sizeof folder, "%s", base)
            : home && home[0] ? snprintf(folder, sizeof folder, "%s/.cache", home)
                              : -1;
    if (n < 0 || (size_t)n + 8 > sizeof folder) {
        return false;
    }
    if (make) {
        (void)mkdir(folder, 0700);
    }
    strcat(folder, "/weft");
    if (make && mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return false;
    }
    const VkPhysicalDeviceProperties *p = &d->physical.properties;
    char uuid[2 * VK_UUID_SIZE + 1];
    for (int i = 0; i < (int)VK_UUID_SIZE; i++) {
        snprintf(uuid + 2 * i, 3, "%02x", p->pipelineCacheUUID[i]);
    }
    n = snprintf(out, size, "%s/vulkan-%04x-%04x-%s.%s", folder, p->vendorID, p->deviceID, uuid,
                 ending);
    return n > 0 && (size_t)n < size;
}

static char *read_file(const char *path, size_t *bytes)
{
    char *data = NULL;
    *bytes = 0;
    if (access(path, R_OK) == 0) {
        (void)weft_file_read(path, LARGEST, &data, bytes);
    }
    return data;
}

/* The bytes of the driver's cache; 0: unknown. */
static size_t bytes_of(weft__vulkan_device *d)
{
    size_t bytes = 0;
    const VkResult result =
        d->call.GetPipelineCacheData(d->handle, d->pipelines.cache, &bytes, NULL);
    return result == VK_SUCCESS ? bytes : 0;
}

void weft__vulkan_cache_load(weft__vulkan_device *d)
{
    char path[PATH + 128];
    size_t bytes = 0;
    void *data = weft__vulkan_cache_path(d, "bin", false, path, sizeof path)
                     ? read_file(path, &bytes)
                     : NULL;
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = bytes,
        .pInitialData = data,
    };
    VkResult result = d->call.CreatePipelineCache(d->handle, &info, NULL, &d->pipelines.cache);
    if (result != VK_SUCCESS && bytes > 0) {
        info.initialDataSize = 0;
        result = d->call.CreatePipelineCache(d->handle, &info, NULL, &d->pipelines.cache);
    }
    if (result != VK_SUCCESS) {
        d->pipelines.cache = VK_NULL_HANDLE;
    }
    d->pipelines.saved_bytes = result == VK_SUCCESS && bytes > 0 ? bytes_of(d) : 0;
    weft_free(data);
}

/* Writes a temporary file and renames it, so that concurrent readers see the old file or the new
 * one. */
void weft__vulkan_cache_write(const char *path, const void *data, size_t bytes)
{
    char temporary[PATH + 160];
    snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    FILE *file = fopen(temporary, "wb");
    if (!file) {
        return;
    }
    bool whole = fwrite(data, 1, bytes, file) == bytes;
    whole = fclose(file) == 0 && whole;
    if (!whole || rename(temporary, path) != 0) {
        (void)unlink(temporary);
    }
}

bool weft__vulkan_cache_is_due(const weft__vulkan_pipelines *p)
{
    const int64_t unsaved = p->nanoseconds - p->saved_nanoseconds;
    return p->count > p->saved && unsaved >= SAVE_SHARE * p->saving;
}

static void write_pipelines(weft__vulkan_device *d, size_t bytes)
{
    char path[PATH + 128];
    void *data =
        weft__vulkan_cache_path(d, "bin", true, path, sizeof path) ? weft_malloc(bytes) : NULL;
    if (data &&
        d->call.GetPipelineCacheData(d->handle, d->pipelines.cache, &bytes, data) == VK_SUCCESS) {
        weft__vulkan_cache_write(path, data, bytes);
    }
    weft_free(data);
}

/* A cache of the same size is the same: all pipelines came from it. */
void weft__vulkan_cache_save(weft__vulkan_device *d)
{
    weft__vulkan_pipelines *p = &d->pipelines;
    if (!p->cache || !weft__vulkan_cache_is_due(p)) {
        return;
    }
    const int64_t start = weft_timeline_now();
    const size_t bytes = bytes_of(d);
    if (bytes > 0 && bytes != p->saved_bytes) {
        write_pipelines(d, bytes);
    }
    p->saving = weft_timeline_now() - start;
    weft_log_message(WEFT_LOG_DEBUG, "vulkan: %s cache of pipelines: %zu bytes, %.1f ms",
                     bytes != p->saved_bytes ? "saved" : "unchanged", bytes,
                     (double)p->saving / 1e6);
    p->saved = p->count;
    p->saved_bytes = bytes;
    p->saved_nanoseconds = p->nanoseconds;
}
