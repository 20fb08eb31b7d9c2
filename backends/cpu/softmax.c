/* backends/cpu/softmax.c -- softmax, log_softmax, their gradients, logsumexp and argmax along the
 * last axis. Rows are read as float32 in pieces that stay in the L1 cache; results are rounded
 * once. */
#include <math.h>

#include "backends/cpu/kernels.h"
#include "backends/cpu/pool.h"
#include "backends/cpu/sizes.h"
#include "backends/cpu/structure.h"
#include "weft/op_params.h"

enum { PIECE = 1024, GRAIN = 1 << 13 };

typedef struct rows {
    const weft_call *call;
    weft_dtype dtype;
    int64_t length;
    bool largest; /* argmax rather than argmin */
} rows;

bool weft__cpu_softmax_fits(const weft_call *call)
{
    const weft_axis_params *p = call->params;
    return weft__cpu_is_narrow(call) && p->axis == -1;
}

/* Whether the reduced axes are the last ones. */
bool weft__cpu_logsumexp_fits(const weft_call *call)
{
    const weft_reduce_params *p = call->params;
    return weft__cpu_is_narrow(call) && p->axes.n > 0 && p->axes.at[0] == -p->axes.n;
}

static weft_status run(const weft_call *call, cpu_task *task, bool largest)
{
    const weft_tensor *x = &call->in[0];
    rows r = {.call = call, .dtype = x->dtype, .largest = largest};
    r.length = x->shape.at[x->shape.n - 1];
    weft__cpu_parallel(weft_tensor_size(x) / r.length, GRAIN / r.length, task, &r);
    return WEFT_OK;
}

/* The largest element of row i of the first input; NaN if it contains one. */
static float row_max(const rows *r, int64_t i)
{
    float room[PIECE], largest = -INFINITY;
    for (int64_t c = 0; c < r->length; c += PIECE) {
        int64_t n = smaller(PIECE, r->length - c);
        const float *x =
            weft__cpu_floats(r->dtype, r->call->in[0].data, i * r->length + c, n, room);
        float here = weft__cpu_kernels()->max_row(x, n);
        largest = here > largest || isnan(here) ? here : largest;
        if (isnan(largest)) {
            break;
        }
    }
    return largest;
}

/* The sum of exp(x - shift) over row i; the terms are stored in `terms` unless it is NULL. */
static double exp_sum(const rows *r, int64_t i, float shift, float *terms)
{
    float room[PIECE], scratch[PIECE];
    double sum = 0;
    for (int64_t c = 0; c < r->length; c += PIECE) {
        int64_t n = smaller(PIECE, r->length - c);
        const float *x =
            weft__cpu_floats(r->dtype, r->call->in[0].data, i * r->length + c, n, room);
        sum += weft__cpu_kernels()->exp_row(x, n, shift, terms ? terms + c : scratch);
    }
    return sum;
}

/* ---- softmax -------------------------------------------------------------------------------- */

static void softmax_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows *r = context;
    const weft_tensor *x = &r->call->in[0], *out = &r->call->out[0];
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float largest = row_max(r, i), room[PIECE];
        float *terms = r->dtype == WEFT_FLOAT32 ? (float *)out->data + i * r->length : NULL;
        float factor = (float)(1 / exp_sum(r, i, largest, terms));
        if (terms) {
            weft__cpu_kernels()->scale_row(terms, r->length, factor);
            continue;
        }
        for (int64_t c = 0; c < r->length; c += PIECE) {
            int64_t n = smaller(PIECE, r->length - c);
            (void)weft__cpu_floats(r->dtype, x->data, i * r->length + c, n, room);
            (void)weft__cpu_kernels()->exp_row(room, n, largest, room);
            weft__cpu_kernels()->scale_row(room, n, factor);
            weft__cpu_store(r->dtype, room, out->data, i * r->length + c, n);
        }
    }
}

weft_status weft__cpu_softmax(const weft_call *call)
{
    return run(call, softmax_rows, false);
}

static void log_softmax_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows *r = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float largest = row_max(r, i), room[PIECE], results[PIECE];
        float log_sum = (float)log(exp_sum(r, i, largest, NULL));
        for (int64_t c = 0; c < r->length; c += PIECE) {
            int64_t n = smaller(PIECE, r->length - c), first = i * r->length + c;
            const float *x = weft__cpu_floats(r->dtype, r->call->in[0].data, first, n, room);
            for (int64_t k = 0; k < n; k++) {
                results[k] = x[k] - largest - log_sum;
            }
            weft__cpu_store(r->dtype, results, r->call->out[0].data, first, n);
        }
    }
}

