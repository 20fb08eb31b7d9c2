/* text/chat/final.c -- prompts that end within their last message: marks the end of its content
 * before rendering, and cuts the text at the mark. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "text/chat/chat.h"
#include "weft/memory.h"

/* Ends with a space, which shows whether the template trims contents. */
static const char mark[] = "WEFT_END_OF_FINAL_MESSAGE ";

/* Appends the mark to a member that is a string. */
static weft_status mark_member(json_object *object, const char *key)
{
    weft__text text = {0};
    json_object *value = json_object_object_get(object, key);
    weft__text_append(&text, json_object_get_string(value),
                      (size_t)json_object_get_string_len(value));
    weft__text_append(&text, mark, sizeof mark - 1);
    json_object *marked = text.failed ? NULL : json_object_new_string_len(text.at, (int)text.n);
    weft_free(text.at);
    if (marked && json_object_object_add(object, key, marked) == 0)
        return WEFT_OK;
    json_object_put(marked);
    return weft__out_of_memory("chat", "the messages");
}

weft_status weft__chat_mark_final(json_object *messages)
{
    json_object *message =
        json_object_array_get_idx(messages, json_object_array_length(messages) - 1);
    json_object *content = json_object_object_get(message, "content"), *parts = NULL;
    if (json_object_is_type(content, json_type_string))
        return mark_member(message, "content");
    if (!json_object_is_type(content, json_type_array))
        return weft_fail(WEFT_INVALID, "chat: the last message has no content to go on with");
    /* The parts belong to the caller's messages, so copies are marked. */
    if (json_object_deep_copy(content, &parts, NULL) ||
        json_object_object_add(message, "content", parts)) {
        json_object_put(parts);
        return weft__out_of_memory("chat", "the messages");
    }
    for (size_t i = json_object_array_length(parts); i > 0; i--) {
        json_object *part = json_object_array_get_idx(parts, i - 1);
        if (json_object_is_type(json_object_object_get(part, "text"), json_type_string))
            return mark_member(part, "text");
    }
    return weft_fail(WEFT_INVALID, "chat: the last message has no text to go on with");
}

/* A copy of the last message's content with the mark. */
static json_object *marked_content(json_object *messages)
{
    json_object *message =
        json_object_array_get_idx(messages, json_object_array_length(messages) - 1);
    json_object *content = json_object_object_get(message, "content");
    if (json_object_is_type(content, json_type_string))
        return content;
    for (size_t i = json_object_array_length(content); i > 0; i--) {
        json_object *part = json_object_array_get_idx(content, i - 1);
        json_object *text = json_object_object_get(part, "text");
        if (json_object_is_type(text, json_type_string))
            return text;
    }
    return NULL;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether the text contains the content, ignoring white space around it. */
static bool has_content(const char *text, size_t length, json_object *messages)
{
    json_object *content = marked_content(messages);
    const char *at = json_object_get_string(content);
    size_t n = (size_t)json_object_get_string_len(content) - (sizeof mark - 1);
    for (; n > 0 && is_space(*at); n--)
        at++;
    while (n > 0 && is_space(at[n - 1]))
        n--;
    return n == 0 || memmem(text, length, at, n) != NULL;
}

weft_status weft__chat_cut_final(json_object *messages, char *text, size_t *length)
{
    const size_t size = sizeof mark - 1;
    char *last = NULL;
    for (char *at = text; (at = memmem(at, *length - (size_t)(at - text), mark, size - 1)); at++)
        last = at;
    if (!last || !has_content(text, *length, messages))
        return weft_fail(WEFT_INVALID, "chat: the template leaves out some of the last message, so "
                                       "there is nothing to go on with");
    size_t end = (size_t)(last - text);
    if (end + size > *length || last[size - 1] != ' ')
        while (end > 0 && is_space(text[end - 1]))
            end--;
    text[end] = '\0';
    *length = end;
    return WEFT_OK;
}
