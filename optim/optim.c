/* optim/optim.c -- creates optimizers from parameters and groups, and queries them. */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"

weft_device *weft__optim_on_cpu(void)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_get("cpu"));
    return before;
}

/* ---- types ---------------------------------------------------------------------------------- */

/* In the order of the command's help. */
static const weft_optim_type *const types[] = {
    &weft_optim_adamw,    &weft_optim_adamw8bit, &weft_optim_adamw16bit, &weft_optim_adam,
    &weft_optim_adamax,   &weft_optim_sgd,       &weft_optim_rmsprop,    &weft_optim_adagrad,
    &weft_optim_adadelta, &weft_optim_lion,      &weft_optim_adafactor,  &weft_optim_muon,
};

enum { N_TYPES = sizeof types / sizeof *types };

const weft_optim_type *weft_optim_type_at(int i)
{
    return i >= 0 && i < N_TYPES ? types[i] : NULL;
}

const weft_optim_type *weft_optim_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i]->name, name) == 0)
            return types[i];
    }
    return NULL;
}

/* ---- parameters ----------------------------------------------------------------------------- */

static int group_for(const weft_optim_group *groups, int n, const char *path, const weft_array *p)
{
    for (int i = 0; i < n; i++) {
        if (groups[i].filter == NULL || groups[i].filter(groups[i].context, path, p))
            return i;
    }
    return -1;
}

static weft_dtype state_dtype(const optim_group *g, int i, const weft_array *parameter)
{
    const weft_dims shape = weft_shape(parameter);
    const weft_dtype own = g->type->state_dtype ? g->type->state_dtype(g->options, i, &shape) : 0;
    const bool wide = weft_dtype_of(parameter) == WEFT_FLOAT64;
    return own != 0 ? own : wide ? WEFT_FLOAT64 : WEFT_FLOAT32;
}

/* Creates zero state on the parameter's device, and the master copy, which is zero as well if
 * another rank updates the parameter. */
static weft_status start_state(optim_parameter *p, const optim_group *g, bool own)
{
    weft_array *array = *p->slot;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(array));
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < WEFT_OPTIM_STATES && g->type->states[i]; i++) {
        weft_dims shape = weft_shape(array);
        if (g->type->state_shape == NULL || g->type->state_shape(g->options, i, &shape))
            status = weft_set(&p->state[i], weft_zeros(shape, state_dtype(g, i, array)));
    }
    const weft_dtype dtype = weft_dtype_of(array);
    if (status == WEFT_OK && weft_dtype_size(dtype) == 2 &&
        !(g->type->rounds && dtype == WEFT_BFLOAT16))
        status = weft_set(&p->master, own ? weft_astype(array, WEFT_FLOAT32)
                                          : weft_zeros(weft_shape(array), WEFT_FLOAT32));
    weft_set_default_device(before);
    return status;
}

static weft_status start_parameter(weft_optim *o, int i, const weft_nn_slots *from,
                                   const weft_optim_group *groups)
{
    optim_parameter *p = &o->parameters[i];
    weft_array *array = *from->slots[i];
    if (array == NULL || !weft_ok(array) || !weft_dtype_is_float(weft_dtype_of(array)))
        return weft_fail(WEFT_INVALID, "optimizer: %s: expected a float array, got %s",
                         from->paths[i],
                         array == NULL     ? "none"
                         : !weft_ok(array) ? weft_error(array)
                                           : weft_dtype_name(weft_dtype_of(array)));
    p->slot = from->slots[i];
    p->path = weft_strdup(from->paths[i]);
    if (p->path == NULL)
        return weft__out_of_memory("optimizer", NULL);
    p->group = group_for(groups, o->n_groups, p->path, array);
    if (p->group < 0)
        return weft_fail(WEFT_INVALID, "optimizer: %s: no group takes it", p->path);
    return start_state(p, &o->groups[p->group], p->owner == o->rank);
}

