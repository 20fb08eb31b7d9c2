/* core/transforms/gradcheck.c -- compares gradients and tangents with central differences in
 * float64. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/options.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"

typedef struct check {
    weft_function *fn;
    void *context;
    weft_array *const *inputs;
    int n_inputs, n_outputs;
    weft_gradcheck_options options;
    double **values;   /* (n_inputs): values of float inputs, else NULL */
    double **tangents; /* (n_inputs): random tangents of float inputs; NULL unless requested */
    double **weights;  /* (n_outputs): random cotangents, NULL for integer outputs */
    int64_t *sizes;    /* (n_outputs) */
    double *scratch;   /* buffer for the largest output */
    weft_array **in;   /* (n_inputs): displaced inputs */
    char op[64];       /* op of the last output */
    double worst, worst_analytic, worst_numeric;
    int worst_input;
    int64_t worst_element;
} check;

/* A random number of (-1, 1) by splitmix64, not close to zero so that every output counts. */
static double random_weight(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    double u = (double)((z ^ z >> 31) >> 11) * 0x1p-53;
    return u < 0.5 ? -1 + u : u;
}

static weft_status no_memory(void)
{
    return weft__out_of_memory("gradcheck", NULL);
}

/* Evaluates the arrays that are not NULL in one call, so that none is consumed by another. */
static weft_status eval_together(weft_array *const *arrays, int n)
{
    weft_array **named = weft_calloc((size_t)n, sizeof *named);
    if (!named) {
        return no_memory();
    }
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (arrays[i]) {
            named[count++] = arrays[i];
        }
    }
    const weft_status status = weft_eval_n(named, count);
    weft_free(named);
    return status;
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

/* The sum of weights times outputs, with the current values of input `which` (-1: of all float
 * inputs) and the original values of the others. */
static weft_status weighted_sum(check *c, int which, double *sum)
{
    weft__results out = {.room = c->n_outputs};
    weft_scope_open();
    for (int i = 0; i < c->n_inputs; i++) {
        bool moved = c->values[i] && (which < 0 || which == i);
        c->in[i] = moved ? weft_from_data(c->values[i], WEFT_FLOAT64, weft_shape(c->inputs[i]))
                         : c->inputs[i];
    }
    weft_status status = weft__call_function(c->fn, c->context, c->in, c->n_inputs, &out);
    if (status == WEFT_OK && out.n != c->n_outputs) {
        status = weft_fail(WEFT_INVALID, "gradcheck: the function had %d results, then %d",
                           c->n_outputs, out.n);
    }
    if (status == WEFT_OK) {
        status = weigh(c, out.at, sum);
    }
    weft_scope_close(NULL);
    weft_free(out.at);
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
        if (!(error <= c->worst)) { /* true for NaN too, which counts as the worst error */
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
            return no_memory();
        }
        weft_status status = weft_read(x, WEFT_FLOAT64, c->values[i], weft_size(x));
        if (status != WEFT_OK) {
            return status;
        }
    }
    return WEFT_OK;
}

/* Draws random cotangents of the outputs' shapes, as arrays in the current scope. */
static weft_status draw_cotangents(check *c, weft_array *const *out, weft_array **cotangents)
{
    uint64_t state = c->options.seed;
    int64_t largest = 1;
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
            return no_memory();
        }
        for (int64_t k = 0; k < n; k++) {
            c->weights[i][k] = random_weight(&state);
        }
        cotangents[i] = weft_from_data(c->weights[i], WEFT_FLOAT64, weft_shape(out[i]));
    }
    c->scratch = weft_malloc((size_t)largest * sizeof(double));
    return c->scratch ? WEFT_OK : no_memory();
}

/* ---- directional derivatives ----------------------------------------------------------------- */

/* Draws random tangents of the float inputs, also as arrays in the current scope. */
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
            return no_memory();
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

/* The central difference of the weighted sum along the tangents. Afterwards the inputs may differ
 * by a rounding error. */
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

/* Checks forward mode: compares the weighted derivative along the tangents with the central
 * difference, and with the dot product of gradients and tangents, which must agree up to rounding.
 */
