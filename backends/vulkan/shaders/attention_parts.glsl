// backends/vulkan/shaders/attention_parts.glsl -- chunks of the keys: which keys of a chunk a tile
// sees, and the inputs of attention_merge.comp: per row and chunk the largest score, the sum of
// exponentials relative to it, and the sum of the values.

// The value subtracted from the scores: the largest score, or 0 if that is infinite (also without
// visible keys), so that the subtraction itself never gives NaN.
real reference_of(real top)
{
    return isinf(top) ? real(0) : top;
}

// The result of a row without visible keys is 0.
real inverse_of(real sum)
{
    return sum == real(0) ? real(0) : real(1) / sum;
}

// The keys of the chunk that at least one of the queries l0 to l1 sees.
void keys_seen(int l0, int l1, int chunk, out int from, out int to)
{
    int start = p.at.first + chunk * p.at.chunk;
    from = max(start, l0 + keys_offset - p.at.window + 1);
    to = min(min(start + p.at.chunk, keys_end), l1 + keys_offset + 1);
}

uint part_start(uint out_row, int chunk)
{
    return (out_row * uint(p.at.chunks) + uint(chunk)) * uint(p.at.Dv + 2);
}

// Stores the log-sum-exp, or with several chunks the inputs of the merge.
void store_row(uint out_row, int chunk, real top, real sum)
{
    if (p.at.chunks == 1) {
        store_real(p.at.lse, REAL_TYPE, out_row,
                   sum == real(0) ? HIDDEN : reference_of(top) + log_(sum));
    } else {
        uint part = part_start(out_row, chunk);
        store_real(p.at.work, REAL_TYPE, part, top);
        store_real(p.at.work, REAL_TYPE, part + 1u, sum);
    }
}
