/* backends/vulkan/loader.c -- opens the Vulkan loader, creates the instance, and collects
 * validation messages. */
#include "backends/vulkan/loader.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    pthread_once_t once;
    bool ready;
    weft_status status;
    char message[512]; /* why the instance could not be created */
    weft__vulkan_instance instance;
    pthread_mutex_t lock;
    char complaint[2048]; /* of the validation layer: the first message not yet reported */
    char told[2048];
} vulkan = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

static const char *result_text(VkResult result)
{
    switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
        return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
        return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
        return "initialization failed";
    case VK_ERROR_DEVICE_LOST:
        return "the device was lost";
    case VK_ERROR_LAYER_NOT_PRESENT:
        return "the layer is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
        return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT:
        return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
        return "no driver is installed (Debian: mesa-vulkan-drivers, or the card's own)";
    case VK_ERROR_TOO_MANY_OBJECTS:
        return "too many objects";
    default:
        return NULL;
    }
}

weft_status weft__vulkan_fail(const char *call, VkResult result)
{
    weft_status status =
        result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY
            ? WEFT_MEMORY
            : WEFT_DEVICE;
    const char *text = result_text(result);
    return text ? weft_fail(status, "vulkan: %s: %s", call, text)
                : weft_fail(status, "vulkan: %s: error %d", call, (int)result);
}

/* ---- validation ----------------------------------------------------------------------------- */

static VKAPI_ATTR VkBool32 VKAPI_CALL listen(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                             VkDebugUtilsMessageTypeFlagsEXT types,
                                             const VkDebugUtilsMessengerCallbackDataEXT *data,
                                             void *unused)
{
    (void)types;
    (void)unused;
    /* Messages of the loader concern the system's drivers and layers, not this program. */
    bool validation = data->pMessageIdName && strcmp(data->pMessageIdName, "Loader Message") != 0;
    if (severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT && validation) {
        fprintf(stderr, "validation: %s\n", data->pMessage);
        pthread_mutex_lock(&vulkan.lock);
        if (!vulkan.complaint[0]) {
            snprintf(vulkan.complaint, sizeof vulkan.complaint, "%s", data->pMessage);
        }
        pthread_mutex_unlock(&vulkan.lock);
    }
    return VK_FALSE;
}

const char *weft__vulkan_complaint(void)
{
    pthread_mutex_lock(&vulkan.lock);
    bool any = vulkan.complaint[0] != '\0';
    if (any) {
        memcpy(vulkan.told, vulkan.complaint, sizeof vulkan.told);
        vulkan.complaint[0] = '\0';
    }
    pthread_mutex_unlock(&vulkan.lock);
    return any ? vulkan.told : NULL;
}

/* ---- the instance --------------------------------------------------------------------------- */

static VkResult create_instance(PFN_vkGetInstanceProcAddr get, VkInstance *out)
{
    static const char *const layer = "VK_LAYER_KHRONOS_validation";
    static const char *const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    const char *wanted = getenv("WEFT_VULKAN_VALIDATE");
    bool validate = wanted && wanted[0] && strcmp(wanted, "0") != 0;

    const VkValidationFeatureEnableEXT checks[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkValidationFeaturesEXT features = {
        .sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
        .enabledValidationFeatureCount = 1,
        .pEnabledValidationFeatures = checks,
    };
    const VkDebugUtilsMessengerCreateInfoEXT messenger = {
        .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
        .pNext = &features,
        .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                           VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
        .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                       VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
        .pfnUserCallback = listen,
    };
    const VkApplicationInfo application = {
        .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
        .pApplicationName = "weft",
        .apiVersion = VK_API_VERSION_1_3, /* the highest version used; 1.2 is enough */
    };
    const VkInstanceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
        .pNext = validate ? &messenger : NULL,
        .pApplicationInfo = &application,
        .enabledLayerCount = validate,
        .ppEnabledLayerNames = &layer,
        .enabledExtensionCount = validate,
        .ppEnabledExtensionNames = &extension,
    };
    PFN_vkCreateInstance create = (PFN_vkCreateInstance)get(NULL, "vkCreateInstance");
    VkResult result = create ? create(&info, NULL, out) : VK_ERROR_INITIALIZATION_FAILED;
    if (result == VK_SUCCESS && validate) {
        PFN_vkCreateDebugUtilsMessengerEXT attach =
            (PFN_vkCreateDebugUtilsMessengerEXT)get(*out, "vkCreateDebugUtilsMessengerEXT");
        VkDebugUtilsMessengerCreateInfoEXT alone = messenger;
        alone.pNext = NULL;
        VkDebugUtilsMessengerEXT handle;
        result = attach ? attach(*out, &alone, NULL, &handle) : VK_ERROR_LAYER_NOT_PRESENT;
    }
    return result;
}

/* A function of the loader. The union avoids a cast that ISO C does not define. */
static PFN_vkGetInstanceProcAddr find_entry(void *library)
{
    union {
        void *object;
        PFN_vkGetInstanceProcAddr function;
    } entry = {.object = dlsym(library, "vkGetInstanceProcAddr")};
    return entry.function;
}

static weft_status make_instance(void)
{
    void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return weft_fail(WEFT_DEVICE, "vulkan: no Vulkan loader: %s (Debian: libvulkan1)",
                         dlerror());
    }
    PFN_vkGetInstanceProcAddr get = find_entry(library);
    if (!get) {
        return weft_fail(WEFT_DEVICE, "vulkan: libvulkan.so.1 is no Vulkan loader");
    }
    weft__vulkan_instance *v = &vulkan.instance;
    VkResult result = create_instance(get, &v->handle);
    if (result != VK_SUCCESS) {
        return weft__vulkan_fail("vkCreateInstance", result);
    }
    v->GetInstanceProcAddr = get;
    bool complete = true;
#define FIND(name)                                                                                 \
    v->name = (PFN_vk##name)get(v->handle, "vk" #name);                                            \
    complete = complete && v->name;
    WEFT__VULKAN_INSTANCE_FUNCTIONS(FIND)
#undef FIND
    return complete ? WEFT_OK : weft_fail(WEFT_DEVICE, "vulkan: the loader is older than 1.2");
}

static void start(void)
{
    vulkan.status = make_instance();
    vulkan.ready = vulkan.status == WEFT_OK;
    if (!vulkan.ready) {
        snprintf(vulkan.message, sizeof vulkan.message, "%s", weft_error_message());
    }
}

const weft__vulkan_instance *weft__vulkan_instance_get(void)
{
    pthread_once(&vulkan.once, start);
    if (!vulkan.ready) {
        weft_fail(vulkan.status, "%s", vulkan.message);
    }
    return vulkan.ready ? &vulkan.instance : NULL;
}

weft_status weft__vulkan_load_device(VkDevice device, weft__vulkan_functions *out)
{
    PFN_vkGetDeviceProcAddr get = vulkan.instance.GetDeviceProcAddr;
    const char *missing = NULL;
#define FIND(name)                                                                                 \
    out->name = (PFN_vk##name)get(device, "vk" #name);                                             \
    missing = out->name ? missing : "vk" #name;
    WEFT__VULKAN_DEVICE_FUNCTIONS(FIND)
#undef FIND
    return missing ? weft_fail(WEFT_DEVICE, "vulkan: the driver has no %s", missing) : WEFT_OK;
}
