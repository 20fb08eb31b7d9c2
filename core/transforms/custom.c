/* core/transforms/custom.c -- weft_custom: functions with user-defined vjp, jvp or vmap.
 *
 * As with checkpoint, the results pass through a node whose other inputs are the arguments. A
 * gradient or tangent that reaches the node uses the user's rule and never goes inside. Under vmap
 * the results are batched as usual, and the node is made again over them with one more level: its
 * rules are then the user's, mapped over the batch.
 */
#include <string.h>

#include "core/transforms/transforms.h"
#include "weft/ops.h"

enum { MAX_LEVELS = WEFT_MAX_DIMS, MAX_ARGUMENTS = 62 };

typedef struct custom_params {
    weft_custom_rules rules;
    void *context;
    int64_t n_outputs; /* the first inputs are the results, the others the arguments */
    weft_dims batched; /* per level of vmap, innermost first: a bit per argument */
} custom_params;

static const weft_field custom_fields[] = {
    WEFT_FIELD(POINTER, custom_params, rules.vjp),
    WEFT_FIELD(POINTER, custom_params, rules.jvp),
    WEFT_FIELD(POINTER, custom_params, rules.vmap),
    WEFT_FIELD(POINTER, custom_params, context),
    WEFT_FIELD(INT, custom_params, n_outputs),
    WEFT_FIELD(DIMS, custom_params, batched),
    WEFT_FIELDS_END,
};

static bool infer_custom(const weft_array *node, weft_spec *out, weft_why *why)
{
    const custom_params *p = weft_node_params(node);
    for (int i = 0; i < WEFT_MAX_OUTPUTS; i++) {
        if (i >= p->n_outputs) {
            out[i].shape.n = -1;
            continue;
        }
        out[i] = *weft_node_spec(weft_node_input(node, i), 0);
        if (weft_device_of(weft_node_input(node, i)) != weft_device_of(weft_node_input(node, 0))) {
            return weft_because(why, "the results are on different devices");
        }
    }
    return true;
}

static void expand_custom(weft_array *node, weft_array **outs)
{
    for (int i = 0; i < weft_node_n_outputs(node); i++) {
        outs[i] = weft_node_input(node, i);
    }
}

/* ---- calling the user's rules --------------------------------------------------------------- */

/* A rule as a function of arguments, results and `given`: the cotangents of the float results (for
 * vjp) or the tangents of the float arguments (for jvp). It returns those of the other side. */
typedef struct rule_call {
    const custom_params *params;
    int level; /* levels of vmap around the user's function */
    int n_arguments;
    bool backward;
} rule_call;

static int count_floats(weft_array *const *arrays, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        count += weft__is_differentiable(arrays[i]);
    }
    return count;
}

/* Distributes the packed arrays to the floats among `arrays`; the others get NULL. */
static void unpack(weft_array *const *arrays, int n, weft_array *const *packed, weft_array **out)
{
    for (int i = 0; i < n; i++) {
        out[i] = weft__is_differentiable(arrays[i]) ? *packed++ : NULL;
    }
}

static void call_user(const rule_call *c, weft_array *const *in, weft_array **out)
{
    const custom_params *p = c->params;
    const int n = c->n_arguments, m = (int)p->n_outputs;
    weft_array *const *results = in + n, *const *packed = in + n + m;
    weft_array *given[MAX_ARGUMENTS] = {NULL}, *made[MAX_ARGUMENTS] = {NULL};
    if (c->backward) {
        unpack(results, m, packed, given);
        p->rules.vjp(p->context, in, n, results, m, given, made);
    } else {
        unpack(in, n, packed, given);
        p->rules.jvp(p->context, in, n, results, m, given, made);
    }
    weft_array *const *side = c->backward ? in : results;
    for (int i = 0; i < (c->backward ? n : m); i++) {
        if (weft__is_differentiable(side[i])) {
            const weft_spec *spec = weft_node_spec(side[i], 0);
            *out++ = made[i] ? weft__as_spec(made[i], spec, c->backward ? "vjp" : "jvp", "custom")
                             : weft_zeros_like(side[i]);
        }
    }
}

static int call_rule(void *context, weft_array *const *in, int n_in, weft_array **out, int room);

