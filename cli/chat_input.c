/* cli/chat_input.c -- JSON input of weft chat: messages, one per line, and tools. */
#include "cli/chat_input.h"

#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/edit.h"
#include "cli/lines.h"

/* ---- messages ------------------------------------------------------------------------------- */

static weft_status replace(chat_run *run, json_object *messages)
{
    const char *json = json_object_to_json_string(messages);
    return json != NULL ? weft_session_set_messages(run->session, json)
                        : weft_fail(WEFT_MEMORY, "chat: no memory for the messages");
}

static const char *text_of(json_object *message, const char *key)
{
    return cli_plain_text(json_object_object_get(message, key));
}

/* Rejects strings that contain NUL: the library expects NUL-terminated strings. */
static weft_status check_texts(json_object *object, const char *what)
{
    if (!json_object_is_type(object, json_type_object))
        return WEFT_OK;
    json_object_object_foreach(object, key, value)
    {
        if (json_object_is_type(value, json_type_string) && cli_plain_text(value) == NULL)
            return weft_fail(WEFT_INVALID, "%s: %s: expected a string without \\u0000", what, key);
    }
    return WEFT_OK;
}

/* Adds a message with any role. Sets *answer if the model must answer now. */
static weft_status add_message(chat_run *run, json_object *in, bool *answer)
{
    json_object *calls = json_object_object_get(in, "tool_calls");
    const weft_status status = check_texts(in, "chat");
    if (status != WEFT_OK)
        return status;
    const weft_chat_message message = {
        .role = text_of(in, "role"),
        .content = text_of(in, "content"),
        .reasoning_content = text_of(in, "reasoning_content"),
        .tool_calls = calls != NULL ? json_object_to_json_string(calls) : NULL,
        .tool_call_id = text_of(in, "tool_call_id"),
        .name = text_of(in, "name"),
    };
    if (message.role == NULL || (message.content == NULL && calls == NULL))
        return weft_fail(WEFT_INVALID, "chat: expected a text, or an object with the texts role "
                                       "and content, or with messages");
    *answer = strcmp(message.role, "user") == 0;
    if (strcmp(message.role, "tool") == 0 && run->pending > 0)
        *answer = --run->pending == 0;
    if (strcmp(message.role, "system") == 0)
        return weft_session_set_system(run->session, message.content);
    return weft_session_add(run->session, &message);
}

void chat_read_message(chat_run *run, const char *line)
{
    if (line[strspn(line, " \t")] == '\0')
        return;
    json_object *in = cli_parse_json(line, strlen(line));
    json_object *messages = json_object_object_get(in, "messages");
    bool answer = true;
    weft_status status = WEFT_OK;
    if (in == NULL)
        status = weft_fail(WEFT_INVALID, "chat: the line is not JSON");
    else if (cli_plain_text(in) != NULL)
        chat_answer(run, cli_plain_text(in), false);
    else if (json_object_is_type(in, json_type_string))
        status = weft_fail(WEFT_INVALID, "chat: expected a string without \\u0000");
    else if (messages != NULL)
        status = replace(run, messages);
    else
        status = add_message(run, in, &answer);
    if (status != WEFT_OK)
        chat_show_failure(run);
    else if (answer && !json_object_is_type(in, json_type_string))
        chat_answer(run, NULL, false);
    json_object_put(in);
}

/* ---- tools ---------------------------------------------------------------------------------- */

/* The user acts as the tool: the line is the result of the call that was shown. */
static weft_status ask_person(void *context, const char *arguments, char **result)
{
    chat_run *run = context;
    char *line = NULL;
    (void)arguments;
    if (!run->asked)
        puts("(the model called a tool: enter its result; Ctrl-D ends the answer)");
    run->asked = true;
    const cli_edit_result read = cli_edit_read("result> ", &line);
    if (read == CLI_EDIT_FAILED)
        return weft_fail(WEFT_MEMORY, "chat: no memory for the line");
    if (read != CLI_EDIT_LINE)
        return weft_fail(WEFT_CANCELLED, "chat: the call was left without a result");
    *result = weft_strdup(line);
    free(line);
    return *result != NULL ? WEFT_OK : weft_fail(WEFT_MEMORY, "chat: no memory for the result");
}

weft_status chat_read_tools(chat_run *run, const char *path)
{
    char *text = NULL;
    size_t n = 0;
    weft_status status = weft_file_read(path, 0, &text, &n);
    if (status != WEFT_OK)
        return status;
    json_object *list = cli_parse_json(text, n);
    weft_free(text);
    run->tools_json = list;
    if (!json_object_is_type(list, json_type_array))
        return weft_fail(WEFT_INVALID, "%s: expected a JSON array of tools", path);
    run->tools = calloc(json_object_array_length(list) + 1, sizeof *run->tools);
    if (run->tools == NULL)
        return weft_fail(WEFT_MEMORY, "%s: no memory", path);
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *at = json_object_array_get_idx(list, i);
        json_object *function = json_object_object_get(at, "function");
        json_object *of = function != NULL ? function : at;
        json_object *parameters = json_object_object_get(of, "parameters");
        status = check_texts(of, path);
        if (status != WEFT_OK)
            return status;
        run->tools[run->n_tools++] = (weft_tool){
            .name = text_of(of, "name"),
            .description = text_of(of, "description"),
            .parameters = parameters != NULL ? json_object_to_json_string(parameters) : NULL,
            .call = run->values->json ? NULL : ask_person,
            .context = run};
    }
    return WEFT_OK;
}

void chat_free_tools(chat_run *run)
{
    free(run->tools);
    json_object_put(run->tools_json);
}
