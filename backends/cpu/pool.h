/* backends/cpu/pool.h -- the worker threads of the CPU backend.
 *
 * Work is divided by its size only, never by the number of threads, so results do not depend on it.
 */
#ifndef BACKENDS_CPU_POOL_H
#define BACKENDS_CPU_POOL_H

#include <stdint.h>

/* Handles items [begin, end) of a range. `worker` is in [0, weft__cpu_workers()) and no two tasks
 * of one weft__cpu_parallel run at the same time with the same worker. */
typedef void cpu_task(void *context, int64_t begin, int64_t end, int worker);

/* Divides [0, n) into chunks of `grain` items (the last may be shorter; grain < 1 counts as 1),
 * runs `task` once for each, on any worker and in any order, and returns when all are done. The
 * calling thread takes part. With one chunk, inside a task, or while another thread's call uses the
 * workers, the chunks run one after another on the calling thread. Writes of the caller before the
 * call are visible to the tasks, and writes of the tasks are visible to the caller afterwards. */
void weft__cpu_parallel(int64_t n, int64_t grain, cpu_task *task, void *context);

/* The largest number of workers that this process can ever use. It is constant, so the workspace of
 * a plan is sufficient whenever it runs. */
int weft__cpu_workers(void);

#endif
