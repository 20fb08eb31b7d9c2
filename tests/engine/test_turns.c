/* tests/engine/test_turns.c -- turns are taken in the order of the requests. */
#include <unistd.h>

#include "engine/turns.h"
#include "tests/check.h"

enum { OTHERS = 4 };

static weft__turn_lock turns;
static int order[OTHERS + 1], n; /* by whose turn it is */

static uint64_t asked(void)
{
    pthread_mutex_lock(&turns.lock);
    const uint64_t next = turns.next;
    pthread_mutex_unlock(&turns.lock);
    return next;
}

static void *take_turn(void *context)
{
    weft__turn_lock_acquire(&turns);
    order[n++] = *(int *)context;
    weft__turn_lock_release(&turns);
    return NULL;
}

/* A thread that releases its turn and asks again at once comes after all waiting ones. */
static void waiting_calls_come_first(void)
{
    pthread_t threads[OTHERS];
    int who[OTHERS];
    weft__turn_lock_init(&turns);
    n = 0;
    weft__turn_lock_acquire(&turns);
    for (int i = 0; i < OTHERS; i++) {
        who[i] = i;
        CHECK(pthread_create(&threads[i], NULL, take_turn, &who[i]) == 0);
        while (asked() < (uint64_t)i + 2)
            usleep(100);
    }
    CHECK_EQ_INT(n, 0);
    weft__turn_lock_release(&turns);
    weft__turn_lock_acquire(&turns);
    order[n++] = OTHERS;
    weft__turn_lock_release(&turns);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ_INT(n, OTHERS + 1);
    for (int i = 0; i < n; i++)
        CHECK_EQ_INT(order[i], i);
    weft__turn_lock_destroy(&turns);
}

CHECK_MAIN("turns", CHECK_CASE(waiting_calls_come_first))
