/* ops/nn/adamw16bit.c -- one AdamW step with moments, and usually the parameter, in bfloat16, which
 * with stochastic rounding instead of rounding to nearest (Gupta et al. 2015; Zamirai et al. 2020,
 * "Revisiting BFloat16 Training").
 *
 * A step is often less than half the distance to the next bfloat16, and v changes by a thousandth.
 * Rounding to the nearest number would lose such changes; stochastic rounding keeps them on
 * average. */
#include "ops/nn/adamw16bit.h"
#include "ops/nn/nn.h"
#include "weft/random.h"

enum { PARAMETER, GRADIENT, M, V, HYPER, KEY, INPUTS };

/* ---- rounding ------------------------------------------------------------------------------- */

static weft_array *word(int64_t value)
{
    return weft_scalar_int(value, WEFT_UINT32);
}

/* One word of random bits per element: its low half, both halves combined, and its high half. */
void weft__rounding_bits(weft_array *key, weft_dims shape, weft_array *bits[3])
{
    weft_array *words = weft_random_bits(key, shape, 4);
    bits[0] = weft_bitwise_and(words, word(0xffff));
    bits[2] = weft_right_shift(words, word(16));
    bits[1] = weft_bitwise_xor(bits[0], bits[2]);
}

/* A bfloat16 is the high half of a float32, so the sum carries into it with the probability of the
 * low half / 2^16. */
weft_array *weft__stochastic_round(weft_array *x, weft_array *bits, weft_dtype dtype)
{
    if (dtype != WEFT_BFLOAT16)
        return weft_astype(x, dtype);
    x = weft_astype(x, WEFT_FLOAT32);
    weft_array *all = weft_view(x, WEFT_UINT32);
    weft_array *size = weft_bitwise_and(all, word(0x7fffffff));
    weft_array *sign = weft_bitwise_xor(all, size);
    weft_array *sum = weft_minimum(weft_add(size, bits), word(0x7f7fffff)); /* or the largest */
    weft_array *high = weft_right_shift(weft_bitwise_or(sum, sign), word(16));
    weft_array *rounded = weft_view(weft_astype(high, WEFT_UINT16), WEFT_BFLOAT16);
    return weft_where(weft_less(size, word(0x7f800000)), rounded, weft_astype(x, dtype));
}

/* ---- the op --------------------------------------------------------------------------------- */

static void expand(weft_array *node, weft_array **outs)
{
    const weft_adamw_params *k = weft_node_params(node);
    weft_array *in[INPUTS], *wide[4], *bits[3];
    for (int i = 0; i < INPUTS; i++)
        in[i] = weft_node_input(node, i);
    static const int of[] = {PARAMETER, M, V};
    const bool doubles = input_dtype(node, PARAMETER) == WEFT_FLOAT64;
    for (int i = 0; i < HYPER; i++)
        wide[i] = weft_astype(in[i], doubles ? WEFT_FLOAT64 : WEFT_FLOAT32);
    weft_adamw(wide[PARAMETER], wide[GRADIENT], wide[M], wide[V], in[HYPER], k->beta1, k->beta2,
               k->eps, k->decay, outs);
    weft__rounding_bits(in[KEY], weft_shape(in[PARAMETER]), bits);
    for (int i = 0; i < 3; i++)
        outs[i] = weft__stochastic_round(outs[i], bits[i], input_dtype(node, of[i]));
}

/* Whether input i is also an output. */
static bool of_state(int i)
{
    return i == PARAMETER || i == M || i == V;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    static const char *const names[] = {"the parameter", "the gradient", "m", "v", "hyper", "key"};
    const weft_dims shape = input_shape(node, PARAMETER);
    for (int i = 0; i < INPUTS; i++) {
        const weft_dims expected = i == HYPER ? WEFT_DIMS(5) : i == KEY ? WEFT_DIMS(2) : shape;
        const weft_dtype dtype = input_dtype(node, i);
        if ((i != KEY && !weft__expect_float(node, i, names[i], why)) ||
            !weft__expect_shape(node, i, names[i], expected, why))
            return false;
        if (i == KEY ? dtype != WEFT_UINT32 : of_state(i) && dtype == WEFT_FLOAT16)
            return weft_because(why, "%s is %s, expected %s", names[i], weft_dtype_name(dtype),
                                i == KEY ? "uint32" : "another float");
    }
    out[0] = dense(input_dtype(node, PARAMETER), shape);
    out[1] = dense(input_dtype(node, M), shape);
    out[2] = dense(input_dtype(node, V), shape);
    return true;
}

static const weft_adamw_params usual = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-3, .decay = 0.01};
static const weft_adamw_params no_decay = {.beta1 = 0.8, .beta2 = 0.95, .eps = 1e-2};

/* v and the five numbers of hyper are positive. */
#define INPUTS_OF(...)                                                                             \
    {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}}, {.shape = {__VA_ARGS__}},                  \
        {.shape = {__VA_ARGS__}, .lo = 0.1, .hi = 2},                                              \
        {.shape = {1, {5}}, .lo = 0.1, .hi = 1, .fixed_float32 = true},                            \
    {                                                                                              \
        .shape = {1, {2}}, .key = true                                                             \
    }
static const weft_case cases[] = {
    {"matrix", INPUTS, {INPUTS_OF(2, {3, 4})}, &usual},
    {"odd", INPUTS, {INPUTS_OF(1, {7})}, &no_decay},
    {"eights", INPUTS, {INPUTS_OF(2, {5, 808})}, &usual},
    {"0-d", INPUTS, {INPUTS_OF(0, {0})}, &usual},
    {"nothing", INPUTS, {INPUTS_OF(1, {0})}, &usual},
};
#undef INPUTS_OF

const weft_op weft_op_adamw16bit = {
    .name = "adamw16bit",
    .family = WEFT_COMPOSITE,
    .arity = INPUTS,
    .n_outputs = 3,
    .params_size = sizeof(weft_adamw_params),
    .params_fields = weft__adamw_fields,
    .infer = infer,
    .expand = expand,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16,
};

void weft__adamw16bit(weft_array *parameter, weft_array *gradient, weft_array *const state[2],
                      weft_array *hyper, weft_array *key, const weft_adamw_params *params,
                      weft_array *out[3])
{
    weft_scope_open();
    weft_array *inputs[INPUTS] = {parameter, gradient, state[0], state[1], hyper, key};
    weft_array *node = weft_apply(&weft_op_adamw16bit, inputs, INPUTS, params);
    for (int i = 0; i < 3; i++)
        out[i] = weft_pick(node, i);
    weft_scope_close_n(out, 3);
}
