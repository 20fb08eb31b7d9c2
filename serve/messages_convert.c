/* serve/messages_convert.c -- conversations of Anthropic's messages and OpenAI's responses as
 * messages of a chat. */
#include "serve/convert.h"

#include <string.h>

/* ---- building ------------------------------------------------------------------------------- */

static json_object *add_message(json_object *messages, const char *role)
{
    json_object *message = json_object_new_object();
    if (message == NULL || json_object_object_add(message, "role", json_object_new_string(role)) ||
        json_object_array_add(messages, message)) {
        json_object_put(message);
        return NULL;
    }
    return message;
}

/* The last message if it has this role and `key` is not in it yet. */
static json_object *last_of(json_object *messages, const char *role)
{
    const size_t n = json_object_array_length(messages);
    json_object *last = n > 0 ? json_object_array_get_idx(messages, n - 1) : NULL;
    const char *had = serve_plain(json_object_object_get(last, "role"));
    return had != NULL && strcmp(had, role) == 0 ? last : NULL;
}

/* Adds to a member that is a list of texts until join_texts. */
static void append(json_object *message, const char *key, json_object *more)
{
    json_object *list = json_object_object_get(message, key);
    if (list == NULL) {
        list = json_object_new_array();
        json_object_object_add(message, key, list);
    }
    json_object_array_add(list, json_object_get(more));
}

/* Makes the lists of texts of a member texts, with newlines between. */
static weft_status join_member(json_object *message, const char *key)
{
    json_object *list = json_object_object_get(message, key);
    serve_text joined = {0};
    if (!json_object_is_type(list, json_type_array))
        return WEFT_OK;
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *text = json_object_array_get_idx(list, i);
        serve_text_add(&joined, "\n", i > 0);
        serve_text_add(&joined, json_object_get_string(text),
                       (size_t)json_object_get_string_len(text));
    }
    json_object *text = joined.failed ? NULL : json_object_new_string_len(joined.at, (int)joined.n);
    if (text != NULL)
        json_object_object_add(message, key, text);
    serve_text_free(&joined);
    return text != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "out of memory for the messages");
}

static weft_status join_texts(json_object *messages)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < json_object_array_length(messages); i++) {
        json_object *message = json_object_array_get_idx(messages, i);
        status = join_member(message, "content");
        if (status == WEFT_OK)
            status = join_member(message, "reasoning_content");
    }
    return status;
}

static weft_status add_call(json_object *message, json_object *id, json_object *name,
                            json_object *arguments)
{
    json_object *calls = json_object_object_get(message, "tool_calls");
    json_object *call = json_object_new_object(), *function = json_object_new_object();
    if (message == NULL || call == NULL || function == NULL) {
        json_object_put(call);
        json_object_put(function);
        return weft_fail(WEFT_MEMORY, "out of memory for the messages");
    }
    if (calls == NULL) {
        calls = json_object_new_array();
        json_object_object_add(message, "tool_calls", calls);
    }
    if (serve_plain(name) == NULL) {
        json_object_put(call);
        json_object_put(function);
        return weft_fail(WEFT_INVALID, "a call of a tool: expected a name");
    }
    json_object_object_add(call, "id", json_object_get(id));
    json_object_object_add(call, "type", json_object_new_string("function"));
    json_object_object_add(function, "name", json_object_get(name));
    json_object_object_add(function, "arguments",
                           arguments != NULL ? json_object_get(arguments)
                                             : json_object_new_object());
    json_object_object_add(call, "function", function);
    json_object_array_add(calls, call);
    return WEFT_OK;
}

