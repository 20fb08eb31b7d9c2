/* ops/quantize/quantized_product.c -- products of pairs of matrices, the second one quantized: the
 * op behind weft_quantized_matmul and weft_gather_qmm. */
#include "ops/products/chosen.h"
#include "ops/quantize/quantized.h"

/* The inputs by name; biases, lhs and rhs may be NULL. */
typedef struct product_inputs {
    weft_array *x, *codes, *scales, *biases, *lhs, *rhs;
} product_inputs;

static product_inputs named(weft_array *const *in, const weft_quantized_params *p)
{
    const int next = 1 + tensors_of(p);
    return (product_inputs){.x = in[0],
                            .codes = in[1],
                            .scales = in[2],
                            .biases = is_affine(p) ? in[3] : NULL,
                            .lhs = p->gathered ? in[next] : NULL,
                            .rhs = p->gathered ? in[next + 1] : NULL};
}

static product_inputs inputs_of(const weft_array *node)
{
    weft_array *in[WEFT_MAX_OPERANDS];
    for (int i = 0; i < weft_node_n_inputs(node); i++) {
        in[i] = weft_node_input(node, i);
    }
    return named(in, weft_node_params(node));
}

weft_array *weft__quantized_product(weft_array *x, weft_array *codes, weft_array *scales,
                                    weft_array *biases, weft_array *lhs, weft_array *rhs,
                                    weft_quantized_params p)
{
    weft_array *in[WEFT_MAX_OPERANDS];
    p.gathered = lhs != NULL;
    int n = weft__quantized_inputs(x, codes, scales, biases, NULL, in);
    if (p.gathered) {
        in[n++] = lhs;
        in[n++] = rhs;
    }
    return weft_apply(&weft_op_quantized_matmul, in, n, &p);
}

/* 0, 1, ..., n - 1 on the device of `like`. */
static weft_array *numbers(weft_array *like, int64_t n)
{
    return weft_to(weft_arange(0, (double)n, 1, WEFT_INT32), weft_device_of(like));
}

/* ---- In smaller ops ------------------------------------------------------------------------- */

/* The dequantized matrices (Bw, R, K), without rounding. */
static weft_array *whole_matrices(const product_inputs *in, const weft_quantized_params *p,
                                  weft_dtype dtype)
{
    weft_array *all[4];
    weft_quantized_params q = *p;
    q.dtype = dtype;
    q.gathered = q.transposed = false;
    weft_array *scales = is_affine(p) ? weft_astype(in->scales, dtype) : in->scales;
    weft_array *biases = is_affine(p) ? weft_astype(in->biases, dtype) : NULL;
    int n = weft__quantized_inputs(NULL, in->codes, scales, biases, NULL, all);
    return weft_apply(&weft_op_dequantize, all, n, &q);
}

static weft_dtype wide_dtype(const product_inputs *in)
{
    bool wide = weft_dtype_of(in->x) == WEFT_FLOAT64 || weft_dtype_of(in->scales) == WEFT_FLOAT64;
    return wide ? WEFT_FLOAT64 : WEFT_FLOAT32;
}

static weft_array *taken(weft_array *x, weft_array *indices)
{
    return indices ? weft_take(x, indices, 0) : x;
}

static void expand(weft_array *node, weft_array **outs)
{
    const weft_quantized_params *p = weft_node_params(node);
    product_inputs in = inputs_of(node);
    weft_dtype dtype = wide_dtype(&in);
    weft_array *w = taken(whole_matrices(&in, p, dtype), in.rhs);
    weft_array *x = weft_astype(taken(in.x, in.lhs), dtype);
    outs[0] = weft_astype(weft_matmul(x, p->transposed ? weft_swapaxes(w, -1, -2) : w),
                          weft_dtype_of(in.x));
}

/* ---- Derivatives ---------------------------------------------------------------------------- */

