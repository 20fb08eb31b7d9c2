/* train/data/row.c -- the kinds of rows, and their conversion to samples. */
#include <json-c/linkhash.h>
#include <stdio.h>
#include <string.h>

#include "core/failure.h"
#include "train/data/chat.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* ---- kinds ---------------------------------------------------------------------------------- */

/* The members of a row of each kind, in the order of weft_row_kind. */
static const char *const members[WEFT_ROW_KINDS][2] = {
    [WEFT_ROW_MESSAGES] = {"messages"},
    [WEFT_ROW_SHAREGPT] = {"conversations"},
    [WEFT_ROW_PREFERENCE] = {"chosen", "rejected"},
    [WEFT_ROW_COMPLETION] = {"prompt", "completion"},
    [WEFT_ROW_ALPACA] = {"instruction", "output"},
    [WEFT_ROW_QUESTION] = {"question", "answer"},
    [WEFT_ROW_TEXT] = {"text"},
};

static bool has(const weft__json *row, const char *key)
{
    json_object *value;
    return key == NULL || (json_object_object_get_ex(row->value, key, &value) && value != NULL);
}

/* Writes the names of the row's members, as many as fit. */
static void name_members(const weft__json *row, char *out, size_t size)
{
    size_t n = 0;
    snprintf(out, size, "no members");
    json_object_object_foreach(row->value, key, value)
    {
        const char *null = value ? "" : ": null";
        const size_t more = strlen(key) + strlen(", \"\": null, ...");
        if (n + more >= size) {
            snprintf(out + n, size - n, n > 0 ? ", ..." : "other members");
            return;
        }
        n += (size_t)snprintf(out + n, size - n, "%s\"%s\"%s", n > 0 ? ", " : "", key, null);
    }
}

static weft_status find_kind(const weft__json *row, weft_row_kind *out)
{
    const weft_status status = weft__json_as_object(row);
    if (status != WEFT_OK)
        return status;
    for (int kind = 0; kind < WEFT_ROW_KINDS; kind++) {
        if (has(row, members[kind][0]) && has(row, members[kind][1])) {
            *out = (weft_row_kind)kind;
            return WEFT_OK;
        }
    }
    char found[200];
    name_members(row, found, sizeof found);
    for (int kind = 0; kind < WEFT_ROW_KINDS; kind++) {
        const bool first = has(row, members[kind][0]);
        if (first || (members[kind][1] && has(row, members[kind][1])))
            return weft__json_fail(row, WEFT_INVALID, "expected \"%s\" beside \"%s\", got %s",
                                   members[kind][first], members[kind][!first], found);
    }
    return weft__json_fail(row, WEFT_INVALID,
                           "expected \"text\", \"prompt\" and \"completion\", \"messages\", "
                           "\"conversations\", \"instruction\" and \"output\", or \"question\" and "
                           "\"answer\", got %s",
                           found);
}

/* ---- texts ---------------------------------------------------------------------------------- */

weft_status weft__reader_begin(weft__reader *r, const char *text, size_t length, bool first,
                               float weight)
{
    int32_t *ids;
    size_t n;
    weft_status status = weft_tokenizer_encode(r->tokenizer, text, length, 0, &ids, &n);
    if (status != WEFT_OK)
        return weft_fail(status, "%s: %s", r->where, weft_error_message());
    const size_t bytes = r->n_prefix * sizeof *ids;
    const bool has_prefix = n >= r->n_prefix && memcmp(ids, r->prefix, bytes) == 0;
    if (first)
        r->sample.n = 0;
    if (first && !has_prefix)
        status = weft__builder_add(&r->sample, r->prefix, r->n_prefix, weight);
    if (status == WEFT_OK)
        status = weft__builder_add(&r->sample, ids, n, weight);
    weft_free(ids);
    return status;
}

