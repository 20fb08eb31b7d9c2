/* models/decoder.c -- embedding, blocks, final norm and output head. */
#include "models/decoder.h"

#include <string.h>

#include "models/block.h"
#include "models/config.h"
#include "models/placement.h"
#include "weft/transforms.h"

enum { MOST_LAYERS = 4096 };

typedef struct decoder {
    weft_module module;
    weft_module *embed_tokens, *layers, *norm;
    weft_array *frequencies; /* (d/2); NULL: they depend on the length */
    double amplitude;
    weft_rope_options rope;
} decoder;

typedef struct causal_lm {
    weft_module module;
    weft_module *model, *lm_head;
} causal_lm;

static const weft_module_type decoder_type = {.name = "decoder"};
static const weft_module_type causal_lm_type = {.name = "causal_lm"};

/* ---- configuration -------------------------------------------------------------------------- */

static weft_status check_positive(const weft_config *config, const weft__decoder_config *c)
{
    const struct {
        const char *name;
        int64_t value;
        int most; /* keeps every product of two sizes within 64 bits */
    } sizes[] = {
        {"vocab_size", c->vocab_size, INT32_MAX},
        {"hidden_size", c->hidden_size, INT32_MAX},
        {"intermediate_size", c->intermediate_size, INT32_MAX},
        {"num_hidden_layers", c->num_hidden_layers, MOST_LAYERS},
        {"num_attention_heads", c->num_attention_heads, INT32_MAX},
        {"num_key_value_heads", c->num_key_value_heads, INT32_MAX},
        {"head_dim", c->head_dim, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return weft_fail(WEFT_INVALID, "%s: %s: expected 1 to %d, got %lld",
                             weft_config_where(config), sizes[i].name, sizes[i].most,
                             (long long)sizes[i].value);
    }
    return WEFT_OK;
}

static weft_status check_config(const weft_config *config, weft__decoder_config *c)
{
    const char *where = weft_config_where(config);
    if (c->num_key_value_heads == 0)
        c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim == 0 && c->num_attention_heads > 0)
        c->head_dim = c->hidden_size / c->num_attention_heads;
    const weft_status status = check_positive(config, c);
    if (status != WEFT_OK)
        return status;
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return weft_fail(
            WEFT_INVALID,
            "%s: num_attention_heads: expected a multiple of num_key_value_heads %lld, "
            "got %lld",
            where, (long long)c->num_key_value_heads, (long long)c->num_attention_heads);
    if (c->head_dim % 2 != 0)
        return weft_fail(WEFT_INVALID, "%s: head_dim: expected an even number, got %lld", where,
                         (long long)c->head_dim);
    if (!(c->rms_norm_eps > 0))
        return weft_fail(WEFT_INVALID, "%s: rms_norm_eps: expected a positive number, got %g",
                         where, c->rms_norm_eps);
    if (!weft__activation_known(c->hidden_act))
        return weft_fail(WEFT_UNSUPPORTED, "%s: hidden_act: '%s' is unknown (known: %s)", where,
                         c->hidden_act, weft__activation_names);
    return WEFT_OK;
}

/* The window of a layer that config.json's layer_types calls `type`. */
static weft_status named_window(const weft__json *at, const weft__decoder_config *c,
                                int64_t *window)
{
    const char *type;
    const weft_status status = weft__json_as_string(at, &type, NULL);
    if (status != WEFT_OK)
        return status;
    if (strcmp(type, "full_attention") == 0) {
        *window = 0;
        return WEFT_OK;
    }
    if (strcmp(type, "sliding_attention") != 0)
        return weft__json_fail(at, WEFT_UNSUPPORTED,
                               "'%s' is unknown (known: full_attention, sliding_attention)", type);
    if (c->sliding_window < 1)
        return weft__json_fail(at, WEFT_INVALID,
                               "sliding_attention needs a positive sliding_window");
    *window = c->sliding_window;
    return WEFT_OK;
}

static weft_status layer_window(const weft_config *config, const weft__decoder_config *c,
                                weft__window_rule rule, int64_t layer, int64_t *window)
{
    const weft__json types = weft__config_at(config, "layer_types");
    if (types.value) {
        weft__json at;
        size_t n;
        weft_status status = weft__json_length(&types, &n);
        if (status == WEFT_OK && n != (size_t)c->num_hidden_layers)
            status = weft__json_fail(&types, WEFT_INVALID, "expected %lld layers, got %zu",
                                     (long long)c->num_hidden_layers, n);
        if (status == WEFT_OK)
            status = weft__json_at(&types, (size_t)layer, &at);
        return status == WEFT_OK ? named_window(&at, c, window) : status;
    }
    const bool slides =
        rule == WEFT__WINDOW_ALL ||
        (rule == WEFT__WINDOW_LATE && c->use_sliding_window && layer >= c->max_window_layers);
    *window = slides && c->sliding_window > 0 ? c->sliding_window : 0;
    return WEFT_OK;
}

/* ---- building ------------------------------------------------------------------------------- */

static bool depends_on_length(const weft_rope_options *rope)
{
    return rope->kind == WEFT_ROPE_DYNAMIC || rope->kind == WEFT_ROPE_LONGROPE;
}

static weft_module *layers_new(const weft_config *config, const weft__decoder_config *c,
                               weft__window_rule rule)
{
    weft_module *list = weft_nn_list_new((int)c->num_hidden_layers);
    for (int64_t i = 0; list && i < c->num_hidden_layers && !list->failed; i++) {
        int64_t window = 0;
        if (layer_window(config, c, rule, i, &window) == WEFT_OK)
            weft_nn_list_append(list, weft__block_new(c, window));
        else
            list->failed = true;
    }
    return list ? weft_nn_finish_module(list) : NULL;
}

