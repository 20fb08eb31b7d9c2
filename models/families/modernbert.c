/* models/families/modernbert.c -- ModernBERT (Answer.AI 2024): an encoder with rotary
 * positions, norms before the branches, gated MLPs, and windows in both directions except in every
 * third layer.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/config.h"
#include "models/encoder.h"
#include "models/gguf/arch.h"
#include "models/layers.h"
#include "models/names.h"

typedef struct config {
    int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers, num_attention_heads;
    int64_t max_position_embeddings, local_attention, global_attn_every_n_layers;
    double norm_eps, global_rope_theta, local_rope_theta;
    bool norm_bias, attention_bias, mlp_bias;
    const char *hidden_activation;
} config;

static const weft_config_field fields[] = {
    WEFT_CONFIG_OPTIONAL(INT, config, vocab_size, 50368),
    WEFT_CONFIG_OPTIONAL(INT, config, hidden_size, 768),
    WEFT_CONFIG_OPTIONAL(INT, config, intermediate_size, 1152),
    WEFT_CONFIG_OPTIONAL(INT, config, num_hidden_layers, 22),
    WEFT_CONFIG_OPTIONAL(INT, config, num_attention_heads, 12),
    WEFT_CONFIG_OPTIONAL(INT, config, max_position_embeddings, 8192),
    WEFT_CONFIG_OPTIONAL(INT, config, local_attention, 128),
    WEFT_CONFIG_OPTIONAL(INT, config, global_attn_every_n_layers, 3),
    WEFT_CONFIG_OPTIONAL(DOUBLE, config, norm_eps, 1e-5),
    WEFT_CONFIG_OPTIONAL(DOUBLE, config, global_rope_theta, 160000),
    WEFT_CONFIG_OPTIONAL(DOUBLE, config, local_rope_theta, 10000),
    WEFT_CONFIG_OPTIONAL(BOOL, config, norm_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, config, attention_bias, false),
    WEFT_CONFIG_OPTIONAL(BOOL, config, mlp_bias, false),
    WEFT_CONFIG_TEXT(config, hidden_activation, "gelu"),
};

typedef struct layer {
    weft_module module;
    weft_module *attn_norm; /* NULL in the first layer */
    weft_module *qkv, *attended, *mlp_norm, *gate_up, *down;
    weft_activation *activation;
    int64_t n_heads;
    bool windowed;
} layer;

typedef struct rotation {
    weft_array *frequencies;
    double amplitude;
} rotation;

typedef struct encoder {
    weft_module module;
    weft_module *words, *norm, *layers, *final_norm;
    rotation rotations[2]; /* of layers without and with a window */
    int64_t reach;         /* the farthest token in a window */
    int64_t n_positions;
} encoder;

static const weft_module_type layer_type = {.name = "modernbert_layer"};
static const weft_module_type encoder_type = {.name = "modernbert_encoder"};
static const weft_module_type model_type = {.name = "modernbert"};

/* ---- building ------------------------------------------------------------------------------- */

static weft_status check(const weft_config *file, const config *c)
{
    const weft__encoder_size sizes[] = {
        {"vocab_size", c->vocab_size, 1, INT32_MAX},
        {"hidden_size", c->hidden_size, 1, INT16_MAX},
        {"intermediate_size", c->intermediate_size, 1, INT32_MAX / 2},
        {"num_hidden_layers", c->num_hidden_layers, 1, WEFT__MOST_LAYERS},
        {"num_attention_heads", c->num_attention_heads, 1, INT16_MAX},
        {"max_position_embeddings", c->max_position_embeddings, 1, INT32_MAX},
        {"local_attention", c->local_attention, 2, INT32_MAX},
        {"global_attn_every_n_layers", c->global_attn_every_n_layers, 1, INT32_MAX},
    };
    weft_status status = weft__encoder_check(file, sizes, sizeof sizes / sizeof *sizes);
    if (status == WEFT_OK)
        status = weft__encoder_check_heads(file, c->hidden_size, 2 * c->num_attention_heads);
    if (status == WEFT_OK && !(c->norm_eps > 0))
        status = weft_fail(WEFT_INVALID, "%s: norm_eps: expected a positive number, got %g",
                           weft_config_where(file), c->norm_eps);
    return status;
}

