/* tests/io/test_safetensors.c -- safetensors: round trips, and errors that name file and tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/check.h"
#include "weft/io.h"
#include "weft/ops.h"
#include "weft/quantize.h"

/* Writes a file of a header (its length is taken) and `data` bytes of zeros. */
static const char *craft(const char *name, const char *header, size_t data)
{
    const char *path = check_temporary(name);
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        CHECK_FAIL("%s cannot be written", path);
        return path;
    }
    const size_t n = strlen(header);
    for (int i = 0; i < 8; i++)
        fputc((int)(n >> (8 * i) & 0xff), f);
    fwrite(header, 1, n, f);
    for (size_t i = 0; i < data; i++)
        fputc(0, f);
    fclose(f);
    return path;
}

/* The file is refused, and the message has the file's name and `part`. */
static void refused(const char *header, size_t data, weft_status status, const char *part)
{
    weft_safetensors *file;
    const char *path = craft("bad.safetensors", header, data);
    CHECK_STATUS(weft_safetensors_open(path, &file), status);
    CHECK(file == NULL);
    CHECK_CONTAINS(weft_error_message(), "bad.safetensors");
    CHECK_CONTAINS(weft_error_message(), part);
}

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

/* As MLX writes it. */
static void metadata_may_be_null(void)
{
    weft_safetensors *file;
    const char *path =
        craft("null.safetensors", "{\"__metadata__\":null," TENSOR("a", "I8", "[]", 0, 1) "}", 1);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    CHECK_EQ_INT(weft_safetensors_count(file), 1);
    CHECK(weft_safetensors_metadata(file, "format") == NULL);
    weft_safetensors_close(file);
}

static void a_valid_file_opens(void)
{
    weft_safetensors *file;
    const char *path = craft(
        "good.safetensors",
        "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"}," TENSOR(
            "b", "F32", "[2,3]", 0,
            24) "," TENSOR("a", "I8", "[]", 24, 25) "," TENSOR("z", "F64", "[0,4]", 25, 25) "}  ",
        25);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    CHECK_EQ_INT(weft_safetensors_count(file), 3);
    CHECK_STR(weft_safetensors_name(file, 0), "a");
    CHECK_STR(weft_safetensors_name(file, 2), "z");
    CHECK_EQ_INT(weft_safetensors_find(file, "b"), 1);
    CHECK_EQ_INT(weft_safetensors_find(file, "c"), -1);
    CHECK_EQ_INT(weft_safetensors_at(file, 1)->dtype, WEFT_FLOAT32);
    CHECK_EQ_INT(weft_safetensors_at(file, 1)->shape.at[1], 3);
    CHECK_EQ_INT(weft_safetensors_at(file, 0)->shape.n, 0);
    CHECK(weft_safetensors_at(file, 3) == NULL);
    CHECK_STR(weft_safetensors_metadata(file, "k"), "v");
    CHECK(weft_safetensors_metadata(file, "none") == NULL);
    weft_scope_open();
    weft_array *absent = weft_safetensors_get(file, "c");
    CHECK_CONTAINS(weft_error(absent), "good.safetensors: there is no tensor 'c'");
    CHECK_EQ_INT(weft_size(weft_safetensors_get(file, "z")), 0);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
    weft_safetensors_close(NULL);
}

