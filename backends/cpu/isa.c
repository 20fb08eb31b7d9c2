/* backends/cpu/isa.c -- detects the machine's instruction set. */
#include "backends/cpu/isa.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const names[CPU_ISA_COUNT] = {"portable", "avx2", "avx512"};

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

static cpu_isa best(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !supports(1, 29) /* F16C */ || !__builtin_cpu_supports("bmi") ||
        !__builtin_cpu_supports("bmi2") || !supports(0x80000001, 5) /* LZCNT */)
        return CPU_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512cd") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512vl"))
        return CPU_AVX2;
    return CPU_AVX512;
#else
    return CPU_PORTABLE;
#endif
}

static void choose(void)
{
    chosen = best();
    const char *wanted = getenv("WEFT_CPU_ISA");
    for (cpu_isa isa = CPU_PORTABLE; wanted && isa < chosen; isa++)
        if (strcmp(wanted, names[isa]) == 0)
            chosen = isa;
}

cpu_isa weft__cpu_isa(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *weft__cpu_isa_name(cpu_isa isa)
{
    return names[isa];
}
