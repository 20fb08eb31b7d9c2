/* core/failpoint.h -- allocation counting for tests; buffers take part too. */
#ifndef CORE_FAILPOINT_H
#define CORE_FAILPOINT_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool weft__allocations_watched; /* since weft_memory_fail_at was first called */

/* Counts one allocation and says whether a test wants it to fail. */
bool weft__watched_allocation_fails(void);

static inline bool weft__allocation_fails(void)
{
    return atomic_load_explicit(&weft__allocations_watched, memory_order_relaxed) &&
           weft__watched_allocation_fails();
}

#endif
