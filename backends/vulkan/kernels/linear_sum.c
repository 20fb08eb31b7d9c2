/* backends/vulkan/kernels/linear_sum.c -- sums of products (linear_sum) on matrix cores: one launch
 * adds the terms of all products before it rounds. Encoded weights are decoded to 16 bits first. */
#include "backends/vulkan/kernels/linear_sum.h"

#include "backends/vulkan/kernels/product_plan.h"
#include "backends/vulkan/kernels/quantized.h"
#include "weft/op_params.h"

enum {
    MOST_PAIRS = 8,
    LONG = 32,          /* products of fewer terms fit in one step of every tile */
    LEAST_ROWS = 9,     /* the fewest rows of a sum in one launch: vector shaders take fewer */
    DECODED_ROWS = 256, /* the same if weights are decoded */
    DECODED_ROOM = 192 << 20, /* most bytes of decoded weights */
};

/* product_cores.comp */
typedef struct factors_record {
    uint64_t a, b;
    uint32_t a_line, b_line, terms, unused;
} factors_record;

typedef struct products {
    weft__vulkan_product all[MOST_PAIRS];
    int n;
    int64_t decoded; /* bytes of decoded weights */
} products;

static uint64_t address_of(const weft_tensor *t)
{
    return t->buffer ? weft__vulkan_address(t) : 0;
}

static int64_t decoded_bytes(const weft_tensor *w)
{
    return w->encoding ? (weft_tensor_size(w) * 2 + 63) / 64 * 64 : 0;
}

/* The products of row-major operands. Decoded weights are at `decoded`, one after another. */
static void products_of(const weft_call *call, uint64_t decoded, products *s)
{
    const weft_linear_sum_params *params = call->params;
    const weft_tensor *y = &call->out[0];
    const int own = weft__vulkan_own_inputs(call), inner = params->transposed ? 0 : 1;
    *s = (products){.n = own / 2};
    for (int i = 0; i < s->n; i++) {
        const weft_tensor *x = &call->in[2 * i], *w = &call->in[2 * i + 1];
        const int last = x->shape.n - 1;
        weft__vulkan_product *p = &s->all[i];
        *p = (weft__vulkan_product){.columns = y->shape.at[last],
                                    .terms = x->shape.at[last],
                                    .sizes = {1, 1, 1, 1},
                                    .y_dtype = y->dtype,
                                    .y = address_of(y)};
        p->rows = p->terms > 0 ? weft_tensor_size(x) / p->terms : 0;
        p->a = (weft__vulkan_factor){
            .dtype = x->dtype, .address = address_of(x), .outer = p->terms, .term = 1};
        const int64_t width = w->shape.at[1];
        p->b = (weft__vulkan_factor){.dtype = w->encoding ? x->dtype : w->dtype,
                                     .address = w->encoding ? decoded + (uint64_t)s->decoded
                                                            : address_of(w),
                                     .outer = inner == 1 ? width : 1,
                                     .term = inner == 1 ? 1 : width};
        s->decoded += decoded_bytes(w);
    }
    if (own % 2 == 1) {
        const weft_tensor *bias = &call->in[own - 1];
        s->all[0].has_bias = true;
        s->all[0].bias_dtype = bias->dtype;
        s->all[0].bias = address_of(bias);
        s->all[0].bias_stride = 1;
    }
}

/* Plans all products as one; false: dtypes, sizes or addresses do not allow it. */
static bool plan_of(const weft_call *call, const products *s, product_plan *plan)
{
    const weft__vulkan_cores *cores = weft__vulkan_cores_of(call);
    const weft__vulkan_product *first = &s->all[0];
    int64_t terms = 0, long_terms = 0;
    for (int i = 0; i < s->n; i++) {
        product_plan one = {.p = s->all[i], .batches = 1};
        const weft__vulkan_factor *b = &s->all[i].b;
        if (!cores || !weft__product_choose_cores(&one, cores) || one.scaled ||
            b->dtype != first->b.dtype ||
            weft__product_is_by_term(b) != weft__product_is_by_term(&first->b)) {
            return false;
        }
        terms += s->all[i].terms;
        long_terms |= s->all[i].terms >= LONG ? s->all[i].terms : 0;
    }
    *plan = (product_plan){.p = *first, .batches = 1, .n_products = s->n, .long_terms = long_terms};
    plan->p.terms = terms;
    return weft__product_choose_cores(plan, cores);
}

