/* core/transforms/jacobian.c -- Jacobians and Hessians: one graph is pulled back or pushed forward
 * for a batch of one-hot cotangents or tangents. */
#include "core/failure.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* The graph of a called function, from `sources` to `values`. */
typedef struct graph {
    weft_array **sources, **values;
    int n_sources, n_values;
    int at; /* the output to pull back, or the input to push forward */
} graph;

static weft_array *failed(weft_status status)
{
    return weft__failed_as(status, "%s", weft_error_message());
}

/* From one cotangent of output `at` to the gradients of all sources. */
static int pull(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const graph *g = context;
    const int n_out = g->n_sources;
    (void)n_in;
    if (n_out > room) {
        return n_out;
    }
    for (int i = 0; i < n_out; i++) {
        out[i] = NULL;
    }
    weft_status status = weft__pull_back(&g->values[g->at], in, 1, g->sources, n_out, true, out);
    for (int i = 0; i < n_out; i++) {
        out[i] = status != WEFT_OK ? failed(status)
                 : out[i]          ? out[i]
                                   : weft_zeros_like(g->sources[i]);
    }
    return n_out;
}

/* From one tangent of source `at` to the tangents of all values. */
static int push(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const graph *g = context;
    const int n_out = g->n_values;
    (void)n_in;
    if (n_out > room) {
        return n_out;
    }
    for (int i = 0; i < n_out; i++) {
        out[i] = NULL;
    }
    weft_status status = weft__push_forward(g->values, n_out, &g->sources[g->at], in, 1, out);
    for (int i = 0; i < n_out; i++) {
        out[i] = status != WEFT_OK ? failed(status)
                 : out[i]          ? out[i]
                                   : weft_zeros_like(g->values[i]);
    }
    return n_out;
}

/* One-hot arrays of the shape and dtype of `like`, one for each of its elements, along a new axis
 * 0. */
static weft_array *basis(weft_array *like)
{
    const int64_t n = weft_size(like);
    weft_dims shape;
    const weft_dims own = weft_shape(like);
    if (!weft__batched_shape(&own, n, &shape)) {
        return weft__failed("jacobian: expected at most %d dims", WEFT_MAX_DIMS - 1);
    }
    weft_array *eye = weft_eye(n, n, 0, weft_dtype_of(like));
    return weft_to(weft_reshape(eye, shape), weft_device_of(like));
}

/* The output's dims followed by the input's; false: too many. */
static bool joined(weft_array *value, weft_array *source, weft_dims *out)
{
    const weft_dims a = weft_shape(value), b = weft_shape(source);
    *out = a;
    for (int i = 0; i < b.n && a.n + b.n <= WEFT_MAX_DIMS; i++) {
        out->at[out->n++] = b.at[i];
    }
    return a.n + b.n <= WEFT_MAX_DIMS;
}

static weft_array *shaped(weft_array *x, weft_array *value, weft_array *source)
{
    weft_dims shape;
    if (!joined(value, source, &shape)) {
        return weft__failed("jacobian: more than %d dims", WEFT_MAX_DIMS);
    }
    return x ? weft_reshape(x, shape)
             : weft_to(weft_zeros(shape, weft_dtype_of(value)), weft_device_of(value));
}

/* Computes one row or one column of Jacobians: of value `at` in all sources, or of all values in
 * source `at`. */
static weft_status derive(graph *g, bool forward, weft_array **out)
{
    weft_array *at = forward ? g->sources[g->at] : g->values[g->at];
    const int n = forward ? g->n_values : g->n_sources;
    int *axes = weft_calloc((size_t)n, sizeof *axes);
    if (!axes) {
        return weft__out_of_memory("jacobian", NULL);
    }
    for (int i = 0; i < n; i++) {
        axes[i] = forward ? weft_ndim(g->values[i]) : 0;
        out[i] = NULL;
    }
    weft_array *all = basis(at);
    weft_status status = weft_ok(all) ? WEFT_OK : weft__report(all);
    if (status == WEFT_OK && weft_size(at) > 0) {
        status = weft_vmap(forward ? push : pull, g, &all, NULL, 1, out, axes, n);
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        out[i] = forward ? shaped(out[i], g->values[i], at) : shaped(out[i], at, g->sources[i]);
        status = weft_ok(out[i]) ? WEFT_OK : weft__report(out[i]);
    }
    weft_free(axes);
    return status;
}

/* Selects the differentiable ones of n arrays, and their indices. */
static int choose(weft_array *const *arrays, int n, weft_array **chosen, int *places)
{
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (weft__is_differentiable(arrays[i])) {
            chosen[m] = arrays[i];
            places[m++] = i;
        }
    }
    return m;
}