/* Adds (J, ...) at the index of each j: (count, ...). */
static weft_array *scattered(weft_array *x, weft_array *indices, int64_t count)
{
    weft_dims shape = weft_shape(x);
    shape.at[0] = count;
    weft_array *zeros = weft__zeros_on_device_of(x, shape, weft_dtype_of(x));
    return apply3(&weft_op_scatter_add, zeros, indices, x, &(weft_axis_params){.axis = -shape.n});
}

/* The gradient of x: the product of the cotangent in the other transposition. */
static weft_array *x_gradient(const product_inputs *in, weft_array *ct,
                              const weft_quantized_params *p)
{
    weft_quantized_params q = *p;
    q.transposed = !p->transposed;
    weft_array *lhs = in->lhs ? numbers(ct, weft_dim(ct, 0)) : NULL;
    weft_array *dx =
        weft__quantized_product(ct, in->codes, in->scales, in->biases, lhs, in->rhs, q);
    return in->lhs ? scattered(dx, in->lhs, weft_dim(in->x, 0)) : dx;
}

/* Sums (J, R, K / group) over the pairs of each matrix w. */
static weft_array *over_pairs(const product_inputs *in, weft_array *sums)
{
    weft_array *all = in->rhs ? scattered(sums, in->rhs, weft_dim(in->scales, 0))
                      : weft_dim(in->scales, 0) == 1 ? weft_sum(sums, WEFT_DIMS(-3), true)
                                                     : sums;
    return weft_astype(all, weft_dtype_of(in->scales));
}

static void vjp(weft_array *node, weft_array *const *cts, const bool *wanted, weft_array **grads)
{
    const weft_quantized_params *p = weft_node_params(node);
    product_inputs in = inputs_of(node);
    if (wanted[0]) {
        grads[0] = x_gradient(&in, cts[0], p);
    }
    if (!is_affine(p) || !(wanted[2] || wanted[3])) {
        return;
    }
    weft_dtype dtype = wide_dtype(&in);
    weft_array *ct = weft_astype(cts[0], dtype), *x = weft_astype(taken(in.x, in.lhs), dtype);
    weft_array *dw = p->transposed ? weft_matmul(weft_swapaxes(ct, -1, -2), x)
                                   : weft_matmul(weft_swapaxes(x, -1, -2), ct);
    if (wanted[2]) {
        weft_array *codes = taken(weft__codes_as(in.codes, in.scales, dtype, p), in.rhs);
        grads[2] = over_pairs(&in, weft__group_sums(weft_multiply(dw, codes), p->group));
    }
    if (wanted[3]) {
        grads[3] = over_pairs(&in, weft__group_sums(dw, p->group));
    }
}

/* Linear in x, and in scales and biases together. */
static void jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_quantized_params *p = weft_node_params(node);
    product_inputs in = inputs_of(node);
    weft_array *sum = NULL;
    if (tangents[0]) {
        sum = weft__quantized_product(tangents[0], in.codes, in.scales, in.biases, in.lhs, in.rhs,
                                      *p);
    }
    if (is_affine(p) && (tangents[2] || tangents[3])) {
        weft_array *none = weft_subtract(in.scales, in.scales);
        weft_array *part =
            weft__quantized_product(in.x, in.codes, tangents[2] ? tangents[2] : none,
                                    tangents[3] ? tangents[3] : none, in.lhs, in.rhs, *p);
        sum = sum ? weft_add(sum, part) : part;
    }
    out[0] = sum;
}

/* ---- Batches -------------------------------------------------------------------------------- */

/* (S, B, ...) as (S B, ...), or (B, ...) unchanged. */
static weft_array *flattened(weft_array *x, bool batched)
{
    return batched ? weft_flatten(x, 0, 1) : x;
}