/* Whether a layer has a window: by layer_types, or all except every so-many-th. */
static weft_status is_windowed(const weft_config *file, const config *c, int64_t i, bool *out)
{
    const weft__decoder_config windows = {.num_hidden_layers = c->num_hidden_layers,
                                          .sliding_window = c->local_attention};
    int64_t window = 0;
    *out = i % c->global_attn_every_n_layers != 0;
    if (!weft_config_has(file, "layer_types"))
        return WEFT_OK;
    const weft_status status = weft__layers_window(file, &windows, WEFT__WINDOW_NONE, i, &window);
    *out = window > 0;
    return status;
}

static weft_module *layer_new(const config *c, weft_activation *activation, bool first,
                              bool windowed)
{
    layer *m = weft_nn_new(layer, &layer_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size, F = c->intermediate_size;
    m->activation = activation;
    m->n_heads = c->num_attention_heads;
    m->windowed = windowed;
    if (!first)
        weft_nn_child(m, attn_norm, weft_nn_layer_norm_new(E, c->norm_eps, c->norm_bias));
    weft_nn_add_child(&m->module, "attn.Wqkv", &m->qkv,
                      weft_nn_linear_new(E, 3 * E, c->attention_bias));
    weft_nn_add_child(&m->module, "attn.Wo", &m->attended,
                      weft_nn_linear_new(E, E, c->attention_bias));
    weft_nn_child(m, mlp_norm, weft_nn_layer_norm_new(E, c->norm_eps, c->norm_bias));
    weft_nn_add_child(&m->module, "mlp.Wi", &m->gate_up, weft_nn_linear_new(E, 2 * F, c->mlp_bias));
    weft_nn_add_child(&m->module, "mlp.Wo", &m->down, weft_nn_linear_new(F, E, c->mlp_bias));
    return weft_nn_finish(m);
}

static weft_module *layers_new(const weft_config *file, const config *c)
{
    weft_activation *activation =
        weft__encoder_activation(file, "hidden_activation", c->hidden_activation);
    weft_module *list = activation ? weft_nn_list_new((int)c->num_hidden_layers) : NULL;
    for (int64_t i = 0; list && i < c->num_hidden_layers && !list->failed; i++) {
        bool windowed = false;
        if (is_windowed(file, c, i, &windowed) == WEFT_OK)
            weft_nn_list_append(list, layer_new(c, activation, i == 0, windowed));
        else
            list->failed = true;
    }
    return list ? weft_nn_finish_module(list) : NULL;
}

static void add_rotations(encoder *m, const weft_config *file, const config *c)
{
    const int64_t D = c->hidden_size / c->num_attention_heads;
    for (int i = 0; i < 2 && !m->module.failed; i++) {
        weft_rope_options rope;
        const weft_status status = i == 0 ? weft_config_rope(file, D, c->global_rope_theta, &rope)
                                          : weft__config_sliding_rope(file, D, c->local_rope_theta,
                                                                      c->local_rope_theta, &rope);
        if (status == WEFT_OK && rope.kind != WEFT_ROPE_DEFAULT)
            weft_fail(WEFT_UNSUPPORTED, "%s: rope_type: expected default for this family",
                      weft_config_where(file));
        if (status != WEFT_OK || rope.kind != WEFT_ROPE_DEFAULT)
            m->module.failed = true;
        else
            weft_nn_buffer(m, rotations[i].frequencies,
                           weft_rope_frequencies(&rope, &m->rotations[i].amplitude));
    }
}

static weft_module *encoder_new(const weft_config *file, const config *c)
{
    encoder *m = weft_nn_new(encoder, &encoder_type);
    if (m == NULL)
        return NULL;
    m->reach = c->local_attention / 2;
    m->n_positions = c->max_position_embeddings;
    add_rotations(m, file, c);
    weft_nn_add_child(&m->module, "embeddings.tok_embeddings", &m->words,
                      weft_nn_embedding_new(c->vocab_size, c->hidden_size));
    weft_nn_add_child(&m->module, "embeddings.norm", &m->norm,
                      weft_nn_layer_norm_new(c->hidden_size, c->norm_eps, c->norm_bias));
    weft_nn_child(m, layers, layers_new(file, c));
    weft_nn_child(m, final_norm, weft_nn_layer_norm_new(c->hidden_size, c->norm_eps, c->norm_bias));
    return weft_nn_finish(m);
}

static weft_module *build(const weft_model_family *family, const weft_config *file, bool has_head,
                          weft_model_info *info)
{
    (void)family;
    (void)has_head;
    config c;
    if (weft_config_read(file, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK ||
        check(file, &c) != WEFT_OK)
        return NULL;
    weft__encoder_model *m = weft_nn_new(weft__encoder_model, &model_type);
    if (m == NULL)
        return NULL;
    m->kind = WEFT__HEAD_MODERN;
    m->norm = "model.final_norm.weight";
    weft_nn_child(m, model, encoder_new(file, &c));
    *info = (weft_model_info){
        .n_layers = c.num_hidden_layers,
        .vocab_size = c.vocab_size,
        .hidden_size = c.hidden_size,
        .max_positions = c.max_position_embeddings,
        .encoder = true,
        .takes_first = true,
    };
    return weft_nn_finish(m);
}

/* The matrix of the pretraining's head is not used. */
static bool renamed(void *context, const char *name, char *out, size_t size)
{
    return strncmp(name, "decoder.", 8) != 0 && weft__encoder_rename(context, name, out, size);
}

/* ---- forward -------------------------------------------------------------------------------- */

typedef struct shared {
    const encoder *encoder;
    weft_array *positions; /* (L) or (B, L) */
} shared;

/* q or k (B, L, H, D), rotated */
static weft_array *rotated(const layer *m, weft_array *x, const shared *s)
{
    const rotation *r = &s->encoder->rotations[m->windowed];
    weft_array *frequencies = weft__encoder_here(r->frequencies);
    return weft_rope(x, s->positions, frequencies, false, r->amplitude);
}

static weft_array *attention(layer *m, weft_array *x, const weft__encoder_step *step)
{
    const shared *s = step->extra;
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1), E = weft_dim(x, 2);
    weft_array *all = weft_nn_call(m->qkv, x), *parts[3]; /* (B, L, 3 E) */
    weft_split(all, 3, -1, parts);
    for (int i = 0; i < 3; i++)
        parts[i] = weft_reshape(parts[i], WEFT_DIMS(B, L, m->n_heads, E / m->n_heads));
    const weft_attention_options o = {.window = m->windowed ? s->encoder->reach + 1 : 0};
    weft_array *y = weft__encoder_attention(rotated(m, parts[0], s), rotated(m, parts[1], s),
                                            parts[2], o, step);
    return weft_nn_call(m->attended, weft_flatten(y, 2, 3));
}

static weft_array *layer_forward(weft_module *self, weft_array *x, const weft__encoder_step *step)
{
    layer *m = (layer *)self;
    weft_nn_enter(m);
    x = weft_add(x, attention(m, m->attn_norm ? weft_nn_call(m->attn_norm, x) : x, step));
    weft_array *parts[2]; /* (B, L, F) */
    weft_split(weft_nn_call(m->gate_up, weft_nn_call(m->mlp_norm, x)), 2, -1, parts);
    weft_array *y = weft_multiply(m->activation(parts[0]), parts[1]);
    return weft_nn_leave(m, weft_add(x, weft_nn_call(m->down, y)));
}

static weft_array *forward(encoder *m, weft_array *tokens, const weft_model_call *call)
{
    weft_array *failed = weft__encoder_too_long(tokens, m->n_positions);
    if (failed)
        return failed;
    weft_nn_enter(m);
    weft__encoder_step step = weft__encoder_begin(call);
    shared s = {.encoder = m, .positions = weft__encoder_here(call->positions)};
    if (s.positions == NULL)
        s.positions = weft_arange(0, (double)weft_dim(tokens, 1), 1, WEFT_INT32);
    step.extra = &s;
    weft_array *x = weft_nn_call(m->words, weft__encoder_here(tokens)); /* (B, L, E) */
    x = weft_nn_call(m->norm, x);
    x = weft__encoder_layers(m->layers, layer_forward, x, &step, call->checkpoint);
    return weft_nn_leave(m, weft_nn_call(m->final_norm, x));
}

static weft_array *hidden(weft_module *module, weft_array *tokens, const weft_model_call *call)
{
    weft__encoder_model *m = (weft__encoder_model *)module;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(*weft_nn_find(module, m->norm)));
    weft_nn_enter(m);
    weft_array *x = forward((encoder *)m->model, tokens, call);
    x = weft_nn_leave(m, weft__encoder_pooled(m, x, call));
    weft_set_default_device(before);
    return x;
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

static const weft__tensor_name names[] = {
    {"token_embd.weight", "model.embeddings.tok_embeddings.weight", NULL},
    {"token_embd_norm.weight", "model.embeddings.norm.weight", NULL},
    {"output_norm.weight", "model.final_norm.weight", NULL},
    {"attn_norm", "attn_norm", NULL},
    {"attn_qkv", "attn.Wqkv", NULL},
    {"attn_output", "attn.Wo", NULL},
    {"ffn_norm", "mlp_norm", NULL},
    {"ffn_up", "mlp.Wi", NULL},
    {"ffn_down", "mlp.Wo", NULL},
    {"cls.weight", "head.dense.weight", NULL},
    {"cls.norm.weight", "head.norm.weight", NULL},
    {"cls.output.weight", "classifier.weight", NULL},
    {"cls.output.bias", "classifier.bias", NULL},
    {NULL, NULL, NULL},
};

static weft_status describe(weft__gguf_facts *f)
{
    config c;
    if (weft_config_read(f->config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return weft_error_status();
    const int64_t D = c.hidden_size / c.num_attention_heads;
    weft_status status = weft__gguf_encoder_sizes(
        f, &(weft__decoder_config){.hidden_size = c.hidden_size,
                                   .intermediate_size = c.intermediate_size,
                                   .num_hidden_layers = c.num_hidden_layers,
                                   .num_attention_heads = c.num_attention_heads,
                                   .layer_norm_eps = c.norm_eps});
    for (int64_t i = 0; i < c.num_hidden_layers && status == WEFT_OK; i++) {
        bool windowed = false;
        status = is_windowed(f->config, &c, i, &windowed);
        if (windowed)
            f->layers[i].window = c.local_attention / 2 + 1;
    }
    if (status == WEFT_OK)
        status = weft_config_rope(f->config, D, c.global_rope_theta, &f->ropes[0]);
    return status == WEFT_OK ? weft__config_sliding_rope(f->config, D, c.local_rope_theta,
                                                         c.local_rope_theta, &f->ropes[1])
                             : status;
}

static void read(weft__gguf_reader *r)
{
    weft__gguf_copy(r, "norm_eps", "attention.layer_norm_epsilon");
    weft__gguf_copy(r, "local_attention", "attention.sliding_window");
    const weft_gguf_value *pattern = weft__gguf_value(r, "attention.sliding_window_pattern");
    if (pattern && !pattern->is_array)
        weft__gguf_copy(r, "global_attn_every_n_layers", "attention.sliding_window_pattern");
    if (!pattern && !weft__gguf_value(r, "attention.sliding_window")) /* no layer has a window */
        weft__gguf_add_integer(r, "global_attn_every_n_layers", 1);
    weft__gguf_add_number(
        &r->out, "rope_local_base_freq",
        weft__gguf_number(r, "rope.freq_base_swa", weft__gguf_number(r, "rope.freq_base", 10000)));
    weft__gguf_read_activation(r, "hidden_activation");
    if (weft__gguf_integer(r, "classifier.pooling_type", 1) ==
        1) /* files without it are of means */
        weft__text_format(&r->out, ",\"classifier_pooling\":\"mean\"");
}

static weft_status write(weft__gguf_facts *f)
{
    config c;
    if (weft_config_read(f->config, fields, sizeof fields / sizeof *fields, &c) != WEFT_OK)
        return weft_error_status();
    weft__gguf_put_encoder(f);
    if (c.norm_bias || c.attention_bias || c.mlp_bias ||
        (f->head && weft_config_bool(f->config, "classifier_bias", false)))
        return weft__gguf_refuse(f, "a bias");
    const char *pooling = weft_config_string(f->config, "classifier_pooling", "cls");
    weft__gguf_put_integer(f, "classifier.pooling_type", strcmp(pooling, "mean") == 0 ? 1 : 2);
    const char *activation = weft_config_string(f->config, "classifier_activation", "gelu");
    if (f->head && strcmp(activation, "gelu") != 0)
        return weft__gguf_refuse(f, "an activation of the head other than gelu");
    return weft__gguf_put_activation(f, c.hidden_activation);
}

static const weft__family own = {
    WEFT__FIELDS(fields),
    .defaults = &(const weft__decoder_config){0},
    .names = names,
    .gguf = &(const weft__gguf_arch){.name = "modern-bert",
                                     .layer_norms = true,
                                     .two_rotations = true,
                                     .windows = WEFT__GGUF_SOME,
                                     .two_sided = true,
                                     .classifies = true,
                                     .describe = describe,
                                     .read = read,
                                     .write = write},
};

const weft_model_family weft__family_modernbert = {
    .model_type = "modernbert",
    .architecture = "ModernBertModel",
    .build = build,
    .hidden = hidden,
    .head = weft__encoder_head,
    .rename = renamed,
    .own = &own,
};
