/* tests/generate/test_shift.c -- texts that are read again: with weft_generate_options.shift, those
 * beyond the positions equal those of a generation from the first and the last tokens; with
 * longrope, where its factors switch. */
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/generate.h"
#include "weft/memory.h"
#include "weft/prompt_cache.h"
#include "weft/state.h"

enum { POSITIONS = 512, PROMPT = 20, TOKENS = 900, SINKS = 4 };

typedef struct text {
    int32_t ids[4 * POSITIONS];
    double logprobs[4 * POSITIONS];
    size_t n;
} text;

static bool keep(void *context, const weft_generated *token)
{
    text *t = context;
    if (token->id >= 0) {
        t->logprobs[t->n] = token->logprob;
        t->ids[t->n++] = token->id;
    }
    return true;
}

static weft_generate_options options_of(int64_t max_tokens, bool shift)
{
    return (weft_generate_options){.max_tokens = max_tokens,
                                   .ignore_eos = true,
                                   .shift = shift,
                                   .logprobs = true,
                                   .tokens_per_eval = 3};
}

/* The prompt, with the text behind it that single generations to the end of the positions give. */
static void by_hand(weft_model *model, const int32_t *prompt, size_t n, int64_t sinks,
                    int64_t positions, text *out)
{
    int32_t whole[4 * POSITIONS];
    size_t all = n;
    memcpy(whole, prompt, n * sizeof *prompt);
    out->n = 0;
    while (out->n < TOKENS) {
        int32_t start[POSITIONS];
        size_t m = all;
        if (m <= (size_t)positions && out->n == 0) {
            memcpy(start, whole, m * sizeof *start);
        } else {
            const size_t last = (size_t)(positions - sinks) / 2;
            m = (size_t)sinks + last;
            memcpy(start, whole, (size_t)sinks * sizeof *start);
            memcpy(start + sinks, whole + all - last, last * sizeof *start);
        }
        const size_t before = out->n;
        weft_generate_options o = options_of((int64_t)(TOKENS - out->n), false);
        o.positions = positions;
        if (!CHECK_OK(weft_generate(model, NULL, start, m, &o, keep, out, NULL)) ||
            !CHECK(out->n > before))
            return;
        memcpy(whole + all, out->ids + before, (out->n - before) * sizeof *whole);
        all += out->n - before;
    }
}

static void check_same(const text *a, const text *b)
{
    if (CHECK_EQ_INT(a->n, b->n)) {
        CHECK_BYTES(a->ids, b->ids, a->n * sizeof *a->ids);
        CHECK_BYTES(a->logprobs, b->logprobs, a->n * sizeof *a->logprobs);
    }
}

