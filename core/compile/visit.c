/* core/compile/visit.c -- weft_export_visit: passes the graph of a function to a callback. */
#include <stdio.h>

#include "core/compile/compiled.h"
#include "core/compile/export.h"
#include "core/failure.h"

typedef struct visiting {
    const weft__trace *t;
    weft_export_visitor *visit;
    void *context;
    weft_export_array *arrays; /* buffer for the arrays of one item */
    char (*names)[40];
    int64_t room;
} visiting;

static bool make_room(visiting *v, int64_t n)
{
    if (n <= v->room) {
        return true;
    }
    weft_export_array *arrays = weft_realloc(v->arrays, (size_t)n * sizeof *arrays);
    v->arrays = arrays ? arrays : v->arrays;
    char(*names)[40] = weft_realloc(v->names, (size_t)n * sizeof *names);
    v->names = names ? names : v->names;
    v->room = arrays && names ? n : v->room;
    return arrays && names;
}

static void fill(visiting *v, int64_t i, const weft_spec *spec, weft_array *constant)
{
    v->arrays[i] = (weft_export_array){.name = v->names[i],
                                       .dtype = spec->dtype,
                                       .shape = spec->shape,
                                       .encoding = spec->encoding ? spec->encoding->name : NULL,
                                       .constant = constant};
}

static void fill_value(visiting *v, int64_t i, weft__value value)
{
    value = weft__export_resolve(v->t, value);
    weft__export_name(v->t, value, (int64_t)value.index, v->names[i]);
    fill(v, i, weft__trace_spec(v->t, value),
         value.kind == WEFT__CONSTANT ? v->t->constants[value.index] : NULL);
}

static weft_status show(visiting *v, weft_export_part *part, int64_t n_inputs, int64_t n_outputs)
{
    part->inputs = v->arrays;
    part->n_inputs = (int)n_inputs;
    part->outputs = v->arrays + n_inputs;
    part->n_outputs = (int)n_outputs;
    return v->visit(v->context, part)
               ? WEFT_OK
               : weft_fail(WEFT_CANCELLED, "export: the visitor stopped at part %s",
                           part->op ? part->op : "");
}

static weft_status show_values(visiting *v, weft_export_kind kind, int64_t n,
                               const weft__value *values)
{
    weft_export_part part = {.kind = kind};
    if (!make_room(v, n)) {
        return weft__out_of_memory("export", NULL);
    }
    for (int64_t i = 0; i < n; i++) {
        const weft__value numbered = {.kind = kind == WEFT_EXPORT_ARGUMENTS ? WEFT__ARGUMENT
                                                                            : WEFT__CONSTANT,
                                      .index = (uint32_t)i};
        fill_value(v, i, values ? values[i] : numbered);
    }
    return kind == WEFT_EXPORT_RESULTS ? show(v, &part, n, 0) : show(v, &part, 0, n);
}

static weft_status show_node(visiting *v, int64_t i)
{
    const weft__trace_node *n = &v->t->nodes[i];
    weft__text params = {0};
    if (!make_room(v, n->n_inputs + n->n_outputs)) {
        return weft__out_of_memory("export", NULL);
    }
    for (int k = 0; k < n->n_inputs; k++) {
        fill_value(v, k, n->inputs[k]);
    }
    for (int o = 0; o < n->n_outputs; o++) {
        const int at = n->n_inputs + o;
        snprintf(v->names[at], sizeof v->names[at], n->n_outputs > 1 ? "n%lld.%d" : "n%lld",
                 (long long)i, o);
        fill(v, at, &n->specs[o], NULL);
    }
    const bool written = weft__params_write(n->op, n->params, &params) == WEFT_OK;
    weft_export_part part = {.kind = WEFT_EXPORT_NODE,
                             .op = n->op->name,
                             .params = written && !params.failed ? params.at : NULL};
    weft_status status = show(v, &part, n->n_inputs, n->n_outputs);
    weft_free(params.at);
    return status;
}

static weft_status show_all(visiting *v)
{
    const weft__trace *t = v->t;
    weft_status status = show_values(v, WEFT_EXPORT_ARGUMENTS, t->n_arguments, NULL);
    if (status == WEFT_OK) {
        status = show_values(v, WEFT_EXPORT_CONSTANTS, t->n_constants, NULL);
    }
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        if (weft__export_writes(t, i)) {
            status = show_node(v, i);
        }
    }
    return status == WEFT_OK ? show_values(v, WEFT_EXPORT_RESULTS, t->n_outputs, t->outputs)
                             : status;
}

weft_status weft_export_visit(weft_function *fn, void *context, weft_array *const *in, int n_in,
                              weft_export_visitor *visit, void *visit_context)
{
    weft__trace t = {0};
    weft_status status = weft__export_trace(fn, context, in, n_in, &t);
    visiting v = {.t = &t, .visit = visit, .context = visit_context};
    if (status == WEFT_OK) {
        status = show_all(&v);
    }
    weft_free(v.arrays);
    weft_free(v.names);
    weft__trace_free(&t);
    return status;
}
