/* tests/io/test_gguf.c -- GGUF: block types against the gguf package, round trips, and errors that
 * name file and tensor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"
#include "tests/support/golden.h"
#include "weft/gguf.h"
#include "weft/ops.h"
#include "weft/quantize.h"
#include "weft/random.h"

static const char *const types[] = {"Q4_0", "Q4_1", "Q5_0", "Q5_1",   "Q8_0",   "Q2_K", "Q3_K",
                                    "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"};
enum { N_TYPES = sizeof types / sizeof *types, ROWS = 3, WIDTH = 1024 };

static const char *called(const char *type, const char *what)
{
    static char name[64];
    snprintf(name, sizeof name, "%s/%s", type, what);
    return name;
}

/* The golden blocks as an encoded array, without a copy. */
static weft_array *golden_blocks(const char *type, weft_dtype dtype)
{
    weft_array *blocks = golden_get(called(type, "blocks"));
    const weft_encoding *e = weft_gguf_encoding(type);
    if (blocks == NULL || !CHECK(e != NULL))
        return NULL;
    weft_keep(blocks);
    CHECK_EQ_INT(weft_nbytes(blocks), weft_encoding_bytes(e, ROWS * WIDTH));
    return weft_from_blocks((void *)weft_data(blocks), e, dtype, WEFT_DIMS(ROWS, WIDTH),
                            (void (*)(void *))weft_drop, blocks);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static void blocks_are_the_packages(void)
{
    if (!golden_open("io/gguf_blocks"))
        return;
    for (int t = 0; t < N_TYPES; t++) {
        weft_scope_open();
        weft_array *a = golden_blocks(types[t], WEFT_FLOAT32);
        weft_array *values = golden_get(called(types[t], "values"));
        weft_array *decoded = weft_decode(a);
        float reference[WIDTH];
        const weft_encoding *e = weft_encoding_of(a);
        e->decode(e, weft_data(golden_get(called(types[t], "blocks"))), WIDTH, reference);
        if (!CHECK_BYTES(weft_data(decoded), weft_data(values), sizeof(float[ROWS * WIDTH])) ||
            !CHECK_BYTES(reference, weft_data(values), sizeof reference))
            printf("  of %s\n", types[t]);
        weft_scope_close(NULL);
    }
}

/* The three tensors that MLX loads. */
static void parts_are_those_of_mlx(void)
{
    static const char *const split[] = {"Q4_0", "Q4_1", "Q8_0"}, *const names[] = {
                                                                     "weight", "scales", "biases"};
    weft_scope_open();
    weft_array *parts[3][3];
    if (!golden_open("io/gguf_blocks"))
        return;
    for (int t = 0; t < 3; t++) {
        weft_split_encoded(golden_blocks(split[t], WEFT_FLOAT32), parts[t]);
        CHECK_OK(weft_eval_n(parts[t], 3));
    }
    if (!golden_open("io/gguf_triples"))
        return;
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < 3; i++) {
            weft_array *want = golden_get(called(split[t], names[i]));
            CHECK_EQ_INT(weft_dtype_of(parts[t][i]), weft_dtype_of(want));
            CHECK_EQ_INT(weft_nbytes(parts[t][i]), weft_nbytes(want));
            CHECK_BYTES(weft_data(parts[t][i]), weft_data(want), (size_t)weft_nbytes(want));
        }
    }
    weft_scope_close(NULL);
    golden_close();
}

static void encoded_blocks_are_the_packages(void)
{
    static const char *const made[] = {"Q4_0", "Q8_0"};
    if (!golden_open("io/gguf_blocks"))
        return;
    for (int t = 0; t < 2; t++) {
        weft_scope_open();
        weft_array *x = golden_get(called(made[t], "numbers"));
        weft_array *bytes = golden_get(called(made[t], "made"));
        weft_array *y = weft_encode(x, weft_gguf_encoding(made[t]));
        const char *path = check_temporary("made.gguf"), *name = "x";
        weft_gguf *file;
        weft_array *again = NULL;
        if (CHECK_OK(weft_gguf_save(path, &name, &y, 1, NULL, 0)) &&
            CHECK_OK(weft_gguf_open(path, &file))) {
            again = weft_decode(weft_gguf_get(file, name));
            const weft_encoding *e = weft_encoding_of(y);
            float *values = malloc(sizeof(float) * (size_t)weft_size(x));
            e->decode(e, weft_data(bytes), weft_size(x), values);
            CHECK_BYTES(weft_data(again), values, sizeof(float) * (size_t)weft_size(x));
            free(values);
            weft_gguf_close(file);
        }
        weft_scope_close(NULL);
    }
}

