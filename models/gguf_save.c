/* models/gguf_save.c -- a model as a GGUF file: tensors under the format's names and in its order
 * of rows, and the configuration as metadata. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/config.h"
#include "models/gguf.h"
#include "weft/ops.h"
#include "weft/quantize.h"

enum { MOST_VALUES = 48, KEY = 96 };

typedef struct saver {
    weft_model *model;
    const weft_config *config;
    const weft__gguf_arch *arch;
    const char *where; /* the file */
    const char *type;
    int64_t heads, kv_heads, head_dim;
    char **names;
    weft_array **arrays;
    int n, capacity;
    /* The values lie in these. */
    char keys[MOST_VALUES][KEY];
    uint32_t wholes[MOST_VALUES];
    float numbers[MOST_VALUES];
    weft_gguf_string strings[MOST_VALUES];
    weft_gguf_value values[MOST_VALUES];
    uint8_t *sliding;
    int n_values;
} saver;

/* ---- tensors -------------------------------------------------------------------------------- */

static weft_status add(saver *s, const char *name, weft_array *a)
{
    if (s->n == s->capacity) {
        const int capacity = 2 * s->capacity + 64;
        char **names = weft_realloc(s->names, (size_t)capacity * sizeof *names);
        s->names = names ? names : s->names;
        weft_array **arrays = weft_realloc(s->arrays, (size_t)capacity * sizeof *arrays);
        s->arrays = arrays ? arrays : s->arrays;
        if (names == NULL || arrays == NULL)
            return weft_fail(WEFT_MEMORY, "%s: no memory for the list of tensors", s->where);
        s->capacity = capacity;
    }
    s->names[s->n] = weft_strdup(name);
    if (s->names[s->n] == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory for the list of tensors", s->where);
    s->arrays[s->n++] = a;
    return WEFT_OK;
}

/* Rows of halves as pairs: the other way of what reading does. */
static weft_array *pairs(weft_array *a, int64_t heads)
{
    const weft_dims shape = weft_shape(a);
    const int64_t half = shape.at[0] / heads / 2, rest = weft_size(a) / shape.at[0];
    weft_array *parts = weft_reshape(a, WEFT_DIMS(heads, 2, half, rest));
    return weft_reshape(weft_swapaxes(parts, 1, 2), shape);
}

static weft_array *encoded(weft_array *a, const char *type)
{
    const weft_encoding *e = weft_gguf_encoding(type);
    return weft_encode(weft_astype(a, WEFT_FLOAT32), e);
}

/* A matrix in the wanted type; in a wider one where its rows are not whole blocks, and the one that
 * gives the logits in at least 8 bits. */
static weft_array *matrix(const saver *s, const char *name, weft_array *a)
{
    const bool head =
        strcmp(name, "output.weight") == 0 ||
        (strcmp(name, "token_embd.weight") == 0 && weft_model_info_of(s->model)->tied);
    const int64_t row = weft_dim(a, -1);
    const weft_encoding *e = weft_gguf_encoding(s->type);
    if (strcmp(s->type, "F32") == 0 || strstr(name, "ffn_gate_inp."))
        return weft_astype(a, WEFT_FLOAT32);
    if (strcmp(s->type, "BF16") == 0)
        return weft_astype(a, WEFT_BFLOAT16);
    if (e && !head && row % e->block == 0)
        return encoded(a, s->type);
    return e && row % 32 == 0 ? encoded(a, "Q8_0") : weft_astype(a, WEFT_FLOAT16);
}

static weft_status add_parameter(void *context, const weft_nn_item *item)
{
    saver *s = context;
    char name[WEFT_NN_PATH];
    if (!weft__gguf_from_path(s->arch, item->path, name, sizeof name))
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s: GGUF has no name for it in %s models", s->where,
                         item->path, s->arch->name);
    weft_array *a = weft_decode(*item->slot->address);
    const int64_t heads = strstr(item->path, ".q_proj.")   ? s->heads
                          : strstr(item->path, ".k_proj.") ? s->kv_heads
                                                           : 0;
    if (s->arch->permuted && heads > 0)
        a = pairs(a, heads);
    if (weft_ndim(a) > 1)
        return add(s, name, matrix(s, name, a));
    a = weft_astype(a, WEFT_FLOAT32);
    const size_t n = strlen(item->path), m = strlen("norm.weight");
    if (s->arch->norm_offset != 0 && n >= m && strcmp(item->path + n - m, "norm.weight") == 0)
        a = weft_add(a, weft_scalar(s->arch->norm_offset, WEFT_FLOAT32));
    return add(s, name, a);
}