/* The outermost level: all results have the batch, the arguments as recorded for the level. */
static void call_mapped(const rule_call *c, weft_array *const *in, int n_in, weft_array **out,
                        int n_out)
{
    rule_call inside = *c;
    inside.level--;
    uint64_t bits = (uint64_t)c->params->batched.at[inside.level];
    int axes[2 * MAX_ARGUMENTS + WEFT_MAX_OUTPUTS] = {0}, next = c->n_arguments;
    for (int i = 0; i < c->n_arguments; i++) {
        axes[i] = bits >> i & 1 ? 0 : WEFT_NO_AXIS;
    }
    next += (int)c->params->n_outputs;
    for (int i = 0; i < c->n_arguments && !c->backward; i++) {
        if (weft__is_differentiable(in[i])) {
            axes[next++] = axes[i];
        }
    }
    weft_status status = weft_vmap(call_rule, &inside, in, axes, n_in, out, NULL, n_out);
    for (int i = 0; i < n_out && status != WEFT_OK; i++) {
        out[i] = weft__failed_as(status, "%s", weft_error_message());
    }
    int k = 0;
    for (int i = 0; i < c->n_arguments && c->backward && status == WEFT_OK; i++) {
        if (weft__is_differentiable(in[i])) { /* arguments shared by all examples get the sum */
            out[k] = bits >> i & 1 ? out[k] : weft_sum(out[k], WEFT_DIMS(0), false);
            k++;
        }
    }
}

/* The number of arrays that the rule returns: one for each float on the other side. */
static int made_by_rule(const rule_call *c, weft_array *const *in)
{
    return c->backward ? count_floats(in, c->n_arguments)
                       : count_floats(in + c->n_arguments, (int)c->params->n_outputs);
}

static int call_rule(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const rule_call *c = context;
    const int n_out = made_by_rule(c, in);
    if (n_out > room) {
        return n_out;
    }
    if (c->level > 0) {
        call_mapped(c, in, n_in, out, n_out);
    } else {
        call_user(c, in, out);
    }
    return n_out;
}

/* Calls the rule of `node` with `given` for the floats of one side (NULL: zeros) and stores its
 * results for the other side in `made`. */
static void apply_rule(weft_array *node, bool backward, weft_array *const *given, weft_array **made)
{
    const custom_params *p = weft_node_params(node);
    const int m = (int)p->n_outputs, n = node->n_inputs - m;
    weft_array **results = node->inputs, **arguments = node->inputs + m;
    weft_array *in[2 * MAX_ARGUMENTS + WEFT_MAX_OUTPUTS], *out[MAX_ARGUMENTS] = {NULL};
    int n_in = n + m;
    memcpy(in, arguments, (size_t)n * sizeof *in);
    for (int o = 0; o < m; o++) {
        in[n + o] = weft_pick(node, o);
    }
    weft_array **side = backward ? results : arguments, **other = backward ? arguments : results;
    for (int i = 0; i < (backward ? m : n); i++) {
        if (weft__is_differentiable(side[i])) {
            in[n_in++] = given[i] ? given[i] : weft_zeros_like(side[i]);
        }
    }
    rule_call c = {p, p->batched.n, n, backward};
    call_rule(&c, in, n_in, out, MAX_ARGUMENTS);
    unpack(other, backward ? n : m, out, made);
}

/* ---- the node's own rules ------------------------------------------------------------------- */

static weft_status pull_by_rule(weft_array *node, weft_array *const *cts, const bool *wanted,
                                weft_array **grads)
{
    const custom_params *p = weft_node_params(node);
    weft_array *made[MAX_ARGUMENTS] = {NULL};
    apply_rule(node, true, cts, made);
    for (int i = (int)p->n_outputs; i < node->n_inputs; i++) {
        grads[i] = wanted[i] ? made[i - p->n_outputs] : NULL;
    }
    return WEFT_OK;
}

static weft_status push_by_rule(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const custom_params *p = weft_node_params(node);
    apply_rule(node, false, tangents + p->n_outputs, out);
    return WEFT_OK;
}

static void custom_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                       weft_array **grads)
{
    const custom_params *p = weft_node_params(node);
    const int m = (int)p->n_outputs;
    bool of_arguments[MAX_ARGUMENTS + WEFT_MAX_OUTPUTS] = {false};
    weft_status status = WEFT_OK;
    memcpy(of_arguments + m, wanted + m, (size_t)(node->n_inputs - m) * sizeof *wanted);
    if (p->rules.vjp) {
        status = pull_by_rule(node, cts, of_arguments, grads);
    } else if (p->rules.jvp) {
        status = weft__vjp_by_jvp(node, push_by_rule, cts, of_arguments, grads);
    } else {
        memcpy(grads, cts, (size_t)m * sizeof *grads);
    }
    for (int i = m; i < node->n_inputs && status != WEFT_OK; i++) {
        grads[i] = wanted[i] ? weft__failed_as(status, "%s", weft_error_message()) : NULL;
    }
}

