/* nn/module.h -- functions shared by the modules. */
#ifndef WEFT_NN_MODULE_H
#define WEFT_NN_MODULE_H

#include "weft/nn.h"

extern const weft_module_type weft__nn_list_type, weft__nn_embedding_type, weft__nn_stack_type;

/* A stack of linears, one per expert, with weight (experts, out, in) and, with `bias`, bias
 * (experts, out), uniform in +-1/sqrt(in). */
weft_module *weft__nn_stack_new(int64_t experts, int64_t in, int64_t out, bool bias);
/* Passes rows `rows` (I) of x (T, in) through the experts `ids` (I): (I, out). NULL rows: all, in
 * order. The stack may have an adapter. */
weft_array *weft__nn_stack_call(weft_module *stack, weft_array *x, weft_array *rows,
                                weft_array *ids);
/* A stack's path in PEFT and transformers: "mlp.experts.up_proj" for "mlp.switch_mlp.up_proj", and
 * with `joined` "gate_up_proj" for gates and ups, which are one parameter there. False: not the
 * path of a stack, or too long. */
bool weft__nn_stack_name(const char *path, bool joined, char *out, size_t size);

/* The parameter of that name, which may be tied; NULL if absent. */
weft_slot *weft__nn_slot(weft_module *m, const char *name);

/* A parameter (or NULL) for a call on x: a copy on x's device if it is on another one. */
static inline weft_array *weft__nn_near(weft_array *parameter, const weft_array *x)
{
    return parameter ? weft_to(parameter, weft_device_of(x)) : NULL;
}

/* Gives a tied slot a copy of the owner's array on the device. */
weft_status weft__nn_copy_tied(weft_slot *slot, weft_device *device);
/* The array of the module's parameter of that name; of a tied slot the copy, if it is current.
 * NULL: absent. */
weft_array *weft__nn_value(weft_module *m, const char *name);

/* The device where calls of the module compute, or of its base if it is an adapter. */
weft_device *weft__nn_device(weft_module *m);

/* Renames the module at a path below m, if there is one. `name` outlives it. */
void weft__nn_rename(weft_module *m, const char *path, const char *name);

/* Whether visitors visit the slot and checkpoints contain it. */
bool weft__nn_is_visited(const weft_slot *slot);

/* Whether a cast to the dtype leaves the slot's array as it is (weft_slot.wide). */
bool weft__nn_stays_wide(const weft_slot *slot, weft_dtype dtype);

/* A visitor that converts float parameters to the dtype at `context`. */
weft_status weft__nn_cast_item(void *context, const weft_nn_item *item);

/* The two steps of weft_nn_save: lists the tensors to save, whose arrays are temporaries, and
 * writes a list. The list is freed also after a failure. `options` must not be NULL. */
weft_status weft__nn_saved(weft_module *m, const weft_nn_save_options *options,
                           weft_named_arrays *out);
weft_status weft__nn_write(const char *path, const weft_named_arrays *list,
                           const weft_nn_save_options *options);

/* Registers a child that stays empty until weft__nn_put_child, which cannot fail, so that a change
 * of a tree cannot stop halfway. False, with m->failed set: out of memory. */
bool weft__nn_reserve_child(weft_module *m, const char *name, weft_module **field);
void weft__nn_put_child(weft_module *m, const char *name, weft_module **field, weft_module *child);

/* dropout.c: the root of m's tree. While its row_keys (rows, 2) are set, dropout in the tree draws
 * a separate mask for each row (axis 0) of arrays with as many rows. The key of a row combines the
 * array's key with the row's, so its mask does not depend on other rows. NULL: one draw for the
 * whole array.
 *
 * Its vector_keys (vectors, 2) do the same for each vector (the last axis) of arrays with as many
 * vectors. These keys are complete and not combined with another. The mask of an output head then
 * does not depend on how many vectors it gets at a time. */
weft_module *weft__nn_root(weft_module *m);

#endif
