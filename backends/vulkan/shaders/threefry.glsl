// backends/vulkan/shaders/threefry.glsl -- Threefry 2x32 with 20 rounds (Salmon et al. 2011).

const uint TURNS[8] = {13, 15, 26, 6, 17, 29, 16, 24};

uvec2 threefry(uvec2 key, uvec2 block)
{
    uint keys[3] = {key.x, key.y, 0x1bd11bdau ^ key.x ^ key.y};
    uint a = block.x + keys[0], b = block.y + keys[1];
    [[unroll]] for (uint group = 0u; group < 5u; group++) {
        [[unroll]] for (uint turn = 0u; turn < 4u; turn++) {
            uint by = TURNS[(group & 1u) * 4u + turn];
            a += b;
            b = (b << by | b >> (32u - by)) ^ a;
        }
        a += keys[(group + 1u) % 3u];
        b += keys[(group + 2u) % 3u] + group + 1u;
    }
    return uvec2(a, b);
}
