/* tests/compile/test_export.c -- weft/export.h: every op of the table through a file, and malformed
 * files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/cases.h"
#include "weft/compile.h"
#include "weft/export.h"
#include "weft/io.h"
#include "weft/ops.h"

/* ---- every op ------------------------------------------------------------------------------- */

typedef struct subject {
    const weft_op *op;
    weft_case c;
    int n;
} subject;

static int call_op(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    subject *s = context;
    weft_array *all[WEFT_MAX_OUTPUTS];
    (void)n_in, (void)room;
    int n = case_apply(s->op, &s->c, in, all);
    if (n == 0) {
        all[n++] = weft_error_array("refused");
    }
    memcpy(out, all, (size_t)n * sizeof *out);
    return n;
}

static bool exportable(const weft_op *op)
{
    for (const weft_field *f = op->params_fields; f && f->type != WEFT_FIELD_END; f++) {
        if (f->type == WEFT_FIELD_POINTER) {
            return false;
        }
    }
    return true;
}

static weft_dtype dtype_for(const weft_op *op)
{
    static const weft_dtype order[] = {WEFT_FLOAT32, WEFT_INT32, WEFT_UINT32,
                                       WEFT_UINT8,   WEFT_BOOL,  WEFT_COMPLEX64};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (case_takes(op, order[i])) {
            return order[i];
        }
    }
    return WEFT_FLOAT64;
}

static bool bytes_equal(weft_array *a, weft_array *b)
{
    weft_array *x = weft_contiguous(a), *y = weft_contiguous(b);
    weft_status status = weft_eval_n((weft_array *[]){x, y}, 2);
    return CHECK_OK(status) && weft_nbytes(x) == weft_nbytes(y) &&
           memcmp(weft_data(x), weft_data(y), (size_t)weft_nbytes(x)) == 0;
}

/* Calls `visit` for every op and case that a file can hold. */
static int each_case(void (*visit)(subject *s, const char *name, weft_array *const *in,
                                   void *context),
                     void *context)
{
    int count = 0;
    for (int i = 0; i < weft_op_count(); i++) {
        const weft_op *op = weft_op_at(i);
        for (int k = 0; exportable(op) && k < case_count(op); k++) {
            subject s = {.op = op, .c = case_at(op, k)};
            weft_array *in[WEFT_MAX_OPERANDS], *out[WEFT_MAX_OUTPUTS];
            char name[96];
            weft_dtype dtype = dtype_for(op);
            snprintf(name, sizeof name, "%s.%d", op->name, k);
            weft_scope_open();
            if (case_inputs(op, &s.c, dtype, dtype, CASE_PLAIN, in)) {
                s.n = case_apply(op, &s.c, in, out);
                if (s.n > 0) {
                    visit(&s, name, in, context);
                    count++;
                }
            }
            weft_scope_close(NULL);
        }
    }
    return count;
}

static void add_case(subject *s, const char *name, weft_array *const *in, void *exporter)
{
    if (weft_exporter_add(exporter, name, call_op, s, in, s->c.n_inputs) != WEFT_OK) {
        CHECK_FAIL("%s: %s", name, weft_error_message());
    }
}

typedef struct imported_case {
    const weft_imported *imported;
    const char *name;
    int n;
} imported_case;

static int call_imported(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const imported_case *c = context;
    return weft_imported_call(c->imported, c->name, in, n_in, out, room);
}

/* The gradients of both functions for cotangents of one; NULL: no gradient. */
static void compare_gradients(subject *s, const char *name, weft_array *const *in,
                              weft_array *const *outs, const weft_imported *imported)
{
    imported_case c = {imported, name, s->n};
    weft_array *ones[WEFT_MAX_OUTPUTS], *same[WEFT_MAX_OUTPUTS];
    weft_array *want[WEFT_MAX_OPERANDS], *got[WEFT_MAX_OPERANDS];
    for (int i = 0; i < s->n; i++) {
        const weft_dtype dtype = weft_dtype_of(outs[i]);
        const bool inexact = weft_is_dtype(dtype, WEFT_KIND_INEXACT);
        ones[i] = inexact ? weft_ones(weft_shape(outs[i]), dtype) : NULL;
    }
    const int n_in = s->c.n_inputs;
    const weft_status status = weft_vjp(call_op, s, in, n_in, ones, same, s->n, want);
    if (weft_vjp(call_imported, &c, in, n_in, ones, same, s->n, got) != status) {
        CHECK_FAIL("%s: gradient: %s", name, weft_error_message());
    }
    for (int i = 0; i < n_in && status == WEFT_OK; i++) {
        if (!want[i] || !got[i] ? want[i] != got[i] : !bytes_equal(want[i], got[i])) {
            CHECK_FAIL("%s: the gradient of input %d differs", name, i);
        }
    }
}

