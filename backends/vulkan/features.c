/* backends/vulkan/features.c -- enumerates devices, and determines which features they have and
 * which are used. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/vulkan/device.h"
#include "weft/memory.h"

enum { MAX_DEVICES = 16 };

static const char *const features[WEFT__VULKAN_FEATURE_COUNT] = {
    [WEFT__VULKAN_FLOAT64] = "float64",
    [WEFT__VULKAN_INT64] = "int64",
    [WEFT__VULKAN_STORAGE8] = "storage8",
    [WEFT__VULKAN_HOST] = "host",
    [WEFT__VULKAN_BUDGET] = "budget",
    [WEFT__VULKAN_TRANSFER] = "transfer",
    [WEFT__VULKAN_SUBNORMALS] = "subnormals",
    [WEFT__VULKAN_MATRIX] = "matrix",
    [WEFT__VULKAN_MATRIX_BFLOAT16] = "matrix-bfloat16",
};

const char *weft__vulkan_feature_name(weft__vulkan_feature feature)
{
    return features[feature];
}

/* Reads WEFT_VULKAN_DISABLE or WEFT_VULKAN_ENABLE: names of features, separated by commas; "all"
 * means every one. */
static weft_status read_names(const char *variable, bool named[WEFT__VULKAN_FEATURE_COUNT])
{
    const char *at = getenv(variable);
    memset(named, 0, WEFT__VULKAN_FEATURE_COUNT * sizeof *named);
    while (at && *at) {
        const size_t word = strcspn(at, ",");
        const bool all = word == 3 && strncmp(at, "all", word) == 0;
        bool known = all || word == 0;
        for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
            bool is = all || (strlen(features[i]) == word && strncmp(at, features[i], word) == 0);
            named[i] = named[i] || is;
            known = known || is;
        }
        if (!known) {
            return weft_fail(WEFT_INVALID,
                             "vulkan: %s: expected float64, int64, storage8, host, budget, "
                             "transfer, subnormals, matrix, matrix-bfloat16 or all, got '%.*s'",
                             variable, (int)word, at);
        }
        at += word + (at[word] == ',');
    }
    return WEFT_OK;
}

/* ---- enumeration ---------------------------------------------------------------------------- */

static struct {
    pthread_once_t once;
    int n, present; /* present: before WEFT_VULKAN_DEVICES */
    VkPhysicalDevice at[MAX_DEVICES];
    bool malformed; /* WEFT_VULKAN_DEVICES */
} devices = {.once = PTHREAD_ONCE_INIT};

static int rank_of(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
        return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
        return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
        return 2;
    default:
        return 3;
    }
}

static int device_rank(const weft__vulkan_instance *v, VkPhysicalDevice device)
{
    VkPhysicalDeviceProperties2 p = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    v->GetPhysicalDeviceProperties2(device, &p);
    return rank_of(p.properties.deviceType);
}

/* Replaces the devices by those that WEFT_VULKAN_DEVICES lists. One that is listed twice is opened
 * twice, which makes two devices of it. */
static void select_devices(const char *list)
{
    VkPhysicalDevice all[MAX_DEVICES];
    memcpy(all, devices.at, sizeof all);
    devices.n = 0;
    for (const char *at = list; !devices.malformed; at++) {
        char *end;
        const long i = strtol(at, &end, 10);
        devices.malformed = end == at || (*end != ',' && *end != '\0') || i < 0 ||
                            i >= devices.present || devices.n == MAX_DEVICES;
        if (!devices.malformed) {
            devices.at[devices.n++] = all[i];
        }
        if (*end == '\0') {
            break;
        }
        at = end;
    }
    devices.n = devices.malformed ? 0 : devices.n;
}

