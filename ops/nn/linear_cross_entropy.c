/* ops/nn/linear_cross_entropy.c -- cross entropy from hidden states and an output weight, without
 * storing all logits. The gradient of each row's loss with respect to its hidden state is computed
 * with the losses, because both need the same logits. */
#include "ops/nn/linear_cross_entropy.h"
#include "ops/batch.h"
#include "ops/nn/nn.h"
#include "weft/transforms.h"

/* Elements of the logits that the expansions keep at a time, and the fewest rows (or vocabulary
 * entries) of a chunk, so that products remain matrix products. */
enum { CHUNK_ELEMENTS = 1 << 22, CHUNK_ROWS = 64 };

int64_t weft__loss_chunk(int64_t columns)
{
    int64_t rows = CHUNK_ELEMENTS / (columns > 0 ? columns : 1);
    return rows > CHUNK_ROWS ? rows : CHUNK_ROWS;
}

weft__scores weft__scores_of(weft_array *x, weft_array *weight, double softcap)
{
    weft__scores s = {.logits = weft_linear(x, weight, NULL)};
    if (softcap > 0) {
        s.logits = weft_softcap(s.logits, softcap);
        weft_array *square = weft_square(weft_scale(s.logits, 1 / softcap));
        s.slope = weft_subtract(weft_scalar(1, weft_dtype_of(square)), square);
    }
    return s;
}

weft_array *weft__sloped(const weft__scores *s, weft_array *x)
{
    return s->slope ? weft_multiply(x, s->slope) : x;
}

/* A chunk of rows, in the compute dtype. */
typedef struct chunk {
    weft_array *x, *weight, *targets; /* (n, E), (V, E), (n) */
    weft__scores scores;              /* (n, V) */
    double softcap;
} chunk;

static chunk chunk_of(weft_array *node, int64_t from, int64_t to)
{
    const weft_linear_cross_entropy_params *params = weft_node_params(node);
    chunk c = {.weight = weft_node_input(node, 1), .softcap = params->softcap};
    c.x = weft_slice_axis(computed_input(node, 0), 0, from, to);
    c.targets = weft_slice_axis(weft_node_input(node, 2), 0, from, to);
    c.scores = weft__scores_of(c.x, c.weight, c.softcap);
    return c;
}

static weft_array *sloped(const chunk *c, weft_array *x)
{
    return weft__sloped(&c->scores, x);
}

/* The rows' entropies (n) and, unless NULL, the logits' log-probabilities (n, V) and probabilities,
 * which are 0 in rows without a target. */
static weft_array *entropies(const chunk *c, weft_array **logs, weft_array **p)
{
    weft_array *all = weft_logsumexp(c->scores.logits, WEFT_DIMS(-1), true);
    weft_array *zero = weft_scalar_int(0, weft_dtype_of(c->targets));
    weft_array *counted = weft_expand_dims(weft_greater_equal(c->targets, zero), -1);
    weft_array *log_p = weft_subtract(c->scores.logits, all);
    weft_array *shares = weft_where(counted, weft_exp(log_p), weft_scalar(0, weft_dtype_of(log_p)));
    if (logs) {
        *logs = log_p;
        *p = shares;
    }
    return weft_negative(weft_sum(weft_multiply(shares, log_p), WEFT_DIMS(-1), false));
}

/* d loss / d (x w^T), (n, V). */
static weft_array *residuals(const chunk *c)
{
    return sloped(c, weft__row_residuals(c->scores.logits, c->targets));
}

/* ---- Expansion ------------------------------------------------------------------------------ */

/* Appends b to a; b if a is NULL. */
static weft_array *below(weft_array *a, weft_array *b)
{
    weft_array *both[] = {a, b};
    return a ? weft_concatenate(both, 2, 0) : b;
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_linear_cross_entropy_params *params = weft_node_params(node);
    int64_t N = weft_node_spec(node, 0)->shape.at[0];
    int64_t step = weft__loss_chunk(weft_dim(weft_node_input(node, 1), 0));
    weft_array *losses = NULL, *gradients = NULL, *spread = NULL;
    for (int64_t from = 0; from < N || !losses; from += step) {
        chunk c = chunk_of(node, from, from + step < N ? from + step : N);
        losses = below(losses, weft__row_losses(c.scores.logits, c.targets));
        if (params->with_gradient) {
            gradients = below(gradients, weft__linear(residuals(&c), c.weight, NULL, true));
        }
        if (params->with_entropy) {
            spread = below(spread, entropies(&c, NULL, NULL));
        }
    }
    outs[0] = losses;
    if (params->with_gradient) {
        outs[1] = weft_astype(gradients, input_dtype(node, 0));
    }
    if (params->with_entropy) {
        outs[weft__entropy_output(params)] = spread;
    }
}

