/* backends/registry.c -- the backends of this build. */
#include "backends/registry.h"

#include "backends/cpu/backend.h"
#include "weft/vulkan.h"

#ifdef WEFT_HAVE_VULKAN
#include "backends/vulkan/backend.h"
#endif

const weft_backend *const weft__backends[] = {
    &weft__cpu_backend,
#ifdef WEFT_HAVE_VULKAN
    &weft__vulkan_backend,
#endif
};
weft_status (*const weft__backend_traits[])(int index, weft_device_traits *out) = {
    weft__cpu_traits,
#ifdef WEFT_HAVE_VULKAN
    weft__vulkan_traits,
#endif
};
char *(*const weft__backend_inspect[])(weft_device *device) = {
    NULL,
#ifdef WEFT_HAVE_VULKAN
    weft__vulkan_inspect,
#endif
};
const int weft__backend_count = sizeof weft__backends / sizeof *weft__backends;

#ifndef WEFT_HAVE_VULKAN
/* The fallback for builds without Vulkan, so that programs with Vulkan kernels still link; it is
 * never called for a device. */
weft_status weft_vulkan_dispatch(const weft_call *call, const weft_vulkan_launch *launch)
{
    (void)call, (void)launch;
    return weft_fail(WEFT_UNSUPPORTED, "vulkan_dispatch: this build has no Vulkan backend");
}

uint64_t weft_vulkan_address(const weft_tensor *t)
{
    (void)t;
    return 0;
}

uint64_t weft_vulkan_workspace(const weft_call *call)
{
    (void)call;
    return 0;
}

bool weft_vulkan_fits(const weft_call *call)
{
    (void)call;
    return false;
}
#endif
