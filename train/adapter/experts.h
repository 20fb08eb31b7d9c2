/* train/adapter/experts.h -- adapters of experts in PEFT's format. */
#ifndef WEFT_TRAIN_ADAPTER_EXPERTS_H
#define WEFT_TRAIN_ADAPTER_EXPERTS_H

#include "train/adapter/adapter.h"

/* Lists the paths of all stacks of a tree in `stacks`, adapted or not (may be NULL), and of the
 * adapted ones. */
weft_status weft__adapter_stacks(weft_module *tree, weft__names *stacks, weft__names *adapted);

/* The names that transformers has for the parameters of the stacks, such as
 * "model.layers.0.mlp.experts.gate_up_proj". */
weft_status weft__adapter_parameters(weft_module *tree, weft__names *all, weft__names *adapted);

/* Moves adapted linears that PEFT has to find as parameters ("P.mlp.gate_proj.weight") from
 * `linears` to `adapted`, and adds all of their kind to `all`: in models with experts PEFT 0.21
 * takes these names in target_modules for those of "mlp.experts", and routers are no linears there.
 * With `routers` or other experts only these are moved. DoRA stays, with a warning, since PEFT
 * cannot load it. */
weft_status weft__adapter_move_linears(weft_module *tree, bool routers, weft__names *linears,
                                       weft__names *all, weft__names *adapted);

/* PEFT's target_parameters for the adapted parameters. A suffix is used where it matches no other
 * parameter. */
weft_status weft__adapter_parameter_targets(const weft__names *all, const weft__names *adapted,
                                            weft__names *out);

/* An adapter of one parameter: A (n R, in), where expert e has the R rows from e R on, and B (out,
 * R n), where expert e has the columns e, e + n, ... The arrays are temporaries. */
typedef struct weft__adapter_parameter {
    char name[WEFT_NN_PATH]; /* the name of the parameter */
    weft_array *A, *B;
    double scale;
    int64_t rank;
    bool inner; /* the module's other parameter is adapted too; PEFT wraps this one inside it */
    bool first; /* false: an earlier stack already represents the parameter */
} weft__adapter_parameter;

/* The adapter of the parameter that consists of, or contains, the adapted stack at `path`. */
weft_status weft__adapter_parameter_of(weft_module *tree, const char *path,
                                       weft__adapter_parameter *out);

/* The tensors of a file. Those of adapted stacks are named by their path in the tree, all others by
 * their name in the file. Free it also after a failure. The arrays are temporaries. */
typedef struct weft__adapter_tensors {
    weft__names names;
    weft_array **arrays;
} weft__adapter_tensors;

weft_status weft__adapter_read_tensors(weft_module *tree, const weft_safetensors *file,
                                       weft__adapter_tensors *out);
void weft__adapter_tensors_free(weft__adapter_tensors *tensors);

/* ---- fused.c --------------------------------------------------------------------------------- */

/* Whether the file has adapters of q_proj or up_proj where the tree has one qkv_proj or
 * gate_up_proj. */
bool weft__adapter_has_parts(weft_module *tree, const weft_safetensors *file);
/* Loads such an adapter: the rank of a whole is the sum of its parts'. */
weft_status weft__adapter_load_parts(weft_module *tree, const weft__adapter_config *config,
                                     const weft_safetensors *file, const char *where,
                                     const weft_adapter_options *options);

/* ---- expert_linears.c ----------------------------------------------------------------------- */

/* The factor of the linear's adapter of rank R. */
weft_status weft__adapter_scale_of(const weft__adapter_config *config, const char *linear,
                                   int64_t R, double *out);
/* WEFT_UNSUPPORTED if the adapter has anything but plain adapters of linears; `beside` is what it
 * has these of. */
weft_status weft__adapter_check_linears(const weft__adapter_config *config, const char *where,
                                        const char *beside);

/* Whether the file has adapters of single experts ("P.experts.3.up_proj.lora_A.weight"). */
bool weft__adapter_has_expert_linears(const weft_safetensors *file);
/* Loads such a file. Its dropout is not used. WEFT_UNSUPPORTED if only some experts are adapted,
 * and for anything but linears beside them. */
weft_status weft__adapter_load_expert_linears(weft_module *tree, const weft__adapter_config *config,
                                              const weft_safetensors *file, const char *where,
                                              const weft_adapter_options *options);

#endif
