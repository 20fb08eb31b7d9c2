/* backends/vulkan/device.h -- an open device. Its parts are memory.h (memory), stream.h (submitted
 * work) and pipeline.h (compiled shaders). */
#ifndef BACKENDS_VULKAN_DEVICE_H
#define BACKENDS_VULKAN_DEVICE_H

#include "backends/vulkan/cores.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/loader.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipeline.h"
#include "backends/vulkan/stream.h"
#include "backends/vulkan/uploads.h"

/* The properties of a physical device, and which of them are used. */
struct weft__vulkan_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceFloatControlsProperties float_controls;
    VkDeviceSize largest_allocation;
    uint32_t queue_family;
    uint32_t transfer_family; /* a queue family that only copies, if used[WEFT__VULKAN_TRANSFER] */
    uint32_t timestamp_bits;  /* valid bits of the queue's timestamps; 0: not
                               * supported */
    bool present[WEFT__VULKAN_FEATURE_COUNT]; /* the device supports it */
    bool used[WEFT__VULKAN_FEATURE_COUNT];    /* and it is not disabled by WEFT_VULKAN_DISABLE */
    weft__vulkan_core_facts facts;
    weft__vulkan_cores cores;
};

struct weft__vulkan_device {
    weft__vulkan_physical physical;
    VkDevice handle;
    weft__vulkan_functions call;
    weft__vulkan_memory memory;
    weft__vulkan_pipelines pipelines; /* under the stream's lock */
    weft__vulkan_stream stream;
    weft__vulkan_uploads uploads; /* under the stream's lock */
    weft__vulkan_profile profile;
    int index;
    bool failed[WEFT__VULKAN_FEATURE_COUNT]; /* features that failed the self-test and are not used
                                              */
    char description[1280];
};

/* The number of devices. They are ordered: discrete, integrated, virtual, software. */
int weft__vulkan_physical_count(void);

/* Fills *out. Fails, naming the missing feature, if the device lacks a required one. */
weft_status weft__vulkan_probe(int index, weft__vulkan_physical *out);

bool weft__vulkan_has_extension(const weft__vulkan_instance *v, VkPhysicalDevice device,
                                const char *name);

/* Free bytes of the largest heap of the device's own; all, without the budget extension (memory.c).
 */
int64_t weft__vulkan_free_memory(const weft__vulkan_physical *physical);

/* Creates the logical device with the features that are used. */
weft_status weft__vulkan_create(const weft__vulkan_physical *physical, VkDevice *out);

/* Describes name, driver, memory and features. */
void weft__vulkan_describe(const weft__vulkan_device *d, char *out, size_t size);

const char *weft__vulkan_feature_name(weft__vulkan_feature feature);

#endif