static void texts_continue_beyond_the_positions(void)
{
    static const int64_t sinks[] = {0, 7, -1}, numbers[] = {SINKS, 7, 0};
    static text got, expected;
    weft_model *model = fixture_model("llama");
    int32_t prompt[POSITIONS + 200];
    if (model == NULL || !CHECK_EQ_INT(weft_model_info_of(model)->max_positions, POSITIONS))
        return;
    for (int i = 0; i < POSITIONS + 200; i++)
        prompt[i] = 3 + (i * 31) % 80;
    for (int i = 0; i < 4; i++) { /* the last: a prompt that is too long itself */
        const size_t n = i < 3 ? PROMPT : POSITIONS + 200;
        weft_generate_options o = options_of(TOKENS, true);
        weft_generate_stats stats;
        o.cache.sink_tokens = sinks[i % 3];
        got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, n, &o, keep, &got, &stats));
        by_hand(model, prompt, n, numbers[i % 3], POSITIONS, &expected);
        check_same(&got, &expected);
        CHECK_EQ_INT(stats.tokens, TOKENS);
        CHECK_EQ_INT(stats.detail, WEFT_FINISH_MAX);
        CHECK(stats.shifts >= 2 && stats.shifts <= 3);
        CHECK_EQ_INT(stats.prompt_tokens, i < 3 ? PROMPT : SINKS + (POSITIONS - SINKS) / 2);
        CHECK(stats.decode_per_second > 0 && stats.decode_seconds > 0);
    }
    /* Without it the text ends there, and too long a prompt is refused. */
    weft_generate_options o = options_of(TOKENS, false);
    weft_generate_stats stats;
    got.n = 0;
    CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, &o, keep, &got, &stats));
    CHECK_EQ_INT(got.n, POSITIONS - PROMPT + 1);
    CHECK(stats.detail == WEFT_FINISH_POSITIONS && stats.shifts == 0);
    CHECK_STATUS(weft_generate(model, NULL, prompt, POSITIONS + 1, &o, keep, &got, &stats),
                 WEFT_INVALID);
    /* Of fewer positions, and of more than the model has. */
    for (int64_t positions = 300; positions <= 900; positions += 600) {
        const int64_t most = positions < POSITIONS ? positions : POSITIONS;
        o = options_of(TOKENS, false);
        o.positions = positions;
        got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, &o, keep, &got, &stats));
        CHECK_EQ_INT(got.n, most - PROMPT + 1);
        CHECK_EQ_INT(stats.detail, WEFT_FINISH_POSITIONS);
        CHECK_STATUS(weft_generate(model, NULL, prompt, (size_t)most + 1, &o, keep, &got, &stats),
                     WEFT_INVALID);
        o.shift = true;
        got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, &o, keep, &got, &stats));
        by_hand(model, prompt, PROMPT, SINKS, most, &expected);
        check_same(&got, &expected);
    }
    o.positions = -1;
    CHECK_STATUS(weft_generate(model, NULL, prompt, PROMPT, &o, keep, &got, &stats), WEFT_INVALID);
    weft_model_free(model);
}

/* Texts of a batch shift independently; the same seed draws the same text. */
static void rows_continue_beyond_the_positions(void)
{
    static text alone;
    weft_model *model = fixture_model("llama");
    int32_t prompt[PROMPT];
    if (model == NULL)
        return;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 3 + (i * 31) % 80;
    weft_generate_options o = options_of(600, true);
    o.sampler.temperature = 1;
    o.seed = 5;
    const weft_generate_options few = options_of(5, false);
    const weft_generate_request requests[] = {{.prompt = {prompt, PROMPT}, .options = &o},
                                              {.prompt = {prompt, PROMPT}, .options = &few}};
    weft_generated_row rows[2];
    alone.n = 0;
    CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, &o, keep, &alone, NULL));
    CHECK_EQ_INT(alone.n, 600);
    if (CHECK_OK(weft_generate_batch(model, NULL, requests, 2, NULL, NULL, NULL, rows))) {
        CHECK_EQ_INT(rows[0].n, 600);
        CHECK_EQ_INT(rows[0].stats.shifts, 1);
        CHECK_BYTES(rows[0].ids, alone.ids, 600 * sizeof *alone.ids);
        CHECK_EQ_INT(rows[1].n, 5);
    }
    weft_generated_rows_free(rows, 2);
    weft_model_free(model);
}

/* Compares requests in a batch with the same ones alone. Those in the batch's caches have no
 * compiled step of their own. */
static void check_together(weft_model *model, const weft_generate_request *requests, size_t n,
                           int64_t tokens)
{
    static text alone;
    weft_generated_row rows[8];
    const weft_generate_batch_options batch = {.rows = 3, .batch.tokens = tokens};
    if (!CHECK_OK(weft_generate_batch(model, NULL, requests, n, &batch, NULL, NULL, rows)))
        return;
    for (size_t i = 0; i < n; i++) {
        weft_generate_options o = *requests[i].options;
        weft_generate_stats stats;
        alone.n = 0;
        o.prompt_cache = NULL;
        CHECK_OK(weft_generate(model, NULL, requests[i].prompt.ids, requests[i].prompt.n, &o, keep,
                               &alone, &stats));
        CHECK_OK(rows[i].status);
        if (CHECK_EQ_INT(rows[i].n, alone.n))
            CHECK_BYTES(rows[i].ids, alone.ids, alone.n * sizeof *alone.ids);
        CHECK_EQ_INT(rows[i].stats.shifts, stats.shifts);
        CHECK_EQ_INT(rows[i].stats.prompt_tokens, stats.prompt_tokens);
        CHECK_EQ_INT(rows[i].stats.compiles, 0);
        CHECK(rows[i].stats.tokens == stats.tokens && rows[i].stats.detail == stats.detail);
    }
    weft_generated_rows_free(rows, n);
}

