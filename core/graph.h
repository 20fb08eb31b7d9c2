/* core/graph.h -- the graph: arrays, which are outputs of nodes, and what the core's files share
 * about them. */
#ifndef CORE_GRAPH_H
#define CORE_GRAPH_H

#include <stdatomic.h>

#include "core/buffer.h"
#include "weft/op.h"

typedef struct weft__scope weft__scope;
typedef struct weft__entry weft__entry;   /* core/eval/plan.h */
typedef struct weft__origin weft__origin; /* core/debug.h */

/* Where the elements of one output lie. */
typedef struct weft__view {
    weft__buffer *buffer;
    int64_t offset;                 /* bytes from the buffer's start to element 0 */
    int64_t strides[WEFT_MAX_DIMS]; /* in elements */
} weft__view;

typedef enum weft__state {
    WEFT__LAZY,
    WEFT__EVALUATED, /* it has a view; op is NULL unless a gradient keeps the graph */
    WEFT__SPENT,
    WEFT__FAILED
} weft__state;

/* An array is an output of a node, and an edge of the graph is a pointer to one. The outputs of a
 * node lie in memory one after another; the first one stands for the node. Each has its own counts,
 * state, spec, view and owner, and a copy of what the node has: op, inputs, params, device.
 *
 * Three counts. refs: pointers to the array. uses: nodes not yet scheduled that have it as input.
 * holds: slots, keeps and pins, which keep its elements. An evaluated array with neither uses nor
 * holds that no scope keeps readable is spent as soon as its last user is scheduled. Refs and uses
 * are one number, since an edge of the graph is one of each. The node is in memory while any of its
 * outputs has references; an output without them (nobody picked it, or all are gone) loses its
 * elements when the node is evaluated, and may be picked again before.
 *
 * Threads: the counts, the state, `leaf`, `readable` and `scope` may be read by any thread; a state
 * other than LAZY is written after all that it announces. The graph of a node (op, inputs) is its
 * builder's until the node is evaluated, and then gone. */
struct weft_array {
    atomic_uint_fast64_t counts; /* refs, and uses times WEFT__USE */
    atomic_int holds;
    _Atomic(weft__state) state;
    int n_inputs, n_outputs;      /* of the node */
    _Atomic(weft__scope *) scope; /* the scope that owns one reference, or NULL */
    const weft_op *op;            /* NULL for leaves and after detaching */
    weft_array **inputs;
    void *params;
    weft_device *device; /* NULL in error arrays */
    weft_array *first;   /* the first output of the node */

    /* Its entry in the plan being made (core/eval/plan.c), under the evaluation lock. */
    uint64_t plan;
    weft__entry *plan_entry;

    uint64_t seq;         /* the node's order of creation: inputs always come first */
    const char *path;     /* module path at creation when checks are on, else NULL */
    char *error;          /* of an error array */
    weft__origin *origin; /* of a first output, WEFT_DEBUG: where it was made, else NULL */
    weft_status status;   /* of an error array */
    int grains;           /* of a first output: how large the node is (core/node.c) */
    atomic_int alive;     /* of the first of several outputs: how many have references */
    atomic_bool leaf;     /* made from data: readable in a lean scope too */
    atomic_bool readable; /* not spent while a scope owns it */
    bool pinned;          /* its scope holds it: named in weft_eval; of the scope's thread */
    bool picked;          /* of several outputs: somebody asked for this one */
    bool released;        /* WEFT_DEBUG: freed, were it not for this error (core/debug.c) */
    bool recompute;       /* lazy, and was computed as a part of another node: if it is needed again
                           * it is computed by itself and stored. Under the evaluation lock. */

    weft_spec spec;
    weft__view view; /* view.buffer is NULL before evaluation and after spending */
};

static inline weft_array *weft__output(const weft_array *a, int output)
{
    return a->first + output;
}

/* Which output of its node the array is. */
static inline int weft__output_index(const weft_array *a)
{
    return (int)(a - a->first);
}

#define WEFT__REF ((uint_fast64_t)1)
#define WEFT__USE ((uint_fast64_t)1 << 32)
#define WEFT__EDGE (WEFT__REF + WEFT__USE)

static inline int64_t weft__refs(const weft_array *a)
{
    return (int64_t)(atomic_load(&a->counts) % WEFT__USE);
}

static inline int64_t weft__uses(const weft_array *a)
{
    return (int64_t)(atomic_load(&a->counts) / WEFT__USE);
}

/* What messages say of a spent array. */
#define WEFT__CONSUMED                                                                             \
    "was consumed by an earlier evaluation (in a lean scope, or after it left its slot): keep it " \
    "(weft_keep), or name it in weft_eval"

/* Whether an open scope keeps the elements readable. */
static inline bool weft__readable(const weft_array *a)
{
    return atomic_load_explicit(&a->readable, memory_order_relaxed) &&
           atomic_load_explicit(&a->scope, memory_order_relaxed);
}

/* ---- apply.c -------------------------------------------------------------------------------- */

/* An evaluated node over a buffer; takes over the caller's reference to the buffer. A leaf is made
 * from data; a value was computed. */
weft_array *weft__value_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset);
weft_array *weft__leaf_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset);
/* The preallocated error array for "no memory". */
weft_array *weft__no_memory(void);
/* Makes an error array with the module path in front; WEFT_INVALID, or the given status. */
weft_array *weft__failed(const char *format, ...) WEFT_PRINTF(1, 2);
weft_array *weft__failed_as(weft_status status, const char *format, ...) WEFT_PRINTF(2, 3);
/* weft_apply of an op that hands its inputs on without touching them, or of a copy of a node: the
 * node is of `device`, wherever its inputs are. */
