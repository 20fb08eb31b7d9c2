/* tests/compile/test_shapeless.c -- exports for any lengths: exported functions compute the same as
 * the original, and functions that depend on lengths are refused by name. Metadata, and graphs
 * shown to a visitor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/compile/values.h"
#include "weft/export.h"
#include "weft/fft.h"
#include "weft/nn.h"
#include "weft/ops.h"

#define FUNCTION(name)                                                                             \
    static int name(void *context, weft_array *const *in, int n_in, weft_array **out, int room)
#define UNUSED (void)context, (void)n_in, (void)room

static weft_status export_to(const char *path, weft_function *fn, void *context,
                             weft_array *const *in, int n_in, const uint32_t *dynamic)
{
    weft_exporter *e;
    CHECK_OK(weft_exporter_new(&e));
    weft_status status = weft_exporter_add_shapeless(e, "main", fn, context, in, n_in, dynamic);
    if (status == WEFT_OK)
        status = weft_exporter_save(e, path);
    weft_exporter_free(e);
    return status;
}

/* ---- exported functions --------------------------------------------------------------------- */

typedef struct weights {
    weft_array *w, *b, *gain;
} weights;

/* x (B, L, 8): a layer with a norm, its heads, and a reshape that infers both axes. */
FUNCTION(layer)
{
    const weights *m = context;
    (void)n_in;
    (void)room;
    weft_array *h = weft_rms_norm(in[0], m->gain, 1e-5, 0);
    h = weft_gelu(weft_linear(h, m->w, m->b));
    weft_array *heads = weft_unflatten(h, -1, WEFT_DIMS(2, 4));
    heads = weft_softmax(weft_transpose(heads, WEFT_DIMS(0, 2, 1, 3)), -1);
    out[0] = weft_add(in[0], weft_flatten(weft_transpose(heads, WEFT_DIMS(0, 2, 1, 3)), 2, 3));
    out[1] = weft_mean(weft_reshape(out[0], WEFT_DIMS(-1, 8)), WEFT_DIMS(0), false);
    out[2] = weft_cumsum(weft_multiply(out[0], weft_expand_dims(in[1], -1)), 1, false, true);
    return 3;
}

static void a_layer_at_any_lengths(void)
{
    static const int64_t lengths[][2] = {{2, 5},   {1, 7},   {3, 1}, {8, 8},
                                         {4, 129}, {37, 39}, {1, 1}};
    static const uint32_t dynamic[] = {3, 3};
    const char *path = check_temporary("layer.safetensors");
    weft_imported *imported;
    weft_scope_open();
    weights m = {numbers(WEFT_DIMS(8, 8), 0.3), numbers(WEFT_DIMS(8), 0.7),
                 numbers(WEFT_DIMS(8), 0.9)};
    weft_array *example[] = {numbers(WEFT_DIMS(2, 3, 8), 1), numbers(WEFT_DIMS(2, 3), 1)};
    CHECK_OK(export_to(path, layer, &m, example, 2, dynamic));
    if (!CHECK_OK(weft_import(path, &imported)))
        return;
    CHECK_STR(weft_imported_signature(imported, 0),
              "main(float32 (n, o, 8), float32 (n, o)) -> (float32 of 3 axes, float32 of 1 axes, "
              "float32 of 3 axes)");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const int64_t B = lengths[i][0], L = lengths[i][1];
        weft_array *in[] = {numbers(WEFT_DIMS(B, L, 8), 0.37), numbers(WEFT_DIMS(B, L), 0.71)};
        weft_array *want[3], *got[3];
        layer(&m, in, 2, want, 3);
        weft_imported_call(imported, NULL, in, 2, got, 3);
        for (int k = 0; k < 3; k++) {
            if (!weft_ok(got[k]))
                CHECK_FAIL("(%d, %d): %s", (int)B, (int)L, weft_error(got[k]));
            else
                check_that(same_elements(got[k], want[k]), __FILE__, __LINE__,
                           "(%d, %d): result %d", (int)B, (int)L, k);
        }
    }
    weft_array *odd[] = {numbers(WEFT_DIMS(2, 5, 8), 1), numbers(WEFT_DIMS(2, 6), 1)}, *none[3];
    weft_imported_call(imported, NULL, odd, 2, none, 3);
    CHECK_CONTAINS(weft_error(none[0]), "no function (float32 (2, 5, 8), float32 (2, 6))");
    weft_imported_free(imported);
    weft_scope_close(NULL);
}

