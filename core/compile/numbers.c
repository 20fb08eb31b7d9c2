/* core/compile/numbers.c -- reading and writing the numbers of a trace by the field tables. */
#include "core/compile/numbers.h"

#include <stdio.h>
#include <string.h>

#include "core/shape.h"

static weft_status out_of_memory(void)
{
    return weft_fail(WEFT_MEMORY, "compile: out of memory for dynamic axes");
}

bool weft__number_equal(weft__number a, weft__number b)
{
    if (a.kind != b.kind) {
        return false;
    }
    return a.kind == WEFT__NUMBER_WHOLE ? a.whole == b.whole
                                        : memcmp(&a.real, &b.real, sizeof a.real) == 0;
}

double weft__number_real(weft__number_kind kind, double value)
{
    return kind == WEFT__NUMBER_FLOAT ? (double)(float)value : value;
}

/* ---- the walk ------------------------------------------------------------------------------- */

/* A scalar whose value may follow the lengths. */
static bool is_scalar(const weft_array *a)
{
    weft_dtype dtype = a->outs[0].spec.dtype;
    return a->n_outputs == 1 && a->outs[0].spec.shape.n == 0 && !a->outs[0].spec.encoding &&
           (weft_dtype_is_float(dtype) || weft_dtype_is_integer(dtype));
}

static weft__number_kind kind_of(weft_dtype dtype)
{
    return weft_dtype_is_integer(dtype) ? WEFT__NUMBER_WHOLE
           : dtype == WEFT_FLOAT64      ? WEFT__NUMBER_DOUBLE
           : dtype == WEFT_FLOAT32      ? WEFT__NUMBER_FLOAT
                                        : WEFT__NUMBER_OTHER;
}

/* What is done with each number; `place` is where a parameter has it, NULL for a constant. */
typedef weft_status visitor(void *context, weft__number_kind kind, void *place, int64_t constant);

static weft_status walk_node(const weft__trace_node *n, visitor *visit, void *context)
{
    weft_status status = WEFT_OK;
    for (const weft_field *f = n->op->params_fields;
         f && f->type != WEFT_FIELD_END && status == WEFT_OK; f++) {
        char *at = (char *)n->params + f->offset;
        if (f->type == WEFT_FIELD_INT) {
            status = visit(context, WEFT__NUMBER_WHOLE, at, -1);
        } else if (f->type == WEFT_FIELD_DOUBLE) {
            status = visit(context, WEFT__NUMBER_DOUBLE, at, -1);
        } else if (f->type == WEFT_FIELD_DIMS) {
            weft_dims *dims = (weft_dims *)(void *)at;
            for (int i = 0; i < dims->n && status == WEFT_OK; i++) {
                status = visit(context, WEFT__NUMBER_WHOLE, &dims->at[i], -1);
            }
        }
    }
    return status;
}

static weft_status walk(const weft__trace *t, visitor *visit, void *context)
{
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < t->n_constants && status == WEFT_OK; i++) {
        if (is_scalar(t->constants[i])) {
            status = visit(context, kind_of(t->constants[i]->outs[0].spec.dtype), NULL, i);
        }
    }
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        status = walk_node(&t->nodes[i], visit, context);
    }
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

typedef struct reading {
    const weft__trace *t;
    weft__numbers *out;
} reading;

static weft_status read_number(void *context, weft__number_kind kind, void *place, int64_t constant)
{
    reading *r = context;
    weft__numbers *all = r->out;
    if (all->n == all->capacity) {
        int64_t larger = all->capacity ? 2 * all->capacity : 256;
        weft__number *grown = weft_realloc(all->at, (size_t)larger * sizeof *grown);
        if (!grown) {
            return out_of_memory();
        }
        all->at = grown;
        all->capacity = larger;
    }
    weft__number v = {.kind = kind};
    const bool whole = kind == WEFT__NUMBER_WHOLE;
    void *to = whole ? (void *)&v.whole : (void *)&v.real;
    weft_status status = WEFT_OK;
    if (place) {
        memcpy(to, place, sizeof v.whole);
    } else {
        status = weft_read(r->t->constants[constant], whole ? WEFT_INT64 : WEFT_FLOAT64, to, 1);
    }
    all->at[all->n++] = v;
    return status;
}

weft_status weft__numbers_of(const weft__trace *t, weft__numbers *out)
{
    reading r = {t, out};
    return walk(t, read_number, &r);
}

