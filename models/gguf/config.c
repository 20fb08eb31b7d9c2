/* models/gguf/config.c -- converts the metadata of a GGUF file to a config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "models/gguf/gguf.h"

typedef struct writer {
    const weft_gguf *file;
    const weft__gguf_arch *arch;
    weft__text out;
} writer;

/* ---- reading -------------------------------------------------------------------------------- */

static const weft_gguf_value *value(const writer *w, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", w->arch->name, name);
    return weft_gguf_value_find(w->file, key);
}

static bool is(const writer *w, const char *arch)
{
    return strcmp(w->arch->name, arch) == 0;
}

static double number(const writer *w, const char *name, double otherwise)
{
    double out;
    return weft_gguf_value_number(value(w, name), 0, &out) && isfinite(out) ? out : otherwise;
}

static int64_t integer(const writer *w, const char *name, int64_t otherwise)
{
    int64_t out;
    return weft_gguf_value_int(value(w, name), 0, &out) ? out : otherwise;
}

static weft_status need(const writer *w, const char *name)
{
    int64_t out;
    return weft_gguf_value_int(value(w, name), 0, &out) && out > 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: %s.%s: expected a positive integer",
                           weft_gguf_path(w->file), w->arch->name, name);
}

/* A list by layer is supported only if all elements are equal. */
static weft_status alike(const writer *w, const char *name)
{
    const weft_gguf_value *v = value(w, name);
    int64_t first, other;
    for (int64_t i = 1; v && i < v->count; i++) {
        if (!weft_gguf_value_int(v, 0, &first) || !weft_gguf_value_int(v, i, &other) ||
            other != first)
            return weft_fail(WEFT_UNSUPPORTED, "%s: %s: layers that differ are unsupported",
                             weft_gguf_path(w->file), v->key);
    }
    return WEFT_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put_int(writer *w, const char *key, int64_t x)
{
    weft__text_format(&w->out, ",\"%s\":%lld", key, (long long)x);
}

void weft__gguf_add_number(weft__text *out, const char *key, double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.9g", x);
    for (int digits = 1; digits < 9; digits++) {
        char shorter[32];
        snprintf(shorter, sizeof shorter, "%.*g", digits, x);
        if (strtof(shorter, NULL) == (float)x) {
            memcpy(text, shorter, sizeof text);
            break;
        }
    }
    weft__text_format(out, ",\"%s\":%s%s", key, text, strpbrk(text, ".en") ? "" : ".0");
}

static void put_number(writer *w, const char *key, double x)
{
    weft__gguf_add_number(&w->out, key, x);
}

static void copy_int(writer *w, const char *key, const char *name)
{
    int64_t x;
    if (weft_gguf_value_int(value(w, name), 0, &x))
        put_int(w, key, x);
}

static void copy_number(writer *w, const char *key, const char *name)
{
    const double x = number(w, name, NAN);
    if (!isnan(x))
        put_number(w, key, x);
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void put_attention(writer *w)
{
    const int64_t heads = integer(w, "attention.head_count", 1);
    copy_int(w, "num_attention_heads", "attention.head_count");
    if (!is(w, "gemma4"))
        put_int(w, "num_key_value_heads", integer(w, "attention.head_count_kv", heads));
    const int64_t head =
        integer(w, "attention.key_length", integer(w, "embedding_length", 0) / heads);
    put_int(w, "head_dim", is(w, "gemma4") ? integer(w, "attention.key_length_swa", head) : head);
    copy_number(w, "rms_norm_eps", "attention.layer_norm_rms_epsilon");
    weft__text_format(&w->out, ",\"attention_bias\":%s",
                      weft_gguf_find(w->file, "blk.0.attn_output.bias") >= 0 ? "true" : "false");
    weft__text_format(&w->out, ",\"mlp_bias\":%s",
                      weft_gguf_find(w->file, "blk.0.ffn_down.bias") >= 0 ? "true" : "false");
}

/* Writes which layers have a window: by period, or individually. */
static void put_windows(writer *w)
{
    const weft_gguf_value *pattern = value(w, "attention.sliding_window_pattern");
    const bool window = integer(w, "attention.sliding_window", 0) > 0;
    if (window)
        copy_int(w, "sliding_window", "attention.sliding_window");
    if (pattern && !pattern->is_array)
        copy_int(w, "sliding_window_pattern", "attention.sliding_window_pattern");
    if (!pattern || !pattern->is_array)
        return;
    weft__text_format(&w->out, ",\"layer_types\":[");
    for (int64_t i = 0; i < pattern->count; i++) {
        int64_t sliding = 0;
        weft_gguf_value_int(pattern, i, &sliding);
        weft__text_format(&w->out, "%s\"%s\"", i ? "," : "",
                          sliding ? "sliding_attention" : "full_attention");
    }
    weft__text_format(&w->out, "]");
}

static float divisor_at(const writer *w, int i, int64_t j)
{
    float x;
    memcpy(&x, (const char *)weft_gguf_bytes(w->file, i) + 4 * j, sizeof x);
    return x;
}

/* Whether n divisors are those of rope type llama3 (Llama 3.1) with its usual bands: long waves are
 * divided by the factor, short ones are not, between them it changes smoothly. */
static bool is_llama3(const writer *w, int i, int64_t n, double context, double factor)
{
    enum { LOW = 1, HIGH = 4 };
    const double base = number(w, "rope.freq_base", 10000);
    for (int64_t j = 0; j < n; j++) {
        const double wave = 2 * M_PI * pow(base, (double)j / (double)n);
        double smooth = (context / wave - LOW) / (HIGH - LOW);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        const double expected = 1 / ((1 - smooth) / factor + smooth);
        if (!(fabs((double)divisor_at(w, i, j) - expected) <= 1e-4 * expected))
            return false;
    }
    return true;
}

/* Writes the divisors as rope type llama3 if they are of that type. */
static bool put_llama3(writer *w, int i, int64_t n)
{
    const double factor = n > 0 ? (double)divisor_at(w, i, n - 1) : 0;
    for (int64_t context = 16; factor > 1 && context <= 1 << 20; context *= 2) {
        if (!is_llama3(w, i, n, (double)context, factor))
            continue;
        weft__text_format(&w->out, ",\"rope_scaling\":{\"rope_type\":\"llama3\"");
        put_number(w, "factor", factor);
        weft__text_format(&w->out,
                          ",\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                          "\"original_max_position_embeddings\":%lld}",
                          (long long)context);
        return true;
    }
    return false;
}

/* Writes divisors of the frequencies as rope type llama3 or as longrope's lists, which can express
 * all. */
static weft_status put_divisors(writer *w, int i)
{
    const int64_t context = integer(w, "context_length", 1);
    const weft_gguf_entry *e = weft_gguf_at(w->file, i);
    if (e->dtype != WEFT_FLOAT32 || e->encoding || e->shape.n != 1)
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected F32 of one dim, found %s of %d",
                         weft_gguf_path(w->file), weft_printable(e->name), e->type, e->shape.n);
    if (put_llama3(w, i, e->shape.at[0]))
        return WEFT_OK;
    weft__text_format(&w->out,
                      ",\"rope_scaling\":{\"rope_type\":\"longrope\","
                      "\"attention_factor\":1.0,\"factor\":1.0,"
                      "\"original_max_position_embeddings\":%lld",
                      (long long)context);
    for (int list = 0; list < 2; list++) {
        weft__text_format(&w->out, ",\"%s\":[", list ? "long_factor" : "short_factor");
        for (int64_t j = 0; j < e->shape.at[0]; j++) {
            weft__text_format(&w->out, "%s%.9g", j ? "," : "", (double)divisor_at(w, i, j));
        }
        weft__text_format(&w->out, "]");
    }
    weft__text_format(&w->out, "}");
    return WEFT_OK;
}

static weft_status put_scaling(writer *w)
{
    weft_gguf_string type;
    const int divisors = weft_gguf_find(w->file, "rope_freqs.weight");
    if (divisors >= 0)
        return put_divisors(w, divisors);
    if (!weft_gguf_value_string(value(w, "rope.scaling.type"), 0, &type) ||
        (type.n == 4 && memcmp(type.at, "none", 4) == 0))
        return WEFT_OK;
    const bool linear = type.n == 6 && memcmp(type.at, "linear", 6) == 0;
    const bool yarn = type.n == 4 && memcmp(type.at, "yarn", 4) == 0;
    if (!linear && !yarn)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s.rope.scaling.type '%s' is unsupported",
                         weft_gguf_path(w->file), w->arch->name,
                         weft_printable_n(type.at, (size_t)type.n));
    weft__text_format(&w->out, ",\"rope_scaling\":{\"rope_type\":\"%s\"",
                      linear ? "linear" : "yarn");
    put_number(w, "factor", number(w, "rope.scaling.factor", 1));
    copy_int(w, "original_max_position_embeddings", "rope.scaling.original_context_length");
    if (yarn) {
        copy_number(w, "beta_fast", "rope.scaling.yarn_beta_fast");
        copy_number(w, "beta_slow", "rope.scaling.yarn_beta_slow");
        copy_number(w, "attention_factor", "rope.scaling.attn_factor");
    }
    weft__text_format(&w->out, "}");
    return WEFT_OK;
}

