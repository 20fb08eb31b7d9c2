/* core/transforms/vmap.c -- vmap: applies a function of one example to a batch. */
#include "core/compile/trace.h"
#include "core/failure.h"
#include "core/lengths.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* ---- axes ----------------------------------------------------------------------------------- */

static int axis_at(const int *axes, int i)
{
    return axes ? axes[i] : 0;
}

/* Moves axis `from` of x to `to`, both from the front. */
static weft_array *move_axis(weft_array *x, int from, int to)
{
    weft_dims order = {.n = weft_ndim(x)};
    int next = 0;
    for (int i = 0; i < order.n; i++) {
        next += next == from;
        order.at[i] = i == to ? from : next++;
    }
    return weft_transpose(x, order);
}

/* The number of examples, which all mapped arguments must share; -1: an error was reported. */
static int64_t batch_size(weft_array *const *in, const int *axes, int n)
{
    int64_t size = -1;
    for (int i = 0; i < n; i++) {
        int axis = axis_at(axes, i);
        if (!weft_ok(in[i])) {
            weft__report(in[i]);
            return -1;
        }
        if (axis == WEFT_NO_AXIS) {
            continue;
        }
        if (weft__axis_front(axis, weft_ndim(in[i])) < 0) {
            weft_fail(WEFT_INVALID, "vmap: input %d: axis %d of an array of %d dims", i, axis,
                      weft_ndim(in[i]));
            return -1;
        }
        int64_t length = weft_dim(in[i], axis);
        if (size >= 0 && length != size) {
            weft_fail(WEFT_INVALID, "vmap: input %d: expected %lld examples on axis %d, got %lld",
                      i, (long long)size, axis, (long long)length);
            return -1;
        }
        size = length;
    }
    if (size < 0) {
        weft_fail(WEFT_INVALID, "vmap: expected at least one input with a mapped axis");
    }
    return size;
}

/* ---- vmap ----------------------------------------------------------------------------------- */

/* The arguments of the traced call, and the placeholders and batches of the mapped ones. */
typedef struct mapping {
    weft_array **arguments, **sources, **batches;
    int n_sources;
    int64_t size;
} mapping;

static void make_arguments(mapping *m, weft_array *const *in, const int *axes, int n)
{
    for (int i = 0; i < n; i++) {
        m->arguments[i] = in[i];
        if (axis_at(axes, i) == WEFT_NO_AXIS) {
            continue;
        }
        int axis = weft__axis_front(axis_at(axes, i), weft_ndim(in[i]));
        weft_dims shape = weft_shape(in[i]);
        shape.n--;
        for (int k = axis; k < shape.n; k++) {
            shape.at[k] = shape.at[k + 1];
        }
        const weft_spec example = {.dtype = weft_dtype_of(in[i]), .shape = shape};
        m->arguments[i] = weft__placeholder(&example, in[i]->device, i);
        m->sources[m->n_sources] = m->arguments[i];
        m->batches[m->n_sources++] = move_axis(in[i], axis, 0);
    }
}

/* Moves the batch to its axis in output i. */
static weft_status set_batch(weft_array **out, int i, int axis)
{
    int front = weft__axis_front(axis, weft_ndim(*out));
    if (!weft_ok(*out)) {
        return weft__report(*out);
    }
    if (front < 0) {
        return weft_fail(WEFT_INVALID, "vmap: output %d: axis %d of an array of %d dims", i, axis,
                         weft_ndim(*out));
    }
    *out = move_axis(*out, 0, front);
    return WEFT_OK;
}

/* An output without a batch axis must be the same for all examples. */
static weft_status finish_outputs(const mapping *m, const int *axes, weft_array **values,
                                  weft_array **results, int n)
{
    weft__dependents d;
    weft_status status =
        weft__dependents_find(&d, "vmap", values, n, m->sources, m->n_sources, true);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (axis_at(axes, i) != WEFT_NO_AXIS) {
            status = set_batch(&results[i], i, axis_at(axes, i));
        } else if (weft__dependent_value(&d, values[i])) {
            status = weft_fail(WEFT_INVALID,
                               "vmap: output %d depends on the batch and needs an axis for it", i);
        } else {
            results[i] = values[i];
        }
    }
    weft__dependents_free(&d);
    return status;
}

static weft_status trace_and_batch(weft_function *fn, void *context, mapping *m,
                                   weft_array *const *in, const int *in_axes, int n_in,
                                   weft_array **values, const int *out_axes, int n_out)
{
    weft_array **results = values + n_out;
    m->size = batch_size(in, in_axes, n_in);
    if (m->size < 0) {
        return WEFT_INVALID;
    }
    make_arguments(m, in, in_axes, n_in);
    weft_status status = weft__all_ok(m->arguments, n_in);
    if (status == WEFT_OK) {
        weft__recording recording;
        weft__begin_recording(&recording);
        weft__call_into(fn, context, m->arguments, n_in, values, n_out, "vmap");
        status = weft__end_recording(&recording, "vmap");
    }
    if (status == WEFT_OK) {
        status = weft__batch(values, n_out, m->sources, m->batches, m->n_sources, m->size, results);
    }
    return status == WEFT_OK ? finish_outputs(m, out_axes, values, results, n_out) : status;
}

weft_status weft_vmap(weft_function *fn, void *context, weft_array *const *in, const int *in_axes,
                      int n_in, weft_array **outs, const int *out_axes, int n_out)
{
    weft_array **room = weft_calloc(3 * (size_t)n_in, sizeof *room);
    weft_array **values = weft_calloc(2 * (size_t)n_out, sizeof *values);
    weft_status status = WEFT_MEMORY;
    weft_scope_open();
    if (room && values) {
        mapping m = {.arguments = room, .sources = room + n_in, .batches = room + 2 * n_in};
        status = trace_and_batch(fn, context, &m, in, in_axes, n_in, values, out_axes, n_out);
    } else {
        weft__out_of_memory("vmap", NULL);
    }
    weft_scope_close_n(values ? values + n_out : NULL, status == WEFT_OK ? n_out : 0);
    for (int i = 0; i < n_out; i++) {
        outs[i] = status == WEFT_OK ? values[n_out + i] : NULL;
    }
    weft_free(room);
    weft_free(values);
    return status;
}
