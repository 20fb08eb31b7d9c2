/* backends/vulkan/self_test/trial.c -- runs one op on the device and checks the result. */
#include "backends/vulkan/self_test/trial.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/vulkan/backend.h"
#include "backends/vulkan/buffer.h"
#include "backends/vulkan/kernels/elementwise.h"

enum { MAX_TENSORS = WEFT_MAX_OPERANDS + WEFT_MAX_OUTPUTS };

double weft__trial_sample(uint32_t i)
{
    uint32_t x = (i + 1) * 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)(x >> 8) / 8388608.0 - 1;
}

weft_tensor weft__trial_tensor(weft_dtype dtype, weft_dims shape, void *data)
{
    weft_tensor t = {.dtype = dtype, .shape = shape, .data = data};
    int64_t stride = 1;
    for (int i = shape.n - 1; i >= 0; i--) {
        t.strides[i] = stride;
        stride *= shape.at[i];
    }
    return t;
}

static int64_t bytes_of(const weft_tensor *t)
{
    int64_t n = weft_tensor_size(t);
    return t->encoding ? weft_encoding_bytes(t->encoding, n)
                       : n * (int64_t)weft_dtype_size(t->dtype);
}

/* ---- the row -------------------------------------------------------------------------------- */

static bool letter_fits(char letter, weft_dtype dtype)
{
    static const struct {
        char letter;
        weft_dtype dtype;
    } letters[] = {{'f', WEFT_FLOAT32},  {'d', WEFT_FLOAT64}, {'h', WEFT_FLOAT16},
                   {'b', WEFT_BFLOAT16}, {'i', WEFT_INT32},   {'l', WEFT_INT64},
                   {'u', WEFT_UINT32},   {'U', WEFT_UINT64},  {'?', WEFT_BOOL},
                   {'c', WEFT_COMPLEX64}};
    if (letter == 'F' || letter == 'I' || letter == '*') {
        return letter == '*' ||
               (letter == 'F' ? weft_dtype_is_float(dtype) : weft_dtype_is_integer(dtype));
    }
    size_t i = 0;
    while (i < sizeof letters / sizeof *letters && letters[i].letter != letter) {
        i++;
    }
    return i < sizeof letters / sizeof *letters && letters[i].dtype == dtype;
}

static bool row_takes(const weft_kernel_row *row, const weft_call *call)
{
    const char *s = row->signature;
    for (int i = 0; i < call->n_inputs + call->n_outputs; i++) {
        const weft_tensor *t = i < call->n_inputs ? &call->in[i] : &call->out[i - call->n_inputs];
        if ((s && !letter_fits(*s, t->dtype)) || (t->encoding && !(row->takes_encoded >> i & 1))) {
            return false;
        }
        s = s && s[1] ? s + 1 : s;
    }
    return !row->fits || row->fits(call);
}

/* Finds the backend's own row, ignoring rows added by the program. */
static const weft_kernel_row *find_row(const weft_call *call)
{
    for (int i = 0; i < weft__vulkan_backend.n_rows; i++) {
        const weft_kernel_row *row = &weft__vulkan_backend.rows[i];
        if (strcmp(row->op, call->op->name) == 0 && row_takes(row, call)) {
            return row;
        }
    }
    return NULL;
}

/* ---- running -------------------------------------------------------------------------------- */

static weft_status compute(weft_call *call, const weft_tape *tape, weft__vulkan_device *d)
{
    if (tape) {
        return weft__vulkan_elementwise(call, tape);
    }
    const weft_kernel_row *row = find_row(call);
    if (!row) {
        return weft_fail(WEFT_UNSUPPORTED, "vulkan: self-test: no kernel for %s", call->op->name);
    }
    int64_t bytes = row->workspace ? row->workspace(call) : 0;
    if (bytes > 0) {
        call->workspace_buffer = weft__vulkan_allocate(d, bytes, &call->workspace);
        if (!call->workspace_buffer) {
            return weft_error_status();
        }
    }
    return row->kernel(call);
}

static weft_status wait_all(weft__vulkan_device *d)
{
    pthread_mutex_lock(&d->stream.lock);
    weft_status status = weft__vulkan_finish_all(d);
    pthread_mutex_unlock(&d->stream.lock);
    return status;
}

weft_status weft__trial_run(weft__trials *t, weft_call *call, const weft_tape *tape)
{
    weft__vulkan_device *d = t->state;
    weft_tensor there[MAX_TENSORS];
    const weft_tensor *host_out = call->out;
    const int n_in = call->n_inputs, n = n_in + call->n_outputs;
    weft_status status = WEFT_OK;
    assert(n <= MAX_TENSORS);
    for (int i = 0; i < n; i++) {
        const weft_tensor *host = i < n_in ? &call->in[i] : &host_out[i - n_in];
        void *mapped;
        there[i] = *host;
        there[i].data = NULL;
        there[i].buffer =
            status == WEFT_OK ? weft__vulkan_allocate(d, bytes_of(host), &mapped) : NULL;
        if (status == WEFT_OK && !there[i].buffer) {
            status = weft_error_status();
        }
        if (status == WEFT_OK && i < n_in) {
            status = weft__vulkan_write(d, there[i].buffer, 0, host->data, bytes_of(host));
        }
    }
    weft_call on_device = *call;
    on_device.device = (weft_device *)t->device;
    on_device.in = there;
    on_device.out = there + n_in;
    status = status == WEFT_OK ? compute(&on_device, tape, d) : status;
    status = status == WEFT_OK ? wait_all(d) : status;
    for (int i = n_in; i < n && status == WEFT_OK; i++) {
        status =
            weft__vulkan_read(d, there[i].buffer, 0, host_out[i - n_in].data, bytes_of(&there[i]));
    }
    for (int i = 0; i < n; i++) {
        if (there[i].buffer) {
            weft__vulkan_release(d, there[i].buffer);
        }
    }
    if (on_device.workspace_buffer) {
        weft__vulkan_release(d, on_device.workspace_buffer);
    }
    return status;
}

/* ---- comparing ------------------------------------------------------------------------------ */

static bool close_to(double actual, double expected, double tolerance, double smallest)
{
    if (isnan(expected) || isnan(actual) || isinf(expected)) {
        return isnan(expected) ? isnan(actual) : actual == expected;
    }
    return fabs(actual - expected) <= tolerance * fabs(expected) ||
           (fabs(expected) < smallest && fabs(actual) < smallest);
}

void weft__trial_compare(weft__trials *t, const char *op, const weft_tensor *actual,
                         const double *expected, double tolerance, double smallest,
                         weft__trial_label *label, const void *context)
{
    char what[96];
    for (int64_t i = 0; i < weft_tensor_size(actual) && !t->wrong[0]; i++) {
        double got = weft_tensor_get(actual, i);
        if (close_to(got, expected[i], tolerance, smallest)) {
            continue;
        }
        if (label) {
            label(context, i, what, sizeof what);
        } else {
            snprintf(what, sizeof what, "%s, element %lld", op, (long long)i);
        }
        snprintf(t->wrong, sizeof t->wrong, "%s: expected %.9g, got %.9g", what, expected[i], got);
    }
}
