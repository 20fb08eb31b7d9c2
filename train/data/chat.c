/* train/data/chat.c -- converts conversations to samples with the chat template. */
#include "train/data/chat.h"

#include <float.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/turn.h"
#include "weft/memory.h"

/* ---- messages ------------------------------------------------------------------------------- */

/* Maps ShareGPT's role names. */
static const char *role_of(const char *from)
{
    static const char *const names[][2] = {{"human", "user"},      {"user", "user"},
                                           {"gpt", "assistant"},   {"assistant", "assistant"},
                                           {"model", "assistant"}, {"system", "system"},
                                           {"tool", "tool"},       {"observation", "tool"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(from, names[i][0]) == 0)
            return names[i][1];
    }
    return NULL;
}

/* Replaces "from" and "value", as in ShareGPT, by "role" and "content". */
static weft_status rename_members(const weft__json *message, json_object *copy)
{
    const char *from = NULL;
    json_object *value = json_object_object_get(copy, "value");
    const weft_status status = weft__json_get_string(message, "from", &from);
    if (status != WEFT_OK)
        return status;
    const char *role = role_of(from);
    if (role == NULL)
        return weft__json_fail(message, WEFT_INVALID,
                               "from: expected system, human or gpt, got \"%s\"",
                               weft_printable(from));
    if (json_object_object_add(copy, "role", json_object_new_string(role)) != 0 ||
        (value && json_object_object_add(copy, "content", json_object_get(value)) != 0))
        return weft__out_of_memory("dataset", NULL);
    json_object_object_del(copy, "from");
    json_object_object_del(copy, "value");
    return WEFT_OK;
}

weft_status weft__message_copy(const weft__json *message, json_object **out)
{
    const char *name;
    *out = NULL;
    if (json_object_deep_copy(message->value, out, NULL) != 0)
        return weft__out_of_memory("dataset", NULL);
    const bool renamed = json_object_object_get(*out, "role") == NULL &&
                         json_object_object_get_ex(*out, "from", NULL);
    const weft_status status =
        renamed ? rename_members(message, *out) : weft__json_get_string(message, "role", &name);
    return status;
}

/* Fails for a message with neither content (which may be null) nor tool calls. */
static weft_status check_content(const weft__json *message, json_object *copy)
{
    weft__json at;
    const bool named = json_object_object_get(message->value, "role") != NULL;
    return json_object_object_get_ex(copy, "content", NULL) ||
                   json_object_object_get(copy, "tool_calls")
               ? WEFT_OK
               : weft__json_get(message, named ? "content" : "value", &at);
}

static bool is_assistant(json_object *message)
{
    return strcmp(weft__json_plain(json_object_object_get(message, "role")), "assistant") == 0;
}

/* Reads "train": true, false or absent, which `given` says. A part of a message cannot be trained.
 */
static weft_status read_train(const weft__json *message, bool *train, bool *given)
{
    weft__json at;
    weft_status status = weft__json_find(message, "train_detail", &at);
    if (status == WEFT_OK && !weft__value_is_empty(at.value))
        return weft__json_fail(&at, WEFT_UNSUPPORTED,
                               "parts of a message with weights of their own are not supported");
    if (status == WEFT_OK)
        status = weft__json_find(message, "train", &at);
    *given = status == WEFT_OK && at.value != NULL;
    return *given ? weft__json_as_bool(&at, train) : status;
}

/* The loss weight of an assistant message: its "weight", or 1; 0 with "train": false. */
static weft_status weight_of(const weft__json *message, bool assistant, double *weight)
{
    bool train = true, given = false;
    *weight = -1;
    weft_status status = weft__json_find_number(message, "weight", weight);
    const bool weighted = status == WEFT_OK && json_object_object_get(message->value, "weight");
    if (weighted && !(*weight >= 0 && *weight <= FLT_MAX))
        return weft__json_fail(message, WEFT_INVALID,
                               "weight: expected a finite number of at least 0, got %g", *weight);
    if (status == WEFT_OK)
        status = read_train(message, &train, &given);
    if (status != WEFT_OK)
        return status;
    if (given && weighted && train != (*weight > 0))
        return weft__json_fail(message, WEFT_INVALID, "\"train\": %s contradicts \"weight\": %g",
                               train ? "true" : "false", *weight);
    if (given && train && !assistant)
        return weft__json_fail(message, WEFT_UNSUPPORTED,
                               "train: only messages of the assistant are trained");
    if (!weighted)
        *weight = train ? 1 : 0;
    return WEFT_OK;
}

/* Gets message i. The caller frees *out. *weight is negative for messages of other roles than
 * assistant. */
