/* tests/generate/test_batch_generate.c -- weft_generate_batch and running batches: texts in a batch
 * are the same as alone. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/batch.h"

enum { N = 9, LONGEST = 40, MOST = 64 };

/* Requests of 1 to 30 ids, each with its own options. */
typedef struct some {
    int32_t ids[N][LONGEST];
    weft_generate_options options[N];
    weft_generate_request requests[N];
} some;

static void make_requests(weft_model *model, some *s)
{
    static const size_t lengths[N] = {7, 30, 1, 13, 13, 2, 29, 21, 5};
    static const int64_t most[N] = {24, 9, 30, 1, 17, 24, 6, 24, 2};
    const uint32_t V = (uint32_t)weft_model_info_of(model)->vocab_size;
    uint32_t state = 98765;
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < LONGEST; j++) {
            state = state * 1664525u + 1013904223u;
            s->ids[i][j] = (int32_t)((state >> 8) % V);
        }
        s->options[i] = (weft_generate_options){.max_tokens = most[i], .ignore_eos = true};
        s->requests[i] =
            (weft_generate_request){.prompt = {s->ids[i], lengths[i]}, .options = &s->options[i]};
    }
}

static void compare(weft_model *model, const some *s, const weft_generated_row *results,
                    double tolerance)
{
    for (int i = 0; i < N; i++) {
        generated t = {0};
        const weft_prompt *p = &s->requests[i].prompt;
        CHECK_OK(weft_generate(model, NULL, p->ids, p->n, &s->options[i], generated_collect, &t,
                               &t.stats));
        if (!CHECK_OK(results[i].status) || !CHECK_EQ_INT(results[i].n, t.n))
            continue;
        CHECK_BYTES(results[i].ids, t.ids, (size_t)t.n * sizeof *t.ids);
        CHECK_EQ_INT(results[i].stats.reason, t.stats.reason);
        CHECK_EQ_INT(results[i].stats.detail, t.stats.detail);
        CHECK_EQ_INT(results[i].stats.tokens, t.stats.tokens);
        CHECK_EQ_INT(results[i].stats.prompt_tokens, t.stats.prompt_tokens);
        for (int j = 0; j < t.n; j++)
            CHECK_CLOSE(results[i].logprobs[j], t.logprobs[j], tolerance);
    }
}

static void run(weft_model *model, const some *s, const weft_generate_batch_options *o,
                double tolerance)
{
    weft_generated_row results[N];
    CHECK_OK(weft_generate_batch(model, NULL, s->requests, N, o, NULL, NULL, results));
    compare(model, s, results, tolerance);
    weft_generated_rows_free(results, N);
}

/* Rows for all, for some and for one: texts enter and leave, and do not affect each other. */
static void greedy_texts_are_those_alone(void)
{
    static const char *const families[] = {"llama",      "mistral",  "qwen2",   "qwen3",
                                           "gemma2",     "gemma3",   "mixtral", "gemma4-dense",
                                           "ministral3", "rope-yarn"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        some s;
        if (model == NULL)
            continue;
        make_requests(model, &s);
        const weft_generate_batch_options few = {.rows = 3, .batch.tokens = 16};
        run(model, &s, NULL, 0);
        run(model, &s, &few, 0);
        weft_model_free(model);
    }
}

/* Keys and values of 16 bits, the default for quantized weights; one request wants its own dtype.
 */
static void texts_of_quantized_weights_are_those_alone(void)
{
    weft_model *model = NULL;
    const weft_model_options quantized = {.dtype = WEFT_FLOAT32, .quantize = 8};
    weft_cache_plan plan;
    some s;
    if (!CHECK_OK(weft_model_load(check_source("examples/storyteller"), &quantized, &model)))
        return;
    CHECK_OK(weft_model_plan_caches(model, NULL, &plan));
    CHECK_EQ_INT(plan.kv_bits, 16);
    make_requests(model, &s);
    s.options[4].cache.kv_bits = 32;
    s.options[5].cache.kv_bits = 16;
    run(model, &s, NULL, 0);
    weft_model_free(model);
}

/* Every text draws with its own key, by its own options, with its own counts. */
static void drawn_texts_are_those_alone(void)
{
    weft_model *model = fixture_model("qwen3");
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++) {
        s.options[i].seed = 100 + (uint64_t)i;
        s.options[i].logprobs = i % 2 == 0;
        s.options[i].sampler = (weft_sampler_options){
            .temperature = 0.4 * i, .top_k = 5 * i, .repetition_penalty = 1 + 0.1 * i};
    }
    /* Log-probabilities are of about 5; sums are in another order. */
    const weft_generate_batch_options graphs = {.rows = 4, .no_compile = true};
    run(model, &s, NULL, 1e-4);
    run(model, &s, &graphs, 1e-4);
    weft_model_free(model);
}

