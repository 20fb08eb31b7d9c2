/* engine/turns.c -- a fair lock: it is granted in the order of requests. */
#include "engine/turns.h"

void weft__turn_lock_init(weft__turn_lock *turns)
{
    pthread_mutex_init(&turns->lock, NULL);
    pthread_cond_init(&turns->changed, NULL);
    turns->next = turns->now = 0;
}

void weft__turn_lock_destroy(weft__turn_lock *turns)
{
    pthread_cond_destroy(&turns->changed);
    pthread_mutex_destroy(&turns->lock);
}

void weft__turn_lock_acquire(weft__turn_lock *turns)
{
    pthread_mutex_lock(&turns->lock);
    const uint64_t ticket = turns->next++;
    while (turns->now != ticket)
        pthread_cond_wait(&turns->changed, &turns->lock);
    pthread_mutex_unlock(&turns->lock);
}

void weft__turn_lock_release(weft__turn_lock *turns)
{
    pthread_mutex_lock(&turns->lock);
    turns->now++;
    pthread_cond_broadcast(&turns->changed);
    pthread_mutex_unlock(&turns->lock);
}
