/* text/chat/chat.c -- weft_chat: owns chat templates and renders messages with them. */
#include "text/chat/chat.h"

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "core/failure.h"
#include "core/list.h"
#include "weft/memory.h"

enum { MAX_VARIABLES = 128 };

/* ---- templates ------------------------------------------------------------------------------ */

weft_chat *weft__chat_new(const char *where)
{
    weft_chat *chat = weft_calloc(1, sizeof *chat);
    if (!chat)
        return NULL;
    chat->where = weft_strdup(where);
    chat->tokens = json_object_new_object();
    if (chat->where && chat->tokens)
        return chat;
    weft_chat_free(chat);
    return NULL;
}

weft_status weft__chat_add(weft_chat *chat, const char *name, const char *where, const char *source,
                           size_t length)
{
    if (!weft__list_more(chat->templates, chat->count))
        return weft__out_of_memory(where, NULL);
    chat_template *t = &chat->templates[chat->count];
    *t = (chat_template){.name = weft_strdup(name), .source = weft_malloc(length + 1)};
    weft_status status = WEFT_OK;
    if (!t->name || !t->source) {
        status = weft__out_of_memory(where, NULL);
    } else {
        memcpy(t->source, source, length);
        t->source[length] = '\0';
        t->status = weft__jinja_parse(source, length, where, &t->parsed);
        t->error = t->status ? weft_strdup(weft_error_message()) : NULL;
        status = t->status && (t->status == WEFT_MEMORY || !t->error) ? WEFT_MEMORY : WEFT_OK;
        if (t->parsed && !status)
            status = weft__chat_probe(t);
    }
    chat->count++; /* counted now, so that it is freed with the others */
    return status;
}

void weft_chat_free(weft_chat *chat)
{
    if (!chat)
        return;
    for (size_t i = 0; i < chat->count; i++) {
        weft_free(chat->templates[i].name);
        weft_free(chat->templates[i].source);
        weft__jinja_free(chat->templates[i].parsed);
        weft_free(chat->templates[i].error);
    }
    weft_free(chat->templates);
    json_object_put(chat->tokens);
    weft_free(chat->where);
    weft_free(chat);
}

static weft_status add_token(weft_chat *chat, const char *key, const weft_tokenizer *tokenizer,
                             int32_t id)
{
    const char *text = id >= 0 ? weft_tokenizer_id_to_token(tokenizer, id) : NULL;
    if (!text)
        return WEFT_OK;
    json_object *value = json_object_new_string(text);
    if (value && json_object_object_add(chat->tokens, key, value) == 0)
        return WEFT_OK;
    json_object_put(value);
    return weft__out_of_memory(chat->where, NULL);
}

weft_status weft__chat_tokens_of(weft_chat *chat, const weft_tokenizer *tokenizer)
{
    if (!tokenizer)
        return WEFT_OK;
    weft_status status = add_token(chat, "bos_token", tokenizer, weft_tokenizer_bos(tokenizer));
    if (!status)
        status = add_token(chat, "eos_token", tokenizer, weft_tokenizer_eos(tokenizer));
    if (!status)
        status = add_token(chat, "pad_token", tokenizer, weft_tokenizer_pad(tokenizer));
    return status;
}

weft_status weft_chat_parse(const char *source, size_t length, const char *name,
                            const weft_tokenizer *tokenizer, weft_chat **out)
{
    *out = NULL;
    weft_chat *chat = weft__chat_new(name);
    if (!chat)
        return weft__out_of_memory(name, NULL);
    weft_status status = weft__chat_add(chat, "default", name, source, length);
    if (!status)
        status = weft_chat_check(chat, NULL);
    if (!status)
        status = weft__chat_tokens_of(chat, tokenizer);
    if (status)
        weft_chat_free(chat);
    else
        *out = chat;
    return status;
}

weft_status weft_chat_builtin(const char *model_type, const char *version,
                              const weft_tokenizer *tokenizer, weft_chat **out)
{
    *out = NULL;
    const char *source = weft__chat_format(model_type, version);
    if (!source)
        return weft_fail(WEFT_UNSUPPORTED, "there is no built-in chat format of \"%s\"%s%s",
                         weft_printable(model_type), version ? " " : "", version ? version : "");
    return weft_chat_parse(source, strlen(source), "built-in chat format", tokenizer, out);
}

