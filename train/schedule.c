/* train/schedule.c -- the learning rate over a run. */
#include <math.h>
#include <string.h>

#include "weft/train.h"

static const char *const names[] = {
    [WEFT_SCHEDULE_CONSTANT] = "constant",
    [WEFT_SCHEDULE_LINEAR] = "linear",
    [WEFT_SCHEDULE_COSINE] = "cosine",
};

enum { N_NAMES = sizeof names / sizeof *names };

static double decay(const weft_schedule *schedule, int64_t s)
{
    static const double pi = 3.14159265358979323846;
    if (schedule->kind == WEFT_SCHEDULE_CONSTANT || schedule->steps <= 0)
        return 1;
    if (s >= schedule->steps)
        return 0;
    const double share = (double)s / (double)schedule->steps;
    return schedule->kind == WEFT_SCHEDULE_LINEAR ? 1 - share : (1 + cos(pi * share)) / 2;
}

double weft_schedule_factor(const weft_schedule *schedule, int64_t s)
{
    double factor = decay(schedule, s);
    if (s < schedule->warmup)
        factor *= (double)(s + 1) / (double)schedule->warmup;
    return factor;
}

/* min(1, (s + 1) / W) */
static weft_rate *warmup_rate(int64_t W)
{
    if (W <= 1)
        return weft_rate_constant(1);
    return weft_rate_linear(1 / (double)W, 1, W - 1);
}

weft_rate *weft_schedule_rate(const weft_schedule *schedule, double lr)
{
    weft_rate *rate =
        schedule->kind == WEFT_SCHEDULE_CONSTANT || schedule->steps <= 0 ? weft_rate_constant(lr)
        : schedule->kind == WEFT_SCHEDULE_LINEAR ? weft_rate_linear(lr, 0, schedule->steps)
                                                 : weft_rate_cosine_decay(lr, schedule->steps, 0);
    return weft_rate_product(rate, warmup_rate(schedule->warmup));
}

const char *weft_schedule_name(weft_schedule_kind kind)
{
    return (unsigned)kind < N_NAMES ? names[kind] : "unknown";
}

bool weft_schedule_parse(const char *name, weft_schedule_kind *out)
{
    for (int i = 0; i < N_NAMES; i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (weft_schedule_kind)i;
            return true;
        }
    }
    return false;
}
