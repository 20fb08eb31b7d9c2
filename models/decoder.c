/* models/decoder.c -- the decoder: embedding, blocks, final norm and output head. */
#include "models/decoder.h"

#include <math.h>
#include <string.h>

#include "core/failure.h"
#include "models/block.h"
#include "models/config.h"
#include "models/family.h"
#include "models/layers.h"
#include "models/placement.h"
#include "nn/module.h"
#include "weft/op.h"
#include "weft/transforms.h"

typedef struct rotation {
    weft_rope_options rope;
    weft_array *frequencies; /* (d/2); NULL: they depend on the length */
    double amplitude;
} rotation;

typedef struct decoder {
    weft_module module;
    weft_module *embed_tokens, *layers, *norm, *extra; /* the last may be NULL */
    const weft__architecture *architecture;
    weft__decoder_config config, *own; /* the second is the family's longer struct */
    rotation rotations[2];             /* for layers without and with a window */
    int64_t n_caches;
    double ignored_partial; /* weft_model_info */
    weft__layer *all;       /* description of each layer */
} decoder;

typedef struct causal_lm {
    weft_module module;
    weft_module *model, *lm_head;
    double softcap;
} causal_lm;

static void decoder_destroy(weft_module *self)
{
    weft_free(((decoder *)self)->all);
    weft_free(((decoder *)self)->own);
}

static const weft_module_type decoder_type = {.name = "decoder", .destroy = decoder_destroy};
static const weft_module_type causal_lm_type = {.name = "causal_lm"};

/* ---- building ------------------------------------------------------------------------------- */

static bool depends_on_length(const weft_rope_options *rope)
{
    return rope->kind == WEFT_ROPE_DYNAMIC || rope->kind == WEFT_ROPE_LONGROPE;
}

static bool is_proportional(const weft__decoder_config *c)
{
    return c->rotation && c->rotation->kind == WEFT_ROPE_PROPORTIONAL;
}

static weft_status read_rotation(const weft_config *config, const weft__decoder_config *c,
                                 const weft__layer *layers, bool sliding, weft_rope_options *out)
{
    int64_t head_dim = c->head_dim;
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        if ((layers[i].window > 0) == sliding)
            head_dim = layers[i].head_dim;
    }
    const bool absent = c->rotation && !weft_config_has(config, "rope_parameters") &&
                        !weft_config_has(config, "rope_scaling");
    const double sliding_theta = is_proportional(c) && !absent ? 0 : c->sliding_theta;
    const weft_status status =
        sliding ? weft__config_sliding_rope(config, head_dim, c->theta, sliding_theta, out)
                : weft_config_rope(config, head_dim, c->theta, out);
    if (status == WEFT_OK && out->kind == WEFT_ROPE_LLAMA3 && out->original_max_position == 0)
        return weft_fail(WEFT_INVALID, "%s: original_max_position_embeddings is missing",
                         weft_config_where(config));
    if (status == WEFT_OK && absent && !(sliding && sliding_theta > 0)) {
        const weft_rope_options read = *out;
        *out = *c->rotation;
        out->head_dim = head_dim;
        out->max_position = read.max_position;
        out->theta = out->theta > 0 ? out->theta : read.theta;
    }
    if (c->original_length > 0 && !weft_config_has(config, "original_max_position_embeddings"))
        out->original_max_position = c->original_length;
    if (status == WEFT_OK && out->partial == 0 && !sliding)
        out->partial = c->partial_rotary_factor;
    return status;
}

/* A family that always rotates the whole head ignores partial_rotary_factor with the default
 * rotation, as transformers does, which fails with another one. GGUF files have no such key. */