static weft_module *decoder_new(const weft_config *config, const weft__decoder_config *c,
                                weft__window_rule windows)
{
    decoder *m = weft_nn_new(decoder, &decoder_type);
    if (m == NULL)
        return NULL;
    if (weft_config_rope(config, c->head_dim, c->theta, &m->rope) != WEFT_OK)
        m->module.failed = true;
    else if (!depends_on_length(&m->rope))
        weft_nn_buffer(m, frequencies, weft_rope_frequencies(&m->rope, &m->amplitude));
    weft_nn_child(m, embed_tokens, weft_nn_embedding_new(c->vocab_size, c->hidden_size));
    weft_nn_child(m, layers, layers_new(config, c, windows));
    weft_nn_child(m, norm, weft_nn_rms_norm_new(c->hidden_size, c->rms_norm_eps));
    return weft_nn_finish(m);
}

weft_module *weft__decoder_new(const weft_config *config, weft__decoder_config *c,
                               weft__window_rule windows, bool has_head, weft_model_info *info)
{
    if (check_config(config, c) != WEFT_OK)
        return NULL;
    causal_lm *m = weft_nn_new(causal_lm, &causal_lm_type);
    if (m == NULL)
        return NULL;
    weft_scope_open();
    weft_nn_child(m, model, decoder_new(config, c, windows));
    weft_nn_child(m, lm_head, weft_nn_linear_new(c->hidden_size, c->vocab_size, false));
    if (!m->module.failed && !has_head &&
        weft_nn_tie(m->lm_head, "weight", ((decoder *)m->model)->embed_tokens, "weight") != WEFT_OK)
        m->module.failed = true;
    weft_scope_close(NULL);
    *info = (weft_model_info){
        .n_layers = c->num_hidden_layers,
        .vocab_size = c->vocab_size,
        .hidden_size = c->hidden_size,
        .max_positions = weft_config_int(config, "max_position_embeddings", 0),
        .tied = !has_head,
    };
    return weft_nn_finish(m);
}

/* ---- forward -------------------------------------------------------------------------------- */

typedef struct block_call {
    weft_module *block;
    const weft__step *step;
} block_call;

static void run_block(void *context, weft_array *const *in, int n_in, weft_array **out, int n_out)
{
    (void)n_in;
    (void)n_out;
    const block_call *call = context;
    out[0] = weft__block_forward(call->block, in[0], call->step, NULL);
}

static weft_array *checkpointed(weft_module *block, weft_array *x, const weft__step *step)
{
    block_call call = {block, step};
    weft_array *out;
    weft_checkpoint(run_block, &call, &x, 1, &out, 1);
    return out;
}

/* Positions and frequencies for L new tokens behind `offset`, on the default device. */
static weft__step make_step(decoder *m, int64_t offset, int64_t L, const weft_model_call *call)
{
    weft_device *device = weft_default_device();
    weft__step step = {
        .positions = call->positions ? weft_to(call->positions, device) : NULL,
        .frequencies = m->frequencies ? weft_to(m->frequencies, device) : NULL,
        .amplitude = m->amplitude,
        .mask = call->mask ? weft_to(call->mask, device) : NULL,
    };
    if (step.positions == NULL)
        step.positions = weft_arange((double)offset, (double)(offset + L), 1, WEFT_INT32);
    if (step.frequencies == NULL) {
        weft_rope_options rope = m->rope;
        rope.length = offset + L;
        step.frequencies = weft_rope_frequencies(&rope, &step.amplitude);
    }
    return step;
}

/* One layer after another, each on its own device: what they have in common is made anew where the
 * device changes, and so is what they make themselves, caches for one. */
static weft_array *through_layers(decoder *m, weft_array *x, int64_t L, const weft_model_call *call)
{
    const int64_t offset = call->caches ? weft_cache_offset(call->caches[0]) : 0;
    weft_device *before = weft_default_device(), *device = NULL;
    weft__step step = {0};
    for (int i = 0; i < weft_nn_list_count(m->layers); i++) {
        weft_module *block = weft_nn_list_at(m->layers, i);
        weft_device *there = weft__block_device(block);
        if (there != device) {
            device = there;
            weft_set_default_device(device);
            step = make_step(m, offset, L, call);
            x = weft_to(x, device);
        }
        if (call->caches)
            x = weft__block_forward(block, x, &step, call->caches[i]);
        else if (call->checkpoint)
            x = checkpointed(block, x, &step);
        else
            x = weft__block_forward(block, x, &step, NULL);
    }
    weft_set_default_device(before);
    return x;
}

static weft_array *decoder_forward(decoder *m, weft_array *tokens, const weft_model_call *call)
{
    weft_nn_enter(m);
    weft_array *x = weft__call_there(m->embed_tokens, tokens); /* (B, L, E) */
    x = through_layers(m, x, weft_dim(tokens, 1), call);
    return weft_nn_leave(m, weft__call_there(m->norm, x));
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
    return weft_nn_leave(m, weft__call_there(m->lm_head, hidden));
}

/* With an adapter around the head, the matrix alone is not the head. */
weft_array *weft__decoder_head_weight(weft_module *module)
{
    causal_lm *m = (causal_lm *)module;
    return m->lm_head->type == &weft_nn_linear_type ? *weft_nn_find(m->lm_head, "weight") : NULL;
}
