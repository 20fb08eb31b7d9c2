/* core/compile/fields.c -- specs and parameters as JSON, using the field tables. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/compile/export.h"
#include "core/compile/shapeless.h"
#include "core/shape.h"
#include "weft/quantize.h"

/* ---- writing -------------------------------------------------------------------------------- */

static void write_dims(const weft_dims *dims, weft__text *out)
{
    if (dims->n < 0) { /* every axis */
        weft__text_append(out, "null", 4);
        return;
    }
    weft__text_append(out, "[", 1);
    for (int i = 0; i < dims->n; i++) {
        weft__text_format(out, i ? ",%lld" : "%lld", (long long)dims->at[i]);
    }
    weft__text_append(out, "]", 1);
}

/* JSON has no infinities; 17 digits represent every other double exactly. */
static void write_double(double value, weft__text *out)
{
    if (isfinite(value)) {
        weft__text_format(out, "%.17g", value);
    } else {
        weft__text_quote(out, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    }
}

static weft_status write_field(const weft_op *op, const weft_field *f, const void *value,
                               weft__text *out)
{
    switch (f->type) {
    case WEFT_FIELD_INT:
        weft__text_format(out, "%lld", (long long)*(const int64_t *)value);
        break;
    case WEFT_FIELD_BOOL:
        weft__text_format(out, "%s", *(const bool *)value ? "true" : "false");
        break;
    case WEFT_FIELD_DOUBLE:
        write_double(*(const double *)value, out);
        break;
    case WEFT_FIELD_DTYPE:
        weft__text_quote(out, weft_dtype_name(*(const weft_dtype *)value));
        break;
    case WEFT_FIELD_DIMS:
        write_dims(value, out);
        break;
    default:
        return weft_fail(WEFT_UNSUPPORTED,
                         "export: %s: its parameter %s is an address, which a file cannot hold",
                         op->name, f->name);
    }
    return WEFT_OK;
}

weft_status weft__params_write(const weft_op *op, const void *params, weft__text *out)
{
    weft_status status = WEFT_OK;
    weft__text_append(out, "{", 1);
    const weft_field *f = op->params_fields;
    for (int i = 0; f && f->type != WEFT_FIELD_END && status == WEFT_OK; i++, f++) {
        weft__text_append(out, ",", i > 0);
        weft__text_quote(out, f->name);
        weft__text_append(out, ":", 1);
        status = write_field(op, f, (const char *)params + f->offset, out);
    }
    weft__text_append(out, "}", 1);
    return status;
}

void weft__spec_write(const weft_spec *spec, weft__text *out)
{
    weft__text_format(out, "{\"dtype\":\"%s\",\"shape\":", weft_dtype_name(spec->dtype));
    write_dims(&spec->shape, out);
    if (spec->encoding) {
        weft__text_format(out, ",\"encoding\":\"%s\"", spec->encoding->name);
    }
    weft__text_append(out, "}", 1);
}

/* ---- reading -------------------------------------------------------------------------------- */

static weft_status read_dims(const weft__json *at, weft_dims *out)
{
    size_t n;
    *out = (weft_dims){0};
    if (!at->value) {
        out->n = -1;
        return WEFT_OK;
    }
    weft_status status = weft__json_length(at, &n);
    if (status == WEFT_OK && n > WEFT_MAX_DIMS) {
        status = weft__json_fail(at, WEFT_INVALID, "expected at most %d numbers, got %zu",
                                 WEFT_MAX_DIMS, n);
    }
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json element;
        status = weft__json_at(at, i, &element);
        if (status == WEFT_OK) {
            status = weft__json_as_int(&element, &out->at[i]);
        }
        out->n = (int)i + 1;
    }
    return status;
}

static weft_status read_double(const weft__json *at, double *out)
{
    static const char *const names[] = {"nan", "inf", "-inf"};
    const double values[] = {NAN, INFINITY, -INFINITY};
    const char *text;
    if (!at->value || json_object_get_type(at->value) != json_type_string) {
        return weft__json_as_number(at, out);
    }
    weft_status status = weft__json_as_string(at, &text, NULL);
    for (int i = 0; i < 3 && status == WEFT_OK; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = values[i];
            return WEFT_OK;
        }
    }
    return weft__json_fail(at, WEFT_INVALID, "expected a number, nan, inf or -inf");
}

static weft_status read_dtype(const weft__json *at, weft_dtype *out)
{
    const char *name;
    weft_status status = weft__json_as_string(at, &name, NULL);
    if (status == WEFT_OK && !weft_dtype_parse(name, out)) {
        status =
            weft__json_fail(at, WEFT_INVALID, "expected a dtype, got '%s'", weft_printable(name));
    }
    return status;
}

