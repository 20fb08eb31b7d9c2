/* tests/generate/test_running_batch.c -- generate/batch.c: requests that enter and leave while
 * others are being generated get the tokens that they get alone. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/generate/requests.h"
#include "tests/support/models.h"

enum { N = 10 };

static void make_requests(weft_model *model, requests *s)
{
    static const size_t lengths[N] = {7, 30, 1, 13, 13, 2, 29, 21, 5, 17};
    static const int64_t most[N] = {40, 9, 30, 1, 17, 24, 6, 24, 2, 12};
    requests_make(s, model, N, 40, lengths, most);
    for (int i = 2; i < N; i += 3)
        s->options[i].sampler.temperature = 1;
}

static weft_running_batch *open_batch(const requests *s, int64_t rows)
{
    return requests_open(s, &(weft_generate_batch_options){.rows = rows});
}

/* Request i enters at step[i]: into a row beside others, into one that another has left, into an
 * empty batch. The numbers of rows are few, so few steps are compiled. */
static void requests_enter_at_any_step(void)
{
    static const char *const families[] = {"llama",        "gemma3", "qwen3-next",
                                           "gemma4-dense", "lfm2",   "falcon-h1"};
    static const int steps[][N] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
                                   {0, 0, 5, 5, 5, 13, 14, 31, 60, 60},
                                   {0, 11, 11, 12, 12, 12, 12, 12, 13, 39}};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        for (size_t k = 0; model && k < sizeof steps / sizeof *steps; k++) {
            requests s;
            make_requests(model, &s);
            weft_running_batch *b = open_batch(&s, k == 1 ? 3 : 8);
            bool more = true;
            int next = 0;
            for (int step = 0; b && (more || next < N); step++) {
                for (; next < N && steps[k][next] <= step; next++)
                    requests_add(b, &s, next, next + 1);
                more = requests_step(b);
                CHECK(k == 1 || (b->places & (b->places - 1)) == 0); /* 8, 4, 2 or 1 rows */
                CHECK(b->steps[0].compiled == NULL ||
                      weft_compiled_counts(b->steps[0].compiled).compiles <= 7);
            }
            requests_finish(b, &s, 0, N);
        }
        weft_model_free(model);
    }
}

/* A long prompt is processed in pieces, and the others get a token after each. */
static void long_prompts_are_read_between_steps(void)
{
    static const char *const families[] = {"llama", "gemma3", "qwen3-next"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        const weft_generate_batch_options o = {.rows = 4, .batch.tokens = 4};
        weft_running_batch *b = NULL;
        requests s;
        if (model == NULL || !CHECK_OK(weft_running_batch_new(model, NULL, &o, &b)))
            return;
        make_requests(model, &s);
        requests_add(b, &s, 0, 1);
        for (int step = 0; step < 3; step++)
            requests_step(b);
        requests_add(b, &s, 1, 2);
        for (int step = 0; step < 30 / 4; step++) { /* the last piece has 2 tokens */
            const size_t before = s.results[0].n;
            requests_step(b);
            CHECK_EQ_INT(s.results[0].n, before + 1);
            CHECK_EQ_INT(s.results[1].n, 0);
        }
        requests_step(b);
        CHECK(s.results[1].n > 0);
        requests_finish(b, &s, 0, 2);
        weft_model_free(model);
    }
}

/* Prompts of different lengths cannot be padded where a state would read the padding: the tokens
 * that one step may process are those of the prompts that it does process. */
static void prompts_apart_share_a_step(void)
{
    weft_model *model = fixture_model("qwen3-next");
    const weft_generate_batch_options o = {.rows = 4, .batch.tokens = 64};
    weft_running_batch *b = NULL;
    requests s;
    if (model == NULL || !CHECK_OK(weft_running_batch_new(model, NULL, &o, &b)))
        return;
    make_requests(model, &s);
    for (int i = 0; i < 4; i++) {
        s.requests[i].prompt.n = (size_t)(16 - i);
        requests_add(b, &s, i, i + 1);
    }
    requests_step(b);
    for (int i = 0; i < 4; i++)
        CHECK(s.results[i].n > 0);
    requests_finish(b, &s, 0, 4);
    weft_model_free(model);
}

