/* backends/vulkan/kernels/rows_copy.c -- kernel rows for copies and casts, by shaders written at
 * run time. */
#include "backends/vulkan/kernels/elementwise.h"
#include "backends/vulkan/kernels/families.h"

#define COPY(name)                                                                                 \
    {                                                                                              \
        .op = name, .layout = WEFT_STRIDED, .fits = weft__vulkan_copy_fits,                        \
        .kernel = weft__vulkan_copy                                                                \
    }

static const weft_kernel_row rows[] = {COPY("cast"), COPY("copy"), COPY("contiguous")};

const weft__vulkan_family weft__vulkan_copies = {rows, sizeof rows / sizeof *rows};
