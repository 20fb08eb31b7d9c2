/* tests/generate/test_sampler_exact.c -- every step of the sampler, alone and with others, against
 * the same formulas in float64; and draws against exact probabilities. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/generate.h"
#include "weft/random.h"

enum { V = 24, B = 3 };

/* ---- the formulas --------------------------------------------------------------------------- */

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void shares_of(const double *x, double *p)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < V; i++)
        most = fmax(most, x[i]);
    for (int i = 0; i < V; i++)
        sum += p[i] = exp(x[i] - most);
    for (int i = 0; i < V; i++)
        p[i] /= sum;
}

static void cut_below(double *x, double low)
{
    for (int i = 0; i < V; i++) {
        if (x[i] < low)
            x[i] = -INFINITY;
    }
}

static void add_biases(double *x, const weft_sampler_options *o)
{
    for (int i = 0; i < o->n_bias; i++)
        x[o->bias_ids[i]] += (double)o->bias_values[i];
    for (int i = 0; i < o->n_suppress; i++)
        x[o->suppress[i]] = -INFINITY;
}

static void penalize(double *x, const double *seen, const weft_sampler_options *o)
{
    const double r = o->repetition_penalty == 0 ? 1 : o->repetition_penalty;
    for (int i = 0; i < V; i++) {
        if (seen[i] == 0)
            continue;
        x[i] = x[i] > 0 ? x[i] / r : x[i] * r;
        x[i] -= o->presence_penalty + seen[i] * o->frequency_penalty;
    }
}

/* top-p and top-k in the order of the options, then min-p. *margin becomes the distance of the
 * closest decision from the opposite one, if that is smaller. */
static void truncate(double *x, const weft_sampler_options *o, double *margin)
{
    double sorted[V], p[V], before = 0, low = -INFINITY, q[V];
    memcpy(sorted, x, sizeof sorted);
    qsort(sorted, V, sizeof *sorted, descending);
    const bool k_first = o->order == WEFT_SAMPLER_TOP_K_FIRST;
    for (int i = (int)o->top_k; k_first && o->top_k > 0 && i < V; i++)
        sorted[i] = -INFINITY;
    shares_of(sorted, p);
    if (o->top_p > 0 && o->top_p < 1) {
        for (int i = 0; i < V; i++) {
            *margin = fmin(*margin, fabs(before - o->top_p));
            if (before < o->top_p && p[i] > 0)
                low = sorted[i];
            before += p[i];
        }
    }
    if (o->top_k > 0 && o->top_k < V)
        low = fmax(low, sorted[o->top_k - 1]);
    if (o->min_p > 0) {
        low = fmax(low, sorted[0] + log(o->min_p));
        for (int i = 0; i < V; i++)
            *margin = fmin(*margin, fabs(x[i] - (sorted[0] + log(o->min_p))));
    }
    cut_below(x, low);
    shares_of(x, q);
    for (int i = 0; i < V && o->xtc_probability > 0; i++)
        *margin = fmin(*margin, fabs(q[i] - o->xtc_threshold));
}

/* A token goes when one that is less probable still meets the threshold. */
static void exclude_top(double *x, const weft_sampler_options *o)
{
    double p[V];
    shares_of(x, p);
    for (int i = 0; i < V; i++) {
        bool goes = false;
        for (int j = 0; j < V; j++)
            goes |= p[j] > 0 && p[j] >= o->xtc_threshold && p[j] < p[i];
        for (int k = 0; k < o->n_xtc_keep; k++)
            goes &= o->xtc_keep[k] != i;
        if (goes)
            x[i] = -INFINITY;
    }
}

/* All steps on x; false if a decision is too close to be certain in float32. */
static bool expect(double *x, const double *seen, const bool *allowed, bool excluding,
                   const weft_sampler_options *o)
{
    double margin = INFINITY;
    for (int i = 0; i < V; i++) {
        if (allowed && !allowed[i])
            x[i] = -INFINITY;
    }
    add_biases(x, o);
    penalize(x, seen, o);
    if (o->temperature == 0)
        return true;
    for (int i = 0; i < V; i++)
        x[i] /= o->temperature;
    truncate(x, o, &margin);
    if (excluding)
        exclude_top(x, o);
    return margin > 1e-5;
}

/* ---- the cases ------------------------------------------------------------------------------ */

