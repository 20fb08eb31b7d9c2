/* tests/models/test_latent.c -- latent attention: decoding, which multiplies queries by kv_b_proj,
 * against keys and values that are computed from it; its caches, and generation with them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/lora.h"
#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/cache.h"
#include "weft/generate.h"
#include "weft/nn_tools.h"
#include "weft/ops.h"
#include "weft/prompt_cache.h"
#include "weft/state.h"
#include "weft/train.h"

enum { PROMPT = 40, MORE = 12, TOKENS = 24, LATENT = 32, ROTATED = 8 };

static const char *const families[] = {"glm4-moe-lite", "glm4-moe-lite-groups", "minicpm3"};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void write_ids(int32_t *ids, int n, int seed)
{
    for (int i = 0; i < n; i++)
        ids[i] = 5 + (i * 7 + seed * 11) % 80;
}

static double apart(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* The largest difference between logits of all tokens at once and with caches: a prompt of 5
 * tokens, then 1, 2, 1, 2, ... at a time. */
static double cached_apart(weft_model *model, const weft_cache_options *options)
{
    weft_cache **caches = weft_model_new_caches(model, options);
    const weft_model_call call = {.caches = caches};
    int32_t ids[2 * TOKENS];
    weft_array *parts[TOKENS];
    int n = 0;
    if (!CHECK(caches != NULL))
        return INFINITY;
    weft_scope_open();
    write_ids(ids, 2 * TOKENS, 1);
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, TOKENS));
    weft_array *whole = weft_model_forward(model, tokens, NULL);
    for (int64_t at = 0, end; at < TOKENS; at = end) {
        end = at == 0 ? 5 : at + 1 + n % 2;
        end = end < TOKENS ? end : TOKENS;
        parts[n] = weft_model_forward(model, weft_slice_axis(tokens, 1, at, end), &call);
        CHECK_OK(weft_eval(parts[n++]));
    }
    const double x = apart(weft_concatenate(parts, n, 1), whole);
    weft_scope_close(NULL);
    weft_model_free_caches(model, caches);
    return x;
}

/* ---- kv_b_proj in every form ------------------------------------------------------------------
 */

static bool is_kv_b(void *context, const char *path, const weft_module *m)
{
    (void)context;
    (void)m;
    return strstr(path, "kv_b_proj") != NULL;
}

/* Adapters begin at zero; B becomes B plus numbers in +-0.2, and magnitudes change by a tenth. */
static weft_status shake(void *context, const weft_nn_item *item)
{
    (void)context;
    weft_scope_open();
    weft_array *x = *item->slot->address, *noise;
    noise = weft_random_uniform(NULL, weft_shape(x), -0.2, 0.2, WEFT_FLOAT32);
    if (strstr(item->path, "lora_B"))
        CHECK_OK(weft_set(item->slot->address, weft_add(x, noise)));
    if (strstr(item->path, "magnitude"))
        CHECK_OK(weft_set(item->slot->address,
                          weft_multiply(x, weft_add_scalar(weft_scale(noise, 0.5), 1))));
    weft_scope_close(NULL);
    return WEFT_OK;
}

static void adapt(weft_model *model, bool dora)
{
    const char *targets[] = {"kv_b_proj", "o_proj"};
    const weft_nn_lora_options o = {
        .targets = targets, .n_targets = 2, .rank = 3, .alpha = 6, .dora = dora};
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
    CHECK_OK(weft_nn_visit(weft_model_module(model), shake, NULL));
}

static void quantize(weft_model *model)
{
    const weft_nn_quantize_options o = {.format = {.bits = 4, .group_size = 32},
                                        .accepts = is_kv_b};
    CHECK_OK(weft_nn_quantize(weft_model_module(model), &o));
}

static weft_status keep_kv_b(void *context, const char *path, weft_module **field)
{
    weft_module **found = context;
    const size_t n = strlen(path), end = strlen("kv_b_proj");
    if (*found == NULL && n >= end && strcmp(path + n - end, "kv_b_proj") == 0)
        *found = *field;
    return WEFT_OK;
}

/* The first layer's. */
static weft_module *kv_b_of(weft_model *model)
{
    weft_module *found = NULL;
    CHECK_OK(weft_nn_visit_modules(weft_model_module(model), keep_kv_b, &found));
    return found;
}

