/* backends/vulkan/kernels/make.c -- ops that compute each element from its index or from one
 * element: arange, random bits, magnitudes of complex numbers. */
#include <math.h>

#include "backends/vulkan/kernels/structure.h"
#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 256 };

/* ---- arange --------------------------------------------------------------------------------- */

typedef struct arange_integers {
    uint64_t to;
    int32_t start, step;
    uint32_t count;
} arange_integers;

typedef struct arange_doubles {
    uint64_t to;
    double start, step;
    uint32_t count;
} arange_doubles;

/* Whether every value is a 32-bit integer. */
static bool is_narrow(const weft_call *call)
{
    const weft_full_params *p = call->params;
    double last = p->value + (double)weft_tensor_size(&call->out[0]) * p->step;
    return p->value == floor(p->value) && p->step == floor(p->step) && fabs(p->value) < 0x1p31 &&
           fabs(p->step) < 0x1p31 && fabs(last) < 0x1p31;
}

bool weft__vulkan_arange_fits(const weft_call *call)
{
    weft_dtype dtype = call->out[0].dtype;
    return weft__vulkan_fits(call) &&
           (weft_dtype_is_float(dtype) || weft_dtype_is_integer(dtype)) &&
           (weft__vulkan_has(call, WEFT__VULKAN_FLOAT64) ||
            (is_narrow(call) && dtype != WEFT_FLOAT64));
}

weft_status weft__vulkan_arange(const weft_call *call)
{
    const weft_full_params *p = call->params;
    const weft_tensor *out = &call->out[0];
    uint64_t to = weft__vulkan_address(out);
    uint32_t count = (uint32_t)weft_tensor_size(out), size = (uint32_t)weft_dtype_size(out->dtype);
    bool narrow = is_narrow(call) && out->dtype != WEFT_FLOAT64;
    arange_integers integers = {.to = to, .count = count};
    arange_doubles doubles = {.to = to, .start = p->value, .step = p->step, .count = count};
    weft__vulkan_launch launch = {.shader = size == 1 ? &weft__shader_arange_f64_bytes
                                                      : &weft__shader_arange_f64,
                                  .n_constants = 2,
                                  .constants = {(uint32_t)out->dtype, size},
                                  .push = &doubles,
                                  .push_bytes = offsetof(arange_doubles, count) + sizeof count,
                                  .groups = weft__vulkan_groups(count, GROUP)};
    if (narrow) {
        integers.start = (int32_t)p->value;
        integers.step = (int32_t)p->step;
        launch.shader = size == 1 ? &weft__shader_arange_bytes : &weft__shader_arange;
        launch.push = &integers;
        launch.push_bytes = offsetof(arange_integers, count) + sizeof count;
    }
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- random_bits ---------------------------------------------------------------------------- */

/* Several keys only if the output of each begins at a word. */
bool weft__vulkan_random_bits_fits(const weft_call *call)
{
    const int64_t keys = weft_tensor_size(&call->in[0]) / 2;
    const int64_t bytes =
        weft_tensor_size(&call->out[0]) * (int64_t)weft_dtype_size(call->out[0].dtype);
    return weft__vulkan_fits(call) &&
           (call->in[0].shape.n == 1 || (keys > 0 && bytes / keys % 4 == 0));
}

weft_status weft__vulkan_random_bits(const weft_call *call)
{
    const weft_tensor *out = &call->out[0];
    int64_t size = (int64_t)weft_dtype_size(out->dtype);
    int64_t keys = weft_tensor_size(&call->in[0]) / 2;
    int64_t bytes = weft_tensor_size(out) * size / keys, words = (bytes + 3) / 4;
    struct {
        uint64_t key, to;
        uint32_t keys, blocks, pairs, words, tail;
    } push = {.keys = (uint32_t)keys,
              .key = weft__vulkan_address(&call->in[0]),
              .to = weft__vulkan_address(out),
              .blocks = (uint32_t)((words + 1) / 2),
              .pairs = (uint32_t)(words / 2),
              .words = (uint32_t)(bytes / 4),
              .tail = (uint32_t)(bytes % 4)};
    weft__vulkan_launch launch = {
        .shader = size == 1 ? &weft__shader_random_bits_bytes : &weft__shader_random_bits,
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups((uint64_t)push.blocks * push.keys, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- complex_abs ---------------------------------------------------------------------------- */

weft_status weft__vulkan_complex_abs(const weft_call *call)
{
    const weft_tensor *out = &call->out[0];
    struct {
        uint64_t x, to, count;
    } push = {weft__vulkan_address(&call->in[0]), weft__vulkan_address(out),
              (uint64_t)weft_tensor_size(out)};
    weft__vulkan_launch launch = {.shader = &weft__shader_complex_abs,
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = weft__vulkan_groups(push.count, GROUP)};
    return weft__vulkan_dispatch(call, &launch);
}