/* ---- Derivative ----------------------------------------------------------------------------- */

static void add_to(weft_array **sum, weft_array *term)
{
    *sum = *sum ? weft_add(*sum, term) : term;
}

/* Partial gradients of x (rows are concatenated) and of the weight (summed). */
typedef struct gradient_sums {
    bool x_wanted, weight_wanted;
    weft_array *x, *weight;
} gradient_sums;

static weft_array *transposed_product(weft_array *a, weft_array *b)
{
    return weft_matmul(weft_swapaxes(a, 0, 1), b);
}

/* The part that goes through the losses, whose cotangent is ct (n), to x. */
static void add_first(const chunk *c, weft_array *ct, gradient_sums *sums)
{
    weft_array *d = weft_multiply(residuals(c), weft_expand_dims(ct, -1));
    sums->x = below(sums->x, weft__linear(d, c->weight, NULL, true));
}

/* The part that goes through the losses to the weight. The losses are lse - own, where `own` is the
 * logit of the target. */
static weft_array *weight_gradient(weft_array *node, weft_array *ct)
{
    const weft_linear_cross_entropy_params *params = weft_node_params(node);
    weft_array *targets = weft_node_input(node, 2), *x = computed_input(node, 0);
    weft_array *classes = weft_maximum(targets, weft_scalar_int(0, weft_dtype_of(targets)));
    weft_array *rows = weft_take(weft_node_input(node, 1), classes, 0);
    rows = weft_astype(rows, weft_dtype_of(x));
    weft_array *own = weft_sum(weft_multiply(x, rows), WEFT_DIMS(-1), false);
    own = params->softcap > 0 ? weft_softcap(own, params->softcap) : own;
    const weft__loss_weight_inputs in = {.x = weft_node_input(node, 0),
                                         .weight = weft_node_input(node, 1),
                                         .targets = targets,
                                         .lse = weft_add(weft_pick(node, 0), own),
                                         .ct = weft_astype(ct, weft_dtype_of(x))};
    return weft__linear_cross_entropy_weight_grad(&in, params->softcap);
}

/* The part that goes through the rows' gradients g = f w, f = r s with r = softmax - target and s
 * the slope of the softcap c. Their cotangent is u (n, E). With a = u w^T, g u = sum(f a), whose
 * slope along the logits is t = r s' a + s p (s a - sum(p s a)), where p is r's softmax and s' = -2
 * c s / cap^2. So dx = t w and dw = t^T x + f^T u. */
static void add_second(const chunk *c, weft_array *u, gradient_sums *sums)
{
    weft_array *r = weft__row_residuals(c->scores.logits, c->targets);
    weft_array *a = weft_linear(u, c->weight, NULL);
    weft_array *zero = weft_scalar_int(0, weft_dtype_of(c->targets));
    weft_array *counted = weft_expand_dims(weft_greater_equal(c->targets, zero), -1);
    weft_array *p = weft_softmax(c->scores.logits, -1);
    p = weft_where(counted, p, weft_scalar(0, weft_dtype_of(p)));
    weft_array *sa = sloped(c, a);
    weft_array *mean = weft_sum(weft_multiply(p, sa), WEFT_DIMS(-1), true);
    weft_array *t = sloped(c, weft_multiply(p, weft_subtract(sa, mean)));
    if (c->scores.slope) {
        weft_array *bend = weft_scale(weft_multiply(c->scores.logits, c->scores.slope),
                                      -2 / (c->softcap * c->softcap));
        t = weft_add(t, weft_multiply(weft_multiply(r, bend), a));
    }
    if (sums->x_wanted) {
        sums->x = below(sums->x, weft__linear(t, c->weight, NULL, true));
    }
    if (sums->weight_wanted) {
        add_to(&sums->weight,
               weft_add(transposed_product(t, c->x), transposed_product(sloped(c, r), u)));
    }
}

/* The part that goes through the entropies H, whose cotangent is u (n): along the logits the slope
 * of H is -p (log p + H). */
