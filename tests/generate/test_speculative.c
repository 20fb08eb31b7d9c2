/* tests/generate/test_speculative.c -- speculative decoding: a draft changes the speed of
 * generation, not the text. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/generated.h"
#include "tests/support/models.h"
#include "weft/generate.h"
#include "weft/op.h"

enum { MOST = 64, PROMPT = 24 };

static int32_t prompt[PROMPT];

static void make_prompt(uint32_t seed)
{
    for (int i = 0; i < PROMPT; i++) {
        seed = seed * 1664525u + 1013904223u;
        prompt[i] = (int32_t)((seed >> 8) % 96);
    }
}

/* A model, and the prompt that all cases but one have. */
static weft_model *open_model(const char *family)
{
    make_prompt(1);
    return fixture_model(family);
}

static generated generate(weft_model *model, const weft_generate_options *o)
{
    generated t = {0};
    CHECK_OK(weft_generate(model, NULL, prompt, PROMPT, o, generated_collect, &t, &t.stats));
    return t;
}

static void same(const generated *a, const generated *b, double tolerance)
{
    CHECK_EQ_INT(a->n, b->n);
    CHECK_BYTES(a->ids, b->ids, sizeof a->ids);
    CHECK_EQ_INT(a->stats.reason, b->stats.reason);
    CHECK_EQ_INT(a->stats.detail, b->stats.detail);
    CHECK_EQ_INT(a->stats.tokens, b->stats.tokens);
    for (int i = 0; i < a->n; i++)
        CHECK_CLOSE(a->logprobs[i], b->logprobs[i], tolerance);
}

