/* tests/models/test_families.c -- every family against logits and greedy continuations of another
 * implementation (tests/golden/models/README.md), with and without a cache. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/generate.h"
#include "weft/model.h"
#include "weft/op.h"
#include "weft/prompt_cache.h"
#include "weft/transforms.h"

enum { PROMPT = 12, TOTAL = 36, SHORT = 18 };

/* The length of texts: with check_few() a step takes long, and later steps test nothing new. */
static int total(void)
{
    return check_few() ? SHORT : TOTAL;
}

static const char *const families[] = {
    "llama",
    "llama-bias",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "gemma4-dense",
    "gemma4-moe",
    "qwen3-moe",
    "rope-linear",
    "rope-yarn",
    "rope-dynamic",
    "rope-longrope",
    "mixtral",
    "qwen3-moe-mixed",
    "ministral",
    "ministral3",
    "mistral3",
    "gemma3-wrapped",
    "gemma4-wrapped",
    "minicpm",
    "minicpm-head",
    "qwen3-next",
    "qwen3-5-wrapped",
    "qwen3-5-mlx",
    "qwen3-5-moe",
    "olmo2",
    "phi3",
    "phi3-longrope",
    "smollm3",
    "granite",
    "olmo3",
    "glm4",
    "seed_oss",
    "ernie4_5",
    "hunyuan_v1_dense",
    "exaone4",
    "exaone4-hybrid",
    "cohere2",
    "gpt-oss",
    "lfm2",
    "lfm2-bias",
    "granite4",
    "granite4-rope",
    "granite4-moe",
    "granite4-experts",
    "granite4-attention",
    "lfm2-moe",
    "lfm2-moe-scaled",
    "lfm3",
    "lfm3-plain",
    "falcon-h1",
    "falcon-h1-norm",
    "falcon-h1-gate",
    "nemotron-h",
    "nemotron-h-latent",
    "nemotron-h-dense",
    "nemotron-h-experts",
    "nemotron-h-mamba",
    "glm4-moe-lite",
    "glm4-moe-lite-groups",
    "minicpm3",
    "minicpm3-plain",
    "minicpm3-published",
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* One family's model and the expected results. */
typedef struct setup {
    weft_model *model;
    weft_safetensors *reference;
    int32_t greedy[TOTAL];
} setup;

static const char *path_of(const char *family, const char *file, char out[256])
{
    snprintf(out, 256, "models/%s%s", family, file);
    return check_fixture(out);
}

static bool open_family(const char *family, const weft_model_options *options, setup *s)
{
    char text[256];
    *s = (setup){0};
    if (!CHECK_OK(weft_model_load(path_of(family, "", text), options, &s->model)) ||
        !CHECK_OK(
            weft_safetensors_open(path_of(family, "/reference.safetensors", text), &s->reference)))
        return false;
    weft_scope_open();
    weft_array *greedy = weft_safetensors_get(s->reference, "greedy");
    const bool read = CHECK_OK(weft_read(greedy, WEFT_INT32, s->greedy, TOTAL));
    weft_scope_close(NULL);
    return read;
}

static void close_family(setup *s)
{
    weft_model_free(s->model);
    weft_safetensors_close(s->reference);
}

/* Float32 logits against transformers. The order of sums and whether products are contracted depend
 * on the instruction set, the compiler's options and the device: gemma4-wrapped, the family with
 * the largest differences, differs by 3.4e-5 to 1.25e-4. */
static const double tolerance = 2e-4;

static double largest_difference(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

static void logits_are_the_reference(void)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        setup s;
        if (open_family(families[i], NULL, &s)) {
            weft_scope_open();
            weft_array *ids = weft_safetensors_get(s.reference, "input_ids");
            weft_array *logits = weft_model_forward(s.model, ids, NULL);
            weft_array *expected = weft_safetensors_get(s.reference, "logits");
            const double difference = largest_difference(logits, expected);
            printf("  %s: largest difference %.3g\n", families[i], difference);
            CHECK_CLOSE(difference, 0, tolerance);
            CHECK_EQ_INT(weft_dtype_of(logits), WEFT_FLOAT32);
            weft_scope_close(NULL);
        }
        close_family(&s);
    }
}

/* The most probable token after the last position of `logits` (1, L, V). */
static int32_t favorite(weft_array *logits)
{
    const int64_t L = weft_dim(logits, 1);
    weft_array *last = weft_slice_axis(logits, 1, L - 1, L);
    return (int32_t)weft_item_int(weft_argmax(last, -1, false));
}

