// backends/vulkan/modules/attention_cores_gradients.glsl -- common parts of the gradients on matrix
// cores. The matrices of scores start at -lse / scale and those of do v at -delta, so that the
// probability is 2^(score scale2), and d(q k) is scale times it times the other.

// -lse / scale of a row, from its log-sum-exp, and -delta, where delta is rowsum(do o).
vec2 starts_of(int b, int hk, int row)
{
    if (row >= rows) {
        return vec2(0.0);
    }
    const uint l = uint(row) / G, head = uint(hk) * G + uint(row) % G;
    float lse = Floats(p.at.lse).at[uint(b) * p.at.lse_at[0] + l * p.at.lse_at[1] + head];
    float delta = Floats(p.at.work).at[(uint(b) * uint(p.at.L) + l) * uint(p.at.Hk) * G + head];
    return vec2(isinf(lse) ? 0.0 : -lse / scale, -delta);
}

// Applies the mask: `row` and `key` are expressions of `place`, an element's coordinates.
#define HIDE(scores, d_p, row, key)                                                                \
    {                                                                                              \
        const MATRIX_C at = coordinates();                                                         \
        [[unroll]] for (int i = 0; i < at.length(); i++)                                           \
        {                                                                                          \
            const int place = int(at[i]);                                                          \
            const float mask = mask_of(b, hk, row, key);                                           \
            scores[i] += mask;                                                                     \
            d_p[i] = mask == HIDDEN ? 0.0 : d_p[i];                                                \
        }                                                                                          \
    }
