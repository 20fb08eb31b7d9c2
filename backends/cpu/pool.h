/* backends/cpu/pool.h -- the worker threads of the CPU backend.
 *
 * Work is cut by its size alone, never by the number of threads, so results do not depend on it.
 */
#ifndef BACKENDS_CPU_POOL_H
#define BACKENDS_CPU_POOL_H

#include <stdint.h>

/* Handles items [begin, end) of a range. `worker` is in [0, weft__cpu_workers()) and no two tasks
 * of one weft__cpu_parallel run at the same time with the same worker. */
typedef void cpu_task(void *context, int64_t begin, int64_t end, int worker);

/* Cuts [0, n) into chunks of `grain` items (the last may be shorter; grain < 1 counts as 1), runs
 * `task` once for each, on any worker and in any order, and returns when all are done. The caller
 * takes part. With one chunk, inside a task, or while another thread's call has the workers, the
 * chunks run one after another on the calling thread. What a task wrote is visible to the caller
 * afterwards, and what the caller wrote before is visible to the tasks. */
void weft__cpu_parallel(int64_t n, int64_t grain, cpu_task *task, void *context);

/* The largest number of workers that this process can ever use: constant, so that the workspace of
 * a plan fits whenever the plan runs. */
int weft__cpu_workers(void);

#endif
