/* models/gguf/config.c -- converts the metadata of a GGUF file to a config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "models/gguf/arch.h"
#include "models/gguf/gguf.h"

/* ---- the family ------------------------------------------------------------------------------ */

const weft__gguf_arch *weft__gguf_arch_of(const weft_model_family *family)
{
    return family->own ? family->own->gguf : NULL;
}

bool weft__gguf_unclaimed(const weft__gguf_reader *file)
{
    (void)file;
    return false;
}

/* That architecture of a family, NULL: it is not one of its. */
static const weft__gguf_arch *named(const weft_model_family *family, const char *name)
{
    const weft__gguf_arch *arch = weft__gguf_arch_of(family);
    while (arch && strcmp(arch->name, name) != 0)
        arch = arch->next;
    return arch;
}

/* The family of files of an architecture: one that claims this file, or else the one that takes the
 * rest. */
static const weft_model_family *find(const weft__gguf_reader *r, const char *name)
{
    const weft_model_family *rest = NULL;
    const char *otherwise = NULL;
    for (int i = 0; i < weft_model_family_count(); i++) {
        const weft_model_family *family = weft_model_family_at(i);
        const weft__gguf_arch *arch = named(family, name);
        if (arch == NULL)
            continue;
        if (arch->claims && arch->claims(r))
            return weft__family_of_text(family);
        if (arch->claims == NULL && rest == NULL)
            rest = weft__family_of_text(family);
        otherwise = arch->otherwise;
    }
    return rest == NULL && otherwise ? find(r, otherwise) : rest;
}

static weft_status unsupported(const weft__gguf_reader *r)
{
    weft__text known = {0};
    const weft__gguf_arch *last = NULL; /* families with the same record follow each other */
    for (int i = 0; i < weft_model_family_count(); i++) {
        const weft__gguf_arch *first = weft__gguf_arch_of(weft_model_family_at(i));
        for (const weft__gguf_arch *a = first != last ? first : NULL; a; a = a->next) {
            if (a->claims == NULL || a->otherwise)
                weft__text_format(&known, "%s%s", known.n ? ", " : "", a->name);
        }
        last = first;
    }
    const weft_status status =
        weft_fail(WEFT_UNSUPPORTED, "%s: general.architecture '%s' is unsupported (supported: %s)",
                  weft_gguf_path(r->file), weft_printable(r->name), known.failed ? "" : known.at);
    weft_free(known.at);
    return status;
}

weft_status weft__gguf_reader_of(const weft_gguf *file, weft__gguf_reader *out)
{
    weft_gguf_string name;
    *out = (weft__gguf_reader){.file = file};
    if (!weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &name))
        return weft_fail(WEFT_INVALID, "%s: general.architecture: expected a string",
                         weft_gguf_path(file));
    snprintf(out->name, sizeof out->name, "%.*s", (int)(name.n < 63 ? name.n : 63), name.at);
    out->family = find(out, out->name);
    if (out->family == NULL)
        return unsupported(out);
    out->arch = named(out->family, out->name);
    if (out->arch == NULL) /* read as files of another architecture */
        out->arch = out->family->own->gguf;
    return WEFT_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

const weft_gguf_value *weft__gguf_value(const weft__gguf_reader *r, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", r->name, name);
    return weft_gguf_value_find(r->file, key);
}

double weft__gguf_number(const weft__gguf_reader *r, const char *name, double otherwise)
{
    double out;
    return weft_gguf_value_number(weft__gguf_value(r, name), 0, &out) && isfinite(out) ? out
                                                                                       : otherwise;
}

int64_t weft__gguf_integer(const weft__gguf_reader *r, const char *name, int64_t otherwise)
{
    int64_t out;
    return weft_gguf_value_int(weft__gguf_value(r, name), 0, &out) ? out : otherwise;
}

int64_t weft__gguf_of_layer(const weft__gguf_reader *r, const char *name, int64_t layer,
                            int64_t otherwise)
{
    int64_t out;
    const weft_gguf_value *v = weft__gguf_value(r, name);
    return weft_gguf_value_int(v, v && v->is_array ? layer : 0, &out) ? out : otherwise;
}

