/* train/data/prompt.c -- the prompt of a row: a text, or the messages before its completion. */
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* ---- messages ------------------------------------------------------------------------------- */

json_object *weft__message_new(const char *role, const char *content, size_t n)
{
    json_object *message = json_object_new_object();
    if (message && json_object_object_add(message, "role", json_object_new_string(role)) == 0 &&
        json_object_object_add(message, "content", json_object_new_string_len(content, (int)n)) ==
            0)
        return message;
    json_object_put(message);
    return NULL;
}

bool weft__messages_append(json_object *list, json_object *message)
{
    if (list && message && json_object_array_add(list, message) == 0)
        return true;
    json_object_put(message);
    return false;
}

const char *weft__message_role(json_object *message)
{
    const char *role = weft__json_plain(json_object_object_get(message, "role"));
    return role ? role : weft__json_plain(json_object_object_get(message, "from"));
}

/* Puts a message, of which it takes ownership, before the others. False: out of memory. */
static bool insert_first(json_object *list, json_object *message)
{
    bool made = message != NULL;
    for (size_t i = json_object_array_length(list); made && i > 0; i--) {
        json_object *moved = json_object_get(json_object_array_get_idx(list, i - 1));
        made = json_object_array_put_idx(list, i, moved) == 0;
        if (!made)
            json_object_put(moved);
    }
    if (made && json_object_array_put_idx(list, 0, message) == 0)
        return true;
    json_object_put(message);
    return false;
}

static bool has_system(json_object *list)
{
    for (size_t i = 0; i < json_object_array_length(list); i++) {
        json_object *message = json_object_array_get_idx(list, i);
        const char *role =
            json_object_is_type(message, json_type_object) ? weft__message_role(message) : NULL;
        if (role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0))
            return true;
    }
    return false;
}

weft_status weft__data_row_add_system(weft__data_row *row, json_object *list)
{
    const char *text;
    size_t n;
    weft__json system;
    if (has_system(list) || weft__data_row_take(row, WEFT__MEMBER_SYSTEM, &system) == NULL)
        return WEFT_OK;
    const weft_status status = weft__json_as_string(&system, &text, &n);
    if (status != WEFT_OK || n == 0)
        return status;
    return insert_first(list, weft__message_new("system", text, n))
               ? WEFT_OK
               : weft__out_of_memory(row->json->name, NULL);
}

json_object *weft__messages_copy(json_object *list, size_t begin, size_t end, bool trained)
{
    json_object *out = json_object_new_array();
    for (size_t i = begin; out && i < end; i++) {
        json_object *copy = NULL, *from = json_object_array_get_idx(list, i);
        bool made = json_object_deep_copy(from, &copy, NULL) == 0;
        if (made && !trained && json_object_is_type(copy, json_type_object)) {
            json_object_object_del(copy, "train");
            made = json_object_object_add(copy, "weight", json_object_new_int(0)) == 0;
        }
        if (!made || json_object_array_add(out, copy) != 0) {
            json_object_put(copy);
            json_object_put(out);
            return NULL;
        }
    }
    return out;
}

/* ---- history -------------------------------------------------------------------------------- */

/* Appends an earlier turn, [prompt, answer]. */
static weft_status add_earlier(const weft__json *pair, json_object *list)
{
    static const char *const roles[] = {"user", "assistant"};
    size_t n = 0;
    if (json_object_is_type(pair->value, json_type_array))
        n = json_object_array_length(pair->value);
    if (n != 2)
        return weft__json_fail(pair, WEFT_INVALID, "expected an array of a prompt and its answer");
    for (size_t i = 0; i < 2; i++) {
        weft__json item;
        const char *text;
        weft_status status = weft__json_at(pair, i, &item);
        if (status == WEFT_OK)
            status = weft__json_as_string(&item, &text, &n);
        if (status != WEFT_OK)
            return status;
        if (!weft__messages_append(list, weft__message_new(roles[i], text, n)))
            return weft__out_of_memory(pair->name, NULL);
    }
    return WEFT_OK;
}

static weft_status add_pairs(const weft__json *history, json_object *list)
{
    size_t n;
    weft_status status = weft__json_length(history, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json pair;
        status = weft__json_at(history, i, &pair);
        if (status == WEFT_OK)
            status = add_earlier(&pair, list);
    }
    return status;
}

/* Appends the turns of "history". In tables it is a string. */
static weft_status add_history(weft__data_row *row, json_object *list)
{
    weft__json history;
    const char *text;
    size_t n;
    if (weft__data_row_take(row, WEFT__MEMBER_HISTORY, &history) == NULL ||
        weft__value_is_empty(history.value))
        return WEFT_OK;
    if (!json_object_is_type(history.value, json_type_string))
        return add_pairs(&history, list);
    weft__json_doc doc;
    weft_status status = weft__json_as_string(&history, &text, &n);
    if (status == WEFT_OK && weft__json_parse(text, n, "", &doc) != WEFT_OK)
        status =
            weft__json_fail(&history, WEFT_INVALID, "expected an array of prompts and answers%s",
                            weft_error_message());
    if (status != WEFT_OK)
        return status;
    history.value = doc.root;
    status = add_pairs(&history, list);
    weft__json_free(&doc);
    return status;
}

