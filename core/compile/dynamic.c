/* core/compile/dynamic.c -- fitting what a trace says in numbers to the lengths of dynamic axes.
 *
 * The function is traced at the corners of a box of lengths, which determine a multilinear form of
 * them for each number, and at one more point, which checks the forms. A number is an integer
 * parameter, or a scalar that the function made (the 1/n of a mean): an integer or its reciprocal.
 */
#include "core/compile/dynamic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/compile/numbers.h"
#include "core/shape.h"

enum { CORNERS = 1 << WEFT__SYMBOLS, POINTS = CORNERS + 1, APART = 64 };

typedef enum form_kind { FORM_VALUE, FORM_RECIPROCAL } form_kind;

typedef struct form {
    int64_t number; /* which, in the order of the trace */
    form_kind kind;
    int64_t coefficients[CORNERS]; /* of products of lengths less those of the base */
} form;

struct weft__forms {
    form *at;
    int64_t n, capacity;
    int64_t base[WEFT__SYMBOLS];
};

void weft__forms_free(weft__forms *forms)
{
    if (forms) {
        weft_free(forms->at);
        weft_free(forms);
    }
}

static weft_status out_of_memory(const weft_compiled *c)
{
    return weft_fail(WEFT_MEMORY, "%s: out of memory for dynamic axes", c->name);
}

/* ---- the points ----------------------------------------------------------------------------- */

typedef struct fitting {
    weft_compiled *c;
    weft__combination *k;
    int n_corners;
    int64_t apart[WEFT__SYMBOLS];
    int64_t sizes[POINTS][WEFT__SYMBOLS];
    weft__trace traces[POINTS]; /* the first is the base */
    weft__numbers numbers[POINTS];
    weft__forms *forms;
} fitting;

/* How far the next corner is: what the length is divided by may have a meaning, such as a block. */
static int64_t distance(int64_t length, int symbol)
{
    int64_t power = length & -length;
    power = power > APART ? APART : power;
    return power * (2 * symbol + 1);
}

static bool all_differ(const int64_t *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) {
            if (sizes[i] == sizes[k]) {
                return false;
            }
        }
    }
    return true;
}

/* At every point the symbols differ, as they do at the base. */
static void choose_points(fitting *f)
{
    const int n = f->k->n_symbols;
    f->n_corners = 1 << n;
    for (int s = 0; s < n; s++) {
        f->apart[s] = distance(f->forms->base[s], s);
    }
    for (bool fine = false; !fine;) {
        fine = true;
        for (int p = 0; p <= f->n_corners; p++) {
            for (int s = 0; s < n; s++) {
                int64_t steps = p == f->n_corners ? 3 + s : p >> s & 1;
                f->sizes[p][s] = f->forms->base[s] + steps * f->apart[s];
            }
            fine = fine && all_differ(f->sizes[p], n);
        }
        f->apart[n - 1] *= fine ? 1 : 2;
    }
}

static weft_status trace_point(fitting *f, int p, weft__parameter *room)
{
    weft__combination *k = f->k;
    const int n = k->n_in + f->c->n_slots;
    weft__fate *fates = weft_calloc((size_t)f->c->n_slots, sizeof *fates);
    if (!fates) {
        return out_of_memory(f->c);
    }
    memcpy(room, k->parameters, (size_t)n * sizeof *room);
    for (int i = 0; i < n; i++) {
        for (int d = 0; d < room[i].spec.shape.n; d++) {
            int symbol = room[i].symbols[d];
            room[i].spec.shape.at[d] = symbol ? f->sizes[p][symbol - 1] : room[i].spec.shape.at[d];
        }
    }
    weft_status status = weft__trace_function(f->c, k, room, &f->traces[p], fates);
    if (status == WEFT_OK && memcmp(fates, k->fates, (size_t)f->c->n_slots * sizeof *fates) != 0) {
        weft__trace_free(&f->traces[p]);
        status = weft_fail(WEFT_INVALID, "other slots are set");
    }
    weft_free(fates);
    return status;
}

/* ---- fitting -------------------------------------------------------------------------------- */

/* The coefficients of the form through the corners' values; false: they are no integers. */
static bool solve(const fitting *f, const int64_t *values, int64_t *coefficients)
{
    memcpy(coefficients, values, (size_t)f->n_corners * sizeof *values);
    for (int s = 0; s < f->k->n_symbols; s++) {
        for (int m = 0; m < f->n_corners; m++) {
            if (m >> s & 1) {
                int64_t rise = coefficients[m] - coefficients[m ^ 1 << s];
                if (rise % f->apart[s] != 0) {
                    return false;
                }
                coefficients[m] = rise / f->apart[s];
            }
        }
    }
    return true;
}