typedef struct projection {
    weft_module module;
    weft_module *proj;
} projection;

static weft_array *project(weft_module *self, weft_array *x)
{
    return weft_nn_call(((projection *)self)->proj, x);
}

static const weft_module_type projection_type = {.name = "projection", .forward = project};

static weft_module *projection_new(void)
{
    projection *m = weft_nn_new(projection, &projection_type);
    if (m == NULL)
        return NULL;
    weft_nn_child(m, proj, weft_nn_linear_new(16, 8, true));
    return weft_nn_finish(m);
}

FUNCTION(call_module)
{
    (void)n_in;
    (void)room;
    out[0] = weft_nn_call(context, in[0]);
    return 1;
}

/* Layer and adapter are computed together for many rows and apart for few, but not in exports. */
static void an_adapter_at_any_length(void)
{
    static const int64_t lengths[] = {1, 5, 63, 64, 200};
    static const uint32_t dynamic[] = {1};
    const char *path = check_temporary("adapter.safetensors");
    weft_imported *imported;
    weft_scope_open();
    weft_module *m = projection_new();
    const char *targets[] = {"proj"};
    if (CHECK(m != NULL) &&
        CHECK_OK(weft_nn_lora_inject(
            m, &(weft_nn_lora_options){.targets = targets, .n_targets = 1, .rank = 4})))
        CHECK_OK(weft_set(weft_nn_find(m, "proj.lora_B"), numbers(WEFT_DIMS(8, 4), 0.4)));
    weft_array *example[] = {numbers(WEFT_DIMS(3, 16), 1)};
    CHECK_OK(export_to(path, call_module, m, example, 1, dynamic));
    for (size_t i = 0; i < 5 && CHECK_OK(weft_import(path, &imported)); i++) {
        weft_array *x = numbers(WEFT_DIMS(lengths[i], 16), 0.37), *got;
        weft_imported_call(imported, NULL, &x, 1, &got, 1);
        got = weft_max(weft_abs(weft_subtract(got, weft_nn_call(m, x))), WEFT_ALL_AXES, false);
        CHECK_CLOSE(weft_item(got), 0, 1e-6);
        weft_imported_free(imported);
    }
    weft_nn_free(m);
    weft_scope_close(NULL);
}

/* context: the dtype of two of the numbers. */
FUNCTION(counts)
{
    (void)n_in;
    (void)room;
    const weft_dtype dtype = *(const weft_dtype *)context;
    weft_array *joined = weft_concatenate((weft_array *[]){in[0], in[0]}, 2, 0);
    out[0] = weft_number_of_elements(in[0], WEFT_ALL_AXES, false, dtype);
    out[1] = weft_number_of_elements(joined, WEFT_DIMS(0), false, dtype);
    out[2] = weft_multiply(weft_sum(in[0], WEFT_DIMS(0), false),
                           weft_number_of_elements(in[0], WEFT_DIMS(0), true, WEFT_FLOAT32));
    return 3;
}

FUNCTION(mapped_counts)
{
    (void)n_in;
    (void)room;
    CHECK_OK(weft_vmap(counts, context, in, (const int[]){1}, 1, out, NULL, 3));
    return 3;
}

static void numbers_of_elements_follow_the_lengths(void)
{
    static const weft_dtype dtypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_INT32, WEFT_INT64,
                                        WEFT_BFLOAT16};
    static const uint32_t dynamic[] = {1};
    weft_function *const functions[] = {counts, mapped_counts};
    const char *path = check_temporary("counts.safetensors");
    for (size_t i = 0; i < 10; i++) {
        weft_dtype dtype = dtypes[i / 2];
        weft_imported *imported;
        weft_scope_open();
        weft_array *x = numbers(WEFT_DIMS(5, 2), 1);
        if (CHECK_OK(export_to(path, functions[i % 2], &dtype, &x, 1, dynamic)) &&
            CHECK_OK(weft_import(path, &imported))) {
            for (int64_t n = 1; n < 300; n = 3 * n + 1) {
                weft_array *y = numbers(WEFT_DIMS(n, 2), 0.3), *want[3], *got[3];
                functions[i % 2](&dtype, &y, 1, want, 3);
                weft_imported_call(imported, NULL, &y, 1, got, 3);
                for (int k = 0; k < 3; k++)
                    check_that(weft_ok(got[k]) && same_elements(got[k], want[k]), __FILE__,
                               __LINE__, "%s, length %d: result %d", weft_dtype_name(dtype), (int)n,
                               k);
            }
            weft_imported_free(imported);
        }
        weft_scope_close(NULL);
    }
}

