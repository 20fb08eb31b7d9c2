/* core/compile/export.c -- exports traced functions to files. */
#include "core/compile/export.h"

#include <stdio.h>
#include <string.h>

#include "core/compile/compiled.h"
#include "core/compile/shapeless.h"
#include "core/failure.h"
#include "core/list.h"
#include "weft/io.h"
#include "weft/quantize.h"
#include "weft/version.h"

struct weft_exporter {
    weft__text json;   /* functions written so far, separated by commas */
    weft__map arrays;  /* captured arrays, held by the constants of the traces */
    char **signatures; /* name and arguments of each function, to detect duplicates */
    int n_functions;
    char **metadata; /* keys and values alternate */
    int n_metadata;
};

weft_status weft_exporter_new(weft_exporter **out)
{
    *out = weft_calloc(1, sizeof **out);
    return *out ? WEFT_OK : weft__out_of_memory("export", NULL);
}

void weft_exporter_free(weft_exporter *e)
{
    if (!e) {
        return;
    }
    for (int64_t i = 0; i < e->arrays.count; i++) {
        weft__unhold(e->arrays.keys[i]);
    }
    for (int i = 0; i < e->n_functions; i++) {
        weft_free(e->signatures[i]);
    }
    for (int i = 0; i < 2 * e->n_metadata; i++) {
        weft_free(e->metadata[i]);
    }
    weft__map_free(&e->arrays);
    weft_free(e->metadata);
    weft_free(e->signatures);
    weft_free(e->json.at);
    weft_free(e);
}

/* ---- one function --------------------------------------------------------------------------- */

/* Whether the value is an output of an op that passes an input through; *from is then that input.
 */
static bool is_passed_through(const weft__trace *t, weft__value v, weft__value *from)
{
    const weft__trace_node *n = &t->nodes[v.index];
    if (n->op->passes_through) {
        *from = n->inputs[v.output];
    }
    return n->op->passes_through;
}

weft__value weft__export_resolve(const weft__trace *t, weft__value v)
{
    while (v.kind == WEFT__NODE && is_passed_through(t, v, &v)) {
    }
    return v;
}

/* The index of a captured array among the file's tensors; -1: out of memory. */
static int64_t tensor_of(weft_exporter *e, weft_array *a)
{
    bool added;
    int64_t i = weft__map_index(&e->arrays, a, &added);
    if (i >= 0 && added) {
        weft__hold(a);
    }
    return i;
}

void weft__export_name(const weft__trace *t, weft__value v, int64_t place, char name[40])
{
    if (v.kind == WEFT__NODE && t->nodes[v.index].n_outputs > 1) {
        snprintf(name, 40, "n%lld.%u", (long long)place, v.output);
    } else {
        snprintf(name, 40, "%c%lld", "acn"[v.kind], (long long)place);
    }
}

bool weft__export_writes(const weft__trace *t, int64_t node)
{
    return !t->nodes[node].op->passes_through; /* otherwise its inputs are written in place of its
                                                * outputs */
}

/* Names of values: "a0" for arguments, "c0" for captured arrays, "n0" for nodes by their number in
 * the trace, "n0.1" for one of several outputs. */
static weft_status write_value(weft_exporter *e, const weft__trace *t, weft__value v)
{
    v = weft__export_resolve(t, v);
    int64_t place = (int64_t)v.index;
    if (v.kind == WEFT__CONSTANT) {
        weft_array *a = t->constants[v.index];
        const weft_encoding *encoding = a->spec.encoding;
        if (encoding && weft_encoding_find(encoding->name) != encoding) {
            return weft_fail(WEFT_UNSUPPORTED, "export: %s is not in the table of encodings",
                             encoding->name);
        }
        place = tensor_of(e, a);
        if (place < 0) {
            return weft__out_of_memory("export", NULL);
        }
    }
    char name[40];
    weft__export_name(t, v, place, name);
    weft__text_format(&e->json, "\"%s\"", name);
    return WEFT_OK;
}

static weft_status write_values(weft_exporter *e, const weft__trace *t, const weft__value *values,
                                int64_t n)
{
    weft_status status = WEFT_OK;
    weft__text_append(&e->json, "[", 1);
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        weft__text_append(&e->json, ",", i > 0);
        status = write_value(e, t, values[i]);
    }
    weft__text_append(&e->json, "]", 1);
    return status;
}

