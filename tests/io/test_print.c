/* tests/io/test_print.c -- printed arrays against NumPy's text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/io.h"
#include "weft/ops.h"
#include "weft/print.h"

static char *text_of(const char *name)
{
    char tensor[64];
    snprintf(tensor, sizeof tensor, "%s/text", name);
    weft_array *bytes = golden_get(tensor);
    int64_t n = weft_size(bytes);
    char *text = calloc((size_t)n + 1, 1);
    CHECK_OK(weft_read(bytes, WEFT_UINT8, text, n));
    return text;
}

static void check_text(const char *name, weft_array *a)
{
    char *expected = text_of(name), *actual = weft_to_text(a, NULL);
    CHECK_STR(actual, expected);
    weft_free(actual);
    free(expected);
}

static void arrays_print_as_numpy_prints_them(void)
{
    static const char *const names[] = {
        "scalar", "scalar_third", "scalar_int", "scalar_f32", "scalar_true",
        "empty",  "ones",         "uneven",     "thirds",     "huge",
        "tiny",   "special",      "minus_zero", "half",       "half_large",
        "bools",  "ints",         "u64",        "i64",        "long",
        "wide",   "cube",         "four",       "deep",       "lines",
    };
    if (!golden_open("io/print")) {
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char tensor[64];
        weft_scope_open();
        snprintf(tensor, sizeof tensor, "%s/in0", names[i]);
        check_text(names[i], golden_get(tensor));
        weft_scope_close(NULL);
    }
    golden_close();
}

static void complex_numbers_print_as_numpy_prints_them(void)
{
    if (!golden_open("io/print")) {
        return;
    }
    weft_scope_open();
    weft_complex64 one[1], many[6], special[2];
    CHECK_OK(weft_read(golden_get("scalar_complex/complex"), WEFT_FLOAT32, one, 2));
    CHECK_OK(weft_read(golden_get("complex/complex"), WEFT_FLOAT32, many, 12));
    CHECK_OK(weft_read(golden_get("complex_special/complex"), WEFT_FLOAT32, special, 4));
    check_text("scalar_complex", weft_from_data(one, WEFT_COMPLEX64, WEFT_SCALAR));
    check_text("complex", weft_from_data(many, WEFT_COMPLEX64, WEFT_DIMS(2, 3)));
    check_text("complex_special", weft_from_data(special, WEFT_COMPLEX64, WEFT_DIMS(2)));
    weft_scope_close(NULL);
    golden_close();
}

static void options_and_views(void)
{
    weft_scope_open();
    weft_array *x = weft_reshape(weft_arange(0, 6, 1, WEFT_FLOAT32), WEFT_DIMS(2, 3));
    CHECK_OK(weft_eval(x));
    char *text = weft_to_text(weft_transpose(x, WEFT_DIMS(1, 0)), NULL);
    CHECK_STR(text, "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    weft_free(text);
    text = weft_to_text(weft_scale(x, 1.0 / 3), &(weft_print_options){.precision = 2});
    CHECK_STR(text, "[[0.   0.33 0.67]\n [1.   1.33 1.67]]");
    weft_free(text);
    text = weft_to_text(x, &(weft_print_options){.threshold = 5, .edge_items = 1});
    CHECK_STR(text, "[[0. ... 2.]\n [3. ... 5.]]");
    weft_free(text);
    text = weft_to_text(weft_astype(weft_scale(x, 1e-6), WEFT_FLOAT32),
                        &(weft_print_options){.suppress = true});
    CHECK_STR(text, "[[0.       0.000001 0.000002]\n [0.000003 0.000004 0.000005]]");
    weft_free(text);
    weft_array *b = weft_full(WEFT_DIMS(2), 1.0 / 3, WEFT_BFLOAT16);
    text = weft_to_text(b, NULL);
    CHECK_STR(text, "[0.334 0.334]");
    weft_free(text);
    weft_scope_close(NULL);
}

static void failures_have_a_message(void)
{
    weft_scope_open();
    CHECK(weft_to_text(weft_error_array("no such thing"), NULL) == NULL);
    CHECK_CONTAINS(weft_error_message(), "no such thing");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        CHECK_STATUS(weft_print(weft_ones(WEFT_DIMS(3), WEFT_FLOAT32), full), WEFT_IO);
        fclose(full);
    }
    weft_memory_fail_at(3);
    char *text = weft_to_text(weft_ones(WEFT_DIMS(3), WEFT_FLOAT32), NULL);
    CHECK(text == NULL || strlen(text) > 0);
    weft_memory_fail_at(0);
    weft_free(text);
    weft_scope_close(NULL);
}

CHECK_MAIN("print", CHECK_CASE(arrays_print_as_numpy_prints_them),
           CHECK_CASE(complex_numbers_print_as_numpy_prints_them), CHECK_CASE(options_and_views),
           CHECK_CASE(failures_have_a_message))
