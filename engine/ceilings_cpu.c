/* engine/ceilings_cpu.c -- measures the CPU: arithmetic rates and memory bandwidth.
 *
 * Arithmetic: 12 independent sums in registers, or 4 in tiles, so that neither latency nor memory
 * limits the rate. Reading: each thread sums its own part of the memory, which has huge pages where
 * the kernel provides them. Every measurement starts when all threads are ready.
 */
#include "engine/bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/clock.h"
#include "core/failure.h"
#include "weft/memory.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__) && __has_include(<amxint8intrin.h>)
#define WITH_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

enum { SUMS = 12, STEPS = 16, HUGE_PAGE = 2 << 20 };
static const size_t MEMORY = (size_t)1 << 30;
static const double AIM = 0.02; /* target duration of a measurement, in seconds */

/* Runs n rounds of a loop; returns a value that depends on all of them. */
typedef float loop(int64_t n, const void *memory);

/* ---- Loops ---------------------------------------------------------------------------------- */

#if defined(__x86_64__)

/* The empty asm statements keep the compiler from merging the sums, which are equal, and from
 * removing them as unused. */
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
/* The sums of two products are added in 16 bits, as isa/int8.c does. */
#define BYTES(a) a = _mm256_add_epi16(a, _mm256_maddubs_epi16(x, y))
ROUNDS("avx2,fma", fma_avx2, __m256, _mm256_setzero_ps(), FMA8)
ROUNDS("avx512f", fma_avx512, __m512, _mm512_setzero_ps(), FMA16)
ROUNDS("avx512f,avx512bf16", dot_bf16, __m512, _mm512_setzero_ps(), BF16)
ROUNDS("avx512f,avx512vnni", dot_int8, __m512i, _mm512_setzero_si512(), INT8)
ROUNDS("avx2", dot_bytes, __m256i, _mm256_setzero_si256(), BYTES)
#undef FMA8
#undef FMA16
#undef BF16
#undef INT8
#undef BYTES
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

#if defined(WITH_AMX)

