/* tools/generate_elementwise_absent.c -- stubs for functions that the generator links but never
 * calls. The generator reads the formulas of op literals; the literals also point to functions that
 * build graphs. These stubs replace the parts of the core that those functions use, so that the
 * generator links without the core, whose kernels it writes.
 */
#include <stdlib.h>

#define ABSENT(name)                                                                               \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
        abort();                                                                                   \
    }

ABSENT(weft__glu_vjp)
ABSENT(weft__shape)
ABSENT(weft__shape_broadcast)
ABSENT(weft__shape_equal)
ABSENT(weft__shape_text)
ABSENT(weft_apply)
ABSENT(weft_apply_elementwise)
ABSENT(weft_astype)
ABSENT(weft_because)
ABSENT(weft_broadcast_to)
ABSENT(weft_dtype_of)
ABSENT(weft_error_array)
ABSENT(weft_from_data)
ABSENT(weft_node_input)
ABSENT(weft_ok)
ABSENT(weft_scalar)
ABSENT(weft_scalar_int)
ABSENT(weft_scope_close_at)
ABSENT(weft_scope_open_at)
ABSENT(weft_scope_open_named)
ABSENT(weft_zeros_like)
