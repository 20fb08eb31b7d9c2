/* core/eval/profile.h -- how the nodes of a device ran; by op, and how long, while it is profiled.
 */
#ifndef CORE_EVAL_PROFILE_H
#define CORE_EVAL_PROFILE_H

#include <stddef.h>

#include "core/eval/plan.h"

/* Counts a node of the op in the field `way` of weft_counts. Under the evaluation lock. */
#define weft__count(device, op, way) weft__count_at((device), (op), offsetof(weft_counts, way))
void weft__count_at(weft_device *device, const weft_op *op, size_t way);

/* Adds up, for a device that is profiled: how long a step took, how long the device was waited for,
 * how long a plan took to make. */
void weft__profile_step(const weft__step *step, int64_t nanoseconds);
void weft__profile_wait(weft_device *device, int64_t nanoseconds);
void weft__profile_plan(weft_device *device, int64_t nanoseconds);

/* What the public functions do, under the evaluation lock and with nothing queued. */
weft_status weft__profile_set(weft_device *device, bool on);
int weft__profile_report(weft_device *device, weft_op_report *out, int max, weft_totals *totals);

#endif
