/* tests/models/test_cache.c -- the growing key/value cache. */
#include "tests/check.h"
#include "weft/model.h"

enum { B = 2, HK = 2, D = 3 };

/* (B, L, Hk, D): batch b, token t, head h, dim d is b + t/1000 + h/10 + d/100, plus `shift`. */
static weft_array *tokens(int64_t first, int64_t L, double shift)
{
    static const float batch[B] = {0, 1}, head[HK] = {0, 0.1f}, dim[D] = {0, 0.01f, 0.02f};
    weft_array *t = weft_arange((double)first, (double)(first + L), 1, WEFT_FLOAT32);
    weft_array *x = weft_reshape(weft_scale(t, 0.001), WEFT_DIMS(1, L, 1, 1));
    x = weft_add(x, weft_from_data(batch, WEFT_FLOAT32, WEFT_DIMS(B, 1, 1, 1)));
    x = weft_add(x, weft_from_data(head, WEFT_FLOAT32, WEFT_DIMS(HK, 1)));
    return weft_add_scalar(weft_add(x, weft_from_data(dim, WEFT_FLOAT32, WEFT_DIMS(D))), shift);
}

static void holds(weft_array *got, weft_array *expected)
{
    CHECK_EQ_INT(weft_dim(got, 1), weft_dim(expected, 1));
    CHECK_CLOSE(weft_item(weft_max(weft_abs(weft_subtract(got, expected)), WEFT_ALL_AXES, false)),
                0, 1e-6);
}

static int64_t capacity(weft_cache *cache)
{
    weft_array **slots[WEFT_CACHE_SLOTS];
    CHECK_EQ_INT(weft_cache_state(cache, slots), 2);
    return weft_dim(*slots[0], 1);
}

static void append(weft_cache *cache, int64_t first, int64_t L)
{
    weft_scope_open();
    const weft_cache_view view = weft_cache_update(cache, tokens(first, L, 0), tokens(first, L, 5));
    holds(view.keys, tokens(0, first + L, 0));
    holds(view.values, tokens(0, first + L, 5));
    CHECK(view.mask == NULL && view.lengths == NULL && view.positions == NULL && view.window == 0);
    weft_scope_close(NULL);
    CHECK_EQ_INT(weft_cache_length(cache), first + L);
    CHECK_EQ_INT(weft_cache_offset(cache), first + L);
}

static void caches_grow_in_blocks(void)
{
    weft_cache *cache = weft_cache_new();
    if (!CHECK(cache != NULL))
        return;
    append(cache, 0, 7);
    CHECK_EQ_INT(capacity(cache), 256);
    append(cache, 7, 1);
    append(cache, 8, 240);
    append(cache, 248, 8);
    CHECK_EQ_INT(capacity(cache), 256);
    append(cache, 256, 1);
    CHECK_EQ_INT(capacity(cache), 512);
    append(cache, 257, 600);
    CHECK_EQ_INT(capacity(cache), 1024);
    weft_cache_free(cache);
    weft_cache_free(NULL);
}

/* append with an array for the offset has the same effect as update. */
static void appending_is_updating(void)
{
    weft_cache *cache = weft_cache_new();
    if (!CHECK(cache != NULL) || !CHECK(weft_cache_appends(cache)))
        return;
    weft_scope_open();
    const int32_t zero = 0;
    weft_cache_view view = weft_cache_append(cache, tokens(0, 1, 0), tokens(0, 1, 5),
                                             weft_from_data(&zero, WEFT_INT32, WEFT_DIMS(1)));
    CHECK_CONTAINS(weft_error(view.keys), "no tokens came before");
    weft_scope_close(NULL);
    CHECK_OK(weft_cache_reserve(cache, 3));
    append(cache, 0, 250);
    for (int32_t n = 250; n < 260; n += 2) {
        CHECK_OK(weft_cache_reserve(cache, 2));
        CHECK_EQ_INT(capacity(cache), n < 256 ? 256 : 512);
        weft_scope_open();
        weft_array *offset = weft_from_data(&n, WEFT_INT32, WEFT_DIMS(1));
        view = weft_cache_append(cache, tokens(n, 2, 0), tokens(n, 2, 5), offset);
        CHECK_EQ_INT(weft_cache_length(cache), n);
        weft_cache_advance(cache, 2);
        CHECK_EQ_INT(weft_cache_length(cache), n + 2);
        CHECK_EQ_INT((int64_t)weft_item(view.lengths), n + 2);
        CHECK_EQ_INT(weft_dim(view.keys, 1), capacity(cache));
        holds(weft_slice_axis(view.keys, 1, 0, n + 2), tokens(0, n + 2, 0));
        holds(weft_slice_axis(view.values, 1, 0, n + 2), tokens(0, n + 2, 5));
        weft_scope_close(NULL);
    }
    append(cache, 260, 3);
    weft_cache_free(cache);
}

