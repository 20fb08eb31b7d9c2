/* backends/vulkan/loader.h -- the Vulkan loader, opened at run time so that programs start without
 * it, and the Vulkan functions that are used. */
#ifndef BACKENDS_VULKAN_LOADER_H
#define BACKENDS_VULKAN_LOADER_H

#include <stdbool.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "weft/status.h"

/* Functions of the instance, and of a device, without the prefix vk. */
#define WEFT__VULKAN_INSTANCE_FUNCTIONS(X)                                                         \
    X(EnumeratePhysicalDevices)                                                                    \
    X(GetPhysicalDeviceProperties2)                                                                \
    X(GetPhysicalDeviceFeatures2)                                                                  \
    X(GetPhysicalDeviceMemoryProperties2)                                                          \
    X(GetPhysicalDeviceQueueFamilyProperties)                                                      \
    X(EnumerateDeviceExtensionProperties)                                                          \
    X(CreateDevice)                                                                                \
    X(GetDeviceProcAddr)

#define WEFT__VULKAN_DEVICE_FUNCTIONS(X)                                                           \
    X(DestroyDevice)                                                                               \
    X(DeviceWaitIdle)                                                                              \
    X(GetDeviceQueue)                                                                              \
    X(QueueSubmit)                                                                                 \
    X(AllocateMemory)                                                                              \
    X(FreeMemory)                                                                                  \
    X(MapMemory)                                                                                   \
    X(CreateBuffer)                                                                                \
    X(DestroyBuffer)                                                                               \
    X(GetBufferMemoryRequirements)                                                                 \
    X(BindBufferMemory)                                                                            \
    X(GetBufferDeviceAddress)                                                                      \
    X(CreateSemaphore)                                                                             \
    X(DestroySemaphore)                                                                            \
    X(WaitSemaphores)                                                                              \
    X(GetSemaphoreCounterValue)                                                                    \
    X(CreateCommandPool)                                                                           \
    X(DestroyCommandPool)                                                                          \
    X(ResetCommandPool)                                                                            \
    X(AllocateCommandBuffers)                                                                      \
    X(BeginCommandBuffer)                                                                          \
    X(EndCommandBuffer)                                                                            \
    X(CmdPipelineBarrier)                                                                          \
    X(CmdBindPipeline)                                                                             \
    X(CmdPushConstants)                                                                            \
    X(CmdDispatch)                                                                                 \
    X(CmdFillBuffer)                                                                               \
    X(CmdCopyBuffer)                                                                               \
    X(CmdResetQueryPool)                                                                           \
    X(CmdWriteTimestamp)                                                                           \
    X(CreateQueryPool)                                                                             \
    X(DestroyQueryPool)                                                                            \
    X(GetQueryPoolResults)                                                                         \
    X(CreateShaderModule)                                                                          \
    X(DestroyShaderModule)                                                                         \
    X(CreatePipelineLayout)                                                                        \
    X(DestroyPipelineLayout)                                                                       \
    X(CreatePipelineCache)                                                                         \
    X(DestroyPipelineCache)                                                                        \
    X(GetPipelineCacheData)                                                                        \
    X(CreateComputePipelines)                                                                      \
    X(DestroyPipeline)

#define MEMBER(name) PFN_vk##name name;
typedef struct weft__vulkan_instance {
    VkInstance handle;
    PFN_vkGetInstanceProcAddr GetInstanceProcAddr;
    WEFT__VULKAN_INSTANCE_FUNCTIONS(MEMBER)
} weft__vulkan_instance;

typedef struct weft__vulkan_functions {
    WEFT__VULKAN_DEVICE_FUNCTIONS(MEMBER)
} weft__vulkan_functions;
#undef MEMBER

/* The process's instance, created at the first call. NULL, with a message: no loader or no driver.
 * WEFT_VULKAN_VALIDATE=1 loads the validation layer, including synchronization validation. */
const weft__vulkan_instance *weft__vulkan_instance_get(void);

/* Messages of the validation layer since the last call; NULL: none. */
const char *weft__vulkan_complaint(void);

weft_status weft__vulkan_load_device(VkDevice device, weft__vulkan_functions *out);

/* Reports "vkAllocateMemory: out of device memory". */
weft_status weft__vulkan_fail(const char *call, VkResult result);

#endif