static void add_entropy(const chunk *c, weft_array *u, gradient_sums *sums)
{
    weft_array *logs, *p, *H = weft_expand_dims(entropies(c, &logs, &p), -1);
    weft_array *slope = weft_multiply(weft_negative(p), weft_add(logs, H));
    weft_array *t = sloped(c, weft_multiply(slope, weft_expand_dims(u, -1)));
    if (sums->x_wanted) {
        sums->x = below(sums->x, weft__linear(t, c->weight, NULL, true));
    }
    if (sums->weight_wanted) {
        add_to(&sums->weight, transposed_product(t, c->x));
    }
}

typedef void add_gradients(const chunk *c, weft_array *ct, gradient_sums *sums);

/* Adds the gradients that go through one output, given its cotangent. */
static void through(weft_array *node, weft_array *ct, add_gradients *add, gradient_sums *total)
{
    int64_t N = weft_dim(ct, 0), step = weft__loss_chunk(weft_dim(weft_node_input(node, 1), 0));
    gradient_sums sums = {.x_wanted = total->x_wanted, .weight_wanted = total->weight_wanted};
    ct = weft_astype(ct, compute_dtype(weft_node_input(node, 0)));
    for (int64_t from = 0; from == 0 || from < N; from += step) {
        int64_t to = from + step < N ? from + step : N;
        chunk c = chunk_of(node, from, to);
        weft_array *rows = weft_slice_axis(ct, 0, from, to);
        add(&c, rows, &sums);
    }
    if (sums.x_wanted) {
        add_to(&total->x, sums.x);
    }
    if (sums.weight_wanted) {
        add_to(&total->weight, sums.weight);
    }
}

static void linear_cross_entropy_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                                     weft_array **grads)
{
    const weft_linear_cross_entropy_params *params = weft_node_params(node);
    weft_array *encoded = NULL;
    if (wanted[1] && weft_encoding_of(weft_node_input(node, 1))) {
        encoded = weft__encoded_gradient(node, 1);
    }
    gradient_sums total = {.x_wanted = wanted[0], .weight_wanted = wanted[1] && !encoded};
    if (cts[0] && wanted[0] && params->with_gradient) { /* already computed */
        total.x = weft_multiply(weft_expand_dims(cts[0], -1), weft_pick(node, 1));
    } else if (cts[0] && wanted[0]) {
        gradient_sums x_only = {.x_wanted = true};
        through(node, cts[0], add_first, &x_only);
        total.x = x_only.x;
    }
    if (cts[0] && total.weight_wanted) {
        total.weight = weight_gradient(node, cts[0]);
    }
    if (params->with_gradient && cts[1]) {
        through(node, cts[1], add_second, &total);
    }
    if (params->with_entropy && cts[weft__entropy_output(params)]) {
        through(node, cts[weft__entropy_output(params)], add_entropy, &total);
    }
    grads[0] = total.x;
    grads[1] = encoded ? encoded : total.weight;
}

/* ---- Batch ---------------------------------------------------------------------------------- */

/* If the examples share the weight, their rows are merged. */
static bool linear_cross_entropy_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                                      int64_t size, weft_array **out)
{
    if (batched[1]) {
        return false;
    }
    int64_t N = input_shape(node, 0).at[0];
    weft_array *x = merge_batch(batch_of(in[0], batched[0], size));
    weft_array *targets = merge_batch(batch_of(in[2], batched[2], size));
    weft_array *y = apply3(weft_node_op(node), x, in[1], targets, weft_node_params(node));
    for (int o = 0; o < weft_node_n_outputs(node); o++) {
        out[o] = split_batch(weft_pick(y, o), size, N);
    }
    return true;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_linear_cross_entropy_params *params = weft_node_params(node);
    if (!weft__expect_float(node, 0, "x", why) || !weft__expect_float(node, 1, "the weight", why) ||
        !weft__expect_rank(node, 0, "x", "(N, E)", 2, why) ||
        !weft__expect_rank(node, 1, "the weight", "(V, E)", 2, why)) {
        return false;
    }
    weft_dims x = input_shape(node, 0), weight = input_shape(node, 1);
    if (x.at[1] != weight.at[1]) {
        char x_text[WEFT_SHAPE_TEXT], weight_text[WEFT_SHAPE_TEXT];
        return weft_because(why, "inner dimensions differ: %s x %s", weft__shape_text(&x, x_text),
                            weft__shape_text(&weight, weight_text));
    }
    if (!weft__expect_integer(node, 2, "the target array", why) ||
        !weft__expect_shape(node, 2, "the target array", WEFT_DIMS(x.at[0]), why)) {
        return false;
    }
    out[0] = dense(compute_dtype(weft_node_input(node, 0)), WEFT_DIMS(x.at[0]));
    out[1] = dense(input_dtype(node, 0), x);
    const int entropy = weft__entropy_output(params);
    if (params->with_entropy) {
        out[entropy] = out[0];
    }
    no_outputs_from(out, entropy + params->with_entropy);
    return true;
}

