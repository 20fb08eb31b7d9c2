/* optim/state.c -- an optimizer's state: slots and names, saving and loading. */
#include <string.h>

#include "core/failure.h"
#include "optim/optim.h"

/* ---- slots ---------------------------------------------------------------------------------- */

static weft_status list(weft_optim *o, weft_array **slot, int owner, char *name)
{
    if (name == NULL)
        return weft__out_of_memory("optimizer", NULL);
    o->slots[o->n_slots] = slot;
    o->owners[o->n_slots] = owner;
    o->names[o->n_slots++] = name;
    return WEFT_OK;
}

static weft_status list_parameter(weft_optim *o, optim_parameter *p)
{
    const weft_optim_type *type = o->groups[p->group].type;
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < WEFT_OPTIM_STATES; i++) {
        if (p->state[i])
            status =
                list(o, &p->state[i], p->owner, weft_format("%s.%s", p->path, type->states[i]));
    }
    if (status == WEFT_OK && p->master)
        status = list(o, &p->master, p->owner, weft_format("%s.master", p->path));
    if (status == WEFT_OK && p->sum)
        status = list(o, &p->sum, p->owner, weft_format("%s.gradient", p->path));
    return status;
}

void weft__optim_unlist(weft_optim *o)
{
    for (int i = 0; o->names && i < o->n_slots; i++)
        weft_free(o->names[i]);
    weft_free(o->names);
    weft_free(o->slots);
    weft_free(o->owners);
    o->names = NULL;
    o->slots = NULL;
    o->owners = NULL;
    o->n_slots = 0;
}

weft_status weft__optim_list(weft_optim *o)
{
    const size_t most = (size_t)o->n * (WEFT_OPTIM_STATES + 3) + (size_t)o->n_groups + 2;
    weft__optim_unlist(o);
    o->slots = weft_calloc(most, sizeof *o->slots);
    o->names = weft_calloc(most, sizeof *o->names);
    o->owners = weft_calloc(most, sizeof *o->owners);
    if (o->slots == NULL || o->names == NULL || o->owners == NULL)
        return weft__out_of_memory("optimizer", NULL);
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < o->n; i++)
        status =
            list(o, o->parameters[i].slot, WEFT__EVERY_RANK, weft_strdup(o->parameters[i].path));
    if (status == WEFT_OK)
        status = list(o, &o->step, WEFT__EVERY_RANK, weft_strdup("step"));
    if (status == WEFT_OK && o->seen)
        status = list(o, &o->seen, WEFT__EVERY_RANK, weft_strdup("accumulated"));
    for (int i = 0; status == WEFT_OK && i < o->n_groups; i++)
        status = list(o, &o->groups[i].lr, WEFT__EVERY_RANK,
                      i == 0 ? weft_strdup("learning_rate") : weft_format("learning_rate.%d", i));
    for (int i = 0; status == WEFT_OK && i < o->n; i++)
        status = list_parameter(o, &o->parameters[i]);
    return status;
}

weft_array ***weft_optim_slots(weft_optim *optimizer, int *n)
{
    *n = optimizer->n_slots;
    return optimizer->slots;
}

const char *const *weft_optim_slot_names(const weft_optim *optimizer)
{
    return (const char *const *)optimizer->names;
}

const int *weft__optim_owners(const weft_optim *o)
{
    return o->owners;
}

weft_array ***weft_optim_state(weft_optim *optimizer, int *n)
{
    *n = optimizer->n_slots - optimizer->n;
    return optimizer->slots + optimizer->n;
}

const char *const *weft_optim_state_names(const weft_optim *optimizer)
{
    return weft_optim_slot_names(optimizer) + optimizer->n;
}

/* ---- files ---------------------------------------------------------------------------------- */