/* Texts with equal options share a draw; here four kinds of them, between texts that draw alone and
 * greedy ones. */
static void texts_with_equal_options_draw_as_alone(void)
{
    static const weft_sampler_options kinds[] = {
        {.temperature = 1},
        {.temperature = 1.3, .top_p = 0.9},
        {.temperature = 0.8, .min_p = 0.02},
        {.temperature = 0},
        {.temperature = 1, .xtc_probability = 0.5, .xtc_threshold = 0.02},
        {.temperature = 0, .presence_penalty = 1}};
    static const int kind[N] = {0, 1, 3, 0, 4, 2, 1, 0, 5};
    weft_model *model = fixture_model("qwen3");
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++) {
        s.options[i].seed = 300 + (uint64_t)i;
        s.options[i].logprobs = kind[i] != 1;
        s.options[i].scaled_logprobs = kind[i] == 2;
        s.options[i].sampler = kinds[kind[i]];
    }
    const weft_generate_batch_options few = {.rows = 4, .batch.tokens = 16};
    run(model, &s, NULL, 1e-4);
    run(model, &s, &few, 1e-4);
    weft_model_free(model);
}

/* Log-probabilities are equal as doubles, so logits are equal bit for bit, too. */
static void an_invariant_batch_is_exact(void)
{
    weft_model *model = fixture_model("gemma3");
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++) {
        s.options[i].logprobs = true;
        s.options[i].sampler.temperature = i % 2;
    }
    const weft_generate_batch_options o = {.batch.invariant = true};
    run(model, &s, &o, 0);
    weft_model_free(model);
}

/* Whether the sequences were computed together: those that are not have compiled steps of their
 * own.
 */
static void check_together(const some *s, const weft_generated_row *results)
{
    for (int i = 0; i < N; i++) {
        if (s->options[i].max_tokens > 8)
            CHECK_EQ_INT(results[i].stats.compiles, 0);
    }
}

/* Quantized caches, caches with a limit and sinks, layers with windows or states. */
static void all_kinds_of_caches_share_a_batch(void)
{
    static const weft_cache_options kinds[] = {
        {.kv_bits = 8},  {.max_context = 12, .sink_tokens = 2},        {.trim = 3},
        {.whole = true}, {.max_context = 16, .kv_bits = 8, .trim = 2}, {.kv_bits = 16}};
    static const char *const families[] = {"mistral",    "gemma3",      "olmo3",
                                           "qwen3-next", "qwen3-5-moe", "gpt-oss",
                                           "lfm2",       "granite4",    "falcon-h1"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = fixture_model(families[f]);
        some s;
        if (model == NULL)
            return;
        make_requests(model, &s);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const weft_generate_batch_options few = {.rows = 4};
            weft_generated_row results[N];
            for (int i = 0; i < N; i++)
                s.options[i].cache = kinds[k];
            CHECK_OK(weft_generate_batch(model, NULL, s.requests, N, &few, NULL, NULL, results));
            compare(model, &s, results, 0);
            check_together(&s, results);
            weft_generated_rows_free(results, N);
        }
        weft_model_free(model);
    }
}

/* Rotations that depend on the length, and texts without a cache, are computed one by one. */
static void incompatible_requests_run_alone(void)
{
    weft_model *model = fixture_model("rope-longrope");
    some s;
    if (model != NULL) {
        make_requests(model, &s);
        run(model, &s, NULL, 0);
    }
    weft_model_free(model);
    model = fixture_model("llama");
    if (model != NULL) {
        make_requests(model, &s);
        s.options[2].no_cache = s.options[5].no_cache = true;
        run(model, &s, &(weft_generate_batch_options){.rows = 4}, 0);
    }
    weft_model_free(model);
}