/* ---- refused functions ---------------------------------------------------------------------- */

FUNCTION(by_length)
{
    UNUSED;
    out[0] = weft_scale(in[0], 1 / (double)weft_dim(in[0], 0));
    return 1;
}

FUNCTION(when_long)
{
    UNUSED;
    out[0] = weft_dim(in[0], 0) > 1000000 ? weft_negative(in[0]) : in[0];
    return 1;
}

FUNCTION(by_size)
{
    UNUSED;
    out[0] = weft_scale(in[0], weft_size(in[0]) > 1 ? 2 : 3);
    return 1;
}

FUNCTION(by_shape)
{
    UNUSED;
    out[0] = weft_reshape(in[0], weft_shape(in[0]));
    return 1;
}

FUNCTION(first_6)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, 0, 6);
    return 1;
}

FUNCTION(first_two_million)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, 0, 2000000);
    return 1;
}

FUNCTION(last_20)
{
    UNUSED;
    out[0] = weft_slice_axis(in[0], 0, -20, INT64_MAX);
    return 1;
}

FUNCTION(rolled)
{
    UNUSED;
    out[0] = weft_roll(in[0], WEFT_DIMS(3), WEFT_DIMS(0));
    return 1;
}

FUNCTION(there_and_back)
{
    UNUSED;
    out[0] = weft_irfft(weft_rfft(in[0], 0, 0, WEFT_FFT_BACKWARD), 0, 0, WEFT_FFT_BACKWARD);
    return 1;
}

typedef struct refusal {
    weft_function *fn;
    const char *what;
} refusal;

static void functions_that_depend_on_lengths_are_refused(void)
{
    static const refusal refusals[] = {
        {by_length, "weft_dim of a float32 (2,) array"},
        {when_long, "weft_dim of a float32 (2,) array"},
        {by_size, "weft_size of a float32 (2,) array"},
        {by_shape, "weft_shape of a float32 (2,) array"},
        {first_6, "node 0 is slice or none"},
        {first_two_million, "node 0 is slice or none"},
        {last_20, "node 0 is slice or none"},
        {rolled, ": its "},
        {there_and_back, "irfft (node 1): its parameter n"},
    };
    static const uint32_t dynamic[] = {1};
    weft_scope_open();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const char *path = check_temporary("refused.safetensors");
        weft_array *x = numbers(WEFT_DIMS(30), 1);
        CHECK_STATUS(export_to(path, refusals[i].fn, NULL, &x, 1, dynamic), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), refusals[i].what);
        CHECK_CONTAINS(weft_error_message(), "depends on the lengths of dynamic axes");
    }
    weft_scope_close(NULL);
}

/* ---- random functions ----------------------------------------------------------------------- */

enum { MOST_STEPS = 5, LENGTHS = 20 };

typedef struct program {
    int kinds[MOST_STEPS], numbers[MOST_STEPS], axes[MOST_STEPS], n;
} program;

static unsigned draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*state >> 33);
}

static weft_array *apply_step(weft_array *x, weft_array *y, int kind, int c, int axis)
{
    axis = weft_ndim(x) > 0 ? axis % weft_ndim(x) : 0;
    switch (kind) {
    case 0:
        return weft_slice_axis(x, axis, 0, c);
    case 1:
        return weft_slice_axis(x, axis, c - 4, INT64_MAX);
    case 2:
        return weft_pad(x, axis, c % 3, c % 5, 0.5);
    case 3:
        return weft_roll(x, WEFT_DIMS(c), WEFT_DIMS(axis));
    case 4:
        return weft_flip(x, WEFT_DIMS(axis));
    case 5:
        return weft_repeat(x, 1 + c % 3, axis);
    case 6:
        return weft_reshape(x, WEFT_DIMS(-1));
    case 7:
        return weft_ndim(x) == 2 ? weft_diagonal(x, c - 4, 0, 1) : weft_expand_dims(x, 0);
    case 8:
        return weft_concatenate((weft_array *[]){x, x}, 2, axis);
    case 9:
        return weft_ndim(x) == 2 ? weft_tril(x, c - 4) : weft_tile(x, WEFT_DIMS(2));
    case 10:
        return weft_irfft(weft_rfft(x, 0, axis, WEFT_FFT_BACKWARD), 0, axis, WEFT_FFT_BACKWARD);
    case 11:
        return weft_cumsum(x, axis, c % 2, true);
    case 12:
        return weft_softmax(x, axis);
    case 13:
        return weft_mean(x, WEFT_DIMS(axis), c % 2);
    case 14:
        return weft_add(x, weft_max(x, WEFT_DIMS(axis), true));
    case 15:
        return weft_multiply(x, y);
    case 16:
        return weft_slice(x, WEFT_DIMS(axis), WEFT_DIMS(0), WEFT_DIMS(INT64_MAX),
                          WEFT_DIMS(1 + c % 3));
    case 17:
        return weft_ndim(x) == 2 ? weft_transpose(x, WEFT_DIMS(1, 0))
                                 : weft_var(x, WEFT_DIMS(axis), true, 0);
    default:
        return weft_tanh(weft_sort(x, axis));
    }
}

