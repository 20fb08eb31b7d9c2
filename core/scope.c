/* core/scope.c -- scopes: each thread's stack of lists of temporaries. */
#include <pthread.h>
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "weft/transforms.h"

struct weft__scope {
    const char *name;
    weft__scope *parent;
    int depth; /* 0: the thread's root */
    weft_array **items;
    int64_t count, capacity;
};

/* Scopes by depth: opening one of these needs no memory, and a closed one leaves its list, if it is
 * short, for the next. Deeper ones are allocated. */
enum { SHALLOW = 32, SHORT_LIST = 256 };
static _Thread_local weft__scope shallow[SHALLOW];

static _Thread_local weft__scope *innermost;
static _Thread_local int depth;

_Thread_local int weft__recording;
_Thread_local int weft__differentiating;
_Thread_local weft__watch *weft__watching;

bool weft_is_differentiating(void)
{
    return weft__differentiating > 0;
}

/* The root scope of a thread is released when the thread ends. */
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static weft__scope *owner(const weft_array *a)
{
    return atomic_load_explicit(&a->scope, memory_order_relaxed);
}

static void free_scope(weft__scope *s)
{
    for (int64_t i = s->count - 1; i >= 0; i--) {
        weft_array *a = s->items[i];
        if (owner(a) != s) {
            continue; /* moved to another scope */
        }
        atomic_store_explicit(&a->scope, NULL, memory_order_relaxed);
        if (a->pinned) {
            a->pinned = false;
            weft__unhold(a);
        }
        weft__unref(a);
    }
    s->count = 0;
    if (s->depth >= SHALLOW || s->capacity > SHORT_LIST) {
        weft_free(s->items);
        s->items = NULL;
        s->capacity = 0;
    }
    if (s->depth >= SHALLOW) {
        weft_free(s);
    }
}

static void end_of_thread(void *unused)
{
    (void)unused;
    while (innermost) {
        weft__scope *s = innermost;
        innermost = s->parent;
        free_scope(s);
    }
    for (int i = 0; i < SHALLOW; i++) {
        weft_free(shallow[i].items);
        shallow[i] = (weft__scope){0};
    }
}

static void make_key(void)
{
    pthread_key_create(&thread_end, end_of_thread);
}

static weft__scope *push_scope(const char *name, int at_depth)
{
    weft__scope *s = at_depth < SHALLOW ? &shallow[at_depth] : weft_calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->name = name;
    s->parent = innermost;
    s->depth = at_depth;
    innermost = s;
    return s;
}

/* The innermost scope, with the thread's root made when it is the first. */
static weft__scope *current(void)
{
    if (!innermost && push_scope("thread", 0)) {
        pthread_once(&thread_end_once, make_key);
        pthread_setspecific(thread_end, innermost);
    }
    return innermost;
}

/* Room for `n` more items. */
static bool reserve(weft__scope *s, int64_t n)
{
    if (s->count + n <= s->capacity) {
        return true;
    }
    int64_t capacity = s->capacity ? 2 * s->capacity : 32;
    while (capacity < s->count + n) {
        capacity *= 2;
    }
    weft_array **items = weft_realloc(s->items, (size_t)capacity * sizeof *items);
    if (!items) {
        return false;
    }
    s->items = items;
    s->capacity = capacity;
    return true;
}

bool weft__scope_own(weft_array *a)
{
    weft__scope *s = current();
    if (!s || !reserve(s, 1)) {
        return false;
    }
    s->items[s->count++] = a;
    atomic_init(&a->scope, s);
    atomic_init(&a->counts, WEFT__REF);
    return true;
}

bool weft__scope_adopt(weft_array *a)
{
    weft__scope *s = current();
    if (!s || !reserve(s, 1)) {
        return false;
    }
    weft__scope *none = NULL;
    if (atomic_compare_exchange_strong(&a->scope, &none, s)) {
        s->items[s->count++] = a;
        weft__ref(a);
    }
    return true;
}

/* Another thread's scope may be gone at any moment: it is compared, never looked into. */
bool weft__scope_is_open(const weft__scope *s)
{
    const weft__scope *mine = innermost;
    while (mine && mine != s) {
        mine = mine->parent;
    }
    return mine != NULL;
}

void weft__scope_pin(weft_array *a)
{
    const weft__scope *s = owner(a);
    if (s && weft__scope_is_open(s) && !a->pinned) {
        a->pinned = true;
        weft__hold(a);
    }
}

void weft_scope_open_named(const char *name)
{
    depth++;
    /* Without memory for a scope its temporaries join the enclosing one, and the matching close,
     * which finds no scope of its depth, releases nothing. */
    if (current()) {
        push_scope(name, depth);
    }
}

int weft_scope_depth(void)
{
    return depth;
}

void weft_scope_close_n(weft_array **ys, int n)
{
    weft__scope *s = innermost;
    if (depth == 0) {
        weft_log_message(WEFT_LOG_WARNING, "scope_close: no scope is open");
        return;
    }
    if (depth-- != (s ? s->depth : 0)) {
        return;
    }
    innermost = s->parent;
    for (int i = 0; i < n; i++) {
        weft_array *y = ys[i];
        if (!y || owner(y) != s) {
            continue;
        }
        if (!reserve(innermost, 1)) {
            ys[i] = weft__no_memory();
            continue;
        }
        innermost->items[innermost->count++] = y;
        atomic_store_explicit(&y->scope, innermost, memory_order_relaxed);
    }
    free_scope(s);
}

weft_array *weft_scope_close(weft_array *y)
{
    weft_scope_close_n(&y, 1);
    return y;
}

weft_array *weft_keep(weft_array *a)
{
    if (a) {
        weft__hold(a);
    }
    return a;
}

void weft_drop(weft_array *a)
{
    if (a) {
        weft__unhold(a);
    }
}

weft_status weft__tell_watch(weft_status status)
{
    if (status != WEFT_OK && weft__watching) {
        weft__watching->refused(weft__watching, status);
    }
    return status;
}

static weft_status set(weft_array **slot, weft_array *a)
{
    if (a && a->state == WEFT__FAILED) {
        return weft__report(a);
    }
    if (a && a->state == WEFT__SPENT) {
        return weft_fail(WEFT_INVALID, "set: the array was used up by an earlier evaluation: keep "
                                       "it (weft_keep, weft_set), or name it in weft_eval");
    }
    weft_array *old = *slot;
    if (a == old) {
        return WEFT_OK;
    }
    if (weft__watching && !weft__watching->may_set(weft__watching, slot)) {
        return weft_error_status();
    }
    if (old && !weft__scope_adopt(old)) {
        return weft__out_of_memory("set", NULL);
    }
    if (a) {
        weft__hold(a);
    }
    *slot = a;
    if (old) { /* from here on a temporary like any other */
        atomic_store_explicit(&old->leaf, false, memory_order_relaxed);
        weft__unhold(old);
    }
    return WEFT_OK;
}

weft_status weft_set(weft_array **slot, weft_array *a)
{
    return weft__tell_watch(set(slot, a));
}
