// backends/vulkan/shaders/reduce.glsl -- the skeleton of reductions. `parts` times LANES
// invocations compute an output. With more than one part, partial results go to the workspace as
// [part][output], and a second launch combines them. The including file defines ACC, identity(),
// combine(), element(i, r) for element r of a run, which is element i of the input, load_part(),
// store_part(), and finish(acc, o).
layout(constant_id = 1) const uint KEPT = 1;    // axes of the outputs
layout(constant_id = 2) const uint REDUCED = 1; // axes of a run
layout(constant_id = 3) const bool FROM_PARTS = false;
layout(constant_id = 4) const bool TO_PARTS = false;

ACC reduce_element(uint base, uint o, uint r)
{
    if (FROM_PARTS) {
        return load_part(p.x, r * p.outputs + o);
    }
    return element(base + along(p.reduced, REDUCED, r), r);
}

void main()
{
    uint item = launch_group() * (256 / LANES) + gl_LocalInvocationID.x / LANES;
    bool live = item < p.outputs * p.parts;
    uint o = item % p.outputs, part = item / p.outputs;
    ACC acc = identity();
    if (live) {
        uint base = p.origin + along(p.kept, KEPT, o);
        uint r = part * p.chunk + lane(), end = min(p.count, (part + 1) * p.chunk);
        for (; r + 3 * LANES < end; r += 4 * LANES) {
            ACC a = reduce_element(base, o, r), b = reduce_element(base, o, r + LANES);
            ACC c = reduce_element(base, o, r + 2 * LANES);
            ACC d = reduce_element(base, o, r + 3 * LANES);
            acc = combine(acc, combine(combine(a, b), combine(c, d)));
        }
        for (; r < end; r += LANES) {
            acc = combine(acc, reduce_element(base, o, r));
        }
    }
    acc = join(acc);
    if (live && lane() == 0) {
        if (TO_PARTS) {
            store_part(p.result, item, acc);
        } else {
            finish(acc, o);
        }
    }
}
