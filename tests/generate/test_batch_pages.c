/* tests/generate/test_batch_pages.c -- generate/batch_pages.c: with few pages sequences wait and
 * are set back, and get the tokens that they get alone; equal beginnings share pages. */
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/generate/requests.h"
#include "tests/support/models.h"
#include "weft/memory.h"

enum { N = 5 };

/* Prompts that end before and after a page, and texts that end in the next one. */
static void make_requests(weft_model *model, requests *s)
{
    static const size_t lengths[N] = {250, 230, 3, 280, 245};
    static const int64_t most[N] = {90, 60, 270, 10, 40};
    requests_make(s, model, N, REQUESTS_LONGEST, lengths, most);
    for (int i = 1; i < N; i += 2) {
        s->options[i].sampler.temperature = 1;
        s->options[i].sampler.repetition_penalty = 1.1;
    }
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
static int64_t run(requests *s, const weft_generate_batch_options *o)
{
    weft_running_batch *b = requests_open(s, o);
    bool more = true;
    requests_add(b, s, 0, N);
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
            requests s;
            make_requests(model, &s);
            const int64_t set_back = run(&s, &o);
            if (!CHECK(pages == 1 || set_back > 0))
                printf("  %s, %d pages\n", families[f], (int)pages);
            requests_compare(&s, 0, N);
            weft_generated_rows_free(s.results, N);
        }
        weft_model_free(model);
    }
}

/* The prompt cache has a prompt as soon as it was processed, for others and for a sequence that is
 * set back. */
static void the_prompt_cache_serves_sequences_that_are_set_back(void)
{
    weft_model *model = fixture_model("llama");
    const weft_prompt_cache_options cache_options = {.min_tokens = 4};
    weft_prompt_cache *cache = NULL;
    requests s;
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &cache_options, &cache)))
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.options[i].prompt_cache = cache;
    CHECK(run(&s, &(weft_generate_batch_options){.rows = 4, .cache_tokens = 3 * WEFT__PAGE}) > 0);
    CHECK(weft_prompt_cache_measure(cache).hits > 0);
    requests_compare(&s, 0, N);
    weft_generated_rows_free(s.results, N);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

static void prompts_are_stored_when_they_are_processed(void)
{
    weft_model *model = fixture_model("llama");
    const weft_prompt_cache_options cache_options = {.min_tokens = 4};
    weft_prompt_cache *cache = NULL;
    requests s;
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(model, &cache_options, &cache)))
        return;
    make_requests(model, &s);
    memcpy(s.ids[1], s.ids[0], 200 * sizeof **s.ids);
    for (int i = 0; i < 2; i++)
        s.options[i].prompt_cache = cache;
    weft_running_batch *b = requests_open(&s, NULL);
    requests_add(b, &s, 0, 1);
    requests_step(b);
    CHECK_EQ_INT(weft_prompt_cache_measure(cache).entries, 1);
    requests_add(b, &s, 1, 2);
    requests_step(b);
    CHECK(s.results[0].n < 5 && s.results[1].n > 0);
    requests_run(b);
    weft_running_batch_free(b);
    CHECK(s.results[1].stats.cached_tokens >= 200);
    requests_compare(&s, 0, 2);
    weft_generated_rows_free(s.results, N);
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* The oldest sequence is never set back: it gets a token in each step. */
static void the_oldest_is_never_set_back(void)
{
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {.rows = 4, .cache_tokens = 3 * WEFT__PAGE};
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = requests_open(&s, &o);
    requests_add(b, &s, 0, N);
    for (size_t step = 1; step <= 90; step++) {
        requests_step(b);
        CHECK_EQ_INT(s.results[0].n, step < 90 ? step + 1 : 90);
    }
    CHECK(weft_running_batch_cache(b).set_back > 0);
    weft_running_batch_free(b);
    weft_generated_rows_free(s.results, N);
    weft_model_free(model);
}

/* Prompts that wait for pages get them by age, whatever rows they are in. */
static void pages_go_to_the_oldest(void)
{
    enum { TEXTS = 7, LONG = 900, OLD = 4, MIDDLE, YOUNG };
    /* The first four hold all pages and end in the order 1, 0, 2, 3, so that the others are in rows
     * 1, 0 and 2. There are pages for two of these. */
    static const size_t lengths[TEXTS] = {100, 100, 100, LONG, 800, 700, 700};
    static const int64_t most[TEXTS] = {10, 5, 15, 25, 5, 5, 5};
    static int32_t ids[TEXTS][LONG];
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {
        .rows = 4, .cache_tokens = 7 * WEFT__PAGE, .batch.tokens = 2048, .no_compile = true};
    weft_generate_options options[TEXTS];
    weft_generated_row results[TEXTS];
    bool more = true;
    if (model == NULL)
        return;
    ((weft_model_info *)weft_model_info_of(model))->max_positions = 2 * LONG;
    weft_running_batch *b = NULL;
    CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < LONG; k++)
            ids[i][k] = (7 * i + k) % 50;
        options[i] = (weft_generate_options){.max_tokens = most[i], .ignore_eos = true};
        const weft_generate_request r = {.prompt = {ids[i], lengths[i]}, .options = &options[i]};
        CHECK_OK(weft_running_batch_add(b, &r, NULL, NULL, &results[i]));
    }
    while (more && results[MIDDLE].n == 0) {
        CHECK_OK(weft_running_batch_advance(b, &more));
        CHECK(results[OLD].n == 0 || results[3].n == 25);
        CHECK_EQ_INT(results[YOUNG].n, 0);
    }
    CHECK(b->rows[0].index == MIDDLE && b->rows[1].index == OLD && b->rows[2].index == YOUNG);
    CHECK_EQ_INT(weft_running_batch_cache(b).set_back, 0);
    while (more)
        CHECK_OK(weft_running_batch_advance(b, &more));
    CHECK_EQ_INT(results[YOUNG].n, 5);
    weft_running_batch_free(b);
    weft_generated_rows_free(results, TEXTS);
    weft_model_free(model);
}

