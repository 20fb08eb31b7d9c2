/* train/data/task.c -- rows with which models are measured: prompts with answers, and texts. */
#include "weft/task.h"

#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/chat.h"
#include "train/data/reader.h"
#include "weft/memory.h"
#include "weft/tool/data.h"
#include "weft/tool/options.h"

/* What rows are added to. */
typedef struct target {
    weft_task_options o;
    weft_task_rows *rows; /* of weft_task_rows_load */
    weft__text text;      /* of weft_data_text */
} target;

static weft_status no_memory(const weft__json *json)
{
    return weft__out_of_memory(json->name, "a row");
}

/* ---- answers and choices -------------------------------------------------------------------- */

/* Appends a text to the row, which has room for it. */
static weft_status add_text(const weft__json *at, json_object *value, bool numbers,
                            weft_task_row *row)
{
    const bool number =
        json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
    const char *text =
        numbers && number ? json_object_to_json_string(value) : weft__json_plain(value);
    if (text == NULL)
        return weft__json_fail(at, WEFT_INVALID, "expected a text, got %s",
                               weft__json_type_name(value));
    if (*text == '\0')
        return weft__json_fail(at, WEFT_INVALID, "expected text, got an empty string");
    row->texts[row->n_texts] = weft_strdup(text);
    return row->texts[row->n_texts++] ? WEFT_OK : no_memory(at);
}

/* The text of an item: of a message of the assistant its content. */
static weft_status add_item(const weft__json *at, bool numbers, weft_task_row *row)
{
    const char *role = NULL;
    if (!json_object_is_type(at->value, json_type_object))
        return add_text(at, at->value, numbers, row);
    const weft_status status = weft__json_get_string(at, "role", &role);
    if (status == WEFT_OK && strcmp(role, "assistant") != 0)
        return weft__json_fail(at, WEFT_INVALID, "expected a message of the assistant, got %s",
                               weft_printable(role));
    return status == WEFT_OK
               ? add_text(at, json_object_object_get(at->value, "content"), false, row)
               : status;
}

/* Reads a text, or an array of at least `least` texts. With `numbers` these may be numbers. */
static weft_status add_texts(const weft__json *at, size_t least, bool numbers, weft_task_row *row)
{
    const bool list = json_object_is_type(at->value, json_type_array);
    const size_t n = list ? json_object_array_length(at->value) : 1;
    if (n < least)
        return weft__json_fail(at, WEFT_INVALID, "expected an array of %zu or more texts, got %s",
                               least, list ? "fewer" : weft__json_type_name(at->value));
    row->texts = weft_calloc(n + 1, sizeof *row->texts);
    weft_status status = row->texts ? WEFT_OK : no_memory(at);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json item = *at;
        if (list)
            status = weft__json_at(at, i, &item);
        if (status == WEFT_OK)
            status = add_item(&item, numbers, row);
    }
    return status;
}

/* Reads "choices": an array or, in a table, a cell with one. */
static weft_status add_choices(const weft__json *json, weft_task_row *row)
{
    weft__json at;
    weft__json_doc doc = {0};
    weft_status status = weft__json_find(json, "choices", &at);
    if (status == WEFT_OK && at.value == NULL)
        return weft__json_fail(json, WEFT_INVALID,
                               "choices is missing: expected an array of 2 or more texts");
    const char *cell = weft__json_plain(at.value);
    if (status == WEFT_OK && cell && weft__json_parse(cell, strlen(cell), "", &doc) == WEFT_OK)
        at.value = doc.root;
    if (status == WEFT_OK)
        status = add_texts(&at, 2, false, row);
    weft__json_free(&doc);
    return status;
}

/* Finds the right choice: by its text, or by its index from 0, which tables have as a text. */
static weft_status find_choice(const weft__json *at, weft_task_row *row)
{
    const char *text = weft__json_plain(at->value);
    const bool index = json_object_is_type(at->value, json_type_int);
    if (text == NULL && !index)
        return weft__json_fail(at, WEFT_INVALID,
                               "expected the index or the text of a choice, got %s",
                               weft__json_type_name(at->value));
    for (int i = 0; text && i < row->n_texts; i++) {
        if (strcmp(text, row->texts[i]) == 0) {
            row->answer = i;
            return WEFT_OK;
        }
    }
    char *end = NULL;
    const long long number = text ? strtoll(text, &end, 10) : json_object_get_int64(at->value);
    if (text && (*text == '\0' || *end != '\0'))
        return weft__json_fail(at, WEFT_INVALID, "expected one of the choices, got '%s'",
                               weft_printable(text));
    if (number < 0 || number >= row->n_texts)
        return weft__json_fail(at, WEFT_INVALID, "expected an index from 0 to %d, got %lld",
                               row->n_texts - 1, number);
    row->answer = (int)number;
    return WEFT_OK;
}

