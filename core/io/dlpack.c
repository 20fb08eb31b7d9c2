/* core/io/dlpack.c -- exports arrays as DLPack tensors and imports such tensors. */
#include "weft/dlpack.h"

#include <string.h>

#include "core/device.h"
#include "core/failure.h"
#include "core/graph.h"
#include "core/io/dlpack_abi.h"
#include "core/shape.h"

typedef struct type {
    uint8_t code, bits;
} type;

static const type types[WEFT_DTYPE_COUNT] = {
    [WEFT_BOOL] = {DLPACK_BOOL, 8},        [WEFT_UINT8] = {DLPACK_UINT, 8},
    [WEFT_UINT16] = {DLPACK_UINT, 16},     [WEFT_UINT32] = {DLPACK_UINT, 32},
    [WEFT_UINT64] = {DLPACK_UINT, 64},     [WEFT_INT8] = {DLPACK_INT, 8},
    [WEFT_INT16] = {DLPACK_INT, 16},       [WEFT_INT32] = {DLPACK_INT, 32},
    [WEFT_INT64] = {DLPACK_INT, 64},       [WEFT_FLOAT16] = {DLPACK_FLOAT, 16},
    [WEFT_BFLOAT16] = {DLPACK_BFLOAT, 16}, [WEFT_FLOAT32] = {DLPACK_FLOAT, 32},
    [WEFT_FLOAT64] = {DLPACK_FLOAT, 64},   [WEFT_COMPLEX64] = {DLPACK_COMPLEX, 64},
};

/* ---- out ------------------------------------------------------------------------------------ */

/* The data behind an exported tensor, freed with it. */
typedef struct lent {
    union {
        struct DLManagedTensorVersioned versioned;
        struct DLManagedTensor unversioned;
    } as;
    weft_array *array;
    int64_t shape[WEFT_MAX_DIMS], strides[WEFT_MAX_DIMS];
} lent;

static void give_back(lent *l)
{
    weft_drop(l->array);
    weft_free(l);
}

static void delete_versioned(struct DLManagedTensorVersioned *self)
{
    give_back(self->context);
}

static void delete_unversioned(struct DLManagedTensor *self)
{
    give_back(self->context);
}

static weft_status lend(weft_array *a, dlpack_tensor *t, lent **out)
{
    weft_status status = weft_eval(a);
    if (status != WEFT_OK) {
        return status;
    }
    const weft__view *v = &a->view;
    weft_dtype dtype = weft_dtype_of(a);
    if (!v->buffer->host || !a->device->backend->host_memory || a->spec.encoding) {
        return weft_fail(WEFT_UNSUPPORTED,
                         "to_dlpack: expected a dense array in host memory, got one of %s: move it "
                         "with weft_to",
                         a->device->name);
    }
    lent *l = weft_calloc(1, sizeof *l);
    if (!l) {
        return weft__out_of_memory("to_dlpack", NULL);
    }
    weft_dims shape = weft_shape(a);
    memcpy(l->shape, shape.at, sizeof l->shape);
    memcpy(l->strides, v->strides, sizeof l->strides);
    l->array = weft_keep(a);
    *t = (dlpack_tensor){
        .data = v->buffer->host,
        .byte_offset = (uint64_t)v->offset,
        .device_type = DLPACK_CPU,
        .ndim = shape.n,
        .code = types[dtype].code,
        .bits = types[dtype].bits,
        .lanes = 1,
        .shape = l->shape,
        .strides = l->strides,
    };
    *out = l;
    return WEFT_OK;
}

weft_status weft_to_dlpack(weft_array *a, struct DLManagedTensorVersioned **out)
{
    lent *l;
    dlpack_tensor tensor;
    weft_status status = lend(a, &tensor, &l);
    *out = NULL;
    if (status == WEFT_OK) {
        l->as.versioned = (struct DLManagedTensorVersioned){
            .major = DLPACK_MAJOR,
            .minor = DLPACK_MINOR,
            .context = l,
            .deleter = delete_versioned,
            .flags = DLPACK_READ_ONLY,
            .tensor = tensor,
        };
        *out = &l->as.versioned;
    }
    return status;
}

weft_status weft_to_dlpack_unversioned(weft_array *a, struct DLManagedTensor **out)
{
    lent *l;
    dlpack_tensor tensor;
    weft_status status = lend(a, &tensor, &l);
    *out = NULL;
    if (status == WEFT_OK) {
        l->as.unversioned =
            (struct DLManagedTensor){.tensor = tensor, .context = l, .deleter = delete_unversioned};
        *out = &l->as.unversioned;
    }
    return status;
}

