/* engine/turns.h -- a fair lock: it is granted in the order of requests, so a thread that releases
 * and requests it again waits for the others. */
#ifndef WEFT_ENGINE_TURNS_H
#define WEFT_ENGINE_TURNS_H

#include <pthread.h>
#include <stdint.h>

typedef struct weft__turn_lock {
    pthread_mutex_t lock; /* protects the fields below */
    pthread_cond_t changed;
    uint64_t next, now; /* next ticket to give out; ticket that holds the lock */
} weft__turn_lock;

void weft__turn_lock_init(weft__turn_lock *turns);
void weft__turn_lock_destroy(weft__turn_lock *turns);
void weft__turn_lock_acquire(weft__turn_lock *turns);
void weft__turn_lock_release(weft__turn_lock *turns);

#endif
