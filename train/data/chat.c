/* train/data/chat.c -- converts conversations to samples with the chat template. */
#include "train/data/chat.h"

#include <float.h>
#include <string.h>

#include "core/failure.h"
#include "train/data/builder.h"
#include "weft/memory.h"

/* A trained assistant turn: text[begin, end) of the conversation up to that turn. */
typedef struct turn {
    size_t index; /* index of its message */
    double weight;
    char *text;
    size_t begin, end;
} turn;

/* One conversation. */
typedef struct conversation {
    const weft_dataset_options *o;
    const weft_tokenizer *tokenizer;
    const weft__json *list; /* for error messages */
    json_object *messages;  /* the messages before the current turn, then including it; owned */
    const char *tools;      /* JSON; NULL: none */
    const char *variables;  /* JSON: further template variables; NULL: none */
    const char *eos;        /* the end token as text; NULL: none */
    turn *turns;            /* the trained turns */
    size_t n_turns;
    weft__builder sample;
    int64_t group;
    weft_dataset *out;
} conversation;

/* ---- messages ------------------------------------------------------------------------------- */

/* Maps ShareGPT's role names. */
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

/* Converts a message with ShareGPT's "from" and "value" to one with "role" and "content". The
 * caller frees *out. */
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

/* The loss weight of an assistant message: its "weight", or 1. */
static weft_status weight_of(const weft__json *message, double *weight)
{
    *weight = 1;
    const weft_status status = weft__json_find_number(message, "weight", weight);
    if (status == WEFT_OK && !(*weight >= 0 && *weight <= FLT_MAX))
        return weft__json_fail(message, WEFT_INVALID,
                               "weight: expected a finite number of at least 0, got %g", *weight);
    return status;
}

/* Gets message i. The caller frees *out. *weight is negative for messages of other roles than
 * assistant. */
static weft_status take_message(const conversation *c, size_t i, json_object **out, double *weight)
{
    weft__json message, role;
    const char *name;
    weft_status status = weft__json_at(c->list, i, &message);
    if (status == WEFT_OK)
        status = weft__json_find(&message, "role", &role);
    if (status == WEFT_OK)
        status = weight_of(&message, weight);
    if (status != WEFT_OK)
        return status;
    if (role.value == NULL && json_object_object_get_ex(message.value, "from", NULL))
        status = convert(&message, out);
    else if ((status = weft__json_get_string(&message, "role", &name)) == WEFT_OK)
        *out = json_object_get(message.value);
    if (status == WEFT_OK &&
        strcmp(weft__json_plain(json_object_object_get(*out, "role")), "assistant") != 0)
        *weight = -1;
    return status;
}

/* ---- turns ---------------------------------------------------------------------------------- */

static weft_status render(const conversation *c, bool generation_prompt, char **text, size_t *n)
{
    const char *json = json_object_to_json_string_ext(
        c->messages, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
    if (json == NULL)
        return weft__out_of_memory("dataset", NULL);
    const weft_chat_options options = {
        .generation_prompt = generation_prompt, .tools = c->tools, .variables = c->variables};
    const weft_status status = weft_chat_render(c->o->chat, json, &options, text, n);
    return status == WEFT_OK ? status
                             : weft__json_fail(c->list, status, "%s", weft_error_message());
}

static weft_status append(const conversation *c, json_object *message)
{
    if (json_object_array_add(c->messages, message) == 0)
        return WEFT_OK;
    json_object_put(message);
    return weft__out_of_memory("dataset", NULL);
}

/* The end of the turn that begins at text + begin: after its first EOS, or the end of the text if
 * the template writes no EOS. */
static size_t end_of_turn(const conversation *c, const char *text, size_t begin, size_t n)
{
    const size_t length = c->eos ? strlen(c->eos) : 0;
    for (size_t i = begin; length > 0 && i + length <= n; i++) {
        if (memcmp(text + i, c->eos, length) == 0)
            return i + length;
    }
    return n;
}

/* Adds the trained turn `message`, of which it takes ownership, after the messages before it. */
static weft_status add_turn(conversation *c, json_object *message, size_t index, double weight)
{
    turn *t = &c->turns[c->n_turns++];
    *t = (turn){.index = index, .weight = weight};
    char *before = NULL;
    size_t n = 0;
    weft_status status = render(c, true, &before, &t->begin);
    const weft_status appended = append(c, message);
    if (status == WEFT_OK)
        status = appended;
    if (status == WEFT_OK)
        status = render(c, false, &t->text, &n);
    if (status == WEFT_OK && (n < t->begin || memcmp(before, t->text, t->begin) != 0))
        status = weft__json_fail(c->list, WEFT_UNSUPPORTED,
                                 "message %zu: the chat template renders the turn differently from "
                                 "the generation prompt",
                                 index + 1);
    if (status == WEFT_OK)
        t->end = end_of_turn(c, t->text, t->begin, n);
    weft_free(before);
    return status;
}

/* Finds the index of the last assistant turn; n if there is none. */
static weft_status find_last(const conversation *c, size_t n, size_t *last)
{
    *last = n;
    for (size_t i = 0; i < n; i++) {
        json_object *message = NULL;
        double weight = 0;
        const weft_status status = take_message(c, i, &message, &weight);
        json_object_put(message);
        if (status != WEFT_OK)
            return status;
        *last = weight >= 0 ? i : *last;
    }
    return WEFT_OK;
}

static weft_status add_messages(conversation *c, size_t n)
{
    size_t last;
    weft_status status = find_last(c, n, &last);
    if (status == WEFT_OK && last == n)
        return weft__json_fail(c->list, WEFT_INVALID, "expected a message of the assistant");
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        json_object *message = NULL;
        double weight = 0;
        status = take_message(c, i, &message, &weight);
        if (status != WEFT_OK)
            break;
        /* A first message has no prompt, so it is not trained. */
        const bool wanted = weight > 0 && i > 0 && (!c->o->last_turn || i == last);
        status =
            wanted && !c->o->learn_prompt ? add_turn(c, message, i, weight) : append(c, message);
    }
    return status;
}

