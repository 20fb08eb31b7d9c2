/* tests/models/test_rings.c -- caches of every kind against attention over the whole sequence with
 * a mask of what each query may see: updates, appends and trims in random order. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "weft/cache.h"
#include "weft/ops.h"
#include "weft/random.h"

enum { B = 2, H = 4, HK = 2, D = 16, TEXT = 512, STEPS = 60, FEW_STEPS = 20 };

typedef struct kind {
    const char *name;
    weft_cache_options options;
    int64_t window; /* the layer's */
    int64_t keep, sinks;
} kind;

/* An independent implementation of the options: the last keep - sinks tokens and the sinks. */
static const kind kinds[] = {
    {"growing", {.max_context = -1}, 0, TEXT, 0},
    {"window", {.max_context = -1}, 7, 7, 0},
    {"rotating", {.max_context = 12, .sink_tokens = 3}, 0, 12, 3},
    {"rotating", {.max_context = 12, .sink_tokens = -1}, 0, 12, 0},
    {"rotating", {.max_context = 12}, 0, 12, 4},
    {"rotating", {.max_context = 5}, 0, 5, 2},
    {"rotating", {.max_context = 2}, 0, 2, 1},
    {"rotating", {.max_context = 1}, 0, 1, 0},
    {"rotating", {.max_context = 300, .sink_tokens = 2}, 0, 300, 2},
    {"rotating", {.max_context = 12, .sink_tokens = 3, .trim = 4}, 0, 12, 3},
    {"rotating", {.max_context = 12, .sink_tokens = -1, .trim = 3}, 0, 12, 0},
    {"rotating", {.max_context = 12, .sink_tokens = 3}, 20, 12, 3},
    {"window", {.max_context = -1}, 9, 9, 0},
    {"window", {.max_context = -1, .trim = 3}, 9, 9, 0},
    {"window", {.max_context = 9, .sink_tokens = 4}, 9, 9, 0},
    {"window", {.max_context = -1, .whole = true}, 9, 9, 0},
    {"window", {.max_context = 20, .whole = true}, 9, 9, 0},
    {"growing", {.max_context = -1, .kv_bits = 16}, 0, TEXT, 0},
    {"rotating", {.max_context = 12, .sink_tokens = 3, .kv_bits = 16, .trim = 2}, 0, 12, 3},
    {"window", {.max_context = -1, .kv_bits = 16}, 9, 9, 0},
    {"codes", {.max_context = -1, .kv_bits = 8}, 0, TEXT, 0},
    {"codes", {.max_context = 12, .sink_tokens = 3, .kv_bits = 8}, 0, 12, 3},
    {"codes", {.max_context = 12, .sink_tokens = 3, .kv_bits = 4, .trim = 2}, 0, 12, 3},
    {"codes", {.max_context = -1, .kv_bits = 4}, 9, 9, 0},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static uint64_t seed;

static int64_t draw(int64_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)below);
}

/* The text: keys and values (B, TEXT, HK, D), of which `n` tokens have come. */
typedef struct text {
    float k[B][TEXT][HK][D], v[B][TEXT][HK][D];
    int64_t n;
} text;

static float number(void)
{
    return (float)draw(2001) / 500.0f - 2.0f;
}

/* Appends L new tokens; trimmed ones are replaced by different ones. */
static void put_tokens(text *t, int64_t L)
{
    for (int64_t p = t->n; p < t->n + L; p++) {
        for (int i = 0; i < B * HK * D; i++) {
            t->k[i % B][p][i / B % HK][i / B / HK] = number();
            t->v[i % B][p][i / B % HK][i / B / HK] = number();
        }
    }
}

static weft_array *part(float x[B][TEXT][HK][D], int64_t from, int64_t to)
{
    weft_array *all = weft_from_data(x, WEFT_FLOAT32, WEFT_DIMS(B, TEXT, HK, D));
    return weft_contiguous(weft_slice_axis(all, 1, from, to));
}