static weft_status start(weft_optim *o, const weft_nn_slots *parameters,
                         const weft_optim_group *groups, const int *owners)
{
    weft_device *before = weft__optim_on_cpu();
    weft_status status = weft_set(&o->step, weft_scalar_int(0, WEFT_INT64));
    for (int i = 0; status == WEFT_OK && i < o->n_groups; i++)
        status = weft__optim_group_start(&o->groups[i], &groups[i], i);
    weft_set_default_device(before);
    for (int i = 0; status == WEFT_OK && i < o->n; i++) {
        o->parameters[i].owner = owners ? owners[i] : o->rank;
        status = start_parameter(o, i, parameters, groups);
    }
    if (status == WEFT_OK)
        status = weft__optim_list(o);
    for (int i = o->n; status == WEFT_OK && i < o->n_slots; i++) {
        if (o->owners[i] == WEFT__EVERY_RANK || o->owners[i] == o->rank)
            status = weft_eval(*o->slots[i]);
    }
    return status;
}

weft_status weft__optim_new_share(const weft_nn_slots *parameters, const weft_optim_group *groups,
                                  int n_groups, const int *owners, int rank, weft_optim **out)
{
    *out = NULL;
    weft_optim *o = weft_calloc(1, sizeof *o);
    if (o == NULL)
        return weft__out_of_memory("optimizer", NULL);
    o->parameters = weft_calloc((size_t)parameters->n + 1, sizeof *o->parameters);
    o->groups = weft_calloc((size_t)n_groups + 1, sizeof *o->groups);
    weft_status status = WEFT_MEMORY;
    if (o->parameters && o->groups) {
        o->n = parameters->n;
        o->n_groups = n_groups;
        o->rank = rank;
        weft_scope_open_lean();
        status = start(o, parameters, groups, owners);
        weft_scope_close(NULL);
    } else {
        weft__out_of_memory("optimizer", NULL);
    }
    if (status == WEFT_OK)
        *out = o;
    else
        weft_optim_free(o);
    return status;
}

weft_status weft_optim_new(const weft_nn_slots *parameters, const weft_optim_group *groups,
                           int n_groups, weft_optim **out)
{
    return weft__optim_new_share(parameters, groups, n_groups, NULL, 0, out);
}

weft_status weft__optim_release(weft_optim *o)
{
    weft_status status = WEFT_OK;
    weft_scope_open_lean();
    for (int i = 0; status == WEFT_OK && i < o->n; i++) {
        optim_parameter *p = &o->parameters[i];
        if (p->owner != o->rank)
            status = start_state(p, &o->groups[p->group], false);
    }
    weft_scope_close(NULL);
    return status;
}

void weft_optim_free(weft_optim *o)
{
    if (o == NULL)
        return;
    for (int i = 0; i < o->n; i++) {
        for (int j = 0; j < WEFT_OPTIM_STATES; j++)
            weft_drop(o->parameters[i].state[j]);
        weft_drop(o->parameters[i].master);
        weft_drop(o->parameters[i].sum);
        weft_free(o->parameters[i].path);
    }
    for (int i = 0; i < o->n_groups; i++)
        weft__optim_group_end(&o->groups[i]);
    weft__optim_unlist(o);
    weft_drop(o->step);
    weft_drop(o->seen);
    weft_drop(o->loss);
    weft_drop(o->norm);
    weft_free(o->parameters);
    weft_free(o->groups);
    weft_free(o);
}

/* ---- queries --------------------------------------------------------------------------------- */

int64_t weft_optim_step_count(const weft_optim *optimizer)
{
    const int64_t count = weft_item_int(optimizer->step);
    return count < 0 ? -1 : count;
}

double weft_optim_learning_rate(const weft_optim *optimizer, int group)
{
    return weft_item(optimizer->groups[group].lr);
}

weft_status weft_optim_set_learning_rate(weft_optim *optimizer, int group, double rate)
{
    weft_device *before = weft__optim_on_cpu();
    weft_scope_open_lean();
    const weft_status status =
        weft_set(&optimizer->groups[group].lr, weft_scalar(rate, WEFT_FLOAT64));
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

int weft_optim_group_of(const weft_optim *optimizer, int i)
{
    return optimizer->parameters[i].group;
}
