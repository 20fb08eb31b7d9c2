/* core/graph.h -- the graph: arrays (outputs of nodes) and the functions on them that the files of
 * core/ share. */
#ifndef CORE_GRAPH_H
#define CORE_GRAPH_H

#include <stdatomic.h>

#include "core/buffer.h"
#include "weft/op.h"

typedef struct weft__scope weft__scope;
typedef struct weft__entry weft__entry;   /* core/eval/plan.h */
typedef struct weft__origin weft__origin; /* core/debug.h */

/* Where the elements of an output are stored. */
typedef struct weft__view {
    weft__buffer *buffer;
    int64_t offset;                 /* bytes from the buffer's start to element 0 */
    int64_t strides[WEFT_MAX_DIMS]; /* in elements */
} weft__view;

typedef enum weft__state {
    WEFT__LAZY,
    WEFT__EVALUATED, /* has a view; op is NULL unless a gradient keeps the graph */
    WEFT__SPENT,
    WEFT__FAILED
} weft__state;

/* An array is an output of a node; an edge of the graph is a pointer to an array. The outputs of a
 * node are contiguous in memory, and the first one represents the node. Each output has its own
 * counts, state, spec, view and scope, and a copy of the node's op, inputs, params and device.
 *
 * There are three counts. refs: pointers to the array. uses: unscheduled nodes that have it as an
 * input. holds: slots, keeps and pins, which keep its elements. An evaluated array without uses and
 * holds, and that no scope keeps readable, is spent (loses its elements) as soon as its last user
 * is scheduled. Refs and uses share one number, since an edge counts as one of each. A node stays
 * in memory while any of its outputs has references. An output without references loses its
 * elements when the node is evaluated; before that it can still be picked.
 *
 * Threads: any thread may read the counts, the state, `leaf`, `readable` and `scope`. A state other
 * than LAZY is written after everything that it implies. The node's op and inputs belong to the
 * thread that built it until the node is evaluated, which drops them. */
struct weft_array {
    atomic_uint_fast64_t counts; /* refs + uses * WEFT__USE */
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

    uint64_t seq;         /* creation number of the node; larger than those of its inputs */
    const char *path;     /* module path at creation if checks are on, else NULL */
    char *error;          /* of an error array */
    weft__origin *origin; /* first output only, with WEFT_DEBUG: where it was made, else NULL */
    weft_status status;   /* of an error array */
    int grains;           /* first output only: size class of the node's memory (core/node.c) */
    atomic_int alive;     /* first of several outputs: how many outputs have references */
    atomic_bool leaf;     /* made from data: stays readable in a lean scope too */
    atomic_bool readable; /* not spent while a scope owns it */
    bool pinned;          /* held by its scope because weft_eval named it; only the scope's thread
                           * uses this */
    bool picked;          /* one of several outputs: weft_pick returned it */
    bool released;        /* with WEFT_DEBUG: would be freed, but became an error array
                           * (core/debug.c) */
    bool recompute;       /* lazy, and was already computed as a part of another node: when it is
                           * needed again, it is computed by itself and stored. Under the evaluation
                           * lock. */

    weft_spec spec;
    weft__view view; /* view.buffer is NULL before evaluation and after the array is spent */
};

static inline weft_array *weft__output(const weft_array *a, int output)
{
    return a->first + output;
}

/* The index of this output in its node. */
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

/* Text of messages about spent arrays. */
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

/* An evaluated node over a buffer, whose reference it takes over. A leaf is made from data; a value
 * was computed. */
weft_array *weft__value_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset);
weft_array *weft__leaf_new(const weft_spec *spec, weft__buffer *buffer, int64_t offset);

/* The evaluated array on the CPU, the default device, in memory from which `device` copies fastest;
 * the array itself, if there is no such memory. */
weft_array *weft__pinned(weft_array *a, weft_device *device);
/* The preallocated error array for "out of memory". */
weft_array *weft__no_memory(void);
/* Makes an error array whose message begins with the module path. The status is WEFT_INVALID, or
 * the given one. */
weft_array *weft__failed(const char *format, ...) WEFT_PRINTF(1, 2);
weft_array *weft__failed_as(weft_status status, const char *format, ...) WEFT_PRINTF(2, 3);
/* weft_apply for ops that pass their inputs on unchanged, and for copies of nodes: the node is on
 * `device`, wherever its inputs are. */
weft_array *weft__apply_on(weft_device *device, const weft_op *op, weft_array *const *inputs, int n,
                           const void *params);
/* expand.c: fills outs[] with the node's expansion, made on the node's device. Fails when a result
 * has failed or does not match the node's specs. */
weft_status weft__expand(weft_array *node, weft_array **outs);
/* The sequence number of the next node; every node made from now on, by any thread, has this number
 * or a larger one. */
uint64_t weft__next_seq(void);

/* array.c: the dtype in which a rule should make the gradient of `a`: that of `a`, or of the input
 * of a conversion to a narrower dtype. So the gradient of a float32 parameter that is rounded for a
 * product is not rounded itself. */
weft_dtype weft__gradient_dtype(const weft_array *a);

extern const weft_op weft__op_transfer; /* weft_to */
typedef struct weft__transfer_params {
    void *device; /* weft_device: the destination */
} weft__transfer_params;

/* op_tapes.c: whether the elementwise op has a formula for the dtype. */
bool weft__has_formula(const weft_op *op, weft_dtype dtype);

/* ---- node.c: memory and references ---------------------------------------------------------- */

