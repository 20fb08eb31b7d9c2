/* backends/cpu/isa/gemm.c -- the float32 GEMM microkernel, and the packing of B.
 *
 * A tile of C is kept in registers; each step in k broadcasts ROWS elements of A against VECTORS
 * vectors of B. Must equal the double loop of tests/cpu/test_gemm.c. On a Zen 5 core at 2.6 GHz the
 * block loop reaches 90% of the two-FMA peak; Debian 12's OpenBLAS treats that core as Haswell and
 * reaches half of it (docs/performance-log.md).
 */
#include "backends/cpu/isa/checked.h"
#include "backends/cpu/isa/transpose.h"
#include "backends/cpu/kernels.h"

#if defined(__AVX512F__) || defined(__aarch64__) /* 32 registers */
#define ROWS 12
#else
#define ROWS 6
#endif
/* A tile prefetches a line of the next panel of B for each STEPS steps in k: all of it while eight
 * tiles use the panel. */
enum { VECTORS = 2, COLUMNS = VECTORS * LANES, GROUP = 3, LINE = 64, STEPS = 128 / COLUMNS };
enum { FLOAT = sizeof(float) };

typedef struct tile {
    int64_t k;
    const float *a;
    int64_t a_row, a_k;
    const float *b;
    int64_t b_k;
    const char *next; /* is prefetched */
    float *c;
    int64_t c_row;
    bool add;
    const float *bias;
} tile;

/* One step in k: row i of A times the vectors at b. */
SIMD void step(const float *const *a, int64_t a_row, const float *b, int m, int nv,
               vf (*sum)[VECTORS])
{
    vf bv[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < nv; v++)
        bv[v] = vload(b + v * LANES);
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        vf x = vset(a[i / GROUP][i % GROUP * a_row]);
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            sum[i][v] += x * bv[v];
    }
}

/* m and nv are compile-time constants at each inlined call. `rows`: a_k is 1, else a_row is 1. */
SIMD void multiply(const tile *t, int m, int nv, bool rows)
{
    vf sum[ROWS][VECTORS];
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        for (int v = 0; v < nv; v++)
            sum[i][v] = (vf){0};
            /* Otherwise the processor waits for the lines of C at the end. */
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        for (int v = 0; v < nv * LANES; v += LINE / FLOAT)
            __builtin_prefetch(t->c + i * t->c_row + v, 1);
    /* One pointer per three rows of A: their addresses are base + {0, 1, 2} * stride. */
    const float *a[ROWS / GROUP];
    for (int g = 0; g * GROUP < m; g++)
        a[g] = t->a + g * GROUP * (rows ? t->a_row : 1);
    const int64_t a_row = rows ? t->a_row : 1;
    const int64_t a_k = rows ? 1 : t->a_k;
    const float *b = t->b;
    const char *next = t->next;
    int64_t k = 0;
    for (; k + STEPS <= t->k; k += STEPS, next += LINE) {
        __builtin_prefetch(next);
#pragma GCC unroll 8
        for (int s = 0; s < STEPS; s++, b += t->b_k) {
            step(a, a_row, b, m, nv, sum);
#pragma GCC unroll 4
            for (int g = 0; g * GROUP < m; g++)
                a[g] += a_k;
        }
    }
    for (; k < t->k; k++, b += t->b_k) {
        step(a, a_row, b, m, nv, sum);
#pragma GCC unroll 4
        for (int g = 0; g * GROUP < m; g++)
            a[g] += a_k;
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) {
            float *c = t->c + i * t->c_row + v * LANES;
            if (t->add)
                sum[i][v] += vload(c);
            else if (t->bias)
                sum[i][v] += vload(t->bias + v * LANES);
            vstore(c, sum[i][v]);
        }
    }
}

#define CASE(M, NV, BY_ROWS)                                                                       \
    case M:                                                                                        \
        multiply(t, M, NV, BY_ROWS);                                                               \
        break
#if ROWS == 12
#define UPPER_CASES(NV, BY_ROWS)                                                                   \
    CASE(7, NV, BY_ROWS);                                                                          \
    CASE(8, NV, BY_ROWS);                                                                          \
    CASE(9, NV, BY_ROWS);                                                                          \
    CASE(10, NV, BY_ROWS);                                                                         \
    CASE(11, NV, BY_ROWS);                                                                         \
    CASE(12, NV, BY_ROWS);