/* ---- the prompt ----------------------------------------------------------------------------- */

static bool is_conversation(weft_row_kind kind)
{
    return kind == WEFT_ROW_MESSAGES || kind == WEFT_ROW_SHAREGPT;
}

/* Finds the member with the row's prompt, and with it the row's kind. */
static weft_status open_row(const weft__json *json, weft__data_row *row)
{
    static const weft_row_kind kinds[] = {WEFT_ROW_MESSAGES, WEFT_ROW_SHAREGPT, WEFT_ROW_COMPLETION,
                                          WEFT_ROW_ALPACA, WEFT_ROW_QUESTION};
    int lists = 0, prompts = 0;
    const weft_status status = weft__json_as_object(json);
    for (size_t i = 0; status == WEFT_OK && i < sizeof kinds / sizeof *kinds; i++) {
        weft__json at;
        const bool list = is_conversation(kinds[i]);
        weft__data_row found = {.json = json, .kind = kinds[i]};
        if (!weft__data_row_take(&found, list ? WEFT__MEMBER_LIST : WEFT__MEMBER_PROMPT, &at))
            continue;
        if (lists + prompts == 0)
            *row = found;
        lists += list;
        prompts += !list;
    }
    if (status == WEFT_OK && (lists > 0) == (prompts > 0))
        return weft__json_fail(json, WEFT_INVALID, "expected one of prompt and messages, got %s",
                               lists > 0 ? "both" : "neither");
    return status;
}

/* Converts a value to JSON text, which the caller frees. */
static weft_status to_text(const weft__json *at, json_object *value, char **out)
{
    const char *text = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN |
                                                                 JSON_C_TO_STRING_NOSLASHESCAPE);
    *out = text ? weft_strdup(text) : NULL;
    return *out ? WEFT_OK : no_memory(at);
}

/* Copies the first n messages of a list, with "role" and "content" and without members that say how
 * they are trained. The caller frees *out. */
static weft_status copy_messages(const weft__json *list, size_t n, json_object **out)
{
    weft_status status = WEFT_OK;
    *out = json_object_new_array();
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json at;
        json_object *copy = NULL;
        status = weft__json_at(list, i, &at);
        if (status == WEFT_OK)
            status = weft__json_as_object(&at);
        if (status == WEFT_OK)
            status = weft__message_copy(&at, &copy);
        if (status != WEFT_OK) {
            json_object_put(copy);
            continue;
        }
        json_object_object_del(copy, "weight");
        json_object_object_del(copy, "train");
        if (!weft__messages_append(*out, copy))
            status = no_memory(list);
    }
    return status;
}

/* Whether the last of n messages is not the assistant's. */
static bool asks(json_object *messages, size_t n)
{
    const char *role = n > 0 ? weft__message_role(json_object_array_get_idx(messages, n - 1)) : "";
    return role == NULL || strcmp(role, "assistant") != 0;
}

/* The messages of a conversation. Without an "answer" the last one has it; with `prompts` only if
 * it is the assistant's. */
static weft_status add_conversation(weft__data_row *row, bool answered, bool prompts,
                                    weft_task_row *out)
{
    weft__json list, last;
    weft__json_doc doc = {0};
    size_t n = 0;
    json_object *messages = NULL;
    weft_status status = weft__data_row_take_list(row, &list, &doc);
    if (status == WEFT_OK)
        status = weft__json_length(&list, &n);
    if (status == WEFT_OK && !answered && n == 0)
        status = weft__json_fail(&list, WEFT_INVALID, "expected a message of the assistant");
    if (status == WEFT_OK)
        status = copy_messages(&list, n, &messages);
    if (status == WEFT_OK && !answered && !(prompts && asks(messages, n))) {
        last = (weft__json){.value = json_object_array_get_idx(messages, n - 1), .name = list.name};
        status = add_texts(&last, 1, false, out);
        json_object_array_del_idx(messages, n - 1, 1);
    }
    if (status == WEFT_OK)
        status = to_text(&list, messages, &out->messages);
    json_object_put(messages);
    weft__json_free(&doc);
    return status;
}

