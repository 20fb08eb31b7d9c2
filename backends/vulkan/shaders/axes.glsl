// backends/vulkan/shaders/axes.glsl -- elements of strided arrays, by row-major index.

// Up to four axes, neighbours that lie as one made one; unused ones have size 1. Mirrors walk.h.
struct Axes {
    uint sizes[4];
    int strides[4];
};

// How far element i along the first `n` axes is from the first one (modulo 2^32).
uint along(Axes axes, uint n, uint i)
{
    uint offset = 0;
    for (uint d = n - 1; d > 0; d--) {
        offset += i % axes.sizes[d] * uint(axes.strides[d]);
        i /= axes.sizes[d];
    }
    return offset + i * uint(axes.strides[0]);
}
