/* serve/fields.c -- reads members of a request's body. */
#include <math.h>
#include <string.h>

#include "core/io/json_parse.h"
#include "serve/server.h"

/* The member; NULL: absent or null. */
static json_object *member(json_object *object, const char *key)
{
    json_object *value = NULL;
    return json_object_object_get_ex(object, key, &value) ? value : NULL;
}

weft_status serve_read_number(json_object *object, const char *key, double low, double high,
                              double *out)
{
    json_object *value = member(object, key);
    if (value == NULL)
        return WEFT_OK;
    if (!json_object_is_type(value, json_type_int) && !json_object_is_type(value, json_type_double))
        return weft_fail(WEFT_INVALID, "%s: expected a number", key);
    const double number = json_object_get_double(value);
    if (!(number >= low && number <= high))
        return weft_fail(WEFT_INVALID, "%s: expected a number from %.15g to %.15g, got %.15g", key,
                         low, high, number);
    *out = number;
    return WEFT_OK;
}

weft_status serve_read_count(json_object *object, const char *key, int64_t low, int64_t high,
                             int64_t *out)
{
    json_object *value = member(object, key);
    if (value == NULL)
        return WEFT_OK;
    const bool whole = json_object_is_type(value, json_type_int) ||
                       (json_object_is_type(value, json_type_double) &&
                        json_object_get_double(value) == floor(json_object_get_double(value)));
    if (!whole)
        return weft_fail(WEFT_INVALID, "%s: expected a whole number", key);
    const int64_t number = json_object_get_int64(value);
    if (number < low || number > high)
        return weft_fail(WEFT_INVALID, "%s: expected a number from %lld to %lld, got %lld", key,
                         (long long)low, (long long)high, (long long)number);
    *out = number;
    return WEFT_OK;
}

weft_status serve_read_flag(json_object *object, const char *key, bool *out)
{
    json_object *value = member(object, key);
    if (value == NULL)
        return WEFT_OK;
    if (!json_object_is_type(value, json_type_boolean))
        return weft_fail(WEFT_INVALID, "%s: expected true or false", key);
    *out = json_object_get_boolean(value);
    return WEFT_OK;
}

const char *serve_plain(json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return NULL;
    const char *text = json_object_get_string(value);
    return strlen(text) == (size_t)json_object_get_string_len(value) ? text : NULL;
}

weft_status serve_read_text(json_object *object, const char *key, const char **out)
{
    json_object *value = member(object, key);
    if (value == NULL)
        return WEFT_OK;
    if (serve_plain(value) == NULL)
        return weft_fail(WEFT_INVALID, "%s: expected a string without \\u0000", key);
    *out = serve_plain(value);
    return WEFT_OK;
}

/* ---- the body ------------------------------------------------------------------------------- */

/* A body's values may use so many times the bytes of the largest body, all requests' four times as
 * many. */
enum { DEPTH = WEFT__JSON_MAX_DEPTH, TIMES = 24 };

weft_status serve_hold(serve_request *request, size_t bytes)
{
    serve_server *server = request->server;
    const size_t most = (size_t)server->options.body * TIMES * 4;
    if (atomic_fetch_add(&server->held, bytes) + bytes > most) {
        atomic_fetch_sub(&server->held, bytes);
        const serve_error error = serve_error_make(503, "requests with too much data are waiting");
        return serve_refuse(request, &error);
    }
    atomic_fetch_add(&request->held, bytes); /* by each of its choices */
    return WEFT_OK;
}

json_object *serve_parse(const char *text)
{
    json_tokener *tokener = json_tokener_new_ex(DEPTH + 8);
    json_object *value =
        tokener != NULL ? json_tokener_parse_ex(tokener, text, (int)strlen(text) + 1) : NULL;
    if (tokener != NULL)
        json_tokener_free(tokener);
    return value;
}

/* At least the bytes of the values of a JSON text, with those of json-c 0.13 to 0.18: an empty
 * object has a table of 16 entries, an empty array 32 pointers, and a fraction its digits. *finite:
 * without NaN and Infinity, which the parser reads. */
static size_t measure(const char *at, size_t n, bool *finite)
{
    size_t bytes = 0;
    bool quoted = false;
    *finite = true;
    for (size_t i = 0; i < n; i++) {
        const char c = at[i];
        if (c == '"')
            quoted = !quoted;
        else if (quoted)
            i += c == '\\';
        else if (c == 'N' || c == 'I')
            *finite = false;
        else
            bytes += c == '{' ? 800u : c == '[' ? 400u : c == ':' ? 160u : c == ',' ? 128u : 0u;
    }
    return bytes;
}

weft_status serve_parse_text(serve_request *request, const char *text, json_object **out)
{
    bool finite;
    *out = NULL;
    if (serve_hold(request, measure(text, strlen(text), &finite)) != WEFT_OK)
        return WEFT_INVALID;
    *out = serve_parse(text);
    return WEFT_OK;
}

weft_status serve_parse_body(serve_request *request)
{
    const serve_text *body = &request->body;
    bool finite;
    const size_t bytes = measure(body->at, body->n, &finite);
    const size_t most = (size_t)request->server->options.body * TIMES;
    if (!finite)
        return weft_fail(WEFT_INVALID, "body: NaN and Infinity are not JSON");
    if (bytes > most) {
        const serve_error error = serve_error_make(
            413, "body: its values would take %zu bytes, more than %zu", bytes, most);
        return serve_refuse(request, &error);
    }
    if (serve_hold(request, bytes) != WEFT_OK)
        return WEFT_INVALID;
    const weft_status status =
        weft__json_parse_value(body->at != NULL ? body->at : "", body->n, "body", &request->json);
    if (status != WEFT_OK)
        return status;
    return json_object_is_type(request->json, json_type_object)
               ? serve_choose_model(request)
               : weft_fail(WEFT_INVALID, "body: expected a JSON object");
}
