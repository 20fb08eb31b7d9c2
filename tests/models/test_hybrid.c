/* tests/models/test_hybrid.c -- models whose layers keep states or latents: continuing in pieces,
 * in batches and from files, unsupported operations, and gradients. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/generate.h"
#include "weft/io.h"
#include "weft/memory.h"
#include "weft/ops.h"
#include "weft/prompt_cache.h"
#include "weft/state.h"
#include "weft/transforms.h"

enum { PROMPT = 40, MORE = 12 };

static const char *const families[] = {"qwen3-next",   "qwen3-5-wrapped", "qwen3-5-moe",
                                       "lfm2",         "granite4",        "lfm2-moe",
                                       "granite4-moe", "falcon-h1",       "nemotron-h"};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void write_text(int32_t *ids, int n, int seed)
{
    for (int i = 0; i < n; i++)
        ids[i] = 5 + (i * 7 + seed * 11) % 80;
}

static double apart(weft_array *a, weft_array *b)
{
    return weft_item(weft_max(weft_abs(weft_subtract(a, b)), WEFT_ALL_AXES, false));
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* A batch of two, 100 tokens each: more than a chunk of the rule. */
static void pieces_are_the_whole(void)
{
    static const int64_t cuts[] = {0, 70, 71, 72, 100};
    for (int f = 0; f < N_FAMILIES; f++) {
        weft_model *model = fixture_model(families[f]);
        weft_cache **caches = model ? weft_model_new_caches(model, NULL) : NULL;
        if (!CHECK(caches != NULL))
            return;
        weft_scope_open();
        int32_t ids[200];
        weft_array *parts[4];
        write_text(ids, 200, f);
        weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(2, 100));
        weft_array *whole = weft_model_forward(model, tokens, NULL);
        for (int i = 0; i < 4; i++) {
            const weft_model_call call = {.caches = caches};
            weft_array *piece = weft_slice_axis(tokens, 1, cuts[i], cuts[i + 1]);
            parts[i] = weft_model_forward(model, piece, &call);
            CHECK_EQ_INT(weft_cache_offset(caches[0]), cuts[i + 1]);
            for (int64_t k = 0; k < weft_model_info_of(model)->n_caches; k++)
                CHECK_EQ_INT(weft_cache_length(caches[k]), cuts[i + 1]);
        }
        CHECK_CLOSE(apart(weft_concatenate(parts, 4, 1), whole), 0, 2e-5);
        weft_scope_close(NULL);
        weft_model_free_caches(model, caches);
        weft_model_free(model);
    }
}

static void what_was_read_is_forgotten_as_a_whole(void)
{
    weft_model *model = fixture_model("qwen3-next");
    weft_cache **caches = model ? weft_model_new_caches(model, NULL) : NULL;
    if (!CHECK(caches != NULL))
        return;
    weft_scope_open();
    int32_t ids[10];
    write_text(ids, 10, 3);
    const weft_model_call call = {.caches = caches};
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 10));
    weft_array *first = weft_model_forward(model, tokens, &call);
    CHECK_OK(weft_eval(first));
    weft_cache *copy = weft_cache_copy(caches[0]);
    CHECK(copy && weft_cache_check(copy) == WEFT_OK && weft_cache_offset(copy) == 10);
    weft_cache_free(copy);
    CHECK(weft_cache_can_trim(caches[0], 0) && !weft_cache_can_trim(caches[0], 1));
    CHECK_STATUS(weft_cache_trim(caches[0], 1), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "forgets all of its 10 tokens or none");
    CHECK_STATUS(weft_cache_trim(caches[0], 11), WEFT_INVALID);
    for (int i = 0; i < 4; i++)
        CHECK_OK(weft_cache_trim(caches[i], 10));
    CHECK_CLOSE(apart(weft_model_forward(model, tokens, &call), first), 0, 0);
    /* Such a cache cannot hold keys and values, and other caches cannot hold states. */
    weft_array *k = weft_zeros(WEFT_DIMS(1, 1, 2, 16), WEFT_FLOAT32);
    CHECK(!weft_ok(weft_cache_update(caches[0], k, k).keys));
    weft_cache *others[4] = {weft_cache_new(), caches[1], caches[2], caches[3]};
    weft_array *refused = weft_model_forward(model, tokens, &(weft_model_call){.caches = others});
    CHECK(!weft_ok(refused));
    CHECK_CONTAINS(weft_error(refused), "expected a recurrent cache, got a growing one");
    weft_cache_free(others[0]);
    weft_array *mask = weft_ones(WEFT_DIMS(1, 10), WEFT_BOOL);
    refused = weft_model_forward(model, tokens, &(weft_model_call){.mask = mask});
    CHECK_CONTAINS(weft_error(refused), "a mask besides causality is unsupported");
    weft_scope_close(NULL);
    weft_model_free_caches(model, caches);
    weft_model_free(model);
}

