/* core/transforms/linear_maps.c -- derives tangents from a gradient rule and gradients from a
 * tangent rule. Both rules are linear, and the derivative of a linear map is the map itself. */
#include "core/failure.h"
#include "core/transforms/transforms.h"
#include "weft/ops.h"

/* A zero array at which the rule is differentiated. */
static weft_array *zero_at(const weft_spec *spec, weft_device *device)
{
    return weft__alias(weft_to(weft_zeros(spec->shape, spec->dtype), device));
}

static bool is_differentiable_spec(const weft_spec *spec)
{
    weft_class klass = weft_dtype_class(spec->dtype);
    return klass == WEFT_CLASS_REAL || klass == WEFT_CLASS_COMPLEX;
}

/* Pulls cts back from `values` to the points; NULL entries are skipped. */
static weft_status pull_between(weft_array **values, weft_array *const *cts, int n_values,
                                weft_array *const *points, int n_points, weft_array **room,
                                weft_array **found)
{
    weft_array **outs = room, **given = room + n_values, **targets = room + 2 * n_values;
    weft_array **results = targets + n_points;
    int n = 0, m = 0;
    for (int i = 0; i < n_values; i++) {
        if (values[i] && cts[i]) {
            outs[n] = values[i];
            given[n++] = cts[i];
        }
    }
    for (int i = 0; i < n_points; i++) {
        if (points[i]) {
            targets[m++] = points[i];
        }
    }
    weft_status status = weft__pull_back(outs, given, n, targets, m, true, results);
    m = 0;
    for (int i = 0; i < n_points && status == WEFT_OK; i++) {
        if (points[i]) {
            found[i] = results[m++];
        }
    }
    return status;
}

weft_status weft__jvp_by_vjp(weft_array *node, weft__vjp_rule *vjp, weft_array *const *tangents,
                             weft_array **out)
{
    const int n = node->n_inputs, n_out = node->n_outputs;
    weft_array *points[WEFT_MAX_OUTPUTS] = {NULL};
    weft_array **room = weft_calloc((size_t)(3 * n + 2 * n_out), sizeof *room);
    bool *wanted = weft_calloc((size_t)n, sizeof *wanted);
    weft_status status = room && wanted ? WEFT_OK : weft__out_of_memory("jvp", NULL);
    for (int o = 0; o < n_out && status == WEFT_OK; o++) {
        const weft_spec *spec = &weft__output(node, o)->spec;
        points[o] = is_differentiable_spec(spec) ? zero_at(spec, node->device) : NULL;
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        wanted[i] = tangents[i] != NULL;
    }
    if (status == WEFT_OK) {
        status = vjp(node, points, wanted, room);
    }
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (room[i]) {
            room[i] = weft__as_spec(room[i], &node->inputs[i]->spec, "gradient", node->op->name);
        }
    }
    if (status == WEFT_OK) {
        status = pull_between(room, tangents, n, points, n_out, room + n, out);
    }
    weft_free(room);
    weft_free(wanted);
    return status;
}

weft_status weft__vjp_by_jvp(weft_array *node, weft__jvp_rule *jvp, weft_array *const *cts,
                             const bool *wanted, weft_array **grads)
{
    const int n = node->n_inputs, n_out = node->n_outputs;
    weft_array *values[WEFT_MAX_OUTPUTS] = {NULL};
    weft_array **room = weft_calloc((size_t)(3 * n + 2 * n_out), sizeof *room);
    if (!room) {
        return weft__out_of_memory("vjp", NULL);
    }
    for (int i = 0; i < n; i++) {
        room[i] = wanted[i] ? zero_at(&node->inputs[i]->spec, node->inputs[i]->device) : NULL;
    }
    weft_status status = jvp(node, room, values);
    if (status == WEFT_OK) {
        status = pull_between(values, cts, n_out, room, n, room + n, grads);
    }
    weft_free(room);
    return status;
}
