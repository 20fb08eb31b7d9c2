/* core/compile/import_call.c -- calling exported functions. */
#include <stdio.h>
#include <string.h>

#include "core/compile/import.h"
#include "core/shape.h"

/* Whether an argument matches. Records the lengths of its dynamic axes, which are -1 until known.
 */
static bool argument_fits(const weft__function *f, int i, const weft_spec *now, int64_t *sizes)
{
    weft_spec spec = f->trace.arguments[i].spec;
    for (int d = 0; d < spec.shape.n && spec.shape.n == now->shape.n; d++) {
        const int symbol = f->symbols.axes[i][d];
        if (symbol) {
            int64_t *size = &sizes[symbol - 1];
            *size = *size < 0 ? now->shape.at[d] : *size;
            spec.shape.at[d] = *size;
        }
    }
    return weft__spec_same(&spec, now);
}

static bool takes(const weft__function *f, const char *name, weft_array *const *in, int n_in,
                  int64_t *sizes)
{
    const weft__trace *t = &f->trace;
    bool fits = (!name || strcmp(f->name, name) == 0) && t->n_arguments == n_in;
    for (int k = 0; k < WEFT__SYMBOLS; k++) {
        sizes[k] = -1;
    }
    for (int i = 0; i < n_in && fits; i++) {
        fits = argument_fits(f, i, weft_node_spec(in[i], 0), sizes);
    }
    for (int k = 0; k < f->symbols.n && fits; k++) {
        fits = sizes[k] >= f->symbols.least[k] && sizes[k] <= WEFT__LONGEST;
    }
    return fits;
}

/* Calls the function at lengths other than those it was traced at. */
static weft_status call_at(const weft_imported *imported, const weft__function *f,
                           const int64_t *sizes, weft_array *const *in, int n_in, weft_array **out)
{
    weft__building b = {.from = imported,
                        .symbols = (weft__symbols *)(uintptr_t)&f->symbols,
                        .sizes = sizes,
                        .calling = true,
                        .arguments = (weft_array **)(uintptr_t)in,
                        .n_arguments = (size_t)n_in};
    weft_scope_open();
    weft_status status = weft__read_graph(&b, &f->at);
    const int n = (int)f->trace.n_outputs;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        out[i] = b.results[i];
    }
    weft_scope_close_n(out, status == WEFT_OK ? n : 0);
    weft__building_free(&b);
    return status;
}

static weft_array *no_function(const weft_imported *imported, const char *name,
                               weft_array *const *in, int n_in)
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
    return weft_error_array("%s: no function %s(%s); the first of %d is %s", imported->path,
                            name ? name : "", given, imported->n,
                            imported->n ? imported->functions[0].signature : "none");
}

/* The first function that accepts the arguments. NULL: none does, and the reason is returned as an
 * error array. */
static const weft__function *find(const weft_imported *imported, const char *name,
                                  weft_array *const *in, int n_in, int64_t *sizes,
                                  weft_array **failed)
{
    for (int i = 0; i < n_in; i++) {
        if (!weft_ok(in[i])) {
            *failed =
                in[i] ? in[i] : weft_error_array("%s: argument %d is NULL", imported->path, i);
            return NULL;
        }
    }
    for (int i = 0; i < imported->n; i++) {
        if (takes(&imported->functions[i], name, in, n_in, sizes)) {
            return &imported->functions[i];
        }
    }
    *failed = no_function(imported, name, in, n_in);
    return NULL;
}

static weft_array *apply(const weft_imported *imported, const weft__function *f,
                         const int64_t *sizes, weft_array *const *in, int n_in, weft_array **out)
{
    weft_status status = f->symbols.n > 0 ? call_at(imported, f, sizes, in, n_in, out)
                                          : weft__trace_apply(&f->trace, in, out);
    return status == WEFT_OK ? NULL
                             : weft_error_array("%s: %s", imported->path, weft_error_message());
}

int weft_imported_call(const weft_imported *imported, const char *name, weft_array *const *in,
                       int n_in, weft_array **out, int room)
{
    int64_t sizes[WEFT__SYMBOLS];
    weft_array *failed = NULL;
    weft_scope_open();
    const weft__function *f = find(imported, name, in, n_in, sizes, &failed);
    const int n = f ? (int)f->trace.n_outputs : room;
    for (int i = 0; i < room; i++) {
        out[i] = NULL;
    }
    if (f && n > room) {
        failed = weft_error_array("%s: %s has %d results, there is room for %d", imported->path,
                                  f->name, n, room);
    } else if (f) {
        failed = apply(imported, f, sizes, in, n_in, out);
    }
    for (int i = 0; i < room && failed; i++) {
        out[i] = failed;
    }
    weft_scope_close_n(out, room);
    return n;
}