weft_status weft_optim_save(const weft_optim *optimizer, const char *path)
{
    const int n = optimizer->n_slots - optimizer->n;
    weft_array **arrays = weft_calloc((size_t)n, sizeof(weft_array *));
    if (arrays == NULL)
        return weft__out_of_memory("optimizer", NULL);
    for (int i = 0; i < n; i++)
        arrays[i] = *optimizer->slots[optimizer->n + i];
    const weft_status status =
        weft_safetensors_save(path, weft_optim_state_names(optimizer), arrays, n, NULL, 0);
    weft_free(arrays);
    return status;
}

static bool same_shape(const weft_array *a, const weft_array *b)
{
    const weft_dims x = weft_shape(a), y = weft_shape(b);
    return x.n == y.n && memcmp(x.at, y.at, (size_t)x.n * sizeof x.at[0]) == 0;
}

/* The file's tensor for a slot: copied to the device of the slot's array or, for another rank, left
 * in the file. */
static weft_status load_one(const weft_safetensors *file, const char *what, const char *name,
                            weft_array *now, bool own, weft_array **out)
{
    const int at = weft_safetensors_find(file, name);
    if (at < 0)
        return weft_fail(WEFT_INVALID, "%s: %s is missing", what, name);
    weft_array *found = weft_safetensors_get_at(file, at);
    if (!weft_ok(found))
        return weft_fail(WEFT_INVALID, "%s: %s", what, weft_error(found));
    if (weft_dtype_of(found) != weft_dtype_of(now) || !same_shape(found, now))
        return weft_fail(WEFT_INVALID,
                         "%s: %s: expected %s of %d axes and %lld elements, got %s of "
                         "%d axes and %lld elements, or another shape",
                         what, name, weft_dtype_name(weft_dtype_of(now)), weft_ndim(now),
                         (long long)weft_size(now), weft_dtype_name(weft_dtype_of(found)),
                         weft_ndim(found), (long long)weft_size(found));
    *out = own ? weft_copy(weft_to(found, weft_device_of(now))) : found;
    return WEFT_OK;
}

static weft_status expect_nothing_else(const weft_optim *o, const char *what, int first,
                                       const weft_safetensors *file)
{
    for (int i = 0; i < weft_safetensors_count(file); i++) {
        const char *name = weft_safetensors_name(file, i);
        int j = first;
        while (j < o->n_slots && strcmp(o->names[j], name) != 0)
            j++;
        if (j == o->n_slots)
            return weft_fail(WEFT_INVALID, "%s: %s is unexpected", what, name);
    }
    return WEFT_OK;
}

/* Loads the slots from `first` on. */
static weft_status load(weft_optim *o, const char *what, int first, const weft_safetensors *file,
                        weft_array **values)
{
    const int n = o->n_slots - first;
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        const int owner = o->owners[first + i];
        status = load_one(file, what, o->names[first + i], *o->slots[first + i],
                          owner == WEFT__EVERY_RANK || owner == o->rank, &values[i]);
    }
    /* The counts are equal and all were found, so there are no others. */
    if (status == WEFT_OK && weft_safetensors_count(file) != n)
        status = expect_nothing_else(o, what, first, file);
    return status == WEFT_OK ? weft_update(o->slots + first, values, n) : status;
}

static weft_status load_from(weft_optim *o, const char *what, int first,
                             const weft_safetensors *file)
{
    weft_array **values = weft_calloc((size_t)o->n_slots, sizeof(weft_array *));
    if (values == NULL)
        return weft__out_of_memory("optimizer", NULL);
    weft_device *before = weft__optim_on_cpu();
    weft_scope_open_lean();
    const weft_status status = load(o, what, first, file, values);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    weft_free(values);
    return status;
}

weft_status weft__optim_restore(weft_optim *o, const char *what, const weft_safetensors *file)
{
    return load_from(o, what, 0, file);
}

weft_status weft_optim_load(weft_optim *optimizer, const char *path)
{
    weft_safetensors *file = NULL;
    weft_status status = weft_safetensors_open(path, &file);
    if (status == WEFT_OK)
        status = load_from(optimizer, "optimizer state", optimizer->n, file);
    weft_safetensors_close(file);
    return status;
}
