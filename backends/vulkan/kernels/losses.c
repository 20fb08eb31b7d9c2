/* backends/vulkan/kernels/losses.c -- cross-entropy of dense rows and its gradient; AdamW, also
 * with moments in 16 and 8 bits. */
#include "backends/vulkan/kernels/losses.h"

#include "backends/vulkan/shaders.h"
#include "weft/op_params.h"

enum { GROUP = 256, ADAMW_GROUP = 4 * GROUP };

/* ---- Cross-entropy -------------------------------------------------------------------------- */

static weft_status cross_entropy(const weft_call *call, bool gradient)
{
    const weft_tensor *logits = &call->in[0], *targets = &call->in[1], *out = &call->out[0];
    const weft_tensor *ct = gradient ? &call->in[2] : out; /* the losses have this dtype */
    int64_t V = logits->shape.at[logits->shape.n - 1];
    struct {
        uint64_t logits, targets, ct, to, fault;
        uint32_t fault_code, rows, V, unused;
    } push = {.logits = weft__vulkan_address(logits),
              .targets = weft__vulkan_address(targets),
              .ct = weft__vulkan_address(ct),
              .to = weft__vulkan_address(out),
              .fault = weft__vulkan_fault(call),
              .fault_code =
                  weft__vulkan_fault_code(call, "%s: target %lld: expected below %lld", V),
              .rows = (uint32_t)weft_tensor_size(targets),
              .V = (uint32_t)V};
    bool wide = logits->dtype == WEFT_FLOAT64 || ct->dtype == WEFT_FLOAT64;
    weft__vulkan_launch launch = {.shader = wide ? &weft__shader_cross_entropy_f64
                                                 : &weft__shader_cross_entropy,
                                  .n_constants = 4,
                                  .constants = {(uint32_t)logits->dtype, (uint32_t)targets->dtype,
                                                (uint32_t)ct->dtype, gradient},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = push.rows};
    return weft__vulkan_dispatch(call, &launch);
}

weft_status weft__vulkan_cross_entropy(const weft_call *call)
{
    return cross_entropy(call, false);
}

weft_status weft__vulkan_cross_entropy_vjp(const weft_call *call)
{
    return cross_entropy(call, true);
}

/* ---- AdamW ---------------------------------------------------------------------------------- */

typedef struct adamw_addresses {
    uint64_t parameter, gradient, m, v, hyper, new_parameter, new_m, new_v;
} adamw_addresses;

typedef struct adamw_push {
    adamw_addresses at;
    float beta1, rest1, beta2, rest2, eps, decay;
    uint32_t count, unused;
} adamw_push;

typedef struct adamw_push_wide {
    adamw_addresses at;
    double beta1, rest1, beta2, rest2, eps, decay;
    uint32_t count, unused;
} adamw_push_wide;

static adamw_addresses addresses_of(const weft_call *call)
{
    return (adamw_addresses){.parameter = weft__vulkan_address(&call->in[0]),
                             .gradient = weft__vulkan_address(&call->in[1]),
                             .m = weft__vulkan_address(&call->in[2]),
                             .v = weft__vulkan_address(&call->in[3]),
                             .hyper = weft__vulkan_address(&call->in[4]),
                             .new_parameter = weft__vulkan_address(&call->out[0]),
                             .new_m = weft__vulkan_address(&call->out[1]),
                             .new_v = weft__vulkan_address(&call->out[2])};
}