weft_array *weft__apply_on(weft_device *device, const weft_op *op, weft_array *const *inputs, int n,
                           const void *params);
/* expand.c: fills outs[] with the node's expansion, made on its device. Fails when a result failed
 * or is not as the node's specs say. */
weft_status weft__expand(weft_array *node, weft_array **outs);
/* Nodes made from now on by any thread have this sequence number or a larger one. */
uint64_t weft__next_seq(void);

extern const weft_op weft__op_transfer; /* weft_to */
typedef struct weft__transfer_params {
    void *device; /* weft_device: where to */
} weft__transfer_params;

/* op_tapes.c: whether the elementwise op has a meaning for the dtype. */
bool weft__has_formula(const weft_op *op, weft_dtype dtype);

/* ---- node.c: memory and references ---------------------------------------------------------- */

/* Memory for a node, all zero but for `grains`. NULL: none. */
weft_array *weft__node_alloc(size_t size);
/* Gives back a node that nothing refers to, and that refers to nothing. */
void weft__node_free(weft_array *a);
void weft__ref(weft_array *a);
/* The same of an array that another thread may let go of; false: it is gone. */
bool weft__ref_living(weft_array *a);
void weft__unref(weft_array *a); /* frees iteratively what becomes unreachable */
void weft__hold(weft_array *a);  /* refs and holds */
void weft__unhold(weft_array *a);
void weft__connect(weft_array *input); /* an edge to it more: refs and uses */
void weft__disconnect(weft_array *input);
/* Drops the inputs of an evaluated node, edges no longer needed; `a` is its first output. */
void weft__detach(weft_array *a);
/* The same, but what becomes unreachable is kept until weft__bury, in a chain that begins NULL. */
void weft__detach_later(weft_array *a, weft_array **dead);
void weft__bury(weft_array *dead);

/* ---- scope.c -------------------------------------------------------------------------------- */

/* Makes the innermost scope own a new node, the reference being its first; false: no memory. */
bool weft__scope_own(weft_array *a);
/* Makes the innermost scope own `a` (taking one reference), unless a scope does; false: no
 * memory. */
bool weft__scope_adopt(weft_array *a);
/* Whether the scope, perhaps of another thread and gone, is one of this thread's that is open. */
bool weft__scope_is_open(const weft__scope *s);
/* Holds `a` until its scope closes, if that is a scope of the calling thread: it is not consumed in
 * a lean scope either, nor in one that it moves to. */
void weft__scope_pin(weft_array *a);
/* An evaluation in the innermost scope has ended. */
void weft__scope_evaluated(void);
/* Takes `a` out of the scope of the calling thread that owns it, if one does: it lives as long as
 * somebody holds it or has it as input. */
void weft__scope_disown(weft_array *a);

/* ---- path.c: the module path in front of messages ------------------------------------------- */

void weft__path_push(const char *name); /* "" adds nothing; `name` must outlive the pop */
void weft__path_pop(void);
/* The joined path, or "" ; valid until the next call on the thread. */
const char *weft__path_text(void);
/* A copy that lives as long as the process, or NULL when checks are off. */
const char *weft__path_remember(void);

/* WEFT_CHECK_NAN=1 and WEFT_TRAP=1. */
bool weft__check_nan(void);
bool weft__trap_errors(void);

/* ---- while a gradient's function runs ------------------------------------------------------- */

/* Nesting depth of weft_vjp and friends on this thread: evaluation then keeps the graph. */
extern _Thread_local int weft__differentiating;

/* ---- while a function is called for its graph ----------------------------------------------- */

/* Nesting depth on this thread of functions that are called for the graph they build and not for
 * values: those of jvp, vmap and compile. */
extern _Thread_local int weft__recording;

/* Whoever traces a function hears of slots that it sets. */
typedef struct weft__watch weft__watch;
struct weft__watch {
    /* Whether `slot` may be set; false: weft_fail was called with the reason. */
    bool (*may_set)(weft__watch *watch, weft_array **slot);
    /* What the default random generator gives out: a key that is new in each call of the trace. */
    weft_array *(*next_key)(weft__watch *watch);
    /* A slot that should have been set was not, with this status and the thread's message. */
    void (*refused)(weft__watch *watch, weft_status status);
};
/* Tells whoever watches of a status that is not WEFT_OK; returns it. */
weft_status weft__tell_watch(weft_status status);
extern _Thread_local weft__watch *weft__watching; /* NULL: nobody */

/* ---- pointer map (map.c): arrays to integers, insertion order kept -------------------------- */

typedef struct weft__map {
    weft_array **keys;
    int64_t count, capacity;
    int32_t *table;     /* open addressing over keys' indices + 1 */
    int64_t table_size; /* a power of two */
} weft__map;

/* The index of `key`, adding it when `added` is not NULL (set to whether it was new). -1: absent
 * (or, when adding, no memory). */
int64_t weft__map_index(weft__map *map, weft_array *key, bool *added);
void weft__map_free(weft__map *map);

/* Into order of creation. */
void weft__sort_by_seq(weft_array **nodes, int64_t n);

/* Collects the nodes with an op that are reachable from `roots` over inputs, as their first
 * outputs, without going through arrays for which `stop` (may be NULL) is true; sorted by seq.
 * False: no memory. */
typedef bool weft__stop(const void *context, weft_array *a);
bool weft__collect(weft_array *const *roots, int n, weft__stop *stop, const void *context,
                   weft__map *out);

/* ---- array.c -------------------------------------------------------------------------------- */

/* Evaluates `a`, an encoded array, and gives its blocks: where they lie, NULL when the host cannot
 * read them there, or copied. */
const void *weft__blocks(weft_array *a);
weft_status weft__read_blocks(weft_array *a, void *out);

#endif
