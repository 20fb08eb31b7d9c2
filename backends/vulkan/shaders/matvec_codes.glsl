// backends/vulkan/shaders/matvec_codes.glsl -- the products of a row with a quantized column, for
// matvec.comp: Q4_K, Q6_K, Q8_0 and affine codes of 4 bits by whole words, several loads in flight;
// eight elements at a time for all others.

void add_four(vec4 b[EACH], int origin, uint k)
{
    [[unroll]] for (uint row = 0u; row < ROWS; row++) {
        const vec4 a = terms_of(row, origin, k);
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            sums[e * ROWS + row] = fma(b[e], a, sums[e * ROWS + row]);
        }
    }
}

// Eight terms: k is a multiple of 8.
void add_eight(vec4 low[EACH], vec4 high[EACH], int origin, uint k)
{
    if (A_TYPE == FLOAT32 || A_UNIT < 8u) {
        add_four(low, origin, k);
        add_four(high, origin, k + 4u);
        return;
    }
    [[unroll]] for (uint row = 0u; row < ROWS; row++) {
#ifdef NORMED
        uvec4 piece = row_pieces[place_of_piece(row, k / 8u)];
#else
        uvec4 piece = load_piece(p.a, A_TYPE, true, origin + int(row) * p.a_row + int(k), 8u);
#endif
        const vec4 a = part_of(piece, A_TYPE, 0u), b = part_of(piece, A_TYPE, 1u);
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            sums[e * ROWS + row] = fma(low[e], a, sums[e * ROWS + row]);
            sums[e * ROWS + row] = fma(high[e], b, sums[e * ROWS + row]);
        }
    }
}

Words row_of(Codes w, uint column)
{
    uint carry;
    uvec2 address = uvec2(w.codes);
    uint low = uaddCarry(address.x, column * w.code_row, carry);
    return Words(uvec2(low, address.y + carry));
}

// ---- Q4_K: blocks of 256 elements in nine pieces of 16 bytes: scales, then codes

// Scale and bias of groups 2 j and 2 j + 1, from the first piece of the block.
vec4 scales_of_q4_k(uvec4 head, uint j)
{
    const vec2 d = unpackHalf2x16(head.x);
    const uint shift = j % 2u * 16u;
    const uvec2 low = uvec2(head.y, head.y >> 8) >> shift & 0xffu;
    const uvec2 middle = uvec2(head.z, head.z >> 8) >> shift & 0xffu;
    const uvec2 high = uvec2(head.w, head.w >> 8) >> shift & 0xffu;
    uvec2 scale = low & 63u, minimum = middle & 63u;
    if (j > 1u) {
        scale = high & 15u | low >> 6 << 4;
        minimum = high >> 4 | middle >> 6 << 4;
    }
    const vec2 a = d.x * vec2(scale), b = -d.y * vec2(minimum);
    return vec4(a.x, b.x, a.y, b.y);
}

// The low four bits of each byte. Masked before the bytes are separated, which is one instruction
// for four codes.
vec4 four_codes(uint word)
{
    return vec4(bytes_of(word & 0x0f0f0f0fu));
}

// 16 bytes: half of the low codes of group 2 j, and of the high ones of group 2 j + 1.
void add_q4_k(uvec4 heads[EACH], uvec4 codes[EACH], uint part, int origin)
{
    const uint j = part % 8u / 2u, k = part / 8u * 256u + j * 64u + part % 2u * 16u;
    vec4 by[EACH], first[EACH], second[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; e++) {
        by[e] = scales_of_q4_k(heads[e], j);
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) { // low codes, then high ones
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            const uint shift = i / 2u * 4u, at = i % 2u * 2u;
            const vec4 scale = vec4(i < 2u ? by[e].x : by[e].z);
            const vec4 least = vec4(i < 2u ? by[e].y : by[e].w);
            first[e] = fma(four_codes(codes[e][at] >> shift), scale, least);
            second[e] = fma(four_codes(codes[e][at + 1u] >> shift), scale, least);
        }
        add_eight(first, second, origin, k + i / 2u * 32u + i % 2u * 8u);
    }
}

