/* tests/io/test_interchange.c -- npy, npz and HDF5: files of NumPy and h5py, round trips, and
 * malformed files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/io.h"
#include "weft/ops.h"

static void check_shape(weft_array *a, weft_dims shape)
{
    CHECK_EQ_INT(weft_ndim(a), shape.n);
    for (int i = 0; i < shape.n; i++) {
        CHECK_EQ_INT(weft_dim(a, i), shape.at[i]);
    }
}

/* The elements 0 to 5 of a 2 by 3 array of the dtype. */
static void check_grid(weft_array *a, weft_dtype dtype)
{
    double got[6];
    CHECK_EQ_INT(weft_dtype_of(a), dtype);
    check_shape(a, WEFT_DIMS(2, 3));
    if (CHECK_OK(weft_read(a, WEFT_FLOAT64, got, 6))) {
        for (int i = 0; i < 6; i++) {
            CHECK_CLOSE(got[i], i, 0);
        }
    }
}

static void check_complex(weft_array *a, float imaginary)
{
    weft_complex64 got[6];
    CHECK_EQ_INT(weft_dtype_of(a), WEFT_COMPLEX64);
    if (CHECK_OK(weft_read(a, WEFT_COMPLEX64, got, 6))) {
        for (int i = 0; i < 6; i++) {
            CHECK(got[i].re == (float)i && got[i].im == imaginary);
        }
    }
}

static weft_array *npy(const char *name)
{
    char path[64];
    weft_array *a = NULL;
    snprintf(path, sizeof path, "io/%s.npy", name);
    CHECK_OK(weft_npy_load(check_fixture(path), &a));
    return a;
}

static void files_of_numpy_load(void)
{
    weft_scope_open();
    check_grid(npy("float32"), WEFT_FLOAT32);
    check_grid(npy("fortran"), WEFT_FLOAT64);
    check_grid(npy("big"), WEFT_INT32);
    check_complex(npy("big_complex"), 1);
    CHECK_EQ_INT(weft_item_int(npy("scalar")), 7);
    check_shape(npy("empty"), WEFT_DIMS(0, 3));
    weft_array *a;
    CHECK_STATUS(weft_npy_load(check_fixture("io/object.npy"), &a), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "object.npy: npy header: unsupported dtype '|O'");
    CHECK_STATUS(weft_npy_load(check_fixture("io/none.npy"), &a), WEFT_IO);
    weft_scope_close(NULL);
}

static bool same(weft_array *a, weft_array *b)
{
    return weft_item_int(
               weft_astype(weft_all(weft_equal(a, b), WEFT_ALL_AXES, false), WEFT_INT32)) == 1;
}

static void every_dtype_is_read_back(void)
{
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        const char *path = check_temporary("back.npy");
        weft_scope_open();
        weft_array *a = weft_astype(weft_arange(0, 12, 1, WEFT_FLOAT32), (weft_dtype)d), *b;
        a = weft_swapaxes(weft_reshape(a, WEFT_DIMS(3, 4)), 0, 1);
        CHECK_OK(weft_eval(a));
        CHECK_OK(weft_npy_save(path, a));
        if (CHECK_OK(weft_npy_load(path, &b))) {
            CHECK_EQ_INT(weft_dtype_of(b), d);
            check_shape(b, WEFT_DIMS(4, 3));
            CHECK(same(a, b));
        }
        weft_scope_close(NULL);
    }
}

/* ---- archives ------------------------------------------------------------------------------- */

typedef weft_status load_function(const char *path, weft_named_arrays *out);
typedef weft_status save_function(const char *path, const char *const *names,
                                  weft_array *const *arrays, int n);

static weft_status save_npz(const char *path, const char *const *names, weft_array *const *arrays,
                            int n)
{
    return weft_npz_save(path, names, arrays, n, false);
}

static weft_status save_deflated(const char *path, const char *const *names,
                                 weft_array *const *arrays, int n)
{
    return weft_npz_save(path, names, arrays, n, true);
}

