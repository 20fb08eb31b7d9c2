/* core/transforms/transforms.h -- what the transforms share. */
#ifndef CORE_TRANSFORMS_H
#define CORE_TRANSFORMS_H

#include "core/graph.h"
#include "weft/transforms.h"

/* ---- dependents.c: the part of a graph that depends on some nodes --------------------------- */

/* A walk forwards or backwards puts one array for each output of each node: its cotangent, its
 * tangent, its batch. */
typedef struct weft__dependents {
    weft__map nodes;   /* in order of creation; the sources are not among them */
    weft__map sources; /* arrays: of several outputs, one may be a source and another not */
    uint64_t oldest;   /* nothing older depends on a source */
    bool *needed;      /* per node: it depends on a source */
    int64_t *first;    /* per node: where its first output's place is */
    weft_array **places;
    weft_array **source_places;
} weft__dependents;

/* Finds the nodes between `sources` and `outs`, the places being NULL. Dependence through inputs
 * that have no gradient by definition counts when `through_all`. `what` names the transform in
 * messages. To be freed whatever it returns. */
weft_status weft__dependents_find(weft__dependents *d, const char *what, weft_array *const *outs,
                                  int n_out, weft_array *const *sources, int n_sources,
                                  bool through_all);
void weft__dependents_free(weft__dependents *d);
/* The place of an array; NULL when its node depends on no source. */
weft_array **weft__place(weft__dependents *d, weft_array *a);

/* `x` as the spec of output `o` of a node says: its shape is checked, its dtype converted to.
 * `what` and `op` begin the message. */
weft_array *weft__as_spec(weft_array *x, const weft_spec *spec, const char *what, const char *op);

bool weft__is_differentiable(const weft_array *a);
/* Whether input `i` of the node never gets a gradient, by definition. */
bool weft__is_zero_gradient(const weft_array *node, int i);
/* WEFT_OK, or the failure of the first failed array, reported. */
weft_status weft__all_ok(weft_array *const *arrays, int n);

/* The default device and the module path of a rule's nodes are those of the node. */
typedef struct weft__beside {
    weft_device *before;
} weft__beside;
weft__beside weft__enter_beside(const weft_array *node);
void weft__leave_beside(weft__beside beside);

/* ---- call.c --------------------------------------------------------------------------------- */

/* What a function returned. */
typedef struct weft__results {
    weft_array **at; /* freed by the caller with weft_free, also after a failure */
    int n, room;
} weft__results;

/* Calls fn with room for out->room results (zero the struct first), again with more where it has
 * more. Entries may be NULL or error arrays. */
weft_status weft__call_function(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                weft__results *out);
/* Puts the first n_out results in `out`; error arrays that begin with `what` for those that the
 * function does not have. */
void weft__call_into(weft_function *fn, void *context, weft_array *const *in, int n_in,
                     weft_array **out, int n_out, const char *what);
/* Puts the results in `out` and NULL behind them and returns their number; error arrays after a
 * failure (`status`, reported) or where the results do not fit. */
int weft__hand_over(weft_status status, const weft__results *results, weft_array **out, int room,
                    const char *what);

/* ---- pull_back.c ---------------------------------------------------------------------------- */

/* Pulls the cotangents of `outs` (NULL: none) back to `targets`, nodes younger than which none
 * matters: grads[i] is NULL where nothing flows. Called in an open scope. */
weft_status weft__pull_back(weft_array *const *outs, weft_array *const *cts, int n_out,
                            weft_array *const *targets, int n_targets, weft_array **grads);

/* Gradients of one node's inputs by its op's rule, whichever it has. */
weft_status weft__node_gradients(weft_array *node, weft_array *const *cts, const bool *wanted,
                                 weft_array **grads);

/* ---- push_forward.c ------------------------------------------------------------------------- */

/* Pushes the tangents of `sources` (NULL: zero) forward to `outs`: out_tangents[i] is NULL where
 * nothing flows. Called in an open scope. */
weft_status weft__push_forward(weft_array *const *outs, int n_out, weft_array *const *sources,
                               weft_array *const *tangents, int n_sources,
                               weft_array **out_tangents);

/* ---- linear_maps.c: one rule from the other ------------------------------------------------- */

/* The rules of a node as functions, whoever has them. Both are linear in their last arrays. */
typedef weft_status weft__vjp_rule(weft_array *node, weft_array *const *cts, const bool *wanted,
                                   weft_array **grads);
typedef weft_status weft__jvp_rule(weft_array *node, weft_array *const *tangents, weft_array **out);

/* Tangents of the outputs as the derivative of u -> vjp(u) in the direction of the inputs' tangents
 * (NULL: zero): vjp is linear in u, so that where u is does not matter. */
weft_status weft__jvp_by_vjp(weft_array *node, weft__vjp_rule *vjp, weft_array *const *tangents,
                             weft_array **out);
/* Gradients of the wanted inputs as those of t -> jvp(t), the other way round. */
weft_status weft__vjp_by_jvp(weft_array *node, weft__jvp_rule *jvp, weft_array *const *cts,
                             const bool *wanted, weft_array **grads);

/* ---- batch.c -------------------------------------------------------------------------------- */

/* `size` in front of a shape; false: too many dims. */
bool weft__batched_shape(const weft_dims *shape, int64_t size, weft_dims *out);
/* x for every example of a batch. */
weft_array *weft__repeat(weft_array *x, int64_t size);
/* The graph from `sources` to `outs` for a batch: the sources become `batches`, which have `size`
 * examples on axis 0, as the results have. What does not depend on the sources is repeated. Called
 * in an open scope. */
weft_status weft__batch(weft_array *const *outs, int n_out, weft_array *const *sources,
                        weft_array *const *batches, int n_sources, int64_t size,
                        weft_array **results);

/* ---- identity.c ----------------------------------------------------------------------------- */

/* A node of its own that is x: what a gradient is taken with respect to. */
weft_array *weft__alias(weft_array *x);
/* x, but not before `after` is there. */
weft_array *weft__barrier(weft_array *x, weft_array *after);

#endif