static void compare_case(subject *s, const char *name, weft_array *const *in, void *imported)
{
    weft_array *want[WEFT_MAX_OUTPUTS], *got[WEFT_MAX_OUTPUTS];
    call_op(s, in, s->c.n_inputs, want, s->n);
    weft_imported_call(imported, name, in, s->c.n_inputs, got, s->n);
    for (int i = 0; i < s->n; i++) {
        if (!weft_ok(got[i])) {
            CHECK_FAIL("%s: %s", name, weft_error(got[i]));
        } else if (!bytes_equal(want[i], got[i])) {
            CHECK_FAIL("%s: output %d differs", name, i);
        }
    }
    compare_gradients(s, name, in, want, imported);
}

static void every_op_goes_through_a_file(void)
{
    const char *path = check_temporary("ops.safetensors");
    weft_exporter *exporter;
    weft_imported *imported;
    CHECK_OK(weft_exporter_new(&exporter));
    int n = each_case(add_case, exporter);
    CHECK(n > 200);
    CHECK_OK(weft_exporter_save(exporter, path));
    weft_exporter_free(exporter);
    if (CHECK_OK(weft_import(path, &imported))) {
        CHECK_EQ_INT(weft_imported_count(imported), n);
        CHECK_EQ_INT(each_case(compare_case, imported), n);
        weft_imported_free(imported);
    }
}

/* ---- functions ------------------------------------------------------------------------------ */

/* tanh(x w + b), its sum, and a sum that waits for it. */
static int layer(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    weft_array **weights = context;
    (void)n_in, (void)room;
    out[0] = weft_tanh(weft_add(weft_matmul(in[0], weights[0]), weights[1]));
    weft_array *sum = weft_sum(out[0], WEFT_ALL_AXES, false);
    weft_depends(&sum, 1, out, 1, &out[1]);
    return 2;
}

static weft_array *ramp(weft_dims shape, double step)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    return weft_reshape(weft_scale(weft_arange(0, (double)n, 1, WEFT_FLOAT32), step), shape);
}

static weft_array *first_result(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[2];
    weft_imported_call(context, "layer", in, n_in, out, 2);
    return out[1];
}

static weft_array *second_of_layer(void *context, weft_array *const *in, int n_in)
{
    weft_array *out[2];
    layer(context, in, n_in, out, 2);
    return out[1];
}

static void a_function_with_weights_at_two_shapes(void)
{
    const char *path = check_temporary("layer.safetensors");
    weft_exporter *exporter;
    weft_imported *imported;
    weft_scope_open();
    weft_array *weights[] = {ramp(WEFT_DIMS(3, 4), 0.1), ramp(WEFT_DIMS(4), -0.2)};
    weft_array *small = ramp(WEFT_DIMS(2, 3), 0.05), *large = ramp(WEFT_DIMS(5, 3), 0.05);
    CHECK_OK(weft_eval_n((weft_array *[]){weights[0], weights[1], small, large}, 4));
    CHECK_OK(weft_exporter_new(&exporter));
    CHECK_OK(weft_exporter_add(exporter, "layer", layer, weights, &small, 1));
    CHECK_OK(weft_exporter_add(exporter, "layer", layer, weights, &large, 1));
    CHECK_STATUS(weft_exporter_add(exporter, "layer", layer, weights, &small, 1), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "there is a layer(float32 (2, 3)) already");
    CHECK_OK(weft_exporter_save(exporter, path));
    weft_exporter_free(exporter);
    weft_safetensors *file;
    CHECK_OK(weft_safetensors_open(path, &file));
    CHECK_EQ_INT(weft_safetensors_count(file), 2); /* the weights, once */
    weft_safetensors_close(file);
    if (!CHECK_OK(weft_import(path, &imported))) {
        return;
    }
    CHECK_STR(weft_imported_signature(imported, 1),
              "layer(float32 (5, 3)) -> (float32 (5, 4), float32 ())");
    CHECK(weft_imported_signature(imported, 2) == NULL);
    weft_array *inputs[] = {small, large}, *got[2], *want[2], *grad, *wanted;
    for (int i = 0; i < 2; i++) {
        layer(weights, &inputs[i], 1, want, 2);
        weft_imported_call(imported, NULL, &inputs[i], 1, got, 2);
        CHECK(bytes_equal(want[0], got[0]));
        weft_value_and_grad(first_result, imported, &inputs[i], 1, &grad);
        weft_value_and_grad(second_of_layer, weights, &inputs[i], 1, &wanted);
        CHECK(bytes_equal(wanted, grad));
    }
    weft_array *odd = ramp(WEFT_DIMS(3, 3), 1);
    weft_imported_call(imported, "layer", &odd, 1, got, 2);
    CHECK_CONTAINS(weft_error(got[1]),
                   "no function layer(float32 (3, 3)); the first of 2 is layer(");
    weft_imported_free(imported);
    weft_scope_close(NULL);
}

