// backends/vulkan/shaders/rms.glsl -- the root mean square of a row, with the same bits in every
// shader that normalizes it: drivers may contract other sums in one shader and not in another.
// Included after math.glsl.

// Adds the squares of four elements, in order.
float add_squares(float sum, const vec4 v)
{
    sum = fma(v.x, v.x, sum);
    sum = fma(v.y, v.y, sum);
    sum = fma(v.z, v.z, sum);
    return fma(v.w, v.w, sum);
}

real inverse_rms(const real squares, const uint width, const real eps)
{
    precise real mean = squares / real(width);
    precise real moved = mean + eps;
    return rsqrt_(moved);
}
