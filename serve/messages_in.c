/* serve/messages_in.c -- the messages of a request, as chat templates take them. */
#include <string.h>

#include "serve/server.h"
#include "weft/memory.h"

/* Arguments of calls are strings in the API, and objects in templates. */
static weft_status parse_arguments(serve_request *request, json_object *message)
{
    weft_status status = WEFT_OK;
    json_object *calls = json_object_object_get(message, "tool_calls");
    const size_t n =
        json_object_is_type(calls, json_type_array) ? json_object_array_length(calls) : 0;
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        json_object *call = json_object_array_get_idx(calls, i);
        json_object *function = json_object_object_get(call, "function");
        const char *text = serve_plain(json_object_object_get(function, "arguments"));
        json_object *parsed = NULL;
        if (text != NULL)
            status = serve_parse_text(request, text, &parsed);
        if (json_object_is_type(parsed, json_type_object))
            json_object_object_add(function, "arguments", parsed);
        else
            json_object_put(parsed);
    }
    return status;
}

/* Parts of a content: only text is supported. */
static weft_status check_parts(json_object *parts, size_t i)
{
    for (size_t k = 0; k < json_object_array_length(parts); k++) {
        json_object *part = json_object_array_get_idx(parts, k);
        const char *type = serve_plain(json_object_object_get(part, "type"));
        if (type == NULL)
            return weft_fail(WEFT_INVALID,
                             "messages[%zu].content[%zu]: expected an object with a type", i, k);
        if (strcmp(type, "text") != 0)
            return weft_fail(WEFT_UNSUPPORTED,
                             "messages[%zu].content[%zu]: a part of type %s: only text is "
                             "supported",
                             i, k, weft_printable(type));
        if (!json_object_is_type(json_object_object_get(part, "text"), json_type_string))
            return weft_fail(WEFT_INVALID, "messages[%zu].content[%zu]: expected a text", i, k);
    }
    return WEFT_OK;
}

static weft_status check_message(serve_request *request, json_object *message, size_t i)
{
    json_object *content = json_object_object_get(message, "content");
    const char *role = serve_plain(json_object_object_get(message, "role"));
    if (role == NULL)
        return weft_fail(WEFT_INVALID, "messages[%zu]: expected an object with a role", i);
    if (strcmp(role, "developer") == 0)
        json_object_object_add(message, "role", json_object_new_string("system"));
    const weft_status status = parse_arguments(request, message);
    if (status != WEFT_OK)
        return status;
    if (content == NULL) { /* of a message that is only calls, which templates take for a text */
        json_object_object_add(message, "content", json_object_new_string(""));
        return WEFT_OK;
    }
    if (json_object_is_type(content, json_type_array))
        return check_parts(content, i);
    if (json_object_is_type(content, json_type_string))
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "messages[%zu].content: expected a string or an array", i);
}

static size_t count_systems(json_object *messages)
{
    size_t n = 0;
    while (n < json_object_array_length(messages)) {
        json_object *message = json_object_array_get_idx(messages, n);
        const char *role = serve_plain(json_object_object_get(message, "role"));
        if (role == NULL || strcmp(role, "system") != 0)
            break;
        n++;
    }
    return n;
}

static void add_content(serve_text *out, json_object *content)
{
    if (json_object_is_type(content, json_type_string)) {
        serve_text_add(out, "\n", out->n > 0);
        serve_text_add(out, json_object_get_string(content),
                       (size_t)json_object_get_string_len(content));
        return;
    }
    for (size_t i = 0; i < json_object_array_length(content); i++)
        add_content(out, json_object_object_get(json_object_array_get_idx(content, i), "text"));
}

/* Makes the first n messages, of the system, one. */
static weft_status merge_systems(json_object *messages, size_t n)
{
    serve_text joined = {0};
    serve_text_add(&joined, "", 0);
    for (size_t i = 0; i < n; i++)
        add_content(&joined,
                    json_object_object_get(json_object_array_get_idx(messages, i), "content"));
    json_object *text = joined.failed ? NULL : json_object_new_string_len(joined.at, (int)joined.n);
    serve_text_free(&joined);
    if (text == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the messages");
    json_object_object_add(json_object_array_get_idx(messages, 0), "content", text);
    json_object_array_del_idx(messages, 1, n - 1);
    return WEFT_OK;
}

static weft_status write_messages(serve_settings *s)
{
    s->messages_text = json_object_to_json_string(s->messages);
    return s->messages_text != NULL ? WEFT_OK
                                    : weft_fail(WEFT_MEMORY, "out of memory for the messages");
}

/* Merges several messages of the system at the beginning if the template refuses them. */
static weft_status fit_systems(serve_request *request)
{
    serve_settings *s = &request->settings;
    const size_t n = count_systems(s->messages);
    char *text = NULL;
    size_t length = 0, tokens = 0;
    if (n < 2 || serve_render(request, &text, &length, &tokens) != WEFT_INVALID) {
        weft_free(text);
        return WEFT_OK;
    }
    const weft_status status = merge_systems(s->messages, n);
    return status == WEFT_OK ? write_messages(s) : status;
}

weft_status serve_read_messages(serve_request *request, json_object *messages)
{
    serve_settings *s = &request->settings;
    s->messages = messages;
    if (!json_object_is_type(messages, json_type_array) || json_object_array_length(messages) == 0)
        return weft_fail(WEFT_INVALID, "messages: expected an array that is not empty");
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < json_object_array_length(messages); i++)
        status = check_message(request, json_object_array_get_idx(messages, i), i);
    if (status == WEFT_OK)
        status = write_messages(s);
    return status == WEFT_OK ? fit_systems(request) : status;
}
