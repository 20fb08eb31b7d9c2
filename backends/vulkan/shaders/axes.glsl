// backends/vulkan/shaders/axes.glsl -- elements of strided arrays, by row-major index.

// Up to four axes; adjacent axes that are contiguous are merged, and unused ones have size 1.
// Mirrors walk.h.
struct Axes {
    uint sizes[4];
    int strides[4];
};

// The offset of element i along the first `n` axes (modulo 2^32).
uint along(Axes axes, uint n, uint i)
{
    uint offset = 0;
    for (uint d = n - 1; d > 0; d--) {
        offset += i % axes.sizes[d] * uint(axes.strides[d]);
        i /= axes.sizes[d];
    }
    return offset + i * uint(axes.strides[0]);
}
