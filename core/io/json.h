/* core/io/json.h -- JSON documents: values of json-c, errors that name file and field.
 *
 *     weft__json_doc doc;
 *     weft__json_read("config.json", &doc);
 *     weft__json root = weft__json_root(&doc), rope;
 *     weft__json_get(&root, "rope_parameters", &rope);
 *     weft__json_get_number(&rope, "factor", &factor);
 *         config.json: rope_parameters.factor: expected number, got string
 *     weft__json_free(&doc);
 *
 * json_parse.h describes the accepted syntax.
 */
#ifndef WEFT_CORE_IO_JSON_H
#define WEFT_CORE_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json_object.h>

#include "core/io/json_parse.h"
#include "weft/status.h"

enum { WEFT__JSON_MAX_PATH = 160 };

/* A parsed file. Zero it if it may be freed without having been read. */
typedef struct weft__json_doc {
    json_object *root;
    char *name; /* name of the file in messages */
} weft__json_doc;

/* A value in a document; it must not outlive the document. `value` is NULL for JSON's null and for
 * an absent optional member. */
typedef struct weft__json {
    json_object *value;
    const char *name;
    char path[WEFT__JSON_MAX_PATH]; /* "rope_parameters.factor", "layers[3]"; "" for the root */
} weft__json;

/* Reads and parses a file. WEFT_IO when it cannot be read, WEFT_INVALID ("name: line 3, column 7:
 * what") when it is not JSON. On failure *doc is zeroed. */
weft_status weft__json_read(const char *path, weft__json_doc *doc);

/* Parses `length` bytes; messages call the text `name`. Errors as weft__json_read. */
weft_status weft__json_parse(const char *text, size_t length, const char *name,
                             weft__json_doc *doc);

void weft__json_free(weft__json_doc *doc);

weft__json weft__json_root(const weft__json_doc *doc);

/* "object", "array", "string", "integer", "number", "boolean" or "null". */
const char *weft__json_type_name(const json_object *value);

/* Records "name: path: message" and returns `status`. */
weft_status weft__json_fail(const weft__json *at, weft_status status, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* Members: `get` requires the member; `find` sets out->value to NULL when it is absent or null.
 * Both fail when `object` is not an object. */
weft_status weft__json_get(const weft__json *object, const char *key, weft__json *out);
weft_status weft__json_find(const weft__json *object, const char *key, weft__json *out);

/* Element `index` of an array; the array's length. */
weft_status weft__json_at(const weft__json *array, size_t index, weft__json *out);
weft_status weft__json_length(const weft__json *array, size_t *length);

/* Calls `load` for every element of the array that is member `key`, until one fails. */
weft_status weft__json_each(const weft__json *object, const char *key,
                            weft_status (*load)(const weft__json *item, void *context),
                            void *context);

/* The value as exactly this type. An integral double counts as an integer, an integer as a number.
 * A string belongs to the document and is NUL-terminated; it may contain NULs only if `length` is
 * not NULL (else WEFT_INVALID). */
weft_status weft__json_as_int(const weft__json *at, int64_t *out);
weft_status weft__json_as_number(const weft__json *at, double *out);
weft_status weft__json_as_bool(const weft__json *at, bool *out);
weft_status weft__json_as_string(const weft__json *at, const char **out, size_t *length);
weft_status weft__json_as_object(const weft__json *at);

/* The digits of an integer beyond 64 signed bits, after "-" if it is negative; NULL for other
 * values. They belong to the document. */
const char *weft__json_big_integer(const json_object *value);

/* The text of a string without NULs; NULL for other values. */
const char *weft__json_plain(const json_object *value);

/* A required member of that type. Strings must not contain NULs. */
weft_status weft__json_get_int(const weft__json *object, const char *key, int64_t *out);
weft_status weft__json_get_number(const weft__json *object, const char *key, double *out);
weft_status weft__json_get_bool(const weft__json *object, const char *key, bool *out);
weft_status weft__json_get_string(const weft__json *object, const char *key, const char **out);

/* An optional member of a type: *out keeps its value when the member is absent or null. */
weft_status weft__json_find_int(const weft__json *object, const char *key, int64_t *out);
weft_status weft__json_find_number(const weft__json *object, const char *key, double *out);
weft_status weft__json_find_bool(const weft__json *object, const char *key, bool *out);
weft_status weft__json_find_string(const weft__json *object, const char *key, const char **out);

#endif