static void a_bad_request_fails_alone(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_generated_row results[N];
    if (model == NULL)
        return;
    make_requests(model, &s);
    s.ids[1][3] = -7;
    s.requests[4].prompt.n = 0;
    s.options[6].sampler.top_p = 2;
    CHECK_OK(weft_generate_batch(model, NULL, s.requests, N, NULL, NULL, NULL, results));
    for (int i = 0; i < N; i++) {
        const bool bad = i == 1 || i == 4 || i == 6;
        CHECK_STATUS(results[i].status, bad ? WEFT_INVALID : WEFT_OK);
        CHECK_EQ_INT(results[i].message != NULL, bad);
        CHECK_EQ_INT(results[i].n, bad ? 0 : s.options[i].max_tokens);
        CHECK_EQ_INT(results[i].stats.reason, bad ? WEFT_FINISH_ERROR : WEFT_FINISH_LENGTH);
        CHECK(results[i].text != NULL);
    }
    CHECK_CONTAINS(results[1].message, "prompt id 3");
    CHECK_CONTAINS(results[6].message, "top_p");
    weft_generated_rows_free(results, N);
    const weft_generate_batch_options wrong = {.rows = -1};
    CHECK_STATUS(weft_generate_batch(model, NULL, s.requests, N, &wrong, NULL, NULL, results),
                 WEFT_INVALID);
    CHECK_OK(weft_generate_batch(model, NULL, s.requests, 0, NULL, NULL, NULL, results));
    weft_model_free(model);
}

/* A text that is stopped by a token, by its callback, or with everything else. */
typedef struct stopping {
    weft_cancel *cancel;
    int64_t seen[N], all;
    int64_t cancel_after; /* tokens of all texts; 0: never */
} stopping;

static bool watch(void *context, size_t index, const weft_generated *token)
{
    stopping *x = context;
    if (token->id >= 0) {
        x->seen[index]++;
        x->all++;
    }
    if (x->cancel_after > 0 && x->all == x->cancel_after)
        weft_cancel_set(x->cancel);
    return index != 0 || x->seen[0] < 5;
}

static void each_text_stops_separately(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_generated_row results[N];
    stopping x = {.cancel = weft_cancel_new()};
    if (model == NULL)
        return;
    make_requests(model, &s);
    generated whole = {0};
    CHECK_OK(
        weft_generate(model, NULL, s.ids[2], 1, &s.options[2], generated_collect, &whole, NULL));
    int at = 5; /* a token that does not come before */
    for (int i = 0; i < at; i++) {
        if (whole.ids[i] == whole.ids[at])
            at++, i = -1;
    }
    s.options[2].stop = &whole.ids[at];
    s.options[2].n_stop = 1;
    CHECK_OK(weft_generate_batch(model, NULL, s.requests, N, NULL, watch, &x, results));
    CHECK_EQ_INT(results[0].n, 5);
    CHECK_EQ_INT(results[0].stats.reason, WEFT_FINISH_CANCELLED);
    CHECK_EQ_INT(results[0].stats.detail, WEFT_FINISH_CALLBACK);
    CHECK_EQ_INT(results[2].n, at);
    CHECK_EQ_INT(results[2].stats.detail, WEFT_FINISH_TOKEN);
    for (int i = 0; i < N; i++)
        CHECK_EQ_INT(x.seen[i], (int64_t)results[i].n);
    CHECK_EQ_INT(results[7].n, 24);
    weft_generated_rows_free(results, N);
    weft_cancel_free(x.cancel);
    weft_model_free(model);
}

/* The results that the callback got. */
typedef struct endings {
    int n;
    size_t order[N], tokens[N];
    weft_finish reasons[N];
} endings;

static void note_end(void *context, size_t index, const weft_generated_row *row)
{
    endings *e = context;
    if (!CHECK(e->n < N))
        return;
    e->tokens[e->n] = row->n;
    e->reasons[e->n] = row->stats.reason;
    e->order[e->n++] = index;
}

/* The callback gets each result once: the shortest first, a failure when it occurs. */
static void results_are_reported_as_they_end(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_generated_row results[N];
    endings e = {0};
    bool seen[N] = {false};
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.options[i].max_tokens = 4 + (i * 5) % N, s.options[i].ignore_eos = true;
    s.requests[4].prompt.n = 0;
    const weft_generate_batch_options o = {.rows = N, .ended = note_end, .ended_context = &e};
    CHECK_OK(weft_generate_batch(model, NULL, s.requests, N, &o, NULL, NULL, results));
    CHECK_EQ_INT(e.n, N);
    CHECK_EQ_INT(e.order[0], 4);
    CHECK_STATUS(results[4].status, WEFT_INVALID);
    for (int i = 0; i < e.n; i++) {
        const size_t k = e.order[i];
        CHECK(!seen[k]);
        seen[k] = true;
        CHECK(e.tokens[i] == results[k].n && e.reasons[i] == results[k].stats.reason);
        CHECK(i < 2 || e.tokens[i] >= e.tokens[i - 1]);
    }
    weft_generated_rows_free(results, N);
    weft_model_free(model);
}

