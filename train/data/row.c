/* train/data/row.c -- converts rows of every kind to samples. */
#include <string.h>

#include "core/failure.h"
#include "train/data/chat.h"
#include "train/data/reader.h"
#include "weft/memory.h"

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
    const bool ended = r->eos < 0 || (s->n > 0 && s->ids[s->n - 1] == r->eos);
    weft_status status = ended ? WEFT_OK : weft__builder_add(&r->sample, &r->eos, 1, 1);
    if (status == WEFT_OK)
        status = weft__builder_finish(&r->sample, 0, r->rows);
    return status == WEFT_INVALID ? weft_fail(status, "%s: %s", r->where, weft_error_message())
                                  : status;
}

static weft_status add_text(weft__reader *r, weft__data_row *row)
{
    const char *text;
    size_t n;
    weft__json at;
    weft__data_row_take(row, WEFT__MEMBER_TEXT, &at);
    weft_status status = weft__json_as_string(&at, &text, &n);
    if (status == WEFT_OK)
        status = weft__reader_begin(r, text, n, true, 1);
    return status == WEFT_OK ? finish(r) : status;
}

static bool is_blank(const char *text, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", text[n - 1]) && text[n - 1] != '\0')
        n--;
    return n == 0;
}

/* Adds a sample from a prompt and its completion, both texts. */
static weft_status add_texts(weft__reader *r, const weft__json *prompt,
                             const weft__json *completion)
{
    const char *first, *second;
    size_t n_first, n_second;
    weft_status status = weft__json_as_string(prompt, &first, &n_first);
    if (status == WEFT_OK)
        status = weft__json_as_string(completion, &second, &n_second);
    if (status == WEFT_OK)
        status = weft__reader_begin(r, first, n_first, true, r->o.learn_prompt);
    if (status == WEFT_OK)
        status = weft__reader_begin(r, second, n_second, false, 1);
    if (status == WEFT_OK)
        r->rows->info.empty_answers += is_blank(second, n_second);
    return status == WEFT_OK ? finish(r) : status;
}

/* ---- conversations -------------------------------------------------------------------------- */

static weft_status add_list(weft__reader *r, weft__data_row *row, const weft__json *list)
{
    const weft_status status =
        weft__dataset_add_chat(&r->o, r->tokenizer, row, list, ++r->n_rows, r->rows);
    r->rows->info.rendered += status == WEFT_OK;
    return status;
}

weft_status weft__data_row_take_list(weft__data_row *row, weft__json *list, weft__json_doc *doc)
{
    const char *text;
    size_t n;
    *doc = (weft__json_doc){0};
    weft__data_row_take(row, WEFT__MEMBER_LIST, list);
    if (json_object_is_type(list->value, json_type_string)) {
        weft_status status = weft__json_as_string(list, &text, &n);
        if (status == WEFT_OK)
            status = weft__json_parse(text, n, row->json->name, doc);
        if (status != WEFT_OK)
            return status;
        *list = weft__json_root(doc);
    }
    return json_object_is_type(list->value, json_type_array)
               ? weft__data_row_add_system(row, list->value)
               : WEFT_OK;
}

static weft_status add_conversation(weft__reader *r, weft__data_row *row)
{
    weft__json list;
    weft__json_doc doc;
    weft_status status = weft__data_row_take_list(row, &list, &doc);
    if (status == WEFT_OK)
        status = add_list(r, row, &list);
    weft__json_free(&doc);
    return status;
}

/* ---- prompts and completions ---------------------------------------------------------------- */

/* Appends the messages of a list to an array. */
static weft_status append_messages(const weft__json *list, json_object *out)
{
    size_t n;
    weft_status status = weft__json_length(list, &n);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__json message;
        status = weft__json_at(list, i, &message);
        if (status == WEFT_OK)
            status = weft__json_as_object(&message);
        if (status == WEFT_OK && !weft__messages_append(out, json_object_get(message.value)))
            status = weft__out_of_memory(list->name, NULL);
    }
    return status;
}

weft_status weft__reader_add_completion(weft__reader *r, weft__data_row *row,
                                        const weft__json *prompt, const weft__json *completion)
{
    if (!json_object_is_type(prompt->value, json_type_array))
        return add_texts(r, prompt, completion);
    json_object *array = json_object_new_array();
    const weft__json list = {.value = array, .name = row->json->name};
    weft_status status =
        array ? append_messages(prompt, array) : weft__out_of_memory(r->where, NULL);
    if (status == WEFT_OK)
        status = append_messages(completion, array);
    if (status == WEFT_OK)
        status = add_list(r, row, &list);
    json_object_put(array);
    return status;
}

