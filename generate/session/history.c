/* generate/session/history.c -- the messages of a session: adding, removing, saving and loading. */
#include <string.h>

#include "core/io/fileio.h"
#include "core/io/json.h"
#include "generate/session/session.h"
#include "weft/io.h"
#include "weft/memory.h"

weft_status weft__session_append(json_object *messages, json_object *message)
{
    if (message && json_object_array_add(messages, message) == 0)
        return WEFT_OK;
    json_object_put(message);
    return weft__session_no_memory();
}

json_object *weft__session_message(const char *role, const char *content)
{
    json_object *message = json_object_new_object();
    json_object *who = json_object_new_string(role), *what = json_object_new_string(content);
    bool fine = message && who && what;
    if (fine && json_object_object_add(message, "role", who) == 0)
        who = NULL;
    if (fine && json_object_object_add(message, "content", what) == 0)
        what = NULL;
    if (fine && !who && !what)
        return message;
    json_object_put(who);
    json_object_put(what);
    json_object_put(message);
    return NULL;
}

weft_status weft_session_add(weft_session *session, const weft_chat_message *message)
{
    char *json = NULL;
    weft__json_doc doc = {0};
    weft_status status = weft_chat_messages(message, 1, &json);
    if (!status)
        status = weft__json_parse(json, strlen(json), "message", &doc);
    if (!status)
        status = weft__session_append(session->messages,
                                      json_object_get(json_object_array_get_idx(doc.root, 0)));
    weft__json_free(&doc);
    weft_free(json);
    return status;
}

/* The index of the last user message; -1: none. */
static int64_t last_user(const weft_session *session)
{
    for (size_t i = json_object_array_length(session->messages); i > 0; i--) {
        json_object *message = json_object_array_get_idx(session->messages, i - 1);
        const char *role = weft__json_plain(json_object_object_get(message, "role"));
        if (role && strcmp(role, "user") == 0)
            return (int64_t)i - 1;
    }
    return -1;
}

static void cut(weft_session *session, int64_t from)
{
    const size_t n = json_object_array_length(session->messages), at = (size_t)from;
    if (session->left_out >= at) /* the remaining messages may fit */
        session->left_out = 0;
    if (at < n)
        json_object_array_del_idx(session->messages, at, n - at);
}

bool weft_session_undo(weft_session *session)
{
    const int64_t at = last_user(session);
    if (at >= 0)
        cut(session, at);
    return at >= 0;
}

bool weft_session_rewind(weft_session *session)
{
    const int64_t at = last_user(session);
    if (at >= 0)
        cut(session, at + 1);
    return at >= 0;
}

void weft_session_clear(weft_session *session)
{
    cut(session, 0);
}

const char *weft_session_messages(weft_session *session)
{
    const int style =
        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
    weft__text out = {0};
    const size_t n = json_object_array_length(session->messages);
    weft__text_append(&out, "[", 1);
    if (session->system) {
        weft__text_format(&out, "{\"role\": \"system\", \"content\": ");
        weft__text_quote(&out, session->system);
        weft__text_append(&out, "}", 1);
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = json_object_to_json_string_ext(
            json_object_array_get_idx(session->messages, i), style & ~JSON_C_TO_STRING_PRETTY);
        if (i > 0 || session->system)
            weft__text_append(&out, ",\n ", 3);
        weft__text_append(&out, text ? text : "", text ? strlen(text) : 0);
        out.failed = out.failed || !text;
    }
    weft__text_append(&out, "]\n", 2);
    weft_free(session->written);
    session->written = out.failed ? NULL : out.at;
    if (!session->written) {
        weft_free(out.at);
        (void)weft__session_no_memory();
    }
    return session->written;
}

/* ---- replacing messages ---------------------------------------------------------------------- */

static weft_status check_message(const weft__json *message, bool *is_system)
{
    const char *role = NULL;
    weft_status status = weft__json_get_string(message, "role", &role);
    *is_system =
        !status && strcmp(role, "system") == 0 &&
        json_object_is_type(json_object_object_get(message->value, "content"), json_type_string);
    return status;
}

static weft_status replace(weft_session *session, const weft__json_doc *doc)
{
    weft__json list = weft__json_root(doc), message;
    size_t n = 0;
    const char *system = NULL;
    weft_status status = WEFT_OK;
    if (json_object_is_type(list.value, json_type_object)) {
        const weft__json root = list;
        status = weft__json_get(&root, "messages", &list);
    }
    if (!status)
        status = weft__json_length(&list, &n);
    json_object *messages = status ? NULL : json_object_new_array();
    if (!status && !messages)
        status = weft__session_no_memory();
    for (size_t i = 0; i < n && !status; i++) {
        bool is_system = false;
        status = weft__json_at(&list, i, &message);
        if (!status)
            status = check_message(&message, &is_system);
        if (!status && i == 0 && is_system)
            status = weft__json_get_string(&message, "content", &system);
        else if (!status)
            status = weft__session_append(messages, json_object_get(message.value));
    }
    if (!status)
        status = weft_session_set_system(session, system);
    if (status) {
        json_object_put(messages);
        return status;
    }
    json_object_put(session->messages);
    session->messages = messages;
    session->left_out = 0;
    return WEFT_OK;
}

weft_status weft_session_set_messages(weft_session *session, const char *json)
{
    weft__json_doc doc = {0};
    weft_status status = weft__json_parse(json, strlen(json), "messages", &doc);
    if (!status)
        status = replace(session, &doc);
    weft__json_free(&doc);
    return status;
}

weft_status weft_session_load(weft_session *session, const char *path)
{
    weft__json_doc doc = {0};
    weft_status status = weft__json_read(path, &doc);
    if (!status)
        status = replace(session, &doc);
    weft__json_free(&doc);
    return status;
}

weft_status weft_session_save(weft_session *session, const char *path)
{
    const char *text = weft_session_messages(session);
    if (text == NULL)
        return weft__session_no_memory();
    const weft_status status = weft__file_check_kind(path, "[{\"role\":", "a saved chat");
    return status == WEFT_OK ? weft_file_write(path, text, strlen(text)) : status;
}

const char *weft_session_reply(const weft_session *session)
{
    const size_t n = json_object_array_length(session->messages);
    json_object *last = n > 0 ? json_object_array_get_idx(session->messages, n - 1) : NULL;
    const char *role = last ? weft__json_plain(json_object_object_get(last, "role")) : NULL;
    json_object *content = last ? json_object_object_get(last, "content") : NULL;
    return role && strcmp(role, "assistant") == 0 && json_object_is_type(content, json_type_string)
               ? json_object_get_string(content)
               : NULL;
}
