// backends/vulkan/shaders/softmax_grad.comp -- the gradients of softmax, y (dy - sum(y dy)), and of
// log_softmax, dy - exp(y) sum(dy): LANES invocations per row.
#version 460
#include "common.glsl"
#include "axes.glsl"
#ifdef WIDE
#include "math.glsl"
#define exponential exp_
#else
#define exponential exp
#endif

#define ACC real
ACC combine(ACC a, ACC b)
{
    return a + b;
}
#include "lanes.glsl"

layout(constant_id = 1) const uint KEPT = 1;
layout(constant_id = 2) const uint X_TYPE = FLOAT32;
layout(constant_id = 3) const bool LOGARITHM = false;

layout(push_constant, scalar) uniform Push {
    Words y, dy, result;
    uint y_origin, dy_origin; // offsets of row 0
    uint rows, count;
    uint inner; // stride of a row in the result
    int y_stride, dy_stride;
    uint sizes[4];
    int y_strides[4], dy_strides[4];
} p;

real load_y(uint base, uint i)
{
    return load_real(p.y, X_TYPE, base + i * uint(p.y_stride));
}

real load_dy(uint base, uint i)
{
    return load_real(p.dy, X_TYPE, base + i * uint(p.dy_stride));
}

void main()
{
    uint row = lane_item();
    bool live = row < p.rows;
    uint y = p.y_origin + along(Axes(p.sizes, p.y_strides), KEPT, row);
    uint dy = p.dy_origin + along(Axes(p.sizes, p.dy_strides), KEPT, row);
    real sum = 0;
    for (uint i = lane(); live && i < p.count; i += LANES) {
        sum += LOGARITHM ? load_dy(dy, i) : load_y(y, i) * load_dy(dy, i);
    }
    sum = join(sum);
    uint to = row / p.inner * p.inner * p.count + row % p.inner;
    for (uint i = lane(); live && i < p.count; i += LANES) {
        real a = load_y(y, i), b = load_dy(dy, i);
        store_real(p.result, X_TYPE, to + i * p.inner,
                   LOGARITHM ? b - exponential(a) * sum : a * (b - sum));
    }
}
