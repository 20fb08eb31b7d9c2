/* models/model.c -- weft_model: creating, loading, forward pass. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/gguf.h"
#include "core/io/text.h"
#include "core/shape.h"
#include "models/classifier.h"
#include "models/config.h"
#include "models/generation.h"
#include "models/gguf/gguf.h"
#include "models/placement.h"
#include "models/save.h"
#include "weft/nn_tools.h"

struct weft_model {
    const weft_model_family *family;
    weft_config *config;
    weft_module *module;
    weft_model_info info;
    char *skipped; /* tensors that were not used; NULL: none */
    weft__weights stored;
    char **labels; /* (info.n_labels) */
    weft__generation_config generation;
};

/* ---- creating -------------------------------------------------------------------------------- */

/* What the message for an unknown family adds about the nearest one, if the folder has weights. */
static void describe_nearest(const char *folder, weft__text *out)
{
    weft_model_likeness nearest;
    if (weft_model_likeness_find(folder, &nearest) == WEFT_OK && nearest.family)
        weft__text_format(out,
                          "nearest is %s, where %d tensors fit and %d do not: weft info shows "
                          "them; ",
                          nearest.family->model_type, nearest.n_same, nearest.n_differences);
    weft_model_likeness_free(&nearest);
}

static weft_status unknown_family(const weft_config *config, const char *folder, const char *what,
                                  const char *name)
{
    weft__text known = {0};
    if (folder)
        describe_nearest(folder, &known);
    for (int i = 0; i < weft_model_family_count(); i++)
        weft__text_format(&known, "%s%s",
                          i ? ", " : "known: ", weft_model_family_at(i)->model_type);
    const weft_status status =
        known.failed ? weft__out_of_memory(weft_config_where(config), NULL)
                     : weft_fail(WEFT_UNSUPPORTED, "%s: %s '%s' is unknown (%s)",
                                 weft_config_where(config), what, weft_printable(name), known.at);
    weft_free(known.at);
    return status;
}

/* MLX's formats, and MXFP4 blocks, are recognized by the names and shapes of the tensors; all
 * others name their method. */
static weft_status check_quantization(const weft_config *config)
{
    const weft__json at = weft__config_at(config, "quantization_config");
    const char *method = NULL;
    weft_status status = at.value ? weft__json_find_string(&at, "quant_method", &method) : WEFT_OK;
    if (status == WEFT_OK && method && strcmp(method, "mxfp4") != 0)
        status = weft_fail(WEFT_UNSUPPORTED,
                           "%s: checkpoints quantized by '%s' are unsupported "
                           "(known: mlx's, mxfp4)",
                           weft_config_where(config), weft_printable(method));
    return status;
}

/* Checks keys that are read individually, with a fallback for values of another type. */
static weft_status check_types(const weft_config *config)
{
    typedef struct values {
        bool tie_word_embeddings;
        int64_t num_local_experts, _sliding_window_pattern, shared_expert_intermediate_size;
        double rope_local_base_freq;
    } values;
    static const weft_config_field fields[] = {
        WEFT_CONFIG_OPTIONAL(BOOL, values, tie_word_embeddings, false),
        WEFT_CONFIG_OPTIONAL(INT, values, num_local_experts, 0),
        WEFT_CONFIG_OPTIONAL(INT, values, _sliding_window_pattern, 0),
        WEFT_CONFIG_OPTIONAL(INT, values, shared_expert_intermediate_size, 0),
        WEFT_CONFIG_OPTIONAL(DOUBLE, values, rope_local_base_freq, 0),
    };
    values ignored;
    return weft_config_read(config, fields, sizeof fields / sizeof *fields, &ignored);
}

/* By model_type or, without one, by the class in "architectures". `folder`: of the weights, or
 * NULL. */
