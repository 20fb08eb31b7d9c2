/* ops/table.h -- every op of Weft, one line each. Included where OP(name) is defined; the literal is
 * weft_op_<name>. */
#include "ops/elementwise/table.h"

/* conversion (ops/elementwise/cast.c) */
OP(cast)
OP(copy)
OP(complex_abs)
