/* core/transforms/checkpoint.c -- gradient checkpointing: recomputes a part of the graph for its
 * gradient.
 *
 * The function is called once. Its results pass through a node that also has as inputs everything
 * that the function read (arguments, captured arrays, random keys: the frontier). When a gradient
 * reaches that node, the inner graph is cloned behind barriers that wait for the cotangent, and the
 * gradient goes through the clone. So the intermediates of the first computation can be freed at
 * once, except for results that the caller's policy keeps.
 */
#include <string.h>

#include "core/failure.h"
#include "core/transforms/kept.h"

typedef struct checkpoint_params {
    int64_t n_outputs;    /* the first inputs are the results, the others the frontier */
    weft_keep_rule *keep; /* NULL: no intermediate is kept */
    void *context;
} checkpoint_params;

static const weft_field checkpoint_fields[] = {
    WEFT_FIELD(INT, checkpoint_params, n_outputs),
    WEFT_FIELD(POINTER, checkpoint_params, keep),
    WEFT_FIELD(POINTER, checkpoint_params, context),
    WEFT_FIELDS_END,
};

static bool infer_checkpoint(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    const checkpoint_params *p = weft_node_params(node);
    for (int i = 0; i < WEFT_MAX_OUTPUTS; i++) {
        if (i < p->n_outputs) {
            out[i] = *weft_node_spec(weft_node_input(node, i), 0);
        } else {
            out[i].shape.n = -1;
        }
        bool elsewhere = i < p->n_outputs && weft_device_of(weft_node_input(node, i)) !=
                                                 weft_device_of(weft_node_input(node, 0));
        if (elsewhere) {
            return weft_because(why, "the results are on different devices");
        }
    }
    return true;
}

static void expand_checkpoint(weft_array *node, weft_array **outs)
{
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        outs[i] = weft_node_input(node, i);
    }
}

/* ---- the clone ------------------------------------------------------------------------------ */

typedef struct copying {
    weft__map inside;      /* nodes to clone, in order of creation */
    weft__map frontier;    /* arrays that the inner nodes read */
    weft_array **clones;   /* per inner node */
    weft_array **barriers; /* per frontier array */
    bool *keeps;           /* per inner node: whether the policy keeps it */
    weft__map stand_ins;   /* for kept nodes: the "kept" nodes that replace them, */
    weft_array **kept;     /* and for each of these the original node */
    uint64_t since;        /* arrays made here have this seq or a larger one */
} copying;

static bool on_frontier(const void *context, weft_array *a)
{
    const copying *c = context;
    return weft__map_index((weft__map *)&c->frontier, a, NULL) >= 0;
}

static weft_array *counterpart(copying *c, weft_array *a)
{
    int64_t k = weft__map_index(&c->frontier, a, NULL);
    if (k >= 0) {
        return c->barriers[k];
    }
    k = weft__map_index(&c->inside, a->first, NULL);
    return k >= 0 ? weft_pick(c->clones[k], weft__output_index(a)) : a;
}

static weft_array *clone_node(copying *c, weft_array *a)
{
    weft_array **inputs = weft_malloc((size_t)a->n_inputs * sizeof *inputs);
    if (!inputs) {
        return weft__no_memory();
    }
    for (int i = 0; i < a->n_inputs; i++) {
        inputs[i] = counterpart(c, a->inputs[i]);
    }
    weft_array *clone = weft__apply_on(a->device, a->op, inputs, a->n_inputs, a->params);
    weft_free(inputs);
    return clone;
}

/* Clones the node, or makes the kept results with a clone for the gradient. */
static weft_array *clone_or_keep(copying *c, int64_t i)
{
    bool added;
    weft_array *node = c->inside.keys[i], *clone = clone_node(c, node);
    if (!c->keeps[i] || !weft_ok(clone)) {
        return clone;
    }
    weft_array *kept = weft__kept(node, clone), *both[] = {clone, kept};
    for (int b = 0; b < 2 && weft_ok(kept); b++) {
        int64_t k = weft__map_index(&c->stand_ins, both[b], &added);
        if (k < 0) {
            return weft__no_memory();
        }
        c->kept[k] = kept;
    }
    return kept;
}

static void choose_kept(copying *c, const checkpoint_params *params)
{
    for (int64_t i = 0; i < c->inside.count && params->keep; i++) {
        weft_array *node = c->inside.keys[i];
        if (!params->keep(params->context, node)) {
            continue;
        }
        c->keeps[i] = true;
        const weft_array *named = weft__named(node);
        int64_t k = named ? weft__map_index(&c->inside, named->first, NULL) : -1;
        if (k >= 0) {
            c->keeps[k] = true;
        }
    }
}

