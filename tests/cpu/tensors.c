/* tests/cpu/tensors.c -- tensors of given layouts, and calls of kernel rows without the
 * evaluator. */
#include "tests/cpu/tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/kernels.h"
#include "tests/check.h"

enum { GUARD = 256, GAP = 3 };

static void lay_out(weft_tensor *t, lie layout)
{
    int n = t->shape.n;
    int order[WEFT_MAX_DIMS];
    for (int i = 0; i < n; i++)
        order[i] = i;
    if (layout == LIE_TRANSPOSED && n >= 2) {
        order[n - 1] = n - 2;
        order[n - 2] = n - 1;
    }
    int64_t step = layout == LIE_GAPS ? 2 : 1;
    for (int i = n - 1; i >= 0; i--) {
        t->strides[order[i]] = step;
        int64_t length = t->shape.at[order[i]] > 0 ? t->shape.at[order[i]] : 1;
        step *= length;
        if (layout == LIE_ROWS && i == n - 1)
            step += GAP;
    }
}

static owned_tensor make(weft_dtype dtype, weft_dims shape, lie layout)
{
    owned_tensor x = {.t = {.dtype = dtype, .shape = shape}};
    lay_out(&x.t, layout);
    int64_t last = 0;
    for (int i = 0; i < shape.n; i++)
        last += shape.at[i] > 0 ? (shape.at[i] - 1) * x.t.strides[i] : 0;
    x.bytes = (last + 1) * (int64_t)weft_dtype_size(dtype);
    /* Exactly as long as needed, so that a sanitizer sees reads beyond the end. */
    x.memory = malloc((size_t)x.bytes);
    memset(x.memory, 0x5a, (size_t)x.bytes);
    x.t.data = x.memory;
    return x;
}

static uint32_t draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

owned_tensor tensor_random(weft_dtype dtype, weft_dims shape, lie layout, double lo, double hi,
                           uint32_t seed)
{
    owned_tensor x = make(dtype, shape, layout);
    uint32_t state = seed * 2654435761u + 1;
    int64_t size = weft_tensor_size(&x.t);
    for (int64_t i = 0; i < size; i++)
        weft_tensor_set(&x.t, i, lo + (hi - lo) * draw(&state) / 16777216.0);
    return x;
}

owned_tensor tensor_indices(weft_dims shape, int64_t below, uint32_t seed)
{
    owned_tensor x = make(WEFT_INT32, shape, LIE_DENSE);
    uint32_t state = seed * 2654435761u + 1;
    int64_t size = weft_tensor_size(&x.t);
    for (int64_t i = 0; i < size; i++)
        weft_tensor_set_int(&x.t, i, draw(&state) % below);
    return x;
}

owned_tensor tensor_empty(weft_dtype dtype, weft_dims shape)
{
    return make(dtype, shape, LIE_DENSE);
}

void tensor_free(owned_tensor *x)
{
    free(x->memory);
    x->memory = NULL;
}

double *tensor_doubles(const weft_tensor *x)
{
    const int64_t size = weft_tensor_size(x);
    double *out = malloc(((size_t)size + 1) * sizeof *out);
    for (int64_t i = 0; i < size; i++)
        out[i] = weft_tensor_get(x, i);
    return out;
}

static const char letters[] = "?...U...lhbfdc"; /* by dtype; those that the tests use */

static char letter_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_UINT32:
        return 'u';
    case WEFT_INT32:
        return 'i';
    default:
        return letters[dtype];
    }
}

static bool signature_takes(const char *signature, const weft_tensor *const *operand, int n)
{
    for (int i = 0; signature && i < n; i++) {
        bool is_float = weft_dtype_is_float(operand[i]->dtype);
        bool is_integer = weft_dtype_is_integer(operand[i]->dtype);
        if (!(*signature == '*' || (*signature == 'F' && is_float) ||
              (*signature == 'I' && is_integer) || *signature == letter_of(operand[i]->dtype)))
            return false;
        if (signature[1])
            signature++;
    }
    return true;
}

