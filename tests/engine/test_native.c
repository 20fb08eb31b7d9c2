/* tests/engine/test_native.c -- the native backend of engines against the calls that it wraps. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/engine/seen.h"
#include "weft/weft.h"

enum { TOKENS = 12 };

static weft_engine *native(const char *path, const weft_engine_options *options)
{
    weft_engine *engine = NULL;
    CHECK_OK(weft_engine_load(path, options, &engine));
    return engine;
}

static const weft_generate_options greedy = {.max_tokens = TOKENS};

static void native_engines_are_the_calls_that_they_wrap(void)
{
    const char *path = check_source("examples/storyteller");
    weft_engine *engine = native(path, NULL);
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL, *same = NULL;
    size_t n, m;
    char *text;
    if (engine == NULL || !CHECK_OK(weft_model_load(path, NULL, &model)) ||
        !CHECK_OK(weft_tokenizer_load(path, &tokenizer)))
        return;
    const char prompt[] = "Once upon a time";
    CHECK_OK(weft_tokenizer_encode(tokenizer, prompt, strlen(prompt), WEFT_TOKENIZER_ADD_SPECIAL,
                                   &ids, &n));
    CHECK_OK(
        weft_engine_encode(engine, prompt, strlen(prompt), WEFT_TOKENIZER_ADD_SPECIAL, &same, &m));
    CHECK(n == m && memcmp(ids, same, n * sizeof *ids) == 0);
    if (CHECK_OK(weft_engine_decode(engine, ids, n, WEFT_TOKENIZER_SKIP_SPECIAL, &text, NULL)))
        CHECK_STR(text, prompt);
    weft_free(text);
    seen expected = {.n = 0}, got = {.n = 0}, by_ids = {.n = 0};
    CHECK_OK(weft_generate(model, tokenizer, ids, n, &greedy, look, &expected, NULL));
    CHECK_OK(weft_engine_generate(
        engine, &(weft_engine_request){.prompt = prompt, .options = &greedy}, look, &got));
    CHECK_OK(weft_engine_generate(
        engine, &(weft_engine_request){.ids = ids, .n_ids = n, .options = &greedy}, look, &by_ids));
    CHECK(got.n == expected.n && memcmp(got.ids, expected.ids, sizeof got.ids) == 0);
    CHECK(by_ids.n == expected.n && memcmp(by_ids.ids, expected.ids, sizeof got.ids) == 0);
    CHECK_STR(got.text, expected.text);
    weft_engine_metrics took = weft_engine_metrics_of(engine);
    CHECK_EQ_INT(took.prompt_tokens, n);
    CHECK_EQ_INT(took.generated_tokens, TOKENS);
    CHECK(took.total_seconds >= took.first_token_seconds && took.first_token_seconds > 0);
    CHECK(took.peak_memory >= took.active_memory && took.active_memory > 0);
    weft_engine_info info = weft_engine_info_of(engine);
    const weft_model_info *of = weft_model_info_of(model);
    CHECK_STR(info.backend, "native");
    CHECK_STR(info.architecture, weft_model_family_of(model)->model_type);
    CHECK(info.n_layers == of->n_layers && info.vocab_size == of->vocab_size);
    CHECK(info.tokenizer && info.quant_bits == 0);
    weft_free(ids);
    weft_free(same);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
    weft_engine_free(engine);
}

/* An idle buffer of 16 MB is held, although it is unused. What the process holds outside of buffers
 * is counted too. */
static void the_peak_includes_idle_buffers(void)
{
    enum { BYTES = 16 << 20 };
    weft_engine *engine = native(check_source("examples/storyteller"), NULL);
    seen got = {.n = 0};
    if (engine == NULL)
        return;
    weft_scope_open();
    CHECK_OK(weft_eval(weft_zeros(WEFT_DIMS(BYTES), WEFT_UINT8)));
    weft_scope_close(NULL);
    const weft_engine_request request = {.prompt = "The king", .options = &greedy};
    CHECK_OK(weft_engine_generate(engine, &request, look, &got));
    const int64_t peak = weft_engine_metrics_of(engine).peak_memory;
    CHECK(peak >= weft_memory_peak_held());
    CHECK(peak >= weft_memory_peak() + BYTES / 2);
    weft_engine_free(engine);
}