/* ---- generation ----------------------------------------------------------------------------- */

/* Generates MORE tokens; returns how many of the prompt came from the prompt cache. */
static int64_t generate(weft_model *model, weft_generate_options o, const int32_t *ids, int n,
                        int32_t *out)
{
    o.max_tokens = MORE;
    o.ignore_eos = true;
    return generated_ids(model, ids, n, &o, out, MORE).cached_tokens;
}

/* In chunks, compiled or not, several steps at a time, with keys in fewer bits or forgotten. */
static void the_ways_of_computing_agree(void)
{
    for (int f = 0; f < N_FAMILIES; f++) {
        weft_model *model = fixture_model(families[f]);
        int32_t ids[PROMPT], plain[MORE], other[MORE];
        if (model == NULL)
            return;
        write_text(ids, PROMPT, f);
        generate(model, (weft_generate_options){.no_cache = true}, ids, PROMPT, plain);
        const weft_generate_options ways[] = {{.prefill = 0},
                                              {.prefill = 7},
                                              {.no_compile = true},
                                              {.tokens_per_eval = 4},
                                              {.cache.max_context = 100},
                                              {.cache.whole = true}};
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            generate(model, ways[i], ids, PROMPT, other);
            CHECK_BYTES(other, plain, sizeof plain);
        }
        /* Attention forgets, states go on: other tokens, but no failure. */
        generate(model, (weft_generate_options){.cache.max_context = 16, .cache.kv_bits = 8}, ids,
                 PROMPT, other);
        weft_generator *g;
        const weft_generate_options ngram = {.ngram = 2};
        CHECK_STATUS(weft_generator_new(model, ids, PROMPT, &ngram, &g), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "a draft is unsupported where layers keep states");
        weft_model_free(model);
    }
}

static void texts_of_a_batch_are_their_own(const char *family)
{
    weft_model *model = fixture_model(family);
    if (model == NULL)
        return;
    const weft_generate_options o = {.max_tokens = MORE, .ignore_eos = true};
    int32_t ids[3][PROMPT], alone[MORE];
    weft_generate_request requests[3];
    weft_generated_row rows[3];
    weft_prompt prompts[3];
    weft_classified classes[3];
    for (int i = 0; i < 3; i++) {
        write_text(ids[i], PROMPT, i);
        prompts[i] = (weft_prompt){ids[i], (size_t)(PROMPT - 9 * i)};
        requests[i] = (weft_generate_request){.prompt = prompts[i], .options = &o};
    }
    CHECK_OK(weft_generate_batch(model, NULL, requests, 3, NULL, NULL, NULL, rows));
    /* Padded on the right, in pieces: padding does not change a text's results. */
    const weft_classify_options pieces = {.batch.tokens = 16};
    CHECK_OK(weft_classify(model, prompts, 3, &pieces, classes));
    for (int i = 0; i < 3; i++) {
        generate(model, o, ids[i], PROMPT - 9 * i, alone);
        if (CHECK_OK(rows[i].status) && CHECK_EQ_INT(rows[i].n, MORE))
            CHECK_BYTES(rows[i].ids, alone, sizeof alone);
        CHECK_OK(classes[i].status);
        CHECK_EQ_INT(classes[i].token, alone[0]);
    }
    weft_generated_rows_free(rows, 3);
    weft_classified_free(classes, 3);
    weft_model_free(model);
}

static void texts_of_batches_are_their_own(void)
{
    texts_of_a_batch_are_their_own("qwen3-5-moe");
    texts_of_a_batch_are_their_own("lfm2");
    texts_of_a_batch_are_their_own("lfm3");
    texts_of_a_batch_are_their_own("granite4");
    texts_of_a_batch_are_their_own("falcon-h1");
    texts_of_a_batch_are_their_own("nemotron-h");
    texts_of_a_batch_are_their_own("glm4-moe-lite");
    texts_of_a_batch_are_their_own("minicpm3");
}

