/* train/optimizer.c -- AdamW over a list of slots. */
#include "train/optimizer.h"

#include <math.h>

#include "core/failure.h"
#include "optim/optim.h"

/* What each slot has beside its parameter. */
enum { MOMENT1, MOMENT2, MASTER, N_STATE };

struct weft_optimizer {
    weft_adamw_options o;
    int n;
    weft_array ***slots;     /* (n), the caller's */
    weft_array **arrays;     /* (N_STATE n) */
    weft_array ***state;     /* (N_STATE n): where they are */
    weft_array *loss, *norm; /* of the latest update */
    int64_t steps;
};

static weft_array **state_of(weft_optimizer *o, int i, int which)
{
    return &o->arrays[N_STATE * i + which];
}

/* ---- making --------------------------------------------------------------------------------- */

static double or_default(double value, double otherwise)
{
    return value == 0 ? otherwise : value;
}

static weft_status check_options(const weft_adamw_options *o)
{
    if (!(o->lr > 0 && isfinite(o->lr)))
        return weft_fail(WEFT_INVALID, "adamw: lr: expected a positive number, got %g", o->lr);
    if (!(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1))
        return weft_fail(WEFT_INVALID, "adamw: betas: expected numbers in [0, 1), got %g and %g",
                         o->beta1, o->beta2);
    if (!(o->eps > 0 && isfinite(o->weight_decay)))
        return weft_fail(WEFT_INVALID,
                         "adamw: expected a positive eps and a finite weight decay, got %g and %g",
                         o->eps, o->weight_decay);
    return WEFT_OK;
}

static weft_status fill_options(weft_optimizer *o, const weft_adamw_options *options)
{
    if (options)
        o->o = *options;
    o->o.lr = or_default(o->o.lr, 1e-5);
    o->o.beta1 = or_default(o->o.beta1, 0.9);
    o->o.beta2 = or_default(o->o.beta2, 0.999);
    o->o.eps = or_default(o->o.eps, 1e-8);
    o->o.weight_decay = fmax(or_default(o->o.weight_decay, 0.01), 0);
    return check_options(&o->o);
}

/* Moments of zeros where the parameter is, and the master copy of a parameter that is stored in 16
 * bits. */
static weft_status start_state(weft_optimizer *o, int i)
{
    weft_array *p = *o->slots[i];
    if (p == NULL || !weft_ok(p) || !weft_dtype_is_float(weft_dtype_of(p)))
        return weft_fail(WEFT_INVALID, "optimizer: slot %d: expected a float array, got %s", i,
                         p == NULL     ? "none"
                         : !weft_ok(p) ? weft_error(p)
                                       : weft_dtype_name(weft_dtype_of(p)));
    const bool wide = weft_dtype_of(p) == WEFT_FLOAT64;
    const weft_dtype dtype = wide ? WEFT_FLOAT64 : WEFT_FLOAT32;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(p));
    weft_status status = weft_set(state_of(o, i, MOMENT1), weft_zeros(weft_shape(p), dtype));
    if (status == WEFT_OK)
        status = weft_set(state_of(o, i, MOMENT2), weft_zeros(weft_shape(p), dtype));
    weft_set_default_device(before);
    if (status == WEFT_OK && weft_dtype_size(weft_dtype_of(p)) == 2)
        status = weft_set(state_of(o, i, MASTER), weft_astype(p, WEFT_FLOAT32));
    return status;
}

static weft_status start(weft_optimizer *o)
{
    weft_scope_open_lean();
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < o->n; i++)
        status = start_state(o, i);
    weft_scope_close(NULL);
    return status;
}

weft_status weft_optimizer_new(weft_array **const *slots, int n, const weft_adamw_options *options,
                               weft_optimizer **out)
{
    *out = NULL;
    weft_optimizer *o = weft_calloc(1, sizeof *o);
    if (o == NULL)
        return weft__out_of_memory("optimizer", NULL);
    const size_t count = n > 0 ? (size_t)n : 1;
    o->n = n;
    o->slots = weft_calloc(count, sizeof *o->slots);
    o->arrays = weft_calloc(N_STATE * count, sizeof(weft_array *));
    o->state = weft_calloc(N_STATE * count, sizeof *o->state);
    weft_status status = WEFT_MEMORY;
    if (o->slots && o->arrays && o->state) {
        for (int i = 0; i < n; i++)
            o->slots[i] = slots[i];
        for (int i = 0; i < N_STATE * n; i++)
            o->state[i] = &o->arrays[i];
        status = fill_options(o, options);
    } else {
        weft__out_of_memory("optimizer", NULL);
    }
    if (status == WEFT_OK)
        status = start(o);
    if (status == WEFT_OK)
        *out = o;
    else
        weft_optimizer_free(o);
    return status;
}

void weft_optimizer_free(weft_optimizer *o)
{
    if (o == NULL)
        return;
    for (int i = 0; o->arrays && i < N_STATE * o->n; i++)
        weft_drop(o->arrays[i]);
    weft_drop(o->loss);
    weft_drop(o->norm);
    weft_free(o->slots);
    weft_free(o->arrays);
    weft_free(o->state);
    weft_free(o);
}

weft_adamw_options weft_optimizer_options(const weft_optimizer *optimizer)
{
    return optimizer->o;
}

int64_t weft_optimizer_steps(const weft_optimizer *optimizer)
{
    return optimizer->steps;
}

weft_array ***weft_optimizer_state(weft_optimizer *optimizer, int *n)
{
    *n = N_STATE * optimizer->n;
    return optimizer->state;
}

