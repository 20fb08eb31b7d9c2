/* core/transforms/transforms.h -- functions shared by the transforms. */
#ifndef CORE_TRANSFORMS_H
#define CORE_TRANSFORMS_H

#include "core/graph.h"
#include "weft/transforms.h"

/* ---- dependents.c: the part of a graph that depends on some nodes --------------------------- */

/* Walks forwards or backwards store one array for each output of each node: its cotangent, its
 * tangent or its batch. */
typedef struct weft__dependents {
    weft__map nodes;   /* in order of creation, without the sources */
    weft__map sources; /* arrays, since only one of a node's outputs may be a source */
    uint64_t oldest;   /* smallest seq of a source; older nodes depend on none */
    bool *needed;      /* per node: whether it depends on a source */
    int64_t *first;    /* per node: index of its first output in `values` */
    weft_array **values;
    weft_array **source_values;
    weft__map shared;   /* cotangents that several nodes read (pull_back.c) */
    weft_array **again; /* per node: computed again for gradients (rematerialize.c), or NULL */
    bool rematerialize; /* argument of weft__pull_back */
} weft__dependents;

/* Finds the nodes between `sources` and `outs`; all values are NULL. With `through_all`, dependence
 * through inputs without a gradient counts too. `what` names the transform in messages. Free it
 * whatever is returned. */
weft_status weft__dependents_find(weft__dependents *d, const char *what, weft_array *const *outs,
                                  int n_out, weft_array *const *sources, int n_sources,
                                  bool through_all);
void weft__dependents_free(weft__dependents *d);
/* The value stored for an array; NULL when its node depends on no source. */
weft_array **weft__dependent_value(weft__dependents *d, weft_array *a);

/* `x` as output `o` of a node: checks its shape and converts its dtype. `what` and `op` begin the
 * message. */
weft_array *weft__as_spec(weft_array *x, const weft_spec *spec, const char *what, const char *op);

bool weft__is_differentiable(const weft_array *a);
/* Whether input `i` of the node has no gradient by definition. */
bool weft__is_zero_gradient(const weft_array *node, int i);
/* Reports the failure of the first failed array, if any. */
weft_status weft__all_ok(weft_array *const *arrays, int n);

/* Makes the node's device and module path the current ones while its rule runs. */
typedef struct weft__rule_context {
    weft_device *before;
} weft__rule_context;
weft__rule_context weft__enter_rule_context(const weft_array *node);
void weft__leave_rule_context(weft__rule_context context);

/* ---- call.c --------------------------------------------------------------------------------- */

/* The results of a function. */
typedef struct weft__results {
    weft_array **at; /* freed by the caller with weft_free, also after a failure */
    int n, room;
} weft__results;

/* Calls fn with space for out->room results (zero the struct first), and again with more if
 * necessary. Entries may be NULL or error arrays. */
weft_status weft__call_function(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                weft__results *out);
/* Calls fn and stores the first n_out results in `out`. Missing results become error arrays that
 * begin with `what`. */
void weft__call_into(weft_function *fn, void *context, weft_array *const *in, int n_in,
                     weft_array **out, int n_out, const char *what);
/* Copies the results to `out`, fills the rest with NULL, and returns their number. After a failure
 * (`status`, already reported), or if there are more than `room`, the entries are error arrays. */
int weft__return_results(weft_status status, const weft__results *results, weft_array **out,
                         int room, const char *what);

/* ---- pull_back.c ---------------------------------------------------------------------------- */

/* Pulls the cotangents of `outs` (NULL: none) back to `targets`. grads[i] is NULL if target i gets
 * no gradient. A checkpoint, which computes everything again by itself, passes false for
 * `rematerialize`. Called in an open scope. */
weft_status weft__pull_back(weft_array *const *outs, weft_array *const *cts, int n_out,
                            weft_array *const *targets, int n_targets, bool rematerialize,
                            weft_array **grads);

/* Gradients of one node's inputs, by whichever rule its op has. */
weft_status weft__node_gradients(weft_array *node, weft_array *const *cts, const bool *wanted,
                                 weft_array **grads);

/* ---- rematerialize.c ------------------------------------------------------------------------ */

/* Most inputs of an op whose results are computed again. */
enum { WEFT__REMATERIALIZE_INPUTS = 4 };

/* Until the node's rule has run, inputs of the node may be other nodes with the same values, which
 * are computed after the cotangent `after`. originals[i] is input i. Returns whether any was
 * replaced; then the caller restores them. */
bool weft__rematerialize_inputs(weft__dependents *d, weft_array *node, weft_array *after,
                                weft_array **originals);

/* ---- push_forward.c ------------------------------------------------------------------------- */

/* Pushes the tangents of `sources` (NULL: zero) forward to `outs`. out_tangents[i] is NULL if
 * output i gets no tangent. Called in an open scope. */
weft_status weft__push_forward(weft_array *const *outs, int n_out, weft_array *const *sources,
                               weft_array *const *tangents, int n_sources,
                               weft_array **out_tangents);

/* ---- linear_maps.c: deriving one rule from the other ----------------------------------------- */

/* The rules of a node as functions. Both are linear in their last arrays. */
typedef weft_status weft__vjp_rule(weft_array *node, weft_array *const *cts, const bool *wanted,
                                   weft_array **grads);
typedef weft_status weft__jvp_rule(weft_array *node, weft_array *const *tangents, weft_array **out);

/* Tangents of the outputs, as the derivative of u -> vjp(u) in the direction of the inputs'
 * tangents (NULL: zero). Since vjp is linear in u, the value of u does not matter. */
weft_status weft__jvp_by_vjp(weft_array *node, weft__vjp_rule *vjp, weft_array *const *tangents,
                             weft_array **out);
/* Gradients of the wanted inputs, as the derivative of t -> jvp(t), in the opposite direction. */
weft_status weft__vjp_by_jvp(weft_array *node, weft__jvp_rule *jvp, weft_array *const *cts,
                             const bool *wanted, weft_array **grads);

/* ---- batch.c -------------------------------------------------------------------------------- */

/* Adds axis 0 of length `size` to a shape; false: too many dims. */
bool weft__batched_shape(const weft_dims *shape, int64_t size, weft_dims *out);
/* Repeats x for every example of a batch. */
weft_array *weft__repeat(weft_array *x, int64_t size);
/* The graph from `sources` to `outs` for a batch: the sources become `batches`, which have `size`
 * examples on axis 0, as do the results. Arrays that do not depend on the sources are repeated.
 * Called in an open scope. */
weft_status weft__batch(weft_array *const *outs, int n_out, weft_array *const *sources,
                        weft_array *const *batches, int n_sources, int64_t size,
                        weft_array **results);

/* ---- identity.c ----------------------------------------------------------------------------- */

/* A new node that is equal to x; gradients are taken with respect to it. */
weft_array *weft__alias(weft_array *x);
/* x, computed only after `after`. */
weft_array *weft__barrier(weft_array *x, weft_array *after);

#endif
