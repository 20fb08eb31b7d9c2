/* tests/ops/test_gated_delta.c -- the gated delta rule and its gradients against torch's, token by
 * token and in pieces; refused input. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/weft.h"

enum { N = 6 };
static const char *const names[N] = {"q", "k", "v", "g", "beta", "state"};
static const char *const texts[] = {"one", "chunk", "several", "forgetful"};

static char tensor[64];

static const char *named(const char *of, const char *prefix, const char *name)
{
    snprintf(tensor, sizeof tensor, "%s/%s%s", of, prefix, name);
    return tensor;
}

static void inputs_of(const char *of, weft_dtype dtype, weft_array **in)
{
    for (int i = 0; i < N; i++)
        in[i] = golden_as(named(of, "", names[i]), dtype);
}

static int rule(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)context;
    (void)n_in;
    (void)room;
    out[0] = weft_gated_delta(in[0], in[1], in[2], in[3], in[4], in[5], &out[1]);
    return 2;
}

/* float32 rounds each of a text's steps, and sums of a few numbers of size 1 within them. */
static void values_are_torchs(void)
{
    golden_open("ops/gated_delta");
    for (size_t c = 0; c < sizeof texts / sizeof *texts; c++) {
        weft_array *in[N], *out[2];
        weft_scope_open();
        inputs_of(texts[c], WEFT_FLOAT32, in);
        rule(NULL, in, N, out, 2);
        golden_check(out[0], named(texts[c], "", "out0"), 3e-6);
        golden_check(out[1], named(texts[c], "", "out1"), 3e-6);
        inputs_of(texts[c], WEFT_FLOAT64, in);
        rule(NULL, in, N, out, 2);
        golden_check(out[0], named(texts[c], "", "out0"), 1e-13);
        golden_check(out[1], named(texts[c], "", "out1"), 1e-13);
        weft_scope_close(NULL);
    }
    golden_close();
}

static void gradients_are_torchs(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64};
    static const double tolerances[] = {2e-5, 1e-12};
    golden_open("ops/gated_delta");
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        const char *of = texts[i / 2];
        weft_array *in[N], *grads[N];
        weft_scope_open();
        inputs_of(of, dtypes[i % 2], in);
        weft_array *cts[2] = {golden_as(named(of, "", "ct0"), dtypes[i % 2])};
        cts[1] = golden_as(named(of, "", "ct1"), dtypes[i % 2]);
        CHECK_OK(weft_vjp(rule, NULL, in, N, cts, NULL, 2, grads));
        for (int k = 0; k < N; k++)
            golden_check(grads[k], named(of, "d", names[k]), tolerances[i % 2]);
        weft_scope_close(NULL);
    }
    golden_close();
}

/* Tokens [from, to) of the first five inputs, all of which have them along axis 1. */
static weft_array *piece(weft_array *const *in, int64_t from, int64_t to, weft_array **state)
{
    weft_array *at[N - 1];
    for (int i = 0; i < N - 1; i++)
        at[i] = weft_slice_axis(in[i], 1, from, to);
    return weft_gated_delta(at[0], at[1], at[2], at[3], at[4], *state, state);
}

/* The state is all that a later piece needs; no state is one of zeros. */
static void pieces_make_the_whole(void)
{
    golden_open("ops/gated_delta");
    weft_scope_open();
    weft_array *in[N], *out[2], *state = NULL, *y[4];
    inputs_of("several", WEFT_FLOAT32, in);
    y[0] = piece(in, 0, 1, &state);
    y[1] = piece(in, 1, 68, &state);
    y[2] = piece(in, 68, 68, &state);
    y[3] = piece(in, 68, 150, &state);
    in[5] = weft_zeros_like(in[5]);
    rule(NULL, in, N, out, 2);
    weft_array *apart = weft_subtract(weft_concatenate(y, 4, 1), out[0]);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 3e-6);
    apart = weft_subtract(state, out[1]);
    CHECK_CLOSE(weft_item(weft_max(weft_abs(apart), WEFT_ALL_AXES, false)), 0, 3e-6);
    CHECK_EQ_INT(weft_dtype_of(state), WEFT_FLOAT32);
    weft_scope_close(NULL);
    golden_close();
}

static void refused(weft_array *y, const char *words)
{
    CHECK(!weft_ok(y));
    CHECK_CONTAINS(weft_error(y), words);
}

static void what_does_not_fit_is_refused(void)
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
    refused(weft_gated_delta(weft_astype(k, WEFT_INT32), k, v, g, g, state, NULL), "q");
    weft_scope_close(NULL);
}

CHECK_MAIN("gated_delta", CHECK_CASE(values_are_torchs), CHECK_CASE(gradients_are_torchs),
           CHECK_CASE(pieces_make_the_whole), CHECK_CASE(what_does_not_fit_is_refused))
