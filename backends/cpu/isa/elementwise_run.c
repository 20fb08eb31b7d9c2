/* backends/cpu/isa/elementwise_run.c -- runs programs of elementwise ops. A stage processes one
 * group of floats, eight vectors in registers, and ends with a jump to the next stage, so
 * intermediate values are not stored. A stage has only one op, so the compiler cannot contract ops:
 * each rounds as its own kernel does. */
#include "backends/cpu/elementwise_kernels.h"
#include "backends/cpu/isa/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    VECTORS = 8,
    GROUP = VECTORS * LANES * (int)sizeof(float), /* bytes */
    LINE = 64,
    PAGE = 4096,
    PAGES = 4 /* pages that are processed in turn if they come from memory */
};

#define ZERO ((vf){0})

/* ---- Comparisons, and functions based on them ------------------------------------------------ */

#if defined(__AVX512F__)
typedef __mmask16 truth;

#define COMPARE(x, y, how) _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), how)
#define LESS(x, y) COMPARE(x, y, _CMP_LT_OS)
#define LESS_EQUAL(x, y) COMPARE(x, y, _CMP_LE_OS)
#define EQUAL(x, y) COMPARE(x, y, _CMP_EQ_OQ)
#define NOT_EQUAL(x, y) COMPARE(x, y, _CMP_NEQ_UQ)

SIMD vf choose(truth condition, vf x, vf y)
{
    return (vf)_mm512_mask_blend_ps(condition, (__m512)y, (__m512)x);
}

SIMD vf as_number(truth condition)
{
    return (vf)_mm512_maskz_mov_ps(condition, _mm512_set1_ps(1));
}
#else
typedef vi truth;

#define LESS(x, y) ((x) < (y))
#define LESS_EQUAL(x, y) ((x) <= (y))
#define EQUAL(x, y) ((x) == (y))
#define NOT_EQUAL(x, y) ((x) != (y))

SIMD vf choose(truth condition, vf x, vf y)
{
#if defined(__AVX2__)
    return (vf)_mm256_blendv_ps((__m256)y, (__m256)x, (__m256)condition);
#elif defined(__aarch64__)
    return (vf)vbslq_f32((uint32x4_t)condition, (float32x4_t)x, (float32x4_t)y);
#else
    return (vf)(((vi)x & condition) | ((vi)y & ~condition));
#endif
}

SIMD vf as_number(truth condition)
{
    return (vf)((vi)vset(1) & condition);
}
#endif

/* x < y ? x : y and x > y ? x : y, as the min and max instructions compute them. */
#if defined(__AVX512F__)
#define LESSER(x, y) (vf) _mm512_min_ps((__m512)(x), (__m512)(y))
#define GREATER(x, y) (vf) _mm512_max_ps((__m512)(x), (__m512)(y))
#elif defined(__AVX2__)
#define LESSER(x, y) (vf) _mm256_min_ps((__m256)(x), (__m256)(y))
#define GREATER(x, y) (vf) _mm256_max_ps((__m256)(x), (__m256)(y))
#elif defined(__x86_64__)
#define LESSER(x, y) (vf) _mm_min_ps((__m128)(x), (__m128)(y))
#define GREATER(x, y) (vf) _mm_max_ps((__m128)(x), (__m128)(y))
#else
#define LESSER(x, y) choose((x) < (y), x, y)
#define GREATER(x, y) choose((x) > (y), x, y)
#endif

/* NaN wins, in either operand. */
SIMD vf lesser(vf x, vf y)
{
    return choose(NOT_EQUAL(x, x), x, LESSER(x, y));
}

SIMD vf greater(vf x, vf y)
{
    return choose(NOT_EQUAL(x, x), x, GREATER(x, y));
}

SIMD vf magnitude(vf x)
{
    return (vf)((vi)x & 0x7fffffff);
}

SIMD vf negative(vf x)
{
    return (vf)((vi)x ^ (vi)vset(-0.0f));
}

SIMD vf root(vf x)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)x);
#elif defined(__x86_64__)
    return (vf)_mm_sqrt_ps((__m128)x);
#elif defined(__aarch64__)
    return (vf)vsqrtq_f32((float32x4_t)x);
#else
    for (int i = 0; i < LANES; i++) {
        x[i] = __builtin_sqrtf(x[i]);
    }
    return x;
#endif
}

SIMD vf through_float16(vf x)
{
    uint16_t narrow[LANES];
    vstore_float16(narrow, x);
    return vload_float16(narrow);
}

/* Rounds to nearest, ties to even; NaN stays NaN. */
SIMD vf through_bfloat16(vf x)
{
    const vi bits = (vi)x, high = (vi){0} - 0x10000;
    vi rounded = bits + 0x7fff + ((bits >> 16) & 1);
    return (vf)((vi)choose(NOT_EQUAL(x, x), (vf)(bits | 0x400000), (vf)rounded) & high);
}

/* ---- Stages --------------------------------------------------------------------------------- */

/* at: the offset in bytes of the group. Eight vectors is the number that every calling convention
 * passes in registers, and leaves half of the registers to the stage. */
