/* tests/generate/test_cache_rows.c -- generate/caches/rows.c: rows of one cache give what each
 * sequence gives in a cache of its own. */
#include "generate/caches/rows.h"

#include <stdio.h>

#include "generate/batch.h"
#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/weft.h"

enum { ROWS = 3, HEADS = 2, DIM = 16, STEPS = 24 };

/* Sequence lengths at the start: in an empty ring, at its end, and after it has wrapped. */
static const int64_t lengths[ROWS] = {2, 9, 21};

typedef struct kind {
    weft_cache_options options;
    int64_t window;
} kind;

static const kind kinds[] = {
    {{0}, 0},
    {{.kv_bits = 16}, 0},
    {{.kv_bits = 8}, 0},
    {{.kv_bits = 4}, 0},
    {{0}, 9},                                   /* a window */
    {{.trim = 3}, 9},                           /* that can be trimmed: needs a mask */
    {{.max_context = 12, .sink_tokens = 2}, 0}, /* sinks */
    {{.max_context = 12, .sink_tokens = 2, .trim = 4, .kv_bits = 8}, 0},
    {{.max_context = 12, .whole = true}, 5},
    {{.max_context = 300}, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Tokens [from, to) of a sequence, (1, to - from, HEADS, DIM). */
static weft_array *tokens(int which, int sequence, int64_t from, int64_t to)
{
    weft_array *key = weft_random_key((uint64_t)(100 * which + sequence));
    weft_array *all = weft_random_normal(key, WEFT_DIMS(1, 400, HEADS, DIM), 0, 1, WEFT_FLOAT32);
    return weft_slice_axis(all, 1, from, to);
}

/* Token `at[i]` of the sequence in each row, (ROWS, 1, HEADS, DIM). */
static weft_array *next_tokens(int which, const int32_t *sequences, const int32_t *at, int n)
{
    weft_array *rows[ROWS];
    for (int i = 0; i < n; i++)
        rows[i] = tokens(which, (int)sequences[i], at[i], at[i] + 1);
    return weft_concatenate(rows, n, 0);
}

static weft_array *attention(weft_array *q, const weft_cache_view *view)
{
    return weft_cache_attention(q, view, &(weft_attention_options){.causal = true});
}

/* A cache with the first n tokens of a sequence. */
static weft_cache *filled(const kind *k, int sequence, int64_t n)
{
    weft_cache *cache = weft_cache_new_with(&k->options, k->window);
    weft_scope_open();
    const weft_cache_view view =
        weft_cache_update(cache, tokens(1, sequence, 0, n), tokens(2, sequence, 0, n));
    CHECK_OK(weft_eval(view.values));
    weft_scope_close(NULL);
    return cache;
}

static void rows_give_what_each_sequence_gives_alone(void)
{
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        weft_cache *own[ROWS], *all = weft_cache_new_with(&k->options, k->window);
        int32_t sequences[ROWS], at[ROWS];
        int n = ROWS;
        for (int r = 0; r < ROWS; r++) {
            own[r] = filled(k, r, lengths[r]);
            sequences[r] = r;
            at[r] = (int32_t)lengths[r];
            CHECK_OK(weft__cache_put_row(all, ROWS, r, own[r], 0));
        }
        for (int step = 0; step < STEPS; step++) {
            weft_scope_open();
            if (step == 7) { /* the second leaves, the others change rows */
                static const int32_t which[] = {2, 0};
                CHECK_OK(weft__cache_keep_rows(all, which, 2));
                n = 2;
                sequences[0] = 2, sequences[1] = 0;
                const int32_t first = at[0];
                at[0] = at[2], at[1] = first;
            }
            if (step == 15) { /* the first is replaced */
                weft_cache_free(own[1]);
                own[1] = filled(k, 1, 5);
                sequences[0] = 1, at[0] = 5;
                CHECK_OK(weft__cache_put_row(all, 2, 0, own[1], 0));
            }
            for (int r = 0; r < n; r++)
                CHECK_OK(weft__cache_reserve_rows(all, at[r] + 1));
            weft_array *offset = weft_from_data(at, WEFT_INT32, WEFT_DIMS(n));
            const weft_cache_view view = weft_cache_append(
                all, next_tokens(1, sequences, at, n), next_tokens(2, sequences, at, n), offset);
            weft_array *y = attention(next_tokens(3, sequences, at, n), &view);
            for (int r = 0; r < n; r++) {
                const int s = (int)sequences[r];
                const int64_t p = at[r]++;
                const weft_cache_view alone =
                    weft_cache_update(own[s], tokens(1, s, p, p + 1), tokens(2, s, p, p + 1));
                weft_array *x = attention(tokens(3, s, p, p + 1), &alone);
                weft_array *apart = weft_abs(weft_subtract(weft_slice_axis(y, 0, r, r + 1), x));
                /* Means of values of about 1; where masks are used, sums are in another order. */
                if (!CHECK_CLOSE(weft_item(weft_max(apart, WEFT_ALL_AXES, false)), 0, 1e-6))
                    printf("  kind %d, step %d, row %d\n", i, step, r);
            }
            weft_scope_close(NULL);
        }
        for (int r = 0; r < ROWS; r++)
            weft_cache_free(own[r]);
        weft_cache_free(all);
    }
}

/* Rows grow together, and a row has its tokens after that. */
static void rows_grow(void)
{
    const kind k = {{0}, 0};
    weft_cache *one = filled(&k, 0, 3), *all = weft_cache_new(), *longer = filled(&k, 1, 300);
    CHECK_OK(weft__cache_put_row(all, 2, 1, one, 0));
    weft_array **slots[WEFT_CACHE_SLOTS];
    weft_scope_open();
    CHECK_EQ_INT(weft_cache_state(all, slots), 2);
    CHECK_EQ_INT(weft_dim(*slots[0], 0), 2);
    CHECK_EQ_INT(weft_dim(*slots[0], 1), 256);
    CHECK_OK(weft__cache_put_row(all, 2, 0, longer, 0));
    CHECK_EQ_INT(weft_dim(*slots[0], 1), 512);
    CHECK_OK(weft__cache_reserve_rows(all, 513));
    CHECK_EQ_INT(weft_dim(*slots[0], 1), 768);
    weft_array *row = weft_slice_axis(weft_slice_axis(*slots[1], 0, 1, 2), 1, 0, 3);
    weft_array *apart = weft_abs(weft_subtract(row, tokens(2, 0, 0, 3)));
    CHECK_CLOSE(weft_item(weft_max(apart, WEFT_ALL_AXES, false)), 0, 0);
    weft_scope_close(NULL);
    weft_cache_free(one);
    weft_cache_free(longer);
    weft_cache_free(all);
}

/* A token of a wrapped ring is in another slot than in a larger ring. */
static void caches_of_another_size_are_refused(void)
{
    static const kind others[] = {{{.max_context = 16, .sink_tokens = 2}, 0},
                                  {{.max_context = 12, .sink_tokens = 3}, 0},
                                  {{.max_context = 12, .sink_tokens = 2, .trim = 1}, 0},
                                  {{.max_context = 12, .sink_tokens = 2, .kv_bits = 8}, 0},
                                  {{.max_context = 12, .sink_tokens = 2}, 7},
                                  {{0}, 0}};
    const kind k = {{.max_context = 12, .sink_tokens = 2}, 0};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        weft_cache *one = filled(&others[i], 0, 14), *all = weft_cache_new_with(&k.options, 0);
        CHECK_STATUS(weft__cache_put_row(all, 2, 0, one, 0), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "expected a source of the same type and size");
        CHECK_EQ_INT(weft_cache_offset(all), 0);
        weft_cache_free(one);
        weft_cache_free(all);
    }
}

