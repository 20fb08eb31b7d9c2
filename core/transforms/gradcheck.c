/* core/transforms/gradcheck.c -- gradients and tangents against central differences in float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"

enum { MAX_ARRAYS = 32 };

typedef struct check {
    weft_function *fn;
    void *context;
    weft_array *const *inputs;
    int n_inputs, n_outputs;
    weft_gradcheck_options options;
    double *values[MAX_ARRAYS];   /* of float inputs */
    double *weights[MAX_ARRAYS];  /* random cotangent of each output, NULL for integer ones */
    int64_t sizes[MAX_ARRAYS];    /* of the outputs */
    double *scratch;              /* room for the largest output */
    double *tangents[MAX_ARRAYS]; /* random, of float inputs; NULL unless they are asked for */
    char op[64];                  /* that made the output with the largest weight in the worst */
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

/* Evaluates those that are not NULL in one call, so that none loses its data to another. */
static weft_status eval_together(weft_array *const *arrays, int n)
{
    weft_array *named[MAX_ARRAYS];
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i]) {
            named[count++] = arrays[i];
        }
    }
    return weft_eval_n(named, count);
}

/* Adds the weighted sum of arrays of the outputs' shapes. */
static weft_status weigh(check *c, weft_array *const *out, double *sum)
{
    weft_status status = eval_together(out, c->n_outputs);
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
    return status;
}

/* sum of weights times outputs, at the values as they are now of input `which` (-1: of all float
 * inputs) and otherwise at the inputs. */
static weft_status weighted_sum(check *c, int which, double *sum)
{
    weft_array *in[MAX_ARRAYS], *out[MAX_ARRAYS] = {NULL};
    weft_scope_open();
    for (int i = 0; i < c->n_inputs; i++) {
        bool moved = c->values[i] && (which < 0 || which == i);
        in[i] = moved ? weft_from_data(c->values[i], WEFT_FLOAT64, weft_shape(c->inputs[i]))
                      : c->inputs[i];
    }
    c->fn(c->context, in, c->n_inputs, out, c->n_outputs);
    weft_status status = weigh(c, out, sum);
    weft_scope_close(NULL);
    return status;
}

static weft_status difference(check *c, int input, int64_t element, double *numeric)
{
    double *x = c->values[input];
    double here = x[element], up, down;
    double h = c->options.step * fmax(1, fabs(here));
    x[element] = here + h;
    weft_status status = weighted_sum(c, input, &up);
    x[element] = here - h;
    if (status == WEFT_OK) {
        status = weighted_sum(c, input, &down);
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
            return weft__out_of_memory("gradcheck", NULL);
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
            return weft__out_of_memory("gradcheck", NULL);
        }
        for (int64_t k = 0; k < n; k++) {
            c->weights[i][k] = random_weight(&state);
        }
        cotangents[i] = weft_from_data(c->weights[i], WEFT_FLOAT64, weft_shape(out[i]));
    }
    c->scratch = weft_malloc((size_t)largest * sizeof(double));
    return c->scratch ? WEFT_OK : weft__out_of_memory("gradcheck", NULL);
}

/* ---- along a direction ---------------------------------------------------------------------- */

/* Random tangents of the float inputs, as arrays in the current scope too. */
static weft_status draw_tangents(check *c, weft_array **tangents)
{
    uint64_t state = c->options.seed + 1;
    for (int i = 0; i < c->n_inputs; i++) {
        int64_t n = weft_size(c->inputs[i]);
        if (!c->values[i]) {
            continue;
        }
        c->tangents[i] = weft_malloc((size_t)n * sizeof(double));
        if (!c->tangents[i]) {
            return weft__out_of_memory("gradcheck", NULL);
        }
        for (int64_t k = 0; k < n; k++) {
            c->tangents[i][k] = random_weight(&state);
        }
        tangents[i] = weft_from_data(c->tangents[i], WEFT_FLOAT64, weft_shape(c->inputs[i]));
    }
    return WEFT_OK;
}

static void step_along(check *c, double h)
{
    for (int i = 0; i < c->n_inputs; i++) {
        int64_t n = c->values[i] ? weft_size(c->inputs[i]) : 0;
        for (int64_t k = 0; k < n; k++) {
            c->values[i][k] += h * c->tangents[i][k];
        }
    }
}

/* The central difference of the weighted sum along the tangents. The inputs are left a rounding
 * away from where they were. */
static weft_status slope_along(check *c, double *numeric)
{
    double up, down, h = c->options.step;
    step_along(c, h);
    weft_status status = weighted_sum(c, -1, &up);
    step_along(c, -2 * h);
    if (status == WEFT_OK) {
        status = weighted_sum(c, -1, &down);
    }
    step_along(c, h);
    if (status == WEFT_OK) {
        *numeric = (up - down) / (2 * h);
    }
    return status;
}