/* Products of many rows may round decoded weights to their dtype, bfloat16, those of few rows do
 * not; with experts that is too much, since others may be chosen. */
static void absorbed_is_expanded(void)
{
    static const struct {
        const char *name;
        bool quantized, adapted, dora, merged;
    } forms[] = {
        {.name = "plain"},
        {.name = "quantized", .quantized = true},
        {.name = "adapter", .adapted = true},
        {.name = "adapter on quantized", .quantized = true, .adapted = true},
        {.name = "DoRA", .adapted = true, .dora = true},
        {.name = "merged", .adapted = true, .merged = true},
    };
    for (int f = check_few() ? N_FAMILIES - 1 : 0; f < N_FAMILIES; f++) {
        for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
            weft_model *model = fixture_model(families[f]);
            weft__lora_terms terms;
            if (model == NULL || (forms[i].quantized && f < 2)) {
                weft_model_free(model);
                continue;
            }
            if (forms[i].quantized)
                quantize(model);
            if (forms[i].adapted)
                adapt(model, forms[i].dora);
            if (forms[i].merged)
                CHECK_OK(weft_nn_lora_merge(weft_model_module(model)));
            CHECK(weft__lora_terms_of(kv_b_of(model), &terms));
            const double x = cached_apart(model, NULL);
            printf("  %s, %s: %.3g\n", families[f], forms[i].name, x);
            CHECK_CLOSE(x, 0, forms[i].quantized ? 3e-3 : 2e-5);
            weft_model_free(model);
        }
    }
}

/* While training, an adapter may drop inputs, which no matrix of its sum shows. */
static void training_is_not_absorbed(void)
{
    weft_model *model = fixture_model("minicpm3");
    if (model == NULL)
        return;
    adapt(model, false);
    weft_module *kv_b = kv_b_of(model);
    weft__lora_terms terms;
    CHECK(weft__lora_terms_of(kv_b, &terms));
    weft_nn_train(weft_model_module(model), true);
    CHECK(!weft__lora_terms_of(kv_b, &terms));
    weft_model_free(model);
}

/* With int8 activations kv_b_proj keeps its own, since the absorbed form has no activations that
 * could be rounded. */
static void int8_activations_leave_kv_b_out(void)
{
    weft_model *model = NULL;
    weft__lora_terms terms;
    const weft_model_options o = {.int8_activations = true};
    if (!CHECK_OK(weft_model_load(check_fixture("models/minicpm3"), &o, &model)))
        return;
    quantize(model);
    CHECK(weft__lora_terms_of(kv_b_of(model), &terms));
    const double x = cached_apart(model, NULL);
    printf("  int8 activations: %.3g\n", x);
    CHECK_CLOSE(x, 0, 3e-3);
    ((weft_nn_linear *)kv_b_of(model))->int8 = true;
    CHECK(!weft__lora_terms_of(kv_b_of(model), &terms));
    weft_model_free(model);
}

/* ---- caches -----------------------------------------------------------------------------------
 */

