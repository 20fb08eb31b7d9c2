/* core/compile/import.c -- reading exported functions: everything is checked before it is believed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/compile/export.h"
#include "core/failure.h"
#include "core/shape.h"
#include "weft/io.h"

enum { MAX_INPUTS = 1 << 16, MAX_RESULTS = 1 << 12 };

typedef struct function {
    char *name, *signature;
    weft__trace trace;
} function;

struct weft_imported {
    char *path;
    int n;
    function *functions;
};

void weft_imported_free(weft_imported *imported)
{
    if (!imported) {
        return;
    }
    for (int i = 0; i < imported->n; i++) {
        weft_free(imported->functions[i].name);
        weft_free(imported->functions[i].signature);
        weft__trace_free(&imported->functions[i].trace);
    }
    weft_free(imported->functions);
    weft_free(imported->path);
    weft_free(imported);
}

/* ---- one function --------------------------------------------------------------------------- */

/* The graph of a function while it is built on placeholders. */
typedef struct building {
    const weft_safetensors *file;
    const weft__json *encoded; /* which of its tensors are encoded arrays; empty: none */
    weft_array **arguments, **nodes, **results;
    int64_t *ids; /* per node, rising */
    size_t n_arguments, n_nodes, n_results;
} building;

static weft_array *node_of(const building *b, int64_t id)
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

/* A captured array: a tensor of the file, or what a tensor has the bytes of. */
static weft_status find_constant(const building *b, const char *name, weft_array **out)
{
    weft__json at = {0};
    weft_spec spec;
    weft_array *tensor = weft_safetensors_get(b->file, name);
    weft_status status = b->encoded->value ? weft__json_find(b->encoded, name, &at) : WEFT_OK;
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

/* An array by its name: "a0", "c0", "n0", "n0.1". */
static weft_status find_value(const building *b, const weft__json *at, weft_array **out)
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
    } else if (kind == 'c' && n == 2 && weft_safetensors_find(b->file, text) >= 0) {
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

static weft_status read_values(const building *b, const weft__json *list, size_t limit,
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

/* The node must look as it did where it was written. */
static weft_status check_specs(const weft__json *at, const weft_array *node)
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
        if (status == WEFT_OK && !weft__spec_same(&written, now)) {
            char a[WEFT_SHAPE_TEXT], b[WEFT_SHAPE_TEXT];
            status = weft__json_fail(
                &element, WEFT_INVALID, "%s gives %s %s, the file says %s %s", node->op->name,
                weft_dtype_name(now->dtype), weft__shape_text(&now->shape, a),
                weft_dtype_name(written.dtype), weft__shape_text(&written.shape, b));
        }
    }
    return status;
}

static weft_status apply_op(const weft__json *at, const weft_op *op, weft_array *const *inputs,
                            size_t n, const void *params, weft_array **out)
{
    if (op->arity >= 0 && (size_t)op->arity != n) {
        return weft__json_fail(at, WEFT_INVALID, "%s: expected %d inputs, got %zu", op->name,
                               op->arity, n);
    }
    *out = weft_apply(op, inputs, (int)n, params);
    if (!weft_ok(*out)) {
        return weft__json_fail(at, WEFT_INVALID, "%s", weft_error(*out));
    }
    if ((*out)->op != op) { /* an input that was handed on */
        return weft__json_fail(at, WEFT_INVALID, "%s: cannot be applied", op->name);
    }
    return check_specs(at, *out);
}

static weft_status read_node(const building *b, const weft__json *at, weft_array **out, int64_t *id)
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
        status = weft__params_read(op, &fields, params);
    }
    if (status == WEFT_OK) {
        status = apply_op(at, op, inputs, n, params, out);
    }
    weft_free(params);
    weft_free(inputs);
    return status;
}

static weft_status read_nodes(building *b, const weft__json *at)
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

static weft_status read_arguments(building *b, const weft__json *at)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_get(at, "arguments", &list);
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    b->arguments = weft_calloc(n, sizeof *b->arguments);
    if (status == WEFT_OK && !b->arguments) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft_spec spec;
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = weft__spec_read(&element, &spec);
        }
        if (status == WEFT_OK) {
            b->arguments[i] = weft__placeholder(&spec, weft_default_device(), (int64_t)i);
            status = weft_ok(b->arguments[i]) ? WEFT_OK : weft__report(b->arguments[i]);
        }
        b->n_arguments = i + 1;
    }
    return status;
}

/* In an open scope. */
static weft_status build(building *b, const weft__json *at, weft__trace *out)
{
    weft__json list;
    const uint64_t since = weft__next_seq();
    weft_status status = read_arguments(b, at);
    if (status == WEFT_OK) {
        status = read_nodes(b, at);
    }
    if (status == WEFT_OK) {
        status = weft__json_get(at, "results", &list);
    }
    if (status == WEFT_OK) {
        status = read_values(b, &list, MAX_RESULTS, &b->results, &b->n_results);
    }
    if (status == WEFT_OK) {
        status = weft__trace_make(out, b->arguments, (int64_t)b->n_arguments, b->results,
                                  (int64_t)b->n_results, since);
    }
    return status;
}