static weft_status take_message(const weft__conversation *c, size_t i, json_object **out,
                                double *weight)
{
    weft__json message;
    *out = NULL;
    weft_status status = weft__json_at(c->list, i, &message);
    if (status == WEFT_OK)
        status = weft__json_as_object(&message);
    if (status == WEFT_OK)
        status = weft__message_copy(&message, out);
    if (status != WEFT_OK)
        return status;
    const bool assistant = is_assistant(*out);
    status = weight_of(&message, assistant, weight);
    *weight = assistant ? *weight : -1;
    return status == WEFT_OK ? check_content(&message, *out) : status;
}

/* Whether a member of an answer is absent, empty or blank. */
static bool is_blank_member(json_object *value)
{
    weft__text text = {0};
    const bool is_text = weft__chat_content_text(value, &text);
    const char *at = text.n > 0 ? text.at : "";
    const bool blank = is_text ? at[strspn(at, " \t\r\n")] == '\0' : weft__value_is_empty(value);
    weft_free(text.at);
    return blank;
}

/* Whether an answer has neither text nor tool calls nor reasoning. */
static bool is_blank(json_object *message)
{
    static const char *const keys[] = {"content", "tool_calls", "reasoning_content", "reasoning",
                                       "thinking"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!is_blank_member(json_object_object_get(message, keys[i])))
            return false;
    return true;
}

/* Reads the messages into c->given, and the weight of each into c->weights: 0 for turns that are
 * not trained, and negative for messages of other roles than assistant. */
static weft_status read_messages(weft__conversation *c, size_t n)
{
    size_t last = n;
    for (size_t i = 0; i < n; i++) {
        json_object *message = NULL;
        weft_status status = take_message(c, i, &message, &c->weights[i]);
        if (status == WEFT_OK && json_object_array_add(c->given, message) != 0)
            status = weft__out_of_memory("dataset", NULL);
        if (status != WEFT_OK) {
            json_object_put(message);
            return status;
        }
        last = c->weights[i] >= 0 ? i : last;
    }
    if (last == n)
        return weft__json_fail(c->list, WEFT_INVALID, "expected a message of the assistant");
    for (size_t i = 0; i < n; i++) {
        if (c->weights[i] > 0 && c->o->last_turn && i != last)
            c->weights[i] = 0;
        c->out->info.empty_answers +=
            c->weights[i] > 0 && is_blank(json_object_array_get_idx(c->given, i));
    }
    return WEFT_OK;
}

/* ---- samples -------------------------------------------------------------------------------- */

static weft_status add_piece(weft__conversation *c, const char *text, size_t begin, size_t end,
                             double weight)
{
    if (begin == end)
        return WEFT_OK;
    return weft__builder_add_text(&c->sample, c->tokenizer, text + begin, end - begin,
                                  (float)weight);
}

/* Adds a sample that ends with the last of these turns, all of which are trained. Each turn is
 * tokenized separately from the text before it, as in generation. */
static weft_status add_sample(weft__conversation *c, const weft__turn *turns, size_t n)
{
    const char *text = turns[n - 1].text;
    size_t at = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        const weft__turn *t = &turns[i];
        status = add_piece(c, text, at, t->begin, 0);
        if (status == WEFT_OK)
            status = add_piece(c, text, t->begin, t->end, t->weight);
        at = t->end;
    }
    return status == WEFT_OK ? weft__builder_finish(&c->sample, c->group, c->out) : status;
}

/* Whether the text up to the last turn starts with the text up to each earlier turn. */
static bool is_stable(const weft__conversation *c)
{
    const weft__turn *last = &c->turns[c->n_turns - 1];
    for (size_t i = 0; i + 1 < c->n_turns; i++) {
        const weft__turn *t = &c->turns[i];
        if (t->end > c->turns[i + 1].begin || t->end > last->begin ||
            memcmp(t->text, last->text, t->end) != 0)
            return false;
    }
    return true;
}

static weft_status add_turns(weft__conversation *c)
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

/* Adds the samples of a template that does not mark what is generated. */
static weft_status add_unmarked(weft__conversation *c, size_t n)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        json_object *message = json_object_get(json_object_array_get_idx(c->given, i));
        status = c->weights[i] > 0 ? weft__conversation_add_turn(c, message, i, c->weights[i])
                                   : weft__conversation_append(c, message);
    }
    return status == WEFT_OK ? add_turns(c) : status;
}

/* Joins spans that touch. */
static void join_spans(jinja_spans *spans)
{
    size_t n = 0;
    for (size_t i = 0; i < spans->n; i++) {
        if (n > 0 && spans->at[n - 1].end == spans->at[i].begin)
            spans->at[n - 1].end = spans->at[i].end;
        else
            spans->at[n++] = spans->at[i];
    }
    spans->n = n;
}

/* Whether the spans can be assigned to the turns: there is one for each, or all turns have the
 * weight 1. */
static bool are_turns(const weft__conversation *c, const jinja_spans *spans, size_t n)
{
    size_t turns = 0;
    bool alike = true;
    for (size_t i = 0; i < n; i++) {
        turns += c->weights[i] >= 0;
        alike = alike && (c->weights[i] < 0 || c->weights[i] == 1);
    }
    return spans->n > 0 && (alike || spans->n == turns);
}