static weft_status check_forward(check *c, weft_array *const *tangents, double backward)
{
    weft_array **out = weft_calloc((size_t)c->n_outputs, sizeof *out);
    double forward = 0, numeric = 0;
    weft_status status =
        out ? weft_jvp(c->fn, c->context, c->inputs, c->n_inputs, tangents, NULL, c->n_outputs, out)
            : no_memory();
    if (status == WEFT_OK) {
        status = weigh(c, out, &forward);
    }
    weft_free(out);
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

/* The derivative along the tangents as a function. */
typedef struct directional {
    const check *c;
    weft_array *const *tangents;
} directional;

static int call_directional(void *context, weft_array *const *in, int n_in, weft_array **out,
                            int room)
{
    const directional *d = context;
    const int m = d->c->n_outputs;
    weft_array **all = weft_calloc((size_t)m, sizeof *all);
    weft_status status =
        all ? weft_jvp(d->c->fn, d->c->context, in, n_in, d->tangents, NULL, m, all) : no_memory();
    int n = 0;
    for (int i = 0; i < m; i++) {
        if (!d->c->weights[i] || n++ >= room) {
            continue;
        }
        out[n - 1] =
            status == WEFT_OK ? all[i] : weft__failed_as(status, "%s", weft_error_message());
    }
    weft_free(all);
    return n;
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
    return n ? weft_gradcheck(call_directional, &d, c->inputs, c->n_inputs, &options) : WEFT_OK;
}

/* ---- the whole check ------------------------------------------------------------------------- */

/* Compares one gradient with the differences and adds its dot product with the tangent. */
static weft_status check_input(check *c, int i, weft_array *grad, double *along)
{
    int64_t n = weft_size(c->inputs[i]);
    double *gradient = weft_malloc((size_t)n * sizeof *gradient);
    weft_status status = gradient ? weft_read(grad, WEFT_FLOAT64, gradient, n) : no_memory();
    if (status == WEFT_OK) {
        status = compare(c, i, gradient, n);
    }
    for (int64_t k = 0; status == WEFT_OK && c->tangents[i] && k < n; k++) {
        *along += gradient[k] * c->tangents[i][k];
    }
    weft_free(gradient);
    return status;
}

/* `cotangents` (n_outputs), `grads` and `tangents` (n_inputs) are initially NULL. */
static weft_status check_all(check *c, weft_array *const *out, weft_array **cotangents,
                             weft_array **grads, weft_array **tangents)
{
    double along = 0;
    weft_status status = draw_cotangents(c, out, cotangents);
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

/* Called in an open scope. */
static weft_status check_results(check *c, const weft__results *out)
{
    const size_t n = (size_t)c->n_inputs, m = (size_t)out->n;
    c->n_outputs = out->n;
    if (out->n < 1) {
        return weft_fail(WEFT_INVALID, "gradcheck: the function has no results");
    }
    c->weights = weft_calloc(m, sizeof *c->weights);
    c->sizes = weft_calloc(m, sizeof *c->sizes);
    weft_array **arrays = weft_calloc(m + 2 * n, sizeof *arrays);
    weft_status status = c->weights && c->sizes && arrays
                             ? check_all(c, out->at, arrays, arrays + m, arrays + m + n)
                             : no_memory();
    weft_free(arrays);
    return status;
}

static weft_status check_function(check *c)
{
    const size_t n = (size_t)c->n_inputs;
    weft__results out = {0};
    c->values = weft_calloc(n, sizeof *c->values);
    c->tangents = weft_calloc(n, sizeof *c->tangents);
    c->in = weft_calloc(n, sizeof *c->in);
    if (!c->values || !c->tangents || !c->in) {
        return no_memory();
    }
    weft_scope_open();
    weft_status status = read_inputs(c);
    if (status == WEFT_OK) {
        status = weft__call_function(c->fn, c->context, c->inputs, c->n_inputs, &out);
    }
    if (status == WEFT_OK) {
        status = check_results(c, &out);
    }
    weft_scope_close(NULL);
    weft_free(out.at);
    return status;
}

static void free_check(check *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        weft_free(c->values ? c->values[i] : NULL);
        weft_free(c->tangents ? c->tangents[i] : NULL);
    }
    for (int i = 0; i < c->n_outputs && c->weights; i++) {
        weft_free(c->weights[i]);
    }
    weft_free(c->values);
    weft_free(c->tangents);
    weft_free(c->weights);
    weft_free(c->sizes);
    weft_free(c->in);
    weft_free(c->scratch);
}

static weft_status report_worst(const check *c)
{
    char input[32];
    const char *name = c->options.names ? c->options.names[c->worst_input] : input;
    snprintf(input, sizeof input, "input %d", c->worst_input);
    return weft_fail(WEFT_INVALID,
                     "gradcheck: %s: %s, element %lld: expected %.9g (numeric), got %.9g "
                     "(analytic), relative error %.3g above %.3g",
                     c->op, name, (long long)c->worst_element, c->worst_numeric, c->worst_analytic,
                     c->worst, c->options.tolerance);
}

weft_status weft_gradcheck(weft_function *fn, void *context, weft_array *const *inputs,
                           int n_inputs, const weft_gradcheck_options *options)
{
    if (n_inputs < 1) {
        return weft_fail(WEFT_INVALID, "gradcheck: expected at least one input");
    }
    check c = {.fn = fn, .context = context, .inputs = inputs, .n_inputs = n_inputs};
    c.options = options ? *options : (weft_gradcheck_options){0};
    c.options.step = c.options.step > 0 ? c.options.step : 1e-6;
    c.options.tolerance = weft__or_default(c.options.tolerance, 1e-6);
    weft_status status = check_function(&c);
    if (status == WEFT_OK && c.worst > c.options.tolerance) {
        status = report_worst(&c);
    }
    free_check(&c);
    return status;
}
