/* tests/train/fail_each.h -- lets each allocation of an attempt fail once. */
#ifndef TESTS_TRAIN_FAIL_EACH_H
#define TESTS_TRAIN_FAIL_EACH_H

#include <stdio.h>

#include "tests/check.h"
#include "weft/array.h"
#include "weft/memory.h"

/* Runs the attempt with allocation 1 failing, then 2, ... until it makes fewer allocations. At
 * least so many tenths of the attempts must fail. */
static inline void fail_each(const char *what, weft_status (*run)(void *context), void *context,
                             unsigned tenths)
{
    if (!CHECK_OK(run(context))) /* the first run allocates caches that stay */
        return;
    uint64_t nth = 1, failed = 0;
    weft_status status = WEFT_OK;
    for (; nth < 100000; nth++) {
        weft_scope_open(); /* a scope that found no memory leaves its temporaries to this one */
        weft_memory_fail_at(nth);
        status = run(context);
        const uint64_t made = weft_memory_fail_at(0);
        weft_scope_close(NULL);
        if (made < nth)
            break;
        failed += status != WEFT_OK;
    }
    CHECK_OK(status);
    printf("  %s: %llu allocations, %llu failures\n", what, (unsigned long long)nth - 1,
           (unsigned long long)failed);
    CHECK(nth > 10 && failed * 10 >= (nth - 1) * tenths);
}

#endif