/* Greedy rows have a step enqueued ahead, except before a shift; prompts are shorter and longer
 * than the context; each row shifts at other steps than the others. */
static void shifted_rows_are_computed_together(void)
{
    enum { N = 5, FEW = 48 };
    static const size_t lengths[N] = {7, 19, 2, FEW, 3 * FEW};
    weft_model *model = fixture_model("llama");
    weft_prompt_cache *cache = NULL;
    int32_t prompt[N + 3 * FEW];
    weft_generate_request requests[N];
    weft_generate_options options[N];
    if (model == NULL || !CHECK_OK(weft_prompt_cache_new(
                             model, &(weft_prompt_cache_options){.min_tokens = 2}, &cache)))
        return;
    for (int i = 0; i < N + 3 * FEW; i++)
        prompt[i] = 3 + (i * i * 31) % 80;
    for (int turn = 0; turn < 3; turn++) { /* greedy, drawn, with a prompt cache */
        for (int i = 0; i < N; i++) {
            options[i] = options_of(60 + 40 * i, true);
            options[i].logprobs = false;
            options[i].positions = FEW;
            options[i].sampler.temperature = turn == 1 ? 1 : 0;
            options[i].seed = 7 + (uint64_t)i;
            options[i].prompt_cache = turn == 2 ? cache : NULL;
            requests[i] =
                (weft_generate_request){.prompt = {prompt + i, lengths[i]}, .options = &options[i]};
        }
        check_together(model, requests, N, 0);
    }
    weft_prompt_cache_free(cache);
    weft_model_free(model);
}

/* Prompts end before, at and after the length from which on longrope's other factors apply (24).
 * The texts of rows that grow beyond it are processed again, in pieces or with other prompts. */
static void rows_grow_beyond_the_switch_of_longrope(void)
{
    enum { N = 8, LONGEST = 30 };
    static const size_t lengths[N] = {7, 23, 1, 24, 25, 2, LONGEST, 22};
    static const int64_t pieces[] = {0, 5, 64}; /* tokens of a forward pass */
    weft_model *model = fixture_model("phi3-longrope");
    int32_t prompt[N + LONGEST];
    weft_generate_request requests[N];
    weft_generate_options options[N];
    weft_generate_stats alone;
    if (model == NULL || !CHECK_EQ_INT(weft_model_info_of(model)->renews_at, 24))
        return;
    for (int i = 0; i < N + LONGEST; i++)
        prompt[i] = 3 + (i * i * 31) % 80;
    for (int turn = 0; turn < 6; turn++) {
        for (int i = 0; i < N; i++) {
            options[i] = options_of(12 + 4 * i, false);
            options[i].logprobs = false;
            options[i].sampler.temperature = turn >= 3 ? 1 : 0; /* greedy: steps run ahead */
            options[i].seed = 7 + (uint64_t)i;
            requests[i] =
                (weft_generate_request){.prompt = {prompt + i, lengths[i]}, .options = &options[i]};
        }
        check_together(model, requests, N, pieces[turn % 3]);
    }
    CHECK_OK(weft_generate(model, NULL, prompt, 7, options, NULL, NULL, &alone));
    CHECK(alone.compiles > 0);
    weft_model_free(model);
}

/* A probe that cancels after some chunks of text. */
typedef struct stopper {
    weft_cancel *cancel;
    int chunks;
} stopper;

static void stop_at_chunk(void *context, const weft_probe_event *event)
{
    stopper *s = context;
    if (event->token < 0 && --s->chunks == 0)
        weft_cancel_set(s->cancel);
}

/* The tokens until the end; how many there were. */
static size_t rest(weft_generator *g, int32_t *ids, double *logprobs)
{
    size_t n = 0;
    while (n < 4 * POSITIONS && CHECK_OK(weft_generator_next(g, &ids[n], &logprobs[n])) &&
           ids[n] >= 0)
        n++;
    return n;
}

