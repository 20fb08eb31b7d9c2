/* nn/lora.h -- interface between the adapter layers and their injection. */
#ifndef WEFT_NN_LORA_H
#define WEFT_NN_LORA_H

#include "nn/module.h"

typedef struct weft__lora_spec {
    int64_t rank;
    double scale, dropout;
    weft_dtype dtype; /* 0: float32 */
    bool dora, pissa;
} weft__lora_spec;

/* Whether the module is an adapter: a weft_nn_lora_linear on a linear, an embedding or a stack. */
bool weft__is_lora(const weft_module *m);

/* The adapter's lora_A, which may be tied, and its rank. */
weft_array *weft__lora_A(const weft_nn_lora_linear *m);
int64_t weft__lora_rank(const weft_nn_lora_linear *m);

/* Implements weft_nn_lora_inject. With `joined`, gate and up projections of experts that get equal
 * adapters share one lora_A (tied in up_proj), since PEFT treats them as one matrix. */
weft_status weft__lora_inject(weft_module *m, const weft_nn_lora_options *options, bool joined);

/* weft__lora_new creates an adapter for `base` without taking ownership of it. weft__lora_attach,
 * which cannot fail, does that. */
weft_status weft__lora_new(const weft_module *base, const weft__lora_spec *spec,
                           weft_nn_lora_linear **out);
void weft__lora_attach(weft_nn_lora_linear *m, weft_module *base);

/* A factor as it is multiplied with rows of `dtype`: rounded to that if it has 16 bits, so that
 * products have one dtype. Its gradient is not rounded. PiSSA's factors are not rounded either,
 * since small changes of them count. */
weft_array *weft__lora_factor(const weft_nn_lora_linear *m, weft_array *factor, weft_dtype dtype);

/* lora_A and scale lora_B as rows of `dtype` are multiplied with them outside of training, of an
 * adapter without start_A: kept, or not evaluated. */
void weft__lora_ready(const weft_nn_lora_linear *m, weft_dtype dtype, weft_array *out[2]);

/* The dtype of rows that a module of a tree multiplies: that of its weight, or if that is encoded,
 * of the tree's first vector (the weight of a norm). */
weft_dtype weft__lora_rows_dtype(weft_module *tree, const weft_module *base);

/* weft__lora_delta: (x A^T) B^T, minus the product of the initial values for PiSSA; x (..., in) ->
 * (..., out). weft__lora_matrix: the matrix of this map times scale: (out, in), float32. */
weft_array *weft__lora_delta(const weft_nn_lora_linear *m, weft_array *x);
weft_array *weft__lora_matrix(const weft_nn_lora_linear *m);

/* The matrix (out, in) by which a linear, with its adapter if it has one, multiplies:
 * weight + left[0] right[0] + ..., whose rows are multiplied by the factors. */
typedef struct weft__lora_terms {
    weft_array *weight; /* may be encoded */
    int n;
    weft_array *left[2], *right[2]; /* (out, R), (R, in) */
    weft_array *factor;             /* (out), DoRA's; NULL: 1 */
} weft__lora_terms;

/* False: the module is another one, adds a bias, drops out or rounds its inputs. */
bool weft__lora_terms_of(weft_module *linear, weft__lora_terms *out);

/* The weight of the adapter's base, which may belong to another module, on the device of x. */
weft_array *weft__lora_weight(const weft_nn_lora_linear *m, const weft_array *x);

/* ---- lora_merge.c ---------------------------------------------------------------------------- */

/* weft__nn_untie gives a tied module its own frozen parameter with the same array.
 * weft__nn_untie_from does so for all modules of the tree that are tied to `owner`. */
void weft__nn_untie(weft_module *m);
void weft__nn_untie_from(weft_module *tree, weft_array **owner);

/* Adapters that were removed from a tree, and their paths in it. Zeroed: empty. */
typedef struct weft__lora_taken {
    char **paths;
    weft_nn_lora_linear **at; /* (n), owned; their bases, borrowed, are in the tree */
    int n;
} weft__lora_taken;

/* Removes all adapters from the tree as weft_nn_lora_remove does, and keeps them in `out`. Weights
 * that are tied to an adapted one become parameters of their own. */
weft_status weft__lora_take(weft_module *tree, weft__lora_taken *out);
void weft__lora_taken_free(weft__lora_taken *taken);

/* The merged weight at `path` ("model.layers.0.mlp.up_proj.weight"): the weight plus its removed
 * adapter, scaled for DoRA; float32, not evaluated. NULL: the weight had no adapter. */
weft_array *weft__lora_taken_sum(const weft__lora_taken *taken, const char *path);

/* ---- dora.c ---------------------------------------------------------------------------------- */

/* The row norms of a matrix (out, in): (out), float32. */
weft_array *weft__dora_norms(weft_array *weight);

/* m / |w| of a DoRA adapter that is not merged: (out), float32. Only m has a gradient. */
weft_array *weft__dora_factor(const weft_nn_lora_linear *m);

/* ---- lora_kept.c ----------------------------------------------------------------------------- */

/* Computes once, for calls outside of training, the arrays that depend only on the parameters of
 * the tree's adapters of linears (except PiSSA's). They are used while the module's parameters are
 * those they were computed from, and take memory until weft__lora_unsettle. */
weft_status weft__lora_settle(weft_module *tree);
void weft__lora_unsettle(weft_module *tree);

/* Whether the module's arrays are those for which it keeps others. Transforms put other arrays into
 * the slots. */
bool weft__lora_is_kept(const weft_nn_lora_linear *m);

/* Keeps DoRA's factor and the ready lora_A and lora_B (each NULL: none) for the module's current
 * arrays, or for none. */
void weft__lora_keep(weft_nn_lora_linear *m, weft_array *factor, weft_array *const ready[2],
                     bool for_arrays);
void weft__lora_keep_nothing(weft_nn_lora_linear *m);

/* Lets all calls of an output head share one factor, and its gradient, if the head has a DoRA
 * adapter without a valid factor. Returns that adapter (NULL: none), to which the caller applies
 * weft__lora_keep_nothing after the calls. */
weft_nn_lora_linear *weft__dora_share(weft_module *head);

#endif