static bool layout_takes(weft_layout layout, const weft_tensor *in, int n)
{
    for (int i = 0; i < n; i++) {
        int last = in[i].shape.n - 1;
        if (layout == WEFT_CONTIGUOUS && !weft_tensor_is_contiguous(&in[i]))
            return false;
        if (layout == WEFT_LAST_DIM && last >= 0 && in[i].strides[last] != 1 &&
            in[i].shape.at[last] > 1)
            return false;
    }
    return true;
}

static const weft_kernel_row *find_row(const weft_call *call)
{
    const weft_tensor *operand[2 * WEFT_MAX_OPERANDS];
    for (int i = 0; i < call->n_inputs; i++)
        operand[i] = &call->in[i];
    for (int i = 0; i < call->n_outputs; i++)
        operand[call->n_inputs + i] = &call->out[i];
    const bool encoded = call->n_inputs > 1 && call->in[1].encoding;
    const weft_kernel_row *rows = encoded ? weft__cpu_quantized_rows : weft__cpu_nn_rows;
    const int n = encoded ? weft__cpu_quantized_row_count : weft__cpu_nn_row_count;
    for (const weft_kernel_row *row = rows; row < rows + n; row++) {
        if (strcmp(row->op, call->op->name) == 0 &&
            signature_takes(row->signature, operand, call->n_inputs + call->n_outputs) &&
            layout_takes(row->layout, call->in, call->n_inputs) && (!row->fits || row->fits(call)))
            return row;
    }
    return NULL;
}

weft_status status_of_row(const char *name, const void *params, const weft_tensor *in, int n_in,
                          const weft_tensor *out, int n_out)
{
    weft_op op = {.name = name};
    weft_call call = {
        .op = &op, .params = params, .n_inputs = n_in, .n_outputs = n_out, .in = in, .out = out};
    const weft_kernel_row *row = find_row(&call);
    if (!row) {
        CHECK_FAIL("%s: no row for these tensors", name);
        return WEFT_UNSUPPORTED;
    }
    int64_t bytes = row->workspace ? row->workspace(&call) : 0;
    void *workspace = NULL;
    if (posix_memalign(&workspace, 64, (size_t)bytes + GUARD) != 0)
        return WEFT_MEMORY;
    memset(workspace, 0xff,
           (size_t)bytes + GUARD); /* NaN for kernels that read elements before they write them */
    call.workspace = workspace;
    weft_status status = row->kernel(&call);
    const unsigned char *guard = (unsigned char *)workspace + bytes;
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != 0xff) {
            CHECK_FAIL("%s: wrote beyond its workspace of %lld bytes", name, (long long)bytes);
            break;
        }
    free(workspace);
    return status;
}

void run_row(const char *name, const void *params, const weft_tensor *in, int n_in,
             const weft_tensor *out, int n_out)
{
    CHECK_OK(status_of_row(name, params, in, n_in, out, n_out));
}

bool has_row(const char *name, const void *params, const weft_tensor *in, int n_in,
             const weft_tensor *out, int n_out)
{
    weft_op op = {.name = name};
    weft_call call = {
        .op = &op, .params = params, .n_inputs = n_in, .n_outputs = n_out, .in = in, .out = out};
    return find_row(&call) != NULL;
}

void check_tensor(const weft_tensor *actual, const double *expected, double tolerance, double scale,
                  const char *what)
{
    int64_t size = weft_tensor_size(actual);
    for (int64_t i = 0; i < size; i++) {
        double value = weft_tensor_get(actual, i);
        bool close = value == expected[i] ||
                     fabs(value - expected[i]) <= tolerance * (scale + fabs(expected[i]));
        if (!close) {
            CHECK_FAIL("%s: element %lld is %.9g, expected %.9g", what, (long long)i, value,
                       expected[i]);
            return;
        }
    }
    CHECK(true);
}

void each_isa(void (*check)(void))
{
    for (cpu_isa isa = CPU_BASELINE; isa < CPU_ISA_COUNT; isa++)
        if (weft__cpu_use_isa(isa) == isa)
            check();
}

double epsilon_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_FLOAT16:
        return 0x1p-11;
    case WEFT_BFLOAT16:
        return 0x1p-8;
    case WEFT_FLOAT64:
        return 0x1p-52;
    default:
        return 0x1p-23;
    }
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
