/* core/debug.c -- WEFT_DEBUG=1: reports uses of released arrays and scopes left open, with source
 * locations. Also the warning about a scope that grows with every evaluation. */
#include "core/debug.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/graph.h"
#include "core/shape.h"

#if defined(__GLIBC__)
#include <execinfo.h>
#endif

enum { RETIRED = 1 << 16, FRAMES = 12, STACK_TEXT = 1024, ELSEWHERE = 8 };

/* ---- call stacks ---------------------------------------------------------------------------- */

/* The callers of the library on one line, innermost first: "f+0x1c (program) < main+0x20 (...)".
 * Skips the first `skip` frames, which are in this file. */
static const char *stack_text(char *text, size_t size, int skip)
{
    text[0] = '\0';
#if defined(__GLIBC__)
    void *frames[FRAMES];
    const int n = backtrace(frames, FRAMES);
    char **names = backtrace_symbols(frames, n);
    size_t length = 0;
    for (int i = skip; names && i < n && length < size; i++) {
        const char *slash = strrchr(names[i], '/');
        const int written = snprintf(text + length, size - length, "%s%s", length ? " < " : "",
                                     slash ? slash + 1 : names[i]);
        length += written > 0 ? (size_t)written : 0;
    }
    free(names);
#else
    (void)skip;
    snprintf(text, size, "no call stack with this C library");
#endif
    return text;
}

static const char *location_text(const weft__source_location *location, char *text, size_t size)
{
    if (location->file) {
        snprintf(text, size, "%s (%s:%d)", location->function, location->file, location->line);
    } else {
        snprintf(text, size, "%s", location->function ? location->function : "?");
    }
    return text;
}

/* ---- arrays --------------------------------------------------------------------------------- */

static _Thread_local struct {
    const char *what; /* NULL: unknown */
    weft__source_location location;
    char callers[STACK_TEXT];
} cause;

void weft__debug_made(weft_array *a, const weft__source_location *location)
{
    a->origin = weft_calloc(1, sizeof *a->origin);
    if (a->origin) {
        a->origin->location = *location;
    }
}

void weft__debug_cause(const char *what, const weft__source_location *location)
{
    cause.what = what;
    cause.location = location ? *location : (weft__source_location){0};
    cause.callers[0] = '\0';
    if (!location) {
        stack_text(cause.callers, sizeof cause.callers, 2);
    }
}

static char *describe(const weft_array *a, const weft__origin *origin)
{
    char shape[WEFT_SHAPE_TEXT], made[256], released[256];
    const weft_spec *spec = &a->spec;
    weft__shape_text(&spec->shape, shape);
    location_text(&origin->location, made, sizeof made);
    const char *op = a->op ? a->op->name : origin->op ? origin->op : "data";
    const bool by_scope = cause.what && cause.location.function;
    return weft_format("use of a released array (%s, %s %s, made in the scope of %s), which was "
                       "released %s%s%s%s",
                       op, weft_dtype_name(spec->dtype), shape, made,
                       by_scope ? "when the scope of " : "by ",
                       by_scope     ? location_text(&cause.location, released, sizeof released)
                       : cause.what ? cause.what
                                    : "its last owner",
                       by_scope           ? " closed"
                       : cause.callers[0] ? ", called from "
                                          : "",
                       by_scope ? "" : cause.callers);
}

/* The retired nodes, in a ring. */
static struct {
    pthread_mutex_t lock;
    weft_array *arrays[RETIRED];
    int64_t next;
} retired = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void free_retired(weft_array *node)
{
    for (int o = 0; o < node->n_inputs; o++) {
        weft_free(node[o].error);
    }
    weft_free(node->origin);
    weft__node_free(node);
}

/* Makes the output a node of its own that has failed. The first one keeps the number of outputs in
 * n_inputs. */
static void replace_by_error(weft_array *a, const weft__origin *origin)
{
    a->error = describe(a, origin);
    a->status = WEFT_INVALID;
    a->released = true;
    a->op = NULL;
    a->params = NULL;
    a->n_inputs = 0;
    a->n_outputs = 1;
    a->first = a;
    a->spec = (weft_spec){.dtype = WEFT_FLOAT32};
    atomic_store(&a->counts, WEFT__REF << 24); /* so many references that it is never freed */
    atomic_store(&a->holds, 0);
    atomic_store(&a->state, WEFT__FAILED);
}