static void enumerate(void)
{
    const weft__vulkan_instance *v = weft__vulkan_instance_get();
    if (!v) {
        return;
    }
    VkPhysicalDevice found[MAX_DEVICES];
    uint32_t n = MAX_DEVICES;
    VkResult result = v->EnumeratePhysicalDevices(v->handle, &n, found);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
        return;
    }
    for (int rank = 0; rank < 4; rank++) { /* keeps the order within a rank */
        for (uint32_t i = 0; i < n; i++) {
            if (device_rank(v, found[i]) == rank) {
                devices.at[devices.n++] = found[i];
            }
        }
    }
    devices.present = devices.n;
    const char *list = getenv("WEFT_VULKAN_DEVICES");
    if (list && *list && devices.n > 0) {
        select_devices(list);
    }
}

int weft__vulkan_physical_count(void)
{
    pthread_once(&devices.once, enumerate);
    return devices.n;
}

/* ---- probing -------------------------------------------------------------------------------- */

bool weft__vulkan_has_extension(const weft__vulkan_instance *v, VkPhysicalDevice device,
                                const char *name)
{
    uint32_t n = 0;
    if (v->EnumerateDeviceExtensionProperties(device, NULL, &n, NULL) != VK_SUCCESS || n == 0) {
        return false;
    }
    VkExtensionProperties *all = weft_calloc(n, sizeof *all);
    bool found = false;
    if (all && v->EnumerateDeviceExtensionProperties(device, NULL, &n, all) >= 0) {
        for (uint32_t i = 0; i < n && !found; i++) {
            found = strcmp(all[i].extensionName, name) == 0;
        }
    }
    weft_free(all);
    return found;
}

/* The feature structs of the query, chained. */
typedef struct feature_chain {
    VkPhysicalDeviceFeatures2 core;
    VkPhysicalDeviceVulkan11Features v11;
    VkPhysicalDeviceVulkan12Features v12;
} feature_chain;

static void chain(feature_chain *f)
{
    *f = (feature_chain){
        .core = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f->v11},
        .v11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &f->v12},
        .v12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES},
    };
}

/* The first family that computes, and the first that only copies. */
static bool find_queues(const weft__vulkan_instance *v, weft__vulkan_physical *p)
{
    const VkQueueFlags computes = VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT;
    VkQueueFamilyProperties families[32];
    uint32_t n = 32;
    bool found = false;
    v->GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, families);
    for (uint32_t i = n; i-- > 0;) {
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            p->queue_family = i;
            p->timestamp_bits = families[i].timestampValidBits;
            found = true;
        } else if (families[i].queueFlags & VK_QUEUE_TRANSFER_BIT &&
                   !(families[i].queueFlags & computes)) {
            p->transfer_family = i;
            p->present[WEFT__VULKAN_TRANSFER] = true;
        }
    }
    return found;
}

/* Whether the host can map the device's own memory. */
static bool has_mapped_memory(const weft__vulkan_instance *v, VkPhysicalDevice device)
{
    const VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                         VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                         VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    v->GetPhysicalDeviceMemoryProperties2(device, &m);
    const VkPhysicalDeviceMemoryProperties *p = &m.memoryProperties;
    VkDeviceSize largest = 0, mapped_heap = 0;
    for (uint32_t i = 0; i < p->memoryTypeCount; i++) {
        VkDeviceSize size = p->memoryHeaps[p->memoryTypes[i].heapIndex].size;
        VkMemoryPropertyFlags flags = p->memoryTypes[i].propertyFlags;
        if (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) {
            largest = size > largest ? size : largest;
        }
        if ((flags & mapped) == mapped) {
            mapped_heap = size > mapped_heap ? size : mapped_heap;
        }
    }
    return mapped_heap > 0 && mapped_heap == largest; /* more than a window of 256 MiB */
}