/* A text of 20 tokens that is read again behind 24, and one of 40, interrupted after their first
 * chunk of 18 with the other factors: a saved state continues like the same text without the
 * interruption, and the keys serve no shorter text. */
static void longrope_continues_after_an_interruption(void)
{
    static const struct {
        size_t n;
        int chunks;
    } all[] = {{20, 2}, {40, 1}};
    static text expected, got;
    const char *path = check_temporary("interrupted.safetensors");
    weft_model *model = fixture_model("phi3-longrope");
    int32_t prompt[40];
    for (int i = 0; i < 40; i++)
        prompt[i] = 3 + (i * i * 31) % 80;
    for (int i = 0; model != NULL && i < 2; i++) {
        stopper s = {weft_cancel_new(), all[i].chunks};
        const weft_probe probe = {WEFT_PROBE_CACHE, stop_at_chunk, &s};
        weft_generate_options o = options_of(30, false);
        weft_prompt_cache *cache = NULL;
        weft_generator *g = NULL;
        o.prefill = 18;
        expected.n = got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, all[i].n, &o, keep, &expected, NULL));
        CHECK_OK(weft_prompt_cache_new(model, NULL, &cache));
        o.prompt_cache = cache;
        o.probe = &probe;
        o.cancel = s.cancel;
        CHECK_OK(weft_generator_new(model, prompt, all[i].n, &o, &g));
        got.n = rest(g, got.ids, got.logprobs);
        CHECK_EQ_INT(got.n, all[i].n == 20 ? 5 : 0);
        CHECK_EQ_INT(weft_generator_stats(g).reason, WEFT_FINISH_CANCELLED);
        CHECK_OK(weft_state_save(g, path, NULL));
        weft_generator_free(g);
        if (CHECK_OK(weft_state_load(model, path, NULL, NULL, &g)))
            got.n += rest(g, got.ids + got.n, got.logprobs + got.n);
        weft_generator_free(g);
        CHECK_EQ_INT(got.n, expected.n);
        CHECK_BYTES(got.ids, expected.ids, expected.n * sizeof *got.ids);
        CHECK_BYTES(got.logprobs, expected.logprobs, expected.n * sizeof *got.logprobs);

        o = options_of(5, false);
        expected.n = got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, 20, &o, keep, &expected, NULL));
        o.prompt_cache = cache;
        CHECK_OK(weft_generate(model, NULL, prompt, 20, &o, keep, &got, NULL));
        CHECK_BYTES(got.ids, expected.ids, expected.n * sizeof *got.ids);
        for (size_t k = 0; k < expected.n; k++) /* other factors change them by 0.3 and more */
            CHECK_CLOSE(got.logprobs[k], expected.logprobs[k], 1e-5);
        weft_prompt_cache_free(cache);
        weft_cancel_free(s.cancel);
    }
    weft_model_free(model);
}

/* With proposed tokens, of the text or of a draft with longrope, and prompts on both sides. */
static void proposals_cross_the_switch_of_longrope(void)
{
    static const size_t lengths[] = {7, 23, 24, 25, 40};
    static text expected, got;
    weft_model *model = fixture_model("phi3-longrope"), *draft = fixture_model("phi3-longrope");
    int32_t prompt[40];
    for (int i = 0; i < 40; i++)
        prompt[i] = 3 + i % 5;
    for (size_t i = 0; model != NULL && draft != NULL && i < 10; i++) {
        weft_generate_options o = options_of(40, false);
        weft_generate_stats stats;
        expected.n = got.n = 0;
        CHECK_OK(weft_generate(model, NULL, prompt, lengths[i / 2], &o, keep, &expected, NULL));
        o.prefill = 6;
        o.draft = i % 2 ? draft : NULL;
        o.ngram = i % 2 ? 0 : 1;
        CHECK_OK(weft_generate(model, NULL, prompt, lengths[i / 2], &o, keep, &got, &stats));
        if (CHECK_EQ_INT(got.n, expected.n))
            CHECK_BYTES(got.ids, expected.ids, expected.n * sizeof *got.ids);
        CHECK(stats.accepted > 0);
    }
    weft_model_free(model);
    weft_model_free(draft);
}