static weft_status check_partial(const weft_config *config, const weft__decoder_config *c,
                                 weft_rope_options *rope, double *ignored)
{
    const bool whole =
        rope->partial == 0 || (int64_t)(rope->partial * (double)rope->head_dim) == rope->head_dim;
    const bool known =
        c->partial_rotary_factor > 0 && !(is_proportional(c) && rope->kind == WEFT_ROPE_DEFAULT);
    if (whole || known || weft_config_has(config, "rope_dimension_count"))
        return WEFT_OK;
    if (rope->kind != WEFT_ROPE_DEFAULT)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: partial_rotary_factor %g: expected none with this family and a "
                         "rope_type other than default",
                         weft_config_where(config), rope->partial);
    *ignored = rope->partial;
    rope->partial = 0;
    return WEFT_OK;
}

static weft_module *layers_new(const weft__decoder_config *c, const weft__architecture *a,
                               const weft__layer *layers)
{
    weft_module *list = weft_nn_list_new((int)c->num_hidden_layers);
    for (int64_t i = 0; list && i < c->num_hidden_layers && !list->failed; i++)
        weft_nn_list_append(list, a->block(c, &layers[i]));
    return list ? weft_nn_finish_module(list) : NULL;
}

/* The length from which on longrope's other factors apply, if caches are then computed again; or 0.
 */
static int64_t renews_at(const decoder *m)
{
    const weft_rope_options *rope = &m->rotations[0].rope;
    return m->config.renews && rope->kind == WEFT_ROPE_LONGROPE ? rope->original_max_position : 0;
}

static bool takes_offset(const decoder *m)
{
    return renews_at(m) > 0 ||
           (!depends_on_length(&m->rotations[0].rope) && !depends_on_length(&m->rotations[1].rope));
}

/* Only models/attention.c finds the tokens of each sequence. */
static bool takes_shared(const decoder *m, const weft__layer *layers)
{
    for (int64_t i = 0; i < m->config.num_hidden_layers; i++) {
        if (layers[i].linear || layers[i].n_states > 0)
            return false;
    }
    return !m->config.latent.used && !m->config.bidirectional &&
           !depends_on_length(&m->rotations[0].rope) && !depends_on_length(&m->rotations[1].rope);
}

/* Layers that use other layers' keys and values are the last ones. */
static int64_t count_caches(const weft__layer *layers, int64_t n)
{
    while (n > 0 && layers[n - 1].source != n - 1)
        n--;
    return n > 0 ? layers[n - 1].cache + layers[n - 1].n_caches : 0;
}

static void add_rotations(decoder *m, const weft_config *config, const weft__decoder_config *c,
                          const weft__layer *layers)
{
    for (int i = 0; i < 2 && !m->module.failed; i++) {
        rotation *r = &m->rotations[i];
        if (read_rotation(config, c, layers, i == 1, &r->rope) != WEFT_OK ||
            check_partial(config, c, &r->rope, &m->ignored_partial) != WEFT_OK)
            m->module.failed = true;
        else if (!depends_on_length(&r->rope))
            weft_nn_buffer(m, rotations[i].frequencies,
                           weft_rope_frequencies(&r->rope, &r->amplitude));
    }
}

static weft_module *decoder_new(const weft_config *config, const weft__decoder_config *c,
                                const weft__architecture *a, const weft__layer *layers)
{
    decoder *m = weft_nn_new(decoder, &decoder_type);
    if (m == NULL)
        return NULL;
    m->architecture = a;
    m->config = *c;
    m->n_caches = count_caches(layers, c->num_hidden_layers);
    const size_t size = (size_t)c->num_hidden_layers * sizeof *layers;
    m->all = weft_malloc(size);
    if (m->all)
        memcpy(m->all, layers, size);
    else
        m->module.failed = true;
    add_rotations(m, config, c, layers);
    weft_nn_child(m, embed_tokens, weft_nn_embedding_new(c->vocab_size, c->hidden_size));
    if (a->extra && a->has_extra(config, c))
        weft_nn_add_child(&m->module, "", &m->extra, a->extra(config, c));
    weft_nn_child(m, layers, layers_new(c, a, layers));
    weft_nn_child(m, norm, weft__norm_new(c, c->hidden_size));
    for (const weft__module_name *n = c->modules; n && n->path; n++) {
        if (strcmp(n->path, "model.norm") == 0)
            weft__nn_rename(&m->module, "norm", n->name);
    }
    return weft_nn_finish(m);
}

