/* core/compile/import.c -- reads files of exported functions. */
#include <stdlib.h>
#include <string.h>

#include "core/compile/import.h"
#include "core/failure.h"
#include "core/shape.h"

void weft_imported_free(weft_imported *imported)
{
    if (!imported) {
        return;
    }
    for (int i = 0; i < imported->n; i++) {
        weft_free(imported->functions[i].name);
        weft_free(imported->functions[i].signature);
        weft__trace_free(&imported->functions[i].trace);
        weft_free(imported->functions[i].symbols.axes);
    }
    for (int i = 0; imported->tensors && i < weft_safetensors_count(imported->file); i++) {
        if (imported->tensors[i]) {
            weft__unhold(imported->tensors[i]);
        }
    }
    if (imported->file) {
        weft_safetensors_close(imported->file);
    }
    weft__json_free(&imported->doc);
    weft_free(imported->tensors);
    weft_free(imported->functions);
    weft_free(imported->path);
    weft_free(imported);
}

/* ---- one function --------------------------------------------------------------------------- */

/* Reads which axes of an argument are dynamic, and the lengths at which the function was traced. */
static weft_status read_axes(weft__building *b, const weft__json *at, size_t i,
                             const weft_spec *spec)
{
    weft__json list, element;
    weft__symbols *s = b->symbols;
    size_t n = 0;
    weft_status status = weft__json_find(at, "axes", &list);
    if (status != WEFT_OK || !list.value) {
        return status;
    }
    status = weft__json_length(&list, &n);
    for (size_t d = 0; d < n && status == WEFT_OK; d++) {
        int64_t symbol;
        status = weft__json_at(&list, d, &element);
        status = status == WEFT_OK ? weft__json_as_int(&element, &symbol) : status;
        if (status != WEFT_OK) {
            break;
        }
        if (n != (size_t)spec->shape.n || symbol < 0 || symbol > s->n) {
            return weft__json_fail(&list, WEFT_INVALID, "expected dynamic axes of its shape");
        }
        s->axes[i][d] = (unsigned char)symbol;
        if (symbol > 0) {
            int64_t *size = &s->sizes[symbol - 1];
            if (*size >= 0 && *size != spec->shape.at[d]) {
                return weft__json_fail(&list, WEFT_INVALID, "axes of one length differ");
            }
            *size = spec->shape.at[d];
        }
    }
    return status;
}

/* Reads the shortest lengths of the symbols, and thereby their number. */
static weft_status read_least(weft__building *b, const weft__json *at)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_find(at, "least", &list);
    if (status != WEFT_OK || !list.value) {
        return status;
    }
    status = weft__json_length(&list, &n);
    if (status == WEFT_OK && n > WEFT__SYMBOLS) {
        status =
            weft__json_fail(&list, WEFT_INVALID, "expected at most %d, got %zu", WEFT__SYMBOLS, n);
    }
    for (size_t k = 0; k < n && status == WEFT_OK; k++) {
        status = weft__json_at(&list, k, &element);
        status = status == WEFT_OK ? weft__json_as_int(&element, &b->symbols->least[k]) : status;
        b->symbols->sizes[k] = -1;
        b->symbols->n = (int)k + 1;
    }
    return status;
}

static weft_status read_arguments(weft__building *b, const weft__json *at)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_get(at, "arguments", &list);
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    b->arguments = weft_calloc(n, sizeof *b->arguments);
    b->symbols->axes = weft_calloc(n, sizeof *b->symbols->axes);
    if (status == WEFT_OK && (!b->arguments || !b->symbols->axes)) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        weft_spec spec;
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = weft__spec_read(&element, &spec);
        }
        if (status == WEFT_OK) {
            status = read_axes(b, &element, i, &spec);
        }
        if (status == WEFT_OK) {
            b->arguments[i] = weft__placeholder(&spec, weft_default_device(), (int64_t)i);
            status = weft_ok(b->arguments[i]) ? WEFT_OK : weft__report(b->arguments[i]);
        }
        b->n_arguments = i + 1;
    }
    return status;
}