static const int32_t bias_ids[] = {3, 7, 7, 20, 11}, suppress[] = {0, 9, 23}, keep[] = {1, 2, 5, 8};
static const float bias_values[] = {2.5F, -1, -0.5F, -INFINITY, 4};

/* Each step alone, pairs, and all of them. */
static const weft_sampler_options settings[] = {
    {.temperature = 1},
    {.temperature = 0.3},
    {.temperature = 2.5},
    {.temperature = 1, .repetition_penalty = 1.7},
    {.temperature = 1, .repetition_penalty = 0.6},
    {.temperature = 1, .presence_penalty = 1.25},
    {.temperature = 1, .presence_penalty = -0.75},
    {.temperature = 1, .frequency_penalty = 0.8},
    {.temperature = 1, .frequency_penalty = -0.4},
    {.temperature = 1, .bias_ids = bias_ids, .bias_values = bias_values, .n_bias = 5},
    {.temperature = 1, .suppress = suppress, .n_suppress = 3},
    {.temperature = 1, .top_p = 0.6},
    {.temperature = 1, .top_k = 5},
    {.temperature = 1, .min_p = 0.2},
    {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.08},
    {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0.4},
    {.temperature = 1, .xtc_probability = 1, .xtc_threshold = 0},
    {.temperature = 1,
     .xtc_probability = 1,
     .xtc_threshold = 0.05,
     .xtc_keep = keep,
     .n_xtc_keep = 4},
    {.temperature = 0.8, .top_p = 0.9, .top_k = 12},
    {.temperature = 1.4, .top_p = 0.7, .min_p = 0.1},
    {.temperature = 0.8, .top_p = 0.9, .top_k = 12, .order = WEFT_SAMPLER_TOP_K_FIRST},
    {.temperature = 2, .top_p = 0.5, .top_k = 6, .order = WEFT_SAMPLER_TOP_K_FIRST},
    {.temperature = 1, .top_p = 0.6, .order = WEFT_SAMPLER_TOP_K_FIRST},
    {.temperature = 1.2,
     .top_p = 0.8,
     .top_k = 9,
     .order = WEFT_SAMPLER_TOP_K_FIRST,
     .min_p = 0.15},
    {.temperature = 1, .top_k = 6, .xtc_probability = 1, .xtc_threshold = 0.1},
    {.temperature = 0,
     .presence_penalty = 3,
     .bias_ids = bias_ids,
     .bias_values = bias_values,
     .n_bias = 5},
    {.bias_ids = bias_ids,
     .bias_values = bias_values,
     .n_bias = 5,
     .suppress = suppress,
     .n_suppress = 3,
     .repetition_penalty = 1.3,
     .presence_penalty = 0.3,
     .frequency_penalty = 0.2,
     .temperature = 1.2,
     .top_p = 0.95,
     .top_k = 16,
     .min_p = 0.02,
     .xtc_probability = 1,
     .xtc_threshold = 0.09,
     .xtc_keep = keep,
     .n_xtc_keep = 4},
};
enum { SETTINGS = (int)(sizeof settings / sizeof *settings), ROUNDS = 12 };

static uint64_t state = 88172645463325252ULL;