static const weft_field fields[] = {
    WEFT_FIELD(DOUBLE, weft_linear_cross_entropy_params, softcap),
    WEFT_FIELD(BOOL, weft_linear_cross_entropy_params, with_gradient),
    WEFT_FIELD(BOOL, weft_linear_cross_entropy_params, with_entropy),
    WEFT_FIELDS_END,
};

static const weft_linear_cross_entropy_params with_gradient = {.with_gradient = true};
static const weft_linear_cross_entropy_params capped = {.softcap = 2, .with_gradient = true};
static const weft_linear_cross_entropy_params losses_only = {.softcap = 3};
static const weft_linear_cross_entropy_params with_entropy = {.with_entropy = true};
static const weft_linear_cross_entropy_params all_outputs = {
    .softcap = 2, .with_gradient = true, .with_entropy = true};

#define INPUTS(N, E, V)                                                                            \
    {.shape = {2, {N, E}}}, {.shape = {2, {V, E}}},                                                \
    {                                                                                              \
        .shape = {1, {N}}, .index_below = V                                                        \
    }
static const weft_case cases[] = {
    {"losses", 3, {INPUTS(3, 4, 5)}, NULL},
    {"losses, softcap", 3, {INPUTS(3, 4, 5)}, &losses_only},
    {"gradient", 3, {INPUTS(3, 4, 5)}, &with_gradient},
    {"gradient, softcap", 3, {INPUTS(4, 3, 6)}, &capped},
    {"no rows", 3, {INPUTS(0, 4, 5)}, &with_gradient},
    {"entropy", 3, {INPUTS(3, 4, 5)}, &with_entropy},
    {"gradient, entropy, softcap", 3, {INPUTS(4, 3, 6)}, &all_outputs},
};
#undef INPUTS

/* The logits, and the gradient from them. */
static void count_work(const weft_call *call, weft_work *work)
{
    const weft_linear_cross_entropy_params *params = call->params;
    const double products = params->with_gradient ? 2 : 1;
    work->flops =
        2 * products * (double)weft_tensor_size(&call->in[0]) * (double)call->in[1].shape.at[0];
}

const weft_op weft_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .family = WEFT_COMPOSITE,
    .arity = 3,
    .n_outputs = -4,
    .params_size = sizeof(weft_linear_cross_entropy_params),
    .params_fields = fields,
    .infer = infer,
    .takes_encoded = 1u << 1,
    .vjp = linear_cross_entropy_vjp,
    .vmap = linear_cross_entropy_vmap,
    .expand = expand,
    .work = count_work,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = ONLY_FLOATS,
};

/* ---- Public --------------------------------------------------------------------------------- */

weft_array *weft__linear_cross_entropy(weft_array *x, weft_array *weight, weft_array *targets,
                                       double softcap, double temperature, weft_array **entropy)
{
    weft_linear_cross_entropy_params params = {.softcap = softcap / temperature,
                                               .with_gradient = weft_is_differentiating(),
                                               .with_entropy = entropy != NULL};
    x = temperature == 1 ? as_inexact(x) : weft_scale(as_inexact(x), 1 / temperature);
    weft_array *y = apply3(&weft_op_linear_cross_entropy, x, weight, targets, &params);
    if (entropy) {
        *entropy = weft_pick(y, weft__entropy_output(&params));
    }
    return weft_pick(y, 0);
}

weft_array *weft_linear_cross_entropy(weft_array *x, weft_array *weight, weft_array *targets,
                                      double softcap)
{
    weft_scope_open();
    return weft_scope_close(weft__linear_cross_entropy(x, weight, targets, softcap, 1, NULL));
}