/* Rounds n numbers, which share a step, to codes of so many bits. */
static void round_group(float *x, int n, int bits)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    const float step = (high - low) / (float)((1 << bits) - 1);
    for (int i = 0; i < n; i++) {
        const float code = rintf((x[i] - low) / (step > 0 ? step : 1));
        x[i] = code * step + low;
    }
}

static weft_array *expected_part(float x[B][TEXT][HK][D], int64_t n, int bits)
{
    static float copy[B][TEXT][HK][D];
    memcpy(copy, x, sizeof copy);
    if (bits == 16)
        return weft_astype(weft_astype(part(x, 0, n), WEFT_FLOAT16), WEFT_FLOAT32);
    const int group = bits == 4 ? D / 2 : D; /* the halves of a head share its bytes */
    for (int64_t i = 0; bits && i < (int64_t)sizeof copy / (int64_t)sizeof(float) / group; i++)
        round_group((float *)copy + i * group, group, bits);
    return part(copy, 0, n);
}

static weft_array *expected(text *t, const kind *k, weft_array *q, weft_array *mask, int64_t first,
                            int64_t L)
{
    static bool seen[TEXT * TEXT];
    const int64_t S = first + L;
    for (int64_t i = 0; i < L; i++) {
        for (int64_t p = 0; p < S; p++)
            seen[i * S + p] =
                p <= first + i && (p < k->sinks || first + i - p < k->keep - k->sinks);
    }
    weft_array *own = weft_from_data(seen, WEFT_BOOL, WEFT_DIMS(L, S));
    if (mask)
        own = weft_logical_and(own, weft_slice_axis(mask, -1, 0, S));
    return weft_attention(q, expected_part(t->k, S, k->options.kv_bits),
                          expected_part(t->v, S, k->options.kv_bits),
                          &(weft_attention_options){.mask = own});
}

static int64_t room_of(weft_cache *cache)
{
    weft_array **slots[WEFT_CACHE_SLOTS];
    CHECK(weft_cache_state(cache, slots) <= WEFT_CACHE_SLOTS);
    return *slots[0] ? weft_dim(*slots[0], 1) : 0;
}

/* L tokens through the cache: by append, or by update. */
static void bring(weft_cache *cache, text *t, const kind *k, int64_t L, bool appending, bool masked)
{
    weft_scope_open();
    put_tokens(t, L);
    weft_array *q =
        weft_random_normal(weft_random_key(seed), WEFT_DIMS(B, L, H, D), 0, 1, WEFT_FLOAT32);
    weft_array *mask = NULL; /* hides one token of three from the second sequence */
    if (masked) {
        mask = weft_remainder_scalar(weft_arange_int(0, TEXT, 1, WEFT_INT32), 3);
        mask = weft_reshape(weft_not_equal_scalar(mask, 1), WEFT_DIMS(1, 1, 1, TEXT));
        mask = weft_concatenate((weft_array *[]){weft_ones_like(mask), mask}, 2, 0);
    }
    const int64_t first = t->n;
    weft_array *new_k = part(t->k, first, first + L), *new_v = part(t->v, first, first + L);
    weft_cache_view view;
    const int32_t start = (int32_t)first;
    if (appending) {
        CHECK_OK(weft_cache_reserve(cache, L));
        view = weft_cache_append(cache, new_k, new_v,
                                 weft_from_data(&start, WEFT_INT32, WEFT_DIMS(1)));
        weft_cache_advance(cache, L);
    } else {
        view = weft_cache_update(cache, new_k, new_v);
    }
    weft_array *cut = mask;
    if (mask && view.positions == NULL) /* keys in the order of the text */
        cut = weft_slice_axis(mask, -1, 0, weft_dim(view.keys, 1));
    const weft_attention_options o = {.causal = true, .window = k->window, .mask = cut};
    weft_array *y = weft_cache_attention(q, &view, &o);
    weft_array *gap = weft_abs(weft_subtract(y, expected(t, k, q, mask, first, L)));
    /* With float16 keys, queries and probabilities may be rounded to 16 bits. */
    const double bound = k->options.kv_bits == 16 ? 0x1p-16 : 2e-6;
    if (!CHECK_CLOSE(weft_item(weft_max(gap, WEFT_ALL_AXES, false)), 0, bound))
        printf("  %s, max %lld: %lld tokens behind %lld, %s%s\n", k->name,
               (long long)k->options.max_context, (long long)L, (long long)first,
               appending ? "appended" : "updated", masked ? ", masked" : "");
    weft_scope_close(NULL);
    t->n += L;
    CHECK_EQ_INT(weft_cache_offset(cache), t->n);
}