static double uniform(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

typedef struct rows {
    float logits[B][V], seen[B][V];
    bool allowed[B][V];
} rows;

static void fill(rows *r)
{
    for (int b = 0; b < B; b++) {
        for (int i = 0; i < V; i++) {
            r->logits[b][i] = (float)(6 * uniform() - 3);
            r->seen[b][i] = uniform() < 0.4 ? (float)(int)(1 + 4 * uniform()) : 0;
            r->allowed[b][i] = uniform() < 0.7 || i == 1 || i == 14;
        }
    }
}

/* Returns the number of checked rows of `r`: those without a decision too close to check. */
static int check_rows(const rows *r, const weft_sampler_options *o, bool constrained)
{
    float got[B][V];
    int checked = 0;
    weft_scope_open();
    const weft_sampler_inputs in = {
        .seen = weft_from_data(r->seen, WEFT_FLOAT32, WEFT_DIMS(B, V)),
        .allowed = constrained ? weft_from_data(r->allowed, WEFT_BOOL, WEFT_DIMS(B, V)) : NULL,
        .key = weft_random_key(1)};
    weft_array *logits = weft_from_data(r->logits, WEFT_FLOAT32, WEFT_DIMS(B, V));
    CHECK_OK(weft_read(weft_sampler_logits(logits, &in, o), WEFT_FLOAT32, got, B * V));
    weft_scope_close(NULL);
    for (int b = 0; b < B; b++) {
        double x[V], seen[V];
        for (int i = 0; i < V; i++) {
            x[i] = (double)r->logits[b][i];
            seen[i] = (double)r->seen[b][i];
        }
        if (!expect(x, seen, constrained ? r->allowed[b] : NULL, o->xtc_probability == 1, o))
            continue;
        checked++;
        for (int i = 0; i < V; i++) {
            if (isinf(x[i]))
                CHECK(got[b][i] == -INFINITY);
            else
                CHECK_CLOSE(got[b][i], x[i], 4e-6 * fmax(1, fabs(x[i])));
        }
    }
    return checked;
}

static void every_step_is_its_formula(void)
{
    int checked = 0;
    rows r;
    for (int round = 0; round < ROUNDS; round++) {
        for (int s = 0; s < SETTINGS; s++) {
            fill(&r);
            checked += check_rows(&r, &settings[s], round % 2 == 1);
        }
    }
    printf("  %d of %d rows checked\n", checked, B * ROUNDS * SETTINGS);
    CHECK(checked > B * ROUNDS * SETTINGS * 19 / 20);
}

/* ---- draws ---------------------------------------------------------------------------------- */

/* Upper bound of chi-square that a correct sampler exceeds once in a million times
 * (Wilson-Hilferty). */
static double bound(int freedom)
{
    const double n = freedom, z = 4.7534, c = 2 / (9 * n);
    return n * pow(1 - c + z * sqrt(c), 3);
}

/* The exact distribution: with XTC, a mixture of both. */
static void exact(const rows *r, const weft_sampler_options *o, double *p)
{
    double cut[V], whole[V], seen[V], x[V];
    for (int i = 0; i < V; i++)
        seen[i] = (double)r->seen[0][i];
    for (int excluding = 0; excluding < 2; excluding++) {
        for (int i = 0; i < V; i++)
            x[i] = (double)r->logits[0][i];
        expect(x, seen, NULL, excluding != 0, o);
        shares_of(x, excluding ? cut : whole);
    }
    for (int i = 0; i < V; i++)
        p[i] = o->xtc_probability * cut[i] + (1 - o->xtc_probability) * whole[i];
}

static void check_draws(const rows *r, const weft_sampler_options *o, uint64_t seed)
{
    enum { N = 40000 };
    static int32_t drawn[N];
    double p[V], chi = 0;
    int counts[V] = {0}, freedom = -1, never = 0;
    exact(r, o, p);
    weft_scope_open();
    const weft_dims one = WEFT_DIMS(1, V), all = WEFT_DIMS(N, V);
    weft_array *logits = weft_broadcast_to(weft_from_data(r->logits[0], WEFT_FLOAT32, one), all);
    const weft_sampler_inputs in = {
        .seen = weft_broadcast_to(weft_from_data(r->seen[0], WEFT_FLOAT32, one), all),
        .key = weft_random_key(seed)};
    CHECK_OK(weft_read(weft_sampler_draw(logits, &in, o), WEFT_INT32, drawn, N));
    weft_scope_close(NULL);
    for (int i = 0; i < N; i++)
        counts[drawn[i] >= 0 && drawn[i] < V ? drawn[i] : 0]++;
    for (int i = 0; i < V; i++) {
        if (p[i] == 0) {
            never += counts[i];
            continue;
        }
        const double wanted = p[i] * (double)N;
        chi += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
        freedom++;
    }
    CHECK_EQ_INT(never, 0);
    if (freedom > 0 && chi > bound(freedom))
        CHECK_FAIL("chi-square %g of %d degrees of freedom, at most %g", chi, freedom,
                   bound(freedom));
    CHECK(freedom >= 0);
}

static void draws_follow_the_exact_probabilities(void)
{
    static const weft_sampler_options xtc[] = {
        {.temperature = 1, .xtc_probability = 0.3, .xtc_threshold = 0.05},
        {.temperature = 1.5, .top_k = 8, .xtc_probability = 0.5, .xtc_threshold = 0.1},
    };
    rows r;
    fill(&r);
    for (int s = 0; s < SETTINGS; s++) {
        if (settings[s].temperature > 0)
            check_draws(&r, &settings[s], (uint64_t)s);
    }
    for (int s = 0; s < 2; s++)
        check_draws(&r, &xtc[s], 100);
}

/* Temperature 0 takes the largest of the biased and penalized logits, for all other settings. */
static void temperature_zero_is_greedy(void)
{
    rows r;
    for (int s = 0; s < SETTINGS; s++) {
        weft_sampler_options o = settings[s];
        o.temperature = 0;
        fill(&r);
        int32_t got[B];
        weft_scope_open();
        const weft_sampler_inputs in = {.seen =
                                            weft_from_data(r.seen, WEFT_FLOAT32, WEFT_DIMS(B, V))};
        weft_array *logits = weft_from_data(r.logits, WEFT_FLOAT32, WEFT_DIMS(B, V));
        CHECK_OK(weft_read(weft_sampler_draw(logits, &in, &o), WEFT_INT32, got, B));
        weft_scope_close(NULL);
        for (int b = 0; b < B; b++) {
            double x[V], seen[V];
            int best = 0;
            for (int i = 0; i < V; i++) {
                x[i] = (double)r.logits[b][i];
                seen[i] = (double)r.seen[b][i];
            }
            expect(x, seen, NULL, false, &o);
            for (int i = 1; i < V; i++)
                best = x[i] > x[best] ? i : best;
            CHECK_EQ_INT(got[b], best);
        }
    }
}

static void bad_settings_are_errors(void)
{
    static const int32_t outside[] = {24}, negative[] = {-1};
    static const float nan_value[] = {NAN}, infinite[] = {INFINITY}, fine[] = {1};
    static const weft_sampler_options bad[] = {
        {.presence_penalty = NAN},
        {.frequency_penalty = (double)INFINITY},
        {.xtc_probability = 1.1},
        {.xtc_threshold = -0.1},
        {.bias_ids = outside, .bias_values = fine, .n_bias = 1},
        {.bias_ids = negative, .bias_values = fine, .n_bias = 1},
        {.bias_ids = suppress, .bias_values = nan_value, .n_bias = 1},
        {.bias_ids = suppress, .bias_values = infinite, .n_bias = 1},
        {.suppress = outside, .n_suppress = 1},
        {.xtc_keep = outside, .n_xtc_keep = 1},
        {.n_bias = -1},
    };
    weft_scope_open();
    weft_array *logits = weft_zeros(WEFT_DIMS(1, V), WEFT_FLOAT32);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_array *x = weft_sampler_draw(logits, NULL, &bad[i]);
        CHECK(!weft_ok(x));
        CHECK_CONTAINS(weft_error(x), "sampler: ");
    }
    weft_scope_close(NULL);
}

