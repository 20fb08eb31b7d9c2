/* tests/generate/test_batch_pages.c -- generate/batch_pages.c: with few pages sequences wait and
 * are set back, and get the tokens that they get alone; equal beginnings share pages. */
#include <stdio.h>
#include <string.h>

#include "generate/batch.h"
#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/memory.h"

enum { N = 5, LONGEST = 300, MOST = 512 };

typedef struct some {
    int32_t ids[N][LONGEST];
    weft_generate_options options[N];
    weft_generate_request requests[N];
    weft_generated_row results[N];
} some;

/* Prompts that end before and after a page, and texts that end in the next one. */
static void make_requests(weft_model *model, some *s)
{
    static const size_t lengths[N] = {250, 230, 3, 280, 245};
    static const int64_t most[N] = {90, 60, 270, 10, 40};
    const uint32_t V = (uint32_t)weft_model_info_of(model)->vocab_size;
    uint32_t state = 24680;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < LONGEST; j++) {
            state = state * 1664525u + 1013904223u;
            s->ids[i][j] = (int32_t)((state >> 8) % V);
        }
        s->options[i] = (weft_generate_options){.max_tokens = most[i], .ignore_eos = true};
        s->options[i].seed = (uint64_t)i;
        if (i % 2 == 1) {
            s->options[i].sampler.temperature = 1;
            s->options[i].sampler.repetition_penalty = 1.1;
        }
        s->requests[i] =
            (weft_generate_request){.prompt = {s->ids[i], lengths[i]}, .options = &s->options[i]};
    }
}

typedef struct tokens {
    int32_t ids[MOST];
    size_t n;
} tokens;

static bool collect(void *context, const weft_generated *token)
{
    tokens *t = context;
    if (token->id >= 0 && t->n < MOST)
        t->ids[t->n++] = token->id;
    return true;
}

static void compare(weft_model *model, const some *s, int i)
{
    const weft_prompt *p = &s->requests[i].prompt;
    const weft_generated_row *r = &s->results[i];
    weft_generate_options o = s->options[i];
    tokens t = {.n = 0};
    o.prompt_cache = NULL;
    CHECK_OK(weft_generate(model, NULL, p->ids, p->n, &o, collect, &t, NULL));
    if (CHECK_OK(r->status) && CHECK_EQ_INT(r->n, t.n))
        CHECK_BYTES(r->ids, t.ids, r->n * sizeof *t.ids);
}

static weft_running_batch *open_batch(weft_model *model, const weft_generate_batch_options *o)
{
    weft_running_batch *b = NULL;
    CHECK_OK(weft_running_batch_new(model, NULL, o, &b));
    return b;
}

static void add(weft_running_batch *b, some *s, int i)
{
    CHECK_OK(weft_running_batch_add(b, &s->requests[i], NULL, NULL, &s->results[i]));
}

/* The number of sequences that have pages. */
static int count_holders(const weft_running_batch *b)
{
    int n = 0;
    for (size_t i = 0; i < b->places; i++)
        n += b->rows[i].live && b->rows[i].pages.n > 0;
    return n;
}

/* Every page is in as many lists as it has users. */
static void check_users(const weft_running_batch *b)
{
    enum { PAGES = 64 };
    int32_t users[PAGES] = {1};
    int64_t used = 0;
    if (!CHECK(b->pages.n <= PAGES))
        return;
    for (size_t i = 0; i < b->places; i++) {
        for (int64_t k = 0; b->rows[i].live && k < b->rows[i].pages.n; k++)
            users[b->rows[i].pages.at[k]]++;
    }
    for (int64_t i = 0; i < b->pages.n; i++) {
        CHECK_EQ_INT(b->pages.users[i], users[i]);
        used += i > 0 && users[i] > 0;
    }
    CHECK_EQ_INT(b->pages.used, used);
}

/* Computes all requests in a batch, which is checked after each step; returns how many sequences
 * were set back. */
static int64_t run(weft_model *model, some *s, const weft_generate_batch_options *o)
{
    weft_running_batch *b = open_batch(model, o);
    bool more = true;
    for (int i = 0; i < N; i++)
        add(b, s, i);
    for (int step = 0; more && CHECK(step < 5000); step++) {
        if (!CHECK_OK(weft_running_batch_advance(b, &more)))
            break;
        const weft_batch_cache c = weft_running_batch_cache(b);
        check_users(b);
        CHECK(c.used <= c.most || count_holders(b) == 1);
        CHECK(c.allocated <= c.most + WEFT__PAGE || c.most < 2 * WEFT__PAGE);
    }
    const int64_t set_back = weft_running_batch_cache(b).set_back;
    weft_running_batch_free(b);
    return set_back;
}

/* A model that takes texts of two pages, though its configuration has fewer positions. */
static weft_model *open_model(const char *name)
{
    weft_model *model = fixture_model(name);
    if (model)
        ((weft_model_info *)weft_model_info_of(model))->max_positions = 512;
    return model;
}

/* Families with windows, states, latents, shared layers, sinks, and rotations that change with the
 * length; read at once and in pieces, compiled and not. */
