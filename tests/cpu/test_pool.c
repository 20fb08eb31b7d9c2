/* tests/cpu/test_pool.c -- the worker threads: every chunk runs once, nested and concurrent
 * calls. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/pool.h"
#include "tests/check.h"
#include "weft/array.h"

enum { ITEMS = 1000 };

typedef struct counts {
    atomic_int seen[ITEMS];
    atomic_int busy[256]; /* tasks that run now, by worker */
    atomic_int clashes, odd_chunks;
    int64_t grain;
} counts;

static void count_task(void *context, int64_t begin, int64_t end, int worker)
{
    counts *c = context;
    if (worker < 0 || worker >= weft__cpu_workers() || atomic_fetch_add(&c->busy[worker], 1) != 0)
        atomic_fetch_add(&c->clashes, 1);
    if (begin % c->grain != 0 || (end != begin + c->grain && end % c->grain == 0))
        atomic_fetch_add(&c->odd_chunks, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&c->seen[i], 1);
    atomic_fetch_sub(&c->busy[worker], 1);
}

static void check_once(int64_t n, int64_t grain)
{
    counts *c = calloc(1, sizeof *c);
    c->grain = grain;
    weft__cpu_parallel(n, grain, count_task, c);
    int wrong = 0;
    for (int64_t i = 0; i < ITEMS; i++)
        wrong += atomic_load(&c->seen[i]) != (i < n);
    CHECK_EQ_INT(wrong, 0);
    CHECK_EQ_INT(atomic_load(&c->clashes), 0);
    CHECK_EQ_INT(atomic_load(&c->odd_chunks), 0);
    free(c);
}

static void every_item_once(void)
{
    int before = weft_threads();
    for (int threads = 1; threads <= 4; threads++) {
        weft_set_threads(threads);
        CHECK_EQ_INT(weft_threads(), threads);
        for (int64_t grain = 1; grain <= ITEMS; grain = grain * 3 + 1)
            for (int64_t n = 0; n <= ITEMS; n += 111)
                check_once(n, grain);
    }
    weft_set_threads(before);
}

static void thread_count_is_clipped(void)
{
    int before = weft_threads();
    weft_set_threads(-5);
    CHECK_EQ_INT(weft_threads(), 1);
    weft_set_threads(1 << 30);
    CHECK_EQ_INT(weft_threads(), weft__cpu_workers());
    check_once(ITEMS, 1);
    weft_set_threads(before);
}

static void nested_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)begin;
    (void)end;
    (void)worker;
    check_once(100, 7);
    atomic_fetch_add((atomic_int *)context, 1);
}

static void sum_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add((_Atomic int64_t *)context, i);
}

static void outer_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)begin;
    (void)end;
    (void)worker;
    weft__cpu_parallel(100, 7, sum_task, context);
}

static void nested_calls_run_inline(void)
{
    atomic_int ran = 0;
    weft__cpu_parallel(1, 1, nested_task, &ran);
    CHECK_EQ_INT(atomic_load(&ran), 1);
    _Atomic int64_t sum = 0;
    weft_set_threads(3);
    weft__cpu_parallel(50, 1, outer_task, &sum);
    CHECK_EQ_INT(atomic_load(&sum), 50 * 4950);
}

static void *caller(void *context)
{
    for (int i = 0; i < 200; i++)
        weft__cpu_parallel(100, 3, sum_task, context);
    return NULL;
}

static void concurrent_callers(void)
{
    pthread_t threads[4];
    _Atomic int64_t sums[4] = {0};
    weft_set_threads(3);
    for (int i = 0; i < 4; i++)
        CHECK_EQ_INT(pthread_create(&threads[i], NULL, caller, &sums[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ_INT(atomic_load(&sums[i]), 200 * 4950);
    }
}

/* Plain memory: the caller sees what a task wrote, and a task sees what the caller wrote. */
static void double_task(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        ((int *)context)[i] *= 2;
}

static void writes_are_visible(void)
{
    int values[ITEMS];
    weft_set_threads(4);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < ITEMS; i++)
            values[i] = i + round;
        weft__cpu_parallel(ITEMS, 50, double_task, values);
        int wrong = 0;
        for (int i = 0; i < ITEMS; i++)
            wrong += values[i] != 2 * (i + round);
        CHECK_EQ_INT(wrong, 0);
        if (round % 50 == 0)
            usleep(2000); /* the workers go to sleep */
    }
}

static void a_fork_computes(void)
{
#if defined(__SANITIZE_THREAD__)
    check_skip("ThreadSanitizer does not follow threads of a fork");
    return;
#endif
    weft_set_threads(2);
    check_once(ITEMS, 10);
    pid_t child = fork();
    if (child == 0) {
        _Atomic int64_t sum = 0;
        weft__cpu_parallel(1000, 10, sum_task, &sum);
        _exit(atomic_load(&sum) == 499500 ? 0 : 1);
    }
    int status = -1;
    CHECK_EQ_INT(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CHECK_MAIN("pool", CHECK_CASE(every_item_once), CHECK_CASE(thread_count_is_clipped),
           CHECK_CASE(nested_calls_run_inline), CHECK_CASE(concurrent_callers),
           CHECK_CASE(writes_are_visible), CHECK_CASE(a_fork_computes))
