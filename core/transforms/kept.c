/* core/transforms/kept.c -- results inside a checkpoint that are kept instead of recomputed.
 *
 * While the gradient is made, a "kept" node replaces each kept node in the clone. Its inputs are
 * the original results, whose values it has, and the results of the cloned node, to which it passes
 * gradients on; the clone exists only for its op's rule. Afterwards all uses of either are
 * redirected to the original results, so the clone and the "kept" node are never computed.
 */
#include <string.h>

#include "core/transforms/kept.h"

/* ---- kept: results, clone's results -> results ---------------------------------------------- */

static bool infer_kept(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    for (int i = 0; i < WEFT_MAX_OUTPUTS; i++) {
        if (i < node->n_inputs / 2) {
            out[i] = *weft_node_spec(weft_node_input(node, i), 0);
        } else {
            out[i].shape.n = -1;
        }
    }
    return true;
}

static void expand_kept(weft_array *node, weft_array **outs)
{
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        outs[i] = weft_node_input(node, i);
    }
}

static void kept_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    int n = weft_node_n_outputs(node);
    for (int i = 0; i < n; i++) {
        grads[n + i] = wanted[n + i] ? cts[i] : NULL;
    }
}

/* Forward mode uses the results only; the clone is ignored. */
static void kept_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    memcpy(out, tangents, (size_t)weft_node_n_outputs(node) * sizeof *out);
}

static const weft_op op_kept = {
    .name = "kept",
    .family = WEFT_STRUCTURAL,
    .arity = -1,
    .n_outputs = -WEFT_MAX_OUTPUTS,
    .infer = infer_kept,
    .vjp = kept_vjp,
    .jvp = kept_jvp,
    .takes_leading_axis = true,
    .expand = expand_kept,
    .passes_through = true,
};

weft_array *weft__kept(weft_array *node, weft_array *clone)
{
    weft_array *inputs[2 * WEFT_MAX_OUTPUTS];
    int n = node->n_outputs;
    for (int o = 0; o < n; o++) {
        inputs[o] = weft_pick(node, o);
        inputs[n + o] = weft_pick(clone, o);
    }
    return weft__apply_on(node->device, &op_kept, inputs, 2 * n, NULL);
}

/* The kept result for `x` if x is a stand-in or one of its results; else x. */
static weft_array *kept_for(const weft__map *stand_ins, weft_array *const *kept, weft_array *x)
{
    int64_t k = weft__map_index((weft__map *)stand_ins, x->first, NULL);
    return k < 0 ? x : kept[k]->inputs[weft__output_index(x)];
}

static bool before(const void *context, weft_array *a)
{
    return a->seq < *(const uint64_t *)context;
}

static void lead_inputs(weft_array *a, const weft__map *stand_ins, weft_array *const *kept)
{
    for (int k = 0; k < a->n_inputs; k++) {
        weft_array *old = a->inputs[k], *value = kept_for(stand_ins, kept, old);
        if (value != old) {
            weft__connect(value);
            a->inputs[k] = value;
            weft__disconnect(old);
        }
    }
}

bool weft__use_kept(weft_array **grads, int n, uint64_t since, const weft__map *stand_ins,
                    weft_array *const *kept)
{
    weft__map made;
    if (stand_ins->count == 0) {
        return true;
    }
    weft_array **roots = weft_calloc((size_t)n, sizeof *roots);
    int m = 0;
    for (int i = 0; roots && i < n; i++) {
        if (weft_ok(grads[i])) {
            grads[i] = kept_for(stand_ins, kept, grads[i]);
            roots[m++] = grads[i];
        }
    }
    bool found = roots && weft__collect(roots, m, before, &since, &made);
    for (int64_t i = 0; found && i < made.count; i++) {
        lead_inputs(made.keys[i], stand_ins, kept);
    }
    if (found) {
        weft__map_free(&made);
    }
    weft_free(roots);
    return found;
}

/* ---- policies ------------------------------------------------------------------------------- */

static bool is_listed(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool weft_keep_ops(void *names, const weft_array *node)
{
    return is_listed(weft_node_op(node)->name, names);
}

typedef struct name_params {
    const void *name;
} name_params;

static const weft_field name_fields[] = {WEFT_FIELD(POINTER, name_params, name), WEFT_FIELDS_END};

static bool infer_name(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = *weft_node_spec(weft_node_input(node, 0), 0);
    return true;
}

static void name_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                     weft_array **grads)
{
    (void)node;
    grads[0] = wanted[0] ? cts[0] : NULL;
}

static bool name_view(const weft_array *node, const weft_tensor *in, weft_tensor *out)
{
    (void)node, (void)in, (void)out; /* outputs are preset to the input */
    return true;
}

static const weft_op op_name = {
    .name = "checkpoint_name",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(name_params),
    .params_fields = name_fields,
    .infer = infer_name,
    .vjp = name_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .passes_through = true,
    .view = name_view,
};

weft_array *weft_checkpoint_name(weft_array *x, const char *name)
{
    name_params params = {name};
    return weft_apply(&op_name, &x, 1, &params);
}

bool weft_keep_named(void *names, const weft_array *node)
{
    return weft_node_op(node) == &op_name &&
           is_listed(((const name_params *)weft_node_params(node))->name, names);
}

weft_array *weft__named(const weft_array *node)
{
    return node->op == &op_name ? node->inputs[0] : NULL;
}
