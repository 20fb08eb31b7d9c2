/* backends/vulkan/kernels/nn.h -- helpers shared by the neural-network kernels. */
#ifndef BACKENDS_VULKAN_KERNELS_NN_H
#define BACKENDS_VULKAN_KERNELS_NN_H

#include "backends/vulkan/dispatch.h"

/* Parameters of a shader's `real` type: the last members of a push block or record. */
typedef union weft__vulkan_reals {
    float narrow[2];
    double wide[2];
} weft__vulkan_reals;

static inline weft__vulkan_reals weft__vulkan_reals_of(bool wide, double first, double second)
{
    weft__vulkan_reals r = {.wide = {first, second}};
    if (!wide) {
        r = (weft__vulkan_reals){.narrow = {(float)first, (float)second}};
    }
    return r;
}

/* How norm.comp divides a row of a norm: the number of threads, and of 16-byte pieces that each of
 * them keeps; 0: one element at a time. starts: strides of the rows; addresses: of all operands;
 * both combined by OR. */
uint32_t weft__vulkan_norm_pieces(weft_dtype dtype, uint32_t width, uint32_t starts,
                                  uint64_t addresses, uint32_t *threads);

/* product_prologue.c: rms_norm as a prologue (row_norm.glsl). */
typedef struct weft__vulkan_row_norm {
    bool on;
    weft_dtype dtype; /* of the weight */
    uint64_t weight;  /* 0: none */
    float eps, offset;
} weft__vulkan_row_norm;
/* Whether the call's prologue is one, of `rows` rows that a workgroup can keep. */
bool weft__vulkan_row_norm_fits(const weft_call *call, int64_t rows, int64_t width);
weft__vulkan_row_norm weft__vulkan_row_norm_of(const weft_call *call);
/* Sets constants 11 to 14. row: the address of the first row; starts: strides of rows, combined by
 * OR. */
void weft__vulkan_row_norm_constants(const weft__vulkan_row_norm *norm, weft_dtype dtype,
                                     uint64_t row, uint32_t starts, int64_t width,
                                     weft__vulkan_launch *launch);

/* Whether the call is computed in float64: if any operand is float64. */
static inline bool weft__vulkan_is_wide(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const weft_tensor *t = i < call->n_inputs ? &call->in[i] : &call->out[i - call->n_inputs];
        if (t->dtype == WEFT_FLOAT64) {
            return true;
        }
    }
    return false;
}

/* Whether no stride is negative, since shaders use unsigned offsets. */
static inline bool weft__vulkan_is_forward(const weft_tensor *t)
{
    for (int i = 0; i < t->shape.n; i++) {
        if (t->strides[i] < 0 && t->shape.at[i] > 1) {
            return false;
        }
    }
    return true;
}

/* 0 for an operand that is absent or empty. */
static inline uint64_t weft__vulkan_address_or_0(const weft_tensor *t)
{
    return t && weft_tensor_size(t) > 0 ? weft__vulkan_address(t) : 0;
}

bool weft__vulkan_norm_fits(const weft_call *call);
bool weft__vulkan_norm_vjp_fits(const weft_call *call);
int64_t weft__vulkan_norm_vjp_workspace(const weft_call *call);
weft_kernel weft__vulkan_rms_norm, weft__vulkan_layer_norm;
weft_kernel weft__vulkan_rms_norm_vjp, weft__vulkan_layer_norm_vjp;

bool weft__vulkan_glu_vjp_fits(const weft_call *call);
weft_kernel weft__vulkan_glu_vjp;

bool weft__vulkan_rope_fits(const weft_call *call);
bool weft__vulkan_rope_takes_epilogue(const weft_call *call);
bool weft__vulkan_rope_takes_prologue(const weft_call *call);
weft_kernel weft__vulkan_rope;

bool weft__vulkan_gated_delta_fits(const weft_call *call);
weft_kernel weft__vulkan_gated_delta;

bool weft__vulkan_attention_fits(const weft_call *call);
bool weft__vulkan_attention_fits_copies(const weft_call *call);
bool weft__vulkan_attention_pages_fits(const weft_call *call);
bool weft__vulkan_attention_append_fits(const weft_call *call);
int64_t weft__vulkan_attention_workspace(const weft_call *call);
int64_t weft__vulkan_attention_vjp_workspace(const weft_call *call);
weft_kernel weft__vulkan_attention_forward;
weft_kernel weft__vulkan_attention_vjp;

#endif
