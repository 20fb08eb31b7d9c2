/* nn/choose.c -- operations on selected parameters: freezing, casting, applying functions, setting
 * values. */
#include <string.h>

#include "core/failure.h"
#include "core/shape.h"
#include "nn/module.h"
#include "weft/nn_tools.h"

/* ---- selection ------------------------------------------------------------------------------- */

/* Calls `visit` for the selected parameters, and records which keys matched. */
typedef struct chooser {
    const weft_nn_choice *choice;
    weft_nn_visitor *visit;
    void *context;
    int n;           /* selected so far */
    const char *key; /* not NULL: only this key counts */
} chooser;

/* Whether the item's path is at or below the choice's. */
static bool is_below(const weft_nn_choice *c, const weft_nn_item *item)
{
    const size_t n = c->path ? strlen(c->path) : 0, name = strlen(item->slot->name);
    const size_t whole = strlen(item->path), module = whole > name ? whole - name - 1 : 0;
    if (n > 0 &&
        (strncmp(item->path, c->path, n) != 0 || (item->path[n] != '.' && item->path[n] != '\0')))
        return false;
    return !c->shallow || module <= n;
}

static bool has_key(const chooser *c, const char *name)
{
    if (c->key)
        return strcmp(c->key, name) == 0;
    for (int i = 0; i < c->choice->n_keys; i++) {
        if (strcmp(c->choice->keys[i], name) == 0)
            return true;
    }
    return c->choice->n_keys == 0;
}

static weft_status choose(void *context, const weft_nn_item *item)
{
    chooser *c = context;
    if (!is_below(c->choice, item) || !has_key(c, item->slot->name))
        return WEFT_OK;
    if (c->choice->accepts && !c->choice->accepts(c->choice->context, item))
        return WEFT_OK;
    c->n++;
    return c->visit ? c->visit(c->context, item) : WEFT_OK;
}

/* Checks that every key, and the path, matches something. */
static weft_status check_strict(weft_module *m, const weft_nn_choice *choice)
{
    for (int i = 0; i < (choice->n_keys > 0 ? choice->n_keys : 1); i++) {
        chooser c = {.choice = choice, .key = choice->n_keys > 0 ? choice->keys[i] : NULL};
        const weft_status status = weft_nn_visit(m, choose, &c);
        if (status != WEFT_OK)
            return status;
        if (c.n == 0)
            return weft_fail(WEFT_INVALID, "%s: no parameter '%s' at '%s'", m->type->name,
                             weft_printable(c.key ? c.key : ""),
                             weft_printable(choice->path ? choice->path : ""));
    }
    return WEFT_OK;
}

static weft_status for_chosen(weft_module *m, const weft_nn_choice *choice, weft_nn_visitor *visit,
                              void *context)
{
    static const weft_nn_choice all = {0};
    chooser c = {.choice = choice ? choice : &all, .visit = visit, .context = context};
    const weft_status status = c.choice->strict ? check_strict(m, c.choice) : WEFT_OK;
    return status == WEFT_OK ? weft_nn_visit(m, choose, &c) : status;
}

/* ---- freezing ------------------------------------------------------------------------------- */

static weft_status set_frozen(void *context, const weft_nn_item *item)
{
    item->slot->frozen = *(const bool *)context || item->slot->kind == WEFT_SLOT_STATISTIC;
    return WEFT_OK;
}

weft_status weft_nn_freeze_some(weft_module *m, const weft_nn_choice *choice)
{
    return for_chosen(m, choice, set_frozen, &(bool){true});
}

weft_status weft_nn_unfreeze_some(weft_module *m, const weft_nn_choice *choice)
{
    return for_chosen(m, choice, set_frozen, &(bool){false});
}

/* ---- new values ----------------------------------------------------------------------------- */

weft_status weft_nn_cast_some(weft_module *m, weft_dtype dtype, const weft_nn_choice *choice)
{
    if (!weft_dtype_is_float(dtype))
        return weft_fail(WEFT_INVALID, "weft_nn_cast: expected a float dtype, got %s",
                         weft_dtype_name(dtype));
    return for_chosen(m, choice, weft__nn_cast_item, &dtype);
}

typedef struct mapping {
    weft_nn_map *map;
    void *context;
} mapping;

static weft_status map_item(void *context, const weft_nn_item *item)
{
    const mapping *a = context;
    weft_array **slot = item->slot->address;
    weft_scope_open_lean();
    weft_array *value = a->map(a->context, item, *slot);
    const weft_status status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    return status;
}

weft_status weft_nn_apply(weft_module *m, weft_nn_map *map, void *context,
                          const weft_nn_choice *choice)
{
    return for_chosen(m, choice, map_item, &(mapping){map, context});
}

static weft_status check_value(const char *path, weft_array *parameter, weft_array *value)
{
    char expected[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
    if (!weft_ok(value))
        return weft_fail(WEFT_INVALID, "%s: %s", path, weft_error(value));
    const weft_dims shape = weft_shape(parameter), other = weft_shape(value);
    if (weft__shape_equal(&shape, &other))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s: expected %s, got %s", path,
                     weft__shape_text(&shape, expected), weft__shape_text(&other, got));
}

weft_status weft_nn_update(weft_module *m, const char *const *paths, weft_array *const *values,
                           int n, bool strict)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_array **slot = weft_nn_find(m, paths[i]);
        if (slot)
            status = check_value(paths[i], *slot, values[i]);
        else if (strict)
            status = weft_fail(WEFT_INVALID, "%s: no parameter '%s'", m->type->name,
                               weft_printable(paths[i]));
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_array **slot = weft_nn_find(m, paths[i]);
        if (slot)
            status = weft_set(slot, values[i]);
    }
    return status;
}

weft_status weft_nn_eval(weft_module *m)
{
    weft_nn_slots slots;
    weft_status status = weft_nn_parameters(m, &slots);
    if (status != WEFT_OK)
        return status;
    weft_array **arrays = weft_malloc((slots.n > 0 ? (size_t)slots.n : 1) * sizeof *arrays);
    if (arrays == NULL)
        status = weft__out_of_memory(m->type->name, "evaluating parameters");
    for (int i = 0; i < slots.n && arrays; i++)
        arrays[i] = *slots.slots[i];
    if (arrays)
        status = weft_eval_n(arrays, slots.n);
    weft_free(arrays);
    weft_nn_slots_free(&slots);
    return status;
}
