/* ops/nn/linear_sum.c -- the sum of several linear layers' products, y = sum of x_i w_i^T + bias,
 * and its transposed form, sum of x_i w_i. It serves a layer and its low-rank adapter together, and
 * the gradient of an input that several layers read. */
#include "ops/nn/linear_sum.h"

#include "ops/nn/nn.h"

extern const weft_op weft_op_transpose; /* ops/structure/transpose.c */

enum {
    MOST_PAIRS = 8,
    MOST_INPUTS = 2 * MOST_PAIRS + 1,
    MANY_ROWS = 64,
    LARGEST = 16, /* terms for each column of a result, for sums that are not requested */
};

static bool has_bias(const weft_array *node)
{
    return weft_node_n_inputs(node) % 2 == 1;
}

/* ---- Expansion ------------------------------------------------------------------------------- */

static void expand(weft_array *node, weft_array **outs)
{
    const weft_linear_sum_params *params = weft_node_params(node);
    const weft_dtype dtype = weft_node_spec(node, 0)->dtype;
    const weft_linear_params each = {.transposed = params->transposed,
                                     .dtype = weft_promote(dtype, WEFT_FLOAT32)};
    const int n = weft_node_n_inputs(node);
    weft_array *sum = NULL;
    for (int i = 0; i + 1 < n; i += 2) {
        weft_array *bias = i == 0 && has_bias(node) ? weft_node_input(node, n - 1) : NULL;
        weft_array *product =
            weft__linear_of(weft_node_input(node, i), weft_node_input(node, i + 1), bias, &each);
        sum = i == 0 ? product : weft_add(sum, product);
    }
    outs[0] = weft_astype(sum, dtype);
}

/* ---- Derivative ----------------------------------------------------------------------------- */

static void vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    const weft_linear_sum_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    for (int i = 0; i + 1 < n; i += 2) {
        weft_array *x = weft_node_input(node, i), *w = weft_node_input(node, i + 1);
        if (wanted[i]) {
            const weft_linear_params back = {.transposed = !params->transposed,
                                             .dtype = weft_dtype_of(x)};
            grads[i] = weft__linear_of(cts[0], w, NULL, &back);
        }
        if (wanted[i + 1]) {
            grads[i + 1] = weft_encoding_of(w)
                               ? weft__encoded_gradient(node, i + 1)
                               : weft__linear_weight_gradient(x, w, cts[0], params->transposed);
        }
    }
    if (has_bias(node) && wanted[n - 1]) {
        grads[n - 1] = weft__linear_bias_gradient(weft_node_input(node, n - 1), cts[0]);
    }
}

/* ---- Sums ----------------------------------------------------------------------------------- */

typedef struct products {
    weft_array *inputs[MOST_INPUTS];
    int n;
    weft_linear_sum_params params;
} products;

/* Whether the product should not wait for others, since that holds its operands: they are much
 * larger than the result, as the gradient of logits is, or it is the gradient of a weight, to which
 * further rows are added. */
static bool is_urgent(const weft_array *product)
{
    const weft_dims y = weft_node_spec(product, 0)->shape;
    for (int i = 0; i + 1 < weft_node_n_inputs(product); i += 2) {
        const weft_array *x = weft_node_input(product, i);
        if (weft_dim(x, -1) > LARGEST * y.at[y.n - 1] || weft_node_op(x) == &weft_op_transpose) {
            return true;
        }
    }
    return false;
}

/* Adds the node's inputs; false: it is not a sum of products without bias of the same form. */
static bool add_products(products *t, const weft_array *node)
{
    const weft_op *op = weft_node_op(node);
    const int n = op ? weft_node_n_inputs(node) : 0;
    weft_linear_sum_params params = {.dtype = weft_node_spec(node, 0)->dtype};
    if (op == &weft_op_linear) {
        const weft_linear_params *own = weft_node_params(node);
        params.transposed = own->transposed;
        if (own->int8) {
            return false;
        }
    } else if (op == &weft_op_linear_sum) {
        params.transposed = ((const weft_linear_sum_params *)weft_node_params(node))->transposed;
    } else {
        return false;
    }
    if (n % 2 != 0 || t->n + n > 2 * MOST_PAIRS ||
        (t->n > 0 &&
         (params.transposed != t->params.transposed || params.dtype != t->params.dtype))) {
        return false;
    }
    t->params = params;
    for (int i = 0; i < n; i++) {
        t->inputs[t->n++] = weft_node_input(node, i);
    }
    return true;
}

weft_array *weft__linear_add(weft_array *a, weft_array *b)
{
    products t = {.n = 0};
    return add_products(&t, a) && add_products(&t, b) && !is_urgent(a) && !is_urgent(b)
               ? weft_apply(&weft_op_linear_sum, t.inputs, t.n, &t.params)
               : NULL;
}

/* ---- The op --------------------------------------------------------------------------------- */