/* The prompt as messages and, if it can be one, as a text. */
static weft_status add_prompt(weft__reader *r, weft__data_row *row, weft_task_row *out)
{
    weft__json list = {.name = row->json->name}, given;
    json_object *messages = NULL, *text = NULL;
    const bool earlier = weft__data_row_has(row, WEFT__MEMBER_HISTORY);
    weft_status status = weft__reader_unpack(row->json, "prompt");
    weft__data_row_take(row, WEFT__MEMBER_PROMPT, &given);
    const bool is_list = json_object_is_type(given.value, json_type_array);
    if (status == WEFT_OK)
        status = weft__reader_prompt(r, row, true, &list.value);
    if (status == WEFT_OK)
        status = copy_messages(&list, json_object_array_length(list.value), &messages);
    if (status == WEFT_OK)
        status = to_text(&list, messages, &out->messages);
    if (status == WEFT_OK && !earlier && !is_list)
        status = weft__reader_prompt(r, row, false, &text);
    if (text && weft__json_plain(text) == NULL)
        status = weft__json_fail(&given, WEFT_INVALID, "expected a text without NUL");
    else if (text && (out->prompt = weft_strdup(json_object_get_string(text))) == NULL)
        status = no_memory(row->json);
    out->spoken =
        row->kind != WEFT_ROW_COMPLETION || earlier || weft__data_row_has(row, WEFT__MEMBER_SYSTEM);
    json_object_put(list.value);
    json_object_put(messages);
    json_object_put(text);
    return status;
}

/* The answer of a training row, which has none under the name "answer". */
static weft_status add_completion(weft__data_row *row, bool optional, weft_task_row *out)
{
    weft__json at;
    const weft_status status = weft__reader_unpack(row->json, "completion");
    if (status != WEFT_OK)
        return status;
    if (weft__data_row_take(row, WEFT__MEMBER_ANSWER, &at) == NULL)
        return optional
                   ? WEFT_OK
                   : weft__json_fail(row->json, WEFT_INVALID,
                                     "answer is missing: expected a text or an array of texts");
    return add_texts(&at, 1, optional, out);
}

