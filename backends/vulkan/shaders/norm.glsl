// backends/vulkan/shaders/norm.glsl -- rows of a normalization: THREADS invocations per row.
#include "math.glsl"

#ifdef WIDE
const uint REAL_TYPE = FLOAT64;
#else
const uint REAL_TYPE = FLOAT32;
#endif

layout(constant_id = 0) const uint X_TYPE = FLOAT32;
layout(constant_id = 1) const uint WEIGHT_TYPE = FLOAT32;
layout(constant_id = 2) const uint OTHER_TYPE = FLOAT32; // dtype of the bias or the cotangent
layout(constant_id = 3) const uint THREADS = 256;        // invocations per row: a power of two
layout(constant_id = 4) const bool LAYER = false;        // layer_norm, otherwise rms_norm
layout(local_size_x = 256) in;

// Row r of x (and of ct) starts at r / inner * at[0] + r % inner * at[1].
layout(push_constant, scalar) uniform Push
{
    Words x, weight, other, y, stats; // weight, other (a bias) and stats: 0 if absent
    uint x_at[2], other_at[2];
    uint rows, inner, width, unused;
    real eps, offset;
}
p;

shared real parts[3 * 256];

uint lane = gl_LocalInvocationIndex % THREADS;

bool is_given(Words w)
{
    return uvec2(w) != uvec2(0);
}

uint row_index()
{
    return group_index() * (256u / THREADS) + gl_LocalInvocationIndex / THREADS;
}

uint row_start(uint row, uint at[2])
{
    return row / p.inner * at[0] + row % p.inner * at[1];
}

// Sums the first n of a, b, c over the invocations of each row. Every invocation must call this.
void sum_rows(const uint n, inout real a, inout real b, inout real c)
{
    uint t = gl_LocalInvocationIndex;
    barrier();
    parts[t] = a;
    if (n > 1u) {
        parts[256u + t] = b;
        parts[512u + t] = c;
    }
    for (uint half_ = THREADS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        for (uint i = t; lane < half_ && i < n * 256u; i += 256u) {
            parts[i] += parts[i + half_];
        }
    }
    barrier();
    a = parts[t - lane];
    if (n > 1u) {
        b = parts[256u + t - lane];
        c = parts[512u + t - lane];
    }
}

real gain(uint i)
{
    if (!is_given(p.weight)) {
        return real(1);
    }
    real weight = load_real(p.weight, WEIGHT_TYPE, i);
    return LAYER ? weight : weight + p.offset;
}

// The mean of the row at `x` if LAYER, otherwise 0. Every invocation must call this.
real row_mean(bool any, uint x)
{
    real sum = real(0), none = real(0), nothing = real(0);
    if (LAYER) {
        for (uint i = lane; any && i < p.width; i += THREADS) {
            sum += load_real(p.x, X_TYPE, x + i);
        }
        sum_rows(1u, sum, none, nothing);
    }
    return sum / real(p.width);
}
