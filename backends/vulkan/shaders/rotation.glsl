// backends/vulkan/shaders/rotation.glsl -- rotary embedding of one pair of elements. Included after
// common.glsl and the constants POSITION_TYPE and INTERLEAVED.

// The float nearest to a 64-bit integer.
float nearest(uvec2 value)
{
    bool negative = POSITION_TYPE != UINT64 && int(value.y) < 0;
    if (negative) {
        value = uvec2(0u - value.x, ~value.y + uint(value.x == 0u));
    }
    float magnitude = float(value.x);
    if (value.y != 0u) { // leading 32 bits; the last is a sticky bit
        int dropped = findMSB(value.y) + 1;
        uint lost = dropped == 32 ? value.x : value.x & (1u << dropped) - 1u;
        uint top = dropped == 32 ? value.y : value.y << (32 - dropped) | value.x >> dropped;
        magnitude = float(top | uint(lost != 0u)) * power_of_two(dropped);
    }
    return negative ? -magnitude : magnitude;
}

// The angle of a pair at position `i` of the array.
float angle_of(Words positions, uint i, Words frequencies, uint pair)
{
    float position = nearest(load_integer(positions, POSITION_TYPE, i));
    precise float angle = position * Floats(frequencies).at[pair];
    return angle;
}

uint first_of(uint pair)
{
    return INTERLEAVED ? 2u * pair : pair;
}

uint second_of(uint pair, uint pairs)
{
    return INTERLEAVED ? 2u * pair + 1u : pair + pairs;
}

// Precise, so that every shader gives the same bits.
real rotated_first(real a, real b, real cosine, real sine)
{
    precise real y = a * cosine - b * sine;
    return y;
}

real rotated_second(real a, real b, real cosine, real sine)
{
    precise real y = b * cosine + a * sine;
    return y;
}
