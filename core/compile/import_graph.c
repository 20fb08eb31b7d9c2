/* core/compile/import_graph.c -- reads the graph of an exported function and validates it. */
#include <stdio.h>
#include <string.h>

#include "core/compile/import.h"
#include "core/failure.h"
#include "core/shape.h"

enum { MAX_INPUTS = 1 << 16, MAX_RESULTS = 1 << 12 };

static weft_array *node_of(const weft__building *b, int64_t id)
{
    size_t low = 0, high = b->n_nodes;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < b->n_nodes && b->ids[low] == id ? b->nodes[low] : NULL;
}

/* Reads a tensor of the file, or the encoded array stored in it. */
static weft_status read_constant(const weft__building *b, const char *name, weft_array **out)
{
    weft__json at = {0};
    weft_spec spec;
    const weft__json *encoded = &b->from->encoded;
    weft_array *tensor = weft_safetensors_get(b->from->file, name);
    weft_status status = encoded->value ? weft__json_find(encoded, name, &at) : WEFT_OK;
    if (status == WEFT_OK && at.value) {
        status = weft__spec_read(&at, &spec);
        if (status == WEFT_OK && !spec.encoding) {
            status = weft__json_fail(&at, WEFT_INVALID, "expected an encoding");
        }
        return status == WEFT_OK ? weft__encoded_array(&at, tensor, &spec, out) : status;
    }
    *out = weft_to(tensor, weft_default_device());
    return status;
}

/* The captured array of that name, read once. */
static weft_status find_constant(const weft__building *b, const char *name, weft_array **out)
{
    weft_array **place = &b->from->tensors[weft_safetensors_find(b->from->file, name)];
    weft_status status = *place ? WEFT_OK : read_constant(b, name, out);
    if (status == WEFT_OK && !*place) {
        weft__hold(*out);
        *place = *out;
    }
    *out = *place;
    return status;
}

/* The array called "a0", "c0", "n0" or "n0.1". */
static weft_status find_value(const weft__building *b, const weft__json *at, weft_array **out)
{
    const char *text;
    weft_status status = weft__json_as_string(at, &text, NULL);
    char kind = 0, rest = 0;
    long long place = -1, output = 0;
    int n = status == WEFT_OK ? sscanf(text, "%c%18lld.%1lld%c", &kind, &place, &output, &rest) : 0;
    if (status != WEFT_OK) {
        return status;
    }
    *out = NULL;
    if (kind == 'a' && n == 2 && place >= 0 && (size_t)place < b->n_arguments) {
        *out = b->arguments[place];
    } else if (kind == 'c' && n == 2 && weft_safetensors_find(b->from->file, text) >= 0) {
        status = find_constant(b, text, out);
        if (status != WEFT_OK) {
            return status;
        }
    } else if (kind == 'n' && (n == 2 || n == 3)) {
        weft_array *node = node_of(b, place);
        bool there = node && output >= 0 && output < node->n_outputs;
        *out = !there ? NULL : n == 3 ? weft_pick(node, (int)output) : node;
    }
    return *out ? WEFT_OK
                : weft__json_fail(at, WEFT_INVALID, "there is no array '%s' before it",
                                  weft_printable(text));
}

static weft_status read_values(const weft__building *b, const weft__json *list, size_t limit,
                               weft_array ***out, size_t *n)
{
    weft_status status = weft__json_length(list, n);
    if (status == WEFT_OK && *n > limit) {
        status = weft__json_fail(list, WEFT_INVALID, "expected at most %zu, got %zu", limit, *n);
    }
    *out = status == WEFT_OK ? weft_calloc(*n, sizeof **out) : NULL;
    if (status == WEFT_OK && !*out) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; status == WEFT_OK && i < *n; i++) {
        weft__json element;
        status = weft__json_at(list, i, &element);
        if (status == WEFT_OK) {
            status = find_value(b, &element, &(*out)[i]);
        }
    }
    return status;
}

/* Checks that the node's outputs have the dtypes and shapes in the file; in a call, only the ranks.
 */
static weft_status check_specs(const weft__building *b, const weft__json *at,
                               const weft_array *node)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_get(at, "outputs", &list);
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    if (status == WEFT_OK && n != (size_t)node->n_outputs) {
        status = weft__json_fail(&list, WEFT_INVALID, "expected %d of %s, got %zu", node->n_outputs,
                                 node->op->name, n);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft_spec written;
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = weft__spec_read(&element, &written);
        }
        const weft_spec *now = &weft__output(node, (int)i)->spec;
        if (b->calling && written.shape.n == now->shape.n) {
            written.shape = now->shape;
        }
        if (status == WEFT_OK && !weft__spec_same(&written, now)) {
            char x[WEFT_SHAPE_TEXT], y[WEFT_SHAPE_TEXT];
            status = weft__json_fail(
                &element, WEFT_INVALID, "%s gives %s %s, the file says %s %s", node->op->name,
                weft_dtype_name(now->dtype), weft__shape_text(&now->shape, x),
                weft_dtype_name(written.dtype), weft__shape_text(&written.shape, y));
        }
    }
    return status;
}

