/* text/chat/tool_call.h -- the calls of tools within a model's markup. */
#ifndef WEFT_TEXT_CHAT_TOOL_CALL_H
#define WEFT_TEXT_CHAT_TOOL_CALL_H

#include <json-c/json_object.h>

#include "weft/chat.h"

/* Reads what stands between the marks of a style: an array of {"name", "arguments", "id"}, which
 * the caller puts; arguments are objects. NULL when it is malformed. */
json_object *weft__tool_calls(weft_tool_style style, const char *body, size_t length);

/* The same of JSON alone: an object with name and arguments or parameters, or an array of them. */
json_object *weft__tool_calls_json(const char *body, size_t length);

/* Code behind <|python_tag|>: name.call(a="b") as a call of `name`, else one of "python". */
json_object *weft__tool_calls_python(const char *body, size_t length);

#endif