/* The tile registers belong to the thread. All are zero after a configuration is loaded. */
static void configure_tiles(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

/* Four sums of products of two tiles of A (4 and 5) and two of B (6 and 7). */
#define TILE_ROUNDS(NAME, INSTRUCTION)                                                             \
    static __attribute__((noinline)) float NAME(int64_t n, const void *memory)                     \
    {                                                                                              \
        (void)memory;                                                                              \
        configure_tiles();                                                                         \
        for (int64_t i = 0; i < n; i++)                                                            \
            __asm__ volatile(INSTRUCTION " %%tmm6, %%tmm4, %%tmm0\n\t" INSTRUCTION                 \
                                         " %%tmm7, %%tmm4, %%tmm1\n\t" INSTRUCTION                 \
                                         " %%tmm6, %%tmm5, %%tmm2\n\t" INSTRUCTION                 \
                                         " %%tmm7, %%tmm5, %%tmm3" ::);                            \
        __asm__ volatile("tilerelease" ::);                                                        \
        return 0;                                                                                  \
    }
TILE_ROUNDS(tiles_bf16, "tdpbf16ps")
TILE_ROUNDS(tiles_int8, "tdpbssd")
#undef TILE_ROUNDS

/* The kernel saves the tile registers only for processes that ask for them (Linux 5.16). */
static bool may_use_tiles(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
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

/* Reads n pieces of 4 KiB, from four places in turn, which keeps more requests in flight than one
 * sequence of addresses. */
static __attribute__((noinline)) float read_memory(int64_t n, const void *memory)
{
    typedef uint64_t words __attribute__((vector_size(64)));
    enum { PLACES = 4, LINES = 4096 / sizeof(words), AHEAD = 128 };
    const words *p = memory;
    const int64_t each = n / PLACES * LINES;
    words sums[PLACES] = {{0}};
    for (int64_t i = 0; i < each; i++)
        for (int j = 0; j < PLACES; j++) {
            __builtin_prefetch(p + j * each + i + AHEAD);
            sums[j] ^= p[j * each + i];
        }
    for (int64_t i = PLACES * each; i < n * LINES; i++)
        sums[0] ^= p[i];
    sums[0] ^= sums[1] ^ sums[2] ^ sums[3];
    return (float)sums[0][0];
}

/* A kind of measurement, with its operations (or bytes) per round, which are above 0 if the machine
 * has it. `run` NULL: it cannot be measured. */
typedef struct what {
    loop *run;
    double per_round;
} what;

#if defined(__x86_64__)
/* 4 products of tiles of 16 rows and columns, each of 64 bytes in k. */
static what find_tiles(weft_ceiling_kind kind)
{
    enum { TILES = 24, BF16 = 22, INT8 = 25 }; /* bits of EDX of leaf 7 */
    if (!has(EDX, TILES) || !has(EDX, kind == WEFT_CEILING_AMX ? BF16 : INT8))
        return (what){NULL, 0};
#if defined(WITH_AMX)
    if (may_use_tiles())
        return kind == WEFT_CEILING_AMX ? (what){tiles_bf16, 4 * 16 * 16 * 64.0}
                                        : (what){tiles_int8, 4 * 16 * 16 * 128.0};
#endif
    return (what){NULL, 1};
}
#endif

static what find(weft_ceiling_kind kind)
{
#if defined(__x86_64__)
    const bool avx512 = __builtin_cpu_supports("avx512f");
    if (kind == WEFT_CEILING_FLOAT32 && avx512)
        return (what){fma_avx512, SUMS * 32.0};
    if (kind == WEFT_CEILING_FLOAT32 && __builtin_cpu_supports("fma"))
        return (what){fma_avx2, SUMS * 16.0};
    if (kind == WEFT_CEILING_BF16 && avx512 && has(EAX1, 5))
        return (what){dot_bf16, SUMS * 64.0};
    if (kind == WEFT_CEILING_INT8 && avx512 && has(ECX, 11))
        return (what){dot_int8, SUMS * 128.0};
    if (kind == WEFT_CEILING_INT8 && __builtin_cpu_supports("avx2"))
        return (what){dot_bytes, SUMS * 64.0};
    if (kind == WEFT_CEILING_AMX || kind == WEFT_CEILING_AMX_INT8)
        return find_tiles(kind);
#endif
    if (kind == WEFT_CEILING_FLOAT32)
        return (what){fma_plain, SUMS * STEPS * 8.0};
    return kind == WEFT_CEILING_READ ? (what){read_memory, 4096} : (what){NULL, 0};
}

/* ---- Threads -------------------------------------------------------------------------------- */

enum { WAIT, GO, STOP };

/* Starts all threads of a measurement at once. */
typedef struct start_line {
    atomic_int state, ready;
} start_line;

typedef struct part {
    loop *run;
    int64_t n;
    const char *memory;
    start_line *start;
    double took;
    pthread_t id;
} part;

static volatile float kept;

static void measure_part(part *p)
{
    const double began = weft__seconds();
    kept = p->run(p->n, p->memory);
    p->took = weft__seconds() - began;
}

static void *run_part(void *context)
{
    part *p = context;
    atomic_fetch_add(&p->start->ready, 1);
    while (atomic_load(&p->start->state) == WAIT)
        sched_yield();
    if (atomic_load(&p->start->state) == GO)
        measure_part(p);
    return NULL;
}

/* Starts all threads but the first and waits until they are ready; returns their number, the first
 * included. */
static int start_others(part *parts, int threads)
{
    int n = 1;
    while (n < threads && pthread_create(&parts[n].id, NULL, run_part, &parts[n]) == 0)
        n++;
    while (atomic_load(&parts[0].start->ready) < n - 1)
        sched_yield();
    return n;
}

/* Rounds per second of all threads together, each of which runs n in its own part of the memory.
 * *threads becomes the number of threads that could be started. */
static double rate(loop *run, int64_t n, const char *memory, part *parts, int *threads)
{
    start_line start = {WAIT, 0};
    double sum = 0;
    for (int i = 0; i < *threads; i++) {
        const size_t from = MEMORY / (size_t)*threads * (size_t)i / 4096 * 4096;
        parts[i] = (part){.run = run, .n = n, .memory = memory + from, .start = &start};
    }
    *threads = start_others(parts, *threads);
    atomic_store(&start.state, GO);
    measure_part(&parts[0]);
    for (int i = 0; i < *threads; i++) {
        if (i > 0)
            pthread_join(parts[i].id, NULL);
        sum += (double)n / parts[i].took;
    }
    return sum;
}

static int64_t rounds_for(loop *run, const char *memory, part *parts, int threads)
{
    int64_t n = 1000;
    int alone = 1;
    if (run == read_memory)
        return (int64_t)(MEMORY / (size_t)threads / 4096) - 1;
    for (double took = 0; took < AIM / 4; n *= 4)
        took = (double)n / rate(run, n, memory, parts, &alone);
    return n;
}

static double measured_rate(const what *w, const char *memory, part *parts, int threads)
{
    const int64_t n = rounds_for(w->run, memory, parts, threads);
    return 1e-9 * w->per_round * rate(w->run, n, memory, parts, &threads);
}

/* ---- All of them ---------------------------------------------------------------------------- */

typedef struct room {
    char *memory;
    double *rates; /* rounds of each kind, with one thread and with all */
    part *parts;
} room;

static bool take_room(room *r, int threads, int rounds)
{
    void *memory = NULL;
    r->rates = weft_calloc(2 * (size_t)rounds * WEFT_CEILING_COUNT, sizeof *r->rates);
    r->parts = weft_calloc((size_t)threads, sizeof *r->parts);
    if (!r->rates || !r->parts || posix_memalign(&memory, HUGE_PAGE, MEMORY) != 0)
        return false;
    r->memory = memory;
    (void)madvise(memory, MEMORY, MADV_HUGEPAGE);
    memset(memory, 1, MEMORY);
    return true;
}

static void measure_all(const room *r, int threads, int rounds, weft_ceiling *out)
{
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < WEFT_CEILING_COUNT; k++) {
            const what w = find((weft_ceiling_kind)k);
            double *one = r->rates + (2 * k) * rounds, *all = one + rounds;
            out[k].present = w.per_round > 0;
            out[k].measured = w.run != NULL;
            if (w.run) {
                one[i] = measured_rate(&w, r->memory, r->parts, 1);
                all[i] = measured_rate(&w, r->memory, r->parts, threads);
            }
        }
    }
    for (int k = 0; k < WEFT_CEILING_COUNT; k++) {
        double *one = r->rates + (2 * k) * rounds;
        if (out[k].measured) {
            out[k].one = weft__bench_median(one, rounds);
            out[k].all = weft__bench_median(one + rounds, rounds);
        }
    }
}