/* ---- metadata ------------------------------------------------------------------------------- */

static weft_gguf_value *put(saver *s, const char *name, weft_gguf_type type)
{
    const int i = s->n_values++;
    const bool general = strncmp(name, "general.", 8) == 0 || strncmp(name, "tokenizer.", 10) == 0;
    snprintf(s->keys[i], KEY, "%s%s%s", general ? "" : s->arch->name, general ? "" : ".", name);
    s->values[i] = (weft_gguf_value){.key = s->keys[i], .type = type, .count = 1};
    return &s->values[i];
}

static void put_whole(saver *s, const char *name, int64_t x)
{
    s->wholes[s->n_values] = (uint32_t)x;
    const uint32_t *at = &s->wholes[s->n_values];
    put(s, name, WEFT_GGUF_UINT32)->data = at;
}

static void put_number(saver *s, const char *name, double x)
{
    s->numbers[s->n_values] = (float)x;
    const float *at = &s->numbers[s->n_values];
    put(s, name, WEFT_GGUF_FLOAT32)->data = at;
}

static void put_text(saver *s, const char *name, const char *text)
{
    s->strings[s->n_values] = (weft_gguf_string){text, strlen(text)};
    const weft_gguf_string *at = &s->strings[s->n_values];
    put(s, name, WEFT_GGUF_STRING)->strings = at;
}

/* The divisors of the frequencies that llama3's rule gives. */
static weft_status put_divisors(saver *s, weft_rope_options o)
{
    double amplitude;
    weft_array *scaled = weft_rope_frequencies(&o, &amplitude);
    o.kind = WEFT_ROPE_DEFAULT;
    return add(s, "rope_freqs.weight", weft_divide(weft_rope_frequencies(&o, &amplitude), scaled));
}

static weft_status put_rope(saver *s)
{
    weft_rope_options o;
    weft_status status = weft_config_rope(s->config, s->head_dim,
                                          strcmp(s->arch->name, "gemma3") == 0 ? 1e6 : 1e4, &o);
    if (status != WEFT_OK)
        return status;
    put_number(s, "rope.freq_base", o.theta);
    if (strcmp(s->arch->name, "gemma3") == 0) {
        weft_rope_options sliding;
        status = weft__config_sliding_rope(s->config, s->head_dim, o.theta, 1e4, &sliding);
        if (status != WEFT_OK)
            return status;
        put_number(s, "rope.freq_base_swa", sliding.theta);
    }
    put_whole(s, "rope.dimension_count", s->head_dim);
    if (o.kind == WEFT_ROPE_DEFAULT && (o.partial == 0 || o.partial == 1))
        return WEFT_OK;
    if (o.kind == WEFT_ROPE_LLAMA3)
        return put_divisors(s, o);
    if (o.kind == WEFT_ROPE_LINEAR) {
        put_text(s, "rope.scaling.type", "linear");
        put_number(s, "rope.scaling.factor", o.factor);
        return WEFT_OK;
    }
    if (o.kind == WEFT_ROPE_YARN && !o.no_truncate && o.mscale == 0) {
        put_text(s, "rope.scaling.type", "yarn");
        put_number(s, "rope.scaling.factor", o.factor);
        put_whole(s, "rope.scaling.original_context_length", o.original_max_position);
        put_number(s, "rope.scaling.yarn_beta_fast", o.beta_fast != 0 ? o.beta_fast : 32);
        put_number(s, "rope.scaling.yarn_beta_slow", o.beta_slow != 0 ? o.beta_slow : 1);
        if (o.attention_factor != 0)
            put_number(s, "rope.scaling.attn_factor", o.attention_factor);
        return WEFT_OK;
    }
    return weft_fail(WEFT_UNSUPPORTED,
                     "%s: this scaling of the rotary embedding is unsupported "
                     "in GGUF",
                     s->where);
}

