/* core/compile/shapeless.c -- traces a function for any lengths of its dynamic axes, and rejects
 * functions that depend on the lengths.
 *
 * Lengths can influence a graph in two ways. The function itself may use lengths that it reads for
 * anything, so it may not read any that vary (core/lengths.h). Ops use lengths for the structure of
 * the graph, for constants and for parameters; these are compared at many lengths, small and large.
 * A parameter may vary only if it is the shape of its node's result, and each of its varying
 * elements equals a symbol at every length tried, or is inferred from the number of elements.
 */
#include "core/compile/shapeless.h"

#include <stdio.h>
#include <string.h>

#include "core/compile/export.h"
#include "core/failure.h"
#include "core/lengths.h"
#include "core/shape.h"

/* All symbols are tried together at these lengths; at other lengths one symbol at a time. */
static const int64_t together[] = {2,  3,   4,   5,    6,    7,     8,      11,
                                   64, 100, 127, 1000, 4096, 65537, 1 << 20};
static const int64_t alone[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 33, WEFT__LONGEST};
enum { TOGETHER = sizeof together / sizeof *together, ALONE = sizeof alone / sizeof *alone };

/* The shape parameter of a node: which symbols each element has equalled so far, and whether it
 * varied. */
typedef struct elements {
    uint32_t candidates[WEFT_MAX_DIMS];
    uint32_t varied; /* bit i is set if element i varied */
    bool same_size;  /* as many elements as the first input at every length */
} elements;

typedef struct checking {
    weft_function *fn;
    void *context;
    int n_in;
    weft__trace_argument *arguments; /* at the current lengths */
    weft__shapeless *out;
    weft__length_log reads; /* the lengths that the function read at the lengths of `out` */
    elements *nodes;
    int64_t sizes[WEFT__SYMBOLS]; /* being tried */
} checking;

/* ---- symbols -------------------------------------------------------------------------------- */

static weft_status find_symbols(checking *c, weft_array *const *in, const uint32_t *dynamic)
{
    weft__symbols *s = &c->out->symbols;
    int64_t lengths[WEFT__SYMBOLS];
    for (int i = 0; i < c->n_in; i++) {
        const weft_spec *spec = weft_node_spec(in[i], 0);
        c->arguments[i] = (weft__trace_argument){*spec, in[i]->device};
        for (int d = 0; d < spec->shape.n; d++) {
            int k = 0;
            while (k < s->n && lengths[k] != spec->shape.at[d]) {
                k++;
            }
            if (!(dynamic[i] >> d & 1)) {
                continue;
            }
            if (k == WEFT__SYMBOLS) {
                return weft_fail(WEFT_UNSUPPORTED,
                                 "export: more than %d different lengths of dynamic axes",
                                 WEFT__SYMBOLS);
            }
            lengths[k] = spec->shape.at[d];
            s->n = k == s->n ? k + 1 : s->n;
            s->axes[i][d] = (unsigned char)(k + 1);
        }
    }
    return WEFT_OK;
}

/* Whether a fixed axis has this length and could be mistaken for a symbol. */
static bool is_fixed_length(const checking *c, int64_t length)
{
    bool found = false;
    for (int i = 0; i < c->n_in; i++) {
        for (int d = 0; d < c->arguments[i].spec.shape.n; d++) {
            found = found ||
                    (!c->out->symbols.axes[i][d] && c->arguments[i].spec.shape.at[d] == length);
        }
    }
    return found;
}

/* Chooses distinct lengths that no fixed axis has. */
static void choose_sizes(const checking *c, int64_t first, int64_t *sizes)
{
    int64_t next = first;
    for (int k = 0; k < c->out->symbols.n; k++, next += 2) {
        while (is_fixed_length(c, next)) {
            next++;
        }
        sizes[k] = next;
    }
}