/* After a cancellation each text has its tokens so far, and waiting ones have none. */
static void a_cancelled_batch_keeps_its_tokens(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_generated_row results[N];
    stopping x = {.cancel = weft_cancel_new(), .cancel_after = 13};
    if (model == NULL)
        return;
    make_requests(model, &s);
    const weft_generate_batch_options o = {.rows = 4, .cancel = x.cancel};
    CHECK_OK(weft_generate_batch(model, NULL, s.requests, N, &o, watch, &x, results));
    int64_t all = 0, cancelled = 0;
    for (int i = 0; i < N; i++) {
        CHECK_OK(results[i].status);
        CHECK_EQ_INT((int64_t)results[i].n, x.seen[i]);
        all += (int64_t)results[i].n;
        cancelled += results[i].stats.reason == WEFT_FINISH_CANCELLED;
    }
    CHECK_EQ_INT(all, x.all);
    CHECK(all < 13 + 4); /* only the step in progress */
    CHECK(cancelled >= N - 2);
    CHECK_EQ_INT(results[N - 1].n, 0);
    weft_generated_rows_free(results, N);
    weft_cancel_free(x.cancel);
    weft_model_free(model);
}

/* Documents of several schemas, greedy and drawn, beside free texts. One has too few tokens for a
 * document. */
static void constrained_texts_are_those_alone(void)
{
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{\"enum\":[\"wolf\",\"king\"]},"
        "\"age\":{\"type\":\"integer\"}},\"required\":[\"name\",\"age\"]}",
        "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":2,\"maxItems\":5}",
        "{\"const\":\"once upon a time\"}", "{\"type\":\"string\",\"maxLength\":9}"};
    static const char too_long[] =
        "{\"const\":\"123456789012345678901234567890123456789012345678901234567890\"}";
    weft_model *model;
    weft_tokenizer *tokenizer;
    some s;
    weft_generated_row results[N];
    weft_constraint *constraints[N] = {NULL};
    if (!storyteller(&model, &tokenizer))
        return;
    make_requests(model, &s);
    for (int i = 0; i < N - 1; i++) {
        const char *schema = schemas[i / 2];
        s.options[i].max_tokens = 48;
        s.options[i].ignore_eos = false;
        s.options[i].sampler.temperature = i % 4 == 2 ? 1 : 0;
        s.options[i].seed = (uint64_t)i;
        if (i % 2 == 0)
            CHECK_OK(weft_constraint_new(tokenizer, schema, strlen(schema), "schema", NULL,
                                         &constraints[i]));
        s.options[i].constraint = constraints[i];
    }
    CHECK_OK(weft_constraint_new(tokenizer, too_long, strlen(too_long), "schema", NULL,
                                 &constraints[N - 1]));
    s.options[N - 1].constraint = constraints[N - 1];
    const weft_generate_batch_options few = {.rows = 4};
    CHECK_OK(weft_generate_batch(model, tokenizer, s.requests, N, &few, NULL, NULL, results));
    check_together(&s, results);
    CHECK_STATUS(results[N - 1].status, WEFT_INVALID);
    CHECK_CONTAINS(results[N - 1].message, "the limit of max_tokens is 2");
    CHECK_EQ_INT(results[N - 1].stats.tokens, 0);
    for (int i = 0; i < N - 1; i++) {
        generated t = {0};
        const weft_prompt *p = &s.requests[i].prompt;
        if (constraints[i])
            CHECK_OK(weft_constraint_reset(constraints[i]));
        CHECK_OK(weft_generate(model, tokenizer, p->ids, p->n, &s.options[i], generated_collect, &t,
                               &t.stats));
        if (CHECK_OK(results[i].status) && CHECK_EQ_INT(results[i].n, t.n))
            CHECK_BYTES(results[i].ids, t.ids, (size_t)t.n * sizeof *t.ids);
        CHECK_EQ_INT(results[i].stats.detail, t.stats.detail);
    }
    for (int i = 0; i < N; i++)
        weft_constraint_free(constraints[i]);
    weft_generated_rows_free(results, N);
}