static weft_status add_member(weft__data_row *row, weft__member purpose, json_type type, char **out)
{
    const char *text;
    const weft_status status = weft__data_row_take_json(row, purpose, type, &text);
    if (status != WEFT_OK || text == NULL)
        return status;
    *out = weft_strdup(text);
    return *out ? WEFT_OK : no_memory(row->json);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The row's answer or choices, and its prompt. */
static weft_status add_parts(weft__reader *r, weft__data_row *row, const weft_task_options *o,
                             weft_task_row *out)
{
    weft__json answer;
    weft_status status = weft__json_find(row->json, "answer", &answer);
    if (status == WEFT_OK && o->choices)
        status = add_choices(row->json, out);
    if (status == WEFT_OK && o->choices && answer.value == NULL)
        status = weft__json_fail(row->json, WEFT_INVALID,
                                 "answer is missing: expected the index or the text of a choice");
    if (status != WEFT_OK)
        return status;
    const bool list = is_conversation(row->kind), given = answer.value != NULL;
    if (o->choices)
        status = find_choice(&answer, out);
    else if (given)
        status = add_texts(&answer, 1, o->prompts, out);
    else if (!list)
        status = add_completion(row, o->prompts, out);
    if (status == WEFT_OK)
        status = list ? add_conversation(row, given, o->prompts, out) : add_prompt(r, row, out);
    if (status == WEFT_OK)
        status = add_member(row, WEFT__MEMBER_TOOLS, json_type_array, &out->tools);
    return status == WEFT_OK
               ? add_member(row, WEFT__MEMBER_VARIABLES, json_type_object, &out->variables)
               : status;
}

static weft_status read_row(weft__reader *r, const weft__json *json, const weft_task_options *o,
                            weft_task_row *out)
{
    weft__data_row row;
    bool added;
    weft_status status = open_row(json, &row);
    if (status == WEFT_OK && o->prompts)
        status = to_text(json, json->value, &out->json);
    if (status == WEFT_OK)
        status = weft__reader_add_system(r, &row, &added);
    return status == WEFT_OK ? add_parts(r, &row, o, out) : status;
}

/* The texts of a row of another kind. */
static weft_status read_texts(weft__reader *r, const weft__json *json, weft_task_kind kind,
                              weft_task_row *out)
{
    weft__json texts[WEFT__MOST_TEXTS];
    int n = 1;
    weft_status status = kind == WEFT_TASK_COMPARED ? weft__compared_texts(r, json, texts, &n)
                                                    : weft__document_text(json, &texts[0]);
    out->texts = weft_calloc((size_t)n + 1, sizeof *out->texts);
    if (status == WEFT_OK && out->texts == NULL)
        status = no_memory(json);
    for (int i = 0; status == WEFT_OK && i < n; i++)
        status = add_text(&texts[i], texts[i].value, false, out);
    return status;
}

static void free_row(weft_task_row *row)
{
    for (int i = 0; i < row->n_texts; i++)
        weft_free(row->texts[i]);
    weft_free(row->texts);
    weft_free(row->where);
    weft_free(row->prompt);
    weft_free(row->messages);
    weft_free(row->tools);
    weft_free(row->variables);
    weft_free(row->json);
}

void weft_task_rows_free(weft_task_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        free_row(&rows->at[i]);
    weft_free(rows->at);
    *rows = (weft_task_rows){0};
}

/* Adds a row to the rows. WEFT_CANCELLED after the last one that is wanted. */
static weft_status add_row(weft__reader *r, const weft__json *json)
{
    target *t = r->context;
    weft_task_rows *rows = t->rows;
    if (rows->n == rows->capacity) {
        const size_t capacity = 2 * rows->capacity + 64;
        weft_task_row *moved = weft_realloc(rows->at, capacity * sizeof *moved);
        if (moved == NULL)
            return no_memory(json);
        rows->at = moved;
        rows->capacity = capacity;
    }
    weft_task_row *row = &rows->at[rows->n];
    *row = (weft_task_row){.where = weft_strdup(json->name), .number = r->number};
    const weft_status status = row->where == NULL ? no_memory(json)
                               : t->o.kind == WEFT_TASK_ANSWERS
                                   ? read_row(r, json, &t->o, row)
                                   : read_texts(r, json, t->o.kind, row);
    if (status != WEFT_OK) {
        free_row(row);
        return status;
    }
    rows->n++;
    return t->o.most_rows > 0 && (int64_t)rows->n == t->o.most_rows ? WEFT_CANCELLED : WEFT_OK;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static weft_status append_text(weft__reader *r, const char *text, size_t n)
{
    target *t = r->context;
    weft__text_append(&t->text, text, n);
    return t->text.failed ? weft__out_of_memory(r->where, "its text") : WEFT_OK;
}

static weft_status append_row(weft__reader *r, const weft__json *json)
{
    const char *text;
    size_t n;
    weft__json at;
    weft__data_row row;
    weft_status status = weft__data_row_open(json, WEFT_EXAMPLES_SINGLE, &row);
    if (status == WEFT_OK && row.kind != WEFT_ROW_TEXT)
        status = weft__json_fail(json, WEFT_INVALID, "expected a row with \"text\" alone, got %s",
                                 weft_row_kind_name(row.kind));
    if (status != WEFT_OK)
        return status;
    weft__data_row_take(&row, WEFT__MEMBER_TEXT, &at);
    status = weft__json_as_string(&at, &text, &n);
    if (status == WEFT_OK)
        status = append_text(r, text, n);
    return status == WEFT_OK && (n == 0 || text[n - 1] != '\n') ? append_text(r, "\n", 1) : status;
}

/* ---- sources -------------------------------------------------------------------------------- */

/* Reads the sources with a reader that has its functions. */
static weft_status read_sources(const weft_data_source *sources, int n, weft__reader *r,
                                const target *t)
{
    r->o.format = t->o.format;
    r->o.max_bad_rows = t->o.max_bad_rows;
    r->o.system = t->o.system;
    weft_status status =
        n > 0 ? weft_dataset_new(0, &r->rows) : weft_fail(WEFT_INVALID, "data: expected a source");
    for (int i = 0; status == WEFT_OK && i < n; i++) {
        r->source = r->path = r->where = sources[i].path;
        r->n_bad = 0;
        status = weft__reader_add_files(r, &sources[i]);
    }
    weft_dataset_free(r->rows);
    return status == WEFT_CANCELLED ? WEFT_OK : status;
}

weft_status weft_task_rows_load(const weft_data_source *sources, int n,
                                const weft_task_options *options, weft_task_rows *out)
{
    target t = {.rows = out};
    weft__reader r = {.add_row = add_row, .context = &t};
    *out = (weft_task_rows){0};
    if (options)
        t.o = *options;
    r.expected = t.o.kind == WEFT_TASK_ANSWERS ? "rows with a prompt" : "rows with texts";
    const weft_status status = read_sources(sources, n, &r, &t);
    return status == WEFT_OK && out->n == 0
               ? weft_fail(WEFT_INVALID, "%s: there are no rows", sources->path)
               : status;
}

weft_status weft_data_text(const weft_data_source *sources, int n, const weft_task_options *options,
                           char **text, size_t *length)
{
    target t = {0};
    weft__reader r = {.add_text = append_text, .add_row = append_row, .context = &t};
    if (options)
        t.o = *options;
    weft_status status = read_sources(sources, n, &r, &t);
    if (status == WEFT_OK && t.text.n == 0)
        status = weft_fail(WEFT_INVALID, "%s: there is no text", sources->path);
    *text = status == WEFT_OK ? t.text.at : NULL;
    *length = status == WEFT_OK ? t.text.n : 0;
    if (status != WEFT_OK)
        weft_free(t.text.at);
    return status;
}