/* Checks pair `at`, and gives the shape of its product. */
static bool infer_pair(const weft_array *node, int at, bool transposed, weft_dims *shape,
                       weft_why *why)
{
    if (!weft__expect_float(node, at, "x", why) ||
        !weft__expect_float(node, at + 1, "the weight", why) ||
        !weft__expect_rank(node, at + 1, "the weight", "(F, E)", 2, why)) {
        return false;
    }
    weft_dims x = input_shape(node, at), w = input_shape(node, at + 1);
    const int inner = transposed ? 0 : 1;
    if (x.n < 1 || x.at[x.n - 1] != w.at[inner]) {
        char x_text[WEFT_SHAPE_TEXT], w_text[WEFT_SHAPE_TEXT];
        return weft_because(why, "inner dimensions of pair %d differ: %s x %s", at / 2,
                            weft__shape_text(&x, x_text), weft__shape_text(&w, w_text));
    }
    x.at[x.n - 1] = w.at[1 - inner];
    *shape = x;
    return true;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_linear_sum_params *params = weft_node_params(node);
    const int n = weft_node_n_inputs(node);
    weft_dims first = {0}, shape;
    if (n < 2 || n > MOST_INPUTS) {
        return weft_because(why, "expected 1 to %d pairs of x and weight, got %d inputs",
                            MOST_PAIRS, n);
    }
    if (params->dtype && !weft_dtype_is_float(params->dtype)) {
        return weft_because(why, "dtype: expected a float dtype, got %s",
                            weft_dtype_name(params->dtype));
    }
    for (int i = 0; i + 1 < n; i += 2) {
        if (!infer_pair(node, i, params->transposed, i == 0 ? &first : &shape, why)) {
            return false;
        }
        if (i > 0 && !weft__shape_equal(&first, &shape)) {
            char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
            return weft_because(why, "the shapes of products 0 and %d differ: %s, %s", i / 2,
                                weft__shape_text(&first, a), weft__shape_text(&shape, b));
        }
    }
    if (has_bias(node)) {
        if (params->transposed) {
            return weft_because(why, "the transposed form has no bias");
        }
        if (!weft__expect_float(node, n - 1, "the bias", why) ||
            !weft__expect_shape(node, n - 1, "the bias", WEFT_DIMS(first.at[first.n - 1]), why)) {
            return false;
        }
    }
    *out = dense(params->dtype ? params->dtype : input_dtype(node, 0), first);
    return true;
}

static void count_work(const weft_call *call, weft_work *work)
{
    double terms = 0;
    for (int i = 0; i + 1 < call->n_inputs; i += 2) {
        const weft_dims *x = &call->in[i].shape;
        terms += (double)x->at[x->n - 1];
    }
    work->flops = 2 * terms * (double)weft_tensor_size(&call->out[0]);
}

static const weft_field fields[] = {
    WEFT_FIELD(BOOL, weft_linear_sum_params, transposed),
    WEFT_FIELD(DTYPE, weft_linear_sum_params, dtype),
    WEFT_FIELDS_END,
};

static const weft_linear_sum_params transposed = {.transposed = true};

static const weft_case cases[] = {
    {"pair",
     4,
     {{.shape = {2, {3, 4}}},
      {.shape = {2, {5, 4}}},
      {.shape = {2, {3, 2}}},
      {.shape = {2, {5, 2}}}},
     NULL},
    {"bias",
     5,
     {{.shape = {3, {2, 3, 4}}},
      {.shape = {2, {5, 4}}},
      {.shape = {3, {2, 3, 2}}},
      {.shape = {2, {5, 2}}},
      {.shape = {1, {5}}}},
     NULL},
    {"transposed",
     6,
     {{.shape = {2, {3, 5}}},
      {.shape = {2, {5, 4}}},
      {.shape = {2, {3, 2}}},
      {.shape = {2, {2, 4}}},
      {.shape = {2, {3, 1}}},
      {.shape = {2, {1, 4}}}},
     &transposed},
    {"one", 2, {{.shape = {1, {4}}}, {.shape = {2, {3, 4}}}}, NULL},
    {"no rows",
     4,
     {{.shape = {2, {0, 4}}},
      {.shape = {2, {5, 4}}},
      {.shape = {2, {0, 2}}},
      {.shape = {2, {5, 2}}}},
     NULL},
    {"no terms",
     4,
     {{.shape = {2, {3, 0}}},
      {.shape = {2, {5, 0}}},
      {.shape = {2, {3, 2}}},
      {.shape = {2, {5, 2}}}},
     NULL},
};

const weft_op weft_op_linear_sum = {
    .name = "linear_sum",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .params_size = sizeof(weft_linear_sum_params),
    .params_fields = fields,
    .infer = infer,
    .takes_encoded = 0xaaaa,
    .vjp = vjp,
    .expand = expand,
    .add = weft__linear_add,
    .work = count_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

weft_array *weft__linear_sum(weft_array *const *x, weft_array *const *weights, int n,
                             weft_array *bias)
{
    weft_array *inputs[MOST_INPUTS];
    int count = 0;
    if (n > MOST_PAIRS) {
        return weft_error_array("linear_sum: expected at most %d pairs, got %d", MOST_PAIRS, n);
    }
    for (int i = 0; i < n; i++) {
        inputs[count++] = x[i];
        inputs[count++] = weights[i];
    }
    if (bias != NULL) {
        inputs[count++] = bias;
    }
    return weft_apply(&weft_op_linear_sum, inputs, count, NULL);
}

bool weft__use_linear_sum(const weft_array *x)
{
    if (!weft_ok(x) || !weft_dtype_is_float(weft_dtype_of(x)) || weft__length_reads()) {
        return false;
    }
    const int64_t terms = weft_dim(x, -1);
    return terms > 0 && weft_size(x) / terms >= MANY_ROWS;
}
