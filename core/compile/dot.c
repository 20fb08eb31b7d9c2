/* core/compile/dot.c -- prints a lazy graph in the Graphviz format. */
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/graph.h"
#include "core/io/text.h"
#include "core/shape.h"
#include "weft/compile.h"
#include "weft/io.h"

static void add_spec(weft__text *text, const weft_array *a)
{
    char shape[WEFT_SHAPE_TEXT];
    weft__text_format(text, "\\n%s %s", weft_dtype_name(a->spec.dtype),
                      weft__shape_text(&a->spec.shape, shape));
}

static void add_node(weft__text *text, const weft_array *a)
{
    char params[WEFT_SHAPE_TEXT * 2];
    weft_params_print(a->op, a->params, params, sizeof params);
    weft__text_format(text, "  n%llu [label=\"%s%s%s", (unsigned long long)a->seq, a->op->name,
                      params[0] ? "\\n" : "", params);
    for (int o = 0; o < a->n_outputs; o++) {
        add_spec(text, weft__output(a, o));
    }
    weft__text_format(text, "\"];\n");
}

/* The graph node of an array: its own if it needs no computation, otherwise that of its node. */
static void add_name(weft__text *text, const weft_array *a)
{
    weft__text_format(text, "n%llu", (unsigned long long)a->seq);
    if (!a->op && a != a->first) {
        weft__text_format(text, "_%d", weft__output_index(a));
    }
}

static void add_leaf(weft__text *text, const weft_array *a)
{
    weft__text_format(text, "  ");
    add_name(text, a);
    weft__text_format(text, " [shape=box, label=\"array");
    add_spec(text, a);
    weft__text_format(text, "\"];\n");
}

/* Adds the edge from an array to "n3" or "out0". */
static void add_edge(weft__text *text, const weft_array *a, const char *to, uint64_t number)
{
    weft__text_format(text, "  ");
    add_name(text, a);
    weft__text_format(text, " -> %s%llu", to, (unsigned long long)number);
    if (a->op && a->n_outputs > 1) {
        weft__text_format(text, " [label=\"%d\"]", weft__output_index(a));
    }
    weft__text_format(text, ";\n");
}

/* Adds arrays that need no computation, once each. */
static bool add_leaf_once(weft__text *text, weft__map *nodes, weft__map *leaves, weft_array *a)
{
    bool added = false;
    if (weft__map_index(nodes, a->first, NULL) >= 0) {
        return true;
    }
    bool there = weft__map_index(leaves, a, &added) >= 0;
    if (there && added) {
        add_leaf(text, a);
    }
    return there;
}

static weft_status add_graph(weft__text *text, weft_array *const *arrays, int n)
{
    weft__map nodes, leaves = {0};
    if (!weft__collect(arrays, n, NULL, NULL, &nodes)) {
        return weft__out_of_memory("graph_dot", NULL);
    }
    bool ok = true;
    weft__text_format(text, "digraph weft {\n  rankdir=TB;\n");
    for (int64_t i = 0; i < nodes.count; i++) {
        const weft_array *a = nodes.keys[i];
        add_node(text, a);
        for (int k = 0; k < a->n_inputs && ok; k++) {
            ok = add_leaf_once(text, &nodes, &leaves, a->inputs[k]);
            add_edge(text, a->inputs[k], "n", a->seq);
        }
    }
    for (int i = 0; i < n && ok; i++) {
        ok = add_leaf_once(text, &nodes, &leaves, arrays[i]);
        weft__text_format(text, "  out%d [shape=plaintext];\n", i);
        add_edge(text, arrays[i], "out", (uint64_t)i);
    }
    weft__text_format(text, "}\n");
    weft__map_free(&nodes);
    weft__map_free(&leaves);
    return ok ? WEFT_OK : weft__out_of_memory("graph_dot", NULL);
}

weft_status weft_graph_dot(weft_array *const *arrays, int n, const char *path, char **text)
{
    if (!path) {
        *text = NULL;
    }
    for (int i = 0; i < n; i++) {
        if (!weft_ok(arrays[i])) {
            return weft__report(arrays[i]);
        }
    }
    weft__text all = {0};
    weft_status status = add_graph(&all, arrays, n);
    char *taken = weft__text_take(&all);
    if (status == WEFT_OK && !taken) {
        status = weft__out_of_memory("graph_dot", NULL);
    }
    if (status == WEFT_OK && path) {
        status = weft_file_write(path, taken, strlen(taken));
    }
    if (status == WEFT_OK && !path) {
        *text = taken;
    } else {
        weft_free(taken);
    }
    return status;
}
