// backends/vulkan/shaders/norm_vjp.comp -- dx of rms_norm and layer_norm, and the inputs of
// norm_sums for each row: the inverse root and the mean.
#version 460
#include "common.glsl"
#include "norm.glsl"

void main()
{
    uint row = row_index(), x = row_start(row, p.x_at), ct = row_start(row, p.other_at);
    bool any = row < p.rows;
    real mean = row_mean(any, x), square = real(0), along = real(0), total = real(0);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real centered = load_real(p.x, X_TYPE, x + i) - mean;
        real g = load_real(p.other, OTHER_TYPE, ct + i) * gain(i);
        square += centered * centered;
        along += g * centered;
        total += g;
    }
    sum_rows(3u, square, along, total);
    real inverse = rsqrt_(square / real(p.width) + p.eps);
    along = along * inverse / real(p.width);
    total = LAYER ? total / real(p.width) : real(0);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real n = (load_real(p.x, X_TYPE, x + i) - mean) * inverse;
        real g = load_real(p.other, OTHER_TYPE, ct + i) * gain(i);
        store_real(p.y, X_TYPE, row * p.width + i, inverse * (g - total - n * along));
    }
    if (any && lane == 0u && is_given(p.stats)) {
        store_real(p.stats, REAL_TYPE, 2u * row, inverse);
        store_real(p.stats, REAL_TYPE, 2u * row + 1u, mean);
    }
}
