/* ops/nn/attention_codes.c -- attention over 8- or 4-bit quantized keys and values. */
#include "ops/nn/nn.h"

/* ---- Expansion ------------------------------------------------------------------------------ */

weft_array *weft_kv_decode(const weft_kv_codes *codes, int bits, weft_dtype dtype)
{
    weft_scope_open();
    static const uint8_t shifts[2] = {0, 4};
    if (!weft_ok(codes->codes) || !weft_ok(codes->steps) || !weft_ok(codes->least))
        return weft_scope_close(!weft_ok(codes->codes)   ? codes->codes
                                : !weft_ok(codes->steps) ? codes->steps
                                                         : codes->least);
    const int64_t P = bits == 4 ? 2 : 1;
    weft_dims shape = weft_shape(codes->codes);
    const int64_t groups = weft_dim(codes->steps, -1), width = shape.at[3] * P;
    weft_array *x = codes->codes;
    if (P == 2) { /* (B, S, Hk, 2, D / 2) */
        weft_array *by = on_device_of(x, weft_from_data(shifts, WEFT_UINT8, WEFT_DIMS(2, 1)));
        x = weft_right_shift(weft_expand_dims(x, -2), by);
        x = weft_bitwise_and(x, weft_scalar_int(15, WEFT_UINT8));
    }
    const weft_dims parts =
        WEFT_DIMS(shape.at[0], shape.at[1], shape.at[2], groups, groups > 0 ? width / groups : 0);
    x = weft_astype(weft_reshape(x, parts), WEFT_FLOAT32);
    x = weft_add(weft_multiply(x, weft_expand_dims(codes->steps, -1)),
                 weft_expand_dims(codes->least, -1));
    shape.at[3] = width;
    return weft_scope_close(weft_reshape(weft_astype(x, dtype), shape));
}

static int bits_of(const weft_array *node)
{
    return input_shape(node, 1).at[3] == input_shape(node, 0).at[3] ? 8 : 4;
}

static weft_kv_codes codes_at(const weft_array *node, int i)
{
    return (weft_kv_codes){weft_node_input(node, i), weft_node_input(node, i + 1),
                           weft_node_input(node, i + 2)};
}

/* Decodes in q's dtype, which the values had before and which needs the least memory. */
static void expand(weft_array *node, weft_array **outs)
{
    const weft_attention_params *params = weft_node_params(node);
    const weft_kv_codes keys = codes_at(node, 1), values = codes_at(node, 4);
    weft_array *in[5] = {weft_node_input(node, 0)};
    const weft_dtype dtype = weft_dtype_of(in[0]);
    const int n = weft_node_n_inputs(node);
    in[1] = weft_kv_decode(&keys, bits_of(node), dtype);
    in[2] = weft_kv_decode(&values, bits_of(node), dtype);
    for (int i = 7; i < n; i++) {
        in[i - 4] = weft_node_input(node, i);
    }
    weft_array *y = weft_apply(&weft_op_attention, in, n - 4, params);
    outs[0] = weft_pick(y, 0);
    outs[1] = weft_pick(y, 1);
}

/* ---- The op --------------------------------------------------------------------------------- */

/* Checks the codes, steps and least values (B, S, Hk, ...), which start at input i. */
static bool infer_codes(const weft_array *node, int i, const char *name, weft_dims like, int bits,
                        weft_why *why)
{
    if (!weft__expect_rank(node, i, name, "(B, S, Hk, D)", 4, why) ||
        !weft__expect_rank(node, i + 1, name, "(B, S, Hk, groups)", 4, why)) {
        return false;
    }
    const int64_t bytes = input_shape(node, i).at[3], groups = input_shape(node, i + 1).at[3];
    if (input_dtype(node, i) != WEFT_UINT8 || input_dtype(node, i + 1) != WEFT_FLOAT32 ||
        input_dtype(node, i + 2) != WEFT_FLOAT32) {
        return weft_because(why, "%s: expected codes in uint8, steps and least values in float32",
                            name);
    }
    const int64_t parts = bits == 4 ? 2 : 1; /* number of groups of codes per head */
    if (groups < 1 || groups % parts != 0 || bytes % (groups / parts) != 0) {
        return weft_because(why, "%s: %lld bytes of codes do not divide into %lld groups", name,
                            (long long)bytes, (long long)groups);
    }
    like.at[3] = bytes;
    weft_dims steps = like;
    steps.at[3] = groups;
    return weft__expect_shape(node, i, name, like, why) &&
           weft__expect_shape(node, i + 1, name, steps, why) &&
           weft__expect_shape(node, i + 2, name, steps, why);
}

