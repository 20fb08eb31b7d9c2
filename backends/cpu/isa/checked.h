/* backends/cpu/isa/checked.h -- address checks of kernels that are compiled without the sanitizer.
 *
 * Instrumenting each access of an unrolled loop makes it about fifty times as slow. In builds with
 * AddressSanitizer these files are compiled without it (CPU_CHECKED) and check whole ranges first.
 */
#ifndef BACKENDS_CPU_ISA_CHECKED_H
#define BACKENDS_CPU_ISA_CHECKED_H

#include <stdint.h>

#ifdef CPU_CHECKED
/* Of the sanitizer's runtime: a report if a byte of the range is not addressable. */
void __asan_loadN(const void *p, uint64_t bytes);
void __asan_storeN(void *p, uint64_t bytes);
#endif

/* Ranges of n bytes that begin every `stride` bytes are read. */
static inline void check_read(const void *p, int64_t n, int64_t stride, int64_t ranges)
{
#ifdef CPU_CHECKED
    if (stride == n) {
        n *= ranges;
        ranges = ranges > 0;
    }
    for (int64_t i = 0; i < ranges; i++)
        __asan_loadN((const char *)p + i * stride, (uint64_t)n);
#else
    (void)p, (void)n, (void)stride, (void)ranges;
#endif
}

static inline void check_write(void *p, int64_t n, int64_t stride, int64_t ranges)
{
#ifdef CPU_CHECKED
    for (int64_t i = 0; i < ranges; i++)
        __asan_storeN((char *)p + i * stride, (uint64_t)n);
#else
    (void)p, (void)n, (void)stride, (void)ranges;
#endif
}

#endif
