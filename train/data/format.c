/* train/data/format.c -- data formats: names and detection. */
#include <string.h>
#include <strings.h>

#include "core/io/json.h"
#include "train/data/dataset.h"

const char *weft_data_format_name(weft_data_format format)
{
    static const char *const names[] = {"auto", "jsonl", "json", "csv", "tsv", "text", "parquet"};
    return (size_t)format < sizeof names / sizeof *names ? names[format] : "none";
}

const char *weft_row_kind_name(weft_row_kind kind)
{
    static const char *const names[] = {"messages", "sharegpt", "preference", "completion",
                                        "alpaca",   "question", "text"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "none";
}

const char *weft_long_samples_name(weft_long_samples policy)
{
    static const char *const names[] = {"keep-head", "keep-tail", "split", "drop", "refuse"};
    return (size_t)policy < sizeof names / sizeof *names ? names[policy] : "none";
}

/* ---- by name -------------------------------------------------------------------------------- */

/* Whether the first n characters of a path end in this. */
static bool ends_in(const char *path, size_t n, const char *end)
{
    const size_t m = strlen(end);
    return n >= m && strncasecmp(path + n - m, end, m) == 0;
}

/* The length of a path without the extension of compressed files, and their method. */
static size_t unpacked_length(const char *path, weft__codec *codec)
{
    static const struct {
        const char *end;
        weft__codec codec;
    } known[] = {{".gz", WEFT__GZIP}, {".zst", WEFT__ZSTD}, {".zstd", WEFT__ZSTD}};
    const size_t n = strlen(path);
    *codec = WEFT__UNCOMPRESSED;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (ends_in(path, n, known[i].end)) {
            *codec = known[i].codec;
            return n - strlen(known[i].end);
        }
    }
    return n;
}

weft__codec weft__data_codec(const char *path)
{
    weft__codec codec;
    unpacked_length(path, &codec);
    return codec;
}

weft_status weft__data_format_named(const char *path, weft_data_format *out)
{
    static const struct {
        const char *end;
        weft_data_format format;
    } known[] = {{".jsonl", WEFT_DATA_JSONL}, {".ndjson", WEFT_DATA_JSONL},
                 {".json", WEFT_DATA_JSON},   {".csv", WEFT_DATA_CSV},
                 {".tsv", WEFT_DATA_TSV},     {".txt", WEFT_DATA_TEXT},
                 {".text", WEFT_DATA_TEXT},   {".parquet", WEFT_DATA_PARQUET}};
    /* These would be nonsense if they were read as plain text. */
    static const char *const refused[] = {".arrow", ".feather", ".xlsx", ".bz2", ".xz",
                                          ".zip",   ".tar",     ".tgz",  ".pdf"};
    weft__codec codec;
    const size_t n = unpacked_length(path, &codec);
    *out = WEFT_DATA_AUTO;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (ends_in(path, n, known[i].end))
            *out = known[i].format;
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (ends_in(path, n, refused[i]))
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s: expected JSON lines, a JSON array, CSV, TSV, Parquet or plain "
                             "text: %s files cannot be read",
                             path, refused[i]);
    }
    return WEFT_OK;
}

/* ---- by contents ---------------------------------------------------------------------------- */

static size_t count_blanks(const char *data, size_t size)
{
    size_t n = 0;
    while (n < size && data[n] != '\0' && strchr(" \t\r\n", data[n]))
        n++;
    return n;
}

/* Whether the first line is a JSON object. */
static bool begins_with_object(const char *data, size_t size)
{
    const char *end = memchr(data, '\n', size);
    weft__json_doc doc;
    if (weft__json_parse(data, end ? (size_t)(end - data) : size, "", &doc) != WEFT_OK)
        return false;
    const bool is_object = json_object_is_type(doc.root, json_type_object);
    weft__json_free(&doc);
    return is_object;
}

/* Whether an array of objects begins here. */
static bool begins_with_array(const char *data, size_t size)
{
    const size_t i = 1 + count_blanks(data + 1, size - 1);
    return i < size && data[i] == '{';
}

weft_status weft__data_format_of(const char *path, const char *data, size_t size,
                                 weft_data_format *out)
{
    const weft_status status = weft__data_format_named(path, out);
    if (status != WEFT_OK || (*out != WEFT_DATA_AUTO && *out != WEFT_DATA_JSON))
        return status;
    if (size >= 4 && memcmp(data, "PAR1", 4) == 0) {
        *out = WEFT_DATA_PARQUET;
        return WEFT_OK;
    }
    const size_t blanks = count_blanks(data, size);
    data += blanks;
    size -= blanks;
    if (*out == WEFT_DATA_JSON) /* many JSON-lines files are called .json */
        *out = size > 0 && *data == '[' ? WEFT_DATA_JSON : WEFT_DATA_JSONL;
    else if (size > 0 && *data == '[' && begins_with_array(data, size))
        *out = WEFT_DATA_JSON;
    else if (size > 0 && *data == '{' && begins_with_object(data, size))
        *out = WEFT_DATA_JSONL;
    else
        *out = WEFT_DATA_TEXT;
    return WEFT_OK;
}