static weft_module *causal_lm_new(const weft_config *config, const weft__decoder_config *c,
                                  const weft__architecture *a, const weft__layer *layers,
                                  bool has_head)
{
    causal_lm *m = weft_nn_new(causal_lm, &causal_lm_type);
    if (m == NULL)
        return NULL;
    m->softcap = c->final_logit_softcapping;
    weft_scope_open();
    weft_nn_child(m, model, decoder_new(config, c, a, layers));
    weft_nn_child(m, lm_head, weft_nn_linear_new(c->hidden_size, c->vocab_size, false));
    if (!m->module.failed && !has_head &&
        weft_nn_tie(m->lm_head, "weight", ((decoder *)m->model)->embed_tokens, "weight") != WEFT_OK)
        m->module.failed = true;
    weft_scope_close(NULL);
    return weft_nn_finish(m);
}

static weft_module *build(const weft__family *own, const weft_config *config,
                          weft__decoder_config *c, bool has_head, weft_model_info *info)
{
    const weft__architecture *a = own->architecture ? own->architecture : &weft__usual_architecture;
    if (weft_config_read(config, own->fields, own->n_fields, c) != WEFT_OK ||
        weft__layers_check_number(config, c) != WEFT_OK ||
        (own->finish && own->finish(config, c) != WEFT_OK) ||
        weft__layers_check(config, c) != WEFT_OK)
        return NULL;
    weft__layer *layers = weft_calloc((size_t)c->num_hidden_layers, sizeof *layers);
    if (layers == NULL) {
        weft__out_of_memory(weft_config_where(config), "the layers");
        return NULL;
    }
    weft_module *m = NULL;
    if (weft__layers_read(config, c, own->windows, a, layers) == WEFT_OK)
        m = causal_lm_new(config, c, a, layers, has_head);
    *info = (weft_model_info){
        .n_layers = c->num_hidden_layers,
        .n_caches = count_caches(layers, c->num_hidden_layers),
        .vocab_size = c->vocab_size,
        .hidden_size = c->hidden_size,
        .max_positions = weft_config_int(config, "max_position_embeddings", 0),
        .softcap = c->final_logit_softcapping,
        .tied = !has_head,
        .takes_first = true,
        .takes_noise = true,
        .encoder = c->bidirectional,
    };
    if (m && !m->failed) {
        const decoder *d = (decoder *)((causal_lm *)m)->model;
        info->takes_offset = takes_offset(d);
        info->ignored_partial = d->ignored_partial;
        info->renews_at = renews_at(d);
        info->takes_shared = takes_shared(d, layers);
    }
    for (int64_t i = 0; m && i < c->num_hidden_layers; i++)
        info->keeps_states = info->keeps_states || layers[i].n_states > 0;
    weft_free(layers);
    return m;
}

weft_module *weft__decoder_build(const weft_model_family *family, const weft_config *config,
                                 bool has_head, weft_model_info *info)
{
    const size_t size = family->own->size ? family->own->size : sizeof(weft__decoder_config);
    weft__decoder_config *c = weft_malloc(size);
    if (c == NULL) {
        weft__out_of_memory(weft_config_where(config), NULL);
        return NULL;
    }
    memcpy(c, family->own->defaults, size);
    weft_module *m = build(family->own, config, c, has_head, info);
    if (m && !m->failed)
        ((decoder *)((causal_lm *)m)->model)->own = c;
    else
        weft_free(c);
    return m;
}

/* ---- forward -------------------------------------------------------------------------------- */

typedef struct block_call {
    const weft__architecture *architecture;
    weft_module *block;
    const weft__step *step;
} block_call;

