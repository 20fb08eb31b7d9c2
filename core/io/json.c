/* core/io/json.c -- JSON documents, with typed getters whose errors name the field. */
#include "core/io/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/fileio.h"
#include "weft/io.h"
#include "weft/memory.h"

/* ---- documents ------------------------------------------------------------------------------ */

weft_status weft__json_parse(const char *text, size_t length, const char *name, weft__json_doc *doc)
{
    *doc = (weft__json_doc){0};
    weft_status status = weft__file_check_lfs(name, text, length);
    if (!status)
        status = weft__json_parse_value(text, length, name, &doc->root);
    if (!status) {
        doc->name = weft_strdup(name);
        if (!doc->name)
            status = weft__out_of_memory(name, "parsing");
    }
    if (status)
        weft__json_free(doc);
    return status;
}

weft_status weft__json_read(const char *path, weft__json_doc *doc)
{
    *doc = (weft__json_doc){0};
    char *text = NULL;
    size_t length = 0;
    weft_status status = weft_file_read(path, WEFT__JSON_MAX_BYTES, &text, &length);
    if (!status)
        status = weft__json_parse(text, length, path, doc);
    weft_free(text);
    return status;
}

void weft__json_free(weft__json_doc *doc)
{
    json_object_put(doc->root);
    weft_free(doc->name);
    *doc = (weft__json_doc){0};
}

/* ---- values --------------------------------------------------------------------------------- */

weft__json weft__json_root(const weft__json_doc *doc)
{
    return (weft__json){.value = doc->root, .name = doc->name};
}

const char *weft__json_type_name(const json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_object:
        return "object";
    case json_type_array:
        return "array";
    case json_type_string:
        return "string";
    case json_type_int:
        return "integer";
    case json_type_double:
        return "number";
    case json_type_boolean:
        return "boolean";
    default:
        return "null";
    }
}

weft_status weft__json_fail(const weft__json *at, weft_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weft_fail(status, "%s: %s%s%s", at->name, at->path, at->path[0] ? ": " : "", text);
}

static weft_status expected(const weft__json *at, const char *what)
{
    return weft__json_fail(at, WEFT_INVALID, "expected %s, got %s", what,
                           weft__json_type_name(at->value));
}

/* Refers to a member. A path that is too long is cut at the end. */
static weft__json child(const weft__json *parent, json_object *value, const char *separator,
                        const char *key)
{
    weft__json out = {.value = value, .name = parent->name};
    const size_t used = strlen(parent->path);
    memcpy(out.path, parent->path, used);
    snprintf(out.path + used, sizeof out.path - used, "%s%s", used ? separator : "", key);
    return out;
}

weft_status weft__json_find(const weft__json *object, const char *key, weft__json *out)
{
    if (!json_object_is_type(object->value, json_type_object))
        return expected(object, "object");
    *out = child(object, json_object_object_get(object->value, key), ".", key);
    return WEFT_OK;
}

weft_status weft__json_get(const weft__json *object, const char *key, weft__json *out)
{
    const weft_status status = weft__json_find(object, key, out);
    if (status || out->value)
        return status;
    if (json_object_object_get_ex(object->value, key, NULL))
        return weft__json_fail(out, WEFT_INVALID, "is null");
    return weft__json_fail(out, WEFT_INVALID, "is missing");
}

weft_status weft__json_length(const weft__json *array, size_t *length)
{
    if (!json_object_is_type(array->value, json_type_array))
        return expected(array, "array");
    *length = json_object_array_length(array->value);
    return WEFT_OK;
}

weft_status weft__json_at(const weft__json *array, size_t index, weft__json *out)
{
    size_t length = 0;
    const weft_status status = weft__json_length(array, &length);
    if (status)
        return status;
    if (index >= length)
        return weft__json_fail(array, WEFT_INVALID, "expected element %zu, got %zu elements", index,
                               length);
    char key[32];
    snprintf(key, sizeof key, "[%zu]", index);
    *out = child(array, json_object_array_get_idx(array->value, index), "", key);
    return WEFT_OK;
}

