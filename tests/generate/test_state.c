/* tests/generate/test_state.c -- saved generation states: a generation continues as if it had not
 * been interrupted, and only with the model that it came from. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/ops.h"
#include "weft/state.h"

enum { PROMPT = 20, MOST = 60 };

static const int32_t *prompt(void)
{
    static int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++)
        ids[i] = 4 + i * 13 % 70;
    return ids;
}

static const int32_t bias_ids[] = {7, 9}, suppress[] = {11}, keep[] = {3}, stop[] = {12};
static const float bias_values[] = {1.5f, -2};

typedef struct way {
    const char *family;
    weft_generate_options options;
    int64_t before; /* tokens until it is saved */
} way;

static const way ways[] = {
    {"llama", {.max_tokens = 40}, 10},
    {"llama", {.max_tokens = 40}, 0},
    {"llama", {.max_tokens = 40, .no_compile = true}, 1},
    {"qwen3",
     {.max_tokens = 40,
      .sampler = {.temperature = 2, .top_p = 0.7, .top_k = 6, .order = WEFT_SAMPLER_TOP_K_FIRST},
      .seed = 7},
     13},
    {"qwen3",
     {.max_tokens = 40,
      .sampler = {.temperature = 1, .top_p = 0.9},
      .seed = 8,
      .tokens_per_eval = 5},
     12},
    {"gemma3",
     {.max_tokens = 40,
      .logprobs = true,
      .sampler = {.temperature = 1,
                  .repetition_penalty = 1.2,
                  .presence_penalty = 0.1,
                  .frequency_penalty = 0.2,
                  .min_p = 0.01,
                  .bias_ids = bias_ids,
                  .bias_values = bias_values,
                  .n_bias = 2,
                  .suppress = suppress,
                  .n_suppress = 1,
                  .xtc_probability = 0.5,
                  .xtc_threshold = 0.1,
                  .xtc_keep = keep,
                  .n_xtc_keep = 1}},
     21},
    {"gemma4-dense",
     {.max_tokens = 40, .cache = {.max_context = 24}, .seed = 5, .sampler = {.temperature = 1}},
     25},
    {"mistral", {.max_tokens = 40, .cache = {.kv_bits = 8}, .prefill = 7}, 9},
    {"mistral", {.max_tokens = 40, .cache = {.kv_bits = 16}, .prefill = 7}, 9},
    {"mistral", {.max_tokens = 40, .cache = {.max_context = 16, .kv_bits = 4, .trim = 2}}, 30},
    {"mlx-qwen3-moe", {.max_tokens = 40}, 10}, /* encoded weights */
};
enum { WAYS = sizeof ways / sizeof *ways };

static weft_generator *start(weft_model *model, const way *w)
{
    weft_generator *g = NULL;
    weft_generate_options o = w->options;
    o.ignore_eos = true;
    o.stop = stop;
    o.n_stop = 0;
    CHECK_OK(weft_generator_new(model, prompt(), PROMPT, &o, &g));
    return g;
}

/* Generates up to n tokens; returns their number. */
static int next(weft_generator *g, int n, int32_t *ids, double *logprobs)
{
    for (int i = 0; i < n; i++) {
        if (!CHECK_OK(weft_generator_next(g, &ids[i], &logprobs[i])) || ids[i] < 0)
            return i;
    }
    return n;
}

static void a_loaded_state_continues_as_if_not_interrupted(void)
{
    const char *path = check_temporary("state.safetensors");
    for (int i = 0; i < WAYS; i++) {
        const way *w = &ways[i];
        const int before = (int)w->before, after = 40 - before;
        int32_t expected[MOST], got[MOST];
        double expected_logprobs[MOST], logprobs[MOST];
        weft_model *model = fixture_model(w->family), *again = fixture_model(w->family);
        weft_generator *g = model ? start(model, w) : NULL, *loaded = NULL;
        if (!CHECK(g != NULL && again != NULL))
            return;
        CHECK_EQ_INT(next(g, before, expected, expected_logprobs), before);
        CHECK_OK(weft_state_save(g, path, NULL));
        CHECK_EQ_INT(next(g, after + 1, expected, expected_logprobs), after);
        const weft_generate_options o = {.tokens_per_eval = w->options.tokens_per_eval,
                                         .no_compile = i % 2};
        if (CHECK_OK(weft_state_load(again, path, NULL, &o, &loaded))) {
            CHECK_EQ_INT(next(loaded, after + 1, got, logprobs), after);
            if (!CHECK_BYTES(got, expected, (size_t)after * sizeof *got) ||
                !CHECK_BYTES(logprobs, expected_logprobs, (size_t)after * sizeof *logprobs))
                printf("  %s, saved after %d tokens\n", w->family, before);
            CHECK_EQ_INT(weft_generator_stats(loaded).tokens, 40);
            CHECK_EQ_INT(weft_generator_stats(loaded).reason, WEFT_FINISH_LENGTH);
        }
        weft_generator_free(g);
        weft_generator_free(loaded);
        weft_model_free(model);
        weft_model_free(again);
    }
}

