/* weft/layers.h -- MLX's layers beyond those of nn.h, with MLX's names, arguments and initial
 * values.
 *
 * Arrays are channels last. Layers compute in the promoted dtype of input and parameters.
 * Parameters are float32 and may be cast (weft_nn_cast); field names are the names in checkpoints.
 * Initial values are uniform in +-1/sqrt(in), scales 1 and shifts 0, unless a comment differs.
 *
 * Constructors return a module that the caller owns and frees with weft_nn_free, or NULL with a
 * message for invalid arguments. Call a layer with one input by weft_nn_call, the others by the
 * _call function declared with the constructor. A failed input or a wrong shape gives an error
 * array. NULL options are all zero.
 */
#ifndef WEFT_LAYERS_H
#define WEFT_LAYERS_H

#include "weft/conv.h"
#include "weft/nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Containers and activations ------------------------------------------------------------- */

/* Applies its layers in order: "layers.0", "layers.1", ..., at most `capacity`. Append with
 * weft_nn_sequential_append, which takes ownership of the layer even on failure. */
typedef struct weft_nn_sequential {
    weft_module module;
    weft_module *layers; /* weft_nn_list */
} weft_nn_sequential;
WEFT_API weft_module *weft_nn_sequential_new(int capacity);
WEFT_API void weft_nn_sequential_append(weft_module *sequential, weft_module *layer);
/* A sequential of n layers. Takes ownership of them even on failure. */
WEFT_API weft_module *weft_nn_sequential_of(weft_module *const *layers, int n);

/* Returns its input. */
WEFT_API weft_module *weft_nn_identity_new(void);

typedef weft_array *weft_activation(weft_array *x);

/* An activation function as a layer.
 * new: by MLX's name ("relu", "elu", "softmax", ...), with MLX's default parameter.
 * with: the same with another slope, alpha, bound, threshold or axis.
 * of: any function, with a name for weft_nn_describe that must outlive the module. */
typedef struct weft_nn_activation {
    weft_module module;
    const char *name;
    weft_activation *function;
    weft_array *(*with_number)(weft_array *x, double number);
    weft_array *(*with_axis)(weft_array *x, int axis);
    double number; /* or the axis */
} weft_nn_activation;
WEFT_API weft_module *weft_nn_activation_new(const char *name);
WEFT_API weft_module *weft_nn_activation_with(const char *name, double number);
WEFT_API weft_module *weft_nn_activation_of(const char *name, weft_activation *function);

/* weft_prelu with a weight (n), n = 1 or the length of the last axis, initially `first` (MLX:
 * 0.25). */
typedef struct weft_nn_prelu {
    weft_module module;
    weft_array *weight;
} weft_nn_prelu;
WEFT_API weft_module *weft_nn_prelu_new(int64_t n, double first);

/* y[o] = sum over i and j of a[i] weight[o, j, i] b[j] + bias[o]: a (..., in1), b (..., in2) ->
 * (..., out). weight (out, in2, in1). */
typedef struct weft_nn_bilinear {
    weft_module module;
    weft_array *weight;
    weft_array *bias; /* may be NULL */
} weft_nn_bilinear;
WEFT_API weft_module *weft_nn_bilinear_new(int64_t in1, int64_t in2, int64_t out, bool bias);
WEFT_API weft_array *weft_nn_bilinear_call(weft_module *m, weft_array *a, weft_array *b);

/* ---- Normalization -------------------------------------------------------------------------- */

typedef struct weft_nn_batch_norm_options {
    double eps;         /* 0: 1e-5; below 0: zero */
    double momentum;    /* 0: 0.1; below 0: zero; the share of the new batch in the running
                         * statistics */
    bool no_affine;     /* without weight and bias */
    bool no_statistics; /* no running statistics: always use those of the batch */
} weft_nn_batch_norm_options;

