/* tests/generate/test_batch.c -- weft/batch.h: prompts of different lengths give the same results
 * together as alone. */
#include "weft/batch.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/models.h"

enum { N = 9, LONGEST = 40 };

static const char *const families[] = {"llama",      "mistral",      "qwen2",        "qwen3",
                                       "gemma2",     "gemma3",       "gemma4-dense", "mixtral",
                                       "ministral3", "rope-dynamic", "rope-longrope"};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Prompts of 1 to 40 ids. */
typedef struct some {
    int32_t ids[N][LONGEST];
    weft_prompt prompts[N];
} some;

static void make_prompts(weft_model *model, some *s)
{
    static const size_t lengths[N] = {7, 40, 1, 13, 13, 2, 39, 21, 5};
    const uint32_t V = (uint32_t)weft_model_info_of(model)->vocab_size;
    uint32_t state = 12345;
    for (int i = 0; i < N; i++) {
        for (size_t j = 0; j < LONGEST; j++) {
            state = state * 1664525u + 1013904223u;
            s->ids[i][j] = (int32_t)((state >> 8) % V);
        }
        const size_t most = (size_t)weft_model_info_of(model)->max_positions;
        s->prompts[i] = (weft_prompt){s->ids[i], lengths[i] < most ? lengths[i] : most};
    }
}

/* Logits (n, V) of one prompt by itself, all positions, in memory of the caller. */
static void forward(weft_model *model, const weft_prompt *p, float *out)
{
    const int64_t L = (int64_t)p->n, V = weft_model_info_of(model)->vocab_size;
    weft_scope_open();
    weft_array *tokens = weft_from_data(p->ids, WEFT_INT32, WEFT_DIMS(1, L));
    weft_array *logits = weft_model_forward(model, tokens, NULL);
    CHECK_OK(weft_read(logits, WEFT_FLOAT32, out, L * V));
    weft_scope_close(NULL);
}

static size_t vocabulary(weft_model *model)
{
    return (size_t)weft_model_info_of(model)->vocab_size;
}

static double log_probability(const float *logits, size_t V, int32_t id)
{
    double top = -INFINITY, sum = 0;
    for (size_t v = 0; v < V; v++)
        top = fmax(top, (double)logits[v]);
    for (size_t v = 0; v < V; v++)
        sum += exp((double)logits[v] - top);
    return (double)logits[id] - top - log(sum);
}

static int32_t favorite(const float *logits, size_t V)
{
    size_t best = 0;
    for (size_t v = 1; v < V; v++)
        best = logits[v] > logits[best] ? v : best;
    return (int32_t)best;
}

/* ---- classify ------------------------------------------------------------------------------- */

static void compare_with_alone(weft_model *model, const weft_prompt *p, const weft_classified *r)
{
    const size_t V = vocabulary(model);
    float *all = weft_malloc(p->n * V * sizeof *all);
    forward(model, p, all);
    const float *last = all + (p->n - 1) * V;
    double worst = 0;
    if (!CHECK_OK(r->status)) {
        weft_free(all);
        return;
    }
    for (size_t v = 0; v < V; v++)
        worst = fmax(worst, fabs((double)last[v] - (double)r->logits[v]));
    CHECK_CLOSE(worst, 0, 2e-5); /* logits of about 1; the sums are in another order */
    CHECK_EQ_INT(r->token, favorite(last, V));
    CHECK_CLOSE(r->logprob, log_probability(last, V, r->token), 2e-5);
    weft_free(all);
}

static void each_prompt_gets_its_own_logits(void)
{
    for (int f = 0; f < N_FAMILIES; f += check_few() ? 4 : 1) {
        weft_model *model = fixture_model(families[f]);
        some s;
        weft_classified results[N];
        if (model == NULL)
            continue;
        make_prompts(model, &s);
        /* All together; few at a time; the long ones in pieces. */
        const int64_t tokens[] = {0, 50, 16};
        for (int t = 0; t < 3; t++) {
            const weft_classify_options o = {.logits = true, .batch.tokens = tokens[t]};
            /* In pieces a rotation that depends on the length is another one. */
            if (strncmp(families[f], "rope", 4) == 0 && tokens[t] == 16)
                continue;
            CHECK_OK(weft_classify(model, s.prompts, N, &o, results));
            for (int i = 0; i < N; i++)
                compare_with_alone(model, &s.prompts[i], &results[i]);
            weft_classified_free(results, N);
        }
        weft_model_free(model);
    }
}