/* ---- the prompt cache ----------------------------------------------------------------------- */

/* An entry serves prompts that continue from its end, also after saving and loading, and none that
 * differ earlier. */
static void whole_beginnings_of(const char *family)
{
    weft_model *model = fixture_model(family);
    weft_prompt_cache *cache = NULL, *again = NULL;
    const weft_prompt_cache_options o = {.min_tokens = 4};
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &o, &cache)))
        return;
    int32_t ids[PROMPT + MORE + 5], plain[MORE], out[MORE];
    write_text(ids, PROMPT, 1);
    const weft_generate_options with = {.prompt_cache = cache}, without = {0};
    CHECK_EQ_INT(generate(model, with, ids, PROMPT, out), 0);
    CHECK_EQ_INT(generate(model, with, ids, PROMPT, plain), 0); /* it holds more than that */
    CHECK_BYTES(out, plain, sizeof plain);
    memcpy(ids + PROMPT, out, sizeof out);
    write_text(ids + PROMPT + MORE, 5, 2);
    generate(model, without, ids, PROMPT + MORE + 5, plain);
    const char *file = check_temporary("states.safetensors");
    CHECK_OK(weft_prompt_cache_save(cache, file));
    CHECK_EQ_INT(generate(model, with, ids, PROMPT + MORE + 5, out), PROMPT + MORE - 1);
    CHECK_BYTES(out, plain, sizeof plain);
    CHECK_OK(weft_prompt_cache_new(model, &o, &again));
    if (CHECK_OK(weft_prompt_cache_load(again, file))) {
        const weft_generate_options loaded = {.prompt_cache = again};
        CHECK_EQ_INT(generate(model, loaded, ids, PROMPT + MORE + 5, out), PROMPT + MORE - 1);
        CHECK_BYTES(out, plain, sizeof plain);
    }
    /* Instructions that stay warm serve one prompt after the other. */
    weft_prompt_cache_clear(again);
    CHECK_OK(weft_prompt_cache_warm(again, ids, 20, NULL, 6));
    for (int i = 0; i < 2; i++) {
        const weft_generate_options warm = {.prompt_cache = again};
        ids[30] += i;
        generate(model, without, ids, PROMPT, plain);
        CHECK_EQ_INT(generate(model, warm, ids, PROMPT, out), 20);
        CHECK_BYTES(out, plain, sizeof plain);
    }
    weft_prompt_cache_free(again);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

static void whole_beginnings_are_served(void)
{
    whole_beginnings_of("qwen3-5-wrapped");
    whole_beginnings_of("lfm2");
    whole_beginnings_of("lfm3");
    whole_beginnings_of("granite4");
    whole_beginnings_of("falcon-h1");
    whole_beginnings_of("nemotron-h");
}

/* When a turn ends with a stop token, the next turn continues from its caches, which include that
 * token, as a conversation does. */
static void turns_continue_from_the_previous_cache(void)
{
    weft_model *model = fixture_model("qwen3-5-wrapped");
    weft_prompt_cache *cache = NULL;
    const weft_prompt_cache_options o = {.min_tokens = 4};
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &o, &cache)))
        return;
    int32_t ids[PROMPT + MORE + 5], plain[MORE], out[MORE];
    write_text(ids, PROMPT, 6);
    generate(model, (weft_generate_options){0}, ids, PROMPT, plain);
    int n = 0;
    while (n < 5 || memchr(plain, plain[n], (size_t)n * sizeof *plain))
        n++;
    const weft_generate_options turn = {.prompt_cache = cache,
                                        .ignore_eos = true,
                                        .stop = &plain[n],
                                        .n_stop = 1,
                                        .max_tokens = MORE + 5};
    weft_generator *g;
    int32_t id = 0;
    CHECK_OK(weft_generator_new(model, ids, PROMPT, &turn, &g));
    for (int i = 0; id >= 0; i++) {
        CHECK_OK(weft_generator_next(g, &id, NULL));
        if (id >= 0)
            ids[PROMPT + i] = id;
    }
    weft_generator_free(g);
    memcpy(ids + PROMPT, plain, (size_t)(n + 1) * sizeof *plain);
    write_text(ids + PROMPT + n + 1, 4, 3);
    const int total = PROMPT + n + 1 + 4;
    generate(model, (weft_generate_options){0}, ids, total, plain);
    const int64_t cached =
        generate(model, (weft_generate_options){.prompt_cache = cache}, ids, total, out);
    printf("  %d tokens, %d in the turn: %d were cached\n", PROMPT, n + 1, (int)cached);
    CHECK(cached >= PROMPT + n);
    CHECK_BYTES(out, plain, sizeof plain);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

