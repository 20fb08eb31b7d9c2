/* text/chat/tool_call.c -- parses the model families' tool-call formats. */
#include "text/chat/tool_call.h"

#include <ctype.h>
#include <string.h>

#include <json-c/json.h>

#include "core/io/json.h"
#include "core/io/text.h"
#include "weft/memory.h"

typedef struct span {
    const char *at, *end;
} span;

static span trimmed(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at))
        at++;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    return (span){at, end};
}

static bool skip(span *s, const char *text)
{
    const size_t n = strlen(text);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, text, n) != 0)
        return false;
    s->at += n;
    return true;
}

static const char *find(span s, const char *text)
{
    return memmem(s.at, (size_t)(s.end - s.at), text, strlen(text));
}

/* ---- lists of calls ------------------------------------------------------------------------- */

static json_object *text_value(span s)
{
    return json_object_new_string_len(s.at, (int)(s.end - s.at));
}

static json_object *parse(span s)
{
    weft__json_doc doc = {0};
    if (weft__json_parse(s.at, (size_t)(s.end - s.at), "tool call", &doc))
        return NULL;
    json_object *root = json_object_get(doc.root);
    weft__json_free(&doc);
    return root;
}

/* Appends a call; takes `name` and `arguments`. False if one is invalid. */
static bool add_call(json_object *list, json_object *name, json_object *arguments, json_object *id)
{
    if (json_object_is_type(arguments, json_type_string)) { /* arguments encoded as a JSON string */
        const char *text = json_object_get_string(arguments);
        json_object *parsed = parse(trimmed(text, text + json_object_get_string_len(arguments)));
        json_object_put(arguments);
        arguments = parsed;
    }
    json_object *call = json_object_new_object();
    const char *plain = weft__json_plain(name);
    if (!call || !plain || !*plain || !json_object_is_type(arguments, json_type_object)) {
        json_object_put(call);
        json_object_put(name);
        json_object_put(arguments);
        return false;
    }
    json_object_object_add(call, "name", name);
    json_object_object_add(call, "arguments", arguments);
    if (weft__json_plain(id))
        json_object_object_add(call, "id", json_object_get(id));
    return json_object_array_add(list, call) == 0;
}

static bool add_object(json_object *list, json_object *call)
{
    if (!json_object_is_type(call, json_type_object))
        return false;
    json_object *function = json_object_object_get(call, "function");
    json_object *of = json_object_is_type(function, json_type_object) ? function : call;
    json_object *arguments = json_object_object_get(of, "arguments");
    if (!arguments)
        arguments = json_object_object_get(of, "parameters");
    return add_call(list, json_object_get(json_object_object_get(of, "name")),
                    json_object_get(arguments), json_object_object_get(call, "id"));
}

/* Returns the list if it is valid and not empty; otherwise frees it and returns NULL. */
static json_object *finished(json_object *list, bool fine)
{
    if (fine && json_object_array_length(list) > 0)
        return list;
    json_object_put(list);
    return NULL;
}

json_object *weft__tool_calls_json(const char *body, size_t length)
{
    json_object *root = parse(trimmed(body, body + length));
    json_object *list = json_object_new_array();
    bool fine = root && list;
    if (json_object_is_type(root, json_type_array))
        for (size_t i = 0; i < json_object_array_length(root) && fine; i++)
            fine = add_object(list, json_object_array_get_idx(root, i));
    else
        fine = fine && add_object(list, root);
    json_object_put(root);
    return finished(list, fine);
}

/* ---- <function=...> and <function name="..."> ----------------------------------------------- */

/* A parameter's value: parsed as JSON if it is a number, true, false, null, a list or an object;
 * otherwise a string. */
static json_object *loose_value(span s)
{
    if (skip(&s, "<![CDATA[")) {
        const char *end = find(s, "]]>");
        return text_value((span){s.at, end ? end : s.end});
    }
    json_object *value = s.at < s.end && *s.at != '"' ? parse(trimmed(s.at, s.end)) : NULL;
    if (!value && s.end - s.at == 4 && memcmp(s.at, "null", 4) == 0)
        return NULL;
    return value ? value : text_value(s);
}

/* The delimiters of the two dialects. */
typedef struct dialect {
    const char *open, *name_end, *parameter, *parameter_name_end, *parameter_close, *close;
    bool lines; /* values are on separate lines */
} dialect;

