/* tests/compile/test_reading.c -- functions that read elements of their arguments: an error in
 * every transform that calls them for their graph, with every function that reads; the right value
 * in the transforms that call them with values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/compile.h"
#include "weft/dlpack.h"
#include "weft/export.h"
#include "weft/gguf.h"
#include "weft/io.h"
#include "weft/ops.h"
#include "weft/print.h"
#include "weft/stream.h"

#define FUNCTION(name)                                                                             \
    static int name(void *context, weft_array *const *in, int n_in, weft_array **out, int room)

/* ---- readers of elements -------------------------------------------------------------------- */

/* Each reads x (1,), whose element is 3, and returns whether that worked. */
typedef bool reader(weft_array *x);

static bool item(weft_array *x)
{
    return weft_item(x) == 3;
}

static bool item_int(weft_array *x)
{
    return weft_item_int(x) == 3;
}

static bool read_float(weft_array *x)
{
    float v = 0;
    return weft_read(x, WEFT_FLOAT32, &v, 1) == WEFT_OK && v == 3;
}

static bool read_double(weft_array *x)
{
    double v = 0;
    return weft_read(x, WEFT_FLOAT64, &v, 1) == WEFT_OK && v == 3;
}

static bool data(weft_array *x)
{
    const float *v = weft_data(x);
    return v && *v == 3;
}

static bool eval(weft_array *x)
{
    return weft_eval(x) == WEFT_OK;
}

static bool eval_n(weft_array *x)
{
    return weft_eval_n((weft_array *[]){weft_ones(WEFT_DIMS(2), WEFT_FLOAT32), x}, 2) == WEFT_OK;
}

static bool eval_async(weft_array *x)
{
    return weft_eval_async(&x, 1) == WEFT_OK && weft_item(x) == 3;
}

static bool eval_on(weft_array *x)
{
    weft_stream *stream = weft_stream_new(weft_default_device());
    const bool done =
        weft_eval_on(stream, &x, 1) == WEFT_OK && weft_stream_synchronize(stream) == WEFT_OK;
    weft_stream_free(stream);
    return done;
}

static bool to_text(weft_array *x)
{
    char *text = weft_to_text(x, NULL);
    const bool done = text && strchr(text, '3');
    weft_free(text);
    return done;
}

static bool print(weft_array *x)
{
    FILE *out = tmpfile();
    const bool done = out && weft_print(x, out) == WEFT_OK;
    if (out)
        fclose(out);
    return done;
}

static bool dlpack(weft_array *x)
{
    struct DLManagedTensorVersioned *tensor;
    if (weft_to_dlpack(x, &tensor) != WEFT_OK)
        return false;
    return weft_item(weft_from_dlpack(tensor)) == 3;
}

static bool dlpack_unversioned(weft_array *x)
{
    struct DLManagedTensor *tensor;
    if (weft_to_dlpack_unversioned(x, &tensor) != WEFT_OK)
        return false;
    return weft_item(weft_from_dlpack_unversioned(tensor)) == 3;
}

static const char *const one_name[] = {"x"};

static bool save_safetensors(weft_array *x)
{
    const char *path = check_temporary("reading.safetensors");
    return weft_safetensors_save(path, one_name, &x, 1, NULL, 0) == WEFT_OK;
}

static bool save_npy(weft_array *x)
{
    return weft_npy_save(check_temporary("reading.npy"), x) == WEFT_OK;
}

static bool save_npz(weft_array *x)
{
    return weft_npz_save(check_temporary("reading.npz"), one_name, &x, 1, false) == WEFT_OK;
}

static bool save_gguf(weft_array *x)
{
    return weft_gguf_save(check_temporary("reading.gguf"), one_name, &x, 1, NULL, 0) == WEFT_OK;
}

FUNCTION(captured)
{
    (void)n_in, (void)room;
    out[0] = weft_add(in[0], context);
    return 1;
}

/* The exported function captures x, so its file contains it. */
static bool export_captured(weft_array *x)
{
    weft_array *zero = weft_zeros(WEFT_DIMS(1), WEFT_FLOAT32);
    const char *path = check_temporary("captured.safetensors");
    return weft_export(path, captured, x, &zero, 1) == WEFT_OK;
}

static const struct {
    const char *name;
    reader *read;
} readers[] = {{"item", item},
               {"item_int", item_int},
               {"read float", read_float},
               {"read double", read_double},
               {"data", data},
               {"eval", eval},
               {"eval_n", eval_n},
               {"eval_async", eval_async},
               {"eval_on", eval_on},
               {"to_text", to_text},
               {"print", print},
               {"to_dlpack", dlpack},
               {"to_dlpack_unversioned", dlpack_unversioned},
               {"safetensors", save_safetensors},
               {"npy", save_npy},
               {"npz", save_npz},
               {"gguf", save_gguf},
               {"export", export_captured}};