/* Writes which symbols the elements of the node's shape follow. */
static void write_follows(weft__text *json, const signed char *follows)
{
    int n = 0;
    for (int d = 0; follows && d < WEFT_MAX_DIMS; d++) {
        n = follows[d] ? d + 1 : n;
    }
    for (int d = 0; d < n; d++) {
        weft__text_format(json, d ? ",%d" : ",\"follows\":[%d", follows[d]);
    }
    weft__text_append(json, "]", n > 0);
}

static weft_status write_node(weft_exporter *e, const weft__trace *t, int64_t i,
                              const signed char *follows)
{
    const weft__trace_node *n = &t->nodes[i];
    if (weft_op_find(n->op->name) != n->op) {
        return weft_fail(WEFT_UNSUPPORTED, "export: %s: not a registered op (weft_op_register)",
                         n->op->name);
    }
    weft__text_format(&e->json, "{\"id\":%lld,\"op\":", (long long)i);
    weft__text_quote(&e->json, n->op->name);
    weft__text_append(&e->json, ",\"inputs\":", 10);
    weft_status status = write_values(e, t, n->inputs, n->n_inputs);
    weft__text_append(&e->json, ",\"params\":", 10);
    if (status == WEFT_OK) {
        status = weft__params_write(n->op, n->params, &e->json);
    }
    write_follows(&e->json, follows);
    weft__text_append(&e->json, ",\"outputs\":[", 12);
    for (int o = 0; o < n->n_outputs; o++) {
        weft__text_append(&e->json, ",", o > 0);
        weft__spec_write(&n->specs[o], &e->json);
    }
    weft__text_append(&e->json, "]}", 2);
    return status;
}

/* Writes the spec of an argument with the symbols of its axes. */
static void write_argument(weft__text *json, const weft_spec *spec, const unsigned char *axes)
{
    weft__spec_write(spec, json);
    if (axes) {
        json->n -= !json->failed; /* reopens the object to append */
        weft__text_append(json, ",\"axes\":[", 9);
        for (int d = 0; d < spec->shape.n; d++) {
            weft__text_format(json, d ? ",%d" : "%d", axes[d]);
        }
        weft__text_append(json, "]}", 2);
    }
}

static void write_least(weft__text *json, const weft__symbols *symbols)
{
    weft__text_append(json, ",\"least\":[", 10);
    for (int k = 0; k < symbols->n; k++) {
        weft__text_format(json, k ? ",%lld" : "%lld", (long long)symbols->least[k]);
    }
    weft__text_append(json, "]", 1);
}

/* `s`: additional data of a function with dynamic axes, or NULL. */
static weft_status write_function(weft_exporter *e, const char *name, const weft__trace *t,
                                  const weft__shapeless *s)
{
    weft__text_append(&e->json, ",", e->n_functions > 0);
    weft__text_append(&e->json, "{\"name\":", 8);
    weft__text_quote(&e->json, name);
    if (s) {
        write_least(&e->json, &s->symbols);
    }
    weft__text_append(&e->json, ",\"arguments\":[", 14);
    for (int64_t i = 0; i < t->n_arguments; i++) {
        weft__text_append(&e->json, ",", i > 0);
        write_argument(&e->json, &t->arguments[i].spec, s ? s->symbols.axes[i] : NULL);
    }
    weft__text_append(&e->json, "],\"nodes\":[", 11);
    weft_status status = WEFT_OK;
    bool first = true;
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        if (weft__export_writes(t, i)) {
            weft__text_append(&e->json, ",", !first);
            status = write_node(e, t, i, s ? s->follows[i] : NULL);
            first = false;
        }
    }
    weft__text_append(&e->json, "],\"results\":", 12);
    if (status == WEFT_OK) {
        status = write_values(e, t, t->outputs, t->n_outputs);
    }
    weft__text_append(&e->json, "}", 1);
    if (status == WEFT_OK && e->json.failed) {
        status = weft__out_of_memory("export", NULL);
    }
    return status;
}

/* ---- tracing -------------------------------------------------------------------------------- */

