// backends/vulkan/shaders/sort_block.comp -- sorts blocks of rows of up to BLOCK elements each (a
// power of 2), as many as ENTRIES holds, by a bitonic network in shared memory.
#version 460
#include "common.glsl"
#include "sort.glsl"

layout(constant_id = 4) const uint BLOCK = 2048;
layout(constant_id = 5) const uint ENTRIES = 2048; // at least BLOCK
layout(constant_id = 6) const uint HIGHS = 1;      // ENTRIES for 64-bit dtypes

shared uint places[ENTRIES], lows[ENTRIES], highs[HIGHS];

Entry get(uint i)
{
    return Entry(places[i], lows[i], is_long(X_TYPE) ? highs[i] : 0u);
}

void keep(uint i, Entry entry)
{
    places[i] = entry.x;
    lows[i] = entry.y;
    if (is_long(X_TYPE)) {
        highs[i] = entry.z;
    }
}

void exchange(uint pair, uint span, uint reach)
{
    uint a = 2 * pair - (pair & (reach - 1)), b = a + reach;
    bool ascending = (a & (BLOCK - 1) & span) == 0;
    Entry first = get(a), second = get(b);
    if (comes_before(second, first) == ascending) {
        keep(a, second);
        keep(b, first);
    }
}

void main()
{
    uint t = gl_LocalInvocationID.x, blocks = (p.count + BLOCK - 1) / BLOCK;
    uint first = group_index() * (ENTRIES / BLOCK);
    for (uint i = t; i < ENTRIES; i += 256) {
        uint block = first + i / BLOCK, row = block / blocks;
        uint place = block % blocks * BLOCK + i % BLOCK;
        Entry entry = Entry(~0u); // padding, sorts after all others
        if (row < p.rows && place < p.count) {
            uvec2 bits = load_bits(p.x, X_TYPE, element_of(row, place));
            entry = Entry(place, to_key(X_TYPE, bits));
        }
        keep(i, entry);
    }
    for (uint span = 2; span <= BLOCK; span *= 2) {
        for (uint reach = span / 2; reach > 0; reach /= 2) {
            barrier();
            for (uint pair = t; pair < ENTRIES / 2; pair += 256) {
                exchange(pair, span, reach);
            }
        }
    }
    barrier();
    for (uint i = t; i < ENTRIES; i += 256) {
        uint block = first + i / BLOCK, row = block / blocks;
        uint place = block % blocks * BLOCK + i % BLOCK;
        if (row < p.rows && place < p.count) {
            put(row, place, get(i));
        }
    }
}
