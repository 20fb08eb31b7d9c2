/* tests/generate/test_generate.c -- generate/: the storyteller's tokens with and without a
 * cache, stopping, texts, memory. */
#include "weft/compile.h"
#include "weft/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/generate/once.h"

enum { MOST = 128 };

/* ---- Tokens --------------------------------------------------------------------------------- */

/* An array of ids in the reference. */
static int read_ids(const weft__json *object, const char *key, int32_t *ids)
{
    weft__json list;
    if (!CHECK_OK(weft__json_get(object, key, &list)))
        return 0;
    int n = (int)json_object_array_length(list.value);
    for (int i = 0; i < n && i < MOST; i++)
        ids[i] = (int32_t)json_object_get_int(json_object_array_get_idx(list.value, (size_t)i));
    return n;
}

/* Greedy ids of another framework, with caches and by computing the whole text for each token. */
static void greedy_tokens_are_the_reference(void)
{
    const char *path = check_fixture("storyteller/reference.json");
    weft__json_doc doc;
    weft__json list;
    if (!ready() || !CHECK_OK(weft__json_read(path, &doc)))
        return;
    weft__json root = weft__json_root(&doc);
    CHECK_OK(weft__json_get(&root, "greedy", &list));
    int count = (int)json_object_array_length(list.value);
    CHECK(count > 0);
    for (int i = 0; i < count; i++) {
        weft__json one = list;
        one.value = json_object_array_get_idx(list.value, (size_t)i);
        int32_t prompt[MOST], wanted[MOST];
        int n = read_ids(&one, "prompt_ids", prompt), all = read_ids(&one, "greedy_ids", wanted);
        for (int no_cache = 0; no_cache < 2; no_cache++) {
            generated t = {0};
            const weft_generate_options o = {
                .max_tokens = all - n, .ignore_eos = true, .no_cache = no_cache != 0};
            CHECK_OK(weft_generate(model, tokenizer, prompt, (size_t)n, &o, generated_collect, &t,
                                   NULL));
            CHECK_EQ_INT(t.n, all - n);
            CHECK_BYTES(t.ids, wanted + n, (size_t)(all - n) * sizeof *wanted);
        }
    }
    weft__json_free(&doc);
}

/* A prompt of several chunks gives what it gives in one piece. */
static void chunks_change_nothing(void)
{
    if (!ready())
        return;
    generated whole = {0}, pieces = {0}, ones = {0};
    generate(&(weft_generate_options){.max_tokens = 24, .logprobs = true}, &whole);
    generate(&(weft_generate_options){.max_tokens = 24, .logprobs = true, .prefill = 3}, &pieces);
    generate(&(weft_generate_options){.max_tokens = 24, .logprobs = true, .prefill = 1}, &ones);
    CHECK_EQ_INT(pieces.n, 24);
    CHECK_BYTES(pieces.ids, whole.ids, 24 * sizeof *whole.ids);
    CHECK_BYTES(ones.ids, whole.ids, 24 * sizeof *whole.ids);
    for (int i = 0; i < 24; i++)
        CHECK_CLOSE(pieces.logprobs[i], whole.logprobs[i], 1e-4);
}

static bool on_device(void)
{
    return getenv("WEFT_TEST_DEVICE") != NULL;
}

/* The same with steps as graphs: tokens, and on the CPU log-probabilities to the last bit, also
 * where the caches grow. A device divides its sums by the capacity of the caches. */
static void same_as_graphs(weft_generate_options o, int64_t compiles)
{
    generated fast = {0}, graphs = {0};
    weft_generate_stats stats = generate(&o, &fast);
    CHECK_EQ_INT(stats.compiles, compiles);
    o.no_compile = true;
    stats = generate(&o, &graphs);
    CHECK_EQ_INT(stats.compiles, 0);
    CHECK_EQ_INT(fast.n, graphs.n);
    CHECK_BYTES(fast.ids, graphs.ids, sizeof fast.ids);
    for (int i = 0; i < fast.n; i++)
        CHECK_CLOSE(fast.logprobs[i], graphs.logprobs[i], on_device() ? 1e-5 : 0);
    CHECK_STR(fast.text, graphs.text);
}