/* A long prompt waits until there are pages for it, and a short one that came later, but is not
 * processed with the others of its kind, does not keep pages from it. */
static void a_long_prompt_is_not_starved(void)
{
    enum { TEXTS = 4, LONG = 1100 };
    static const size_t lengths[TEXTS] = {500, LONG, 300, 300};
    static int32_t ids[TEXTS][LONG];
    weft_model *model = fixture_model("llama");
    const weft_generate_batch_options o = {
        .rows = TEXTS, .cache_tokens = 6 * WEFT__PAGE, .batch.tokens = LONG, .no_compile = true};
    const weft_generate_options options = {.max_tokens = 3, .ignore_eos = true};
    weft_generate_request texts[TEXTS];
    weft_generated_row results[TEXTS] = {{0}};
    bool more = true;
    if (model == NULL)
        return;
    ((weft_model_info *)weft_model_info_of(model))->max_positions = 2 * LONG;
    weft_running_batch *b = NULL;
    CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < LONG; k++)
            ids[i][k] = (7 * i + k * k) % (int32_t)weft_model_info_of(model)->vocab_size;
        texts[i] = (weft_generate_request){.prompt = {ids[i], lengths[i]}, .options = &options};
        CHECK_OK(weft_running_batch_add(b, &texts[i], NULL, NULL, &results[i]));
    }
    for (int step = 0; more && CHECK(step < 50); step++)
        more = requests_step(b);
    weft_running_batch_free(b);
    for (int i = 0; i < TEXTS; i++)
        CHECK_EQ_INT(results[i].n, 3);
    weft_generated_rows_free(results, TEXTS);
    weft_model_free(model);
}

/* All layers with pages have as many as the batch counts. */
static void check_layers(const weft_running_batch *b)
{
    for (int64_t i = 0; i < weft_model_info_of(b->model)->n_caches; i++) {
        const weft__ring *ring = weft__ring_of(b->caches[i]);
        weft_array **slots[WEFT_CACHE_SLOTS];
        const int n = ring && ring->paging ? weft_cache_state(b->caches[i], slots) : 0;
        for (int k = 0; k < n; k++)
            CHECK_EQ_INT(weft_dim(*slots[k], 1), b->pages.n * WEFT__PAGE);
    }
}

/* A batch of one sequence, whose next token is the first one of a page that the pool lacks. */
static weft_running_batch *open_full(weft_model *model, requests *s)
{
    make_requests(model, s);
    s->requests[0].prompt.n = 255;
    weft_running_batch *b =
        requests_open(s, &(weft_generate_batch_options){.cache_tokens = 4096, .no_compile = true});
    requests_add(b, s, 0, 1);
    while (s->results[0].n < 2)
        requests_step(b);
    CHECK_EQ_INT(b->pages.n, 2);
    return b;
}

/* With a memory limit at which the pool cannot grow, however many layers could, none has grown. */
static void all_layers_grow_or_none(void)
{
    static const char *const families[] = {"llama", "gemma4-dense", "minicpm3", "gpt-oss"};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        weft_model *model = open_model(families[f]);
        requests s;
        if (model == NULL)
            return;
        weft_running_batch *b = open_full(model, &s);
        const int64_t active = weft_memory_active();
        weft_status status = WEFT_MEMORY;
        int failures = -1;
        while (status == WEFT_MEMORY && CHECK(++failures < 10000)) {
            weft_memory_set_limit(active + failures * (2 << 10));
            status = weft__batch_reserve(b);
            weft_memory_set_limit(INT64_MAX);
            check_layers(b);
            CHECK(status != WEFT_MEMORY || (b->pages.n == 2 && weft_memory_active() == active));
        }
        CHECK_EQ_INT(status, WEFT_OK);
        CHECK(b->pages.n > 2);
        if (!CHECK(failures > 2))
            printf("  %s: %d failures\n", families[f], failures);
        requests_finish(b, &s, 0, 1);
        weft_model_free(model);
    }
}

