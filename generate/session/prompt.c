/* generate/session/prompt.c -- renders the prompt of a turn with the chat template. */
#include <string.h>

#include "core/io/json.h"
#include "generate/session/session.h"
#include "weft/memory.h"

bool weft__session_with_tools(const session_run *run)
{
    return run->session->tools_json && !run->turn.no_tools &&
           run->turn.structured != WEFT_STRUCTURED_CONSTRAINED;
}

/* A message with `text` appended to its content of `n` bytes. NULL: out of memory. */
static json_object *extended(const char *role, const char *content, size_t n, const char *text)
{
    weft__text joined = {0};
    weft__text_append(&joined, content, n);
    weft__text_format(&joined, "%s%s", n > 0 ? "\n\n" : "", text);
    json_object *message = weft__session_message(role, "");
    json_object *value =
        message && !joined.failed ? json_object_new_string_len(joined.at, (int)joined.n) : NULL;
    weft_free(joined.at);
    if (value && json_object_object_add(message, "content", value) == 0)
        return message;
    json_object_put(value);
    json_object_put(message);
    return NULL;
}

static bool is_user(json_object *message)
{
    const char *role = weft__json_plain(json_object_object_get(message, "role"));
    return role && strcmp(role, "user") == 0 &&
           json_object_is_type(json_object_object_get(message, "content"), json_type_string);
}

/* The messages of a run that are not left out, with its instruction after the system text or, if
 * there is none, after the first user text. */
static json_object *collect(const session_run *run, bool in_system)
{
    const weft_session *s = run->session;
    const size_t n = json_object_array_length(s->messages);
    bool instructed = run->instruction && !in_system;
    const char *system = s->system ? s->system : "";
    json_object *all = json_object_new_array();
    weft_status status = all ? WEFT_OK : WEFT_MEMORY;
    if (!status && (s->system || (run->instruction && in_system)))
        status = weft__session_append(
            all, run->instruction && in_system
                     ? extended("system", system, strlen(system), run->instruction)
                     : weft__session_message("system", s->system));
    for (size_t i = s->left_out; i < n && !status; i++) {
        json_object *message = json_object_array_get_idx(s->messages, i);
        if (instructed && is_user(message)) {
            json_object *content = json_object_object_get(message, "content");
            message = extended("user", json_object_get_string(content),
                               (size_t)json_object_get_string_len(content), run->instruction);
            instructed = false;
        } else {
            json_object_get(message);
        }
        status = weft__session_append(all, message);
    }
    if (!status)
        return all;
    json_object_put(all);
    return NULL;
}

static weft_status render(const session_run *run, bool in_system, char **text, size_t *length)
{
    const weft_session *s = run->session;
    json_object *messages = collect(run, in_system);
    const char *json = messages ? json_object_to_json_string(messages) : NULL;
    weft_chat_options options = {
        .generation_prompt = !run->turn.continue_final,
        .continue_final = run->turn.continue_final,
        .thinking = s->thinking,
        .tools = weft__session_with_tools(run) ? s->tools_json : NULL,
        .variables = s->variables,
    };
    if (run->turn.structured == WEFT_STRUCTURED_CONSTRAINED && s->thinking == WEFT_THINKING_DEFAULT)
        options.thinking = WEFT_THINKING_OFF;
    const weft_status status =
        json ? weft_chat_render(s->chat, json, &options, text, length) : weft__session_no_memory();
    json_object_put(messages);
    return status;
}

static weft_status render_whole(const session_run *run, char **text, size_t *length)
{
    const weft_status status = render(run, true, text, length);
    /* Some templates reject a system text. */
    return status == WEFT_INVALID && run->instruction && !run->session->system
               ? render(run, false, text, length)
               : status;
}

/* Leaves out one more turn; false if only the last one remains. */
static bool leave_out_turn(weft_session *s)
{
    const size_t n = json_object_array_length(s->messages);
    for (size_t i = s->left_out + 1; i < n; i++) {
        json_object *message = json_object_array_get_idx(s->messages, i);
        const char *role = weft__json_plain(json_object_object_get(message, "role"));
        if (role && strcmp(role, "user") == 0) {
            s->left_out = i;
            return true;
        }
    }
    return false;
}

static weft_status count_tokens(const weft_session *s, const char *text, size_t length,
                                int64_t *tokens)
{
    int32_t *ids = NULL;
    size_t n = 0;
    const weft_status status = weft_tokenizer_encode(s->tokenizer, text, length, 0, &ids, &n);
    weft_free(ids);
    *tokens = (int64_t)n;
    return status;
}

weft_status weft__session_render(const session_run *run, char **text, size_t *length)
{
    weft_session *s = run->session;
    int64_t tokens = 0, most = s->max_prompt;
    weft_status status = render_whole(run, text, length);
    if (status || most == 0 || !s->tokenizer)
        return status;
    status = count_tokens(s, *text, *length, &tokens);
    if (tokens > most) /* leaves room, so that the next turns need not leave out more */
        most -= most / 4;
    while (!status && tokens > most && leave_out_turn(s)) {
        weft_free(*text);
        *text = NULL;
        status = render_whole(run, text, length);
        if (!status)
            status = count_tokens(s, *text, *length, &tokens);
    }
    if (status) {
        weft_free(*text);
        *text = NULL;
    }
    return status;
}

weft_status weft_session_prompt(weft_session *session, const weft_session_turn *turn, char **text,
                                size_t *length, size_t *tokens)
{
    session_run run = {.session = session};
    size_t n = 0;
    int32_t *ids = NULL;
    if (turn)
        run.turn = *turn;
    weft_status status = weft__session_instruct(&run);
    if (!status)
        status = weft__session_render(&run, text, &n);
    if (!status && tokens && !session->tokenizer)
        status = weft_fail(WEFT_INVALID, "session: there is no tokenizer to count tokens with");
    if (!status && tokens)
        status = weft_tokenizer_encode(session->tokenizer, *text, n, 0, &ids, tokens);
    if (length)
        *length = n;
    weft_free(ids);
    weft_free(run.instruction);
    return status;
}