static void native_engines_classify_and_batch(void)
{
    weft_engine *engine = native(check_source("examples/storyteller"), NULL);
    const char *const texts[] = {"Once upon a", "The king"};
    weft_classified results[2];
    if (engine == NULL)
        return;
    if (CHECK_OK(weft_engine_classify(engine, texts, 2, NULL, results))) {
        for (int i = 0; i < 2; i++) {
            seen first = {.n = 0};
            const weft_generate_options one = {.max_tokens = 1};
            CHECK_OK(weft_engine_generate(
                engine, &(weft_engine_request){.prompt = texts[i], .options = &one}, look, &first));
            CHECK_OK(results[i].status);
            CHECK_EQ_INT(results[i].token, first.ids[0]);
        }
        weft_classified_free(results, 2);
    }
    weft_generated_row rows[2];
    if (CHECK_OK(weft_engine_batch(engine, texts, 2, &greedy, NULL, rows))) {
        for (int i = 0; i < 2; i++) {
            seen alone = {.n = 0};
            CHECK_OK(weft_engine_generate(
                engine, &(weft_engine_request){.prompt = texts[i], .options = &greedy}, look,
                &alone));
            CHECK_OK(rows[i].status);
            CHECK_EQ_INT(rows[i].n, alone.n);
            CHECK(memcmp(rows[i].ids, alone.ids, rows[i].n * sizeof *rows[i].ids) == 0);
            CHECK_STR(rows[i].text, alone.text);
        }
        weft_generated_rows_free(rows, 2);
    }
    weft_engine_free(engine);
}