static double root_mean_square(weft_array *a, weft_array *b)
{
    return sqrt(weft_item(weft_mean(weft_square(weft_subtract(a, b)), WEFT_ALL_AXES, false)));
}

/* Normal numbers have about the error of such codes with a scale for each group; values that are
 * hard to encode are encoded, too. */
static void made_blocks_of_256(void)
{
    static const struct {
        const char *type, *simpler; /* has a larger error */
        double least, most;         /* of a standard deviation of 1 */
    } made[] = {{"Q4_K", "Q4_0", 0.04, 0.075},
                {"Q5_K", "Q4_K", 0.02, 0.036},
                {"Q6_K", "Q5_K", 0.01, 0.019}};
    for (size_t t = 0; t < sizeof made / sizeof *made; t++) {
        weft_scope_open();
        weft_array *key = weft_random_key(3);
        weft_array *x = weft_keep(weft_random_normal(key, WEFT_DIMS(64, 512), 0, 1, WEFT_FLOAT32));
        const weft_encoding *e = weft_gguf_encoding(made[t].type);
        const double error = root_mean_square(weft_decode(weft_encode(x, e)), x);
        const double simpler =
            root_mean_square(weft_decode(weft_encode(x, weft_gguf_encoding(made[t].simpler))), x);
        printf("  %s: root mean square error %.5f\n", made[t].type, error);
        CHECK(error < made[t].most && error > made[t].least);
        CHECK(error < simpler);
        /* Numbers of one sign, and a group that is much smaller than its neighbors. */
        weft_array *positive = weft_add(weft_abs(x), weft_scalar(0.5, WEFT_FLOAT32));
        CHECK(root_mean_square(weft_decode(weft_encode(positive, e)), positive) < 2 * made[t].most);
        weft_drop(x);
        float odd[256] = {NAN, 1e30f, -1e30f, 1e-30f};
        weft_array *y =
            weft_decode(weft_encode(weft_from_data(odd, WEFT_FLOAT32, WEFT_DIMS(256)), e));
        CHECK_OK(weft_eval(y));
        weft_array *zeros = weft_zeros(WEFT_DIMS(2, 256), WEFT_FLOAT32);
        CHECK_CLOSE(root_mean_square(weft_decode(weft_encode(zeros, e)), zeros), 0, 0);
        weft_array *same = weft_full_like(zeros, 0.25);
        CHECK_CLOSE(root_mean_square(weft_decode(weft_encode(same, e)), same), 0, 1e-3);
        weft_scope_close(NULL);
    }
}

/* ---- Use ------------------------------------------------------------------------------------ */

/* y and dx of a linear layer, few rows and many, and rows by index, against the decoded matrix. */
static void matrices_in_blocks(void)
{
    static const int64_t heights[] = {1, 3, 7, 13, 40};
    if (!golden_open("io/gguf_blocks"))
        return;
    for (int t = 0; t < N_TYPES; t++) {
        for (int h = 0; h < 5; h++) {
            weft_scope_open();
            weft_array *key = weft_random_key((uint64_t)(10 * t + h));
            weft_array *x =
                weft_random_normal(key, WEFT_DIMS(heights[h], WIDTH), 0, 1e-3, WEFT_FLOAT32);
            weft_array *w = golden_blocks(types[t], WEFT_FLOAT32), *dense = weft_decode(w);
            weft_array *y = weft_linear(x, w, NULL), *expected = weft_linear(x, dense, NULL);
            /* Sums of 1024 products in another order: errors grow with the products' sizes. */
            weft_array *bound = weft_linear(weft_abs(x), weft_abs(dense), NULL);
            weft_array *off = weft_divide(weft_abs(weft_subtract(y, expected)), bound);
            const int32_t which[] = {2, 0, 2};
            weft_array *rows = weft_from_data(which, WEFT_INT32, WEFT_DIMS(3));
            weft_array *same =
                weft_array_equal(weft_take(w, rows, 0), weft_take(dense, rows, 0), false);
            if (!CHECK(weft_item(weft_max(off, WEFT_ALL_AXES, false)) < 1e-6))
                printf("  of %s with %d rows\n", types[t], (int)heights[h]);
            CHECK(weft_item(same) == 1);
            weft_scope_close(NULL);
        }
    }
}