static void bad_shifts_are_refused(void)
{
    static text got;
    weft_model *model = NULL;
    weft_tokenizer *tokenizer = NULL;
    weft_constraint *constraint = NULL;
    const int32_t prompt[] = {258, 609};
    if (!storyteller(&model, &tokenizer) ||
        !CHECK_OK(weft_constraint_new(tokenizer, NULL, 0, "any JSON", NULL, &constraint)))
        return;
    weft_generate_options o = {.max_tokens = 4, .shift = true, .constraint = constraint};
    CHECK_STATUS(weft_generate(model, tokenizer, prompt, 2, &o, keep, &got, NULL),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "not with a constraint");
    weft_constraint_free(constraint);
    o = (weft_generate_options){.max_tokens = 4, .shift = true, .cache.sink_tokens = 1023};
    CHECK_STATUS(weft_generate(model, tokenizer, prompt, 2, &o, keep, &got, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "leave none of 1024 positions");
}

typedef struct armed {
    size_t n, at;   /* tokens; with `at` of them an allocation is to fail */
    uint64_t which; /* of the allocations that follow, from 1; 0: none */
} armed;

static bool arm(void *context, const weft_generated *token)
{
    armed *a = context;
    a->n += token->id >= 0;
    if (token->id >= 0 && a->n == a->at)
        weft_memory_fail_at(a->which);
    return true;
}

/* Memory fails once after the last token before a shift, at each allocation in turn: what the first
 * generator took is counted once. */
static void failed_shifts_keep_the_counts(void)
{
    weft_model *model = fixture_model("llama");
    int32_t prompt[PROMPT];
    if (model == NULL)
        return;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 3 + (i * 31) % 80;
    armed a = {0};
    weft_generate_options o = options_of(TOKENS, false);
    weft_generate_stats expected, stats;
    o.ngram = 2;
    CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, &o, arm, &a, &expected));
    CHECK_EQ_INT(expected.detail, WEFT_FINISH_POSITIONS);
    CHECK(expected.drafted > 0);
    const size_t last = a.n;
    o.shift = true;
    o.max_tokens = (int64_t)last + 1;
    int failures = 0;
    bool ended = false;
    for (uint64_t which = 1; which < 400 && !ended; which += check_few() ? 5 : 1) {
        a = (armed){.at = last, .which = which};
        const weft_status status = weft_generate(model, NULL, prompt, PROMPT, &o, arm, &a, &stats);
        ended = weft_memory_fail_at(0) < which;
        if (status == WEFT_OK) {
            CHECK_EQ_INT(stats.tokens, last + 1);
            CHECK_EQ_INT(stats.shifts, 1);
            continue;
        }
        failures++;
        if (!CHECK_STATUS(status, WEFT_MEMORY))
            CHECK_FAIL("allocation %llu: %s", (unsigned long long)which, weft_error_message());
        CHECK_EQ_INT(stats.reason, WEFT_FINISH_ERROR);
        CHECK_EQ_INT(stats.tokens, last);
        CHECK(stats.shifts <= 1);
        if (stats.shifts == 0) {
            CHECK_EQ_INT(stats.drafted, expected.drafted);
            CHECK_EQ_INT(stats.accepted, expected.accepted);
            CHECK_EQ_INT(stats.compiles, expected.compiles);
        }
        CHECK_EQ_INT(stats.prompt_tokens, PROMPT);
    }
    CHECK(ended && failures > (check_few() ? 2 : 10));
    weft_model_free(model);
}

CHECK_MAIN("shift", CHECK_CASE(texts_continue_beyond_the_positions),
           CHECK_CASE(rows_continue_beyond_the_positions),
           CHECK_CASE(shifted_rows_are_computed_together),
           CHECK_CASE(rows_grow_beyond_the_switch_of_longrope),
           CHECK_CASE(longrope_continues_after_an_interruption),
           CHECK_CASE(proposals_cross_the_switch_of_longrope),
           CHECK_CASE(failed_shifts_keep_the_counts), CHECK_CASE(bad_shifts_are_refused))