static weft_status put_windows(saver *s)
{
    const int64_t L = weft_model_info_of(s->model)->n_layers;
    const int64_t window = weft_config_int(s->config, "sliding_window", 0);
    if (window <= 0 || (!s->arch->sandwich && !s->arch->permuted))
        return WEFT_OK;
    put_whole(s, "attention.sliding_window", window);
    const weft__json types = weft__config_at(s->config, "layer_types");
    size_t n;
    if (!s->arch->sandwich || types.value == NULL)
        return WEFT_OK;
    weft_status status = weft__json_length(&types, &n);
    s->sliding = weft_calloc(L > 0 ? (size_t)L : 1, 1);
    if (s->sliding == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory", s->where);
    for (size_t i = 0; i < n && i < (size_t)L && status == WEFT_OK; i++) {
        weft__json element;
        const char *type = "";
        status = weft__json_at(&types, i, &element);
        if (status == WEFT_OK)
            status = weft__json_as_string(&element, &type, NULL);
        s->sliding[i] = strcmp(type, "sliding_attention") == 0;
    }
    weft_gguf_value *v = put(s, "attention.sliding_window_pattern", WEFT_GGUF_BOOL);
    v->is_array = true;
    v->count = L;
    v->data = s->sliding;
    return status;
}

static void put_gemma(saver *s)
{
    const weft_config *c = s->config;
    const double q = weft_config_double(c, "query_pre_attn_scalar", 256);
    if (q != (double)s->head_dim)
        put_number(s, "attention.scale", 1 / sqrt(q));
    const double attention = weft_config_double(c, "attn_logit_softcapping", 0);
    const double final = weft_config_double(c, "final_logit_softcapping", 0);
    if (attention > 0)
        put_number(s, "attn_logit_softcapping", attention);
    if (final > 0)
        put_number(s, "final_logit_softcapping", final);
}

/* Absent keys have the values of the loaded model, whose tensors know them. */
static weft_status put_sizes(saver *s)
{
    const weft_config *c = s->config;
    const weft_model_info *info = weft_model_info_of(s->model);
    put_whole(s, "vocab_size", info->vocab_size);
    put_whole(s, "context_length", weft_config_int(c, "max_position_embeddings", 2048));
    put_whole(s, "embedding_length", info->hidden_size);
    put_whole(s, "block_count", info->n_layers);
    put_whole(s, "feed_forward_length", weft_config_int(c, "intermediate_size", 0));
    put_whole(s, "attention.head_count", s->heads);
    put_whole(s, "attention.head_count_kv", s->kv_heads);
    put_whole(s, "attention.key_length", s->head_dim);
    put_whole(s, "attention.value_length", s->head_dim);
    put_number(s, "attention.layer_norm_rms_epsilon", weft_config_double(c, "rms_norm_eps", 1e-6));
    const int64_t experts =
        weft_config_int(c, "num_experts", weft_config_int(c, "num_local_experts", 0));
    if (experts > 0 && (strcmp(s->arch->name, "qwen3moe") == 0 ||
                        strcmp(weft_model_family_of(s->model)->model_type, "mixtral") == 0)) {
        put_whole(s, "expert_count", experts);
        put_whole(s, "expert_used_count", weft_config_int(c, "num_experts_per_tok", 2));
        put_whole(s, "expert_feed_forward_length",
                  weft_config_int(c, "moe_intermediate_size",
                                  weft_config_int(c, "intermediate_size", 0)));
    }
    return weft_config_int(c, "intermediate_size", 0) > 0
               ? WEFT_OK
               : weft_fail(WEFT_UNSUPPORTED, "%s: intermediate_size is missing", s->where);
}

static weft_status check(const saver *s)
{
    const weft_config *c = s->config;
    if (weft_config_bool(c, "use_sliding_window", false))
        return weft_fail(WEFT_UNSUPPORTED, "%s: use_sliding_window is unsupported in GGUF",
                         s->where);
    if (strcmp(s->arch->name, "qwen3moe") == 0 && !weft_config_bool(c, "norm_topk_prob", false))
        return weft_fail(WEFT_UNSUPPORTED, "%s: norm_topk_prob false is unsupported in GGUF",
                         s->where);
    if (strcmp(s->arch->name, "minicpm") == 0)
        return weft_fail(WEFT_UNSUPPORTED, "%s: minicpm models cannot be written as GGUF",
                         s->where);
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i], s->type) == 0)
            return WEFT_OK;
    }
    return weft_fail(WEFT_UNSUPPORTED, "%s: type '%s': expected F32, F16, BF16, Q8_0, Q4_0 or Q4_K",
                     s->where, s->type);
}

/* Heads as the tensors' shapes have them. */
static weft_status measure(saver *s)
{
    weft_module *m = weft_model_module(s->model);
    weft_array **q = weft_nn_find(m, "model.layers.0.self_attn.q_proj.weight");
    weft_array **k = weft_nn_find(m, "model.layers.0.self_attn.k_proj.weight");
    s->heads = weft_config_int(s->config, "num_attention_heads", 0);
    if (q == NULL || k == NULL || s->heads < 1)
        return weft_fail(WEFT_UNSUPPORTED, "%s: the model does not tell its heads", s->where);
    s->head_dim = weft_dim(*q, 0) / s->heads;
    s->kv_heads = weft_dim(*k, 0) / s->head_dim;
    return WEFT_OK;
}