/* ---- Files ---------------------------------------------------------------------------------- */

#define STRING(text)                                                                               \
    {                                                                                              \
        text, sizeof text - 1                                                                      \
    }

static void values_came_back(const weft_gguf *file)
{
    int64_t whole = 0;
    double number = 0;
    weft_gguf_string s = {0};
    CHECK_EQ_INT(weft_gguf_version(file), 3);
    CHECK_EQ_INT(weft_gguf_value_count(file), 8);
    CHECK(weft_gguf_value_string(weft_gguf_value_find(file, "general.architecture"), 0, &s) &&
          s.n == 5 && memcmp(s.at, "llama", 5) == 0);
    CHECK(weft_gguf_value_int(weft_gguf_value_find(file, "numbers"), 2, &whole));
    CHECK_EQ_INT(whole, 0xffffffff);
    CHECK(!weft_gguf_value_int(weft_gguf_value_find(file, "numbers"), 3, &whole));
    CHECK(!weft_gguf_value_int(weft_gguf_value_find(file, "large"), 0, &whole));
    CHECK(weft_gguf_value_number(weft_gguf_value_find(file, "large"), 0, &number));
    CHECK_RELATIVE(number, 0x1p64, 0);
    CHECK(!weft_gguf_value_int(weft_gguf_value_find(file, "half"), 0, &whole));
    CHECK(weft_gguf_value_number(weft_gguf_value_find(file, "half"), 0, &number));
    CHECK_CLOSE(number, 0.5, 0);
    CHECK(weft_gguf_value_int(weft_gguf_value_find(file, "minus"), 0, &whole));
    CHECK_EQ_INT(whole, -5);
    CHECK(weft_gguf_value_string(weft_gguf_value_find(file, "list"), 2, &s) && s.n == 2);
    CHECK_EQ_INT(weft_gguf_value_find(file, "none")->count, 0);
    CHECK(weft_gguf_value_find(file, "absent") == NULL);
}

static void written_files_are_read_back(void)
{
    const char *path = check_temporary("back.gguf");
    const uint32_t three = 3, numbers[] = {1, 2, 0xffffffff};
    const uint64_t large = UINT64_MAX;
    const double half = 0.5;
    const int8_t minus = -5;
    const weft_gguf_string text = STRING("llama"),
                           list[] = {STRING("a"), STRING(""), STRING("\0b")};
    const weft_gguf_value values[] = {
        {"general.architecture", WEFT_GGUF_STRING, false, 1, NULL, &text},
        {"three", WEFT_GGUF_UINT32, false, 1, &three, NULL},
        {"numbers", WEFT_GGUF_UINT32, true, 3, numbers, NULL},
        {"large", WEFT_GGUF_UINT64, false, 1, &large, NULL},
        {"half", WEFT_GGUF_FLOAT64, false, 1, &half, NULL},
        {"minus", WEFT_GGUF_INT8, false, 1, &minus, NULL},
        {"list", WEFT_GGUF_STRING, true, 3, NULL, list},
        {"none", WEFT_GGUF_STRING, true, 0, NULL, NULL},
    };
    weft_scope_open();
    weft_array *x = weft_arange(0, 24, 1, WEFT_FLOAT32);
    weft_array *arrays[] = {
        weft_swapaxes(weft_reshape(x, WEFT_DIMS(4, 6)), 0, 1), weft_astype(x, WEFT_BFLOAT16),
        weft_zeros(WEFT_DIMS(0, 3), WEFT_INT32),
        weft_encode(weft_reshape(weft_arange(0, 64, 1, WEFT_FLOAT32), WEFT_DIMS(2, 32)),
                    weft_gguf_encoding("Q8_0"))};
    const char *names[] = {"z", "b", "empty", "q"};
    weft_gguf *file = NULL;
    if (CHECK_OK(weft_gguf_save(path, names, arrays, 4, values, 8)) &&
        CHECK_OK(weft_gguf_open(path, &file))) {
        values_came_back(file);
        CHECK_EQ_INT(weft_gguf_count(file), 4);
        for (int i = 0; i < 4; i++) {
            weft_array *a = weft_gguf_get(file, names[i]);
            CHECK_STR(weft_gguf_type_of(a), weft_gguf_type_of(arrays[i]));
            CHECK(weft_item(weft_array_equal(weft_decode(a), weft_decode(arrays[i]), false)) == 1);
        }
        CHECK_CONTAINS(weft_error(weft_gguf_get(file, "none")), "there is no tensor 'none'");
        weft_array *row =
            weft_gguf_get_rows(file, weft_gguf_find(file, "q"), 1, WEFT_DIMS(1, 32), WEFT_BFLOAT16);
        CHECK_EQ_INT(weft_dtype_of(row), WEFT_BFLOAT16);
        CHECK_CLOSE(weft_item(weft_max(weft_decode(row), WEFT_ALL_AXES, false)), 63, 0.5);
        CHECK(!weft_ok(weft_gguf_get_rows(file, 3, 6, WEFT_DIMS(1, 4), WEFT_FLOAT32)));
    }
    weft_gguf_close(file);
    weft_gguf_close(NULL);
    weft_scope_close(NULL);
}

