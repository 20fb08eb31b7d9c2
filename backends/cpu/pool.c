/* backends/cpu/pool.c -- the worker threads: chunks from an atomic counter, bounded spinning, then
 * futex.
 *
 * A call opens the job by setting OPEN in `gate`. A worker enters by adding 1 to it while it is
 * open, so a worker that wakes up late finds it closed and does nothing. The caller closes the gate
 * when all chunks are taken, and returns when no worker is inside.
 */
#include "backends/cpu/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "weft/array.h"
#include "weft/backend.h"
#include "weft/timeline.h"

enum {
    MAX_WORKERS = 256,
    MIN_CAPACITY = 4, /* lets programs request a few threads even on a small machine */
    SPIN_NS = 50000,  /* longer than the gap between two kernels of a decode step */
    OPEN = 1 << 16    /* bit of `gate`; the lower bits count the workers inside */
};

typedef struct cpu_job {
    cpu_task *task;
    void *context;
    int64_t n, grain, n_chunks;
    const char *kernel, *variant; /* for a trace; NULL: none is recorded */
} cpu_job;

static struct {
    pthread_mutex_t lock; /* held by the call that uses the workers, and while they change */
    atomic_int wanted;    /* threads including the caller; 0: not decided yet */
    int started;          /* threads[0 .. started) exist; under the lock */
    pthread_t threads[MAX_WORKERS];
    atomic_int stop;
    atomic_int generation; /* futex: number of the job */
    atomic_int sleepers;   /* workers that sleep on `generation` */
    atomic_int gate;       /* futex: OPEN, and the number of workers inside */
    _Atomic int64_t next;  /* the next chunk */
    cpu_job job;           /* written while the gate is closed and no worker is inside */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int capacity;
static int initial;

static _Thread_local int my_worker = -1; /* inside a task: this thread's worker number */

static void futex_wait(atomic_int *word, int expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_int *word, int n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Spins until *word is no longer `value`; false after a timeout. */
static bool spin_while(atomic_int *word, int value)
{
    int64_t deadline = 0;
    for (int i = 0;; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return true;
        relax();
        if (i % 32 == 31) {
            int64_t now = now_ns();
            if (deadline == 0)
                deadline = now + SPIN_NS;
            else if (now > deadline)
                return false;
        }
    }
}

/* ---- Number of threads ----------------------------------------------------------------------- */

/* A forked child has no workers; they are started again when needed. */
static void after_fork(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pool.started = 0;
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.gate, 0);
    my_worker = -1;
}

static void decide(void)
{
    cpu_set_t set;
    int cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    initial = cores;
    const char *text = getenv("WEFT_THREADS");
    int asked = text ? atoi(text) : 0;
    if (asked > 0)
        initial = asked;
    if (initial > MAX_WORKERS)
        initial = MAX_WORKERS;
    capacity = initial > cores ? initial : cores;
    if (capacity > MAX_WORKERS)
        capacity = MAX_WORKERS;
    if (capacity < MIN_CAPACITY)
        capacity = MIN_CAPACITY;
    atomic_store(&pool.wanted, initial);
    pthread_atfork(NULL, NULL, after_fork);
}

int weft__cpu_workers(void)
{
    pthread_once(&once, decide);
    return capacity;
}

int weft_threads(void)
{
    pthread_once(&once, decide);
    return atomic_load(&pool.wanted);
}

void weft_set_threads(int n)
{
    pthread_once(&once, decide);
    if (n < 1)
        n = 1;
    atomic_store(&pool.wanted, n < capacity ? n : capacity);
}

/* ---- Workers -------------------------------------------------------------------------------- */

static void run_chunks(const cpu_job *job, int worker)
{
    my_worker = worker;
    for (;;) {
        int64_t i = atomic_fetch_add_explicit(&pool.next, 1, memory_order_relaxed);
        if (i >= job->n_chunks)
            break;
        int64_t begin = i * job->grain;
        int64_t end = job->n - begin > job->grain ? begin + job->grain : job->n;
        job->task(job->context, begin, end, worker);
    }
    my_worker = -1;
}

static void trace_part(const cpu_job *job, int64_t began)
{
    weft_timeline_add(&(weft_span){.name = job->kernel,
                                   .category = "part",
                                   .variant = job->variant,
                                   .begin = began,
                                   .duration = weft_timeline_now() - began});
}

/* Works on the open job, if there is one. */
static void enter(int worker)
{
    int gate = atomic_load_explicit(&pool.gate, memory_order_relaxed);
    do {
        if (!(gate & OPEN))
            return;
    } while (!atomic_compare_exchange_weak_explicit(&pool.gate, &gate, gate + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    const int64_t began = pool.job.kernel ? weft_timeline_now() : 0;
    run_chunks(&pool.job, worker);
    if (began > 0)
        trace_part(&pool.job, began);
    /* The last worker to leave a closed gate wakes the caller. */
    if (atomic_fetch_sub_explicit(&pool.gate, 1, memory_order_acq_rel) == 1)
        futex_wake(&pool.gate, 1);
}

static void *worker_main(void *argument)
{
    int worker = (int)(intptr_t)argument;
    int seen = 0;
    for (;;) {
        if (!spin_while(&pool.generation, seen)) {
            atomic_fetch_add(&pool.sleepers, 1);
            while (atomic_load(&pool.generation) == seen)
                futex_wait(&pool.generation, seen);
            atomic_fetch_sub(&pool.sleepers, 1);
        }
        seen = atomic_load_explicit(&pool.generation, memory_order_acquire);
        if (atomic_load_explicit(&pool.stop, memory_order_acquire))
            return NULL;
        enter(worker);
    }
}

/* Both are called with the lock held. */
static void wake_workers(void)
{
    atomic_fetch_add(&pool.generation, 1);
    if (atomic_load(&pool.sleepers) > 0)
        futex_wake(&pool.generation, INT_MAX);
}

static void stop_workers(void)
{
    if (pool.started == 0)
        return;
    atomic_store(&pool.stop, 1);
    wake_workers();
    for (int i = 0; i < pool.started; i++)
        pthread_join(pool.threads[i], NULL);
    pool.started = 0;
    atomic_store(&pool.stop, 0);
}

/* Starts workers until there are `n` besides the caller, or as many as the system allows. */
static void start_workers(int n)
{
    static int refused; /* threads that the system has refused are not requested again */
    if (pool.started == n || (pool.started < n && refused == n))
        return;
    stop_workers();
    refused = 0;
    atomic_store(&pool.generation, 0);
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of truncated weights: the program's handler names the file */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < n; i++) {
        if (pthread_create(&pool.threads[i], NULL, worker_main, (void *)(intptr_t)(i + 1)) != 0) {
            refused = n;
            break;
        }
        pool.started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

__attribute__((destructor)) static void finish(void)
{
    /* If a thread is still computing, it holds the lock, and the end of the process ends the
     * workers. */
    if (pthread_mutex_trylock(&pool.lock) == 0) {
        stop_workers();
        pthread_mutex_unlock(&pool.lock);
    }
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void run_inline(const cpu_job *job)
{
    int before = my_worker;
    int worker = before < 0 ? 0 : before;
    my_worker = worker;
    for (int64_t begin = 0; begin < job->n; begin += job->grain) {
        int64_t end = job->n - begin > job->grain ? begin + job->grain : job->n;
        job->task(job->context, begin, end, worker);
    }
    my_worker = before;
}

/* Called with the lock held and the workers started. */
static void run_shared(const cpu_job *job)
{
    pool.job = *job;
    atomic_store_explicit(&pool.next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.gate, OPEN, memory_order_release);
    wake_workers();
    run_chunks(job, 0);
    int inside = atomic_fetch_and_explicit(&pool.gate, ~OPEN, memory_order_acq_rel) & ~OPEN;
    while (inside != 0) {
        if (!spin_while(&pool.gate, inside))
            futex_wait(&pool.gate, inside);
        inside = atomic_load_explicit(&pool.gate, memory_order_acquire);
    }
}

void weft__cpu_parallel(int64_t n, int64_t grain, cpu_task *task, void *context)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    cpu_job job = {task, context, n, grain, (n - 1) / grain + 1, NULL, NULL};
    if (weft_timeline_is_on()) {
        job.kernel = weft_timeline_kernel();
        job.variant = weft_kernel_variant();
    }
    int threads = weft_threads();
    if (job.n_chunks == 1 || my_worker >= 0 || threads == 1 ||
        pthread_mutex_trylock(&pool.lock) != 0) {
        run_inline(&job);
        return;
    }
    start_workers(threads - 1);
    if (pool.started == 0)
        run_inline(&job);
    else
        run_shared(&job);
    pthread_mutex_unlock(&pool.lock);
}