static weft_status put_rope(writer *w)
{
    put_number(w, "rope_theta", number(w, "rope.freq_base", 10000));
    const int64_t head =
        integer(w, "attention.key_length",
                integer(w, "embedding_length", 0) / integer(w, "attention.head_count", 1));
    const int64_t rotated = integer(w, "rope.dimension_count", head);
    if (rotated != head && w->arch->permuted)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: %s.rope.dimension_count: expected the size of a head, %lld, got %lld",
                         weft_gguf_path(w->file), w->arch->name, (long long)head,
                         (long long)rotated);
    if (rotated != head)
        put_int(w, "rope_dimension_count", rotated);
    return put_scaling(w);
}

/* 0 in a file is null in config.json: no cap. */
static void put_cap(writer *w, const char *key, double x)
{
    if (x > 0)
        put_number(w, key, x);
    else
        weft__text_format(&w->out, ",\"%s\":null", key);
}

/* Scores are divided by the square root of this: the size of a head or, in the largest models, the
 * layer's width per head. */
static void put_gemma(writer *w)
{
    const bool third = strcmp(w->arch->name, "gemma3") == 0;
    const int64_t heads = integer(w, "attention.head_count", 1),
                  E = integer(w, "embedding_length", 0);
    const int64_t head = integer(w, "attention.key_length", E / heads);
    const int64_t largest = third ? 62 : 46;
    const double scale = number(w, "attention.scale", 0);
    const double scalar = scale > 0 ? rint(1 / (scale * scale) * 16) / 16
                          : integer(w, "block_count", 0) == largest ? (double)E / (double)heads
                                                                    : (double)head;
    if (scalar == rint(scalar)) /* transformers expects an integer */
        put_int(w, "query_pre_attn_scalar", (int64_t)scalar);
    else
        put_number(w, "query_pre_attn_scalar", scalar);
    weft__text_format(&w->out, ",\"hidden_activation\":\"gelu_pytorch_tanh\"");
    if (third)
        put_number(w, "rope_local_base_freq", number(w, "rope.freq_base_swa", 10000));
    put_cap(w, "attn_logit_softcapping", number(w, "attn_logit_softcapping", 0));
    put_cap(w, "final_logit_softcapping", number(w, "final_logit_softcapping", 0));
}