static void compiled_steps_are_the_same(void)
{
    if (!ready())
        return;
    const weft_sampler_options drawn = {
        .temperature = 1, .top_p = 0.9, .top_k = 40, .repetition_penalty = 1.3};
    static const int32_t ids[] = {258, 309, 12, 370};
    static const float values[] = {1, -2, 3, 0.5F};
    const weft_sampler_options all = {.bias_ids = ids,
                                      .bias_values = values,
                                      .n_bias = 4,
                                      .suppress = once,
                                      .n_suppress = 2,
                                      .repetition_penalty = 1.1,
                                      .presence_penalty = 0.5,
                                      .frequency_penalty = 0.2,
                                      .temperature = 1.2,
                                      .top_p = 0.95,
                                      .top_k = 50,
                                      .min_p = 0.01,
                                      .xtc_probability = 0.5,
                                      .xtc_threshold = 0.1,
                                      .xtc_keep = ids,
                                      .n_xtc_keep = 2};
    same_as_graphs((weft_generate_options){.max_tokens = 40, .sampler = all, .seed = 8}, 1);
    same_as_graphs((weft_generate_options){.max_tokens = 7}, 0);
    if (!check_in_software() || check_exhaustive()) { /* in software they take minutes */
        same_as_graphs((weft_generate_options){.max_tokens = 40, .ignore_eos = true}, 1);
        same_as_graphs((weft_generate_options){.max_tokens = 30, .logprobs = true, .prefill = 2},
                       1);
        same_as_graphs(
            (weft_generate_options){
                .max_tokens = 40, .logprobs = true, .sampler = drawn, .seed = 3},
            1);
        same_as_graphs((weft_generate_options){.max_tokens = 1}, 0);
        same_as_graphs((weft_generate_options){.max_tokens = 20, .no_cache = true}, 0);
        same_as_graphs((weft_generate_options){.max_tokens = 520, .ignore_eos = true}, 3);
    }
    weft_compile_enable(false);
    same_as_graphs((weft_generate_options){.max_tokens = 20}, 0);
    weft_compile_enable(true);
}

static void logprobs_are_those_of_the_model(void)
{
    if (!ready())
        return;
    generated t = {0};
    generate(&(weft_generate_options){.max_tokens = 1,
                                      .logprobs = true,
                                      .sampler = {.temperature = 3, .top_k = 2}},
             &t);
    weft_scope_open();
    weft_array *ids = weft_from_data(once, WEFT_INT32, WEFT_DIMS(1, ONCE));
    weft_array *logits = weft_model_forward(model, ids, NULL);
    weft_array *all = weft_log_softmax(weft_slice_axis(logits, 1, -1, INT64_MAX), -1);
    double wanted = weft_item(weft_slice_axis(all, 2, t.ids[0], t.ids[0] + 1));
    weft_scope_close(NULL);
    CHECK_CLOSE(t.logprobs[0], wanted, 1e-4);
    CHECK(t.logprobs[0] < 0);
}

static void the_seed_decides(void)
{
    if (!ready())
        return;
    weft_generate_options o = {.max_tokens = 32, .sampler = {.temperature = 1}, .seed = 4};
    generated first = {0}, second = {0}, other = {0};
    generate(&o, &first);
    generate(&o, &second);
    o.seed = 5;
    generate(&o, &other);
    CHECK_BYTES(second.ids, first.ids, sizeof first.ids);
    CHECK(memcmp(other.ids, first.ids, sizeof first.ids) != 0);
    o.no_cache = true;
    o.seed = 4;
    memset(&second, 0, sizeof second);
    generate(&o, &second);
    CHECK_BYTES(second.ids, first.ids, sizeof first.ids);
}

