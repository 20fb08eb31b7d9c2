/* core/eval/plan.h -- a plan: the kernels of one evaluation, with all their memory.
 *
 * Making a plan changes nothing that others can see: it simulates reference counts, so that memory
 * is reused exactly as it will be when the kernels run in order, and takes what is missing from the
 * device. Only when everything is there is the plan committed (the nodes get their views, edges are
 * dropped) and run. A plan that fails is forgotten.
 */
#ifndef CORE_EVAL_PLAN_H
#define CORE_EVAL_PLAN_H

#include "core/arena.h"
#include "core/device.h"
#include "core/graph.h"

typedef enum weft__step_kind {
    WEFT__STEP_KERNEL,
    WEFT__STEP_ELEMENTWISE, /* the backend's generic function */
    WEFT__STEP_REFERENCE,   /* on the host, whatever the device */
    WEFT__STEP_NOTHING,     /* the outputs have no elements */
    WEFT__STEP_TRANSFER     /* from in[0]'s device to out[0]'s */
} weft__step_kind;

typedef struct weft__step {
    struct weft__step *next;
    weft__step_kind kind;
    weft_device *device;
    weft_kernel *kernel;
    const weft_tape *tape;
    weft_call call;
    weft__buffer **buffers; /* of the inputs, then of the outputs */
    weft__buffer *workspace;
    const char *path;
    bool checks_first; /* weft_kernel_row */
} weft__step;

/* What the plan knows about an array that it meets. The graph keeps the array: the roots are held,
 * and edges are dropped by the commit alone. What concerns the node as a whole (queued, deferred
 * and the sizes) is in the entry of its first output. */
struct weft__entry {
    weft__entry *next; /* in order of first sight */
    weft_array *array;
    weft__view *view; /* NULL until planned */
    int consumed;     /* edges to it that planned nodes have used */
    int released;     /* holds of slots that are about to be replaced */
    int64_t queued;   /* the last graph in whose list of nodes to plan it is */
    bool planned;     /* by this plan */
    bool internal;    /* made by an expansion inside this plan */
    bool spent;
    bool kept;     /* part of a planned node that stays lazy, since it or its reader is readable */
    bool deferred; /* waits to become a part of its reader (fuse.c), and how large that part is */
    int fused_steps, fused_operands;
};

typedef struct weft__stand_ins weft__stand_ins;

typedef struct weft__plan {
    uint64_t id;
    uint64_t first_internal; /* seq from which nodes were made by this plan */
    bool retain;             /* inside a gradient: the graph stays */
    bool each_op;            /* every op by itself: its elements are looked at (WEFT_CHECK_NAN) */
    bool failed;             /* an entry could not be made: the plan must not be committed */
    bool committed;
    const char *path;  /* module path of the node being expanded, or NULL */
    const void *owner; /* whose plans run one after another (queue.h) */
    weft__entry *entries, *last_entry;
    weft_array *dead;   /* what nothing refers to since the commit */
    weft_array **nodes; /* to plan: a list for each graph that is being walked, one after another */
    int64_t n_nodes, node_capacity, n_graphs;
    weft__step *first, *last;
    weft__arena arena;
    weft__buffer **touched; /* every buffer met, each once, with a reference */
    int64_t n_touched, touched_capacity;
    struct weft__idle *idle; /* per device: owned buffers without virtual references, to reuse */
    int64_t probes;          /* idle buffers looked at, all searches together */
    weft_array *const *released; /* held by slots about to be replaced: may be spent */
    int n_released;
    weft__stand_ins *stand_ins; /* of a program: blocks without memory. NULL: memory is taken */
    /* After a run that failed: its number, by which it marked buffers, and the first step that
     * wrote nothing (NULL: every step may have written). */
    uint64_t failure;
    const weft__step *intact;
} weft__plan;

/* Plans everything that `roots` need. On a failure the plan is to be discarded. */
weft_status weft__plan_make(weft__plan *plan, weft_array *const *roots, int n);
void weft__plan_commit(weft__plan *plan);
weft_status weft__plan_run(weft__plan *plan);
/* The device for which all steps only queue work, so that the plan may be issued; else NULL. */
weft_device *weft__plan_device(const weft__plan *plan);
/* Queues the work of such a plan and submits it; `point` is where it ends. */
weft_status weft__plan_issue(weft__plan *plan, weft_device *device, uint64_t *point);
void weft__plan_free(weft__plan *plan);
/* After a run that failed: whether the buffer still has what it had before the run. Removes the
 * mark that the run left on it in that case. */