/* Latents and the rotated parts of keys, once. */
static void caches_hold_latents(void)
{
    static const struct {
        weft_cache_options options;
        int64_t bytes; /* per token and layer */
        double tolerance;
    } kinds[] = {
        {{.kv_bits = 32}, (LATENT + ROTATED) * 4, 2e-5},
        {{.kv_bits = 16}, (LATENT + ROTATED) * 2, 2e-2},
        {{.kv_bits = 8}, LATENT + ROTATED + 8, 0.1},
        {{.kv_bits = 4}, (LATENT + ROTATED) / 2 + 16, 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        weft_model *model = fixture_model("minicpm3");
        weft_cache_plan plan;
        if (model == NULL)
            return;
        CHECK_OK(weft_model_plan_caches(model, &kinds[i].options, &plan));
        CHECK_EQ_INT(plan.token_bytes, 2 * kinds[i].bytes);
        const double x = cached_apart(model, &kinds[i].options);
        printf("  %d bits: %.3g\n", kinds[i].options.kv_bits, x);
        CHECK_CLOSE(x, 0, kinds[i].tolerance);
        weft_model_free(model);
    }
}

static void values_are_a_view_of_the_keys(void)
{
    weft_model *model = fixture_model("minicpm3");
    weft_cache **caches = model ? weft_model_new_caches(model, NULL) : NULL;
    weft_array **slots[WEFT_CACHE_SLOTS];
    if (!CHECK(caches != NULL))
        return;
    weft_scope_open();
    weft_array *k =
        weft_random_uniform(NULL, WEFT_DIMS(1, 3, 1, LATENT + ROTATED), -1, 1, WEFT_FLOAT32);
    const weft_cache_view view = weft_cache_update(caches[0], k, NULL);
    CHECK_EQ_INT(weft_cache_state(caches[0], slots), 1);
    CHECK_CLOSE(apart(view.keys, k), 0, 0);
    CHECK_CLOSE(apart(view.values, weft_slice_axis(k, 3, 0, LATENT)), 0, 0);
    CHECK_CONTAINS(weft_error(weft_cache_update(caches[0], k, k).keys),
                   "cache: expected no values, which are a part of the keys, got values");
    weft_array *narrow = weft_zeros(WEFT_DIMS(1, 3, 1, LATENT), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_cache_update(caches[1], narrow, NULL).keys),
                   "cache: expected keys of more than 32 elements, got 32");
    weft_cache *usual = weft_cache_new();
    CHECK_CONTAINS(weft_error(weft_cache_update(usual, k, NULL).keys),
                   "cache: expected values, got none");
    weft_cache_free(usual);
    weft_cache *copy = weft_cache_copy(caches[0]);
    CHECK(copy && weft_cache_check(copy) == WEFT_OK && weft_cache_length(copy) == 3);
    CHECK_OK(weft_cache_trim(copy, 2));
    CHECK(copy && weft_cache_length(copy) == 1 && weft_cache_length(caches[0]) == 3);
    weft_cache_free(copy);
    CHECK_OK(weft_set(slots[0], narrow)); /* as from a malformed file */
    CHECK_STATUS(weft_cache_check(caches[0]), WEFT_INVALID);
    weft_scope_close(NULL);
    weft_model_free_caches(model, caches);
    weft_model_free(model);
}

/* ---- generation -------------------------------------------------------------------------------
 */

/* Generates MORE tokens; returns how many of the prompt came from the prompt cache. */
static int64_t generate(weft_model *model, weft_generate_options o, const int32_t *ids, int n,
                        int32_t *out)
{
    o.max_tokens = MORE;
    o.ignore_eos = true;
    return generated_ids(model, ids, n, &o, out, MORE).cached_tokens;
}

/* In chunks, compiled or not, several steps at a time, with drafts, which are trimmed. */
static void the_ways_of_computing_agree(void)
{
    for (int f = check_few() ? N_FAMILIES - 1 : 0; f < N_FAMILIES; f++) {
        weft_model *model = fixture_model(families[f]);
        int32_t ids[PROMPT], plain[MORE], other[MORE];
        if (model == NULL)
            return;
        write_ids(ids, PROMPT, f);
        generate(model, (weft_generate_options){.no_cache = true}, ids, PROMPT, plain);
        const weft_generate_options ways[] = {{.prefill = 0},
                                              {.prefill = 7},
                                              {.no_compile = true},
                                              {.tokens_per_eval = 4},
                                              {.cache.max_context = 100},
                                              {.ngram = 2},
                                              {.ngram = 2, .no_compile = true},
                                              {.draft = model}};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            generate(model, ways[i], ids, PROMPT, other);
            CHECK_BYTES(other, plain, sizeof plain);
        }
        /* Attention forgets: other tokens, but the same compiled or not. */
        const weft_cache_options forgets = {.max_context = 16, .kv_bits = 8};
        generate(model, (weft_generate_options){.cache = forgets}, ids, PROMPT, plain);
        generate(model, (weft_generate_options){.cache = forgets, .no_compile = true}, ids, PROMPT,
                 other);
        CHECK_BYTES(other, plain, sizeof plain);
        weft_model_free(model);
    }
}