/* The settings and masks of tests/golden/generate/sampler_order.py. */
static void top_k_first_keeps_what_transformers_keeps(void)
{
    enum { ROWS = 64, WIDTH = 48, CASES = 7 };
    double row[CASES][4];
    static uint8_t expected[ROWS * WIDTH];
    static float kept[ROWS * WIDTH];
    if (!golden_open("generate/sampler_order"))
        return;
    weft_scope_open();
    CHECK_OK(weft_read(golden_get("settings"), WEFT_FLOAT64, row, CASES * 4));
    for (int c = 0; c < CASES; c++) {
        char name[16];
        snprintf(name, sizeof name, "kept%d", c);
        const weft_sampler_options o = {.temperature = row[c][0],
                                        .top_k = (int64_t)row[c][1],
                                        .top_p = row[c][2],
                                        .min_p = row[c][3],
                                        .order = WEFT_SAMPLER_TOP_K_FIRST};
        weft_array *x = weft_sampler_logits(golden_get("logits"), NULL, &o);
        int different = 0;
        CHECK_OK(weft_read(golden_get(name), WEFT_UINT8, expected, ROWS * WIDTH));
        CHECK_OK(weft_read(x, WEFT_FLOAT32, kept, ROWS * WIDTH));
        for (int i = 0; i < ROWS * WIDTH; i++)
            different += (kept[i] > -INFINITY) != (expected[i] != 0);
        CHECK_EQ_INT(different, 0);
    }
    weft_scope_close(NULL);
    golden_close();
}

CHECK_MAIN("sampler_exact", CHECK_CASE(top_k_first_keeps_what_transformers_keeps),
           CHECK_CASE(every_step_is_its_formula), CHECK_CASE(draws_follow_the_exact_probabilities),
           CHECK_CASE(temperature_zero_is_greedy), CHECK_CASE(bad_settings_are_errors))