/* Where longrope's factors switch, caches are computed again: `tokens` are the end of a sequence.
 */
static int32_t step(setup *s, const int32_t *tokens, int n, weft_cache **caches)
{
    const weft_model_info *info = weft_model_info_of(s->model);
    const int held = caches ? (int)weft_cache_offset(caches[0]) : 0;
    if (held > 0 && held <= info->renews_at && held + n > info->renews_at) {
        for (int64_t i = 0; i < info->n_caches; i++)
            weft_cache_reset(caches[i]);
        tokens -= held;
        n += held;
    }
    weft_scope_open();
    weft_array *ids = weft_from_data(tokens, WEFT_INT32, WEFT_DIMS(1, n));
    const weft_model_call call = {.caches = caches};
    const int32_t token = favorite(weft_model_forward(s->model, ids, &call));
    weft_scope_close(NULL);
    return token;
}

static void greedy_without_a_cache(void)
{
    for (int i = 0; i < N_FAMILIES; i += check_few() ? 3 : 1) {
        setup s;
        if (open_family(families[i], NULL, &s)) {
            int32_t tokens[TOTAL];
            memcpy(tokens, s.greedy, PROMPT * sizeof *tokens);
            for (int n = PROMPT; n < total(); n++)
                tokens[n] = step(&s, tokens, n, NULL);
            CHECK_BYTES(tokens, s.greedy, (size_t)total() * sizeof *tokens);
        }
        close_family(&s);
    }
}

/* The prompt goes in by `chunk` tokens, the rest one at a time. */
static void continue_with_caches(setup *s, weft_cache **caches, int chunk)
{
    int32_t tokens[TOTAL];
    memcpy(tokens, s->greedy, PROMPT * sizeof *tokens);
    for (int n = 0; n < PROMPT; n += chunk) {
        const int size = n + chunk < PROMPT ? chunk : PROMPT - n;
        const int32_t next = step(s, tokens + n, size, caches);
        if (n + size == PROMPT)
            tokens[PROMPT] = next;
        CHECK_EQ_INT(weft_cache_offset(caches[0]), n + size);
    }
    for (int n = PROMPT + 1; n < total(); n++)
        tokens[n] = step(s, tokens + n - 1, 1, caches);
    CHECK_BYTES(tokens, s->greedy, (size_t)total() * sizeof *tokens);
}

static void greedy_with_caches(void)
{
    static const int chunks[] = {PROMPT, 5, 1};
    for (int i = 0; i < N_FAMILIES; i++) {
        setup s;
        weft_cache **caches = NULL;
        if (open_family(families[i], NULL, &s))
            caches = weft_model_new_caches(s.model, NULL);
        for (int c = 0; caches && c < 3; c++) {
            if (check_few() && c != i % 3)
                continue;
            continue_with_caches(&s, caches, chunks[c]);
            for (int64_t l = 0; l < weft_model_info_of(s.model)->n_caches; l++)
                weft_cache_reset(caches[l]);
        }
        if (s.model)
            weft_model_free_caches(s.model, caches);
        close_family(&s);
    }
}

/* Generates the rest of the reference's greedy tokens from the first n. */
static void generate(setup *s, int n, const weft_generate_options *options)
{
    weft_generate_options o = *options;
    weft_generator *g = NULL;
    int32_t id = 0;
    o.max_tokens = TOTAL - n;
    o.ignore_eos = true;
    CHECK_OK(weft_generator_new(s->model, s->greedy, (size_t)n, &o, &g));
    for (; g && n < TOTAL && id >= 0; n++) {
        CHECK_OK(weft_generator_next(g, &id, NULL));
        CHECK_EQ_INT(id, s->greedy[n]);
    }
    weft_generator_free(g);
}

/* Generation computes them again, a direct call is refused; prompts may be longer in several
 * chunks, and a prompt cache does not mix keys of both kinds. */