int64_t weft__gguf_first(const weft__gguf_reader *r, const char *name)
{
    const weft_gguf_value *v = weft__gguf_value(r, name);
    int64_t n = 0;
    for (int64_t i = 0; n <= 0 && weft_gguf_value_int(v, i, &n); i++)
        ;
    return n > 0 ? n : 0;
}

bool weft__gguf_has(const weft__gguf_reader *r, const char *tensor)
{
    return weft_gguf_find(r->file, tensor) >= 0;
}

const char *weft__gguf_floats(const weft__gguf_reader *r, const char *tensor, int64_t *n)
{
    const int i = weft_gguf_find(r->file, tensor);
    const weft_gguf_entry *e = i < 0 ? NULL : weft_gguf_at(r->file, i);
    const bool fine = e && e->dtype == WEFT_FLOAT32 && !e->encoding && e->shape.n == 1;
    *n = fine ? e->shape.at[0] : 0;
    return fine ? weft_gguf_bytes(r->file, i) : NULL;
}

static weft_status need(const weft__gguf_reader *r, const char *name)
{
    return weft__gguf_first(r, name) > 0
               ? WEFT_OK
               : weft_fail(WEFT_INVALID, "%s: %s.%s: expected a positive integer",
                           weft_gguf_path(r->file), r->name, name);
}

