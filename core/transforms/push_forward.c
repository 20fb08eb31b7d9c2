/* core/transforms/push_forward.c -- forward mode: walks the graph from tangents of arguments to
 * those of results; weft_jvp. */
#include "core/builtin.h"
#include "core/failure.h"
#include "core/lengths.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* ---- one node ------------------------------------------------------------------------------- */

/* Applies the op to the tangents; inputs that are not differentiable stay as they are. */
static weft_status by_linearity(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    weft_array **in = weft_malloc((size_t)node->n_inputs * sizeof *in);
    if (!in) {
        return weft__out_of_memory("jvp", NULL);
    }
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array *x = node->inputs[i];
        bool constant = weft__is_zero_gradient(node, i) || !weft__is_differentiable(x);
        in[i] = constant ? x : tangents[i] ? tangents[i] : weft_zeros_like(x);
    }
    weft_array *y = weft__apply_on(node->device, node->op, in, node->n_inputs, node->params);
    weft_free(in);
    for (int o = 0; o < node->n_outputs; o++) {
        out[o] = weft_pick(y, o);
    }
    return WEFT_OK;
}

static weft_status by_partials(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (!tangents[i]) {
            continue;
        }
        weft_array *slope = node->op->partial(node, i);
        weft_array *term = slope ? weft_multiply(tangents[i], slope) : tangents[i];
        out[0] = out[0] ? weft_add(out[0], term) : term;
    }
    return WEFT_OK;
}

static weft_status by_expansion(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const int n = node->n_inputs;
    weft_array *outs[WEFT_MAX_OUTPUTS] = {NULL};
    weft_array **aliases = weft_calloc(3 * (size_t)n, sizeof *aliases);
    if (!aliases) {
        return weft__out_of_memory("jvp", NULL);
    }
    weft_array **sources = aliases + n, **given = aliases + 2 * n;
    int m = 0;
    for (int i = 0; i < n; i++) {
        aliases[i] = weft__alias(node->inputs[i]);
        if (tangents[i]) {
            sources[m] = aliases[i];
            given[m++] = tangents[i];
        }
    }
    weft_array *clone = weft__apply_on(node->device, node->op, aliases, n, node->params);
    weft_status status = weft_ok(clone) ? WEFT_OK : weft__report(clone);
    if (status == WEFT_OK) {
        node->op->expand(clone, outs);
        status = weft__push_forward(outs, node->n_outputs, sources, given, m, out);
    }
    weft_free(aliases);
    return status;
}

static weft_status node_tangents(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const weft_op *op = node->op;
    switch (weft_op_rules_of(op).jvp) {
    case WEFT_RULE_ZERO:
        return WEFT_OK;
    case WEFT_RULE_OWN:
        op->jvp(node, tangents, out);
        return WEFT_OK;
    case WEFT_RULE_LINEAR:
        return by_linearity(node, tangents, out);
    case WEFT_RULE_PARTIAL:
        return by_partials(node, tangents, out);
    case WEFT_RULE_EXPANSION:
        return by_expansion(node, tangents, out);
    case WEFT_RULE_TWICE:
        return weft__jvp_by_vjp(node, weft__node_gradients, tangents, out);
    default:
        return weft_fail(WEFT_UNSUPPORTED, "tangent of %s: unsupported", op->name);
    }
}

static weft_status tangents_in_context(weft_array *node, weft_array *const *tangents,
                                       weft_array **out)
{
    weft__rule_context context = weft__enter_rule_context(node);
    weft_status status = node_tangents(node, tangents, out);
    weft__leave_rule_context(context);
    return status;
}

static bool has_float_output(const weft_array *node)
{
    for (int o = 0; o < node->n_outputs; o++) {
        weft_class klass = weft_dtype_class(weft__output(node, o)->spec.dtype);
        if (klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX) {
            return true;
        }
    }
    return false;
}

/* Stores the tangents of the node's outputs. */
static void settle(weft__dependents *d, int64_t index, weft_array *const *out)
{
    weft_array *node = d->nodes.keys[index];
    for (int o = 0; o < node->n_outputs; o++) {
        const weft_spec *spec = &weft__output(node, o)->spec;
        weft_class klass = weft_dtype_class(spec->dtype);
        if (out[o] && (klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX)) {
            d->values[d->first[index] + o] = weft__as_spec(out[o], spec, "tangent", node->op->name);
        }
    }
}

