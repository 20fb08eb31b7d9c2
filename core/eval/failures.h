/* core/eval/failures.h -- records failed plans, so that later reads of their arrays can report the
 * cause. */
#ifndef CORE_EVAL_FAILURES_H
#define CORE_EVAL_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

/* The thread belongs to a stream and has no caller to report failures to. */
extern _Thread_local bool weft__on_stream;

/* Records the status and message of the plan that has just failed on this thread. */
void weft__note_failure(uint64_t ticket, const void *owner, weft_status status);

/* Fails with the message of the plan of that ticket. */
weft_status weft__failed_by(const char *where, uint64_t ticket);

/* The ticket of a failed plan among tickets first to last; 0: none failed. */
uint64_t weft__failed_within(uint64_t first, uint64_t last);

#endif