static weft_status trace_at(checking *c, const int64_t *sizes, weft__length_log *log,
                            weft__trace *out)
{
    for (int i = 0; i < c->n_in; i++) {
        for (int d = 0; d < c->arguments[i].spec.shape.n; d++) {
            const int symbol = c->out->symbols.axes[i][d];
            if (symbol) {
                c->arguments[i].spec.shape.at[d] = sizes[symbol - 1];
            }
        }
    }
    memcpy(c->sizes, sizes, sizeof c->sizes);
    weft_status status = weft__trace_at(c->fn, c->context, c->arguments, c->n_in, log, out);
    return log->no_memory ? weft__out_of_memory("export", NULL) : status;
}

/* ---- comparing ------------------------------------------------------------------------------ */

/* Reports "depends on the lengths: at 37, 39 and at 2, 4". */
static weft_status refuse(const checking *c, const char *what)
{
    char a[160] = "", b[160] = "";
    for (int k = 0, i = 0, j = 0; k < c->out->symbols.n && i < 140 && j < 140; k++) {
        i += snprintf(a + i, sizeof a - (size_t)i, k ? ", %lld" : "%lld",
                      (long long)c->out->symbols.sizes[k]);
        j += snprintf(b + j, sizeof b - (size_t)j, k ? ", %lld" : "%lld", (long long)c->sizes[k]);
    }
    return weft_fail(WEFT_UNSUPPORTED,
                     "export: %s depends on the lengths of dynamic axes (compared at %s and at %s)",
                     what, a, b);
}

static weft_status refuse_node(const checking *c, int64_t i, const char *what, const char *name)
{
    char text[160];
    snprintf(text, sizeof text, "%.60s (node %lld): its %s%s%.60s", c->out->trace.nodes[i].op->name,
             (long long)i, what, name[0] ? " " : "", name);
    return refuse(c, text);
}

static bool same_inputs(const weft__trace_node *a, const weft__trace_node *b)
{
    bool same = a->n_inputs == b->n_inputs;
    for (int i = 0; i < a->n_inputs && same; i++) {
        same = weft__value_equal(a->inputs[i], b->inputs[i]);
    }
    return same;
}

static bool same_field(const weft_field *f, const void *a, const void *b)
{
    const char *x = (const char *)a + f->offset, *y = (const char *)b + f->offset;
    const weft_dims *p = (const weft_dims *)(const void *)x,
                    *q = (const weft_dims *)(const void *)y;
    switch (f->type) {
    case WEFT_FIELD_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case WEFT_FIELD_DTYPE:
        return memcmp(x, y, sizeof(weft_dtype)) == 0;
    case WEFT_FIELD_DIMS:
        return p->n == q->n &&
               (p->n <= 0 || memcmp(p->at, q->at, (size_t)p->n * sizeof *p->at) == 0);
    case WEFT_FIELD_POINTER:
        return memcmp(x, y, sizeof(void *)) == 0;
    default:
        return memcmp(x, y, sizeof(int64_t)) == 0;
    }
}

const weft_field *weft__shape_field(const weft_op *op)
{
    const weft_field *found = NULL;
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f->type == WEFT_FIELD_DIMS && strcmp(f->name, "shape") == 0) {
            found = f;
        }
    }
    return op->n_outputs <= 1 && op->arity <= 1 ? found : NULL;
}

static const weft_dims *dims_of(const weft__trace_node *n, const weft_field *f)
{
    return (const weft_dims *)(const void *)((const char *)n->params + f->offset);
}

/* The symbols that have this length. */
static uint32_t symbols_of(const checking *c, const int64_t *sizes, int64_t length)
{
    uint32_t symbols = 0;
    for (int k = 0; k < c->out->symbols.n; k++) {
        symbols |= sizes[k] == length ? 1u << k : 0;
    }
    return symbols;
}

/* Whether this parameter still equals the shape of the node's result. Records which symbols its
 * elements follow. */