static void put_experts(writer *w)
{
    copy_int(w, "num_experts", "expert_count");
    copy_int(w, "num_local_experts", "expert_count");
    copy_int(w, "num_experts_per_tok", "expert_used_count");
    copy_int(w, "moe_intermediate_size", "expert_feed_forward_length");
    weft__text_format(&w->out, ",\"norm_topk_prob\":true");
}

/* The rotated share of a full-attention head: frequencies whose divisors are not huge. */
static double turned(const writer *w)
{
    const int i = weft_gguf_find(w->file, "rope_freqs.weight");
    const weft_gguf_entry *e = i < 0 ? NULL : weft_gguf_at(w->file, i);
    int64_t n = 0;
    if (e == NULL || e->dtype != WEFT_FLOAT32 || e->encoding || e->shape.n != 1 ||
        e->shape.at[0] < 1)
        return 1;
    for (int64_t j = 0; j < e->shape.at[0]; j++)
        n += divisor_at(w, i, j) == 1;
    return (double)n / (double)e->shape.at[0];
}

/* Element `layer` of a list, or the single number. */
static int64_t of_layer(const writer *w, const char *name, int64_t layer, int64_t otherwise)
{
    int64_t out;
    const weft_gguf_value *v = value(w, name);
    return weft_gguf_value_int(v, v && v->is_array ? layer : 0, &out) ? out : otherwise;
}

