/* backends/vulkan/spirv/writer.h -- the shader of an elementwise tape, written at run time. */
#ifndef BACKENDS_VULKAN_SPIRV_WRITER_H
#define BACKENDS_VULKAN_SPIRV_WRITER_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv/words.h"

/* How an invocation finds an operand's elements. */
typedef enum spirv_place {
    SPIRV_DENSE, /* where the output has them */
    SPIRV_WALK,  /* by the table of the walk */
    SPIRV_ONE    /* one element for all */
} spirv_place;

/* A shader: the tape, and how its operands lie. `tape` with no steps moves or converts operand 0.
 */
typedef struct spirv_plan {
    const weft_tape *tape;
    int n_in;
    weft_dtype in[WEFT_MAX_OPERANDS], out;
    unsigned char place[WEFT_MAX_OPERANDS]; /* spirv_place */
    /* Of a group of four: the operand has one element for all four. */
    bool splat[WEFT_MAX_OPERANDS];
    int lanes; /* elements of an invocation: 1 or 4 */
} spirv_plan;

/* What the shader needs of the device. */
typedef struct spirv_needs {
    bool float64, int64;
} spirv_needs;

spirv_needs weft__spirv_needs(const spirv_plan *plan);

/* The plan's module; false with a message when there is no memory. */
bool weft__spirv_write(const spirv_plan *plan, spirv_words *out);

#endif