static weft_status probe_features(const weft__vulkan_instance *v, weft__vulkan_physical *p,
                                  const feature_chain *f)
{
    bool disabled[WEFT__VULKAN_FEATURE_COUNT], enabled[WEFT__VULKAN_FEATURE_COUNT];
    weft_status status = read_names("WEFT_VULKAN_DISABLE", disabled);
    status = status == WEFT_OK ? read_names("WEFT_VULKAN_ENABLE", enabled) : status;
    p->present[WEFT__VULKAN_FLOAT64] = f->core.features.shaderFloat64;
    p->present[WEFT__VULKAN_INT64] = f->core.features.shaderInt64;
    p->present[WEFT__VULKAN_STORAGE8] = f->v12.storageBuffer8BitAccess;
    p->present[WEFT__VULKAN_HOST] = has_mapped_memory(v, p->handle);
    p->present[WEFT__VULKAN_BUDGET] =
        weft__vulkan_has_extension(v, p->handle, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    /* If float32 cannot be set independently of widths that are not used here, nothing is
     * requested. */
    p->present[WEFT__VULKAN_SUBNORMALS] = p->float_controls.denormBehaviorIndependence !=
                                              VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE &&
                                          p->float_controls.shaderDenormPreserveFloat32;
    weft__vulkan_cores_probe(v, p);
    for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
        p->used[i] = p->present[i] && !disabled[i];
    }
    p->used[WEFT__VULKAN_MATRIX] =
        p->used[WEFT__VULKAN_MATRIX] &&
        (p->cores.usual || (status == WEFT_OK && enabled[WEFT__VULKAN_MATRIX]));
    weft__vulkan_cores_restrict(p);
    return status;
}

static const char *missing_feature(const weft__vulkan_physical *p, const feature_chain *f)
{
    if (p->properties.apiVersion < VK_API_VERSION_1_2) {
        return "Vulkan 1.2";
    }
    if (!f->v12.bufferDeviceAddress) {
        return "bufferDeviceAddress";
    }
    if (!f->v11.storageBuffer16BitAccess) {
        return "storageBuffer16BitAccess";
    }
    if (!f->v12.timelineSemaphore) {
        return "timelineSemaphore";
    }
    return f->v12.scalarBlockLayout ? NULL : "scalarBlockLayout";
}

weft_status weft__vulkan_probe(int index, weft__vulkan_physical *out)
{
    const weft__vulkan_instance *v = weft__vulkan_instance_get();
    if (!v) {
        return weft_error_status();
    }
    const int n = weft__vulkan_physical_count();
    if (devices.malformed) {
        return weft_fail(WEFT_INVALID,
                         "vulkan: WEFT_VULKAN_DEVICES: expected numbers of devices, from 0 to %d, "
                         "separated by commas, got '%s'",
                         devices.present - 1, weft_printable(getenv("WEFT_VULKAN_DEVICES")));
    }
    if (index < 0 || index >= n) {
        return weft_fail(WEFT_DEVICE, "vulkan: no driver offers a device (Debian: "
                                      "mesa-vulkan-drivers, or the card's own)");
    }
    *out = (weft__vulkan_physical){.handle = devices.at[index]};
    out->driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    out->subgroup.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    out->float_controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    VkPhysicalDeviceMaintenance3Properties limits = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceProperties2 properties = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &out->driver};
    out->driver.pNext = &out->subgroup;
    out->subgroup.pNext = &out->float_controls;
    out->float_controls.pNext = &limits;
    v->GetPhysicalDeviceProperties2(out->handle, &properties);
    out->driver.pNext = out->subgroup.pNext = out->float_controls.pNext = NULL;
    out->properties = properties.properties;
    out->largest_allocation = limits.maxMemoryAllocationSize;

    feature_chain f;
    chain(&f);
    v->GetPhysicalDeviceFeatures2(out->handle, &f.core);
    const char *missing = missing_feature(out, &f);
    if (!missing && !find_queues(v, out)) {
        missing = "a compute queue";
    }
    if (missing) {
        return weft_fail(WEFT_DEVICE, "vulkan:%d: %s (driver %s) has no %s, which Weft needs",
                         index, out->properties.deviceName, out->driver.driverName, missing);
    }
    return probe_features(v, out, &f);
}

/* ---- the logical device --------------------------------------------------------------------- */

