/* tests/train/test_parquet.c -- Parquet files: rows as pyarrow reads them, damaged files, and rows
 * as training data. */
#include <stdio.h>
#include <string.h>

#include "core/io/json.h"
#include "tests/check.h"
#include "train/data/parquet/parquet.h"
#include "weft/io.h"
#include "weft/train.h"

enum { MOST_ROWS = 400 };

/* Rows of one file, or why it cannot be read. */
typedef struct rows {
    json_object *at[MOST_ROWS];
    int n;
    weft_status status;
    char message[512];
} rows;

static rows read_rows(const char *data, size_t size, const char *name)
{
    rows out = {.n = 0};
    weft__parquet *file;
    const char *bad = NULL;
    json_object *row = NULL;
    out.status = weft__parquet_open(data, size, name, &file);
    while (out.status == WEFT_OK && out.n < MOST_ROWS) {
        out.status = weft__parquet_next(file, &row, &bad);
        if (out.status != WEFT_OK || (row == NULL && bad == NULL))
            break;
        if (bad)
            snprintf(out.message, sizeof out.message, "%s", bad);
        out.at[out.n++] = row;
    }
    if (out.status != WEFT_OK)
        snprintf(out.message, sizeof out.message, "%s", weft_error_message());
    weft__parquet_close(file);
    return out;
}

static void free_rows(rows *r)
{
    for (int i = 0; i < r->n; i++)
        json_object_put(r->at[i]);
}

static bool read_golden(const char *name, char **data, size_t *size)
{
    char path[200];
    snprintf(path, sizeof path, "tests/golden/train/parquet/%s", name);
    return CHECK_OK(weft_file_read(check_source(path), 0, data, size));
}

/* Whether this build lacks the library of the file's compression. */
static bool is_left_out(const rows *r)
{
    return r->status == WEFT_UNSUPPORTED && strstr(r->message, "this build of Weft has no");
}

/* ---- against pyarrow ------------------------------------------------------------------------ */

/* Compares the rows with the lines of a text. */
static void compare(const char *name, const rows *found, const char *text)
{
    int i = 0;
    for (const char *at = text; *at != '\0'; i++) {
        const size_t n = strcspn(at, "\n");
        json_object *expected = NULL;
        CHECK_OK(weft__json_parse_value(at, n, name, &expected));
        if (i < found->n && !json_object_equal(found->at[i], expected))
            CHECK_FAIL("%s: row %d: got %s, expected %.*s", name, i + 1,
                       json_object_to_json_string(found->at[i]), (int)n, at);
        json_object_put(expected);
        at += n + (at[n] == '\n');
    }
    CHECK_EQ_INT(found->n, i);
}

static void rows_are_those_that_pyarrow_reads(void)
{
    static const char *const files[] = {
        "types-plain",         "types-dictionary",  "types-zstd-2",      "types-split",
        "int96-snappy",        "nested-plain",      "nested-gzip",       "nested-snappy-2",
        "nested-zstd-2",       "legacy-hybrid",     "legacy-packed",     "encodings-dictionary",
        "encodings-fallback",  "encodings-delta",   "encodings-delta-2", "encodings-lengths",
        "encodings-lengths-2", "encodings-pages-2",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[64], *data, *text;
        size_t size;
        snprintf(name, sizeof name, "%s.parquet", files[i]);
        if (!read_golden(name, &data, &size))
            continue;
        rows found = read_rows(data, size, name);
        snprintf(name, sizeof name, "%.*s.jsonl", (int)strcspn(files[i], "-"), files[i]);
        if (!is_left_out(&found) && read_golden(name, &text, NULL)) {
            check_status(found.status, WEFT_OK, files[i], __FILE__, __LINE__);
            compare(files[i], &found, text);
            weft_free(text);
        }
        free_rows(&found);
        weft_free(data);
    }
}

static void other_compression_is_refused_by_name(void)
{
    static const char *const files[][2] = {{"refused-brotli.parquet", "Brotli"},
                                           {"refused-lz4.parquet", "LZ4"}};
    for (int i = 0; i < 2; i++) {
        char *data;
        size_t size;
        if (!read_golden(files[i][0], &data, &size))
            continue;
        rows found = read_rows(data, size, files[i][0]);
        CHECK_EQ_INT(found.status, WEFT_UNSUPPORTED);
        CHECK_CONTAINS(found.message, files[i][0]);
        CHECK_CONTAINS(found.message, "column text, row group 1");
        CHECK_CONTAINS(found.message, files[i][1]);
        weft_free(data);
    }
}

/* ---- damaged files -------------------------------------------------------------------------- */

/* A file that is truncated anywhere has no footer; the message says so. */
static void truncated_files_are_refused(void)
{
    char *data;
    size_t size;
    if (!read_golden("legacy-hybrid.parquet", &data, &size))
        return;
    for (size_t n = 0; n < size; n++) {
        char *copy = weft_malloc(n + 1); /* of its exact size, for the sanitizers */
        memcpy(copy, data, n);
        rows found = read_rows(copy, n, "cut.parquet");
        CHECK_EQ_INT(found.status, WEFT_INVALID);
        CHECK_CONTAINS(found.message, "cut.parquet");
        CHECK_EQ_INT(found.n, 0);
        weft_free(copy);
    }
    weft_free(data);
}