static weft_status refuse_complex(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        if (weft_dtype_of(arrays[i]) == WEFT_COMPLEX64) {
            return weft_fail(WEFT_UNSUPPORTED,
                             "jacobian: complex64: take it of real and imaginary parts");
        }
    }
    return WEFT_OK;
}

/* `room` is for the aliases, sources and values; `places` for the indices of sources and values. */
static weft_status jacobian_in(weft_function *fn, void *context, weft_array *const *in, int n_in,
                               weft_array **outs, int n_out, bool forward, weft_array **room,
                               int *places, weft_array **jacobians)
{
    weft_array **aliases = room, **row = room + 2 * n_in + n_out;
    graph g = {.sources = room + n_in, .values = room + 2 * n_in};
    int *from = places, *to = places + n_in;
    for (int i = 0; i < n_in; i++) {
        aliases[i] = weft__alias(in[i]);
    }
    weft__differentiating++;
    weft__call_into(fn, context, aliases, n_in, outs, n_out, "jacobian");
    weft__differentiating--;
    weft_status status = weft__all_ok(outs, n_out);
    if (status == WEFT_OK) {
        status = refuse_complex(aliases, n_in);
    }
    if (status == WEFT_OK) {
        status = refuse_complex(outs, n_out);
    }
    if (status != WEFT_OK) {
        return status;
    }
    g.n_sources = choose(aliases, n_in, g.sources, from);
    g.n_values = choose(outs, n_out, g.values, to);
    const int lines = forward ? g.n_sources : g.n_values, n = forward ? g.n_values : g.n_sources;
    for (g.at = 0; g.at < lines && status == WEFT_OK; g.at++) {
        status = derive(&g, forward, row);
        for (int i = 0; i < n && status == WEFT_OK; i++) {
            const int o = forward ? to[i] : to[g.at], k = forward ? from[g.at] : from[i];
            jacobians[o * n_in + k] = row[i];
        }
    }
    return status;
}

static weft_status jacobian(weft_function *fn, void *context, weft_array *const *in, int n_in,
                            weft_array **outs, int n_out, bool forward, weft_array **jacobians)
{
    const int n = n_out + n_out * n_in;
    weft_array **all = weft_calloc((size_t)n, sizeof *all);
    weft_array **room = weft_calloc(3 * (size_t)(n_in + n_out), sizeof *room);
    int *places = weft_calloc((size_t)(n_in + n_out), sizeof *places);
    weft_status status = WEFT_MEMORY;
    weft_scope_open();
    if (all && room && places) {
        status = jacobian_in(fn, context, in, n_in, all, n_out, forward, room, places, all + n_out);
    } else {
        weft__out_of_memory("jacobian", NULL);
    }
    weft_scope_close_n(all, status == WEFT_OK ? n : 0);
    for (int i = 0; i < n_out * n_in; i++) {
        jacobians[i] = status == WEFT_OK ? all[n_out + i] : NULL;
    }
    for (int i = 0; outs && i < n_out; i++) {
        outs[i] = status == WEFT_OK ? all[i] : NULL;
    }
    weft_free(all);
    weft_free(room);
    weft_free(places);
    return status;
}

weft_status weft_jacobian(weft_function *fn, void *context, weft_array *const *in, int n_in,
                          weft_array **outs, int n_out, weft_array **jacobians)
{
    return jacobian(fn, context, in, n_in, outs, n_out, false, jacobians);
}

weft_status weft_jacobian_forward(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  weft_array **outs, int n_out, weft_array **jacobians)
{
    return jacobian(fn, context, in, n_in, outs, n_out, true, jacobians);
}

/* ---- Hessians ------------------------------------------------------------------------------- */

typedef struct loss {
    weft_loss_function *fn;
    void *context;
} loss;

static int gradients(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const loss *l = context;
    if (n_in > room) {
        return n_in;
    }
    const weft_status status = weft_grad(l->fn, l->context, in, n_in, NULL, 0, out);
    for (int i = 0; i < n_in; i++) {
        out[i] = status != WEFT_OK ? failed(status) : out[i] ? out[i] : weft_zeros_like(in[i]);
    }
    return n_in;
}

weft_status weft_hessian(weft_loss_function *fn, void *context, weft_array *const *in, int n_in,
                         weft_array **hessians)
{
    loss l = {fn, context};
    return jacobian(gradients, &l, in, n_in, NULL, n_in, true, hessians);
}