#define ARGUMENTS                                                                                  \
    const cpu_record *r, int64_t at, vf x0, vf x1, vf x2, vf x3, vf x4, vf x5, vf x6, vf x7
typedef void stage(ARGUMENTS);

/* Must be the last statement of a stage, so that it compiles to a jump. */
#define GO_ON(records)                                                                             \
    ((stage *)r[records].stage)(r + (records), at, x0, x1, x2, x3, x4, x5, x6, x7)

SIMD vf other(const cpu_record *r, int64_t at, int v)
{
    return vload((const float *)(const void *)(r->y + (at & r->mask)) + v * LANES);
}

/* Vector v of the group: x becomes the expression, which may use y and z. */
#define VECTOR(v, Y, Z, expression)                                                                \
    {                                                                                              \
        const vf x = x##v, y = Y(v), z = Z(v);                                                     \
        (void)x, (void)y, (void)z;                                                                 \
        x##v = (expression);                                                                       \
    }
#define FROM_MEMORY(v) other(r, at, v)
#define FROM_NEXT(v) other(r + 1, at, v)
#define THE_NUMBER(v) number
#define NOTHING(v) x##v

/* A stage of `records` records, from which it takes y and z. */
#define STAGE(name, records, Y, Z, expression)                                                     \
    static void stage_##name(ARGUMENTS)                                                            \
    {                                                                                              \
        const vf number = vset(r->number);                                                         \
        (void)number;                                                                              \
        VECTOR(0, Y, Z, expression)                                                                \
        VECTOR(1, Y, Z, expression)                                                                \
        VECTOR(2, Y, Z, expression)                                                                \
        VECTOR(3, Y, Z, expression)                                                                \
        VECTOR(4, Y, Z, expression)                                                                \
        VECTOR(5, Y, Z, expression)                                                                \
        VECTOR(6, Y, Z, expression)                                                                \
        VECTOR(7, Y, Z, expression)                                                                \
        GO_ON(records);                                                                            \
    }
