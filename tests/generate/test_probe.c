/* tests/generate/test_probe.c -- weft/probe.h: events against transformers and float64 formulas,
 * and that observing changes no token. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/generate.h"

enum { MOST = 64, LAYERS = 8, ALL = 0x7F };

/* The events, by kind. */
typedef struct watched {
    int count[8]; /* of each kind */
    int32_t tokens[MOST];
    double logprobs[MOST], entropies[MOST];
    float logits[MOST][512];
    float rms[LAYERS][MOST], weights[LAYERS][MOST][4];
    int32_t experts[LAYERS][MOST][4];
    int64_t n_rms[LAYERS], n_routed[LAYERS], steps, cache_tokens, cache_bytes;
    int prefills;
} watched;

static void take_layer(watched *w, const weft_probe_event *e)
{
    if (!CHECK(e->layer >= 0 && e->layer < LAYERS))
        return;
    if (e->kind == WEFT_PROBE_RESIDUAL) {
        int64_t *n = &w->n_rms[e->layer], more = weft_size(e->values);
        if (CHECK(*n + more <= MOST))
            CHECK_OK(weft_read(e->values, WEFT_FLOAT32, w->rms[e->layer] + *n, more));
        *n += more;
        return;
    }
    int64_t *n = &w->n_routed[e->layer];
    const int64_t L = weft_dim(e->experts, 0), k = weft_dim(e->experts, 1);
    float weights[4 * MOST];
    int32_t experts[4 * MOST];
    if (!CHECK(k <= 4 && *n + L <= MOST))
        return;
    CHECK_OK(weft_read(e->experts, WEFT_INT32, experts, L * k));
    CHECK_OK(weft_read(e->weights, WEFT_FLOAT32, weights, L * k));
    for (int64_t i = 0; i < L * k; i++) {
        w->experts[e->layer][*n + i / k][i % k] = experts[i];
        w->weights[e->layer][*n + i / k][i % k] = weights[i];
    }
    *n += L;
}

static void take(void *context, const weft_probe_event *e)
{
    watched *w = context;
    for (int i = 0; i < 8; i++)
        w->count[i] += (int)e->kind == 1 << i;
    w->prefills += e->phase == WEFT_PROBE_PREFILL && e->kind == WEFT_PROBE_CACHE;
    if (e->kind == WEFT_PROBE_TOKEN && CHECK(e->step < MOST)) {
        w->tokens[e->step] = e->token;
        w->logprobs[e->step] = e->logprob;
        w->steps = e->step + 1;
    } else if (e->kind == WEFT_PROBE_ENTROPY && CHECK(e->step < MOST)) {
        w->entropies[e->step] = e->entropy;
    } else if (e->kind == WEFT_PROBE_LOGITS && CHECK(e->step < MOST)) {
        const int64_t V = weft_size(e->values);
        if (CHECK(V <= 512))
            CHECK_OK(weft_read(e->values, WEFT_FLOAT32, w->logits[e->step], V));
    } else if (e->kind == WEFT_PROBE_RESIDUAL || e->kind == WEFT_PROBE_ROUTER) {
        take_layer(w, e);
    } else if (e->kind == WEFT_PROBE_CACHE) {
        CHECK(e->cache_tokens >= w->cache_tokens);
        w->cache_tokens = e->cache_tokens;
        w->cache_bytes = e->cache_bytes;
    } else if (e->kind == WEFT_PROBE_MEMORY) {
        CHECK(e->memory_active > 0 && e->memory_peak >= e->memory_active);
    }
}

static weft_model *load(const char *name)
{
    char path[64];
    weft_model *model = NULL;
    snprintf(path, sizeof path, "models/%s", name);
    CHECK_OK(weft_model_load(check_fixture(path), NULL, &model));
    return model;
}