static void caches_end_where_the_factors_of_longrope_switch(void)
{
    setup s;
    weft_prompt_cache *cache = NULL;
    if (!open_family("phi3-longrope", NULL, &s))
        return;
    const int64_t at = weft_model_info_of(s.model)->renews_at;
    CHECK_EQ_INT(at, 24);
    generate(&s, PROMPT, &(weft_generate_options){.tokens_per_eval = 4});
    generate(&s, PROMPT, &(weft_generate_options){.prefill = 5});
    for (int n = (int)at - 1; n < at + 3; n++)
        generate(&s, n, &(weft_generate_options){.prefill = 7});
    if (CHECK_OK(weft_prompt_cache_new(s.model, NULL, &cache))) {
        static const int lengths[] = {PROMPT, 20, 30, 20, 24, 25, PROMPT};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            generate(&s, lengths[i], &(weft_generate_options){.prompt_cache = cache});
        weft_prompt_cache_free(cache);
    }
    weft_cache **caches = weft_model_new_caches(s.model, NULL);
    weft_scope_open();
    const weft_model_call call = {.caches = caches};
    weft_array *first = weft_from_data(s.greedy, WEFT_INT32, WEFT_DIMS(1, 20));
    weft_array *rest = weft_from_data(s.greedy + 20, WEFT_INT32, WEFT_DIMS(1, 5));
    CHECK_OK(weft_eval(weft_model_hidden(s.model, first, &call)));
    weft_array *refused = weft_model_hidden(s.model, rest, &call);
    CHECK(!weft_ok(refused));
    CHECK_CONTAINS(weft_error(refused),
                   "the caches hold 20 tokens of a sequence that becomes longer "
                   "than original_max_position_embeddings 24");
    weft_scope_close(NULL);
    weft_model_free_caches(s.model, caches);
    close_family(&s);
}

/* After trimming, the same tokens give the same logits, also in a batch of two. */
static void a_trimmed_cache_continues_from_where_it_is(void)
{
    setup s;
    weft_cache **caches = NULL;
    if (open_family("mistral", NULL, &s))
        caches = weft_model_new_caches(s.model, &(weft_cache_options){.whole = true});
    if (CHECK(caches != NULL)) {
        weft_scope_open();
        const weft_model_call call = {.caches = caches};
        weft_array *ids = weft_safetensors_get(s.reference, "input_ids"); /* (2, 40) */
        weft_array *expected = weft_safetensors_get(s.reference, "logits");
        CHECK_OK(weft_eval(weft_model_forward(s.model, ids, &call)));
        for (int l = 0; l < 2; l++)
            CHECK_OK(weft_cache_trim(caches[l], 15));
        weft_array *rest = weft_slice_axis(ids, 1, 25, 40);
        weft_array *logits = weft_model_forward(s.model, rest, &call);
        CHECK_CLOSE(largest_difference(logits, weft_slice_axis(expected, 1, 25, 40)), 0, 1e-4);
        CHECK_EQ_INT(weft_cache_length(caches[1]), 40);
        weft_scope_close(NULL);
        weft_model_free_caches(s.model, caches);
    }
    close_family(&s);
}

static void bfloat16_is_near_the_reference(void)
{
    static const char *const some[] = {"qwen3", "granite4-moe", "lfm2-moe", "falcon-h1",
                                       "nemotron-h"};
    const weft_model_options options = {.dtype = WEFT_BFLOAT16};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        setup s;
        if (open_family(some[i], &options, &s)) {
            weft_scope_open();
            weft_array *ids = weft_safetensors_get(s.reference, "input_ids");
            weft_array *logits = weft_model_forward(s.model, ids, NULL);
            weft_array *expected = weft_safetensors_get(s.reference, "logits");
            CHECK_EQ_INT(weft_dtype_of(logits), WEFT_BFLOAT16);
            const double range = weft_item(weft_max(weft_abs(expected), WEFT_ALL_AXES, false));
            const double off = largest_difference(logits, expected) / range;
            printf("  %s: %.3g of the largest logit\n", some[i], off);
            CHECK_CLOSE(off, 0, 0.05);
            weft_scope_close(NULL);
        }
        close_family(&s);
    }
}