weft_status weft__cpu_log_softmax(const weft_call *call)
{
    return run(call, log_softmax_rows, false);
}

/* ---- the gradients -------------------------------------------------------------------------- */

/* The sum of y dy over a row, or of dy. */
static double row_dot(const rows *r, int64_t i, bool with_y)
{
    float room[PIECE], other[PIECE];
    double sum = 0;
    for (int64_t c = 0; c < r->length; c += PIECE) {
        int64_t n = smaller(PIECE, r->length - c), first = i * r->length + c;
        const float *dy = weft__cpu_floats(r->dtype, r->call->in[1].data, first, n, room);
        if (with_y) {
            const float *y = weft__cpu_floats(r->dtype, r->call->in[0].data, first, n, other);
            sum += weft__cpu_kernels()->dot_row(y, dy, n);
        } else {
            sum += weft__cpu_kernels()->sum_row(dy, n);
        }
    }
    return sum;
}

static void gradient_rows(const rows *r, int64_t begin, int64_t end, bool logarithm)
{
    const cpu_kernels *table = weft__cpu_kernels();
    float a[PIECE], b[PIECE], results[PIECE];
    for (int64_t i = begin; i < end; i++) {
        float sum = (float)row_dot(r, i, !logarithm);
        for (int64_t c = 0; c < r->length; c += PIECE) {
            int64_t n = smaller(PIECE, r->length - c), first = i * r->length + c;
            const float *y = weft__cpu_floats(r->dtype, r->call->in[0].data, first, n, a);
            const float *dy = weft__cpu_floats(r->dtype, r->call->in[1].data, first, n, b);
            if (logarithm) {
                table->log_softmax_grad_row(y, dy, n, sum, results);
            } else {
                table->softmax_grad_row(y, dy, n, sum, results);
            }
            weft__cpu_store(r->dtype, results, r->call->out[0].data, first, n);
        }
    }
}

static void softmax_grad_rows(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    gradient_rows(context, begin, end, false);
}

static void log_softmax_grad_rows(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    gradient_rows(context, begin, end, true);
}

weft_status weft__cpu_softmax_grad(const weft_call *call)
{
    return run(call, softmax_grad_rows, false);
}

weft_status weft__cpu_log_softmax_grad(const weft_call *call)
{
    return run(call, log_softmax_grad_rows, false);
}

/* ---- logsumexp ------------------------------------------------------------------------------ */

static void logsumexp_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows *r = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float result = row_max(r, i);
        if (isfinite(result)) {
            result = (float)((double)result + log(exp_sum(r, i, result, NULL)));
        }
        weft__cpu_store(r->dtype, &result, r->call->out[0].data, i, 1);
    }
}

weft_status weft__cpu_logsumexp(const weft_call *call)
{
    int64_t outputs = weft_tensor_size(&call->out[0]);
    rows r = {.call = call, .dtype = call->in[0].dtype};
    r.length = weft_tensor_size(&call->in[0]) / outputs;
    weft__cpu_parallel(outputs, GRAIN / (r.length + 1), logsumexp_rows, &r);
    return WEFT_OK;
}

/* ---- argmax --------------------------------------------------------------------------------- */

/* Whether `a` replaces `b`, which came first. */
static bool beats(float a, float b, bool largest)
{
    return isnan(a) ? !isnan(b) : largest ? a > b : a < b;
}

/* The index of the first element of x that equals the value (or is NaN, if the value is). */
static int64_t place_of(const float *x, float value)
{
    int64_t i = 0;
    while (isnan(value) ? !isnan(x[i]) : x[i] != value) {
        i++;
    }
    return i;
}

static void arg_rows(void *context, int64_t begin, int64_t end, int worker)
{
    const rows *r = context;
    const cpu_kernels *table = weft__cpu_kernels();
    float room[PIECE];
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        float best = 0;
        int64_t place = -1;
        for (int64_t c = 0; c < r->length; c += PIECE) {
            int64_t n = smaller(PIECE, r->length - c);
            const float *x =
                weft__cpu_floats(r->dtype, r->call->in[0].data, i * r->length + c, n, room);
            float here = r->largest ? table->max_row(x, n) : table->min_row(x, n);
            if (place < 0 || beats(here, best, r->largest)) {
                best = here;
                place = c + place_of(x, here);
            }
        }
        ((uint32_t *)r->call->out[0].data)[i] = (uint32_t)place;
    }
}

weft_status weft__cpu_argmax(const weft_call *call)
{
    return run(call, arg_rows, true);
}

weft_status weft__cpu_argmin(const weft_call *call)
{
    return run(call, arg_rows, false);
}
