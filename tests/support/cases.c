/* tests/support/cases.c -- inputs of the op table's test cases. */
#include "tests/support/cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "weft/ops.h"

static const weft_case plain_cases[] = {
    {.name = "matrix",
     .in = {{.shape = {2, {3, 5}}},
            {.shape = {2, {3, 5}}},
            {.shape = {2, {3, 5}}},
            {.shape = {2, {3, 5}}}}},
    {.name = "long",
     .in = {{.shape = {3, {2, 3, 1111}}},
            {.shape = {3, {2, 3, 1111}}},
            {.shape = {3, {2, 3, 1111}}},
            {.shape = {3, {2, 3, 1111}}}}},
    {.name = "empty",
     .in = {{.shape = {2, {0, 4}}},
            {.shape = {2, {0, 4}}},
            {.shape = {2, {0, 4}}},
            {.shape = {2, {0, 4}}}}},
    {.name = "scalar"},
};

static bool is_plain(const weft_op *op)
{
    return op->n_cases == 0 && op->family == WEFT_ELEMENTWISE;
}

int case_count(const weft_op *op)
{
    return is_plain(op) ? (int)(sizeof plain_cases / sizeof *plain_cases) : op->n_cases;
}

weft_case case_at(const weft_op *op, int i)
{
    weft_case c = is_plain(op) ? plain_cases[i] : op->cases[i];
    if (is_plain(op)) {
        c.n_inputs = op->arity;
        /* select's condition */
        c.in[0].boolean = op->infer && op->arity == 3;
    }
    return c;
}

bool case_takes(const weft_op *op, weft_dtype dtype)
{
    return !(op->no_test_dtypes >> dtype & 1);
}

/* splitmix64 to [0, 1). */
static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static weft_dtype input_dtype(const weft_case_input *in, weft_dtype dtype)
{
    return in->index_below > 0 ? WEFT_INT32
           : in->boolean       ? WEFT_BOOL
           : in->bytes         ? WEFT_UINT8
           : in->key           ? WEFT_UINT32
           : in->fixed_float32 ? WEFT_FLOAT32
                               : dtype;
}

/* Integers get a wider range than the default; unsigned ones have no values below 0. */
static double draw(const weft_op *op, const weft_case_input *in, weft_dtype dtype, uint64_t *state)
{
    double u = uniform(state);
    double lo = in->lo, hi = in->hi;
    if (lo == 0 && hi == 0) {
        lo = op->domain[0];
        hi = op->domain[1];
    }
    if (in->index_below > 0) {
        return floor(u * (double)in->index_below);
    }
    if (in->key) {
        return floor(u * 4294967296.0);
    }
    if (in->bytes) {
        return floor(u * 256);
    }
    if (in->boolean || dtype == WEFT_BOOL) {
        return u < 0.5;
    }
    if (lo == 0 && hi == 0) {
        bool whole = weft_dtype_is_integer(dtype);
        lo = whole ? -9 : -2;
        hi = whole ? 9 : 2;
    }
    if (weft_dtype_is_integer(dtype)) {
        if (!weft_dtype_is_signed(dtype) && lo < 0) {
            lo = 0;
        }
        return floor(lo + u * (hi - lo + 1));
    }
    return lo + u * (hi - lo);
}

/* The same elements in another memory layout, as a view with the original axes. */
static weft_array *relayout(weft_array *x, case_layout layout)
{
    int n = weft_ndim(x);
    if (n == 0 || layout == CASE_PLAIN) {
        return x;
    }
    if (layout == CASE_TRANSPOSED) {
        weft_dims reversed = {.n = n};
        for (int i = 0; i < n; i++) {
            reversed.at[i] = n - 1 - i;
        }
        weft_array *moved = weft_contiguous(weft_transpose(x, reversed));
        return weft_transpose(moved, reversed);
    }
    int64_t last = weft_dim(x, -1);
    weft_dims axes = {1, {-1}}, starts = {1, {last - 1}}, stops = {1, {-last - 1}},
              step = {1, {-1}};
    weft_array *moved = weft_contiguous(weft_slice(x, axes, starts, stops, step));
    return weft_slice(moved, axes, starts, stops, step);
}

