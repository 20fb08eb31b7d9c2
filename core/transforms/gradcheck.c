/* core/transforms/gradcheck.c -- gradients against central differences in float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/shape.h"
#include "core/transforms/transforms.h"

enum { MAX_ARRAYS = 32 };

typedef struct check {
    weft_function *fn;
    void *context;
    weft_array *const *inputs;
    int n_inputs, n_outputs;
    weft_gradcheck_options options;
    double *values[MAX_ARRAYS];  /* of float inputs */
    double *weights[MAX_ARRAYS]; /* random cotangent of each output, NULL for integer ones */
    int64_t sizes[MAX_ARRAYS];   /* of the outputs */
    double *scratch;             /* room for the largest output */
    char op[64];                 /* that made the output with the largest weight in the worst */
    double worst, worst_analytic, worst_numeric;
    int worst_input;
    int64_t worst_element;
} check;

/* splitmix64 to (-1, 1), away from zero so that no output is overlooked. */
static double random_weight(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    double u = (double)((z ^ z >> 31) >> 11) * 0x1p-53;
    return u < 0.5 ? -1 + u : u;
}

/* sum of weights times outputs, with input `which` (or none: -1) replaced. */
static weft_status weighted_sum(check *c, int which, const double *replaced, double *sum)
{
    weft_array *in[MAX_ARRAYS], *out[MAX_ARRAYS] = {NULL};
    weft_scope_open();
    memcpy(in, c->inputs, (size_t)c->n_inputs * sizeof *in);
    if (which >= 0) {
        in[which] = weft_from_data(replaced, WEFT_FLOAT64, weft_shape(c->inputs[which]));
    }
    c->fn(c->context, in, c->n_inputs, out, c->n_outputs);
    weft_status status = WEFT_OK;
    *sum = 0;
    for (int i = 0; i < c->n_outputs && status == WEFT_OK; i++) {
        if (!c->weights[i]) {
            continue;
        }
        status = weft_read(out[i], WEFT_FLOAT64, c->scratch, c->sizes[i]);
        for (int64_t k = 0; k < c->sizes[i] && status == WEFT_OK; k++) {
            *sum += c->weights[i][k] * c->scratch[k];
        }
    }
    weft_scope_close(NULL);
    return status;
}

static weft_status difference(check *c, int input, int64_t element, double *numeric)
{
    double *x = c->values[input];
    double here = x[element], up, down;
    double h = c->options.step * fmax(1, fabs(here));
    x[element] = here + h;
    weft_status status = weighted_sum(c, input, x, &up);
    x[element] = here - h;
    if (status == WEFT_OK) {
        status = weighted_sum(c, input, x, &down);
    }
    double width = (here + h) - (here - h);
    x[element] = here;
    if (status == WEFT_OK) {
        *numeric = (up - down) / width;
    }
    return status;
}

static weft_status compare(check *c, int input, const double *gradient, int64_t n)
{
    int64_t most = c->options.max_elements > 0 ? c->options.max_elements : n;
    int64_t step = n > most ? n / most : 1;
    for (int64_t k = 0; k < n; k += step) {
        double numeric;
        weft_status status = difference(c, input, k, &numeric);
        if (status != WEFT_OK) {
            return status;
        }
        double error = fabs(gradient[k] - numeric) / fmax(1, fabs(numeric));
        if (!(error <= c->worst)) { /* a NaN is worse than anything */
            c->worst = isnan(error) ? INFINITY : error;
            c->worst_input = input;
            c->worst_element = k;
            c->worst_analytic = gradient[k];
            c->worst_numeric = numeric;
        }
    }
    return WEFT_OK;
}

/* ---- preparation ---------------------------------------------------------------------------- */

static weft_status out_of_memory(void)
{
    return weft_fail(WEFT_MEMORY, "gradcheck: out of memory");
}

