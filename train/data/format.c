/* train/data/format.c -- the names of row kinds, and the format of a file from its
 * contents. */
#include <string.h>

#include "core/io/json.h"
#include "train/data/dataset.h"
#include "weft/tool/options.h"

const char *weft_row_kind_name(weft_row_kind kind)
{
    static const char *const names[] = {"messages", "sharegpt", "preference", "completion",
                                        "alpaca",   "question", "text"};
    return (size_t)kind < sizeof names / sizeof *names ? names[kind] : "none";
}

/* ---- by name -------------------------------------------------------------------------------- */

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
