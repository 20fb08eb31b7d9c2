// backends/vulkan/shaders/codes_rows.comp -- rows of a quantized matrix as floats: all rows, or
// those selected by indices.
#version 460
#include "common.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint FORMAT = 0;
layout(constant_id = 1) const uint OUT_TYPE = FLOAT32;
layout(constant_id = 2) const uint INDEX_TYPE = 255; // 255: no indices, every row in order
// Dtype that the product and the sum are rounded to.
layout(constant_id = 3) const uint ROUND_TYPE = FLOAT32;
layout(constant_id = 4) const bool PACKED = false; // groups of four 16-bit elements are aligned
// Vectors of four per invocation, sharing a scale; 2 and 4 require groups of eight to be aligned.
layout(constant_id = 5) const uint FOURS = 1;

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Pairs { uvec2 at[]; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quads { uvec4 at[]; };

#include "codes.glsl"

layout(push_constant, scalar) uniform Push {
    Codes w;
    Words indices, to;
    Fault fault;
    uint fault_code;
    uint count, width; // elements of the result, and of a row, both divided by 4 FOURS
    uint extent;       // rows of w
} p;

// Loads four elements.
vec4 four_at(uint row, uint element, vec2 scale)
{
    vec4 values = codes_four(p.w, row, element);
    for (uint j = 0u; j < 4u; j++) {
        precise float value = values[j] * scale.x; // separate from the sum: both are rounded
        value = as_stored(value, ROUND_TYPE);
        if (BIASED) {
            value = as_stored(value + scale.y, ROUND_TYPE);
        }
        values[j] = value;
    }
    return values;
}

uint bits_of(float value)
{
    return OUT_TYPE == FLOAT16 ? to_float16(value) : to_bfloat16(value);
}

uvec2 pack(vec4 values)
{
    return uvec2(bits_of(values.x) | bits_of(values.y) << 16,
                 bits_of(values.z) | bits_of(values.w) << 16);
}

// Decodes eight elements.
uvec4 eight_at(uint row, uint element, vec2 scale)
{
    return uvec4(pack(four_at(row, element, scale)), pack(four_at(row, element + 4u, scale)));
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    int row = int(i / p.width);
    uint element = i % p.width * 4u * FOURS;
    if (INDEX_TYPE != 255u) {
        row = checked_index(p.indices, INDEX_TYPE, uint(row), int(p.extent), p.fault, p.fault_code);
        if (row < 0) {
            return;
        }
    }
    vec2 scale = scale_and_bias(p.w, uint(row), element);
    if (FOURS > 1u) {
        Quads(p.to).at[i * (FOURS / 2u)] = eight_at(uint(row), element, scale);
        if (FOURS == 4u) {
            Quads(p.to).at[2u * i + 1u] = eight_at(uint(row), element + 8u, scale);
        }
        return;
    }
    vec4 values = four_at(uint(row), element, scale);
    if (PACKED) {
        Pairs(p.to).at[i] = pack(values);
    } else {
        for (uint j = 0u; j < 4u; j++) {
            store_real(p.to, OUT_TYPE, 4u * i + j, values[j]);
        }
    }
}
