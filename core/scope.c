/* core/scope.c -- scopes: each thread has a stack of lists of temporaries. */
#include <pthread.h>
#include <string.h>

#include "core/debug.h"
#include "core/failure.h"
#include "core/graph.h"
#include "weft/transforms.h"

struct weft__scope {
    weft__source_location location; /* where it was opened */
    weft__scope *parent;
    int depth; /* 0: the thread's root */
    bool lean; /* arrays are consumed by their last use */
    weft__growth growth;
    weft_array **items;
    int64_t count, capacity;
};

/* Scopes by depth. Opening one of these needs no memory, and a closed scope leaves its list, if
 * short, for reuse. Deeper scopes are allocated. */
enum { SHALLOW = 32, SHORT_LIST = 256 };
static _Thread_local weft__scope shallow[SHALLOW];

static _Thread_local weft__scope *innermost;
static _Thread_local int depth;

_Thread_local weft__recording *weft__current_recording;
_Thread_local int weft__differentiating;
_Thread_local weft__observer *weft__current_observer;

void weft__begin_recording(weft__recording *r)
{
    weft__recording *outer = weft__current_recording;
    *r = (weft__recording){.outer = outer, .lengths = outer ? outer->lengths : NULL};
    weft__current_recording = r;
}

weft_status weft__end_recording(weft__recording *r, const char *what)
{
    weft__current_recording = r->outer;
    if (!r->read[0]) {
        return WEFT_OK;
    }
    if (r->outer) {
        memcpy(r->outer->read, r->read, sizeof r->read);
    }
    return weft_fail(WEFT_INVALID, "%s: %s", what, r->read);
}

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
    if (weft__debug()) {
        weft__debug_cause("scope", &s->location);
    }
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

static void report_open(const weft__scope *s)
{
    if (s->depth > 0 && weft__debug()) {
        weft__debug_left_open(&s->location, s->count);
    }
}

/* For the thread that calls exit, whose thread-specific data is not destroyed. */
__attribute__((destructor)) static void report_open_at_exit(void)
{
    for (const weft__scope *s = innermost; s; s = s->parent) {
        report_open(s);
    }
}

static void end_of_thread(void *unused)
{
    (void)unused;
    while (innermost) {
        weft__scope *s = innermost;
        report_open(s);
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

/* Sets whether the array stays readable until its scope closes. */
static void set_readable(weft_array *a, const weft__scope *s)
{
    const bool readable = !s->lean || atomic_load_explicit(&a->leaf, memory_order_relaxed);
    atomic_store_explicit(&a->readable, readable, memory_order_relaxed);
}

static void set_consumable(weft_array *a)
{
    atomic_store_explicit(&a->leaf, false, memory_order_relaxed);
    atomic_store_explicit(&a->readable, false, memory_order_relaxed);
}

static weft__scope *push_scope(weft__source_location location, int at_depth, bool lean)
{
    weft__scope *s = at_depth < SHALLOW ? &shallow[at_depth] : weft_calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->location = location;
    s->growth = (weft__growth){0};
    s->parent = innermost;
    s->depth = at_depth;
    s->lean = lean;
    innermost = s;
    return s;
}

/* The innermost scope. Makes the thread's root scope on first use. */
static weft__scope *current(void)
{
    if (!innermost && push_scope((weft__source_location){.function = "the thread"}, 0, false)) {
        pthread_once(&thread_end_once, make_key);
        pthread_setspecific(thread_end, innermost);
    }
    return innermost;
}

/* Makes room for `n` more items. */
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
    atomic_init(&a->readable, !s->lean);
    atomic_init(&a->counts, WEFT__REF);
    if (weft__debug()) {
        weft__debug_made(a, &s->location);
    }
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
        set_readable(a, s);
    }
    return true;
}

/* Another thread's scope may be freed at any moment, so only the pointer is compared. */
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

void weft__scope_disown(weft_array *a)
{
    weft__scope *s = owner(a);
    if (!s || !weft__scope_is_open(s)) {
        return;
    }
    int64_t i = s->count - 1; /* searched from the end, since it was added recently */
    while (i > 0 && s->items[i] != a) {
        i--;
    }
    s->items[i] = s->items[--s->count];
    atomic_store_explicit(&a->scope, NULL, memory_order_relaxed);
    if (a->pinned) {
        a->pinned = false;
        weft__unhold(a);
    }
    weft__unref(a);
}

