/* text/chat/content.c -- the content of messages: a text or a list of parts, as the template
 * renders it. */
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "text/chat/chat.h"
#include "weft/memory.h"

/* ---- what a template renders ----------------------------------------------------------------- */

/* Whether a template renders the text of these messages, rather than failing, omitting it or
 * printing the list. */
static weft_status renders(const jinja_template *template, const char *messages, bool *out)
{
    json_object *list = json_tokener_parse(messages), *empty = json_object_new_string("");
    char *text = NULL;
    size_t n = 0;
    const jinja_input variables[] = {{.name = "messages", .value = list},
                                     {.name = "bos_token", .value = empty},
                                     {.name = "eos_token", .value = empty}};
    const jinja_context context = {.variables = variables, .count = 3};
    const weft_status status = list && empty ? weft__jinja_render(template, &context, &text, &n)
                                             : weft__out_of_memory("chat", NULL);
    *out = status == WEFT_OK && memmem(text, n, "weft", 4) && !memmem(text, n, "'type'", 6) &&
           !memmem(text, n, "\"type\"", 6);
    weft_free(text);
    json_object_put(list);
    json_object_put(empty);
    return status == WEFT_MEMORY ? status : WEFT_OK;
}

weft_status weft__chat_probe(chat_template *t)
{
    weft_status status =
        renders(t->parsed, "[{\"role\": \"user\", \"content\": \"weft\"}]", &t->renders_texts);
    if (!status)
        status = renders(t->parsed,
                         "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
                         "\"weft\"}]}]",
                         &t->renders_lists);
    return status;
}

/* ---- conversion ------------------------------------------------------------------------------ */

static bool is_text(json_object *value)
{
    return json_object_is_type(value, json_type_string);
}

static void append(weft__text *out, json_object *text)
{
    weft__text_append(out, json_object_get_string(text), (size_t)json_object_get_string_len(text));
}

bool weft__chat_content_text(json_object *content, weft__text *out)
{
    const bool is_list = json_object_is_type(content, json_type_array);
    const size_t n = is_list ? json_object_array_length(content) : 0;
    if (is_text(content))
        append(out, content);
    for (size_t i = 0; i < n; i++) {
        json_object *part = json_object_array_get_idx(content, i);
        const char *type = weft__json_plain(json_object_object_get(part, "type"));
        json_object *text = json_object_object_get(part, "text");
        if (type == NULL || strcmp(type, "text") != 0 || !is_text(text))
            return false;
        append(out, text);
    }
    return n > 0 || is_text(content);
}

/* [{"type": "text", "text": content}]; NULL when out of memory. */
static json_object *list_of(json_object *content)
{
    json_object *list = json_object_new_array(), *part = json_object_new_object();
    if (list && part && json_object_object_add(part, "type", json_object_new_string("text")) == 0 &&
        json_object_object_add(part, "text", json_object_get(content)) == 0 &&
        json_object_array_add(list, part) == 0)
        return list;
    json_object_put(part);
    json_object_put(list);
    return NULL;
}

json_object *weft__chat_convert_content(const chat_template *t, json_object *content)
{
    if (is_text(content) && !t->renders_texts && t->renders_lists)
        return list_of(content);
    weft__text text = {0};
    json_object *out = NULL;
    if (is_text(content) || t->renders_lists || !t->renders_texts ||
        !weft__chat_content_text(content, &text))
        out = json_object_get(content);
    else if (!text.failed)
        out = json_object_new_string_len(text.n > 0 ? text.at : "", (int)text.n);
    weft_free(text.at);
    return out;
}
