/* core/array.c -- making arrays from data, querying arrays, and reading elements. */
#include "weft/array.h"

#include <math.h>
#include <string.h>

#include "core/builtin.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/graph.h"
#include "core/shape.h"
#include "weft/op_params.h"
#include "weft/quantize.h"

/* ---- making --------------------------------------------------------------------------------- */

/* Checks a shape from a caller and returns its bytes; -1 and an error array when it is invalid. */
static int64_t checked_bytes(const char *what, weft_dtype dtype, const weft_dims *shape,
                             weft_array **error)
{
    if ((unsigned)dtype >= WEFT_DTYPE_COUNT) {
        *error = weft__failed("%s: there is no dtype %d", what, (int)dtype);
        return -1;
    }
    bool valid = shape->n >= 0 && shape->n <= WEFT_MAX_DIMS;
    for (int i = 0; valid && i < shape->n; i++) {
        valid = shape->at[i] >= 0;
    }
    int64_t bytes = valid ? weft__shape_size(shape) : -1;
    if (bytes < 0 || __builtin_mul_overflow(bytes, (int64_t)weft_dtype_size(dtype), &bytes)) {
        *error = weft__failed("%s: expected up to %d non-negative dims and less than 2^63 bytes",
                              what, WEFT_MAX_DIMS);
        return -1;
    }
    return bytes;
}

/* A leaf in new device memory, filled from the host. */
static weft_array *upload(const void *data, int64_t bytes, const weft_spec *spec)
{
    weft_device *device = weft_default_device();
    weft__buffer *buffer = device ? weft__buffer_new(device, bytes, NULL, "data", spec) : NULL;
    if (!buffer) {
        return weft__failed_as(weft_error_status(), "from_data: %s", weft_error_message());
    }
    if (buffer->host) {
        if (bytes) {
            memcpy(buffer->host, data, (size_t)bytes);
        }
    } else if (bytes && device->backend->write(device->state, buffer->handle, 0, data, bytes)) {
        weft__buffer_unref(buffer);
        return weft__failed_as(weft_error_status(), "from_data: %s", weft_error_message());
    }
    return weft__leaf_new(spec, buffer, 0);
}

weft_array *weft_from_data(const void *data, weft_dtype dtype, weft_dims shape)
{
    weft_array *error = NULL;
    int64_t bytes = checked_bytes("from_data", dtype, &shape, &error);
    if (bytes > 0 && !data) {
        return weft__failed("from_data: the data is NULL");
    }
    weft_spec spec = {.dtype = dtype, .shape = shape};
    return bytes < 0 ? error : upload(data, bytes, &spec);
}

/* A leaf over the caller's memory, if the default device can use it in place. `result`: an earlier
 * failure, or WEFT_OK. */
static weft_array *over_memory(void *data, int64_t bytes, const weft_spec *spec, weft_array *result,
                               void (*release)(void *context), void *context)
{
    weft_device *device = weft_default_device();
    if (!result && device && device->backend->host_memory) {
        weft__buffer *b = weft__buffer_foreign(device, data, bytes, release, context);
        if (b) {
            return weft__leaf_new(spec, b, 0);
        }
        result = weft__no_memory();
    } else if (!result) {
        result = upload(data, bytes, spec);
    }
    if (release) {
        release(context);
    }
    return result;
}

weft_array *weft_from_memory(void *data, weft_dtype dtype, weft_dims shape,
                             void (*release)(void *context), void *context)
{
    weft_array *error = NULL;
    int64_t bytes = checked_bytes("from_memory", dtype, &shape, &error);
    weft_spec spec = {.dtype = dtype, .shape = shape};
    bool aligned = (uintptr_t)data % weft_dtype_size(dtype) == 0 ||
                   (dtype == WEFT_COMPLEX64 && (uintptr_t)data % sizeof(float) == 0);
    if (bytes >= 0 && !aligned) {
        error =
            weft__failed("from_memory: the address is not aligned for %s", weft_dtype_name(dtype));
    } else if (bytes > 0 && !data) {
        error = weft__failed("from_memory: the data is NULL");
    }
    return over_memory(data, bytes, &spec, error, release, context);
}

weft_array *weft_from_blocks(void *blocks, const weft_encoding *encoding, weft_dtype dtype,
                             weft_dims shape, void (*release)(void *context), void *context)
{
    weft_array *error = NULL;
    int64_t bytes = checked_bytes("from_blocks", dtype, &shape, &error);
    weft_spec spec = {.dtype = dtype, .shape = shape, .encoding = encoding};
    const int64_t last = shape.n > 0 && bytes >= 0 ? shape.at[shape.n - 1] : 0;
    if (bytes >= 0 && (shape.n < 1 || last % encoding->block != 0)) {
        error = weft__failed("from_blocks: the last dim, %lld, is no multiple of %lld, a block of "
                             "%s",
                             (long long)last, (long long)encoding->block, encoding->name);
    } else if (bytes >= 0 && !weft_dtype_is_float(dtype)) {
        error = weft__failed("from_blocks: expected a float dtype, got %s", weft_dtype_name(dtype));
    } else if (bytes > 0 && !blocks) {
        error = weft__failed("from_blocks: the data is NULL");
    }
    bytes = error ? 0 : weft_encoding_bytes(encoding, weft__shape_size(&shape));
    return over_memory(blocks, bytes, &spec, error, release, context);
}