/* The first layer with a window, or without; -1: none. */
static int64_t first_of(const writer *w, bool window)
{
    const weft_gguf_value *pattern = value(w, "attention.sliding_window_pattern");
    for (int64_t i = 0; pattern && i < pattern->count; i++) {
        int64_t sliding;
        if (weft_gguf_value_int(pattern, i, &sliding) && (sliding != 0) == window)
            return i;
    }
    return -1;
}

static void put_gemma4(writer *w)
{
    char name[64];
    const int64_t sliding = first_of(w, true), full = first_of(w, false);
    const int64_t L = integer(w, "block_count", 1),
                  shared = integer(w, "attention.shared_kv_layers", 0);
    const int rows = weft_gguf_find(w->file, "per_layer_token_embd.weight");
    const int64_t heads = integer(w, "attention.head_count", 1);
    put_int(w, "num_key_value_heads",
            of_layer(w, "attention.head_count_kv", sliding < 0 ? 0 : sliding, heads));
    if (full >= 0)
        put_int(w, "num_global_key_value_heads",
                of_layer(w, "attention.head_count_kv", full, heads));
    put_int(w, "global_head_dim", integer(w, "attention.key_length", 512));
    snprintf(name, sizeof name, "blk.%lld.attn_v.weight", (long long)(full < 0 ? 0 : full));
    weft__text_format(&w->out, ",\"attention_k_eq_v\":%s",
                      weft_gguf_find(w->file, name) < 0 ? "true" : "false");
    put_int(w, "num_kv_shared_layers", shared);
    put_int(w, "hidden_size_per_layer_input", integer(w, "embedding_length_per_layer_input", 0));
    if (rows >= 0 && weft_gguf_at(w->file, rows)->shape.n == 2)
        put_int(w, "vocab_size_per_layer_input", weft_gguf_at(w->file, rows)->shape.at[0]);
    const int64_t width = of_layer(w, "feed_forward_length", 0, 0);
    weft__text_format(
        &w->out, ",\"use_double_wide_mlp\":%s",
        shared > 0 && of_layer(w, "feed_forward_length", L - 1, 0) == 2 * width ? "true" : "false");
    const bool experts = integer(w, "expert_count", 0) > 0;
    weft__text_format(&w->out, ",\"enable_moe_block\":%s", experts ? "true" : "false");
    if (experts)
        put_int(w, "top_k_experts", integer(w, "expert_used_count", 8));
    weft__text_format(&w->out,
                      ",\"hidden_activation\":\"gelu_pytorch_tanh\",\"rope_parameters\":{"
                      "\"full_attention\":{\"rope_type\":\"proportional\","
                      "\"partial_rotary_factor\":%.9g,\"rope_theta\":%.9g},"
                      "\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":%.9g}}",
                      turned(w), number(w, "rope.freq_base", 1e6),
                      number(w, "rope.freq_base_swa", 1e4));
    put_cap(w, "final_logit_softcapping", number(w, "final_logit_softcapping", 30));
}

/* The rotation of Ministral 3, whose queries are scaled by position. */
static void put_ministral3(writer *w)
{
    weft__text_format(&w->out, ",\"rope_parameters\":{\"rope_type\":\"yarn\"");
    put_number(w, "rope_theta", number(w, "rope.freq_base", 1e6));
    put_number(w, "factor", number(w, "rope.scaling.factor", 1));
    copy_number(w, "beta_fast", "rope.scaling.yarn_beta_fast");
    copy_number(w, "beta_slow", "rope.scaling.yarn_beta_slow");
    copy_int(w, "original_max_position_embeddings", "rope.scaling.original_context_length");
    put_number(w, "mscale", 1);
    put_number(w, "mscale_all_dim", number(w, "rope.scaling.yarn_log_multiplier", 1));
    put_number(w, "llama_4_scaling_beta", number(w, "attention.temperature_scale", 0));
    weft__text_format(&w->out, "}");
}