static weft_status find_family(weft_model *m, const char *folder)
{
    const char *where = weft_config_where(m->config), *name = NULL;
    const char *model_type = weft_config_string(m->config, "model_type", NULL);
    weft__json at = weft__config_at(m->config, "architectures");
    if (model_type != NULL) {
        m->family = weft_model_family_find(model_type);
        return m->family ? WEFT_OK : unknown_family(m->config, folder, "model_type", model_type);
    }
    if (weft_config_has(m->config, "model_type"))
        return weft_fail(WEFT_INVALID, "%s: model_type: expected a string", where);
    if (at.value == NULL)
        return weft_fail(WEFT_INVALID, "%s: model_type is missing", where);
    weft_status status = weft__json_at(&at, 0, &at);
    if (status == WEFT_OK)
        status = weft__json_as_string(&at, &name, NULL);
    for (int i = 0; status == WEFT_OK && m->family == NULL && i < weft_model_family_count(); i++) {
        const weft_model_family *family = weft_model_family_at(i);
        if (family->architecture && strcmp(family->architecture, name) == 0)
            m->family = family;
    }
    if (status == WEFT_OK && m->family == NULL)
        status =
            unknown_family(m->config, folder, "model_type is missing, and architectures[0]", name);
    return status;
}

static weft_status choose_family(weft_model *m, const char *folder)
{
    weft_status known = check_quantization(m->config);
    if (known == WEFT_OK)
        known = check_types(m->config);
    return known == WEFT_OK ? find_family(m, folder) : known;
}

/* If a module rejects an argument, such as a shape, the message names the configuration. */
static weft_status name_config(const weft_config *config)
{
    const char *where = weft_config_where(config), *message = weft_error_message();
    return strstr(message, where) != NULL || weft_error_status() == WEFT_MEMORY
               ? weft_error_status()
               : weft_fail(weft_error_status(), "%s: %s", where, message);
}

static weft_status build(weft_model *m, bool has_head)
{
    weft_scope_open();
    m->module = m->family->build(m->family, m->config, has_head, &m->info);
    weft_scope_close(NULL);
    if (m->module == NULL)
        return name_config(m->config);
    if (m->info.n_caches == 0)
        m->info.n_caches = m->info.n_layers;
    weft_labels labels;
    weft_status status = weft__classifier_labels(m->config, &labels);
    if (status == WEFT_OK && labels.n > 0 && weft__classifier_is_stored(m->config))
        status = weft_model_classify(m, (const char *const *)labels.at, labels.n);
    weft_labels_free(&labels);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status; /* without the head */
}

/* ---- loading -------------------------------------------------------------------------------- */

static weft_status check_options(const weft_model_options *o)
{
    if (o->dtype == 0 || o->dtype == WEFT_FLOAT32 || o->dtype == WEFT_FLOAT16 ||
        o->dtype == WEFT_BFLOAT16)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "model: expected float32, float16 or bfloat16, got %s",
                     weft_dtype_name(o->dtype));
}

/* A separate head is used if it exists, unless the configuration says that it is tied. */
static weft_status load_weights(weft_model *m, weft__weights *w,
                                const weft_nn_load_options *options,
                                const weft__placement *placement)
{
    const bool tied = weft__config_is_tied(m->config);
    const weft__tensors tensors = {weft__weights_shape, w};
    weft__config_set_tensors(m->config, &tensors);
    weft_status status = build(m, !tied && weft__weights_find(w, "lm_head.weight"));
    weft__config_set_tensors(m->config, NULL);
    if (status == WEFT_OK)
        status = weft__placement_set(placement, m->module, &m->info);
    if (status != WEFT_OK)
        return status;
    weft__weights_find_unused(w, &m->info, m->config);
    m->skipped = w->skipped.at;
    w->skipped = (weft__text){0};
    status = weft__weights_load(w, m->module, options);
    if (status == WEFT_OK)
        status = weft__placement_finish(placement, m->module);
    if (status == WEFT_OK) {
        weft__weights_record(w);
        m->stored = *w;
        *w = (weft__weights){0};
    }
    return status;
}

static bool is_quantized(void *context, const char *path, const weft_module *m)
{
    static const char *const routers[] = {".mlp.gate", ".mlp.router", ".mlp.shared_expert_gate",
                                          ".router.proj"};
    const weft_nn_quantize_options *o = context;
    weft_array *const *weight = weft_nn_find((weft_module *)m, "weight");
    for (const weft_module *in = m; in; in = in->parent) {
        if (in->whole) /* the head of a classifier */
            return false;
    }
    for (size_t i = 0; i < sizeof routers / sizeof *routers; i++) {
        const size_t n = strlen(path), end = strlen(routers[i]);
        if (n >= end && strcmp(path + n - end, routers[i]) == 0)
            return false;
    }
    return !weft_encoding_of(*weight) && weft_dim(*weight, -1) % o->format.group_size == 0;
}

