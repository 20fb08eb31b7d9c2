/* train/run/metrics.h -- metrics.jsonl and the loss curve of a run. */
#ifndef WEFT_TRAIN_METRICS_H
#define WEFT_TRAIN_METRICS_H

#include "weft/train.h"

typedef struct weft__metrics weft__metrics;

/* Opens metrics.jsonl of the folder (borrowed). Lines behind update `step`, and those from a first
 * malformed one on, are cut off; the others are in the curve. Below 0: all lines. */
weft_status weft__metrics_open(const char *folder, int64_t step, weft__metrics **out);

/* Waits until the lines are on the disk. */
void weft__metrics_sync(const weft__metrics *metrics);

/* Adds a report to the file and to the curve; of an update that the file ends with, only its
 * validation. A line that cannot be written is kept for the next
 * call; the first time that is a warning. Fails without memory only. */
weft_status weft__metrics_add(weft__metrics *metrics, const weft_train_report *report);

/* Writes the lines that are left and draws loss.svg. */
weft_status weft__metrics_finish(weft__metrics *metrics);

/* Draws the curve of the reports so far into loss.svg. */
weft_status weft__metrics_draw(const weft__metrics *metrics);

/* NULL is accepted. */
void weft__metrics_free(weft__metrics *metrics);

#endif
