// backends/vulkan/shaders/scan.glsl -- scans the elements of a row: one invocation per row, or a
// workgroup per part of a row. The including file defines ACC, identity(), combine(earlier, later),
// element(i, k) for element i, which is the k-th in the order of the scan, put(o, acc, base), which
// stores a result, and in_front(row, part), the combined value of all previous parts. Elements are
// read in the order of the scan; REVERSE stores the results from the end.
layout(constant_id = 1) const uint KEPT = 1;
layout(constant_id = 2) const uint X_TYPE = FLOAT32;
layout(constant_id = 3) const uint OUT_TYPE = FLOAT32;
layout(constant_id = 4) const bool REVERSE = false;
layout(constant_id = 5) const bool INCLUSIVE = true;
const uint EACH = 4; // adjacent elements per invocation of a workgroup

ACC identity();
ACC element(uint i, uint k);
void put(uint o, ACC acc, uint base);
ACC in_front(uint row, uint part);

uint place(uint row, uint k)
{
    return result_place(row, REVERSE ? p.count - 1 - k : k);
}

void scan_alone(uint row, uint base)
{
    ACC total = identity();
    for (uint k = 0; k < p.count; k++) {
        ACC before = total;
        total = combine(total, element(base + k * uint(p.stride), k));
        if (INCLUSIVE) {
            put(place(row, k), total, base);
        } else {
            put(place(row, k), before, base);
        }
    }
}

// Returns the combined value of the invocations before this one; `whole` receives that of all.
ACC scan_joined(ACC mine, out ACC whole)
{
    uint t = gl_LocalInvocationID.x;
    ACC acc = mine;
    barrier();
    joining[t] = acc;
    for (uint step = 1; step < 256; step *= 2) {
        barrier();
        if (t >= step) {
            acc = combine(joining[t - step], acc);
        }
        barrier();
        joining[t] = acc;
    }
    barrier();
    whole = joining[255];
    return t == 0 ? identity() : joining[t - 1];
}

void scan_together(uint row, uint part, uint base)
{
    ACC total = in_front(row, part);
    uint end = min(p.count, (part + 1) * p.chunk);
    for (uint tile = part * p.chunk; tile < end; tile += 256 * EACH) {
        uint first = tile + gl_LocalInvocationID.x * EACH;
        ACC terms[EACH], mine = identity(), whole;
        for (uint i = 0; i < EACH; i++) {
            uint k = first + i;
            terms[i] = k < end ? element(base + k * uint(p.stride), k) : identity();
            mine = combine(mine, terms[i]);
        }
        ACC sum = scan_joined(mine, whole);
        for (uint i = 0; i < EACH; i++) {
            ACC before = sum;
            sum = combine(sum, terms[i]);
            if (first + i < end) {
                put(place(row, first + i), combine(total, INCLUSIVE ? sum : before), base);
            }
        }
        total = combine(total, whole);
    }
}

void main()
{
    uint item = lane_item();
    if (LANES == 1) {
        if (item < p.rows) {
            scan_alone(item, p.origin + along(p.kept, KEPT, item));
        }
        return;
    }
    uint row = item % p.rows;
    if (item < p.rows * p.parts) { // uniform over the workgroup
        scan_together(row, item / p.rows, p.origin + along(p.kept, KEPT, row));
    }
}
