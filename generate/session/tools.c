/* generate/session/tools.c -- tools: their description for templates, and the rounds of calls. */
#include <string.h>

#include "core/io/json.h"
#include "generate/session/session.h"
#include "text/schema/check.h"
#include "weft/memory.h"

/* ---- the table ------------------------------------------------------------------------------ */

static const weft_tool *find(const weft_session *s, const char *name)
{
    for (size_t i = 0; i < s->n_tools; i++)
        if (strcmp(s->tools[i].name, name) == 0)
            return &s->tools[i];
    return NULL;
}

static weft_status check_tool(const weft_tool *tools, size_t i)
{
    const weft_tool *tool = &tools[i];
    if (!tool->name || !*tool->name)
        return weft_fail(WEFT_INVALID, "session: tool %zu has no name", i);
    for (size_t j = 0; j < i; j++)
        if (strcmp(tools[j].name, tool->name) == 0)
            return weft_fail(WEFT_INVALID, "session: two tools are called \"%s\"",
                             weft_printable(tool->name));
    if (!tool->parameters)
        return WEFT_OK;
    weft__json_doc doc = {0};
    weft_status status =
        weft__json_parse(tool->parameters, strlen(tool->parameters), tool->name, &doc);
    const weft__json root = status ? (weft__json){0} : weft__json_root(&doc);
    if (!status)
        status = weft__json_as_object(&root);
    weft__json_free(&doc);
    return status;
}

static void write_tool(weft__text *out, const weft_tool *tool)
{
    static const char none[] = "{\"type\": \"object\", \"properties\": {}}";
    weft__text_format(
        out, "%s{\"type\": \"function\", \"function\": {\"name\": ", out->n > 1 ? ", " : "");
    weft__text_quote(out, tool->name);
    weft__text_append(out, ", \"description\": ", 17);
    weft__text_quote(out, tool->description ? tool->description : "");
    weft__text_format(out, ", \"parameters\": %s}}", tool->parameters ? tool->parameters : none);
}

static weft_tool_style style_of(const weft_session *s)
{
    if (s->tool_open)
        return WEFT_TOOLS_CUSTOM;
    return s->has_markup ? s->markup.tools : weft_chat_markup_of(s->chat, NULL, true).tools;
}

/* Whether the template supports tools and calls can be parsed. */
static bool template_has_tools(const weft_session *s)
{
    const weft_tool_style style = style_of(s);
    const char *named = weft_chat_source(s->chat, "tool_use");
    const char *source = named ? named : weft_chat_source(s->chat, NULL);
    return style != WEFT_TOOLS_NONE && source && strstr(source, "tools");
}