/* What is added to element i of a dominant matrix. */
static double diagonal_lift(const weft_dims *shape, int64_t i)
{
    int64_t size = shape->at[shape->n - 1];
    return i % size == i / size % size ? 4 * (double)size : 0;
}

static weft_array *make_input(const weft_op *op, const weft_case_input *in, weft_dtype values_as,
                              weft_dtype dtype, uint64_t *state)
{
    int64_t n = 1;
    for (int i = 0; i < in->shape.n; i++) {
        n *= in->shape.at[i];
    }
    weft_dtype rounded = input_dtype(in, values_as), target = input_dtype(in, dtype);
    int parts = rounded == WEFT_COMPLEX64 ? 2 : 1;
    char *elements = calloc((size_t)n + 1, 8);
    weft_tensor t = {.dtype = parts == 2 ? WEFT_FLOAT32 : rounded,
                     .data = elements,
                     .shape = {1, {n * parts}},
                     .strides = {1}};
    for (int64_t i = 0; i < n * parts; i++) {
        double lift = in->dominant && i % parts == 0 ? diagonal_lift(&in->shape, i / parts) : 0;
        weft_tensor_set(&t, i, lift + draw(op, in, rounded, state));
    }
    weft_array *x = weft_from_data(elements, rounded, in->shape);
    free(elements);
    return rounded == target ? x : weft_astype(x, target);
}

bool case_inputs(const weft_op *op, const weft_case *c, weft_dtype values_as, weft_dtype dtype,
                 case_layout layout, weft_array **in)
{
    return case_inputs_from(op, c, values_as, dtype, layout, 20260101, in);
}

bool case_inputs_from(const weft_op *op, const weft_case *c, weft_dtype values_as, weft_dtype dtype,
                      case_layout layout, uint64_t seed, weft_array **in)
{
    uint64_t state = seed;
    for (int i = 0; i < c->n_inputs; i++) {
        weft_array *x = relayout(make_input(op, &c->in[i], values_as, dtype, &state), layout);
        if (weft_eval(x) != WEFT_OK) {
            return false;
        }
        in[i] = x;
    }
    return true;
}

int case_apply(const weft_op *op, const weft_case *c, weft_array *const *in,
               weft_array *out[WEFT_MAX_OUTPUTS])
{
    /* Zeros: a whole parameter struct, whatever the op. */
    weft_array *node = weft_apply(op, in, c->n_inputs, c->params);
    if (!weft_ok(node)) {
        return -1;
    }
    int n = weft_node_n_outputs(node);
    for (int i = 0; i < n; i++) {
        out[i] = weft_pick(node, i);
    }
    return n;
}

int case_call(void *subject, weft_array *const *in, int n_in, weft_array **out, int room)
{
    (void)room;
    const case_subject *s = subject;
    weft_array *inputs[WEFT_MAX_OPERANDS], *all[WEFT_MAX_OUTPUTS];
    memcpy(inputs, s->fixed, (size_t)s->c->n_inputs * sizeof *inputs);
    for (int i = 0; i < n_in; i++) {
        inputs[s->argument[i]] = in[i];
    }
    int n = case_apply(s->op, s->c, inputs, all);
    if (n == 0) {
        all[n++] = weft_error_array("%s refused", s->op->name);
    }
    memcpy(out, all, (size_t)n * sizeof *out);
    return n;
}

double case_tolerance(const weft_op *op, weft_dtype dtype)
{
    static const double epsilon[WEFT_DTYPE_COUNT] = {[WEFT_FLOAT16] = 0x1p-11,
                                                     [WEFT_BFLOAT16] = 0x1p-8,
                                                     [WEFT_FLOAT32] = 0x1p-24,
                                                     [WEFT_FLOAT64] = 0x1p-53,
                                                     [WEFT_COMPLEX64] = 0x1p-24};
    /* 16-bit: inputs are exact, so one rounding of the result and a small error of float32 inside.
     * float32 and float64: a few roundings of the longest sums in the cases. */
    bool narrow = dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16;
    double units = op->tolerance > 0 ? op->tolerance / 0x1p-24 : 16;
    return narrow ? fmax(2 * epsilon[dtype], units * 0x1p-24) : units * epsilon[dtype];
}
