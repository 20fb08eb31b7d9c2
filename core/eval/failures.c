/* core/eval/failures.c -- the latest failures of plans, by ticket. */
#include "core/eval/failures.h"

#include <pthread.h>
#include <stdio.h>

#include "core/eval/queue.h"
#include "core/failure.h"

enum { FAILURES_KEPT = 16 };

typedef struct failure {
    uint64_t ticket; /* 0: none */
    const void *owner;
    weft_status status;
    bool reported; /* a caller has received it */
    char message[1024];
} failure;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static failure failures[FAILURES_KEPT];

/* Evict a failure that was already reported first, otherwise the oldest. */
void weft__note_failure(uint64_t ticket, const void *owner, weft_status status)
{
    pthread_mutex_lock(&lock);
    failure *place = &failures[0];
    for (int i = 1; i < FAILURES_KEPT; i++) {
        failure *other = &failures[i];
        const bool free = other->ticket == 0 || other->reported;
        const bool was_free = !place->ticket || place->reported;
        if (free != was_free ? free : other->ticket < place->ticket) {
            place = other;
        }
    }
    *place = (failure){.ticket = ticket,
                       .owner = owner,
                       .status = status,
                       .reported = owner == weft__thread_owner()};
    snprintf(place->message, sizeof place->message, "%s", weft_error_message());
    pthread_mutex_unlock(&lock);
}

weft_status weft__failed_by(const char *where, uint64_t ticket, const void *owner)
{
    pthread_mutex_lock(&lock);
    failure *cause = &failures[0];
    for (int i = 1; i < FAILURES_KEPT && cause->ticket != ticket; i++) {
        if (failures[i].ticket == ticket || failures[i].ticket > cause->ticket) {
            cause = &failures[i];
        }
    }
    const weft_status status = weft_fail(
        cause->status, "%s: what it needs could not be computed: %s", where, cause->message);
    cause->reported = cause->reported || owner == weft__thread_owner();
    pthread_mutex_unlock(&lock);
    return status;
}

weft_status weft__failed_before(const char *where, const weft__buffer *b, const void *owner)
{
    return weft__failed_by(where, atomic_load_explicit(&b->writer, memory_order_relaxed), owner);
}

uint64_t weft__failed_within(uint64_t first, uint64_t last)
{
    uint64_t found = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAILURES_KEPT && !found; i++) {
        const uint64_t ticket = failures[i].ticket;
        found = ticket >= first && ticket <= last ? ticket : 0;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

weft_status weft__unreported_failure(const void *owner)
{
    weft_status status = WEFT_OK;
    const failure *first = NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < FAILURES_KEPT; i++) {
        failure *f = &failures[i];
        if (f->ticket && !f->reported && (!owner || f->owner == owner)) {
            first = !first || f->ticket < first->ticket ? f : first;
            f->reported = true;
        }
    }
    if (first) {
        status = weft_fail(first->status, "%s", first->message);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