/* Makes barriers over the frontier that wait for `after`, and clones all inner nodes. */
static bool make_clones(copying *c, weft_array *node, int n_outputs, weft_array *after)
{
    for (int i = n_outputs; i < node->n_inputs; i++) {
        bool added;
        if (weft__map_index(&c->frontier, node->inputs[i], &added) < 0) {
            return false;
        }
    }
    if (!weft__collect(node->inputs, n_outputs, on_frontier, c, &c->inside)) {
        return false;
    }
    c->barriers = weft_calloc((size_t)c->frontier.count, sizeof *c->barriers);
    c->clones = weft_calloc((size_t)c->inside.count, sizeof *c->clones);
    c->keeps = weft_calloc((size_t)c->inside.count, sizeof *c->keeps);
    c->kept = weft_calloc(2 * (size_t)c->inside.count, sizeof *c->kept);
    if (!c->barriers || !c->clones || !c->keeps || !c->kept) {
        return false;
    }
    choose_kept(c, node->params);
    for (int64_t i = 0; i < c->frontier.count; i++) {
        c->barriers[i] = weft__barrier(c->frontier.keys[i], after);
    }
    for (int64_t i = 0; i < c->inside.count; i++) {
        c->clones[i] = clone_or_keep(c, i);
    }
    return true;
}

static weft_array *first_cotangent(weft_array *const *cts, int n)
{
    for (int i = 0; i < n; i++) {
        if (cts[i]) {
            return cts[i];
        }
    }
    return NULL;
}

/* Computes the gradients of the frontier through the clone into grads[n_outputs..]. */
static weft_status pull_through(copying *c, weft_array *node, weft_array *const *cts,
                                const bool *wanted, weft_array **grads)
{
    int n_outputs = node->n_outputs, n_frontier = node->n_inputs - n_outputs;
    weft_array *results[WEFT_MAX_OUTPUTS];
    weft_array **targets = weft_calloc((size_t)n_frontier, sizeof *targets);
    weft_array **found = weft_calloc((size_t)n_frontier, sizeof *found);
    weft_status status = targets && found ? WEFT_OK : weft__out_of_memory("checkpoint", NULL);
    int n = 0;
    for (int i = 0; i < n_frontier && status == WEFT_OK; i++) {
        if (wanted[n_outputs + i]) {
            targets[n++] = counterpart(c, node->inputs[n_outputs + i]);
        }
    }
    for (int i = 0; i < n_outputs; i++) {
        results[i] = counterpart(c, node->inputs[i]);
    }
    if (status == WEFT_OK) {
        status = weft__pull_back(results, cts, n_outputs, targets, n, false, found);
    }
    if (status == WEFT_OK && !weft__use_kept(found, n, c->since, &c->stand_ins, c->kept)) {
        status = weft__out_of_memory("checkpoint", NULL);
    }
    n = 0;
    for (int i = 0; i < n_frontier && status == WEFT_OK; i++) {
        if (wanted[n_outputs + i]) {
            grads[n_outputs + i] = found[n++];
        }
    }
    weft_free(targets);
    weft_free(found);
    return status;
}

static void checkpoint_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                           weft_array **grads)
{
    copying c = {.since = weft__next_seq()};
    weft_status status = WEFT_OK;
    if (!make_clones(&c, node, node->n_outputs, first_cotangent(cts, node->n_outputs))) {
        status = weft__out_of_memory("checkpoint", NULL);
    } else {
        status = pull_through(&c, node, cts, wanted, grads);
    }
    for (int i = node->n_outputs; i < node->n_inputs && status != WEFT_OK; i++) {
        grads[i] = wanted[i] ? weft__failed_as(status, "%s", weft_error_message()) : NULL;
    }
    weft__map_free(&c.inside);
    weft__map_free(&c.frontier);
    weft__map_free(&c.stand_ins);
    weft_free(c.keeps);
    weft_free(c.kept);
    weft_free(c.clones);
    weft_free(c.barriers);
}

/* Forward mode recomputes nothing. */
static void checkpoint_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        out[i] = tangents[i];
    }
}

/* The batched results over a batched frontier. The clone will be of the batched graph. */
static bool checkpoint_vmap(weft_array *node, weft_array *const *in, const bool *batched,
                            int64_t size, weft_array **out)
{
    weft_array *y = weft__apply_on(node->device, node->op, in, node->n_inputs, node->params);
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        weft_array *result = weft_pick(y, i);
        out[i] = batched[i] ? result : weft__repeat(result, size);
    }
    return true;
}

