/* backends/cpu/isa.c -- detects the machine's instruction set. */
#include "backends/cpu/isa.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

static const struct {
    const char *name, *description;
} sets[CPU_ISA_COUNT] = {
#if defined(__x86_64__)
    [CPU_PORTABLE] = {"portable", "portable kernels"},
    [CPU_AVX2] = {"avx2", "kernels for AVX2"},
    [CPU_AVX512] = {"avx512", "kernels for AVX-512"},
    [CPU_AMX] = {"amx", "kernels for AVX-512, and products by AMX"},
#elif defined(__aarch64__)
    [CPU_NEON] = {"neon", "kernels for NEON"},
    [CPU_DOTPROD] = {"dotprod", "kernels for NEON with dot products of bytes"},
    [CPU_I8MM] = {"i8mm", "kernels for NEON with matrix products of bytes"},
#else
    [CPU_PORTABLE] = {"portable", "portable kernels"},
#endif
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_isa chosen;

#if defined(__x86_64__)
/* Bit `bit` of ECX of a CPUID leaf, for features unknown to clang's __builtin_cpu_supports. */
static bool supports(unsigned leaf, int bit)
{
    unsigned a, b, c, d;
    return __get_cpuid(leaf, &a, &b, &c, &d) && (c >> bit & 1);
}
#endif

#if defined(WEFT_WITH_AMX)
/* The kernel saves the tile registers only for processes that ask for them (Linux 5.16). */
static bool amx_usable(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */
    enum { BF16 = 22, TILES = 24 };            /* bits of EDX of leaf 7 */
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> BF16 & 1) || !(d >> TILES & 1))
        return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

static cpu_isa best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !supports(1, 29) /* F16C */ || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !supports(0x80000001, 5) /* LZCNT */)
        return CPU_PORTABLE;
#if defined(WEFT_WITHOUT_AVX512)
    return CPU_AVX2;
#else
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return CPU_AVX2;
#if defined(WEFT_WITH_AMX)
    if (amx_usable())
        return CPU_AMX;
#endif
    return CPU_AVX512;
#endif
#elif defined(__aarch64__)
    enum { ASIMDDP = 20, I8MM = 13 }; /* bits of HWCAP and HWCAP2 */
    if (!(getauxval(AT_HWCAP) >> ASIMDDP & 1))
        return CPU_NEON;
    return getauxval(AT_HWCAP2) >> I8MM & 1 ? CPU_I8MM : CPU_DOTPROD;
#else
    return CPU_BASELINE;
#endif
}

static void choose(void)
{
    chosen = best();
    const char *wanted = getenv("WEFT_CPU_ISA");
    for (cpu_isa isa = CPU_BASELINE; wanted && isa < chosen; isa++)
        if (strcmp(wanted, sets[isa].name) == 0)
            chosen = isa;
}

cpu_isa weft__cpu_isa(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *weft__cpu_isa_name(cpu_isa isa)
{
    return sets[isa].name;
}

const char *weft__cpu_isa_description(cpu_isa isa)
{
    return sets[isa].description;
}
