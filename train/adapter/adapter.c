/* train/adapter/adapter.c -- tensor names, and lists of adapted modules. */
#include "train/adapter/adapter.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "core/list.h"
#include "nn/lora.h"

bool weft__adapter_is_suffix(const char *path, const char *target)
{
    const size_t n = strlen(path), m = strlen(target);
    if (n < m || strcmp(path + n - m, target) != 0)
        return false;
    return n == m || path[n - m - 1] == '.';
}

static const char *const parts[] = {"lora_A", "lora_B", "lora_magnitude_vector", "lora_embedding_A",
                                    "lora_embedding_B"};

bool weft__adapter_is_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && dot > path && i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(dot + 1, parts[i]) == 0)
            return true;
    }
    return false;
}

bool weft__adapter_is_bare(const char *path)
{
    return weft__adapter_is_part(path) && !weft__adapter_is_suffix(path, parts[0]) &&
           !weft__adapter_is_suffix(path, parts[1]);
}

int64_t weft__adapter_layer(const char *path)
{
    int64_t layer = -1;
    const char *dot = strchr(path, '.');
    while (dot && (dot = strchr(dot + 1, '.'))) {
        char *end;
        const long long number = strtoll(dot + 1, &end, 10);
        if (dot[1] >= '0' && dot[1] <= '9' && *end == '.')
            layer = number;
    }
    return layer;
}

/* ---- lists ---------------------------------------------------------------------------------- */

weft_status weft__names_add(weft__names *names, const char *name)
{
    if (!weft__list_more(names->at, names->n))
        return weft__out_of_memory("adapter", "a list of names");
    names->at[names->n] = weft_strdup(name);
    if (names->at[names->n] == NULL)
        return weft__out_of_memory("adapter", "a name");
    names->n++;
    return WEFT_OK;
}

bool weft__names_have(const weft__names *names, const char *name)
{
    for (int i = 0; i < names->n; i++) {
        if (strcmp(names->at[i], name) == 0)
            return true;
    }
    return false;
}

void weft__names_sort(weft__names *names)
{
    if (names->n > 1)
        qsort(names->at, (size_t)names->n, sizeof *names->at, weft__by_text);
}

void weft__names_free(weft__names *names)
{
    for (int i = 0; i < names->n; i++)
        weft_free(names->at[i]);
    weft_free(names->at);
    *names = (weft__names){0};
}

/* ---- modules of a tree ---------------------------------------------------------------------- */

typedef struct survey {
    weft__names *linears, *adapted;
} survey;

static weft_status look(void *context, const char *path, weft_module **field)
{
    const survey *s = context;
    const weft_module *m = *field;
    const bool adapted = weft__is_lora(m);
    const bool inside = m->parent && weft__is_lora(m->parent);
    const bool fits = m->type == &weft_nn_linear_type || m->type == &weft__nn_embedding_type;
    if (inside || (!adapted && !fits) || m->type == &weft_nn_lora_stack_type)
        return WEFT_OK;
    weft_status status = weft__names_add(s->linears, path);
    if (status == WEFT_OK && adapted && s->adapted)
        status = weft__names_add(s->adapted, path);
    return status;
}

weft_status weft__adapter_linears(weft_module *tree, weft__names *linears, weft__names *adapted)
{
    survey s = {linears, adapted};
    return weft_nn_visit_modules(tree, look, &s);
}

/* ---- folders -------------------------------------------------------------------------------- */

weft_status weft__adapter_remove_others(const char *folder, const char *own)
{
    static const char *const names[] = {WEFT__ADAPTER_TENSORS, WEFT__ADAPTER_MLX_TENSORS,
                                        "adapter_model.bin"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && status == WEFT_OK; i++) {
        char *path = weft_format("%s/%s", folder, names[i]);
        if (path == NULL)
            status = weft__out_of_memory(folder, "the adapter");
        else if (strcmp(names[i], own) != 0 && weft__exists(path))
            status = weft__folder_remove(path);
        weft_free(path);
    }
    return status;
}