static void invariant_results_do_not_depend_on_the_others(void)
{
    weft_model *model = fixture_model("qwen3");
    some s;
    weft_classified together[N], alone;
    if (model == NULL)
        return;
    make_prompts(model, &s);
    const weft_classify_options o = {.logits = true, .batch.invariant = true};
    CHECK_OK(weft_classify(model, s.prompts, N, &o, together));
    for (int i = 0; i < N; i++) {
        CHECK_OK(weft_classify(model, &s.prompts[i], 1, &o, &alone));
        CHECK_BYTES(together[i].logits, alone.logits, vocabulary(model) * sizeof(float));
        CHECK_EQ_INT(together[i].token, alone.token);
        weft_classified_free(&alone, 1);
    }
    weft_classified_free(together, N);
    weft_model_free(model);
}

static void a_bad_prompt_fails_alone(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_classified results[N];
    if (model == NULL)
        return;
    make_prompts(model, &s);
    const int64_t positions = weft_model_info_of(model)->max_positions;
    int32_t *endless = weft_calloc((size_t)positions + 1, sizeof *endless);
    s.ids[1][3] = -1;
    s.ids[3][0] = (int32_t)vocabulary(model);
    s.prompts[4].n = 0;
    s.prompts[6] = (weft_prompt){endless, (size_t)positions + 1};
    CHECK_OK(weft_classify(model, s.prompts, N, NULL, results));
    for (int i = 0; i < N; i++) {
        const bool bad = i == 1 || i == 3 || i == 4 || i == 6;
        CHECK_STATUS(results[i].status, bad ? WEFT_INVALID : WEFT_OK);
        CHECK_EQ_INT(results[i].message != NULL, bad);
        CHECK_EQ_INT(results[i].token < 0, bad);
        CHECK(results[i].logits == NULL);
    }
    CHECK_CONTAINS(results[1].message, "prompt id 3");
    CHECK_CONTAINS(results[3].message, "vocabulary");
    CHECK_CONTAINS(results[4].message, "no tokens");
    CHECK_CONTAINS(results[6].message, "positions");
    weft_classified_free(results, N);
    weft_free(endless);
    weft_model_free(model);
}

static void bad_options_fail_the_call(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_classified results[N];
    if (model == NULL)
        return;
    make_prompts(model, &s);
    const weft_classify_options cold = {.sampler.temperature = -1}, few = {.batch.tokens = -1};
    CHECK_STATUS(weft_classify(model, s.prompts, N, &cold, results), WEFT_INVALID);
    CHECK_STATUS(weft_classify(model, s.prompts, N, &few, results), WEFT_INVALID);
    CHECK_EQ_INT(results[N - 1].token, -1);
    CHECK_OK(weft_classify(model, s.prompts, 0, NULL, results));
    weft_model_free(model);
}

static bool keep_first(void *context, const weft_generated *token)
{
    *(int32_t *)context = token->id;
    return false;
}

/* Drawn tokens are those that a generation would begin with. */
static void draws_are_those_of_generate(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    weft_classified results[N];
    if (model == NULL)
        return;
    make_prompts(model, &s);
    const weft_sampler_options sampler = {
        .temperature = 1.5, .repetition_penalty = 1.3, .top_p = 0.95};
    const weft_classify_options o = {.sampler = sampler, .seed = 17};
    CHECK_OK(weft_classify(model, s.prompts, N, &o, results));
    for (int i = 0; i < N; i++) {
        int32_t first = -1;
        const weft_generate_options g = {
            .sampler = sampler, .seed = 17 + (uint64_t)i, .max_tokens = 1, .ignore_eos = true};
        CHECK_OK(weft_generate(model, NULL, s.prompts[i].ids, s.prompts[i].n, &g, keep_first,
                               &first, NULL));
        CHECK_EQ_INT(results[i].token, first);
    }
    weft_classified_free(results, N);
    weft_model_free(model);
}

/* ---- score ---------------------------------------------------------------------------------- */

enum { TOP = 4 };

/* The k-th entry is the k-th largest, up to rounding. */
static void compare_top(const float *logits, size_t V, const weft_top_logprob *top, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        int64_t larger = 0, as_large = 0;
        if (!CHECK(top[k].id >= 0 && (size_t)top[k].id < V))
            return;
        for (size_t v = 0; v < V; v++) {
            larger += logits[v] > logits[top[k].id] + 1e-4F;
            as_large += logits[v] >= logits[top[k].id] - 1e-4F;
        }
        CHECK(larger <= k && as_large > k);
        CHECK_CLOSE(top[k].logprob, log_probability(logits, V, top[k].id), 1e-4);
        CHECK(k == 0 || top[k].logprob <= top[k - 1].logprob + 1e-5F);
    }
}