static bool read_parameter(span *s, const dialect *d, json_object *arguments)
{
    const char *name_end = find(*s, d->parameter_name_end);
    if (!name_end)
        return false;
    char *name = weft_format("%.*s", (int)(name_end - s->at), s->at);
    s->at = name_end + strlen(d->parameter_name_end);
    span search = *s;
    if (skip(&search, "<![CDATA[")) {
        const char *end = find(search, "]]>");
        search.at = end ? end : search.at;
    }
    const char *close = find(search, d->parameter_close);
    if (!close || !name) {
        weft_free(name);
        return false;
    }
    span value = {s->at, close};
    if (d->lines && value.at < value.end && *value.at == '\n')
        value.at++;
    if (d->lines && value.at < value.end && value.end[-1] == '\n')
        value.end--;
    const bool fine = json_object_object_add(arguments, name, loose_value(value)) == 0;
    weft_free(name);
    s->at = close + strlen(d->parameter_close);
    return fine;
}

static json_object *read_function(span s, const dialect *d)
{
    s = trimmed(s.at, s.end);
    const char *name_end = skip(&s, d->open) ? find(s, d->name_end) : NULL;
    json_object *list = json_object_new_array(), *arguments = json_object_new_object();
    if (!name_end || !list || !arguments) {
        json_object_put(arguments);
        return finished(list, false);
    }
    json_object *name = text_value((span){s.at, name_end});
    bool fine = true;
    s.at = name_end + strlen(d->name_end);
    while (fine) {
        s = trimmed(s.at, s.end);
        if (skip(&s, d->parameter))
            fine = read_parameter(&s, d, arguments);
        else
            break;
    }
    skip(&s, d->close);
    s = trimmed(s.at, s.end);
    if (fine && s.at == s.end)
        return finished(list, add_call(list, name, arguments, NULL));
    json_object_put(name);
    json_object_put(arguments);
    return finished(list, false);
}

static const dialect equals = {"<function=",   ">",           "<parameter=", ">",
                               "</parameter>", "</function>", true};
static const dialect named = {"<function name=\"", "\">", "<param name=\"", "\">", "</param>",
                              "</function>",       false};

/* ---- GLM ------------------------------------------------------------------------------------ */

/* <arg_key>key</arg_key><arg_value>value</arg_value>, with white space between tags. */
static bool read_pair(span *s, json_object *arguments)
{
    const char *key_end = skip(s, "<arg_key>") ? find(*s, "</arg_key>") : NULL;
    if (!key_end)
        return false;
    const span key = trimmed(s->at, key_end);
    s->at = key_end + strlen("</arg_key>");
    *s = trimmed(s->at, s->end);
    const char *value_end = skip(s, "<arg_value>") ? find(*s, "</arg_value>") : NULL;
    char *name = value_end ? weft_format("%.*s", (int)(key.end - key.at), key.at) : NULL;
    const bool fine =
        name && json_object_object_add(arguments, name, loose_value((span){s->at, value_end})) == 0;
    weft_free(name);
    if (fine)
        s->at = value_end + strlen("</arg_value>");
    return fine;
}

/* A name, and any number of such pairs. */
static json_object *read_pairs(span s)
{
    const char *first = find(s, "<arg_key>");
    const span name = trimmed(s.at, first ? first : s.end);
    json_object *list = json_object_new_array(), *arguments = json_object_new_object();
    bool fine = list && arguments && name.at < name.end;
    for (const char *p = name.at; p < name.end; p++)
        fine = fine && (isalnum((unsigned char)*p) || strchr("_-.:/", *p));
    s.at = name.end;
    for (s = trimmed(s.at, s.end); fine && s.at < s.end; s = trimmed(s.at, s.end))
        fine = read_pair(&s, arguments);
    if (fine)
        return finished(list, add_call(list, text_value(name), arguments, NULL));
    json_object_put(arguments);
    return finished(list, false);
}

/* ---- Mistral -------------------------------------------------------------------------------- */

/* name[CALL_ID]id[ARGS]{...} */
static json_object *read_mistral(span s)
{
    s = trimmed(s.at, s.end);
    if (s.at < s.end && *s.at == '[')
        return weft__tool_calls_json(s.at, (size_t)(s.end - s.at));
    const char *arguments = find(s, "[ARGS]");
    if (!arguments)
        return NULL;
    span head = {s.at, arguments};
    const char *id_at = find(head, "[CALL_ID]");
    json_object *id = id_at ? text_value((span){id_at + 9, arguments}) : NULL;
    const span name = trimmed(head.at, id_at ? id_at : head.end);
    json_object *list = json_object_new_array();
    const bool fine =
        list && add_call(list, text_value(name), parse(trimmed(arguments + 6, s.end)), id);
    json_object_put(id);
    return finished(list, fine);
}