weft_status weft__json_each(const weft__json *object, const char *key,
                            weft_status (*load)(const weft__json *item, void *context),
                            void *context)
{
    weft__json list, item;
    size_t count = 0;
    weft_status status = weft__json_get(object, key, &list);
    if (!status)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = load(&item, context);
    }
    return status;
}

weft_status weft__json_as_int(const weft__json *at, int64_t *out)
{
    if (weft__json_big_integer(at->value))
        return weft__json_fail(at, WEFT_INVALID, "integer beyond 64 signed bits");
    if (json_object_is_type(at->value, json_type_double)) {
        const double number = json_object_get_double(at->value);
        if (number != floor(number) || fabs(number) > 9007199254740992.0)
            return weft__json_fail(at, WEFT_INVALID, "expected integer, got %g", number);
        *out = (int64_t)number;
        return WEFT_OK;
    }
    if (!json_object_is_type(at->value, json_type_int))
        return expected(at, "integer");
    *out = json_object_get_int64(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_number(const weft__json *at, double *out)
{
    if (!json_object_is_type(at->value, json_type_double) &&
        !json_object_is_type(at->value, json_type_int))
        return expected(at, "number");
    *out = json_object_get_double(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_bool(const weft__json *at, bool *out)
{
    if (!json_object_is_type(at->value, json_type_boolean))
        return expected(at, "boolean");
    *out = json_object_get_boolean(at->value);
    return WEFT_OK;
}

const char *weft__json_big_integer(const json_object *value)
{
    json_object *number = (json_object *)value; /* json-c's getters are not const-correct */
    const char *text = json_object_is_type(number, json_type_double)
                           ? (const char *)json_object_get_userdata(number)
                           : NULL;
    return text && strspn(text + (*text == '-'), "0123456789") == strlen(text) - (*text == '-')
               ? text
               : NULL;
}

const char *weft__json_plain(const json_object *value)
{
    json_object *string = (json_object *)value;
    if (!json_object_is_type(string, json_type_string))
        return NULL;
    const char *text = json_object_get_string(string);
    return strlen(text) == (size_t)json_object_get_string_len(string) ? text : NULL;
}

weft_status weft__json_as_string(const weft__json *at, const char **out, size_t *length)
{
    if (!json_object_is_type(at->value, json_type_string))
        return expected(at, "string");
    if (!length && !weft__json_plain(at->value))
        return weft__json_fail(at, WEFT_INVALID, "expected a string without \\u0000");
    *out = json_object_get_string(at->value);
    if (length)
        *length = (size_t)json_object_get_string_len(at->value);
    return WEFT_OK;
}

weft_status weft__json_as_object(const weft__json *at)
{
    return json_object_is_type(at->value, json_type_object) ? WEFT_OK : expected(at, "object");
}

weft_status weft__json_get_int(const weft__json *object, const char *key, int64_t *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_int(&at, out);
}

weft_status weft__json_get_number(const weft__json *object, const char *key, double *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_number(&at, out);
}

weft_status weft__json_get_bool(const weft__json *object, const char *key, bool *out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_bool(&at, out);
}

weft_status weft__json_get_string(const weft__json *object, const char *key, const char **out)
{
    weft__json at;
    const weft_status status = weft__json_get(object, key, &at);
    return status ? status : weft__json_as_string(&at, out, NULL);
}

weft_status weft__json_find_int(const weft__json *object, const char *key, int64_t *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_int(&at, out);
}

weft_status weft__json_find_number(const weft__json *object, const char *key, double *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_number(&at, out);
}

weft_status weft__json_find_bool(const weft__json *object, const char *key, bool *out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_bool(&at, out);
}

weft_status weft__json_find_string(const weft__json *object, const char *key, const char **out)
{
    weft__json at;
    const weft_status status = weft__json_find(object, key, &at);
    return status || !at.value ? status : weft__json_as_string(&at, out, NULL);
}