/* Prompts are processed in the order of arrival, also beside longer ones and ones in pieces. */
static void the_oldest_prompt_is_read_first(void)
{
    static const size_t lengths[] = {5, 20, 8, 3, 8};
    enum { REQUESTS = sizeof lengths / sizeof *lengths };
    static const int first[REQUESTS] = {0, 3, 4, 4, 5}; /* the step of the first token */
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {.rows = 8, .batch.tokens = 8};
    weft_running_batch *b = NULL;
    bool more = true;
    requests s;
    if (model == NULL || !CHECK_OK(weft_running_batch_new(model, NULL, &o, &b)))
        return;
    make_requests(model, &s);
    for (int i = 0; i < REQUESTS; i++) {
        s.options[i].max_tokens = 20;
        s.requests[i].prompt.n = lengths[i];
        requests_add(b, &s, i, i + 1);
    }
    for (int step = 0; more; step++) {
        more = requests_step(b);
        for (int i = 0; i < REQUESTS; i++)
            CHECK_EQ_INT(s.results[i].n > 0, step >= first[i]);
    }
    requests_finish(b, &s, 0, REQUESTS);
    weft_model_free(model);
}

/* A request whose time is over before its prompt is processed has no token, whatever others wait.
 */
static void a_waiting_prompt_can_be_cancelled(void)
{
    weft_model *model = fixture_model("llama");
    weft_cancel *cancel = weft_cancel_new();
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    s.options[0].cancel = cancel;
    weft_cancel_set(cancel);
    weft_running_batch *b = open_batch(&s, 4);
    requests_add(b, &s, 0, 2);
    requests_step(b);
    CHECK_EQ_INT(s.results[0].stats.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(s.results[0].n, 0);
    CHECK(s.results[0].stats.first_token_seconds == 0); /* nothing was computed for it */
    CHECK(s.results[1].n > 0);
    weft_running_batch_free(b);
    weft_generated_rows_free(s.results, N);
    weft_cancel_free(cancel);
    weft_model_free(model);
}

/* A prompt that begins like an earlier one takes its keys and values from the prompt cache. */
static void rows_use_the_prompt_cache(void)
{
    static const char *const families[] = {"llama", "gemma4-dense"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        const weft_prompt_cache_options o = {.min_tokens = 4};
        weft_prompt_cache *cache = NULL;
        bool more = true;
        requests s;
        if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &o, &cache)))
            return;
        make_requests(model, &s);
        for (int i = 1; i < 4; i++) {
            if (i > 1)
                memcpy(s.ids[i], s.ids[1], 12 * sizeof **s.ids);
            s.requests[i].prompt.n = 20;
            s.options[i].prompt_cache = cache;
            s.options[i].cache.whole = true;
        }
        s.options[0].cache.whole = true;
        weft_running_batch *b = open_batch(&s, 4);
        requests_add(b, &s, 0, 2);
        while (s.results[1].stats.reason == WEFT_FINISH_NONE)
            more = requests_step(b);
        CHECK(more); /* the first continues */
        requests_add(b, &s, 2, 4);
        requests_run(b);
        weft_running_batch_free(b);
        for (int i = 0; i < 4; i++) {
            CHECK_EQ_INT(s.results[i].stats.cached_tokens, i < 2 ? 0 : 12);
            CHECK_EQ_INT(s.results[i].stats.compiles, 0); /* together */
            s.options[i].prompt_cache = NULL;
            requests_compare(&s, i, i + 1);
        }
        weft_prompt_cache_free(cache);
        weft_generated_rows_free(s.results, N);
        weft_model_free(model);
    }
}

/* The row of a cancelled request is given to the one that waits; the others continue. */
static void a_cancelled_request_frees_its_row(void)
{
    weft_model *model = fixture_model("llama");
    weft_cancel *cancel = weft_cancel_new();
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    s.options[0].cancel = cancel;
    weft_running_batch *b = open_batch(&s, 2);
    for (int i = 0; i < 4; i += 1 + (i == 0)) /* requests 0, 2, 3 */
        requests_add(b, &s, i, i + 1);
    for (int step = 0; step < 4; step++)
        requests_step(b);
    CHECK_EQ_INT(b->waiting, 1);
    weft_cancel_set(cancel);
    requests_step(b);
    CHECK_EQ_INT(s.results[0].stats.reason, WEFT_FINISH_CANCELLED);
    CHECK(s.results[0].n >= 3 && s.results[0].n < 8);
    requests_step(b);
    CHECK_EQ_INT(b->waiting, 0);
    CHECK_EQ_INT(s.results[3].n, 1); /* all of its tokens */
    requests_run(b);
    weft_running_batch_free(b);
    for (int i = 0; i < 4; i += 1 + (i == 0))
        requests_compare(&s, i, i + 1);
    weft_generated_rows_free(s.results, N);
    weft_cancel_free(cancel);
    weft_model_free(model);
}