static void forget(weft_cache *cache, text *t, int64_t n)
{
    const bool can = weft_cache_can_trim(cache, n);
    if (can) {
        CHECK_OK(weft_cache_trim(cache, n));
        t->n -= n;
    } else {
        CHECK_STATUS(weft_cache_trim(cache, n), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), n > t->n ? "expected 0 to" : "has forgotten");
    }
    CHECK_EQ_INT(weft_cache_offset(cache), t->n);
}

/* Whether so many tokens may be appended at a time: only few if the ring may wrap. */
static bool appends(weft_cache *cache, const kind *k, int64_t L)
{
    const int64_t end = (weft_cache_offset(cache) + L + 255) / 256 * 256;
    const int64_t limit = k->options.max_context + k->options.trim;
    const bool turns = k->window > 0 || (k->options.max_context > 0 && end >= limit);
    return room_of(cache) > 0 && (!turns || L <= k->options.trim + 1);
}

static void walk(const kind *k, uint64_t number_of_walk)
{
    static text t;
    weft_cache *cache = weft_cache_new_with(&k->options, k->window);
    if (!CHECK(cache != NULL))
        return;
    seed = number_of_walk;
    t.n = 0;
    const int steps = check_few() ? FEW_STEPS : STEPS;
    for (int i = 0; i < steps && t.n < TEXT - 64; i++) {
        const int64_t what = draw(8);
        const int64_t L = what < 4 ? 1 : what < 6 ? 1 + draw(6) : 1 + draw(40);
        if (what == 3)
            forget(cache, &t, draw(6));
        else
            bring(cache, &t, k, L, draw(2) && appends(cache, k, L), draw(3) == 0);
    }
    CHECK_EQ_INT(weft_cache_length(cache) <= t.n, 1);
    weft_cache_free(cache);
}

static void any_order_of_calls_shows_what_the_mask_says(void)
{
    /* Every shape is compiled anew there. */
    const bool device = strcmp(weft_device_name(weft_default_device()), "cpu") != 0;
    for (int i = 0; i < KINDS; i++) {
        for (uint64_t n = 0; n < (device ? 1 : 3); n++)
            walk(&kinds[i], 100 * (uint64_t)i + n);
    }
}

/* The room is that of the text until the text is longer than the kept part. */
static void rings_stop_growing(void)
{
    static text t;
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        weft_cache *cache = weft_cache_new_with(&k->options, k->window);
        t.n = 0;
        while (cache && t.n < 350)
            bring(cache, &t, k, 50, false, false);
        const int64_t limit = k->options.whole ? k->options.max_context : k->keep + k->options.trim;
        const bool bounded = strcmp(k->name, "growing") != 0 && k->keep < TEXT && limit > 0;
        CHECK_EQ_INT(room_of(cache), bounded ? limit : 512);
        weft_cache_free(cache);
    }
}

