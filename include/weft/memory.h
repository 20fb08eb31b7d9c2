/* weft/memory.h -- memory: counters and limits of array buffers, and the library's allocator. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Array buffers of all devices, in bytes. Active: in use by arrays. Cached: kept for reuse. Peak:
 * the largest active + workspace since the start or the last reset. Mapped files and memory the
 * user lent are not counted. */
WEFT_API int64_t weft_memory_active(void);
WEFT_API int64_t weft_memory_peak(void);
WEFT_API int64_t weft_memory_cached(void);
/* Active bytes and their peak of the calling thread alone: what it has taken for arrays less what
 * it has released. */
WEFT_API int64_t weft_memory_thread_active(void);
WEFT_API int64_t weft_memory_thread_peak(void);
/* The largest active + cached since the start or the last reset: what devices and the process held
 * for arrays. */
WEFT_API int64_t weft_memory_peak_held(void);
WEFT_API void weft_memory_reset_peak(void); /* that of the calling thread too */

enum { WEFT_CACHE_AUTOMATIC = -1 };

/* Sets a limit in bytes and returns the one before. Beyond the memory limit (active bytes; default
 * none: INT64_MAX) an evaluation fails with WEFT_MEMORY before it changes anything and names the
 * largest live arrays. The cache limit bounds what is kept for reuse; 0 keeps nothing. By default
 * (WEFT_CACHE_AUTOMATIC) active and cached bytes together stay below 9/8 of the highest active
 * bytes so far and 32 MiB, and cached bytes below 1/8 of physical memory. */
WEFT_API int64_t weft_memory_set_limit(int64_t bytes);
WEFT_API int64_t weft_memory_set_cache_limit(int64_t bytes);

/* The memory limit that is in force. */
WEFT_API int64_t weft_memory_limit(void);

/* Keeps up to `bytes` of arrays' memory on the CPU from being paged out (mlock), arrays of 16 pages
 * or more, those that are there first; 0 (the default): none. WEFT_UNSUPPORTED, with the system's
 * limit in the message and nothing changed, where the process may not lock so much. Puts the limit
 * before in *previous, which may be NULL. weft_memory_wired: the bytes that are locked now. */
WEFT_NODISCARD WEFT_API weft_status weft_memory_set_wired_limit(int64_t bytes, int64_t *previous);
WEFT_API int64_t weft_memory_wired(void);

/* Returns every cached buffer to the system. */
WEFT_API void weft_memory_clear_cache(void);

/* The allocator that everything in the library uses for its own structures. The functions behave
 * like the C library's; weft_free accepts NULL. weft_realloc of a failed request leaves the old
 * block. */
WEFT_API void *weft_malloc(size_t size);
WEFT_API void *weft_calloc(size_t count, size_t size);
WEFT_API void *weft_realloc(void *block, size_t size);
WEFT_API char *weft_strdup(const char *text);
WEFT_API void weft_free(void *block);

/* printf into a new string; NULL when there is no memory. Free with weft_free. */
WEFT_API char *weft_format(const char *format, ...) WEFT_PRINTF(1, 2);

/* For tests: after this call the allocation number `nth` (from 1) fails once, buffers included;
 * 0 switches it off. Returns how many allocations were made since the last call; the first call,
 * with which counting begins, 0. */
WEFT_API uint64_t weft_memory_fail_at(uint64_t nth);

#ifdef __cplusplus
}
#endif
#endif