/* ---- memory that a device reads ------------------------------------------------------------- */

typedef struct pinned {
    weft_device *device;
    void *memory;
    int64_t bytes;
} pinned;

static void unpin(void *context)
{
    pinned *p = context;
    p->device->backend->unpin(p->device->state, p->memory, p->bytes);
    weft_free(p);
}

weft_array *weft__pinned(weft_array *a, weft_device *device)
{
    const weft_backend *b = device->backend;
    const int64_t bytes = weft_nbytes(a);
    const weft_encoding *encoding = weft_encoding_of(a);
    const void *data = !b->pin || bytes == 0 ? NULL : encoding ? weft__blocks(a) : weft_data(a);
    pinned *p = data ? weft_calloc(1, sizeof *p) : NULL;
    void *memory = p ? b->pin(device->state, bytes) : NULL;
    if (!memory) {
        weft_free(p);
        return a;
    }
    *p = (pinned){device, memory, bytes};
    memcpy(memory, data, (size_t)bytes);
    const weft_dtype dtype = weft_dtype_of(a);
    return encoding ? weft_from_blocks(memory, encoding, dtype, weft_shape(a), unpin, p)
                    : weft_from_memory(memory, dtype, weft_shape(a), unpin, p);
}

/* ---- scalars --------------------------------------------------------------------------------- */

weft_array *weft_scalar(double value, weft_dtype dtype)
{
    _Alignas(8) char element[8] = {0};
    weft_tensor t = {.dtype = dtype, .data = element};
    weft_tensor_set(&t, 0, value);
    return weft_from_data(element, dtype, WEFT_SCALAR);
}

weft_array *weft_scalar_int(int64_t value, weft_dtype dtype)
{
    _Alignas(8) char element[8] = {0};
    weft_tensor t = {.dtype = dtype, .data = element};
    weft_tensor_set_int(&t, 0, value);
    return weft_from_data(element, dtype, WEFT_SCALAR);
}

/* ---- what an array is ----------------------------------------------------------------------- */

bool weft_ok(const weft_array *a)
{
    return a && a->state != WEFT__FAILED;
}

const char *weft_error(const weft_array *a)
{
    return !a ? "the array is NULL" : a->state == WEFT__FAILED ? a->error : NULL;
}

weft_dtype weft_dtype_of(const weft_array *a)
{
    return a ? a->spec.dtype : WEFT_FLOAT32;
}

weft_dtype weft__gradient_dtype(const weft_array *a)
{
    const weft_dtype own = a->spec.dtype;
    if (a->op != weft__builtins.cast) {
        return own;
    }
    const weft_dtype from = a->inputs[0]->spec.dtype;
    const bool real = weft_dtype_is_float(own) && weft_dtype_is_float(from);
    return real && weft_dtype_size(from) > weft_dtype_size(own) ? from : own;
}

int weft_ndim(const weft_array *a)
{
    return a ? a->spec.shape.n : 0;
}

int64_t weft_nbytes(const weft_array *a)
{
    const weft_encoding *e = weft_encoding_of(a);
    return e ? weft_encoding_bytes(e, weft_size(a))
             : weft_size(a) * (int64_t)weft_dtype_size(weft_dtype_of(a));
}

const weft_encoding *weft_encoding_of(const weft_array *a)
{
    return a ? a->spec.encoding : NULL;
}

weft_device *weft_device_of(const weft_array *a)
{
    return a && a->device ? a->device : weft_default_device();
}

weft_dtype weft_result_type(weft_array *const *arrays, int n)
{
    weft_dtype dtype = n > 0 ? weft_dtype_of(arrays[0]) : WEFT_FLOAT32;
    for (int i = 1; i < n; i++) {
        dtype = weft_promote(dtype, weft_dtype_of(arrays[i]));
    }
    return dtype;
}

bool weft_is_evaluated(const weft_array *a)
{
    return a && a->state == WEFT__EVALUATED;
}

const weft_op *weft_node_op(const weft_array *node)
{
    return node->op;
}

const void *weft_node_params(const weft_array *node)
{
    return node->params;
}

int weft_node_n_inputs(const weft_array *node)
{
    return node->n_inputs;
}

weft_array *weft_node_input(const weft_array *node, int i)
{
    return node->inputs[i];
}

int weft_node_n_outputs(const weft_array *node)
{
    return node == node->first ? node->n_outputs : 1;
}

const weft_spec *weft_node_spec(const weft_array *node, int output)
{
    return &node[output].spec;
}

/* ---- moving between devices ----------------------------------------------------------------- */

static bool infer_transfer(const weft_array *node, weft_spec *out, weft_why *why)
{
    (void)why;
    out[0] = node->inputs[0]->spec;
    return true;
}