static void all_at_once(void)
{
    weft_scope_open();
    weft_named_arrays arrays;
    weft_gguf *file = NULL;
    const char *path = check_source("tests/fuzz/corpus/gguf/small.gguf");
    if (CHECK_OK(weft_gguf_load(path, &arrays, &file))) {
        CHECK_EQ_INT(arrays.n, 5);
        CHECK_STR(weft_encoding_of(weft_named_arrays_find(&arrays, "q4"))->name, "q4_k");
        CHECK_EQ_INT(weft_dim(weft_named_arrays_find(&arrays, "i8"), 1), 3);
        CHECK(weft_gguf_value_find(file, "n") != NULL);
        weft_gguf_close(file); /* arrays stay */
        CHECK_CLOSE(
            weft_item(weft_sum(weft_named_arrays_find(&arrays, "f32"), WEFT_ALL_AXES, false)), 66,
            0);
        weft_named_arrays_free(&arrays);
    }
    weft_scope_close(NULL);
}

/* ---- Malformed files ------------------------------------------------------------------------ */

typedef struct bytes {
    char at[4096];
    size_t n;
} bytes;

static void put(bytes *b, const void *data, size_t n)
{
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void put32(bytes *b, uint32_t x)
{
    put(b, &x, sizeof x);
}

static void put64(bytes *b, uint64_t x)
{
    put(b, &x, sizeof x);
}

static void put_text(bytes *b, const char *text)
{
    put64(b, strlen(text));
    put(b, text, strlen(text));
}

static bytes start(uint32_t version, uint64_t tensors, uint64_t values)
{
    bytes b = {.n = 0};
    put(&b, "GGUF", 4);
    put32(&b, version);
    put64(&b, tensors);
    put64(&b, values);
    return b;
}

/* A tensor of two dims. */
static void put_tensor(bytes *b, const char *name, uint64_t columns, uint64_t rows, uint32_t type,
                       uint64_t offset)
{
    put_text(b, name);
    put32(b, 2);
    put64(b, columns);
    put64(b, rows);
    put32(b, type);
    put64(b, offset);
}

/* With `data` bytes after the header. */
static void refused(bytes b, size_t data, weft_status status, const char *part)
{
    static const char zeros[1024];
    const char *path = check_temporary("bad.gguf");
    weft_gguf *file;
    FILE *f = fopen(path, "wb");
    if (!CHECK(f != NULL))
        return;
    fwrite(b.at, 1, b.n, f);
    if (data > 0) {
        fwrite(zeros, 1, (32 - b.n % 32) % 32, f);
        fwrite(zeros, 1, data, f);
    }
    fclose(f);
    CHECK_STATUS(weft_gguf_open(path, &file), status);
    CHECK(file == NULL);
    CHECK_CONTAINS(weft_error_message(), "bad.gguf");
    CHECK_CONTAINS(weft_error_message(), part);
}

/* MLX writes tensors of up to 8 dims. */
static void eight_dims_are_read(void)
{
    const char *path = check_temporary("deep.gguf");
    static const float values[32] = {[5] = 7};
    bytes b = start(3, 1, 0);
    weft_gguf *file = NULL;
    put_text(&b, "w");
    put32(&b, 8);
    for (int i = 0; i < 8; i++)
        put64(&b, i < 5 ? 2 : 1);
    put32(&b, 0);
    put64(&b, 0);
    FILE *f = fopen(path, "wb");
    if (!CHECK(f != NULL))
        return;
    fwrite(b.at, 1, b.n, f);
    fwrite((char[32]){0}, 1, (32 - b.n % 32) % 32, f);
    fwrite(values, 1, sizeof values, f);
    fclose(f);
    if (!CHECK_OK(weft_gguf_open(path, &file)))
        return;
    weft_scope_open();
    weft_array *w = weft_gguf_get(file, "w");
    CHECK_EQ_INT(weft_ndim(w), 8);
    CHECK_EQ_INT(weft_dim(w, 0), 1);
    CHECK_EQ_INT(weft_dim(w, 3), 2);
    CHECK_CLOSE(weft_item(weft_slice_axis(weft_reshape(w, WEFT_DIMS(32)), 0, 5, 6)), 7, 0);
    weft_scope_close(NULL);
    weft_gguf_close(file);
}

static void bad_starts(void)
{
    bytes b = {.at = "GGML", .n = 4};
    refused((bytes){.n = 0}, 0, WEFT_INVALID, "truncated: the magic number");
    refused(b, 100, WEFT_INVALID, "expected GGUF");
    refused(start(1, 0, 0), 0, WEFT_UNSUPPORTED, "expected version 2 or 3, found 1");
    refused(start(3 << 24, 0, 0), 0, WEFT_UNSUPPORTED, "big-endian");
    refused(start(3, UINT64_MAX, 0), 0, WEFT_INVALID, "18446744073709551615 tensors");
    refused(start(3, 0, 5), 0, WEFT_INVALID, "5 values in a file of 24 bytes");
}

static void bad_values(void)
{
    bytes b = start(3, 0, 1);
    put64(&b, UINT64_MAX);
    put64(&b, 0);
    refused(b, 0, WEFT_INVALID, "a key: a string of 18446744073709551615 bytes");
    b = start(3, 0, 1);
    put_text(&b, "key");
    put32(&b, 13);
    refused(b, 8, WEFT_INVALID, "'key': expected a value type of 0 to 12, found 13");
    b.n -= 4;
    put32(&b, WEFT_GGUF_ARRAY);
    put32(&b, WEFT_GGUF_ARRAY);
    put64(&b, 1);
    refused(b, 8, WEFT_UNSUPPORTED, "arrays of arrays");
    b.n -= 12;
    put32(&b, WEFT_GGUF_UINT64);
    put64(&b, UINT64_C(1) << 61);
    refused(b, 8, WEFT_INVALID, "2305843009213693952 elements");
    b.n -= 12;
    put32(&b, WEFT_GGUF_STRING);
    put64(&b, 40);
    refused(b, 8, WEFT_INVALID, "'key': 40 strings in");
    b = start(3, 0, 1);
    put_text(&b, "flag");
    put32(&b, WEFT_GGUF_BOOL);
    put(&b, "\2", 1);
    refused(b, 8, WEFT_INVALID, "expected a bool of 0 or 1, found 2");
    b = start(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&b, "key");
        put32(&b, WEFT_GGUF_UINT8);
        put(&b, "\1", 1);
    }
    refused(b, 8, WEFT_INVALID, "'key' is there twice");
    b = start(3, 0, 1);
    put_text(&b, "general.alignment");
    put32(&b, WEFT_GGUF_UINT32);
    put32(&b, 24);
    refused(b, 8, WEFT_INVALID, "expected a power of two");
}

