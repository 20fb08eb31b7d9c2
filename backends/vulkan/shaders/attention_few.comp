// backends/vulkan/shaders/attention_few.comp -- attention of few rows (decoding), limited by the
// bandwidth of reading keys and values: a workgroup computes all rows of a key head for a chunk of
// the keys. Keys and values that consist of aligned pieces of 16 bytes are read with vectorized
// loads, several in flight. APPEND: of one token, whose query heads and key are rotated first; the
// workgroup of the chunk with the token's place in the cache also writes its key and value there.
#version 460
#include "common.glsl"
#ifndef WIDE
#include "pieces.glsl"
#undef real4
#endif
layout(constant_id = 9) const uint PAGE_KEYS = 0;
#define PAGE PAGE_KEYS
#include "attention.glsl"
#include "attention_parts.glsl"
#ifdef APPEND
layout(constant_id = 10) const uint POSITION_TYPE = INT32;
layout(constant_id = 11) const bool INTERLEAVED = false;
layout(constant_id = 12) const uint START_TYPE = INT32;
#include "rotation.glsl"
#endif

layout(constant_id = 5) const uint ROWS = 1;   // at least L G, a power of two
layout(constant_id = 6) const uint WIDTH = 64; // D, at least 1
layout(constant_id = 7) const uint LINE = 64;  // columns per pass: a power of two, at most 256
layout(constant_id = 8) const bool PACKED = false; // keys and values are read in 16-byte pieces

const uint MOST = 256;              // keys per chunk
const uint LANES = 8;               // invocations per key
const uint KEYS = 256 / LANES;      // keys per pass
const uint THREADS = 256 / ROWS;    // invocations per row in the softmax
const uint VALUE_LOADS = 4;         // loads in flight

shared real queries[ROWS * WIDTH];
shared real scores[ROWS * MOST];
shared real sums[ROWS * 256];

uint t = gl_LocalInvocationIndex;

#ifdef APPEND
// Layout as in attention_append.c.
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Token
{
    Words k, v, positions, frequencies, start;
    Fault fault;
    uint k_at[2], v_at[2]; // strides of B, Hk
    uint positions_at;     // stride of B
    uint pairs;
    float amplitude, turn; // turn: 1, or -1 for the inverse
    uint fault_code;
};
#define TOKEN Token(p.at.d_o)

shared real key_of_token[WIDTH];
shared real cosines[WIDTH], sines[WIDTH];
bool is_written;                  // in pages: the index is valid
uint place;                       // of the token in the cache, or in the pool with all pages
uint key_of_place, value_of_place; // its elements there
#define IS_TOKEN(key) ((key) == key_of_place)

real key_element(uint d)
{
    return key_of_token[d];
}

uint value_start(int b, int hk)
{
    return uint(b) * TOKEN.v_at[0] + uint(hk) * TOKEN.v_at[1];
}

void load_key(const View k, const View v, int b, int hk)
{
    int at = PAGED ? checked_index(TOKEN.start, START_TYPE, uint(b), int((LAST + 1u) * PAGE),
                                   TOKEN.fault, TOKEN.fault_code)
                   : int(clipped_place(TOKEN.start, START_TYPE, 0u, uint(p.at.S) - 1u));
    is_written = at >= 0;
    place = uint(max(at, 0));
    key_of_place = place_of(k, false, place);
    value_of_place = place_of(v, false, place);
    for (uint pair = t; pair < TOKEN.pairs; pair += 256u) {
        uint at = uint(b) * TOKEN.positions_at;
        real angle = angle_of(TOKEN.positions, at, TOKEN.frequencies, pair);
        cosines[pair] = cos_(angle) * TOKEN.amplitude;
        sines[pair] = sin_(angle) * TOKEN.amplitude * TOKEN.turn;
    }
    uint start = uint(b) * TOKEN.k_at[0] + uint(hk) * TOKEN.k_at[1];
    for (uint d = t; d < uint(p.at.D); d += 256u) {
        key_of_token[d] = load_real(TOKEN.k, K_TYPE, start + d);
    }
}