/* Indices (S J) into S times `count` matrices if these are batched, else into `count`. */
static weft_array *batch_indices(weft_array *indices, bool batched, bool of_batch, int64_t size,
                                 int64_t count)
{
    weft_dims shape = WEFT_DIMS(size, weft_dim(indices, -1));
    weft_array *all = weft_astype(indices, WEFT_INT32);
    all = batched ? all : weft_broadcast_to(all, shape);
    if (of_batch) {
        weft_array *first =
            weft_multiply(numbers(indices, size), weft_scalar_int(count, WEFT_INT32));
        all = weft_add(all, weft_expand_dims(first, 1));
    }
    return weft_flatten(all, 0, 1);
}

static weft_array *in_batch(weft_array *x, bool batched, int64_t size)
{
    weft_dims shape = weft_shape(x), leading = {.n = shape.n + 1, .at = {size}};
    memcpy(leading.at + 1, shape.at, (size_t)shape.n * sizeof *shape.at);
    return batched ? x : weft_broadcast_to(x, leading);
}

/* The matrices and the pairs of the whole batch become one list. */
static bool vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                 weft_array **out)
{
    const weft_quantized_params *p = weft_node_params(node);
    product_inputs was = inputs_of(node), now = named(in, p);
    const int n = tensors_of(p), next = 1 + n;
    const int64_t Bx = weft_dim(was.x, 0), Bw = weft_dim(was.scales, 0);
    const int64_t J = weft_node_spec(node, 0)->shape.at[0];
    bool of_w = false;
    for (int i = 1; i <= n; i++) {
        of_w = of_w || batched[i];
    }
    if (of_w) {
        now.codes = in_batch(now.codes, batched[1], size);
        now.scales = in_batch(now.scales, batched[2], size);
        now.biases = is_affine(p) ? in_batch(now.biases, batched[3], size) : NULL;
    }
    weft_array *lhs = NULL, *rhs = NULL;
    if (p->gathered || of_w || Bw != 1) {
        weft_array *each = numbers(was.x, J);
        weft_array *left = p->gathered ? now.lhs : each;
        weft_array *right = p->gathered ? now.rhs : Bw == 1 ? weft_zeros_like(each) : each;
        lhs = batch_indices(left, p->gathered && batched[next], batched[0], size, Bx);
        rhs = batch_indices(right, p->gathered && batched[next + 1], of_w, size, Bw);
    }
    weft_array *biases = now.biases ? flattened(now.biases, of_w) : NULL;
    weft_array *y =
        weft__quantized_product(flattened(now.x, batched[0]), flattened(now.codes, of_w),
                                flattened(now.scales, of_w), biases, lhs, rhs, *p);
    weft_dims shape = weft_shape(y);
    out[0] = weft_reshape(y, WEFT_DIMS(size, J, shape.at[1], shape.at[2]));
    return true;
}

/* ---- The op --------------------------------------------------------------------------------- */

static bool infer_pairs(const weft_array *node, const weft_quantized_params *p, int64_t Bw,
                        int64_t *J, weft_why *why)
{
    const int next = 1 + tensors_of(p), n = weft_node_n_inputs(node);
    const int64_t Bx = *J;
    if (n != next + 2 * p->gathered) {
        return weft_because(why, "%d inputs, expected %d", n, next + 2 * p->gathered);
    }
    if (!p->gathered) {
        return Bw == 1 || Bw == Bx ||
               weft_because(why, "%lld matrices x and %lld matrices w", (long long)Bx,
                            (long long)Bw);
    }
    for (int i = next; i < n; i++) {
        weft_dims shape = input_shape(node, i);
        if (!weft_dtype_is_integer(input_dtype(node, i)) || shape.n != 1 ||
            shape.at[0] != input_shape(node, next).at[0]) {
            return weft_because(why, "expected two lists of integers of one length");
        }
        *J = shape.at[0];
    }
    return true;
}

