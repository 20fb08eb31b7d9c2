/* core/failpoint.h -- counts allocations for tests that make one fail. Buffers are counted too. */
#ifndef CORE_FAILPOINT_H
#define CORE_FAILPOINT_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool weft__allocations_watched; /* true after the first call of weft_memory_fail_at */

/* Counts one allocation. True if a test wants it to fail. */
bool weft__watched_allocation_fails(void);

static inline bool weft__allocation_fails(void)
{
    return atomic_load_explicit(&weft__allocations_watched, memory_order_relaxed) &&
           weft__watched_allocation_fails();
}

#endif