/* Loads the model from the safetensors file or the GGUF file; exactly one of the two is set. */
static weft_status load_file(weft_model *m, const weft_safetensors *file, const weft_gguf *gguf,
                             bool apart, const weft_model_options *o,
                             const weft__placement *placement)
{
    weft__weights w = {0};
    weft_nn_quantize_options quantize = {
        .format = {.bits = o->quantize, .group_size = 64},
        .accepts = is_quantized,
        .context = &quantize,
    };
    weft_nn_load_options options = {.dtype = o->dtype,
                                    .quantize = o->quantize != 0 ? &quantize : NULL};
    weft_device *before = weft_default_device();
    /* Arrays are read through this device. Arrays to be encoded stay on the CPU until then, where
     * they are views of the file and all threads encode; another device would hold all of it. */
    weft_set_default_device(o->quantize != 0 ? weft_device_get("cpu") : placement->host);
    weft_scope_open_lean();
    const bool on_cpu = o->gpu_layers != 0 && !o->stream; /* some layers compute there */
    const weft_dtype blocks = on_cpu && placement->device != placement->host
                                  ? WEFT_FLOAT32
                                  : weft_device_matrix_dtype(placement->device);
    weft_status status =
        gguf ? weft__gguf_weights(gguf, apart, options.dtype, blocks, &options.dtype, &w)
             : weft__weights_read(file, m->family, &w);
    if (status == WEFT_OK)
        status = weft__weights_join_parts(&w, m->config);
    weft_set_default_device(placement->host);
    options.where = gguf                               ? weft_gguf_path(gguf)
                    : weft_safetensors_count(file) > 0 ? weft_safetensors_at(file, 0)->path
                                                       : NULL;
    if (status == WEFT_OK)
        status = load_weights(m, &w, &options, placement);
    weft__weights_free(&w);
    weft_scope_close(NULL);
    weft_set_default_device(before);
    return status;
}

/* kv_b_proj is also used in a form without activations to be rounded. */
static weft_status round_activations(void *context, const char *path, weft_module **field)
{
    (void)context;
    if ((*field)->type == &weft_nn_linear_type && !weft__ends_with(path, ".kv_b_proj"))
        ((weft_nn_linear *)*field)->int8 = true;
    return WEFT_OK;
}

/* Opens the file and its configuration, which a GGUF file contains. The family is chosen before the
 * weights are opened, so that an unsupported model is reported as such, whatever the folder
 * contains. */
static weft_status open_files(weft_model *m, const char *path, weft_safetensors **file,
                              weft_gguf **gguf)
{
    char *name;
    weft_status status = weft__gguf_find(path, &name);
    if (status == WEFT_OK && name) {
        status = weft_gguf_open(name, gguf);
        if (status == WEFT_OK)
            status = weft__gguf_config(*gguf, &m->config);
        if (status == WEFT_OK)
            status = choose_family(m, NULL);
    } else if (status == WEFT_OK) {
        status = weft__config_load_folder(path, &m->config);
        if (status == WEFT_OK)
            status = choose_family(m, path);
        if (status == WEFT_OK)
            status = weft_safetensors_open_folder(path, file);
    }
    weft_free(name);
    return status;
}

static weft_status load(weft_model *m, const char *folder, bool apart, const weft_model_options *o)
{
    weft_safetensors *file = NULL;
    weft_gguf *gguf = NULL;
    weft__placement placement;
    weft_status status = check_options(o);
    if (status == WEFT_OK)
        status = weft__placement_make(o, &placement);
    if (status == WEFT_OK)
        status = open_files(m, folder, &file, &gguf);
    const char *parted = o->stream            ? "stream"
                         : o->gpu_layers != 0 ? "gpu_layers"
                         : o->n_devices > 1   ? "devices"
                                              : NULL;
    if (status == WEFT_OK && parted && !m->family->follows_parameters)
        status = weft_fail(WEFT_UNSUPPORTED, "%s: %s: %s models compute on one device",
                           weft_config_where(m->config), parted, m->family->model_type);
    if (status == WEFT_OK)
        status = load_file(m, file, gguf, apart, o, &placement);
    if (status == WEFT_OK && o->int8_activations)
        status = weft_nn_visit_modules(m->module, round_activations, NULL);
    if (status == WEFT_OK && gguf)
        status = weft__gguf_generation(gguf, &m->generation.config);
    if (status == WEFT_OK)
        status = weft__generation_read(&m->generation, m->config, gguf ? NULL : folder,
                                       m->info.vocab_size);
    weft_safetensors_close(file);
    weft_gguf_close(gguf);
    return status;
}