static bool infer(const weft_array *node, weft_spec *out, weft_why *why)
{
    const weft_quantized_params *p = weft_node_params(node);
    weft_dims w;
    if (!weft__expect_quantized(node, 1, p, &w, why)) {
        return false;
    }
    weft_dims x = input_shape(node, 0);
    weft_dtype dtype = input_dtype(node, 0);
    if (!weft_dtype_is_float(dtype) || x.n != 3 || w.n != 3) {
        return weft_because(why, "expected floats x of rank 3 and w of rank 3, got %s of %d and %d",
                            weft_dtype_name(dtype), x.n, w.n);
    }
    if (x.at[2] != w.at[p->transposed ? 2 : 1]) {
        char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
        return weft_because(why, "inner dimensions differ: %s x %s%s", weft__shape_text(&x, a),
                            weft__shape_text(&w, b), p->transposed ? " transposed" : "");
    }
    int64_t J = x.at[0];
    weft_dims y = {.n = 3, .at = {J, x.at[1], w.at[p->transposed ? 1 : 2]}};
    return infer_pairs(node, p, w.at[0], &y.at[0], why) && set_spec(out, dtype, &y);
}

#define W(...)                                                                                     \
    {.shape = DIMS(__VA_ARGS__, 8), .key = true}, {.shape = DIMS(__VA_ARGS__, 1)},                 \
    {                                                                                              \
        .shape = DIMS(__VA_ARGS__, 1)                                                              \
    }
#define PARAMS(TRANSPOSED, GATHERED)                                                               \
    &(const weft_quantized_params)                                                                 \
    {                                                                                              \
        .mode = WEFT_ENCODING_AFFINE, .bits = 4, .group = 64, .transposed = (TRANSPOSED),          \
        .gathered = (GATHERED)                                                                     \
    }
static const weft_case cases[] = {
    {.name = "transposed",
     .n_inputs = 4,
     .in = {{.shape = DIMS(1, 3, 64)}, W(1, 5)},
     .params = PARAMS(true, false)},
    {.name = "one w",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 1, 5)}, W(1, 5)},
     .params = PARAMS(false, false)},
    {.name = "batch",
     .n_inputs = 4,
     .in = {{.shape = DIMS(2, 2, 64)}, W(2, 3)},
     .params = PARAMS(true, false)},
    {.name = "gathered",
     .n_inputs = 6,
     .in = {{.shape = DIMS(2, 2, 64)},
            W(3, 2),
            {.shape = DIMS(4), .index_below = 2},
            {.shape = DIMS(4), .index_below = 3}},
     .params = PARAMS(true, true)},
    {.name = "gathered as it is",
     .n_inputs = 6,
     .in = {{.shape = DIMS(2, 1, 2)},
            W(3, 2),
            {.shape = DIMS(3), .index_below = 2},
            {.shape = DIMS(3), .index_below = 3}},
     .params = PARAMS(false, true)},
    {.name = "no rows",
     .n_inputs = 4,
     .in = {{.shape = DIMS(1, 0, 64)}, W(1, 5)},
     .params = PARAMS(true, false)},
};
#undef W
#undef PARAMS

static void count_work(const weft_call *call, weft_work *work)
{
    const weft_quantized_params *p = call->params;
    const weft_dims *x = &call->in[0].shape;
    work->flops = 2 * (double)x->at[x->n - 1] * (double)weft_tensor_size(&call->out[0]);
    for (int i = 1; p->gathered && i <= tensors_of(p); i++)
        work->bytes -= weft__unselected_bytes(&call->in[i], call->out[0].shape.at[0]);
}

const weft_op weft_op_quantized_matmul = {
    .name = "quantized_matmul",
    .family = WEFT_COMPOSITE,
    .arity = -1,
    .params_size = sizeof(weft_quantized_params),
    .params_fields = weft__quantized_fields,
    .infer = infer,
    .expand = expand,
    .work = count_work,
    .vjp = vjp,
    .jvp = jvp,
    .vmap = vmap,
    .cases = cases,
    .n_cases = sizeof cases / sizeof *cases,
    .no_test_dtypes = DTYPE_NOT_FLOAT,
    .domain = {-0.1, 0.1},
    .tolerance = 0x1p-24 * 64, /* sums of 64 terms of magnitude up to 0.2 */
};
