/* tests/ops/test_attention_sinks.c -- attention with sinks: values and gradients against torch in
 * float64, with masks, windows and lengths; second derivatives, quantized keys and values, and
 * refused input. */
#include <stdio.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/neural.h"
#include "weft/ops.h"
#include "weft/random.h"
#include "weft/transforms.h"

typedef struct scene {
    const char *name;
    bool causal, bias, lengths;
    int64_t window;
    double softcap;
} scene;

static const scene scenes[] = {
    {.name = "plain"},
    {.name = "causal", .causal = true},
    {.name = "window", .causal = true, .window = 3},
    {.name = "decode", .causal = true, .lengths = true},
    {.name = "nothing seen", .lengths = true},
    {.name = "bias", .bias = true},
    {.name = "softcap", .causal = true, .softcap = 1.5},
    {.name = "extreme"},
};

static const char *const inputs[] = {"q", "k", "v", "sinks", "bias"};

static const char *named(const scene *s, const char *part)
{
    static char text[8][64];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(text[turn], sizeof text[turn], "%s/%s", s->name, part);
    return text[turn];
}

/* in: q, k, v, sinks and, if there is one, the bias. */
static int call(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const scene *s = context;
    (void)n_in, (void)room;
    weft_attention_options o = {.causal = s->causal,
                                .window = s->window,
                                .softcap = s->softcap,
                                .sinks = in[3],
                                .mask = s->bias ? in[4] : NULL};
    if (s->lengths)
        o.lengths = golden_get(named(s, "lengths"));
    out[0] = weft_attention(in[0], in[1], in[2], &o);
    return 1;
}

static void try_scene(scene s, weft_dtype dtype, double tolerance)
{
    weft_array *in[5], *grads[5] = {NULL}, *y;
    const int n = s.bias ? 5 : 4;
    char part[16];
    for (int i = 0; i < n; i++)
        in[i] = golden_as(named(&s, inputs[i]), dtype);
    weft_array *ct = golden_as(named(&s, "ct"), dtype);
    CHECK_OK(weft_eval_n(in, n));
    CHECK_OK(weft_vjp(call, &s, in, n, &ct, &y, 1, grads));
    weft_array *all[6] = {y, grads[0], grads[1], grads[2], grads[3], grads[4]};
    CHECK_OK(weft_eval_n(all, n + 1));
    golden_check(y, named(&s, "out"), tolerance);
    for (int i = 0; i < n; i++) {
        snprintf(part, sizeof part, "d_%s", inputs[i]);
        golden_check(grads[i], named(&s, part), 2 * tolerance);
    }
}

static void values_and_gradients_are_those_of_torch(void)
{
    golden_open("ops/attention_sinks");
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        weft_scope_open();
        try_scene(scenes[i], WEFT_FLOAT64, 1e-13);
        try_scene(scenes[i], WEFT_FLOAT32, 4e-6);
        try_scene(scenes[i], WEFT_BFLOAT16, 0x1p-5); /* 8-bit inputs, sums of few terms */
        weft_scope_close(NULL);
    }
}

static void second_derivatives(void)
{
    const weft_gradcheck_options options = {.tolerance = 2e-6, .forward = true, .second = true};
    golden_open("ops/attention_sinks");
    for (size_t i = 0; i < 3; i++) {
        scene s = scenes[i];
        weft_array *in[4];
        weft_scope_open();
        for (int k = 0; k < 4; k++)
            in[k] = golden_as(named(&s, inputs[k]), WEFT_FLOAT64);
        CHECK_OK(weft_gradcheck(call, &s, in, 4, &options));
        weft_scope_close(NULL);
    }
}

/* Attention over codes has the sinks too: against attention over what the codes decode to. */
static void codes_have_sinks(void)
{
    weft_scope_open();
    uint8_t bytes[24];
    for (int i = 0; i < 24; i++)
        bytes[i] = (uint8_t)(i * 37);
    weft_array *codes = weft_from_data(bytes, WEFT_UINT8, WEFT_DIMS(1, 3, 2, 4));
    weft_array *steps = weft_full(WEFT_DIMS(1, 3, 2, 1), 0.01, WEFT_FLOAT32);
    weft_array *least = weft_full(WEFT_DIMS(1, 3, 2, 1), -1, WEFT_FLOAT32);
    weft_array *q =
        weft_random_normal(weft_random_key(1), WEFT_DIMS(1, 1, 4, 4), 0, 1, WEFT_FLOAT32);
    weft_array *sinks = weft_arange(-1, 1, 0.5, WEFT_FLOAT32);
    weft_array *all[] = {codes, steps, least, q, sinks};
    CHECK_OK(weft_eval_n(all, 5));
    const weft_kv_codes kv = {codes, steps, least};
    const weft_attention_options o = {.sinks = sinks}, none = {0};
    weft_array *decoded = weft_kv_decode(&kv, 8, WEFT_FLOAT32);
    CHECK_OK(weft_eval(decoded));
    weft_array *got = weft_attention_codes(q, &kv, &kv, &o);
    weft_array *want = weft_attention(q, decoded, decoded, &o);
    weft_array *without = weft_attention(q, decoded, decoded, &none);
    CHECK_OK(weft_eval_n((weft_array *[]){got, want, without}, 3));
    CHECK(weft_item(weft_allclose(got, want, 1e-5, 1e-6, false)) == 1);
    CHECK(weft_item(weft_allclose(got, without, 1e-2, 1e-2, false)) == 0);
    const weft_attention_options bad = {.sinks = weft_ones(WEFT_DIMS(3), WEFT_FLOAT32)};
    CHECK_CONTAINS(weft_error(weft_attention_codes(q, &kv, &kv, &bad)), "each of 4 heads");
    CHECK_CONTAINS(weft_error(weft_attention(q, decoded, decoded, &bad)), "sinks");
    const weft_attention_options whole = {.sinks = weft_ones(WEFT_DIMS(4), WEFT_INT32)};
    CHECK_CONTAINS(weft_error(weft_attention(q, decoded, decoded, &whole)), "sinks is int32");
    weft_scope_close(NULL);
}

CHECK_MAIN("attention_sinks", CHECK_CASE(values_and_gradients_are_those_of_torch),
           CHECK_CASE(second_derivatives), CHECK_CASE(codes_have_sinks))