/* The common beginning of two prompts is computed once, also after loading from a file. */
static void prompt_caches(void)
{
    weft_model *model = fixture_model("glm4-moe-lite");
    weft_prompt_cache *cache = NULL, *again = NULL;
    const weft_prompt_cache_options o = {.min_tokens = 4};
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &o, &cache)) ||
        !CHECK_OK(weft_prompt_cache_new(model, &o, &again)))
        return;
    const weft_generate_options with = {.prompt_cache = cache}, loaded = {.prompt_cache = again};
    int32_t ids[PROMPT], plain[MORE], out[MORE];
    write_ids(ids, PROMPT, 1);
    CHECK_EQ_INT(generate(model, with, ids, PROMPT, out), 0);
    ids[30]++;
    generate(model, (weft_generate_options){0}, ids, PROMPT, plain);
    const char *file = check_temporary("latents.safetensors");
    CHECK_OK(weft_prompt_cache_save(cache, file));
    CHECK_EQ_INT(generate(model, with, ids, PROMPT, out), 30);
    CHECK_BYTES(out, plain, sizeof plain);
    if (CHECK_OK(weft_prompt_cache_load(again, file))) {
        CHECK_EQ_INT(generate(model, loaded, ids, PROMPT, out), 30);
        CHECK_BYTES(out, plain, sizeof plain);
    }
    weft_prompt_cache_free(again);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

static void an_unfinished_generation_is_saved(void)
{
    weft_model *model = fixture_model("minicpm3");
    const weft_generate_options o = {.max_tokens = MORE, .ignore_eos = true, .cache.kv_bits = 8};
    const char *file = check_temporary("generation.safetensors");
    int32_t ids[PROMPT], plain[MORE], out[MORE];
    weft_generator *g = NULL, *again = NULL;
    if (model == NULL)
        return;
    write_ids(ids, PROMPT, 4);
    generate(model, o, ids, PROMPT, plain);
    CHECK_OK(weft_generator_new(model, ids, PROMPT, &o, &g));
    for (int i = 0; i < 5; i++)
        CHECK_OK(weft_generator_next(g, &out[i], NULL));
    CHECK_OK(weft_state_save(g, file, NULL));
    weft_generator_free(g);
    if (CHECK_OK(weft_state_load(model, file, NULL, NULL, &again))) {
        for (int i = 5; i < MORE; i++)
            CHECK_OK(weft_generator_next(again, &out[i], NULL));
        CHECK_BYTES(out, plain, sizeof plain);
    }
    weft_generator_free(again);
    weft_model_free(model);
}

/* Each id of a list ends a text, whichever comes first. */
static void generation_ends_at_each_stop_token(void)
{
    for (int f = 0; f < N_FAMILIES; f += 2) {
        weft_model *model = fixture_model(families[f]);
        const char *folder = check_temporary(families[f]);
        int32_t ids[PROMPT], plain[MORE], id = 0;
        char path[512];
        weft_generator *g = NULL;
        if (model == NULL || !CHECK_OK(weft_model_save(model, folder)))
            return;
        write_ids(ids, PROMPT, f);
        generate(model, (weft_generate_options){0}, ids, PROMPT, plain);
        weft_model_free(model);
        snprintf(path, sizeof path, "%s/generation_config.json", folder);
        FILE *file = fopen(path, "w");
        if (!CHECK(file != NULL))
            return;
        fprintf(file, "{\"eos_token_id\":[%d,%d,1]}", plain[MORE - 1], plain[5]);
        fclose(file);
        int end = 0;
        while (plain[end] != plain[MORE - 1] && plain[end] != plain[5])
            end++;
        if (CHECK_OK(weft_model_load(folder, NULL, &model)) &&
            CHECK_OK(weft_generator_new(model, ids, PROMPT, NULL, &g))) {
            for (int i = 0; i < end; i++) {
                CHECK_OK(weft_generator_next(g, &id, NULL));
                CHECK_EQ_INT(id, plain[i]);
            }
            CHECK_OK(weft_generator_next(g, &id, NULL));
            CHECK_EQ_INT(id, -1);
        }
        weft_generator_free(g);
        weft_model_free(model);
    }
}

/* The published MiniCPM3 has longrope that never switches within max_position_embeddings: steps are
 * compiled, and rows are computed together. */