static void misuse_is_refused(void)
{
    const kind k = {{.max_context = 12}, 0};
    weft_cache *one = filled(&k, 0, 13), *all = weft_cache_new_with(&k.options, 0);
    weft_scope_open();
    for (int r = 0; r < 2; r++)
        CHECK_OK(weft__cache_put_row(all, 2, r, one, 0));
    static const int32_t at[] = {13, 13};
    weft_array *offset = weft_from_data(at, WEFT_INT32, WEFT_DIMS(2));
    weft_array *two = weft_zeros(WEFT_DIMS(2, 2, HEADS, DIM), WEFT_FLOAT32);
    weft_cache_view view = weft_cache_append(all, two, two, offset);
    CHECK_STATUS(weft_eval(view.keys), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "take one token each, got 2 for 2 rows");
    weft_array *token = weft_zeros(WEFT_DIMS(2, 1, HEADS, DIM), WEFT_FLOAT32);
    view = weft_cache_append(all, token, token, offset);
    const weft_attention_options masked = {.causal = true,
                                           .mask = weft_ones(WEFT_DIMS(1, 14), WEFT_BOOL)};
    CHECK_STATUS(weft_eval(weft_cache_attention(token, &view, &masked)), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "a mask is unsupported where rows");
    weft_scope_close(NULL);
    weft_cache_free(one);
    weft_cache_free(all);
}