/* (x - mean) / sqrt(var + eps) * weight + bias per channel of x (N, ..., C) (Ioffe & Szegedy 2015).
 * Training uses the statistics of the batch and updates the running ones (with the unbiased
 * variance); inference uses the running ones. Running statistics are saved in checkpoints, never
 * trained, and lazy: evaluate them with the step (weft_nn_eval). */
typedef struct weft_nn_batch_norm {
    weft_module module;
    weft_array *weight, *bias;
    weft_array *running_mean, *running_var; /* NULL with no_statistics */
    double eps, momentum;
} weft_nn_batch_norm;
WEFT_API weft_module *weft_nn_batch_norm_new(int64_t C, const weft_nn_batch_norm_options *options);

typedef struct weft_nn_group_norm_options {
    double eps; /* 0: 1e-5; below 0: zero */
    bool no_affine;
    bool pytorch_compatible; /* groups are consecutive channels; otherwise channel c is in group
                              * c mod groups, as in MLX */
} weft_nn_group_norm_options;

/* Normalizes x (N, ..., C) over all axes but N, in groups of channels (Wu & He 2018). */
typedef struct weft_nn_group_norm {
    weft_module module;
    weft_array *weight, *bias;
    int64_t groups;
    double eps;
    bool pytorch_compatible;
} weft_nn_group_norm;
WEFT_API weft_module *weft_nn_group_norm_new(int64_t groups, int64_t C,
                                             const weft_nn_group_norm_options *options);

/* Normalizes x (N, ..., C) over all axes but N and C, with weight and bias (C) when `affine`
 * (Ulyanov et al. 2016). eps 0: 1e-5; below 0: zero. */
typedef struct weft_nn_instance_norm {
    weft_module module;
    weft_array *weight, *bias;
    double eps;
} weft_nn_instance_norm;
WEFT_API weft_module *weft_nn_instance_norm_new(int64_t C, double eps, bool affine);

/* ---- Positions ------------------------------------------------------------------------------ */

/* Rotary position embedding (weft_rope) of x (..., L, D): row i has position (offset + i) * scale,
 * and the first `dims` of D rotate. traditional: pairs are adjacent elements, otherwise halves.
 * base 0: 10000; scale 0: 1. weft_nn_call uses offset 0. (Su et al. 2021) */
typedef struct weft_nn_rope {
    weft_module module;
    weft_array *frequencies; /* (dims / 2), not trained */
    bool traditional;
} weft_nn_rope;
WEFT_API weft_module *weft_nn_rope_new(int64_t dims, bool traditional, double base, double scale);
WEFT_API weft_array *weft_nn_rope_call(weft_module *m, weft_array *x, int64_t offset);

typedef struct weft_nn_sinusoidal_options {
    double min_freq, max_freq;  /* 0: 0.0001 and 1 */
    double scale;               /* 0: sqrt(2 / dims) */
    bool cos_first, full_turns; /* full_turns: multiply frequencies by 2 pi */
} weft_nn_sinusoidal_options;

/* Positions (...) -> (..., dims): the sines, then the cosines, of the positions times frequencies
 * spaced logarithmically from max_freq to min_freq, all times `scale`. (Vaswani et al. 2017) */
typedef struct weft_nn_sinusoidal {
    weft_module module;
    weft_array *sigmas; /* (dims / 2), not trained */
    double scale;
    bool cos_first;
} weft_nn_sinusoidal;
WEFT_API weft_module *weft_nn_sinusoidal_new(int64_t dims,
                                             const weft_nn_sinusoidal_options *options);

/* The ALiBi bias (1, H, L, S) of `dtype`: minus the distance of query offset + i and key j, times
 * the head's slope. (Press et al. 2021) */
WEFT_API weft_array *weft_alibi(int64_t H, int64_t L, int64_t S, int64_t offset, weft_dtype dtype);
/* Adds that bias, and an additive mask if not NULL, to scores (B, H, L, S). weft_nn_call uses
 * offset 0 and no mask. */
WEFT_API weft_module *weft_nn_alibi_new(void);
WEFT_API weft_array *weft_nn_alibi_call(weft_module *m, weft_array *scores, int64_t offset,
                                        weft_array *mask);