/* Codes and scales are read directly; the reference computed with the decoded values. */
static void quantized_by_mlx(void)
{
    static const char *const of[] = {"mlx-qwen3", "mlx-qwen3-moe"};
    const weft_model_options options = {.dtype = WEFT_FLOAT32};
    for (int i = 0; i < 2; i++) {
        setup s;
        weft_cache **caches = NULL;
        if (open_family(of[i], &options, &s)) {
            weft_scope_open();
            weft_array *ids = weft_safetensors_get(s.reference, "input_ids");
            weft_array *expected = weft_safetensors_get(s.reference, "logits");
            const double difference =
                largest_difference(weft_model_forward(s.model, ids, NULL), expected);
            printf("  %s: largest difference %.3g\n", of[i], difference);
            CHECK_CLOSE(difference, 0, tolerance);
            weft_array **k_proj =
                weft_nn_find(weft_model_module(s.model), "model.layers.0.self_attn.k_proj.weight");
            CHECK(k_proj && weft_encoding_of(*k_proj) != NULL);
            weft_scope_close(NULL);
            caches = weft_model_new_caches(s.model, NULL);
        }
        if (caches)
            continue_with_caches(&s, caches, 5);
        if (s.model)
            weft_model_free_caches(s.model, caches);
        close_family(&s);
    }
}

/* A weight of 8 bits differs from the file's by a step at most, of 255 from the least to the
 * largest of its group, which is less than twice the largest of all; and by what rounding the scale
 * (255 times) and the offset to bfloat16 adds. */
static void check_steps(weft_model *quantised, weft_model *dense, const char *path)
{
    weft_array **codes = weft_nn_find(weft_model_module(quantised), path);
    weft_array **numbers = weft_nn_find(weft_model_module(dense), path);
    if (!CHECK(codes && numbers) || !CHECK(weft_encoding_of(*codes) != NULL))
        return;
    CHECK(weft_encoding_of(*numbers) == NULL);
    const double largest = weft_item(weft_max(weft_abs(*numbers), WEFT_ALL_AXES, false));
    const double difference = largest_difference(weft_astype(*codes, WEFT_FLOAT32), *numbers);
    CHECK(difference > 0);
    CHECK_CLOSE(difference, 0, largest * (2.0 / 255 + 3.0 / 512));
}

static void quantized_at_load(void)
{
    static const char *const of[] = {"llama", "gemma3", "qwen3-moe"};
    for (int i = 0; i < 3; i++) {
        setup s, dense;
        const bool opened = open_family(of[i], &(weft_model_options){.quantize = 8}, &s);
        if (open_family(of[i], &(weft_model_options){0}, &dense) && opened) {
            weft_scope_open();
            check_steps(s.model, dense.model, "model.layers.0.self_attn.k_proj.weight");
            check_steps(s.model, dense.model, "model.embed_tokens.weight");
            weft_scope_close(NULL);
        }
        close_family(&s);
        close_family(&dense);
    }
    weft_model *m;
    char text[256];
    CHECK_STATUS(
        weft_model_load(path_of("llama", "", text), &(weft_model_options){.quantize = 7}, &m),
        WEFT_INVALID);
}

static void other_modalities_are_named(void)
{
    setup s;
    if (open_family("ministral3", NULL, &s))
        CHECK_STR(weft_model_skipped(s.model), "multi_modal_projector, vision_tower");
    close_family(&s);
    if (open_family("llama", NULL, &s))
        CHECK(weft_model_skipped(s.model) == NULL);
    close_family(&s);
}

/* The stacks of experts' weights are adapted if they are named, one in each layer. */
static void experts_take_adapters(void)
{
    static const char *const experts[] = {"gate_proj"}, *const attention[] = {"q_proj", "o_proj"};
    const weft_nn_lora_options options[] = {{.targets = experts, .n_targets = 1},
                                            {.targets = attention, .n_targets = 2}};
    const int expected[] = {2, 4};
    for (int i = 0; i < 2; i++) {
        setup s;
        if (open_family("qwen3-moe", NULL, &s)) {
            weft_module *tree = weft_model_module(s.model);
            CHECK_OK(weft_nn_lora_inject(tree, &options[i]));
            CHECK_EQ_INT(weft_nn_lora_count(tree), expected[i]);
        }
        close_family(&s);
    }
}

/* Experts are saved as stacks under MLX's names, and are loaded again. */
static void experts_are_saved_and_loaded(void)
{
    setup s;
    weft_model *again = NULL;
    const char *folder = check_temporary("experts");
    if (open_family("qwen3-moe", NULL, &s) && CHECK_OK(weft_model_save(s.model, folder)) &&
        CHECK_OK(weft_model_load(folder, NULL, &again))) {
        weft_scope_open();
        weft_array *ids = weft_safetensors_get(s.reference, "input_ids");
        weft_array *expected = weft_safetensors_get(s.reference, "logits");
        CHECK_CLOSE(largest_difference(weft_model_forward(again, ids, NULL), expected), 0, 1e-4);
        weft_scope_close(NULL);
    }
    weft_model_free(again);
    close_family(&s);
}