static void custom_jvp(weft_array *node, weft_array *const *tangents, weft_array **out)
{
    const custom_params *p = weft_node_params(node);
    const int m = (int)p->n_outputs;
    weft_array *of_arguments[MAX_ARGUMENTS + WEFT_MAX_OUTPUTS] = {NULL};
    weft_status status = WEFT_OK;
    memcpy(of_arguments + m, tangents + m, (size_t)(node->n_inputs - m) * sizeof *tangents);
    if (p->rules.jvp) {
        status = push_by_rule(node, of_arguments, out);
    } else if (p->rules.vjp) {
        status = weft__jvp_by_vjp(node, pull_by_rule, of_arguments, out);
    } else {
        memcpy(out, tangents, (size_t)m * sizeof *out);
    }
    for (int o = 0; o < m && status != WEFT_OK; o++) {
        out[o] = weft__failed_as(status, "%s", weft_error_message());
    }
}

static bool custom_vmap(weft_array *node, weft_array *const *in, const bool *batched, int64_t size,
                        weft_array **out)
{
    custom_params p = *(const custom_params *)weft_node_params(node);
    const int m = (int)p.n_outputs;
    weft_array *inputs[MAX_ARGUMENTS + WEFT_MAX_OUTPUTS];
    if (p.rules.vmap) {
        p.rules.vmap(p.context, in + m, node->n_inputs - m, batched + m, size, out, m);
        return true;
    }
    uint64_t bits = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = i < m && !batched[i] ? weft__repeat(in[i], size) : in[i];
        bits |= i >= m && batched[i] ? UINT64_C(1) << (i - m) : 0;
    }
    p.batched.at[p.batched.n++] = (int64_t)bits;
    weft_array *y = weft__apply_on(node->device, node->op, inputs, node->n_inputs, &p);
    for (int o = 0; o < m; o++) {
        out[o] = weft_pick(y, o);
    }
    return true;
}

static const weft_op op_custom = {
    .name = "custom",
    .family = WEFT_STRUCTURAL,
    .arity = -1,
    .n_outputs = -WEFT_MAX_OUTPUTS,
    .params_size = sizeof(custom_params),
    .params_fields = custom_fields,
    .infer = infer_custom,
    .expand = expand_custom,
    .vjp = custom_vjp,
    .jvp = custom_jvp,
    .vmap = custom_vmap,
    .passes_through = true,
};

/* ---- public --------------------------------------------------------------------------------- */

/* An error array if the call or its results are invalid, or NULL. */
static weft_array *check_call(const weft__results *results, int n_in)
{
    const int n_out = results->n;
    if (n_in > MAX_ARGUMENTS || n_out > WEFT_MAX_OUTPUTS) {
        return weft__failed("custom: expected at most %d arguments and %d results, got %d and %d",
                            MAX_ARGUMENTS, WEFT_MAX_OUTPUTS, n_in, n_out);
    }
    for (int i = 0; i < n_out; i++) {
        weft_array *y = results->at[i];
        if (!weft_ok(y)) {
            return y ? y : weft__failed("custom: result %d is NULL", i);
        }
    }
    return NULL;
}

/* Makes the node around the results of a call, or an error array; NULL when there are no results.
 */
static weft_array *wrap(const weft__results *results, void *context, const weft_custom_rules *rules,
                        weft_array *const *in, int n_in)
{
    weft_array *inputs[MAX_ARGUMENTS + WEFT_MAX_OUTPUTS];
    const int n_out = results->n;
    weft_array *failed = check_call(results, n_in);
    if (failed || n_out == 0) {
        return failed;
    }
    custom_params params = {.rules = *rules, .context = context, .n_outputs = n_out};
    memcpy(inputs, results->at, (size_t)n_out * sizeof *inputs);
    memcpy(inputs + n_out, in, (size_t)n_in * sizeof *inputs);
    return weft__apply_on(weft_device_of(inputs[0]), &op_custom, inputs, n_out + n_in, &params);
}

int weft_custom(weft_function *fn, void *context, const weft_custom_rules *rules,
                weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft__results results = {.room = room};
    weft_scope_open();
    const weft_status status = weft__call_function(fn, context, in, n_in, &results);
    weft_array *node = status == WEFT_OK ? wrap(&results, context, rules, in, n_in) : NULL;
    for (int i = 0; i < results.n; i++) {
        results.at[i] = weft_pick(node, i);
    }
    const int n = weft__return_results(status, &results, out, room, "custom");
    weft_scope_close_n(out, room);
    weft_free(results.at);
    return n;
}