static int run_block(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)n_in;
    (void)room;
    const block_call *call = context;
    out[0] = call->architecture->forward(call->block, in[0], call->step, NULL);
    return 1;
}

static weft_array *checkpointed(const decoder *m, weft_module *block, weft_array *x,
                                const weft__step *step)
{
    block_call call = {m->architecture, block, step};
    weft_array *out;
    weft_checkpoint(run_block, &call, &x, 1, &out, 1);
    return out;
}

static weft_array *frequencies_of(const rotation *r, int64_t length, double *amplitude)
{
    weft_rope_options rope = r->rope;
    rope.length = length;
    return weft_rope_frequencies(&rope, amplitude);
}

static void put_rotation(const rotation *r, int64_t length, weft__rotation *out)
{
    *out = (weft__rotation){.frequencies = r->frequencies, .amplitude = r->amplitude};
    if (r->frequencies)
        out->frequencies = weft_to(r->frequencies, weft_default_device());
    else
        out->frequencies = frequencies_of(r, length, &out->amplitude);
}

/* Longrope's rotation of rows with lengths (B). */
static void put_rotations(const rotation *r, weft_array *lengths, weft__rotation *out)
{
    put_rotation(r, 0, out);
    if (r->frequencies)
        return;
    out->longer = frequencies_of(r, INT64_MAX, &out->amplitude);
    out->is_longer = weft_greater_scalar(lengths, (double)r->rope.original_max_position);
    if (weft_dim(lengths, 0) == 1) {
        out->frequencies = weft_where(out->is_longer, out->longer, out->frequencies);
        out->longer = NULL;
    } else {
        out->is_longer = weft_reshape(out->is_longer, WEFT_DIMS(-1, 1, 1, 1));
    }
}

/* 1 + beta ln(1 + floor(position / period)), broadcastable to queries (B, L, H, D). */
static weft_array *query_scale(const decoder *m, weft_array *positions)
{
    weft_array *turns = weft_floor_divide_scalar(positions, (double)m->config.query_period);
    turns = weft_log1p(weft_astype(turns, WEFT_FLOAT32));
    weft_array *scale = weft_add_scalar(weft_scale(turns, m->config.query_beta), 1);
    return weft_expand_dims(weft_expand_dims(scale, -1), -1);
}

/* Positions and frequencies for L new tokens after `offset`, on the default device. */
static weft__step make_step(decoder *m, int64_t offset, int64_t L, const weft_model_call *call)
{
    weft_device *device = weft_default_device();
    weft__step step = {
        .positions = call->positions ? weft_to(call->positions, device) : NULL,
        .mask = call->mask ? weft_to(call->mask, device) : NULL,
        .first = call->first ? weft_to(call->first, device) : NULL,
        .pack = call->pack ? weft_maximum_scalar(weft_to(call->pack, device), 0) : NULL,
        .unpack = call->unpack ? weft_maximum_scalar(weft_to(call->unpack, device), 0) : NULL,
        .offset = call->offset ? weft_to(call->offset, device) : NULL,
    };
    if (step.positions == NULL && step.offset)
        step.positions = weft_add(step.offset, weft_arange(0, (double)L, 1, WEFT_INT32));
    if (step.positions == NULL)
        step.positions = weft_arange((double)offset, (double)(offset + L), 1, WEFT_INT32);
    const int64_t length = call->length > offset + L ? call->length : offset + L;
    for (int i = 0; i < 2; i++) {
        if (step.offset)
            put_rotations(&m->rotations[i], weft_add_scalar(step.offset, (double)L),
                          &step.rotations[i]);
        else
            put_rotation(&m->rotations[i], length, &step.rotations[i]);
    }
    if (m->config.bidirectional)
        step.around = weft__encoder_begin(call);
    if (m->config.query_beta != 0)
        step.query_scale = query_scale(m, step.positions);
    return step;
}