/* A text that has reached its limit of tokens continues when more are requested. */
static void more_tokens_may_be_requested(void)
{
    const char *path = check_temporary("more.safetensors");
    weft_model *model = fixture_model("qwen3");
    way w = {"qwen3", {.max_tokens = 30, .seed = 3, .sampler = {.temperature = 1}}, 0};
    int32_t expected[MOST], got[MOST];
    double logprobs[MOST];
    weft_generator *g = start(model, &w);
    CHECK_EQ_INT(next(g, MOST, expected, logprobs), 30);
    weft_generator_free(g);
    w.options.max_tokens = 12;
    g = start(model, &w);
    CHECK_EQ_INT(next(g, MOST, got, logprobs), 12);
    CHECK_OK(weft_state_save(g, path, NULL));
    weft_generator_free(g);
    if (CHECK_OK(
            weft_state_load(model, path, NULL, &(weft_generate_options){.max_tokens = 30}, &g)))
        CHECK_EQ_INT(next(g, MOST, got + 12, logprobs), 18);
    CHECK_BYTES(got, expected, 30 * sizeof *got);
    weft_generator_free(g);
    weft_model_free(model);
}

/* A prompt that was interrupted between its chunks. */
static void an_interrupted_prompt_is_continued(void)
{
    const char *path = check_temporary("prompt.safetensors");
    weft_model *model = fixture_model("llama");
    const way w = {"llama", {.max_tokens = 10, .prefill = 6}, 0};
    int32_t expected[MOST], got[MOST];
    double logprobs[MOST];
    weft_generator *g = start(model, &w);
    CHECK_EQ_INT(next(g, MOST, expected, logprobs), 10);
    weft_generator_free(g);
    weft_generate_options o = w.options;
    o.ignore_eos = true;
    o.timeout = 1e-9;
    CHECK_OK(weft_generator_new(model, prompt(), PROMPT, &o, &g));
    CHECK_EQ_INT(next(g, 1, got, logprobs), 0);
    CHECK_EQ_INT(weft_generator_stats(g).reason, WEFT_FINISH_DEADLINE);
    CHECK_OK(weft_state_save(g, path, NULL));
    weft_generator_free(g);
    if (CHECK_OK(weft_state_load(model, path, NULL, NULL, &g)))
        CHECK_EQ_INT(next(g, MOST, got, logprobs), 10);
    CHECK_BYTES(got, expected, 10 * sizeof *got);
    weft_generator_free(g);
    weft_model_free(model);
}

/* The time before a state was saved does not count. */
static void a_loaded_state_has_its_whole_timeout(void)
{
    const char *path = check_temporary("timeout.safetensors");
    weft_model *model = fixture_model("llama");
    const weft_generate_options o = {.timeout = 3600};
    int32_t got[MOST];
    double logprobs[MOST];
    weft_generator *g = start(model, &ways[0]);
    next(g, 5, got, logprobs);
    CHECK_OK(weft_state_save(g, path, NULL));
    weft_generator_free(g);
    if (CHECK_OK(weft_state_load(model, path, NULL, &o, &g))) {
        CHECK_EQ_INT(next(g, 3, got, logprobs), 3);
        CHECK_EQ_INT(weft_generator_stats(g).reason, WEFT_FINISH_NONE);
    }
    weft_generator_free(g);
    weft_model_free(model);
}

