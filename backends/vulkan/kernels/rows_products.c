/* backends/vulkan/kernels/rows_products.c -- kernel rows for matrix products and the loss fused
 * with one. */
#include "backends/vulkan/dispatch.h"
#include "backends/vulkan/kernels/families.h"
#include "backends/vulkan/kernels/linear_cross_entropy.h"
#include "backends/vulkan/kernels/linear_sum.h"
#include "backends/vulkan/kernels/product.h"
#include "weft/op_params.h"

/* ---- Operands -------------------------------------------------------------------------------- */

bool weft__vulkan_goes_forward(const weft_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        for (int axis = 0; axis < call->in[i].shape.n; axis++) {
            if (call->in[i].strides[axis] < 0) {
                return false;
            }
        }
    }
    return true;
}

weft__vulkan_factor weft__vulkan_matrix(const weft_tensor *t, int outer_axis, int term_axis)
{
    return (weft__vulkan_factor){.dtype = t->dtype,
                                 .address = t->buffer ? weft__vulkan_address(t) : 0,
                                 .outer = t->strides[outer_axis],
                                 .term = t->strides[term_axis]};
}

/* ---- matmul --------------------------------------------------------------------------------- */

/* Adds a batch axis in front of the existing ones, or merges it with the first of them. False: too
 * many axes. */
static bool add_axis(weft__vulkan_product *p, int *n, int64_t size, int64_t a, int64_t b)
{
    int64_t *first = &p->sizes[4 - *n], *a_first = &p->a.batch[4 - *n],
            *b_first = &p->b.batch[4 - *n];
    if (*n == 0 && b == 0 && (p->rows == 1 || a == p->rows * p->a.outer)) {
        p->a.outer = p->rows == 1 ? a : p->a.outer; /* one b for all: the axis becomes rows */
        p->rows *= size;
    } else if (*n > 0 && a == *first * *a_first && b == *first * *b_first) {
        *first *= size;
    } else if (*n == 4) {
        return false;
    } else {
        ++*n;
        first[-1] = size;
        a_first[-1] = a;
        b_first[-1] = b;
    }
    return true;
}

static bool product_of_matmul(const weft_call *call, weft__vulkan_product *p)
{
    const weft_tensor *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    int rank = y->shape.n, n = 0;
    *p = (weft__vulkan_product){.rows = y->shape.at[rank - 2],
                                .columns = y->shape.at[rank - 1],
                                .terms = a->shape.at[rank - 1],
                                .sizes = {1, 1, 1, 1},
                                .a = weft__vulkan_matrix(a, rank - 2, rank - 1),
                                .b = weft__vulkan_matrix(b, rank - 1, rank - 2),
                                .y_dtype = y->dtype,
                                .y = y->buffer ? weft__vulkan_address(y) : 0};
    for (int axis = rank - 3; axis >= 0; axis--) {
        int64_t size = y->shape.at[axis];
        if (size != 1 && !add_axis(p, &n, size, a->shape.at[axis] == 1 ? 0 : a->strides[axis],
                                   b->shape.at[axis] == 1 ? 0 : b->strides[axis])) {
            return false;
        }
    }
    return true;
}

static bool matmul_fits(const weft_call *call)
{
    weft__vulkan_product p;
    return weft__vulkan_fits(call) && weft__vulkan_goes_forward(call) &&
           product_of_matmul(call, &p);
}

/* The same for inputs made row-major first. */
static bool matmul_dense_fits(const weft_call *call)
{
    weft_tensor in[2] = {call->in[0], call->in[1]};
    weft_call dense = *call;
    dense.in = in;
    for (int i = 0; i < 2; i++) {
        int64_t stride = 1;
        for (int axis = in[i].shape.n - 1; axis >= 0; axis--) {
            in[i].strides[axis] = stride;
            stride *= in[i].shape.at[axis];
        }
    }
    return matmul_fits(&dense);
}

static int64_t matmul_workspace(const weft_call *call)
{
    weft__vulkan_product p;
    product_of_matmul(call, &p);
    return weft__vulkan_product_workspace(call, &p);
}

static weft_status matmul(const weft_call *call)
{
    weft__vulkan_product p;
    product_of_matmul(call, &p);
    return weft__vulkan_product_run(call, &p, weft__vulkan_workspace(call));
}

/* ---- linear --------------------------------------------------------------------------------- */

/* The rows of x, of any rank. False: no uniform stride. */
static bool rows_of(const weft_tensor *x, int64_t *rows, int64_t *stride)
{
    *rows = 1;
    *stride = 0;
    for (int i = x->shape.n - 2; i >= 0; i--) {
        if (x->shape.at[i] == 1) {
            continue;
        }
        if (*rows > 1 && x->strides[i] != *rows * *stride) {
            return false;
        }
        *stride = *rows > 1 ? *stride : x->strides[i];
        *rows *= x->shape.at[i];
    }
    return true;
}

