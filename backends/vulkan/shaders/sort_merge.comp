// backends/vulkan/shaders/sort_merge.comp -- merges pairs of sorted runs of `chunk` entries: every
// entry counts the entries of the other run that precede it.
#version 460
#include "common.glsl"
#include "sort.glsl"

Entry get(uint row, uint place)
{
    uint at = (row * p.count + place) * words();
    return Entry(p.from.at[at], p.from.at[at + 1], is_long(X_TYPE) ? p.from.at[at + 2] : 0u);
}

void main()
{
    uint i = group_index() * 256 + gl_LocalInvocationID.x;
    if (i >= p.rows * p.count) {
        return;
    }
    uint row = i / p.count, place = i % p.count, mine = place / p.chunk * p.chunk;
    uint pair = place / (2 * p.chunk) * (2 * p.chunk), other = mine == pair ? pair + p.chunk : pair;
    uint low = min(other, p.count), high = min(other + p.chunk, p.count), begin = low;
    Entry entry = get(row, place);
    while (low < high) {
        uint middle = (low + high) / 2;
        if (comes_before(get(row, middle), entry)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    put(row, pair + (place - mine) + (low - begin), entry);
}