/* Greedy tokens of a prompt of the golden file; `n` of them. */
static void generate(weft_model *model, const char *ids, weft_generate_options o, int64_t length,
                     int32_t *tokens)
{
    int32_t prompt[MOST];
    weft_generator *g = NULL;
    CHECK_OK(weft_read(golden_get(ids), WEFT_INT32, prompt, weft_size(golden_get(ids))));
    if (!CHECK_OK(weft_generator_new(model, prompt, (size_t)length, &o, &g)))
        return;
    for (int64_t i = 0; i < o.max_tokens; i++)
        CHECK_OK(weft_generator_next(g, &tokens[i], NULL));
    weft_generator_free(g);
}

/* ---- logits, entropy, tokens ---------------------------------------------------------------- */

static void check_token(const watched *w, int i, int64_t V)
{
    double most = -INFINITY, sum = 0, entropy = 0;
    for (int64_t k = 0; k < V; k++)
        most = fmax(most, (double)w->logits[i][k]);
    for (int64_t k = 0; k < V; k++)
        sum += exp((double)w->logits[i][k] - most);
    for (int64_t k = 0; k < V; k++) {
        const double logp = (double)w->logits[i][k] - most - log(sum);
        entropy -= exp(logp) * logp;
    }
    CHECK_CLOSE(w->entropies[i], entropy, 2e-6 * (double)V);
    CHECK_CLOSE(w->logprobs[i], (double)w->logits[i][w->tokens[i]] - most - log(sum), 1e-5);
    CHECK_CLOSE((double)w->logits[i][w->tokens[i]], most, 0); /* greedy */
}

static void events_report_the_tokens(void)
{
    enum { N = 12 };
    weft_model *model = load("llama");
    if (model == NULL || !golden_open("models/probe"))
        return;
    int32_t plain[N];
    const int64_t V = weft_model_info_of(model)->vocab_size;
    weft_scope_open();
    generate(model, "llama/ids", (weft_generate_options){.max_tokens = N, .ignore_eos = true}, 20,
             plain);
    for (int way = 0; way < 3; way++) {
        static watched w;
        int32_t tokens[N];
        memset(&w, 0, sizeof w);
        const weft_probe probe = {.kinds = ALL, .event = take, .context = &w};
        generate(model, "llama/ids",
                 (weft_generate_options){.max_tokens = N,
                                         .ignore_eos = true,
                                         .logprobs = true,
                                         .probe = &probe,
                                         .prefill = way == 1 ? 6 : 0,
                                         .tokens_per_eval = 4,
                                         .no_compile = way == 2},
                 20, tokens);
        CHECK_BYTES(tokens, plain, sizeof plain);
        CHECK_BYTES(w.tokens, plain, sizeof plain);
        CHECK_EQ_INT(w.steps, N);
        CHECK_EQ_INT(w.prefills, way == 1 ? 4 : 1); /* chunks of 6, 6, 6, 2 */
        for (int i = 0; i < N; i++)
            check_token(&w, i, V);
        CHECK(w.cache_tokens >= 20 + N - 1 && w.cache_bytes > 0);
        CHECK_EQ_INT(w.n_rms[0], 20 + N - 1); /* the last token goes through no layer */
        CHECK_EQ_INT(w.count[3], 0);          /* no routers */
    }
    weft_scope_close(NULL);
    golden_close();
    weft_model_free(model);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* The golden tokens as a prompt in chunks. */
static void check_layers(const char *name, bool routed)
{
    enum { PROMPT = 12 };
    char ids_name[32], key[32];
    static watched w;
    weft_model *model = load(name);
    if (model == NULL)
        return;
    memset(&w, 0, sizeof w);
    weft_scope_open();
    snprintf(ids_name, sizeof ids_name, "%s/ids", name);
    const weft_probe probe = {
        .kinds = WEFT_PROBE_RESIDUAL | WEFT_PROBE_ROUTER, .event = take, .context = &w};
    int32_t next[1];
    generate(model, ids_name,
             (weft_generate_options){
                 .max_tokens = 1, .ignore_eos = true, .prefill = PROMPT, .probe = &probe},
             weft_size(golden_get(ids_name)), next);
    const int64_t n = weft_size(golden_get(ids_name)), layers = weft_model_info_of(model)->n_layers;
    for (int64_t i = 0; i < layers; i++) {
        double rms[LAYERS * MOST];
        CHECK_EQ_INT(w.n_rms[i], n);
        snprintf(key, sizeof key, "%s/rms", name);
        CHECK_OK(weft_read(golden_get(key), WEFT_FLOAT64, rms, layers * n));
        for (int64_t k = 0; k < n; k++)
            CHECK_RELATIVE((double)w.rms[i][k], rms[i * n + k], 2e-5);
        if (!routed)
            continue;
        double weights[LAYERS * MOST * 2];
        int32_t experts[LAYERS * MOST * 2];
        CHECK_EQ_INT(w.n_routed[i], n);
        snprintf(key, sizeof key, "%s/weights", name);
        CHECK_OK(weft_read(golden_get(key), WEFT_FLOAT64, weights, layers * n * 2));
        snprintf(key, sizeof key, "%s/experts", name);
        CHECK_OK(weft_read(golden_get(key), WEFT_INT32, experts, layers * n * 2));
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = 2 * (i * n + k);
            const bool turned = w.experts[i][k][0] != experts[at]; /* in any order */
            for (int e = 0; e < 2; e++) {
                const int other = turned ? 1 - e : e;
                CHECK_EQ_INT(w.experts[i][k][e], experts[at + other]);
                CHECK_CLOSE((double)w.weights[i][k][e], weights[at + other], 1e-5);
            }
        }
    }
    weft_scope_close(NULL);
    weft_model_free(model);
}