void add_columns_q4_k(Codes w[EACH], uint columns[EACH], int origin, uint lane)
{
    const uint parts = p.terms / 32u;
    uvec2 rows[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; e++) {
        rows[e] = uvec2(row_of(w[e], columns[e]));
    }
    for (uint first = lane; first < parts; first += LOADS * LANES) {
        uvec4 all_heads[LOADS * EACH], all_codes[LOADS * EACH];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint part = min(first + i * LANES, parts - 1u);
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                const uint at = part / 8u * 9u;
                all_heads[i * EACH + e] = Quads(rows[e]).at[at];
                all_codes[i * EACH + e] = Quads(rows[e]).at[at + 1u + part % 8u];
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            uvec4 heads[EACH], codes[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                heads[e] = all_heads[i * EACH + e];
                codes[e] = all_codes[i * EACH + e];
            }
            if (first + i * LANES < parts) {
                add_q4_k(heads, codes, first + i * LANES, origin);
            }
        }
    }
}

// ---- Q6_K: blocks of 256 elements in 210 bytes: low codes, high codes, scales, and their scale

// The four bytes at an even place.
uint even_word(Words base, uint at)
{
    const uint word = base.at[at / 4u];
    return at % 4u == 0u ? word : word >> 16 | base.at[at / 4u + 1u] << 16;
}

// What 16 elements need: four adjacent ones of each quarter of half a block.
struct Sixteen {
    uint low[2], high; // low codes of quarters 0 and 2, and of 1 and 3; high codes of all
    uint scales[2];    // of the quarters 0 and 1, and of 2 and 3; two bytes for each quarter
    uint scale;
};

Sixteen load_q6_k(Words codes, uint at, uint part)
{
    const uint upper = part / 8u, l = part % 8u * 4u;
    Sixteen s;
    s.low[0] = even_word(codes, at + upper * 64u + l);
    s.low[1] = even_word(codes, at + upper * 64u + 32u + l);
    s.high = even_word(codes, at + 128u + upper * 32u + l);
    s.scales[0] = even_word(codes, at + 192u + upper * 8u);
    s.scales[1] = even_word(codes, at + 196u + upper * 8u);
    const uint last = codes.at[(at + 208u) / 4u];
    s.scale = at % 4u == 0u ? last : last >> 16;
    return s;
}

void add_q6_k(Sixteen s[EACH], uint part, int origin)
{
    const uint upper = part % 16u / 8u, l = part % 8u * 4u;
    const uint k = part / 16u * 256u + upper * 128u + l;
    [[unroll]] for (uint q = 0u; q < 4u; q++) {
        vec4 b[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            const uvec4 code = (bytes_of(s[e].low[q % 2u]) >> q / 2u * 4u & 15u) |
                               (bytes_of(s[e].high) >> 2u * q & 3u) << 4;
            const int by =
                signed_byte(s[e].scales[q / 2u] >> (q % 2u * 2u + l / 16u) * 8u & 0xffu);
            b[e] = vec4(ivec4(code) - 32) * (unpackHalf2x16(s[e].scale).x * float(by));
        }
        add_four(b, origin, k + 32u * q);
    }
}

void add_columns_q6_k(Codes w[EACH], uint columns[EACH], int origin, uint lane)
{
    const uint parts = p.terms / 16u, SOME = (LOADS + 1u) / 2u;
    for (uint first = lane; first < parts; first += SOME * LANES) {
        Sixteen all[SOME * EACH];
        [[unroll]] for (uint i = 0u; i < SOME; i++) {
            const uint part = min(first + i * LANES, parts - 1u);
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                const uint start = columns[e] * w[e].code_row + part / 16u * 210u;
                all[i * EACH + e] = load_q6_k(w[e].codes, start, part % 16u);
            }
        }
        [[unroll]] for (uint i = 0u; i < SOME; i++) {
            Sixteen some[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                some[e] = all[i * EACH + e];
            }
            if (first + i * LANES < parts) {
                add_q6_k(some, first + i * LANES, origin);
            }
        }
    }
}

// ---- Q8_0: blocks of 34 bytes: a scale, then 32 codes

// Half a block.
struct Half {
    uint scale;
    uvec4 codes;
};

Half load_q8_0(Words codes, uint at, uint side)
{
    const uint word = (at + 2u + 16u * side) / 4u;
    Half h;
    h.codes = uvec4(codes.at[word], codes.at[word + 1u], codes.at[word + 2u], codes.at[word + 3u]);
    h.scale = codes.at[at / 4u];
    if (at % 4u == 0u) { // the codes begin in the middle of a word
        h.codes = h.codes >> 16 | uvec4(h.codes.yzw, codes.at[word + 4u]) << 16;
    } else {
        h.scale >>= 16;
    }
    return h;
}

vec4 signed_bytes(uint word)
{
    const int w = int(word);
    return vec4(bitfieldExtract(w, 0, 8), bitfieldExtract(w, 8, 8), bitfieldExtract(w, 16, 8),
                bitfieldExtract(w, 24, 8));
}