/* Each allocation of a growth fails once; then a smaller growth is tried. */
static void a_growth_is_tried_again(void)
{
    weft_model *model = open_model("llama");
    uint64_t count = 1;
    for (uint64_t nth = 1; model && nth <= count; nth++) {
        requests s;
        weft_running_batch *b = open_full(model, &s);
        weft_memory_fail_at(nth);
        const weft_status status = weft__batch_reserve(b);
        count = weft_memory_fail_at(0);
        check_layers(b);
        /* without memory for the lists of pages nothing else is tried */
        CHECK(status == WEFT_OK ? b->pages.n > 2 : status == WEFT_MEMORY);
        requests_finish(b, &s, 0, 1);
    }
    CHECK(count > 10);
    weft_model_free(model);
}

/* Rows with long and short sequences take pages for what they have. */
static void short_rows_take_few_pages(void)
{
    static const int64_t lengths[N] = {300, 5, 5, 5, 5};
    weft_model *model = fixture_model("llama");
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    weft_running_batch *b = requests_open(&s, &(weft_generate_batch_options){.rows = 8});
    for (int i = 0; i < N; i++) {
        s.requests[i].prompt.n = (size_t)lengths[i];
        s.options[i].max_tokens = 50;
        requests_add(b, &s, i, i + 1);
    }
    for (int step = 0; step < 10; step++)
        requests_step(b);
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 6 * WEFT__PAGE);
    CHECK_EQ_INT(weft_running_batch_cache(b).allocated, 8 * WEFT__PAGE);
    CHECK(weft_running_batch_cache(b).most >= 6 * WEFT__PAGE);
    requests_run(b);
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 0);
    requests_finish(b, &s, 0, N);
    weft_model_free(model);
}

/* Sequences whose texts begin alike share the full pages of that: those that arrive together, and
 * one that comes later. Other texts have their own. */
static void equal_beginnings_share_pages(void)
{
    for (int pieces = 0; pieces < 2; pieces++) {
        weft_model *model = fixture_model("llama");
        const weft_generate_batch_options o = {.rows = 8, .batch.tokens = pieces ? 64 : 0};
        requests s;
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
        weft_running_batch *b = requests_open(&s, &o);
        requests_add(b, &s, 0, 3);
        while (s.results[2].n < 3)
            requests_step(b);
        check_users(b);
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 4 * WEFT__PAGE); /* 1 shared, 3 own */
        requests_add(b, &s, 3, N);
        while (s.results[4].n < 3)
            requests_step(b);
        check_users(b);
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 7 * WEFT__PAGE);
        requests_run(b);
        CHECK_EQ_INT(weft_running_batch_cache(b).used, 0);
        requests_finish(b, &s, 0, N);
        weft_model_free(model);
    }
}

/* Where the first tokens are overwritten later, pages are not shared. */
static void rings_share_no_pages(void)
{
    weft_model *model = fixture_model("llama");
    requests s;
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
    weft_running_batch *b = requests_open(&s, NULL);
    requests_add(b, &s, 0, 2);
    requests_step(b);
    CHECK_EQ_INT(weft_running_batch_cache(b).used, 4 * WEFT__PAGE);
    requests_finish(b, &s, 0, 2);
    weft_model_free(model);
}

/* If memory ends before the budget does, that is the budget: sequences are set back, and none
 * fails. */
static void memory_may_be_shorter_than_the_budget(void)
{
    weft_model *model = fixture_model("llama");
    bool more = true;
    requests s;
    if (model == NULL)
        return;
    make_requests(model, &s);
    for (int i = 0; i < N; i++)
        s.requests[i].prompt.n = 3;
    weft_running_batch *b =
        requests_open(&s, &(weft_generate_batch_options){.rows = 4, .cache_tokens = 1 << 20});
    for (int i = 0; i < N; i++) {
        s.options[i].max_tokens = 300;
        requests_add(b, &s, i, i + 1);
    }
    for (int step = 0; step < 100; step++)
        more = requests_step(b);
    CHECK_EQ_INT(weft_running_batch_cache(b).allocated, 8 * WEFT__PAGE);
    weft_memory_set_limit(weft_memory_active() + (400 << 10)); /* a step, but no more pages */
    while (more && weft_running_batch_cache(b).set_back == 0)
        more = requests_step(b);
    weft_memory_set_limit(INT64_MAX);
    CHECK(more);
    CHECK_EQ_INT(weft_running_batch_cache(b).most, 7 * WEFT__PAGE);
    requests_finish(b, &s, 0, N);
    weft_model_free(model);
}

CHECK_MAIN("batch_pages", CHECK_CASE(texts_are_the_same_with_few_pages),
           CHECK_CASE(the_prompt_cache_serves_sequences_that_are_set_back),
           CHECK_CASE(prompts_are_stored_when_they_are_processed),
           CHECK_CASE(the_oldest_is_never_set_back), CHECK_CASE(pages_go_to_the_oldest),
           CHECK_CASE(a_long_prompt_is_not_starved), CHECK_CASE(all_layers_grow_or_none),
           CHECK_CASE(a_growth_is_tried_again), CHECK_CASE(short_rows_take_few_pages),
           CHECK_CASE(equal_beginnings_share_pages), CHECK_CASE(rings_share_no_pages),
           CHECK_CASE(memory_may_be_shorter_than_the_budget))
