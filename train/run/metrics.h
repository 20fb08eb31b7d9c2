/* train/run/metrics.h -- metrics.jsonl and the loss curve of a run. */
#ifndef WEFT_TRAIN_METRICS_H
#define WEFT_TRAIN_METRICS_H

#include "weft/train.h"

typedef struct weft__metrics weft__metrics;

/* Opens metrics.jsonl in the folder (borrowed). Removes lines after update `step` and everything
 * from the first malformed line on; the other lines are added to the curves. A negative step
 * removes all lines. `rewards`: validation losses are minus a mean reward. */
weft_status weft__metrics_open(const char *folder, int64_t step, bool rewards, weft__metrics **out);

/* Waits until the lines are on the disk. */
void weft__metrics_sync(const weft__metrics *metrics);

/* Adds a report to the file and to the curves. If the file already ends with that update, only its
 * validation is added. A line that cannot be written is kept for the next call; the first failure
 * is logged as a warning. Fails only if out of memory. */
weft_status weft__metrics_add(weft__metrics *metrics, const weft_train_report *report);

/* Writes the remaining lines and draws loss.svg. */
weft_status weft__metrics_finish(weft__metrics *metrics);

/* Draws the curve of the reports so far into loss.svg. */
weft_status weft__metrics_draw(const weft__metrics *metrics);

/* NULL is accepted. */
void weft__metrics_free(weft__metrics *metrics);

#endif
