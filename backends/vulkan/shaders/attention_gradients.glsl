// backends/vulkan/shaders/attention_gradients.glsl -- the probability of a query and a key, and the
// gradient of their product, for both gradient kernels.

layout(constant_id = 8) const uint D_O_TYPE = FLOAT32;

struct Row {
    int b, l, head;
    real lse, delta;
};

Row row_at(int b, int hk, int row)
{
    int l = row / int(G), head = hk * int(G) + row % int(G);
    Row r = Row(b, l, head, real(0), real(0));
    if (l < p.at.L) {
        uint lse = uint(b) * p.at.lse_at[0] + uint(l) * p.at.lse_at[1] + uint(head);
        uint delta = (uint(b) * uint(p.at.L) + uint(l)) * uint(p.at.Hk) * G + uint(head);
        r.lse = load_real(p.at.lse, REAL_TYPE, lse);
        r.lse = isinf(r.lse) ? real(0) : r.lse;
        r.delta = load_real(p.at.work, REAL_TYPE, delta);
    }
    return r;
}

// Computes the probability and d(q k) from q k and do v. Both are 0 if the query does not see the
// key.
void differentiate(const Row row, int key, real qk, real d_probability, out real probability,
                   out real d_qk)
{
    probability = d_qk = real(0);
    if (row.l >= p.at.L || key >= keys_end || !sees(row.l, key)) {
        return;
    }
    real slope, score = score_of(qk, row.b, row.l, row.head, key, slope);
    if (score != HIDDEN) {
        probability = exp_(score - row.lse);
        d_qk = probability * (d_probability - row.delta) * slope * p.at.scale;
    }
}