void weft__numbers_free(weft__numbers *numbers)
{
    weft_free(numbers->at);
    *numbers = (weft__numbers){0};
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct writing {
    weft__trace *t;
    const weft__numbers *from;
    int64_t next;
} writing;

static weft_status write_constant(weft__trace *t, int64_t i, weft__number v)
{
    weft_array *old = t->constants[i];
    const weft_dtype dtype = old->outs[0].spec.dtype;
    weft_device *before = weft_default_device();
    weft_scope_open();
    weft_set_default_device(old->device);
    weft_array *a =
        v.kind == WEFT__NUMBER_WHOLE ? weft_scalar_int(v.whole, dtype) : weft_scalar(v.real, dtype);
    weft_set_default_device(before);
    weft_status status = weft_eval(a);
    if (status == WEFT_OK) {
        weft__hold(a);
        t->constants[i] = a;
        weft__unhold(old);
    }
    weft_scope_close(NULL);
    return status;
}

static weft_status write_number(void *context, weft__number_kind kind, void *place,
                                int64_t constant)
{
    writing *w = context;
    weft__number v = w->from->at[w->next++];
    if (place && kind == WEFT__NUMBER_WHOLE) {
        *(int64_t *)place = v.whole;
    } else if (place) {
        *(double *)place = v.real;
    } else {
        weft_array *a = w->t->constants[constant];
        bool same =
            kind == WEFT__NUMBER_WHOLE ? weft_item_int(a) == v.whole : weft_item(a) == v.real;
        return same ? WEFT_OK : write_constant(w->t, constant, v);
    }
    return WEFT_OK;
}

weft_status weft__numbers_set(weft__trace *t, const weft__numbers *numbers)
{
    writing w = {t, numbers, 0};
    return walk(t, write_number, &w);
}

/* ---- in words ------------------------------------------------------------------------------- */

typedef struct counting {
    int64_t left;
    int64_t constant;
} counting;

static weft_status count_down(void *context, weft__number_kind kind, void *place, int64_t constant)
{
    (void)kind;
    (void)place;
    counting *c = context;
    c->constant = constant;
    return c->left-- == 0 ? WEFT_INVALID : WEFT_OK; /* found: the walk ends */
}

void weft__number_text(const weft__trace *t, int64_t number, char *text, size_t size)
{
    counting c = {number, -1};
    for (int64_t i = 0; i < t->n_constants; i++) {
        if (is_scalar(t->constants[i]) && count_down(&c, WEFT__NUMBER_WHOLE, NULL, i) != WEFT_OK) {
            snprintf(text, size, "scalar constant %lld", (long long)i);
            return;
        }
    }
    for (int64_t i = 0; i < t->n_nodes; i++) {
        if (walk_node(&t->nodes[i], count_down, &c) != WEFT_OK) {
            char params[WEFT_SHAPE_TEXT];
            weft_params_print(t->nodes[i].op, t->nodes[i].params, params, sizeof params);
            snprintf(text, size, "%.24s (node %lld: %.100s)", t->nodes[i].op->name, (long long)i,
                     params);
            return;
        }
    }
    snprintf(text, size, "number %lld", (long long)number);
}

/* ---- everything else ------------------------------------------------------------------------ */

static weft_status differ(const char *what, int64_t i)
{
    return weft_fail(WEFT_INVALID, "%s %lld depends on the lengths", what, (long long)i);
}

static bool same_field(const weft_field *f, const char *a, const char *b)
{
    switch (f->type) {
    case WEFT_FIELD_BOOL:
        return *(const bool *)a == *(const bool *)b;
    case WEFT_FIELD_DTYPE:
        return *(const weft_dtype *)(const void *)a == *(const weft_dtype *)(const void *)b;
    case WEFT_FIELD_DIMS:
        return ((const weft_dims *)(const void *)a)->n == ((const weft_dims *)(const void *)b)->n;
    case WEFT_FIELD_POINTER:
        return *(void *const *)(const void *)a == *(void *const *)(const void *)b;
    default: /* a number */
        return true;
    }
}

static bool same_node(const weft__trace_node *a, const weft__trace_node *b)
{
    bool same = a->op == b->op && a->device == b->device && a->n_inputs == b->n_inputs &&
                a->n_outputs == b->n_outputs;
    for (int i = 0; i < a->n_inputs && same; i++) {
        same = weft__value_equal(a->inputs[i], b->inputs[i]);
    }
    if (same && !a->op->params_fields && a->op->params_size > 0) {
        return memcmp(a->params, b->params, a->op->params_size) == 0;
    }
    for (const weft_field *f = a->op->params_fields; f && f->type != WEFT_FIELD_END && same; f++) {
        same =
            same_field(f, (const char *)a->params + f->offset, (const char *)b->params + f->offset);
    }
    return same;
}

/* The same array, scalars, or equal elements. */
static bool same_constant(weft_array *a, weft_array *b)
{
    const weft_spec *x = &a->outs[0].spec, *y = &b->outs[0].spec;
    if (a == b) {
        return true;
    }
    if (x->dtype != y->dtype || x->encoding || y->encoding || a->device != b->device ||
        !weft__shape_equal(&x->shape, &y->shape)) {
        return false;
    }
    const void *p = is_scalar(a) ? a : weft_data(a), *q = is_scalar(a) ? a : weft_data(b);
    return p && q && (p == q || memcmp(p, q, (size_t)weft_nbytes(a)) == 0);
}

weft_status weft__same_structure(const weft__trace *a, const weft__trace *b)
{
    if (a->n_nodes != b->n_nodes || a->n_constants != b->n_constants ||
        a->n_arguments != b->n_arguments) {
        return weft_fail(WEFT_INVALID, "the number of nodes depends on the lengths: %lld and %lld",
                         (long long)a->n_nodes, (long long)b->n_nodes);
    }
    for (int64_t i = 0; i < a->n_constants; i++) {
        if (!same_constant(a->constants[i], b->constants[i])) {
            return differ("constant", i);
        }
    }
    for (int64_t i = 0; i < a->n_nodes; i++) {
        if (!same_node(&a->nodes[i], &b->nodes[i])) {
            return differ(a->nodes[i].op->name, i);
        }
    }
    for (int64_t i = 0; i < a->n_outputs; i++) {
        if (!weft__value_equal(a->outputs[i], b->outputs[i])) {
            return differ("output", i);
        }
    }
    return WEFT_OK;
}
