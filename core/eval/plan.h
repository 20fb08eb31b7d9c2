/* core/eval/plan.h -- a plan: the kernels of one evaluation, with all their memory.
 *
 * Making a plan has no visible effect. It simulates reference counts, so that memory is reused as
 * it will be when the kernels run in order, and allocates the rest from the device. When all memory
 * is there, the plan is committed (the nodes get their views, edges are dropped) and run. A plan
 * that fails before is discarded.
 */
#ifndef CORE_EVAL_PLAN_H
#define CORE_EVAL_PLAN_H

#include "core/arena.h"
#include "core/device.h"
#include "core/graph.h"

typedef enum weft__step_kind {
    WEFT__STEP_KERNEL,
    WEFT__STEP_ELEMENTWISE, /* the backend's generic elementwise function */
    WEFT__STEP_REFERENCE,   /* runs on the host for any device */
    WEFT__STEP_NOTHING,     /* the outputs have no elements */
    WEFT__STEP_TRANSFER     /* from the device of in[0] to that of out[0] */
} weft__step_kind;

typedef struct weft__step {
    struct weft__step *next;
    weft__step_kind kind;
    weft_device *device;
    weft_kernel *kernel;
    const weft_tape *tape;
    weft_call call;
    weft__buffer **buffers; /* inputs, then outputs */
    weft__buffer *workspace;
    const char *path;
    bool checks_first; /* see weft_kernel_row */
} weft__step;

/* A plan's data about an array. The graph keeps the array alive: the roots are held, and only the
 * commit drops edges. Fields about the node as a whole (queued, deferred and the sizes) are set in
 * the entry of its first output. */
struct weft__entry {
    weft__entry *next; /* in order of creation of the entries */
    weft_array *array;
    weft__view *view;   /* NULL until planned */
    int consumed;       /* edges to it from nodes that are planned */
    int released;       /* holds of slots that are about to be replaced */
    weft_array *reader; /* a node of this plan that has it as an input; NULL: none is known */
    int edges;          /* edges to it from nodes of this plan */
    int firsts;         /* of these, edges from nodes of one op, as their first input */
    int64_t queued;     /* number of the last graph that queued the node */
    bool planned;       /* by this plan */
    bool internal;      /* created by an expansion inside this plan */
    bool spent;
    bool kept; /* fused into a planned node but stays lazy, since it or its reader is readable */
    bool deferred; /* may become a part of its reader (fuse.c); the size of that part */
    int fused_steps, fused_operands;
    bool offered; /* its readers may compute it themselves (prologue.c) */
};

typedef struct weft__stand_ins weft__stand_ins;

typedef struct weft__plan {
    uint64_t id;
    uint64_t first_internal; /* nodes made by this plan have this seq or a larger one */
    bool retain;             /* inside a gradient: edges are kept */
    bool each_op; /* no fusion, since each op's elements are inspected (WEFT_CHECK_NAN) */
    bool failed;  /* an entry could not be made, so the plan must not be committed */
    bool committed;
    const char *path;  /* module path of the node being expanded, or NULL */
    const void *owner; /* the stream or thread whose plans run in order (queue.h) */
    weft__entry *entries, *last_entry;
    weft_array *dead;   /* nodes without references since the commit */
    weft_array **nodes; /* nodes to plan: the lists of nested graphs, one after another */
    int64_t n_nodes, node_capacity, n_graphs;
    weft__step *first, *last;
    weft__arena arena;
    weft__buffer **touched; /* all buffers used, once each, with a reference */
    int64_t n_touched, touched_capacity;
    struct weft__idle *idle;     /* per device: owned buffers without simulated references */
    bool uploading;              /* the next buffer is filled from the host beside kernels */
    int64_t probes;              /* idle buffers inspected, over all searches */
    weft_array *const *released; /* held by slots about to be replaced: may be spent */
    int n_released;
    weft__stand_ins
        *stand_ins; /* for a program: buffers without memory. NULL: memory is allocated */
    /* After a failed run: its number, with which it marked buffers, and the first step that wrote
     * nothing (NULL: every step may have written). */
    uint64_t failure;
    const weft__step *intact;
} weft__plan;

/* Plans everything that `roots` need. Discard the plan on failure. */
weft_status weft__plan_make(weft__plan *plan, weft_array *const *roots, int n);
void weft__plan_commit(weft__plan *plan);
weft_status weft__plan_run(weft__plan *plan);
/* Whether the steps use several devices that queue work, none of which is profiled. */
bool weft__steps_cross(const weft__step *first);
/* The device, if every step only queues work for it, so that the plan can be issued; else NULL. */
weft_device *weft__plan_device(const weft__plan *plan);
/* Queues the work of such a plan and submits it; *point marks its end. */
weft_status weft__plan_issue(weft__plan *plan, weft_device *device, uint64_t *point);
void weft__plan_free(weft__plan *plan);
/* After a failed run: whether the buffer still has its contents from before the run. If so, removes
 * the mark that the run left on it. */
bool weft__plan_left_intact(const weft__plan *plan, weft__buffer *b);
/* Called after a committed plan has run and before it is freed. Drops the arrays that slots
 * released or, after a failure, restores their elements as far as they were not overwritten. */
