/* train/plan.c -- how many updates a run makes, and their learning rates. */
#include <math.h>

#include "train/rollout.h"

static int64_t count_steps(const weft_trainer_options *o, const weft_batches *batches,
                           int64_t iterations)
{
    if (o->steps > 0)
        return o->steps;
    const double updates = o->epochs * (double)weft_batches_count(batches) / (double)o->accumulate;
    return (updates > 1 ? (int64_t)ceil(updates) : 1) * iterations;
}

weft__plan weft__plan_of(const weft_trainer *t, const weft_batches *batches)
{
    weft__plan plan = {.steps = count_steps(&t->o, batches, weft__rollout_iterations(t)),
                       .warmup = t->o.warmup};
    if (plan.warmup == 0)
        plan.warmup = (int64_t)ceil(t->o.warmup_share * (double)plan.steps);
    return plan;
}

weft_status weft__plan_factor(weft__plan *plan, const char *schedule)
{
    const int64_t warmup = plan->warmup > 1 ? plan->warmup : 0;
    const int64_t rest = plan->steps > warmup ? plan->steps - warmup : 1;
    const weft_status status = weft_rate_parse(schedule, 1, rest, &plan->factor);
    if (status != WEFT_OK || warmup == 0)
        return status;
    weft_rate *parts[] = {weft_rate_linear(1 / (double)warmup, 1, warmup - 1), plan->factor};
    plan->factor = weft_rate_join(parts, 2, &warmup);
    return plan->factor ? WEFT_OK : weft_error_status();
}