static void transfer_vjp(weft_array *node, weft_array *const *cts, const bool *wanted,
                         weft_array **grads)
{
    if (wanted[0]) {
        grads[0] = weft_to(cts[0], node->inputs[0]->device);
    }
}

static const weft_field transfer_fields[] = {WEFT_FIELD(POINTER, weft__transfer_params, device),
                                             WEFT_FIELDS_END};

/* The evaluator handles it specially: its input and output are on different devices. */
const weft_op weft__op_transfer = {
    .name = "to",
    .family = WEFT_STRUCTURAL,
    .arity = 1,
    .params_size = sizeof(weft__transfer_params),
    .params_fields = transfer_fields,
    .infer = infer_transfer,
    .takes_encoded = 1,
    .vjp = transfer_vjp,
    .linear = true,
    .takes_leading_axis = true,
    .passes_through = true,
};

weft_array *weft_to(weft_array *a, weft_device *device)
{
    if (!weft_ok(a) || a->device == device) {
        return a;
    }
    if (!device) {
        return weft__failed("to: the device is NULL");
    }
    weft__transfer_params params = {device};
    return weft__apply_on(device, &weft__op_transfer, &a, 1, &params);
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool is_row_major(const weft_array *a)
{
    weft_tensor t = {.shape = a->spec.shape};
    memcpy(t.strides, a->view.strides, sizeof t.strides);
    return weft_tensor_is_contiguous(&t);
}

/* The evaluated array `a` in row-major order and as `dtype`. */
static weft_array *readable(weft_array *a, weft_dtype dtype)
{
    if (a->spec.dtype != dtype || a->spec.encoding) {
        weft_cast_params params = {dtype};
        return weft_apply(weft__builtins.cast, &a, 1, &params);
    }
    return is_row_major(a) ? a : weft_apply(weft__builtins.copy, &a, 1, NULL);
}

static weft_status copy_out(weft_array *a, void *out)
{
    const weft__view *v = &a->view;
    int64_t bytes = weft_nbytes(a);
    if (bytes == 0) {
        return WEFT_OK;
    }
    if (v->buffer->host) {
        memcpy(out, (const char *)v->buffer->host + v->offset, (size_t)bytes);
        return WEFT_OK;
    }
    return a->device->backend->read(a->device->state, v->buffer->handle, v->offset, out, bytes);
}

const void *weft__blocks(weft_array *a)
{
    const weft__view *v = &a->view;
    return weft_eval(a) == WEFT_OK && v->buffer->host ? (const char *)v->buffer->host + v->offset
                                                      : NULL;
}

weft_status weft__read_blocks(weft_array *a, void *out)
{
    const weft_status status = weft_eval(a);
    return status == WEFT_OK ? copy_out(a, out) : status;
}

weft_status weft_read(weft_array *a, weft_dtype dtype, void *out, int64_t count)
{
    if (!weft_ok(a)) {
        return weft__report(a);
    }
    if (count != weft_size(a)) {
        return weft_fail(WEFT_INVALID, "read: expected %lld elements, got room for %lld",
                         (long long)weft_size(a), (long long)count);
    }
    weft_scope_open();
    weft_status status = weft_eval(a);
    if (status == WEFT_OK) {
        weft_array *r = readable(a, dtype);
        status = weft_eval(r);
        if (status == WEFT_OK) {
            status = copy_out(r, out);
        }
    }
    weft_scope_close(NULL);
    return status;
}

static weft_status read_one(weft_array *a, weft_dtype dtype, void *out)
{
    if (weft_ok(a) && weft_size(a) != 1) {
        char shape[WEFT_SHAPE_TEXT];
        weft_dims dims = weft_shape(a);
        return weft_fail(WEFT_INVALID, "item: expected one element, got shape %s",
                         weft__shape_text(&dims, shape));
    }
    return weft_read(a, dtype, out, 1);
}

double weft_item(weft_array *a)
{
    double value;
    return read_one(a, WEFT_FLOAT64, &value) == WEFT_OK ? value : (double)NAN;
}

int64_t weft_item_int(weft_array *a)
{
    int64_t value;
    return read_one(a, WEFT_INT64, &value) == WEFT_OK ? value : INT64_MIN;
}

const void *weft_data(weft_array *a)
{
    if (weft_eval(a) != WEFT_OK) {
        return NULL;
    }
    const weft__view *v = &a->view;
    if (weft_encoding_of(a)) {
        weft_fail(WEFT_UNSUPPORTED,
                  "data: the array is encoded as %s: decode it first "
                  "(weft_decode), or use weft_read",
                  weft_encoding_of(a)->name);
        return NULL;
    }
    if (!v->buffer->host || !is_row_major(a)) {
        weft_fail(WEFT_UNSUPPORTED, "data: the array is not row-major in host memory: use "
                                    "weft_read, or weft_contiguous first");
        return NULL;
    }
    return (const char *)v->buffer->host + v->offset;
}
