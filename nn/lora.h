/* nn/lora.h -- between the adapter's layer and its injection. */
#ifndef WEFT_NN_LORA_H
#define WEFT_NN_LORA_H

#include "nn/module.h"

typedef struct weft__lora_spec {
    int64_t rank;
    double scale, dropout;
    weft_dtype dtype; /* 0: float32 */
    bool dora, pissa;
} weft__lora_spec;

/* Whether it is an adapter: a weft_nn_lora_linear, around a linear, an embedding or a stack. */
bool weft__is_lora(const weft_module *m);

/* lora_A, also where it is tied, and the rank. */
weft_array *weft__lora_A(const weft_nn_lora_linear *m);
int64_t weft__lora_rank(const weft_nn_lora_linear *m);

/* weft_nn_lora_inject. `joined`: the gates and ups of experts, where both are adapted alike, get
 * one lora_A, tied in up_proj, as if they were one matrix (which they are for PEFT). */
weft_status weft__lora_inject(weft_module *m, const weft_nn_lora_options *options, bool joined);

/* An adapter that fits around `base` but does not hold it yet: weft__lora_attach, which cannot
 * fail, takes it. */
weft_status weft__lora_new(const weft_module *base, const weft__lora_spec *spec,
                           weft_nn_lora_linear **out);
void weft__lora_attach(weft_nn_lora_linear *m, weft_module *base);

/* (x A^T) B^T, with PiSSA without its start: x (..., in) -> (..., out); and scale times the matrix
 * that it multiplies by: (out, in), float32. */
weft_array *weft__lora_delta(const weft_nn_lora_linear *m, weft_array *x);
weft_array *weft__lora_matrix(const weft_nn_lora_linear *m);

/* The weight of the adapter's base, which may be another module's. */
weft_array *weft__lora_weight(const weft_nn_lora_linear *m);

/* ---- lora_merge.c ---------------------------------------------------------------------------- */

/* Gives a module that is tied a parameter of its own, frozen, with the same array; and all modules
 * of the tree that are tied to `owner`. */
void weft__nn_untie(weft_module *m);
void weft__nn_untie_from(weft_module *tree, weft_array **owner);

/* ---- dora.c ---------------------------------------------------------------------------------- */

/* The norms of the rows of a matrix (out, in): (out), float32. */
weft_array *weft__dora_norms(weft_array *weight);

/* m / |w| of a DoRA adapter that is not merged: (out), float32. Only m has a gradient. */
weft_array *weft__dora_factor(const weft_nn_lora_linear *m);

/* Computes the factors of all DoRA adapters once, for calls that do not differentiate. A factor is
 * used as long as the module's arrays are those that it was computed from. */
weft_status weft__dora_settle(weft_module *tree);

/* Keeps `factor` (NULL: none) for the arrays that the module has now, or for none. */
void weft__dora_keep(weft_nn_lora_linear *m, weft_array *factor, bool for_arrays);

#endif