static weft_status read_inputs(check *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        weft_array *x = c->inputs[i];
        if (weft_ok(x) && !weft__is_differentiable(x)) {
            continue;
        }
        if (weft_ok(x) && weft_dtype_of(x) != WEFT_FLOAT64) {
            return weft_fail(WEFT_INVALID, "gradcheck: input %d: expected float64, got %s", i,
                             weft_dtype_name(weft_dtype_of(x)));
        }
        c->values[i] = weft_malloc((size_t)weft_nbytes(x));
        if (!c->values[i]) {
            return out_of_memory();
        }
        weft_status status = weft_read(x, WEFT_FLOAT64, c->values[i], weft_size(x));
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* Random cotangents of the outputs' shapes, as arrays in the current scope. */
static weft_status draw_cotangents(check *c, weft_array **cotangents)
{
    weft_array *out[MAX_ARRAYS] = {NULL};
    uint64_t state = c->options.seed;
    int64_t largest = 1;
    c->fn(c->context, c->inputs, c->n_inputs, out, c->n_outputs);
    for (int i = 0; i < c->n_outputs; i++) {
        if (!weft_ok(out[i])) {
            return weft_fail(weft__report(out[i]), "gradcheck: output %d: %s", i,
                             weft_error(out[i]));
        }
        const weft_op *op = weft_node_op(out[i]);
        snprintf(c->op, sizeof c->op, "%s", op ? op->name : "an input");
        if (!weft__is_differentiable(out[i])) {
            continue;
        }
        int64_t n = c->sizes[i] = weft_size(out[i]);
        largest = n > largest ? n : largest;
        c->weights[i] = weft_malloc((size_t)n * sizeof(double));
        if (!c->weights[i]) {
            return out_of_memory();
        }
        for (int64_t k = 0; k < n; k++) {
            c->weights[i][k] = random_weight(&state);
        }
        cotangents[i] = weft_from_data(c->weights[i], WEFT_FLOAT64, weft_shape(out[i]));
    }
    c->scratch = weft_malloc((size_t)largest * sizeof(double));
    return c->scratch ? WEFT_OK : out_of_memory();
}

static weft_status check_all(check *c)
{
    weft_array *cotangents[MAX_ARRAYS] = {NULL}, *grads[MAX_ARRAYS] = {NULL};
    weft_status status = draw_cotangents(c, cotangents);
    if (status == WEFT_OK) {
        status = weft_vjp(c->fn, c->context, c->inputs, c->n_inputs, cotangents, NULL, c->n_outputs,
                          grads);
    }
    for (int i = 0; i < c->n_inputs && status == WEFT_OK; i++) {
        if (!c->values[i]) {
            continue;
        }
        int64_t n = weft_size(c->inputs[i]);
        double *gradient = weft_malloc((size_t)n * sizeof *gradient);
        status = gradient ? weft_read(grads[i], WEFT_FLOAT64, gradient, n) : out_of_memory();
        if (status == WEFT_OK) {
            status = compare(c, i, gradient, n);
        }
        weft_free(gradient);
    }
    return status;
}

weft_status weft_gradcheck(weft_function *fn, void *context, weft_array *const *inputs,
                           int n_inputs, int n_outputs, const weft_gradcheck_options *options)
{
    if (n_inputs < 1 || n_inputs > MAX_ARRAYS || n_outputs < 1 || n_outputs > MAX_ARRAYS) {
        return weft_fail(WEFT_INVALID,
                         "gradcheck: expected 1 to %d inputs and outputs, got %d "
                         "and %d",
                         MAX_ARRAYS, n_inputs, n_outputs);
    }
    check c = {.fn = fn,
               .context = context,
               .inputs = inputs,
               .n_inputs = n_inputs,
               .n_outputs = n_outputs};
    c.options = options ? *options : (weft_gradcheck_options){0};
    c.options.step = c.options.step > 0 ? c.options.step : 1e-6;
    c.options.tolerance = c.options.tolerance > 0 ? c.options.tolerance : 1e-6;
    weft_scope_open();
    weft_status status = read_inputs(&c);
    if (status == WEFT_OK) {
        status = check_all(&c);
    }
    weft_scope_close(NULL);
    for (int i = 0; i < MAX_ARRAYS; i++) {
        weft_free(c.values[i]);
        weft_free(c.weights[i]);
    }
    weft_free(c.scratch);
    if (status == WEFT_OK && c.worst > c.options.tolerance) {
        status = weft_fail(WEFT_INVALID,
                           "gradcheck: %s: input %d, element %lld: expected %.9g (numeric), got "
                           "%.9g (analytic), relative error %.3g above %.3g",
                           c.op, c.worst_input, (long long)c.worst_element, c.worst_numeric,
                           c.worst_analytic, c.worst, c.options.tolerance);
    }
    return status;
}