static int square_in_checkpoint(void *context, weft_array *const *in, int n_in, weft_array **out,
                                int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_multiply(in[0], in[0]);
    return 1;
}

static int gradient_of_checkpoint(void *context, weft_array *const *in, int n_in, weft_array **out,
                                  int room)
{
    (void)room;
    weft_array *one = weft_ones_like(in[0]);
    CHECK_OK(weft_vjp(square_in_checkpoint, context, in, n_in, &one, NULL, 1, out));
    weft_array *inner;
    weft_checkpoint(square_in_checkpoint, context, in, 1, &inner, 1);
    out[0] = weft_add(out[0], inner);
    return 1;
}

static void transforms_leave_only_values(void)
{
    const char *path = check_temporary("square.safetensors");
    weft_imported *imported;
    weft_scope_open();
    weft_array *x = ramp(WEFT_DIMS(3), 1), *y;
    CHECK_OK(weft_eval(x));
    CHECK_OK(weft_export(path, gradient_of_checkpoint, NULL, &x, 1));
    if (CHECK_OK(weft_import(path, &imported))) {
        weft_imported_call(imported, "main", &x, 1, &y, 1);
        double got[3];
        CHECK_OK(weft_read(y, WEFT_FLOAT64, got, 3));
        CHECK_CLOSE(got[2], 4 + 4, 0);
        weft_imported_free(imported);
    }
    weft_scope_close(NULL);
}

static int call_compiled(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    CHECK_OK(weft_compiled_call(context, in, n_in, out, room));
    out[0] = weft_add_scalar(out[0], 1);
    return 1;
}

static void a_function_that_calls_a_compiled_one(void)
{
    const char *path = check_temporary("nested.safetensors");
    weft_imported *imported;
    weft_compiled *inner, *outer;
    weft_scope_open();
    weft_array *x = ramp(WEFT_DIMS(3), 1), *y;
    CHECK_OK(weft_compile(square_in_checkpoint, NULL, NULL, 0, NULL, &inner));
    CHECK_OK(weft_compile(call_compiled, inner, NULL, 0, NULL, &outer));
    CHECK_OK(weft_export(path, call_compiled, outer, &x, 1));
    if (CHECK_OK(weft_import(path, &imported))) {
        weft_imported_call(imported, "main", &x, 1, &y, 1);
        double got[3];
        CHECK_OK(weft_read(y, WEFT_FLOAT64, got, 3));
        CHECK_CLOSE(got[2], 4 + 1 + 1, 0);
        weft_imported_free(imported);
    }
    weft_compiled_free(inner);
    weft_compiled_free(outer);
    weft_scope_close(NULL);
}

/* ---- encoded arrays ------------------------------------------------------------------------- */

typedef struct quantized {
    weft_array *captured;
    const weft_encoding *encoding;
} quantized;