enum { READERS = sizeof readers / sizeof *readers };

/* ---- functions that read -------------------------------------------------------------------- */

typedef struct subject {
    int reader;
    bool computed; /* reads an array computed from the argument, not the argument */
    int calls, successes;
} subject;

FUNCTION(reading)
{
    subject *s = context;
    (void)n_in, (void)room;
    weft_array *x = s->computed ? weft_add_scalar(weft_scale(in[0], 2), -3) : in[0];
    s->calls++;
    s->successes += readers[s->reader].read(x);
    out[0] = weft_square(in[0]); /* a valid result, whatever the reading did */
    return 1;
}

FUNCTION(in_checkpoint)
{
    return weft_checkpoint(reading, context, in, n_in, out, room);
}

FUNCTION(in_custom)
{
    static const weft_custom_rules none = {0};
    return weft_custom(reading, context, &none, in, n_in, out, room);
}

FUNCTION(in_compiled)
{
    weft_compiled *compiled = NULL;
    out[0] = NULL;
    (void)room;
    if (weft_compile(reading, context, NULL, 0, NULL, &compiled) != WEFT_OK ||
        weft_compiled_call(compiled, in, n_in, out, 1) != WEFT_OK)
        out[0] = weft_square(in[0]); /* the function ignores the failure */
    weft_compiled_free(compiled);
    return 1;
}

FUNCTION(in_vjp)
{
    weft_array *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32), *gradient;
    (void)room;
    if (weft_vjp(reading, context, in, n_in, &one, out, 1, &gradient) != WEFT_OK)
        out[0] = weft_square(in[0]);
    return 1;
}

FUNCTION(in_jvp)
{
    weft_array *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32), *tangent;
    (void)room;
    if (weft_jvp(reading, context, in, n_in, &one, out, 1, &tangent) != WEFT_OK)
        out[0] = weft_square(in[0]);
    return 1;
}

static const struct {
    const char *name;
    weft_function *fn;
} functions[] = {{"directly", reading},
                 {"in a checkpoint", in_checkpoint},
                 {"in a custom function", in_custom},
                 {"in a compiled function", in_compiled},
                 {"in vjp", in_vjp},
                 {"in jvp", in_jvp}};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- transforms ----------------------------------------------------------------------------- */

static weft_array *three(void)
{
    return weft_from_data((const float[]){3}, WEFT_FLOAT32, WEFT_DIMS(1));
}

static weft_status compiled_call(weft_function *fn, subject *s)
{
    weft_array *x = three(), *out[1];
    weft_compiled *compiled = NULL;
    weft_status status = weft_compile(fn, s, NULL, 0, NULL, &compiled);
    if (status == WEFT_OK)
        status = weft_compiled_call(compiled, &x, 1, out, 1);
    weft_compiled_free(compiled);
    return status;
}

static weft_status exported(weft_function *fn, subject *s)
{
    weft_array *x = three();
    return weft_export(check_temporary("reads.safetensors"), fn, s, &x, 1);
}

static weft_status exported_shapeless(weft_function *fn, subject *s)
{
    static const uint32_t dynamic[] = {0};
    weft_array *x = three();
    weft_exporter *e;
    weft_status status = weft_exporter_new(&e);
    if (status == WEFT_OK)
        status = weft_exporter_add_shapeless(e, "f", fn, s, &x, 1, dynamic);
    weft_exporter_free(e);
    return status;
}

static bool ignore_part(void *context, const weft_export_part *part)
{
    (void)context, (void)part;
    return true;
}

static weft_status visited(weft_function *fn, subject *s)
{
    weft_array *x = three();
    return weft_export_visit(fn, s, &x, 1, ignore_part, NULL);
}

static weft_status mapped(weft_function *fn, subject *s)
{
    weft_array *x = weft_broadcast_to(three(), WEFT_DIMS(2, 1)), *out[1];
    return weft_vmap(fn, s, &x, NULL, 1, out, NULL, 1);
}

static weft_status vjp(weft_function *fn, subject *s)
{
    weft_array *x = three(), *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32), *out, *gradient;
    weft_status status = weft_vjp(fn, s, &x, 1, &one, &out, 1, &gradient);
    CHECK_CLOSE(weft_item(gradient), 6, 0);
    return status;
}

static weft_status jvp(weft_function *fn, subject *s)
{
    weft_array *x = three(), *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32), *out, *tangent;
    weft_status status = weft_jvp(fn, s, &x, 1, &one, &out, 1, &tangent);
    CHECK_CLOSE(weft_item(tangent), 6, 0);
    return status;
}

