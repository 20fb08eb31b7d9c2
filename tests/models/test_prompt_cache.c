/* tests/models/test_prompt_cache.c -- the prompt cache: the same tokens with less work, limits and
 * eviction, files and the models that they belong to. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/hidden.h"
#include "tests/support/models.h"
#include "weft/generate.h"
#include "weft/ops.h"
#include "weft/prompt_cache.h"

enum { PROMPT = 40, MORE = 12 };

static weft_prompt_cache *make(weft_model *model, int64_t bytes)
{
    weft_prompt_cache *cache = NULL;
    const weft_prompt_cache_options o = {.max_bytes = bytes, .min_tokens = 4};
    CHECK_OK(weft_prompt_cache_new(model, &o, &cache));
    return cache;
}

/* A text of PROMPT ids; two of them are alike up to token `same`. */
static void write_text(int32_t *ids, int seed, int same)
{
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 5 + (i * 7 + (i < same ? 0 : seed * 11)) % 80;
}

/* Generates MORE tokens after n ids; returns how many ids came from the cache. */
static int64_t generate(weft_model *model, weft_prompt_cache *cache, const int32_t *ids, int n,
                        const weft_cache_options *options, int32_t *out)
{
    const weft_generate_options o = {.max_tokens = MORE,
                                     .ignore_eos = true,
                                     .prefill = 9,
                                     .logprobs = true,
                                     .prompt_cache = cache,
                                     .cache = options ? *options : (weft_cache_options){0}};
    const weft_generate_stats stats = generated_ids(model, ids, n, &o, out, MORE);
    CHECK_EQ_INT(stats.prompt_tokens, n);
    return stats.cached_tokens;
}

static bool same_as_without(weft_model *model, weft_prompt_cache *cache, const int32_t *ids, int n,
                            const weft_cache_options *options, int64_t cached)
{
    int32_t with[MORE], without[MORE];
    bool good = CHECK_EQ_INT(generate(model, cache, ids, n, options, with), cached);
    good &= CHECK_EQ_INT(generate(model, NULL, ids, n, options, without), 0);
    return CHECK_BYTES(with, without, sizeof with) && good;
}

/* ---- generation ------------------------------------------------------------------------------ */

static const char *const families[] = {"llama",  "qwen3",   "mistral",      "gemma2",
                                       "gemma3", "minicpm", "gemma4-dense", "qwen2"};

/* The same prompt again, one that goes on from the text, one that shares a part of it. */
static void the_same_tokens_with_less_work(void)
{
    for (int f = 0; f < 8; f++) {
        weft_model *model = fixture_model(families[f]);
        weft_prompt_cache *cache = model ? make(model, 0) : NULL;
        const weft_cache_options whole = {.whole = true};
        int32_t ids[PROMPT + MORE + 5], other[PROMPT];
        if (!CHECK(cache != NULL))
            return;
        write_text(ids, 0, PROMPT);
        write_text(other, 1, 20);
        bool good = same_as_without(model, cache, ids, PROMPT, &whole, 0);
        good &= same_as_without(model, cache, ids, PROMPT, &whole, PROMPT - 1);
        CHECK(generate(model, NULL, ids, PROMPT, &whole, ids + PROMPT) == 0);
        memcpy(ids + PROMPT + MORE, other, 5 * sizeof *ids);
        /* The last token was returned, but its keys and values were not computed. */
        good &= same_as_without(model, cache, ids, PROMPT + MORE + 5, &whole, PROMPT + MORE - 1);
        good &= same_as_without(model, cache, other, PROMPT, &whole, 20);
        good &= same_as_without(model, cache, other, 20, &whole, 19);
        if (!good)
            printf("  %s\n", families[f]);
        const weft_prompt_cache_metrics m = weft_prompt_cache_measure(cache);
        CHECK_EQ_INT(m.hits, 4);
        CHECK_EQ_INT(m.misses, 1);
        CHECK_EQ_INT(m.hit_tokens, PROMPT - 1 + PROMPT + MORE - 1 + 20 + 19);
        CHECK_EQ_INT(m.miss_tokens, PROMPT + 1 + 6 + PROMPT - 20 + 1);
        CHECK(m.bytes > 0 && m.entries >= 2);
        weft_prompt_cache_free(cache);
        weft_model_free(model);
    }
}

