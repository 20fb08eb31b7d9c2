/* train/data/cells.c -- messages and labels that are given as strings, as in tables. */
#include <string.h>
#include <strings.h>

#include "core/failure.h"
#include "train/data/reader.h"

/* ---- messages ------------------------------------------------------------------------------- */

static size_t skip_blanks(const char *text, size_t n, size_t i)
{
    while (i < n && text[i] != '\0' && strchr(" \t\r\n", text[i]))
        i++;
    return i;
}

/* Whether a text begins like an array of messages, in JSON or as printed by Python. */
static bool begins_as_messages(const char *text, size_t n)
{
    static const char *const keys[] = {"role", "content", "from", "value"};
    size_t i = skip_blanks(text, n, 0);
    if (i >= n || text[i] != '[')
        return false;
    i = skip_blanks(text, n, i + 1);
    if (i >= n || text[i] != '{')
        return false;
    i = skip_blanks(text, n, i + 1);
    if (i >= n || (text[i] != '"' && text[i] != '\''))
        return false;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        const size_t length = strlen(keys[k]);
        if (i + length + 1 < n && memcmp(text + i + 1, keys[k], length) == 0 &&
            text[i + 1 + length] == text[i])
            return true;
    }
    return false;
}

/* Whether every item is an object with "role", or with "from" as in ShareGPT. */
static bool are_messages(json_object *list)
{
    const bool is_list = json_object_is_type(list, json_type_array);
    const size_t n = is_list ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *item = json_object_array_get_idx(list, i);
        if (!json_object_is_type(item, json_type_object) ||
            (!json_object_object_get_ex(item, "role", NULL) &&
             !json_object_object_get_ex(item, "from", NULL)))
            return false;
    }
    return n > 0;
}

weft_status weft__reader_unpack(const weft__json *row, const char *key)
{
    weft__json at;
    weft__json_doc doc;
    const char *text;
    size_t n;
    weft_status status = weft__json_find(row, key, &at);
    if (status != WEFT_OK || !json_object_is_type(at.value, json_type_string))
        return status;
    status = weft__json_as_string(&at, &text, &n);
    if (status != WEFT_OK || !begins_as_messages(text, n))
        return status;
    status = weft__json_parse(text, n, "", &doc);
    if (status == WEFT_INVALID)
        return weft__json_fail(&at, status, "expected a text or a JSON array of messages%s",
                               weft_error_message());
    if (status != WEFT_OK)
        return status;
    if (are_messages(doc.root) &&
        json_object_object_add(row->value, key, json_object_get(doc.root)) != 0) {
        json_object_put(doc.root);
        status = weft__out_of_memory(row->name, NULL);
    }
    weft__json_free(&doc);
    return status;
}

/* ---- labels --------------------------------------------------------------------------------- */

weft_status weft__reader_label(const weft__json *at, bool *out)
{
    static const char *const words[] = {"false", "true", "0", "1"};
    const bool is_bool = json_object_is_type(at->value, json_type_boolean);
    const char *text = is_bool ? NULL : json_object_get_string(at->value);
    *out = is_bool && json_object_get_boolean(at->value);
    for (int i = 0; text && i < 4; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *out = i % 2 == 1;
            return WEFT_OK;
        }
    }
    return is_bool ? WEFT_OK
                   : weft__json_fail(at, WEFT_INVALID, "expected true or false (or 1 or 0), got %s",
                                     weft_printable(text ? text : "null"));
}