static void layers_are_those_of_transformers(void)
{
    if (!golden_open("models/probe"))
        return;
    check_layers("llama", false);
    check_layers("mixtral", true);
    golden_close();
}

/* Compiled steps report the layers that graphs report. */
static void compiled_steps_report_the_same(void)
{
    enum { N = 10 };
    static watched w[2];
    weft_model *model = load("mixtral");
    if (model == NULL || !golden_open("models/probe"))
        return;
    memset(w, 0, sizeof w);
    weft_scope_open();
    for (int way = 0; way < 2; way++) {
        int32_t tokens[N];
        const weft_probe probe = {.kinds = ALL, .event = take, .context = &w[way]};
        generate(model, "mixtral/ids",
                 (weft_generate_options){
                     .max_tokens = N, .ignore_eos = true, .probe = &probe, .no_compile = way == 1},
                 12, tokens);
    }
    CHECK_BYTES(w[1].tokens, w[0].tokens, sizeof w[0].tokens);
    CHECK_BYTES(w[1].count, w[0].count, sizeof w[0].count);
    CHECK_EQ_INT(w[0].n_routed[1], 12 + N - 1);
    CHECK_BYTES(w[1].experts, w[0].experts, sizeof w[0].experts);
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < MOST; k++)
            CHECK_CLOSE(w[1].rms[i][k], w[0].rms[i][k], 1e-5);
    }
    weft_scope_close(NULL);
    golden_close();
    weft_model_free(model);
}

static void only_requested_events_are_sent(void)
{
    weft_model *model = load("llama");
    if (model == NULL || !golden_open("models/probe"))
        return;
    weft_scope_open();
    for (int kind = -1; kind < 7; kind++) {
        static watched w;
        int32_t tokens[3];
        memset(&w, 0, sizeof w);
        const weft_probe probe = {.kinds = kind < 0 ? 0 : 1u << kind, .event = take, .context = &w};
        generate(model, "llama/ids", (weft_generate_options){.max_tokens = 3, .probe = &probe}, 8,
                 tokens);
        for (int i = 0; i < 8; i++)
            CHECK((w.count[i] > 0) == (i == kind && kind != 3)); /* llama has no routers */
    }
    weft_scope_close(NULL);
    golden_close();
    weft_model_free(model);
}

CHECK_MAIN("probe", CHECK_CASE(events_report_the_tokens),
           CHECK_CASE(layers_are_those_of_transformers), CHECK_CASE(compiled_steps_report_the_same),
           CHECK_CASE(only_requested_events_are_sent))
