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

enum { PATH = 1024, LARGEST = 256 << 20 };

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

void weft__vulkan_cache_save(weft__vulkan_device *d)
{
    weft__vulkan_pipelines *p = &d->pipelines;
    char path[PATH + 128];
    size_t bytes = 0;
    if (!p->cache || p->count < p->saved + p->saved / 4 + 1 ||
        !weft__vulkan_cache_path(d, "bin", true, path, sizeof path) ||
        d->call.GetPipelineCacheData(d->handle, p->cache, &bytes, NULL) != VK_SUCCESS) {
        return;
    }
    void *data = weft_malloc(bytes ? bytes : 1);
    if (data && bytes > 0 &&
        d->call.GetPipelineCacheData(d->handle, p->cache, &bytes, data) == VK_SUCCESS) {
        weft__vulkan_cache_write(path, data, bytes);
    }
    weft_free(data);
    p->saved = p->count;
}
