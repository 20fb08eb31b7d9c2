/* nn/tree.c -- operations on whole trees: freezing, modes, counting, casting, describing. */
#include <stdio.h>

#include "core/io/text.h"
#include "core/shape.h"
#include "nn/encoded.h"
#include "nn/module.h"

static void set_frozen(weft_module *m, bool frozen)
{
    for (int i = 0; i < m->n_slots; i++)
        m->slots[i].frozen = frozen || m->slots[i].kind == WEFT_SLOT_STATISTIC;
    for (int i = 0; i < m->n_children; i++)
        set_frozen(*m->children[i].address, frozen);
}

void weft_nn_freeze(weft_module *m)
{
    set_frozen(m, true);
}

void weft_nn_unfreeze(weft_module *m)
{
    set_frozen(m, false);
}

void weft_nn_train(weft_module *m, bool training)
{
    m->training = training;
    for (int i = 0; i < m->n_children; i++)
        weft_nn_train(*m->children[i].address, training);
}

int64_t weft_nn_count(weft_module *m, bool trainable_only)
{
    int64_t count = 0;
    for (int i = 0; i < m->n_slots; i++) {
        const weft_slot *slot = &m->slots[i];
        if (weft__nn_is_visited(slot) && !(trainable_only && slot->frozen))
            count += weft_size(*slot->address);
    }
    for (int i = 0; i < m->n_children; i++)
        count += weft_nn_count(*m->children[i].address, trainable_only);
    return count;
}

/* ---- casting -------------------------------------------------------------------------------- */

bool weft__nn_stays_wide(const weft_slot *slot, weft_dtype dtype)
{
    return slot->wide && weft_dtype_size(dtype) < weft_dtype_size(WEFT_FLOAT32);
}

/* One parameter at a time, so that the old and the new tree are never in memory together. */
weft_status weft__nn_cast_item(void *context, const weft_nn_item *item)
{
    const weft_dtype dtype = *(const weft_dtype *)context;
    weft_array **slot = item->slot->address;
    if (!weft_dtype_is_float(weft_dtype_of(*slot)) || weft_dtype_of(*slot) == dtype ||
        weft__nn_stays_wide(item->slot, dtype))
        return WEFT_OK;
    weft_scope_open_lean();
    weft_array *value = weft__nn_recast(*slot, dtype);
    const weft_status status = weft_update(&slot, &value, 1);
    weft_scope_close(NULL);
    return status;
}

weft_status weft_nn_cast(weft_module *m, weft_dtype dtype)
{
    if (!weft_dtype_is_float(dtype))
        return weft_fail(WEFT_INVALID, "weft_nn_cast: expected a float dtype, got %s",
                         weft_dtype_name(dtype));
    return weft_nn_visit(m, weft__nn_cast_item, &dtype);
}

/* ---- describing ----------------------------------------------------------------------------- */

static void describe_slot(weft__text *t, const weft_slot *slot)
{
    char shape[WEFT_SHAPE_TEXT];
    if (slot->kind == WEFT_SLOT_TIED) {
        weft__text_format(t, ", %s tied", slot->name);
        return;
    }
    const weft_dims dims = weft_shape(*slot->address);
    weft__text_format(t, ", %s %s %s%s", slot->name, weft__shape_text(&dims, shape),
                      weft_dtype_name(weft_dtype_of(*slot->address)),
                      slot->kind == WEFT_SLOT_STATISTIC ? " statistic"
                      : slot->frozen                    ? " frozen"
                                                        : "");
}

/* Adds the number of elements, for modules with children and the root. */
static void describe_count(weft__text *t, weft_module *m, int depth)
{
    const int64_t all = weft_nn_count(m, false), trainable = weft_nn_count(m, true);
    if (all == 0 || (depth > 0 && m->n_children == 0))
        return;
    weft__text_format(t, ", %lld parameters", (long long)all);
    if (trainable < all)
        weft__text_format(t, ", %lld trainable", (long long)trainable);
}

static void describe(weft__text *t, weft_module *m, const char *name, int depth)
{
    char detail[128] = "";
    if (m->type->describe)
        m->type->describe(m, detail, sizeof detail);
    weft__text_format(t, "%*s%s%s%s%s%s", 2 * depth, "", name, *name ? ": " : "", m->type->name,
                      *detail ? " " : "", detail);
    for (int i = 0; i < m->n_slots; i++) {
        if (m->slots[i].kind != WEFT_SLOT_BUFFER)
            describe_slot(t, &m->slots[i]);
    }
    describe_count(t, m, depth);
    weft__text_append(t, "\n", 1);
    for (int i = 0; i < m->n_children; i++)
        describe(t, *m->children[i].address, m->children[i].name, depth + 1);
}

char *weft_nn_describe(weft_module *m)
{
    weft__text t = {0};
    describe(&t, m, "", 0);
    if (!t.failed)
        return t.at;
    weft_free(t.at);
    return NULL;
}