static bool follow_shape(checking *c, const weft__trace *t, int64_t i, const weft_field *f)
{
    const weft__trace_node *n = &t->nodes[i], *before = &c->out->trace.nodes[i];
    const weft_dims *now = dims_of(n, f), *was = dims_of(before, f);
    elements *e = &c->nodes[i];
    if (now->n != was->n || !weft__shape_equal(now, &n->specs[0].shape)) {
        return false;
    }
    for (int d = 0; d < now->n; d++) {
        e->candidates[d] &= symbols_of(c, c->sizes, now->at[d]);
        e->varied |= now->at[d] != was->at[d] ? 1u << d : 0;
    }
    e->same_size = e->same_size && n->n_inputs == 1 &&
                   weft__shape_size(&n->specs[0].shape) ==
                       weft__shape_size(&weft__trace_spec(t, n->inputs[0])->shape);
    return true;
}

static weft_status compare_params(checking *c, const weft__trace *t, int64_t i)
{
    const weft__trace_node *a = &c->out->trace.nodes[i], *b = &t->nodes[i];
    const weft_field *shape = weft__shape_field(a->op);
    if (!a->op->params_fields && a->op->params_size > 0 &&
        memcmp(a->params, b->params, a->op->params_size) != 0) {
        return refuse_node(c, i, "parameters", "");
    }
    for (const weft_field *f = a->op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f == shape && follow_shape(c, t, i, f)) {
            continue;
        }
        if (!same_field(f, a->params, b->params)) {
            return refuse_node(c, i, "parameter", f->name);
        }
    }
    return WEFT_OK;
}

static bool same_constant(weft_array *a, weft_array *b)
{
    if (a == b) {
        return true;
    }
    const weft_spec *x = weft_node_spec(a, 0), *y = weft_node_spec(b, 0);
    if (a->device != b->device || x->encoding || !weft__spec_same(x, y)) {
        return false;
    }
    const void *p = weft_data(a), *q = weft_data(b);
    return p && q && memcmp(p, q, (size_t)weft_nbytes(a)) == 0;
}

static weft_status refuse_other(const checking *c, int64_t i, const char *a, const char *b)
{
    char text[160];
    snprintf(text, sizeof text, "whether node %lld is %.50s or %.50s", (long long)i, a, b);
    return refuse(c, text);
}

/* Reports that one graph has more nodes than the other. */
static weft_status refuse_extra(const checking *c, const weft__trace *t)
{
    const weft__trace *before = &c->out->trace;
    const bool fewer = t->n_nodes < before->n_nodes;
    const int64_t i = fewer ? t->n_nodes : before->n_nodes;
    const char *name = (fewer ? before : t)->nodes[i].op->name;
    return refuse_other(c, i, name, "none");
}

static weft_status compare_nodes(checking *c, const weft__trace *t)
{
    for (int64_t i = 0; i < t->n_nodes && i < c->out->trace.n_nodes; i++) {
        const weft__trace_node *a = &c->out->trace.nodes[i], *b = &t->nodes[i];
        if (a->op != b->op) {
            return refuse_other(c, i, a->op->name, b->op->name);
        }
        if (!same_inputs(a, b) || a->n_outputs != b->n_outputs) {
            return refuse_node(c, i, "inputs", "");
        }
        for (int o = 0; o < a->n_outputs; o++) {
            if (a->specs[o].dtype != b->specs[o].dtype ||
                a->specs[o].shape.n != b->specs[o].shape.n) {
                return refuse_node(c, i, "dtype", "");
            }
        }
        const weft_status status = compare_params(c, t, i);
        if (status != WEFT_OK) {
            return status;
        }
    }
    return t->n_nodes == c->out->trace.n_nodes ? WEFT_OK : refuse_extra(c, t);
}

static weft_status compare(checking *c, const weft__trace *t, const weft__length_log *log)
{
    const weft__trace *before = &c->out->trace;
    if (log->differs || log->n != c->reads.n) {
        char text[256];
        snprintf(text, sizeof text, "what the function reads (%s)",
                 log->differs ? log->text : "how many lengths");
        return refuse(c, text);
    }
    weft_status status = compare_nodes(c, t);
    for (int64_t i = 0; status == WEFT_OK && i < before->n_constants; i++) {
        if (i >= t->n_constants || !same_constant(before->constants[i], t->constants[i])) {
            char text[64];
            snprintf(text, sizeof text, "constant %lld", (long long)i);
            status = refuse(c, text);
        }
    }
    for (int64_t i = 0; status == WEFT_OK && i < before->n_outputs; i++) {
        if (!weft__value_equal(before->outputs[i], t->outputs[i])) {
            status = refuse(c, "which array is a result");
        }
    }
    return status;
}