/* Memory for a node, zeroed except for `grains`. NULL: out of memory. */
weft_array *weft__node_alloc(size_t size);
/* Frees a node that has no references and no inputs. */
void weft__node_free(weft_array *a);
void weft__ref(weft_array *a);
/* Like weft__ref, for an array that another thread may be releasing. False: it is already gone. */
bool weft__ref_if_alive(weft_array *a);
void weft__unref(weft_array *a); /* frees unreachable nodes iteratively */
void weft__hold(weft_array *a);  /* adds a reference and a hold */
void weft__unhold(weft_array *a);
void weft__connect(weft_array *input); /* adds an edge to it: a reference and a use */
void weft__disconnect(weft_array *input);
/* Drops the inputs of an evaluated node; `a` is its first output. */
void weft__detach(weft_array *a);
/* The same, but nodes that become unreachable are linked into *dead (initially NULL) until
 * weft__free_detached. */
void weft__detach_later(weft_array *a, weft_array **dead);
void weft__free_detached(weft_array *dead);

/* ---- scope.c -------------------------------------------------------------------------------- */

/* Makes the innermost scope own a new node, taking over its first reference. False: out of memory.
 */
bool weft__scope_own(weft_array *a);
/* Makes the innermost scope own `a`, with a reference of its own, unless a scope already owns it.
 * False: out of memory. */
bool weft__scope_adopt(weft_array *a);
/* Whether the scope is an open one of this thread. It may be another thread's, and already freed.
 */
bool weft__scope_is_open(const weft__scope *s);
/* Holds `a` until its scope closes, if that is a scope of the calling thread. It is then not
 * consumed in a lean scope, nor in one that it moves to. */
void weft__scope_pin(weft_array *a);
/* Called when an evaluation in the innermost scope has ended. */
void weft__scope_evaluated(void);
/* Removes `a` from the scope of the calling thread that owns it, if any. It then lives while it has
 * other references. */
void weft__scope_disown(weft_array *a);

/* ---- path.c: the module path that precedes messages ------------------------------------------ */

void weft__path_push(const char *name); /* "" adds nothing; `name` must stay valid until the pop */
void weft__path_pop(void);
/* The joined path, or "" ; valid until the next call on the thread. */
const char *weft__path_text(void);
/* A copy that is never freed, or NULL when checks are off. */
const char *weft__path_remember(void);

/* Whether WEFT_CHECK_NAN=1, WEFT_TRAP=1. */
bool weft__check_nan(void);
bool weft__trap_errors(void);

/* ---- while a gradient's function runs ------------------------------------------------------- */

/* Nesting depth of weft_vjp and related calls on this thread. Evaluation then keeps the graph. */
extern _Thread_local int weft__differentiating;

/* ---- while a function is called for its graph ----------------------------------------------- */

/* A call of a function for its graph and not for values, by jvp, vmap, compile or export. */
typedef struct weft__recording {
    struct weft__recording *outer;    /* the call that this one is made in */
    struct weft__length_log *lengths; /* records the lengths that the function reads; or NULL */
    char read[512]; /* the message of the latest evaluation that needed a placeholder; "": none */
} weft__recording;
extern _Thread_local weft__recording *weft__current_recording; /* the innermost; NULL: none */
/* Begins the call; *r lasts until weft__end_recording. */
void weft__begin_recording(weft__recording *r);
/* Ends it. Fails, with a message that begins with `what`, if an evaluation needed a placeholder:
 * the function may have ignored the error and used numbers that are wrong. */
weft_status weft__end_recording(weft__recording *r, const char *what);

/* Callbacks of the code that traces a function. */
typedef struct weft__observer weft__observer;
struct weft__observer {
    /* Whether `slot` may be set. False: the reason was recorded with weft_fail. */
    bool (*may_set)(weft__observer *watch, weft_array **slot);
    /* Keys for the default random generator: a new one in each call of the trace. */
    weft_array *(*next_key)(weft__observer *watch);
    /* Called when setting a slot failed with this status and the thread's message. */
    void (*refused)(weft__observer *watch, weft_status status);
};
/* Calls `refused` of the current observer unless the status is WEFT_OK. Returns the status. */
weft_status weft__report_to_observer(weft_status status);
extern _Thread_local weft__observer *weft__current_observer; /* NULL: nobody */

/* ---- pointer map (map.c): arrays to integers, insertion order kept -------------------------- */

typedef struct weft__map {
    weft_array **keys;
    int64_t count, capacity;
    int32_t *table;     /* open addressing; entries are indices into keys + 1 */
    int64_t table_size; /* a power of two */
} weft__map;

/* The index of `key`. If it is absent, it is added when `added` is not NULL (*added says whether it
 * was new). -1: absent, or out of memory when adding. */
int64_t weft__map_index(weft__map *map, weft_array *key, bool *added);
void weft__map_free(weft__map *map);

/* Sorts by order of creation. */
void weft__sort_by_seq(weft_array **nodes, int64_t n);

/* Collects the nodes with an op that are reachable from `roots` through inputs, as first outputs,
 * sorted by seq. Arrays for which `stop` (may be NULL) returns true are not entered. False: out of
 * memory. */
typedef bool weft__stop(const void *context, weft_array *a);
bool weft__collect(weft_array *const *roots, int n, weft__stop *stop, const void *context,
                   weft__map *out);

/* ---- array.c -------------------------------------------------------------------------------- */

/* Evaluates the encoded array `a` and returns its blocks: weft__blocks in place (NULL when the host
 * cannot read them there), weft__read_blocks as a copy. */
const void *weft__blocks(weft_array *a);
weft_status weft__read_blocks(weft_array *a, void *out);

#endif