/* Writes the lengths that the node's shape follows into its parameters. */
static weft_status follow_lengths(const weft__building *b, const weft__json *at, const weft_op *op,
                                  weft_array *const *inputs, size_t n_inputs, void *params)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_find(at, "follows", &list);
    if (status != WEFT_OK || !list.value) {
        return status;
    }
    const weft_field *f = weft__shape_field(op);
    weft_dims *dims = f ? (weft_dims *)(void *)((char *)params + f->offset) : NULL;
    int64_t known = 1, inferred = -1, follows;
    status = weft__json_length(&list, &n);
    if (status == WEFT_OK && (!dims || dims->n < 0 || n > (size_t)dims->n)) {
        return weft__json_fail(&list, WEFT_INVALID, "%s has no such shape", op->name);
    }
    for (int i = 0; i < (dims ? dims->n : 0) && status == WEFT_OK; i++) {
        follows = 0;
        if ((size_t)i < n) {
            status = weft__json_at(&list, (size_t)i, &element);
            status = status == WEFT_OK ? weft__json_as_int(&element, &follows) : status;
        }
        if (status == WEFT_OK && follows == WEFT__INFERRED && inferred < 0) {
            inferred = i;
        } else if (status == WEFT_OK && follows >= 0 && follows <= b->symbols->n) {
            dims->at[i] = follows ? b->sizes[follows - 1] : dims->at[i];
            if (__builtin_mul_overflow(known, dims->at[i], &known)) {
                known = 0;
            }
        } else if (status == WEFT_OK) {
            status = weft__json_fail(&element, WEFT_INVALID, "expected a dynamic length");
        }
    }
    if (status == WEFT_OK && inferred >= 0) {
        const int64_t size = n_inputs > 0 ? weft_size(inputs[0]) : 0;
        if (known <= 0 || size % known != 0) {
            return weft__json_fail(&list, WEFT_INVALID, "%s: %lld elements do not fit", op->name,
                                   (long long)size);
        }
        dims->at[inferred] = size / known;
    }
    return status;
}

static weft_status apply_op(const weft__building *b, const weft__json *at, const weft_op *op,
                            weft_array *const *inputs, size_t n, const void *params,
                            weft_array **out)
{
    if (op->arity >= 0 && (size_t)op->arity != n) {
        return weft__json_fail(at, WEFT_INVALID, "%s: expected %d inputs, got %zu", op->name,
                               op->arity, n);
    }
    *out = weft_apply(op, inputs, (int)n, params);
    if (!weft_ok(*out)) {
        return weft__json_fail(at, WEFT_INVALID, "%s", weft_error(*out));
    }
    if ((*out)->op != op) { /* the op returned one of its inputs */
        return weft__json_fail(at, WEFT_INVALID, "%s: cannot be applied", op->name);
    }
    return check_specs(b, at, *out);
}

static weft_status read_node(const weft__building *b, const weft__json *at, weft_array **out,
                             int64_t *id)
{
    const char *name;
    weft__json list, fields;
    weft_array **inputs = NULL;
    size_t n = 0;
    weft_status status = weft__json_get_int(at, "id", id);
    if (status == WEFT_OK) {
        status = weft__json_get_string(at, "op", &name);
    }
    const weft_op *op = status == WEFT_OK ? weft_op_find(name) : NULL;
    if (status == WEFT_OK && !op) {
        status =
            weft__json_fail(at, WEFT_UNSUPPORTED, "there is no op '%s': is it to be registered?",
                            weft_printable(name));
    }
    if (status == WEFT_OK) {
        status = weft__json_get(at, "inputs", &list);
    }
    if (status == WEFT_OK) {
        status = read_values(b, &list, MAX_INPUTS, &inputs, &n);
    }
    void *params = weft_calloc(1, op ? op->params_size : 0);
    if (status == WEFT_OK && !params) {
        status = weft__out_of_memory("import", NULL);
    }
    if (status == WEFT_OK) {
        status = weft__json_get(at, "params", &fields);
    }
    if (status == WEFT_OK) {
        status = weft__params_read(op, &fields, b->from->version, params);
    }
    if (status == WEFT_OK) {
        status = follow_lengths(b, at, op, inputs, n, params);
    }
    if (status == WEFT_OK) {
        status = apply_op(b, at, op, inputs, n, params, out);
    }
    weft_free(params);
    weft_free(inputs);
    return status;
}

static weft_status read_nodes(weft__building *b, const weft__json *at)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_get(at, "nodes", &list);
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    b->nodes = weft_calloc(n, sizeof *b->nodes);
    b->ids = weft_calloc(n, sizeof *b->ids);
    if (status == WEFT_OK && (!b->nodes || !b->ids)) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = read_node(b, &element, &b->nodes[i], &b->ids[i]);
        }
        if (status == WEFT_OK && i > 0 && b->ids[i] <= b->ids[i - 1]) {
            status = weft__json_fail(&element, WEFT_INVALID, "expected rising ids");
        }
        b->n_nodes = i + 1;
    }
    return status;
}

/* Reads the nodes and results over the given arguments. */
weft_status weft__read_graph(weft__building *b, const weft__json *at)
{
    weft__json list;
    weft_status status = read_nodes(b, at);
    if (status == WEFT_OK) {
        status = weft__json_get(at, "results", &list);
    }
    return status == WEFT_OK ? read_values(b, &list, MAX_RESULTS, &b->results, &b->n_results)
                             : status;
}

void weft__building_free(weft__building *b)
{
    weft_free(b->nodes);
    weft_free(b->ids);
    weft_free(b->results);
}