/* `trim` tokens can be forgotten after any number of them. */
static void what_was_asked_for_can_be_trimmed(void)
{
    static text t;
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        weft_cache *cache = weft_cache_new_with(&k->options, k->window);
        t.n = 0;
        for (int n = 0; cache && n < 40; n++) {
            bring(cache, &t, k, 1 + k->options.trim,
                  n % 2 && appends(cache, k, 1 + k->options.trim), false);
            CHECK(weft_cache_can_trim(cache, k->options.trim));
            forget(cache, &t, k->options.trim);
        }
        weft_cache_free(cache);
    }
}

/* A copy is independent. */
static void copies_are_apart(void)
{
    static text a, b;
    for (int i = 0; i < KINDS; i++) {
        const kind *k = &kinds[i];
        weft_cache *cache = weft_cache_new_with(&k->options, k->window);
        a.n = 0;
        for (int n = 0; n < 5; n++)
            bring(cache, &a, k, 7, false, false);
        weft_cache *copy = weft_cache_copy(cache);
        if (CHECK(copy != NULL)) {
            b = a;
            for (int n = 0; n < 4; n++) {
                bring(cache, &a, k, 1, appends(cache, k, 1) && n % 2, false);
                bring(copy, &b, k, 1 + n, false, false);
            }
        }
        weft_cache_reset(cache);
        CHECK_EQ_INT(weft_cache_offset(cache), 0);
        a.n = 0;
        bring(cache, &a, k, 30, false, false);
        weft_cache_free(cache);
        weft_cache_free(copy);
    }
}

static void options_are_checked(void)
{
    CHECK(weft_cache_new_with(&(weft_cache_options){.kv_bits = 5}, 0) == NULL);
    CHECK_CONTAINS(weft_error_message(), "kv_bits: expected 32, 16, 8, 4 or 0, got 5");
    CHECK(weft_cache_new_with(&(weft_cache_options){.max_context = 4, .sink_tokens = 4}, 0) ==
          NULL);
    CHECK_CONTAINS(weft_error_message(), "expected fewer than max_context, 4, got 4");
    CHECK(weft_cache_new_with(&(weft_cache_options){.trim = -1}, 0) == NULL);
    CHECK(weft_cache_new_with(&(weft_cache_options){.max_context = INT64_MAX}, 0) == NULL);
    weft_cache *cache =
        weft_cache_new_with(&(weft_cache_options){.max_context = 8, .kv_bits = 4}, 0);
    weft_scope_open();
    weft_array *odd = weft_zeros(WEFT_DIMS(1, 2, 1, 67), WEFT_FLOAT32);
    CHECK_CONTAINS(weft_error(weft_cache_update(cache, odd, odd).keys), "heads of 67 elements");
    odd = weft_zeros(WEFT_DIMS(1, 2, 1, 64), WEFT_INT32);
    CHECK_CONTAINS(weft_error(weft_cache_update(cache, odd, odd).keys), "codes hold floats");
    weft_array *good = weft_zeros(WEFT_DIMS(1, 9, 1, 64), WEFT_FLOAT32);
    CHECK_OK(weft_eval(weft_cache_update(cache, good, good).keys));
    const int32_t nine = 9;
    weft_array *offset = weft_from_data(&nine, WEFT_INT32, WEFT_DIMS(1));
    weft_array *two = weft_slice_axis(good, 1, 0, 2);
    CHECK_CONTAINS(weft_error(weft_cache_append(cache, two, two, offset).keys),
                   "2 tokens at a time would overwrite");
    CHECK_EQ_INT(weft_cache_offset(cache), 9);
    const weft_cache_view view = {.keys = good, .values = good};
    weft_array *y = weft_cache_attention(good, &view, &(weft_attention_options){0});
    CHECK_CONTAINS(weft_error(y), "expected causal attention");
    weft_scope_close(NULL);
    weft_cache_free(cache);
}

CHECK_MAIN("rings", CHECK_CASE(any_order_of_calls_shows_what_the_mask_says),
           CHECK_CASE(rings_stop_growing), CHECK_CASE(what_was_asked_for_can_be_trimmed),
           CHECK_CASE(copies_are_apart), CHECK_CASE(options_are_checked))
