// backends/vulkan/shaders/batch.glsl -- arguments of a launch, or of several launches of a pipeline
// that are one dispatch.
//
// Included after common.glsl. The including file declares its arguments, which begin with an
// address, with
//
//     struct Arguments { Words first; ... };
//     BATCH_OF(Arguments, first)
//
// Then p has the arguments of this workgroup's launch. They are the push constants or, in a batch,
// number y of the records whose address the push constants have in the place of `first`.
layout(constant_id = 31) const bool BATCH = false;

// The index of a workgroup in its launch.
uint launch_group()
{
    return BATCH ? gl_WorkGroupID.x : group_index();
}

#define BATCH_OF(ARGUMENTS, FIRST)                                                                 \
    layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Records           \
    {                                                                                              \
        ARGUMENTS at[];                                                                            \
    };                                                                                             \
    layout(push_constant, scalar) uniform Push                                                     \
    {                                                                                              \
        ARGUMENTS one;                                                                             \
    }                                                                                              \
    push;                                                                                          \
    ARGUMENTS arguments()                                                                          \
    {                                                                                              \
        if (BATCH) {                                                                               \
            return Records(push.one.FIRST).at[gl_WorkGroupID.y];                                   \
        }                                                                                          \
        return push.one;                                                                           \
    }                                                                                              \
    ARGUMENTS p = arguments();
