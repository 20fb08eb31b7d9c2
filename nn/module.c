/* nn/module.c -- building, calling and freeing modules. */
#include "nn/module.h"

#include <pthread.h>
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "core/list.h"

/* ---- building ------------------------------------------------------------------------------- */

void *weft_nn_allocate(size_t size, const weft_module_type *type)
{
    weft_module *m = weft_calloc(1, size);
    if (m == NULL) {
        weft__out_of_memory(type->name, "the module");
        return NULL;
    }
    m->type = type;
    m->name = "";
    return m;
}

void weft_nn_add_slot(weft_module *m, const char *name, weft_array **field, weft_array *value,
                      weft_slot_kind kind)
{
    if (value == NULL)
        return;
    if (!weft_ok(value)) {
        weft_fail(WEFT_INVALID, "%s: %s: %s", m->type->name, name, weft_error(value));
        m->failed = true;
        return;
    }
    if (!weft__list_more(m->slots, m->n_slots)) {
        weft__out_of_memory(m->type->name, "the module");
        m->failed = true;
        return;
    }
    m->slots[m->n_slots++] = (weft_slot){
        .name = name, .address = field, .kind = kind, .frozen = kind == WEFT_SLOT_STATISTIC};
    *field = weft_keep(value);
    weft__scope_disown(value); /* owned by the module only, so it is consumed when it is replaced */
}

bool weft__nn_reserve_child(weft_module *m, const char *name, weft_module **field)
{
    if (!weft__list_more(m->children, m->n_children)) {
        weft__out_of_memory(m->type->name, "the module");
        m->failed = true;
        return false;
    }
    m->children[m->n_children++] = (weft_child){name, field};
    *field = NULL;
    return true;
}

void weft__nn_put_child(weft_module *m, const char *name, weft_module **field, weft_module *child)
{
    *field = child;
    child->parent = m;
    child->name = name;
}

void weft_nn_add_child(weft_module *m, const char *name, weft_module **field, weft_module *child)
{
    if (child == NULL)
        m->failed = true;
    else if (weft__nn_reserve_child(m, name, field))
        weft__nn_put_child(m, name, field, child);
    else
        weft_nn_free(child);
}

weft_module *weft_nn_finish_module(weft_module *m)
{
    if (!m->failed)
        return m;
    weft_nn_free(m);
    return NULL;
}

void weft_nn_free(weft_module *m)
{
    if (m == NULL)
        return;
    for (int i = m->n_children - 1; i >= 0; i--)
        weft_nn_free(*m->children[i].address);
    for (int i = 0; i < m->n_slots; i++) {
        if (m->slots[i].kind != WEFT_SLOT_TIED)
            weft_drop(*m->slots[i].address);
        weft_drop(m->slots[i].copy);
    }
    if (m->type->destroy)
        m->type->destroy(m);
    weft_free(m->slots);
    weft_free(m->children);
    weft_free(m);
}

weft_slot *weft__nn_slot(weft_module *m, const char *name)
{
    for (int i = 0; i < m->n_slots; i++) {
        if (m->slots[i].kind != WEFT_SLOT_BUFFER && strcmp(m->slots[i].name, name) == 0)
            return &m->slots[i];
    }
    return NULL;
}

weft_status weft_nn_tie(weft_module *m, const char *name, weft_module *owner,
                        const char *owner_name)
{
    weft_slot *slot = weft__nn_slot(m, name);
    weft_slot *owners = weft__nn_slot(owner, owner_name);
    if (slot == NULL || owners == NULL)
        return weft_fail(WEFT_INVALID, "tie: %s has no parameter '%s'",
                         slot ? owner->type->name : m->type->name,
                         weft_printable(slot ? owner_name : name));
    weft_array **target = owners->kind == WEFT_SLOT_TIED ? owners->owner : owners->address;
    if (slot->kind == WEFT_SLOT_TIED || target == slot->address)
        return weft_fail(WEFT_INVALID, "tie: %s.%s is tied already", m->type->name, name);
    weft_drop(*slot->address);
    *slot->address = NULL;
    slot->kind = WEFT_SLOT_TIED;
    slot->owner = target;
    return WEFT_OK;
}

weft_status weft__nn_copy_tied(weft_slot *slot, weft_device *device)
{
    weft_scope_open();
    const weft_status status = weft_set(&slot->copy, weft_to(*slot->owner, device));
    if (status == WEFT_OK)
        slot->copied = (*slot->owner)->seq;
    weft_scope_close(NULL);
    return status;
}

static weft_array *tied_value(const weft_slot *slot)
{
    weft_array *own = *slot->owner;
    return slot->copy && own && slot->copied == own->seq ? slot->copy : own;
}

weft_array *weft__nn_value(weft_module *m, const char *name)
{
    const weft_slot *slot = weft__nn_slot(m, name);
    return slot == NULL ? NULL : slot->kind == WEFT_SLOT_TIED ? tied_value(slot) : *slot->address;
}

weft_device *weft__nn_device(weft_module *m)
{
    for (int i = 0; i < m->n_children && m->device == NULL; i++) {
        if (m->children[i].name[0] == '\0')
            return weft__nn_device(*m->children[i].address);
    }
    weft_array *const *weight = m->device ? NULL : weft_nn_find(m, "weight");
    return m->device ? m->device : weight ? weft_device_of(*weight) : weft_default_device();
}

/* ---- calling -------------------------------------------------------------------------------- */

static bool is_list(const weft_module *m)
{
    return m && m->type == &weft__nn_list_type;
}

/* A list is never called, so its children push its name too. */
static int push_path(const weft_module *m)
{
    const int above = is_list(m->parent) ? push_path(m->parent) : 0;
    weft__path_push(m->name);
    return above + 1;
}

static void pop_path(const weft_module *m)
{
    for (; m; m = is_list(m->parent) ? m->parent : NULL)
        weft__path_pop();
}

static pthread_mutex_t tied_fields = PTHREAD_MUTEX_INITIALIZER;

/* A tied field borrows the owner's array, or its copy, while the module is called: the owner's slot
 * may hold a different array each time (a tracer, a new value), and a second owner would keep the
 * old one alive. It is not reset afterwards, so that several threads, which all find the same array
 * there, can call a module at a time: only the first one writes. */
static void fill_tied(weft_module *m)
{
    for (int i = 0; i < m->n_slots; i++) {
        const weft_slot *slot = &m->slots[i];
        if (slot->kind != WEFT_SLOT_TIED)
            continue;
        pthread_mutex_lock(&tied_fields);
        weft_array *value = tied_value(slot);
        if (*slot->address != value)
            *slot->address = value;
        pthread_mutex_unlock(&tied_fields);
    }
}

void weft_nn_enter_module(weft_module *m, const char *function)
{
    weft_scope_open_named(function);
    push_path(m);
    fill_tied(m);
}

weft_array *weft_nn_leave_module(weft_module *m, weft_array *y)
{
    pop_path(m);
    return weft_scope_close(y);
}

void weft_nn_leave_n(weft_module *m, weft_array **ys, int n)
{
    pop_path(m);
    weft_scope_close_n(ys, n);
}

weft_array *weft_nn_call(weft_module *m, weft_array *x)
{
    if (m == NULL)
        return weft_error_array("weft_nn_call: no module");
    if (m->type->forward == NULL)
        return weft_error_array("%s: has no forward of one array", m->type->name);
    weft_nn_enter_module(m, m->type->name);
    return weft_nn_leave_module(m, m->type->forward(m, x));
}