static void put_minicpm(writer *w)
{
    const double L = number(w, "block_count", 1), logits = number(w, "logit_scale", 1);
    put_number(w, "scale_emb", number(w, "embedding_scale", 1));
    put_number(w, "scale_depth", number(w, "residual_scale", 1 / sqrt(L)) * sqrt(L));
    put_number(w, "dim_model_base", number(w, "embedding_length", 0) / logits);
}

static bool ends_a_turn(const weft_gguf_string *s)
{
    static const char *const texts[] = {
        "<|eot_id|>",    "<|im_end|>", "<|end|>",         "<|eom_id|>",       "<end_of_turn>",
        "<|endoftext|>", "<turn|>",    "<|end_of_text|>", "<|tool_response>", "<eos>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (strlen(texts[i]) == s->n && memcmp(texts[i], s->at, s->n) == 0)
            return true;
    }
    return false;
}

/* The ids that end a sequence, each once. */
enum { MAX_ENDS = 16 };
typedef struct ends {
    int64_t ids[MAX_ENDS];
    int n;
} ends;

static void add_end(ends *e, int64_t id)
{
    for (int i = 0; i < e->n; i++) {
        if (e->ids[i] == id)
            return;
    }
    if (e->n < MAX_ENDS)
        e->ids[e->n++] = id;
}

/* Adds control tokens with texts that llama.cpp treats as end of generation: many files list only
 * the end of a document, but their models end turns with another token. */
static void add_ends_by_text(const writer *w, ends *e)
{
    enum { CONTROL = 3 };
    const weft_gguf_value *types = weft_gguf_value_find(w->file, "tokenizer.ggml.token_type");
    const weft_gguf_value *tokens = weft_gguf_value_find(w->file, "tokenizer.ggml.tokens");
    int64_t type;
    weft_gguf_string text;
    for (int64_t i = 0; weft_gguf_value_int(types, i, &type); i++) {
        if (type == CONTROL && weft_gguf_value_string(tokens, i, &text) && ends_a_turn(&text))
            add_end(e, i);
    }
}

static bool find_id(const writer *w, const char *key, int64_t *id)
{
    return weft_gguf_value_int(weft_gguf_value_find(w->file, key), 0, id);
}

static void put_ids(writer *w)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t id;
    ends e = {.n = 0};
    bool turns = false; /* the file lists the ends of turns */
    if (find_id(w, "tokenizer.ggml.bos_token_id", &id))
        put_int(w, "bos_token_id", id);
    if (find_id(w, "tokenizer.ggml.padding_token_id", &id))
        put_int(w, "pad_token_id", id);
    for (int i = 0; i < 3; i++) {
        if (!find_id(w, keys[i], &id))
            continue;
        add_end(&e, id);
        turns = turns || i > 0;
    }
    if (!turns)
        add_ends_by_text(w, &e);
    if (e.n == 1)
        put_int(w, "eos_token_id", e.ids[0]);
    for (int i = 0; e.n > 1 && i < e.n; i++)
        weft__text_format(&w->out, "%s%lld", i ? "," : ",\"eos_token_id\":[", (long long)e.ids[i]);
    if (e.n > 1)
        weft__text_format(&w->out, "]");
}

/* ---- the whole configuration ----------------------------------------------------------------- */

static bool grows(const writer *w)
{
    return is(w, "mistral3") && number(w, "attention.temperature_scale", 0) != 0;
}

static const char *model_type(const writer *w)
{
    if (!is(w, "llama") && (!is(w, "mistral3") || grows(w)))
        return w->arch->model_type;
    return integer(w, "expert_count", 0) > 0               ? "mixtral"
           : integer(w, "attention.sliding_window", 0) > 0 ? "mistral"
                                                           : "llama";
}