/* A context of 8 positions: the storyteller's prompts have 2 and 13 tokens. */
static void classify_and_batch_keep_to_the_context(void)
{
    weft_engine *engine =
        native(check_source("examples/storyteller"), &(weft_engine_options){.context = 8});
    const char *const texts[] = {"The king",
                                 "Once upon a time there was a king who had a daughter"};
    const weft_generate_options on = {.max_tokens = 50, .ignore_eos = true};
    weft_generated_row rows[2];
    weft_classified results[2];
    if (engine == NULL)
        return;
    seen alone = {.n = 0};
    CHECK_OK(weft_engine_generate(
        engine, &(weft_engine_request){.prompt = texts[0], .options = &on}, look, &alone));
    if (CHECK_OK(weft_engine_batch(engine, texts, 2, &on, NULL, rows))) {
        CHECK_EQ_INT(rows[0].stats.prompt_tokens + (int64_t)rows[0].n, 8 + 1);
        CHECK(rows[0].stats.detail == WEFT_FINISH_POSITIONS);
        CHECK_EQ_INT(rows[0].n, alone.n);
        CHECK_BYTES(rows[0].ids, alone.ids, rows[0].n * sizeof *rows[0].ids);
        CHECK_STATUS(rows[1].status, WEFT_INVALID);
        CHECK_CONTAINS(rows[1].message, "8 positions");
        weft_generated_rows_free(rows, 2);
    }
    CHECK_STATUS(weft_engine_classify(engine, texts, 2, NULL, results), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the context 8");
    weft_engine_free(engine);
}

static void native_engines_show_keys_and_queries(void)
{
    const char *path = check_source("examples/storyteller");
    weft_engine *engine = native(path, NULL);
    weft_model *model = NULL;
    weft_inspection *found = NULL, *expected = NULL;
    const weft_engine_request request = {.prompt = "The king"};
    int32_t *ids = NULL;
    size_t n;
    if (engine == NULL || !CHECK_OK(weft_model_load(path, NULL, &model)))
        return;
    CHECK_OK(weft_engine_encode(engine, "The king", 8, WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
    CHECK_OK(weft_inspect(model, ids, n, &expected));
    if (CHECK_OK(weft_engine_inspect(engine, &request, &found))) {
        CHECK(found->length == (int64_t)n && found->n_layers == expected->n_layers);
        CHECK(memcmp(found->ids, ids, n * sizeof *ids) == 0);
        for (int64_t i = 0; i < found->n_layers; i++) {
            const weft_inspected_layer *a = &found->layers[i], *b = &expected->layers[i];
            CHECK_BYTES(weft_data(a->keys), weft_data(b->keys), weft_nbytes(b->keys));
            CHECK_BYTES(weft_data(a->queries), weft_data(b->queries), weft_nbytes(b->queries));
        }
    }
    weft_inspection_free(found);
    weft_inspection_free(expected);
    CHECK(weft_engine_inspect(engine, &(weft_engine_request){.ids = ids}, &found) != WEFT_OK);
    weft_free(ids);
    weft_model_free(model);
    weft_engine_free(engine);
}

static void models_without_a_tokenizer_take_ids(void)
{
    static const int32_t ids[] = {1, 5, 9};
    weft_engine *engine =
        native(check_fixture("models/mlx-qwen3"), &(weft_engine_options){.context = 8});
    seen got = {.n = 0};
    if (engine == NULL)
        return;
    weft_engine_info info = weft_engine_info_of(engine);
    CHECK(!info.tokenizer);
    CHECK_EQ_INT(info.quant_bits, 4);
    CHECK_EQ_INT(info.quant_group, 32);
    CHECK_EQ_INT(info.context_length, 8);
    const weft_generate_options on = {.max_tokens = 50, .ignore_eos = true};
    CHECK_OK(weft_engine_generate(
        engine, &(weft_engine_request){.ids = ids, .n_ids = 3, .options = &on}, look, &got));
    CHECK_EQ_INT(got.n, 6); /* 8 - 3, and one more that needs no position */
    CHECK(weft_engine_metrics_of(engine).reason == WEFT_FINISH_LENGTH);
    const int32_t many[9] = {1};
    CHECK_STATUS(
        weft_engine_generate(engine, &(weft_engine_request){.ids = many, .n_ids = 9}, NULL, NULL),
        WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "the prompt has 9 tokens, the context 8");
    CHECK_STATUS(weft_engine_generate(engine, &(weft_engine_request){.prompt = "x"}, NULL, NULL),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "no tokenizer: ");
    CHECK(weft_engine_chat(engine, "[{\"role\": \"user\", \"content\": \"x\"}]", NULL, NULL, NULL,
                           NULL) != WEFT_OK);
    weft_engine_free(engine);
    CHECK_STATUS(weft_engine_load(check_temporary("nowhere"), NULL, &engine), WEFT_IO);
}

/* Texts continue beyond the engine's context as weft_generate does with so many positions. */
static void the_context_shifts_on_request(void)
{
    enum { CONTEXT = 24, MOST = 60 };
    const char *path = check_source("examples/storyteller");
    weft_engine *engine = native(path, &(weft_engine_options){.context = CONTEXT});
    weft_model *model = NULL;
    int32_t ids[CONTEXT + 10];
    if (engine == NULL || !CHECK_OK(weft_model_load(path, NULL, &model)))
        return;
    for (int i = 0; i < CONTEXT + 10; i++)
        ids[i] = 300 + (i * 31) % 80;
    for (int i = 0; i < 2; i++) { /* then a prompt that is longer than the context */
        const size_t n = i == 0 ? 12 : CONTEXT + 10;
        weft_generate_options o = {.max_tokens = MOST, .ignore_eos = true, .shift = true};
        const weft_engine_request request = {.ids = ids, .n_ids = n, .options = &o};
        seen got = {.n = 0}, expected = {.n = 0};
        CHECK_OK(weft_engine_generate(engine, &request, look, &got));
        CHECK_EQ_INT(got.n, MOST);
        CHECK(weft_engine_metrics_of(engine).detail == WEFT_FINISH_MAX);
        o.positions = CONTEXT;
        weft_generate_stats stats;
        CHECK_OK(weft_generate(model, NULL, ids, n, &o, look, &expected, &stats));
        CHECK(stats.shifts >= 3);
        CHECK_BYTES(got.ids, expected.ids, sizeof got.ids);
    }
    weft_model_free(model);
    weft_engine_free(engine);
}

/* Copies the storyteller, and gives it a template. */
static void conversations_go_through_the_template(void)
{
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json"};
    const char *folder = check_temporary("chatty");
    CHECK_OK(weft_folder_make(folder));
    for (int i = 0; i < 4; i++) {
        char from[1000], to[1000], *data;
        size_t size;
        snprintf(from, sizeof from, "%s/%s", check_source("examples/storyteller"), files[i]);
        snprintf(to, sizeof to, "%s/%s", folder, files[i]);
        if (CHECK_OK(weft_file_read(from, 0, &data, &size)))
            CHECK_OK(weft_file_write(to, data, size));
        weft_free(data);
    }
    const char template[] = "{{ messages[0]['content'] }}{% if add_generation_prompt %} and{% "
                            "endif %}";
    CHECK_OK(
        weft_file_write(check_temporary("chatty/chat_template.jinja"), template, strlen(template)));
    weft_engine *engine = native(folder, NULL);
    if (engine == NULL)
        return;
    CHECK(weft_engine_info_of(engine).chat_template);
    seen chat = {.n = 0}, text = {.n = 0};
    CHECK_OK(weft_engine_chat(engine, "[{\"role\": \"user\", \"content\": \"The king\"}]", NULL,
                              &greedy, look, &chat));
    CHECK_OK(weft_engine_generate(
        engine,
        &(weft_engine_request){.prompt = "The king and", .no_special = true, .options = &greedy},
        look, &text));
    CHECK(chat.n == TOKENS && memcmp(chat.ids, text.ids, sizeof chat.ids) == 0);
    weft_engine_free(engine);
}

/* A warmed prompt and the prompt of an earlier generation are found in the prompt cache; texts stay
 * the same. */
static void prompts_are_cached(void)
{
    static const char base[] =
        "Once upon a time there was a king who had three sons and one crown, "
        "and the crown was too small for all of them.";
    static const char longer[] = "Once upon a time there was a king who had three sons and one "
                                 "crown, and the crown was too small for all of them. One day";
    const char *path = check_source("examples/storyteller");
    weft_engine *plain = native(path, NULL);
    weft_engine *engine = native(path, &(weft_engine_options){.prompt_cache_bytes = -1});
    const weft_engine_request start = {.prompt = base};
    const weft_engine_request request = {.prompt = longer, .options = &greedy};
    seen expected = {.n = 0};
    if (engine == NULL || plain == NULL)
        return;
    CHECK_STATUS(weft_engine_warm(plain, &start), WEFT_INVALID);
    CHECK_CONTAINS(weft_engine_error(plain), "prompt_cache_bytes");
    CHECK_OK(weft_engine_generate(plain, &request, look, &expected));
    CHECK_EQ_INT(weft_engine_metrics_of(plain).cached_tokens, 0);
    CHECK_OK(weft_engine_warm(engine, &start));
    for (int i = 0; i < 2; i++) {
        seen got = {.n = 0};
        CHECK_OK(weft_engine_generate(engine, &request, look, &got));
        const weft_engine_metrics m = weft_engine_metrics_of(engine);
        int32_t *ids = NULL;
        size_t n = 0;
        CHECK_OK(
            weft_engine_encode(engine, base, strlen(base), WEFT_TOKENIZER_ADD_SPECIAL, &ids, &n));
        weft_free(ids);
        /* First the warmed text is reused; then the whole prompt except for its last token. */
        CHECK_EQ_INT(m.cached_tokens, i == 0 ? (int64_t)n : m.prompt_tokens - 1);
        CHECK_STR(got.text, expected.text);
    }
    const weft_generate_options uncached = {.max_tokens = TOKENS, .no_cache = true};
    CHECK_OK(weft_engine_generate(
        engine, &(weft_engine_request){.prompt = longer, .options = &uncached}, NULL, NULL));
    CHECK_EQ_INT(weft_engine_metrics_of(engine).cached_tokens, 0);
    weft_engine_free(plain);
    weft_engine_free(engine);
    engine = native(path, &(weft_engine_options){.prompt_cache_bytes = -1, .context = 5});
    CHECK_STATUS(weft_engine_warm(engine, &start), WEFT_INVALID);
    CHECK_CONTAINS(weft_engine_error(engine), "context 5");
    weft_engine_free(engine);
}

/* 2 of 8 experts, and no row of the embedding, which is not the head: of 239,040 weights 20,480 are
 * the embedding's and 147,456 the experts'. */
static void a_token_reads_its_experts_alone(void)
{
    weft_model *model;
    weft_engine_info info = {0};
    if (!CHECK_OK(weft_model_load(check_fixture("models/qwen3-moe"), NULL, &model)))
        return;
    weft_engine_describe(model, &info);
    CHECK_EQ_INT(info.weight_bytes, 4 * (239040 - 20480 - 147456 + 147456 / 4));
    weft_model_free(model);
}

CHECK_MAIN("native", CHECK_CASE(native_engines_are_the_calls_that_they_wrap),
           CHECK_CASE(the_peak_includes_idle_buffers),
           CHECK_CASE(native_engines_classify_and_batch),
           CHECK_CASE(classify_and_batch_keep_to_the_context),
           CHECK_CASE(native_engines_show_keys_and_queries),
           CHECK_CASE(models_without_a_tokenizer_take_ids),
           CHECK_CASE(the_context_shifts_on_request),
           CHECK_CASE(conversations_go_through_the_template), CHECK_CASE(prompts_are_cached),
           CHECK_CASE(a_token_reads_its_experts_alone))
