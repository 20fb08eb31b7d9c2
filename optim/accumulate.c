/* optim/accumulate.c -- gradient accumulation: sums gradients over several calls and updates in the
 * last one. */
#include "core/graph.h"
#include "optim/optim.h"

weft_status weft_optim_accumulate(weft_optim *optimizer, int64_t n)
{
    weft_optim *o = optimizer;
    if (n < 1 || o->every != 0)
        return weft_fail(WEFT_INVALID, n < 1 ? "optimizer: accumulate: expected 1 or more calls"
                                             : "optimizer: accumulate: it was called before");
    weft_device *before = weft__optim_on_cpu();
    weft_scope_open_lean();
    weft_status status = weft_set(&o->seen, weft_scalar_int(0, WEFT_INT64));
    for (int i = 0; i < o->n && status == WEFT_OK; i++) {
        optim_parameter *p = &o->parameters[i];
        weft_array *zeros = weft_zeros(weft_shape(*p->slot), weft__optim_dtype(p));
        status = weft_set(&p->sum, weft_to(zeros, weft_device_of(*p->slot)));
        if (status == WEFT_OK)
            status = weft_eval(p->sum);
    }
    if (status == WEFT_OK)
        status = weft_eval(o->seen);
    if (status == WEFT_OK)
        status = weft__optim_list(o);
    if (status == WEFT_OK)
        o->every = n;
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

/* Adds this call's gradients to the sums. Parameters without a gradient keep their sums. */
static void add_up(weft_optim *o, weft_array *const *gradients, weft_array **sums)
{
    for (int i = 0; i < o->n; i++) {
        optim_parameter *p = &o->parameters[i];
        sums[i] = p->sum;
        if (gradients[i])
            sums[i] = weft_add(p->sum, weft__optim_gradient(p, gradients[i]));
    }
}

/* Broadcasting gives the 0-d arrays a device. */
weft_array *weft__optim_when(weft_array *due, weft_array *a, weft_array *old)
{
    weft_device *device = weft_device_of(old);
    return weft_where(weft_to(due, device), weft_to(a, device), old);
}

/* Sets every slot to its new value if the update is due, else to its old one. A traced call cannot
 * branch on the number of earlier calls. */
static void choose(const optim_changes *c, weft_array *due)
{
    for (int i = 0; i < c->n; i++)
        c->values[i] = weft__optim_when(due, c->values[i], *c->slots[i]);
}

static void start_again(weft_optim *o, weft_array **sums, weft_array *due, bool recording, bool now,
                        optim_changes *c)
{
    for (int i = 0; i < o->n; i++) {
        weft_array **slot = &o->parameters[i].sum;
        const weft_dtype dtype = weft_dtype_of(*slot);
        weft_array *next = sums[i];
        if (recording)
            next = weft__optim_when(due, weft_scalar(0, dtype), sums[i]);
        else if (now)
            next = weft_to(weft_zeros(weft_shape(*slot), dtype), weft_device_of(*slot));
        weft__optim_change(c, slot, next);
    }
}

weft_status weft__optim_accumulate(weft_optim *o, weft_array *const *gradients, weft_array **sums,
                                   weft_array **shared, optim_changes *c)
{
    const bool recording = weft__current_recording != NULL;
    weft_array *every = weft_scalar_int(o->every, WEFT_INT64);
    weft_array *seen = weft_remainder(weft_add_scalar(o->seen, 1), every);
    weft_array *due = weft_equal(seen, weft_scalar_int(0, WEFT_INT64));
    const int64_t before = recording ? 0 : weft_item_int(o->seen);
    if (before < 0)
        return weft_error_status();
    const bool now = before + 1 >= o->every;
    add_up(o, gradients, sums);
    if (recording || now)
        weft__optim_collect(o, sums, shared, NULL, c);
    if (recording)
        choose(c, due);
    start_again(o, sums, due, recording, now, c);
    weft__optim_change(c, &o->seen, seen);
    return weft_update(c->slots, c->values, c->n);
}
