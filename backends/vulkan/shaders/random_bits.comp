// backends/vulkan/shaders/random_bits.comp -- words of Threefry 2x32 with 20 rounds;
// ops/random/bits.c defines which block gives which word.
#version 460
#ifdef BYTES
#extension GL_EXT_shader_8bit_storage : require
#endif
#include "common.glsl"
#include "elements.glsl"

layout(local_size_x = 256) in;

layout(push_constant, scalar) uniform Push {
    Words key, to;
    uint blocks, pairs; // pairs: number of blocks that yield two words
    uint words, tail;   // whole words, and bytes after them
} p;

const uint TURNS[8] = {13, 15, 26, 6, 17, 29, 16, 24};

void put(uint word, uint value)
{
    if (word < p.words) {
        p.to.at[word] = value;
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
    uint i = group_index() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (i >= p.blocks) {
        return;
    }
    uint keys[3] = {p.key.at[0], p.key.at[1], 0u};
    keys[2] = 0x1bd11bdau ^ keys[0] ^ keys[1];
    uint a = i + keys[0], b = (i < p.pairs ? i + p.blocks : 0u) + keys[1];
    for (uint group = 0u; group < 5u; group++) {
        for (uint turn = 0u; turn < 4u; turn++) {
            uint by = TURNS[(group & 1u) * 4u + turn];
            a += b;
            b = (b << by | b >> (32u - by)) ^ a;
        }
        a += keys[(group + 1u) % 3u];
        b += keys[(group + 2u) % 3u] + group + 1u;
    }
    put(i, a);
    if (i < p.pairs) {
        put(i + p.blocks, b);
    }
}
