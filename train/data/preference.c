/* train/data/preference.c -- preference pairs: rows with a chosen and a rejected completion. */
#include <string.h>

#include "core/failure.h"
#include "core/io/text.h"
#include "train/data/reader.h"
#include "weft/memory.h"

/* The prompt of a row and its two completions, owned. */
typedef struct preference {
    json_object *prompt, *completions[2];
} preference;

static const char *const sides[] = {"chosen", "rejected"};

static void release(preference *p)
{
    json_object_put(p->prompt);
    json_object_put(p->completions[0]);
    json_object_put(p->completions[1]);
}

/* The length in bytes of the common prefix of two texts. It ends at the start of a UTF-8 character,
 * and a space before the first difference belongs to the completions. */
static size_t same_bytes(const char *a, size_t n, const char *b, size_t m)
{
    size_t k = 0;
    while (k < n && k < m && a[k] == b[k])
        k++;
    while (k > 0 && k < n && ((unsigned char)a[k] & 0xC0) == 0x80)
        k--;
    return k > 0 && a[k - 1] == ' ' ? k - 1 : k;
}

/* The number of equal messages that both lists begin with. */
static size_t same_messages(const weft__json both[2])
{
    size_t k = 0;
    while (k < json_object_array_length(both[0].value) &&
           k < json_object_array_length(both[1].value) &&
           json_object_equal(json_object_array_get_idx(both[0].value, k),
                             json_object_array_get_idx(both[1].value, k)))
        k++;
    return k;
}

/* Whether one of the messages [begin, end) is the user's. */
static bool asks(json_object *list, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        json_object *message = json_object_array_get_idx(list, i);
        const char *role =
            json_object_is_type(message, json_type_object) ? weft__message_role(message) : NULL;
        if (role && (strcmp(role, "user") == 0 || strcmp(role, "human") == 0))
            return true;
    }
    return false;
}

/* Takes the prompt if a message has it as its content. */
static void take_repeated(weft__data_row *row, json_object *list, size_t n)
{
    weft__data_row copy = *row;
    weft__json prompt;
    for (size_t i = 0; weft__data_row_take(&copy, WEFT__MEMBER_PROMPT, &prompt) && i < n; i++) {
        json_object *message = json_object_array_get_idx(list, i);
        if (json_object_is_type(message, json_type_object) &&
            json_object_equal(json_object_object_get(message, "content"), prompt.value))
            row->taken = copy.taken;
    }
}

/* Splits both lists: their common first messages are the prompt. */
static weft_status part_messages(weft__data_row *row, const weft__json both[2], preference *out)
{
    const size_t k = same_messages(both);
    take_repeated(row, both[0].value, k);
    out->prompt = weft__messages_copy(both[0].value, 0, k, false);
    for (int i = 0; i < 2; i++)
        out->completions[i] =
            weft__messages_copy(both[i].value, k, json_object_array_length(both[i].value), true);
    return out->prompt ? weft__data_row_add_system(row, out->prompt) : WEFT_OK;
}

/* Splits both texts: their common beginning is the prompt. */
static weft_status part_texts(weft__data_row *row, const weft__json both[2], preference *out)
{
    const char *a, *b, *system = "";
    size_t n, m, n_system = 0;
    weft__json at;
    weft_status status = weft__json_as_string(&both[0], &a, &n);
    if (status == WEFT_OK)
        status = weft__json_as_string(&both[1], &b, &m);
    if (status == WEFT_OK && weft__data_row_take(row, WEFT__MEMBER_SYSTEM, &at))
        status = weft__json_as_string(&at, &system, &n_system);
    if (status != WEFT_OK)
        return status;
    const size_t k = same_bytes(a, n, b, m);
    weft__text prompt = {0};
    weft__text_append(&prompt, system, n_system);
    weft__text_append(&prompt, "\n\n", n_system > 0 ? 2 : 0);
    weft__text_append(&prompt, a, k);
    if (!prompt.failed)
        out->prompt = json_object_new_string_len(prompt.n > 0 ? prompt.at : "", (int)prompt.n);
    out->completions[0] = json_object_new_string_len(a + k, (int)(n - k));
    out->completions[1] = json_object_new_string_len(b + k, (int)(m - k));
    weft_free(prompt.at);
    return WEFT_OK;
}

/* Takes "conversations" or "messages", if the user has the last message. */
static weft_status take_earlier(weft__data_row *row, json_object **out)
{
    weft__data_row copy = *row;
    weft__json list;
    const bool has = weft__data_row_take(&copy, WEFT__MEMBER_EARLIER, &list) &&
                     json_object_is_type(list.value, json_type_array);
    const size_t n = has ? json_object_array_length(list.value) : 0;
    if (n == 0 || !asks(list.value, n - 1, n))
        return WEFT_OK;
    *row = copy;
    *out = weft__messages_copy(list.value, 0, n, false);
    return *out ? weft__data_row_add_system(row, *out) : WEFT_OK;
}

/* Finds the prompt of completions that are lists. It is the row's, or the messages that both begin
 * with if these are a conversation and the prompt is no array. */
