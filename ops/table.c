/* ops/table.c -- the list of all ops, and the ops that the core needs. */
#include "core/builtin.h"

#define OP(name) extern const weft_op weft_op_##name;
#include "ops/table.h"
#undef OP

const weft_op *const weft__op_table[] = {
#define OP(name) &weft_op_##name,
#include "ops/table.h"
#undef OP
};

const int weft__op_table_size = sizeof weft__op_table / sizeof *weft__op_table;

const weft_builtins weft__builtins = {
    .cast = &weft_op_cast,
    .copy = &weft_op_copy,
    .broadcast = &weft_op_broadcast_to,
    .full = &weft_op_full,
    .add = &weft_op_add,
    .rope = &weft_op_rope,
    .slice_update = &weft_op_slice_update,
    .attention = &weft_op_attention,
    .attention_append = &weft_op_attention_append,
    .reshape = &weft_op_reshape,
    .transpose = &weft_op_transpose,
    .put_along_axis = &weft_op_put_along_axis,
    .attention_pages = &weft_op_attention_pages,
};
