// backends/vulkan/modules/attention_cores_gradients.glsl -- matrices of the gradients:
// probabilities, and gradients of the products of queries and keys, both in 16 bits.

layout(constant_id = 12) const uint D_O_TYPE = FLOAT32; // the same as Q_TYPE

// Computes the probability and d(q k) of one pair from q k and do v. Both are 0 if the key is not
// visible. `whole`: the key is known to be visible.
void differentiate(bool whole, int b, int hk, int row, int key, float lse, float delta, float qk,
                   float d_p, out float probability, out float d_qk)
{
    probability = d_qk = 0.0;
    if (whole) {
        probability = exp(qk * scale - lse);
        d_qk = probability * (d_p - delta) * scale;
        return;
    }
    const int l = row / int(G), head = hk * int(G) + row % int(G);
    if (row < rows && is_seen(l, key)) {
        float score = masked(qk, b, l, head, key);
        probability = score == HIDDEN ? 0.0 : exp(score - lse);
        d_qk = probability * (d_p - delta) * scale;
    }
}

// The log-sum-exp of a row, and rowsum(do o).
vec2 row_numbers(int b, int hk, int row)
{
    if (row >= rows) {
        return vec2(0.0);
    }
    const uint l = uint(row) / G, head = uint(hk) * G + uint(row) % G;
    float lse = Floats(p.at.lse).at[uint(b) * p.at.lse_at[0] + l * p.at.lse_at[1] + head];
    float delta = Floats(p.at.work).at[(uint(b) * uint(p.at.L) + l) * uint(p.at.Hk) * G + head];
    return vec2(isinf(lse) ? 0.0 : lse, delta);
}