static void bad_tensors(void)
{
    bytes b = start(2, 1, 0);
    put_tensor(&b, "w", 4, 2, 0, 0);
    refused(b, 31, WEFT_INVALID,
            "tensor 'w': expected 32 bytes at offset 0, found 31 bytes of data");
    b = start(3, 1, 0);
    put_tensor(&b, "w", 4, 2, 0, 4);
    refused(b, 128, WEFT_INVALID, "expected an offset that is a multiple of 32, found 4");
    b = start(3, 1, 0);
    put_tensor(&b, "w", UINT64_C(1) << 40, UINT64_C(1) << 40, 0, 0);
    refused(b, 128, WEFT_INVALID, "too many elements");
    b = start(3, 1, 0);
    put_tensor(&b, "w", 48, 2, 2, 0);
    refused(b, 128, WEFT_INVALID, "a multiple of 32 for Q4_0, found 48");
    b = start(3, 1, 0);
    put_tensor(&b, "w", 32, 2, 0, UINT64_MAX - 31);
    refused(b, 128, WEFT_INVALID, "tensor 'w': expected 256 bytes at offset 18446744073709551584");
    b = start(3, 2, 0);
    put_tensor(&b, "v", 32, 1, 0, 0);
    put_tensor(&b, "w", 32, 1, 0, 96);
    refused(b, 512, WEFT_INVALID, "tensor 'w' overlaps 'v'");
    b = start(3, 2, 0);
    put_tensor(&b, "w", 32, 1, 0, 0);
    put_tensor(&b, "w", 32, 1, 0, 128);
    refused(b, 512, WEFT_INVALID, "tensor 'w' is there twice");
    b = start(3, 2, 0);
    put_tensor(&b, "v", 256, 1, 17, 0);
    put_tensor(&b, "w", 32, 1, 99, 96);
    refused(b, 512, WEFT_UNSUPPORTED,
            "unsupported types of 2 tensors: IQ2_XS (v), type 99 (w); supported are F32");
    b = start(3, 1, 0);
    put_text(&b, "w");
    put32(&b, 9);
    put64(&b, 1);
    put64(&b, 1);
    refused(b, 128, WEFT_INVALID, "expected at most 8 dims, found 9");
}

