/* backends/vulkan/own.c -- the public functions for user-defined kernels. */
#include "weft/vulkan.h"

#include <string.h>

#include "backends/vulkan/dispatch.h"

enum { SPIRV_MAGIC = 0x07230203, SPIRV_HEADER = 5 };

static weft_status check(const weft_call *call, const weft_vulkan_launch *l)
{
    const weft_vulkan_shader *s = l->shader;
    if (!s || !s->words || s->n_words <= SPIRV_HEADER || s->words[0] != SPIRV_MAGIC) {
        return weft_fail(WEFT_INVALID, "vulkan_dispatch: %s: expected a shader of SPIR-V words",
                         call->op->name);
    }
    if (l->n_constants < 0 || l->n_constants > WEFT_VULKAN_MAX_CONSTANTS ||
        l->push_bytes > WEFT_VULKAN_MAX_PUSH || l->push_bytes % 4 != 0) {
        return weft_fail(WEFT_INVALID,
                         "vulkan_dispatch: %s: expected at most %d constants and %d bytes of push "
                         "constants, a multiple of 4, got %d and %u",
                         call->op->name, WEFT_VULKAN_MAX_CONSTANTS, WEFT_VULKAN_MAX_PUSH,
                         l->n_constants, (unsigned)l->push_bytes);
    }
    return WEFT_OK;
}

weft_status weft_vulkan_dispatch(const weft_call *call, const weft_vulkan_launch *launch)
{
    weft_status status = check(call, launch);
    if (status != WEFT_OK) {
        return status;
    }
    weft__vulkan_launch l = {.shader = launch->shader,
                             .n_constants = launch->n_constants,
                             .push = launch->push,
                             .push_bytes = launch->push_bytes,
                             .groups = launch->groups};
    memcpy(l.constants, launch->constants, sizeof launch->constants);
    return weft__vulkan_dispatch(call, &l);
}

uint64_t weft_vulkan_address(const weft_tensor *t)
{
    return weft__vulkan_address(t);
}

uint64_t weft_vulkan_workspace(const weft_call *call)
{
    return weft__vulkan_workspace(call);
}

bool weft_vulkan_fits(const weft_call *call)
{
    return weft__vulkan_fits(call);
}