static void the_head_is_apart_from_the_body(void)
{
    for (int i = 0; i < N_FAMILIES; i++) {
        setup s;
        if (open_family(families[i], NULL, &s)) {
            weft_scope_open();
            weft_array *ids = weft_safetensors_get(s.reference, "input_ids");
            weft_array *hidden = weft_model_hidden(s.model, ids, NULL);
            weft_array *weight = weft_model_head_weight(s.model);
            const weft_model_info *info = weft_model_info_of(s.model);
            CHECK_EQ_INT(weft_dim(hidden, 2), info->hidden_size);
            CHECK_EQ_INT(weft_dim(weight, 0), info->vocab_size);
            CHECK_EQ_INT(info->n_layers, weft_config_int(weft_model_config(s.model),
                                                         "num_hidden_layers", info->n_layers));
            CHECK_EQ_INT(info->max_positions,
                         weft_config_int(weft_model_config(s.model), "max_position_embeddings", 0));
            weft_array *expected = weft_safetensors_get(s.reference, "logits");
            weft_array *logits = weft_linear(hidden, weight, NULL);
            if (info->softcap > 0)
                logits = weft_softcap(logits, info->softcap);
            CHECK_CLOSE(largest_difference(logits, expected), 0, tolerance);
            weft_scope_close(NULL);
        }
        close_family(&s);
    }
}

/* ---- gradients ------------------------------------------------------------------------------ */

typedef struct run {
    setup *s;
    bool checkpoint;
} run;

static weft_array *loss(void *context)
{
    const run *r = context;
    weft_array *ids = weft_safetensors_get(r->s->reference, "input_ids"); /* (2, 40) */
    const weft_model_call call = {.checkpoint = r->checkpoint};
    weft_array *logits = weft_model_forward(r->s->model, ids, &call);
    return weft_mean(weft_cross_entropy_rows(logits, ids), WEFT_ALL_AXES, false);
}

/* Through keys that later layers attend to, inputs of each layer's own and experts. */
static void checkpointing_keeps_gradients(void)
{
    static const char *const of[] = {"gemma4-dense", "gemma4-moe"};
    for (int i = 0; i < 2; i++) {
        setup s;
        if (open_family(of[i], NULL, &s)) {
            weft_scope_open();
            weft_module *tree = weft_model_module(s.model);
            weft_array **slots[] = {
                weft_nn_find(tree, "model.embed_tokens.weight"),
                weft_nn_find(tree, "model.layers.3.self_attn.k_proj.weight"),
            };
            weft_array *plain[2], *again[2];
            run r = {&s, false};
            weft_array *expected = weft_value_and_grad_slots(loss, &r, slots, 2, plain);
            r.checkpoint = true;
            weft_array *value = weft_value_and_grad_slots(loss, &r, slots, 2, again);
            weft_array *all[] = {value, expected, plain[0], plain[1], again[0], again[1]};
            CHECK_OK(weft_eval_n(all, 6));
            CHECK_RELATIVE(weft_item(value), weft_item(expected), 1e-6);
            for (int k = 0; k < 2; k++) {
                const double size = weft_item(weft_max(weft_abs(plain[k]), WEFT_ALL_AXES, false));
                CHECK(size > 0);
                CHECK_CLOSE(largest_difference(again[k], plain[k]) / size, 0, 1e-5);
            }
            weft_scope_close(NULL);
        }
        close_family(&s);
    }
}

CHECK_MAIN("families", CHECK_CASE(logits_are_the_reference), CHECK_CASE(greedy_without_a_cache),
           CHECK_CASE(greedy_with_caches),
           CHECK_CASE(caches_end_where_the_factors_of_longrope_switch),
           CHECK_CASE(a_trimmed_cache_continues_from_where_it_is),
           CHECK_CASE(bfloat16_is_near_the_reference), CHECK_CASE(quantized_by_mlx),
           CHECK_CASE(quantized_at_load), CHECK_CASE(other_modalities_are_named),
           CHECK_CASE(experts_take_adapters), CHECK_CASE(experts_are_saved_and_loaded),
           CHECK_CASE(the_head_is_apart_from_the_body), CHECK_CASE(checkpointing_keeps_gradients))