/* The storyteller's texts, with a tokenizer. */
static void texts_of_a_tokenizer_are_those_alone(void)
{
    const char *folder = check_source("examples/storyteller");
    static const char *const prompts[] = {"Once upon a time", "The wolf",
                                          "A king had three sons, and"};
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_generate_request requests[3] = {0};
    weft_generated_row results[3];
    CHECK_OK(weft_model_load(folder, NULL, &model));
    CHECK_OK(weft_tokenizer_load(folder, &tokenizer));
    if (model == NULL || tokenizer == NULL)
        return;
    const weft_generate_options o = {.max_tokens = 12};
    for (int i = 0; i < 3; i++) {
        int32_t *ids = NULL;
        CHECK_OK(weft_tokenizer_encode(tokenizer, prompts[i], strlen(prompts[i]),
                                       WEFT_TOKENIZER_ADD_SPECIAL, &ids, &requests[i].prompt.n));
        requests[i].prompt.ids = ids;
        requests[i].options = &o;
    }
    CHECK_OK(weft_generate_batch(model, tokenizer, requests, 3, NULL, NULL, NULL, results));
    for (int i = 0; i < 3; i++) {
        char *text = NULL;
        CHECK_OK(weft_tokenizer_decode(tokenizer, results[i].ids, results[i].n,
                                       WEFT_TOKENIZER_SKIP_SPECIAL, &text, NULL));
        CHECK_EQ_INT(strlen(results[i].text), results[i].length);
        CHECK(results[i].length > 10);
        CHECK_CONTAINS(text, results[i].text);
        weft_free(text);
        weft_free((int32_t *)requests[i].prompt.ids);
    }
    weft_generated_rows_free(results, 3);
    weft_tokenizer_free(tokenizer);
    weft_model_free(model);
}

/* A request whose memory belongs to the program until its sequence has ended. */
typedef struct job {
    weft_running_batch *batch;
    struct job *next; /* added with the first token */
    weft_generate_request request;
    weft_generated_row result;
    generated tokens;
} job;

static bool take(void *context, const weft_generated *token)
{
    job *j = context, *next = j->tokens.n == 0 ? j->next : NULL;
    CHECK_EQ_INT(j->result.stats.reason, WEFT_FINISH_NONE);
    if (next)
        CHECK_OK(weft_running_batch_add(j->batch, &next->request, take, next, &next->result));
    return generated_collect(&j->tokens, token);
}

/* Moves the result to results[index], and frees the job. */
static void end(void *context, size_t index, const weft_generated_row *row)
{
    weft_generated_row *results = context;
    job *j = (job *)((char *)row - offsetof(job, result));
    CHECK(row->stats.reason != WEFT_FINISH_NONE);
    if (CHECK_EQ_INT(row->n, j->tokens.n))
        CHECK_BYTES(row->ids, j->tokens.ids, row->n * sizeof *row->ids);
    results[index] = *row;
    free(j);
}

/* Each request has its own callback, which may add others, and `ended` may free the request. */
static void requests_are_added_and_freed_in_callbacks(void)
{
    weft_model *model = fixture_model("llama");
    for (int k = 0; model && k < 2; k++) {
        weft_generated_row results[N] = {{0}};
        const weft_generate_batch_options o = {
            .rows = 3, .batch.invariant = k > 0, .ended = end, .ended_context = results};
        weft_running_batch *b = NULL;
        job *first = NULL;
        some s;
        make_requests(model, &s);
        CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
        for (int i = N - 1; i >= 0; i--) {
            job *j = calloc(1, sizeof *j);
            if (!CHECK(j != NULL))
                return;
            *j = (job){.batch = b, .next = first, .request = s.requests[i]};
            first = j;
        }
        CHECK_OK(weft_running_batch_add(b, &first->request, take, first, &first->result));
        for (bool more = true; more;)
            CHECK_OK(weft_running_batch_advance(b, &more));
        weft_running_batch_free(b);
        compare(model, &s, results, 0);
        weft_generated_rows_free(results, N);
    }
    weft_model_free(model);
}

CHECK_MAIN("batch_generate", CHECK_CASE(greedy_texts_are_those_alone),
           CHECK_CASE(texts_of_quantized_weights_are_those_alone),
           CHECK_CASE(drawn_texts_are_those_alone),
           CHECK_CASE(texts_with_equal_options_draw_as_alone),
           CHECK_CASE(an_invariant_batch_is_exact), CHECK_CASE(all_kinds_of_caches_share_a_batch),
           CHECK_CASE(constrained_texts_are_those_alone),
           CHECK_CASE(incompatible_requests_run_alone), CHECK_CASE(a_bad_request_fails_alone),
           CHECK_CASE(each_text_stops_separately), CHECK_CASE(results_are_reported_as_they_end),
           CHECK_CASE(a_cancelled_batch_keeps_its_tokens),
           CHECK_CASE(texts_of_a_tokenizer_are_those_alone),
           CHECK_CASE(requests_are_added_and_freed_in_callbacks))
