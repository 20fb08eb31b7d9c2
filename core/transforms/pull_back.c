/* core/transforms/pull_back.c -- the backward walk: from cotangents of outputs to gradients. */
#include <string.h>

#include "core/builtin.h"
#include "core/shape.h"
#include "core/transforms/transforms.h"
#include "weft/op_params.h"
#include "weft/ops.h"

_Thread_local int weft__differentiating;

bool weft_is_differentiating(void)
{
    return weft__differentiating > 0;
}

bool weft__is_differentiable(const weft_array *a)
{
    weft_class klass = weft_dtype_class(a->outs[0].spec.dtype);
    return klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX;
}

typedef struct walk {
    weft__map nodes; /* in order of creation; targets are not among them */
    weft__map targets;
    uint64_t oldest; /* nothing older depends on a target */
    bool *needed;    /* per node: it depends on a target */
    int64_t *first;  /* per node: index of its first output's cotangent */
    weft_array **cts;
    weft_array **grads; /* per target */
} walk;

static bool is_outside(const void *context, weft_array *a)
{
    const walk *w = context;
    return a->seq < w->oldest || weft__map_index((weft__map *)&w->targets, a, NULL) >= 0;
}

/* The place that collects cotangents of output `o` of `a`; NULL: nobody wants them. */
static weft_array **cotangent_of(walk *w, weft_array *a, int o)
{
    int64_t target = weft__map_index(&w->targets, a, NULL);
    if (target >= 0) {
        return &w->grads[target];
    }
    int64_t node = weft__map_index(&w->nodes, a, NULL);
    return node >= 0 && w->needed[node] ? &w->cts[w->first[node] + o] : NULL;
}

static weft_array *cast_like(weft_array *ct, const weft_spec *spec)
{
    if (!weft_ok(ct) || ct->outs[0].spec.dtype == spec->dtype) {
        return ct;
    }
    weft_cast_params params = {spec->dtype};
    return weft_apply(weft__builtins.cast, &ct, 1, &params);
}

static void accumulate(walk *w, weft_array *a, int o, weft_array *ct, const char *op)
{
    weft_array **place = cotangent_of(w, a, o);
    if (!place || !ct) {
        return;
    }
    const weft_spec *spec = &a->outs[o].spec;
    if (weft_ok(ct) && !weft__shape_equal(&ct->outs[0].spec.shape, &spec->shape)) {
        char want[WEFT_SHAPE_TEXT], got[WEFT_SHAPE_TEXT];
        ct = weft__failed("gradient of %s: expected shape %s, got %s", op,
                          weft__shape_text(&spec->shape, want),
                          weft__shape_text(&ct->outs[0].spec.shape, got));
    }
    ct = cast_like(ct, spec);
    if (*place) {
        weft_array *both[] = {*place, ct};
        ct = weft_apply(weft__builtins.add, both, 2, NULL);
    }
    *place = ct;
}

/* ---- one node ------------------------------------------------------------------------------- */

static void partials(weft_array *node, weft_array *ct, const bool *wanted, weft_array **grads)
{
    for (int i = 0; i < node->n_inputs; i++) {
        if (!wanted[i]) {
            continue;
        }
        weft_array *slope = node->op->partial(node, i);
        grads[i] = slope ? weft_multiply(ct, slope) : ct;
    }
}

/* The gradient through an op's expansion, over aliases of its inputs. `room` is for three times the
 * inputs. */
static weft_status expand_and_pull(weft_array *node, weft_array *const *cts, const bool *wanted,
                                   weft_array **room, weft_array **grads)
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
    weft_status status = weft__pull_back(outs, cts, node->n_outputs, targets, n, found);
    n = 0;
    for (int i = 0; i < n_inputs && status == WEFT_OK; i++) {
        if (wanted[i]) {
            grads[i] = found[n++];
        }
    }
    return status;
}

static weft_status through_expansion(weft_array *node, weft_array *const *cts, const bool *wanted,
                                     weft_array **grads)
{
    weft_array **room = weft_calloc(3 * (size_t)node->n_inputs, sizeof *room);
    if (!room) {
        return weft_fail(WEFT_MEMORY, "vjp: out of memory");
    }
    weft_status status = expand_and_pull(node, cts, wanted, room, grads);
    weft_free(room);
    return status;
}

static weft_status node_gradients(weft_array *node, weft_array *const *cts, const bool *wanted,
                                  weft_array **grads)
{
    const weft_op *op = node->op;
    if (op->vjp) {
        op->vjp(node, cts, wanted, grads);
        return WEFT_OK;
    }
    if (op->partial) {
        partials(node, cts[0], wanted, grads);
        return WEFT_OK;
    }
    if (op->expand) {
        return through_expansion(node, cts, wanted, grads);
    }
    return weft_fail(WEFT_UNSUPPORTED, "gradient of %s: unsupported", op->name);
}

/* On the node's device, for constants that the rule makes, and under its module path. */
static weft_status gradients_beside_node(weft_array *node, weft_array *const *cts,
                                         const bool *wanted, weft_array **grads)
{
    weft_device *before = weft_default_device();
    weft_set_default_device(node->device);
    weft__path_push(node->path ? node->path : "");
    weft_status status = node_gradients(node, cts, wanted, grads);
    weft__path_pop();
    weft_set_default_device(before);
    return status;
}

