/* train/dataset_chat.c -- conversations of JSON lines as samples, rendered by the chat template. */
#include "train/dataset_chat.h"

#include <string.h>

#include "core/failure.h"
#include "weft/memory.h"

/* One conversation. */
typedef struct conversation {
    const weft_dataset_options *o;
    const weft_tokenizer *tokenizer;
    const weft__json *list; /* for messages of errors */
    json_object *messages;  /* those before the current turn, then that turn too; owned */
    const char *tools;      /* JSON; NULL: none */
    weft_dataset *out;
} conversation;

/* ---- messages ------------------------------------------------------------------------------- */

/* ShareGPT's names of roles. */
static const char *role_of(const char *from)
{
    static const char *const names[][2] = {{"human", "user"},      {"user", "user"},
                                           {"gpt", "assistant"},   {"assistant", "assistant"},
                                           {"model", "assistant"}, {"system", "system"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(from, names[i][0]) == 0)
            return names[i][1];
    }
    return NULL;
}

/* A message in ShareGPT's form as one with role and content: *out is the caller's. */
static weft_status convert(const weft__json *message, json_object **out)
{
    const char *from, *value;
    weft_status status = weft__json_get_string(message, "from", &from);
    if (status == WEFT_OK)
        status = weft__json_get_string(message, "value", &value);
    if (status != WEFT_OK)
        return status;
    const char *role = role_of(from);
    if (role == NULL)
        return weft__json_fail(message, WEFT_INVALID,
                               "from: expected system, human or gpt, got \"%s\"", from);
    *out = json_object_new_object();
    if (*out == NULL)
        return weft__out_of_memory("dataset", NULL);
    json_object_object_add(*out, "role", json_object_new_string(role));
    json_object_object_add(*out, "content", json_object_new_string(value));
    return WEFT_OK;
}

/* Message i, in *out as the caller's, and whether it is the assistant's. */
static weft_status take_message(const conversation *c, size_t i, json_object **out, bool *assistant)
{
    weft__json message, role;
    const char *name;
    weft_status status = weft__json_at(c->list, i, &message);
    if (status == WEFT_OK)
        status = weft__json_find(&message, "role", &role);
    if (status != WEFT_OK)
        return status;
    if (role.value == NULL && json_object_object_get_ex(message.value, "from", NULL))
        status = convert(&message, out);
    else if ((status = weft__json_get_string(&message, "role", &name)) == WEFT_OK)
        *out = json_object_get(message.value);
    if (status == WEFT_OK)
        *assistant =
            strcmp(weft__json_plain(json_object_object_get(*out, "role")), "assistant") == 0;
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static weft_status render(const conversation *c, bool generation_prompt, char **text, size_t *n)
{
    const char *json = json_object_to_json_string_ext(
        c->messages, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (json == NULL)
        return weft__out_of_memory("dataset", NULL);
    const weft_chat_options options = {.generation_prompt = generation_prompt, .tools = c->tools};
    const weft_status status = weft_chat_render(c->o->chat, json, &options, text, n);
    return status == WEFT_OK ? status
                             : weft__json_fail(c->list, status, "%s", weft_error_message());
}

/* Ids up to the first EOS, which is the end of the turn; all where the template writes none. */
static size_t up_to_eos(const conversation *c, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == c->o->eos)
            return i + 1;
    }
    return n;
}

/* Adds `text`, of which the first n_prompt bytes are not trained. The two parts are tokenized
 * apart, as they are when generating. */
static weft_status add_sample(const conversation *c, const char *text, size_t n, size_t n_prompt)
{
    int32_t *prompt = NULL, *turn = NULL, *ids = NULL;
    size_t n_before = 0, n_turn = 0;
    weft_status status = WEFT_OK;
    if (n_prompt > 0)
        status = weft_tokenizer_encode(c->tokenizer, text, n_prompt, 0, &prompt, &n_before);
    if (status == WEFT_OK)
        status =
            weft_tokenizer_encode(c->tokenizer, text + n_prompt, n - n_prompt, 0, &turn, &n_turn);
    if (status == WEFT_OK) {
        n_turn = n_prompt > 0 ? up_to_eos(c, turn, n_turn) : n_turn;
        ids = weft_calloc(n_before + n_turn + 1, sizeof *ids);
        status = ids ? WEFT_OK : weft__out_of_memory("dataset", NULL);
    }
    if (status == WEFT_OK) {
        if (n_before > 0)
            memcpy(ids, prompt, n_before * sizeof *ids);
        if (n_turn > 0)
            memcpy(ids + n_before, turn, n_turn * sizeof *ids);
        status = weft_dataset_add(c->out, ids, (int64_t)(n_before + n_turn), (int64_t)n_before);
    } else {
        weft__json_fail(c->list, status, "%s", weft_error_message());
    }
    weft_free(prompt);
    weft_free(turn);
    weft_free(ids);
    return status;
}

