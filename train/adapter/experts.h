/* train/adapter/experts.h -- adapters of experts in PEFT's form. */
#ifndef WEFT_TRAIN_ADAPTER_EXPERTS_H
#define WEFT_TRAIN_ADAPTER_EXPERTS_H

#include "train/adapter/adapter.h"

/* The paths of all stacks of a tree, adapted or not (NULL: not wanted), and of the adapted ones. */
weft_status weft__adapter_stacks(weft_module *tree, weft__names *stacks, weft__names *adapted);

/* The parameters of transformers that the stacks are: "model.layers.0.mlp.experts.gate_up_proj". */
weft_status weft__adapter_parameters(weft_module *tree, weft__names *all, weft__names *adapted);

/* PEFT's target_parameters for the adapted ones: their ends where these fit no other. */
weft_status weft__adapter_parameter_targets(const weft__names *all, const weft__names *adapted,
                                            weft__names *out);

/* An adapter of one parameter: A (n R, in), where rows e R ... are expert e's, and B (out, R n),
 * where columns e, e + n, ... are. Temporaries. */
typedef struct weft__adapter_parameter {
    char name[WEFT_NN_PATH]; /* of the parameter */
    weft_array *A, *B;
    double scale;
    int64_t rank;
    bool inner; /* the module's other parameter has one too, and PEFT puts it around this one */
    bool first; /* false: the parameter is that of a stack before */
} weft__adapter_parameter;

/* The adapter of the parameter that the adapted stack at `path` is, or is a half of. */
weft_status weft__adapter_parameter_of(weft_module *tree, const char *path,
                                       weft__adapter_parameter *out);

/* The tensors of a file, by paths of the tree where they are of adapted stacks, else by the file's
 * names. Free also after a failure. The arrays are temporaries. */
typedef struct weft__adapter_tensors {
    weft__names names;
    weft_array **arrays;
} weft__adapter_tensors;

weft_status weft__adapter_read_tensors(weft_module *tree, const weft_safetensors *file,
                                       weft__adapter_tensors *out);
void weft__adapter_tensors_free(weft__adapter_tensors *tensors);

#endif
