/* tests/support/arrays.c -- named arrays from a text file of tests/golden. */
#include "tests/support/arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "weft/ops.h"

typedef struct named {
    char name[64];
    int64_t n;
    double *elements;
} named;

static named *loaded;
static int count;

static bool read_one(FILE *file, named *a)
{
    long long n;
    if (fscanf(file, "%63s %lld", a->name, &n) != 2) {
        return false;
    }
    a->n = n;
    a->elements = calloc((size_t)n + 1, sizeof *a->elements);
    for (int64_t i = 0; a->elements && i < n; i++) {
        if (fscanf(file, "%lf", &a->elements[i]) != 1) {
            free(a->elements);
            return false;
        }
    }
    return a->elements != NULL;
}

bool arrays_load(const char *fixture)
{
    arrays_unload();
    FILE *file = fopen(check_fixture(fixture), "r");
    named next;
    while (file && read_one(file, &next)) {
        named *grown = realloc(loaded, (size_t)(count + 1) * sizeof *loaded);
        if (!grown) {
            free(next.elements);
            break;
        }
        loaded = grown;
        loaded[count++] = next;
    }
    if (file) {
        fclose(file);
    }
    return count > 0;
}

void arrays_unload(void)
{
    for (int i = 0; i < count; i++) {
        free(loaded[i].elements);
    }
    free(loaded);
    loaded = NULL;
    count = 0;
}

const double *arrays_find(const char *name, int64_t *n)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(loaded[i].name, name) == 0) {
            *n = loaded[i].n;
            return loaded[i].elements;
        }
    }
    CHECK_FAIL("no array %s in the fixture", name);
    *n = 0;
    return NULL;
}

weft_array *arrays_make(const char *name, weft_dtype dtype, weft_dims shape)
{
    int64_t n, size = 1;
    const double *elements = arrays_find(name, &n);
    for (int i = 0; i < shape.n; i++) {
        size *= shape.at[i];
    }
    if (!elements || n != size) {
        CHECK_FAIL("%s: %lld elements, expected %lld", name, (long long)n, (long long)size);
        return weft_error_array("%s: wrong size", name);
    }
    return weft_astype(weft_from_data(elements, WEFT_FLOAT64, shape), dtype);
}

weft_array *arrays_sine(weft_dims shape, double start, weft_dtype dtype)
{
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++) {
        n *= shape.at[i];
    }
    weft_array *line = weft_arange(start, start + (double)n, 1, WEFT_FLOAT64);
    return weft_astype(weft_reshape(weft_sin(line), shape), dtype);
}

bool arrays_agree(weft_array *a, weft_array *b, double tolerance, const char *label)
{
    enum { MOST = 512 };
    double x[MOST], y[MOST];
    const int64_t n = weft_size(a);
    if (n != weft_size(b) || n > MOST || weft_ndim(a) != weft_ndim(b) ||
        weft_read(a, WEFT_FLOAT64, x, n) != WEFT_OK ||
        weft_read(b, WEFT_FLOAT64, y, n) != WEFT_OK) {
        return CHECK_FAIL("%s: %lld and %lld elements: %s", label, (long long)n,
                          (long long)weft_size(b), weft_error_message());
    }
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(x[i] - y[i]) <= tolerance * fmax(1, fabs(y[i])))) {
            return CHECK_FAIL("%s: element %lld: expected %.12g, got %.12g", label, (long long)i,
                              y[i], x[i]);
        }
    }
    return CHECK(true);
}

bool arrays_check(weft_array *a, const char *name, double tolerance, const char *label)
{
    int64_t n;
    const double *expected = arrays_find(name, &n);
    double *actual = calloc((size_t)n + 1, sizeof *actual);
    bool held =
        expected && actual && weft_size(a) == n && weft_read(a, WEFT_FLOAT64, actual, n) == WEFT_OK;
    if (!held) {
        CHECK_FAIL("%s, %s: %lld elements, expected %lld: %s", label, name, (long long)weft_size(a),
                   (long long)n, weft_error_message());
    }
    for (int64_t i = 0; held && i < n; i++) {
        held = fabs(actual[i] - expected[i]) <= tolerance * fmax(1, fabs(expected[i]));
        if (!held) {
            CHECK_FAIL("%s, %s: element %lld: expected %.9g, got %.9g", label, name, (long long)i,
                       expected[i], actual[i]);
        }
    }
    free(actual);
    return CHECK(held);
}
