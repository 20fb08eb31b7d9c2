/* optim/guard.c -- clipped updates that are skipped if the loss or the gradients are not finite. */
#include <math.h>

#include "core/failure.h"
#include "optim/optim.h"

static weft_array *on(weft__per_device *all, weft_device *device)
{
    weft_array **known = weft__number_on(all, device);
    *known = weft_to(*known ? *known : all->at[0], device);
    return *known;
}

weft_array *weft__optim_scale(optim_guard *guard, weft_device *device)
{
    return guard->scale.n > 0 ? on(&guard->scale, device) : NULL;
}

weft_array *weft__optim_finite(optim_guard *guard, weft_device *device)
{
    return on(&guard->finite, device);
}

weft_array *weft__optim_guarded(optim_guard *guard, weft_array *value, weft_array *old)
{
    if (guard == NULL)
        return value;
    return weft__optim_when(weft__optim_finite(guard, weft_device_of(old)), value, old);
}

/* Computes the two numbers that depend on the gradients, on the device of their norm. */
static optim_guard make_guard(weft_array *norm, weft_array *loss, weft_array *factor, double clip)
{
    optim_guard guard = {.factor = factor};
    weft_device *before = weft_default_device(), *there = weft_device_of(norm);
    weft_set_default_device(there);
    if (clip > 0) {
        /* The epsilon avoids division by a norm of zero. */
        weft_array *room =
            weft_divide(weft_scalar(clip, WEFT_FLOAT32), weft_add_scalar(norm, 1e-6));
        guard.scale.at[0] = weft_minimum(weft_scalar(1, WEFT_FLOAT32), room);
        guard.scale.n = 1;
    }
    weft_array *finite = weft_isfinite(norm);
    if (loss)
        finite = weft_logical_and(finite, weft_isfinite(weft_to(loss, there)));
    guard.finite.at[0] = finite;
    guard.finite.n = 1;
    weft_set_default_device(before);
    return guard;
}

static weft_status set(weft_optim *o, weft_array *const *gradients, weft_array *norm,
                       weft_array *loss, weft_array *factor, double clip, weft_array **shared,
                       optim_changes *c)
{
    if (norm == NULL)
        norm = weft_global_norm(gradients, o->n);
    optim_guard guard = make_guard(norm, loss, factor, clip);
    weft__optim_collect(o, gradients, shared, &guard, c);
    weft__optim_change(c, &o->norm, norm);
    if (loss)
        weft__optim_change(c, &o->loss, loss);
    return weft_update(c->slots, c->values, c->n);
}

weft_status weft__optim_set(weft_optim *o, weft_array *const *gradients, weft_array *norm,
                            weft_array *loss, weft_array *factor, double clip)
{
    const size_t most = (size_t)o->n_slots + 2;
    optim_changes c = {.slots = weft_calloc(most, sizeof *c.slots),
                       .values = weft_calloc(most, sizeof(weft_array *))};
    weft_array **shared = weft__optim_new_shared(o);
    weft_status status = WEFT_MEMORY;
    if (c.slots && c.values && shared) {
        weft_device *before = weft__optim_on_cpu();
        weft_scope_open_lean();
        status = set(o, gradients, norm, loss, factor, clip, shared, &c);
        weft_scope_close(NULL);
        weft_set_default_device(before);
    } else {
        weft__out_of_memory("optimizer", NULL);
    }
    weft_free(c.slots);
    weft_free(c.values);
    weft_free(shared);
    return status;
}

/* In the array's own dtype, where that is a float of 32 or 64 bits: needs no memory, since the
 * update is made already. */
static weft_status read_number(weft_array *a, double *out)
{
    float value = 0;
    if (weft_dtype_of(a) != WEFT_FLOAT32)
        return weft_read(a, WEFT_FLOAT64, out, 1);
    const weft_status status = weft_read(a, WEFT_FLOAT32, &value, 1);
    *out = value;
    return status;
}

weft_status weft__optim_read(const weft_optim *o, bool with_loss, weft_optim_call *call)
{
    call->loss_value = 0;
    weft_status status = read_number(o->norm, &call->grad_norm);
    if (status == WEFT_OK && with_loss)
        status = read_number(o->loss, &call->loss_value);
    if (status == WEFT_MEMORY) /* which would mean that nothing was changed */
        status = weft_fail(WEFT_DEVICE,
                           "optimizer: after the update its norm and loss cannot be read: %s",
                           weft_error_message());
    call->applied = status == WEFT_OK && isfinite(call->grad_norm) && isfinite(call->loss_value);
    return status;
}

void weft__optim_results(weft_optim *o, weft_array **slots[2])
{
    slots[0] = &o->loss;
    slots[1] = &o->norm;
}

weft_status weft__optim_apply(weft_optim *o, weft_array *const *gradients, weft_array *norm,
                              weft_optim_call *call)
{
    call->applied = false;
    if (o->every > 0)
        return weft_fail(WEFT_INVALID, "optimizer: weft_optim_apply takes the gradients of a whole "
                                       "update, and this one accumulates");
    if (!(call->clip >= 0))
        return weft_fail(WEFT_INVALID, "optimizer: clip: expected at least 0, got %g", call->clip);
    if (call->loss && !weft_ok(call->loss))
        return weft__report(call->loss);
    weft_device *before = weft__optim_on_cpu();
    weft_scope_open_lean();
    weft_array *factor = weft_scalar(call->lr_factor, WEFT_FLOAT64);
    weft_status status = weft__optim_set(o, gradients, norm, call->loss, factor, call->clip);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    if (status == WEFT_OK)
        status = weft__optim_read(o, call->loss != NULL, call);
    return status;
}

weft_status weft_optim_apply(weft_optim *optimizer, weft_array *const *gradients,
                             weft_optim_call *call)
{
    return weft__optim_apply(optimizer, gradients, NULL, call);
}