static const chat_template *find(const weft_chat *chat, const char *name)
{
    for (size_t i = 0; i < chat->count; i++)
        if (strcmp(chat->templates[i].name, name) == 0)
            return &chat->templates[i];
    return NULL;
}

const char *weft_chat_source(const weft_chat *chat, const char *name)
{
    const chat_template *t = find(chat, name ? name : "default");
    return t ? t->source : NULL;
}

static weft_status unknown(const weft_chat *chat, const char *name)
{
    return weft_fail(WEFT_INVALID, "%s: there is no chat template called \"%s\"", chat->where,
                     weft_printable(name ? name : "default"));
}

static weft_status check(const chat_template *t)
{
    return t->error ? weft_fail(t->status, "%s", t->error) : WEFT_OK;
}

weft_status weft_chat_check(const weft_chat *chat, const char *name)
{
    const chat_template *t = find(chat, name ? name : "default");
    return t ? check(t) : unknown(chat, name);
}

static const chat_template *choose(const weft_chat *chat, const weft_chat_options *options)
{
    if (options->template_name)
        return find(chat, options->template_name);
    const chat_template *with_tools = options->tools ? find(chat, "tool_use") : NULL;
    return with_tools ? with_tools : find(chat, "default");
}

/* ---- messages ------------------------------------------------------------------------------- */

/* A copy of a message without null members, with content as the template renders it and the
 * reasoning under every known member name. NULL when out of memory. */
static json_object *prepared(const chat_template *t, json_object *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_object *copy = json_object_new_object(), *reasoning = NULL;
    bool fine = copy != NULL;
    for (size_t i = 0; i < 3 && !reasoning; i++)
        reasoning = json_object_object_get(message, names[i]);
    if (reasoning && fine)
        fine = json_object_object_add(copy, "thinking", json_object_get(reasoning)) == 0;
    json_object_object_foreach(message, key, value)
    {
        json_object *member = NULL;
        if (value && fine)
            member = strcmp(key, "content") == 0 ? weft__chat_convert_content(t, value)
                                                 : json_object_get(value);
        if (value && fine)
            fine = member && json_object_object_add(copy, key, member) == 0;
    }
    if (reasoning && fine)
        fine = json_object_object_add(copy, names[0], json_object_get(reasoning)) == 0;
    if (!fine) {
        json_object_put(copy);
        copy = NULL;
    }
    return copy;
}

static weft_status prepare(const chat_template *t, const weft__json *root, json_object **out)
{
    size_t count = 0;
    weft__json item;
    weft_status status = weft__json_length(root, &count);
    if (!status && count == 0)
        status = weft_fail(WEFT_INVALID, "%s: expected at least one message", root->name);
    json_object *list = status ? NULL : json_object_new_array();
    if (!status && !list)
        status = weft__out_of_memory(root->name, NULL);
    for (size_t i = 0; i < count && !status; i++) {
        status = weft__json_at(root, i, &item);
        if (!status)
            status = weft__json_as_object(&item);
        json_object *message = status ? NULL : prepared(t, item.value);
        if (!status && (!message || json_object_array_add(list, message))) {
            json_object_put(message);
            status = weft__out_of_memory(root->name, NULL);
        }
    }
    *out = list;
    return status;
}

/* ---- rendering ------------------------------------------------------------------------------ */

typedef struct inputs {
    jinja_input at[MAX_VARIABLES];
    size_t count;
    weft__json_doc messages, tools, documents, variables;
    json_object *prepared, *prompt, *thinking;
} inputs;

static weft_status add(inputs *in, const char *name, json_object *value)
{
    if (in->count == MAX_VARIABLES)
        return weft_fail(WEFT_INVALID, "chat: more than %d variables", MAX_VARIABLES);
    in->at[in->count++] = (jinja_input){.name = name, .value = value};
    return WEFT_OK;
}

static weft_status add_members(inputs *in, json_object *object)
{
    weft_status status = WEFT_OK;
    json_object_object_foreach(object, key, value)
    {
        if (!status)
            status = add(in, key, value);
    }
    return status;
}