static void texts_are_the_same_with_few_pages(void)
{
    static const char *const families[] = {"llama",     "gemma3",       "qwen3-next",
                                           "falcon-h1", "gemma4-dense", "minicpm3",
                                           "gpt-oss",   "phi3-longrope"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = open_model(families[f]);
        for (int64_t pages = 1; model && pages <= 4; pages++) {
            const weft_generate_batch_options o = {.rows = 4,
                                                   .cache_tokens = pages * WEFT__PAGE,
                                                   .batch.tokens = pages % 2 ? 0 : 100,
                                                   .no_compile = pages == 3};
            some s;
            make_requests(model, &s);
            const int64_t set_back = run(model, &s, &o);
            if (!CHECK(pages == 1 || set_back > 0))
                printf("  %s, %d pages\n", families[f], (int)pages);
            for (int i = 0; i < N; i++)
                compare(model, &s, i);
            weft_generated_rows_free(s.results, N);
        }
        weft_model_free(model);
    }
}

/* The prompt cache has a prompt as soon as it was processed, for others and for a sequence that is
 * set back. */
static void the_prompt_cache_serves_those_that_are_set_back(void)
{
    weft_model *model = fixture_model("llama");
    const weft_prompt_cache_options cache_options = {.min_tokens = 4};
    weft_prompt_cache *cache = NULL;
    some s;
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &cache_options, &cache)))
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.options[i].prompt_cache = cache;
    CHECK(run(model, &s,
              &(weft_generate_batch_options){.rows = 4, .cache_tokens = 3 * WEFT__PAGE}) > 0);
    CHECK(weft_prompt_cache_measure(cache).hits > 0);
    for (int i = 0; i < N; i++)
        compare(model, &s, i);
    weft_generated_rows_free(s.results, N);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

static void prompts_are_stored_when_they_are_processed(void)
{
    weft_model *model = fixture_model("llama");
    const weft_prompt_cache_options cache_options = {.min_tokens = 4};
    weft_prompt_cache *cache = NULL;
    bool more = true;
    some s;
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &cache_options, &cache)))
        return;
    make_requests(model, &s);
    memcpy(s.ids[1], s.ids[0], 200 * sizeof **s.ids);
    for (int i = 0; i < 2; i++)
        s.options[i].prompt_cache = cache;
    weft_running_batch *b = open_batch(model, NULL);
    add(b, &s, 0);
    CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_prompt_cache_measure(cache).entries, 1);
    add(b, &s, 1);
    CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK(s.results[0].n < 5 && s.results[1].n > 0);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_running_batch_free(b);
    CHECK(s.results[1].stats.cached_tokens >= 200);
    for (int i = 0; i < 2; i++)
        compare(model, &s, i);
    weft_generated_rows_free(s.results, N);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* The oldest sequence is never set back: it gets a token in each step. */
static void the_oldest_is_never_set_back(void)
{
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {.rows = 4, .cache_tokens = 3 * WEFT__PAGE};
    bool more = true;
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = open_batch(model, &o);
    for (int i = 0; i < N; i++)
        add(b, &s, i);
    for (size_t step = 1; step <= 90; step++) {
        CHECK_OK(weft_running_batch_advance(b, &more));
        CHECK_EQ_INT(s.results[0].n, step < 90 ? step + 1 : 90);
    }
    CHECK(weft_running_batch_cache(b).set_back > 0);
    weft_running_batch_free(b);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

/* A long prompt waits until there are pages for it, and a short one that came later, but is not
 * processed with the others of its kind, does not keep pages from it. */
static void a_long_prompt_is_read_at_last(void)
{
    enum { TEXTS = 4, LONG = 1100 };
    static const size_t lengths[TEXTS] = {500, LONG, 300, 300};
    static int32_t ids[TEXTS][LONG];
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {
        .rows = TEXTS, .cache_tokens = 6 * WEFT__PAGE, .batch.tokens = LONG, .no_compile = true};
    const weft_generate_options options = {.max_tokens = 3, .ignore_eos = true};
    weft_generate_request requests[TEXTS];
    weft_generated_row results[TEXTS] = {{0}};
    bool more = true;
    if (model == NULL)
        return;
    ((weft_model_info *)weft_model_info_of(model))->max_positions = 2 * LONG;
    weft_running_batch *b = open_batch(model, &o);
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < LONG; k++)
            ids[i][k] = (7 * i + k * k) % (int32_t)weft_model_info_of(model)->vocab_size;
        requests[i] = (weft_generate_request){.prompt = {ids[i], lengths[i]}, .options = &options};
        CHECK_OK(weft_running_batch_add(b, &requests[i], NULL, NULL, &results[i]));
    }
    for (int step = 0; more && CHECK(step < 50); step++)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_running_batch_free(b);
    for (int i = 0; i < TEXTS; i++)
        CHECK_EQ_INT(results[i].n, 3);
    weft_generated_rows_free(results, TEXTS);
    weft_model_free(model);
}

