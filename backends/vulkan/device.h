/* backends/vulkan/device.h -- a device that is open, and the parts it is made of: memory.h for
 * where bytes lie, stream.h for work in flight, pipeline.h for compiled shaders. */
#ifndef BACKENDS_VULKAN_DEVICE_H
#define BACKENDS_VULKAN_DEVICE_H

#include "backends/vulkan/cores.h"
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/loader.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipeline.h"
#include "backends/vulkan/stream.h"

/* What the physical device has, and what is used of it. */
struct weft__vulkan_physical {
    VkPhysicalDevice handle;
    VkPhysicalDeviceProperties properties;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceSubgroupProperties subgroup;
    VkPhysicalDeviceFloatControlsProperties float_controls;
    VkDeviceSize largest_allocation;
    uint32_t queue_family;
    uint32_t timestamp_bits;                  /* of the queue's clock; 0: it has none */
    bool present[WEFT__VULKAN_FEATURE_COUNT]; /* the device has it */
    bool used[WEFT__VULKAN_FEATURE_COUNT];    /* and WEFT_VULKAN_DISABLE does not name it */
    weft__vulkan_cores cores;
};

struct weft__vulkan_device {
    weft__vulkan_physical physical;
    VkDevice handle;
    weft__vulkan_functions call;
    weft__vulkan_memory memory;
    weft__vulkan_pipelines pipelines; /* under the stream's lock */
    weft__vulkan_stream stream;
    weft__vulkan_profile profile;
    int index;
    bool failed[WEFT__VULKAN_FEATURE_COUNT]; /* in the self-test: not used */
    char description[1280];
};

/* Devices in the order of their numbers: discrete cards, integrated ones, virtual ones, software.
 */
int weft__vulkan_physical_count(void);

/* Fills *out; fails naming what the device lacks of what Weft cannot do without. */
weft_status weft__vulkan_probe(int index, weft__vulkan_physical *out);

bool weft__vulkan_has_extension(const weft__vulkan_instance *v, VkPhysicalDevice device,
                                const char *name);

/* The logical device with the features that are used. */
weft_status weft__vulkan_create(const weft__vulkan_physical *physical, VkDevice *out);

/* Name, driver, memory and features as a text. */
void weft__vulkan_describe(const weft__vulkan_device *d, char *out, size_t size);

const char *weft__vulkan_feature_name(weft__vulkan_feature feature);

#endif