void add_q8_0(Half h[EACH], uint k, int origin)
{
    [[unroll]] for (uint i = 0u; i < 4u; i += 2u) {
        vec4 low[EACH], high[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; e++) {
            const float scale = unpackHalf2x16(h[e].scale).x;
            low[e] = signed_bytes(h[e].codes[i]) * scale;
            high[e] = signed_bytes(h[e].codes[i + 1u]) * scale;
        }
        add_eight(low, high, origin, k + 4u * i);
    }
}

void add_columns_q8_0(Codes w[EACH], uint columns[EACH], int origin, uint lane)
{
    const uint halves = p.terms / 16u;
    for (uint first = lane; first < halves; first += LOADS * LANES) {
        Half all[LOADS * EACH];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint place = min(first + i * LANES, halves - 1u);
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                const uint start = columns[e] * w[e].code_row + place / 2u * 34u;
                all[i * EACH + e] = load_q8_0(w[e].codes, start, place % 2u);
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            Half some[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                some[e] = all[i * EACH + e];
            }
            if (first + i * LANES < halves) {
                add_q8_0(some, (first + i * LANES) * 16u, origin);
            }
        }
    }
}

// ---- Affine codes of 4 bits: scale and bias in one word, then words of eight codes

struct Eight {
    uint codes, by;
};

void add_affine(Eight x[EACH], uint k, int origin)
{
    vec4 low[EACH], high[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; e++) {
        const vec2 by = convert(uvec4(x[e].by, 0u, 0u, 0u), SCALE_TYPE).xy;
        const vec4 even = fma(four_codes(x[e].codes), vec4(by.x), vec4(by.y));
        const vec4 odd = fma(four_codes(x[e].codes >> 4), vec4(by.x), vec4(by.y));
        low[e] = vec4(even.x, odd.x, even.y, odd.y);
        high[e] = vec4(even.z, odd.z, even.w, odd.w);
    }
    add_eight(low, high, origin, k);
}

void add_columns_affine(Codes w[EACH], uint columns[EACH], int origin, uint lane)
{
    const uint words = p.terms / 8u;
    for (uint first = lane; first < words; first += LOADS * LANES) {
        Eight all[LOADS * EACH];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint word = min(first + i * LANES, words - 1u), group = word / (GROUP / 8u);
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                const uint codes = columns[e] * w[e].code_row + group * w[e].code_group;
                const uint scales = columns[e] * w[e].scale_row + group * w[e].scale_group;
                all[i * EACH + e] = Eight(w[e].codes.at[codes / 4u + word % (GROUP / 8u)],
                                          w[e].scales.at[scales / 4u]);
            }
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            Eight some[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                some[e] = all[i * EACH + e];
            }
            if (first + i * LANES < words) {
                add_affine(some, (first + i * LANES) * 8u, origin);
            }
        }
    }
}

// ---- All others

void add_columns_of_any(Codes w[EACH], uint columns[EACH], int origin, uint lane)
{
    for (uint k = lane * 8u; k < p.terms; k += LANES * 8u) {
        [[unroll]] for (uint q = 0u; q < 8u; q += 4u) {
            vec4 b[EACH];
            [[unroll]] for (uint e = 0u; e < EACH; e++) {
                const vec2 scale = scale_and_bias(w[e], columns[e], k);
                b[e] = codes_four(w[e], columns[e], k + q);
                b[e] = BIASED ? fma(b[e], vec4(scale.x), vec4(scale.y)) : b[e] * scale.x;
            }
            add_four(b, origin, k + q);
        }
    }
}

// B_PACKED: the first block begins at a multiple of 16 bytes; of affine codes, words are aligned.
void add_columns(Words matrices[EACH], uint columns[EACH], int a, int b, uint lane)
{
    Codes w[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; e++) {
        w[e] = Codes(uvec2(matrices[e]));
    }
    if (KIND == Q4_K && B_PACKED) {
        add_columns_q4_k(w, columns, a, lane);
    } else if (KIND == Q6_K && B_PACKED) {
        add_columns_q6_k(w, columns, a, lane);
    } else if (KIND == Q8_0 && B_PACKED) {
        add_columns_q8_0(w, columns, a, lane);
    } else if (KIND == AFFINE && BITS == 4 && SCALE_TYPE != FLOAT32 && B_PACKED) {
        add_columns_affine(w, columns, a, lane);
    } else {
        add_columns_of_any(w, columns, a, lane);
    }
}
