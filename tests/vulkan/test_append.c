/* tests/vulkan/test_append.c -- rotation, write to the KV cache and attention in one launch: the
 * same bits as the ops one by one, and which steps of a decoder are compiled to it. */
#include <stdio.h>
#include <string.h>

#include "tests/vulkan/both.h"
#include "weft/backend.h"
#include "weft/op_params.h"
#include "weft/weft.h"

/* ---- The op --------------------------------------------------------------------------------- */

typedef enum masking { NONE, BOOLS, FLOATS } masking;

typedef struct problem {
    const char *label;
    int64_t B, H, Hk, D, Dv, S, pairs;
    weft_attention_append_params params;
    masking mask;
    weft_dtype dtype, cache, places; /* 0: float32, that of q, int32 */
    int32_t start, lengths[2];
    bool sliced;  /* q, k and v are parts of one array */
    bool held;    /* the caches are held, so they are copied */
    int64_t page; /* > 0: the caches are pools of S tokens, of which each row has PAGES pages */
} problem;

enum {
    Q,
    KEYS,
    VALUES,
    V,
    K,
    POSITIONS,
    FREQUENCIES,
    START,
    FIXED,
    MOST = FIXED + 3,
    PAGES = 3,
    OUTPUTS = 4
};

static const problem problems[] = {
    {"grouped heads", 1, 8, 2, 32, 32, 40, 16, .start = 17, .lengths = {18}},
    {"bfloat16", 1, 8, 2, 64, 64, 40, 32, .dtype = WEFT_BFLOAT16, .start = 0, .lengths = {1}},
    {"float16, one head each", 1, 3, 3, 16, 16, 70, 8, .dtype = WEFT_FLOAT16, .start = 69,
     .lengths = {70}},
    {"a cache of 16 bits", 1, 4, 2, 32, 32, 33, 16, .cache = WEFT_FLOAT16, .start = 5,
     .lengths = {6}},
    {"chunks", 1, 4, 2, 32, 32, 600, 16, .dtype = WEFT_BFLOAT16, .start = 411, .lengths = {412}},
    {"chunks that nothing sees", 1, 4, 2, 32, 32, 600, 16, .start = 3, .lengths = {4},
     .held = true},
    {"odd sizes", 1, 6, 2, 7, 5, 9, 2, .start = 4, .lengths = {5}},
    {"part of a head, pairs, longer angles", 2, 4, 2, 32, 32, 24, 4,
     .params = {.rope = {.interleaved = true, .amplitude = 1.25}}, .places = WEFT_INT64, .start = 8,
     .lengths = {9, 9}, .sliced = true},
    {"no rotation", 1, 2, 2, 16, 16, 8, 0, .start = 1, .lengths = {2}},
    {"a window and a softcap", 1, 4, 1, 32, 32, 48, 16,
     .params = {.attention = {.window = 6, .softcap = 2}}, .dtype = WEFT_BFLOAT16, .start = 30,
     .lengths = {31}},
    {"a mask", 2, 4, 2, 16, 16, 64, 8, .mask = BOOLS, .start = 20, .lengths = {64, 33}},
    {"a bias of heads", 1, 4, 2, 16, 16, 20, 8, .mask = FLOATS, .start = 6, .lengths = {20}},
    {"rows of other lengths, a start that is clipped", 2, 8, 2, 32, 32, 300, 16,
     .dtype = WEFT_BFLOAT16, .start = 1000, .lengths = {300, 7}, .sliced = true, .held = true},
    {"pages", 2, 8, 2, 32, 32, 112, 16, .dtype = WEFT_BFLOAT16, .lengths = {37, 16}, .page = 16},
    {"pages, chunks and an inactive row", 2, 4, 2, 32, 32, 1792, 16, .lengths = {700, 0},
     .page = 256},
    {"pages, indices from the end", 2, 4, 2, 16, 16, 28, 8, .start = -1, .lengths = {9, 4},
     .page = 4},
    {"pages, odd sizes and a mask", 2, 6, 2, 7, 5, 28, 2, .mask = BOOLS, .lengths = {12, 5},
     .page = 4, .sliced = true, .held = true},
    {"eight rows of wide heads", 1, 8, 1, 256, 256, 20, 128, .start = -3, .lengths = {3}},
};

