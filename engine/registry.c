/* engine/registry.c -- the list of backends, in the order in which they are tried. */
#include <string.h>

#include "engine/engine.h"

enum { MOST_BACKENDS = 64 };

static struct {
    pthread_mutex_t lock;
    const weft_engine_backend *own[MOST_BACKENDS]; /* added by the program */
    int n;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const weft_engine_backend *at(int i)
{
    if (i == 0)
        return &weft__engine_native;
    if (i <= weft__engine_n_programs)
        return weft__engine_programs[i - 1];
    i -= 1 + weft__engine_n_programs;
    return i < registry.n ? registry.own[i] : NULL;
}

const weft_engine_backend *weft_engine_backend_at(int i)
{
    pthread_mutex_lock(&registry.lock);
    const weft_engine_backend *found = i >= 0 ? at(i) : NULL;
    pthread_mutex_unlock(&registry.lock);
    return found;
}

const weft_engine_backend *weft_engine_backend_find(const char *name)
{
    if (strcmp(name, "mlx_lm") == 0) /* as its Python module is called */
        name = "mlx-lm";
    for (int i = 0;; i++) {
        const weft_engine_backend *b = weft_engine_backend_at(i);
        if (b == NULL || strcmp(b->name, name) == 0)
            return b;
    }
}

weft_status weft_engine_register(const weft_engine_backend *backend)
{
    pthread_mutex_lock(&registry.lock);
    bool taken = false;
    for (int i = 0; at(i) != NULL; i++)
        taken |= strcmp(at(i)->name, backend->name) == 0;
    const bool full = registry.n == MOST_BACKENDS;
    if (!taken && !full)
        registry.own[registry.n++] = backend;
    pthread_mutex_unlock(&registry.lock);
    if (taken)
        return weft_fail(WEFT_INVALID, "engine: there is a backend '%s' already", backend->name);
    return full ? weft_fail(WEFT_INVALID, "engine: more than %d backends", MOST_BACKENDS) : WEFT_OK;
}