/* Adds a row with a prompt and an answer. */
static weft_status add_asked(weft__reader *r, weft__data_row *row)
{
    weft__json answer, given;
    json_object *prompt = NULL, *completion = NULL;
    weft__data_row_take(row, WEFT__MEMBER_ANSWER, &answer);
    weft__data_row_take(row, WEFT__MEMBER_PROMPT, &given);
    weft_status status = weft__reader_prompt(r, row, false, &prompt);
    if (status == WEFT_OK && json_object_is_type(given.value, json_type_array))
        completion = json_object_get(answer.value); /* an array, too */
    else if (status == WEFT_OK)
        status = weft__reader_answer(row, prompt, &answer, &completion);
    if (status == WEFT_OK) {
        given.value = prompt;
        answer.value = completion;
        status = weft__reader_add_completion(r, row, &given, &answer);
    }
    json_object_put(prompt);
    json_object_put(completion);
    return status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static weft_status add_kind(weft__reader *r, weft__data_row *row)
{
    switch (row->kind) {
    case WEFT_ROW_MESSAGES:
    case WEFT_ROW_SHAREGPT:
        return add_conversation(r, row);
    case WEFT_ROW_COMPLETION:
    case WEFT_ROW_ALPACA:
    case WEFT_ROW_QUESTION:
        return add_asked(r, row);
    case WEFT_ROW_TEXT:
        return add_text(r, row);
    default:
        return weft__json_fail(row->json, WEFT_UNSUPPORTED,
                               "the row is a preference pair (\"chosen\", \"rejected\"), which "
                               "supervised training does not use: expected one answer, as "
                               "\"messages\" or \"prompt\" and \"completion\" (weft train "
                               "--objective dpo uses pairs)");
    }
}

void weft__reader_add_counts(weft__reader *r, const weft_dataset *made, bool added)
{
    r->rows->info.empty_answers += added ? made->info.empty_answers : 0;
    r->rows->info.rendered += added && made->info.rendered > 0;
}

/* Adds a row with "prompt", "completion" and "label". */
static weft_status add_labeled(weft__reader *r, weft__data_row *row)
{
    bool label = false;
    weft__json at;
    if (row->kind != WEFT_ROW_COMPLETION || !weft__data_row_take(row, WEFT__MEMBER_LABEL, &at))
        return weft__json_fail(row->json, WEFT_INVALID,
                               "expected \"prompt\", \"completion\" and \"label\" (true or "
                               "false), or \"chosen\" and \"rejected\"");
    weft_dataset *made = NULL, *rows = r->rows;
    weft_status status = weft__reader_label(&at, &label);
    if (status == WEFT_OK)
        status = weft_dataset_new(INT32_MAX, &made);
    if (status != WEFT_OK)
        return status;
    made->vocabulary = rows->vocabulary;
    r->rows = made;
    status = add_asked(r, row);
    r->rows = rows;
    rows->info.empty += made->info.empty;
    weft__reader_add_counts(r, made, status == WEFT_OK);
    for (int64_t i = 0; status == WEFT_OK && i < made->info.samples; i++) {
        const weft_sample sample = weft_dataset_at(made, i);
        status = weft_dataset_add_labeled(rows, &sample, label);
        if (status == WEFT_INVALID)
            status = weft_fail(status, "%s: %s", r->where, weft_error_message());
    }
    weft_dataset_free(made);
    return status;
}

static weft_status add_example(weft__reader *r, weft__data_row *row)
{
    if (r->o.examples == WEFT_EXAMPLES_SINGLE)
        return add_kind(r, row);
    if (row->kind == WEFT_ROW_PREFERENCE)
        return weft__reader_add_preference(r, row);
    if (r->o.examples == WEFT_EXAMPLES_LABELED)
        return add_labeled(r, row);
    return weft__json_fail(row->json, WEFT_INVALID,
                           "expected a preference pair, \"chosen\" and \"rejected\"");
}

weft_status weft__reader_add_system(const weft__reader *r, const weft__data_row *row, bool *added)
{
    json_object *text = NULL;
    *added =
        r->o.system && row->kind != WEFT_ROW_TEXT && !weft__data_row_has(row, WEFT__MEMBER_SYSTEM);
    if (*added)
        text = json_object_new_string(r->o.system);
    if (*added && (text == NULL || json_object_object_add(row->json->value, "system", text) != 0)) {
        json_object_put(text);
        return weft__out_of_memory(r->where, NULL);
    }
    return WEFT_OK;
}

weft_status weft__reader_add_row(weft__reader *r, const weft__json *json)
{
    static const char *const texts[] = {"prompt", "completion", "chosen", "rejected"};
    weft__data_row row = {.json = json, .kind = WEFT_ROW_TEXT};
    weft_status status = WEFT_OK;
    if (r->o.examples == WEFT_EXAMPLES_TEXTS) {
        status = weft__reader_add_compared(r, json);
        r->rows->info.rows[row.kind] += status == WEFT_OK;
        return status;
    }
    if (r->o.labels) {
        status = weft__reader_add_classified(r, &row);
    } else {
        status = weft__data_row_open(json, r->o.examples, &row);
        for (size_t i = 0; status == WEFT_OK && i < sizeof texts / sizeof *texts; i++)
            status = weft__reader_unpack(json, texts[i]);
        bool added = false;
        if (status == WEFT_OK)
            status = weft__reader_add_system(r, &row, &added);
        if (status == WEFT_OK)
            status = add_example(r, &row);
        if (added)
            json_object_object_del(json->value, "system");
    }
    if (status == WEFT_OK) {
        r->rows->info.rows[row.kind]++;
        weft__data_row_count_unused(&row, &r->unused);
    }
    return status;
}