static void a_generation_goes_on_from_a_file(void)
{
    weft_model *model = fixture_model("qwen3-next");
    if (model == NULL)
        return;
    const weft_generate_options o = {.max_tokens = MORE, .ignore_eos = true};
    const char *file = check_temporary("generation.safetensors");
    int32_t ids[PROMPT], plain[MORE], out[MORE];
    weft_generator *g = NULL, *again = NULL;
    write_text(ids, PROMPT, 4);
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

/* ---- memory and training -------------------------------------------------------------------- */

static void states_are_planned_for(void)
{
    weft_model *model = fixture_model("qwen3-5-wrapped"); /* two layers of each kind */
    weft_cache_plan plan;
    if (model == NULL)
        return;
    CHECK_OK(weft_model_plan_caches(model, &(weft_cache_options){.max_context = 100}, &plan));
    const int64_t token = 2 * 2 * 2 * 16 * 4, state = 2 * 4 * (3 * (2 * 16 + 48) + 4 * 12 * 8);
    CHECK_EQ_INT(plan.token_bytes, token);
    CHECK_EQ_INT(plan.context_bytes, 100 * token + state);
    weft_model_free(model);
}

static weft_array *loss(void *model)
{
    int32_t ids[70];
    write_text(ids, 70, 5);
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 70));
    weft_array *targets = weft_slice_axis(tokens, 1, 1, 70);
    weft_array *logits = weft_model_forward(model, weft_slice_axis(tokens, 1, 0, 69), NULL);
    return weft_mean(weft_cross_entropy_rows(logits, targets), WEFT_ALL_AXES, false);
}

enum { MOST_SLOTS = 96 };

/* The loss with the slot's parameter moved by `step` times `direction`, and back again. */
static double loss_at(weft_model *model, weft_array **slot, weft_array *direction, double step)
{
    weft_scope_open();
    weft_array *before = weft_keep(*slot);
    CHECK_OK(weft_set(slot, weft_add(before, weft_scale(direction, step))));
    const double value = weft_item(loss(model));
    CHECK_OK(weft_set(slot, before));
    weft_drop(before);
    weft_scope_close(NULL);
    return value;
}

static double length_of(weft_array *x)
{
    return sqrt(weft_item(weft_sum(weft_square(x), WEFT_ALL_AXES, false)));
}

/* Along the gradient of each parameter, including those of gated delta nets, the slope of the loss
 * is the gradient's norm, up to float32 rounding. */
static void parameters_learn(const char *family)
{
    weft_model *model = fixture_model(family);
    weft_nn_slots slots = {0};
    weft_array *grads[MOST_SLOTS];
    if (model == NULL || !CHECK_OK(weft_nn_parameters(weft_model_module(model), &slots)) ||
        !CHECK(slots.n <= MOST_SLOTS))
        return;
    const double step = 3e-4;
    weft_scope_open();
    weft_value_and_grad_slots(loss, model, slots.slots, slots.n, grads);
    CHECK_OK(weft_eval_n(grads, slots.n));
    for (int i = 0; i < slots.n; i++) {
        const double length = length_of(grads[i]);
        if (strstr(slots.paths[i], "expert_bias") ||
            strstr(slots.paths[i], "correction_bias")) { /* only chooses */
            CHECK(length == 0);
            continue;
        }
        weft_array *up = weft_keep(weft_divide_scalar(grads[i], length));
        const double there = loss_at(model, slots.slots[i], up, step);
        const double back = loss_at(model, slots.slots[i], up, -step);
        const double slope = (there - back) / (2 * step);
        CHECK(length > 0);
        if (!CHECK_CLOSE(slope, length, 0.01 * length + 1.5e-3))
            CHECK_FAIL("%s", slots.paths[i]);
        weft_drop(up);
    }
    weft_scope_close(NULL);
    weft_nn_slots_free(&slots);
    weft_model_free(model);
}