static weft_dtype dtype_of(const problem *p)
{
    return p->dtype ? p->dtype : WEFT_FLOAT32;
}

static weft_dtype cache_of(const problem *p)
{
    return p->cache ? p->cache : dtype_of(p);
}

/* (B, 1, heads, D), by itself or a part of a longer array. */
static weft_array *token(const problem *p, weft_dtype dtype, int64_t heads, int64_t D)
{
    weft_array *x = both_draw(WEFT_DIMS(p->B, 1, heads * D + 16), dtype, -1, 1);
    x = weft_slice_axis(x, 2, 8, 8 + heads * D);
    x = weft_reshape(x, WEFT_DIMS(p->B, 1, heads, D));
    return p->sliced ? x : weft_contiguous(x);
}

/* Adds the pages and the places of the tokens, by row the last of `lengths`. */
static void make_pages(const problem *p, weft_array **in, int *n)
{
    int32_t table[2 * PAGES], places[2];
    for (int32_t i = 0; i < 2 * PAGES; i++)
        table[i] = 2 * PAGES - i; /* page 0 is unused */
    for (int b = 0; b < 2; b++) {
        const int64_t last = p->lengths[b] > 0 ? p->lengths[b] - 1 : 0;
        places[b] = (int32_t)(table[b * PAGES + last / p->page] * p->page + last % p->page);
        if (p->lengths[b] == 0) /* an inactive row */
            places[b] = b;
        if (p->start < 0)
            places[b] -= (int32_t)p->S; /* from the end */
    }
    in[START] = weft_from_data(places, WEFT_INT32, WEFT_DIMS(p->B));
    in[(*n)++] = weft_from_data(table, WEFT_INT32, WEFT_DIMS(p->B, PAGES));
}

static int make_inputs(const problem *p, weft_array **in, weft_attention_append_params *params)
{
    int n = FIXED;
    const weft_dtype cache = cache_of(p);
    in[Q] = token(p, dtype_of(p), p->H, p->D);
    in[K] = token(p, cache, p->Hk, p->D);
    in[V] = token(p, cache, p->Hk, p->Dv);
    const int64_t rows = p->page > 0 ? 1 : p->B;
    in[KEYS] = both_draw(WEFT_DIMS(rows, p->S, p->Hk, p->D), cache, -1, 1);
    in[VALUES] = both_draw(WEFT_DIMS(rows, p->S, p->Hk, p->Dv), cache, -1, 1);
    in[POSITIONS] = both_draw(p->B > 1 ? WEFT_DIMS(p->B, 1) : WEFT_DIMS(1),
                              p->places ? p->places : WEFT_INT32, 0, 500);
    in[FREQUENCIES] = both_draw(WEFT_DIMS(p->pairs), WEFT_FLOAT32, 0, 1);
    in[START] = weft_from_data(&p->start, WEFT_INT32, WEFT_DIMS(1));
    if (p->page > 0)
        make_pages(p, in, &n);
    if (p->mask == BOOLS)
        in[n++] =
            both_draw(WEFT_DIMS(p->B, 1, 1, p->page > 0 ? PAGES * p->page : p->S), WEFT_BOOL, 0, 2);
    if (p->mask == FLOATS)
        in[n++] = both_draw(WEFT_DIMS(1, p->H, 1, p->S), dtype_of(p), -2, 2);
    in[n++] = weft_from_data(p->lengths, WEFT_INT32, WEFT_DIMS(p->B));
    *params = p->params;
    params->page = p->page;
    params->attention.scale = 0.3;
    params->attention.causal = params->attention.has_lengths = true;
    params->attention.has_mask = p->mask != NONE;
    params->rope.amplitude = params->rope.amplitude > 0 ? params->rope.amplitude : 1;
    CHECK_OK(weft_eval_n(in, n));
    return n;
}