weft_status weft_session_set_tools(weft_session *session, const weft_tool *tools, size_t n)
{
    weft_status status = WEFT_OK;
    weft__text json = {0};
    if (n > 0 && !template_has_tools(session))
        return weft_fail(WEFT_UNSUPPORTED, "session: the chat template has no tools");
    weft__text_append(&json, "[", 1);
    for (size_t i = 0; i < n && !status; i++) {
        status = check_tool(tools, i);
        if (!status)
            write_tool(&json, &tools[i]);
    }
    weft__text_append(&json, "]", 1);
    weft_tool *copy = n > 0 && !status ? weft_malloc(n * sizeof *copy) : NULL;
    if (!status && (json.failed || (n > 0 && !copy)))
        status = weft__session_no_memory();
    if (status) {
        weft_free(copy);
        weft_free(json.at);
        return status;
    }
    if (n > 0)
        memcpy(copy, tools, n * sizeof *copy);
    else
        weft_free(json.at);
    weft_free(session->tools);
    weft_free(session->tools_json);
    session->tools = copy;
    session->n_tools = n;
    session->tools_json = n > 0 ? json.at : NULL;
    return WEFT_OK;
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* Values between tags have no types: what looked like JSON was parsed, and is converted back to a
 * string if the tool expects one. False: out of memory. */
static bool put_texts(json_object *schema, json_object *arguments)
{
    json_object *properties = json_object_object_get(schema, "properties");
    if (!json_object_is_type(properties, json_type_object))
        return true;
    json_object_object_foreach(properties, name, property)
    {
        json_object *type = json_object_object_get(property, "type");
        json_object *value = json_object_object_get(arguments, name);
        if (!value || json_object_is_type(value, json_type_string) ||
            !json_object_is_type(type, json_type_string) ||
            strcmp(json_object_get_string(type), "string") != 0)
            continue;
        json_object *text = json_object_new_string(json_object_to_json_string_ext(
            value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
        if (!text || json_object_object_add(arguments, name, text)) {
            json_object_put(text);
            return false;
        }
    }
    return true;
}

/* Checks the arguments, a JSON object, against the tool's schema; the violation goes to `out`. */
static weft_status check_arguments(const session_run *run, const weft_tool *tool,
                                   json_object *arguments, weft__text *out)
{
    weft__json_doc schema = {0};
    if (!tool->parameters)
        return WEFT_OK;
    weft_status status =
        weft__json_parse(tool->parameters, strlen(tool->parameters), tool->name, &schema);
    if (!status && style_of(run->session) == WEFT_TOOLS_FUNCTION &&
        !put_texts(schema.root, arguments))
        status = weft__session_no_memory();
    if (!status) {
        weft__text_format(out, "Error: arguments of %s: ", tool->name);
        if (weft__schema_holds(schema.root, arguments, out))
            out->n = 0; /* valid */
        if (out->failed)
            status = weft__session_no_memory();
    }
    weft__json_free(&schema);
    return status;
}

typedef struct tool_call {
    const char *name, *id;
    json_object *arguments;
} tool_call;

/* The result of a call in `out`. *failed: it is an error. */
static weft_status call_tool(session_run *run, const tool_call *call, weft__text *out, bool *failed)
{
    const weft_tool *tool = find(run->session, call->name);
    char *result = NULL;
    *failed = true;
    if (!tool) {
        weft__text_format(out, "Error: there is no tool called %s; there are", call->name);
        for (size_t i = 0; i < run->session->n_tools; i++)
            weft__text_format(out, "%s %s", i > 0 ? "," : "", run->session->tools[i].name);
        return WEFT_OK;
    }
    weft_status status = check_arguments(run, tool, call->arguments, out);
    if (status || out->n > 0)
        return status;
    const char *json = json_object_to_json_string_ext(
        call->arguments, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (!json)
        return weft__session_no_memory();
    status = tool->call(tool->context, json, &result);
    if (status == WEFT_CANCELLED) {
        run->stopped = true;
        weft__text_append(out, "Error: cancelled", 16);
        status = WEFT_OK;
    } else if (status) {
        weft__text_format(out, "Error: %s", weft_error_message());
        status = WEFT_OK;
    } else {
        *failed = false;
        weft__text_append(out, result ? result : "", result ? strlen(result) : 0);
    }
    weft_free(result);
    return status;
}

static weft_status add_result(session_run *run, const tool_call *call, const char *text)
{
    return weft_session_add(run->session, &(weft_chat_message){.role = "tool",
                                                               .content = text,
                                                               .tool_call_id = call->id,
                                                               .name = call->name});
}

/* Answers one call; with an error if there have been too many. */
static weft_status answer_call(session_run *run, const tool_call *call, bool too_many)
{
    weft__text out = {0};
    bool failed = true;
    weft_status status = WEFT_OK;
    weft__text_append(&out, "", 0);
    if (too_many)
        weft__text_format(&out, "Error: not called: the limit of %lld rounds is reached",
                          (long long)run->session->max_rounds);
    else
        status = call_tool(run, call, &out, &failed);
    if (!status && out.failed)
        status = weft__session_no_memory();
    const char *text = out.at ? out.at : "";
    if (!status)
        status = add_result(run, call, text);
    if (!status) {
        run->stats.tool_calls++;
        weft__session_emit(
            run, (weft_session_event){
                     .kind = WEFT_SESSION_TOOL_RESULT,
                     .text = text,
                     .length = out.n,
                     .name = call->name,
                     .arguments = json_object_to_json_string_ext(
                         call->arguments, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
                     .id = call->id,
                     .failed = failed});
    }
    weft_free(out.at);
    return status;
}

/* Answers the calls of a message, except those left to the caller. */
static weft_status answer_calls(session_run *run, json_object *calls, bool too_many)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < json_object_array_length(calls) && !status; i++) {
        json_object *at = json_object_array_get_idx(calls, i);
        json_object *function = json_object_object_get(at, "function");
        const tool_call call = {.name = weft__json_plain(json_object_object_get(function, "name")),
                                .id = weft__json_plain(json_object_object_get(at, "id")),
                                .arguments = json_object_object_get(function, "arguments")};
        const weft_tool *tool = find(run->session, call.name);
        if (tool && !tool->call)
            run->stats.pending_calls++;
        else if (!run->stopped)
            status = answer_call(run, &call, too_many);
    }
    return status;
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* Concatenates two texts. */
static json_object *joined(json_object *had, json_object *more)
{
    weft__text text = {0};
    weft__text_append(&text, json_object_get_string(had), (size_t)json_object_get_string_len(had));
    weft__text_append(&text, json_object_get_string(more),
                      (size_t)json_object_get_string_len(more));
    json_object *both = text.failed ? NULL : json_object_new_string_len(text.at, (int)text.n);
    weft_free(text.at);
    return both;
}

weft_status weft__session_add_answer(session_run *run, json_object *message)
{
    static const char *const keys[] = {"content", "reasoning_content", "tool_calls"};
    json_object *messages = run->session->messages;
    weft_status status = WEFT_OK;
    if (!run->turn.continue_final)
        return weft__session_append(messages, message);
    run->turn.continue_final = false;
    json_object *last = json_object_array_get_idx(messages, json_object_array_length(messages) - 1);
    for (size_t i = 0; i < 3 && !status; i++) {
        json_object *more = json_object_object_get(message, keys[i]);
        json_object *had = json_object_object_get(last, keys[i]);
        if (!more)
            continue;
        more =
            json_object_is_type(had, json_type_string) ? joined(had, more) : json_object_get(more);
        if (!more || json_object_object_add(last, keys[i], more)) {
            json_object_put(more);
            status = weft__session_no_memory();
        }
    }
    json_object_put(message);
    return status;
}

weft_status weft__session_rounds(session_run *run, json_object **message)
{
    weft_status status = WEFT_OK;
    for (int64_t round = 0; !status; round++) {
        status = weft__session_generate(run, message);
        json_object *calls = *message ? json_object_object_get(*message, "tool_calls") : NULL;
        if (status || run->stopped || run->ended || !calls || !weft__session_with_tools(run))
            break;
        json_object_get(calls);
        status = weft__session_add_answer(run, *message);
        *message = NULL;
        const bool too_many = round >= run->session->max_rounds;
        if (!status)
            status = answer_calls(run, calls, too_many);
        json_object_put(calls);
        run->stats.tool_limit = too_many;
        if (run->stopped || run->stats.pending_calls > 0 || too_many)
            break;
    }
    return status;
}
