// backends/vulkan/shaders/move.comp -- elements from strided memory, or one value, to strided
// memory.
//
// With RECORD, the arguments are in memory: there are more axes, and a window whose start indices
// are read from an array.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SIZE = 4;
layout(constant_id = 1) const uint AXES = 1;
layout(constant_id = 2) const bool FILL = false; // `from` holds the value itself

#ifdef RECORD
layout(constant_id = 3) const uint WINDOW_AXES = 0;
layout(constant_id = 4) const uint START_TYPE = INT64;
layout(constant_id = 5) const bool PUT = false; // the window is in the destination

#define MAX_AXES 16
#else
#define MAX_AXES 8
#endif

struct Move {
    Words from, to;
    uint count, from_start; // elements of `from` before its element 0
    uint dims[MAX_AXES];
    int from_strides[MAX_AXES];
    uint to_strides[MAX_AXES];
#ifdef RECORD
    Words start;
    uint start_at[MAX_AXES]; // index into `start` for each axis of the window
    uint room[MAX_AXES];     // largest valid start index
    int strides[MAX_AXES];
#endif
};

#ifdef RECORD
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Record { Move move; };
layout(push_constant, scalar) uniform Push { Record record; } push;
#define m push.record.move
#else
layout(push_constant, scalar) uniform Push { Move move; } push;
#define m push.move
#endif

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= m.count) {
        return;
    }
    int from = int(m.from_start);
    uint to = 0u;
    for (int d = int(AXES) - 1; d > 0; d--) {
        uint length = m.dims[d], rest = i / length, at = i - rest * length;
        from += int(at) * m.from_strides[d];
        to += at * m.to_strides[d];
        i = rest;
    }
    from += int(i) * m.from_strides[0];
    to += i * m.to_strides[0];
#ifdef RECORD
    for (uint a = 0u; a < WINDOW_AXES; a++) {
        uint first = clipped_place(m.start, START_TYPE, m.start_at[a], m.room[a]);
        if (PUT) {
            to += first * uint(m.strides[a]);
        } else {
            from += int(first) * m.strides[a];
        }
    }
#endif
    uvec2 value = FILL ? uvec2(m.from) : load_element(m.from, SIZE, uint(from));
    store_element(m.to, SIZE, to, value);
}