static void as_one(weft_array *const *in, int n, const weft_attention_append_params *params,
                   weft_array **out)
{
    weft_array *y = weft_apply(weft_op_find("attention_append"), in, n, params);
    for (int i = 0; i < OUTPUTS; i++)
        out[i] = weft_pick(y, i);
}

/* (B, 1, ...) written to a pool. */
static weft_array *in_pool(weft_array *x, weft_array *token, weft_array *places)
{
    weft_array *tokens = weft_swapaxes(token, 0, 1);
    weft_array *at = weft_reshape(places, WEFT_DIMS(1, weft_dim(tokens, 1), 1, 1));
    at = weft_broadcast_to(at, weft_shape(tokens));
    return both_apart(weft_put_along_axis(x, at, tokens, 1), true);
}

static weft_array *in_cache(weft_array *x, weft_array *token, weft_array *start)
{
    return both_apart(weft_slice_update(x, token, start, WEFT_DIMS(1)), true);
}

static weft_array *in_pages(weft_array *x, int64_t page)
{
    return weft_reshape(x, WEFT_DIMS(weft_dim(x, 1) / page, page, weft_dim(x, 2), weft_dim(x, 3)));
}

static void one_by_one(weft_array *const *in, int n, const weft_attention_append_params *params,
                       weft_array **out)
{
    const weft_rope_params *r = &params->rope;
    weft_array *x[MOST],
        *q = weft_rope(in[Q], in[POSITIONS], in[FREQUENCIES], r->interleaved, r->amplitude);
    weft_array *k = weft_rope(in[K], in[POSITIONS], in[FREQUENCIES], r->interleaved, r->amplitude);
    x[0] = both_apart(q, true);
    k = both_apart(k, true);
    const int64_t page = params->page;
    out[2] = (page > 0 ? in_pool : in_cache)(in[KEYS], k, in[START]);
    out[3] = (page > 0 ? in_pool : in_cache)(in[VALUES], in[V], in[START]);
    x[1] = page > 0 ? in_pages(out[2], page) : out[2];
    x[2] = page > 0 ? in_pages(out[3], page) : out[3];
    memcpy(x + 3, in + FIXED, (size_t)(n - FIXED) * sizeof *x);
    const weft_op *op = weft_op_find(page > 0 ? "attention_pages" : "attention");
    weft_array *y = weft_apply(op, x, 3 + n - FIXED, &params->attention);
    out[0] = weft_pick(y, 0);
    out[1] = weft_pick(y, 1);
}

static void check_problem(const problem *p)
{
    static const char *const names[OUTPUTS] = {"output", "log-sum-exp", "keys", "values"};
    weft_device *device = weft_default_device();
    weft_array *in[MOST], *own[MOST], *one[OUTPUTS], *other[OUTPUTS];
    weft_attention_append_params params;
    weft_scope_open();
    const int n = make_inputs(p, in, &params);
    weft_scope_open_lean();
    memcpy(own, in, sizeof own);
    for (int i = KEYS; i <= VALUES && !p->held; i++)
        own[i] = weft_negative(weft_negative(in[i])); /* written in place */
    weft_device_reset_counts(device);
    as_one(own, n, &params, one);
    CHECK_OK(weft_eval_n(one, OUTPUTS));
    const weft_counts c = weft_device_counts(device);
    check_that((c.expansions + c.references == 0) == (device != weft_device_get("cpu")), __FILE__,
               __LINE__, "%s: %s", p->label, c.expansions ? "no kernel" : "a kernel");
    one_by_one(in, n, &params, other);
    CHECK_OK(weft_eval_n(other, OUTPUTS));
    for (int i = 0; i < OUTPUTS; i++)
        check_that(both_equal(one[i], other[i]), __FILE__, __LINE__, "%s: other bits of the %s",
                   p->label, names[i]);
    weft_scope_close(NULL);
    weft_scope_close(NULL);
}