// Rotates the heads that load_key and load_queries have loaded.
void rotate_token()
{
    uint pairs = TOKEN.pairs;
    for (uint i = t; i < (G + 1u) * pairs; i += 256u) {
        uint pair = i % pairs, row = i / pairs;
        uint first = first_of(pair), second = second_of(pair, pairs);
        real cosine = cosines[pair], sine = sines[pair];
        if (row < G) {
            first += row * WIDTH;
            second += row * WIDTH;
            real a = queries[first], b = queries[second];
            queries[first] = as_stored(rotated_first(a, b, cosine, sine), Q_TYPE);
            queries[second] = as_stored(rotated_second(a, b, cosine, sine), Q_TYPE);
        } else {
            real a = key_of_token[first], b = key_of_token[second];
            key_of_token[first] = as_stored(rotated_first(a, b, cosine, sine), K_TYPE);
            key_of_token[second] = as_stored(rotated_second(a, b, cosine, sine), K_TYPE);
        }
    }
    barrier();
}

// The chunk of the token; 0 if it is in none of the row's pages.
int chunk_of_token(const View k)
{
    uint key = place;
    for (uint i = 0u; PAGED && i < PAGES; i++) {
        if (TABLE.at[k.across + i] == place / PAGE) {
            key = i * PAGE + place % PAGE;
            break;
        }
        key = 0u;
    }
    return int(key) / p.at.chunk;
}

// Nothing else writes there, and only this workgroup reads there, before.
void append_token(const View k, const View v, int chunk, int b, int hk)
{
    barrier();
    if (!is_written || chunk_of_token(k) != chunk) {
        return;
    }
    for (uint d = t; d < uint(p.at.D); d += 256u) {
        store_real(k.at, K_TYPE, key_of_place + d, key_of_token[d]);
    }
    for (uint d = t; d < uint(p.at.Dv); d += 256u) {
        uint from = value_start(b, hk) + d;
        if (V_TYPE == FLOAT32) {
            Words(v.at).at[value_of_place + d] = Words(TOKEN.v).at[from];
        } else {
            Halves(v.at).at[value_of_place + d] = Halves(TOKEN.v).at[from];
        }
    }
}
#else
#define IS_TOKEN(key) false

real key_element(uint d)
{
    return real(0);
}
#endif

void load_queries(const View q)
{
    for (uint e = t; e < ROWS * uint(p.at.D); e += 256u) {
        uint row = e / uint(p.at.D), d = e % uint(p.at.D);
        real x = real(0);
        if (row < uint(p.at.L) * G) {
            x = load_real(q.at, Q_TYPE, place_of(q, true, row) + d);
        }
        queries[row * WIDTH + d] = x;
    }
    barrier();
}

real seen_score(uint row, int key, uint place, int b, int hk)
{
    int l = int(row / G);
    real total = real(0), slope;
    for (uint i = 0u; i < LANES; i++) {
        total += sums[row * 256u + place * LANES + i];
    }
    bool seen = l < p.at.L && sees(l, key);
    return seen ? score_of(total, b, l, hk * int(G) + int(row % G), key, slope) : HIDDEN;
}

real part[ROWS]; // partial products of a key with the queries, of this invocation

void multiply_elements(const View k, uint start)
{
    bool own = IS_TOKEN(start);
    for (uint d = t % LANES; d < uint(p.at.D); d += LANES) {
        real x = own ? key_element(d) : load_real(k.at, K_TYPE, start + d);
        for (uint r = 0u; r < ROWS; r++) {
            part[r] += x * queries[r * WIDTH + d];
        }
    }
}

#ifndef WIDE
const uint K_PIECE = K_TYPE == FLOAT32 ? 4 : 8, V_PIECE = V_TYPE == FLOAT32 ? 4 : 8;
const uint K_PIECES = (WIDTH / K_PIECE + LANES - 1) / LANES; // pieces per invocation
const uint K_KEPT = K_PIECES > 0 ? K_PIECES : 1;