static weft_status read_field(const weft__json *at, const weft_field *f, void *value)
{
    switch (f->type) {
    case WEFT_FIELD_INT:
        return weft__json_as_int(at, value);
    case WEFT_FIELD_BOOL:
        return weft__json_as_bool(at, value);
    case WEFT_FIELD_DOUBLE:
        return read_double(at, value);
    case WEFT_FIELD_DTYPE:
        return read_dtype(at, value);
    case WEFT_FIELD_DIMS:
        return read_dims(at, value);
    default:
        return weft__json_fail(at, WEFT_UNSUPPORTED, "an address cannot come from a file");
    }
}

weft_status weft__params_read(const weft_op *op, const weft__json *object, int64_t version,
                              void *params)
{
    weft_status status = weft__json_as_object(object);
    for (const weft_field *f = op->params_fields;
         status == WEFT_OK && f && f->type != WEFT_FIELD_END; f++) {
        weft__json field;
        /* For all axes the value is null, which only `find` accepts. */
        const bool may_lack = (f->type == WEFT_FIELD_BOOL && version < 4) ||
                              (f->type == WEFT_FIELD_DTYPE && version < 5);
        status = f->type == WEFT_FIELD_DIMS || may_lack ? weft__json_find(object, f->name, &field)
                                                        : weft__json_get(object, f->name, &field);
        if (status == WEFT_OK && (field.value || !may_lack)) {
            status = read_field(&field, f, (char *)params + f->offset);
        }
    }
    return status;
}

static weft_status read_encoding(const weft__json *object, weft_spec *out)
{
    const char *name = NULL;
    weft_status status = weft__json_find_string(object, "encoding", &name);
    if (status == WEFT_OK && name) {
        out->encoding = weft_encoding_find(name);
        if (!out->encoding) {
            status = weft__json_fail(object, WEFT_UNSUPPORTED, "there is no encoding '%s'",
                                     weft_printable(name));
        }
    }
    return status;
}

weft_status weft__spec_read(const weft__json *object, weft_spec *out)
{
    weft__json field;
    *out = (weft_spec){0};
    weft_status status = weft__json_get(object, "dtype", &field);
    if (status == WEFT_OK) {
        status = read_dtype(&field, &out->dtype);
    }
    if (status == WEFT_OK) {
        status = weft__json_get(object, "shape", &field);
    }
    if (status == WEFT_OK) {
        status = read_dims(&field, &out->shape);
    }
    int64_t size = 1;
    for (int i = 0; i < out->shape.n && status == WEFT_OK; i++) {
        if (out->shape.at[i] < 0 || __builtin_mul_overflow(size, out->shape.at[i], &size) ||
            size > INT64_MAX / 16) {
            status = weft__json_fail(&field, WEFT_INVALID, "expected a shape");
        }
    }
    return status == WEFT_OK ? read_encoding(object, out) : status;
}

bool weft__spec_same(const weft_spec *a, const weft_spec *b)
{
    return a->dtype == b->dtype && a->encoding == b->encoding &&
           weft__shape_equal(&a->shape, &b->shape);
}

/* ---- words ---------------------------------------------------------------------------------- */

/* axes: for each axis 0, or 1 + its symbol. NULL: all axes have the spec's lengths. */
static void append_spec(const weft_spec *spec, bool first, const unsigned char *axes,
                        weft__text *out)
{
    weft__text_format(out, "%s%s (", first ? "" : ", ", weft_dtype_name(spec->dtype));
    for (int d = 0; d < spec->shape.n; d++) {
        weft__text_append(out, ", ", d ? 2 : 0);
        if (axes && axes[d]) {
            weft__text_format(out, "%c", 'n' + axes[d] - 1);
        } else {
            weft__text_format(out, "%lld", (long long)spec->shape.at[d]);
        }
    }
    weft__text_append(out, ",)", spec->shape.n == 1 ? 2 : 0);
    weft__text_append(out, ")", spec->shape.n == 1 ? 0 : 1);
    if (spec->encoding) {
        weft__text_format(out, " as %s", spec->encoding->name);
    }
}

char *weft__signature_text(const char *name, const weft__trace *t,
                           const struct weft__symbols *symbols)
{
    weft__text out = {0};
    weft__text_format(&out, "%s(", name);
    for (int64_t i = 0; i < t->n_arguments; i++) {
        append_spec(&t->arguments[i].spec, i == 0, symbols ? symbols->axes[i] : NULL, &out);
    }
    weft__text_append(&out, ") -> (", 6);
    for (int64_t i = 0; i < t->n_outputs; i++) {
        const weft_spec *spec = weft__trace_spec(t, t->outputs[i]);
        if (symbols) {
            weft__text_format(&out, "%s%s of %d axes", i ? ", " : "", weft_dtype_name(spec->dtype),
                              spec->shape.n);
        } else {
            append_spec(spec, i == 0, NULL, &out);
        }
    }
    weft__text_append(&out, ")", 1);
    if (out.failed) {
        weft_free(out.at);
        return NULL;
    }
    return out.at;
}