static void compare_score(weft_model *model, const weft_score_request *r, const weft_scored *got)
{
    const size_t V = vocabulary(model);
    float *all = weft_malloc(r->text.n * V * sizeof *all);
    forward(model, &r->text, all);
    double sum = 0;
    bool greedy = true;
    for (size_t i = r->from; i < r->text.n; i++) {
        sum += log_probability(all + (i - 1) * V, V, r->text.ids[i]);
        greedy = greedy && favorite(all + (i - 1) * V, V) == r->text.ids[i];
    }
    for (size_t i = r->from; r->top != NULL && i < r->text.n; i++)
        compare_top(all + (i - 1) * V, V, r->top + (i - r->from) * (size_t)r->n_top, r->n_top);
    CHECK_OK(got->status);
    CHECK_CLOSE(got->logprob, sum, 1e-4 + 1e-6 * fabs(sum));
    CHECK_EQ_INT(got->greedy, greedy);
    weft_free(all);
}

static void scores_are_sums_of_log_probabilities(void)
{
    static const char *const of[] = {"gemma2", "mixtral", "rope-longrope"};
    for (int f = 0; f < 3; f++) {
        weft_model *model = fixture_model(of[f]);
        some s;
        weft_score_request requests[N];
        weft_scored results[N];
        if (model == NULL)
            continue;
        make_prompts(model, &s);
        for (int i = 0; i < N; i++)
            requests[i] = (weft_score_request){
                .text = s.prompts[i],
                .from = 1 + s.prompts[i].n / 2,
                .top = i == 1 ? NULL : weft_calloc(s.prompts[i].n * TOP, sizeof(weft_top_logprob)),
                .n_top = i == 1 ? 0 : TOP - i % 2};
        const weft_batch_options pieces = {.tokens = 16};
        for (int t = 0; t < 2 - (f == 2); t++) {
            CHECK_OK(weft_score(model, requests, N, t ? &pieces : NULL, results));
            for (int i = 0; i < N; i++) {
                if (i != 2) /* from 1 of 1 token: nothing is asked */
                    compare_score(model, &requests[i], &results[i]);
            }
            CHECK_CLOSE(results[2].logprob, 0, 0);
            weft_scored_free(results, N);
        }
        for (int i = 0; i < N; i++)
            weft_free(requests[i].top);
        weft_model_free(model);
    }
}

/* The greedy continuation is one: its text scores as greedy, another does not. */
static void a_greedy_text_is_known(void)
{
    weft_model *model = fixture_model("llama");
    some s;
    if (model == NULL)
        return;
    make_prompts(model, &s);
    weft_generator *g = NULL;
    const weft_generate_options o = {.max_tokens = 5, .ignore_eos = true};
    CHECK_OK(weft_generator_new(model, s.ids[0], 7, &o, &g));
    for (int i = 7; g && i < 12; i++)
        CHECK_OK(weft_generator_next(g, &s.ids[0][i], NULL));
    weft_generator_free(g);
    memcpy(s.ids[1], s.ids[0], sizeof s.ids[0]);
    s.ids[1][11] = s.ids[0][11] == 5 ? 6 : 5;
    weft_top_logprob top;
    const weft_score_request requests[] = {
        {.text = {s.ids[0], 12}, .from = 7},
        {.text = {s.ids[1], 12}, .from = 7},
        {.text = {s.ids[1], 12}, .from = 0},
        {.text = {s.ids[1], 12}, .from = 13},
        {.text = {s.ids[1], 12}, .from = 1, .top = &top, .n_top = 21}};
    weft_scored results[5];
    CHECK_OK(weft_score(model, requests, 5, NULL, results));
    CHECK_CONTAINS(results[4].message, "n_top");
    CHECK(results[0].greedy);
    CHECK(!results[1].greedy);
    CHECK(results[0].logprob > results[1].logprob);
    CHECK_STATUS(results[2].status, WEFT_INVALID);
    CHECK_CONTAINS(results[3].message, "from");
    weft_scored_free(results, 5);
    weft_model_free(model);
}

CHECK_MAIN("batch", CHECK_CASE(each_prompt_gets_its_own_logits),
           CHECK_CASE(invariant_results_do_not_depend_on_the_others),
           CHECK_CASE(a_bad_prompt_fails_alone), CHECK_CASE(bad_options_fail_the_call),
           CHECK_CASE(draws_are_those_of_generate),
           CHECK_CASE(scores_are_sums_of_log_probabilities), CHECK_CASE(a_greedy_text_is_known))
