/* backends/vulkan/kernels/linear_cross_entropy.h -- the loss fused with the product that computes
 * its logits. */
#ifndef BACKENDS_VULKAN_KERNELS_LINEAR_CROSS_ENTROPY_H
#define BACKENDS_VULKAN_KERNELS_LINEAR_CROSS_ENTROPY_H

#include "weft/backend.h"

/* dense_fits: for inputs made row-major first; encoded_fits: for an encoded weight. */
extern weft_kernel weft__vulkan_linear_cross_entropy;
bool weft__vulkan_linear_cross_entropy_fits(const weft_call *call);
bool weft__vulkan_linear_cross_entropy_dense_fits(const weft_call *call);
bool weft__vulkan_linear_cross_entropy_encoded_fits(const weft_call *call);
int64_t weft__vulkan_linear_cross_entropy_workspace(const weft_call *call);

/* linear_cross_entropy_weight.c: the gradient of the weight. */
extern weft_kernel weft__vulkan_linear_cross_entropy_weight;
bool weft__vulkan_linear_cross_entropy_weight_fits(const weft_call *call);
int64_t weft__vulkan_linear_cross_entropy_weight_workspace(const weft_call *call);

/* Whether the gradients of logits are rounded to bfloat16, for products on matrix cores; float16
 * would lose small probabilities. The first inputs are x and the weight. */
bool weft__vulkan_loss_is_narrow(const weft_call *call);
/* Bytes of the logits at a time. */
int64_t weft__vulkan_loss_room(bool narrow);

/* How the work is divided; 0: the default. */
typedef struct weft__vulkan_loss_limits {
    int64_t logits;  /* bytes of the logits of a slice of rows, or of a block of the weight */
    int64_t decoded; /* bytes of vocabulary entries decoded at a time; at least 256 are decoded */
    int64_t slices;  /* the slices of a chunk, which each decoded block is multiplied with */
    bool narrow;     /* without matrix cores, too: several slices, and gradients in bfloat16 */
} weft__vulkan_loss_limits;

/* For tests, while nothing runs: small limits divide small problems, and without matrix cores as
 * with them. NULL: the defaults. */
void weft__vulkan_limit_losses(const weft__vulkan_loss_limits *limits);

#endif
