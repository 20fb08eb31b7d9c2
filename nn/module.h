/* nn/module.h -- what the files of nn/ share. */
#ifndef WEFT_NN_MODULE_H
#define WEFT_NN_MODULE_H

#include "weft/nn.h"

extern const weft_module_type weft__nn_list_type, weft__nn_embedding_type, weft__nn_stack_type;

/* A linear for each of many experts, with weight (experts, out, in), uniform in +-1/sqrt(in). */
weft_module *weft__nn_stack_new(int64_t experts, int64_t in, int64_t out);
/* Rows `rows` (I) of x (T, in) through the experts `ids` (I): (I, out). NULL rows: all, in order.
 * The stack may have an adapter around it. */
weft_array *weft__nn_stack_call(weft_module *stack, weft_array *x, weft_array *rows,
                                weft_array *ids);
/* A stack's path as PEFT and transformers name it: "mlp.experts.up_proj" for
 * "mlp.switch_mlp.up_proj", and with `joined` "gate_up_proj" for gates and ups, which are one
 * parameter there. False: it is no path of a stack, or too long. */
bool weft__nn_stack_name(const char *path, bool joined, char *out, size_t size);

/* The parameter of that name (tied ones too); NULL when absent. */
weft_slot *weft__nn_slot(weft_module *m, const char *name);

/* Whether visitors see the slot and checkpoints have it. */
bool weft__nn_is_visited(const weft_slot *slot);

/* Converts a parameter of a float dtype to the dtype that context points to: a visitor. */
weft_status weft__nn_cast_item(void *context, const weft_nn_item *item);

/* Registers a field that stays empty until weft__nn_put_child, which cannot fail; so a tree can be
 * changed in one step that cannot stop halfway. False, and m->failed: no memory. */
bool weft__nn_reserve_child(weft_module *m, const char *name, weft_module **field);
void weft__nn_put_child(weft_module *m, const char *name, weft_module **field, weft_module *child);

/* dropout.c: until the next call, dropout of this thread draws each row (axis 0) of an array that
 * has as many rows by itself: its key is what is drawn for the array plus the row's of (rows, 2). A
 * row's mask then does not depend on the rows beside it. Borrowed; NULL: the array as a whole. */
void weft__dropout_rows(weft_array *keys);

/* The same for each vector (the last axis) of an array that has as many: `keys` (vectors, 2) are
 * whole keys, nothing is drawn beside them. A head's mask then does not depend on how many of the
 * vectors it gets at a time. */
void weft__dropout_vectors(weft_array *keys);
weft_array *weft__dropout_row_keys(void); /* those in use, or NULL */

#endif