FUNCTION(run_program)
{
    const program *p = context;
    (void)n_in;
    (void)room;
    out[0] = in[0];
    for (int i = 0; i < p->n; i++)
        out[0] = apply_step(out[0], in[1], p->kinds[i], p->numbers[i], p->axes[i]);
    return 1;
}

/* Whether the function was written. A call gives the function's results, or an error where the
 * function has one, or (at lengths of 0 and 1) where none was written. */
static bool compare_program(unsigned seed)
{
    static const uint32_t dynamic[] = {3, 2};
    const char *path = check_temporary("program.safetensors");
    uint64_t state = seed;
    program p = {.n = 1 + (int)(draw(&state) % MOST_STEPS)};
    for (int i = 0; i < p.n; i++) {
        p.kinds[i] = (int)(draw(&state) % 19);
        p.numbers[i] = 1 + (int)(draw(&state) % 12);
        p.axes[i] = (int)(draw(&state) % 2);
    }
    weft_array *example[] = {numbers(WEFT_DIMS(3, 5), 1), numbers(WEFT_DIMS(1, 5), 1)};
    const weft_status status = export_to(path, run_program, &p, example, 2, dynamic);
    if (status != WEFT_OK)
        return false;
    weft_imported *imported;
    CHECK_OK(weft_import(path, &imported));
    for (int i = 0; i < LENGTHS; i++) {
        weft_scope_open();
        const int64_t n = draw(&state) % 30, m = draw(&state) % 30;
        weft_array *in[] = {numbers(WEFT_DIMS(n, m), 0.37), numbers(WEFT_DIMS(1, m), 0.71)};
        weft_array *want, *got;
        run_program(&p, in, 2, &want, 1);
        weft_imported_call(imported, NULL, in, 2, &got, 1);
        const bool none =
            !weft_ok(got) && (n < 2 || m < 2) && strstr(weft_error(got), "no function");
        if (!none && weft_ok(got) != weft_ok(want))
            CHECK_FAIL("seed %u at (%d, %d): exported \"%s\", plain \"%s\"", seed, (int)n, (int)m,
                       weft_ok(got) ? "" : weft_error(got), weft_ok(want) ? "" : weft_error(want));
        else if (weft_ok(got))
            check_that(same_elements(got, want), __FILE__, __LINE__, "seed %u at (%d, %d)", seed,
                       (int)n, (int)m);
        weft_scope_close(NULL);
    }
    weft_imported_free(imported);
    return true;
}

static void random_functions_keep_their_values_or_are_refused(void)
{
    const char *text = getenv("WEFT_TEST_FUNCTIONS");
    const int n = text ? atoi(text) : 300;
    int written = 0;
    for (int i = 0; i < n; i++) {
        weft_scope_open();
        written += compare_program((unsigned)i * 7919u + 3);
        weft_scope_close(NULL);
    }
    if (getenv("WEFT_TEST_VERBOSE"))
        printf("%d functions, of which %d were written\n", n, written);
    CHECK(n < 100 || (written > n / 5 && written < n));
}

/* ---- metadata ------------------------------------------------------------------------------- */

FUNCTION(doubled)
{
    UNUSED;
    out[0] = weft_scale(in[0], 2);
    return 1;
}