/* On the CPU without a kernel. */
static void the_expansion_has_the_bits_of_separate_ops(void)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_problem(&problems[i]);
}

static void one_launch_has_the_bits_of_separate_ops(void)
{
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        check_problem(&problems[i]);
    weft_set_default_device(weft_device_get("cpu"));
}

/* As separate ops, which write by put_along_axis. */
static void an_index_outside_of_the_pool_is_an_error(void)
{
    static const int32_t outside[][2] = {{28, 4}, {4, -29}};
    const problem p = {"outside", 2, 4, 2, 16, 16, 28, 8, .lengths = {9, 4}, .page = 4};
    weft_attention_append_params params;
    weft_array *in[MOST], *out[OUTPUTS];
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (int i = 0; i < 2; i++) {
        weft_scope_open();
        const int n = make_inputs(&p, in, &params);
        in[START] = weft_from_data(outside[i], WEFT_INT32, WEFT_DIMS(2));
        as_one(in, n, &params, out);
        weft_status status = weft_eval_n(out, OUTPUTS);
        if (status == WEFT_OK)
            status = weft_synchronize(weft_default_device());
        CHECK_EQ_INT(status, WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "out of range for an axis of size 28");
        weft_scope_close(NULL);
    }
    weft_set_default_device(weft_device_get("cpu"));
}

/* ---- Compiled steps ------------------------------------------------------------------------- */

typedef struct step {
    const char *label;
    weft_cache_options cache;
    weft_attention_options attention;
    int64_t window;
    bool joined; /* whether one launch does it */
    bool sinks, normed, twice;
    weft_dtype dtype;
    weft_cache *held;
    weft_array *frequencies, *logits;
} step;

enum { HEADS = 4, KEY_HEADS = 2, WIDTH = 32, STEPS = 9, TOKEN = HEADS + 2 * KEY_HEADS };

/* in: (1, 1, TOKEN, WIDTH), and the offset (1). */
static int attend(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    step *s = context;
    (void)n_in;
    (void)room;
    weft_array *q = weft_slice_axis(in[0], 2, 0, HEADS);
    weft_array *k = weft_slice_axis(in[0], 2, HEADS, HEADS + KEY_HEADS);
    weft_array *v = weft_slice_axis(in[0], 2, HEADS + KEY_HEADS, TOKEN);
    if (s->normed) {
        q = weft_rms_norm(q, NULL, 1e-5, 0);
        k = weft_rms_norm(k, NULL, 1e-5, 0);
    }
    q = weft_rope(q, in[1], s->frequencies, false, 1);
    k = weft_rope(k, in[1], s->frequencies, false, 1);
    const weft_cache_view view = weft_cache_append(s->held, k, v, in[1]);
    weft_attention_options o = s->attention;
    o.causal = true;
    o.sinks = s->sinks ? s->logits : NULL;
    out[0] = weft_cache_attention(q, &view, &o);
    out[1] = s->twice ? weft_sum(q, WEFT_DIMS(-1), false) : out[0];
    return 2;
}

static weft_array *tokens(const step *s, int64_t n)
{
    return both_draw(WEFT_DIMS(1, n, TOKEN, WIDTH), s->dtype, -1, 1);
}

static int64_t appends(void)
{
    weft_op_report all[256];
    const int n = weft_device_report(weft_default_device(), all, 256, NULL);
    for (int i = 0; i < n && i < 256; i++)
        if (strcmp(all[i].op, "attention_append") == 0)
            return all[i].calls;
    return 0;
}

