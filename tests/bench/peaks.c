/* tests/bench/peaks.c -- what the processor can do at most.
 *
 * Arithmetic: 12 independent sums in registers, so that neither latency nor memory counts. Reading:
 * sums over memory of which each thread has its part, backed by huge pages where the kernel gives
 * them. Every measurement of a round begins when all threads are ready.
 */
#include "tests/bench/peaks.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/bench/bench.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { SUMS = 12, STEPS = 16, HUGE_PAGE = 2 << 20 };
static const size_t MEMORY = (size_t)1 << 30;
static const double AIM = 0.02; /* seconds of a measurement */

/* Runs n rounds of a loop; returns what makes them needed. */
typedef float loop(int64_t n, const void *memory);

/* ---- Loops ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)

/* What the empty statements hide from the compiler: that the sums are alike, and that nobody reads
 * them. */
#define HIDE(a, b, c, d) __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#define ROUNDS(TARGET, NAME, TYPE, ZERO, STEP)                                                     \
    static __attribute__((target(TARGET), noinline)) float NAME(int64_t n, const void *memory)     \
    {                                                                                              \
        TYPE a0 = ZERO, a1 = ZERO, a2 = ZERO, a3 = ZERO, a4 = ZERO, a5 = ZERO, a6 = ZERO;          \
        TYPE a7 = ZERO, a8 = ZERO, a9 = ZERO, a10 = ZERO, a11 = ZERO, x = ZERO, y = ZERO;          \
        (void)memory;                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            HIDE(a0, a1, a2, a3);                                                                  \
            HIDE(a4, a5, a6, a7);                                                                  \
            HIDE(a8, a9, a10, a11);                                                                \
            __asm__ volatile("" : "+v"(x), "+v"(y));                                               \
            STEP(a0), STEP(a1), STEP(a2), STEP(a3), STEP(a4), STEP(a5);                            \
            STEP(a6), STEP(a7), STEP(a8), STEP(a9), STEP(a10), STEP(a11);                          \
        }                                                                                          \
        HIDE(a0, a1, a2, a3);                                                                      \
        HIDE(a4, a5, a6, a7);                                                                      \
        HIDE(a8, a9, a10, a11);                                                                    \
        return 0;                                                                                  \
    }

#define FMA8(a) a = _mm256_fmadd_ps(x, y, a)
#define FMA16(a) a = _mm512_fmadd_ps(x, y, a)
#define BF16(a) a = _mm512_dpbf16_ps(a, (__m512bh)x, (__m512bh)y)
#define INT8(a) a = _mm512_dpbusd_epi32(a, x, y)
ROUNDS("avx2,fma", fma_avx2, __m256, _mm256_setzero_ps(), FMA8)
ROUNDS("avx512f", fma_avx512, __m512, _mm512_setzero_ps(), FMA16)
ROUNDS("avx512f,avx512bf16", dot_bf16, __m512, _mm512_setzero_ps(), BF16)
ROUNDS("avx512f,avx512vnni", dot_int8, __m512i, _mm512_setzero_si512(), INT8)
#undef FMA8
#undef FMA16
#undef BF16
#undef INT8
#undef ROUNDS
#undef HIDE

typedef enum leaf7 { EBX, ECX, EDX, EAX1 } leaf7;

static bool has(leaf7 where, int bit)
{
    unsigned b[4] = {0}, unused;
    if (where == EAX1)
        (void)__get_cpuid_count(7, 1, &b[EAX1], &unused, &unused, &unused);
    else
        (void)__get_cpuid_count(7, 0, &unused, &b[EBX], &b[ECX], &b[EDX]);
    return b[where] >> bit & 1;
}
#endif

typedef float f4 __attribute__((vector_size(16)));

static __attribute__((noinline)) float fma_plain(int64_t n, const void *memory)
{
    f4 sums[SUMS] = {{0}}, x = {0}, y = {0};
    (void)memory;
    for (int64_t i = 0; i < n; i++) {
        __asm__ volatile("" : "+m"(x), "+m"(y), "+m"(sums));
        for (int step = 0; step < STEPS; step++) {
#pragma GCC unroll 12
            for (int j = 0; j < SUMS; j++)
                sums[j] += x * y;
        }
    }
    __asm__ volatile("" : "+m"(sums));
    return 0;
}

/* n pieces of 4 KiB. */
static __attribute__((noinline)) float read_memory(int64_t n, const void *memory)
{
    typedef uint64_t words __attribute__((vector_size(64)));
    const words *p = memory;
    words sums[4] = {{0}};
    for (int64_t i = 0; i < n * 64; i += 4)
        for (int j = 0; j < 4; j++)
            sums[j] ^= p[i + j];
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    return (float)sums[0][0];
}

/* What is measured, in operations (or bytes) of a round. */
typedef struct what {
    loop *run;
    double per_round;
} what;

