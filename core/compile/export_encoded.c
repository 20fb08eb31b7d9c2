/* core/compile/export_encoded.c -- encoded arrays in exported files: their storage is written as
 * bytes, with their spec. */
#include <string.h>

#include "core/compile/export.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/shape.h"
#include "weft/quantize.h"

static weft_status read_storage(weft_array *a, void *out)
{
    const weft__view *v = &a->view;
    const int64_t bytes = weft_nbytes(a);
    if (bytes == 0) {
        return WEFT_OK;
    }
    if (v->buffer->host) {
        memcpy(out, (const char *)v->buffer->host + v->offset, (size_t)bytes);
        return WEFT_OK;
    }
    return a->device->backend->read(a->device->state, v->buffer->handle, v->offset, out, bytes);
}

weft_array *weft__encoded_bytes(weft_array *a)
{
    const int64_t bytes = weft_nbytes(a);
    void *copy = weft_malloc(bytes > 0 ? (size_t)bytes : 1);
    weft_status status = copy ? weft_eval(a) : weft__out_of_memory("export", NULL);
    if (status == WEFT_OK) {
        status = read_storage(a, copy);
    }
    weft_array *out = status == WEFT_OK ? weft_from_data(copy, WEFT_UINT8, WEFT_DIMS(bytes))
                                        : weft__failed_as(status, "%s", weft_error_message());
    weft_free(copy);
    return out;
}

weft_status weft__encoded_array(const weft__json *at, weft_array *bytes, const weft_spec *spec,
                                weft_array **out)
{
    const weft_encoding *e = spec->encoding;
    const weft_dims *shape = &spec->shape;
    const bool whole = shape->n > 0 && shape->at[shape->n - 1] % e->block == 0;
    const int64_t n = whole ? weft_encoding_bytes(e, weft__shape_size(shape)) : -1;
    if (!weft_dtype_is_float(spec->dtype) || weft_dtype_of(bytes) != WEFT_UINT8 ||
        weft_size(bytes) != n) {
        return weft__json_fail(at, WEFT_INVALID, "its bytes are not those of an array as %s",
                               e->name);
    }
    void *copy = weft_malloc(n > 0 ? (size_t)n : 1);
    weft_status status =
        copy ? weft_read(bytes, WEFT_UINT8, copy, n) : weft__out_of_memory("import", NULL);
    if (status != WEFT_OK) {
        weft_free(copy);
        return status;
    }
    *out = weft_from_blocks(copy, e, spec->dtype, *shape, weft_free, copy);
    return weft_ok(*out) ? WEFT_OK : weft__report(*out);
}