/* Rows with long and short sequences take pages for what they have. */
static void short_rows_take_few_pages(void)
{
    static const int64_t lengths[N] = {300, 5, 5, 5, 5};
    weft_model *model = fixture_model("llama");
    bool more = true;
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = open_batch(model, &(weft_generate_batch_options){.rows = 8});
    for (int i = 0; i < N; i++) {
        s.requests[i].prompt.n = (size_t)lengths[i];
        s.options[i].max_tokens = 50;
        add(b, &s, i);
    }
    for (int step = 0; step < 10; step++)
        CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 6 * WEFT__PAGE);
    CHECK_EQ_INT(weft_running_batch_cache(b).allocated, 8 * WEFT__PAGE);
    CHECK(weft_running_batch_cache(b).most >= 6 * WEFT__PAGE);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 0);
    weft_running_batch_free(b);
    for (int i = 0; i < N; i++)
        compare(model, &s, i);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

/* Sequences whose texts begin alike share the full pages of that: those that arrive together, and
 * one that comes later. Other texts have their own. */
static void equal_beginnings_share_pages(void)
{
    for (int pieces = 0; pieces < 2; pieces++) {
        weft_model *model = fixture_model("llama");
        const weft_generate_batch_options o = {.rows = 8, .batch.tokens = pieces ? 64 : 0};
        bool more = true;
        some s;
        if (model == NULL)
            return;
        make_requests(model, &s);
        for (int i = 0; i < N; i++) {
            s.requests[i].prompt.n = i == 1 ? 300 : 270 + (size_t)i;
            s.options[i].max_tokens = 40;
            if (i > 0)
                memcpy(s.ids[i], s.ids[0], 260 * sizeof **s.ids);
        }
        memcpy(s.ids[2], s.ids[1], sizeof *s.ids); /* another text of equal length */
        s.requests[2].prompt.n = 300;
        s.ids[4][100]++; /* differs in the first page */
        s.ids[4][100] %= (int32_t)weft_model_info_of(model)->vocab_size;
        weft_running_batch *b = open_batch(model, &o);
        for (int i = 0; i < 3; i++)
            add(b, &s, i);
        while (s.results[2].n < 3)
            CHECK_OK(weft_running_batch_advance(b, &more));
        check_users(b);
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 4 * WEFT__PAGE); /* 1 shared, 3 own */
        for (int i = 3; i < N; i++)
            add(b, &s, i);
        while (s.results[4].n < 3)
            CHECK_OK(weft_running_batch_advance(b, &more));
        check_users(b);
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 7 * WEFT__PAGE);
        while (more)
            CHECK_OK(weft_running_batch_advance(b, &more));
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 0);
        weft_running_batch_free(b);
        for (int i = 0; i < N; i++)
            compare(model, &s, i);
        weft_generated_rows_free(s.results, N);
        weft_model_free(model);
    }
}

/* Where the first tokens are overwritten later, pages are not shared. */
static void rings_share_no_pages(void)
{
    weft_model *model = fixture_model("llama");
    bool more = true;
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < 2; i++) {
        s.requests[i].prompt.n = 290;
        s.options[i].max_tokens = 60;
        s.options[i].cache.max_context = 300;
        if (i > 0)
            memcpy(s.ids[i], s.ids[0], 280 * sizeof **s.ids);
    }
    weft_running_batch *b = open_batch(model, NULL);
    for (int i = 0; i < 2; i++)
        add(b, &s, i);
    CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 4 * WEFT__PAGE);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_running_batch_free(b);
    for (int i = 0; i < 2; i++)
        compare(model, &s, i);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

/* If memory ends before the budget does, that is the budget: sequences are set back, and none
 * fails. */
static void memory_may_be_shorter_than_the_budget(void)
{
    weft_model *model = fixture_model("llama");
    bool more = true;
    some s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.requests[i].prompt.n = 3;
    weft_running_batch *b =
        open_batch(model, &(weft_generate_batch_options){.rows = 4, .cache_tokens = 1 << 20});
    for (int i = 0; i < N; i++) {
        s.options[i].max_tokens = 300;
        add(b, &s, i);
    }
    for (int step = 0; step < 100; step++)
        CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(weft_running_batch_cache(b).allocated, 8 * WEFT__PAGE);
    weft_memory_set_limit(weft_memory_active() + (400 << 10)); /* a step, but no more pages */
    while (more && weft_running_batch_cache(b).set_back == 0)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_memory_set_limit(INT64_MAX);
    CHECK(more);
    CHECK_EQ_INT(weft_running_batch_cache(b).most, 7 * WEFT__PAGE);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    weft_running_batch_free(b);
    for (int i = 0; i < N; i++)
        compare(model, &s, i);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

CHECK_MAIN("batch_pages", CHECK_CASE(texts_are_the_same_with_few_pages),
           CHECK_CASE(the_prompt_cache_serves_those_that_are_set_back),
           CHECK_CASE(prompts_are_stored_when_they_are_processed),
           CHECK_CASE(the_oldest_is_never_set_back), CHECK_CASE(a_long_prompt_is_read_at_last),
           CHECK_CASE(short_rows_take_few_pages), CHECK_CASE(equal_beginnings_share_pages),
           CHECK_CASE(rings_share_no_pages), CHECK_CASE(memory_may_be_shorter_than_the_budget))