/* The results of STEPS tokens after a few. */
static void run(step *s, bool compiled, weft_array *first, weft_array *const *later,
                weft_array **out)
{
    weft_array **slots[WEFT_CACHE_SLOTS];
    weft_compiled *c = NULL;
    weft_compile_enable(compiled);
    s->held = weft_cache_new_with(&s->cache, s->window);
    weft_array *k = weft_slice_axis(first, 2, 0, KEY_HEADS);
    weft_array *v = weft_slice_axis(first, 2, KEY_HEADS, 2 * KEY_HEADS);
    const weft_cache_view view = weft_cache_update(s->held, k, v);
    CHECK_OK(weft_eval(view.keys));
    CHECK_OK(weft_cache_reserve(s->held, STEPS));
    const int n = weft_cache_state(s->held, slots);
    CHECK_OK(weft_compile(attend, s, slots, n, NULL, &c));
    for (int i = 0; i < STEPS; i++) {
        const int32_t offset = (int32_t)weft_cache_offset(s->held);
        weft_array *in[] = {later[i], weft_from_data(&offset, WEFT_INT32, WEFT_DIMS(1))};
        CHECK_OK(weft_compiled_call(c, in, 2, out + 2 * i, 2));
        weft_cache_advance(s->held, 1);
    }
    weft_compiled_free(c);
    weft_cache_free(s->held);
    weft_compile_enable(true);
}

static void check_step(step s)
{
    weft_array *later[STEPS], *one[2 * STEPS], *other[2 * STEPS];
    weft_device *vulkan = weft_default_device();
    weft_scope_open();
    s.frequencies = both_draw(WEFT_DIMS(WIDTH / 2), WEFT_FLOAT32, 0, 1);
    s.logits = both_draw(WEFT_DIMS(HEADS), WEFT_FLOAT32, -1, 1);
    weft_array *first = tokens(&s, 5);
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(weft_eval(later[i] = tokens(&s, 1)));
    CHECK_OK(weft_eval(first));
    CHECK_OK(weft_eval(s.frequencies));
    CHECK_OK(weft_eval(s.logits));
    CHECK_OK(weft_device_profile(vulkan, true));
    run(&s, true, first, later, one);
    const int64_t joined = appends();
    check_that(joined == (s.joined ? STEPS : 0), __FILE__, __LINE__, "%s: %lld joined steps",
               s.label, (long long)joined);
    run(&s, false, first, later, other);
    CHECK_EQ_INT(appends(), joined);
    CHECK_OK(weft_device_profile(vulkan, false));
    for (int i = 0; i < 2 * STEPS; i++)
        check_that(both_equal(one[i], other[i]), __FILE__, __LINE__, "%s: other bits, token %d",
                   s.label, i / 2);
    weft_scope_close(NULL);
}

static void steps_of_a_decoder_are_joined(void)
{
    static const step steps[] = {
        {"all tokens", .joined = true, .dtype = WEFT_BFLOAT16},
        {"float32, a softcap", .joined = true, .attention = {.softcap = 3}, .dtype = WEFT_FLOAT32},
        {"a cache of 16 bits", {.kv_bits = 16}, .dtype = WEFT_FLOAT32},
        {"a window that wraps", .window = 8, .joined = true, .dtype = WEFT_FLOAT32},
        {"first and last tokens",
         {.max_context = 10, .sink_tokens = 2},
         .joined = true,
         .dtype = WEFT_BFLOAT16},
        {"8 bits", {.kv_bits = 8}, .dtype = WEFT_FLOAT32},
        {"4 bits", {.kv_bits = 4}, .dtype = WEFT_BFLOAT16},
        {"sinks", .sinks = true, .dtype = WEFT_FLOAT32},
        {"norms of heads", .normed = true, .dtype = WEFT_BFLOAT16},
        {"rotated queries that something else reads", .twice = true, .dtype = WEFT_FLOAT32},
    };
    if (!both_there())
        return;
    weft_set_default_device(weft_device_get("vulkan"));
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        check_step(steps[i]);
    weft_set_default_device(weft_device_get("cpu"));
}

CHECK_MAIN("vulkan_append", CHECK_CASE(the_expansion_has_the_bits_of_separate_ops),
           CHECK_CASE(one_launch_has_the_bits_of_separate_ops),
           CHECK_CASE(an_index_outside_of_the_pool_is_an_error),
           CHECK_CASE(steps_of_a_decoder_are_joined))