bool weft__attention_codes_infer(const weft_array *node, int n, weft_spec *out, weft_why *why)
{
    const weft_attention_params *params = weft_node_params(node);
    if (!weft__expect_inputs(node, n + params->has_mask + params->has_lengths, why) ||
        !weft__expect_float(node, 0, "q", why) ||
        !weft__expect_rank(node, 0, "q", "(B, L, H, D)", 4, why) ||
        !weft__expect_rank(node, 1, "keys", "(B, S, Hk, D)", 4, why)) {
        return false;
    }
    weft_dims q = input_shape(node, 0), k = input_shape(node, 1);
    const int bits = bits_of(node);
    if (k.at[3] * 8 != q.at[3] * bits) {
        return weft_because(why, "keys of %lld bytes are no codes of %lld elements",
                            (long long)k.at[3], (long long)q.at[3]);
    }
    k.at[0] = weft_node_op(node) == &weft_op_attention_codes ? q.at[0] : k.at[0];
    if (!infer_codes(node, 1, "keys", k, bits, why) ||
        !infer_codes(node, 4, "values", k, bits, why) ||
        !weft__attention_infer_heads(node, q.at[2], k.at[2], why) ||
        !weft__attention_infer_rest(node, n, why)) {
        return false;
    }
    q.at[3] = input_shape(node, 4).at[3] * 8 / bits;
    out[0] = dense(input_dtype(node, 0), q);
    q.n = 3;
    out[1] = dense(compute_dtype(weft_node_input(node, 0)), q);
    return true;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    return weft__attention_codes_infer(node, 7, out, why);
}

static const weft_attention_params full = {.scale = 0.5};
static const weft_attention_params windowed = {.scale = 0.7, .causal = true, .window = 2};
static const weft_attention_params capped = {.scale = 0.6, .softcap = 1.5, .causal = true};
static const weft_attention_params masked = {.scale = 0.6, .has_mask = true};
static const weft_attention_params lengths = {.scale = 0.7, .causal = true, .has_lengths = true};

/* `bytes` bytes of codes in `groups`. The steps keep the decoded elements in the usual range. */
#define CODES(B, S, Hk, bytes_, groups)                                                            \
    {.shape = {4, {B, S, Hk, bytes_}}, .bytes = true},                                             \
        {.shape = {4, {B, S, Hk, groups}}, .lo = 0.002, .hi = 0.012, .fixed_float32 = true},       \
    {                                                                                              \
        .shape = {4, {B, S, Hk, groups}}, .lo = -2, .hi = 0, .fixed_float32 = true                 \
    }
#define HALVES(B, S, Hk, bytes_, groups)                                                           \
    {.shape = {4, {B, S, Hk, bytes_}}, .bytes = true},                                             \
        {.shape = {4, {B, S, Hk, groups}}, .lo = 0.02, .hi = 0.2, .fixed_float32 = true},          \
    {                                                                                              \
        .shape = {4, {B, S, Hk, groups}}, .lo = -2, .hi = 0, .fixed_float32 = true                 \
    }
#define Q(B, L, H, D)                                                                              \
    {                                                                                              \
        .shape = { 4, {B, L, H, D} }                                                               \
    }
static const weft_case cases[] = {
    {"8 bits", 7, {Q(2, 2, 4, 8), CODES(2, 5, 2, 8, 1), CODES(2, 5, 2, 6, 2)}, &full},
    {"4 bits", 7, {Q(1, 3, 2, 8), HALVES(1, 5, 2, 4, 2), HALVES(1, 5, 2, 6, 4)}, &windowed},
    {"softcap", 7, {Q(2, 1, 6, 16), CODES(2, 9, 2, 16, 2), CODES(2, 9, 2, 16, 2)}, &capped},
    {"mask",
     8,
     {Q(2, 2, 2, 4),
      HALVES(2, 16, 1, 2, 2),
      HALVES(2, 16, 1, 2, 2),
      {.shape = {4, {2, 1, 2, 16}}, .boolean = true}},
     &masked},
    {"lengths",
     8,
     {Q(2, 1, 2, 4),
      CODES(2, 16, 1, 4, 1),
      CODES(2, 16, 1, 4, 1),
      {.shape = {1, {2}}, .index_below = 17}},
     &lengths},
    {"no batch", 7, {Q(0, 1, 2, 4), CODES(0, 3, 2, 4, 1), CODES(0, 3, 2, 4, 1)}, &full},
};
#undef CODES
#undef HALVES
#undef Q

const weft_op weft_op_attention_codes = {
    .name = "attention_codes",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 2,
    .params_size = sizeof(weft_attention_params),
    .params_fields = weft__attention_fields,
    .infer = infer,
    .vmap = weft__attention_vmap,
    .expand = expand,
    .work = weft__attention_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    /* Kernels do not round decoded elements to q's dtype; tests/cpu/test_attention_codes.c tests
     * narrow dtypes. */
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft_attention_codes(weft_array *q, const weft_kv_codes *keys,
                                 const weft_kv_codes *values, const weft_attention_options *options)
{
    weft_scope_open();
    weft_array *inputs[10] = {as_inexact(q), keys->codes,   keys->steps,  keys->least,
                              values->codes, values->steps, values->least};
    return weft_scope_close(weft__attention_apply(&weft_op_attention_codes, inputs, 7, options));
}