/* ---- samples -------------------------------------------------------------------------------- */

static weft_status add_piece(conversation *c, const char *text, size_t begin, size_t end,
                             double weight)
{
    if (begin == end)
        return WEFT_OK;
    return weft__builder_add_text(&c->sample, c->tokenizer, text + begin, end - begin,
                                  (float)weight);
}

/* Adds a sample that ends with the last of these turns, all of which are trained. Each turn is
 * tokenized separately from the text before it, as in generation. */
static weft_status add_sample(conversation *c, const turn *turns, size_t n)
{
    const char *text = turns[n - 1].text;
    size_t at = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const turn *t = &turns[i];
        status = add_piece(c, text, at, t->begin, 0);
        if (status == WEFT_OK)
            status = add_piece(c, text, t->begin, t->end, t->weight);
        at = t->end;
    }
    return status == WEFT_OK ? weft__builder_finish(&c->sample, c->group, c->out) : status;
}

/* Whether the text up to the last turn starts with the text up to each earlier turn. */
static bool is_stable(const conversation *c)
{
    const turn *last = &c->turns[c->n_turns - 1];
    for (size_t i = 0; i + 1 < c->n_turns; i++) {
        const turn *t = &c->turns[i];
        if (t->end > c->turns[i + 1].begin || t->end > last->begin ||
            memcmp(t->text, last->text, t->end) != 0)
            return false;
    }
    return true;
}

static weft_status add_samples(conversation *c)
{
    if (c->n_turns == 0) /* all weights are 0: counted as a sample without targets */
        return weft__builder_finish(&c->sample, c->group, c->out);
    if (is_stable(c))
        return add_sample(c, c->turns, c->n_turns);
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < c->n_turns; i++)
        status = add_sample(c, &c->turns[i], 1);
    return status;
}

static weft_status add_whole(conversation *c)
{
    char *text = NULL;
    size_t n = 0;
    weft_status status = render(c, false, &text, &n);
    if (status == WEFT_OK)
        status = add_piece(c, text, 0, n, 1);
    if (status == WEFT_OK)
        status = weft__builder_finish(&c->sample, c->group, c->out);
    weft_free(text);
    return status;
}

static weft_status add_conversation(conversation *c, size_t n)
{
    weft_status status = add_messages(c, n);
    if (status != WEFT_OK)
        return status;
    status = c->o->learn_prompt ? add_whole(c) : add_samples(c);
    if (status != WEFT_OK && strstr(weft_error_message(), c->list->name) == NULL)
        return weft__json_fail(c->list, status, "%s", weft_error_message());
    return status;
}

/* Gets a member of the row as JSON text. In tables and many datasets it already is a string with
 * JSON. *out is NULL if the member is absent. */
static weft_status find_text(const weft__json *line, const char *key, json_type type,
                             const char **out)
{
    static const char *const words[] = {"a JSON object", "a JSON array"};
    const char *expected = words[type == json_type_array];
    weft__json at;
    weft__json_doc doc;
    size_t n;
    *out = NULL;
    weft_status status = weft__json_find(line, key, &at);
    if (status != WEFT_OK || at.value == NULL)
        return status;
    if (json_object_is_type(at.value, type)) {
        *out = json_object_to_json_string(at.value);
        return *out ? WEFT_OK : weft__out_of_memory("dataset", NULL);
    }
    if (!json_object_is_type(at.value, json_type_string))
        return weft__json_fail(&at, WEFT_INVALID, "expected %s, got %s", expected,
                               weft__json_type_name(at.value));
    status = weft__json_as_string(&at, out, &n);
    if (status != WEFT_OK || n == 0) {
        *out = NULL;
        return status;
    }
    if (weft__json_parse(*out, n, "", &doc) != WEFT_OK)
        return weft__json_fail(&at, WEFT_INVALID, "expected %s%s", expected, weft_error_message());
    const bool fits = json_object_is_type(doc.root, type);
    weft__json_free(&doc);
    return fits ? WEFT_OK
                : weft__json_fail(&at, WEFT_INVALID, "expected %s, got %s", expected,
                                  weft_printable(*out));
}

weft_status weft__dataset_add_chat(const weft_dataset_options *options,
                                   const weft_tokenizer *tokenizer, const weft__json *line,
                                   const weft__json *list, int64_t group, weft_dataset *out)
{
    size_t n;
    const char *tools, *variables;
    weft_status status = weft__json_length(list, &n);
    if (status == WEFT_OK)
        status = find_text(line, "tools", json_type_array, &tools);
    if (status == WEFT_OK)
        status = find_text(line, "chat_template_kwargs", json_type_object, &variables);
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
        .tools = tools,
        .variables = variables,
        .eos = options->eos >= 0 ? weft_tokenizer_id_to_token(tokenizer, options->eos) : NULL,
        .turns = weft_calloc(n + 1, sizeof *c.turns),
        .group = group,
        .out = out,
    };
    status = c.messages && c.turns ? add_conversation(&c, n) : weft__out_of_memory("dataset", NULL);
    for (size_t i = 0; c.turns && i < c.n_turns; i++)
        weft_free(c.turns[i].text);
    weft_free(c.turns);
    weft__builder_free(&c.sample);
    json_object_put(c.messages);
    return status;
}