/* With any draft, of any number of tokens, in pieces, with penalties; logits are of about 1. */
static void greedy_tokens_are_those_without_a_draft(void)
{
    static const char *const pairs[][2] = {{"llama", "qwen3"},
                                           {"gemma3", "llama"},
                                           {"gemma4-dense", "qwen2"},
                                           {"rope-yarn", "mixtral"},
                                           {"ministral", "rope-linear"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        weft_model *model = open_model(pairs[i][0]), *draft = open_model(pairs[i][1]);
        weft_generate_options o = {.max_tokens = 24,
                                   .ignore_eos = true,
                                   .logprobs = true,
                                   .sampler.repetition_penalty = i % 2 ? 1.2 : 0};
        if (model == NULL || draft == NULL)
            continue;
        const generated plain = generate(model, &o);
        CHECK_EQ_INT(plain.stats.drafted, 0);
        for (int64_t n = 1; n <= 6; n += 5) {
            o.draft = draft;
            o.draft_tokens = n;
            o.prefill = n;
            const generated t = generate(model, &o);
            same(&t, &plain, 1e-4);
            CHECK(t.stats.drafted > 0);
            CHECK(t.stats.accepted < t.stats.drafted);
        }
        weft_model_free(model);
        weft_model_free(draft);
    }
}

/* Of its own proposals a model takes all: 39 tokens behind the first, 4 and one more at a time. */
static void a_model_accepts_its_own_proposals(void)
{
    static const char *const of[] = {"llama", "gemma3", "mixtral"};
    for (int i = 0; i < 3; i++) {
        weft_model *model = open_model(of[i]);
        weft_generate_options o = {.max_tokens = 41, .ignore_eos = true};
        if (model == NULL)
            continue;
        const generated plain = generate(model, &o);
        o.draft = model;
        const generated t = generate(model, &o);
        same(&t, &plain, 0);
        CHECK_EQ_INT(t.stats.drafted, 32);
        CHECK_EQ_INT(t.stats.accepted, 32);
        /* 1 + 7 x 5 tokens, then four: three proposals and the one that the round gives. */
        o.max_tokens = 40;
        const generated shorter = generate(model, &o);
        CHECK_EQ_INT(shorter.stats.drafted, 31);
        CHECK_EQ_INT(shorter.stats.accepted, 31);
        weft_model_free(model);
    }
}

/* Small models soon repeat themselves, so proposals from earlier text are accepted. */
static void repeated_sequences_are_proposed(void)
{
    weft_model *model = open_model("llama");
    weft_generate_options o = {.max_tokens = 60, .ignore_eos = true};
    if (model == NULL)
        return;
    const generated plain = generate(model, &o);
    for (int64_t n = 1; n <= 3; n++) {
        o.ngram = n;
        const generated t = generate(model, &o);
        same(&t, &plain, 0);
        CHECK(n > 1 || t.stats.drafted > 0);
    }
    weft_model_free(model);
}

static void a_text_ends_at_the_same_token_as_without_a_draft(void)
{
    weft_model *model = open_model("llama"), *draft = open_model("qwen3");
    weft_generate_options o = {.max_tokens = 40, .ignore_eos = true};
    if (model == NULL || draft == NULL)
        return;
    const generated plain = generate(model, &o);
    int at = 7; /* a token that does not come before */
    for (int i = 0; i < at; i++) {
        if (plain.ids[i] == plain.ids[at])
            at++, i = -1;
    }
    o.stop = &plain.ids[at];
    o.n_stop = 1;
    const generated without = generate(model, &o);
    o.draft = model;
    const generated with = generate(model, &o);
    same(&with, &without, 0);
    CHECK_EQ_INT(with.n, at);
    CHECK_EQ_INT(with.stats.detail, WEFT_FINISH_TOKEN);
    for (int64_t n = 1; n < 8; n++) {
        const generated t = generate(
            model, &(weft_generate_options){.max_tokens = n, .ignore_eos = true, .draft = draft});
        CHECK_EQ_INT(t.n, n);
        CHECK_BYTES(t.ids, plain.ids, (size_t)n * sizeof *t.ids);
        CHECK_EQ_INT(t.stats.detail, WEFT_FINISH_MAX);
    }
    weft_model_free(model);
    weft_model_free(draft);
}

/* ---- the distribution ----------------------------------------------------------------------- */

enum { K = 3, LONGEST = 4, TEXTS = 81 /* K to the LONGEST */ };

/* Probabilities (V) of the token behind n ids, by the sampler. */
static void distribution(weft_model *model, const int32_t *ids, int n,
                         const weft_sampler_options *o, double *out)
{
    const int64_t V = weft_model_info_of(model)->vocab_size;
    float *row = weft_malloc((size_t)V * sizeof *row);
    weft_scope_open();
    weft_array *text = weft_from_data(ids, WEFT_INT32, WEFT_DIMS(1, n));
    weft_array *logits = weft_model_forward(model, text, NULL);
    logits = weft_squeeze(weft_slice_axis(logits, 1, -1, INT64_MAX), 1);
    logits = weft_softmax(weft_sampler_logits(logits, NULL, o), -1);
    CHECK_OK(weft_read(logits, WEFT_FLOAT32, row, V));
    weft_scope_close(NULL);
    for (int64_t v = 0; v < V; v++)
        out[v] = (double)row[v];
    weft_free(row);
}

/* All texts that can be drawn, with their probabilities. */
typedef struct texts {
    int32_t ids[TEXTS][PROMPT + LONGEST];
    double p[TEXTS];
    int seen[TEXTS], n;
} texts;

static void enumerate(weft_model *model, const weft_generate_options *o, texts *all)
{
    const int64_t V = weft_model_info_of(model)->vocab_size;
    double *p = weft_malloc((size_t)V * sizeof *p);
    *all = (texts){.p = {1}, .n = 1};
    memcpy(all->ids[0], prompt, sizeof prompt);
    for (int length = 0; length < o->max_tokens; length++) {
        texts more = {0};
        for (int i = 0; i < all->n; i++) {
            distribution(model, all->ids[i], PROMPT + length, &o->sampler, p);
            for (int64_t v = 0; v < V; v++) {
                if (p[v] <= 0 || !CHECK(more.n < TEXTS))
                    continue;
                memcpy(more.ids[more.n], all->ids[i], sizeof more.ids[0]);
                more.ids[more.n][PROMPT + length] = (int32_t)v;
                more.p[more.n++] = all->p[i] * p[v];
            }
        }
        *all = more;
    }
    weft_free(p);
}

static void count(texts *all, const generated *t)
{
    for (int i = 0; i < all->n; i++) {
        if (memcmp(all->ids[i] + PROMPT, t->ids, (size_t)t->n * sizeof *t->ids) == 0) {
            all->seen[i]++;
            return;
        }
    }
    CHECK_FAIL("a text that cannot be: %d %d %d", t->ids[0], t->ids[1], t->ids[2]);
}

/* Counts of all texts of a few tokens, each of the three most probable ones, against expected
 * counts. Beyond `bound` once in some 30,000 times; the seeds are fixed: no run is unlucky. */
static void chi_square(weft_model *model, weft_generate_options o, int runs, double bound)
{
    texts all;
    int64_t drafted = 0, accepted = 0;
    enumerate(model, &o, &all);
    for (int i = 0; i < runs; i++) {
        o.seed = (uint64_t)i * 7919;
        const generated t = generate(model, &o);
        CHECK_EQ_INT(t.n, o.max_tokens);
        count(&all, &t);
        drafted += t.stats.drafted;
        accepted += t.stats.accepted;
    }
    double sum = 0;
    for (int i = 0; i < all.n; i++) {
        const double expected = all.p[i] * runs, off = (double)all.seen[i] - expected;
        sum += off * off / expected;
    }
    printf("  chi-square %.1f of %d degrees; %lld of %lld proposals taken\n", sum, all.n - 1,
           (long long)accepted, (long long)drafted);
    CHECK(sum < bound);
    CHECK(drafted > 0);
    CHECK(accepted > 0 && accepted < drafted);
}

/* The same model without a part of its last layer: it sometimes proposes other tokens. */
static weft_model *worse_model(const char *family)
{
    weft_model *model = open_model(family);
    if (model == NULL)
        return NULL;
    weft_array **weight =
        weft_nn_find(weft_model_module(model), "model.layers.1.mlp.down_proj.weight");
    weft_scope_open();
    CHECK(weight != NULL && weft_set(weight, weft_scale(*weight, 0.3)) == WEFT_OK);
    weft_scope_close(NULL);
    return model;
}

static bool stands_later(int i)
{
    for (int j = i + 1; j < PROMPT; j++) {
        if (prompt[j] == prompt[i])
            return true;
    }
    return false;
}

/* Whether a possible next token occurs in the prompt, and its successor there is possible too: a
 * draft from the prompt proposes it, and it may be accepted. */
static bool repeats(weft_model *model, const weft_sampler_options *o)
{
    const size_t V = (size_t)weft_model_info_of(model)->vocab_size;
    double *p = weft_malloc(2 * V * sizeof *p);
    bool found = false;
    int32_t ids[PROMPT + 1];
    memcpy(ids, prompt, sizeof prompt);
    distribution(model, ids, PROMPT, o, p);
    for (int i = PROMPT - 2; i >= 0 && !found; i--) {
        if (stands_later(i))
            continue;
        ids[PROMPT] = prompt[i];
        if (p[prompt[i]] > 0)
            distribution(model, ids, PROMPT + 1, o, p + V);
        found = p[prompt[i]] > 0 && p[V + (size_t)prompt[i + 1]] > 0;
    }
    weft_free(p);
    return found;
}

static void drawn_texts_keep_their_distribution(void)
{
    weft_model *model = open_model("rope-linear"), *draft = worse_model("rope-linear");
    if (model == NULL || draft == NULL)
        return;
    weft_generate_options o = {.sampler = {.temperature = 5, .top_k = K},
                               .max_tokens = 4,
                               .ignore_eos = true,
                               .draft = draft};
    chi_square(model, o, 600, 140); /* 81 texts */
    o.draft = NULL;
    o.max_tokens = 3;
    o.ngram = 1;
    for (uint32_t seed = 2; seed < 1000 && !repeats(model, &o.sampler); seed++)
        make_prompt(seed);
    chi_square(model, o, 400, 65); /* 27 */
    weft_model_free(model);
    weft_model_free(draft);
}

/* A draft with the model's own probabilities, but for their last bits. */
static void proposals_of_an_equal_draft_are_always_accepted(void)
{
    weft_model *model = open_model("llama");
    if (model == NULL)
        return;
    const weft_generate_options o = {.sampler = {.temperature = 1.3, .top_p = 0.95},
                                     .max_tokens = 41,
                                     .ignore_eos = true,
                                     .seed = 5,
                                     .draft = model};
    const generated a = generate(model, &o), b = generate(model, &o);
    same(&a, &b, 0); /* the same seed, the same text */
    CHECK(a.stats.accepted >= a.stats.drafted - 1);
    weft_model_free(model);
}

/* For all kinds of caches, with compiled steps or not. */
static void caches_and_compiling_change_nothing(void)
{
    weft_model *model = open_model("llama"), *draft = open_model("qwen3");
    weft_generate_options o = {.max_tokens = 40, .ignore_eos = true, .logprobs = true};
    if (model == NULL || draft == NULL)
        return;
    const generated plain = generate(model, &o);
    for (int way = 0; way < 8; way++) {
        o.no_compile = way & 1;
        o.no_cache = way & 2;
        o.draft = way & 4 ? NULL : draft;
        o.ngram = way & 4 ? 1 : 0;
        const generated t = generate(model, &o);
        same(&t, &plain, 1e-4);
        CHECK(t.stats.drafted > 0);
    }
    weft_model_free(model);
    weft_model_free(draft);
}

static void impossible_drafts_are_refused(void)
{
    weft_model *model = open_model("llama"), *other = open_model("mixtral");
    weft_generator *g = NULL;
    if (model == NULL || other == NULL)
        return;
    weft_generate_options o = {.draft = other};
    CHECK_STATUS(weft_generator_new(model, prompt, PROMPT, &o, &g), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "vocabulary");
    o = (weft_generate_options){.draft = model, .ngram = 2};
    CHECK_STATUS(weft_generator_new(model, prompt, PROMPT, &o, &g), WEFT_INVALID);
    o = (weft_generate_options){.draft = model, .draft_tokens = -1};
    CHECK_STATUS(weft_generator_new(model, prompt, PROMPT, &o, &g), WEFT_INVALID);
    weft_model_free(model);
    weft_model_free(other);
}

/* Caches that forget the first tokens keep enough to forget the last. */
static void bounded_caches_give_the_same(void)
{
    weft_model *model = open_model("llama"), *draft = open_model("qwen3");
    weft_generate_options o = {
        .max_tokens = 60, .ignore_eos = true, .cache = {.max_context = 24, .sink_tokens = 2}};
    if (model == NULL || draft == NULL)
        return;
    const generated plain = generate(model, &o);
    o.draft = draft;
    const generated t = generate(model, &o);
    same(&t, &plain, 0);
    CHECK(t.stats.accepted < t.stats.drafted);
    weft_model_free(model);
    weft_model_free(draft);
}

CHECK_MAIN("speculative", CHECK_CASE(greedy_tokens_are_those_without_a_draft),
           CHECK_CASE(a_model_accepts_its_own_proposals),
           CHECK_CASE(repeated_sequences_are_proposed),
           CHECK_CASE(a_text_ends_at_the_same_token_as_without_a_draft),
           CHECK_CASE(drawn_texts_keep_their_distribution),
           CHECK_CASE(proposals_of_an_equal_draft_are_always_accepted),
           CHECK_CASE(caches_and_compiling_change_nothing),
           CHECK_CASE(impossible_drafts_are_refused), CHECK_CASE(bounded_caches_give_the_same))
