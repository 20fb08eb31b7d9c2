/* core/builtin.h -- the ops that the core itself needs, and the list of all ops. Both tables are
 * defined in ops/table.c. */
#ifndef CORE_BUILTIN_H
#define CORE_BUILTIN_H

#include "weft/op.h"

typedef struct weft_builtins {
    const weft_op *cast;      /* weft_cast_params */
    const weft_op *copy;      /* row-major copy of its input */
    const weft_op *broadcast; /* weft_shape_params */
    const weft_op *full;      /* weft_full_params */
    const weft_op *add;
    /* compile/append.c: the ops that are joined, and what they become */
    const weft_op *rope, *slice_update, *attention, *attention_append;
    const weft_op *reshape, *transpose, *put_along_axis, *attention_pages;
} weft_builtins;

extern const weft_builtins weft__builtins;
extern const weft_op *const weft__op_table[];
extern const int weft__op_table_size;

#endif