static weft_status called(weft_function *fn, subject *s)
{
    weft_array *x = three(), *out[1];
    fn(s, &x, 1, out, 1);
    return weft_eval(out[0]);
}

static const struct {
    const char *name;
    weft_status (*run)(weft_function *fn, subject *s);
    bool for_graph; /* the function gets arrays without elements */
} transforms[] = {{"compile", compiled_call, true},
                  {"export", exported, true},
                  {"shapeless export", exported_shapeless, true},
                  {"export_visit", visited, true},
                  {"vmap", mapped, true},
                  {"vjp", vjp, false},
                  {"jvp", jvp, false},
                  {"a plain call", called, false}};

enum { TRANSFORMS = sizeof transforms / sizeof *transforms };

static void check_one(int t, int f, int r, bool computed)
{
    subject s = {.reader = r, .computed = computed};
    weft_scope_open();
    const weft_status status = transforms[t].run(functions[f].fn, &s);
    char what[160];
    snprintf(what, sizeof what, "%s, %s %s, %s", readers[r].name,
             computed ? "of a computed array" : "of the argument", functions[f].name,
             transforms[t].name);
    const bool graph = transforms[t].for_graph;
    if (s.calls == 0)
        CHECK_FAIL("%s: not called", what);
    if (graph) {
        check_that(status == WEFT_INVALID, __FILE__, __LINE__, "%s: %s", what,
                   weft_status_name(status));
        CHECK_CONTAINS(weft_error_message(), "cannot read elements");
    } else {
        check_that(status == WEFT_OK, __FILE__, __LINE__, "%s: %s", what, weft_error_message());
    }
    /* Inside a transform, a compiled function is its original. */
    const bool compiles = functions[f].fn == in_compiled && transforms[t].run == called;
    const int expected = graph || compiles ? 0 : s.calls;
    check_that(s.successes == expected, __FILE__, __LINE__, "%s: read %d of %d times", what,
               s.successes, s.calls);
    weft_scope_close(NULL);
}

static void every_reader_in_every_transform(void)
{
    for (int t = 0; t < TRANSFORMS; t++)
        for (int f = 0; f < FUNCTIONS; f++)
            for (int r = 0; r < READERS; r++)
                for (int computed = 0; computed < 2; computed++)
                    check_one(t, f, r, computed);
}

/* ---- arrays that may be read ---------------------------------------------------------------- */

FUNCTION(reads_others)
{
    (void)n_in, (void)room;
    weft_array *two = weft_add_scalar(context, 1);
    out[0] = weft_scale(in[0], weft_item(two) * (double)weft_size(in[0]));
    return 1;
}

/* Arrays that do not depend on an argument have elements. */
static void captured_arrays_may_be_read(void)
{
    weft_scope_open();
    weft_array *x = three(), *one = weft_ones(WEFT_DIMS(1), WEFT_FLOAT32), *out[1];
    weft_compiled *compiled = NULL;
    CHECK_OK(weft_compile(reads_others, one, NULL, 0, NULL, &compiled));
    CHECK_OK(weft_compiled_call(compiled, &x, 1, out, 1));
    CHECK_CLOSE(weft_item(out[0]), 6, 0);
    CHECK_OK(weft_vmap(reads_others, one, &x, NULL, 1, out, NULL, 1));
    CHECK_CLOSE(weft_item(out[0]), 6, 0);
    CHECK_OK(weft_export(check_temporary("others.safetensors"), reads_others, one, &x, 1));
    weft_compiled_free(compiled);
    weft_scope_close(NULL);
}

FUNCTION(reads_once)
{
    int *reads = context;
    (void)n_in, (void)room;
    out[0] = weft_square(in[0]);
    if (*reads > 0)
        *reads -= !(weft_item(in[0]) > 0);
    return 1;
}

/* A call that failed leaves nothing behind: the next one is traced again. */
static void the_next_call_is_not_affected(void)
{
    weft_scope_open();
    weft_array *x = three(), *out[1];
    weft_compiled *compiled = NULL;
    int reads = 1;
    CHECK_OK(weft_compile(reads_once, &reads, NULL, 0, NULL, &compiled));
    CHECK_STATUS(weft_compiled_call(compiled, &x, 1, out, 1), WEFT_INVALID);
    CHECK_OK(weft_compiled_call(compiled, &x, 1, out, 1));
    CHECK_CLOSE(weft_item(out[0]), 9, 0);
    weft_compiled_free(compiled);
    weft_scope_close(NULL);
}

CHECK_MAIN("reading", CHECK_CASE(every_reader_in_every_transform),
           CHECK_CASE(captured_arrays_may_be_read), CHECK_CASE(the_next_call_is_not_affected))