void weft__plan_finish(weft__plan *plan, weft_status status);
/* Drops the arrays of a plan that is not committed; its steps and buffers stay. */
void weft__plan_forget(weft__plan *plan);

/* ---- shared by plan.c and lower.c ----------------------------------------------------------- */

/* Memory that is freed with the plan: not zeroed, aligned to 16. NULL: out of memory. */
static inline void *weft__plan_alloc(weft__plan *plan, size_t size)
{
    void *p = weft__arena_take(&plan->arena, size);
    if (!p) {
        weft_fail(WEFT_MEMORY, "eval: out of memory");
    }
    return p;
}

weft__entry *weft__plan_add_entry(weft__plan *plan, weft_array *a);

/* The entry of `a`, created if necessary. NULL: out of memory. */
static inline weft__entry *weft__plan_entry(weft__plan *plan, weft_array *a)
{
    return a->plan == plan->id ? a->plan_entry : weft__plan_add_entry(plan, a);
}

/* Memory for an output: a row-major view with one simulated reference. NULL: out of memory. */
weft__buffer *weft__plan_buffer(weft__plan *plan, weft_device *device, int64_t bytes,
                                const char *label, const weft_spec *spec);
static inline void weft__plan_ref(weft__buffer *b)
{
    b->plan_refs++;
}
bool weft__plan_unref(weft__plan *plan, weft__buffer *b);
/* Probes of the last plan committed by the process, for tests of the cost of planning. */
int64_t weft__plan_last_probes(void);

/* The simulated references of the buffer, which is added to the plan. -1: out of memory. */
int weft__plan_add_buffer(weft__plan *plan, weft__buffer *b);
static inline int weft__plan_refs(weft__plan *plan, weft__buffer *b)
{
    return b->plan == plan->id ? b->plan_refs : weft__plan_add_buffer(plan, b);
}

/* Whether an open scope keeps the array readable. */
static inline bool weft__plan_readable(const weft__entry *e)
{
    return !e->internal && weft__readable(e->array);
}
/* Whether the array is spent after `edges` more of its uses. */
static inline bool weft__plan_would_spend(const weft__entry *e, int edges)
{
    const weft_array *a = e->array;
    return weft__uses(a) - e->consumed == edges && atomic_load(&a->holds) == e->released &&
           e->view && !weft__plan_readable(e);
}
/* Spends the array if nothing needs its elements any more. */
weft_status weft__plan_maybe_spend(weft__plan *plan, weft__entry *e);
/* Counts the node's edges to its inputs as consumed, and spends inputs that nothing else needs. */
weft_status weft__plan_consume(weft__plan *plan, weft_array *node);

/* Marks the outputs of a node as planned, and spends those that are neither needed nor picked. */
weft_status weft__plan_settle(weft__plan *plan, weft_array *node);

/* lower.c: lowers one node to views or steps, together with its reader where a kernel does both. */
weft_status weft__plan_node(weft__plan *plan, weft_array *a);
/* The same for a node that is not planned yet, without its reader. */
weft_status weft__plan_alone(weft__plan *plan, weft_array *a);
/* Plans the nodes that `roots` need and that are not planned yet. */
weft_status weft__plan_graph(weft__plan *plan, weft_array *const *roots, int n);

/* step.c: tensors as steps have them; without a view: row-major, and nowhere yet. */
void weft__place_tensor(weft_tensor *t, const weft__view *view);
void weft__fill_tensor(weft_tensor *t, const weft_spec *spec, const weft__view *view);
int64_t weft__spec_bytes(const weft_spec *spec);
/* A step with room for operands and parameters, which are the caller's to fill. NULL: no memory. */
weft__step *weft__step_new(weft__plan *plan, int n_inputs, int n_outputs, size_t params_size,
                           weft_tensor **in, weft_tensor **out);
void weft__push_step(weft__plan *plan, weft__step *step);

/* Makes `step` copy `from` to `to` (in buffers[0] and [1]; `to` is row-major). False: it runs on
 * the host, since the device has no such kernel. */
bool weft__step_copies(weft__step *step, weft_device *device, const weft_tensor *from,
                       const weft_tensor *to, weft__buffer **buffers);

/* program.c: a buffer without memory. NULL: out of memory. */
weft__buffer *weft__stand_in_new(weft__stand_ins *all, weft_device *device, int64_t bytes,
                                 const char *label, const weft_spec *spec);

/* eval.c: brackets an evaluation, during which kernels and expansions cannot begin another. _begin
 * takes the planning lock, _leave releases it, _end ends the evaluation. */
weft_status weft__evaluation_begin(void);
void weft__evaluation_leave(void);
void weft__evaluation_end(void);

/* failures.c: fails with the recorded failure that left the buffer unfilled, on behalf of a plan or
 * a call of `owner`. */
weft_status weft__failed_before(const char *where, const weft__buffer *b, const void *owner);

/* reference.c: kernels that any backend can fall back to. */
weft_status weft__reference_elementwise(const weft_call *call, const weft_tape *tape);
weft_status weft__reference_copy(const weft_call *call);

#endif
