/* backends/vulkan/dispatch.h -- launching a shader with its constants, arguments and number of
 * workgroups, for the backend's kernels. */
#ifndef BACKENDS_VULKAN_DISPATCH_H
#define BACKENDS_VULKAN_DISPATCH_H

#include "weft/vulkan.h"

enum {
    WEFT__VULKAN_MAX_CONSTANTS = 24,             /* the public limit is lower */
    WEFT__VULKAN_MAX_PUSH = WEFT_VULKAN_MAX_PUSH /* bytes; every device supports this */
};

/* Optional features that kernels may require. */
typedef enum weft__vulkan_feature {
    WEFT__VULKAN_FLOAT64,         /* arithmetic in float64 */
    WEFT__VULKAN_INT64,           /* arithmetic in 64-bit integers */
    WEFT__VULKAN_STORAGE8,        /* storage of single bytes */
    WEFT__VULKAN_HOST,            /* device memory that the host can access */
    WEFT__VULKAN_BUDGET,          /* the amount of free device memory is known */
    WEFT__VULKAN_TRANSFER,        /* a queue that copies while kernels run */
    WEFT__VULKAN_SUBNORMALS,      /* shaders can be set to preserve subnormal float32 numbers */
    WEFT__VULKAN_MATRIX,          /* matrix cores with 16-bit inputs and float32 sums */
    WEFT__VULKAN_MATRIX_BFLOAT16, /* those with bfloat16 inputs */
    WEFT__VULKAN_FEATURE_COUNT
} weft__vulkan_feature;

/* SPIR-V of a .comp file (shaders.h, made by the build), or written at run time. A pipeline is
 * cached per shader address and constants. */
typedef weft_vulkan_shader weft__vulkan_shader;

typedef struct weft__vulkan_launch {
    const weft__vulkan_shader *shader;
    int n_constants; /* values of specialization constants 0, 1, ... */
    uint32_t constants[WEFT__VULKAN_MAX_CONSTANTS];
    const void
        *push; /* the push constant block, in scalar layout, which is the layout of C structs */
    uint32_t push_bytes;
    /* The offset of a word in the push constants that the shader adds to group_index(). Such a
     * launch is divided where it would take too long. 0: the shader has none. */
    uint32_t first_at;
    uint64_t groups;   /* number of workgroups; the shader gets its own by group_index() */
    uint32_t subgroup; /* required subgroup size, constant for a shader. 0: any */
    double work;       /* operations; 0: estimated from the bytes of the operands (pace.h) */
    /* A further launch of a call: needs no results of the call's earlier launches, and writes
     * elsewhere. */
    bool independent;
    /* The shader includes batch.glsl: it may run as a part of one dispatch for several launches. */
    bool batches;
} weft__vulkan_launch;

/* Records the launch, ordered after everything that wrote an input of the call, and after
 * everything that read or wrote its outputs and workspace. Launches of one call wait for each
 * other. With 0 groups nothing happens. */
weft_status weft__vulkan_dispatch(const weft_call *call, const weft__vulkan_launch *launch);

bool weft__vulkan_has(const weft_call *call, weft__vulkan_feature feature);

/* Bytes of shared memory that a workgroup may have. */
int64_t weft__vulkan_shared(const weft_call *call);

/* The device address of element 0, and that of the call's workspace. */
uint64_t weft__vulkan_address(const weft_tensor *t);
uint64_t weft__vulkan_workspace(const weft_call *call);

/* For rows: whether every operand spans fewer than 2^31 elements, and the device supports what the
 * dtypes need: FLOAT64 for float64, STORAGE8 to store single bytes. */
bool weft__vulkan_fits(const weft_call *call);

/* For shaders that can encounter invalid input (an index out of range): they write it to the
 * device's fault record and continue safely, and the evaluation fails when the host next waits.
 * `format` has %s for the op, then %lld for the offending value, then %lld for `limit`. In the push
 * block: Fault fault; uint fault_code; in the shader: report(p.fault, p.fault_code, value). */
uint64_t weft__vulkan_fault(const weft_call *call);
uint32_t weft__vulkan_fault_code(const weft_call *call, const char *format, int64_t limit);

/* Arguments for the next launch that do not fit into push constants: returns the device address of
 * a copy of `bytes` bytes; 0 with a message when out of memory. */
uint64_t weft__vulkan_record(const weft_call *call, const void *from, uint32_t bytes);

static inline uint64_t weft__vulkan_groups(uint64_t items, uint64_t per_group)
{
    return (items + per_group - 1) / per_group;
}

#endif