static weft_status visit(weft__dependents *d, int64_t index)
{
    weft_array *node = d->nodes.keys[index], *out[WEFT_MAX_OUTPUTS] = {NULL};
    weft_array **tangents = weft_calloc((size_t)node->n_inputs, sizeof *tangents);
    if (!tangents) {
        return weft__out_of_memory("jvp", NULL);
    }
    bool any = false;
    for (int i = 0; i < node->n_inputs; i++) {
        weft_array **value =
            weft__is_zero_gradient(node, i) ? NULL : weft__dependent_value(d, node->inputs[i]);
        tangents[i] = value ? *value : NULL;
        any = any || tangents[i];
    }
    weft_status status = WEFT_OK;
    if (any && has_float_output(node)) {
        status = tangents_in_context(node, tangents, out);
    }
    weft_free(tangents);
    if (status == WEFT_OK) {
        settle(d, index, out);
    }
    return status;
}

/* ---- the graph walk -------------------------------------------------------------------------- */

weft_status weft__push_forward(weft_array *const *outs, int n_out, weft_array *const *sources,
                               weft_array *const *tangents, int n_sources,
                               weft_array **out_tangents)
{
    weft_status status = weft__all_ok(outs, n_out);
    if (status == WEFT_OK) {
        status = weft__all_ok(sources, n_sources);
    }
    if (status != WEFT_OK || n_sources == 0) {
        return status;
    }
    weft__dependents d;
    status = weft__dependents_find(&d, "jvp", outs, n_out, sources, n_sources, false);
    for (int i = 0; i < n_sources && status == WEFT_OK; i++) {
        const weft_spec *spec = &sources[i]->spec;
        *weft__dependent_value(&d, sources[i]) =
            tangents[i] ? weft__as_spec(tangents[i], spec, "tangent", "an input") : NULL;
    }
    weft__differentiating++;
    for (int64_t i = 0; i < d.nodes.count && status == WEFT_OK; i++) {
        if (d.needed[i]) {
            status = visit(&d, i);
        }
    }
    weft__differentiating--;
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        weft_array **value = weft__dependent_value(&d, outs[i]);
        out_tangents[i] = value ? *value : NULL;
    }
    weft__dependents_free(&d);
    return status;
}

/* ---- jvp ------------------------------------------------------------------------------------ */

static weft_status check_tangents(weft_array *const *in, weft_array *const *tangents, int n)
{
    for (int i = 0; i < n; i++) {
        weft_dims want = weft_shape(in[i]), got = weft_shape(tangents[i]);
        if (tangents[i] && weft_ok(tangents[i]) && weft_ok(in[i]) &&
            !weft__shape_equal(&want, &got)) {
            char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
            return weft_fail(WEFT_INVALID, "jvp: tangent %d: expected shape %s, got %s", i,
                             weft__shape_text(&want, a), weft__shape_text(&got, b));
        }
    }
    return WEFT_OK;
}

/* Calls fn on aliases and pushes the tangents forward to its results. */
static weft_status trace_and_push(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  weft_array *const *tangents, weft_array **aliases,
                                  weft_array **values, int n_out, weft_array **found)
{
    weft_array **given = aliases + n_in;
    for (int i = 0; i < n_in; i++) {
        aliases[i] = weft__alias(in[i]);
        bool differentiable = weft_ok(in[i]) && weft__is_differentiable(in[i]);
        given[i] = differentiable ? tangents[i] : NULL;
    }
    weft__recording recording;
    weft__begin_recording(&recording);
    weft__differentiating++;
    weft__call_into(fn, context, aliases, n_in, values, n_out, "jvp");
    weft__differentiating--;
    weft_status status = weft__end_recording(&recording, "jvp");
    status = status == WEFT_OK ? check_tangents(in, tangents, n_in) : status;
    if (status == WEFT_OK) {
        status = weft__push_forward(values, n_out, aliases, given, n_in, found);
    }
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        if (!weft__is_differentiable(values[i])) {
            found[i] = NULL;
        } else if (!found[i]) {
            found[i] = weft_zeros_like(values[i]);
        }
    }
    return status;
}

weft_status weft_jvp(weft_function *fn, void *context, weft_array *const *in, int n_in,
                     weft_array *const *tangents, weft_array **outs, int n_out,
                     weft_array **out_tangents)
{
    weft_array **aliases = weft_calloc(2 * (size_t)n_in, sizeof *aliases);
    weft_array **values = weft_calloc(2 * (size_t)n_out, sizeof *values);
    if (!aliases || !values) {
        weft_free(aliases);
        weft_free(values);
        return weft__out_of_memory("jvp", NULL);
    }
    weft_array **found = values + n_out;
    weft_scope_open();
    weft_status status =
        trace_and_push(fn, context, in, n_in, tangents, aliases, values, n_out, found);
    weft_scope_close_n(values, status == WEFT_OK ? 2 * n_out : 0);
    for (int i = 0; i < n_out; i++) {
        out_tangents[i] = status == WEFT_OK ? found[i] : NULL;
        if (outs) {
            outs[i] = status == WEFT_OK ? values[i] : NULL;
        }
    }
    weft_free(aliases);
    weft_free(values);
    return status;
}
