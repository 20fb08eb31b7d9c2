/* core/eval/failures.h -- records failed plans, so that later reads of their arrays can report the
 * cause. */
#ifndef CORE_EVAL_FAILURES_H
#define CORE_EVAL_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

/* Records the status and message of the plan that has just failed on this thread. If `owner` is a
 * stream, no caller has received it. */
void weft__note_failure(uint64_t ticket, const void *owner, weft_status status);

/* Fails with the message of the plan of that ticket, on behalf of a plan of `owner`. */
weft_status weft__failed_by(const char *where, uint64_t ticket, const void *owner);

/* The ticket of a failed plan among tickets first to last; 0: none failed. */
uint64_t weft__failed_within(uint64_t first, uint64_t last);

#endif
