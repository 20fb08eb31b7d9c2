// backends/vulkan/shaders/norm.comp -- rms_norm and layer_norm. Rows that consist of aligned pieces
// of 16 bytes are loaded once and stay in registers.
#version 460
#include "common.glsl"
#ifndef WIDE
#include "pieces.glsl"
#endif
#include "norm.glsl"
#include "rms.glsl"

layout(constant_id = 5) const uint PIECES = 0; // pieces per invocation; 0: one element at a time

#ifndef WIDE
const uint FOURS = X_TYPE == FLOAT32 ? 1 : 2; // vectors of four per piece
const uint KEPT = PIECES > 0 ? PIECES : 1;

// Applies the weight and then the bias to normalized elements i to i + 3.
void scale_and_add(uint i, inout vec4 y)
{
    if (is_given(p.weight)) {
        vec4 weight = convert(load_four(p.weight, WEIGHT_TYPE, true, int(i), 1, 4u), WEIGHT_TYPE);
        y *= LAYER ? weight : weight + p.offset;
    }
    if (LAYER && is_given(p.other)) {
        y += convert(load_four(p.other, OTHER_TYPE, true, int(i), 1, 4u), OTHER_TYPE);
    }
}

void norm_pieces(uint row, uint x)
{
    const uint piece = 4u * FOURS;
    const bool any = row < p.rows;
    uvec4 kept[KEPT];
    float mean = 0.0, square = 0.0, none = 0.0, nothing = 0.0;
    [[unroll]] for (uint k = 0u; k < PIECES; k++) {
        const uint i = (lane + k * THREADS) * piece;
        kept[k] = uvec4(0u);
        if (any && i < p.width) {
            kept[k] = load_piece(p.x, X_TYPE, true, int(x + i), piece);
        }
    }
    if (LAYER) {
        [[unroll]] for (uint k = 0u; k < PIECES; k++) {
            [[unroll]] for (uint q = 0u; q < FOURS; q++) {
                mean += dot(part_of(kept[k], X_TYPE, q), vec4(1.0));
            }
        }
        sum_rows(1u, mean, none, nothing);
        mean /= float(p.width);
    }
    [[unroll]] for (uint k = 0u; k < PIECES; k++) {
        const bool in_row = (lane + k * THREADS) * piece < p.width;
        [[unroll]] for (uint q = 0u; q < FOURS; q++) {
            const float sum = add_squares(square, part_of(kept[k], X_TYPE, q) - mean);
            square = in_row ? sum : square;
        }
    }
    sum_rows(1u, square, none, nothing);
    const float inverse = inverse_rms(square, p.width, p.eps);
    [[unroll]] for (uint k = 0u; k < PIECES; k++) {
        const uint i = (lane + k * THREADS) * piece;
        if (any && i < p.width) {
            [[unroll]] for (uint q = 0u; q < FOURS; q++) {
                vec4 y = (part_of(kept[k], X_TYPE, q) - mean) * inverse;
                scale_and_add(i + 4u * q, y);
                store_four(p.y, X_TYPE, row * p.width + i + 4u * q, y);
            }
        }
    }
}
#endif

void norm_elements(uint row, uint x)
{
    bool any = row < p.rows;
    real mean = row_mean(any, x), square = real(0), none = real(0), nothing = real(0);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real centered = load_real(p.x, X_TYPE, x + i) - mean;
        square = fma(centered, centered, square);
    }
    sum_rows(1u, square, none, nothing);
    real inverse = inverse_rms(square, p.width, p.eps);
    for (uint i = lane; any && i < p.width; i += THREADS) {
        real y = (load_real(p.x, X_TYPE, x + i) - mean) * inverse * gain(i);
        if (LAYER && is_given(p.other)) {
            y += load_real(p.other, OTHER_TYPE, i);
        }
        store_real(p.y, X_TYPE, row * p.width + i, y);
    }
}

void main()
{
    const uint row = row_index(), x = row_start(row, p.x_at);
#ifndef WIDE
    if (PIECES > 0u) {
        norm_pieces(row, x);
        return;
    }
#endif
    norm_elements(row, x);
}
