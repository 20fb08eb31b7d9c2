/* backends/cpu/isa/int8_tile.h -- the tile of products of 8-bit activations with quantized weights.
 *
 * Included by int8.c once for each way to multiply: NAME(x) is the function's name, TARGET the
 * compiler's target attribute, DOT the instruction that sums four products of bytes, as a function,
 * or SUMS a function that replaces NAME(sums). NARROW: whether it distinguishes codes of 4 bits.
 */

#if defined(DOT)
/* part[i][v] += the products of a block of m rows. */
static inline __attribute__((always_inline)) TARGET void NAME(sums)(const tile *t, int m,
                                                                    bool narrow, const int8_t *x,
                                                                    const uint8_t *w,
                                                                    vi part[ROWS][VECTORS])
{
    (void)narrow;
#if defined(__aarch64__) /* with more, gcc spills sums */
#pragma GCC unroll 2
#else
#pragma GCC unroll 8
#endif
    for (int q = 0; q < CPU_INT8_TERMS; q += 4) {
        vi codes[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            codes[v] = *(const vi_any *)(const void *)(w + v * 4 * LANES);
        w += 4 * CPU_INT8_COLUMNS;
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            const vi four = *(const int32_any *)(const void *)(x + i * t->x_row + q) - (vi){0};
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                part[i][v] = DOT(part[i][v], codes[v], four);
        }
    }
}
#define SUMS NAME(sums)
#endif

/* m, shifted, narrow and the number of vectors are compile-time constants at each inlined call. */
static inline __attribute__((always_inline)) TARGET void NAME(multiply)(const tile *t, int m,
                                                                        bool shifted, bool narrow)
{
    vf sum[ROWS][VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            sum[i][v] = vload(t->c + i * CPU_INT8_COLUMNS + v * LANES);
    const uint8_t *w = t->w;
    const int8_t *x = t->x;
#if defined(CENTERED)
    const bool started = true;
#else
    const bool started = !shifted;
#endif
    for (int64_t g = 0; g < t->blocks; g++) {
        vi part[ROWS][VECTORS];
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++)
                part[i][v] = started ? t->starts[i * t->starts_row + g] - (vi){0} : (vi){0};
        SUMS(t, m, narrow, x, w, part);
        x += CPU_INT8_TERMS;
        w += CPU_INT8_TERMS * CPU_INT8_COLUMNS;
        vf scale[VECTORS], bias[VECTORS];
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            scale[v] = vload(t->scales + g * CPU_INT8_COLUMNS + v * LANES);
            if (shifted)
                bias[v] = vload(t->biases + g * CPU_INT8_COLUMNS + v * LANES);
        }
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            const vf step = vset(t->steps[i * t->per_row + g]);
#pragma GCC unroll 2
            for (int v = 0; v < VECTORS; v++) {
                sum[i][v] += __builtin_convertvector(part[i][v], vf) * (scale[v] * step);
                if (shifted)
                    sum[i][v] += bias[v] * vset(t->shifts[i * t->per_row + g]);
            }
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            vstore(t->c + i * CPU_INT8_COLUMNS + v * LANES, sum[i][v]);
}

#define CASE(M)                                                                                    \
    case M:                                                                                        \
        if (NARROW && t->narrow && t->shifts)                                                      \
            NAME(multiply)(t, M, true, true);                                                      \
        else if (NARROW && t->narrow)                                                              \
            NAME(multiply)(t, M, false, true);                                                     \
        else if (t->shifts)                                                                        \
            NAME(multiply)(t, M, true, false);                                                     \
        else                                                                                       \
            NAME(multiply)(t, M, false, false);                                                    \
        break
static TARGET void NAME(run_tile)(const tile *t, int m)
{
    switch (m) {
        CASE(1);
        CASE(2);
#if ROWS > 2
        CASE(3);
        CASE(4);
        CASE(5);
        CASE(6);
#endif
    }
}
#undef CASE

#if !defined(CENTERED)
static TARGET void NAME(block)(const cpu_int8_block *b)
{
    block_by(NAME(run_tile), b, b->per_row);
}
#endif