void multiply_pieces(const View k, uint start)
{
    bool own = IS_TOKEN(start);
    uvec4 pieces[K_KEPT];
    [[unroll]] for (uint i = 0u; i < K_PIECES; i++) {
        const uint d = (t % LANES + i * LANES) * K_PIECE;
        pieces[i] = uvec4(0u);
        if (d < WIDTH) {
            pieces[i] = load_piece(k.at, K_TYPE, true, int(start + d), K_PIECE);
        }
    }
    [[unroll]] for (uint i = 0u; i < K_PIECES; i++) {
        const uint d = (t % LANES + i * LANES) * K_PIECE;
        [[unroll]] for (uint e = 0u; e < K_PIECE; e += 4u) {
            vec4 x = part_of(pieces[i], K_TYPE, e / 4u);
            if (own && d < WIDTH) {
                x = vec4(key_element(d + e), key_element(d + e + 1u), key_element(d + e + 2u),
                         key_element(d + e + 3u));
            }
            if (d < WIDTH) {
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    const uint q = r * WIDTH + d + e;
                    part[r] += dot(x, vec4(queries[q], queries[q + 1u], queries[q + 2u],
                                           queries[q + 3u]));
                }
            }
        }
    }
}
#endif

void multiply_key(const View k, uint start)
{
#ifndef WIDE
    if (PACKED) {
        multiply_pieces(k, start);
        return;
    }
#endif
    multiply_elements(k, start);
}

void score_keys(const View k, int from, int n, int b, int hk)
{
    for (int k0 = 0; k0 < n; k0 += int(KEYS)) {
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            part[r] = real(0);
        }
        int key = from + k0 + int(t / LANES);
        if (key < from + n) {
            multiply_key(k, place_in(k, false, uint(key)));
        }
        barrier();
        for (uint r = 0u; r < ROWS; r++) {
            sums[r * 256u + t] = part[r];
        }
        barrier();
        for (uint e = t; e < ROWS * KEYS; e += 256u) {
            int own = k0 + int(e % KEYS);
            if (own < n) {
                scores[e / KEYS * MOST + uint(own)] =
                    seen_score(e / KEYS, from + own, e % KEYS, b, hk);
            }
        }
    }
    barrier();
}

// Replaces scores with exponentials; every invocation of a row receives the row's maximum and sum.
void soften(int n, out real top, out real sum)
{
    uint row = t / THREADS, lane = t % THREADS;
    top = HIDDEN;
    sum = real(0);
    for (uint k = lane; k < uint(n); k += THREADS) {
        top = max(top, scores[row * MOST + k]);
    }
    sums[t] = top;
    for (uint half_ = THREADS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (lane < half_) {
            sums[t] = max(sums[t], sums[t + half_]);
        }
    }
    barrier();
    top = sums[t - lane];
    for (uint k = lane; k < uint(n); k += THREADS) {
        real e = exp_(scores[row * MOST + k] - reference_of(top));
        scores[row * MOST + k] = e;
        sum += e;
    }
    barrier();
    sums[t] = sum;
    for (uint half_ = THREADS / 2u; half_ > 0u; half_ /= 2u) {
        barrier();
        if (lane < half_) {
            sums[t] += sums[t + half_];
        }
    }
    barrier();
    sum = sums[t - lane];
}

// Sums the values' columns from c0 on for each row, as 256 / LINE partial sums in shared memory.
void sum_values(const View v, int from, int n, uint c0, int b, int hk)
{
    for (uint r = 0u; r < ROWS; r++) {
        part[r] = real(0);
    }
    uint column = c0 + t % LINE;
    for (uint k = t / LINE; column < uint(p.at.Dv) && k < uint(n); k += 256u / LINE) {
        uint start = place_in(v, false, uint(from) + k);
        real x = load_real(v.at, V_TYPE, start + column);
#ifdef APPEND
        if (start == value_of_place) {
            x = load_real(TOKEN.v, V_TYPE, value_start(b, hk) + column);
        }
#endif
        for (uint r = 0u; r < ROWS; r++) {
            part[r] += x * scores[r * MOST + k];
        }
    }
    barrier();
    for (uint r = 0u; r < ROWS; r++) {
        sums[r * 256u + t] = part[r];
    }
    barrier();
}

shared real divisors[ROWS];

