/* ops/nn/attention_pages.c -- attention over keys and values in pages of a pool: key s of a row is
 * token s % page of the page that the row's table has at s / page. */
#include "ops/nn/nn.h"

/* Number of arrays of keys and values, codes or not. */
static int stored(const weft_array *node)
{
    return input_dtype(node, 1) == WEFT_UINT8 ? 6 : 2;
}

/* The rows of an array of pages (P, page, Hk, D) by their tables (B, N): (B, N page, Hk, D). */
static weft_array *rows_of(weft_array *x, weft_array *pages)
{
    weft_array *y = weft_take(x, pages, 0);
    return weft_ok(y) ? weft_flatten(y, 1, 2) : y;
}

static void expand(weft_array *node, weft_array **outs)
{
    const int keys = stored(node), n = weft_node_n_inputs(node);
    weft_array *pages = weft_node_input(node, 1 + keys), *in[9] = {weft_node_input(node, 0)};
    for (int i = 1; i <= keys; i++) {
        in[i] = rows_of(weft_node_input(node, i), pages);
    }
    for (int i = keys + 2; i < n; i++) {
        in[i - 1] = weft_node_input(node, i);
    }
    weft_array *y = weft_apply(keys == 6 ? &weft_op_attention_codes : &weft_op_attention, in, n - 1,
                               weft_node_params(node));
    outs[0] = weft_pick(y, 0);
    outs[1] = weft_pick(y, 1);
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const int n = weft_node_n_inputs(node) > 1 ? stored(node) + 2 : 4;
    const weft_attention_params *params = weft_node_params(node);
    if (!weft__expect_inputs(node, n + params->has_mask + params->has_lengths, why) ||
        !weft__expect_rank(node, n - 1, "pages", "(B, N)", 2, why)) {
        return false;
    }
    if (input_dtype(node, n - 1) != WEFT_INT32) {
        return weft_because(why, "pages are %s, expected int32",
                            weft_dtype_name(input_dtype(node, n - 1)));
    }
    const int64_t B = input_shape(node, 0).n > 0 ? input_shape(node, 0).at[0] : 0;
    if (!weft__expect_shape(node, n - 1, "pages", WEFT_DIMS(B, input_shape(node, n - 1).at[1]),
                            why) ||
        !(n > 4 ? weft__attention_codes_infer(node, n, out, why)
                : weft__attention_infer(node, n, why))) {
        return false;
    }
    return n > 4 || weft__attention_infer_out(node, n, out, why);
}

static const weft_attention_params full = {.scale = 0.5};
static const weft_attention_params lengths = {.scale = 0.7, .causal = true, .has_lengths = true};
static const weft_attention_params all_kinds = {
    .scale = 0.7, .softcap = 2, .window = 7, .causal = true, .has_mask = true, .has_lengths = true};

#define PAGES(B, N, P)                                                                             \
    {                                                                                              \
        .shape = {2, {B, N}}, .index_below = P                                                     \
    }
#define CODES(P, page, Hk, bytes_, groups)                                                         \
    {.shape = {4, {P, page, Hk, bytes_}}, .bytes = true},                                          \
        {.shape = {4, {P, page, Hk, groups}}, .lo = 0.002, .hi = 0.012, .fixed_float32 = true},    \
    {                                                                                              \
        .shape = {4, {P, page, Hk, groups}}, .lo = -2, .hi = 0, .fixed_float32 = true              \
    }
static const weft_case cases[] = {
    {"full",
     4,
     {{.shape = {4, {2, 1, 4, 3}}},
      {.shape = {4, {5, 4, 2, 3}}},
      {.shape = {4, {5, 4, 2, 2}}},
      PAGES(2, 3, 5)},
     &full},
    {"lengths",
     5,
     {{.shape = {4, {3, 2, 2, 4}}},
      {.shape = {4, {7, 8, 1, 4}}},
      {.shape = {4, {7, 8, 1, 4}}},
      PAGES(3, 2, 7),
      {.shape = {1, {3}}, .index_below = 17}},
     &lengths},
    {"mask and lengths",
     6,
     {{.shape = {4, {2, 2, 2, 3}}},
      {.shape = {4, {4, 8, 1, 3}}},
      {.shape = {4, {4, 8, 1, 3}}},
      PAGES(2, 3, 4),
      {.shape = {4, {2, 1, 1, 24}}},
      {.shape = {1, {2}}, .index_below = 25}},
     &all_kinds},
    {"8 bits",
     8,
     {{.shape = {4, {2, 1, 4, 8}}}, CODES(5, 6, 2, 8, 1), CODES(5, 6, 2, 6, 2), PAGES(2, 3, 5)},
     &full},
    {"no batch",
     4,
     {{.shape = {4, {0, 2, 2, 4}}},
      {.shape = {4, {3, 2, 2, 4}}},
      {.shape = {4, {3, 2, 2, 4}}},
      PAGES(0, 2, 3)},
     &full},
};
#undef PAGES
#undef CODES

const weft_op weft_op_attention_pages = {
    .name = "attention_pages",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .n_outputs = 2,
    .params_size = sizeof(weft_attention_params),
    .params_fields = weft__attention_fields,
    .infer = infer,
    .expand = expand,
    .work = weft__attention_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    /* As attention_codes. */
    .no_test_dtypes = ONLY_FLOATS | 1u << WEFT_FLOAT16 | 1u << WEFT_BFLOAT16,
};