/* ---- Images and sequences of channels ------------------------------------------------------- */

/* A list has one number per spatial axis, or one for all axes; empty: the default. */
typedef struct weft_nn_conv_options {
    weft_dims stride, dilation; /* 1 */
    weft_dims padding;          /* 0, on both sides */
    weft_dims output_padding;   /* 0; transposed convolutions only */
    int64_t groups;             /* 0: 1 */
    bool no_bias;
} weft_nn_conv_options;

/* weft_conv_general or weft_conv_transpose1d, 2d, 3d as a layer: x (N, spatial..., in) ->
 * (N, ..., out). weight (out, kernel..., in / groups) is initially uniform in
 * +-1/sqrt(in / groups * kernel), bias (out) zero. */
typedef struct weft_nn_conv {
    weft_module module;
    weft_array *weight;
    weft_array *bias; /* may be NULL */
    weft_nn_conv_options options;
    int spatial;
    bool transposed;
} weft_nn_conv;
WEFT_API weft_module *weft_nn_conv1d_new(int64_t in, int64_t out, weft_dims kernel,
                                         const weft_nn_conv_options *options);
WEFT_API weft_module *weft_nn_conv2d_new(int64_t in, int64_t out, weft_dims kernel,
                                         const weft_nn_conv_options *options);
WEFT_API weft_module *weft_nn_conv3d_new(int64_t in, int64_t out, weft_dims kernel,
                                         const weft_nn_conv_options *options);
WEFT_API weft_module *weft_nn_conv_transpose1d_new(int64_t in, int64_t out, weft_dims kernel,
                                                   const weft_nn_conv_options *options);
WEFT_API weft_module *weft_nn_conv_transpose2d_new(int64_t in, int64_t out, weft_dims kernel,
                                                   const weft_nn_conv_options *options);
WEFT_API weft_module *weft_nn_conv_transpose3d_new(int64_t in, int64_t out, weft_dims kernel,
                                                   const weft_nn_conv_options *options);

/* weft_max_pool and weft_avg_pool as layers, with the same lists; an empty stride is the window. */
typedef struct weft_nn_pool {
    weft_module module;
    weft_array *(*pool)(weft_array *x, weft_dims window, weft_dims stride, weft_dims padding);
    int spatial;
    weft_dims window, stride, padding;
} weft_nn_pool;
WEFT_API weft_module *weft_nn_max_pool1d_new(weft_dims window, weft_dims stride, weft_dims padding);
WEFT_API weft_module *weft_nn_max_pool2d_new(weft_dims window, weft_dims stride, weft_dims padding);
WEFT_API weft_module *weft_nn_max_pool3d_new(weft_dims window, weft_dims stride, weft_dims padding);
WEFT_API weft_module *weft_nn_avg_pool1d_new(weft_dims window, weft_dims stride, weft_dims padding);
WEFT_API weft_module *weft_nn_avg_pool2d_new(weft_dims window, weft_dims stride, weft_dims padding);
WEFT_API weft_module *weft_nn_avg_pool3d_new(weft_dims window, weft_dims stride, weft_dims padding);

typedef enum weft_upsample_mode {
    WEFT_UPSAMPLE_NEAREST = 0,
    WEFT_UPSAMPLE_LINEAR,
    WEFT_UPSAMPLE_CUBIC /* a = -0.75, with antialias -0.5 */
} weft_upsample_mode;

typedef struct weft_nn_upsample_options {
    weft_upsample_mode mode;
    bool align_corners; /* align the centers of the corner elements instead of their outer edges */
    bool antialias;     /* linear and cubic: widen the filter when downsampling */
} weft_nn_upsample_options;

/* Resizes each spatial axis of x (N, spatial..., C) from L to floor(scale L); n scales, one per
 * axis or one for all. Integers become float32 unless the mode is nearest. */