/* Adds the EOS token to the sample, unless its text ends with it. */
static weft_status finish(weft__reader *r)
{
    const weft__builder *s = &r->sample;
    const bool ended = r->o.eos < 0 || (s->n > 0 && s->ids[s->n - 1] == r->o.eos);
    weft_status status = ended ? WEFT_OK : weft__builder_add(&r->sample, &r->o.eos, 1, 1);
    if (status == WEFT_OK)
        status = weft__builder_finish(&r->sample, 0, r->rows);
    return status == WEFT_INVALID ? weft_fail(status, "%s: %s", r->where, weft_error_message())
                                  : status;
}

static weft_status text_of(const weft__json *row, const char *key, const char **text,
                           size_t *length)
{
    weft__json at;
    const weft_status status = weft__json_get(row, key, &at);
    return status == WEFT_OK ? weft__json_as_string(&at, text, length) : status;
}

static weft_status add_text(weft__reader *r, const weft__json *row)
{
    const char *text;
    size_t n;
    weft_status status = text_of(row, "text", &text, &n);
    if (status == WEFT_OK)
        status = weft__reader_begin(r, text, n, true, 1);
    return status == WEFT_OK ? finish(r) : status;
}

static weft_status add_pair(weft__reader *r, const char *prompt, size_t n_prompt,
                            const char *completion, size_t n_completion)
{
    weft_status status = weft__reader_begin(r, prompt, n_prompt, true, r->o.learn_prompt);
    if (status == WEFT_OK)
        status = weft__reader_begin(r, completion, n_completion, false, 1);
    return status == WEFT_OK ? finish(r) : status;
}

/* ---- conversations -------------------------------------------------------------------------- */

static weft_status add_list(weft__reader *r, const weft__json *row, const weft__json *list)
{
    const weft_status status =
        weft__dataset_add_chat(&r->o, r->tokenizer, row, list, ++r->n_rows, r->rows);
    r->rows->info.rendered += status == WEFT_OK;
    return status;
}

/* Adds the conversation in member `key`. In tables the list is a string. */
static weft_status add_conversation(weft__reader *r, const weft__json *row, const char *key)
{
    weft__json list;
    const char *text;
    size_t n;
    weft_status status = weft__json_get(row, key, &list);
    if (status != WEFT_OK)
        return status;
    if (!json_object_is_type(list.value, json_type_string))
        return add_list(r, row, &list);
    weft__json_doc doc;
    status = weft__json_as_string(&list, &text, &n);
    if (status == WEFT_OK)
        status = weft__json_parse(text, n, row->name, &doc);
    if (status != WEFT_OK)
        return status;
    list = weft__json_root(&doc);
    status = add_list(r, row, &list);
    weft__json_free(&doc);
    return status;
}

/* Adds {"role": role, "content": content} to an array. */
static bool add_message(json_object *list, const char *role, const char *content, size_t n)
{
    json_object *message = json_object_new_object();
    return message != NULL &&
           json_object_object_add(message, "role", json_object_new_string(role)) == 0 &&
           json_object_object_add(message, "content",
                                  json_object_new_string_len(content, (int)n)) == 0 &&
           json_object_array_add(list, message) == 0;
}

/* Adds a question, an answer and, if given, a system prompt: with the chat template if the model
 * has one, else as plain text. */
static weft_status add_exchange(weft__reader *r, const weft__json *row, const char *question,
                                size_t n_question, const char *answer, size_t n_answer)
{
    const char *system = NULL;
    weft_status status = weft__json_find_string(row, "system", &system);
    if (status != WEFT_OK)
        return status;
    if (r->o.chat == NULL) {
        const bool told = system != NULL && *system != '\0';
        char *prompt = weft_format("%s%s%.*s\n\n", told ? system : "", told ? "\n\n" : "",
                                   (int)n_question, question);
        if (prompt == NULL)
            return weft__out_of_memory(r->where, NULL);
        status = add_pair(r, prompt, strlen(prompt), answer, n_answer);
        weft_free(prompt);
        return status;
    }
    json_object *array = json_object_new_array();
    const bool made = array != NULL &&
                      (system == NULL || *system == '\0' ||
                       add_message(array, "system", system, strlen(system))) &&
                      add_message(array, "user", question, n_question) &&
                      add_message(array, "assistant", answer, n_answer);
    const weft__json list = {.value = array, .name = row->name};
    status = made ? add_list(r, row, &list) : weft__out_of_memory(r->where, NULL);
    json_object_put(array);
    return status;
}