/* The number of rows follows the requests, up to the limit. */
static void rows_follow_the_requests(void)
{
    weft_model *model = fixture_model("llama");
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.options[i].max_tokens = i < 2 ? 20 : 4;
    weft_running_batch *b = open_batch(&s, 6);
    bool more = true;
    requests_add(b, &s, 0, 1);
    more = requests_step(b);
    CHECK_EQ_INT(b->places, 1);
    requests_add(b, &s, 1, 2);
    more = requests_step(b);
    CHECK_EQ_INT(b->places, 2);
    requests_add(b, &s, 2, 3);
    more = requests_step(b);
    CHECK_EQ_INT(b->places, 4);
    requests_add(b, &s, 3, N);
    more = requests_step(b);
    CHECK_EQ_INT(b->places, 6);
    CHECK_EQ_INT(b->waiting, 4);
    for (size_t most = 6; more;) {
        more = requests_step(b);
        CHECK(b->places <= most);
        most = b->places;
    }
    CHECK(b->places <= 2);
    requests_finish(b, &s, 0, N);
    weft_model_free(model);
}

/* A sequence that comes and goes beside others does not change the number of rows each time. */
static void rows_stay_while_one_request_enters_and_leaves(void)
{
    weft_model *model = fixture_model("llama");
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.options[i].max_tokens = i < 4 ? 60 : 2;
    weft_running_batch *b = open_batch(&s, 8);
    requests_add(b, &s, 0, 4);
    requests_step(b);
    CHECK_EQ_INT(b->places, 4);
    for (int i = 4; i < N; i++) {
        requests_add(b, &s, i, i + 1);
        while (s.results[i].stats.reason == WEFT_FINISH_NONE) {
            requests_step(b);
            CHECK_EQ_INT(b->places, 8);
        }
    }
    requests_finish(b, &s, 0, N);
    weft_model_free(model);
}

/* When all sequences have ended, their keys and values are freed; others may follow. */
static void an_empty_batch_holds_no_memory(void)
{
    weft_model *model = fixture_model("llama");
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = open_batch(&s, 4);
    for (int i = 0; i < 6; i += 3) {
        const int64_t active = weft_memory_active();
        requests_add(b, &s, i, i + 3);
        requests_run(b);
        CHECK_EQ_INT(weft_memory_active(), active);
    }
    requests_finish(b, &s, 0, 6);
    weft_model_free(model);
}

/* A sequence without a token leaves nothing in the prompt cache: its keys and values may have
 * failed. */
static void a_failed_sequence_is_not_stored(void)
{
    weft_model *model = fixture_model("llama");
    const weft_prompt_cache_options o = {.min_tokens = 4};
    weft_prompt_cache *cache = NULL;
    requests s;
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &o, &cache)))
        return;
    make_requests(model, &s);
    for (int i = 0; i < 2; i++)
        s.options[i].prompt_cache = cache;
    weft_array **embedding = weft_nn_find(weft_model_module(model), "model.embed_tokens.weight");
    weft_array *before = weft_keep(*embedding);
    weft_scope_open();
    CHECK_OK(weft_set(embedding, weft_multiply(*embedding, weft_scalar(NAN, WEFT_FLOAT32))));
    weft_scope_close(NULL);
    weft_running_batch *b = open_batch(&s, 4);
    requests_add(b, &s, 0, 2);
    requests_run(b);
    weft_running_batch_free(b);
    for (int i = 0; i < 2; i++) {
        CHECK(s.results[i].status != WEFT_OK);
        CHECK_CONTAINS(s.results[i].message, "NaN");
        CHECK_EQ_INT(s.results[i].stats.reason, WEFT_FINISH_ERROR);
    }
    CHECK_EQ_INT(weft_prompt_cache_measure(cache).entries, 0);
    CHECK_OK(weft_set(embedding, before));
    weft_drop(before);
    weft_prompt_cache_free(cache);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

/* After a device has failed, arrays of the caches are failures. All sequences in the caches fail;
 * one that is being read, and others, go on in new ones. */