/* With a huge penalty no token of the prompt or the text comes twice. */
static void the_penalty_sees_prompt_and_text(void)
{
    if (!ready())
        return;
    generated t = {0};
    generate(&(weft_generate_options){.max_tokens = 48,
                                      .ignore_eos = true,
                                      .sampler = {.repetition_penalty = 1e6}},
             &t);
    int twice = 0;
    for (int i = 0; i < t.n; i++) {
        for (int j = 0; j < i; j++)
            twice += t.ids[i] == t.ids[j];
        for (int j = 0; j < ONCE; j++)
            twice += t.ids[i] == once[j];
    }
    CHECK_EQ_INT(t.n, 48);
    CHECK_EQ_INT(twice, 0);
}

/* A frequency penalty of 50 lets a token come again only when all others came as often: the first
 * 48 are different, and none is of the prompt. Suppressed tokens are never drawn, and one with a
 * bias of 1000 comes at once; the lists may be freed once the generator is made. */
static void lists_and_counts_reach_the_draw(void)
{
    if (!ready())
        return;
    generated t = {0};
    generate(&(weft_generate_options){.max_tokens = 48,
                                      .ignore_eos = true,
                                      .sampler = {.frequency_penalty = 50}},
             &t);
    int twice = 0;
    for (int i = 0; i < t.n; i++) {
        for (int j = 0; j < i + ONCE; j++)
            twice += t.ids[i] == (j < i ? t.ids[j] : once[j - i]);
    }
    CHECK_EQ_INT(t.n, 48);
    CHECK_EQ_INT(twice, 0);

    int32_t first = t.ids[0], wanted = 77, id = 0;
    float much = 1000;
    weft_generate_options o = {.max_tokens = 12, .ignore_eos = true};
    o.sampler = (weft_sampler_options){
        .bias_ids = &wanted, .bias_values = &much, .n_bias = 1, .frequency_penalty = 1500};
    weft_generator *g;
    if (!CHECK_OK(weft_generator_new(model, once, ONCE, &o, &g)))
        return;
    wanted = 5;
    much = 0;
    CHECK_OK(weft_generator_next(g, &id, NULL));
    CHECK_EQ_INT(id, 77);
    CHECK_OK(weft_generator_next(g, &id, NULL));
    CHECK(id != 77 && id != 5);
    weft_generator_free(g);
    o.sampler = (weft_sampler_options){.suppress = &first, .n_suppress = 1};
    if (CHECK_OK(weft_generator_new(model, once, ONCE, &o, &g)))
        CHECK_OK(weft_generator_next(g, &id, NULL));
    CHECK(id != first);
    weft_generator_free(g);
}

/* ---- Stopping ------------------------------------------------------------------------------- */