static void bytes_missing(void)
{
    weft_safetensors *file;
    const char *path = check_temporary("short.safetensors");
    CHECK_OK(weft_file_write(path, "", 0));
    CHECK_STATUS(weft_safetensors_open(path, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "short.safetensors: truncated: 0 bytes");
    CHECK_OK(weft_file_write(path, "\x40\0\0\0\0\0\0\0{}", 10));
    CHECK_STATUS(weft_safetensors_open(path, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "truncated: header of 64 bytes in a file of 10");
    CHECK_OK(weft_file_write(path, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
    CHECK_STATUS(weft_safetensors_open(path, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "not a safetensors file");
    refused("{" TENSOR("a.b", "F32", "[4]", 0, 16) "}", 12, WEFT_INVALID,
            "tensor 'a.b': data_offsets: [0, 16] is out of range: the file has 12 bytes");
}

/* Seconds of processor time, since the machine may be busy. */
static double now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Time that grows with the square of the number of shards would be minutes here. */
static void an_index_may_name_many_shards(void)
{
    enum { SHARDS = 200000, LINE = 64 };
    weft_safetensors *file;
    char *text = malloc((size_t)SHARDS * LINE + 100);
    if (!CHECK(text != NULL))
        return;
    size_t n = (size_t)sprintf(text, "{\"weight_map\": {");
    for (int i = 0; i < SHARDS; i++)
        n += (size_t)sprintf(text + n, "%s\"t%d\": \"model-%d.safetensors\"", i > 0 ? "," : "", i,
                             SHARDS - i);
    n += (size_t)sprintf(text + n, "}}");
    CHECK_OK(weft_folder_make(check_temporary("many")));
    CHECK_OK(weft_file_write(check_temporary("many/model.safetensors.index.json"), text, n));
    free(text);
    const double before = now();
    CHECK_STATUS(weft_safetensors_open_folder(check_temporary("many"), &file), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "the shard 'model-1.safetensors'");
    CHECK(now() - before < 20);
}

static void files_of_other_formats(void)
{
    weft_safetensors *file;
    CHECK_STATUS(weft_safetensors_open(check_temporary("absent"), &file), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "absent: open: No such file");
    CHECK_OK(weft_folder_make(check_temporary("folder/in/folder")));
    CHECK_STATUS(weft_safetensors_open(check_temporary("folder"), &file), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "folder: open: Is a directory");
    CHECK_STATUS(weft_safetensors_open_folder(check_temporary("folder"), &file), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "there is no .safetensors file");
}

static void wrong_ranges(void)
{
    refused("{" TENSOR("a", "F32", "[4]", 0, 16) "," TENSOR("b", "F32", "[4]", 8, 24) "}", 24,
            WEFT_INVALID, "tensor 'b' overlaps 'a' by 8 bytes");
    refused("{" TENSOR("a", "F32", "[4]", 0, 16) "," TENSOR("b", "F32", "[1]", 20, 24) "}", 24,
            WEFT_INVALID, "tensor 'b': a gap of 4 bytes before it");
    refused("{" TENSOR("a", "F32", "[4]", 0, 16) "}", 20, WEFT_INVALID,
            "4 bytes behind the last tensor");
    refused("{" TENSOR("a", "F32", "[4]", 16, 0) "}", 16, WEFT_INVALID, "tensor 'a': data_offsets");
    refused("{" TENSOR("a", "F32", "[4]", -4, 12) "}", 16, WEFT_INVALID, "[-4, 12] is no range");
    refused("{" TENSOR("a", "F32", "[5]", 0, 16) "}", 16, WEFT_INVALID,
            "tensor 'a': expected 20 bytes for F32 (5,), found 16 bytes");
    refused("{" TENSOR("a", "F32", "[4294967296,4294967296,4]", 0, 16) "}", 16, WEFT_INVALID,
            "tensor 'a': expected");
    refused("{" TENSOR("a", "F32", "[9223372036854775807]", 0, 16) "}", 16, WEFT_INVALID,
            "tensor 'a': expected");
}

static void wrong_entries(void)
{
    refused("{" TENSOR("a", "F8_E8M0", "[4]", 0, 4) "," TENSOR("b", "U128", "[0]", 4, 4) "}", 4,
            WEFT_UNSUPPORTED, "unsupported dtypes of 2 tensors: F8_E8M0 (a), U128 (b)");
    refused("{" TENSOR("a", "F8_E4M3", "[4]", 0, 16) "}", 16, WEFT_INVALID,
            "tensor 'a': expected 4 bytes for F8_E4M3 (4,), found 16 bytes");
    refused("{" TENSOR("a", "I8", "[1]", 0, 1) "," TENSOR("a", "I8", "[1]", 1, 2) "}", 2,
            WEFT_INVALID, "tensor 'a' is there twice");
    refused("{" TENSOR("a", "I8", "[-1]", 0, 1) "}", 1, WEFT_INVALID, "a dim is negative");
    refused("{" TENSOR("a", "I8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, WEFT_INVALID,
            "at most 16 dims, found 17");
    refused("{" TENSOR("a", "I8", "[\"x\"]", 0, 1) "}", 1, WEFT_INVALID, "a.shape[0]");
    refused("{" TENSOR("a", "I8", "3", 0, 1) "}", 1, WEFT_INVALID, "a.shape");
    refused("{\"a\":{\"dtype\":\"I8\",\"shape\":[1]}}", 1, WEFT_INVALID, "a.data_offsets");
    refused("{\"a\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, WEFT_INVALID,
            "expected begin and end");
    refused("{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, WEFT_INVALID,
            "a.dtype");
    refused("{\"a\":[]}", 0, WEFT_INVALID, "a");
    refused("{\"__metadata__\":{\"k\":1}}", 0, WEFT_INVALID, "__metadata__");
    refused("{\"__metadata__\":{\"k\":\"a\\u0000b\"}}", 0, WEFT_INVALID,
            "__metadata__: 'k': expected a string without \\u0000");
    refused("{" TENSOR("a\\u0000b", "I8", "[1]", 0, 1) "}", 1, WEFT_INVALID,
            "the name of a member contains \\u0000");
    refused("[]", 0, WEFT_INVALID, "expected object");
    refused("{\"a\":", 0, WEFT_INVALID, "bad.safetensors");
    refused("{}{}", 0, WEFT_INVALID, "bad.safetensors");
}

/* Every dtype, odd sizes, non-contiguous arrays, and names that need escapes. */
static void saved_tensors_are_read_back(void)
{
    static const unsigned char bytes[48] = {1, 0, 1, 1, 0, 1, 7, 8, 9};
    const char *path = check_temporary("all.safetensors");
    const char *names[WEFT_DTYPE_COUNT + 1];
    weft_array *arrays[WEFT_DTYPE_COUNT + 1];
    weft_scope_open();
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        names[d] = weft_dtype_name((weft_dtype)d);
        arrays[d] = weft_from_data(bytes, (weft_dtype)d, WEFT_DIMS(3, 2));
    }
    names[WEFT_DTYPE_COUNT] = "quote\" back\\slash \n \xc3\xa9";
    arrays[WEFT_DTYPE_COUNT] = weft_from_data(bytes, WEFT_UINT8, WEFT_DIMS(0, 2));
    const weft_metadata metadata = {"note", "a \"quoted\" word"};
    CHECK_OK(weft_safetensors_save(path, names, arrays, WEFT_DTYPE_COUNT + 1, &metadata, 1));

    weft_safetensors *file;
    if (CHECK_OK(weft_safetensors_open(path, &file))) {
        CHECK_STR(weft_safetensors_metadata(file, "format"), "pt");
        CHECK_STR(weft_safetensors_metadata(file, "note"), "a \"quoted\" word");
        CHECK_EQ_INT(weft_safetensors_count(file), WEFT_DTYPE_COUNT + 1);
        CHECK(weft_safetensors_find(file, names[WEFT_DTYPE_COUNT]) >= 0);
        weft_array *back[WEFT_DTYPE_COUNT];
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++)
            back[d] = weft_safetensors_get(file, names[d]);
        weft_safetensors_close(file); /* the arrays hold the mapping */
        for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
            CHECK_EQ_INT(weft_dtype_of(back[d]), d);
            const void *data = weft_data(back[d]);
            if (CHECK(data != NULL))
                CHECK_BYTES(data, bytes, 6 * weft_dtype_size((weft_dtype)d));
        }
    }
    weft_scope_close(NULL);
}

static void a_tensor_at_an_odd_address_is_copied(void)
{
    const char *path =
        craft("odd.safetensors",
              "{" TENSOR("a", "I8", "[1]", 0, 1) "," TENSOR("b", "F32", "[1]", 1, 5) "} ", 5);
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    weft_array *b = weft_safetensors_get(file, "b");
    CHECK_EQ_INT((uintptr_t)weft_data(b) % sizeof(float), 0);
    CHECK_CLOSE(weft_item(b), 0, 0);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

/* Resident memory with pages of files, in bytes. */
static double resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (CHECK(file != NULL)) {
        CHECK(fscanf(file, "%*d %ld", &pages) == 1);
        fclose(file);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* A tensor that has been read and freed is not resident, although another of its file is mapped. */
static void freed_tensors_leave_memory(void)
{
    enum { BYTES = 32 << 20 };
    const char *path = check_temporary("large.safetensors");
    weft_safetensors *file;
    weft_scope_open();
    const char *const names[] = {"large", "small"};
    weft_array *arrays[] = {weft_ones(WEFT_DIMS(BYTES / 4), WEFT_FLOAT32),
                            weft_scalar(1, WEFT_FLOAT32)};
    CHECK_OK(weft_safetensors_save(path, names, arrays, 2, NULL, 0));
    weft_scope_close(NULL);
    if (!CHECK_OK(weft_safetensors_open(path, &file)))
        return;
    weft_scope_open();
    weft_array *small = weft_safetensors_get(file, "small");
    for (int i = 0; i < 2; i++) {
        const double before = resident();
        weft_scope_open();
        const float *data = weft_data(weft_safetensors_get(file, "large"));
        double sum = 0;
        for (int k = 0; data && k < BYTES / 4; k++)
            sum += data[k];
        CHECK_EQ_INT(sum, BYTES / 4);
        CHECK(resident() - before > 0.9 * BYTES);
        weft_scope_close(NULL);
        CHECK(resident() - before < 0.2 * BYTES);
    }
    const float *one = weft_data(small);
    CHECK(one && *one == 1);
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

static void saving_refuses_bad_arguments(void)
{
    const char *path = check_temporary("refused.safetensors");
    weft_scope_open();
    weft_array *one = weft_scalar(1, WEFT_FLOAT32);
    weft_array *arrays[] = {one, one};
    const char *twice[] = {"a", "a"};
    CHECK_STATUS(weft_safetensors_save(path, twice, arrays, 2, NULL, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "two tensors are called 'a'");
    const char *reserved[] = {"__metadata__"};
    CHECK_STATUS(weft_safetensors_save(path, reserved, arrays, 1, NULL, 0), WEFT_INVALID);
    weft_array *failed[] = {weft_error_array("it went wrong")};
    CHECK_STATUS(weft_safetensors_save(path, twice, failed, 1, NULL, 0), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "it went wrong");
    CHECK(access(path, F_OK) != 0);
    const char *nowhere = check_temporary("no/such/folder/x.safetensors");
    CHECK_STATUS(weft_safetensors_save(nowhere, twice, arrays, 1, NULL, 0), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "x.safetensors: cannot be written: No such file");
    weft_scope_close(NULL);
}

/* ---- shards --------------------------------------------------------------------------------- */

static void save_one(const char *path, const char *name, float value)
{
    weft_scope_open();
    weft_array *a = weft_from_data(&value, WEFT_FLOAT32, WEFT_DIMS(1));
    CHECK_OK(weft_safetensors_save(path, &name, &a, 1, NULL, 0));
    weft_scope_close(NULL);
}

static void write_text(const char *path, const char *text)
{
    CHECK_OK(weft_file_write(path, text, strlen(text)));
}

static void an_index_names_the_shards(void)
{
    const char *folder = check_temporary("sharded");
    const char *index = check_temporary("sharded/model.safetensors.index.json");
    weft_safetensors *file;
    CHECK_OK(weft_folder_make(folder));
    save_one(check_temporary("sharded/model-1.safetensors"), "a", 1);
    save_one(check_temporary("sharded/model-2.safetensors"), "b", 2);
    save_one(check_temporary("sharded/model-3.safetensors"), "stray", 3);
    write_text(index, "{\"weight_map\":{\"a\":\"model-1.safetensors\","
                      "\"b\":\"model-2.safetensors\"}}");
    if (CHECK_OK(weft_safetensors_open_folder(folder, &file))) {
        CHECK_EQ_INT(weft_safetensors_count(file), 2);
        weft_scope_open();
        CHECK_CLOSE(weft_item(weft_safetensors_get(file, "b")), 2, 0);
        weft_scope_close(NULL);
        weft_safetensors_close(file);
    }
    write_text(index, "{\"weight_map\":{\"a\":\"model-1.safetensors\","
                      "\"b\":\"model-9.safetensors\"}}");
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_IO);
    CHECK_CONTAINS(weft_error_message(), "the shard 'model-9.safetensors'");
    write_text(index, "{\"weight_map\":{\"c\":\"model-1.safetensors\"}}");
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "tensor 'c': expected in model-1.safetensors");
    write_text(index, "{\"weight_map\":{\"a\":\"../model-1.safetensors\"}}");
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "is not a file name");
    write_text(index, "{\"weight_map\":{\"a\":\"model-1.safetensors\\u0000\"}}");
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "weight_map.a: expected a string without \\u0000");
    write_text(index, "{\"weight_map\":7}");
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "index.json: weight_map");
}

static void without_an_index_the_names_decide(void)
{
    const char *folder = check_temporary("plain");
    weft_safetensors *file;
    CHECK_OK(weft_folder_make(folder));
    save_one(check_temporary("plain/x.safetensors"), "x", 1);
    save_one(check_temporary("plain/y.safetensors"), "y", 2);
    if (CHECK_OK(weft_safetensors_open_folder(folder, &file)))
        CHECK_EQ_INT(weft_safetensors_count(file), 2);
    weft_safetensors_close(file);
    save_one(check_temporary("plain/y.safetensors"), "x", 2);
    CHECK_STATUS(weft_safetensors_open_folder(folder, &file), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "tensor 'x': also in");
    save_one(check_temporary("plain/model-2.safetensors"), "two", 2);
    save_one(check_temporary("plain/model-1.safetensors"), "one", 2);
    if (CHECK_OK(weft_safetensors_open_folder(folder, &file)))
        CHECK_STR(weft_safetensors_name(file, 0), "one");
    weft_safetensors_close(file);
    save_one(check_temporary("plain/model.safetensors"), "m", 2);
    if (CHECK_OK(weft_safetensors_open_folder(folder, &file)))
        CHECK_EQ_INT(weft_safetensors_count(file), 1);
    weft_safetensors_close(file);
    if (CHECK_OK(weft_safetensors_open_folder(check_temporary("plain/x.safetensors"), &file)))
        CHECK_STR(weft_safetensors_name(file, 0), "x");
    weft_safetensors_close(file);
}

/* A file written by torch: codes as uint8, and their values, including NaN and infinities. */
static void floats_of_8_bits_are_codes(void)
{
    static const struct {
        const char *name, *values, *float8;
        weft_array *(*decode)(weft_array *x, weft_dtype dtype);
    } kinds[] = {{"e4m3", "e4m3.values", "F8_E4M3", weft_from_fp8},
                 {"e5m2", "e5m2.values", "F8_E5M2", weft_from_fp8_e5m2}};
    weft_safetensors *file;
    if (!CHECK_OK(weft_safetensors_open(check_fixture("io/float8.safetensors"), &file)))
        return;
    for (int k = 0; k < 2; k++) {
        weft_scope_open();
        const weft_safetensors_entry *e =
            weft_safetensors_at(file, weft_safetensors_find(file, kinds[k].name));
        CHECK_STR(e->float8, kinds[k].float8);
        CHECK_EQ_INT(e->dtype, WEFT_UINT8);
        weft_array *codes = weft_safetensors_get(file, kinds[k].name);
        weft_array *values = weft_safetensors_get(file, kinds[k].values);
        uint8_t bytes[256];
        CHECK_OK(weft_read(codes, WEFT_UINT8, bytes, 256));
        CHECK(bytes[0] == 0 && bytes[1] == 1 && bytes[255] == 255);
        weft_array *decoded = kinds[k].decode(codes, WEFT_FLOAT32);
        CHECK(weft_item(weft_array_equal(decoded, values, true)) == 1);
        CHECK(weft_safetensors_at(file, weft_safetensors_find(file, kinds[k].values))->float8 ==
              NULL);
        weft_scope_close(NULL);
    }
    weft_scope_open();
    weft_array *codes = weft_safetensors_get(file, "e5m2");
    CHECK_CONTAINS(weft_error(weft_from_fp8_e5m2(codes, WEFT_INT32)), "uint8 to a float");
    weft_scope_close(NULL);
    weft_safetensors_close(file);
}

CHECK_MAIN("safetensors", CHECK_CASE(floats_of_8_bits_are_codes), CHECK_CASE(a_valid_file_opens),
           CHECK_CASE(metadata_may_be_null), CHECK_CASE(bytes_missing),
           CHECK_CASE(an_index_may_name_many_shards), CHECK_CASE(files_of_other_formats),
           CHECK_CASE(wrong_ranges), CHECK_CASE(wrong_entries),
           CHECK_CASE(saved_tensors_are_read_back),
           CHECK_CASE(a_tensor_at_an_odd_address_is_copied),
           CHECK_CASE(saving_refuses_bad_arguments), CHECK_CASE(freed_tensors_leave_memory),
           CHECK_CASE(an_index_names_the_shards), CHECK_CASE(without_an_index_the_names_decide))