weft_status weft__model_load_tree(const char *folder, bool apart, const weft_model_options *options,
                                  weft_model **out)
{
    static const weft_model_options defaults = {0};
    *out = NULL;
    weft_model *m = weft_calloc(1, sizeof *m);
    if (m == NULL)
        return weft__out_of_memory(folder, "the model");
    const weft_status status = load(m, folder, apart, options ? options : &defaults);
    if (status != WEFT_OK) {
        weft_model_free(m);
        return status;
    }
    *out = m;
    return WEFT_OK;
}

weft_status weft_model_load(const char *folder, const weft_model_options *options, weft_model **out)
{
    return weft__model_load_tree(folder, false, options, out);
}

static weft_status make(weft_model *m, const weft_config *config)
{
    weft_status status =
        weft_config_parse(weft_config_text(config), weft_config_where(config), &m->config);
    if (status == WEFT_OK)
        status = choose_family(m, NULL);
    if (status == WEFT_OK)
        status = build(m, !weft_config_bool(
                              m->config, "tie_embedding",
                              weft_config_bool(m->config, "tie_word_embeddings", m->family->tied)));
    return status == WEFT_OK
               ? weft__generation_read(&m->generation, m->config, NULL, m->info.vocab_size)
               : status;
}

weft_status weft_model_new(const weft_config *config, weft_model **out)
{
    *out = NULL;
    weft_model *m = weft_calloc(1, sizeof *m);
    if (m == NULL)
        return weft__out_of_memory(weft_config_where(config), "the model");
    const weft_status status = make(m, config);
    if (status != WEFT_OK) {
        weft_model_free(m);
        return status;
    }
    *out = m;
    return WEFT_OK;
}

static void free_labels(char **labels, int64_t n)
{
    for (int64_t i = 0; labels && i < n; i++)
        weft_free(labels[i]);
    weft_free(labels);
}

void weft_model_free(weft_model *model)
{
    if (model == NULL)
        return;
    weft_nn_free(model->module);
    weft_config_free(model->config);
    weft__generation_free(&model->generation);
    weft_free(model->skipped);
    weft__weights_free(&model->stored);
    free_labels(model->labels, model->info.n_labels);
    weft_free(model);
}

/* ---- queries --------------------------------------------------------------------------------- */

weft_module *weft_model_module(weft_model *model)
{
    return model->module;
}

const weft_model_info *weft_model_info_of(const weft_model *model)
{
    return &model->info;
}

/* Parts of the head that the checkpoint has, from a pretraining without labels (ModernBERT). */
static weft_status use_stored_head(weft_model *model)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < model->stored.n && status == WEFT_OK; i++) {
        const weft__weight *w = &model->stored.at[i];
        weft_array **slot = w->unused ? weft_nn_find(model->module, w->path) : NULL;
        const weft_dims a = weft_shape(w->array), b = weft_shape(slot ? *slot : w->array);
        if (slot == NULL || !weft__shape_equal(&a, &b))
            continue;
        weft_scope_open();
        status =
            weft_set(slot, weft_astype(weft_to(w->array, weft_device_of(*slot)), WEFT_FLOAT32));
        weft_scope_close(NULL);
        char path[WEFT_NN_PATH];
        snprintf(path, sizeof path, "%.*s", (int)(strrchr(w->path, '.') - w->path), w->path);
        weft_nn_find_module(model->module, path)->whole = false;
    }
    return status;
}