static const char tokens[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"%s\":2},\"merges\":[]}}";

static weft_tokenizer *tokenizer(const char *third)
{
    char json[128];
    weft_tokenizer *t = NULL;
    const int n = snprintf(json, sizeof json, tokens, third);
    CHECK_OK(weft_tokenizer_parse(json, (size_t)n, NULL, 0, "tokenizer", &t));
    return t;
}

static void differences_are_named(void)
{
    const char *path = check_temporary("whose.safetensors");
    weft_model *model = fixture_model("llama"), *other = fixture_model("qwen3");
    weft_tokenizer *one = tokenizer("c"), *two = tokenizer("d");
    weft_generator *g = start(model, &ways[0]), *loaded;
    int32_t ids[MOST];
    double logprobs[MOST];
    weft_state_about about = {.tokenizer = one, .chat_template = "{{ x }}", .prompt = "Once"};
    next(g, 5, ids, logprobs);
    CHECK_OK(weft_state_save(g, path, &about));
    CHECK_STATUS(weft_state_load(other, path, &about, NULL, &loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "written with the llama model");
    CHECK_CONTAINS(weft_error_message(), "this is the qwen3 model");
    CHECK(loaded == NULL);
    CHECK_OK(weft_state_load(model, path, &about, NULL, &loaded));
    weft_generator_free(loaded);
    CHECK_OK(weft_state_load(model, path, NULL, NULL, &loaded));
    weft_generator_free(loaded);
    about.tokenizer = two;
    CHECK_STATUS(weft_state_load(model, path, &about, NULL, &loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "written with the tokenizer");
    about = (weft_state_about){.tokenizer = one, .chat_template = "{{ y }}"};
    CHECK_STATUS(weft_state_load(model, path, &about, NULL, &loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "written with the template");
    CHECK_OK(weft_nn_lora_inject(weft_model_module(model), NULL));
    CHECK_STATUS(weft_state_load(model, path, NULL, NULL, &loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "adapter none; this is the llama model");
    weft_generator_free(g);
    weft_model_free(model);
    weft_model_free(other);
    weft_tokenizer_free(one);
    weft_tokenizer_free(two);
}

static void states_that_cannot_be_saved_are_refused(void)
{
    const char *path = check_temporary("none.safetensors");
    weft_model *model = fixture_model("llama");
    way w = {"llama", {.max_tokens = 5, .no_cache = true}, 0};
    weft_generator *g = start(model, &w), *loaded;
    CHECK_STATUS(weft_state_save(g, path, NULL), WEFT_UNSUPPORTED);
    weft_generator_free(g);
    w.options = (weft_generate_options){.max_tokens = 5, .ngram = 2};
    g = start(model, &w);
    CHECK_STATUS(weft_state_save(g, path, NULL), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "with proposed tokens cannot be saved");
    weft_generator_free(g);
    CHECK_STATUS(weft_state_load(model, path, NULL, NULL, &loaded), WEFT_IO);
    const char *weights = check_fixture("models/llama/model.safetensors");
    CHECK_STATUS(weft_state_load(model, weights, NULL, NULL, &loaded), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "not a generation");
    weft_model_free(model);
}

/* One array changed, shortened or left out at a time: refused, or valid enough to continue. */
/* Wrong, missing and extreme numbers, and missing arrays. */
enum { WAYS_TO_BEND = 4 };

static void damaged_files_are_refused_or_continued(void)
{
    const char *path = check_temporary("bent.safetensors");
    const char *broken = check_temporary("broken.safetensors");
    weft_model *model = fixture_model("qwen3");
    const way *w = &ways[4];
    weft_generator *g = start(model, w), *loaded;
    int32_t ids[MOST];
    double logprobs[MOST];
    next(g, 7, ids, logprobs);
    CHECK_OK(weft_state_save(g, path, NULL));
    weft_generator_free(g);
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    static const char *const keys[] = {"weft.kind", "weft.version", "weft.family", "weft.model",
                                       "weft.adapter"};
    weft_metadata said[5];
    for (int i = 0; i < 5; i++)
        said[i] = (weft_metadata){keys[i], weft_safetensors_metadata(file, keys[i])};
    const int n = weft_safetensors_count(file);
    int refused = 0;
    for (int bent = 0; bent < WAYS_TO_BEND * n && CHECK(n < 64); bent++) {
        const int bend = bent % WAYS_TO_BEND, which = bent / WAYS_TO_BEND;
        const char *names[64];
        weft_array *arrays[64];
        int m = 0;
        for (int i = 0; i < n; i++) {
            weft_array *a = weft_copy(weft_safetensors_get_at(file, i));
            names[m] = weft_safetensors_name(file, i);
            if (i == which && bend == 0)
                a = weft_add_scalar(a, 100000);
            else if (i == which && bend == 1)
                a = weft_slice_axis(a, 0, 1, INT64_MAX);
            else if (i == which && bend == 2 && weft_dtype_of(a) == WEFT_INT64)
                a = weft_subtract(weft_scalar_int(INT64_MAX, WEFT_INT64),
                                  weft_remainder_scalar(a, 2));
            if (i != which || bend < 3)
                arrays[m++] = a;
        }
        CHECK_OK(weft_safetensors_save(broken, names, arrays, m, said, 5));
        if (weft_state_load(model, broken, NULL, NULL, &loaded) != WEFT_OK) {
            refused++;
            continue;
        }
        for (int i = 0; i < 5 && weft_generator_next(loaded, ids, logprobs) == WEFT_OK; i++)
            continue;
        weft_generator_free(loaded);
    }
    CHECK(refused > 2 * n);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    weft_model_free(model);
}

CHECK_MAIN("state", CHECK_CASE(a_loaded_state_continues_as_if_not_interrupted),
           CHECK_CASE(more_tokens_may_be_requested), CHECK_CASE(an_interrupted_prompt_is_continued),
           CHECK_CASE(a_loaded_state_has_its_whole_timeout), CHECK_CASE(differences_are_named),
           CHECK_CASE(states_that_cannot_be_saved_are_refused),
           CHECK_CASE(damaged_files_are_refused_or_continued))
