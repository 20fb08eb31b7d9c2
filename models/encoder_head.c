/* models/encoder_head.c -- encoders that classify texts, by the hidden state of the first token or
 * by the mean: the heads of BERT, RoBERTa and ModernBERT in transformers. */
#include <string.h>

#include "models/config.h"
#include "models/encoder.h"
#include "nn/module.h"
#include "weft/ops.h"

typedef struct part {
    weft_module module;
    weft_module *dense, *norm, *out_proj; /* the last two may be NULL */
} part;

static const weft_module_type part_type = {.name = "classification_head"};

static const weft__naming bert = {"bert.", ""}, roberta = {"roberta.", ""};

const weft__naming *weft__encoder_naming(const weft_module *module)
{
    const weft__encoder_model *m = (const weft__encoder_model *)module;
    return m->kind == WEFT__HEAD_BERT      ? &bert
           : m->kind == WEFT__HEAD_ROBERTA ? &roberta
                                           : &weft__names_text;
}

/* ---- building ------------------------------------------------------------------------------- */

/* Weights from a normal distribution, and biases of zeros. */
static weft_module *linear(int64_t in, int64_t out, bool bias, double deviation)
{
    weft_module *m = weft_nn_linear_new(in, out, bias);
    if (m == NULL)
        return NULL;
    m->unadapted = true;
    weft_array *values = weft_random_normal(NULL, WEFT_DIMS(out, in), 0, deviation, WEFT_FLOAT32);
    weft_status status = weft_set(weft_nn_find(m, "weight"), values);
    if (status == WEFT_OK && bias)
        status = weft_set(weft_nn_find(m, "bias"), weft_zeros(WEFT_DIMS(out), WEFT_FLOAT32));
    if (status == WEFT_OK)
        return m;
    weft_nn_free(m);
    return NULL;
}

static weft_module *roberta_new(int64_t E, int n, double deviation)
{
    part *m = weft_nn_new(part, &part_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, dense, linear(E, E, true, deviation));
    weft_nn_child(m, out_proj, linear(E, n, true, deviation));
    return weft_nn_finish(m);
}

/* A part of the head with values of its own: those of a checkpoint are about to be loaded, or it is
 * new. */
static weft_module *made(const weft_config *config, weft_module *m)
{
    if (m)
        m->whole = !weft__config_has_tensors(config);
    return m;
}

static weft_module *modern_new(const weft_config *config, int64_t E, double deviation)
{
    part *m = weft_nn_new(part, &part_type);
    if (m == NULL)
        return NULL;
    const bool bias = weft_config_bool(config, "classifier_bias", false);
    weft_nn_child(m, dense, made(config, linear(E, E, bias, deviation)));
    weft_nn_child(
        m, norm,
        made(config, weft_nn_layer_norm_new(E, weft_config_double(config, "norm_eps", 1e-5),
                                            weft_config_bool(config, "norm_bias", false))));
    return weft_nn_finish(m);
}

static weft_status read_modern(weft__encoder_model *m, const weft_config *config)
{
    const char *pooling = weft_config_string(config, "classifier_pooling", "cls");
    m->mean = strcmp(pooling, "mean") == 0;
    if (!m->mean && strcmp(pooling, "cls") != 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: classifier_pooling: '%s' is unknown (known: cls, mean)",
                         weft_config_where(config), weft_printable(pooling));
    m->activation =
        weft__encoder_activation(config, "classifier_activation",
                                 weft_config_string(config, "classifier_activation", "gelu"));
    return m->activation ? WEFT_OK : weft_error_status();
}

weft_status weft__encoder_classify(weft_module *module, const weft_config *config, int64_t E, int n)
{
    weft__encoder_model *m = (weft__encoder_model *)module;
    const double deviation = weft_config_double(config, "initializer_range", 0.02);
    weft_status status = m->kind == WEFT__HEAD_MODERN ? read_modern(m, config) : WEFT_OK;
    weft_device *before = weft_default_device();
    if (status != WEFT_OK)
        return status;
    weft_set_default_device(weft_device_of(*weft_nn_find(module, m->norm)));
    weft_scope_open();
    if (m->kind == WEFT__HEAD_BERT && *m->pooler == NULL)
        weft_nn_add_child(m->model, "pooler.dense", m->pooler,
                          made(config, linear(E, E, true, deviation)));
    if (m->kind == WEFT__HEAD_MODERN)
        weft_nn_child(m, head, modern_new(config, E, deviation));
    weft_nn_child(m, classifier,
                  m->kind == WEFT__HEAD_ROBERTA ? roberta_new(E, n, deviation)
                                                : linear(E, n, true, deviation));
    if (m->classifier)
        m->classifier->whole = true;
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return module->failed || m->model->failed ? weft_error_status() : WEFT_OK;
}