/* Where no tokenizer tells them. */
static void put_ids(saver *s)
{
    int n;
    put_text(s, "tokenizer.ggml.model", "no_vocab");
    const int32_t *eos = weft_model_eos(s->model, &n);
    const int64_t bos = weft_config_int(s->config, "bos_token_id", -1);
    if (bos >= 0)
        put_whole(s, "tokenizer.ggml.bos_token_id", bos);
    if (n > 0)
        put_whole(s, "tokenizer.ggml.eos_token_id", eos[0]);
    if (n > 1)
        put_whole(s, "tokenizer.ggml.eot_token_id", eos[1]);
}

/* The file with the values of the model and those of the text, which may be NULL. */
static weft_status write(saver *s, const char *path, const char *text)
{
    weft__gguf_text *extra = NULL;
    int n_eos, n_extra = 0;
    const int32_t *eos = weft_model_eos(s->model, &n_eos);
    weft_status status = WEFT_OK;
    if (text)
        status = weft__gguf_text_from(text, weft_model_info_of(s->model)->vocab_size, eos, n_eos,
                                      &extra);
    else
        put_ids(s);
    const weft_gguf_value *more =
        extra && status == WEFT_OK ? weft__gguf_text_values(extra, &n_extra) : NULL;
    const int n = s->n_values + n_extra;
    weft_gguf_value *all = weft_calloc((size_t)n, sizeof *all);
    if (status == WEFT_OK && all == NULL)
        status = weft_fail(WEFT_MEMORY, "%s: no memory for its metadata", path);
    if (status == WEFT_OK) {
        memcpy(all, s->values, (size_t)s->n_values * sizeof *all);
        if (n_extra > 0)
            memcpy(all + s->n_values, more, (size_t)n_extra * sizeof *all);
        status = weft_gguf_save(path, (const char *const *)s->names, s->arrays, s->n, all, n);
    }
    weft_free(all);
    weft__gguf_text_free(extra);
    return status;
}

/* What llama.cpp calls a file whose matrices are mostly of that type. */
static int64_t file_type(const char *type)
{
    static const struct {
        const char *type;
        int64_t number;
    } numbers[] = {{"F32", 0}, {"F16", 1}, {"BF16", 32}, {"Q8_0", 7}, {"Q4_0", 2}, {"Q4_K", 14}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strcmp(numbers[i].type, type) == 0)
            return numbers[i].number;
    }
    return 0;
}

static weft_status save(saver *s, const char *path, const char *text)
{
    put_text(s, "general.architecture", s->arch->name);
    put_whole(s, "general.file_type", file_type(s->type));
    put_whole(s, "general.quantization_version", 2);
    weft_status status = put_sizes(s);
    if (status == WEFT_OK)
        status = put_rope(s);
    if (status == WEFT_OK)
        status = put_windows(s);
    if (s->arch->sandwich)
        put_gemma(s);
    if (status == WEFT_OK)
        status = weft_nn_visit(weft_model_module(s->model), add_parameter, s);
    return status == WEFT_OK ? write(s, path, text) : status;
}

weft_status weft_model_save_gguf(weft_model *model, const char *path,
                                 const weft_gguf_model_options *options)
{
    static const weft_gguf_model_options defaults = {0};
    const weft_gguf_model_options *o = options ? options : &defaults;
    const char *model_type = weft_model_family_of(model)->model_type;
    const weft__gguf_arch *arch = weft__gguf_arch_of_type(model_type);
    if (arch == NULL)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s models cannot be written as GGUF", path,
                         model_type);
    if (weft_nn_lora_count(weft_model_module(model)) > 0)
        return weft_fail(WEFT_INVALID, "%s: save: the model has adapters; merge and remove them",
                         path);
    saver *s = weft_calloc(1, sizeof *s);
    if (s == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory to save the model", path);
    s->model = model;
    s->config = weft_model_config(model);
    s->arch = arch;
    s->where = path;
    s->type = o->type ? o->type : "F32";
    weft_scope_open();
    weft_status status = check(s);
    if (status == WEFT_OK)
        status = measure(s);
    if (status == WEFT_OK)
        status = save(s, path, o->text);
    weft_scope_close(NULL);
    for (int i = 0; i < s->n; i++)
        weft_free(s->names[i]);
    weft_free(s->names);
    weft_free(s->arrays);
    weft_free(s->sliding);
    weft_free(s);
    return status;
}