weft_status weft_model_classify(weft_model *model, const char *const *labels, int n)
{
    if (n < 2)
        return weft_fail(WEFT_INVALID, "classifier: expected at least two labels, got %d", n);
    if (model->info.n_labels > 0 || weft_nn_lora_count(model->module) > 0)
        return weft_fail(WEFT_INVALID, "classifier: the model has %s already",
                         model->info.n_labels > 0 ? "labels" : "an adapter");
    char **copies = weft_calloc((size_t)n, sizeof *copies);
    bool copied = copies != NULL;
    for (int i = 0; copied && i < n; i++)
        copied = (copies[i] = weft_strdup(labels[i])) != NULL;
    weft_status status =
        copied ? weft__classifier_put(model->module, model->config, model->family, &model->info, n)
               : weft__out_of_memory("classifier", "its labels");
    if (status == WEFT_OK) {
        model->labels = copies;
        return use_stored_head(model);
    }
    free_labels(copies, n);
    return status;
}

void weft__model_swap_labels(weft_model *model, char **labels)
{
    for (int64_t i = 0; i < model->info.n_labels; i++) {
        char *own = model->labels[i];
        model->labels[i] = labels[i];
        labels[i] = own;
    }
}

const char *weft_model_label(const weft_model *model, int64_t i)
{
    return i >= 0 && i < model->info.n_labels ? model->labels[i] : NULL;
}

void weft__model_set_vocabulary(weft_model *model, int64_t vocab_size)
{
    model->info.vocab_size = vocab_size;
}

const weft_model_family *weft_model_family_of(const weft_model *model)
{
    return model->family;
}

const weft_config *weft_model_config(const weft_model *model)
{
    return model->config;
}

const int32_t *weft_model_eos(const weft_model *model, int *n)
{
    *n = model->generation.eos.n;
    return model->generation.eos.at;
}

weft_status weft__model_add_eos(weft_model *model, int32_t id)
{
    return id >= 0 && id < model->info.vocab_size ? weft__generation_add_eos(&model->generation, id)
                                                  : WEFT_OK;
}

void weft__model_keep_eos(weft_model *model, int n)
{
    if (n < model->generation.eos.n)
        model->generation.eos.n = n;
}

const weft__generation_config *weft__model_generation(const weft_model *model)
{
    return &model->generation;
}

const weft__weights *weft__model_stored(const weft_model *model)
{
    return &model->stored;
}

const char *weft_model_skipped(const weft_model *model)
{
    return model->skipped;
}

/* ---- forward -------------------------------------------------------------------------------- */

weft_array *weft_model_hidden(weft_model *model, weft_array *tokens, const weft_model_call *call)
{
    static const weft_model_call defaults = {0};
    if (!weft_ok(tokens))
        return tokens;
    if (weft_ndim(tokens) != 2 || !weft_dtype_is_integer(weft_dtype_of(tokens)))
        return weft_error_array("%s: tokens: expected integers (B, L), got %s of %d dims",
                                model->family->model_type, weft_dtype_name(weft_dtype_of(tokens)),
                                weft_ndim(tokens));
    if (call && (call->caches || call->mask) && model->info.encoder)
        return weft_error_array("%s: an encoder has no %s", model->family->model_type,
                                call->caches ? "caches" : "masks of the caller");
    if (call && call->first && (call->caches || !model->info.takes_first))
        return weft_error_array("%s: several sequences in a row are %s", model->family->model_type,
                                call->caches ? "not for caches" : "unsupported");
    if (call && (call->pack || call->unpack) &&
        (!call->pack || !call->unpack || !call->positions || call->first || call->caches ||
         call->mask || call->records || !model->info.takes_shared))
        return weft_error_array("%s: pack and unpack: expected both, with positions alone, and a "
                                "family that takes shared tokens",
                                model->family->model_type);
    if (call && call->embedding_noise != 0 &&
        (!(call->embedding_noise > 0 && isfinite(call->embedding_noise)) ||
         !model->info.takes_noise))
        return weft_error_array("%s: noise on embeddings: %g is unsupported",
                                model->family->model_type, call->embedding_noise);
    return model->family->hidden(model->module, tokens, call ? call : &defaults);
}

weft_array *weft_model_head(weft_model *model, weft_array *hidden)
{
    return model->family->head(model->module, hidden);
}

weft_array *weft_model_forward(weft_model *model, weft_array *tokens, const weft_model_call *call)
{
    return weft_model_head(model, weft_model_hidden(model, tokens, call));
}

weft_array *weft_model_head_weight(weft_model *model)
{
    return model->family->head_weight ? model->family->head_weight(model->module) : NULL;
}
