/* nn/list.c -- a module with numbered children. */
#include <stdio.h>

#include "nn/module.h"

static void destroy(weft_module *self)
{
    weft_nn_list *list = (weft_nn_list *)self;
    weft_free(list->items);
    weft_free(list->names);
}

static void describe(const weft_module *self, char *out, size_t size)
{
    snprintf(out, size, "of %d", weft_nn_list_count(self));
}

const weft_module_type weft__nn_list_type = {
    .name = "list",
    .destroy = destroy,
    .describe = describe,
};

weft_module *weft_nn_list_new(int capacity)
{
    weft_nn_list *m = weft_nn_new(weft_nn_list, &weft__nn_list_type);
    if (m == NULL)
        return NULL;
    const size_t n = capacity > 0 ? (size_t)capacity : 1;
    m->capacity = capacity;
    m->items = weft_calloc(n, sizeof *m->items);
    m->names = weft_calloc(n, sizeof *m->names);
    if (m->items == NULL || m->names == NULL) {
        weft_fail(WEFT_MEMORY, "list: out of memory for %d modules", capacity);
        m->module.failed = true;
    }
    return weft_nn_finish(m);
}

void weft_nn_list_append(weft_module *list, weft_module *item)
{
    if (list == NULL || list->type != &weft__nn_list_type || list->failed) {
        weft_nn_free(item);
        return;
    }
    weft_nn_list *m = (weft_nn_list *)list;
    if (m->n == m->capacity) {
        weft_fail(WEFT_INVALID, "list: room for %d modules only", m->capacity);
        weft_nn_free(item);
        list->failed = true;
        return;
    }
    char *name = m->names[m->n];
    snprintf(name, sizeof m->names[0], "%d", m->n);
    weft_nn_add_child(list, name, &m->items[m->n], item);
    m->n += !list->failed;
}

int weft_nn_list_count(const weft_module *list)
{
    return ((const weft_nn_list *)list)->n;
}

weft_module *weft_nn_list_at(const weft_module *list, int i)
{
    const weft_nn_list *m = (const weft_nn_list *)list;
    return i >= 0 && i < m->n ? m->items[i] : NULL;
}
