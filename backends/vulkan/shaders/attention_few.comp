// backends/vulkan/shaders/attention_few.comp -- attention of few rows (decoding), limited by the
// bandwidth of reading keys and values: a workgroup computes all rows of a key head for a chunk of
// the keys. Keys and values that consist of aligned pieces of 16 bytes are read with vectorized
// loads, several in flight.
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
    for (uint d = t % LANES; d < uint(p.at.D); d += LANES) {
        real x = load_real(k.at, K_TYPE, start + d);
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
            const vec4 x = part_of(pieces[i], K_TYPE, e / 4u);
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
void sum_values(const View v, int from, int n, uint c0)
{
    for (uint r = 0u; r < ROWS; r++) {
        part[r] = real(0);
    }
    uint column = c0 + t % LINE;
    for (uint k = t / LINE; column < uint(p.at.Dv) && k < uint(n); k += 256u / LINE) {
        real x = load_real(v.at, V_TYPE, place_in(v, false, uint(from) + k) + column);
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
    for (uint first = t / LINE; in_row && first < uint(n); first += VALUE_LOADS * step) {
        uvec4 pieces[VALUE_LOADS];
        [[unroll]] for (uint i = 0u; i < VALUE_LOADS; i++) {
            const uint k = min(first + i * step, uint(n) - 1u);
            pieces[i] = load_piece(v.at, V_TYPE, true,
                                   int(place_in(v, false, uint(from) + k) + column), V_PIECE);
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
        sum_values(v, from, n, c0);
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
    load_queries(rows_of(p.at.q, p.at.q_at, b, hk));
    score_keys(keys_of_row(p.at.k, p.at.k_at, b, hk), from, n, b, hk);
    real top, sum;
    soften(n, top, sum);
    uint row = t / THREADS;
    if (t % THREADS == 0u && row < uint(p.at.L) * G) {
        divisors[row] = inverse_of(sum);
        store_row(out_row_of(b, hk, int(row)), chunk, top, sum);
    }
    add_values(keys_of_row(p.at.v, p.at.v_at, b, hk), from, n, b, hk, chunk);
}