/* ---- updating ------------------------------------------------------------------------------- */

weft_array *weft__optimizer_numbers(const weft_optimizer *o, double lr_factor)
{
    const double t = (double)(o->steps + 1);
    const float numbers[] = {(float)(o->o.lr * lr_factor), (float)(1 - pow(o->o.beta1, t)),
                             (float)(1 - pow(o->o.beta2, t))};
    return weft_from_data(numbers, WEFT_FLOAT32, WEFT_DIMS(3));
}

static weft_array *number_at(weft_array *numbers, int i)
{
    return weft_squeeze(weft_slice_axis(numbers, 0, i, i + 1), 0);
}

/* weft_adamw's five numbers, where the norm is; those that depend on the gradients are computed
 * there too. */
static weft_array *hyper_of(weft_array *loss, weft_array *norm, weft_array *numbers, double clip)
{
    weft_device *before = weft_default_device(), *there = weft_device_of(norm);
    weft_set_default_device(there);
    weft_array *scale = weft_scalar(1, WEFT_FLOAT32);
    if (clip > 0) {
        /* The small number keeps a norm of zero out of the denominator. */
        weft_array *room =
            weft_divide(weft_scalar(clip, WEFT_FLOAT32), weft_add_scalar(norm, 1e-6));
        scale = weft_minimum(scale, room);
    }
    weft_array *finite = weft_isfinite(norm);
    if (loss)
        finite = weft_logical_and(finite, weft_isfinite(loss));
    weft_array *here = weft_to(numbers, there);
    weft_array *five[] = {number_at(here, 0), scale, number_at(here, 1), number_at(here, 2),
                          weft_astype(finite, WEFT_FLOAT32)};
    weft_array *hyper = weft_stack(five, 5, 0);
    weft_set_default_device(before);
    return hyper;
}

/* The slots that an update sets, and what to. */
typedef struct changes {
    weft_array ***slots;
    weft_array **values;
    int n;
} changes;

static void change(changes *c, weft_array **slot, weft_array *value)
{
    c->slots[c->n] = slot;
    c->values[c->n++] = value;
}

static void change_parameter(weft_optimizer *o, int i, weft_array *gradient,
                             weft__per_device *hypers, changes *c)
{
    weft_array **master = state_of(o, i, MASTER), *p = *o->slots[i], *out[3];
    weft_array **cached = weft__number_on(hypers, weft_device_of(p));
    weft_array *hyper = weft_to(*cached ? *cached : hypers->at[0], weft_device_of(p));
    *cached = hyper;
    weft_adamw(*master ? *master : p, gradient, *state_of(o, i, MOMENT1), *state_of(o, i, MOMENT2),
               hyper, o->o.beta1, o->o.beta2, o->o.eps, o->o.weight_decay, out);
    change(c, o->slots[i], *master ? weft_astype(out[0], weft_dtype_of(p)) : out[0]);
    change(c, state_of(o, i, MOMENT1), out[1]);
    change(c, state_of(o, i, MOMENT2), out[2]);
    if (*master)
        change(c, master, out[0]);
}

static weft_status set(weft_optimizer *o, weft_array *const *gradients, weft_array *loss,
                       weft_array *numbers, double clip, changes *c)
{
    weft_array *norm = weft_global_norm(gradients, o->n);
    weft__per_device hypers = {.at = {hyper_of(loss, norm, numbers, clip)}, .n = 1};
    for (int i = 0; i < o->n; i++)
        change_parameter(o, i, gradients[i], &hypers, c);
    change(c, &o->norm, norm);
    if (loss)
        change(c, &o->loss, loss);
    return weft_update(c->slots, c->values, c->n);
}

weft_status weft__optimizer_set(weft_optimizer *o, weft_array *const *gradients, weft_array *loss,
                                weft_array *numbers, double clip)
{
    const size_t most = (size_t)o->n * (1 + N_STATE) + 2;
    changes c = {.slots = weft_calloc(most, sizeof *c.slots),
                 .values = weft_calloc(most, sizeof(weft_array *))};
    weft_status status = WEFT_MEMORY;
    if (c.slots && c.values) {
        weft_scope_open_lean();
        status = set(o, gradients, loss, numbers, clip, &c);
        weft_scope_close(NULL);
    } else {
        weft__out_of_memory("optimizer", NULL);
    }
    weft_free(c.slots);
    weft_free(c.values);
    return status;
}

void weft__optimizer_read(weft_optimizer *o, bool with_loss, weft_optimizer_call *call)
{
    call->grad_norm = weft_item(o->norm);
    call->loss_value = with_loss ? weft_item(o->loss) : 0;
    call->applied = isfinite(call->grad_norm) && isfinite(call->loss_value);
    o->steps += call->applied;
}

void weft__optimizer_results(weft_optimizer *o, weft_array **slots[2])
{
    slots[0] = &o->loss;
    slots[1] = &o->norm;
}

weft_status weft_optimizer_update(weft_optimizer *optimizer, weft_array *const *gradients,
                                  weft_optimizer_call *call)
{
    call->applied = false;
    weft_scope_open_lean();
    weft_array *numbers = weft__optimizer_numbers(optimizer, call->lr_factor);
    weft_status status = weft__optimizer_set(optimizer, gradients, call->loss, numbers, call->clip);
    weft_scope_close(NULL);
    if (status == WEFT_OK)
        weft__optimizer_read(optimizer, call->loss != NULL, call);
    return status;
}