/* ---- forward -------------------------------------------------------------------------------- */

/* Rows of x (B, S, E) by their indices (B, n): (B, n, E). */
static weft_array *rows_at(weft_array *x, weft_array *index)
{
    const int64_t B = weft_dim(x, 0), S = weft_dim(x, 1);
    weft_array *row = weft_arange_int(0, B * S, S, WEFT_INT32); /* (B) */
    index = weft_add(index, weft_expand_dims(row, 1));
    weft_array *found = weft_take(weft_flatten(x, 0, 1), weft_flatten(index, 0, 1), 0);
    return weft_reshape(found, WEFT_DIMS(B, weft_dim(index, 1), weft_dim(x, 2)));
}

/* The mean of x (B, L, E) over the tokens in [first, ends), (B, n) each: (B, n, E). */
static weft_array *means(weft_array *x, weft_array *first, weft_array *ends)
{
    const weft_dtype dtype = weft_dtype_of(x);
    x = weft_astype(x, WEFT_FLOAT32);
    weft_array *none = weft_zeros(WEFT_DIMS(weft_dim(x, 0), 1, weft_dim(x, 2)), WEFT_FLOAT32);
    weft_array *both[] = {none, weft_cumsum(x, 1, false, true)};
    weft_array *sums = weft_concatenate(both, 2, 1); /* (B, L + 1, E) */
    weft_array *sum = weft_subtract(rows_at(sums, ends), rows_at(sums, first));
    weft_array *count = weft_astype(weft_subtract(ends, first), WEFT_FLOAT32);
    return weft_astype(weft_divide(sum, weft_expand_dims(count, 2)), dtype);
}

weft_array *weft__encoder_pooled(const weft__encoder_model *m, weft_array *x,
                                 const weft_model_call *call)
{
    if (m->classifier == NULL || !weft_ok(x))
        return x;
    const weft__encoder_step s = weft__encoder_begin(call);
    const int64_t B = weft_dim(x, 0), L = weft_dim(x, 1);
    weft_array *first = s.first ? s.first : weft_zeros(WEFT_DIMS(B, 1), WEFT_INT32);
    weft_array *ends = s.ends      ? s.ends
                       : s.lengths ? weft_expand_dims(weft_astype(s.lengths, WEFT_INT32), 1)
                                   : weft_full(WEFT_DIMS(B, 1), (double)L, WEFT_INT32);
    weft_array *y = m->mean ? means(x, first, ends) : rows_at(x, first);
    return weft_broadcast_to(y, weft_shape(x));
}

weft_array *weft__encoder_head(weft_module *module, weft_array *hidden)
{
    weft__encoder_model *m = (weft__encoder_model *)module;
    if (m->classifier == NULL)
        return weft_error_array("an encoder gives hidden states, no logits of tokens");
    weft_nn_enter(m);
    weft_array *x = hidden;
    part *inner = (part *)(m->kind == WEFT__HEAD_ROBERTA ? m->classifier : m->head);
    if (m->kind == WEFT__HEAD_BERT) {
        x = weft_nn_call(m->classifier, weft_tanh(weft_nn_call(*m->pooler, x)));
        return weft_nn_leave(m, x);
    }
    weft_nn_enter(inner);
    x = weft_nn_call(inner->dense, x);
    x = inner->norm ? weft_nn_call(inner->norm, m->activation(x))
                    : weft_nn_call(inner->out_proj, weft_tanh(x));
    x = weft_nn_leave(inner, x);
    return weft_nn_leave(m, inner->norm ? weft_nn_call(m->classifier, x) : x);
}
