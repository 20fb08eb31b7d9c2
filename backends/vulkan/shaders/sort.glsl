// backends/vulkan/shaders/sort.glsl -- entries for sorting: a key and the original index of the
// element, which makes all entries of a row distinct and the sort stable. Entries in the workspace
// have WORDS words: the index, the key's low word, and its high word if the dtype has 64 bits.
#include "rows_push.glsl"
#include "bits.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint KEPT = 1;
layout(constant_id = 1) const uint X_TYPE = FLOAT32;
layout(constant_id = 2) const bool PLACES = false; // argsort
layout(constant_id = 3) const bool TO_RUNS = false; // not the last pass

#define Entry uvec3 // index, low, high

bool comes_before(Entry a, Entry b)
{
    return a.z < b.z || (a.z == b.z && (a.y < b.y || (a.y == b.y && a.x < b.x)));
}

uint words()
{
    return is_long(X_TYPE) ? 3u : 2u;
}

uint element_of(uint row, uint place)
{
    return p.origin + along(p.kept, KEPT, row) + place * uint(p.stride);
}

void put(uint row, uint place, Entry entry)
{
    if (TO_RUNS) {
        uint at = (row * p.count + place) * words();
        p.to.at[at] = entry.x;
        p.to.at[at + 1] = entry.y;
        if (is_long(X_TYPE)) {
            p.to.at[at + 2] = entry.z;
        }
        return;
    }
    uint at = result_place(row, place);
    if (PLACES) {
        p.result.at[at] = entry.x;
    } else {
        store_bits(p.result, X_TYPE, at, load_bits(p.x, X_TYPE, element_of(row, entry.x)));
    }
}