/* ---- trying --------------------------------------------------------------------------------- */

/* *traced: whether the function accepts these lengths at all. */
static weft_status try_sizes(checking *c, const int64_t *sizes, bool *traced)
{
    weft__length_log log = {.expected = c->reads.values, .n_expected = c->reads.n};
    weft__trace t = {0};
    weft_status status = trace_at(c, sizes, &log, &t);
    *traced = status == WEFT_OK;
    if (status == WEFT_OK) {
        status = compare(c, &t, &log);
    } else if (log.differs) { /* probably the reason for the failure */
        status = compare(c, &t, &log);
    } else if (status != WEFT_MEMORY) {
        status = WEFT_OK;
    }
    weft__trace_free(&t);
    weft_free(log.values);
    return status;
}

static weft_status try_together(checking *c)
{
    int64_t sizes[WEFT__SYMBOLS];
    int accepted = 0;
    for (int i = 0; i < TOGETHER; i++) {
        bool traced;
        choose_sizes(c, together[i], sizes);
        weft_status status = try_sizes(c, sizes, &traced);
        if (status != WEFT_OK) {
            return status;
        }
        accepted += traced;
    }
    return accepted >= 4 ? WEFT_OK
                         : weft_fail(WEFT_UNSUPPORTED,
                                     "export: the function accepts few of the lengths tried for "
                                     "its dynamic axes: %s",
                                     weft_error_message());
}

/* Tries lengths that may be excluded; *same: whether the function is the same there. */
static weft_status try_short(checking *c, const int64_t *sizes, bool *same)
{
    const size_t bytes = (size_t)c->out->trace.n_nodes * sizeof *c->nodes;
    elements *saved = weft_malloc(bytes);
    bool traced = false;
    if (!saved) {
        return weft__out_of_memory("export", NULL);
    }
    memcpy(saved, c->nodes, bytes);
    const weft_status status = try_sizes(c, sizes, &traced);
    *same = status == WEFT_OK && traced;
    if (!*same) {
        memcpy(c->nodes, saved, bytes);
    }
    weft_free(saved);
    return status == WEFT_UNSUPPORTED ? WEFT_OK : status;
}

/* Tries each symbol by itself. If the function computes something else at lengths 0 or 1, they are
 * excluded; other differences are refused. */
static weft_status try_alone(checking *c)
{
    weft__symbols *s = &c->out->symbols;
    weft_status status = WEFT_OK;
    for (int k = 0; k < s->n; k++) {
        for (int i = 0; i < ALONE && status == WEFT_OK; i++) {
            int64_t sizes[WEFT__SYMBOLS];
            bool same = true, traced;
            memcpy(sizes, s->sizes, sizeof sizes);
            sizes[k] = alone[i];
            if (alone[i] < 2) {
                status = try_short(c, sizes, &same);
                s->least[k] = same ? s->least[k] : alone[i] + 1;
            } else if (!is_fixed_length(c, alone[i])) {
                status = try_sizes(c, sizes, &traced);
            }
        }
    }
    return status;
}

/* Tries all symbols at their shortest lengths together, where quantities that grow with several of
 * them are smallest. */
static weft_status try_corner(checking *c)
{
    weft__symbols *s = &c->out->symbols;
    for (int64_t least = 1; least <= 2; least++) {
        int64_t sizes[WEFT__SYMBOLS];
        bool same = true, traced;
        memcpy(sizes, s->least, sizeof sizes);
        weft_status status = try_short(c, sizes, &same);
        if (status != WEFT_OK || same) {
            return status;
        }
        for (int k = 0; k < s->n; k++) {
            s->least[k] = s->least[k] < least ? least : s->least[k];
        }
        if (least == 2) {
            return try_sizes(c, s->least, &traced);
        }
    }
    return WEFT_OK;
}