#else
#define UPPER_CASES(NV, BY_ROWS)
#endif
#define TILE_FUNCTION(name, NV, BY_ROWS)                                                           \
    static void name(const tile *t, int m)                                                         \
    {                                                                                              \
        switch (m) {                                                                               \
            CASE(1, NV, BY_ROWS);                                                                  \
            CASE(2, NV, BY_ROWS);                                                                  \
            CASE(3, NV, BY_ROWS);                                                                  \
            CASE(4, NV, BY_ROWS);                                                                  \
            CASE(5, NV, BY_ROWS);                                                                  \
            CASE(6, NV, BY_ROWS);                                                                  \
            UPPER_CASES(NV, BY_ROWS)                                                               \
        }                                                                                          \
    }

TILE_FUNCTION(rows_wide, VECTORS, true)
TILE_FUNCTION(rows_narrow, 1, true)
TILE_FUNCTION(panel_wide, VECTORS, false)
TILE_FUNCTION(panel_narrow, 1, false)

#undef TILE_FUNCTION
#undef UPPER_CASES
#undef CASE

static void run_tile(const tile *t, int m, bool wide)
{
    if (t->a_k == 1)
        (wide ? rows_wide : rows_narrow)(t, m);
    else
        (wide ? panel_wide : panel_narrow)(t, m);
}

/* A tile whose last vector is partial uses a separate buffer. */
static void run_edge(const tile *t, int m, int n)
{
    float buffer[ROWS * COLUMNS];
    tile whole = *t;
    whole.c = buffer;
    whole.c_row = COLUMNS;
    whole.add = false;
    whole.bias = NULL;
    run_tile(&whole, m, n > LANES);
    for (int i = 0; i < m; i++) {
        float *c = t->c + i * t->c_row;
        const float *from = buffer + i * COLUMNS;
        for (int j = 0; j < n; j++)
            c[j] = from[j] + (t->add ? c[j] : t->bias ? t->bias[j] : 0.0f);
    }
}

static void check_tile(const tile *t, int m, int n)
{
    if (t->a_k == 1)
        check_read(t->a, t->k * FLOAT, t->a_row * FLOAT, m);
    else
        check_read(t->a, m * FLOAT, t->a_k * FLOAT, t->k);
    check_write(t->c, n * FLOAT, t->c_row * FLOAT, m);
    check_read(t->bias, n * FLOAT, 0, t->bias != NULL);
}

/* Panel j of B, or what follows the last one; NULL: nothing that is contiguous. */
static const char *panel_after(const cpu_block *block, int64_t j)
{
    if (block->b_k != COLUMNS)
        return NULL;
    if (j + COLUMNS < block->n)
        return (const char *)(block->b + (j / COLUMNS + 1) * block->b_panel);
    return (const char *)block->b_next;
}

