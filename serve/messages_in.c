/* serve/messages_in.c -- the messages of a request, as chat templates take them. */
#include <string.h>

#include "serve/server.h"

/* Arguments of calls are strings in the API, and objects in templates. */
static void parse_arguments(json_object *message)
{
    json_object *calls = json_object_object_get(message, "tool_calls");
    const size_t n =
        json_object_is_type(calls, json_type_array) ? json_object_array_length(calls) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *call = json_object_array_get_idx(calls, i);
        json_object *function = json_object_object_get(call, "function");
        const char *text = serve_plain(json_object_object_get(function, "arguments"));
        json_object *parsed = text != NULL ? serve_parse(text) : NULL;
        if (json_object_is_type(parsed, json_type_object))
            json_object_object_add(function, "arguments", parsed);
        else
            json_object_put(parsed);
    }
}

/* Parts of a content: only text is supported. */
static weft_status check_parts(json_object *parts, size_t i)
{
    for (size_t k = 0; k < json_object_array_length(parts); k++) {
        json_object *part = json_object_array_get_idx(parts, k);
        const char *type = serve_plain(json_object_object_get(part, "type"));
        if (type == NULL || strcmp(type, "text") != 0)
            return weft_fail(WEFT_UNSUPPORTED,
                             "messages[%zu].content[%zu]: a part of type %s: only text is "
                             "supported",
                             i, k, type != NULL ? weft_printable(type) : "?");
        if (!json_object_is_type(json_object_object_get(part, "text"), json_type_string))
            return weft_fail(WEFT_INVALID, "messages[%zu].content[%zu]: expected a text", i, k);
    }
    return WEFT_OK;
}

static weft_status check_message(json_object *message, size_t i)
{
    json_object *content = json_object_object_get(message, "content");
    const char *role = serve_plain(json_object_object_get(message, "role"));
    if (role == NULL)
        return weft_fail(WEFT_INVALID, "messages[%zu]: expected an object with a role", i);
    if (strcmp(role, "developer") == 0)
        json_object_object_add(message, "role", json_object_new_string("system"));
    parse_arguments(message);
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

weft_status serve_read_messages(serve_request *request, json_object *messages)
{
    serve_settings *s = &request->settings;
    s->messages = messages;
    if (!json_object_is_type(messages, json_type_array) || json_object_array_length(messages) == 0)
        return weft_fail(WEFT_INVALID, "messages: expected an array that is not empty");
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < json_object_array_length(messages); i++)
        status = check_message(json_object_array_get_idx(messages, i), i);
    if (status == WEFT_OK) {
        s->messages_text = json_object_to_json_string(messages);
        if (s->messages_text == NULL)
            status = weft_fail(WEFT_MEMORY, "out of memory for the messages");
    }
    return status;
}