static bool product_of_linear(const weft_call *call, weft__vulkan_product *p)
{
    const weft_linear_params *params = call->params;
    const weft_tensor *x = &call->in[0], *w = &call->in[1], *y = &call->out[0];
    const weft_tensor *bias = weft__vulkan_own_inputs(call) > 2 ? &call->in[2] : NULL;
    int last = x->shape.n - 1, inner = params->transposed ? 0 : 1;
    *p = (weft__vulkan_product){.columns = y->shape.at[last],
                                .terms = x->shape.at[last],
                                .sizes = {1, 1, 1, 1},
                                .a = weft__vulkan_matrix(x, last, last),
                                .b = weft__vulkan_matrix(w, 1 - inner, inner),
                                .y_dtype = y->dtype,
                                .y = y->buffer ? weft__vulkan_address(y) : 0};
    if (bias) {
        p->has_bias = true;
        p->bias_dtype = bias->dtype;
        p->bias = bias->buffer ? weft__vulkan_address(bias) : 0;
        p->bias_stride = bias->strides[0];
    }
    return rows_of(x, &p->rows, &p->a.outer);
}

/* With a second matrix: of the same strides. */
static bool linear_takes_epilogue(const weft_call *call)
{
    const weft_tensor *w = &call->in[1], *twin = w + weft__vulkan_own_inputs(call);
    weft__vulkan_product p;
    const bool same = call->epilogue->n_results == 1 ||
                      (w->dtype == twin->dtype && w->strides[0] == twin->strides[0] &&
                       w->strides[1] == twin->strides[1]);
    return same && product_of_linear(call, &p) && weft__vulkan_product_takes(call, &p);
}

/* With an epilogue, one that is taken. */
static bool linear_takes_prologue(const weft_call *call)
{
    weft__vulkan_product p;
    return product_of_linear(call, &p) && weft__vulkan_product_takes_norm(call, &p);
}

static bool linear_fits(const weft_call *call)
{
    weft__vulkan_product p;
    return weft__vulkan_fits(call) && weft__vulkan_goes_forward(call) &&
           product_of_linear(call, &p);
}

static int64_t linear_workspace(const weft_call *call)
{
    weft__vulkan_product p;
    product_of_linear(call, &p);
    return weft__vulkan_product_workspace(call, &p);
}

static weft_status linear(const weft_call *call)
{
    weft__vulkan_product p;
    product_of_linear(call, &p);
    if (call->epilogue) {
        const weft_tensor *twin = &call->in[1] + weft__vulkan_own_inputs(call);
        const bool two = call->epilogue->n_results == 2;
        weft__vulkan_product_join(call, &p, two ? weft__vulkan_address(twin) : 0);
    }
    weft__vulkan_product_normalize(call, &p);
    return weft__vulkan_product_run(call, &p, weft__vulkan_workspace(call));
}

/* ---- The rows ------------------------------------------------------------------------------- */

static const weft_kernel_row rows[] = {
    {.op = "matmul",
     .signature = "F",
     .layout = WEFT_STRIDED,
     .fits = matmul_fits,
     .workspace = matmul_workspace,
     .kernel = matmul},
    {.op = "matmul",
     .signature = "F",
     .layout = WEFT_CONTIGUOUS,
     .fits = matmul_dense_fits,
     .workspace = matmul_workspace,
     .kernel = matmul},
    {.op = "linear",
     .signature = "F",
     .layout = WEFT_STRIDED,
     .fits = linear_fits,
     .workspace = linear_workspace,
     .kernel = linear,
     .takes_epilogue = linear_takes_epilogue,
     .takes_prologue = linear_takes_prologue},
    {.op = "linear",
     .signature = "F",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_fits,
     .workspace = linear_workspace,
     .kernel = linear,
     .takes_epilogue = linear_takes_epilogue,
     .takes_prologue = linear_takes_prologue},
    {.op = "linear_sum",
     .takes_encoded = 0xaaaa,
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_linear_sum_fits,
     .workspace = weft__vulkan_linear_sum_workspace,
     .kernel = weft__vulkan_linear_sum,
     .takes_epilogue = weft__vulkan_linear_sum_takes_epilogue},
    {.op = "linear_cross_entropy",
     .signature = "FFIfF",
     .layout = WEFT_STRIDED,
     .fits = weft__vulkan_linear_cross_entropy_fits,
     .workspace = weft__vulkan_linear_cross_entropy_workspace,
     .kernel = weft__vulkan_linear_cross_entropy},
    {.op = "linear_cross_entropy",
     .signature = "FFIfF",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_linear_cross_entropy_dense_fits,
     .workspace = weft__vulkan_linear_cross_entropy_workspace,
     .kernel = weft__vulkan_linear_cross_entropy},
    {.op = "linear_cross_entropy",
     .takes_encoded = 1 << 1,
     .signature = "FFIfF",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_linear_cross_entropy_encoded_fits,
     .workspace = weft__vulkan_linear_cross_entropy_workspace,
     .kernel = weft__vulkan_linear_cross_entropy},
    {.op = "linear_cross_entropy_weight_grad",
     .signature = "FFIffF",
     .layout = WEFT_CONTIGUOUS,
     .fits = weft__vulkan_linear_cross_entropy_weight_fits,
     .workspace = weft__vulkan_linear_cross_entropy_weight_workspace,
     .kernel = weft__vulkan_linear_cross_entropy_weight},
};

const weft__vulkan_family weft__vulkan_products = {rows, sizeof rows / sizeof *rows};