static void generation_ends_at_stop_tokens(void)
{
    if (!ready())
        return;
    generated t = {0};
    weft_generate_stats s = generate(&(weft_generate_options){.max_tokens = 10}, &t);
    CHECK_EQ_INT(s.reason, WEFT_FINISH_LENGTH);
    CHECK_EQ_INT(s.tokens, 10);
    CHECK_EQ_INT(s.prompt_tokens, ONCE);
    CHECK(s.first_token_seconds > 0 && s.decode_per_second > 0 && s.prompt_per_second > 0);

    int32_t fourth = t.ids[3];
    memset(&t, 0, sizeof t);
    s = generate(&(weft_generate_options){.max_tokens = 10, .stop = &fourth, .n_stop = 1}, &t);
    CHECK_EQ_INT(s.reason, WEFT_FINISH_STOP);
    CHECK_EQ_INT(s.detail, WEFT_FINISH_TOKEN);
    CHECK_EQ_INT(s.tokens, 3);
    CHECK_EQ_INT(t.n, 3);

    memset(&t, 0, sizeof t);
    t.most = 2;
    s = generate(&(weft_generate_options){.max_tokens = 10}, &t);
    CHECK_EQ_INT(s.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(s.detail, WEFT_FINISH_CALLBACK);
    CHECK_EQ_INT(t.n, 2);
    CHECK_STR(weft_finish_name(s.reason), "cancelled");
    CHECK_STR(weft_finish_detail_name(s.detail), "callback");
}

/* 1,024 positions: a prompt of 1,020 leaves room for five tokens, the last of which needs none. */
static void stops_at_the_last_position(void)
{
    if (!ready())
        return;
    static int32_t prompt[1025];
    for (int i = 0; i < 1025; i++)
        prompt[i] = once[i % ONCE];
    generated t = {0};
    weft_generate_stats s;
    const weft_generate_options o = {.max_tokens = 50, .ignore_eos = true};
    CHECK_OK(weft_generate(model, NULL, prompt, 1020, &o, generated_collect, &t, &s));
    CHECK_EQ_INT(s.reason, WEFT_FINISH_LENGTH);
    CHECK_EQ_INT(s.detail, WEFT_FINISH_POSITIONS);
    CHECK_EQ_INT(s.tokens, 5);
    CHECK_STR(t.text, "");
    CHECK_STATUS(weft_generate(model, NULL, prompt, 1025, &o, generated_collect, &t, &s),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "1025");
}

static void bad_prompts_and_options_are_refused(void)
{
    if (!ready())
        return;
    weft_generator *g;
    const int32_t outside[] = {5, 4096}, negative[] = {-1};
    CHECK_STATUS(weft_generator_new(model, once, 0, NULL, &g), WEFT_INVALID);
    CHECK_STATUS(weft_generator_new(model, outside, 2, NULL, &g), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "prompt id 1");
    CHECK_STATUS(weft_generator_new(model, negative, 1, NULL, &g), WEFT_INVALID);
    const weft_generate_options bad = {.sampler = {.top_p = 2}};
    CHECK_STATUS(weft_generator_new(model, once, ONCE, &bad, &g), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "top_p");
    const weft_generate_options negative_count = {.prefill = -1};
    CHECK_STATUS(weft_generator_new(model, once, ONCE, &negative_count, &g), WEFT_INVALID);
    CHECK(g == NULL);
    weft_generator_free(NULL);
}

static void the_limit_can_be_zero_tokens(void)
{
    weft_generator *g;
    int32_t id;
    if (!ready() || !CHECK_OK(weft_generator_new(model, once, ONCE,
                                                 &(weft_generate_options){.max_tokens = -1}, &g)))
        return;
    CHECK_OK(weft_generator_next(g, &id, NULL));
    CHECK_EQ_INT(id, -1);
    CHECK_EQ_INT(weft_generator_stats(g).detail, WEFT_FINISH_MAX);
    weft_generator_free(g);
}

/* ---- Text and memory ------------------------------------------------------------------------ */

static void texts_of_tokens_join_to_the_decoded_text(void)
{
    if (!ready())
        return;
    generated t = {0};
    generate(&(weft_generate_options){.max_tokens = 100,
                                      .ignore_eos = true,
                                      .sampler = {.temperature = 1.5}},
             &t);
    char *decoded;
    CHECK_EQ_INT(t.n, 100);
    CHECK_OK(weft_tokenizer_decode(tokenizer, t.ids, (size_t)t.n, WEFT_TOKENIZER_SKIP_SPECIAL,
                                   &decoded, NULL));
    CHECK_STR(t.text, decoded);
    weft_free(decoded);
}

/* Over 1,000 tokens memory grows by the caches' capacity alone: k and v of 6 layers, one head of 64
 * float32, in blocks of 256 tokens. While they grow, the old block is there too. */
static void memory_grows_by_the_cache_alone(void)
{
    if (!ready())
        return;
    enum { TOKENS = 1000 };
    /* A driver in software takes a tenth of a second a token: two blocks are enough there. */
    const bool device = on_device();
    const int last = device ? 300 : 990, blocks = device ? 1 : 3;
    const int64_t block = (int64_t)6 * 2 * 256 * 64 * 4;
    const weft_generate_options o = {
        .max_tokens = TOKENS, .ignore_eos = true, .sampler = {.temperature = 0.7, .top_k = 40}};
    weft_generator *g;
    if (!CHECK_OK(weft_generator_new(model, once, ONCE, &o, &g)))
        return;
    int64_t active[TOKENS], peak = 0;
    int32_t id = 0;
    for (int i = 0; i <= last && id >= 0; i++) {
        CHECK_OK(weft_generator_next(g, &id, NULL));
        CHECK_OK(weft_synchronize(weft_default_device())); /* the next step is in progress */
        active[i] = weft_memory_active();
        if (i == 20)
            weft_memory_reset_peak();
    }
    peak = weft_memory_peak();
    CHECK(id >= 0);
    CHECK_EQ_INT(active[240], active[20]); /* no step leaves anything behind */
    CHECK_EQ_INT(active[last], active[last > 780 ? 780 : 270]);
    /* The step in progress takes less than 1 KB besides the blocks. */
    CHECK(active[last] - active[20] >= blocks * block);
    CHECK(active[last] - active[20] < blocks * block + 1024);
    printf("  20 tokens: %lld bytes; %d: %lld; peak %lld\n", (long long)active[20], last,
           (long long)active[last], (long long)peak);
    CHECK(peak - active[20] <= 2 * blocks * block + (1 << 20));
    weft_generator_free(g);
}

/* Each allocation of a short run fails once: the run reports it or uses a fallback, and nothing
 * leaks (checked in the sanitizer build). */
static void every_allocation_may_fail(void)
{
    weft_model *small = NULL;
    const int32_t prompt[] = {5, 6, 7};
    const weft_generate_options o = {
        .max_tokens = 2,
        .ignore_eos = true,
        .logprobs = true,
        .prefill = 2,
        .sampler = {.repetition_penalty = 1.1, .temperature = 1, .top_p = 0.9, .min_p = 0.1},
    };
    if (!CHECK_OK(weft_model_load(check_fixture("models/llama"), NULL, &small)))
        return;
    uint64_t n = 0, made;
    int failures = 0;
    do {
        generated t = {0};
        weft_memory_clear_cache();
        weft_memory_fail_at(++n);
        weft_status status = weft_generate(small, NULL, prompt, 3, &o, generated_collect, &t, NULL);
        made = weft_memory_fail_at(0);
        failures += status != WEFT_OK;
        if (status == WEFT_OK)
            CHECK_EQ_INT(t.n, 2);
    } while (made >= n); /* until a run has fewer allocations */
    printf("  %llu allocations, %d of them needed\n", (unsigned long long)n - 1, failures);
    CHECK(failures > 100);
    weft_model_free(small);
}

int main(int argc, char **argv)
{
    static const check_case cases[] = {
        CHECK_CASE(greedy_tokens_are_the_reference),
        CHECK_CASE(chunks_change_nothing),
        CHECK_CASE(compiled_steps_are_the_same),
        CHECK_CASE(logprobs_are_those_of_the_model),
        CHECK_CASE(the_seed_decides),
        CHECK_CASE(the_penalty_sees_prompt_and_text),
        CHECK_CASE(lists_and_counts_reach_the_draw),
        CHECK_CASE(generation_ends_at_stop_tokens),
        CHECK_CASE(stops_at_the_last_position),
        CHECK_CASE(bad_prompts_and_options_are_refused),
        CHECK_CASE(the_limit_can_be_zero_tokens),
        CHECK_CASE(texts_of_tokens_join_to_the_decoded_text),
        CHECK_CASE(memory_grows_by_the_cache_alone),
        CHECK_CASE(every_allocation_may_fail),
    };
    return check_main(argc, argv, "generate", cases, sizeof cases / sizeof *cases);
}