/* ---- in ------------------------------------------------------------------------------------- */

static void release_versioned(void *context)
{
    struct DLManagedTensorVersioned *t = context;
    if (t->deleter) {
        t->deleter(t);
    }
}

static void release_unversioned(void *context)
{
    struct DLManagedTensor *t = context;
    if (t->deleter) {
        t->deleter(t);
    }
}

static bool find_dtype(const dlpack_tensor *t, weft_dtype *out)
{
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        if (types[d].code == t->code && types[d].bits == t->bits && t->lanes == 1) {
            *out = (weft_dtype)d;
            return true;
        }
    }
    return false;
}

/* Describes the tensor in Weft's terms; an error array if it is unsupported, else NULL. */
static weft_array *describe(const dlpack_tensor *t, weft_tensor *out)
{
    if (t->device_type != DLPACK_CPU) {
        return weft_error_array("from_dlpack: expected a tensor of the CPU (device type 1), got "
                                "device type %d",
                                (int)t->device_type);
    }
    if (!find_dtype(t, &out->dtype)) {
        return weft_error_array("from_dlpack: unsupported type: code %d, %d bits, %d lanes",
                                (int)t->code, (int)t->bits, (int)t->lanes);
    }
    if (t->ndim < 0 || t->ndim > WEFT_MAX_DIMS || (t->ndim > 0 && !t->shape)) {
        return weft_error_array("from_dlpack: expected 0 to %d dims, got %d", WEFT_MAX_DIMS,
                                (int)t->ndim);
    }
    out->shape.n = t->ndim;
    int64_t size = 1;
    for (int i = 0; i < t->ndim; i++) {
        out->shape.at[i] = t->shape[i];
        if (t->shape[i] < 0 || __builtin_mul_overflow(size, t->shape[i], &size)) {
            return weft_error_array("from_dlpack: dim %d: expected a size, got %lld", i,
                                    (long long)t->shape[i]);
        }
    }
    if (size > 0 && !t->data) {
        return weft_error_array("from_dlpack: the data is NULL");
    }
    weft__strides_contiguous(&out->shape, out->strides);
    for (int i = 0; t->strides && i < t->ndim; i++) {
        out->strides[i] = t->strides[i];
    }
    out->data = (char *)t->data + t->byte_offset;
    return NULL;
}

/* A copy of the elements in Weft's own memory. */
static weft_array *copy_of(const weft_tensor *t)
{
    int64_t n = weft_tensor_size(t), size = (int64_t)weft_dtype_size(t->dtype);
    char *elements = weft_malloc((size_t)(n * size));
    if (!elements) {
        return weft__no_memory();
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(elements + i * size, (const char *)t->data + weft_tensor_offset(t, i) * size,
               (size_t)size);
    }
    weft_array *a = weft_from_data(elements, t->dtype, t->shape);
    weft_free(elements);
    return a;
}

static weft_array *borrow(const dlpack_tensor *given, void (*release)(void *), void *context)
{
    weft_tensor t = {0};
    weft_array *a = describe(given, &t);
    weft_device *device = weft_default_device();
    size_t alignment = t.dtype == WEFT_COMPLEX64 ? sizeof(float) : weft_dtype_size(t.dtype);
    if (!a && device->backend->host_memory && (uintptr_t)t.data % alignment == 0) {
        weft_spec spec = {.dtype = t.dtype, .shape = t.shape};
        int64_t bytes = weft_tensor_size(&t) * (int64_t)weft_dtype_size(t.dtype);
        weft__buffer *b = weft__buffer_foreign(device, t.data, bytes, release, context);
        if (b) {
            a = weft__leaf_new(&spec, b, 0);
            if (weft_ok(a)) {
                memcpy(a->view.strides, t.strides, sizeof t.strides);
            }
            return a;
        }
        a = weft__no_memory();
    }
    a = a ? a : copy_of(&t);
    release(context);
    return a;
}

weft_array *weft_from_dlpack(struct DLManagedTensorVersioned *tensor)
{
    if (tensor->major > DLPACK_MAJOR) { /* of a newer version only the deleter can be used */
        weft_array *a = weft_error_array("from_dlpack: unsupported version %u.%u", tensor->major,
                                         tensor->minor);
        release_versioned(tensor);
        return a;
    }
    return borrow(&tensor->tensor, release_versioned, tensor);
}

weft_array *weft_from_dlpack_unversioned(struct DLManagedTensor *tensor)
{
    return borrow(&tensor->tensor, release_unversioned, tensor);
}