void weft__debug_retire(weft_array *node)
{
    const int n = node->n_outputs;
    for (int o = 0; o < n; o++) {
        replace_by_error(&node[o], node->origin);
    }
    node->n_inputs = n;
    pthread_mutex_lock(&retired.lock);
    weft_array **slot = &retired.arrays[retired.next++ % RETIRED];
    weft_array *oldest = *slot;
    *slot = node;
    pthread_mutex_unlock(&retired.lock);
    if (oldest) {
        free_retired(oldest);
    }
}

/* The latest retired nodes are kept until the process ends. */
__attribute__((destructor)) static void free_all_retired(void)
{
    for (int64_t i = 0; i < RETIRED && i < retired.next; i++) {
        free_retired(retired.arrays[i]);
        retired.arrays[i] = NULL;
    }
    retired.next = 0;
}

bool weft__debug_released(const weft_array *a, const char *call)
{
    char callers[STACK_TEXT];
    if (!a || !a->released) {
        return false;
    }
    weft_log_message(WEFT_LOG_WARNING, "WEFT_DEBUG: %s: %s; called from %s", call, weft_error(a),
                     stack_text(callers, sizeof callers, 2));
    return true;
}

void weft__debug_not_held(const weft_array *a)
{
    char callers[STACK_TEXT], shape[WEFT_SHAPE_TEXT], made[256];
    const weft__source_location *location = a->first->origin ? &a->first->origin->location : NULL;
    weft_log_message(WEFT_LOG_WARNING,
                     "WEFT_DEBUG: drop: nothing holds the array (%s %s, made in the scope of %s): "
                     "it was dropped twice, or never kept; called from %s",
                     weft_dtype_name(weft_dtype_of(a)), weft__shape_text(&a->spec.shape, shape),
                     location ? location_text(location, made, sizeof made) : "?",
                     stack_text(callers, sizeof callers, 2));
}

/* ---- scopes --------------------------------------------------------------------------------- */

/* The last scope that was closed by another function than the one that opened it. Library functions
 * do that on purpose; when a scope stays open, this explains it. */
static _Thread_local struct {
    weft__source_location location;
    const char *function;
} elsewhere[ELSEWHERE];
static _Thread_local int n_elsewhere;

void weft__debug_closed_elsewhere(const weft__source_location *location, const char *function)
{
    for (int i = 0; i < n_elsewhere && i < ELSEWHERE; i++) {
        if (elsewhere[i].location.line == location->line && elsewhere[i].function == function) {
            return;
        }
    }
    elsewhere[n_elsewhere % ELSEWHERE].location = *location;
    elsewhere[n_elsewhere++ % ELSEWHERE].function = function;
}

void weft__debug_left_open(const weft__source_location *location, int64_t arrays)
{
    char text[256];
    weft_log_message(WEFT_LOG_WARNING,
                     "WEFT_DEBUG: the scope opened in %s is still open at the end of its thread; "
                     "arrays in it: %lld",
                     location_text(location, text, sizeof text), (long long)arrays);
    for (int i = 0; i < n_elsewhere && i < ELSEWHERE; i++) {
        weft_log_message(WEFT_LOG_WARNING,
                         "WEFT_DEBUG: the scope opened in %s was closed in %s: did the first "
                         "return without closing its scope?",
                         location_text(&elsewhere[i].location, text, sizeof text),
                         elsewhere[i].function);
    }
    n_elsewhere = 0;
}

/* ---- growth --------------------------------------------------------------------------------- */

enum { WINDOW = 64, MANY_WINDOWS = 16, LARGE_WINDOWS = 2 };
static const int64_t LARGE = (int64_t)1 << 30;

/* A window is full when every evaluation in it left at least one array behind, on average. A number
 * of such windows in a row indicates a loop; fewer suffice after a gigabyte. */
void weft__growth_note(weft__growth *g, int64_t arrays, const weft__source_location *location)
{
    static atomic_bool warned;
    char text[256];
    if (g->evaluations++ % WINDOW != 0) {
        return;
    }
    const int64_t active = weft_memory_active();
    const bool grew = g->evaluations > 1 && arrays - g->arrays >= WINDOW;
    g->windows = grew ? g->windows + 1 : 0;
    g->bytes = grew ? g->bytes + active - g->active : 0;
    g->arrays = arrays;
    g->active = active;
    if (g->windows < MANY_WINDOWS && !(g->windows >= LARGE_WINDOWS && g->bytes >= LARGE)) {
        return;
    }
    if (!atomic_exchange(&warned, true)) {
        weft_log_message(WEFT_LOG_WARNING,
                         "%lld evaluations have left %lld arrays in the scope of %s, which stay in "
                         "memory until it closes: open a scope in the loop (weft_scope_open, "
                         "weft_scope_close)",
                         (long long)g->evaluations, (long long)arrays,
                         location_text(location, text, sizeof text));
    }
}