static int64_t evaluate(const weft__forms *forms, const form *fm, const int64_t *sizes,
                        int n_symbols)
{
    int64_t sum = 0;
    for (int m = 0; m < 1 << n_symbols; m++) {
        int64_t product = fm->coefficients[m];
        for (int s = 0; s < n_symbols; s++) {
            product *= m >> s & 1 ? sizes[s] - forms->base[s] : 1;
        }
        sum += product;
    }
    return sum;
}

/* The integers behind the values of one number; false: there are none. */
static bool integers(const fitting *f, int64_t number, form_kind kind, int64_t *values)
{
    for (int p = 0; p <= f->n_corners; p++) {
        weft__number v = f->numbers[p].at[number];
        if (v.kind == WEFT__NUMBER_WHOLE) {
            values[p] = v.whole;
            if (kind != FORM_VALUE) {
                return false;
            }
            continue;
        }
        double x = kind == FORM_VALUE ? v.real : 1 / v.real;
        if (!(fabs(x) < 0x1p53)) {
            return false;
        }
        values[p] = llround(x);
        double back = kind == FORM_VALUE ? (double)values[p] : 1 / (double)values[p];
        if (weft__number_real(v.kind, back) != v.real) {
            return false;
        }
    }
    return true;
}

static bool is_constant(const fitting *f, int64_t number)
{
    for (int p = 1; p <= f->n_corners; p++) {
        if (!weft__number_equal(f->numbers[p].at[number], f->numbers[0].at[number])) {
            return false;
        }
    }
    return true;
}

static weft_status push_form(fitting *f, const form *fm)
{
    weft__forms *forms = f->forms;
    if (forms->n == forms->capacity) {
        int64_t larger = forms->capacity ? 2 * forms->capacity : 32;
        form *grown = weft_realloc(forms->at, (size_t)larger * sizeof *grown);
        if (!grown) {
            return out_of_memory(f->c);
        }
        forms->at = grown;
        forms->capacity = larger;
    }
    forms->at[forms->n++] = *fm;
    return WEFT_OK;
}

static weft_status refuse(const fitting *f, int64_t number)
{
    char what[160];
    weft__number_text(&f->traces[0], number, what, sizeof what);
    return weft_fail(WEFT_INVALID, "%s is no multilinear form of the lengths", what);
}

static weft_status fit_number(fitting *f, int64_t number)
{
    if (is_constant(f, number)) {
        return WEFT_OK;
    }
    int64_t values[POINTS];
    form fm = {.number = number};
    for (int kind = FORM_VALUE; kind <= FORM_RECIPROCAL; kind++) {
        fm.kind = (form_kind)kind;
        if (integers(f, number, fm.kind, values) && solve(f, values, fm.coefficients) &&
            evaluate(f->forms, &fm, f->sizes[f->n_corners], f->k->n_symbols) ==
                values[f->n_corners]) {
            return push_form(f, &fm);
        }
    }
    return refuse(f, number);
}

static weft_status fit(fitting *f, weft__parameter *room)
{
    weft_status status = WEFT_OK;
    for (int p = 1; p <= f->n_corners && status == WEFT_OK; p++) {
        status = trace_point(f, p, room);
        if (status == WEFT_OK) {
            status = weft__same_structure(&f->traces[0], &f->traces[p]);
        }
    }
    for (int p = 0; p <= f->n_corners && status == WEFT_OK; p++) {
        status = weft__numbers_of(&f->traces[p], &f->numbers[p]);
    }
    for (int64_t i = 0; status == WEFT_OK && i < f->numbers[0].n; i++) {
        status = fit_number(f, i);
    }
    return status;
}

static void give_up(fitting *f)
{
    weft__compiled_note(f->c, "dynamic axes: %s: compiled for this length alone",
                        weft_error_message());
    weft__forms_free(f->forms);
    for (int i = 0; i < f->k->n_in; i++) {
        memset(f->k->parameters[i].symbols, 0, sizeof f->k->parameters[i].symbols);
    }
    f->k->n_symbols = 0;
    f->c->options.n_dynamic = 0;
}

