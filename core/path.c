/* core/path.c -- the thread's module path for messages, and the environment switches for checks. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/debug.h"
#include "core/graph.h"

enum { DEEPEST = 64, TEXT_SIZE = 512 };

static _Thread_local struct {
    const char *names[DEEPEST];
    int depth; /* may exceed DEEPEST; deeper names are not shown */
    char text[TEXT_SIZE];
} path;

void weft__path_push(const char *name)
{
    if (path.depth < DEEPEST) {
        path.names[path.depth] = name;
    }
    path.depth++;
}

void weft__path_pop(void)
{
    path.depth--;
}

const char *weft__path_text(void)
{
    size_t length = 0;
    path.text[0] = '\0';
    for (int i = 0; i < path.depth && i < DEEPEST; i++) {
        size_t n = strlen(path.names[i]);
        if (n == 0) {
            continue;
        }
        if (length + n + 2 > TEXT_SIZE) {
            break;
        }
        if (length) {
            path.text[length++] = '.';
        }
        memcpy(path.text + length, path.names[i], n + 1);
        length += n;
    }
    return path.text;
}

static bool switched_on(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] && strcmp(value, "0") != 0;
}

static atomic_int nan_switch, trap_switch, debug_switch; /* 0: not read yet, 1: off, 2: on */

static bool read_switch(atomic_int *cache, const char *name)
{
    int value = atomic_load_explicit(cache, memory_order_relaxed);
    if (value == 0) {
        value = switched_on(name) ? 2 : 1;
        atomic_store_explicit(cache, value, memory_order_relaxed);
    }
    return value == 2;
}

bool weft__check_nan(void)
{
    return read_switch(&nan_switch, "WEFT_CHECK_NAN");
}

bool weft__trap_errors(void)
{
    return read_switch(&trap_switch, "WEFT_TRAP");
}

bool weft__debug(void)
{
    return read_switch(&debug_switch, "WEFT_DEBUG");
}

/* Paths seen while checks are on. They are few and never freed, and stay reachable for leak
 * checkers. */
typedef struct remembered {
    struct remembered *next;
    char text[];
} remembered;

static remembered *all_paths;
static pthread_mutex_t paths_lock = PTHREAD_MUTEX_INITIALIZER;

const char *weft__path_remember(void)
{
    if (!weft__check_nan()) {
        return NULL;
    }
    const char *text = weft__path_text();
    pthread_mutex_lock(&paths_lock);
    remembered *r = all_paths;
    while (r && strcmp(r->text, text) != 0) {
        r = r->next;
    }
    if (!r) {
        size_t size = strlen(text) + 1;
        r = weft_malloc(sizeof *r + size);
        if (r) {
            memcpy(r->text, text, size);
            r->next = all_paths;
            all_paths = r;
        }
    }
    pthread_mutex_unlock(&paths_lock);
    return r ? r->text : NULL;
}
