// backends/vulkan/shaders/matvec_codes.glsl -- the products of a row with a quantized column, for
// matvec.comp: Q4_K, Q6_K, Q8_0 and affine codes of 4 bits by whole words, several loads in flight;
// eight elements at a time for all others.

void add_four(vec4 b, int origin, uint k)
{
    [[unroll]] for (uint row = 0u; row < ROWS; row++) {
        sums[row] = fma(b, terms_of(row, origin, k), sums[row]);
    }
}

// Eight terms: k is a multiple of 8.
void add_eight(vec4 low, vec4 high, int origin, uint k)
{
    if (A_TYPE == FLOAT32 || A_UNIT < 8u) {
        add_four(low, origin, k);
        add_four(high, origin, k + 4u);
        return;
    }
    [[unroll]] for (uint row = 0u; row < ROWS; row++) {
#ifdef NORMED
        uvec4 a = row_pieces[place_of_piece(row, k / 8u)];
#else
        uvec4 a = load_piece(p.a, A_TYPE, true, origin + int(row) * p.a_row + int(k), 8u);
#endif
        sums[row] = fma(low, part_of(a, A_TYPE, 0u), sums[row]);
        sums[row] = fma(high, part_of(a, A_TYPE, 1u), sums[row]);
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

vec4 low_of(uint word)
{
    return vec4(bytes_of(word) & 15u);
}

vec4 high_of(uint word)
{
    return vec4(bytes_of(word) >> 4);
}

// 8 bytes: a quarter of the low codes of group 2 j, and of the high ones of group 2 j + 1.
void add_q4_k(uvec4 head, uvec2 codes, uint part, int origin)
{
    const uint j = part % 16u / 4u, k = part / 16u * 256u + j * 64u + part % 4u * 8u;
    const vec4 by = scales_of_q4_k(head, j);
    const vec4 low = vec4(by.x), least = vec4(by.y), high = vec4(by.z), most = vec4(by.w);
    add_eight(fma(low_of(codes.x), low, least), fma(low_of(codes.y), low, least), origin, k);
    add_eight(fma(high_of(codes.x), high, most), fma(high_of(codes.y), high, most), origin,
              k + 32u);
}

void add_column_q4_k(Codes w, int origin, uint column, uint lane)
{
    const uint parts = p.terms / 16u;
    const uvec2 row = uvec2(row_of(w, column));
    for (uint first = lane; first < parts; first += LOADS * LANES) {
        uvec4 heads[LOADS];
        uvec2 codes[LOADS];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint part = min(first + i * LANES, parts - 1u);
            heads[i] = Quads(row).at[part / 16u * 9u];
            codes[i] = Pairs(row).at[part / 16u * 18u + 2u + part % 16u];
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            if (first + i * LANES < parts) {
                add_q4_k(heads[i], codes[i], first + i * LANES, origin);
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

void add_q6_k(Sixteen s, uint part, int origin)
{
    const uint upper = part % 16u / 8u, l = part % 8u * 4u;
    const uint k = part / 16u * 256u + upper * 128u + l;
    const float scale = unpackHalf2x16(s.scale).x;
    [[unroll]] for (uint q = 0u; q < 4u; q++) {
        const uvec4 code = (bytes_of(s.low[q % 2u]) >> q / 2u * 4u & 15u) |
                           (bytes_of(s.high) >> 2u * q & 3u) << 4;
        const int by = signed_byte(s.scales[q / 2u] >> (q % 2u * 2u + l / 16u) * 8u & 0xffu);
        add_four(vec4(ivec4(code) - 32) * (scale * float(by)), origin, k + 32u * q);
    }
}

void add_column_q6_k(Codes w, int origin, uint column, uint lane)
{
    const uint parts = p.terms / 16u, start = column * w.code_row;
    const uint SOME = LOADS / 2u;
    for (uint first = lane; first < parts; first += SOME * LANES) {
        Sixteen all[SOME];
        [[unroll]] for (uint i = 0u; i < SOME; i++) {
            const uint part = min(first + i * LANES, parts - 1u);
            all[i] = load_q6_k(w.codes, start + part / 16u * 210u, part % 16u);
        }
        [[unroll]] for (uint i = 0u; i < SOME; i++) {
            if (first + i * LANES < parts) {
                add_q6_k(all[i], first + i * LANES, origin);
            }
        }
    }
}

// ---- Q8_0: blocks of 34 bytes: a scale, then 32 codes

// The words that have the scale of a quarter of a block, and its eight codes.
uvec4 load_q8_0(Words codes, uint at, uint quarter)
{
    const uint first = at + 2u + 8u * quarter, word = first / 4u;
    uvec4 words = uvec4(codes.at[at / 4u], codes.at[word], codes.at[word + 1u], 0u);
    words.x = at % 4u == 0u ? words.x : words.x >> 16;
    if (first % 4u != 0u) {
        words.w = codes.at[word + 2u];
        words.y = words.y >> 16 | words.z << 16;
        words.z = words.z >> 16 | words.w << 16;
    }
    return words;
}

vec4 signed_bytes(uint word)
{
    return vec4(ivec4(bytes_of(word) << 24) >> 24);
}

void add_column_q8_0(Codes w, int origin, uint column, uint lane)
{
    const uint quarters = p.terms / 8u, start = column * w.code_row;
    for (uint first = lane; first < quarters; first += LOADS * LANES) {
        uvec4 words[LOADS];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint quarter = min(first + i * LANES, quarters - 1u);
            words[i] = load_q8_0(w.codes, start + quarter / 4u * 34u, quarter % 4u);
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint quarter = first + i * LANES;
            if (quarter < quarters) {
                const float scale = unpackHalf2x16(words[i].x).x;
                add_eight(signed_bytes(words[i].y) * scale, signed_bytes(words[i].z) * scale,
                          origin, quarter * 8u);
            }
        }
    }
}

// ---- Affine codes of 4 bits: scale and bias in one word, then words of eight codes

void add_column_affine(Codes w, int origin, uint column, uint lane)
{
    const uint words = p.terms / 8u;
    const uint start = column * w.code_row / 4u, scale_start = column * w.scale_row / 4u;
    for (uint first = lane; first < words; first += LOADS * LANES) {
        uint codes[LOADS], scales[LOADS];
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint word = min(first + i * LANES, words - 1u), group = word / (GROUP / 8u);
            codes[i] = w.codes.at[start + group * (w.code_group / 4u) + word % (GROUP / 8u)];
            scales[i] = w.scales.at[scale_start + group * (w.scale_group / 4u)];
        }
        [[unroll]] for (uint i = 0u; i < LOADS; i++) {
            const uint word = first + i * LANES;
            if (word < words) {
                const vec2 by = convert(uvec4(scales[i], 0u, 0u, 0u), SCALE_TYPE).xy;
                const uint c = codes[i];
                const uvec4 low = uvec4(c, c >> 4, c >> 8, c >> 12) & 15u;
                const uvec4 high = uvec4(c >> 16, c >> 20, c >> 24, c >> 28) & 15u;
                add_eight(fma(vec4(low), vec4(by.x), vec4(by.y)),
                          fma(vec4(high), vec4(by.x), vec4(by.y)), origin, word * 8u);
            }
        }
    }
}

// ---- All others

void add_column_of_any(Codes w, int origin, uint column, uint lane)
{
    for (uint k = lane * 8u; k < p.terms; k += LANES * 8u) {
        vec2 scale = scale_and_bias(w, column, k);
        [[unroll]] for (uint q = 0u; q < 8u; q += 4u) {
            vec4 b = codes_four(w, column, k + q);
            b = BIASED ? fma(b, vec4(scale.x), vec4(scale.y)) : b * scale.x;
            add_four(b, origin, k + q);
        }
    }
}

// B_PACKED: the first block begins at a multiple of 16 bytes; of affine codes, words are aligned.
void add_column(Words matrix, ivec2 origin, uint column, uint lane)
{
    Codes w = Codes(uvec2(matrix));
    if (KIND == Q4_K && B_PACKED) {
        add_column_q4_k(w, origin.x, column, lane);
    } else if (KIND == Q6_K && B_PACKED) {
        add_column_q6_k(w, origin.x, column, lane);
    } else if (KIND == Q8_0 && B_PACKED) {
        add_column_q8_0(w, origin.x, column, lane);
    } else if (KIND == AFFINE && BITS == 4 && SCALE_TYPE != FLOAT32 && B_PACKED) {
        add_column_affine(w, origin.x, column, lane);
    } else {
        add_column_of_any(w, origin.x, column, lane);
    }
}
