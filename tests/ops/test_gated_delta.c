/* tests/ops/test_gated_delta.c -- the gated delta rule, that of Mamba 2 and their gradients against
 * torch's, token by token and in pieces; refused input. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/weft.h"

enum { MOST = 6 };

/* The state is the last input. */
static const struct rule {
    const char *file;
    int n;
    const char *names[MOST];
} rules[] = {
    {"ops/gated_delta", 6, {"q", "k", "v", "g", "beta", "state"}},
    {"ops/state_space", 5, {"q", "k", "v", "g", "state"}},
};
enum { N_RULES = sizeof rules / sizeof *rules };

static const char *const texts[] = {"one", "chunk", "several", "forgetful"};

static char tensor[64];

static const char *named(const char *of, const char *prefix, const char *name)
{
    snprintf(tensor, sizeof tensor, "%s/%s%s", of, prefix, name);
    return tensor;
}

static void inputs_of(const struct rule *rule, const char *of, weft_dtype dtype, weft_array **in)
{
    for (int i = 0; i < rule->n; i++)
        in[i] = golden_as(named(of, "", rule->names[i]), dtype);
}

static int apply(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)room;
    out[0] = n_in == 6 ? weft_gated_delta(in[0], in[1], in[2], in[3], in[4], in[5], &out[1])
                       : weft_state_space(in[0], in[1], in[2], in[3], in[4], &out[1]);
    return 2;
}

/* float32 rounds each step of a sequence, and the sums of a few numbers of size 1 in it. */
static void values_equal_torch(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64};
    static const double tolerances[] = {3e-6, 1e-13};
    for (int r = 0; r < N_RULES; r++) {
        golden_open(rules[r].file);
        for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
            weft_array *in[MOST], *out[2];
            weft_scope_open();
            inputs_of(&rules[r], texts[i / 2], dtypes[i % 2], in);
            apply(NULL, in, rules[r].n, out, 2);
            golden_check(out[0], named(texts[i / 2], "", "out0"), tolerances[i % 2]);
            golden_check(out[1], named(texts[i / 2], "", "out1"), tolerances[i % 2]);
            weft_scope_close(NULL);
        }
        golden_close();
    }
}

static void gradients_equal_torch(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64};
    static const double tolerances[] = {2e-5, 1e-12};
    for (int r = 0; r < N_RULES; r++) {
        golden_open(rules[r].file);
        for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
            const char *of = texts[i / 2];
            weft_array *in[MOST], *grads[MOST];
            weft_scope_open();
            inputs_of(&rules[r], of, dtypes[i % 2], in);
            weft_array *cts[2] = {golden_as(named(of, "", "ct0"), dtypes[i % 2])};
            cts[1] = golden_as(named(of, "", "ct1"), dtypes[i % 2]);
            CHECK_OK(weft_vjp(apply, NULL, in, rules[r].n, cts, NULL, 2, grads));
            for (int k = 0; k < rules[r].n; k++)
                golden_check(grads[k], named(of, "d", rules[r].names[k]), tolerances[i % 2]);
            weft_scope_close(NULL);
        }
        golden_close();
    }
}

/* Tokens [from, to) of all inputs but the state, which have them along axis 1. */
static weft_array *piece(weft_array *const *in, int n, int64_t from, int64_t to, weft_array **state)
{
    weft_array *at[MOST], *out[2];
    for (int i = 0; i < n - 1; i++)
        at[i] = weft_slice_axis(in[i], 1, from, to);
    at[n - 1] = *state;
    apply(NULL, at, n, out, 2);
    *state = out[1];
    return out[0];
}

/* A later piece needs only the state; no state is the same as zeros. */
static void pieces_make_the_whole(void)
{
    for (int r = 0; r < N_RULES; r++) {
        const int n = rules[r].n;
        golden_open(rules[r].file);
        weft_scope_open();
        weft_array *in[MOST], *out[2], *state = NULL, *y[4];
        inputs_of(&rules[r], "several", WEFT_FLOAT32, in);
        y[0] = piece(in, n, 0, 1, &state);
        y[1] = piece(in, n, 1, 68, &state);
        y[2] = piece(in, n, 68, 68, &state);
        y[3] = piece(in, n, 68, 150, &state);
        in[n - 1] = weft_zeros_like(in[n - 1]);
        apply(NULL, in, n, out, 2);
        weft_array *apart = weft_subtract(weft_concatenate(y, 4, 1), out[0]);
        CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 3e-6);
        apart = weft_subtract(state, out[1]);
        CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 3e-6);
        CHECK_EQ_INT(weft_dtype_of(state), WEFT_FLOAT32);
        weft_scope_close(NULL);
        golden_close();
    }
}

static void refused(weft_array *y, const char *words)
{
    CHECK(!weft_ok(y));
    CHECK_CONTAINS(weft_error(y), words);
}

static void arguments_that_do_not_fit_are_refused(void)
{
    weft_scope_open();
    weft_array *k = weft_zeros(WEFT_DIMS(1, 3, 2, 4), WEFT_FLOAT32);
    weft_array *v = weft_zeros(WEFT_DIMS(1, 3, 4, 5), WEFT_FLOAT32);
    weft_array *odd = weft_zeros(WEFT_DIMS(1, 3, 3, 5), WEFT_FLOAT32);
    weft_array *g = weft_zeros(WEFT_DIMS(1, 3, 4), WEFT_FLOAT32);
    weft_array *state = weft_zeros(WEFT_DIMS(1, 4, 5, 4), WEFT_FLOAT32), *last;
    CHECK(weft_ok(weft_gated_delta(k, k, v, g, g, state, NULL)));
    refused(weft_gated_delta(k, k, odd, g, g, NULL, NULL), "expected a multiple of the 2 of keys");
    refused(weft_gated_delta(k, v, v, g, g, state, NULL), "k");
    refused(weft_gated_delta(k, k, v, v, g, state, NULL), "expected (B, L, Hv)");
    refused(weft_gated_delta(k, k, v, g, g, v, NULL), "the state");
    refused(weft_gated_delta(g, k, v, g, g, NULL, &last), "expected (B, L, Hk, D)");
    CHECK(!weft_ok(last));
    CHECK(weft_ok(weft_state_space(k, k, v, g, state, NULL)));
    refused(weft_state_space(k, k, odd, g, NULL, NULL), "expected a multiple of the 2 of keys");
    refused(weft_state_space(k, k, v, g, v, NULL), "the state");
    refused(weft_state_space(k, k, v, v, state, NULL), "expected (B, L, Hv)");
    refused(weft_gated_delta(weft_astype(k, WEFT_INT32), k, v, g, g, state, NULL), "q");
    weft_scope_close(NULL);
}

CHECK_MAIN("gated_delta", CHECK_CASE(values_equal_torch), CHECK_CASE(gradients_equal_torch),
           CHECK_CASE(pieces_make_the_whole), CHECK_CASE(arguments_that_do_not_fit_are_refused))