/* A list by layer is supported only if all elements are equal. */
static weft_status alike(const weft__gguf_reader *r, const char *name)
{
    const weft_gguf_value *v = weft__gguf_value(r, name);
    int64_t first, other;
    for (int64_t i = 1; v && i < v->count; i++) {
        if (!weft_gguf_value_int(v, 0, &first) || !weft_gguf_value_int(v, i, &other) ||
            other != first)
            return weft_fail(WEFT_UNSUPPORTED, "%s: %s: layers that differ are unsupported",
                             weft_gguf_path(r->file), v->key);
    }
    return WEFT_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

void weft__gguf_add_integer(weft__gguf_reader *r, const char *key, int64_t x)
{
    weft__text_format(&r->out, ",\"%s\":%lld", key, (long long)x);
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

void weft__gguf_add_bool(weft__gguf_reader *r, const char *key, bool x)
{
    weft__text_format(&r->out, ",\"%s\":%s", key, x ? "true" : "false");
}

void weft__gguf_copy(weft__gguf_reader *r, const char *key, const char *name)
{
    const weft_gguf_value *v = weft__gguf_value(r, name);
    const double x = weft__gguf_number(r, name, NAN);
    int64_t n;
    if (weft_gguf_value_int(v, 0, &n))
        weft__gguf_add_integer(r, key, n);
    else if (!isnan(x))
        weft__gguf_add_number(&r->out, key, x);
}

/* ---- parts ---------------------------------------------------------------------------------- */

int64_t weft__gguf_head_dim(const weft__gguf_reader *r)
{
    if (r->arch->latents) /* the part that is rotated */
        return weft__gguf_integer(r, "rope.dimension_count", 0);
    return weft__gguf_integer(r, "attention.key_length",
                              weft__gguf_integer(r, "embedding_length", 0) /
                                  weft__gguf_integer(r, "attention.head_count", 1));
}

static void put_latents(weft__gguf_reader *r, int64_t heads)
{
    const int64_t rotated = weft__gguf_head_dim(r),
                  E = weft__gguf_integer(r, "embedding_length", 0);
    const int64_t key = weft__gguf_integer(r, "attention.key_length", 0),
                  value = weft__gguf_integer(r, "attention.value_length", E / heads);
    weft__gguf_add_integer(r, "num_key_value_heads", heads);
    weft__gguf_add_integer(r, "qk_rope_head_dim", rotated);
    weft__gguf_add_integer(r, "qk_nope_head_dim",
                           weft__gguf_integer(r, "attention.key_length_mla", key) - rotated);
    weft__gguf_add_integer(r, "v_head_dim",
                           weft__gguf_integer(r, "attention.value_length_mla", value));
    weft__gguf_copy(r, "kv_lora_rank", "attention.kv_lora_rank");
    if (weft__gguf_integer(r, "attention.q_lora_rank", 0) > 0)
        weft__gguf_copy(r, "q_lora_rank", "attention.q_lora_rank");
    else
        weft__text_format(&r->out, ",\"q_lora_rank\":null");
}

static void put_heads(weft__gguf_reader *r, int64_t heads)
{
    int64_t head = weft__gguf_head_dim(r);
    if (r->arch->by_layer)
        head = weft__gguf_integer(r, "attention.key_length_swa", head);
    else
        weft__gguf_add_integer(r, "num_key_value_heads",
                               weft__gguf_integer(r, "attention.head_count_kv", heads));
    weft__gguf_add_integer(r, "head_dim", head);
}

/* The key of the norms' epsilon; some files have only that of LayerNorms. */
static const char *epsilon_of(const weft__gguf_reader *r)
{
    static const char other[] = "attention.layer_norm_epsilon";
    const char *key = weft__gguf_epsilon(r->arch);
    return weft__gguf_value(r, key) || !weft__gguf_value(r, other) ? key : other;
}

static void put_attention(weft__gguf_reader *r)
{
    const int64_t n = weft__gguf_integer(r, "block_count", 0);
    int64_t first = 0;
    char bias[64];
    const int64_t heads = weft__gguf_integer(r, "attention.head_count", 1);
    weft__gguf_copy(r, "num_attention_heads", "attention.head_count");
    if (r->arch->latents)
        put_latents(r, heads);
    else
        put_heads(r, heads);
    weft__gguf_copy(r, r->arch->layer_norms ? "layer_norm_eps" : "rms_norm_eps", epsilon_of(r));
    while (first < n && weft__gguf_of_layer(r, "attention.head_count_kv", first, 1) == 0)
        first++; /* a layer of a hybrid without attention */
    snprintf(bias, sizeof bias, "blk.%lld.attn_q.bias", (long long)first);
    weft__gguf_add_bool(r, "attention_bias", weft__gguf_has(r, bias));
    weft__gguf_add_bool(r, "mlp_bias", weft__gguf_has(r, "blk.0.ffn_down.bias"));
}

/* Writes which layers have a window: by period, or individually. */
static void put_windows(weft__gguf_reader *r)
{
    const weft_gguf_value *pattern = weft__gguf_value(r, "attention.sliding_window_pattern");
    const bool window = weft__gguf_integer(r, "attention.sliding_window", 0) > 0;
    if (window)
        weft__gguf_copy(r, "sliding_window", "attention.sliding_window");
    if (pattern && !pattern->is_array)
        weft__gguf_copy(r, "sliding_window_pattern", "attention.sliding_window_pattern");
    if (!pattern || !pattern->is_array)
        return;
    weft__text_format(&r->out, ",\"layer_types\":[");
    for (int64_t i = 0; i < pattern->count; i++) {
        int64_t sliding = 0;
        weft_gguf_value_int(pattern, i, &sliding);
        weft__text_format(&r->out, "%s\"%s\"", i ? "," : "",
                          sliding ? "sliding_attention" : "full_attention");
    }
    weft__text_format(&r->out, "]");
}

void weft__gguf_add_full_layers(weft__gguf_reader *r)
{
    if (weft__gguf_integer(r, "attention.sliding_window", 0) > 0)
        return;
    weft__text_format(&r->out, ",\"layer_types\":[");
    for (int64_t i = 0; i < weft__gguf_integer(r, "block_count", 0); i++)
        weft__text_format(&r->out, "%s\"full_attention\"", i ? "," : "");
    weft__text_format(&r->out, "]");
}

double weft__gguf_float_at(const char *floats, int64_t i)
{
    float x;
    memcpy(&x, floats + 4 * i, sizeof x);
    return (double)x;
}

/* Whether n divisors are those of rope type llama3 (Llama 3.1) with its usual bands: long waves are
 * divided by the factor, short ones are not, between them it changes smoothly. */
static bool is_llama3(const weft__gguf_reader *r, const char *at, int64_t n, double context,
                      double factor)
{
    enum { LOW = 1, HIGH = 4 };
    const double base = weft__gguf_number(r, "rope.freq_base", 10000);
    for (int64_t j = 0; j < n; j++) {
        const double wave = 2 * M_PI * pow(base, (double)j / (double)n);
        double smooth = (context / wave - LOW) / (HIGH - LOW);
        smooth = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
        const double expected = 1 / ((1 - smooth) / factor + smooth);
        if (!(fabs(weft__gguf_float_at(at, j) - expected) <= 1e-4 * expected))
            return false;
    }
    return true;
}

/* Writes the divisors as rope type llama3 if they are of that type. */
static bool put_llama3(weft__gguf_reader *r, const char *at, int64_t n)
{
    const double factor = n > 0 ? weft__gguf_float_at(at, n - 1) : 0;
    for (int64_t context = 16; factor > 1 && context <= 1 << 20; context *= 2) {
        if (!is_llama3(r, at, n, (double)context, factor))
            continue;
        weft__text_format(&r->out, ",\"rope_scaling\":{\"rope_type\":\"llama3\"");
        weft__gguf_add_number(&r->out, "factor", factor);
        weft__text_format(&r->out,
                          ",\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                          "\"original_max_position_embeddings\":%lld}",
                          (long long)context);
        return true;
    }
    return false;
}

void weft__gguf_add_list(weft__gguf_reader *r, const char *key, const char *tensor)
{
    int64_t n;
    const char *at = weft__gguf_floats(r, tensor, &n);
    weft__text_format(&r->out, ",\"%s\":[", key);
    for (int64_t i = 0; i < n; i++)
        weft__text_format(&r->out, "%s%.9g", i ? "," : "", weft__gguf_float_at(at, i));
    weft__text_format(&r->out, "]");
}

/* Writes divisors of the frequencies as rope type llama3 or as longrope's lists, which can express
 * all. */
static weft_status put_divisors(weft__gguf_reader *r)
{
    int64_t n;
    const char *at = weft__gguf_floats(r, WEFT__GGUF_DIVISORS, &n);
    const weft_gguf_entry *e = weft_gguf_at(r->file, weft_gguf_find(r->file, WEFT__GGUF_DIVISORS));
    if (at == NULL)
        return weft_fail(WEFT_INVALID, "%s: tensor '%s': expected F32 of one dim, found %s of %d",
                         weft_gguf_path(r->file), weft_printable(e->name), e->type, e->shape.n);
    if (put_llama3(r, at, n))
        return WEFT_OK;
    weft__text_format(&r->out,
                      ",\"rope_scaling\":{\"rope_type\":\"longrope\","
                      "\"attention_factor\":1.0,\"factor\":1.0,"
                      "\"original_max_position_embeddings\":%lld",
                      (long long)weft__gguf_integer(r, "context_length", 1));
    weft__gguf_add_list(r, "short_factor", WEFT__GGUF_DIVISORS);
    weft__gguf_add_list(r, "long_factor", WEFT__GGUF_DIVISORS);
    weft__text_format(&r->out, "}");
    return WEFT_OK;
}

void weft__gguf_add_yarn(weft__gguf_reader *r)
{
    weft__gguf_add_number(&r->out, "factor", weft__gguf_number(r, "rope.scaling.factor", 1));
    weft__gguf_copy(r, "original_max_position_embeddings", "rope.scaling.original_context_length");
    weft__gguf_copy(r, "beta_fast", "rope.scaling.yarn_beta_fast");
    weft__gguf_copy(r, "beta_slow", "rope.scaling.yarn_beta_slow");
}

static weft_status put_scaling(weft__gguf_reader *r)
{
    weft_gguf_string type;
    if (weft__gguf_has(r, WEFT__GGUF_DIVISORS))
        return put_divisors(r);
    if (!weft_gguf_value_string(weft__gguf_value(r, "rope.scaling.type"), 0, &type) ||
        (type.n == 4 && memcmp(type.at, "none", 4) == 0))
        return WEFT_OK;
    const bool linear = type.n == 6 && memcmp(type.at, "linear", 6) == 0;
    const bool yarn = type.n == 4 && memcmp(type.at, "yarn", 4) == 0;
    if (!linear && !yarn)
        return weft_fail(WEFT_UNSUPPORTED, "%s: %s.rope.scaling.type '%s' is unsupported",
                         weft_gguf_path(r->file), r->name,
                         weft_printable_n(type.at, (size_t)type.n));
    weft__text_format(&r->out, ",\"rope_scaling\":{\"rope_type\":\"%s\"",
                      linear ? "linear" : "yarn");
    weft__gguf_add_yarn(r);
    weft__gguf_copy(r, "attention_factor", "rope.scaling.attn_factor");
    weft__text_format(&r->out, "}");
    return WEFT_OK;
}

weft_status weft__gguf_add_rotation(weft__gguf_reader *r)
{
    weft__gguf_add_number(&r->out, "rope_theta", weft__gguf_number(r, "rope.freq_base", 10000));
    const int64_t head = weft__gguf_head_dim(r);
    const int64_t rotated = weft__gguf_integer(r, "rope.dimension_count", head);
    if (rotated != head && r->arch->permuted)
        return weft_fail(WEFT_UNSUPPORTED,
                         "%s: %s.rope.dimension_count: expected the size of a head, %lld, got %lld",
                         weft_gguf_path(r->file), r->name, (long long)head, (long long)rotated);
    if (r->family->own->defaults->partial_rotary_factor > 0)
        weft__gguf_add_number(&r->out, "partial_rotary_factor", (double)rotated / (double)head);
    else if (rotated != head)
        weft__gguf_add_integer(r, "rope_dimension_count", rotated);
    return WEFT_OK;
}

static weft_status put_rope(weft__gguf_reader *r)
{
    const weft_status status = weft__gguf_add_rotation(r);
    return status == WEFT_OK ? put_scaling(r) : status;
}

static void put_experts(weft__gguf_reader *r)
{
    weft__gguf_copy(r, "num_experts", "expert_count");
    weft__gguf_copy(r, "num_local_experts", "expert_count");
    weft__gguf_copy(r, "num_experts_per_tok", "expert_used_count");
    weft__gguf_copy(r, "moe_intermediate_size", "expert_feed_forward_length");
    weft__gguf_add_bool(r, "norm_topk_prob",
                        weft__gguf_integer(r, "expert_weights_norm", !r->arch->plain_shares) != 0);
}

static bool is_text(const weft_gguf_string *s, const char *text)
{
    return strlen(text) == s->n && memcmp(text, s->at, s->n) == 0;
}

static bool ends_a_turn(const weft_gguf_string *s)
{
    static const char *const texts[] = {"<|eot_id|>", "<|im_end|>",      "<|end|>",
                                        "<|eom_id|>", "<end_of_turn>",   "<|endoftext|>",
                                        "<turn|>",    "<|end_of_text|>", "<|tool_response>",
                                        "<eos>",      "<|return|>",      "<|call|>"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (is_text(s, texts[i]))
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
static void add_ends_by_text(const weft__gguf_reader *r, ends *e)
{
    enum { CONTROL = 3 };
    const weft_gguf_value *types = weft_gguf_value_find(r->file, "tokenizer.ggml.token_type");
    const weft_gguf_value *tokens = weft_gguf_value_find(r->file, "tokenizer.ggml.tokens");
    int64_t type;
    weft_gguf_string text;
    bool harmony = false; /* <|end|> ends a message, and another one of the turn may follow */
    for (int64_t i = 0; weft_gguf_value_string(tokens, i, &text) && !harmony; i++)
        harmony = is_text(&text, "<|call|>");
    for (int64_t i = 0; weft_gguf_value_int(types, i, &type); i++) {
        if (type == CONTROL && weft_gguf_value_string(tokens, i, &text) && ends_a_turn(&text) &&
            !(harmony && is_text(&text, "<|end|>")))
            add_end(e, i);
    }
}

static bool find_id(const weft__gguf_reader *r, const char *key, int64_t *id)
{
    return weft_gguf_value_int(weft_gguf_value_find(r->file, key), 0, id);
}

static void put_ids(weft__gguf_reader *r)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t id;
    ends e = {.n = 0};
    bool turns = false; /* the file lists the ends of turns */
    if (find_id(r, "tokenizer.ggml.bos_token_id", &id))
        weft__gguf_add_integer(r, "bos_token_id", id);
    if (find_id(r, "tokenizer.ggml.padding_token_id", &id))
        weft__gguf_add_integer(r, "pad_token_id", id);
    for (int i = 0; i < 3; i++) {
        if (!find_id(r, keys[i], &id))
            continue;
        add_end(&e, id);
        turns = turns || i > 0;
    }
    if (!turns)
        add_ends_by_text(r, &e);
    if (e.n == 1)
        weft__gguf_add_integer(r, "eos_token_id", e.ids[0]);
    for (int i = 0; e.n > 1 && i < e.n; i++)
        weft__text_format(&r->out, "%s%lld", i ? "," : ",\"eos_token_id\":[", (long long)e.ids[i]);
    if (e.n > 1)
        weft__text_format(&r->out, "]");
}

/* ---- the whole configuration ----------------------------------------------------------------- */

static weft_status check(const weft__gguf_reader *r)
{
    static const char *const needed[] = {"context_length", "embedding_length", "block_count",
                                         "attention.head_count", "feed_forward_length"};
    static const char *const lists[] = {"attention.head_count", "attention.head_count_kv",
                                        "feed_forward_length"};
    weft_status status = WEFT_OK;
    const size_t n_needed = sizeof needed / sizeof *needed - (r->arch->width ? 1 : 0); /* no MLPs */
    for (size_t i = 0; i < n_needed && status == WEFT_OK; i++)
        status = need(r, needed[i]);
    const int64_t layers = weft__gguf_integer(r, "block_count", 1);
    if (status == WEFT_OK && layers > WEFT__MOST_LAYERS)
        status = weft_fail(WEFT_INVALID, "%s: %s.block_count: expected at most %d, got %lld",
                           weft_gguf_path(r->file), r->name, WEFT__MOST_LAYERS, (long long)layers);
    const char *key = epsilon_of(r);
    const double epsilon = weft__gguf_number(r, key, NAN);
    if (status == WEFT_OK && !(epsilon > 0))
        status = weft_fail(WEFT_INVALID, "%s: %s.%s: expected a positive number",
                           weft_gguf_path(r->file), r->name, key);
    const size_t n = r->arch->by_layer ? 1 : sizeof lists / sizeof *lists;
    for (size_t i = 0; i < n && status == WEFT_OK; i++)
        status = alike(r, lists[i]);
    return status;
}

static weft_status put_all(weft__gguf_reader *r)
{
    const int table = weft_gguf_find(r->file, "token_embd.weight");
    if (table < 0 || weft_gguf_at(r->file, table)->shape.n != 2)
        return weft_fail(WEFT_INVALID, "%s: tensor 'token_embd.weight': expected a matrix",
                         weft_gguf_path(r->file));
    weft_status status = check(r);
    if (status != WEFT_OK)
        return status;
    weft__text_format(&r->out, "{\"model_type\":\"%s\"", r->family->model_type);
    status = weft__gguf_read_head(r);
    if (status != WEFT_OK)
        return status;
    weft__gguf_copy(r, "hidden_size", "embedding_length");
    weft__gguf_copy(r, "num_hidden_layers", "block_count");
    if (weft__gguf_first(r, "feed_forward_length") > 0)
        weft__gguf_add_integer(r, "intermediate_size", weft__gguf_first(r, "feed_forward_length"));
    weft__gguf_copy(r, "max_position_embeddings", "context_length");
    weft__gguf_add_integer(r, "vocab_size", weft_gguf_at(r->file, table)->shape.at[0]);
    weft__gguf_add_bool(r, "tie_word_embeddings", !weft__gguf_has(r, "output.weight"));
    put_attention(r);
    put_windows(r);
    status = r->arch->unrotated   ? WEFT_OK
             : r->arch->read_rope ? r->arch->read_rope(r)
                                  : put_rope(r);
    if (weft__gguf_integer(r, "expert_count", 0) > 0)
        put_experts(r);
    if (r->arch->read)
        r->arch->read(r);
    put_ids(r);
    weft__text_format(&r->out, "}");
    return status;
}

weft_status weft__gguf_config(const weft_gguf *file, weft_config **out)
{
    weft__gguf_reader r;
    *out = NULL;
    weft_status status = weft__gguf_reader_of(file, &r);
    if (status == WEFT_OK)
        status = put_all(&r);
    if (status == WEFT_OK)
        status = r.out.failed ? weft__out_of_memory(weft_gguf_path(file), NULL)
                              : weft_config_parse(r.out.at, weft_gguf_path(file), out);
    weft_free(r.out.at);
    return status;
}