static void failed_caches_are_replaced(void)
{
    weft_model *model = fixture_model("llama");
    for (int k = 0; model && k < 2; k++) {
        const weft_generate_batch_options o = {.rows = 4, .batch.tokens = 8, .no_compile = k > 0};
        weft_array **slots[WEFT_CACHE_SLOTS];
        weft_running_batch *b = NULL;
        bool more = true;
        requests s;
        make_requests(model, &s);
        CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
        requests_add(b, &s, 0, 2); /* the second is in pieces */
        for (int step = 0; step < 2; step++)
            more = requests_step(b);
        weft_cache_state(b->caches[1], slots);
        weft_drop(*slots[0]);
        weft_scope_open();
        *slots[0] = weft_keep(weft_error_array("the device is lost"));
        weft_scope_close(NULL);
        while (s.results[0].status == WEFT_OK && more)
            more = requests_step(b);
        CHECK_CONTAINS(s.results[0].message, "the device is lost");
        CHECK_EQ_INT(s.results[0].stats.reason, WEFT_FINISH_ERROR);
        requests_add(b, &s, 2, 3);
        requests_run(b);
        weft_running_batch_free(b);
        for (int i = 1; i < 3; i++) {
            CHECK_EQ_INT(s.results[i].stats.compiles, 0); /* together */
            requests_compare(&s, i, i + 1);
        }
        weft_generated_rows_free(s.results, N);
    }
    weft_model_free(model);
}

/* When an allocation of a step fails, sequences fail or continue with the right tokens, and those
 * that come later are not affected. The first and the third draw together. */
static void a_step_without_memory_affects_no_later_one(void)
{
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {.rows = 4, .batch.tokens = 16};
    int failed = 0;
    for (uint64_t nth = 1, made = nth; model && made >= nth; nth++) {
        weft_running_batch *b = NULL;
        bool more = true;
        requests s;
        make_requests(model, &s);
        s.options[0].sampler.temperature = 1;
        CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
        requests_add(b, &s, 0, 3); /* the second is in pieces */
        for (int step = 0; step < 2; step++)
            more = requests_step(b);
        weft_memory_fail_at(nth);
        const weft_status status = weft_running_batch_advance(b, &more);
        made = weft_memory_fail_at(0);
        CHECK(status == WEFT_OK || status == WEFT_MEMORY);
        requests_add(b, &s, 3, 5);
        requests_run(b);
        weft_running_batch_free(b);
        for (int i = 0; i < 5; i++) {
            if (i < 3 && s.results[i].status != WEFT_OK)
                failed++;
            else
                requests_compare(&s, i, i + 1);
        }
        weft_generated_rows_free(s.results, N);
    }
    CHECK(failed > 0);
    weft_model_free(model);
}

/* Without memory for more rows, which windows have, all requests fail, those that wait too; later
 * ones do not. */
static void a_failed_batch_fails_all_requests(void)
{
    weft_model *model = fixture_model("gemma3");
    bool more = true;
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = open_batch(&s, 2);
    requests_add(b, &s, 0, 1);
    more = requests_step(b);
    requests_add(b, &s, 1, 4);
    weft_memory_set_limit(1);
    CHECK_STATUS(weft_running_batch_advance(b, &more), WEFT_MEMORY);
    weft_memory_set_limit(INT64_MAX);
    CHECK(!more);
    CHECK_EQ_INT(b->waiting, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ_INT(s.results[i].status, WEFT_MEMORY);
        CHECK_EQ_INT(s.results[i].stats.reason, WEFT_FINISH_ERROR);
        CHECK_CONTAINS(s.results[i].message, "memory");
    }
    requests_add(b, &s, 4, 7);
    requests_finish(b, &s, 4, 7);
    weft_model_free(model);
}

/* A batch can be freed while requests wait and sequences are being generated. */
static void a_batch_may_be_freed_at_any_step(void)
{
    weft_model *model = fixture_model("llama");
    for (int steps = 0; model && steps < 6; steps++) {
        requests s;
        make_requests(model, &s);
        weft_running_batch *b = open_batch(&s, 3);
        requests_add(b, &s, 0, N);
        for (int step = 0; step < steps; step++)
            requests_step(b);
        weft_running_batch_free(b);
        weft_generated_rows_free(s.results, N);
    }
    weft_model_free(model);
}

CHECK_MAIN("running_batch", CHECK_CASE(requests_enter_at_any_step),
           CHECK_CASE(long_prompts_are_read_between_steps), CHECK_CASE(prompts_apart_share_a_step),
           CHECK_CASE(the_oldest_prompt_is_read_first),
           CHECK_CASE(a_waiting_prompt_can_be_cancelled), CHECK_CASE(rows_use_the_prompt_cache),
           CHECK_CASE(a_cancelled_request_frees_its_row), CHECK_CASE(rows_follow_the_requests),
           CHECK_CASE(rows_stay_while_one_request_enters_and_leaves),
           CHECK_CASE(an_empty_batch_holds_no_memory), CHECK_CASE(a_failed_sequence_is_not_stored),
           CHECK_CASE(failed_caches_are_replaced),
           CHECK_CASE(a_step_without_memory_affects_no_later_one),
           CHECK_CASE(a_failed_batch_fails_all_requests),
           CHECK_CASE(a_batch_may_be_freed_at_any_step))