static void gemm_block(const cpu_block *block)
{
    tile t = {.k = block->k,
              .a_row = block->a_row,
              .a_k = block->a_k,
              .b_k = block->b_k,
              .c_row = block->c_row,
              .add = block->add};
    for (int64_t j = 0; j < block->n; j += COLUMNS) {
        int n = (int)(block->n - j < COLUMNS ? block->n - j : COLUMNS);
        t.b = block->b + j / COLUMNS * block->b_panel;
        t.bias = block->bias ? block->bias + j : NULL;
        const char *next = panel_after(block, j);
        t.next = next ? next : (const char *)t.b;
        check_read(t.b, (n + LANES - 1) / LANES * LANES * FLOAT, t.b_k * FLOAT, t.k);
        for (int64_t i = 0; i < block->m; i += ROWS) {
            int m = (int)(block->m - i < ROWS ? block->m - i : ROWS);
            t.a = block->a + i / ROWS * block->a_panel;
            t.c = block->c + i * block->c_row + j;
            check_tile(&t, m, n);
            if (n % LANES == 0)
                run_tile(&t, m, n == COLUMNS);
            else
                run_edge(&t, m, n);
            if (next)
                t.next += t.k / STEPS * LINE;
        }
    }
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* Packs n columns of B that are contiguous along k, a multiple of LANES, into a panel; from column
 * `real` on they are 0. WHOLE steps at a time of all columns: those of a line of float32, so that
 * lines of both are used while they are in the L1 cache. */
SIMD void pack_columns(weft_dtype dtype, const void *b, int64_t b_n, int64_t k, int n, int64_t real,
                       float *out)
{
    enum { WHOLE = 16 };
    int64_t p = 0;
    for (; p + WHOLE <= k; p += WHOLE)
        for (int j = 0; j < n; j += LANES)
#pragma GCC unroll 4
            for (int64_t q = p; q < p + WHOLE; q += LANES) {
                vf row[LANES];
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    row[l] = j + l < real ? vload_as(dtype, b, (j + l) * b_n + q) : (vf){0};
                transpose(row);
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    vstore(out + (q + l) * COLUMNS + j, row[l]);
            }
    for (; p < k; p++)
        for (int l = 0; l < n; l++)
            out[p * COLUMNS + l] = l < real ? get_as(dtype, b, l * b_n + p) : 0.0f;
}

/* Packs one vector of columns, contiguous along n. */
SIMD void pack_rows(weft_dtype dtype, const void *b, int64_t b_k, int64_t k, float *out)
{
    for (int64_t p = 0; p < k; p++)
        vstore(out + p * COLUMNS, vload_as(dtype, b, p * b_k));
}

SIMD void pack_any(weft_dtype dtype, const void *b, int64_t b_k, int64_t b_n, int64_t k, int64_t n,
                   float *out)
{
    for (int64_t p = 0; p < k; p++)
        for (int64_t l = 0; l < LANES; l++)
            out[p * COLUMNS + l] = l < n ? get_as(dtype, b, p * b_k + l * b_n) : 0.0f;
}

SIMD void pack_as(weft_dtype dtype, const char *b, int64_t b_k, int64_t b_n, int64_t k, int64_t n,
                  float *out)
{
    const int64_t size = dtype == WEFT_FLOAT32 ? 4 : 2;
    const int64_t padded = (n + COLUMNS - 1) / COLUMNS * COLUMNS;
    for (int64_t p = 0; b_k != 1 && p < k; p++)
        check_read(b + p * b_k * size, size, b_n * size, n);
    for (int64_t l = 0; b_k == 1 && l < n; l++)
        check_read(b + l * b_n * size, size, size, k);
    check_write(out, padded * k * FLOAT, 0, 1);
    for (int64_t j = 0; j < padded; j += LANES) {
        float *to = out + j / COLUMNS * COLUMNS * k + j % COLUMNS;
        const char *from = b + j * b_n * size;
        const bool both = j % COLUMNS == 0 && j + COLUMNS <= n;
        if (j + LANES > n && b_k == 1) {
            pack_columns(dtype, from, b_n, k, LANES, n - j, to);
        } else if (j + LANES > n) {
            pack_any(dtype, from, b_k, b_n, k, n - j, to);
        } else if (b_k == 1) {
            pack_columns(dtype, from, b_n, k, both ? COLUMNS : LANES, COLUMNS, to);
            j += both ? LANES : 0;
        } else if (b_n == 1) {
            pack_rows(dtype, from, b_k, k, to);
        } else {
            pack_any(dtype, from, b_k, b_n, k, LANES, to);
        }
    }
}

static void pack_b(weft_dtype dtype, const void *b, int64_t b_k, int64_t b_n, int64_t k, int64_t n,
                   float *out)
{
    if (dtype == WEFT_BFLOAT16)
        pack_as(WEFT_BFLOAT16, b, b_k, b_n, k, n, out);
    else if (dtype == WEFT_FLOAT16)
        pack_as(WEFT_FLOAT16, b, b_k, b_n, k, n, out);
    else
        pack_as(WEFT_FLOAT32, b, b_k, b_n, k, n, out);
}

/* Whole vectors are stored; the excess is overwritten by the panel's next step in k, or is in the
 * gap between two panels. */
enum { WHOLE = (ROWS + LANES - 1) / LANES * LANES };

/* A panel of `n` rows that are contiguous along k. */
SIMD void pack_a_rows(weft_dtype dtype, const void *a, int64_t a_row, int64_t n, int64_t k,
                      float *out)
{
    int64_t p = 0;
    for (; p + LANES <= k; p += LANES) {
        vf row[WHOLE];
#pragma GCC unroll 16
        for (int i = 0; i < WHOLE; i++)
            row[i] = i < n ? vload_as(dtype, a, i * a_row + p) : (vf){0};
#pragma GCC unroll 4
        for (int i = 0; i < WHOLE; i += LANES)
            transpose(row + i);
#pragma GCC unroll 16
        for (int l = 0; l < LANES; l++)
#pragma GCC unroll 4
            for (int i = 0; i < WHOLE; i += LANES)
                vstore(out + (p + l) * ROWS + i, row[i + l]);
    }
    for (; p < k; p++)
        for (int64_t i = 0; i < n; i++)
            out[p * ROWS + i] = get_as(dtype, a, i * a_row + p);
}

/* All panels of an A that is contiguous along m: a step in k reads a piece of a row. */
SIMD void pack_a_columns(weft_dtype dtype, const void *a, int64_t a_k, int64_t m, int64_t k,
                         float *out)
{
    const int64_t panel = ROWS * k + LANES;
    for (int64_t p = 0; p < k; p++) {
        int64_t i = 0;
        for (; i + WHOLE <= m; i += ROWS)
#pragma GCC unroll 4
            for (int64_t l = 0; l < WHOLE; l += LANES)
                vstore(out + i / ROWS * panel + p * ROWS + l, vload_as(dtype, a, p * a_k + i + l));
        if (dtype == WEFT_FLOAT32 && i + ROWS <= m) {
            memcpy(out + i / ROWS * panel + p * ROWS, (const float *)a + p * a_k + i,
                   ROWS * sizeof(float));
            i += ROWS;
        }
        for (; i < m; i++)
            out[i / ROWS * panel + p * ROWS + i % ROWS] = get_as(dtype, a, p * a_k + i);
    }
}

SIMD void pack_a_as(weft_dtype dtype, const char *a, int64_t a_row, int64_t a_k, int64_t m,
                    int64_t k, float *out)
{
    const int64_t panel = ROWS * k + LANES, size = dtype == WEFT_FLOAT32 ? 4 : 2;
    for (int64_t i = 0; i < m && k > 0; i += ROWS) {
        const int64_t last = i + ROWS <= m ? WHOLE : m - i;
        check_write(out + i / ROWS * panel, ((k - 1) * ROWS + last) * FLOAT, 0, 1);
    }
    if (a_row == 1) {
        check_read(a, m * size, a_k * size, k);
        pack_a_columns(dtype, a, a_k, m, k, out);
        return;
    }
    for (int64_t i = 0; i < m; i += ROWS, out += panel, a += ROWS * a_row * size) {
        const int64_t n = m - i < ROWS ? m - i : ROWS;
        for (int64_t j = 0; j < n; j++)
            check_read(a + j * a_row * size, size, a_k * size, k);
        if (a_k != 1)
            for (int64_t p = 0; p < k; p++)
                for (int64_t j = 0; j < n; j++)
                    out[p * ROWS + j] = get_as(dtype, a, j * a_row + p * a_k);
        else if (n == ROWS)
            pack_a_rows(dtype, a, a_row, ROWS, k, out);
        else
            pack_a_rows(dtype, a, a_row, n, k, out);
    }
}

static void pack_a(weft_dtype dtype, const void *a, int64_t a_row, int64_t a_k, int64_t m,
                   int64_t k, float *out)
{
    if (dtype == WEFT_BFLOAT16)
        pack_a_as(WEFT_BFLOAT16, a, a_row, a_k, m, k, out);
    else if (dtype == WEFT_FLOAT16)
        pack_a_as(WEFT_FLOAT16, a, a_row, a_k, m, k, out);
    else
        pack_a_as(WEFT_FLOAT32, a, a_row, a_k, m, k, out);
}

/* ---- Transposed results --------------------------------------------------------------------- */

/* LANES rows of `from` become m <= LANES rows. */
SIMD void turn_square(const float *from, int64_t from_row, int64_t m, vf more, float *to,
                      int64_t to_row)
{
    vf row[LANES];
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++)
        row[l] = vload(from + l * from_row);
    transpose(row);
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++)
        if (l < m)
            vstore(to + l * to_row, row[l] + more);
}

static void turn(const float *from, int64_t from_row, int64_t m, int64_t n, const float *bias,
                 float *to, int64_t to_row)
{
    check_read(from, (m + LANES - 1) / LANES * LANES * FLOAT, from_row * FLOAT, n);
    check_read(bias, n * FLOAT, 0, bias != NULL);
    check_write(to, n * FLOAT, to_row * FLOAT, m);
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) {
        const vf more = bias ? vload(bias + j) : (vf){0};
        for (int64_t i = 0; i < m; i += LANES)
            turn_square(from + j * from_row + i, from_row, m - i, more, to + i * to_row + j,
                        to_row);
    }
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++)
            to[i * to_row + j] = from[j * from_row + i] + (bias ? bias[j] : 0.0f);
}

void CPU_NAME(weft__fill_gemm)(cpu_kernels *table)
{
    table->gemm_rows = ROWS;
    table->gemm_columns = COLUMNS;
    table->gemm_block = gemm_block;
    table->pack_a = pack_a;
    table->pack_b = pack_b;
    table->turn = turn;
}
