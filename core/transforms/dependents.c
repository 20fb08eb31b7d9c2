/* core/transforms/dependents.c -- finds the nodes between a function's arguments and its results,
 * and stores a value for each of their outputs. */
#include "core/builtin.h"
#include "core/failure.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/op_params.h"

bool weft__is_differentiable(const weft_array *a)
{
    weft_class klass = weft_dtype_class(a->spec.dtype);
    return klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX;
}

bool weft__is_zero_gradient(const weft_array *node, int i)
{
    return i < 32 && (node->op->zero_gradient >> i & 1);
}

weft_status weft__all_ok(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        if (!weft_ok(arrays[i])) {
            return weft__report(arrays[i]);
        }
    }
    return WEFT_OK;
}

static bool is_outside(const void *context, weft_array *a)
{
    const weft__dependents *d = context;
    return a->seq < d->oldest || weft__map_index((weft__map *)&d->sources, a, NULL) >= 0;
}

static bool depends(weft__dependents *d, const weft_array *node, bool through_all)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (!through_all && weft__is_zero_gradient(node, i)) {
            continue;
        }
        weft_array *x = node->inputs[i];
        int64_t k = weft__map_index(&d->nodes, x->first, NULL);
        if ((k >= 0 && d->needed[k]) || weft__map_index(&d->sources, x, NULL) >= 0) {
            return true;
        }
    }
    return false;
}

weft_status weft__dependents_find(weft__dependents *d, const char *what, weft_array *const *outs,
                                  int n_out, weft_array *const *sources, int n_sources,
                                  bool through_all)
{
    *d = (weft__dependents){.oldest = UINT64_MAX};
    for (int i = 0; i < n_sources; i++) {
        bool added;
        if (weft__map_index(&d->sources, sources[i], &added) < 0) {
            return weft__out_of_memory(what, NULL);
        }
        d->oldest = sources[i]->seq < d->oldest ? sources[i]->seq : d->oldest;
    }
    if (!weft__collect(outs, n_out, is_outside, d, &d->nodes)) {
        return weft__out_of_memory(what, NULL);
    }
    int64_t n = d->nodes.count, total = 0;
    d->needed = weft_calloc((size_t)n, sizeof *d->needed);
    d->first = weft_calloc((size_t)n, sizeof *d->first);
    if (!d->needed || !d->first) {
        return weft__out_of_memory(what, NULL);
    }
    for (int64_t i = 0; i < n; i++) {
        d->first[i] = total;
        total += d->nodes.keys[i]->n_outputs;
        d->needed[i] = depends(d, d->nodes.keys[i], through_all);
    }
    d->again = weft_calloc((size_t)n, sizeof *d->again);
    d->values = weft_calloc((size_t)total, sizeof *d->values);
    d->source_values = weft_calloc((size_t)d->sources.count, sizeof *d->source_values);
    return d->again && d->values && d->source_values ? WEFT_OK : weft__out_of_memory(what, NULL);
}

void weft__dependents_free(weft__dependents *d)
{
    weft__map_free(&d->nodes);
    weft__map_free(&d->sources);
    weft__map_free(&d->shared);
    weft_free(d->needed);
    weft_free(d->first);
    weft_free(d->again);
    weft_free(d->values);
    weft_free(d->source_values);
}

weft_array **weft__dependent_value(weft__dependents *d, weft_array *a)
{
    int64_t source = weft__map_index(&d->sources, a, NULL);
    if (source >= 0) {
        return &d->source_values[source];
    }
    int64_t node = weft__map_index(&d->nodes, a->first, NULL);
    return node >= 0 && d->needed[node] ? &d->values[d->first[node] + weft__output_index(a)] : NULL;
}

weft_array *weft__as_spec(weft_array *x, const weft_spec *spec, const char *what, const char *op)
{
    if (!weft_ok(x)) {
        return x;
    }
    if (!weft__shape_equal(&x->spec.shape, &spec->shape)) {
        char want[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
        return weft__failed("%s of %s: expected shape %s, got %s", what, op,
                            weft__shape_text(&spec->shape, want),
                            weft__shape_text(&x->spec.shape, got));
    }
    if (x->spec.dtype == spec->dtype) {
        return x;
    }
    weft_cast_params params = {spec->dtype};
    return weft_apply(weft__builtins.cast, &x, 1, &params);
}

weft__rule_context weft__enter_rule_context(const weft_array *node)
{
    weft__rule_context context = {weft_default_device()};
    weft_set_default_device(node->device);
    weft__path_push(node->path ? node->path : "");
    return context;
}

void weft__leave_rule_context(weft__rule_context context)
{
    weft__path_pop();
    weft_set_default_device(context.before);
}
