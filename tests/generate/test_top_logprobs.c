/* tests/generate/test_top_logprobs.c -- weft_generate_options.top_logprobs: the most probable
 * tokens of each step, alone, in a batch and with stop texts. */
#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"
#include "weft/batch.h"
#include "weft/memory.h"
#include "weft/state.h"

enum { K = 5, MOST = 24 };

typedef struct seen {
    int32_t ids[MOST];
    weft_top_logprob top[MOST][K];
    double logprobs[MOST];
    int n;
} seen;

static bool collect(void *context, const weft_generated *token)
{
    seen *s = context;
    if (token->id < 0)
        return true;
    if (!CHECK_EQ_INT(token->n_top, K) || s->n == MOST)
        return false;
    memcpy(s->top[s->n], token->top, sizeof s->top[0]);
    s->logprobs[s->n] = token->logprob;
    s->ids[s->n++] = token->id;
    return true;
}

static const int32_t prompt[] = {5, 17, 300, 41};
enum { N = sizeof prompt / sizeof *prompt };

static const weft_generate_options basic = {
    .max_tokens = MOST, .ignore_eos = true, .logprobs = true, .top_logprobs = K};

/* The k-th largest of log softmax(logits), in float64. */
static void check_against_logits(const weft_top_logprob *top, const float *logits, int64_t V)
{
    double sum = 0;
    for (int64_t i = 0; i < V; i++)
        sum += exp((double)logits[i]);
    for (int k = 0; k < K; k++) {
        int64_t larger = 0;
        CHECK(top[k].id >= 0 && top[k].id < V);
        for (int64_t i = 0; i < V; i++)
            larger += logits[i] > logits[top[k].id];
        CHECK_EQ_INT(larger, k);
        /* sums of exp in float32 */
        CHECK_CLOSE(top[k].logprob, (double)logits[top[k].id] - log(sum), 1e-5);
    }
}

static void top_logprobs_are_the_largest(void)
{
    weft_model *model;
    weft_tokenizer *tokenizer;
    seen s = {0};
    weft_classified c = {0};
    if (!storyteller(&model, &tokenizer))
        return;
    CHECK_OK(weft_generate(model, tokenizer, prompt, N, &basic, collect, &s, NULL));
    CHECK_EQ_INT(s.n, MOST);
    for (int step = 0; step < 3; step++) {
        int32_t ids[N + 3];
        memcpy(ids, prompt, sizeof prompt);
        memcpy(ids + N, s.ids, (size_t)step * sizeof *ids);
        const weft_prompt p = {ids, (size_t)(N + step)};
        const weft_classify_options o = {.logits = true};
        if (CHECK_OK(weft_classify(model, &p, 1, &o, &c)) && CHECK(c.logits != NULL))
            check_against_logits(s.top[step], c.logits, weft_model_info_of(model)->vocab_size);
        weft_classified_free(&c, 1);
    }
}

/* All other ways to generate, bit for bit if the logits are the same. */
static void check_same(const seen *a, const seen *b, double tolerance)
{
    CHECK_EQ_INT(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        CHECK_EQ_INT(a->ids[i], b->ids[i]);
        CHECK_EQ_INT(a->top[i][0].id, a->ids[i]); /* greedy */
        CHECK_CLOSE(a->top[i][0].logprob, a->logprobs[i], 0);
        for (int k = 0; k < K; k++) {
            CHECK_EQ_INT(a->top[i][k].id, b->top[i][k].id);
            CHECK_CLOSE(a->top[i][k].logprob, b->top[i][k].logprob, tolerance);
        }
    }
}

static void other_paths_give_the_same_logprobs(void)
{
    static const char *const stops[] = {"\x01never\x01", "e e"};
    weft_model *model;
    weft_tokenizer *tokenizer;
    seen alone = {0}, grouped = {0}, held = {0}, batched = {0};
    weft_generated_row rows[2] = {{0}};
    bool more = true;
    if (!storyteller(&model, &tokenizer))
        return;
    weft_generate_options o = basic;
    CHECK_OK(weft_generate(model, tokenizer, prompt, N, &o, collect, &alone, NULL));
    o.tokens_per_eval = 4;
    CHECK_OK(weft_generate(model, tokenizer, prompt, N, &o, collect, &grouped, NULL));
    check_same(&grouped, &alone, 0);
    o.stop_texts = stops;
    o.n_stop_texts = 2;
    CHECK_OK(weft_generate(model, tokenizer, prompt, N, &o, collect, &held, NULL));
    alone.n = held.n < alone.n ? held.n : alone.n; /* it may have stopped */
    check_same(&held, &alone, 0);
    weft_running_batch *b = NULL;
    const weft_generate_options few = {.max_tokens = 9};
    const weft_generate_request request = {.prompt = {prompt, N}, .options = &basic},
                                other = {.prompt = {prompt, N - 1}, .options = &few};
    CHECK_OK(weft_running_batch_new(model, tokenizer, NULL, &b));
    CHECK_OK(weft_running_batch_add(b, &request, collect, &batched, &rows[0]));
    CHECK_OK(weft_running_batch_add(b, &other, NULL, NULL, &rows[1]));
    while (more && CHECK_OK(weft_running_batch_advance(b, &more)))
        continue;
    alone.n = batched.n;
    CHECK_EQ_INT(batched.n, MOST);
    check_same(&batched, &alone, 1e-4); /* kernels for several rows add in another order */
    weft_running_batch_free(b);
    weft_generated_rows_free(rows, 2);
}

static void bounds_and_combinations_are_checked(void)
{
    weft_model *model;
    weft_tokenizer *tokenizer;
    seen s = {0};
    if (!storyteller(&model, &tokenizer))
        return;
    weft_generate_options o = basic;
    o.top_logprobs = WEFT_TOP_LOGPROBS + 1;
    CHECK_STATUS(weft_generate(model, NULL, prompt, N, &o, collect, &s, NULL), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "top_logprobs");
    o.top_logprobs = -1;
    CHECK_STATUS(weft_generate(model, NULL, prompt, N, &o, collect, &s, NULL), WEFT_INVALID);
    o = basic;
    o.logprobs = false;
    CHECK_STATUS(weft_generate(model, NULL, prompt, N, &o, collect, &s, NULL), WEFT_INVALID);
    o = basic;
    o.ngram = 2;
    CHECK_STATUS(weft_generate(model, NULL, prompt, N, &o, collect, &s, NULL), WEFT_UNSUPPORTED);
    weft_generator *g = NULL;
    int32_t id;
    CHECK_OK(weft_generator_new(model, prompt, N, &basic, &g));
    CHECK_OK(weft_generator_next(g, &id, NULL));
    CHECK_STATUS(weft_state_save(g, "no/such/folder/state", NULL), WEFT_UNSUPPORTED);
    weft_generator_free(g);
}

CHECK_MAIN("top_logprobs", CHECK_CASE(top_logprobs_are_the_largest),
           CHECK_CASE(other_paths_give_the_same_logprobs),
           CHECK_CASE(bounds_and_combinations_are_checked))