static void metadata_goes_through_a_file(void)
{
    const char *path = check_temporary("metadata.safetensors");
    weft_exporter *e;
    weft_imported *imported;
    weft_scope_open();
    weft_array *x = numbers(WEFT_DIMS(2), 1);
    CHECK_OK(weft_exporter_new(&e));
    CHECK_OK(weft_exporter_add(e, "main", doubled, NULL, &x, 1));
    CHECK_OK(weft_exporter_set_metadata(e, "author", "first"));
    CHECK_OK(weft_exporter_set_metadata(e, "license", "MIT \"\xc3\xa9\""));
    CHECK_OK(weft_exporter_set_metadata(e, "author", "second"));
    CHECK_STATUS(weft_exporter_set_metadata(e, "weft.functions", "mine"), WEFT_INVALID);
    CHECK_OK(weft_exporter_save(e, path));
    weft_exporter_free(e);
    if (CHECK_OK(weft_import(path, &imported))) {
        CHECK_STR(weft_imported_metadata(imported, "author"), "second");
        CHECK_STR(weft_imported_metadata(imported, "license"), "MIT \"\xc3\xa9\"");
        CHECK(weft_imported_metadata(imported, "none") == NULL);
        CHECK(weft_imported_metadata(imported, "weft.functions") == NULL);
        weft_imported_free(imported);
    }
    weft_scope_close(NULL);
}

/* ---- visitors ------------------------------------------------------------------------------- */

typedef struct seen {
    char text[1024];
    size_t n;
    int stop_at, parts;
    weft_array *constant;
} seen;

static bool note_part(void *context, const weft_export_part *part)
{
    static const char *const kinds[] = {"arguments", "constants", "node", "results"};
    seen *s = context;
    s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "%s", kinds[part->kind]);
    if (part->op)
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, " %s%s", part->op,
                                 part->params ? part->params : "?");
    for (int i = 0; i < part->n_inputs; i++)
        s->n +=
            (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, " %s", part->inputs[i].name);
    s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, " ->");
    for (int i = 0; i < part->n_outputs; i++) {
        const weft_export_array *a = &part->outputs[i];
        s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, " %s:%s/%d", a->name,
                                 weft_dtype_name(a->dtype), a->shape.n);
        s->constant = a->constant ? a->constant : s->constant;
    }
    s->n += (size_t)snprintf(s->text + s->n, sizeof s->text - s->n, "\n");
    return ++s->parts != s->stop_at;
}

FUNCTION(product_and_extremes)
{
    weft_array *w = context;
    (void)n_in;
    (void)room;
    weft_array *y = weft_matmul(in[0], w);
    weft_depends(&y, 1, in, 1, &y);
    out[0] = weft_sum(y, WEFT_DIMS(0), false);
    out[1] = in[0];
    return 2;
}

static void a_visitor_sees_the_graph(void)
{
    weft_scope_open();
    weft_array *w = numbers(WEFT_DIMS(3, 2), 1), *x = numbers(WEFT_DIMS(4, 3), 1);
    seen s = {.stop_at = -1};
    CHECK_OK(weft_export_visit(product_and_extremes, w, &x, 1, note_part, &s));
    CHECK_CONTAINS(s.text, "arguments -> a0:float32/2\nconstants -> c0:float32/2\n"
                           "node matmul{} a0 c0 -> n0:float32/2\n");
    CHECK_CONTAINS(s.text, "node sum{\"axes\":[-2],\"keepdims\":false} n0 -> n");
    CHECK_CONTAINS(s.text, "a0 ->\n");
    CHECK(strstr(s.text, "barrier") == NULL);
    CHECK(s.constant == w);
    seen stopped = {.stop_at = 2};
    CHECK_STATUS(weft_export_visit(product_and_extremes, w, &x, 1, note_part, &stopped),
                 WEFT_CANCELLED);
    CHECK_EQ_INT(stopped.parts, 2);
    weft_scope_close(NULL);
}

CHECK_MAIN("shapeless", CHECK_CASE(a_layer_at_any_lengths), CHECK_CASE(an_adapter_at_any_length),
           CHECK_CASE(numbers_of_elements_follow_the_lengths),
           CHECK_CASE(functions_that_depend_on_lengths_are_refused),
           CHECK_CASE(random_functions_keep_their_values_or_are_refused),
           CHECK_CASE(metadata_goes_through_a_file), CHECK_CASE(a_visitor_sees_the_graph))