typedef struct weft_nn_upsample {
    weft_module module;
    double scale[3];
    int n_scales;
    weft_upsample_mode mode;
    bool align_corners, antialias;
} weft_nn_upsample;
WEFT_API weft_module *weft_nn_upsample_new(const double *scale, int n,
                                           const weft_nn_upsample_options *options);

/* ---- Recurrent ------------------------------------------------------------------------------ */

/* Recurrent layers map x (..., L, in) to all hidden states (..., L, H), starting from `hidden`
 * (..., H), or from zeros with NULL and weft_nn_call. Initial values are uniform in +-1/sqrt(H). */

/* x (..., L, in) -> (..., L, H): h' = activation(Wxh x + Whh h + bias); activation NULL: tanh.
 * (Elman 1990) */
typedef struct weft_nn_rnn {
    weft_module module;
    weft_array *Wxh, *Whh;
    weft_array *bias; /* may be NULL */
    weft_activation *activation;
} weft_nn_rnn;
WEFT_API weft_module *weft_nn_rnn_new(int64_t in, int64_t H, bool bias,
                                      weft_activation *activation);
WEFT_API weft_array *weft_nn_rnn_call(weft_module *m, weft_array *x, weft_array *hidden);

/* x (..., L, in) -> (..., L, H): r, z = sigmoid(Wx x + b + Wh h), n = tanh(Wx x + b + r (Wh h +
 * bhn)), h' = (1 - z) n + z h; Wx (3H, in) and Wh (3H, H) hold r, z, n. (Cho et al. 2014) */
typedef struct weft_nn_gru {
    weft_module module;
    weft_array *Wx, *Wh;
    weft_array *b, *bhn; /* may be NULL */
} weft_nn_gru;
WEFT_API weft_module *weft_nn_gru_new(int64_t in, int64_t H, bool bias);
WEFT_API weft_array *weft_nn_gru_call(weft_module *m, weft_array *x, weft_array *hidden);

/* x (..., L, in) -> (..., L, H): i, f, g, o = Wx x + Wh h + bias; c' = sigmoid(f) c + sigmoid(i)
 * tanh(g); h' = sigmoid(o) tanh(c'). Wx (4H, in) and Wh (4H, H) hold i, f, g, o. (Hochreiter &
 * Schmidhuber 1997)
 *
 * The call also takes the initial cell state (..., H), NULL for zeros, and stores all cell states
 * (..., L, H) in *cells unless that is NULL. */
typedef struct weft_nn_lstm {
    weft_module module;
    weft_array *Wx, *Wh;
    weft_array *bias; /* may be NULL */
} weft_nn_lstm;
WEFT_API weft_module *weft_nn_lstm_new(int64_t in, int64_t H, bool bias);
WEFT_API weft_array *weft_nn_lstm_call(weft_module *m, weft_array *x, weft_array *hidden,
                                       weft_array *cell, weft_array **cells);

/* ---- Transformer ---------------------------------------------------------------------------- */

typedef struct weft_nn_attention_options {
    int64_t query_in, key_in, value_in; /* input sizes; 0: dims, dims, key_in */
    int64_t value_dims, out;            /* 0: dims */
    bool bias;
} weft_nn_attention_options;

/* Multi-head attention: queries (B, L, query_in), keys (B, S, key_in) and values (B, S, value_in)
 * -> (B, L, out). The mask is that of weft_attention or NULL. (Vaswani et al. 2017) */
typedef struct weft_nn_multi_head_attention {
    weft_module module;
    weft_module *query_proj, *key_proj, *value_proj, *out_proj;
    int64_t heads;
} weft_nn_multi_head_attention;
WEFT_API weft_module *weft_nn_multi_head_attention_new(int64_t dims, int64_t heads,
                                                       const weft_nn_attention_options *options);
WEFT_API weft_array *weft_nn_multi_head_attention_call(weft_module *m, weft_array *queries,
                                                       weft_array *keys, weft_array *values,
                                                       weft_array *mask);