static weft_status read_function(const weft_safetensors *file, const weft__json *encoded,
                                 const weft__json *at, function *f)
{
    const char *name;
    building b = {.file = file, .encoded = encoded};
    weft_status status = weft__json_get_string(at, "name", &name);
    if (status != WEFT_OK) {
        return status;
    }
    weft_scope_open();
    status = build(&b, at, &f->trace);
    weft_scope_close(NULL);
    weft_free(b.arguments);
    weft_free(b.nodes);
    weft_free(b.ids);
    weft_free(b.results);
    if (status != WEFT_OK) {
        return status;
    }
    f->name = weft_strdup(name);
    f->signature = f->name ? weft__signature_text(name, &f->trace) : NULL;
    return f->signature ? WEFT_OK : weft__out_of_memory("import", NULL);
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status read_functions(weft_imported *out, const weft_safetensors *file,
                                  const weft__json *root)
{
    weft__json list, element, encoded;
    int64_t version;
    size_t n = 0;
    weft_status status = weft__json_get_int(root, "version", &version);
    if (status == WEFT_OK && (version < 1 || version > WEFT_EXPORT_VERSION)) {
        status = weft__json_fail(root, WEFT_UNSUPPORTED,
                                 "version: expected at most %d, got %lld: written by a later Weft",
                                 WEFT_EXPORT_VERSION, (long long)version);
    }
    if (status == WEFT_OK) {
        status = weft__json_get(root, "functions", &list);
    }
    if (status == WEFT_OK) { /* version 1 has none */
        status = weft__json_find(root, "encoded", &encoded);
    }
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    out->functions = weft_calloc(n, sizeof *out->functions);
    if (status == WEFT_OK && !out->functions) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        out->n = (int)i + 1;
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = read_function(file, &encoded, &element, &out->functions[i]);
        }
    }
    return status;
}

static weft_status read_file(weft_imported *out, const weft_safetensors *file, const char *path)
{
    const char *json = weft_safetensors_metadata(file, WEFT__EXPORT_KEY);
    weft__json_doc doc;
    if (!json) {
        return weft_fail(WEFT_INVALID, "%s: no exported functions: its metadata has no %s", path,
                         WEFT__EXPORT_KEY);
    }
    weft_status status = weft__json_parse(json, strlen(json), path, &doc);
    if (status == WEFT_OK) {
        weft__json root = weft__json_root(&doc);
        status = read_functions(out, file, &root);
        weft__json_free(&doc);
    }
    return status;
}

weft_status weft_import(const char *path, weft_imported **out)
{
    weft_safetensors *file;
    *out = NULL;
    weft_status status = weft_safetensors_open(path, &file);
    if (status != WEFT_OK) {
        return status;
    }
    weft_imported *imported = weft_calloc(1, sizeof *imported);
    if (imported) {
        imported->path = weft_strdup(path);
    }
    status = imported && imported->path ? read_file(imported, file, path)
                                        : weft__out_of_memory("import", NULL);
    weft_safetensors_close(file);
    if (status != WEFT_OK) {
        weft_imported_free(imported);
        return status;
    }
    *out = imported;
    return WEFT_OK;
}

int weft_imported_count(const weft_imported *imported)
{
    return imported->n;
}

const char *weft_imported_signature(const weft_imported *imported, int i)
{
    return i >= 0 && i < imported->n ? imported->functions[i].signature : NULL;
}

/* ---- calling -------------------------------------------------------------------------------- */

static bool takes(const function *f, const char *name, weft_array *const *in, int n_in, int n_out)
{
    const weft__trace *t = &f->trace;
    bool fits =
        (!name || strcmp(f->name, name) == 0) && t->n_arguments == n_in && t->n_outputs == n_out;
    for (int i = 0; i < n_in && fits; i++) {
        fits = weft__spec_same(&t->arguments[i].spec, &in[i]->spec);
    }
    return fits;
}

static weft_array *no_function(const weft_imported *imported, const char *name,
                               weft_array *const *in, int n_in, int n_out)
{
    char given[512] = "";
    size_t length = 0;
    for (int i = 0; i < n_in && length < sizeof given; i++) {
        char shape[WEFT_SHAPE_TEXT];
        weft_dims dims = weft_shape(in[i]);
        length +=
            (size_t)snprintf(given + length, sizeof given - length, "%s%s %s", i ? ", " : "",
                             weft_dtype_name(weft_dtype_of(in[i])), weft__shape_text(&dims, shape));
    }
    return weft_error_array("%s: no function %s(%s) with %d results; the first of %d is %s",
                            imported->path, name ? name : "", given, n_out, imported->n,
                            imported->n ? imported->functions[0].signature : "none");
}

void weft_imported_call(const weft_imported *imported, const char *name, weft_array *const *in,
                        int n_in, weft_array **out, int n_out)
{
    weft_array *failed = NULL;
    for (int i = 0; i < n_in && !failed; i++) {
        failed = weft_ok(in[i]) ? NULL : in[i];
    }
    const function *f = NULL;
    for (int i = 0; i < imported->n && !failed && !f; i++) {
        f = takes(&imported->functions[i], name, in, n_in, n_out) ? &imported->functions[i] : NULL;
    }
    if (!failed && !f) {
        failed = no_function(imported, name, in, n_in, n_out);
    }
    if (!failed && weft__trace_apply(&f->trace, in, out) != WEFT_OK) {
        failed = weft_error_array("%s: %s", imported->path, weft_error_message());
    }
    for (int i = 0; i < n_out && failed; i++) {
        out[i] = failed;
    }
}