/* Called in an open scope. */
static weft_status build(weft__building *b, const weft__json *at, weft__trace *out)
{
    const uint64_t since = weft__next_seq();
    weft_status status = read_least(b, at);
    if (status == WEFT_OK) {
        status = read_arguments(b, at);
    }
    for (int k = 0; k < b->symbols->n && status == WEFT_OK; k++) {
        if (b->symbols->sizes[k] < 0) {
            status = weft__json_fail(at, WEFT_INVALID, "dynamic length %d is of no argument", k);
        }
    }
    if (status == WEFT_OK) {
        status = weft__read_graph(b, at);
    }
    if (status == WEFT_OK) {
        status = weft__trace_make(out, b->arguments, (int64_t)b->n_arguments, b->results,
                                  (int64_t)b->n_results, since);
    }
    return status;
}

static weft_status read_function(const weft_imported *from, const weft__json *at, weft__function *f)
{
    const char *name;
    weft__building b = {.from = from, .symbols = &f->symbols, .sizes = f->symbols.sizes};
    weft_status status = weft__json_get_string(at, "name", &name);
    if (status != WEFT_OK) {
        return status;
    }
    f->at = *at;
    weft_scope_open();
    status = build(&b, at, &f->trace);
    weft_scope_close(NULL);
    weft__building_free(&b);
    weft_free(b.arguments);
    if (status != WEFT_OK) {
        return status;
    }
    f->name = weft_strdup(name);
    f->signature =
        f->name ? weft__signature_text(name, &f->trace, f->symbols.n > 0 ? &f->symbols : NULL)
                : NULL;
    return f->signature ? WEFT_OK : weft__out_of_memory("import", NULL);
}

/* ---- the file ------------------------------------------------------------------------------- */

static weft_status read_functions(weft_imported *out, const weft__json *root)
{
    weft__json list, element;
    size_t n = 0;
    weft_status status = weft__json_get_int(root, "version", &out->version);
    if (status == WEFT_OK && (out->version < 1 || out->version > WEFT_EXPORT_VERSION)) {
        status = weft__json_fail(root, WEFT_UNSUPPORTED,
                                 "version: expected at most %d, got %lld: written by a later Weft",
                                 WEFT_EXPORT_VERSION, (long long)out->version);
    }
    if (status == WEFT_OK) {
        status = weft__json_get(root, "functions", &list);
    }
    if (status == WEFT_OK) { /* version 1 does not have it */
        status = weft__json_find(root, "encoded", &out->encoded);
    }
    if (status == WEFT_OK) {
        status = weft__json_length(&list, &n);
    }
    out->functions = weft_calloc(n, sizeof *out->functions);
    out->tensors = weft_calloc((size_t)weft_safetensors_count(out->file), sizeof(weft_array *));
    if (status == WEFT_OK && (!out->functions || !out->tensors)) {
        status = weft__out_of_memory("import", NULL);
    }
    for (size_t i = 0; i < n && status == WEFT_OK; i++) {
        out->n = (int)i + 1;
        status = weft__json_at(&list, i, &element);
        if (status == WEFT_OK) {
            status = read_function(out, &element, &out->functions[i]);
        }
    }
    return status;
}

static weft_status read_file(weft_imported *out, const char *path)
{
    const char *json = weft_safetensors_metadata(out->file, WEFT__EXPORT_KEY);
    if (!json) {
        return weft_fail(WEFT_INVALID, "%s: no exported functions: its metadata has no %s", path,
                         WEFT__EXPORT_KEY);
    }
    weft_status status = weft__json_parse(json, strlen(json), path, &out->doc);
    if (status == WEFT_OK) {
        weft__json root = weft__json_root(&out->doc);
        status = read_functions(out, &root);
    }
    bool dynamic = false;
    for (int i = 0; i < out->n; i++) {
        dynamic = dynamic || out->functions[i].symbols.n > 0;
    }
    if (!dynamic) {
        weft__json_free(&out->doc); /* the traces are enough */
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
    if (!imported) {
        weft_safetensors_close(file);
        return weft__out_of_memory("import", NULL);
    }
    imported->file = file;
    imported->path = weft_strdup(path);
    status = imported->path ? read_file(imported, path) : weft__out_of_memory("import", NULL);
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

const char *weft_imported_metadata(const weft_imported *imported, const char *key)
{
    return strcmp(key, WEFT__EXPORT_KEY) == 0 ? NULL
                                              : weft_safetensors_metadata(imported->file, key);
}