static void longrope_is_compiled(void)
{
    weft_model *model = fixture_model("minicpm3-plain");
    int32_t ids[PROMPT], plain[MORE], out[MORE];
    weft_generate_stats stats;
    const weft_generate_options o = {.max_tokens = MORE, .ignore_eos = true};
    if (model == NULL)
        return;
    CHECK_EQ_INT(weft_model_info_of(model)->renews_at, 38);
    CHECK(weft_model_info_of(model)->takes_offset);
    for (int n = 20; n <= 34; n += 14) { /* the second text grows beyond the switch */
        write_ids(ids, n, 2);
        generate(model, (weft_generate_options){.no_cache = true}, ids, n, plain);
        generate(model, (weft_generate_options){0}, ids, n, out);
        CHECK_BYTES(out, plain, sizeof plain);
    }
    CHECK_OK(weft_generate(model, NULL, ids, 20, &o, NULL, NULL, &stats));
    CHECK(stats.compiles > 0);
    weft_model_free(model);
}

/* ---- files of mlx-lm ---------------------------------------------------------------------------
 */

static const char small[] =
    "{\"model_type\":\"glm4_moe_lite\",\"vocab_size\":40,\"hidden_size\":64,"
    "\"intermediate_size\":32,\"moe_intermediate_size\":32,\"num_hidden_layers\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":2,\"q_lora_rank\":null,"
    "\"kv_lora_rank\":64,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":8,\"v_head_dim\":16,"
    "\"n_routed_experts\":4,\"num_experts_per_tok\":2}";

typedef struct writing {
    int n;
    char names[64][WEFT_NN_PATH];
    const char *listed[64];
    weft_array *arrays[64];
    bool quantized;
} writing;

static void write_one(writing *w, const char *path, const char *part, weft_array *a)
{
    const int n = w->n++;
    const char *at = strstr(path, "kv_b_proj.weight");
    snprintf(w->names[n], WEFT_NN_PATH, "%.*s%s", at ? (int)(at - path) : (int)strlen(path), path,
             part);
    w->listed[n] = w->names[n];
    w->arrays[n] = weft_copy(a);
}

/* The matrices of each head (H, rows, K), as mlx-lm stores them. */
static void write_heads(writing *w, const char *path, const char *name, weft_array *a)
{
    static const char *const kinds[] = {"weight", "scales", "biases"};
    const weft_quantize_options format = {.bits = 4, .group_size = 32};
    weft_array *parts[3] = {a};
    char part[64];
    if (w->quantized)
        weft_quantize(a, &format, parts);
    for (int i = 0; i < 3 && parts[i]; i++) {
        snprintf(part, sizeof part, "%s.%s", name, kinds[i]);
        write_one(w, path, part, parts[i]);
    }
}

/* kv_b_proj becomes matrices of keys and values; where these are quantized, it gets their values.
 */
static weft_status write_item(void *context, const weft_nn_item *item)
{
    writing *w = context;
    weft_array *a = *item->slot->address;
    if (strstr(item->path, "kv_b_proj") == NULL) {
        write_one(w, item->path, "", a);
        return WEFT_OK;
    }
    const weft_quantize_options format = {.bits = 4, .group_size = 32};
    weft_array *heads = weft_reshape(a, WEFT_DIMS(2, 48, 64)), *parts[3];
    weft_array *keys = weft_swapaxes(weft_slice_axis(heads, 1, 0, 32), 1, 2),
               *values = weft_slice_axis(heads, 1, 32, 48);
    write_heads(w, item->path, "embed_q", keys);
    write_heads(w, item->path, "unembed_out", values);
    if (!w->quantized)
        return WEFT_OK;
    weft_quantize(keys, &format, parts);
    keys = weft_dequantize(parts[0], parts[1], parts[2], WEFT_FLOAT32, &format);
    weft_quantize(values, &format, parts);
    values = weft_dequantize(parts[0], parts[1], parts[2], WEFT_FLOAT32, &format);
    weft_array *both[] = {weft_swapaxes(keys, 1, 2), values};
    return weft_set(item->slot->address,
                    weft_reshape(weft_concatenate(both, 2, 1), WEFT_DIMS(96, 64)));
}

/* embed_q (H, R, nope) and unembed_out (H, v, R), dense and quantized, become kv_b_proj, which is
 * saved under the name of transformers. */