static void all_parameters_learn(void)
{
    parameters_learn("qwen3-5-wrapped");
    parameters_learn("lfm2-bias");
    parameters_learn("lfm3");
    parameters_learn("granite4");
    parameters_learn("lfm2-moe");
    parameters_learn("granite4-moe");
    parameters_learn("falcon-h1-norm");
    parameters_learn("nemotron-h");
    parameters_learn("nemotron-h-latent");
    parameters_learn("glm4-moe-lite-groups");
    parameters_learn("minicpm3");
}

/* Projections of a gated delta net take adapters. */
static void adapters_go_into_delta_nets(void)
{
    weft_model *model = fixture_model("qwen3-5-wrapped");
    const char *targets[] = {"in_proj_qkv", "in_proj_a", "out_proj"};
    const weft_nn_lora_options o = {.targets = targets, .n_targets = 3, .rank = 2};
    if (model == NULL)
        return;
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), &o));
    CHECK_EQ_INT(weft_nn_lora_count(weft_model_module(model)), 6);
    weft_scope_open();
    CHECK(isfinite(weft_item(loss(model))));
    weft_scope_close(NULL);
    weft_model_free(model);
}

/* Taps (C, K, 1), as MLX stores them, are read, and stored as transformers does. */
static void taps_of_mlx(void)
{
    static const char path[] = "model.layers.0.conv.conv.weight";
    char *config = NULL, folder[512], file[640];
    size_t size = 0;
    int32_t ids[20];
    weft_model *plain = fixture_model("lfm2"), *model = fixture_model("lfm2"), *again = NULL;
    if (plain == NULL || model == NULL)
        return;
    snprintf(folder, sizeof folder, "%s", check_temporary("taps"));
    snprintf(file, sizeof file, "%s/config.json", folder);
    weft_scope_open();
    for (int i = 0; i < 4; i += 2) {
        snprintf(file, sizeof file, "model.layers.%d.conv.conv.weight", i);
        weft_array **taps = weft_nn_find(weft_model_module(model), file);
        CHECK_OK(weft_set(taps, weft_swapaxes(*taps, 1, 2)));
    }
    CHECK_OK(weft_folder_make(folder));
    CHECK_OK(weft_file_read(check_fixture("models/lfm2/config.json"), 0, &config, &size));
    snprintf(file, sizeof file, "%s/config.json", folder);
    CHECK_OK(weft_file_write(file, config, size));
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    CHECK_OK(weft_nn_save(weft_model_module(model), file, NULL));
    weft_free(config);
    weft_model_free(model);
    write_text(ids, 20, 1);
    weft_array *tokens = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, 20));
    weft_array *expected = weft_model_forward(plain, tokens, NULL);
    if (CHECK_OK(weft_model_load(folder, NULL, &model))) {
        CHECK_EQ_INT(weft_dim(*weft_nn_find(weft_model_module(model), path), 2), 1);
        CHECK_CLOSE(apart(weft_model_forward(model, tokens, NULL), expected), 0, 0);
        snprintf(folder, sizeof folder, "%s", check_temporary("restored"));
        if (CHECK_OK(weft_model_save(model, folder)) &&
            CHECK_OK(weft_model_load(folder, NULL, &again))) {
            CHECK_EQ_INT(weft_dim(*weft_nn_find(weft_model_module(again), path), 1), 1);
            CHECK_CLOSE(apart(weft_model_forward(again, tokens, NULL), expected), 0, 0);
        }
    }
    weft_scope_close(NULL);
    weft_model_free(plain);
    weft_model_free(model);
    weft_model_free(again);
}

CHECK_MAIN("hybrid", CHECK_CASE(pieces_are_the_whole),
           CHECK_CASE(what_was_read_is_forgotten_as_a_whole),
           CHECK_CASE(the_ways_of_computing_agree), CHECK_CASE(texts_of_batches_are_their_own),
           CHECK_CASE(whole_beginnings_are_served),
           CHECK_CASE(turns_continue_from_the_previous_cache),
           CHECK_CASE(a_generation_goes_on_from_a_file), CHECK_CASE(states_are_planned_for),
           CHECK_CASE(all_parameters_learn), CHECK_CASE(adapters_go_into_delta_nets),
           CHECK_CASE(taps_of_mlx))