/* Adds the sample of a template that marks what is generated: all of it is trained. */
static weft_status add_marked(weft__conversation *c, const char *text, const jinja_spans *spans,
                              size_t n)
{
    size_t at = 0, i = 0;
    weft_status status = WEFT_OK;
    for (size_t k = 0; status == WEFT_OK && k < spans->n; k++) {
        while (i < n && c->weights[i] < 0)
            i++;
        const double weight = i < n ? c->weights[i++] : 1;
        const jinja_span *span = &spans->at[k];
        status = add_piece(c, text, at, span->begin, 0);
        if (status == WEFT_OK)
            status = add_piece(c, text, span->begin, span->end, weight);
        at = span->end;
    }
    return status == WEFT_OK ? weft__builder_finish(&c->sample, c->group, c->out) : status;
}

static weft_status add_whole(weft__conversation *c, const char *text, size_t length)
{
    const weft_status status = add_piece(c, text, 0, length, 1);
    return status == WEFT_OK ? weft__builder_finish(&c->sample, c->group, c->out) : status;
}

static weft_status add_samples(weft__conversation *c, size_t n)
{
    char *text = NULL;
    size_t length = 0;
    jinja_spans spans = {0};
    weft_status status = weft__conversation_render(c, c->given, false, &text, &length, &spans);
    join_spans(&spans);
    if (status == WEFT_OK && c->o->learn_prompt)
        status = add_whole(c, text, length);
    else if (status == WEFT_OK && are_turns(c, &spans, n))
        status = add_marked(c, text, &spans, n);
    else if (status == WEFT_OK)
        status = add_unmarked(c, n);
    weft_free(spans.at);
    weft_free(text);
    return status;
}

static weft_status add_conversation(weft__conversation *c, size_t n)
{
    weft_status status = read_messages(c, n);
    if (status == WEFT_OK)
        status = add_samples(c, n);
    if (status != WEFT_OK && strstr(weft_error_message(), c->list->name) == NULL)
        return weft__json_fail(c->list, status, "%s", weft_error_message());
    return status;
}

weft_status weft__data_row_take_json(weft__data_row *row, weft__member purpose, json_type type,
                                     const char **out)
{
    static const char *const words[] = {"a JSON object", "a JSON array"};
    const char *expected = words[type == json_type_array];
    weft__json at;
    weft__json_doc doc;
    size_t n;
    *out = NULL;
    if (weft__data_row_take(row, purpose, &at) == NULL)
        return WEFT_OK;
    if (json_object_is_type(at.value, type)) {
        *out = json_object_to_json_string(at.value);
        return *out ? WEFT_OK : weft__out_of_memory("dataset", NULL);
    }
    if (!json_object_is_type(at.value, json_type_string))
        return weft__json_fail(&at, WEFT_INVALID, "expected %s, got %s", expected,
                               weft__json_type_name(at.value));
    const weft_status status = weft__json_as_string(&at, out, &n);
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
                                   const weft_tokenizer *tokenizer, weft__data_row *row,
                                   const weft__json *list, int64_t group, weft_dataset *out)
{
    size_t n;
    const char *tools, *variables;
    weft_status status = weft__json_length(list, &n);
    if (status == WEFT_OK)
        status = weft__data_row_take_json(row, WEFT__MEMBER_TOOLS, json_type_array, &tools);
    if (status == WEFT_OK)
        status =
            weft__data_row_take_json(row, WEFT__MEMBER_VARIABLES, json_type_object, &variables);
    if (status != WEFT_OK)
        return status;
    if (options->chat == NULL)
        return weft__json_fail(row->json, WEFT_UNSUPPORTED,
                               "the row is a conversation, but the model has no chat template");
    weft__conversation c = {
        .o = options,
        .tokenizer = tokenizer,
        .list = list,
        .given = json_object_new_array(),
        .weights = weft_calloc(n + 1, sizeof *c.weights),
        .messages = json_object_new_array(),
        .tools = tools,
        .variables = variables,
        .eos = *options->eos >= 0 ? weft_tokenizer_id_to_token(tokenizer, *options->eos) : NULL,
        .turns = weft_calloc(n + 1, sizeof *c.turns),
        .group = group,
        .out = out,
    };
    const bool made = c.given && c.weights && c.messages && c.turns;
    status = made ? add_conversation(&c, n) : weft__out_of_memory("dataset", NULL);
    for (size_t i = 0; c.turns && i < c.n_turns; i++)
        weft_free(c.turns[i].text);
    weft_free(c.turns);
    weft_free(c.weights);
    weft__builder_free(&c.sample);
    json_object_put(c.given);
    json_object_put(c.messages);
    return status;
}