/* By a captured weight and by one that is given; decoded, and encoded again. */
static int with_encoded(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
{
    const quantized *q = context;
    (void)n_in, (void)room;
    out[0] = weft_linear(weft_linear(in[0], q->captured, NULL), in[1], NULL);
    out[1] = weft_decode(weft_encode(weft_negative(weft_decode(in[1])), q->encoding));
    return 2;
}

static void encoded_arrays_go_through_a_file(void)
{
    const char *path = check_temporary("encoded.safetensors");
    int tried = 0;
    for (int i = 0; weft_encoding_at(i); i++) {
        const weft_encoding *e = weft_encoding_at(i);
        if (!e->encode) {
            continue;
        }
        weft_imported *imported;
        weft_scope_open();
        weft_array *w = weft_sin(weft_arange(0, 256 * 256, 1, WEFT_FLOAT32));
        w = weft_astype(weft_reshape(w, WEFT_DIMS(256, 256)), WEFT_BFLOAT16);
        quantized q = {weft_encode(w, e), e};
        weft_array *x = weft_ones(WEFT_DIMS(2, 256), WEFT_FLOAT32), *got[2], *want[2];
        weft_array *in[] = {x, weft_encode(weft_negative(w), e)};
        CHECK_OK(weft_eval_n((weft_array *[]){q.captured, in[0], in[1]}, 3));
        CHECK_OK(weft_export(path, with_encoded, &q, in, 2));
        if (CHECK_OK(weft_import(path, &imported))) {
            CHECK_CONTAINS(weft_imported_signature(imported, 0), e->name);
            with_encoded(&q, in, 2, want, 2);
            weft_imported_call(imported, "main", in, 2, got, 2);
            CHECK(bytes_equal(want[0], got[0]));
            CHECK(bytes_equal(want[1], got[1]));
            weft_imported_call(imported, "main", (weft_array *[]){x, w}, 2, got, 2);
            CHECK_CONTAINS(weft_error(got[0]), "no function");
            weft_imported_free(imported);
        }
        weft_scope_close(NULL);
        tried++;
    }
    CHECK(tried >= 21);
}

/* ---- refused files -------------------------------------------------------------------------- */

static void refuse(const char *json, const char *why)
{
    const char *path = check_temporary("broken.safetensors");
    const weft_metadata metadata = {"weft.functions", json};
    weft_imported *imported;
    weft_scope_open();
    weft_array *c = weft_ones(WEFT_DIMS(2), WEFT_FLOAT32);
    CHECK_OK(weft_safetensors_save(path, (const char *[]){"c0"}, &c, 1, &metadata, 1));
    CHECK(weft_import(path, &imported) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), why);
    CHECK_CONTAINS(weft_error_message(), "broken.safetensors");
    CHECK(imported == NULL);
    weft_scope_close(NULL);
}

#define FILE_WITH(nodes, results) FILE_OF("5", nodes, results)
#define FILE_OF(version, nodes, results)                                                           \
    "{\"version\":" version                                                                        \
    ",\"functions\":[{\"name\":\"f\",\"arguments\":[{\"dtype\":\"float32\","                       \
    "\"shape\":[2]}],\"nodes\":[" nodes "],\"results\":[" results "]}]}"
#define NODE(op, inputs, params, output)                                                           \
    "{\"id\":3,\"op\":\"" op "\",\"inputs\":[" inputs "],\"params\":{" params "},\"outputs\":["    \
    "{\"dtype\":\"float32\",\"shape\":[" output "]}]}"