static weft_status add_alpaca(weft__reader *r, const weft__json *row)
{
    const char *instruction, *output, *input = NULL;
    size_t n_output;
    weft_status status = weft__json_get_string(row, "instruction", &instruction);
    if (status == WEFT_OK)
        status = weft__json_find_string(row, "input", &input);
    if (status == WEFT_OK)
        status = text_of(row, "output", &output, &n_output);
    if (status != WEFT_OK)
        return status;
    const bool more = input != NULL && *input != '\0';
    char *question = weft_format("%s%s%s", instruction, more ? "\n\n" : "", more ? input : "");
    if (question == NULL)
        return weft__out_of_memory(r->where, NULL);
    status = add_exchange(r, row, question, strlen(question), output, n_output);
    weft_free(question);
    return status;
}

static weft_status add_question(weft__reader *r, const weft__json *row)
{
    const char *question, *answer;
    size_t n_answer;
    weft_status status = weft__json_get_string(row, "question", &question);
    if (status == WEFT_OK)
        status = text_of(row, "answer", &answer, &n_answer);
    return status == WEFT_OK ? add_exchange(r, row, question, strlen(question), answer, n_answer)
                             : status;
}

/* Joins the messages of prompt and completion. Only the completion is trained. */
static weft_status join_messages(const weft__json *prompt, const weft__json *completion,
                                 json_object *out)
{
    const weft__json *lists[] = {prompt, completion};
    for (int k = 0; k < 2; k++) {
        size_t n;
        weft_status status = weft__json_length(lists[k], &n);
        for (size_t i = 0; status == WEFT_OK && i < n; i++) {
            weft__json message;
            status = weft__json_at(lists[k], i, &message);
            if (status == WEFT_OK)
                status = weft__json_as_object(&message);
            if (status != WEFT_OK)
                break;
            if (k == 0)
                json_object_object_add(message.value, "weight", json_object_new_int(0));
            if (json_object_array_add(out, json_object_get(message.value)) != 0)
                status = weft__out_of_memory(prompt->name, NULL);
        }
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

weft_status weft__reader_add_completion(weft__reader *r, const weft__json *row,
                                        const weft__json *prompt, const weft__json *completion)
{
    const char *first, *second;
    size_t n_first, n_second;
    if (json_object_is_type(prompt->value, json_type_array)) {
        json_object *array = json_object_new_array();
        const weft__json list = {.value = array, .name = row->name};
        weft_status status =
            array ? join_messages(prompt, completion, array) : weft__out_of_memory(r->where, NULL);
        if (status == WEFT_OK)
            status = add_list(r, row, &list);
        json_object_put(array);
        return status;
    }
    weft_status status = weft__json_as_string(prompt, &first, &n_first);
    if (status == WEFT_OK)
        status = weft__json_as_string(completion, &second, &n_second);
    return status == WEFT_OK ? add_pair(r, first, n_first, second, n_second) : status;
}

static weft_status add_completion(weft__reader *r, const weft__json *row)
{
    weft__json prompt, completion;
    weft_status status = weft__json_get(row, "prompt", &prompt);
    if (status == WEFT_OK)
        status = weft__json_get(row, "completion", &completion);
    return status == WEFT_OK ? weft__reader_add_completion(r, row, &prompt, &completion) : status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static weft_status add_kind(weft__reader *r, const weft__json *row, weft_row_kind kind)
{
    switch (kind) {
    case WEFT_ROW_MESSAGES:
    case WEFT_ROW_SHAREGPT:
        return add_conversation(r, row, members[kind][0]);
    case WEFT_ROW_COMPLETION:
        return add_completion(r, row);
    case WEFT_ROW_ALPACA:
        return add_alpaca(r, row);
    case WEFT_ROW_QUESTION:
        return add_question(r, row);
    case WEFT_ROW_TEXT:
        return add_text(r, row);
    default:
        return weft__json_fail(row, WEFT_UNSUPPORTED,
                               "the row is a preference pair (\"chosen\", \"rejected\"), which "
                               "supervised training does not use: expected one answer, as "
                               "\"messages\" or \"prompt\" and \"completion\" (weft train "
                               "--objective dpo uses pairs)");
    }
}

/* Adds a row with "prompt", "completion" and "label". */
static weft_status add_labelled(weft__reader *r, const weft__json *row, weft_row_kind kind)
{
    bool label = false;
    if (kind != WEFT_ROW_COMPLETION || !has(row, "label"))
        return weft__json_fail(row, WEFT_INVALID,
                               "expected \"prompt\", \"completion\" and \"label\" (true or "
                               "false), or \"chosen\" and \"rejected\"");
    weft_dataset *made = NULL, *rows = r->rows;
    weft_status status = weft__reader_label(row, &label);
    if (status == WEFT_OK)
        status = weft_dataset_new(INT32_MAX, &made);
    if (status != WEFT_OK)
        return status;
    r->rows = made;
    status = add_completion(r, row);
    r->rows = rows;
    rows->info.empty += made->info.empty;
    rows->info.rendered += status == WEFT_OK && made->info.rendered > 0;
    for (int64_t i = 0; status == WEFT_OK && i < made->info.samples; i++) {
        const weft_sample sample = weft_dataset_at(made, i);
        status = weft_dataset_add_labelled(rows, &sample, label);
        if (status == WEFT_INVALID)
            status = weft_fail(status, "%s: %s", r->where, weft_error_message());
    }
    weft_dataset_free(made);
    return status;
}

static weft_status add_example(weft__reader *r, const weft__json *row, weft_row_kind kind)
{
    if (r->o.examples == WEFT_EXAMPLES_SINGLE)
        return add_kind(r, row, kind);
    if (kind == WEFT_ROW_PREFERENCE)
        return weft__reader_add_preference(r, row);
    if (r->o.examples == WEFT_EXAMPLES_LABELLED)
        return add_labelled(r, row, kind);
    return weft__json_fail(row, WEFT_INVALID,
                           "expected a preference pair, \"chosen\" and \"rejected\"");
}

weft_status weft__reader_add_row(weft__reader *r, const weft__json *row)
{
    static const char *const texts[] = {"prompt", "completion", "chosen", "rejected"};
    weft_row_kind kind = WEFT_ROW_TEXT;
    weft_status status;
    if (r->o.labels) {
        status = weft__reader_add_classified(r, row);
        r->rows->info.rows[kind] += status == WEFT_OK;
        return status;
    }
    status = find_kind(row, &kind);
    for (size_t i = 0; status == WEFT_OK && i < sizeof texts / sizeof *texts; i++)
        status = weft__reader_unpack(row, texts[i]);
    /* Preference rows may also have "messages", which are for supervised training. */
    if (status == WEFT_OK && r->o.examples != WEFT_EXAMPLES_SINGLE) {
        if (has(row, "chosen") && has(row, "rejected"))
            kind = WEFT_ROW_PREFERENCE;
        else if (r->o.examples == WEFT_EXAMPLES_LABELLED && has(row, "prompt") &&
                 has(row, "completion") && has(row, "label"))
            kind = WEFT_ROW_COMPLETION;
    }
    if (status == WEFT_OK)
        status = add_example(r, row, kind);
    if (status == WEFT_OK)
        r->rows->info.rows[kind]++;
    return status;
}