/* The sample of assistant turn `turn` (consumed), after the messages before it. */
static weft_status add_turn(conversation *c, json_object *turn, size_t index)
{
    char *before = NULL, *whole = NULL;
    size_t n_before = 0, n_whole = 0;
    weft_status status = render(c, true, &before, &n_before);
    if (json_object_array_add(c->messages, turn) != 0) {
        json_object_put(turn);
        status = weft__out_of_memory("dataset", NULL);
    }
    if (status == WEFT_OK)
        status = render(c, false, &whole, &n_whole);
    if (status == WEFT_OK && (n_whole < n_before || memcmp(before, whole, n_before) != 0))
        status = weft__json_fail(c->list, WEFT_UNSUPPORTED,
                                 "message %zu: the chat template renders the turn differently from "
                                 "the generation prompt",
                                 index + 1);
    if (status == WEFT_OK)
        status = add_sample(c, whole, n_whole, n_before);
    weft_free(before);
    weft_free(whole);
    return status;
}

static weft_status add_whole(const conversation *c)
{
    char *text = NULL;
    size_t n = 0;
    weft_status status = render(c, false, &text, &n);
    if (status == WEFT_OK)
        status = add_sample(c, text, n, 0);
    weft_free(text);
    return status;
}

/* The last assistant turn, or n. */
static weft_status find_last(const conversation *c, size_t n, size_t *last)
{
    *last = n;
    for (size_t i = 0; i < n; i++) {
        json_object *message = NULL;
        bool assistant = false;
        const weft_status status = take_message(c, i, &message, &assistant);
        json_object_put(message);
        if (status != WEFT_OK)
            return status;
        *last = assistant ? i : *last;
    }
    return WEFT_OK;
}

static weft_status add_turns(conversation *c, size_t n)
{
    size_t last;
    weft_status status = find_last(c, n, &last);
    if (status == WEFT_OK && last == n)
        return weft__json_fail(c->list, WEFT_INVALID, "expected a message of the assistant");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        json_object *message = NULL;
        bool assistant = false;
        status = take_message(c, i, &message, &assistant);
        if (status != WEFT_OK)
            break;
        const bool trained = assistant && (!c->o->last_turn || i == last) && !c->o->learn_prompt;
        if (trained) {
            status = add_turn(c, message, i);
        } else if (json_object_array_add(c->messages, message) != 0) {
            json_object_put(message);
            status = weft__out_of_memory("dataset", NULL);
        }
    }
    return status == WEFT_OK && c->o->learn_prompt ? add_whole(c) : status;
}

weft_status weft__dataset_add_chat(const weft_dataset_options *options,
                                   const weft_tokenizer *tokenizer, const weft__json *line,
                                   const weft__json *list, weft_dataset *out)
{
    size_t n;
    weft__json tools;
    weft_status status = weft__json_length(list, &n);
    if (status == WEFT_OK)
        status = weft__json_find(line, "tools", &tools);
    if (status != WEFT_OK)
        return status;
    if (options->chat == NULL)
        return weft__json_fail(line, WEFT_UNSUPPORTED,
                               "the row is a conversation, but the model has no chat template");
    conversation c = {
        .o = options,
        .tokenizer = tokenizer,
        .list = list,
        .messages = json_object_new_array(),
        .tools = tools.value ? json_object_to_json_string(tools.value) : NULL,
        .out = out,
    };
    if (c.messages == NULL)
        return weft__out_of_memory("dataset", NULL);
    status = add_turns(&c, n);
    json_object_put(c.messages);
    return status;
}
