/* nn/walk.c -- visits parameters and modules, and finds them by path. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/list.h"
#include "nn/module.h"

/* The current path of a visit. */
typedef struct path {
    char text[WEFT_NN_PATH];
    size_t length;
} path;

/* Appends ".name"; "" adds nothing. */
static weft_status path_push(path *p, const char *name)
{
    const size_t dot = p->length > 0 && *name, n = strlen(name);
    if (p->length + dot + n >= sizeof p->text)
        return weft_fail(WEFT_INVALID, "module path longer than %d bytes: %s.%s", WEFT_NN_PATH,
                         p->text, name);
    if (dot)
        p->text[p->length] = '.';
    memcpy(p->text + p->length + dot, name, n + 1);
    p->length += dot + n;
    return WEFT_OK;
}

static void path_pop(path *p, size_t length)
{
    p->length = length;
    p->text[length] = '\0';
}

/* ---- parameters ----------------------------------------------------------------------------- */

bool weft__nn_is_visited(const weft_slot *slot)
{
    return slot->kind == WEFT_SLOT_PARAMETER || slot->kind == WEFT_SLOT_STATISTIC;
}

static weft_status walk(weft_module *m, path *p, weft_nn_visitor *visit, void *context)
{
    const size_t here = p->length;
    weft_status status = WEFT_OK;
    for (int i = 0; i < m->n_slots && status == WEFT_OK; i++) {
        if (!weft__nn_is_visited(&m->slots[i]))
            continue;
        status = path_push(p, m->slots[i].name);
        if (status == WEFT_OK)
            status = visit(context, &(weft_nn_item){p->text, &m->slots[i], m});
        path_pop(p, here);
    }
    for (int i = 0; i < m->n_children && status == WEFT_OK; i++) {
        status = path_push(p, m->children[i].name);
        if (status == WEFT_OK)
            status = walk(*m->children[i].address, p, visit, context);
        path_pop(p, here);
    }
    return status;
}

weft_status weft_nn_visit(weft_module *m, weft_nn_visitor *visit, void *context)
{
    path p = {0};
    return walk(m, &p, visit, context);
}

/* ---- modules -------------------------------------------------------------------------------- */

static weft_status walk_modules(weft_module *m, path *p, weft_nn_module_visitor *visit,
                                void *context)
{
    const size_t here = p->length;
    weft_status status = WEFT_OK;
    for (int i = 0; i < m->n_children && status == WEFT_OK; i++) {
        const weft_child *child = &m->children[i];
        weft_module *before = *child->address;
        status = path_push(p, child->name);
        if (status == WEFT_OK)
            status = visit(context, p->text, child->address);
        if (*child->address != before)
            weft__nn_put_child(m, child->name, child->address, *child->address);
        else if (status == WEFT_OK)
            status = walk_modules(before, p, visit, context);
        path_pop(p, here);
    }
    return status;
}

weft_status weft_nn_visit_modules(weft_module *m, weft_nn_module_visitor *visit, void *context)
{
    path p = {0};
    weft_module *root = m;
    const weft_status status = visit(context, "", &root);
    return status == WEFT_OK ? walk_modules(m, &p, visit, context) : status;
}

/* ---- by path -------------------------------------------------------------------------------- */

/* The rest of `text` after `name` and a dot; `text` itself for the name ""; "" if `text` equals
 * `name`; NULL: no match. */
static const char *after(const char *text, const char *name)
{
    const size_t n = strlen(name);
    if (n == 0)
        return text;
    if (strncmp(text, name, n) != 0 || (text[n] != '.' && text[n] != '\0'))
        return NULL;
    return text + n + (text[n] == '.');
}

weft_module *weft_nn_find_module(weft_module *m, const char *name)
{
    if (*name == '\0')
        return m;
    for (int i = 0; i < m->n_children; i++) {
        const char *rest = after(name, m->children[i].name);
        weft_module *found = rest ? weft_nn_find_module(*m->children[i].address, rest) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

weft_array **weft_nn_find(weft_module *m, const char *name)
{
    weft_slot *slot = weft__nn_slot(m, name);
    if (slot)
        return slot->kind == WEFT_SLOT_TIED ? slot->owner : slot->address;
    for (int i = 0; i < m->n_children; i++) {
        const char *rest = after(name, m->children[i].name);
        weft_array **found = rest ? weft_nn_find(*m->children[i].address, rest) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

void weft__nn_rename(weft_module *m, const char *at, const char *name)
{
    for (int i = 0; i < m->n_children; i++) {
        weft_child *child = &m->children[i];
        const char *rest = after(at, child->name);
        if (strcmp(at, child->name) == 0)
            child->name = (*child->address)->name = name;
        else if (rest)
            weft__nn_rename(*child->address, rest, name);
    }
}

/* ---- lists of parameters -------------------------------------------------------------------- */

typedef struct pair {
    char *path;
    weft_array **slot;
} pair;

typedef struct collector {
    pair *pairs;
    int n;
    bool trainable_only;
} collector;

static weft_status collect(void *context, const weft_nn_item *item)
{
    collector *c = context;
    if (c->trainable_only && item->slot->frozen)
        return WEFT_OK;
    char *copy = weft__list_more(c->pairs, c->n) ? weft_strdup(item->path) : NULL;
    if (copy == NULL)
        return weft__out_of_memory(item->path, "the list of parameters");
    c->pairs[c->n++] = (pair){copy, item->slot->address};
    return WEFT_OK;
}

static int compare_pairs(const void *a, const void *b)
{
    return strcmp(((const pair *)a)->path, ((const pair *)b)->path);
}

static weft_status list(weft_module *m, bool trainable_only, weft_nn_slots *out)
{
    collector c = {.trainable_only = trainable_only};
    *out = (weft_nn_slots){0};
    weft_status status = weft_nn_visit(m, collect, &c);
    const size_t n = c.n > 0 ? (size_t)c.n : 1;
    if (status == WEFT_OK) {
        out->slots = weft_calloc(n, sizeof *out->slots);
        out->paths = weft_calloc(n, sizeof *out->paths);
        if (out->slots == NULL || out->paths == NULL)
            status = weft_fail(WEFT_MEMORY, "out of memory for the list of parameters");
    }
    if (c.n > 0)
        qsort(c.pairs, (size_t)c.n, sizeof *c.pairs, compare_pairs);
    for (int i = 0; i < c.n; i++) {
        if (status != WEFT_OK) {
            weft_free(c.pairs[i].path);
            continue;
        }
        out->slots[i] = c.pairs[i].slot;
        out->paths[i] = c.pairs[i].path;
        out->n = i + 1;
    }
    weft_free(c.pairs);
    if (status != WEFT_OK)
        weft_nn_slots_free(out);
    return status;
}

weft_status weft_nn_parameters(weft_module *m, weft_nn_slots *out)
{
    return list(m, false, out);
}

weft_status weft_nn_trainable(weft_module *m, weft_nn_slots *out)
{
    return list(m, true, out);
}

void weft_nn_slots_free(weft_nn_slots *slots)
{
    for (int i = 0; i < slots->n; i++)
        weft_free(slots->paths[i]);
    weft_free(slots->paths);
    weft_free(slots->slots);
    *slots = (weft_nn_slots){0};
}