/* Whether a shader can index the operand, and loads of 16 bytes are aligned. */
static bool is_addressable(const weft_tensor *t)
{
    return weft_tensor_size(t) <= INT32_MAX && t->dtype != WEFT_FLOAT64 &&
           (!t->encoding ? t->offset % 16 == 0
                         : weft__vulkan_decodes(t) && t->shape.at[t->shape.n - 1] % 8 == 0);
}

bool weft__vulkan_linear_sum_fits(const weft_call *call)
{
    products s;
    product_plan plan;
    if (call->n_inputs > 2 * MOST_PAIRS + 1 || call->out[0].dtype == WEFT_FLOAT64 ||
        weft_tensor_size(&call->out[0]) > INT32_MAX) {
        return false;
    }
    for (int i = 0; i < call->n_inputs; i++) {
        if (!is_addressable(&call->in[i])) {
            return false;
        }
    }
    products_of(call, 0, &s);
    return s.all[0].rows >= (s.decoded > 0 ? DECODED_ROWS : LEAST_ROWS) &&
           s.decoded <= DECODED_ROOM && plan_of(call, &s, &plan);
}

bool weft__vulkan_linear_sum_takes_epilogue(const weft_call *call)
{
    products s;
    products_of(call, 0, &s);
    return weft__vulkan_product_takes(call, &s.all[0]) && call->epilogue->n_results == 1;
}

int64_t weft__vulkan_linear_sum_workspace(const weft_call *call)
{
    products s;
    int64_t most = 0;
    product_plan plan;
    products_of(call, 0, &s);
    if (plan_of(call, &s, &plan) && weft__product_has_sums(&plan)) {
        most = plan.parts * plan.p.rows * plan.p.columns * (int64_t)sizeof(float);
    }
    for (int i = 0; i < s.n; i++) {
        const int64_t bytes = weft__vulkan_product_workspace(call, &s.all[i]);
        most = bytes > most ? bytes : most;
    }
    return s.decoded + most;
}

static weft_status decode(const weft_call *call, const products *s)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n && status == WEFT_OK; i++) {
        const weft_tensor *w = &call->in[2 * i + 1];
        if (w->encoding) {
            status = weft__vulkan_decode_rows(call, w, 0, w->shape.at[0], s->all[i].b.dtype,
                                              s->all[i].b.address);
        }
    }
    return status;
}

static weft_status run_together(const weft_call *call, const products *s, product_plan *plan,
                                uint64_t workspace)
{
    factors_record records[MOST_PAIRS];
    for (int i = 0; i < s->n; i++) {
        const weft__vulkan_product *p = &s->all[i];
        records[i] = (factors_record){
            .a = p->a.address,
            .b = p->b.address,
            .a_line = (uint32_t)p->a.outer,
            .b_line = (uint32_t)(weft__product_is_by_term(&p->b) ? p->b.outer : p->b.term),
            .terms = (uint32_t)p->terms};
    }
    plan->records = weft__vulkan_record(call, records, (uint32_t)s->n * sizeof *records);
    return plan->records
               ? weft__product_run_plan(call, plan, weft__vulkan_cores_of(call), workspace)
               : weft_error_status();
}

/* One product after another, each added to the rounded sum of those before it: where an operand has
 * another address than the plan knew, which is not aligned for the matrix cores. */
static weft_status run_apart(const weft_call *call, products *s, uint64_t workspace)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n && status == WEFT_OK; i++) {
        weft__vulkan_product *p = &s->all[i];
        if (i > 0) {
            p->has_bias = p->residual = true;
            p->bias_dtype = p->y_dtype;
            p->bias = p->y;
        }
        status = weft__vulkan_product_run(call, p, workspace);
    }
    return status;
}

weft_status weft__vulkan_linear_sum(const weft_call *call)
{
    products s;
    product_plan plan;
    const uint64_t workspace = weft__vulkan_workspace(call);
    products_of(call, workspace, &s);
    const weft_status status = decode(call, &s);
    if (status != WEFT_OK) {
        return status;
    }
    weft__vulkan_product_join(call, &s.all[0], 0);
    return plan_of(call, &s, &plan) ? run_together(call, &s, &plan, workspace + (uint64_t)s.decoded)
                                    : run_apart(call, &s, workspace + (uint64_t)s.decoded);
}