static weft_status parse_option(const char *text, const char *name, weft__json_doc *doc)
{
    return text ? weft__json_parse(text, strlen(text), name, doc) : WEFT_OK;
}

static weft_status parse_inputs(inputs *in, const chat_template *t, const char *messages,
                                const weft_chat_options *options)
{
    weft_status status = parse_option(messages, "messages", &in->messages);
    if (!status)
        status = parse_option(options->tools, "tools", &in->tools);
    if (!status)
        status = parse_option(options->documents, "documents", &in->documents);
    if (!status)
        status = parse_option(options->variables, "variables", &in->variables);
    if (!status) {
        const weft__json root = weft__json_root(&in->messages);
        status = prepare(t, &root, &in->prepared);
    }
    if (!status && options->variables) {
        const weft__json root = weft__json_root(&in->variables);
        status = weft__json_as_object(&root);
    }
    if (!status && options->continue_final)
        status =
            options->generation_prompt
                ? weft_fail(WEFT_INVALID, "chat: continue_final goes on with the last message, "
                                          "generation_prompt begins another: choose one")
                : weft__chat_mark_final(in->prepared);
    return status;
}

/* Collects the variables of a template. Of duplicate names the last one is used. */
static weft_status collect(const weft_chat *chat, const weft_chat_options *options, inputs *in)
{
    in->prompt = json_object_new_boolean(options->generation_prompt);
    in->thinking = json_object_new_boolean(options->thinking == WEFT_THINKING_ON);
    weft_status status = in->prompt && in->thinking ? add_members(in, chat->tokens)
                                                    : weft__out_of_memory(chat->where, NULL);
    if (!status)
        status = add(in, "messages", in->prepared);
    if (!status)
        status = add(in, "tools", in->tools.root);
    if (!status)
        status = add(in, "documents", in->documents.root);
    if (!status)
        status = add(in, "add_generation_prompt", in->prompt);
    if (!status && options->thinking != WEFT_THINKING_DEFAULT)
        status = add(in, "enable_thinking", in->thinking);
    if (!status && in->variables.root)
        status = add_members(in, in->variables.root);
    return status;
}

weft_status weft_chat_render(const weft_chat *chat, const char *messages,
                             const weft_chat_options *options, char **text, size_t *length)
{
    return weft__chat_render_spans(chat, messages, options, text, length, NULL);
}

weft_status weft__chat_render_spans(const weft_chat *chat, const char *messages,
                                    const weft_chat_options *options, char **text, size_t *length,
                                    jinja_spans *spans)
{
    static const weft_chat_options defaults = {0};
    size_t n = 0;
    *text = NULL;
    options = options ? options : &defaults;
    const chat_template *t = choose(chat, options);
    if (!t)
        return unknown(chat, options->template_name);
    weft_status status = check(t);
    inputs *in = status ? NULL : weft_calloc(1, sizeof *in);
    if (!in)
        return status ? status : weft__out_of_memory(chat->where, NULL);
    status = parse_inputs(in, t, messages, options);
    if (!status)
        status = collect(chat, options, in);
    if (!status) {
        const jinja_context context = {
            .variables = in->at, .count = in->count, .now = options->now, .spans = spans};
        status = weft__jinja_render(t->parsed, &context, text, &n);
    }
    if (!status && options->continue_final)
        status = weft__chat_cut_final(in->prepared, *text, &n);
    if (status) {
        weft_free(*text);
        *text = NULL;
    }
    if (length)
        *length = n;
    json_object_put(in->prepared);
    json_object_put(in->prompt);
    json_object_put(in->thinking);
    weft__json_free(&in->messages);
    weft__json_free(&in->tools);
    weft__json_free(&in->documents);
    weft__json_free(&in->variables);
    weft_free(in);
    return status;
}

weft_status weft_chat_encode(const weft_chat *chat, const weft_tokenizer *tokenizer,
                             const char *messages, const weft_chat_options *options, int32_t **ids,
                             size_t *count)
{
    char *text = NULL;
    size_t length = 0;
    *ids = NULL;
    *count = 0;
    weft_status status = weft_chat_render(chat, messages, options, &text, &length);
    if (!status)
        status = weft_tokenizer_encode(tokenizer, text, length, 0, ids, count);
    weft_free(text);
    return status;
}