static void trimming_and_resetting(void)
{
    weft_cache *cache = weft_cache_new();
    if (!CHECK(cache != NULL))
        return;
    append(cache, 0, 10);
    CHECK_OK(weft_cache_trim(cache, 4));
    CHECK_EQ_INT(weft_cache_length(cache), 6);
    append(cache, 6, 3);
    CHECK_STATUS(weft_cache_trim(cache, 10), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "expected 0 to 9 tokens, got 10");
    CHECK_STATUS(weft_cache_trim(cache, -1), WEFT_INVALID);
    weft_cache_reset(cache);
    CHECK_EQ_INT(weft_cache_length(cache), 0);
    append(cache, 0, 2);
    weft_cache_free(cache);
}

static void what_does_not_fit_leaves_it_as_it_was(void)
{
    weft_cache *cache = weft_cache_new();
    weft_cache_view view;
    if (!CHECK(cache != NULL))
        return;
    weft_scope_open();
    weft_array *good = tokens(0, 2, 0);
    view = weft_cache_update(cache, weft_error_array("broken"), good);
    CHECK_STR(weft_error(view.keys), "broken");
    view = weft_cache_update(cache, weft_zeros(WEFT_DIMS(2, 2), WEFT_FLOAT32), good);
    CHECK_CONTAINS(weft_error(view.values), "cache: expected (B, L, Hk, D)");
    view = weft_cache_update(cache, good, tokens(0, 3, 0));
    CHECK_CONTAINS(weft_error(view.keys), "keys and values differ");
    CHECK_EQ_INT(weft_cache_length(cache), 0);
    weft_scope_close(NULL);
    append(cache, 0, 4);
    weft_scope_open();
    good = tokens(0, 2, 0);
    view = weft_cache_update(cache, weft_zeros(WEFT_DIMS(1, 2, HK, D), WEFT_FLOAT32), good);
    CHECK_CONTAINS(weft_error(view.keys),
                   "cache: expected (2, 2, 2, 3) float32, got (1, 2, 2, 3) float32");
    view = weft_cache_update(cache, weft_astype(good, WEFT_BFLOAT16), good);
    CHECK_CONTAINS(weft_error(view.keys), "got (2, 2, 2, 3) bfloat16");
    weft_scope_close(NULL);
    append(cache, 4, 1);
    weft_cache_free(cache);
}

/* Evaluated step by step, the cache is written in place: active memory stays the same. */
static void a_step_allocates_nothing_new(void)
{
    weft_cache *cache = weft_cache_new();
    int64_t after_first = 0;
    if (!CHECK(cache != NULL))
        return;
    for (int i = 0; i < 100; i++) {
        weft_scope_open();
        const weft_cache_view view = weft_cache_update(cache, tokens(i, 1, 0), tokens(i, 1, 5));
        weft_array *sums[] = {weft_sum(view.keys, WEFT_ALL_AXES, false),
                              weft_sum(view.values, WEFT_ALL_AXES, false)};
        CHECK_OK(weft_eval_n(sums, 2));
        weft_scope_close(NULL);
        if (i == 1) {
            after_first = weft_memory_active();
            weft_memory_reset_peak();
        }
    }
    CHECK_EQ_INT(weft_memory_active(), after_first);
    const int64_t block = 256 * B * HK * D * (int64_t)sizeof(float);
    CHECK(weft_memory_peak() - after_first < block);
    weft_cache_free(cache);
}

CHECK_MAIN("cache", CHECK_CASE(caches_grow_in_blocks), CHECK_CASE(appending_is_updating),
           CHECK_CASE(trimming_and_resetting), CHECK_CASE(what_does_not_fit_leaves_it_as_it_was),
           CHECK_CASE(a_step_allocates_nothing_new))