weft_status weft__vulkan_create(const weft__vulkan_physical *physical, VkDevice *out)
{
    const weft__vulkan_instance *v = weft__vulkan_instance_get();
    const bool *used = physical->used;
    weft__vulkan_core_features cores;
    feature_chain f;
    chain(&f);
    f.core.features.shaderFloat64 = used[WEFT__VULKAN_FLOAT64];
    f.core.features.shaderInt64 = used[WEFT__VULKAN_INT64];
    f.v11.storageBuffer16BitAccess = VK_TRUE;
    f.v12.storageBuffer8BitAccess = used[WEFT__VULKAN_STORAGE8];
    f.v12.bufferDeviceAddress = VK_TRUE;
    f.v12.timelineSemaphore = VK_TRUE;
    f.v12.scalarBlockLayout = VK_TRUE;

    const char *extensions[1 + sizeof cores.names / sizeof *cores.names];
    uint32_t n_extensions = 0;
    if (used[WEFT__VULKAN_BUDGET]) {
        extensions[n_extensions++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    }
    void *chained = &f.core;
    if (used[WEFT__VULKAN_MATRIX]) {
        chained = weft__vulkan_cores_enable(&physical->cores, &cores, &f.v12, &f.core);
        for (int i = 0; i < cores.n_names; i++) {
            extensions[n_extensions++] = cores.names[i];
        }
    }
    const float priority = 1;
    VkDeviceQueueCreateInfo queues[2];
    for (int i = 0; i < 2; i++) {
        queues[i] = (VkDeviceQueueCreateInfo){
            .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
            .queueFamilyIndex = i == 0 ? physical->queue_family : physical->transfer_family,
            .queueCount = 1,
            .pQueuePriorities = &priority,
        };
    }
    const VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = chained,
        .queueCreateInfoCount = used[WEFT__VULKAN_TRANSFER] ? 2 : 1,
        .pQueueCreateInfos = queues,
        .enabledExtensionCount = n_extensions,
        .ppEnabledExtensionNames = extensions,
    };
    VkResult result = v->CreateDevice(physical->handle, &info, NULL, out);
    return result == VK_SUCCESS ? WEFT_OK : weft__vulkan_fail("vkCreateDevice", result);
}

/* Appends within the size of the buffer. */
static void add(char *out, size_t size, const char *format, ...) WEFT_PRINTF(3, 4);
static void add(char *out, size_t size, const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, size - used, format, arguments);
    va_end(arguments);
}

void weft__vulkan_describe(const weft__vulkan_device *d, char *out, size_t size)
{
    const weft__vulkan_physical *p = &d->physical;
    VkDeviceSize heap, available;
    weft__vulkan_heap(d, &heap, &available);
    const double gib = 1 << 30;
    snprintf(out, size, "%s, Vulkan %u.%u, %s %s", p->properties.deviceName,
             VK_API_VERSION_MAJOR(p->properties.apiVersion),
             VK_API_VERSION_MINOR(p->properties.apiVersion), p->driver.driverName,
             p->driver.driverInfo);
    if (p->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        add(out, size, " (in software: right, but slow)");
    }
    add(out, size, "; %.1f GiB of memory", (double)heap / gib);
    if (p->used[WEFT__VULKAN_BUDGET]) {
        add(out, size, " (%.1f free)", (double)available / gib);
    }
    add(out, size, "; subgroups of %u", p->subgroup.subgroupSize);
    for (int state = 0; state < 3; state++) {
        static const char *const titles[] = {"; uses ", "; switched off ", "; lacks "};
        int n = 0;
        for (int i = 0; i < WEFT__VULKAN_FEATURE_COUNT; i++) {
            int is = p->used[i] ? 0 : p->present[i] ? 1 : 2;
            if (is == state) {
                add(out, size, "%s%s", n++ ? ", " : titles[state], features[i]);
                if (i == WEFT__VULKAN_MATRIX && state < 2) {
                    add(out, size, " (%s)", p->cores.about);
                }
            }
        }
    }
}