static weft_status hold_together(const check *c, double forward, double other, const char *what,
                                 double tolerance)
{
    double error = fabs(forward - other) / fmax(1, fabs(other));
    if (error <= tolerance) { /* a NaN is not */
        return WEFT_OK;
    }
    return weft_fail(WEFT_INVALID,
                     "gradcheck: %s: along a random direction: expected %.9g (%s), got %.9g "
                     "(forward), relative error %.3g above %.3g",
                     c->op, other, what, forward, error, tolerance);
}

/* Forward mode: the weighted derivative along the tangents, against the central difference and
 * against the gradients' product with the tangents. The latter agree but for rounding. */
static weft_status check_forward(check *c, weft_array *const *tangents, double backward)
{
    weft_array *out[MAX_ARRAYS] = {NULL};
    double forward, numeric;
    weft_status status =
        weft_jvp(c->fn, c->context, c->inputs, c->n_inputs, tangents, NULL, c->n_outputs, out);
    if (status == WEFT_OK) {
        status = weigh(c, out, &forward);
    }
    if (status == WEFT_OK) {
        status = slope_along(c, &numeric);
    }
    if (status == WEFT_OK) {
        status = hold_together(c, forward, numeric, "numeric", c->options.tolerance);
    }
    return status == WEFT_OK
               ? hold_together(c, forward, backward, "backward", 1e-3 * c->options.tolerance)
               : status;
}

/* The derivative along the tangents as a function of its own. */
typedef struct directional {
    const check *c;
    weft_array *const *tangents;
} directional;

static void call_directional(void *context, weft_array *const *in, int n_in, weft_array **out,
                             int n_out)
{
    const directional *d = context;
    weft_array *all[MAX_ARRAYS] = {NULL};
    weft_status status =
        weft_jvp(d->c->fn, d->c->context, in, n_in, d->tangents, NULL, d->c->n_outputs, all);
    int n = 0;
    for (int i = 0; i < d->c->n_outputs; i++) {
        if (d->c->weights[i] && n < n_out) {
            out[n++] =
                status == WEFT_OK ? all[i] : weft__failed_as(status, "%s", weft_error_message());
        }
    }
}

static weft_status check_second(check *c, weft_array *const *tangents)
{
    directional d = {c, tangents};
    weft_gradcheck_options options = c->options;
    options.forward = options.second = false;
    int n = 0;
    for (int i = 0; i < c->n_outputs; i++) {
        n += c->weights[i] != NULL;
    }
    return n ? weft_gradcheck(call_directional, &d, c->inputs, c->n_inputs, n, &options) : WEFT_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Compares one gradient with the differences and adds its product with the tangent. */
static weft_status check_input(check *c, int i, weft_array *grad, double *along)
{
    int64_t n = weft_size(c->inputs[i]);
    double *gradient = weft_malloc((size_t)n * sizeof *gradient);
    weft_status status = gradient ? weft_read(grad, WEFT_FLOAT64, gradient, n)
                                  : weft__out_of_memory("gradcheck", NULL);
    if (status == WEFT_OK) {
        status = compare(c, i, gradient, n);
    }
    for (int64_t k = 0; status == WEFT_OK && c->tangents[i] && k < n; k++) {
        *along += gradient[k] * c->tangents[i][k];
    }
    weft_free(gradient);
    return status;
}

static weft_status check_all(check *c)
{
    weft_array *cotangents[MAX_ARRAYS] = {NULL}, *grads[MAX_ARRAYS] = {NULL};
    weft_array *tangents[MAX_ARRAYS] = {NULL};
    double along = 0;
    weft_status status = draw_cotangents(c, cotangents);
    if (status == WEFT_OK && (c->options.forward || c->options.second)) {
        status = draw_tangents(c, tangents);
    }
    if (status == WEFT_OK) {
        status = weft_vjp(c->fn, c->context, c->inputs, c->n_inputs, cotangents, NULL, c->n_outputs,
                          grads);
    }
    if (status == WEFT_OK) {
        status = eval_together(grads, c->n_inputs);
    }
    for (int i = 0; i < c->n_inputs && status == WEFT_OK; i++) {
        status = c->values[i] ? check_input(c, i, grads[i], &along) : WEFT_OK;
    }
    if (status == WEFT_OK && c->options.forward && c->worst <= c->options.tolerance) {
        status = check_forward(c, tangents, along);
    }
    if (status == WEFT_OK && c->options.second && c->worst <= c->options.tolerance) {
        status = check_second(c, tangents);
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
        weft_free(c.tangents[i]);
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
