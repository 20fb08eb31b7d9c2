/* models/encoder.c -- encoders like BERT: embeddings, and layers of attention in both directions.
 */
#include "models/encoder.h"

#include <stdio.h>
#include <string.h>

#include "core/io/text.h"
#include "models/block.h"
#include "models/config.h"
#include "models/names.h"
#include "weft/layers.h"
#include "weft/transforms.h"

typedef struct layer {
    weft_module module;
    weft_module *query, *key, *value, *attended, *attention_norm;
    weft_module *up, *down, *norm;
    weft_activation *activation;
    int64_t n_heads;
} layer;

typedef struct encoder {
    weft_module module;
    weft_module *words, *places, *types, *norm;
    weft_module *layers, *pooler; /* pooler NULL: none */
    int64_t n_places, padding;    /* padding < 0: positions begin at 0 and count all tokens */
} encoder;

static const weft_module_type layer_type = {.name = "encoder_layer"};
static const weft_module_type encoder_type = {.name = "encoder"};
static const weft_module_type model_type = {.name = "encoder_model"};

/* ---- building ------------------------------------------------------------------------------- */

weft_activation *weft__encoder_activation(const weft_config *config, const char *key,
                                          const char *name)
{
    weft_activation *found = weft__activation_find(name);
    if (found == NULL)
        weft_fail(WEFT_UNSUPPORTED, "%s: %s: '%s' is unknown (known: %s)",
                  weft_config_where(config), key, weft_printable(name), weft__activation_names);
    return found;
}

weft_status weft__encoder_check(const weft_config *config, const weft__encoder_size *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        if (sizes[i].value < sizes[i].least || sizes[i].value > sizes[i].most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected %lld to %lld, got %lld",
                             weft_config_where(config), sizes[i].name, (long long)sizes[i].least,
                             (long long)sizes[i].most, (long long)sizes[i].value);
    }
    return WEFT_OK;
}

weft_status weft__encoder_check_heads(const weft_config *config, int64_t E, int64_t H)
{
    return E % H == 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID,
                           "%s: hidden_size: expected a multiple of num_attention_heads %lld, got "
                           "%lld",
                           weft_config_where(config), (long long)H, (long long)E);
}

static weft_status check(const weft_config *config, const weft__encoder_config *c,
                         const weft__encoder_kind *kind)
{
    const char *where = weft_config_where(config);
    const int64_t least = kind->after_padding ? c->pad_token_id + 2 : 1;
    const weft__encoder_size sizes[] = {
        {"vocab_size", c->vocab_size, 1, INT32_MAX},
        {"hidden_size", c->hidden_size, 1, INT32_MAX},
        {"intermediate_size", c->intermediate_size, 1, INT32_MAX},
        {"num_hidden_layers", c->num_hidden_layers, 1, WEFT__MOST_LAYERS},
        {"num_attention_heads", c->num_attention_heads, 1, INT32_MAX},
        {"type_vocab_size", c->type_vocab_size, 1, INT32_MAX},
        {"pad_token_id", c->pad_token_id, kind->after_padding ? 0 : INT32_MIN, INT16_MAX},
        {"max_position_embeddings", c->max_position_embeddings, least, INT32_MAX},
    };
    weft_status status = weft__encoder_check(config, sizes, sizeof sizes / sizeof *sizes);
    if (status == WEFT_OK)
        status = weft__encoder_check_heads(config, c->hidden_size, c->num_attention_heads);
    if (status != WEFT_OK)
        return status;
    if (!(c->layer_norm_eps > 0))
        return weft_fail(WEFT_INVALID, "%s: layer_norm_eps: expected a positive number, got %g",
                         where, c->layer_norm_eps);
    if (strcmp(c->position_embedding_type, "absolute") != 0)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: position_embedding_type: '%s' is unsupported (known: absolute)",
                         where, weft_printable(c->position_embedding_type));
    if (c->is_decoder)
        return weft_fail(WEFT_UNSUPPORTED, "%s: is_decoder: true is unsupported", where);
    return WEFT_OK;
}

