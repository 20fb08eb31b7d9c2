/* core/memory.c -- the library's allocator, which can make a chosen allocation fail for tests. */
#include "weft/memory.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failpoint.h"

/* Counting starts only on request, since threads would contend for the counter's cache line. */
atomic_bool weft__allocations_watched;
static atomic_uint_fast64_t allocations;
static atomic_uint_fast64_t failing; /* 0: none */

bool weft__watched_allocation_fails(void)
{
    uint64_t nth = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    return nth == atomic_load_explicit(&failing, memory_order_relaxed);
}

uint64_t weft_memory_fail_at(uint64_t nth)
{
    atomic_store(&failing, nth);
    atomic_store(&weft__allocations_watched, true);
    return atomic_exchange(&allocations, 0);
}

void *weft_malloc(size_t size)
{
    return weft__allocation_fails() ? NULL : malloc(size ? size : 1);
}

void *weft_calloc(size_t count, size_t size)
{
    return weft__allocation_fails() ? NULL : calloc(count ? count : 1, size ? size : 1);
}

void *weft_realloc(void *block, size_t size)
{
    return weft__allocation_fails() ? NULL : realloc(block, size ? size : 1);
}

void weft_free(void *block)
{
    free(block);
}

char *weft_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = weft_malloc(size);
    if (copy) {
        memcpy(copy, text, size);
    }
    return copy;
}

char *weft_format(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : weft_malloc((size_t)length + 1);
    if (text) {
        vsnprintf(text, (size_t)length + 1, format, again);
    }
    va_end(again);
    return text;
}