/* An additive causal mask (N, N) of `dtype`: 0 where key j <= query i, else the dtype's most
 * negative number. */
WEFT_API weft_array *weft_causal_mask(int64_t N, weft_dtype dtype);

typedef struct weft_nn_transformer_options {
    int64_t mlp_dims;            /* 0: 4 dims */
    double dropout;              /* 0: none */
    weft_activation *activation; /* of the MLP; NULL: weft_relu */
    bool norm_last;              /* normalize after the residual addition (post-norm) */
    bool checkpoint;             /* gradient checkpointing: recompute each layer for its gradient */
} weft_nn_transformer_options;

/* Self-attention and an MLP with residual connections: x (B, L, dims) -> (B, L, dims). Masks here
 * and below are those of weft_attention or NULL. (Vaswani et al. 2017) */
typedef struct weft_nn_encoder_layer {
    weft_module module;
    weft_module *attention, *ln1, *ln2, *linear1, *linear2, *dropout1, *dropout2;
    weft_activation *activation;
    bool norm_last;
} weft_nn_encoder_layer;
WEFT_API weft_module *weft_nn_encoder_layer_new(int64_t dims, int64_t heads,
                                                const weft_nn_transformer_options *options);
WEFT_API weft_array *weft_nn_encoder_layer_call(weft_module *m, weft_array *x, weft_array *mask);

/* `n` layers and a LayerNorm: x (B, L, dims) -> (B, L, dims). */
typedef struct weft_nn_encoder {
    weft_module module;
    weft_module *layers, *ln;
    bool checkpoint;
} weft_nn_encoder;
WEFT_API weft_module *weft_nn_encoder_new(int n, int64_t dims, int64_t heads,
                                          const weft_nn_transformer_options *options);
WEFT_API weft_array *weft_nn_encoder_call(weft_module *m, weft_array *x, weft_array *mask);

/* The same with cross-attention to `memory` (B, S, dims) between self-attention and MLP. */
typedef struct weft_nn_decoder_layer {
    weft_module module;
    weft_module *self_attention, *cross_attention, *ln1, *ln2, *ln3, *linear1, *linear2;
    weft_module *dropout1, *dropout2, *dropout3;
    weft_activation *activation;
    bool norm_last;
} weft_nn_decoder_layer;
WEFT_API weft_module *weft_nn_decoder_layer_new(int64_t dims, int64_t heads,
                                                const weft_nn_transformer_options *options);
WEFT_API weft_array *weft_nn_decoder_layer_call(weft_module *m, weft_array *x, weft_array *memory,
                                                weft_array *mask, weft_array *memory_mask);

/* `n` decoder layers and a LayerNorm: x (B, L, dims) with `memory` (B, S, dims) -> (B, L, dims). */
typedef struct weft_nn_decoder {
    weft_module module;
    weft_module *layers, *ln;
    bool checkpoint;
} weft_nn_decoder;
WEFT_API weft_module *weft_nn_decoder_new(int n, int64_t dims, int64_t heads,
                                          const weft_nn_transformer_options *options);
WEFT_API weft_array *weft_nn_decoder_call(weft_module *m, weft_array *x, weft_array *memory,
                                          weft_array *mask, weft_array *memory_mask);

/* An encoder and a decoder: source (B, S, dims) and target (B, L, dims) -> (B, L, dims). MLX's
 * defaults are dims 512, 8 heads and 6 layers each. */
typedef struct weft_nn_transformer {
    weft_module module;
    weft_module *encoder, *decoder;
} weft_nn_transformer;
WEFT_API weft_module *weft_nn_transformer_new(int64_t dims, int64_t heads, int encoder_layers,
                                              int decoder_layers,
                                              const weft_nn_transformer_options *options);
WEFT_API weft_array *weft_nn_transformer_call(weft_module *m, weft_array *source,
                                              weft_array *target, weft_array *source_mask,
                                              weft_array *target_mask, weft_array *memory_mask);

#ifdef __cplusplus
}
#endif
#endif
