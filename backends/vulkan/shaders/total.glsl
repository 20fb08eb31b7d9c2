// backends/vulkan/shaders/total.glsl -- sums of many floats with the precision of float64: a Total
// of float holds the sum and its rounding error.
#ifdef WIDE
#define Total double

Total total_of(double x)
{
    return x;
}

Total plus(Total a, Total b)
{
    return a + b;
}

double rounded(Total t)
{
    return t;
}

Total load_total(Words from, uint i)
{
    return load_real(from, FLOAT64, i);
}

void store_total(Words to, uint i, Total t)
{
    store_real(to, FLOAT64, i, t);
}
#else
#define Total vec2

Total total_of(float x)
{
    return vec2(x, 0);
}

// A sum that is not finite has no rounding error.
Total plus(Total a, Total b)
{
    precise float sum = a.x + b.x, taken = sum - a.x;
    precise float lost = (a.x - (sum - taken)) + (b.x - taken) + (a.y + b.y);
    bool finite = (floatBitsToUint(sum) & 0x7f800000u) != 0x7f800000u;
    return vec2(sum, finite ? lost : 0);
}

float rounded(Total t)
{
    return t.x + t.y;
}

Total load_total(Words from, uint i)
{
    return vec2(Floats(from).at[2 * i], Floats(from).at[2 * i + 1]);
}

void store_total(Words to, uint i, Total t)
{
    Floats(to).at[2 * i] = t.x;
    Floats(to).at[2 * i + 1] = t.y;
}
#endif
