/* core/transforms/pull_back.c -- reverse mode: walks the graph from cotangents of outputs to
 * gradients. */
#include "core/builtin.h"
#include "core/failure.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* The spec in which contributions to the gradient of `a` are added: that of `a`, or of the wider
 * dtype that a conversion to `a` began with, once a contribution has it. */
static weft_spec sum_spec(weft__dependents *d, weft_array *a, const weft_array *value,
                          const weft_array *ct)
{
    weft_spec spec = a->spec;
    const weft_dtype wide = weft__gradient_dtype(a);
    if (weft__map_index(&d->sources, a, NULL) < 0 &&
        (ct->spec.dtype == wide || (value && value->spec.dtype == wide))) {
        spec.dtype = wide;
    }
    return spec;
}

/* Whether nothing else reads the contribution. */
static bool is_own(weft__dependents *d, weft_array *a)
{
    return weft_ok(a) && a->op && a->state == WEFT__LAZY && weft__uses(a) == 0 &&
           weft__map_index(&d->shared, a, NULL) < 0;
}

/* a + b, as one node of the op of either where both are read by nothing else. */
static weft_array *sum_of(weft__dependents *d, weft_array *a, weft_array *b)
{
    weft_array *both[] = {a, b}, *one = NULL;
    if (is_own(d, a) && is_own(d, b)) {
        one = a->op->add ? a->op->add(a, b) : NULL;
        one = !one && b->op->add ? b->op->add(b, a) : one;
    }
    return one ? one : weft_apply(weft__builtins.add, both, 2, NULL);
}

static void accumulate(weft__dependents *d, weft_array *a, weft_array *ct, const char *op)
{
    weft_array **value = weft__dependent_value(d, a);
    if (!value || !ct) {
        return;
    }
    const weft_spec spec = sum_spec(d, a, *value, ct);
    ct = weft__as_spec(ct, &spec, "gradient", op);
    if (*value) {
        ct = sum_of(d, weft__as_spec(*value, &spec, "gradient", op), ct);
    }
    *value = ct;
}

/* ---- one node ------------------------------------------------------------------------------- */

/* The cotangent of a complex number is that of its parts, as re + i im, so the slope is conjugated.
 */
static void partials(weft_array *node, weft_array *ct, const bool *wanted, weft_array **grads)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (!wanted[i]) {
            continue;
        }
        weft_array *slope = node->op->partial(node, i);
        grads[i] = slope ? weft_multiply(ct, weft_conjugate(slope)) : ct;
    }
}

/* The gradient through an op's expansion, over aliases of its inputs. `room` has space for three
 * times the inputs. */
static weft_status expand_and_pull(weft_array *node, weft_array *const *cts, const bool *wanted,
                                   bool rematerialize, weft_array **room, weft_array **grads)
{
    const int n_inputs = node->n_inputs;
    weft_array **aliases = room, **targets = room + n_inputs, **found = room + 2 * n_inputs;
    weft_array *outs[WEFT_MAX_OUTPUTS] = {NULL};
    int n = 0;
    for (int i = 0; i < n_inputs; i++) {
        aliases[i] = weft__alias(node->inputs[i]);
        if (wanted[i]) {
            targets[n++] = aliases[i];
        }
    }
    weft_array *clone = weft__apply_on(node->device, node->op, aliases, n_inputs, node->params);
    if (!weft_ok(clone)) {
        return weft__report(clone);
    }
    node->op->expand(clone, outs);
    weft_status status =
        weft__pull_back(outs, cts, node->n_outputs, targets, n, rematerialize, found);
    n = 0;
    for (int i = 0; i < n_inputs && status == WEFT_OK; i++) {
        if (wanted[i]) {
            grads[i] = found[n++];
        }
    }
    return status;
}

static weft_status through_expansion(weft_array *node, weft_array *const *cts, const bool *wanted,
                                     bool rematerialize, weft_array **grads)
{
    weft_array **room = weft_calloc(3 * (size_t)node->n_inputs, sizeof *room);
    if (!room) {
        return weft__out_of_memory("vjp", NULL);
    }
    weft_status status = expand_and_pull(node, cts, wanted, rematerialize, room, grads);
    weft_free(room);
    return status;
}

static weft_status own_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    node->op->jvp(node, tangents, out);
    return WEFT_OK;
}

/* The gradients of a node's inputs, by whichever rule its op has. */
static weft_status node_gradients(weft_array *node, weft_array *const *cts, const bool *wanted,
                                  bool rematerialize, weft_array **grads)
{
    const weft_op *op = node->op;
    switch (weft_op_rules_of(op).vjp) {
    case WEFT_RULE_ZERO:
        return WEFT_OK;
    case WEFT_RULE_OWN:
        op->vjp(node, cts, wanted, grads);
        return WEFT_OK;
    case WEFT_RULE_PARTIAL:
        partials(node, cts[0], wanted, grads);
        return WEFT_OK;
    case WEFT_RULE_EXPANSION:
        return through_expansion(node, cts, wanted, rematerialize, grads);
    case WEFT_RULE_TWICE:
        return weft__vjp_by_jvp(node, own_jvp, cts, wanted, grads);
    default:
        return weft_fail(WEFT_UNSUPPORTED, "gradient of %s: unsupported", op->name);
    }
}

