// backends/vulkan/shaders/scatter_fold.comp -- combines the items of each destination of a scatter,
// in the order of the indices, with the value there: the last item, their product, or an extreme.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

// Values of weft_combine.
const uint PUT = 0, PROD = 2, MAX = 3;

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint COMBINE = PUT;
layout(constant_id = 1) const bool WHOLE = false; // integers, otherwise floats; either for PUT
layout(constant_id = 2) const bool SIGNED = false;
layout(constant_id = 3) const uint SIZE = 4;
layout(constant_id = 4) const uint TYPE = FLOAT32;

layout(push_constant, scalar) uniform Push {
    Words to, values, places, following;
    uint count;         // elements of the values
    uint items;         // slices of the values per outer index of x
    uint extent, inner; // of x: length of the axis, elements per index of the axis
} p;

uvec2 product(uvec2 a, uvec2 b)
{
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

bool less(uvec2 a, uvec2 b)
{
    bool high = SIGNED ? int(a.y) < int(b.y) : a.y < b.y;
    return high || (a.y == b.y && a.x < b.x);
}

// The list starts with `item` and continues through p.following. `from` is the offset of item 0.
void put_last(uint to, uint from, uint item)
{
    uint last = item;
    for (uint k = p.following.at[item]; k != ~0u; k = p.following.at[k]) {
        last = k;
    }
    store_element(p.to, SIZE, to, load_element(p.values, SIZE, from + last * p.inner));
}

void fold_integers(uint to, uint from, uint item)
{
    uvec2 so_far = load_integer(p.to, TYPE, to);
    for (uint k = item; k != ~0u; k = p.following.at[k]) {
        uvec2 value = load_integer(p.values, TYPE, from + k * p.inner);
        bool wins = COMBINE == MAX ? less(so_far, value) : less(value, so_far);
        so_far = COMBINE == PROD ? product(so_far, value) : wins ? value : so_far;
    }
    store_element(p.to, SIZE, to, so_far);
}

void fold_floats(uint to, uint from, uint item)
{
    real so_far = load_real(p.to, TYPE, to);
    for (uint k = item; k != ~0u; k = p.following.at[k]) {
        real value = load_real(p.values, TYPE, from + k * p.inner);
        bool wins = isnan(value) || (COMBINE == MAX ? value > so_far : value < so_far);
        so_far = COMBINE == PROD ? so_far * value : wins ? value : so_far;
    }
    store_real(p.to, TYPE, to, so_far);
}

void main()
{
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.count) {
        return;
    }
    uint slice = i / p.inner, outer = slice / p.items, item = slice - outer * p.items;
    uint place = p.places.at[item];
    if (place == ~0u) {
        return;
    }
    uint to = (outer * p.extent + place) * p.inner + (i - slice * p.inner);
    uint from = i - item * p.inner;
    if (COMBINE == PUT) {
        put_last(to, from, item);
    } else if (WHOLE) {
        fold_integers(to, from, item);
    } else {
        fold_floats(to, from, item);
    }
}
