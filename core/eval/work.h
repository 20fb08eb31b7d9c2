/* core/eval/work.h -- operations and bytes of a step, for profiles. */
#ifndef CORE_EVAL_WORK_H
#define CORE_EVAL_WORK_H

#include "core/eval/plan.h"

weft_work weft__step_work(const weft__step *step);

/* weft_kernel_variant of the step's kernel. */
const char *weft__step_variant(const weft__step *step);

#endif
