// backends/vulkan/shaders/norm.comp -- rms_norm and layer_norm.
#version 460
#include "common.glsl"
#include "norm.glsl"

void main()
{
    uint row = row_index(), x = row_start(row, p.x_at);
    bool any = row < p.rows;
    real mean = row_mean(any, x), square = real(0), none = real(0), nothing = real(0);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real centred = load_real(p.x, X_TYPE, x + i) - mean;
        square += centred * centred;
    }
    sum_rows(1u, square, none, nothing);
    real inverse = rsqrt_(square / real(p.width) + p.eps);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real y = (load_real(p.x, X_TYPE, x + i) - mean) * inverse * gain(i);
        if (LAYER && is_given(p.other)) {
            y += load_real(p.other, OTHER_TYPE, i);
        }
        store_real(p.y, X_TYPE, row * p.width + i, y);
    }
}
