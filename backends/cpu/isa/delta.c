/* backends/cpu/isa/delta.c -- the gated delta rule and that of Mamba 2: one token through rows of a
 * state. The rows are independent. */
#include "backends/cpu/isa/simd.h"
#include "backends/cpu/kernels.h"

/* What the rows know of the key's value: their products with the key. */
SIMD void known_of(const float *state, int64_t D, const float *key, float *out, int together)
{
    vf known[4] = {{0}};
    float rest[4] = {0};
    const int64_t whole = D / LANES * LANES;
    for (int64_t i = 0; i < whole; i += LANES) {
        const vf k = vload(key + i);
        for (int r = 0; r < together; r++)
            known[r] += vload(state + r * D + i) * k;
    }
    for (int64_t i = whole; i < D; i++) {
        for (int r = 0; r < together; r++)
            rest[r] += state[r * D + i] * key[i];
    }
    for (int r = 0; r < together; r++)
        out[r] = vsum(known[r]) + rest[r];
}

/* Processes `together` rows at a time, so that the key and the query are loaded once for them. */
SIMD void read_rows(float *state, int64_t D, const float *key, const float *query, const float *v,
                    float keep, const float *beta, float *y, int together)
{
    vf read[4] = {{0}};
    float read_rest[4] = {0}, add[4];
    const int64_t whole = D / LANES * LANES;
    if (beta)
        known_of(state, D, key, add, together);
    for (int r = 0; r < together; r++)
        add[r] = beta ? *beta * (v[r] - keep * add[r]) : v[r];
    for (int64_t i = 0; i < whole; i += LANES) {
        const vf k = vload(key + i), q = vload(query + i);
        for (int r = 0; r < together; r++) {
            const vf s = vload(state + r * D + i) * keep + k * add[r];
            vstore(state + r * D + i, s);
            read[r] += s * q;
        }
    }
    for (int64_t i = whole; i < D; i++) {
        for (int r = 0; r < together; r++) {
            float *s = &state[r * D + i];
            *s = *s * keep + key[i] * add[r];
            read_rest[r] += *s * query[i];
        }
    }
    for (int r = 0; r < together; r++)
        y[r] = vsum(read[r]) + read_rest[r];
}

static void delta_rows(float *state, int64_t rows, int64_t D, const float *key, const float *query,
                       const float *v, float keep, const float *beta, float *y)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4)
        read_rows(state + r * D, D, key, query, v + r, keep, beta, y + r, 4);
    for (; r < rows; r++)
        read_rows(state + r * D, D, key, query, v + r, keep, beta, y + r, 1);
}

void CPU_NAME(weft__fill_delta)(cpu_kernels *table)
{
    table->delta_rows = delta_rows;
}
