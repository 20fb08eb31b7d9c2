/* tests/core/test_threads.c -- building, evaluating and sharing arrays from several threads, and
 * the functions of tests that threads call. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/check.h"
#include "weft/ops.h"

enum { THREADS = 8, ROUNDS = 40 };

static weft_array *shared; /* evaluated, kept: read by all */
static atomic_int wrong;

static void *work(void *argument)
{
    int id = *(int *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        weft_scope_open();
        weft_array *x = weft_add_scalar(shared, id);
        for (int i = 0; i < 10; i++) {
            x = weft_add(x, shared);
        }
        weft_array *y = weft_sum(x, WEFT_ALL_AXES, false);
        weft_status status = round % 2 ? weft_eval(y) : weft_eval_async(&y, 1);
        double expected = 64.0 * (11 + id);
        if (status != WEFT_OK || weft_item(y) != expected) {
            atomic_fetch_add(&wrong, 1);
        }
        weft_keep(shared);
        weft_drop(shared);
        weft_scope_close(NULL);
    }
    return NULL;
}

static void eight_threads_share_an_array(void)
{
    pthread_t threads[THREADS];
    int ids[THREADS];
    weft_scope_open();
    shared = weft_keep(weft_ones(WEFT_DIMS(64), WEFT_FLOAT32));
    CHECK_OK(weft_eval(shared));
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, work, &ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ_INT(atomic_load(&wrong), 0);
    weft_drop(shared);
    weft_scope_close(NULL);
}

static void *ask(void *argument)
{
    const char **path = argument;
    for (int round = 0; round < ROUNDS; round++)
        *path = check_temporary("t");
    return NULL;
}

/* If one thread's path is lost, it leaks; if there are two temporary folders, a file is not
 * found. */
static void eight_threads_ask_for_paths(void)
{
    pthread_t threads[THREADS];
    const char *found[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, ask, &found[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STR(found[i], check_temporary("t"));
    }
}

CHECK_MAIN("threads", CHECK_CASE(eight_threads_share_an_array),
           CHECK_CASE(eight_threads_ask_for_paths))