weft_status weft__forms_find(weft_compiled *c, weft__combination *k, const weft__trace *base)
{
    const size_t n = (size_t)(k->n_in + c->n_slots);
    fitting *f = weft_calloc(1, sizeof *f);
    weft__forms *forms = weft_calloc(1, sizeof *forms);
    weft__parameter *room = weft_calloc(n, sizeof *room);
    weft_status status = f && forms && room ? WEFT_OK : out_of_memory(c);
    if (status == WEFT_OK) {
        *f = (fitting){.c = c, .k = k, .forms = forms};
        f->traces[0] = *base;
        for (int i = 0; i < k->n_in; i++) {
            for (int d = 0; d < k->parameters[i].spec.shape.n; d++) {
                if (k->parameters[i].symbols[d]) {
                    forms->base[k->parameters[i].symbols[d] - 1] =
                        k->parameters[i].spec.shape.at[d];
                }
            }
        }
        choose_points(f);
        status = fit(f, room);
        if (status == WEFT_OK) {
            k->forms = forms;
        } else if (status != WEFT_MEMORY) {
            give_up(f);
            status = WEFT_OK;
        } else {
            weft__forms_free(forms);
        }
        for (int p = 0; p < POINTS; p++) {
            weft__numbers_free(&f->numbers[p]);
            if (p > 0) {
                weft__trace_free(&f->traces[p]);
            }
        }
    } else {
        weft_free(forms);
    }
    weft_free(f);
    weft_free(room);
    return status;
}

/* ---- using ---------------------------------------------------------------------------------- */

/* A copy of the combination's trace with the numbers of these lengths, specs aside. */
static weft_status copy_with_numbers(const weft__combination *k, const int64_t *sizes,
                                     weft__trace *copy)
{
    const weft__trace *t = &k->trace;
    weft_status status = weft__trace_open(copy, t->n_arguments, t->n_outputs);
    weft__value value;
    for (int64_t i = 0; i < t->n_constants && status == WEFT_OK; i++) {
        status = weft__trace_add_constant(copy, t->constants[i], &value);
    }
    for (int64_t i = 0; i < t->n_nodes && status == WEFT_OK; i++) {
        status = weft__trace_add_node(copy, &t->nodes[i], &value);
    }
    if (status != WEFT_OK) {
        return status;
    }
    memcpy(copy->outputs, t->outputs, (size_t)t->n_outputs * sizeof *t->outputs);
    weft__numbers numbers = {0};
    status = weft__numbers_of(copy, &numbers);
    for (int64_t i = 0; i < k->forms->n && status == WEFT_OK; i++) {
        const form *fm = &k->forms->at[i];
        weft__number *v = &numbers.at[fm->number];
        int64_t whole = evaluate(k->forms, fm, sizes, k->n_symbols);
        double real = fm->kind == FORM_VALUE ? (double)whole : 1 / (double)whole;
        v->whole = whole;
        v->real = weft__number_real(v->kind, real);
    }
    if (status == WEFT_OK) {
        status = weft__numbers_set(copy, &numbers);
    }
    weft__numbers_free(&numbers);
    return status;
}

/* Its graph over placeholders of these lengths, for `infer` to check and to fill the specs. */
static weft_status infer_again(const weft__combination *k, const int64_t *sizes,
                               const weft__trace *copy, weft__trace *out)
{
    weft_array **in = weft_calloc((size_t)copy->n_arguments, sizeof(weft_array *));
    weft_array **outs = weft_calloc((size_t)copy->n_outputs, sizeof(weft_array *));
    weft_status status = in && outs ? WEFT_OK : weft_fail(WEFT_MEMORY, "compile: out of memory");
    weft_scope_open();
    int64_t next = 0;
    const int64_t n = copy->n_arguments - k->draws;
    if (k->draws && status == WEFT_OK) {
        const weft__trace_argument *key = &k->trace.arguments[n];
        in[n] = weft__placeholder(&key->spec, key->device, n);
    }
    for (int i = 0; next < n && status == WEFT_OK; i++) {
        const weft__parameter *p = &k->parameters[i];
        weft_spec spec = p->spec;
        for (int d = 0; d < spec.shape.n; d++) {
            spec.shape.at[d] = p->symbols[d] ? sizes[p->symbols[d] - 1] : spec.shape.at[d];
        }
        if (p->device) {
            in[next++] = weft__placeholder(&spec, p->device, i);
        }
    }
    if (status == WEFT_OK) {
        status = weft__trace_apply(copy, in, outs);
    }
    if (status == WEFT_OK) {
        status = weft__trace_make(out, in, copy->n_arguments, outs, copy->n_outputs, 0);
    }
    weft_scope_close(NULL);
    weft_free(in);
    weft_free(outs);
    return status;
}

weft_status weft__forms_trace(const weft__combination *k, const int64_t *sizes, weft__trace *out)
{
    weft__trace copy = {0};
    *out = (weft__trace){0};
    weft_status status = copy_with_numbers(k, sizes, &copy);
    if (status == WEFT_OK) {
        status = infer_again(k, sizes, &copy, out);
    }
    weft__trace_free(&copy);
    return status;
}