static weft_status read_lists(weft__reader *r, weft__data_row *row, const weft__json both[2],
                              preference *out)
{
    weft__data_row copy = *row;
    weft__json prompt;
    weft_status status = WEFT_OK;
    weft__data_row_take(&copy, WEFT__MEMBER_PROMPT, &prompt);
    const bool list = json_object_is_type(prompt.value, json_type_array);
    if (!list && asks(both[0].value, 0, same_messages(both)))
        return part_messages(row, both, out);
    if (weft__value_is_empty(prompt.value))
        status = take_earlier(row, &out->prompt);
    if (status == WEFT_OK && out->prompt == NULL &&
        (!weft__value_is_empty(prompt.value) || weft__data_row_has(row, WEFT__MEMBER_CONTEXT)))
        status = weft__reader_prompt(r, row, true, &out->prompt);
    if (status != WEFT_OK)
        return status;
    if (out->prompt == NULL)
        return part_messages(row, both, out);
    for (int i = 0; i < 2; i++)
        out->completions[i] =
            weft__messages_copy(both[i].value, 0, json_object_array_length(both[i].value), true);
    return WEFT_OK;
}

/* Finds the prompt of completions that are texts: the row's, or their common beginning. */
static weft_status read_texts(weft__reader *r, weft__data_row *row, const weft__json both[2],
                              preference *out)
{
    weft__data_row copy = *row;
    weft__json prompt;
    weft__data_row_take(&copy, WEFT__MEMBER_PROMPT, &prompt);
    if (json_object_is_type(prompt.value, json_type_array))
        return weft__json_fail(row->json, WEFT_INVALID,
                               "\"prompt\" is an array of messages: expected \"chosen\" and "
                               "\"rejected\" to be arrays of messages too");
    const bool asked = prompt.value || weft__data_row_has(row, WEFT__MEMBER_CONTEXT);
    weft_status status =
        asked ? weft__reader_prompt(r, row, false, &out->prompt) : take_earlier(row, &out->prompt);
    if (status == WEFT_OK && out->prompt == NULL)
        return part_texts(row, both, out);
    for (int i = 0; status == WEFT_OK && i < 2; i++)
        status = weft__reader_answer(row, out->prompt, &both[i], &out->completions[i]);
    return status;
}

/* Makes an array of a completion that is one message. */
static weft_status as_list(weft__data_row *row, const char *key, weft__json *completion)
{
    json_object *list = NULL;
    if (!json_object_is_type(completion->value, json_type_object))
        return WEFT_OK;
    list = json_object_new_array();
    if (weft__messages_append(list, json_object_get(completion->value)) &&
        json_object_object_add(row->json->value, key, list) == 0) {
        completion->value = list;
        return WEFT_OK;
    }
    json_object_put(list);
    return weft__out_of_memory(row->json->name, NULL);
}

static weft_status read_row(weft__reader *r, weft__data_row *row, preference *out)
{
    weft__json both[2];
    weft__data_row_take(row, WEFT__MEMBER_CHOSEN, &both[0]);
    weft__data_row_take(row, WEFT__MEMBER_REJECTED, &both[1]);
    weft_status status = as_list(row, sides[0], &both[0]);
    if (status == WEFT_OK)
        status = as_list(row, sides[1], &both[1]);
    if (status != WEFT_OK)
        return status;
    const bool lists = json_object_is_type(both[0].value, json_type_array);
    if (lists != json_object_is_type(both[1].value, json_type_array))
        return weft__json_fail(row->json, WEFT_INVALID,
                               "expected \"chosen\" and \"rejected\" to be both texts or both "
                               "arrays of messages");
    status = lists ? read_lists(r, row, both, out) : read_texts(r, row, both, out);
    if (status == WEFT_OK && (!out->prompt || !out->completions[0] || !out->completions[1]))
        status = weft__out_of_memory(row->json->name, NULL);
    return status;
}

/* Adds both samples to r->rows, whatever their length. */
static weft_status add_samples(weft__reader *r, weft__data_row *row, const preference *p)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < 2; i++) {
        const weft__json prompt = {.value = p->prompt, .name = row->json->name};
        const weft__json completion = {.value = p->completions[i], .name = row->json->name};
        const weft_dataset_info before = r->rows->info;
        status = weft__reader_add_completion(r, row, &prompt, &completion);
        const int64_t made = r->rows->info.samples - before.samples;
        if (status == WEFT_OK && made + r->rows->info.empty - before.empty != 1)
            status = weft__json_fail(row->json, WEFT_UNSUPPORTED,
                                     "%s: expected one turn of the assistant, or a chat template "
                                     "that renders all of them alike",
                                     sides[i]);
    }
    return status;
}

weft_status weft__reader_add_preference(weft__reader *r, weft__data_row *row)
{
    preference p = {0};
    weft_dataset *made = NULL, *rows = r->rows;
    weft_status status = weft_dataset_new(INT32_MAX, &made);
    if (status == WEFT_OK)
        status = read_row(r, row, &p);
    if (status == WEFT_OK) {
        r->rows = made;
        made->vocabulary = rows->vocabulary;
        status = add_samples(r, row, &p);
        r->rows = rows;
    }
    if (status == WEFT_OK && made->info.samples < 2) {
        rows->info.empty++;
    } else if (status == WEFT_OK) {
        weft_sample chosen = weft_dataset_at(made, 0), rejected = weft_dataset_at(made, 1);
        chosen.group = rejected.group = ++r->n_rows; /* a split keeps a group together */
        if (r->o.examples == WEFT_EXAMPLES_PAIRS) {
            status = weft_dataset_add_pair(rows, &chosen, &rejected);
        } else {
            status = weft_dataset_add_labeled(rows, &chosen, true);
            if (status == WEFT_OK)
                status = weft_dataset_add_labeled(rows, &rejected, false);
        }
        if (status == WEFT_INVALID)
            status = weft_fail(status, "%s: %s", r->where, weft_error_message());
    }
    weft__reader_add_counts(r, made, status == WEFT_OK);
    weft_dataset_free(made);
    release(&p);
    return status;
}
