/* engine/turns.h -- a lock that is given in the order in which it was asked for: who lets it go and
 * asks again comes behind those who wait. */
#ifndef WEFT_ENGINE_TURNS_H
#define WEFT_ENGINE_TURNS_H

#include <pthread.h>
#include <stdint.h>

typedef struct weft__turns {
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    uint64_t next, now; /* the ticket that is given out next; the one whose turn it is */
} weft__turns;

void weft__turns_init(weft__turns *turns);
void weft__turns_destroy(weft__turns *turns);
void weft__turns_enter(weft__turns *turns);
void weft__turns_leave(weft__turns *turns);

#endif
