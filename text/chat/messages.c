/* text/chat/messages.c -- converts messages given as structs to JSON. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/chat.h"
#include "weft/memory.h"

static void member(weft__text *out, const char *key, const char *value)
{
    if (!value)
        return;
    weft__text_format(out, ", \"%s\": ", key);
    weft__text_quote(out, value);
}

static weft_status message_json(weft__text *out, const weft_chat_message *message)
{
    if (!message->role)
        return weft_fail(WEFT_INVALID, "chat: a message needs a role");
    weft__text_append(out, "{\"role\": ", 9);
    weft__text_quote(out, message->role);
    member(out, "content", message->content);
    member(out, "reasoning_content", message->reasoning_content);
    if (message->tool_calls) {
        weft__json_doc doc = {0};
        const weft_status status =
            weft__json_parse(message->tool_calls, strlen(message->tool_calls), "tool_calls", &doc);
        weft__json_free(&doc);
        if (status)
            return status;
        weft__text_format(out, ", \"tool_calls\": %s", message->tool_calls);
    }
    member(out, "tool_call_id", message->tool_call_id);
    member(out, "name", message->name);
    weft__text_append(out, "}", 1);
    return WEFT_OK;
}

weft_status weft_chat_messages(const weft_chat_message *messages, size_t count, char **json)
{
    weft__text out = {0};
    weft_status status = WEFT_OK;
    *json = NULL;
    weft__text_append(&out, "[", 1);
    for (size_t i = 0; i < count && !status; i++) {
        if (i > 0)
            weft__text_append(&out, ", ", 2);
        status = message_json(&out, &messages[i]);
    }
    weft__text_append(&out, "]", 1);
    if (!status && out.failed)
        status = weft__out_of_memory("chat", "the messages");
    if (status)
        weft_free(out.at);
    else
        *json = out.at;
    return status;
}