/* The class of transformers, which llama.cpp's converter, vLLM and Ollama read. */
static const char *class_of(const char *model_type)
{
    static const char *const classes[][2] = {
        {"llama", "LlamaForCausalLM"},        {"mistral", "MistralForCausalLM"},
        {"mixtral", "MixtralForCausalLM"},    {"ministral3", "Ministral3ForCausalLM"},
        {"gemma2", "Gemma2ForCausalLM"},      {"gemma3_text", "Gemma3ForCausalLM"},
        {"gemma4_text", "Gemma4ForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
        {"qwen3", "Qwen3ForCausalLM"},        {"qwen3_moe", "Qwen3MoeForCausalLM"},
        {"minicpm", "MiniCPMForCausalLM"},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        if (strcmp(classes[i][0], model_type) == 0)
            return classes[i][1];
    }
    return NULL;
}

static weft_status check(const writer *w)
{
    static const char *const needed[] = {"context_length", "embedding_length", "block_count",
                                         "attention.head_count", "feed_forward_length"};
    static const char *const lists[] = {"attention.head_count", "attention.head_count_kv",
                                        "feed_forward_length"};
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && status == WEFT_OK; i++)
        status = need(w, needed[i]);
    const double epsilon = number(w, "attention.layer_norm_rms_epsilon", NAN);
    if (status == WEFT_OK && !(epsilon > 0))
        status = weft_fail(WEFT_INVALID,
                           "%s: %s.attention.layer_norm_rms_epsilon: expected a positive number",
                           weft_gguf_path(w->file), w->arch->name);
    /* In Gemma 4, heads and widths differ between layers. */
    const size_t n = is(w, "gemma4") ? 1 : sizeof lists / sizeof *lists;
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = alike(w, lists[i]);
    return status;
}

static weft_status put_all(writer *w)
{
    const int table = weft_gguf_find(w->file, "token_embd.weight");
    if (table < 0 || weft_gguf_at(w->file, table)->shape.n != 2)
        return weft_fail(WEFT_INVALID, "%s: tensor 'token_embd.weight': expected a matrix",
                         weft_gguf_path(w->file));
    weft_status status = check(w);
    if (status != WEFT_OK)
        return status;
    const char *class_name = class_of(model_type(w));
    weft__text_format(&w->out, "{\"model_type\":\"%s\"", model_type(w));
    if (class_name)
        weft__text_format(&w->out, ",\"architectures\":[\"%s\"]", class_name);
    copy_int(w, "hidden_size", "embedding_length");
    copy_int(w, "num_hidden_layers", "block_count");
    copy_int(w, "intermediate_size", "feed_forward_length");
    copy_int(w, "max_position_embeddings", "context_length");
    put_int(w, "vocab_size", weft_gguf_at(w->file, table)->shape.at[0]);
    weft__text_format(&w->out, ",\"tie_word_embeddings\":%s",
                      weft_gguf_find(w->file, "output.weight") < 0 ? "true" : "false");
    put_attention(w);
    put_windows(w);
    if (is(w, "gemma4"))
        put_gemma4(w);
    else if (grows(w))
        put_ministral3(w);
    else
        status = put_rope(w);
    if (w->arch->sandwich && !is(w, "gemma4"))
        put_gemma(w);
    if (integer(w, "expert_count", 0) > 0)
        put_experts(w);
    if (is(w, "minicpm"))
        put_minicpm(w);
    put_ids(w);
    weft__text_format(&w->out, "}");
    return status;
}

weft_status weft__gguf_config(const weft_gguf *file, weft_config **out)
{
    weft_gguf_string name;
    char arch[64];
    const char *where = weft_gguf_path(file);
    *out = NULL;
    if (!weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &name))
        return weft_fail(WEFT_INVALID, "%s: general.architecture: expected a string", where);
    snprintf(arch, sizeof arch, "%.*s", (int)(name.n < 63 ? name.n : 63), name.at);
    writer w = {.file = file, .arch = weft__gguf_arch_named(arch, where)};
    if (w.arch == NULL)
        return weft_error_status();
    weft_status status = put_all(&w);
    if (status == WEFT_OK)
        status = w.out.failed ? weft__out_of_memory(where, NULL)
                              : weft_config_parse(w.out.at, where, out);
    weft_free(w.out.at);
    return status;
}