/* Called in an open scope; `arrays` has room for the placeholders. */
static weft_status call_on_placeholders(weft_function *fn, void *context,
                                        const weft__trace_argument *arguments, int n_in,
                                        struct weft__length_log *lengths, weft_array **arrays,
                                        weft__results *results, weft__trace *out)
{
    const uint64_t since = weft__next_seq();
    for (int i = 0; i < n_in; i++) {
        arrays[i] = weft__placeholder(&arguments[i].spec, arguments[i].device, i);
    }
    const int differentiating = weft__differentiating;
    weft__recording recording; /* inner compiled functions are called directly */
    weft__begin_recording(&recording);
    recording.lengths = lengths ? lengths : recording.lengths;
    weft__differentiating = 0;
    const weft_status status = weft__call_function(fn, context, arrays, n_in, results);
    weft__differentiating = differentiating;
    const weft_status unread = weft__end_recording(&recording, "export");
    if (unread != WEFT_OK || status != WEFT_OK) {
        return unread != WEFT_OK ? unread : status;
    }
    for (int i = 0; i < results->n; i++) {
        if (!weft_ok(results->at[i])) {
            return weft_fail(WEFT_INVALID, "export: result %d: %s", i,
                             results->at[i] ? weft_error(results->at[i]) : "NULL");
        }
    }
    return weft__trace_make(out, arrays, n_in, results->at, results->n, since);
}

weft_status weft__trace_at(weft_function *fn, void *context, const weft__trace_argument *arguments,
                           int n_in, struct weft__length_log *lengths, weft__trace *out)
{
    *out = (weft__trace){0};
    weft__results results = {0};
    weft_array **arrays = weft_calloc((size_t)n_in, sizeof *arrays);
    if (!arrays) {
        return weft__out_of_memory("export", NULL);
    }
    weft_scope_open();
    weft_status status =
        call_on_placeholders(fn, context, arguments, n_in, lengths, arrays, &results, out);
    weft_scope_close(NULL);
    weft_free(results.at);
    weft_free(arrays);
    return status;
}

weft_status weft__export_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                               weft__trace *out)
{
    weft__trace raw = {0};
    weft__trace_argument *arguments = weft_calloc((size_t)n_in, sizeof *arguments);
    weft_status status = arguments ? WEFT_OK : weft__out_of_memory("export", NULL);
    for (int i = 0; i < n_in && status == WEFT_OK; i++) {
        if (!weft_ok(in[i])) {
            status = weft__report(in[i]);
        } else {
            arguments[i] = (weft__trace_argument){*weft_node_spec(in[i], 0), in[i]->device};
        }
    }
    if (status == WEFT_OK) {
        status = weft__trace_at(fn, context, arguments, n_in, NULL, &raw);
    }
    if (status == WEFT_OK) {
        status = weft__simplify(&raw, true, out);
        weft__trace_free(&raw);
    }
    weft_free(arguments);
    return status;
}

/* Records a function's signature. Functions of the same name must differ in their arguments. */
static weft_status add_signature(weft_exporter *e, const char *name, const weft__trace *t,
                                 const weft__symbols *symbols)
{
    char *text = weft__signature_text(name, t, symbols);
    if (!text || !weft__list_more(e->signatures, e->n_functions)) {
        weft_free(text);
        return weft__out_of_memory("export", NULL);
    }
    *strstr(text, ") -> (") = 0;
    for (int i = 0; i < e->n_functions; i++) {
        if (strcmp(e->signatures[i], text) == 0) {
            weft_status status = weft_fail(WEFT_INVALID, "export: there is a %s) already", text);
            weft_free(text);
            return status;
        }
    }
    e->signatures[e->n_functions] = text;
    return WEFT_OK;
}

static weft_status add_function(weft_exporter *e, const char *name, const weft__trace *t,
                                const weft__shapeless *s)
{
    const size_t before = e->json.n;
    weft_status status = add_signature(e, name, t, s ? &s->symbols : NULL);
    if (status == WEFT_OK) {
        status = write_function(e, name, t, s);
        if (status == WEFT_OK) {
            e->n_functions++;
        } else {
            weft_free(e->signatures[e->n_functions]);
            e->json.n = before;
        }
    }
    return status;
}

weft_status weft_exporter_add(weft_exporter *e, const char *name, weft_function *fn, void *context,
                              weft_array *const *in, int n_in)
{
    weft__trace t = {0};
    weft_status status = weft__export_trace(fn, context, in, n_in, &t);
    if (status == WEFT_OK) {
        status = add_function(e, name, &t, NULL);
    }
    weft__trace_free(&t);
    return status;
}