static bool is_in_build(weft_status status)
{
    if (status == WEFT_UNSUPPORTED) {
        check_skip("%s", weft_error_message());
    }
    return status != WEFT_UNSUPPORTED && CHECK_EQ_INT(status, WEFT_OK);
}

static void check_sample(const weft_named_arrays *all, const char *nested)
{
    weft_array *truth = weft_named_arrays_find(all, "bool");
    CHECK_EQ_INT(weft_dtype_of(truth), WEFT_BOOL);
    CHECK_EQ_INT(weft_item_int(weft_sum(truth, WEFT_ALL_AXES, false)), 3);
    check_grid(weft_named_arrays_find(all, "half"), WEFT_FLOAT16);
    check_grid(weft_named_arrays_find(all, nested), WEFT_INT8);
    check_complex(weft_named_arrays_find(all, "complex"), -2);
    CHECK_CLOSE(weft_item(weft_named_arrays_find(all, "scalar")), 2.5, 0);
    CHECK(weft_named_arrays_find(all, "none") == NULL);
}

static void archives_of_numpy_load(void)
{
    weft_named_arrays all;
    weft_scope_open();
    if (is_in_build(weft_npz_load(check_fixture("io/stored.npz"), &all))) {
        check_sample(&all, "nested_int8");
        weft_named_arrays_free(&all);
        CHECK_OK(weft_npz_load(check_fixture("io/deflated.npz"), &all));
        CHECK_EQ_INT(all.n, 2);
        CHECK_EQ_INT(weft_size(weft_named_arrays_find(&all, "zeros")), 1000);
        CHECK_EQ_INT(
            weft_item_int(weft_sum(weft_named_arrays_find(&all, "ones"), WEFT_ALL_AXES, false)), 4);
        weft_named_arrays_free(&all);
    }
    weft_scope_close(NULL);
}

static void files_of_h5py_load(void)
{
    weft_named_arrays all;
    weft_scope_open();
    if (is_in_build(weft_hdf5_load(check_fixture("io/arrays.h5"), &all))) {
        check_sample(&all, "nested/int8");
        check_grid(weft_named_arrays_find(&all, "big"), WEFT_FLOAT32);
        check_grid(weft_named_arrays_find(&all, "chunks"), WEFT_FLOAT32);
        weft_named_arrays_free(&all);
        CHECK_STATUS(weft_hdf5_load(check_fixture("io/text.h5"), &all), WEFT_UNSUPPORTED);
        CHECK_CONTAINS(weft_error_message(), "text.h5: words: unsupported type");
        CHECK_EQ_INT(all.n, 0);
        /* found by fuzzing: the HDF5 library wrote outside of its memory */
        CHECK_STATUS(weft_hdf5_load(check_fixture("io/crash.h5"), &all), WEFT_INVALID);
        CHECK_CONTAINS(weft_error_message(), "crash.h5: the file is malformed");
        CHECK_EQ_INT(all.n, 0);
    }
    weft_scope_close(NULL);
}

static void comes_back(const char *path, save_function *save, load_function *load)
{
    static const char *const names[] = {"a", "b/c", "b/d", "e"};
    weft_array *arrays[WEFT_DTYPE_COUNT];
    weft_named_arrays all;
    for (int d = 0; d < WEFT_DTYPE_COUNT; d += 4) {
        weft_scope_open();
        int n = 0;
        for (; n < 4 && d + n < WEFT_DTYPE_COUNT; n++) {
            weft_dims shape = n == 3 ? WEFT_SCALAR : n == 2 ? WEFT_DIMS(0, 2) : WEFT_DIMS(2, 2);
            arrays[n] = weft_full(shape, n, (weft_dtype)(d + n));
        }
        CHECK_OK(weft_eval_n(arrays, n));
        if (is_in_build(save(path, names, arrays, n)) && CHECK_OK(load(path, &all))) {
            CHECK_EQ_INT(all.n, n);
            for (int i = 0; i < n; i++) {
                weft_array *b = weft_named_arrays_find(&all, names[i]);
                CHECK_EQ_INT(weft_dtype_of(b), d + i);
                check_shape(b, weft_shape(arrays[i]));
                CHECK(same(arrays[i], b));
            }
            weft_named_arrays_free(&all);
        }
        weft_scope_close(NULL);
    }
    if (is_in_build(save(path, NULL, NULL, 0)) && CHECK_OK(load(path, &all))) {
        CHECK_EQ_INT(all.n, 0);
        weft_named_arrays_free(&all);
    }
}

