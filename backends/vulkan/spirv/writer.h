/* backends/vulkan/spirv/writer.h -- writes the shader of an elementwise tape at run time. */
#ifndef BACKENDS_VULKAN_SPIRV_WRITER_H
#define BACKENDS_VULKAN_SPIRV_WRITER_H

#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/spirv/words.h"

/* How an invocation addresses an operand's elements. */
typedef enum spirv_place {
    SPIRV_DENSE, /* with the output's layout */
    SPIRV_WALK,  /* through the table of strides */
    SPIRV_ONE    /* one element for all */
} spirv_place;

/* A shader: the tape, and the layouts of its operands. A tape without steps moves or converts
 * operand 0. */
typedef struct spirv_plan {
    const weft_tape *tape;
    int n_in;
    weft_dtype in[WEFT_MAX_OPERANDS], out;
    unsigned char place[WEFT_MAX_OPERANDS]; /* spirv_place */
    /* For groups of four: the operand has one element for all four. */
    bool splat[WEFT_MAX_OPERANDS];
    int lanes; /* elements per invocation: 1 or 4 */
} spirv_plan;

/* Device features that the shader needs. */
typedef struct spirv_needs {
    bool float64, int64;
} spirv_needs;

spirv_needs weft__spirv_needs(const spirv_plan *plan);

/* Writes the plan's module; false with a message when out of memory. */
bool weft__spirv_write(const spirv_plan *plan, spirv_words *out);

#endif