/* ---- the rows of a batch --------------------------------------------------------------------- */

/* Fills memory nearly up to a limit, so that caches are planned with 256 tokens, or frees it. */
static void shorten_memory(weft_array **ballast, bool shorten)
{
    weft_memory_set_limit(INT64_MAX);
    if (shorten) {
        weft_scope_open();
        CHECK_OK(weft_set(ballast, weft_zeros(WEFT_DIMS(16 << 20), WEFT_FLOAT32)));
        CHECK_OK(weft_eval(*ballast));
        weft_scope_close(NULL);
        weft_memory_set_limit(weft_memory_active() + weft_memory_active() / 10);
    } else {
        weft_drop(*ballast);
        *ballast = NULL;
    }
}

/* All rows have caches of the size that was planned for the first of them, whatever memory is free
 * when a later one begins. One whose prompt is in the prompt cache, in caches of another size, is
 * computed alone. */
static void rows_have_caches_of_one_size(void)
{
    enum { PROMPT = 300, SMALL = 256, SHORT = 1, PIECES = 2, CACHED = 4, CASES = 8 };
    weft_model *model = fixture_model("llama");
    int32_t ids[PROMPT];
    weft_array *ballast = NULL;
    if (model == NULL)
        return;
    CHECK_EQ_INT(weft_model_info_of(model)->max_positions, 512);
    for (int i = 0; i < PROMPT; i++)
        ids[i] = i * i * 7 % (int32_t)weft_model_info_of(model)->vocab_size;
    for (int k = 0; k < CASES; k++) {
        const bool is_short = k & SHORT; /* at first, but not later */
        const weft_generate_batch_options o = {.rows = 2, .batch.tokens = k & PIECES ? 64 : 0};
        weft_prompt_cache *cache = NULL;
        weft_generate_options options[2] = {{.max_tokens = 40, .ignore_eos = true},
                                            {.max_tokens = 20, .ignore_eos = true}};
        const weft_generate_request requests[] = {
            {.prompt = {ids, 5}, .options = &options[0]},
            {.prompt = {ids, PROMPT}, .options = &options[1]}};
        weft_generated_row results[2] = {{0}};
        weft_running_batch *b = NULL;
        bool more = true;
        if (k & CACHED) {
            CHECK_OK(weft_prompt_cache_new(model, NULL, &cache));
            shorten_memory(&ballast, !is_short);
            CHECK_OK(weft_prompt_cache_warm(cache, ids, PROMPT - 10, NULL, 0));
            options[1].prompt_cache = cache;
        }
        shorten_memory(&ballast, is_short);
        CHECK_OK(weft_running_batch_new(model, NULL, &o, &b));
        CHECK_OK(weft_running_batch_add(b, &requests[0], NULL, NULL, &results[0]));
        CHECK_OK(weft_running_batch_advance(b, &more));
        shorten_memory(&ballast, !is_short);
        CHECK_OK(weft_running_batch_add(b, &requests[1], NULL, NULL, &results[1]));
        while (more)
            CHECK_OK(weft_running_batch_advance(b, &more));
        weft_running_batch_free(b);
        shorten_memory(&ballast, false);
        const bool other = k & CACHED && results[1].stats.cached_tokens > 0;
        CHECK_EQ_INT(other, k & CACHED && !is_short);
        for (int i = 0; i < 2; i++) {
            weft_generate_options alone = options[i];
            generated t = {.n = 0};
            alone.prompt_cache = NULL;
            alone.cache.max_context = is_short != (other && i == 1) ? SMALL : 0;
            CHECK_OK(weft_generate(model, NULL, ids, requests[i].prompt.n, &alone,
                                   generated_collect, &t, NULL));
            if (CHECK_OK(results[i].status) && CHECK_EQ_INT(results[i].n, t.n))
                CHECK_BYTES(results[i].ids, t.ids, (size_t)t.n * sizeof *t.ids);
        }
        weft_generated_rows_free(results, 2);
        weft_prompt_cache_free(cache);
    }
    weft_model_free(model);
}

CHECK_MAIN("cache_rows", CHECK_CASE(rows_give_what_each_sequence_gives_alone),
           CHECK_CASE(rows_grow), CHECK_CASE(caches_of_another_size_are_refused),
           CHECK_CASE(misuse_is_refused), CHECK_CASE(rows_have_caches_of_one_size))