static void archives_are_read_back(void)
{
    comes_back(check_temporary("stored.npz"), save_npz, weft_npz_load);
    comes_back(check_temporary("deflated.npz"), save_deflated, weft_npz_load);
}

static void hdf5_files_are_read_back(void)
{
    comes_back(check_temporary("back.h5"), weft_hdf5_save, weft_hdf5_load);
}

/* ---- malformed files ------------------------------------------------------------------------ */

static void refuse(const char *dict, size_t elements, const char *why)
{
    char file[512] = "\x93NUMPY\x01";
    const char *path = check_temporary("broken.npy");
    size_t n = strlen(dict);
    weft_array *a;
    file[8] = (char)n;
    memcpy(file + 10, dict, n);
    CHECK_OK(weft_file_write(path, file, 10 + n + elements));
    weft_scope_open();
    CHECK(weft_npy_load(path, &a) != WEFT_OK);
    CHECK_CONTAINS(weft_error_message(), why);
    CHECK_CONTAINS(weft_error_message(), "broken.npy");
    weft_scope_close(NULL);
}

static void broken_headers_are_refused(void)
{
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8,
           "truncated: expected 12");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)", 12, "expected ',' or '}'");
    refuse("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}", 12, "True or False");
    refuse("{'descr': '<f4', 'shape': (3,)}", 12, "expected descr, fortran_order and shape");
    refuse("{'descr': '<f4', 'color': 3}", 12, "unknown key 'color'");
    refuse("{'descr': '<f3', 'fortran_order': False, 'shape': ()}", 12, "dtype '<f3'");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 12,
           "a size of 64 bits");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 12,
           "truncated");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 12, "a size");
    refuse("{'descr': '", 0, "the end of a string");
    refuse("", 0, "expected '{'");
}

static void broken_archives_are_refused(void)
{
    const char *path = check_temporary("broken.bin");
    weft_named_arrays all;
    CHECK_OK(weft_file_write(path, "not at all", 10));
    if (weft_npz_load(path, &all) != WEFT_UNSUPPORTED) {
        CHECK_CONTAINS(weft_error_message(), "broken.bin");
    }
    if (weft_hdf5_load(path, &all) != WEFT_UNSUPPORTED) {
        CHECK_CONTAINS(weft_error_message(), "broken.bin");
    }
    CHECK_STATUS(weft_npy_save("/no/such/folder/a.npy", weft_ones(WEFT_SCALAR, WEFT_FLOAT32)),
                 WEFT_IO);
}

/* An array of an npy file does not depend on the file any more. */
static void loaded_files_may_be_truncated(void)
{
    const char *path = check_temporary("truncated.npy");
    float values[4] = {1, 2, 3, 4}, found[4] = {0};
    weft_array *a;
    weft_scope_open();
    CHECK_OK(weft_npy_save(path, weft_from_data(values, WEFT_FLOAT32, WEFT_DIMS(4))));
    if (CHECK_OK(weft_npy_load(path, &a))) {
        CHECK_EQ_INT(truncate(path, 0), 0);
        CHECK_OK(weft_read(a, WEFT_FLOAT32, found, 4));
        CHECK_BYTES(found, values, sizeof values);
    }
    weft_scope_close(NULL);
}

CHECK_MAIN("interchange", CHECK_CASE(loaded_files_may_be_truncated),
           CHECK_CASE(files_of_numpy_load), CHECK_CASE(every_dtype_is_read_back),
           CHECK_CASE(archives_of_numpy_load), CHECK_CASE(files_of_h5py_load),
           CHECK_CASE(archives_are_read_back), CHECK_CASE(hdf5_files_are_read_back),
           CHECK_CASE(broken_headers_are_refused), CHECK_CASE(broken_archives_are_refused))