/* Decides which symbol each varying element of a shape follows. */
static weft_status settle_shapes(checking *c)
{
    const weft__trace *t = &c->out->trace;
    for (int64_t i = 0; i < t->n_nodes; i++) {
        const elements *e = &c->nodes[i];
        int inferred = 0;
        for (int d = 0; d < WEFT_MAX_DIMS; d++) {
            if (!(e->varied >> d & 1)) {
                continue;
            }
            if (e->candidates[d]) {
                c->out->follows[i][d] = (signed char)(1 + __builtin_ctz(e->candidates[d]));
            } else {
                c->out->follows[i][d] = WEFT__INFERRED;
                inferred++;
            }
        }
        if (inferred > 1 || (inferred == 1 && !e->same_size)) {
            return refuse_node(c, i, "parameter", "shape");
        }
        /* An element cannot be inferred when the array is empty. */
        for (int d = 0; d < WEFT_MAX_DIMS && inferred == 1; d++) {
            const int symbol = c->out->follows[i][d] - 1;
            if (symbol >= 0 && c->out->symbols.least[symbol] < 1) {
                c->out->symbols.least[symbol] = 1;
            }
        }
    }
    return WEFT_OK;
}

static weft_status start_shapes(checking *c)
{
    const weft__trace *t = &c->out->trace;
    c->nodes = weft_calloc((size_t)t->n_nodes, sizeof *c->nodes);
    c->out->follows = weft_calloc((size_t)t->n_nodes, sizeof *c->out->follows);
    if (!c->nodes || !c->out->follows) {
        return weft__out_of_memory("export", NULL);
    }
    for (int64_t i = 0; i < t->n_nodes; i++) {
        const weft_field *f = weft__shape_field(t->nodes[i].op);
        const weft_dims *dims = f ? dims_of(&t->nodes[i], f) : NULL;
        for (int d = 0; dims && d < dims->n; d++) {
            c->nodes[i].candidates[d] = symbols_of(c, c->out->symbols.sizes, dims->at[d]);
        }
        c->nodes[i].same_size = true;
    }
    return WEFT_OK;
}

static weft_status check(checking *c, weft_array *const *in, const uint32_t *dynamic)
{
    weft_status status = find_symbols(c, in, dynamic);
    if (status == WEFT_OK) {
        choose_sizes(c, 37, c->out->symbols.sizes);
        status = trace_at(c, c->out->symbols.sizes, &c->reads, &c->out->trace);
    }
    if (status == WEFT_OK) {
        status = start_shapes(c);
    }
    if (status == WEFT_OK && c->out->symbols.n > 0) {
        status = try_together(c);
    }
    if (status == WEFT_OK) {
        status = try_alone(c);
    }
    if (status == WEFT_OK) {
        status = try_corner(c);
    }
    return status == WEFT_OK ? settle_shapes(c) : status;
}

weft_status weft__shapeless_trace(weft_function *fn, void *context, weft_array *const *in, int n_in,
                                  const uint32_t *dynamic, weft__shapeless *out)
{
    *out = (weft__shapeless){0};
    checking c = {.fn = fn, .context = context, .n_in = n_in, .out = out};
    for (int i = 0; i < n_in; i++) {
        if (!weft_ok(in[i])) {
            return weft__report(in[i]);
        }
    }
    c.arguments = weft_calloc((size_t)n_in, sizeof *c.arguments);
    out->symbols.axes = weft_calloc((size_t)n_in, sizeof *out->symbols.axes);
    weft_status status = c.arguments && out->symbols.axes ? check(&c, in, dynamic)
                                                          : weft__out_of_memory("export", NULL);
    weft_free(c.arguments);
    weft_free(c.nodes);
    weft_free(c.reads.values);
    return status;
}

void weft__shapeless_free(weft__shapeless *s)
{
    weft__trace_free(&s->trace);
    weft_free(s->symbols.axes);
    weft_free(s->follows);
    *s = (weft__shapeless){0};
}