/* ---- Gemma 4 -------------------------------------------------------------------------------- */

#define QUOTE "<|\"|>"

/* Converts {key:<|"|>text<|"|>,n:1} to JSON: quotes keys and strings. */
static void gemma4_json(span s, weft__text *out)
{
    while (s.at < s.end) {
        if (skip(&s, QUOTE)) {
            const char *end = find(s, QUOTE);
            weft__text_quote_bytes(out, s.at, (size_t)((end ? end : s.end) - s.at));
            s.at = end ? end + strlen(QUOTE) : s.end;
            continue;
        }
        const char *word = s.at;
        while (word < s.end && (isalnum((unsigned char)*word) || strchr("_-.+$", *word)))
            word++;
        const bool key = word > s.at && word < s.end && *word == ':';
        if (key)
            weft__text_append(out, "\"", 1);
        weft__text_append(out, s.at, word > s.at ? (size_t)(word - s.at) : 1);
        if (key)
            weft__text_append(out, "\"", 1);
        s.at = word > s.at ? word : s.at + 1;
    }
}

static json_object *read_gemma4(span s)
{
    s = trimmed(s.at, s.end);
    const char *brace = skip(&s, "call:") ? find(s, "{") : NULL;
    if (!brace)
        return NULL;
    weft__text json = {0};
    gemma4_json((span){brace, s.end}, &json);
    json_object *list = json_object_new_array();
    const bool fine = list && !json.failed && json.at &&
                      add_call(list, text_value(trimmed(s.at, brace)),
                               parse((span){json.at, json.at + json.n}), NULL);
    weft_free(json.at);
    return finished(list, fine);
}

/* ---- Llama ---------------------------------------------------------------------------------- */

/* Parses a="b", c=1 to an object; NULL if it is malformed. */
static json_object *keyword_arguments(span s)
{
    json_object *arguments = json_object_new_object();
    bool fine = arguments != NULL;
    while (fine && s.at < s.end) {
        const char *sign = find(s, "=");
        const span key = trimmed(s.at, sign ? sign : s.at);
        const char *end = sign ? sign + 1 : s.end;
        for (bool string = false; end < s.end && (string || *end != ','); end++)
            string = string != (*end == '"' && end[-1] != '\\');
        json_object *value = sign ? parse(trimmed(sign + 1, end)) : NULL;
        char *name = weft_format("%.*s", (int)(key.end - key.at), key.at);
        fine = value && name && json_object_object_add(arguments, name, value) == 0;
        if (!fine)
            json_object_put(value);
        weft_free(name);
        s.at = end < s.end ? end + 1 : s.end;
    }
    if (!fine) {
        json_object_put(arguments);
        arguments = NULL;
    }
    return arguments;
}

json_object *weft__tool_calls_python(const char *body, size_t length)
{
    span s = trimmed(body, body + length);
    const char *call = find(s, ".call(");
    json_object *list = json_object_new_array(), *arguments = NULL;
    if (!list || s.at == s.end)
        return finished(list, false);
    bool word = call && call > s.at && s.end[-1] == ')';
    for (const char *p = s.at; word && p < call; p++)
        word = isalnum((unsigned char)*p) || *p == '_';
    if (word)
        arguments = keyword_arguments((span){call + 6, s.end - 1});
    if (arguments)
        return finished(list, add_call(list, text_value((span){s.at, call}), arguments, NULL));
    arguments = json_object_new_object();
    if (!arguments || json_object_object_add(arguments, "code", text_value(s)))
        return finished(list, false);
    return finished(list, add_call(list, json_object_new_string("python"), arguments, NULL));
}

json_object *weft__tool_calls(weft_tool_style style, const char *body, size_t length)
{
    span s = trimmed(body, body + length);
    switch (style) {
    case WEFT_TOOLS_MISTRAL:
        return read_mistral(s);
    case WEFT_TOOLS_GEMMA4:
        return read_gemma4(s);
    case WEFT_TOOLS_PYTHON: {
        json_object *calls = weft__tool_calls_list(body, length);
        return calls ? calls : weft__tool_calls_json(body, length);
    }
    case WEFT_TOOLS_FUNCTION:
        return read_function(s, &named);
    case WEFT_TOOLS_HERMES:
        if (s.at < s.end && *s.at == '<')
            return read_function(s, &equals);
        if (s.at < s.end && *s.at != '{' && *s.at != '[')
            return read_pairs(s);
        break;
    default:
        break;
    }
    return weft__tool_calls_json(body, length);
}
