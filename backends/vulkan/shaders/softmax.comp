// backends/vulkan/shaders/softmax.comp -- softmax and log_softmax: LANES invocations per row. If
// there are few long rows, each row is divided among `parts` groups, after a reduction has computed
// the sums of the parts.
#version 460
#include "common.glsl"
#include "rows_push.glsl"
#include "logsum.glsl"
#include "lanes.glsl"

layout(constant_id = 1) const uint KEPT = 1;
layout(constant_id = 2) const uint X_TYPE = FLOAT32;
layout(constant_id = 3) const bool LOGARITHM = false;
layout(constant_id = 4) const bool SPLIT = false;

void main()
{
    uint item = lane_item(), row = item % p.rows, part = item / p.rows;
    bool live = item < p.rows * p.parts;
    uint base = p.origin + along(p.kept, KEPT, row);
    ACC acc = identity();
    for (uint i = lane(); live && i < (SPLIT ? p.parts : p.count); i += LANES) {
        acc = combine(acc, SPLIT ? load_part(p.from, i * p.rows + row)
                                 : term(load_real(p.x, X_TYPE, base + i * uint(p.stride))));
    }
    acc = join(acc);
    bool bad = is_nan(acc.y) || abs(acc.x) == INFINITE;
    real factor = LOGARITHM ? log_(acc.y) : 1 / acc.y;
    uint end = min(p.count, (part + 1) * p.chunk);
    for (uint i = part * p.chunk + lane(); live && i < end; i += LANES) {
        real shifted = load_real(p.x, X_TYPE, base + i * uint(p.stride)) - acc.x;
        real y = LOGARITHM ? shifted - factor : exponential(shifted) * factor;
        store_real(p.result, X_TYPE, result_place(row, i), bad ? NO_NUMBER : y);
    }
}
