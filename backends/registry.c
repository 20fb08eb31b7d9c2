/* backends/registry.c -- the backends that this build has. */
#include "backends/registry.h"

#include "backends/cpu/backend.h"

#ifdef WEFT_HAVE_VULKAN
#include "backends/vulkan/backend.h"
#endif

const weft_backend *const weft__backends[] = {
    &weft__cpu_backend,
#ifdef WEFT_HAVE_VULKAN
    &weft__vulkan_backend,
#endif
};
const int weft__backend_count = sizeof weft__backends / sizeof *weft__backends;
