/* tests/train/test_data_compressed.c -- data in gzip and Zstandard files: every format, several
 * members, truncated and corrupt files, and contents that are much larger than their file. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "core/io/decompress.h"
#include "tests/check.h"
#include "tests/support/changing.h"
#include "weft/io.h"
#include "weft/train.h"

static weft_tokenizer *tokenizer;

static bool ready(void)
{
    return tokenizer != NULL ||
           CHECK_OK(weft_tokenizer_load(check_source("examples/storyteller"), &tokenizer));
}

static const char *golden(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "tests/golden/train/compressed/%s", name);
    return check_source(path);
}

static weft_status load(const char *path, weft_dataset **out)
{
    *out = NULL;
    return weft_dataset_load(path, tokenizer, NULL, 0, out, NULL);
}

/* Whether this build lacks the library. */
static bool is_left_out(weft_status status)
{
    return status == WEFT_UNSUPPORTED && strstr(weft_error_message(), "this build of Weft has no");
}

static void every_format_may_be_compressed(void)
{
    static const struct {
        const char *name;
        weft_data_format format;
        int64_t samples;
    } files[] = {{"rows.jsonl", WEFT_DATA_JSONL, 3},
                 {"rows.json", WEFT_DATA_JSON, 3},
                 {"rows.csv", WEFT_DATA_CSV, 3},
                 {"rows.txt", WEFT_DATA_TEXT, 1}};
    for (int i = 0; i < 8 && ready(); i++) {
        char name[64];
        weft_dataset *d;
        snprintf(name, sizeof name, "%s%s", files[i / 2].name, i % 2 ? ".zst" : ".gz");
        const weft_status status = load(golden(name), &d);
        if (is_left_out(status)) {
            CHECK_CONTAINS(weft_error_message(), name);
            continue;
        }
        if (!CHECK_OK(status))
            continue;
        const weft_dataset_info info = weft_dataset_info_of(d);
        CHECK_EQ_INT(info.samples, files[i / 2].samples);
        CHECK_EQ_INT(info.files[files[i / 2].format], 1);
        weft_dataset_free(d);
    }
}

/* A truncated file is never read as a shorter one, and a changed one is an error. */
static void damaged_files_are_refused_by_name(void)
{
    static const char *const names[] = {"rows.jsonl.gz", "rows.csv.gz", "rows.jsonl.zst",
                                        "rows.csv.zst"};
    for (int i = 0; i < 4 && ready(); i++) {
        char *data;
        size_t size;
        weft_dataset *d;
        if (!CHECK_OK(weft_file_read(golden(names[i]), 0, &data, &size)))
            continue;
        /* The first half ends in the first member, the second in the last one's checksum. */
        const size_t cuts[] = {0, 5, size / 3, size - 1};
        for (int k = 0; k < 4; k++) {
            const weft_status status =
                weft_dataset_parse(data, cuts[k], names[i], tokenizer, NULL, 0, &d, NULL);
            if (is_left_out(status))
                continue;
            CHECK_EQ_INT(status, WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), names[i]);
            CHECK_CONTAINS(weft_error_message(), "the data ends too early");
        }
        data[0] ^= 1;
        const weft_status status =
            weft_dataset_parse(data, size, names[i], tokenizer, NULL, 0, &d, NULL);
        if (!is_left_out(status)) {
            CHECK_EQ_INT(status, WEFT_INVALID);
            CHECK_CONTAINS(weft_error_message(), names[i]);
            CHECK_CONTAINS(weft_error_message(), "corrupt data");
        }
        weft_free(data);
    }
}

static void names_say_what_a_compressed_file_has(void)
{
    weft_dataset *d;
    if (!ready())
        return;
    CHECK_STATUS(weft_dataset_parse("x", 1, "rows.tar.gz", tokenizer, NULL, 0, &d, NULL),
                 WEFT_UNSUPPORTED);
    CHECK_CONTAINS(weft_error_message(), "rows.tar.gz: ");
    CHECK_CONTAINS(weft_error_message(), ".tar files cannot be read");
}

/* ---- large contents ------------------------------------------------------------------------- */

/* 100 MiB of zeros in a frame of Zstandard: blocks of one repeated byte (RFC 8878). */
static size_t bomb(char *out)
{
    enum { BLOCKS = 800, BLOCK = 128 << 10 };
    static const unsigned char header[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58};
    size_t n = sizeof header;
    memcpy(out, header, n);
    for (int i = 0; i < BLOCKS; i++) {
        const unsigned block = (unsigned)BLOCK << 3 | 1 << 1 | (i == BLOCKS - 1);
        out[n++] = (char)(block & 255);
        out[n++] = (char)(block >> 8 & 255);
        out[n++] = (char)(block >> 16);
        out[n++] = '\n';
    }
    return n;
}

static weft_status count(void *context, const char *bytes, size_t n)
{
    (void)bytes;
    *(size_t *)context += n;
    return WEFT_OK;
}

static long peak_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static void contents_are_not_kept_in_memory(void)
{
    static char data[8192];
    size_t total = 0;
    const size_t size = bomb(data);
    const long before = peak_kib();
    const weft_status status = weft__decompress(WEFT__ZSTD, data, size, "a", count, &total);
    if (is_left_out(status)) {
        check_skip("%s", weft_error_message());
        return;
    }
    CHECK_OK(status);
    CHECK_EQ_INT(total, 100 << 20);
    weft_dataset *d;
    if (!ready())
        return;
    CHECK_STATUS(weft_dataset_parse(data, size, "a.jsonl.zst", tokenizer, NULL, 0, &d, NULL),
                 WEFT_INVALID);
    CHECK_CONTAINS(weft_error_message(), "a.jsonl.zst: the dataset is empty");
    CHECK(peak_kib() - before < 60 << 10);
}

/* Data files that another process truncates meanwhile are read completely or refused, never
 * mapped. */
static void files_may_be_truncated_while_they_are_read(void)
{
    static const char *const files[] = {"compressed/rows.jsonl.gz", "compressed/rows.txt.zst",
                                        "parquet/encodings-dictionary.parquet"};
    for (int i = 0; i < 3 && ready(); i++) {
        char source[200];
        const char *name = strrchr(files[i], '/') + 1, *path = check_temporary(name);
        char *bytes;
        size_t n;
        snprintf(source, sizeof source, "tests/golden/train/%s", files[i]);
        if (!CHECK_OK(weft_file_read(check_source(source), 0, &bytes, &n)) ||
            !CHECK_OK(weft_file_write(path, bytes, n)))
            return;
        const pid_t child = changing_start(path, bytes, n);
        for (int k = 0; k < 500; k++) {
            weft_dataset *d;
            if (load(path, &d) != WEFT_OK)
                CHECK_CONTAINS(weft_error_message(), name);
            weft_dataset_free(d);
        }
        changing_end(child);
        weft_free(bytes);
    }
}

static void everything_is_freed(void)
{
    CHECK(tokenizer != NULL);
    weft_tokenizer_free(tokenizer);
    tokenizer = NULL;
}

CHECK_MAIN("data_compressed", CHECK_CASE(every_format_may_be_compressed),
           CHECK_CASE(damaged_files_are_refused_by_name),
           CHECK_CASE(names_say_what_a_compressed_file_has),
           CHECK_CASE(contents_are_not_kept_in_memory),
           CHECK_CASE(files_may_be_truncated_while_they_are_read), CHECK_CASE(everything_is_freed))
