/* core/eval/profile.h -- counts how a device's nodes ran and, while it is profiled, their time by
 * op. */
#ifndef CORE_EVAL_PROFILE_H
#define CORE_EVAL_PROFILE_H

#include <stddef.h>

#include "core/eval/plan.h"

/* Counts a node of the op in the field `way` of weft_counts. Under the evaluation lock. */
#define weft__count(device, op, way) weft__count_at((device), (op), offsetof(weft_counts, way))
void weft__count_at(weft_device *device, const weft_op *op, size_t way);

/* For a profiled device, add the duration of a step, of waiting for the device, and of making a
 * plan. */
void weft__profile_step(const weft__step *step, int64_t began, int64_t nanoseconds);
void weft__profile_wait(weft_device *device, int64_t nanoseconds);
void weft__profile_plan(weft_device *device, int64_t nanoseconds);

/* Implement the public functions. Called under the evaluation lock with nothing queued. */
weft_status weft__profile_set(weft_device *device, bool on);
int weft__profile_kernels(weft_device *device, weft_kernel_report *out, int max);
int weft__profile_report(weft_device *device, weft_op_report *out, int max, weft_totals *totals);

#endif
