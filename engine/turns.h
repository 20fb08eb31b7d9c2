/* engine/turns.h -- a lock that is given in the order in which it was asked for: who lets it go and
 * asks again comes behind those who wait. */
#ifndef WEFT_ENGINE_TURNS_H
#define WEFT_ENGINE_TURNS_H

#include <pthread.h>
#include <stdint.h>

typedef struct weft__turn_lock {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t next, now; /* the ticket that is given out next; the one whose turn it is */
} weft__turn_lock;

void weft__turn_lock_init(weft__turn_lock *turns);
void weft__turn_lock_destroy(weft__turn_lock *turns);
void weft__turn_lock_acquire(weft__turn_lock *turns);
void weft__turn_lock_release(weft__turn_lock *turns);

#endif