bool weft__plan_left_intact(const weft__plan *plan, weft__buffer *b);
/* After the run of a committed plan, before it is freed: lets go of what slots released; or, if it
 * failed, gives the released arrays their elements back, as far as they were not overwritten. */
void weft__plan_finish(weft__plan *plan, weft_status status);
/* Lets go of the arrays of a plan that is not committed; steps and buffers stay. */
void weft__plan_forget(weft__plan *plan);

/* ---- shared by plan.c and lower.c ----------------------------------------------------------- */

/* Memory that is freed with the plan: not zeroed, at a multiple of 16. NULL: none. */
static inline void *weft__plan_alloc(weft__plan *plan, size_t size)
{
    void *p = weft__arena_take(&plan->arena, size);
    if (!p) {
        weft_fail(WEFT_MEMORY, "eval: out of memory");
    }
    return p;
}

weft__entry *weft__plan_meet(weft__plan *plan, weft_array *a);

/* The entry of `a`, made on first sight. NULL: no memory. */
static inline weft__entry *weft__plan_entry(weft__plan *plan, weft_array *a)
{
    return a->plan == plan->id ? a->plan_entry : weft__plan_meet(plan, a);
}

/* Memory for an output, as a row-major view with one virtual reference. NULL: no memory. */
weft__buffer *weft__plan_buffer(weft__plan *plan, weft_device *device, int64_t bytes,
                                const char *label, const weft_spec *spec);
static inline void weft__plan_ref(weft__buffer *b)
{
    b->plan_refs++;
}
bool weft__plan_unref(weft__plan *plan, weft__buffer *b);
/* Probes of the process's last committed plan, for tests of what planning costs. */
int64_t weft__plan_last_probes(void);

/* How many references the simulation counts; brings the buffer into the plan. -1: no memory. */
int weft__plan_meet_buffer(weft__plan *plan, weft__buffer *b);
static inline int weft__plan_refs(weft__plan *plan, weft__buffer *b)
{
    return b->plan == plan->id ? b->plan_refs : weft__plan_meet_buffer(plan, b);
}

/* Whether an open scope of the caller keeps the array readable. */
static inline bool weft__plan_readable(const weft__entry *e)
{
    return !e->internal && weft__readable(e->array);
}
/* Whether the array is spent once `edges` more of its uses are gone. */
static inline bool weft__plan_would_spend(const weft__entry *e, int edges)
{
    const weft_array *a = e->array;
    return weft__uses(a) - e->consumed == edges && atomic_load(&a->holds) == e->released &&
           e->view && !weft__plan_readable(e);
}
/* Spends the array if nothing needs its elements any more. */
weft_status weft__plan_maybe_spend(weft__plan *plan, weft__entry *e);
/* Counts the node's edges to its inputs as used, and spends what nothing else needs. */
weft_status weft__plan_consume(weft__plan *plan, weft_array *node);

/* Marks several outputs of a node as planned, and spends those that nothing needs and that nobody
 * picked, so that nobody can ask for them. */
weft_status weft__plan_settle(weft__plan *plan, weft_array *node);

/* lower.c: turns one node into views or steps. */
weft_status weft__plan_node(weft__plan *plan, weft_array *a);
/* Plans what `roots` need and this plan has not planned yet. */
weft_status weft__plan_graph(weft__plan *plan, weft_array *const *roots, int n);

/* Makes `step` one that copies `from` to `to` (of buffers[0] and [1]), which is row-major; false:
 * on the host, since the device cannot. */
bool weft__step_copies(weft__step *step, weft_device *device, const weft_tensor *from,
                       const weft_tensor *to, weft__buffer **buffers);

/* program.c: a block without memory. NULL: no memory for that. */
weft__buffer *weft__stand_in_new(weft__stand_ins *all, weft_device *device, int64_t bytes,
                                 const char *label, const weft_spec *spec);

/* eval.c: an evaluation, in which a kernel or an expansion cannot begin another; _begin takes the
 * lock around planning, _leave leaves it. */
weft_status weft__evaluation_begin(void);
void weft__evaluation_leave(void);
void weft__evaluation_end(void);

/* queue.c: fails with what is known about the failure that left the buffer unfilled. */
weft_status weft__failed_before(const char *where, const weft__buffer *b);

/* reference.c: kernels that every backend can fall back to. */
weft_status weft__reference_elementwise(const weft_call *call, const weft_tape *tape);
weft_status weft__reference_copy(const weft_call *call);

#endif
