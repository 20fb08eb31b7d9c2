/* backends/vulkan/kernels/families.h -- the kernel rows of each family, which rows.c joins. */
#ifndef BACKENDS_VULKAN_KERNELS_FAMILIES_H
#define BACKENDS_VULKAN_KERNELS_FAMILIES_H

#include "weft/backend.h"

typedef struct weft__vulkan_family {
    const weft_kernel_row *rows;
    int n_rows;
} weft__vulkan_family;

extern const weft__vulkan_family weft__vulkan_copies;       /* rows_copy.c */
extern const weft__vulkan_family weft__vulkan_structure;    /* rows_structure.c */
extern const weft__vulkan_family weft__vulkan_reductions;   /* rows_reduce.c */
extern const weft__vulkan_family weft__vulkan_products;     /* rows_products.c */
extern const weft__vulkan_family weft__vulkan_quantized;    /* quantized.c */
extern const weft__vulkan_family weft__vulkan_norms;        /* rows_norms.c */
extern const weft__vulkan_family weft__vulkan_attention;    /* rows_attention.c */
extern const weft__vulkan_family weft__vulkan_losses;       /* rows_losses.c */
extern const weft__vulkan_family weft__vulkan_convolutions; /* conv.c */
extern const weft__vulkan_family weft__vulkan_gathered;     /* gather_mm.c */

#endif