/* ---- prompts -------------------------------------------------------------------------------- */

/* Appends a text after a blank line, unless one of the two is empty. */
static weft_status append_part(weft__text *out, const weft__json *part)
{
    const char *text;
    size_t n;
    const weft_status status = weft__json_as_string(part, &text, &n);
    if (status != WEFT_OK || n == 0)
        return status;
    if (out->n > 0)
        weft__text_append(out, "\n\n", 2);
    weft__text_append(out, text, n);
    return WEFT_OK;
}

static weft_status append_member(weft__text *out, weft__data_row *row, weft__member purpose)
{
    weft__json at;
    return weft__data_row_take(row, purpose, &at) ? append_part(out, &at) : WEFT_OK;
}

/* The prompt as a text: the system prompt, and the question with its context. */
static weft_status as_text(weft__data_row *row, const weft__text *asked, bool continues,
                           json_object **out)
{
    weft__text all = {0};
    weft_status status = append_member(&all, row, WEFT__MEMBER_SYSTEM);
    if (all.n > 0)
        weft__text_append(&all, "\n\n", 2);
    weft__text_append(&all, asked->at, asked->n);
    if (!continues)
        weft__text_append(&all, "\n\n", 2);
    if (status == WEFT_OK && !all.failed)
        *out = json_object_new_string_len(all.n > 0 ? all.at : "", (int)all.n);
    weft_free(all.at);
    return status != WEFT_OK || *out ? status : weft__out_of_memory(row->json->name, NULL);
}

/* The prompt as messages: the system prompt, the history and the question with its context. */
static weft_status as_messages(const weft__reader *r, weft__data_row *row, const weft__text *asked,
                               json_object **out)
{
    const bool trained = r->o.examples == WEFT_EXAMPLES_SINGLE;
    json_object *list = json_object_new_array();
    weft_status status =
        list ? weft__data_row_add_system(row, list) : weft__out_of_memory(row->json->name, NULL);
    if (status == WEFT_OK)
        status = add_history(row, list);
    if (status == WEFT_OK) {
        const char *text = asked->n > 0 ? asked->at : "";
        if (weft__messages_append(list, weft__message_new("user", text, asked->n)))
            *out = weft__messages_copy(list, 0, json_object_array_length(list), trained);
        status = *out ? WEFT_OK : weft__out_of_memory(row->json->name, NULL);
    }
    json_object_put(list);
    return status;
}

/* Fails if the row has a history that a text cannot contain. */
static weft_status refuse_history(weft__data_row *row)
{
    weft__json history;
    if (weft__data_row_take(row, WEFT__MEMBER_HISTORY, &history) == NULL ||
        weft__value_is_empty(history.value))
        return WEFT_OK;
    return weft__json_fail(&history, WEFT_UNSUPPORTED,
                           "the row has earlier turns, but the model has no chat template");
}

weft_status weft__reader_prompt(weft__reader *r, weft__data_row *row, bool spoken,
                                json_object **out)
{
    weft__json prompt;
    weft__text asked = {0};
    const char *name = weft__data_row_take(row, WEFT__MEMBER_PROMPT, &prompt);
    weft_status status = WEFT_OK;
    *out = NULL;
    if (json_object_is_type(prompt.value, json_type_array)) {
        *out = weft__messages_copy(prompt.value, 0, json_object_array_length(prompt.value), false);
        return *out ? weft__data_row_add_system(row, *out) : weft__out_of_memory(r->where, NULL);
    }
    if (name)
        status = append_part(&asked, &prompt);
    if (status == WEFT_OK)
        status = append_member(&asked, row, WEFT__MEMBER_CONTEXT);
    const bool continues = name && strcmp(name, "prompt") == 0;
    const bool said = spoken || !continues || weft__data_row_has(row, WEFT__MEMBER_SYSTEM) ||
                      weft__data_row_has(row, WEFT__MEMBER_HISTORY);
    if (status == WEFT_OK && asked.failed)
        status = weft__out_of_memory(r->where, NULL);
    if (status == WEFT_OK && r->o.chat == NULL && !spoken)
        status = refuse_history(row);
    if (status == WEFT_OK && (spoken || (said && r->o.chat)))
        status = as_messages(r, row, &asked, out);
    else if (status == WEFT_OK)
        status = as_text(row, &asked, continues, out);
    weft_free(asked.at);
    return status;
}

weft_status weft__reader_answer(const weft__data_row *row, json_object *prompt,
                                const weft__json *answer, json_object **out)
{
    const char *text;
    size_t n;
    *out = NULL;
    if (!json_object_is_type(prompt, json_type_array) ||
        json_object_is_type(answer->value, json_type_array)) {
        *out = json_object_get(answer->value);
        return WEFT_OK;
    }
    const weft_status status = weft__json_as_string(answer, &text, &n);
    if (status != WEFT_OK)
        return status;
    *out = json_object_new_array();
    if (weft__messages_append(*out, weft__message_new("assistant", text, n)))
        return WEFT_OK;
    json_object_put(*out);
    *out = NULL;
    return weft__out_of_memory(row->json->name, NULL);
}