weft_status weft_exporter_add_shapeless(weft_exporter *e, const char *name, weft_function *fn,
                                        void *context, weft_array *const *in, int n_in,
                                        const uint32_t *dynamic)
{
    weft__shapeless s;
    weft_status status = weft__shapeless_trace(fn, context, in, n_in, dynamic, &s);
    if (status == WEFT_OK) {
        status = add_function(e, name, &s.trace, &s);
    }
    weft__shapeless_free(&s);
    return status;
}

weft_status weft_exporter_set_metadata(weft_exporter *e, const char *key, const char *value)
{
    if (strncmp(key, WEFT__EXPORT_KEY, sizeof WEFT__EXPORT_KEY - 1) == 0) {
        return weft_fail(WEFT_INVALID, "export: metadata cannot have the key %s", key);
    }
    int i = 0;
    while (i < e->n_metadata && strcmp(e->metadata[2 * i], key) != 0) {
        i++;
    }
    char *copies[2] = {weft_strdup(key), weft_strdup(value)};
    if (!copies[0] || !copies[1] ||
        !weft__list_room(&e->metadata, (size_t)e->n_metadata, sizeof copies)) {
        weft_free(copies[0]);
        weft_free(copies[1]);
        return weft__out_of_memory("export", NULL);
    }
    for (int k = 0; k < 2; k++) {
        if (i < e->n_metadata) {
            weft_free(e->metadata[2 * i + k]);
        }
        e->metadata[2 * i + k] = copies[k];
    }
    e->n_metadata += i == e->n_metadata;
    return WEFT_OK;
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status save(weft_exporter *e, const char *path, const char *json)
{
    const int n = (int)e->arrays.count;
    char(*names)[24] = weft_calloc((size_t)n, sizeof *names);
    const char **pointers = weft_calloc((size_t)n, sizeof *pointers);
    weft_array **arrays = weft_calloc((size_t)n, sizeof *arrays);
    weft_metadata *metadata = weft_calloc((size_t)e->n_metadata + 1, sizeof *metadata);
    weft_status status =
        names && pointers && arrays && metadata ? WEFT_OK : weft__out_of_memory(path, NULL);
    weft_scope_open();
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_array *a = e->arrays.keys[i];
        snprintf(names[i], sizeof names[i], "c%d", i);
        pointers[i] = names[i];
        arrays[i] = weft_encoding_of(a) ? weft__encoded_bytes(a) : a;
    }
    if (status == WEFT_OK) {
        metadata[0] = (weft_metadata){WEFT__EXPORT_KEY, json};
        for (int i = 0; i < e->n_metadata; i++) {
            metadata[1 + i] = (weft_metadata){e->metadata[2 * i], e->metadata[2 * i + 1]};
        }
        status = weft_safetensors_save(path, pointers, arrays, n, metadata, 1 + e->n_metadata);
    }
    weft_scope_close(NULL);
    weft_free(metadata);
    weft_free(arrays);
    weft_free(names);
    weft_free(pointers);
    return status;
}

/* Writes which tensors contain the storage of which encoded arrays. */
static void write_encoded(const weft_exporter *e, weft__text *json)
{
    bool first = true;
    for (int64_t i = 0; i < e->arrays.count; i++) {
        const weft_array *a = e->arrays.keys[i];
        if (weft_encoding_of(a)) {
            weft__text_format(json, "%s\"c%lld\":", first ? "" : ",", (long long)i);
            weft__spec_write(&a->spec, json);
            first = false;
        }
    }
}

weft_status weft_exporter_save(weft_exporter *e, const char *path)
{
    weft__text json = {0};
    weft__text_format(&json, "{\"version\":%d,\"weft\":\"%s\",\"functions\":[", WEFT_EXPORT_VERSION,
                      weft_version());
    if (e->json.n > 0) {
        weft__text_append(&json, e->json.at, e->json.n);
    }
    weft__text_append(&json, "],\"encoded\":{", 13);
    write_encoded(e, &json);
    weft__text_append(&json, "}}", 2);
    weft_status status = json.failed ? weft__out_of_memory(path, NULL) : save(e, path, json.at);
    weft_free(json.at);
    return status;
}

weft_status weft_export(const char *path, weft_function *fn, void *context, weft_array *const *in,
                        int n_in)
{
    weft_exporter *e;
    weft_status status = weft_exporter_new(&e);
    if (status == WEFT_OK) {
        status = weft_exporter_add(e, "main", fn, context, in, n_in);
    }
    if (status == WEFT_OK) {
        status = weft_exporter_save(e, path);
    }
    weft_exporter_free(e);
    return status;
}
