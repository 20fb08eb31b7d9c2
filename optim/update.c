/* optim/update.c -- one update of all parameters, as one graph. */
#include "optim/optim.h"

#include "core/failure.h"

void weft__optim_change(optim_changes *c, weft_array **slot, weft_array *value)
{
    c->slots[c->n] = slot;
    c->values[c->n++] = value;
}

/* ---- groups --------------------------------------------------------------------------------- */

static weft_optim_number constant_of(const optim_group *g, int i)
{
    const char *at = (const char *)g->options + g->type->fields[i].offset;
    switch (g->type->fields[i].type) {
    case WEFT_FIELD_DOUBLE:
        return (weft_optim_number){.value = *(const double *)at};
    case WEFT_FIELD_INT:
        return (weft_optim_number){.value = (double)*(const int64_t *)at};
    case WEFT_FIELD_BOOL:
        return (weft_optim_number){.value = *(const bool *)at};
    default:
        return (weft_optim_number){
            .array = weft_error_array("%s: %s: a hyper-parameter is a double, an integer or a bool",
                                      g->type->name, g->type->fields[i].name)};
    }
}

/* Computes the numbers of this update; `step` is the count before it. */
static void set_numbers(optim_group *g, weft_array *step, optim_guard *guard, optim_changes *c)
{
    for (int i = 0; i < g->n_fields; i++)
        g->numbers[i] = g->rates[i]
                            ? (weft_optim_number){.array = weft_rate_array(g->rates[i], step)}
                            : constant_of(g, i);
    g->lr_now = g->lr;
    if (g->lr_rate) {
        g->lr_now = weft_rate_array(g->lr_rate, step);
        weft__optim_change(c, &g->lr, weft__optim_guarded(guard, g->lr_now, g->lr));
    }
    if (guard)
        g->lr_now = weft_multiply(g->lr_now, guard->factor);
}

/* ---- parameters ----------------------------------------------------------------------------- */

weft_dtype weft__optim_dtype(const optim_parameter *p)
{
    return weft_dtype_of(*p->slot) == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
}

weft_array *weft__optim_gradient(const optim_parameter *p, weft_array *gradient)
{
    const weft_dims a = weft_shape(gradient), b = weft_shape(*p->slot);
    bool same = a.n == b.n;
    for (int i = 0; same && i < a.n; i++)
        same = a.at[i] == b.at[i];
    if (weft_ok(gradient) && (!same || !weft_dtype_is_float(weft_dtype_of(gradient))))
        return weft_error_array(
            "optimizer: %s: expected a float gradient in the parameter's shape, "
            "got %s of %d axes and %lld elements",
            p->path, weft_dtype_name(weft_dtype_of(gradient)), a.n, (long long)weft_size(gradient));
    return weft_astype(gradient, weft__optim_dtype(p));
}

/* Passes the guard's numbers to an optimizer type that guards by itself, and returns NULL;
 * otherwise returns the guard. */
static optim_guard *hand_over(weft_optim_step *s, optim_guard *guard)
{
    if (guard == NULL)
        return NULL;
    weft_device *device = weft_device_of(s->parameter);
    weft_array *scale = weft__optim_scale(guard, device);
    if (s->type->guards && s->type->guards(s)) {
        s->scale = scale;
        s->finite = weft__optim_finite(guard, device);
        return NULL;
    }
    if (scale)
        s->gradient = weft_optim_multiply(s->gradient, (weft_optim_number){.array = scale});
    return guard;
}

static void update_parameter(optim_parameter *p, weft_optim_step *s, weft_array *gradient,
                             optim_guard *guard, optim_changes *c)
{
    weft_array *state[WEFT_OPTIM_STATES] = {0};
    for (int i = 0; i < WEFT_OPTIM_STATES; i++)
        state[i] = p->state[i];
    weft_array *old = p->master ? p->master : *p->slot;
    s->parameter = old;
    s->gradient = weft__optim_gradient(p, gradient);
    s->raw = weft_ok(s->gradient) ? gradient : s->gradient;
    s->state = state;
    guard = hand_over(s, guard);
    weft_array *value = weft__optim_guarded(guard, s->type->update(s), old);
    weft__optim_change(c, p->slot, value);
    for (int i = 0; i < WEFT_OPTIM_STATES; i++) {
        if (p->state[i])
            weft__optim_change(c, &p->state[i], weft__optim_guarded(guard, state[i], p->state[i]));
    }
    if (p->master)
        weft__optim_change(c, &p->master, value);
}

/* The steps of all parameters are made before the 16-bit copies of any, so that a device finds
 * independent work of one kind together. */
void weft__optim_collect(weft_optim *o, weft_array *const *gradients, weft_array **shared,
                         optim_guard *guard, optim_changes *c)
{
    const int first = c->n;
    weft_array *next = weft_add_scalar(o->step, 1);
    weft_array *count = weft_astype(next, WEFT_FLOAT64);
    for (int i = 0; i < o->n_groups; i++)
        set_numbers(&o->groups[i], o->step, guard, c);
    for (int i = 0; i < o->n; i++) {
        optim_parameter *p = &o->parameters[i];
        optim_group *g = &o->groups[p->group];
        if (gradients[i] == NULL)
            continue;
        weft_optim_step s = {
            .type = g->type,
            .options = g->options,
            .numbers = g->numbers,
            .learning_rate = {.array = g->lr_now},
            .count = count,
            .index = i,
            .n_parameters = o->n,
            .shared = &shared[p->group * WEFT_OPTIM_SHARED],
        };
        update_parameter(p, &s, gradients[i], guard, c);
    }
    for (int i = first; i < c->n; i++)
        c->values[i] = weft_astype(c->values[i], weft_dtype_of(*c->slots[i]));
    weft__optim_change(c, &o->step, weft__optim_guarded(guard, next, o->step));
}

weft_array **weft__optim_new_shared(const weft_optim *o)
{
    return weft_calloc((size_t)o->n_groups * WEFT_OPTIM_SHARED + 1, sizeof(weft_array *));
}

static weft_status update(weft_optim *o, weft_array *const *gradients, weft_array **sums,
                          weft_array **shared, optim_changes *c)
{
    if (o->every > 0)
        return weft__optim_accumulate(o, gradients, sums, shared, c);
    weft__optim_collect(o, gradients, shared, NULL, c);
    return weft_update(c->slots, c->values, c->n);
}

weft_status weft_optim_update(weft_optim *optimizer, weft_array *const *gradients)
{
    weft_optim *o = optimizer;
    optim_changes c = {.slots = weft_calloc((size_t)o->n_slots, sizeof *c.slots),
                       .values = weft_calloc((size_t)o->n_slots, sizeof(weft_array *))};
    weft_array **sums = weft_calloc((size_t)o->n + 1, sizeof(weft_array *));
    weft_array **shared = weft__optim_new_shared(o);
    weft_status status = WEFT_MEMORY;
    if (c.slots && c.values && sums && shared) {
        weft_device *before = weft__optim_on_cpu();
        weft_scope_open_lean();
        status = update(o, gradients, sums, shared, &c);
        weft_scope_close(NULL);
        weft_set_default_device(before);
    } else {
        weft__out_of_memory("optimizer", NULL);
    }
    weft_free(c.slots);
    weft_free(c.values);
    weft_free(sums);
    weft_free(shared);
    return status;
}