#define TWINS(name, expression)                                                                    \
    STAGE(name, 1, FROM_MEMORY, NOTHING, expression)                                               \
    STAGE(name##_number, 1, THE_NUMBER, NOTHING, expression)
#define UNARY(name, expression) STAGE(name, 1, NOTHING, NOTHING, expression)

/* clang-format off */
TWINS(load, y)
TWINS(add, x + y)
TWINS(sub, x - y)
TWINS(sub_of, y - x)
TWINS(mul, x * y)
TWINS(div, x / y)
TWINS(div_of, y / x)
TWINS(min, lesser(x, y))
TWINS(min_of, lesser(y, x))
TWINS(max, greater(x, y))
TWINS(max_of, greater(y, x))
TWINS(lt, as_number(LESS(x, y)))
TWINS(lt_of, as_number(LESS(y, x)))
TWINS(le, as_number(LESS_EQUAL(x, y)))
TWINS(le_of, as_number(LESS_EQUAL(y, x)))
TWINS(eq, as_number(EQUAL(x, y)))
TWINS(ne, as_number(NOT_EQUAL(x, y)))
TWINS(and, as_number((truth)(NOT_EQUAL(x, ZERO) & NOT_EQUAL(y, ZERO))))
TWINS(or, as_number((truth)(NOT_EQUAL(x, ZERO) | NOT_EQUAL(y, ZERO))))
/* The instruction returns its second operand if either is NaN or both are 0; that must be x. */
STAGE(min_plain, 1, THE_NUMBER, NOTHING, LESSER(y, x))
STAGE(max_plain, 1, THE_NUMBER, NOTHING, GREATER(y, x))
UNARY(neg, negative(x))
UNARY(abs, magnitude(x))
UNARY(sqrt, root(x))
UNARY(not, as_number(EQUAL(x, ZERO)))
UNARY(square, x * x)
UNARY(round16, through_float16(x))
UNARY(roundb, through_bfloat16(x))
STAGE(select, 2, FROM_MEMORY, FROM_NEXT, choose(NOT_EQUAL(x, ZERO), y, z))
STAGE(select_first, 2, FROM_MEMORY, FROM_NEXT, choose(NOT_EQUAL(y, ZERO), x, z))
STAGE(select_second, 2, FROM_MEMORY, FROM_NEXT, choose(NOT_EQUAL(y, ZERO), z, x))
/* clang-format on */

SIMD void store_group(char *to, vf x0, vf x1, vf x2, vf x3, vf x4, vf x5, vf x6, vf x7)
{
    float *y = (float *)(void *)to;
    vstore(y, x0);
    vstore(y + LANES, x1);
    vstore(y + 2 * LANES, x2);
    vstore(y + 3 * LANES, x3);
    vstore(y + 4 * LANES, x4);
    vstore(y + 5 * LANES, x5);
    vstore(y + 6 * LANES, x6);
    vstore(y + 7 * LANES, x7);
}

static void stage_store(ARGUMENTS)
{
    store_group(r->y + (at & r->mask), x0, x1, x2, x3, x4, x5, x6, x7);
    GO_ON(1);
}

/* The called function may overwrite all registers, so values needed later are in memory. */
static void stage_call(ARGUMENTS)
{
    r->map(r->in, r->y, VECTORS * LANES, 32);
    (void)x0, (void)x1, (void)x2, (void)x3, (void)x4, (void)x5, (void)x6, (void)x7;
    x0 = other(r, at, 0);
    x1 = other(r, at, 1);
    x2 = other(r, at, 2);
    x3 = other(r, at, 3);
    x4 = other(r, at, 4);
    x5 = other(r, at, 5);
    x6 = other(r, at, 6);
    x7 = other(r, at, 7);
    GO_ON(1);
}

static void stage_end(ARGUMENTS)
{
    (void)r, (void)at;
    (void)x0, (void)x1, (void)x2, (void)x3, (void)x4, (void)x5, (void)x6, (void)x7;
}

#if defined(__x86_64__)
SIMD void stream(float *to, vf x)
{
#if defined(__AVX512F__)
    _mm512_stream_ps(to, (__m512)x);
#elif defined(__AVX2__)
    _mm256_stream_ps(to, (__m256)x);
#else
    _mm_stream_ps(to, (__m128)x);
#endif
}

static void stage_stream(ARGUMENTS)
{
    float *y = (float *)(void *)(r->y + at);
    stream(y, x0);
    stream(y + LANES, x1);
    stream(y + 2 * LANES, x2);
    stream(y + 3 * LANES, x3);
    stream(y + 4 * LANES, x4);
    stream(y + 5 * LANES, x5);
    stream(y + 6 * LANES, x6);
    stream(y + 7 * LANES, x7);
    GO_ON(1);
}
#endif

/* ---- Programs ------------------------------------------------------------------------------- */

SIMD void run_group(const cpu_record *program, int64_t at)
{
    const vf x = {0};
    ((stage *)program->stage)(program, at, x, x, x, x, x, x, x, x);
}

/* Prefetches the next pages at the same offset. */
SIMD void fetch_ahead(const cpu_ahead *ahead, int64_t at)
{
    for (int k = 0; k < ahead->n; k++) {
        const char *from = ahead->at[k] + at + PAGES * PAGE;
        _Pragma("GCC unroll 8") for (int line = 0; line < GROUP; line += LINE)
        {
            __builtin_prefetch(from + line);
        }
    }
}

/* Data from memory is read from a few pages in turn, so that they are fetched concurrently. */
static void run(const cpu_record *program, int64_t n, const cpu_ahead *ahead)
{
    const int64_t bytes = n * (int64_t)sizeof(float);
    int64_t at = 0;
    for (; ahead && at + PAGES * PAGE <= bytes; at += PAGES * PAGE) {
        for (int64_t place = 0; place < PAGE; place += GROUP) {
            for (int64_t page = 0; page < PAGES * PAGE; page += PAGE) {
                fetch_ahead(ahead, at + page + place);
                run_group(program, at + page + place);
            }
        }
    }
    for (; at < bytes; at += GROUP) {
        run_group(program, at);
    }
#if defined(__x86_64__)
    if (ahead) {
        _mm_sfence(); /* streamed data must be visible before later stores */
    }
#endif
}

#define ONE(NAME, name) [CPU_STAGE_##NAME] = (cpu_stage *)stage_##name
#define BOTH(NAME, name) ONE(NAME, name), ONE(NAME##_NUMBER, name##_number)

static cpu_stage *const stages[CPU_STAGE_COUNT] = {
    BOTH(LOAD, load),
    BOTH(ADD, add),
    BOTH(SUB, sub),
    BOTH(SUB_OF, sub_of),
    BOTH(MUL, mul),
    BOTH(DIV, div),
    BOTH(DIV_OF, div_of),
    BOTH(MIN, min),
    BOTH(MIN_OF, min_of),
    BOTH(MAX, max),
    BOTH(MAX_OF, max_of),
    BOTH(LT, lt),
    BOTH(LT_OF, lt_of),
    BOTH(LE, le),
    BOTH(LE_OF, le_of),
    BOTH(EQ, eq),
    BOTH(NE, ne),
    BOTH(AND, and),
    BOTH(OR, or),
    ONE(MIN_PLAIN, min_plain),
    ONE(MAX_PLAIN, max_plain),
    ONE(NEG, neg),
    ONE(ABS, abs),
    ONE(SQRT, sqrt),
    ONE(NOT, not ),
    ONE(SQUARE, square),
    ONE(ROUND16, round16),
    ONE(ROUNDB, roundb),
    ONE(SELECT, select),
    ONE(SELECT_FIRST, select_first),
    ONE(SELECT_SECOND, select_second),
    ONE(CALL, call),
    ONE(STORE, store),
#if defined(__x86_64__)
    ONE(STREAM, stream),
#else
    ONE(STREAM, store),
#endif
    ONE(END, end),
};

void CPU_NAME(weft__fill_elementwise_run)(cpu_elementwise_table *table)
{
    table->stages = stages;
    table->run = run;
    table->group = VECTORS * LANES;
}