void weft_scope_open_at(const char *function, const char *file, int line, bool lean)
{
    depth++;
    /* If a scope cannot be allocated, its temporaries join the enclosing one, and the matching
     * close, which finds no scope of its depth, releases nothing. */
    if (current()) {
        push_scope((weft__source_location){function, file, line}, depth, lean);
    }
}

void weft_scope_open_named(const char *name)
{
    weft_scope_open_at(name, NULL, 0, false);
}

int weft_scope_depth(void)
{
    return depth;
}

int64_t weft_scope_count(void)
{
    const weft__scope *s = innermost;
    int64_t n = 0;
    for (int64_t i = 0; s && i < s->count; i++) {
        n += owner(s->items[i]) == s;
    }
    return n;
}

/* Called after an evaluation in the innermost scope, or in an inner scope that has closed. */
static void note_growth(weft__scope *s)
{
    weft__growth_note(&s->growth, s->count, &s->location);
}

void weft__scope_evaluated(void)
{
    if (innermost) {
        note_growth(innermost);
    }
}

static void close_scope(weft_array **ys, int n, const char *function)
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
    if (weft__debug() && function && s->location.file &&
        strcmp(function, s->location.function) != 0) {
        weft__debug_closed_elsewhere(&s->location, function);
    }
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
        set_readable(y, innermost);
    }
    const bool evaluated = s->growth.evaluations > 0;
    free_scope(s);
    if (evaluated) {
        note_growth(innermost);
    }
}

void weft_scope_close_n_at(weft_array **ys, int n, const char *function)
{
    close_scope(ys, n, function);
}

weft_array *weft_scope_close_at(weft_array *y, const char *function)
{
    close_scope(&y, 1, function);
    return y;
}

void(weft_scope_close_n)(weft_array **ys, int n)
{
    close_scope(ys, n, NULL);
}

weft_array *(weft_scope_close)(weft_array *y)
{
    close_scope(&y, 1, NULL);
    return y;
}

weft_array *weft_keep(weft_array *a)
{
    if (a && !weft__debug_released(a, "keep")) {
        weft__hold(a);
    }
    return a;
}

void weft_drop(weft_array *a)
{
    if (!a || weft__debug_released(a, "drop")) {
        return;
    }
    if (weft__debug()) {
        if (atomic_load(&a->holds) - a->pinned <= 0) {
            weft__debug_not_held(a);
            return;
        }
        weft__debug_cause("weft_drop", NULL);
    }
    weft__unhold(a);
}

weft_status weft__report_to_observer(weft_status status)
{
    if (status != WEFT_OK && weft__current_observer) {
        weft__current_observer->refused(weft__current_observer, status);
    }
    return status;
}

static weft_status set(weft_array **slot, weft_array *a)
{
    if (a && a->state == WEFT__FAILED) {
        return weft__report(a);
    }
    if (a && a->state == WEFT__SPENT) {
        return weft_fail(WEFT_INVALID, "set: the array " WEFT__CONSUMED);
    }
    weft_array *old = *slot;
    if (a == old) {
        return WEFT_OK;
    }
    if (weft__current_observer && !weft__current_observer->may_set(weft__current_observer, slot)) {
        return weft_error_status();
    }
    const bool of_slot = old && !owner(old); /* of no scope */
    if (old && !weft__scope_adopt(old)) {
        return weft__out_of_memory("set", NULL);
    }
    if (a) {
        weft__hold(a);
    }
    *slot = a;
    if (old) {
        if (weft__debug()) {
            weft__debug_cause("weft_set", NULL);
        }
        const weft__scope *s = owner(old);
        if (of_slot || (s && weft__scope_is_open(s) && s->lean)) {
            set_consumable(old);
        }
        weft__unhold(old);
    }
    return WEFT_OK;
}

weft_status weft_set(weft_array **slot, weft_array *a)
{
    return weft__report_to_observer(set(slot, a));
}