/* A failed array leaves the summary empty; the forward pass reports the failure. */
static void summarize(weft_array *x, weft_layer_summary *summary)
{
    weft_array *squares = weft_square(weft_astype(x, WEFT_FLOAT32)); /* (B, L, E) */
    (void)weft_set(&summary->rms, weft_sqrt(weft_mean(squares, WEFT_DIMS(-1), false)));
}

/* The first cache of a layer; NULL: it has none. */
static weft_cache *cache_of(const decoder *m, const weft__layer *layer, const weft_model_call *call)
{
    return layer->n_caches > 0 && layer->cache < m->n_caches ? call->caches[layer->cache] : NULL;
}

/* Runs the layers in order, each on its own device. Shared arrays are moved when the device
 * changes, and new ones, such as caches, are created on the layer's device. Layers in training
 * whose weights are streamed are checkpoints, since the graph would hold each copy until the
 * gradient. */
static weft_array *through_layers(decoder *m, weft_array *x, int64_t L, weft_array *extra,
                                  weft_cache_view *kept, const weft_model_call *call)
{
    const weft__architecture *a = m->architecture;
    const int64_t offset = call->caches ? weft_cache_offset(call->caches[0]) : 0;
    weft_device *before = weft_default_device(), *device = NULL;
    weft__step step = {0};
    for (int i = 0; i < weft_nn_list_count(m->layers); i++) {
        weft_module *block = weft_nn_list_at(m->layers, i);
        weft_device *there = weft__placement_device(block);
        if (there != device) {
            device = there;
            weft_set_default_device(device);
            step = make_step(m, offset, L, call);
            step.extra = extra ? weft_to(extra, device) : NULL;
            step.kept = kept;
            step.caches = call->caches;
            step.records = call->records;
            x = weft_to(x, device);
        }
        step.summary = call->summaries ? &call->summaries[i] : NULL;
        if (call->caches)
            x = a->forward(block, x, &step, cache_of(m, &m->all[i], call));
        else if (call->checkpoint || (block->training && weft__placement_streams(block)))
            x = checkpointed(m, block, x, &step);
        else
            x = a->forward(block, x, &step, NULL);
        if (call->summaries)
            summarize(x, &call->summaries[i]);
    }
    weft_set_default_device(before);
    return x;
}

/* Embeddings (B, L, E) in the dtype of the norms, which is the model's; encoded ones may have
 * another. The scale is rounded to the embedding's dtype, as in transformers. */
static weft_array *embedded(decoder *m, weft_array *tokens)
{
    weft_array *x = weft__call_on_its_device(m->embed_tokens, tokens);
    if (m->config.embedding_scale != 0) {
        weft_array *scale = weft_scalar(m->config.embedding_scale, weft_dtype_of(x));
        x = weft_multiply(x, weft_to(scale, weft_device_of(x)));
    }
    return weft_astype(x, weft_dtype_of(weft__norm_weight(m->norm)));
}

/* x (B, L, E) plus noise that is uniform in +-alpha / sqrt(L E). */
static weft_array *with_noise(weft_array *x, double alpha)
{
    const double bound = alpha / sqrt((double)(weft_dim(x, 1) * weft_dim(x, 2)));
    weft_array *noise = weft_random_uniform(NULL, weft_shape(x), -bound, bound, WEFT_FLOAT32);
    return weft_add(x, weft_to(weft_astype(noise, weft_dtype_of(x)), weft_device_of(x)));
}