/* The results get no gradient through this node; it goes through the clone. */
static const weft_op op_checkpoint = {
    .name = "checkpoint",
    .family = WEFT_STRUCTURAL,
    .arity = -1,
    .n_outputs = -WEFT_MAX_OUTPUTS,
    .params_size = sizeof(checkpoint_params),
    .params_fields = checkpoint_fields,
    .infer = infer_checkpoint,
    .takes_encoded = UINT32_MAX,
    .expand = expand_checkpoint,
    .vjp = checkpoint_vjp,
    .jvp = checkpoint_jvp,
    .vmap = checkpoint_vmap,
    .passes_through = true,
};

/* ---- recording ------------------------------------------------------------------------------ */

static bool before_the_call(const void *context, weft_array *a)
{
    return a->seq < *(const uint64_t *)context;
}

/* Appends arrays that the inner nodes read but do not compute, and results that are passed through.
 */
static bool find_frontier(const weft__map *inside, weft_array *const *out, int n_out,
                          weft__map *frontier)
{
    for (int i = 0; i < n_out; i++) {
        bool added;
        if (weft_ok(out[i]) && weft__map_index((weft__map *)inside, out[i]->first, NULL) < 0 &&
            weft__map_index(frontier, out[i], &added) < 0) {
            return false;
        }
    }
    for (int64_t i = 0; i < inside->count; i++) {
        weft_array *a = inside->keys[i];
        for (int k = 0; k < a->n_inputs; k++) {
            bool added;
            if (weft__map_index((weft__map *)inside, a->inputs[k]->first, NULL) < 0 &&
                weft__map_index(frontier, a->inputs[k], &added) < 0) {
                return false;
            }
        }
    }
    return true;
}

static weft_array *wrap(weft_array *const *out, int n_out, const weft__map *frontier,
                        const weft_checkpoint_options *options)
{
    int n = n_out + (int)frontier->count;
    weft_array **inputs = weft_malloc((size_t)n * sizeof *inputs);
    if (!inputs) {
        return weft__no_memory();
    }
    memcpy(inputs, out, (size_t)n_out * sizeof *inputs);
    memcpy(inputs + n_out, frontier->keys, (size_t)frontier->count * sizeof *inputs);
    checkpoint_params params = {n_out, options->keep, options->context};
    weft_array *node = weft__apply_on(weft_device_of(out[0]), &op_checkpoint, inputs, n, &params);
    weft_free(inputs);
    return node;
}

/* Makes the node around what `fn` has created since `start`, or an error array. */
static weft_array *record(weft_array *const *out, int n_out, uint64_t start,
                          const weft_checkpoint_options *options)
{
    for (int i = 0; i < n_out; i++) {
        if (!weft_ok(out[i])) {
            return out[i] ? out[i] : weft__failed("checkpoint: result %d is NULL", i);
        }
    }
    if (n_out > WEFT_MAX_OUTPUTS) {
        return weft__failed("checkpoint: expected at most %d results, got %d", WEFT_MAX_OUTPUTS,
                            n_out);
    }
    weft__map inside = {0}, frontier = {0};
    bool found = weft__collect(out, n_out, before_the_call, &start, &inside) &&
                 find_frontier(&inside, out, n_out, &frontier);
    weft_array *node = found ? wrap(out, n_out, &frontier, options) : weft__no_memory();
    weft__map_free(&inside);
    weft__map_free(&frontier);
    return node;
}

int weft_checkpoint(weft_function *fn, void *context, weft_array *const *in, int n_in,
                    weft_array **out, int room)
{
    return weft_checkpoint_with(fn, context, in, n_in, out, room, NULL);
}

int weft_checkpoint_with(weft_function *fn, void *context, weft_array *const *in, int n_in,
                         weft_array **out, int room, const weft_checkpoint_options *options)
{
    const weft_checkpoint_options none = {0};
    const uint64_t start = weft__next_seq();
    weft__results results = {.room = room};
    weft_scope_open();
    const weft_status status = weft__call_function(fn, context, in, n_in, &results);
    if (status == WEFT_OK && weft_is_differentiating() && results.n > 0) {
        weft_array *node = record(results.at, results.n, start, options ? options : &none);
        for (int i = 0; i < results.n; i++) {
            results.at[i] = weft_pick(node, i);
        }
    }
    const int n = weft__return_results(status, &results, out, room, "checkpoint");
    weft_scope_close_n(out, room);
    weft_free(results.at);
    return n;
}