/* Tokens that left the windows are not served; a continuation from the end is. */
static void wrapped_rings_serve_continuations(void)
{
    weft_model *model = fixture_model("mistral"); /* windows of 8 */
    weft_prompt_cache *cache = model ? make(model, 0) : NULL;
    int32_t ids[PROMPT + MORE + 5], other[PROMPT];
    if (!CHECK(cache != NULL))
        return;
    write_text(ids, 0, PROMPT);
    write_text(other, 1, 20);
    same_as_without(model, cache, ids, PROMPT, NULL, 0);
    same_as_without(model, cache, other, PROMPT, NULL, 0); /* 20 equal tokens, no longer held */
    CHECK(generate(model, NULL, ids, PROMPT, NULL, ids + PROMPT) == 0);
    memcpy(ids + PROMPT + MORE, other, 5 * sizeof *ids);
    same_as_without(model, cache, ids, PROMPT + MORE + 5, NULL, PROMPT + MORE - 1);
    /* Options are part of an entry's key. */
    same_as_without(model, cache, ids, PROMPT, &(weft_cache_options){.kv_bits = 8}, 0);
    same_as_without(model, cache, ids, PROMPT, &(weft_cache_options){.max_context = 16}, 0);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* Warmed instructions serve one prompt after the other, windows or not. */
static void instructions_stay_warm(void)
{
    static const weft_cache_options all[] = {{0}, {.max_context = 24}, {.kv_bits = 8}};
    weft_model *model = fixture_model("gemma3");
    for (int i = 0; CHECK(model != NULL) && i < 3; i++) {
        weft_prompt_cache *cache = make(model, 0);
        int32_t ids[PROMPT];
        write_text(ids, 0, 30);
        CHECK_OK(weft_prompt_cache_warm(cache, ids, 30, &all[i], 13));
        for (int seed = 1; seed < 4; seed++) {
            write_text(ids, seed, 30);
            same_as_without(model, cache, ids, PROMPT, &all[i], 30);
        }
        same_as_without(model, cache, ids, 30, &all[i], 29);
        CHECK_EQ_INT(weft_prompt_cache_measure(cache).hits, 4);
        weft_prompt_cache_free(cache);
    }
    weft_model_free(model);
}

/* Keys of texts beyond the switch of longrope's factors (24) serve no other text. */
static void instructions_beyond_the_switch_are_refused(void)
{
    weft_model *model = fixture_model("phi3-longrope");
    weft_prompt_cache *cache = model ? make(model, 0) : NULL;
    int32_t ids[PROMPT];
    if (!CHECK(cache != NULL))
        return;
    write_text(ids, 0, PROMPT);
    CHECK_STATUS(weft_prompt_cache_warm(cache, ids, 25, NULL, 0), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "expected at most 24 tokens");
    same_as_without(model, cache, ids, 20, NULL, 0);
    CHECK_OK(weft_prompt_cache_warm(cache, ids, 24, NULL, 7));
    same_as_without(model, cache, ids, 24, NULL, 23);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* ---- entries --------------------------------------------------------------------------------- */

static void the_oldest_entry_is_evicted_when_full(void)
{
    weft_model *model = fixture_model("llama");
    const int64_t entry = 2 * 2 * 256 * 2 * 16 * 4; /* two layers, k and v, 256 x 2 x 16 float32 */
    weft_prompt_cache *cache = model ? make(model, 2 * entry) : NULL;
    int32_t ids[3][PROMPT], out[MORE];
    for (int i = 0; i < 3; i++)
        write_text(ids[i], i, 0);
    CHECK_EQ_INT(generate(model, cache, ids[0], PROMPT, NULL, out), 0);
    CHECK_EQ_INT(weft_prompt_cache_measure(cache).bytes, entry);
    CHECK_EQ_INT(generate(model, cache, ids[1], PROMPT, NULL, out), 0);
    CHECK_EQ_INT(generate(model, cache, ids[0], PROMPT, NULL, out), PROMPT - 1);
    CHECK_EQ_INT(generate(model, cache, ids[2], PROMPT, NULL, out), 0); /* ids[1] goes */
    CHECK_EQ_INT(generate(model, cache, ids[0], PROMPT, NULL, out), PROMPT - 1);
    CHECK_EQ_INT(generate(model, cache, ids[1], PROMPT, NULL, out), 0);
    const weft_prompt_cache_metrics m = weft_prompt_cache_measure(cache);
    CHECK_EQ_INT(m.entries, 2);
    CHECK_EQ_INT(m.bytes, 2 * entry);
    CHECK(m.evictions >= 2);
    weft_prompt_cache_clear(cache);
    CHECK_EQ_INT(weft_prompt_cache_measure(cache).bytes, 0);
    weft_prompt_cache_free(cache);
    weft_prompt_cache_free(NULL);
    weft_model_free(model);
}

static void set_adapter(weft_model *model, double value)
{
    weft_array **B =
        weft_nn_find(weft_model_module(model), "model.layers.0.self_attn.q_proj.lora_B");
    weft_scope_open();
    if (CHECK(B != NULL))
        CHECK_OK(weft_set(B, weft_full(weft_shape(*B), value, WEFT_FLOAT32)));
    weft_scope_close(NULL);
}

/* The fingerprint of a model on a device equals that on the CPU, and reads a part of it. */
static void a_fingerprint_reads_little(void)
{
    weft_device *cpu = weft_default_device(), *hidden = hidden_device();
    weft_model *model = NULL, *moved = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_fingerprint here, there;
    const weft_model_options options = {.dtype = WEFT_FLOAT32, .device = hidden};
    if (!CHECK(hidden != NULL) || !storyteller(&model, &tokenizer))
        return;
    CHECK_OK(weft_model_fingerprint(model, &here));
    if (CHECK_OK(weft_model_load(check_source("examples/storyteller"), &options, &moved))) {
        const int64_t before = hidden_bytes_read();
        weft_set_default_device(hidden);
        CHECK_OK(weft_model_fingerprint(moved, &there));
        weft_set_default_device(cpu);
        CHECK(there.model == here.model && there.adapter == here.adapter);
        const int64_t all = 4 * weft_nn_count(weft_model_module(moved), false);
        CHECK(hidden_bytes_read() - before < all / 2);
    }
    weft_model_free(moved);
}

/* Entries and files of one adapter are not used for another. */
static void adapters_do_not_share_entries(void)
{
    weft_model *model = fixture_model("llama");
    weft_prompt_cache *cache = model ? make(model, 0) : NULL;
    const char *path = check_temporary("adapter.safetensors");
    int32_t ids[PROMPT];
    if (!CHECK(cache != NULL))
        return;
    write_text(ids, 0, PROMPT);
    same_as_without(model, cache, ids, PROMPT, NULL, 0);
    weft_fingerprint plain, one, again;
    CHECK_OK(weft_model_fingerprint(model, &plain));
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL));
    set_adapter(model, 0.5);
    CHECK_OK(weft_model_fingerprint(model, &one));
    CHECK(one.model == plain.model && plain.adapter == 0 && one.adapter != 0);
    same_as_without(model, cache, ids, PROMPT, NULL, 0);
    same_as_without(model, cache, ids, PROMPT, NULL, PROMPT - 1);
    CHECK_OK(weft_file_write(path, "another file", 12));
    CHECK_STATUS(weft_prompt_cache_save(cache, path), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "choose another file");
    CHECK_OK(weft_file_write(path, "", 0));
    CHECK_OK(weft_prompt_cache_save(cache, path));
    set_adapter(model, 0.25);
    CHECK_OK(weft_model_fingerprint(model, &again));
    CHECK(again.adapter != one.adapter && again.model == one.model);
    CHECK_STATUS(weft_prompt_cache_load(cache, path), WEFT_INVALID);
    char text[64];
    snprintf(text, sizeof text, "adapter %016llx; this is the llama model",
             (unsigned long long)one.adapter);
    CHECK_CONTAINS(weft_error_message(), text);
    set_adapter(model, 0.5);
    weft_prompt_cache_clear(cache);
    CHECK_OK(weft_prompt_cache_load(cache, path));
    same_as_without(model, cache, ids, PROMPT, NULL, PROMPT - 1);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void a_file_brings_entries_back(void)
{
    static const weft_cache_options all[] = {{0},
                                             {.max_context = 20},
                                             {.max_context = 20, .kv_bits = 4, .trim = 2},
                                             {.kv_bits = 8},
                                             {.kv_bits = 16}};
    const char *path = check_temporary("prompts.safetensors");
    for (int i = 0; i < 5; i++) {
        weft_model *model = fixture_model("gemma3"), *again = fixture_model("gemma3");
        weft_prompt_cache *cache = make(model, 0), *loaded = make(again, 0);
        int32_t ids[PROMPT + MORE], other[PROMPT], out[MORE];
        write_text(ids, 0, PROMPT);
        write_text(other, 3, 0);
        generate(model, cache, ids, PROMPT, &all[i], ids + PROMPT);
        CHECK_OK(weft_prompt_cache_warm(cache, other, 30, &all[i], 0));
        CHECK_OK(weft_prompt_cache_save(cache, path));
        generate(model, cache, other, PROMPT, &all[i], out);
        CHECK_OK(weft_prompt_cache_load(loaded, path));
        CHECK_EQ_INT(weft_prompt_cache_measure(loaded).entries, 2);
        same_as_without(again, loaded, ids, PROMPT + MORE, &all[i], PROMPT + MORE - 1);
        same_as_without(again, loaded, other, PROMPT, &all[i], 30);
        same_as_without(again, loaded, other, 30, &all[i], 29);
        weft_prompt_cache_free(cache);
        weft_prompt_cache_free(loaded);
        weft_model_free(model);
        weft_model_free(again);
    }
}

static void files_of_others_are_refused(void)
{
    weft_model *model = fixture_model("llama"), *other = fixture_model("llama-bias");
    weft_prompt_cache *cache = make(model, 0), *loaded = make(other, 0);
    const char *path = check_temporary("others.safetensors");
    int32_t ids[PROMPT], out[MORE];
    write_text(ids, 0, PROMPT);
    generate(model, cache, ids, PROMPT, NULL, out);
    CHECK_OK(weft_prompt_cache_save(cache, path));
    CHECK_STATUS(weft_prompt_cache_load(loaded, path), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "written with the llama model");
    CHECK_CONTAINS(weft_error_message(), "adapter none; this is the llama model");
    CHECK_STATUS(weft_prompt_cache_load(loaded, check_fixture("models/llama/model.safetensors")),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "not a prompt cache");
    CHECK_STATUS(weft_prompt_cache_load(loaded, "/nowhere/x"), WEFT_IO);
    CHECK_EQ_INT(weft_prompt_cache_measure(loaded).entries, 0);
    weft_prompt_cache_free(cache);
    weft_prompt_cache_free(loaded);
    weft_model_free(model);
    weft_model_free(other);
}

/* One array of the file changed at a time: the file is refused, or all of it is valid. */
static void files_that_do_not_fit_are_refused(void)
{
    weft_model *model = fixture_model("llama");
    weft_prompt_cache *cache = make(model, 0);
    const char *path = check_temporary("bent.safetensors");
    int32_t ids[PROMPT], out[MORE];
    write_text(ids, 0, PROMPT);
    generate(model, cache, ids, PROMPT, NULL, out);
    CHECK_OK(weft_prompt_cache_save(cache, path));
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    const int n = weft_safetensors_count(file);
    const char *names[64];
    weft_array *arrays[64];
    static const char *const keys[] = {"weft.kind", "weft.version", "weft.family", "weft.model",
                                       "weft.adapter"};
    weft_metadata said[5];
    for (int i = 0; i < 5; i++)
        said[i] = (weft_metadata){keys[i], weft_safetensors_metadata(file, keys[i])};
    CHECK(n < 64);
    for (int bent = 0; bent < n; bent++) {
        for (int i = 0; i < n; i++) {
            names[i] = weft_safetensors_name(file, i);
            arrays[i] = weft_copy(weft_safetensors_get_at(file, i));
        }
        arrays[bent] = weft_ndim(arrays[bent]) == 4 ? weft_slice_axis(arrays[bent], 1, 0, 30)
                                                    : weft_add_scalar(arrays[bent], 1000);
        const char *broken = check_temporary("broken.safetensors");
        CHECK_OK(weft_safetensors_save(broken, names, arrays, n, said, 5));
        weft_prompt_cache_clear(cache);
        if (!CHECK(weft_prompt_cache_load(cache, broken) != WEFT_OK ||
                   strstr(names[bent], "fixed") || strstr(names[bent], "options")))
            printf("  %s\n", names[bent]);
        if (weft_prompt_cache_measure(cache).entries > 0)
            CHECK(strstr(names[bent], "fixed") || strstr(names[bent], "options"));
    }
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

CHECK_MAIN("prompt_cache", CHECK_CASE(the_same_tokens_with_less_work),
           CHECK_CASE(wrapped_rings_serve_continuations), CHECK_CASE(instructions_stay_warm),
           CHECK_CASE(instructions_beyond_the_switch_are_refused),
           CHECK_CASE(the_oldest_entry_is_evicted_when_full),
           CHECK_CASE(a_fingerprint_reads_little), CHECK_CASE(adapters_do_not_share_entries),
           CHECK_CASE(a_file_brings_entries_back), CHECK_CASE(files_of_others_are_refused),
           CHECK_CASE(files_that_do_not_fit_are_refused))