static void broken_files_are_refused(void)
{
    refuse("{\"version\":6}", "expected at most 5, got 6");
    refuse("{}", "version");
    refuse("[]", "expected object");
    refuse(FILE_WITH(NODE("add", "\"a0\",\"c0\"", "", "3"), "\"n3\""),
           "nodes[0].outputs[0]: add gives float32 (2,), the file says float32 (3,)");
    refuse(FILE_WITH(NODE("no_such_op", "\"a0\"", "", "2"), "\"n3\""),
           "there is no op 'no_such_op'");
    refuse(FILE_WITH(NODE("add", "\"a0\"", "", "2"), "\"n3\""), "expected 2 inputs, got 1");
    refuse(FILE_WITH(NODE("add", "\"a0\",\"n3\"", "", "2"), "\"n3\""), "no array 'n3' before it");
    refuse(FILE_WITH(NODE("add", "\"a0\",\"a1\"", "", "2"), "\"n3\""), "no array 'a1'");
    refuse(FILE_WITH(NODE("add", "\"a0\",\"c7\"", "", "2"), "\"n3\""), "no array 'c7'");
    refuse(FILE_WITH(NODE("add", "\"a0\",\"c0\"", "", "2"), "\"n3.1\""), "no array 'n3.1'");
    refuse(FILE_WITH(NODE("sum", "\"a0\"", "\"axes\":[-1]", ""), "\"n3\""), "keepdims");
    refuse(FILE_WITH(NODE("sum", "\"a0\"", "\"axes\":[-9],\"keepdims\":false", ""), "\"n3\""),
           "sum");
    refuse("{\"version\":1,\"functions\":[{\"name\":\"f\",\"arguments\":[{\"dtype\":\"float32\","
           "\"shape\":[-2]}]}]}",
           "expected a shape");
#define ENCODED(spec)                                                                              \
    "{\"version\":2,\"encoded\":{\"c0\":" spec "},\"functions\":[{\"name\":\"f\",\"arguments\":"   \
    "[],\"nodes\":[],\"results\":[\"c0\"]}]}"
    refuse(ENCODED("{\"dtype\":\"bfloat16\",\"shape\":[1,64],\"encoding\":\"mxfp4\"}"),
           "encoded.c0: its bytes are not those of an array as mxfp4");
    refuse(ENCODED("{\"dtype\":\"bfloat16\",\"shape\":[1,64],\"encoding\":\"x\"}"),
           "there is no encoding 'x'");
    refuse(ENCODED("{\"dtype\":\"bfloat16\",\"shape\":[1,64]}"), "expected an encoding");
    const char *path = check_temporary("plain.safetensors");
    weft_imported *imported;
    weft_scope_open();
    weft_array *c = weft_ones(WEFT_DIMS(2), WEFT_FLOAT32);
    CHECK_OK(weft_safetensors_save(path, (const char *[]){"w"}, &c, 1, NULL, 0));
    CHECK_STATUS(weft_import(path, &imported), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "no exported functions");
    weft_scope_close(NULL);
}

static void check_earlier_linear(const char *version, const char *params)
{
    char json[512];
    snprintf(json, sizeof json, FILE_OF("%s", NODE("linear", "\"a0\",\"c0\"", "%s", "1"), "\"n3\""),
             version, params);
    const char *path = check_temporary("earlier.safetensors");
    const weft_metadata metadata = {"weft.functions", json};
    weft_imported *imported;
    weft_scope_open();
    weft_array *c = weft_full(WEFT_DIMS(1, 2), 3, WEFT_FLOAT32), *y;
    weft_array *x = weft_ones(WEFT_DIMS(2), WEFT_FLOAT32);
    CHECK_OK(weft_safetensors_save(path, (const char *[]){"c0"}, &c, 1, &metadata, 1));
    if (CHECK_OK(weft_import(path, &imported))) {
        weft_imported_call(imported, "f", &x, 1, &y, 1);
        CHECK_CLOSE(weft_item(y), 6, 0);
        weft_imported_free(imported);
    }
    weft_scope_close(NULL);
}

/* A linear from before it had a flag for 8-bit activations, and from before it had a dtype. */
static void files_without_newer_parameters_are_read(void)
{
    check_earlier_linear("3", "\"transposed\":false");
    check_earlier_linear("4", "\"transposed\":false,\"int8\":false");
}

static int read_an_element(void *context, weft_array *const *in, int n_in, weft_array **out,
                           int room)
{
    (void)context, (void)n_in, (void)room;
    out[0] = weft_item(in[0]) > 0 ? in[0] : weft_negative(in[0]);
    return 1;
}

static void reading_elements_cannot_be_exported(void)
{
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_SCALAR, WEFT_FLOAT32);
    weft_exporter *exporter;
    CHECK_OK(weft_exporter_new(&exporter));
    (void)weft_exporter_add(exporter, "f", read_an_element, NULL, &x, 1);
    CHECK_CONTAINS(weft_error_message(), "cannot read elements");
    weft_exporter_free(exporter);
    weft_scope_close(NULL);
}

CHECK_MAIN("export", CHECK_CASE(every_op_goes_through_a_file),
           CHECK_CASE(a_function_with_weights_at_two_shapes),
           CHECK_CASE(transforms_leave_only_values),
           CHECK_CASE(a_function_that_calls_a_compiled_one),
           CHECK_CASE(encoded_arrays_go_through_a_file), CHECK_CASE(broken_files_are_refused),
           CHECK_CASE(files_without_newer_parameters_are_read),
           CHECK_CASE(reading_elements_cannot_be_exported))