weft_status weft__node_gradients(weft_array *node, weft_array *const *cts, const bool *wanted,
                                 weft_array **grads)
{
    return node_gradients(node, cts, wanted, true, grads);
}

static bool input_wanted(weft__dependents *d, const weft_array *node, int i)
{
    return !weft__is_zero_gradient(node, i) && weft__is_differentiable(node->inputs[i]) &&
           weft__dependent_value(d, node->inputs[i]) != NULL;
}

/* Notes the cotangents that a rule returned unchanged, or as the gradient of several inputs: other
 * nodes read them. False: out of memory. */
static bool note_shared(weft__dependents *d, const weft_array *node, weft_array *const *cts,
                        weft_array *const *grads)
{
    bool ok = true, added;
    for (int i = 0; i < node->n_inputs && ok; i++) {
        bool shared = false;
        for (int o = 0; o < node->n_outputs && grads[i]; o++) {
            shared = shared || grads[i] == cts[o];
        }
        for (int k = 0; k < i && grads[i]; k++) {
            shared = shared || grads[i] == grads[k];
        }
        ok = !shared || weft__map_index(&d->shared, grads[i], &added) >= 0;
    }
    return ok;
}

/* The gradients by the node's rule, which may read inputs that are computed again. `originals` has
 * space for the inputs. */
static weft_status gradients_of(weft__dependents *d, weft_array *node, weft_array *const *cts,
                                const bool *wanted, weft_array **originals, weft_array **grads)
{
    weft_array *after = NULL;
    for (int o = 0; o < node->n_outputs && !after; o++) {
        after = cts[o];
    }
    const bool replaced = weft__rematerialize_inputs(d, node, after, originals);
    weft__rule_context context = weft__enter_rule_context(node);
    const weft_status status = node_gradients(node, cts, wanted, d->rematerialize, grads);
    weft__leave_rule_context(context);
    for (int i = 0; i < node->n_inputs && replaced; i++) {
        node->inputs[i] = originals[i];
    }
    return status;
}

static weft_status visit(weft__dependents *d, int64_t index)
{
    weft_array *node = d->nodes.keys[index];
    weft_array **cts = &d->values[d->first[index]];
    bool *wanted = weft_calloc((size_t)node->n_inputs, sizeof *wanted);
    weft_array **grads = weft_calloc(2 * (size_t)node->n_inputs, sizeof *grads);
    weft_status status = wanted && grads ? WEFT_OK : weft__out_of_memory("vjp", NULL);
    bool any = false;
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        wanted[i] = input_wanted(d, node, i);
        any = any || wanted[i];
    }
    if (status == WEFT_OK && any) {
        status = gradients_of(d, node, cts, wanted, grads + node->n_inputs, grads);
        if (status == WEFT_OK && !note_shared(d, node, cts, grads)) {
            status = weft__out_of_memory("vjp", NULL);
        }
    }
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        if (wanted[i]) {
            accumulate(d, node->inputs[i], grads[i], node->op->name);
        }
    }
    weft_free(wanted);
    weft_free(grads);
    return status;
}

/* ---- the graph walk -------------------------------------------------------------------------- */

static bool has_cotangent(const weft__dependents *d, int64_t index)
{
    for (int o = 0; o < d->nodes.keys[index]->n_outputs; o++) {
        if (d->values[d->first[index] + o]) {
            return true;
        }
    }
    return false;
}

weft_status weft__pull_back(weft_array *const *outs, weft_array *const *cts, int n_out,
                            weft_array *const *targets, int n_targets, bool rematerialize,
                            weft_array **grads)
{
    weft_status status = weft__all_ok(outs, n_out);
    if (status == WEFT_OK) {
        status = weft__all_ok(targets, n_targets);
    }
    if (status != WEFT_OK || n_targets == 0) {
        return status;
    }
    weft__dependents d;
    status = weft__dependents_find(&d, "vjp", outs, n_out, targets, n_targets, false);
    d.rematerialize = rematerialize;
    weft__differentiating++;
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        bool added;
        if (cts[i] && weft__map_index(&d.shared, cts[i], &added) < 0) {
            status = weft__out_of_memory("vjp", NULL);
        } else {
            accumulate(&d, outs[i], cts[i], "output");
        }
    }
    for (int64_t i = d.nodes.count - 1; i >= 0 && status == WEFT_OK; i--) {
        if (d.needed[i] && has_cotangent(&d, i)) {
            status = visit(&d, i);
        }
    }
    weft__differentiating--;
    for (int i = 0; i < n_targets && status == WEFT_OK; i++) {
        grads[i] = *weft__dependent_value(&d, targets[i]);
    }
    weft__dependents_free(&d);
    return status;
}