// Stores columns c0, c0 + step, ... of each row: LINE of them, one per invocation of a line.
void store_values(int b, int hk, int chunk, uint c0, uint step)
{
    for (uint e = t; e < ROWS * LINE; e += 256u) {
        uint row = e / LINE, column = c0 + e % LINE * step;
        if (row >= uint(p.at.L) * G || column >= uint(p.at.Dv)) {
            continue;
        }
        real total = real(0);
        for (uint i = 0u; i < 256u; i += LINE) {
            total += sums[row * 256u + i + e % LINE];
        }
        uint out_row = out_row_of(b, hk, int(row));
        if (p.at.chunks == 1) {
            store_real(p.at.o, Q_TYPE, out_row * uint(p.at.Dv) + column, total * divisors[row]);
        } else {
            store_real(p.at.work, REAL_TYPE, part_start(out_row, chunk) + 2u + column, total);
        }
    }
}

#ifndef WIDE
// Each invocation accumulates one 16-byte piece of the values of every (256 / LINE)th key.
void sum_value_pieces(const View v, int from, int n, int b, int hk, int chunk)
{
    const uint step = 256u / LINE, column = t % LINE * V_PIECE;
    const bool in_row = column < uint(p.at.Dv);
    vec4 total[ROWS * 2u];
    [[unroll]] for (uint r = 0u; r < ROWS * 2u; r++) {
        total[r] = vec4(0.0);
    }
#ifdef APPEND
    uvec4 own = uvec4(0u);
    if (in_row) {
        own = load_piece(TOKEN.v, V_TYPE, true, int(value_start(b, hk) + column), V_PIECE);
    }
#endif
    for (uint first = t / LINE; in_row && first < uint(n); first += VALUE_LOADS * step) {
        uvec4 pieces[VALUE_LOADS];
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            const uint k = min(first + i * step, uint(n) - 1u);
            const uint start = place_in(v, false, uint(from) + k);
            pieces[i] = load_piece(v.at, V_TYPE, true, int(start + column), V_PIECE);
#ifdef APPEND
            if (start == value_of_place) {
                pieces[i] = own;
            }
#endif
        }
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            const uint k = first + i * step;
            if (k < uint(n)) {
                [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                    const float weight = scores[r * MOST + k];
                    total[2u * r] += weight * part_of(pieces[i], V_TYPE, 0u);
                    if (V_PIECE > 4u) {
                        total[2u * r + 1u] += weight * part_of(pieces[i], V_TYPE, 1u);
                    }
                }
            }
        }
    }
    [[unroll]] for (uint e = 0u; e < 8u; e++) {
        if (e < V_PIECE) {
            barrier();
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                sums[r * 256u + t] = total[2u * r + e / 4u][e % 4u];
            }
            barrier();
            store_values(b, hk, chunk, e, V_PIECE);
        }
    }
}
#endif

void add_values(const View v, int from, int n, int b, int hk, int chunk)
{
#ifndef WIDE
    if (PACKED) {
        sum_value_pieces(v, from, n, b, hk, chunk);
        return;
    }
#endif
    for (uint c0 = 0u; c0 < uint(p.at.Dv); c0 += LINE) {
        sum_values(v, from, n, c0, b, hk);
        store_values(b, hk, chunk, c0, 1u);
    }
}

void main()
{
    int index = launch_index(), chunk = index % p.at.chunks, pair = index / p.at.chunks;
    if (pair >= p.at.pairs) {
        return;
    }
    int b = pair / p.at.Hk, hk = pair % p.at.Hk, from, to;
    cut_keys(b);
    keys_seen(0, p.at.L - 1, chunk, from, to);
    int n = max(to - from, 0);
    View k = keys_of_row(p.at.k, p.at.k_at, b, hk), v = keys_of_row(p.at.v, p.at.v_at, b, hk);
#ifdef APPEND
    load_key(k, v, b, hk);
    load_queries(rows_of(p.at.q, p.at.q_at, b, hk));
    rotate_token();
#else
    load_queries(rows_of(p.at.q, p.at.q_at, b, hk));
#endif
    score_keys(k, from, n, b, hk);
    real top, sum;
    soften(n, top, sum);
    uint row = t / THREADS;
    if (t % THREADS == 0u && row < uint(p.at.L) * G) {
        divisors[row] = inverse_of(sum);
        store_row(out_row_of(b, hk, int(row)), chunk, top, sum);
    }
    add_values(v, from, n, b, hk, chunk);
#ifdef APPEND
    append_token(k, v, chunk, b, hk);
#endif
}