static void values_that_cannot_be_written(void)
{
    const char *path = check_temporary("no.gguf"), *names[] = {"x", "x"};
    weft_scope_open();
    weft_array *x = weft_ones(WEFT_DIMS(2, 64), WEFT_FLOAT32), *two[] = {x, x};
    weft_array *u = weft_ones(WEFT_DIMS(2), WEFT_UINT32);
    weft_array *affine = weft_encode(x, weft_encoding_find("affine-4-64-float32"));
    weft_array *deep = weft_ones(WEFT_DIMS(1, 1, 1, 1, 1), WEFT_FLOAT32);
    CHECK_STATUS(weft_gguf_save(path, names, two, 2, NULL, 0), WEFT_INVALID);
    CHECK_STATUS(weft_gguf_save(path, names, &u, 1, NULL, 0), WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "tensor 'x': GGUF has no type for uint32");
    CHECK_STATUS(weft_gguf_save(path, names, &affine, 1, NULL, 0), WEFT_UNSUPPORTED);
    CHECK_STATUS(weft_gguf_save(path, names, &deep, 1, NULL, 0), WEFT_INVALID);
    const weft_gguf_value bad = {"k", WEFT_GGUF_UINT32, false, 2, path, NULL};
    CHECK_STATUS(weft_gguf_save(path, names, &x, 1, &bad, 1), WEFT_INVALID);
    weft_array *q = weft_encode(x, weft_gguf_encoding("Q8_0"));
    CHECK_STATUS(weft_safetensors_save(path, names, &q, 1, NULL, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "decode it first");
    CHECK(!weft_ok(weft_from_blocks(NULL, weft_gguf_encoding("Q4_K"), WEFT_FLOAT32,
                                    WEFT_DIMS(2, 64), NULL, NULL)));
    weft_array *parts[3];
    weft_split_encoded(
        weft_encode(weft_ones(WEFT_DIMS(1, 256), WEFT_FLOAT32), weft_gguf_encoding("Q4_K")), parts);
    CHECK_CONTAINS(weft_error(parts[0]), "q4_k");
    weft_scope_close(NULL);
}

CHECK_MAIN("gguf", CHECK_CASE(blocks_are_the_packages), CHECK_CASE(parts_are_those_of_mlx),
           CHECK_CASE(encoded_blocks_are_the_packages), CHECK_CASE(made_blocks_of_256),
           CHECK_CASE(matrices_in_blocks), CHECK_CASE(written_files_are_read_back),
           CHECK_CASE(all_at_once), CHECK_CASE(eight_dims_are_read), CHECK_CASE(bad_starts),
           CHECK_CASE(bad_values), CHECK_CASE(bad_tensors),
           CHECK_CASE(values_that_cannot_be_written))
