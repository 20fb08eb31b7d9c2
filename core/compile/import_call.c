/* core/compile/import_call.c -- calling exported functions. */
#include <stdio.h>
#include <string.h>

#include "core/compile/import.h"
#include "core/shape.h"

/* Whether an argument fits; notes the lengths of its dynamic axes (those not yet seen are -1). */
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
                  int n_out, int64_t *sizes)
{
    const weft__trace *t = &f->trace;
    bool fits =
        (!name || strcmp(f->name, name) == 0) && t->n_arguments == n_in && t->n_outputs == n_out;
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

/* The graph at other lengths than it was written for. */
static weft_status call_at(const weft_imported *imported, const weft__function *f,
                           const int64_t *sizes, weft_array *const *in, int n_in, weft_array **out,
                           int n_out)
{
    weft__building b = {.from = imported,
                        .symbols = (weft__symbols *)(uintptr_t)&f->symbols,
                        .sizes = sizes,
                        .calling = true,
                        .arguments = (weft_array **)(uintptr_t)in,
                        .n_arguments = (size_t)n_in};
    weft_scope_open();
    weft_status status = weft__read_graph(&b, &f->at);
    for (int i = 0; i < n_out && status == WEFT_OK; i++) {
        out[i] = b.results[i];
    }
    weft_scope_close_n(out, status == WEFT_OK ? n_out : 0);
    weft__building_free(&b);
    return status;
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
    const weft__function *f = NULL;
    int64_t sizes[WEFT__SYMBOLS];
    for (int i = 0; i < imported->n && !failed && !f; i++) {
        const weft__function *next = &imported->functions[i];
        f = takes(next, name, in, n_in, n_out, sizes) ? next : NULL;
    }
    if (!failed && !f) {
        failed = no_function(imported, name, in, n_in, n_out);
    }
    weft_status status = WEFT_OK;
    weft_scope_open();
    if (!failed && f->symbols.n > 0) {
        status = call_at(imported, f, sizes, in, n_in, out, n_out);
    } else if (!failed) {
        status = weft__trace_apply(&f->trace, in, out);
    }
    if (status != WEFT_OK) {
        failed = weft_error_array("%s: %s", imported->path, weft_error_message());
    }
    for (int i = 0; i < n_out && failed; i++) {
        out[i] = failed;
    }
    weft_scope_close_n(out, n_out);
}
