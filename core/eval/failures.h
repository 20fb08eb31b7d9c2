/* core/eval/failures.h -- plans that failed, kept for those who find arrays without elements. */
#ifndef CORE_EVAL_FAILURES_H
#define CORE_EVAL_FAILURES_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/status.h"

/* The thread is a stream's, which has no caller to report failures to. */
extern _Thread_local bool weft__on_stream;

/* Keeps the status and message of the plan that has just failed on this thread. */
void weft__note_failure(uint64_t ticket, const void *owner, weft_status status);

/* Fails because the plan of that ticket did. */
weft_status weft__failed_by(const char *where, uint64_t ticket);

/* A plan that failed, of tickets first to last; 0: none. */
uint64_t weft__failed_within(uint64_t first, uint64_t last);

#endif