weft_status weft__ceilings_of_cpu(int threads, int rounds, weft_ceiling out[WEFT_CEILING_COUNT])
{
    static const weft_ceiling kinds[WEFT_CEILING_COUNT] = {
        [WEFT_CEILING_FLOAT32] = {.name = "float32 multiply-add", .unit = "GFLOP/s"},
        [WEFT_CEILING_BF16] = {.name = "bf16 dot (AVX512_BF16)", .unit = "GFLOP/s"},
        [WEFT_CEILING_INT8] = {.name = "8-bit dot (VNNI or AVX2)", .unit = "GOP/s"},
        [WEFT_CEILING_AMX] = {.name = "bf16 tiles (AMX)", .unit = "GFLOP/s"},
        [WEFT_CEILING_AMX_INT8] = {.name = "8-bit tiles (AMX)", .unit = "GOP/s"},
        [WEFT_CEILING_READ] = {.name = "read", .unit = "GB/s"},
    };
    room r = {0};
    memcpy(out, kinds, sizeof kinds);
    const bool fine = take_room(&r, threads, rounds);
    if (fine)
        measure_all(&r, threads, rounds, out);
    free(r.memory);
    weft_free(r.rates);
    weft_free(r.parts);
    return fine ? WEFT_OK : weft_fail(WEFT_MEMORY, "bench: out of memory for the ceilings: 1 GiB");
}
