/* core/amx.c -- permission to use AMX tiles. */
#include "core/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

bool weft__amx_usable(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA */
    enum { BF16 = 22, TILES = 24 };            /* bits of EDX of leaf 7 */
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> BF16 & 1) || !(d >> TILES & 1))
        return false;
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#else
bool weft__amx_usable(void)
{
    return false;
}
#endif