weft_status weft__vulkan_adamw(const weft_call *call)
{
    const weft_adamw_params *k = call->params;
    const weft_tensor *in = call->in;
    uint32_t count = (uint32_t)weft_tensor_size(&in[0]);
    adamw_push narrow = {.at = addresses_of(call),
                         .beta1 = (float)k->beta1,
                         .rest1 = (float)(1 - k->beta1),
                         .beta2 = (float)k->beta2,
                         .rest2 = (float)(1 - k->beta2),
                         .eps = (float)k->eps,
                         .decay = (float)k->decay,
                         .count = count};
    adamw_push_wide wide = {.at = narrow.at,
                            .beta1 = k->beta1,
                            .rest1 = 1 - k->beta1,
                            .beta2 = k->beta2,
                            .rest2 = 1 - k->beta2,
                            .eps = k->eps,
                            .decay = k->decay,
                            .count = count};
    bool is_wide = false;
    for (int i = 0; i < call->n_inputs; i++) {
        is_wide = is_wide || in[i].dtype == WEFT_FLOAT64;
    }
    weft__vulkan_launch launch = {.shader = is_wide ? &weft__shader_adamw_f64 : &weft__shader_adamw,
                                  .n_constants = 4,
                                  .constants = {(uint32_t)in[0].dtype, (uint32_t)in[1].dtype,
                                                (uint32_t)in[2].dtype, (uint32_t)in[4].dtype},
                                  .push = is_wide ? (const void *)&wide : (const void *)&narrow,
                                  .push_bytes = is_wide ? sizeof wide : sizeof narrow,
                                  .groups = weft__vulkan_groups(count, ADAMW_GROUP),
                                  .batches = true};
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- AdamW with 16-bit moments --------------------------------------------------------------- */

bool weft__vulkan_adamw16bit_fits(const weft_call *call)
{
    return weft__vulkan_fits(call) && call->in[0].dtype != WEFT_FLOAT64 &&
           call->in[1].dtype != WEFT_FLOAT64 && call->in[2].dtype == WEFT_BFLOAT16 &&
           call->in[3].dtype == WEFT_BFLOAT16 && call->in[4].dtype == WEFT_FLOAT32;
}

weft_status weft__vulkan_adamw16bit(const weft_call *call)
{
    enum { KEY = 5, ELEMENTS = 8 * GROUP }; /* elements of a workgroup */
    const weft_adamw_params *k = call->params;
    const weft_tensor *in = call->in;
    struct {
        uint64_t in[KEY + 1], out[3];
        float beta1, rest1, beta2, rest2, eps, decay;
        uint32_t count, unused;
    } push = {.beta1 = (float)k->beta1,
              .rest1 = (float)(1 - k->beta1),
              .beta2 = (float)k->beta2,
              .rest2 = (float)(1 - k->beta2),
              .eps = (float)k->eps,
              .decay = (float)k->decay,
              .count = (uint32_t)weft_tensor_size(&in[0])};
    uint64_t all = push.count % 8 ? 1 : 0; /* the bits that any address has */
    for (int i = 0; i <= KEY; i++)
        push.in[i] = weft__vulkan_address(&in[i]);
    for (int i = 0; i < 3; i++)
        push.out[i] = weft__vulkan_address(&call->out[i]);
    for (int i = 0; i < 4; i++)
        all |= push.in[i] | push.out[i % 3];
    weft__vulkan_launch launch = {
        .shader = &weft__shader_adamw16bit,
        .n_constants = 3,
        .constants = {(uint32_t)in[0].dtype, (uint32_t)in[1].dtype, all % 16 == 0},
        .push = &push,
        .push_bytes = sizeof push,
        .groups = weft__vulkan_groups((push.count + 1) / 2, ELEMENTS / 2),
        .batches = true};
    return weft__vulkan_dispatch(call, &launch);
}

/* ---- AdamW with 8-bit moments ---------------------------------------------------------------- */

bool weft__vulkan_adamw8bit_fits(const weft_call *call)
{
    return weft__vulkan_fits(call) && call->in[0].dtype != WEFT_FLOAT64 &&
           call->in[1].dtype != WEFT_FLOAT64 && call->in[6].dtype == WEFT_FLOAT32;
}

weft_status weft__vulkan_adamw8bit(const weft_call *call)
{
    const weft_adamw_params *k = call->params;
    const weft_tensor *in = call->in;
    struct {
        uint64_t in[7], out[5];
        float beta1, rest1, beta2, rest2, eps, decay;
        uint32_t count, blocks;
    } push = {.beta1 = (float)k->beta1,
              .rest1 = (float)(1 - k->beta1),
              .beta2 = (float)k->beta2,
              .rest2 = (float)(1 - k->beta2),
              .eps = (float)k->eps,
              .decay = (float)k->decay,
              .count = (uint32_t)weft_tensor_size(&in[0]),
              .blocks = (uint32_t)weft_tensor_size(&in[4])};
    for (int i = 0; i < 7; i++)
        push.in[i] = weft__vulkan_address(&in[i]);
    for (int i = 0; i < 5; i++)
        push.out[i] = weft__vulkan_address(&call->out[i]);
    weft__vulkan_launch launch = {.shader = &weft__shader_adamw8bit,
                                  .n_constants = 2,
                                  .constants = {(uint32_t)in[0].dtype, (uint32_t)in[1].dtype},
                                  .push = &push,
                                  .push_bytes = sizeof push,
                                  .groups = push.blocks,
                                  .batches = true};
    return weft__vulkan_dispatch(call, &launch);
}