/* Adds the texts of a content, a string or a list of parts, to a member of a message. */
static weft_status add_texts(json_object *message, const char *key, json_object *content)
{
    static const char *const types[] = {"text",           "input_text",   "output_text",
                                        "reasoning_text", "summary_text", "refusal"};
    if (message == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the messages");
    if (json_object_is_type(content, json_type_string))
        append(message, key, content);
    const size_t n =
        json_object_is_type(content, json_type_array) ? json_object_array_length(content) : 0;
    for (size_t i = 0; i < n; i++) {
        json_object *part = json_object_array_get_idx(content, i);
        const char *type = serve_plain(json_object_object_get(part, "type"));
        json_object *text = json_object_object_get(part, "text");
        bool known = false;
        for (size_t k = 0; type != NULL && k < sizeof types / sizeof *types; k++)
            known = known || strcmp(type, types[k]) == 0;
        if (text == NULL)
            text = json_object_object_get(part, "refusal");
        if (!known)
            return weft_fail(WEFT_UNSUPPORTED, "content: a part of type %s: only text is supported",
                             type != NULL ? weft_printable(type) : "?");
        if (!json_object_is_type(text, json_type_string))
            return weft_fail(WEFT_INVALID, "content: a part of type %s: expected a text", type);
        append(message, key, text);
    }
    return WEFT_OK;
}

static weft_status add_result(json_object *messages, json_object *id, json_object *content)
{
    json_object *message = add_message(messages, "tool");
    if (message == NULL)
        return weft_fail(WEFT_MEMORY, "out of memory for the messages");
    json_object_object_add(message, "content", json_object_new_string(""));
    json_object_object_add(message, "tool_call_id", json_object_get(id));
    if (content == NULL)
        return WEFT_OK;
    json_object_object_del(message, "content");
    const weft_status status = add_texts(message, "content", content);
    if (status == WEFT_OK && json_object_object_get(message, "content") == NULL)
        json_object_object_add(message, "content", json_object_new_string(""));
    return status;
}

/* ---- Anthropic ------------------------------------------------------------------------------ */

static weft_status add_block(json_object *messages, json_object *message, json_object *block,
                             json_object *texts)
{
    const char *type = serve_plain(json_object_object_get(block, "type"));
    if (type == NULL)
        return weft_fail(WEFT_INVALID, "messages: content: expected blocks with a type");
    if (strcmp(type, "tool_result") == 0)
        return add_result(messages, json_object_object_get(block, "tool_use_id"),
                          json_object_object_get(block, "content"));
    if (strcmp(type, "tool_use") == 0 && message != NULL)
        return add_call(message, json_object_object_get(block, "id"),
                        json_object_object_get(block, "name"),
                        json_object_object_get(block, "input"));
    if (strcmp(type, "thinking") == 0 && message != NULL) {
        append(message, "reasoning_content", json_object_object_get(block, "thinking"));
        return WEFT_OK;
    }
    if (strcmp(type, "redacted_thinking") == 0)
        return WEFT_OK;
    json_object_array_add(texts, json_object_get(block));
    return WEFT_OK;
}

/* A message's results of tools become messages of their own, before its text. */
static weft_status add_blocks(json_object *messages, const char *role, json_object *content)
{
    json_object *texts = json_object_new_array();
    json_object *message = strcmp(role, "assistant") == 0 ? add_message(messages, role) : NULL;
    weft_status status = WEFT_OK;
    if (json_object_is_type(content, json_type_string)) {
        json_object_put(texts);
        texts = json_object_get(content);
    } else if (!json_object_is_type(content, json_type_array)) {
        status = weft_fail(WEFT_INVALID, "messages: content: expected a string or an array");
    }
    for (size_t i = 0; status == WEFT_OK && json_object_is_type(content, json_type_array) &&
                       i < json_object_array_length(content);
         i++)
        status = add_block(messages, message, json_object_array_get_idx(content, i), texts);
    const bool any = json_object_is_type(texts, json_type_string) ||
                     (texts != NULL && json_object_array_length(texts) > 0);
    if (status == WEFT_OK && any && message == NULL)
        message = add_message(messages, role);
    if (status == WEFT_OK && any)
        status = add_texts(message, "content", texts);
    json_object_put(texts);
    return status;
}

weft_status serve_convert_anthropic(json_object *body, json_object *messages)
{
    json_object *system = json_object_object_get(body, "system");
    json_object *given = json_object_object_get(body, "messages");
    weft_status status = WEFT_OK;
    if (!json_object_is_type(given, json_type_array))
        return weft_fail(WEFT_INVALID, "messages: expected an array that is not empty");
    if (system != NULL)
        status = add_texts(add_message(messages, "system"), "content", system);
    for (size_t i = 0; status == WEFT_OK && i < json_object_array_length(given); i++) {
        json_object *message = json_object_array_get_idx(given, i);
        json_object *content = json_object_object_get(message, "content");
        const char *role = serve_plain(json_object_object_get(message, "role"));
        if (role == NULL)
            return weft_fail(WEFT_INVALID, "messages[%zu]: expected an object with a role", i);
        json_object *first = last_of(messages, "system");
        if (strcmp(role, "system") == 0 && first != NULL) /* one system text for templates */
            status = add_texts(first, "content", content);
        else if (strcmp(role, "system") == 0 && json_object_array_length(messages) > 0)
            status = add_blocks(messages, "user", content);
        else
            status = add_blocks(messages, role, content);
    }
    return status == WEFT_OK ? join_texts(messages) : status;
}

/* ---- OpenAI's responses --------------------------------------------------------------------- */

/* The assistant's message that an item belongs to. */
static json_object *assistant(json_object *messages)
{
    json_object *last = last_of(messages, "assistant");
    return last != NULL ? last : add_message(messages, "assistant");
}

static weft_status add_item(json_object *messages, json_object *item, size_t i)
{
    const char *type = serve_plain(json_object_object_get(item, "type"));
    const char *role = serve_plain(json_object_object_get(item, "role"));
    json_object *content = json_object_object_get(item, "content");
    if (role != NULL && (type == NULL || strcmp(type, "message") == 0)) {
        json_object *message =
            strcmp(role, "assistant") == 0 ? assistant(messages) : add_message(messages, role);
        return add_texts(message, "content", content);
    }
    if (type != NULL && strcmp(type, "function_call") == 0)
        return add_call(assistant(messages), json_object_object_get(item, "call_id"),
                        json_object_object_get(item, "name"),
                        json_object_object_get(item, "arguments"));
    if (type != NULL && strcmp(type, "function_call_output") == 0)
        return add_result(messages, json_object_object_get(item, "call_id"),
                          json_object_object_get(item, "output"));
    if (type != NULL && strcmp(type, "reasoning") == 0)
        return content == NULL
                   ? WEFT_OK
                   : add_texts(add_message(messages, "assistant"), "reasoning_content", content);
    return weft_fail(WEFT_UNSUPPORTED, "input[%zu]: an item of type %s is not supported", i,
                     type != NULL ? weft_printable(type) : "?");
}

weft_status serve_convert_responses(json_object *body, json_object *messages)
{
    json_object *instructions = json_object_object_get(body, "instructions");
    json_object *input = json_object_object_get(body, "input");
    weft_status status = WEFT_OK;
    if (instructions != NULL)
        status = add_texts(add_message(messages, "system"), "content", instructions);
    const bool list = json_object_is_type(input, json_type_array);
    if (status == WEFT_OK && json_object_is_type(input, json_type_string))
        status = add_texts(add_message(messages, "user"), "content", input);
    else if (status == WEFT_OK && !list)
        status = weft_fail(WEFT_INVALID, "input: expected a string or an array");
    for (size_t i = 0; status == WEFT_OK && list && i < json_object_array_length(input); i++)
        status = add_item(messages, json_object_array_get_idx(input, i), i);
    return status == WEFT_OK ? join_texts(messages) : status;
}