static weft_array *decoder_forward(decoder *m, weft_array *tokens, const weft_model_call *call)
{
    if (call->offset && !takes_offset(m))
        return weft_error_array(
            "decoder: the rotation depends on the length, which an offset in an "
            "array does not say");
    const int64_t held = call->caches ? weft_cache_offset(call->caches[0]) : 0;
    const int64_t most = renews_at(m);
    if (call->offset == NULL && held > 0 && held <= most && held + weft_dim(tokens, 1) > most &&
        call->length <= most)
        return weft_error_array("decoder: the caches hold %lld tokens of a sequence that becomes "
                                "longer than original_max_position_embeddings %lld: compute it "
                                "again from its start",
                                (long long)held, (long long)most);
    const size_t n = (size_t)weft_nn_list_count(m->layers);
    weft_cache_view *kept = weft_calloc(n, sizeof *kept);
    if (kept == NULL)
        return weft__memory_error("decoder", "layers");
    weft_nn_enter(m);
    weft_array *x = embedded(m, tokens), *extra = NULL; /* (B, L, E) */
    if (call->embedding_noise > 0)
        x = with_noise(x, call->embedding_noise);
    if (m->extra)
        extra = m->architecture->prepare(m->extra, tokens, x);
    x = through_layers(m, x, weft_dim(tokens, 1), extra, kept, call);
    for (size_t i = 0; i < n; i++)
        weft__view_drop(&kept[i]);
    weft_free(kept);
    x = weft__call_on_its_device(m->norm, x);
    return weft_nn_leave(m,
                         m->config.hidden_scale != 0 ? weft_scale(x, m->config.hidden_scale) : x);
}

weft_array *weft__decoder_hidden(weft_module *module, weft_array *tokens,
                                 const weft_model_call *call)
{
    causal_lm *m = (causal_lm *)module;
    weft_nn_enter(m);
    return weft_nn_leave(m, decoder_forward((decoder *)m->model, tokens, call));
}

weft_array *weft__decoder_head(weft_module *module, weft_array *hidden)
{
    causal_lm *m = (causal_lm *)module;
    weft_nn_enter(m);
    weft_array *logits = weft__call_on_its_device(m->lm_head, hidden);
    return weft_nn_leave(m, m->softcap > 0 ? weft_softcap(logits, m->softcap) : logits);
}

void weft__decoder_set_head(weft_module *module, const char *name, weft_module *head)
{
    causal_lm *m = (causal_lm *)module;
    weft_nn_free(m->lm_head);
    for (int i = 0; i < module->n_children; i++) {
        if (module->children[i].address == &m->lm_head)
            module->children[i].name = name;
    }
    weft__nn_put_child(module, name, &m->lm_head, head);
    m->softcap = 0;
    ((decoder *)m->model)->config.hidden_scale = 0; /* of the input of lm_head only */
}

/* NULL if the head has an adapter, since the matrix alone does not determine the logits then. */
weft_array *weft__decoder_head_weight(weft_module *module)
{
    causal_lm *m = (causal_lm *)module;
    return m->lm_head->type == &weft_nn_linear_type
               ? weft_to(weft__nn_value(m->lm_head, "weight"), weft__nn_device(m->lm_head))
               : NULL;
}

/* Of a layer with two caches the first one holds the states. */
void weft__decoder_attention(weft_module *module, int64_t cache, weft_layer_attention *out)
{
    const decoder *m = (const decoder *)((causal_lm *)module)->model;
    const weft__layer *layer = m->all;
    while (cache >= layer->cache + layer->n_caches)
        layer++;
    weft_module *block = weft_nn_list_at(m->layers, (int)layer->index);
    *out = (weft_layer_attention){
        .window = layer->window,
        .n_kv_heads = layer->n_kv_heads,
        .head_dim = layer->head_dim,
        .dtype = weft_dtype_of(weft__norm_weight(m->norm)),
        .device = weft__placement_device(block),
        .n_states = cache == layer->cache ? layer->n_states : 0,
    };
    for (int i = 0; i < out->n_states; i++)
        out->states[i] = layer->states[i];
    if (m->config.latent.used) {
        out->n_kv_heads = 1;
        out->latent = m->config.latent.kv_lora_rank;
        out->head_dim += out->latent;
    }
}

weft__decoder_facts weft__decoder_facts_of(const weft_module *module)
{
    const decoder *m = (const decoder *)((const causal_lm *)module)->model;
    return (weft__decoder_facts){m->own, m->all, {&m->rotations[0].rope, &m->rotations[1].rope}};
}