static bool input_wanted(walk *w, const weft_array *node, int i)
{
    bool zero = i < 32 && (node->op->zero_gradient >> i & 1);
    return !zero && weft__is_differentiable(node->inputs[i]) &&
           cotangent_of(w, node->inputs[i], 0) != NULL;
}

static weft_status visit(walk *w, int64_t index)
{
    weft_array *node = w->nodes.keys[index];
    weft_array **cts = &w->cts[w->first[index]];
    if (node->op == &weft__op_pick) {
        const weft__pick_params *p = node->params;
        accumulate(w, node->inputs[0], (int)p->output, cts[0], "pick");
        return WEFT_OK;
    }
    bool *wanted = weft_calloc((size_t)node->n_inputs, sizeof *wanted);
    weft_array **grads = weft_calloc((size_t)node->n_inputs, sizeof *grads);
    weft_status status = wanted && grads ? WEFT_OK : weft_fail(WEFT_MEMORY, "vjp: out of memory");
    bool any = false;
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        wanted[i] = input_wanted(w, node, i);
        any = any || wanted[i];
    }
    if (status == WEFT_OK && any) {
        status = gradients_beside_node(node, cts, wanted, grads);
    }
    for (int i = 0; i < node->n_inputs && status == WEFT_OK; i++) {
        if (wanted[i]) {
            accumulate(w, node->inputs[i], 0, grads[i], node->op->name);
        }
    }
    weft_free(wanted);
    weft_free(grads);
    return status;
}

/* ---- the walk ------------------------------------------------------------------------------- */

static bool depends(walk *w, const weft_array *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        bool zero = i < 32 && (node->op->zero_gradient >> i & 1);
        if (zero) {
            continue;
        }
        weft_array *x = node->inputs[i];
        int64_t k = weft__map_index(&w->nodes, x, NULL);
        if ((k >= 0 && w->needed[k]) || weft__map_index(&w->targets, x, NULL) >= 0) {
            return true;
        }
    }
    return false;
}

static weft_status prepare(walk *w, weft_array *const *outs, int n_out, weft_array *const *targets,
                           int n_targets)
{
    w->oldest = UINT64_MAX;
    for (int i = 0; i < n_targets; i++) {
        bool added;
        if (weft__map_index(&w->targets, targets[i], &added) < 0) {
            return weft_fail(WEFT_MEMORY, "vjp: out of memory");
        }
        w->oldest = targets[i]->seq < w->oldest ? targets[i]->seq : w->oldest;
    }
    if (!weft__collect(outs, n_out, is_outside, w, &w->nodes)) {
        return weft_fail(WEFT_MEMORY, "vjp: out of memory");
    }
    int64_t n = w->nodes.count, total = 0;
    w->needed = weft_calloc((size_t)n, sizeof *w->needed);
    w->first = weft_calloc((size_t)n, sizeof *w->first);
    if (!w->needed || !w->first) {
        return weft_fail(WEFT_MEMORY, "vjp: out of memory");
    }
    for (int64_t i = 0; i < n; i++) {
        w->first[i] = total;
        total += w->nodes.keys[i]->n_outputs;
        w->needed[i] = depends(w, w->nodes.keys[i]);
    }
    w->cts = weft_calloc((size_t)total, sizeof *w->cts);
    w->grads = weft_calloc((size_t)w->targets.count, sizeof *w->grads);
    return w->cts && w->grads ? WEFT_OK : weft_fail(WEFT_MEMORY, "vjp: out of memory");
}

static weft_status check_inputs(weft_array *const *arrays, int n)
{
    for (int i = 0; i < n; i++) {
        if (!weft_ok(arrays[i])) {
            return weft__report(arrays[i]);
        }
    }
    return WEFT_OK;
}

weft_status weft__pull_back(weft_array *const *outs, weft_array *const *cts, int n_out,
                            weft_array *const *targets, int n_targets, weft_array **grads)
{
    weft_status status = check_inputs(outs, n_out);
    if (status == WEFT_OK) {
        status = check_inputs(targets, n_targets);
    }
    if (status != WEFT_OK || n_targets == 0) {
        return status;
    }
    walk w = {0};
    status = prepare(&w, outs, n_out, targets, n_targets);
    weft__differentiating++;
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        accumulate(&w, outs[i], 0, cts[i], "output");
    }
    for (int64_t i = w.nodes.count - 1; i >= 0 && status == WEFT_OK; i--) {
        bool any = false;
        for (int o = 0; o < w.nodes.keys[i]->n_outputs; o++) {
            any = any || w.cts[w.first[i] + o];
        }
        if (any) {
            status = visit(&w, i);
        }
    }
    weft__differentiating--;
    for (int i = 0; i < n_targets && status == WEFT_OK; i++) {
        grads[i] = w.grads[weft__map_index(&w.targets, targets[i], NULL)];
    }
    weft__map_free(&w.nodes);
    weft__map_free(&w.targets);
    weft_free(w.needed);
    weft_free(w.first);
    weft_free(w.cts);
    weft_free(w.grads);
    return status;
}