/* Every byte is changed in turn: the file is read, or refused with its name. */
static void changed_bytes_do_no_harm(void)
{
    static const char *const files[] = {"legacy-hybrid.parquet", "nested-plain.parquet",
                                        "encodings-delta-2.parquet"};
    int64_t refused = 0;
    for (int k = 0; k < 3; k++) {
        char *data;
        size_t size;
        if (!read_golden(files[k], &data, &size))
            continue;
        for (size_t i = 0; i < size; i += k == 0 ? 1 : 7) {
            const char before = data[i];
            data[i] = (char)(before ^ (1 << i % 8));
            rows found = read_rows(data, size, files[k]);
            if (found.status != WEFT_OK)
                CHECK_CONTAINS(found.message, files[k]);
            refused += found.status != WEFT_OK;
            free_rows(&found);
            data[i] = before;
        }
        weft_free(data);
    }
    CHECK(refused > 100);
}

static void malformed_files_say_what_is_wrong(void)
{
    static const struct {
        const char *data;
        size_t size;
        const char *message;
    } files[] = {
        {"", 0, "expected PAR1 at its start"},
        {"PAR1PAR1", 8, "expected PAR1 at its start"},
        {"{\"text\": \"PAR1\"}", 16, "expected PAR1 at its start"},
        {"PAR1\0\0\0\0\0\0\0PAR2", 15, "the file is truncated"},
        {"PAR1\xff\xff\xff\x7fPAR1", 12, "does not fit into 12 bytes"},
        {"PAR1\0\0\0\0PAR1", 12, "malformed footer: it ends too early"},
        {"PAR1\0\1\0\0\0PAR1", 13, "malformed schema: it is empty"},
        {"PARE\0\0\0\0PARE", 12, "encrypted"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        rows found = read_rows(files[i].data, files[i].size, "x.parquet");
        CHECK(found.status != WEFT_OK);
        CHECK_CONTAINS(found.message, "x.parquet: ");
        CHECK_CONTAINS(found.message, files[i].message);
    }
}

static void each_allocation_may_fail(void)
{
    char *data;
    size_t size;
    if (!read_golden("nested-plain.parquet", &data, &size))
        return;
    weft_status status = WEFT_MEMORY;
    for (uint64_t nth = 1; status == WEFT_MEMORY && nth < 1000; nth++) {
        weft_memory_fail_at(nth);
        rows found = read_rows(data, size, "a.parquet");
        status = found.status;
        free_rows(&found);
    }
    weft_memory_fail_at(0);
    CHECK_OK(status);
    weft_free(data);
}

/* ---- training data -------------------------------------------------------------------------- */

static weft_status load(const char *path, int64_t bad_rows, weft_dataset **out)
{
    weft_tokenizer *tokenizer;
    *out = NULL;
    weft_status status = weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer);
    if (status == WEFT_OK)
        status = weft_dataset_load(path, tokenizer,
                                   &(weft_dataset_options){.max_bad_rows = bad_rows}, 0, out, NULL);
    weft_tokenizer_free(tokenizer);
    return status;
}

/* texts.parquet has a text, a null, a text that is not UTF-8, and a text. */
static void rows_become_samples_and_bad_ones_may_be_skipped(void)
{
    weft_dataset *d;
    const char *path = check_source("tests/golden/train/parquet/texts.parquet");
    CHECK_STATUS(load(path, 0, &d), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "texts.parquet: row 2: expected \"text\"");
    CHECK_STATUS(load(path, 1, &d), WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "texts.parquet: row 3: column text: a text is not UTF-8");
    if (!CHECK_OK(load(path, 2, &d)))
        return;
    const weft_dataset_info info = weft_dataset_info_of(d);
    CHECK_EQ_INT(info.samples, 2);
    CHECK_EQ_INT(info.bad_rows, 2);
    CHECK_EQ_INT(info.files[WEFT_DATA_PARQUET], 1);
    weft_dataset_free(d);
}

static void folders_may_have_parquet_files_under_any_name(void)
{
    char *data, path[1024];
    size_t size;
    weft_dataset *d;
    if (!read_golden("texts.parquet", &data, &size))
        return;
    CHECK_OK(weft_folder_make(check_temporary("shards")));
    snprintf(path, sizeof path, "%s/train-0.parquet", check_temporary("shards"));
    CHECK_OK(weft_file_write(path, data, size));
    snprintf(path, sizeof path, "%s/train-1.parquet", check_temporary("shards"));
    CHECK_OK(weft_file_write(path, data, size));
    if (CHECK_OK(load(check_temporary("shards"), 4, &d)))
        CHECK_EQ_INT(weft_dataset_info_of(d).samples, 4);
    weft_dataset_free(d);
    CHECK_OK(weft_file_write(check_temporary("unnamed"), data, size));
    if (CHECK_OK(load(check_temporary("unnamed"), 2, &d)))
        CHECK_EQ_INT(weft_dataset_info_of(d).files[WEFT_DATA_PARQUET], 1);
    weft_dataset_free(d);
    weft_free(data);
}

CHECK_MAIN("parquet", CHECK_CASE(rows_are_those_that_pyarrow_reads),
           CHECK_CASE(other_compression_is_refused_by_name),
           CHECK_CASE(truncated_files_are_refused), CHECK_CASE(changed_bytes_do_no_harm),
           CHECK_CASE(malformed_files_say_what_is_wrong), CHECK_CASE(each_allocation_may_fail),
           CHECK_CASE(rows_become_samples_and_bad_ones_may_be_skipped),
           CHECK_CASE(folders_may_have_parquet_files_under_any_name))
