/* text/chat/tool_call.h -- parses tool calls in a model's markup. */
#ifndef WEFT_TEXT_CHAT_TOOL_CALL_H
#define WEFT_TEXT_CHAT_TOOL_CALL_H

#include <json-c/json_object.h>

#include "weft/chat.h"

/* Parses the text between the marks of a style to an array of {"name", "arguments", "id"}, which
 * the caller releases; arguments are objects. NULL when it is malformed. */
json_object *weft__tool_calls(weft_tool_style style, const char *body, size_t length);

/* The same for plain JSON: an object with name and arguments or parameters, or an array of them. */
json_object *weft__tool_calls_json(const char *body, size_t length);

/* The same for code after <|python_tag|>: name.call(a="b") is a call of `name`; other code is a
 * call of "python". */
json_object *weft__tool_calls_python(const char *body, size_t length);

/* The same for a list of calls as Python writes them: [name(key="text", n=1), ...]. */
json_object *weft__tool_calls_list(const char *body, size_t length);

#endif
