// backends/vulkan/shaders/row_norm.glsl -- rms_norm of the rows of a, by a workgroup that reads
// them: the bits that norm.comp would store, in shared memory. Sums are divided as there. Included
// after math.glsl, pieces.glsl, and the constants and arguments of the shader (A_TYPE, ROWS,
// THREADS; p.a, p.terms, p.norm_...).
#include "rms.glsl"

layout(constant_id = 11) const uint NORM_TYPE = FLOAT32; // of the weight
layout(constant_id = 12) const uint NORM_LANES = 128;    // invocations per row in norm.comp
layout(constant_id = 13) const uint NORM_UNIT = 1;       // adjacent elements of one of them
layout(constant_id = 14) const uint NORM_PIECES = 1;     // pieces of 16 bytes in a row

const uint NORM_PIECE = A_TYPE == FLOAT32 ? 4 : 8; // elements

shared float squares[256];
// Eight lanes of Q4_K read pieces that are 2 or 6 apart in four groups of 8 (matvec_codes.glsl), so
// pieces are exchanged within the groups: by 4 in every second one, by 1 in every second pair.
#ifdef CODES
const bool EXCHANGED = KIND == Q4_K;
#else
const bool EXCHANGED = false;
#endif
const uint NORM_STRIDE = (NORM_PIECES + 7u) / 8u * 8u;

shared uvec4 row_pieces[ROWS * NORM_STRIDE];

uint place_of_piece(uint row, uint piece)
{
    return row * NORM_STRIDE + (EXCHANGED ? piece ^ (piece & 8u) >> 1 ^ (piece & 16u) >> 4 : piece);
}

// Four elements of a normalized row; k is a multiple of 4.
vec4 four_of_row(uint row, uint k)
{
    return part_of(row_pieces[place_of_piece(row, k / NORM_PIECE)], A_TYPE,
                   NORM_PIECE == 4u ? 0u : k / 4u % 2u);
}

float sum_of_squares(int x, uint self)
{
    for (uint lane = self; lane < NORM_LANES; lane += THREADS) {
        float sum = 0.0;
        for (uint i = lane * NORM_UNIT; i < p.terms; i += NORM_LANES * NORM_UNIT) {
            if (NORM_UNIT == 1u) {
                float v = load_at(p.a, A_TYPE, x + int(i));
                sum = fma(v, v, sum);
            } else {
                uvec4 piece = load_piece(p.a, A_TYPE, true, x + int(i), NORM_UNIT);
                sum = add_squares(sum, part_of(piece, A_TYPE, 0u));
                sum = NORM_UNIT == 8u ? add_squares(sum, part_of(piece, A_TYPE, 1u)) : sum;
            }
        }
        squares[lane] = sum;
    }
    for (uint width = NORM_LANES / 2u; width > 0u; width /= 2u) {
        barrier();
        for (uint lane = self; lane < width; lane += THREADS) {
            squares[lane] += squares[lane + width];
        }
    }
    barrier();
    return squares[0];
}

// Four elements as they are stored: two words, or four.
uvec4 normalized(vec4 x, float inverse, uint i)
{
    vec4 y = x * inverse;
    if (p.norm_weight != uvec2(0)) {
        uvec4 four = load_four(Words(p.norm_weight), NORM_TYPE, NORM_UNIT > 1u, int(i), 1, 4u);
        y *= convert(four, NORM_TYPE) + p.norm_offset;
    }
    if (A_TYPE == FLOAT32) {
        return floatBitsToUint(y);
    }
    return A_TYPE == FLOAT16 ? uvec4(to_float16(y.x) | to_float16(y.y) << 16,
                                     to_float16(y.z) | to_float16(y.w) << 16, 0u, 0u)
                             : uvec4(to_bfloat16(y.x) | to_bfloat16(y.y) << 16,
                                     to_bfloat16(y.z) | to_bfloat16(y.w) << 16, 0u, 0u);
}

// Normalizes the row that begins at element x. Every invocation must call this.
void normalize_row(uint row, int x)
{
    uint self = gl_LocalInvocationIndex;
    float inverse = inverse_rms(sum_of_squares(x, self), p.terms, p.norm_eps);
    for (uint piece = self; piece < NORM_PIECES; piece += THREADS) {
        uint i = piece * NORM_PIECE;
        uvec4 from = load_piece(p.a, A_TYPE, NORM_UNIT > 1u, x + int(i), NORM_PIECE);
        uvec4 to = normalized(part_of(from, A_TYPE, 0u), inverse, i);
        if (NORM_PIECE == 8u) {
            to.zw = normalized(part_of(from, A_TYPE, 1u), inverse, i + 4u).xy;
        }
        row_pieces[place_of_piece(row, piece)] = to;
    }
    barrier();
}
