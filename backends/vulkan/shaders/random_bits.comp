// backends/vulkan/shaders/random_bits.comp -- words of Threefry 2x32 with 20 rounds;
// ops/random/bits.c defines which block gives which word.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"
#include "threefry.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    Words key, to;
    uint keys, blocks, pairs; // of each key; pairs: number of blocks that yield two words
    uint words, tail;         // whole words, and bytes after them
} p;

void put(uint key, uint word, uint value)
{
    if (word < p.words) {
        p.to.at[key * p.words + word] = value;
        return;
    }
#ifdef BYTES
    for (uint b = 0u; b < p.tail; b++) {
        Bytes(p.to).at[4u * word + b] = uint8_t(value >> 8u * b & 0xffu);
    }
#else
    Halves(p.to).at[2u * word] = uint16_t(value & 0xffffu);
#endif
}

void main()
{
    uint at = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    uint key = at / p.blocks, i = at % p.blocks;
    if (key >= p.keys) {
        return;
    }
    uvec2 block = threefry(uvec2(p.key.at[2u * key], p.key.at[2u * key + 1u]),
                           uvec2(i, i < p.pairs ? i + p.blocks : 0u));
    put(key, i, block.x);
    if (i < p.pairs) {
        put(key, i + p.blocks, block.y);
    }
}
