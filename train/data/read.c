/* train/data/read.c -- reads the files of sources: their rows, and files that are one text. */
#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "train/data/reader.h"
#include "weft/io.h"
#include "weft/memory.h"

weft_status weft__read_text(weft__reader *r, const char *data, size_t size)
{
    return r->add_text(r, data, size);
}

#define READER(ID, word, ...) [WEFT_DATA_##ID] = weft__read_##word,
static weft_status (*const readers[])(weft__reader *r, const char *data,
                                      size_t size) = {WEFT__DATA_FORMATS(READER)};
#undef READER

static weft_status read_contents(weft__reader *r, const char *data, size_t size)
{
    weft_data_format format = r->o.format;
    weft_status status = WEFT_OK;
    weft__data_skip_mark(&data, &size);
    if (format == WEFT_DATA_AUTO)
        status = weft__data_format_of(r->path, data, size, &format);
    if (status == WEFT_OK && format == WEFT_DATA_TEXT && r->expected)
        status = weft_fail(WEFT_INVALID, "%s: expected %s in one of %s, got plain text", r->path,
                           r->expected, weft__data_titles());
    if (status != WEFT_OK)
        return status;
    r->files[format]++;
    return readers[format](r, data, size);
}

/* Reads a compressed file. JSON lines are not decompressed as a whole. */
static weft_status read_compressed(weft__reader *r, weft__codec codec, const char *data,
                                   size_t size)
{
    weft_data_format format = r->o.format;
    char *contents;
    weft_status status = WEFT_OK;
    if (format == WEFT_DATA_AUTO)
        status = weft__data_format_named(r->path, &format);
    if (status != WEFT_OK)
        return status;
    if (format == WEFT_DATA_JSONL) {
        r->files[format]++;
        return weft__reader_add_lines(r, codec, data, size);
    }
    status = weft__data_decompress(r->path, codec, data, size, &contents, &size);
    if (status == WEFT_OK)
        status = read_contents(r, contents, size);
    weft_free(contents);
    return status;
}

weft_status weft__reader_add_bytes(weft__reader *r, const char *data, size_t size)
{
    const weft__codec codec = weft__data_codec(r->path);
    return codec ? read_compressed(r, codec, data, size) : read_contents(r, data, size);
}

/* Adds to the message about a malformed text file that it is not UTF-8, with the line and the cure.
 */
static weft_status explain(const weft__reader *r, const char *data, size_t size, weft_status status)
{
    const size_t valid = weft__utf8_valid(data, size);
    if (status != WEFT_INVALID || valid == size || weft__data_codec(r->path) != WEFT__UNCOMPRESSED)
        return status;
    int64_t line = 1;
    for (size_t i = 0; i < valid; i++)
        line += data[i] == '\n';
    const bool wide = memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0;
    char *why = weft_strdup(weft_error_message());
    weft_fail(status,
              "%s; line %lld is not UTF-8 (byte 0x%02x): iconv -f %s -t UTF-8 %s converts it",
              why ? why : r->path, (long long)line, (unsigned char)data[valid],
              wide ? "UTF-16" : "LATIN1", r->path);
    weft_free(why);
    return status;
}

static weft_status read_file(weft__reader *r, const char *path)
{
    char *data;
    size_t size;
    weft_data_format named = r->o.format;
    const bool is_stdin = strcmp(path, "-") == 0;
    r->path = r->where = is_stdin ? "standard input" : path;
    if (is_stdin && r->o.format == WEFT_DATA_AUTO)
        return weft_fail(WEFT_INVALID,
                         "standard input: expected the format of its data to be given: %s",
                         weft__data_words());
    weft_status status = WEFT_OK;
    if (r->o.format == WEFT_DATA_AUTO) /* refuses unsupported formats before the file is read */
        status = weft__data_format_named(path, &named);
    /* The file is read, not mapped: another program may truncate it meanwhile. */
    if (status == WEFT_OK)
        status = is_stdin ? weft__data_read_stdin(&data, &size)
                          : weft_file_read(path, SIZE_MAX / 4, &data, &size);
    if (status != WEFT_OK)
        return status;
    status = weft__reader_add_bytes(r, data, size);
    if (named != WEFT_DATA_PARQUET)
        status = explain(r, data, size, status);
    weft_free(data);
    return status;
}

weft_status weft__reader_add_files(weft__reader *r, const weft_data_source *source)
{
    weft__data_files files;
    weft_status status = weft__data_files_find(source, &files);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; status == WEFT_OK && i < files.n; i++)
        status = read_file(r, files.at[i]);
    weft__data_files_free(&files);
    return status;
}