static what find(peak_kind kind)
{
#if defined(__x86_64__)
    const bool avx512 = __builtin_cpu_supports("avx512f");
    if (kind == PEAK_FLOAT32 && avx512)
        return (what){fma_avx512, SUMS * 32.0};
    if (kind == PEAK_FLOAT32 && __builtin_cpu_supports("fma"))
        return (what){fma_avx2, SUMS * 16.0};
    if (kind == PEAK_BF16 && avx512 && has(EAX1, 5))
        return (what){dot_bf16, SUMS * 64.0};
    if (kind == PEAK_INT8 && avx512 && has(ECX, 11))
        return (what){dot_int8, SUMS * 128.0};
    if (kind == PEAK_AMX && has(EDX, 24))
        return (what){NULL, 1};
#endif
    if (kind == PEAK_FLOAT32)
        return (what){fma_plain, SUMS * STEPS * 8.0};
    return kind == PEAK_READ ? (what){read_memory, 4096} : (what){NULL, 0};
}

/* ---- Threads -------------------------------------------------------------------------------- */

typedef struct part {
    loop *run;
    int64_t n;
    const char *memory;
    pthread_barrier_t *begin;
    double took;
    pthread_t id;
} part;

static volatile float kept;

static void *run_part(void *context)
{
    part *p = context;
    pthread_barrier_wait(p->begin);
    const double start = seconds();
    kept = p->run(p->n, p->memory);
    p->took = seconds() - start;
    return NULL;
}

/* Rounds a second of all threads together: each does n, in its own part of the memory. */
static double rate(loop *run, int64_t n, const char *memory, int threads)
{
    part *parts = calloc((size_t)threads, sizeof *parts);
    pthread_barrier_t begin;
    double sum = 0;
    if (parts == NULL || pthread_barrier_init(&begin, NULL, (unsigned)threads) != 0)
        exit(1);
    for (int i = 0; i < threads; i++) {
        const size_t from = MEMORY / (size_t)threads * (size_t)i / 4096 * 4096;
        parts[i] = (part){.run = run, .n = n, .memory = memory + from, .begin = &begin};
        if (i > 0 && pthread_create(&parts[i].id, NULL, run_part, &parts[i]) != 0)
            exit(1);
    }
    run_part(&parts[0]);
    for (int i = 0; i < threads; i++) {
        if (i > 0)
            pthread_join(parts[i].id, NULL);
        sum += (double)n / parts[i].took;
    }
    pthread_barrier_destroy(&begin);
    free(parts);
    return sum;
}

static int64_t rounds_for(loop *run, const char *memory, int threads)
{
    const int64_t most = (int64_t)(MEMORY / (size_t)threads / 4096) - 1;
    int64_t n = 1000;
    if (run == read_memory)
        return most;
    for (double took = 0; took < AIM / 4; n *= 4)
        took = (double)n / rate(run, n, memory, 1);
    return n;
}

void measure_peaks(int threads, int rounds, peak out[PEAK_COUNT])
{
    static const peak kinds[PEAK_COUNT] = {
        [PEAK_FLOAT32] = {"float32 multiply-add", "GFLOP/s", false, false, 0, 0},
        [PEAK_BF16] = {"bf16 dot (AVX512_BF16)", "GFLOP/s", false, false, 0, 0},
        [PEAK_INT8] = {"8-bit dot (AVX512_VNNI)", "GOP/s", false, false, 0, 0},
        [PEAK_AMX] = {"AMX", "GFLOP/s", false, false, 0, 0},
        [PEAK_READ] = {"read", "GB/s", false, false, 0, 0},
    };
    char *memory = NULL;
    double *one = calloc((size_t)rounds * PEAK_COUNT, sizeof *one);
    double *all = calloc((size_t)rounds * PEAK_COUNT, sizeof *all);
    if (!one || !all || posix_memalign((void **)&memory, HUGE_PAGE, MEMORY) != 0)
        exit(1);
    (void)madvise(memory, MEMORY, MADV_HUGEPAGE);
    memset(memory, 1, MEMORY);
    for (int r = 0; r < rounds; r++) {
        for (int k = 0; k < PEAK_COUNT; k++) {
            const what w = find((peak_kind)k);
            if (!w.run)
                continue;
            const double unit = w.per_round * 1e-9;
            one[k * rounds + r] = unit * rate(w.run, rounds_for(w.run, memory, 1), memory, 1);
            all[k * rounds + r] =
                unit * rate(w.run, rounds_for(w.run, memory, threads), memory, threads);
        }
    }
    for (int k = 0; k < PEAK_COUNT; k++) {
        const what w = find((peak_kind)k);
        out[k] = kinds[k];
        out[k].present = w.per_round > 0;
        out[k].measured = w.run != NULL;
        out[k].one = w.run ? median(one + k * rounds, rounds) : 0;
        out[k].all = w.run ? median(all + k * rounds, rounds) : 0;
    }
    free(memory);
    free(one);
    free(all);
}
