/* optim/rate.c -- rates: numbers that vary with the step, as formulas of a 0-d array. */
#include <math.h>

#include "core/failure.h"
#include "optim/optim.h"

struct weft_rate {
    weft_array *(*value)(const weft_rate *r, weft_array *step);
    double from, to, rate;
    int64_t steps;
    int n; /* parts */
    weft_rate **parts;
    double *boundaries; /* (n - 1) */
    weft_rate_function *fn;
    void *context;
};

static weft_array *like(double value, weft_array *step)
{
    return weft_scalar(value, weft_dtype_of(step));
}

static weft_rate *new_rate(weft_rate rate)
{
    weft_rate *r = weft_malloc(sizeof *r);
    if (r)
        *r = rate;
    else
        weft__out_of_memory("rate", NULL);
    return r;
}

static bool fine(const char *what, bool holds, const char *expected, double got)
{
    if (!holds)
        weft_fail(WEFT_INVALID, "%s: expected %s, got %g", what, expected, got);
    return holds;
}

/* ---- the formulas --------------------------------------------------------------------------- */

static weft_array *constant(const weft_rate *r, weft_array *step)
{
    return like(r->from, step);
}

/* Computes rate^step as e^(step log rate). Its relative error does not grow with the step, unlike
 * that of a power of a rounded rate. */
static weft_array *exponential(const weft_rate *r, weft_array *step)
{
    return weft_scale(weft_exp(weft_scale(step, log(r->rate))), r->from);
}

static weft_array *step_decay(const weft_rate *r, weft_array *step)
{
    return exponential(r, weft_floor_divide(step, like((double)r->steps, step)));
}

static weft_array *cosine(const weft_rate *r, weft_array *step)
{
    static const double pi = 3.14159265358979323846;
    weft_array *s = weft_minimum(step, like((double)r->steps, step));
    weft_array *share =
        weft_scale(weft_add_scalar(weft_cos(weft_scale(s, pi / (double)r->steps)), 1), 0.5);
    return weft_add_scalar(weft_scale(share, r->from - r->to), r->to);
}

static weft_array *line(const weft_rate *r, weft_array *step)
{
    weft_array *s = weft_minimum(step, like((double)r->steps, step));
    return weft_add_scalar(weft_scale(s, (r->to - r->from) / (double)r->steps), r->from);
}

static weft_array *joined(const weft_rate *r, weft_array *step)
{
    weft_array *value = weft_rate_array(r->parts[0], step);
    for (int i = 1; i < r->n; i++) {
        const double begin = r->boundaries[i - 1];
        weft_array *later = weft_rate_array(r->parts[i], weft_add_scalar(step, -begin));
        value = weft_where(weft_less(step, like(begin, step)), value, later);
    }
    return value;
}

static weft_array *product(const weft_rate *r, weft_array *step)
{
    return weft_multiply(weft_rate_array(r->parts[0], step), weft_rate_array(r->parts[1], step));
}

static weft_array *custom(const weft_rate *r, weft_array *step)
{
    weft_array *value = r->fn(r->context, step);
    if (weft_ok(value) && (weft_ndim(value) != 0 || !weft_dtype_is_float(weft_dtype_of(value))))
        return weft_error_array("rate: expected a float 0-d array from the function");
    return weft_astype(value, weft_dtype_of(step));
}

/* ---- making --------------------------------------------------------------------------------- */

weft_rate *weft_rate_constant(double value)
{
    return new_rate((weft_rate){.value = constant, .from = value});
}

weft_rate *weft_rate_exponential_decay(double init, double rate)
{
    if (!fine("exponential decay: rate", rate > 0 && isfinite(rate), "a positive number", rate))
        return NULL;
    return new_rate((weft_rate){.value = exponential, .from = init, .rate = rate});
}

weft_rate *weft_rate_step_decay(double init, double rate, int64_t step_size)
{
    if (!fine("step decay: rate", rate > 0 && isfinite(rate), "a positive number", rate) ||
        !fine("step decay: step size", step_size > 0, "at least 1", (double)step_size))
        return NULL;
    return new_rate(
        (weft_rate){.value = step_decay, .from = init, .rate = rate, .steps = step_size});
}

weft_rate *weft_rate_cosine_decay(double init, int64_t decay_steps, double end)
{
    if (!fine("cosine decay: steps", decay_steps > 0, "at least 1", (double)decay_steps))
        return NULL;
    return new_rate((weft_rate){.value = cosine, .from = init, .to = end, .steps = decay_steps});
}

weft_rate *weft_rate_linear(double init, double end, int64_t steps)
{
    if (!fine("linear schedule: steps", steps > 0, "at least 1", (double)steps))
        return NULL;
    return new_rate((weft_rate){.value = line, .from = init, .to = end, .steps = steps});
}

weft_rate *weft_rate_custom(weft_rate_function *fn, void *context)
{
    return new_rate((weft_rate){.value = custom, .fn = fn, .context = context});
}

/* Creates a rate of n parts and takes ownership of them. boundaries (n - 1) may be NULL. */
static weft_rate *of_parts(weft_rate rate, weft_rate *const *parts, int n,
                           const int64_t *boundaries)
{
    weft_rate *r = new_rate(rate);
    bool whole = r != NULL && n > 0;
    if (n <= 0)
        weft_fail(WEFT_INVALID, "join: expected at least 1 rate, got %d", n);
    if (whole) {
        r->parts = weft_calloc((size_t)n, sizeof *r->parts);
        r->boundaries = weft_calloc((size_t)n, sizeof *r->boundaries);
        whole = r->parts && r->boundaries;
        if (!whole)
            weft__out_of_memory("rate", NULL);
    }
    for (int i = 0; i < n; i++) {
        if (whole)
            r->parts[r->n++] = parts[i];
        else
            weft_rate_free(parts[i]);
        if (whole && boundaries && i + 1 < n)
            r->boundaries[i] = (double)boundaries[i];
    }
    for (int i = 0; whole && i < n; i++) {
        if (parts[i] == NULL) { /* the error was already reported */
            weft_rate_free(r);
            return NULL;
        }
    }
    if (!whole) {
        weft_rate_free(r);
        return NULL;
    }
    return r;
}

weft_rate *weft_rate_join(weft_rate *const *rates, int n, const int64_t *boundaries)
{
    return of_parts((weft_rate){.value = joined}, rates, n, boundaries);
}

weft_rate *weft_rate_product(weft_rate *a, weft_rate *b)
{
    return of_parts((weft_rate){.value = product}, (weft_rate *[]){a, b}, 2, NULL);
}

void weft_rate_free(weft_rate *rate)
{
    if (rate == NULL)
        return;
    for (int i = 0; i < rate->n; i++)
        weft_rate_free(rate->parts[i]);
    weft_free(rate->parts);
    weft_free(rate->boundaries);
    weft_free(rate);
}

/* ---- values --------------------------------------------------------------------------------- */

weft_array *weft_rate_array(const weft_rate *rate, weft_array *step)
{
    if (!weft_ok(step))
        return step;
    if (weft_ndim(step) != 0)
        return weft_error_array("rate: expected a step of 0 axes, got %d", weft_ndim(step));
    const bool is_float = weft_dtype_is_float(weft_dtype_of(step));
    return rate->value(rate, is_float ? step : weft_astype(step, WEFT_FLOAT64));
}

double weft_rate_at(const weft_rate *rate, int64_t step)
{
    weft_device *before = weft__optim_on_cpu();
    weft_scope_open_lean();
    const double value = weft_item(weft_rate_array(rate, weft_scalar_int(step, WEFT_INT64)));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return value;
}