static weft_module *layer_new(const weft__encoder_config *c, weft_activation *activation)
{
    layer *m = weft_nn_new(layer, &layer_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size, F = c->intermediate_size;
    m->activation = activation;
    m->n_heads = c->num_attention_heads;
    const struct {
        const char *name;
        weft_module **field;
        int64_t in, out; /* out 0: a norm */
    } parts[] = {
        {"attention.self.query", &m->query, E, E},
        {"attention.self.key", &m->key, E, E},
        {"attention.self.value", &m->value, E, E},
        {"attention.output.dense", &m->attended, E, E},
        {"attention.output.LayerNorm", &m->attention_norm, E, 0},
        {"intermediate.dense", &m->up, E, F},
        {"output.dense", &m->down, F, E},
        {"output.LayerNorm", &m->norm, E, 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        weft_nn_add_child(&m->module, parts[i].name, parts[i].field,
                          parts[i].out ? weft_nn_linear_new(parts[i].in, parts[i].out, true)
                                       : weft_nn_layer_norm_new(E, c->layer_norm_eps, true));
    return weft_nn_finish(m);
}

/* A checkpoint says by its tensors whether there is a pooler; a new model has one. */
static bool has_pooler(const weft_config *config)
{
    return !weft__config_has_tensors(config) ||
           weft__config_tensor(config, "model.pooler.dense.weight", NULL);
}

static weft_module *encoder_new(const weft_config *config, const weft__encoder_config *c,
                                const weft__encoder_kind *kind, weft_activation *activation)
{
    encoder *m = weft_nn_new(encoder, &encoder_type);
    if (m == NULL)
        return NULL;
    const int64_t E = c->hidden_size;
    m->padding = kind->after_padding ? c->pad_token_id : -1;
    m->n_places = c->max_position_embeddings - (m->padding + 1);
    weft_nn_add_child(&m->module, "embeddings.word_embeddings", &m->words,
                      weft_nn_embedding_new(c->vocab_size, E));
    weft_nn_add_child(&m->module, "embeddings.position_embeddings", &m->places,
                      weft_nn_embedding_new(c->max_position_embeddings, E));
    weft_nn_add_child(&m->module, "embeddings.token_type_embeddings", &m->types,
                      weft_nn_embedding_new(c->type_vocab_size, E));
    weft_nn_add_child(&m->module, "embeddings.LayerNorm", &m->norm,
                      weft_nn_layer_norm_new(E, c->layer_norm_eps, true));
    weft_module *list = weft_nn_list_new((int)c->num_hidden_layers);
    for (int64_t i = 0; list && i < c->num_hidden_layers && !list->failed; i++)
        weft_nn_list_append(list, layer_new(c, activation));
    weft_nn_add_child(&m->module, "encoder.layer", &m->layers,
                      list ? weft_nn_finish_module(list) : NULL);
    if (has_pooler(config))
        weft_nn_add_child(&m->module, "pooler.dense", &m->pooler, weft_nn_linear_new(E, E, true));
    return weft_nn_finish(m);
}

weft_module *weft__encoder_build(const weft__encoder_kind *kind, const weft_config *config,
                                 weft_model_info *info)
{
    weft__encoder_config c;
    if (weft_config_read(config, kind->fields, kind->n_fields, &c) != WEFT_OK ||
        check(config, &c, kind) != WEFT_OK)
        return NULL;
    weft_activation *activation = weft__encoder_activation(config, "hidden_act", c.hidden_act);
    weft__encoder_model *m = activation ? weft_nn_new(weft__encoder_model, &model_type) : NULL;
    if (m == NULL)
        return NULL;
    m->kind = kind->after_padding ? WEFT__HEAD_ROBERTA : WEFT__HEAD_BERT;
    m->norm = "model.embeddings.LayerNorm.weight";
    weft_nn_child(m, model, encoder_new(config, &c, kind, activation));
    if (m->model)
        m->pooler = &((encoder *)m->model)->pooler;
    if (m->model)
        *info = (weft_model_info){
            .n_layers = c.num_hidden_layers,
            .vocab_size = c.vocab_size,
            .hidden_size = c.hidden_size,
            .max_positions = ((encoder *)m->model)->n_places,
            .encoder = true,
            .takes_first = true,
        };
    return weft_nn_finish(m);
}

bool weft__encoder_rename(void *context, const char *name, char *out, size_t size)
{
    static const struct {
        const char *old, *now;
    } ends[] = {{".LayerNorm.gamma", ".LayerNorm.weight"}, {".LayerNorm.beta", ".LayerNorm.bias"}};
    (void)context;
    if (weft__tower_of(name) || strncmp(name, "lm_head.", strlen("lm_head.")) == 0 ||
        weft__ends_with(name, "embeddings.position_ids"))
        return false;
    weft__name_path(name, out, size);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (weft__ends_with(out, ends[i].old)) {
            const size_t at = strlen(out) - strlen(ends[i].old);
            snprintf(out + at, size - at, "%s", ends[i].now);
        }
    }
    return true;
}

/* ---- forward -------------------------------------------------------------------------------- */

/* x (B, L, E) through a projection -> (B, L, H, D) */
static weft_array *heads_of(const layer *m, weft_module *projection, weft_array *x)
{
    const weft_dims shape = WEFT_DIMS(weft_dim(x, 0), weft_dim(x, 1), m->n_heads, -1);
    return weft_reshape(weft_nn_call(projection, x), shape);
}

static weft_array *layer_forward(weft_module *self, weft_array *x, const weft__encoder_step *s)
{
    layer *m = (layer *)self;
    weft_nn_enter(m);
    weft_array *q = heads_of(m, m->query, x), *k = heads_of(m, m->key, x);
    weft_array *v = heads_of(m, m->value, x);
    weft_array *y = weft__encoder_attention(q, k, v, (weft_attention_options){0}, s);
    y = weft_flatten(y, 2, 3); /* (B, L, E) */
    x = weft_nn_call(m->attention_norm, weft_add(x, weft_nn_call(m->attended, y)));
    y = weft_nn_call(m->down, m->activation(weft_nn_call(m->up, x)));
    return weft_nn_leave(m, weft_nn_call(m->norm, weft_add(x, y)));
}

/* ---- parts ---------------------------------------------------------------------------------- */

weft_array *weft__encoder_here(weft_array *x)
{
    return x ? weft_to(x, weft_default_device()) : NULL;
}

/* The ends of the sequences whose beginnings are `first` (B, L): for each token the next beginning,
 * or L. */
static weft_array *ends_of(weft_array *first)
{
    const int64_t L = weft_dim(first, 1);
    weft_array *at = weft_arange(0, (double)L, 1, WEFT_INT32);
    weft_array *last = weft_scalar_int(L, WEFT_INT32);
    weft_array *begins = weft_where(weft_equal(first, at), at, last);
    return weft_minimum(weft_cummin(begins, 1, true, false), last);
}

weft__encoder_step weft__encoder_begin(const weft_model_call *call)
{
    weft_array *first = weft__encoder_here(call->first);
    return (weft__encoder_step){.lengths = weft__encoder_here(call->lengths),
                                .first = first,
                                .ends = first ? ends_of(first) : NULL,
                                .records = call->records};
}

/* Failed arrays leave the record empty; the forward pass reports the failure. */
static void record(weft_array *q, weft_array *k, const weft_attention_options *options,
                   const weft__encoder_step *step)
{
    weft_attention_record *r = step->record;
    r->source = r - step->records;
    (void)weft_set(&r->queries, q);
    (void)weft_set(&r->keys, k);
    if (r->with_weights)
        (void)weft_set(&r->weights, weft_attention(weft_astype(q, WEFT_FLOAT32), k,
                                                   weft__identity_values(k), options));
}

weft_array *weft__encoder_attention(weft_array *q, weft_array *k, weft_array *v,
                                    weft_attention_options options, const weft__encoder_step *step)
{
    options.lengths = step->lengths;
    options.first = step->first;
    options.ends = step->ends;
    if (step->record)
        record(q, k, &options, step);
    return weft_attention(q, k, v, &options);
}

typedef struct layer_call {
    weft_module *layer;
    weft__encoder_layer *forward;
    const weft__encoder_step *step;
} layer_call;

static int run_layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    const layer_call *call = context;
    out[0] = call->forward(call->layer, in[0], call->step);
    return 1;
}

weft_array *weft__encoder_layers(weft_module *layers, weft__encoder_layer *forward, weft_array *x,
                                 const weft__encoder_step *step, bool checkpoint)
{
    for (int i = 0; i < weft_nn_list_count(layers); i++) {
        weft__encoder_step own = *step;
        own.record = step->records ? &step->records[i] : NULL;
        layer_call one = {weft_nn_list_at(layers, i), forward, &own};
        weft_array *in = x;
        if (checkpoint)
            weft_checkpoint(run_layer, &one, &in, 1, &x, 1);
        else
            x = forward(one.layer, in, &own);
    }
    return x;
}

weft_array *weft__encoder_too_long(const weft_array *tokens, int64_t positions)
{
    const int64_t L = weft_dim(tokens, 1);
    return L <= positions ? NULL
                          : weft_error_array("encoder: %lld tokens, more than the %lld positions",
                                             (long long)L, (long long)positions);
}

/* ---- forward of BERT ------------------------------------------------------------------------ */

/* The positions of tokens (B, L): (L) or (B, L). */
static weft_array *positions_of(const encoder *m, weft_array *tokens, const weft_model_call *call)
{
    const int64_t L = weft_dim(tokens, 1);
    if (call->positions)
        return weft_add_scalar(call->positions, (double)(m->padding + 1));
    if (m->padding < 0)
        return weft_arange(0, (double)L, 1, WEFT_INT32);
    weft_array *counted = weft_not_equal_scalar(tokens, (double)m->padding);
    counted = weft_astype(counted, WEFT_INT32);
    weft_array *numbers = weft_multiply(weft_cumsum(counted, 1, false, true), counted);
    return weft_add_scalar(numbers, (double)m->padding);
}

static weft_array *embedded(const encoder *m, weft_array *tokens, const weft_model_call *call)
{
    weft_array *x = weft_nn_call(m->words, tokens);                                  /* (B, L, E) */
    weft_array *type = weft_nn_call(m->types, weft_zeros(WEFT_DIMS(1), WEFT_INT32)); /* (1, E) */
    x = weft_add(x, type);
    x = weft_add(x, weft_nn_call(m->places, positions_of(m, tokens, call)));
    return weft_nn_call(m->norm, x);
}

static weft_array *encoder_forward(encoder *m, weft_array *tokens, const weft_model_call *given)
{
    weft_device *device = weft_default_device();
    const weft_model_call call = {.positions = weft__encoder_here(given->positions)};
    const weft__encoder_step s = weft__encoder_begin(given);
    weft_array *failed = weft__encoder_too_long(tokens, m->n_places);
    if (failed)
        return failed;
    weft_nn_enter(m);
    weft_array *x = embedded(m, weft_to(tokens, device), &call); /* (B, L, E) */
    return weft_nn_leave(m,
                         weft__encoder_layers(m->layers, layer_forward, x, &s, given->checkpoint));
}

weft_array *weft__encoder_hidden(weft_module *module, weft_array *tokens,
                                 const weft_model_call *call)
{
    weft__encoder_model *m = (weft__encoder_model *)module;
    weft_device *before = weft_default_device();
    weft_set_default_device(weft_device_of(*weft_nn_find(module, m->norm)));
    weft_nn_enter(m);
    weft_array *x = encoder_forward((encoder *)m->model, tokens, call);
    x = weft_nn_leave(m, weft__encoder_pooled(m, x, call));
    weft_set_default_device(before);
    return x;
}
