/* backends/vulkan/kernels/attention.h -- shared by the kernels of attention and its gradient. */
#ifndef BACKENDS_VULKAN_KERNELS_ATTENTION_H
#define BACKENDS_VULKAN_KERNELS_ATTENTION_H

#include "backends/vulkan/kernels/nn.h"
#include "weft/op_params.h"

enum {
    ATTENTION_SIDE = 16,       /* workgroups have 16 x 16 threads */
    ATTENTION_COLUMNS = 64,    /* columns per line of 16 threads */
    ATTENTION_MOST_DIMS = 576, /* of latent attention: 512 + 64 */
    ATTENTION_COMMON = 5       /* number of constants common to all shaders */
};

/* Layout as in attention.glsl. */
typedef struct attention_arguments {
    uint64_t q, k, v, mask, lengths, o, lse;
    uint64_t d_o; /* of the forward pass: what attention_append gets */
    uint64_t dq;
    uint64_t dk; /* of the forward pass: the table of pages */
    uint64_t dv, work;
    uint32_t q_at[3], k_at[3], v_at[3], mask_at[4], o_at[3];
    uint32_t d_o_at[3]; /* of the forward pass: pages of a row, the last page */
    uint32_t lse_at[2];
    int32_t L, S, Hk, D, Dv, offset, window, first, chunk, chunks, tiles, pairs;
    int32_t cut;
    weft__vulkan_reals reals; /* scale, softcap */
} attention_arguments;

typedef struct attention {
    const weft_attention_params *params;
    const weft_tensor *q, *k, *v, *mask, *lengths;
    const weft_tensor *pages; /* NULL: none */
    int64_t page, n_pages;    /* keys of a page, and pages of the pool */
    bool appends;             /* of attention_append: k and v are the caches that it writes */
    int64_t B, L, S, H, Hk, G, D, Dv;
    int64_t rows;  /* L G */
    int64_t pairs; /* B Hk */
    bool wide;
    uint32_t subgroup; /* required subgroup size of launches; 0: any */
    double work;       /* of a launch over all pairs of queries and keys; 0: of others */
} attention;

/* The mask is input `mask` of the call, if there is one; lengths follow it. */
attention weft__vulkan_attention_of(const weft_call *call, int mask);
void weft__vulkan_attention_arguments(const attention *a, attention_arguments *out);
void weft__vulkan_attention_strides(const weft_tensor *t, int n, uint32_t *out);

/* Launches with the arguments, the common constants and then `constants`. */
weft_status weft__vulkan_attention_launch(const weft_call *call, const attention *a,
                                          const weft__vulkan_shader *shader,
                                          const attention_arguments *arguments,
                                          const uint32_t *constants, int n, int64_t groups);

/* Items per thread, such that its results of `width` columns fit the registers. */
uint32_t weft__vulkan_attention_own(const attention *a, int64_t items, int64_t width,
                                    uint32_t most);

/* attention_append.c: the operands of attention_append that attention lacks. */
enum { APPEND_V = 3, APPEND_K, APPEND_POSITIONS, APPEND_FREQUENCIES, APPEND_START, APPEND_FIXED };
/* With pages, those are input APPEND_FIXED. */
enum { APPEND_CONSTANTS = 3 };
/* Copies the caches that are not overwritten, and records the operands; 0: failed. */
uint64_t weft__vulkan_attention_append_record(const weft_call *call);
void weft__vulkan_attention_append_constants(const weft_call *call, uint32_t out[APPEND_CONSTANTS]);

/* attention_cores.c: whether matrix cores can be used, which also depends on addresses (d_o: the
 * gradient's input, else NULL); and the launch of a module for `items` own items. The gradient's
 * modules use smaller tiles. */
bool weft__vulkan_attention_fits_cores(const weft_call *call, const attention *a,
                                       const weft_tensor *d_o);
weft_status weft__vulkan_attention_run_cores(const weft_call *call, const attention *a,
                                             const weft__vulkan_shader *module,
                                             attention_arguments *arguments, int64_t items,
                                             bool gradient);

#endif