static void heads_of_mlx_are_read(void)
{
    for (int quantized = 0; quantized < 2; quantized++) {
        static writing w;
        const char *folder = check_temporary(quantized ? "codes" : "dense"),
                   *again = check_temporary(quantized ? "codes-again" : "dense-again");
        char path[512];
        int32_t ids[TOKENS];
        weft_config *config = NULL;
        weft_model *model = NULL, *read = NULL;
        write_ids(ids, TOKENS, 3);
        for (int i = 0; i < TOKENS; i++)
            ids[i] %= 40;
        CHECK_OK(weft_config_parse(small, "config.json", &config));
        if (config == NULL || !CHECK_OK(weft_model_new(config, &model)) ||
            !CHECK_OK(weft_model_save(model, folder)))
            return;
        weft_scope_open();
        w = (writing){.quantized = quantized};
        CHECK_OK(weft_nn_visit(weft_model_module(model), write_item, &w));
        snprintf(path, sizeof path, "%s/model.safetensors", folder);
        CHECK_OK(weft_safetensors_save(path, w.listed, w.arrays, w.n, NULL, 0));
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, TOKENS));
        weft_array *expected = weft_model_forward(model, tokens, NULL);
        for (int turn = 0; turn < 2; turn++) {
            if (CHECK_OK(weft_model_load(turn == 0 ? folder : again, NULL, &read))) {
                CHECK_CLOSE(apart(weft_model_forward(read, tokens, NULL), expected), 0, 1e-6);
                CHECK_OK(weft_model_save(read, again));
            }
            weft_model_free(read);
        }
        weft_safetensors *file = NULL;
        snprintf(path, sizeof path, "%s/model.safetensors", again);
        if (CHECK_OK(weft_safetensors_open(path, &file)))
            CHECK(weft_safetensors_find(file, "model.layers.0.self_attn.kv_b_proj.weight") >= 0);
        weft_safetensors_close(file);
        weft_scope_close(NULL);
        weft_model_free(model);
        weft_config_free(config);
    }
}

/* ---- configuration ----------------------------------------------------------------------------
 */

static void wrong_sizes_are_refused(void)
{
    static const struct {
        const char *keys, *message;
    } cases[] = {
        {"\"kv_lora_rank\":-1", "config.json: kv_lora_rank: expected 1 to 65536, got -1"},
        {"\"kv_lora_rank\":0", "config.json: kv_lora_rank: expected 1 to 65536, got 0"},
        {"\"n_routed_experts\":0", "config.json: n_routed_experts: expected 1 to 32767, got 0"},
        {"\"qk_rope_head_dim\":7", "config.json: qk_rope_head_dim: expected an even number, got 7"},
        {"\"num_key_value_heads\":10",
         "config.json: num_key_value_heads: expected num_attention_heads 20, got 10"},
        {"\"n_group\":3", "config.json: n_group, topk_group: 3 and 1 do not fit 64 experts"},
        {"\"n_group\":32", "n_group, topk_group: 32 and 1 do not fit 64 experts, of which 4"},
        {"\"n_shared_experts\":0", "config.json: n_shared_experts, routed_scaling_factor:"},
        {"\"mlp_layer_types\":[\"dense\"]", "mlp_layer_types: expected 2 layers, got 1"},
        {"\"mlp_layer_types\":[\"dense\",\"moe\"]", "'moe' is unknown (known: dense, sparse)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        weft_config *config = NULL;
        weft_model *model = NULL;
        snprintf(text, sizeof text, "{\"model_type\":\"glm4_moe_lite\",\"num_hidden_layers\":2,%s}",
                 cases[i].keys);
        if (CHECK_OK(weft_config_parse(text, "config.json", &config))) {
            CHECK_STATUS(weft_model_new(config, &model), i == 9 ? WEFT_UNSUPPORTED : WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), cases[i].message);
        }
        weft_config_free(config);
    }
}

CHECK_MAIN("latent", CHECK_CASE(absorbed_is_expanded), CHECK_CASE(training_is_not_absorbed),
           CHECK_CASE(int8_activations_leave_kv_b_out), CHECK_CASE(caches_hold_latents),
           CHECK_CASE(values_are_a_view_of_the_keys), CHECK_CASE(the_ways_of_computing_agree),
           CHECK_CASE(prompt_caches), CHECK_CASE(an_unfinished_generation_is_saved),
           CHECK_CASE(generation_ends_at_each_stop_token), CHECK_CASE(longrope_is_compiled),
           CHECK_CASE(heads_of_mlx_are_read), CHECK_CASE(wrong_sizes_are_refused))
